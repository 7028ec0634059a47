// Rates on the first OpenCL device; one `NAME VALUE` a line. Arguments: what to measure, or "all".
#include "opencl_first.h"
#include <string.h>
#include <time.h>

#define SIZE ((size_t)64 << 20)
#define EMPTY 100000
#define CHAIN 1000

static const char *SOURCE = "kernel void empty(global int *x) {}\n"
                            "kernel void next(global int *x) { x[0]++; }\n";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    int all = !strcmp(what, "all");
    cl_int e;
    begin(SOURCE);
    cl_kernel empty = kernel("empty");
    cl_kernel next = kernel("next");
    int zero = 0, value = -1;
    cl_mem x = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof zero, &zero, &e);
    check(e, "clCreateBuffer");
    check(clSetKernelArg(empty, 0, sizeof x, &x), "clSetKernelArg");
    check(clSetKernelArg(next, 0, sizeof x, &x), "clSetKernelArg");
    size_t one = 1;
    cl_kernel warm[] = {empty, next};
    for (int i = 0; i < 2; i++) {
        e = clEnqueueNDRangeKernel(queue, warm[i], 1, NULL, &one, &one, 0, NULL, NULL);
        check(e, "clEnqueueNDRangeKernel");
    }
    check(clFinish(queue), "clFinish");

    if (all || !strcmp(what, "empty")) {
        double start = now();
        for (int i = 0; i < EMPTY; i++) {
            e = clEnqueueNDRangeKernel(queue, empty, 1, NULL, &one, &one, 0, NULL, NULL);
            check(e, "clEnqueueNDRangeKernel");
        }
        double queued = now();
        check(clFinish(queue), "clFinish");
        printf("enqueue_per_s %.0f\n", EMPTY / (queued - start));
        printf("launch_per_s %.0f\n", EMPTY / (now() - start));
    }
    if (all || !strcmp(what, "chain")) {
        double best = 1e9;
        for (int r = 0; r < 5; r++) {
            double start = now();
            for (int i = 0; i < CHAIN; i++) {
                e = clEnqueueNDRangeKernel(queue, next, 1, NULL, &one, &one, 0, NULL, NULL);
                check(e, "clEnqueueNDRangeKernel");
            }
            e = clEnqueueReadBuffer(queue, x, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL);
            check(e, "clEnqueueReadBuffer");
            double took = now() - start;
            if (took < best) best = took;
            if (value != 1 + CHAIN * (r + 1)) {
                fprintf(stderr, "%d launches counted as %d\n", 1 + CHAIN * (r + 1), value);
                return 1;
            }
        }
        printf("chain_ms %.2f\n", best * 1e3);
    }
    if (all || !strcmp(what, "copy")) {
        char *host = malloc(SIZE), *back = malloc(SIZE);
        if (!host || !back) return 1;
        cl_mem big = clCreateBuffer(context, 0, SIZE, NULL, &e);
        check(e, "clCreateBuffer");
        double write = 1e9, read = 1e9;
        for (int r = 0; r < 5; r++) {
            memset(host, r + 1, SIZE);
            memset(back, 0, SIZE);
            double start = now();
            e = clEnqueueWriteBuffer(queue, big, CL_TRUE, 0, SIZE, host, 0, NULL, NULL);
            check(e, "clEnqueueWriteBuffer");
            check(clFinish(queue), "clFinish");
            double written = now();
            e = clEnqueueReadBuffer(queue, big, CL_TRUE, 0, SIZE, back, 0, NULL, NULL);
            check(e, "clEnqueueReadBuffer");
            double done = now();
            if (written - start < write) write = written - start;
            if (done - written < read) read = done - written;
            if (memcmp(host, back, SIZE)) {
                fprintf(stderr, "what comes back differs from what was written\n");
                return 1;
            }
        }
        printf("write_gb_per_s %.2f\n", SIZE / write / 1e9);
        printf("read_gb_per_s %.2f\n", SIZE / read / 1e9);
    }
    return 0;
}
