// A galaxy of 2048 stars, 40 time steps on the first OpenCL device; prints energy and a checksum.
#include "opencl_first.h"
#include <string.h>

#define N 2048
#define STEPS 40

static const char *SOURCE =
    "kernel void advance(global const float4 *p, global float4 *q, global float4 *v, float dt) {\n"
    "  int i = get_global_id(0), n = get_global_size(0);\n"
    "  float4 me = p[i], a = 0.0f;\n"
    "  for (int j = 0; j < n; j++) {\n"
    "    float4 d = p[j] - me; d.w = 0.0f;\n"
    "    float r = rsqrt(dot(d, d) + 0.01f);\n"
    "    a += d * (p[j].w * r * r * r);\n"
    "  }\n"
    "  v[i] += a * dt; v[i].w = 0.0f;\n"
    "  q[i] = me + v[i] * dt;\n"
    "}\n";

int main(void) {
    cl_int e;
    begin(SOURCE);
    cl_kernel step = kernel("advance");

    static cl_float4 p[N], v[N];
    for (int i = 0; i < N; i++)
        for (int c = 0; c < 4; c++) p[i].s[c] = c < 3 ? noise() : 1.0f / N;
    cl_mem place[2], speed;
    for (int i = 0; i < 2; i++) {
        place[i] = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof p, p, &e);
        check(e, "clCreateBuffer");
    }
    speed = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof v, v, &e);
    check(e, "clCreateBuffer");

    float dt = 0.005f;
    size_t size = N;
    for (int i = 0; i < STEPS; i++) {
        check(clSetKernelArg(step, 0, sizeof(cl_mem), &place[i % 2]), "clSetKernelArg");
        check(clSetKernelArg(step, 1, sizeof(cl_mem), &place[1 - i % 2]), "clSetKernelArg");
        check(clSetKernelArg(step, 2, sizeof(cl_mem), &speed), "clSetKernelArg");
        check(clSetKernelArg(step, 3, sizeof dt, &dt), "clSetKernelArg");
        e = clEnqueueNDRangeKernel(queue, step, 1, NULL, &size, NULL, 0, NULL, NULL);
        check(e, "clEnqueueNDRangeKernel");
    }
    e = clEnqueueReadBuffer(queue, place[STEPS % 2], CL_TRUE, 0, sizeof p, p, 0, NULL, NULL);
    check(e, "clEnqueueReadBuffer");
    e = clEnqueueReadBuffer(queue, speed, CL_TRUE, 0, sizeof v, v, 0, NULL, NULL);
    check(e, "clEnqueueReadBuffer");

    double energy = 0;
    unsigned sum = 2166136261u;
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < 3; c++) energy += 0.5 * v[i].s[c] * v[i].s[c] / N;
        unsigned words[4];
        memcpy(words, &p[i], sizeof words);
        for (int c = 0; c < 4; c++) sum = (sum ^ words[c]) * 16777619u;
    }
    printf("kinetic energy %.9f, checksum %08x\n", energy, sum);
    return 0;
}
