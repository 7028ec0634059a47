// What a small program has of the first OpenCL device: a context, a queue, and kernels of its own.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

static cl_context context;
static cl_command_queue queue;
static cl_program program;

static inline void check(cl_int e, const char *what) {
    if (e == CL_SUCCESS) return;
    fprintf(stderr, "%s failed with error %d\n", what, e);
    exit(1);
}

static inline void begin(const char *source) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int e;
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &e);
    check(e, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &e);
    check(e, "clCreateCommandQueue");
    program = clCreateProgramWithSource(context, 1, &source, NULL, &e);
    check(e, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
}

static inline cl_kernel kernel(const char *name) {
    cl_int e;
    cl_kernel k = clCreateKernel(program, name, &e);
    check(e, "clCreateKernel");
    return k;
}

// The same numbers on every machine, between -0.5 and 0.5.
static inline float noise(void) {
    static unsigned s = 12345;
    s = s * 1664525u + 1013904223u;
    return (float)(s >> 8) / (1 << 24) - 0.5f;
}
