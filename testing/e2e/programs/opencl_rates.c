// Rates on the first OpenCL device; one `NAME VALUE` a line. Arguments: what to measure, or "all".
// "steady" is none of all: short kernels for six seconds, of which the middle counts, so that
// several that are started together can be measured beside each other. A number behind it says how
// often they loop; by itself they take some 15 us of a large GPU.
#include "opencl_first.h"
#include <string.h>
#include <time.h>

#define SIZE ((size_t)64 << 20)
#define EMPTY 100000
#define CHAIN 1000

static const char *SOURCE = "kernel void empty(global int *x) {}\n"
                            "kernel void next(global int *x) { x[0]++; }\n"
                            "kernel void turn(global int *x, int times) {\n"
                            "    int v = get_global_id(0);\n"
                            "    for (int i = 0; i < times; i++) v = v * 1664525 + 1013904223;\n"
                            "    if (v == 1) x[0] = v;\n"
                            "}\n";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// A step of kernels; returns its end.
#define STEP 100
static cl_event step(cl_kernel k) {
    size_t many = 64 << 10, each = 64;
    cl_event end;
    for (int i = 0; i < STEP; i++) {
        cl_event *last = i == STEP - 1 ? &end : NULL;
        cl_int e = clEnqueueNDRangeKernel(queue, k, 1, NULL, &many, &each, 0, NULL, last);
        check(e, "clEnqueueNDRangeKernel");
    }
    check(clFlush(queue), "clFlush");
    return end;
}

static void done(cl_event end) {
    check(clWaitForEvents(1, &end), "clWaitForEvents");
    check(clReleaseEvent(end), "clReleaseEvent");
}

// Kernels that loop so often, two steps ahead of what is done.
static void steady(cl_kernel k, cl_int times) {
    check(clSetKernelArg(k, 1, sizeof times, &times), "clSetKernelArg");
    done(step(k));
    double start = now(), first = 0, last = 0;
    int steps = 0;
    for (cl_event before = step(k); now() - start < 6;) {
        cl_event next = step(k);
        done(before);
        before = next;
        double at = now() - start;
        if (at < 2 || at > 5) continue;
        if (!first) first = at;
        else steps++;
        last = at;
    }
    check(clFinish(queue), "clFinish");
    printf("steady_per_s %.0f\n", STEP * steps / (last - first));
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

    if (!strcmp(what, "steady")) {
        cl_kernel turn = kernel("turn");
        check(clSetKernelArg(turn, 0, sizeof x, &x), "clSetKernelArg");
        steady(turn, argc > 2 ? atoi(argv[2]) : 8192);
        return 0;
    }
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
