/* Trains a network of two layers on the first OpenCL device. A line of its input says how many
 * steps, or 0 for as many as there is time for until the next line; a line of its output has the
 * losses of these steps with all their bits. */
#include "opencl_first.h"
#include <poll.h>
#include <unistd.h>

#define BATCH 64
#define INPUTS 48
#define HIDDEN 32
#define CLASSES 8

static const char *source =
    "kernel void forward(global const float *x, global const float *w, global float *y, int n,\n"
    "                    int last) {\n"
    "  int b = get_global_id(0), j = get_global_id(1), m = get_global_size(1);\n"
    "  float sum = 0;\n"
    "  for (int i = 0; i < n; i++) sum += x[b * n + i] * w[i * m + j];\n"
    "  y[b * m + j] = last ? sum : tanh(sum);\n"
    "}\n"
    // What comes out becomes by how much it is wrong.
    "kernel void judge(global float *y, global const int *label, global float *loss, int m) {\n"
    "  int b = get_global_id(0);\n"
    "  global float *row = y + b * m;\n"
    "  float most = row[0], sum = 0;\n"
    "  for (int j = 1; j < m; j++) most = fmax(most, row[j]);\n"
    "  for (int j = 0; j < m; j++) sum += exp(row[j] - most);\n"
    "  loss[b] = log(sum) + most - row[label[b]];\n"
    "  for (int j = 0; j < m; j++) row[j] = exp(row[j] - most) / sum - (j == label[b]);\n"
    "}\n"
    "kernel void back(global const float *d, global const float *w, global const float *y,\n"
    "                 global float *before, int m) {\n"
    "  int b = get_global_id(0), i = get_global_id(1), n = get_global_size(1);\n"
    "  float sum = 0;\n"
    "  for (int j = 0; j < m; j++) sum += d[b * m + j] * w[i * m + j];\n"
    "  before[b * n + i] = sum * (1 - y[b * n + i] * y[b * n + i]);\n"
    "}\n"
    "kernel void learn(global const float *x, global const float *d, global float *w, int size,\n"
    "                  float rate) {\n"
    "  int i = get_global_id(0), n = get_global_size(0);\n"
    "  int j = get_global_id(1), m = get_global_size(1);\n"
    "  float sum = 0;\n"
    "  for (int b = 0; b < size; b++) sum += x[b * n + i] * d[b * m + j];\n"
    "  w[i * m + j] -= rate / size * sum;\n"
    "}\n";

static cl_mem memory(size_t numbers) {
    cl_int e;
    float *first = malloc(numbers * sizeof *first);
    for (size_t i = 0; i < numbers; i++) first[i] = noise();
    cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    cl_mem m = clCreateBuffer(context, flags, numbers * sizeof *first, first, &e);
    check(e, "clCreateBuffer");
    free(first);
    return m;
}

/* Runs a kernel; its arguments are buffers, and numbers of four bytes behind them. */
static void run(cl_kernel k, size_t rows, size_t columns, cl_mem *m, int buffers, void *numbers,
                int more) {
    for (int i = 0; i < buffers; i++)
        check(clSetKernelArg(k, i, sizeof *m, m + i), "clSetKernelArg");
    for (int i = 0; i < more; i++)
        check(clSetKernelArg(k, buffers + i, 4, (int *)numbers + i), "clSetKernelArg");
    size_t size[] = {rows, columns};
    check(clEnqueueNDRangeKernel(queue, k, 2, NULL, size, NULL, 0, NULL, NULL), "launch");
}

static int has_input(void) {
    struct pollfd in = {.fd = 0, .events = POLLIN};
    return poll(&in, 1, 0) != 0;
}

int main(void) {
    cl_int e;
    begin(source);
    cl_kernel forward = kernel("forward"), judge = kernel("judge");
    cl_kernel back = kernel("back"), learn = kernel("learn");
    cl_mem x = memory(BATCH * INPUTS), label = memory(BATCH), loss = memory(BATCH);
    cl_mem hidden = memory(BATCH * HIDDEN), out = memory(BATCH * CLASSES);
    cl_mem before = memory(BATCH * HIDDEN);
    cl_mem w1 = memory(INPUTS * HIDDEN), w2 = memory(HIDDEN * CLASSES);
    // Unbuffered, so that what is there is seen.
    setvbuf(stdin, NULL, _IONBF, 0);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        int steps = atoi(line);
        for (int step = 0; steps ? step < steps : !step || !has_input(); step++) {
            float image[BATCH][INPUTS], all[BATCH], sum = 0;
            int kind[BATCH];
            for (int b = 0; b < BATCH; b++) {
                kind[b] = (noise() + 0.5f) * CLASSES;
                for (int i = 0; i < INPUTS; i++) image[b][i] = noise() + (i % CLASSES == kind[b]);
            }
            struct { int n, last; } first = {INPUTS, 0}, second = {HIDDEN, 1};
            struct { int size; float rate; } some = {BATCH, 0.1f};
            int classes = CLASSES;
            e = clEnqueueWriteBuffer(queue, x, CL_FALSE, 0, sizeof image, image, 0, NULL, NULL);
            check(e, "clEnqueueWriteBuffer");
            e = clEnqueueWriteBuffer(queue, label, CL_FALSE, 0, sizeof kind, kind, 0, NULL, NULL);
            check(e, "clEnqueueWriteBuffer");
            run(forward, BATCH, HIDDEN, (cl_mem[]){x, w1, hidden}, 3, &first, 2);
            run(forward, BATCH, CLASSES, (cl_mem[]){hidden, w2, out}, 3, &second, 2);
            run(judge, BATCH, 1, (cl_mem[]){out, label, loss}, 3, &classes, 1);
            run(back, BATCH, HIDDEN, (cl_mem[]){out, w2, hidden, before}, 4, &classes, 1);
            run(learn, HIDDEN, CLASSES, (cl_mem[]){hidden, out, w2}, 3, &some, 2);
            run(learn, INPUTS, HIDDEN, (cl_mem[]){x, before, w1}, 3, &some, 2);
            e = clEnqueueReadBuffer(queue, loss, CL_TRUE, 0, sizeof all, all, 0, NULL, NULL);
            check(e, "clEnqueueReadBuffer");
            for (int b = 0; b < BATCH; b++) sum += all[b];
            printf(step ? " %a" : "%a", sum / BATCH);
        }
        puts("");
        fflush(stdout);
    }
    return 0;
}
