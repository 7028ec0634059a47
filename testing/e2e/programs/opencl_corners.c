/* Calls at the edge of what the standard allows, or beyond. Some drivers take more than they say,
 * and programs rely on that: a line for each call, with what the driver answered. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 4096
#define TRY(...) say(#__VA_ARGS__, (__VA_ARGS__))

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_int code;

static const char *source =
    "kernel void add(global int *x, int k) { x[get_global_id(0)] += k; }\n"
    "kernel __attribute__((reqd_work_group_size(8, 1, 1))) void eight(global int *x) {\n"
    "  x[get_global_id(0)] = get_local_size(0); }\n"
    "kernel void groups(global int *x, local int *l) { l[get_local_id(0)] = 1;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE); if (get_local_id(0) == 0) { int s = 0;\n"
    "  for (uint i = 0; i < get_local_size(0); i++) s += l[i]; x[get_group_id(0)] = s; } }\n"
    "kernel void wide(global int *x, float4 v) { x[0] = v.w; }\n"
    "kernel void three(global int *x, int3 v) { x[0] = v.z; }\n"
    "kernel void both(global int *x, constant int *c) { x[0] = c[0]; }\n";

static void say(const char *what, cl_int answer) {
    printf("%.90s: %d\n", what, answer);
}

static void must(cl_int e, const char *what) {
    if (e != CL_SUCCESS) {
        printf("%s failed: %d\n", what, e);
        exit(1);
    }
}

/* An answer that comes by pointer, of a function that makes something. */
#define MADE(...) ((void)(__VA_ARGS__), code)

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    must(code, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &code);
    must(code, "clCreateCommandQueue");
    cl_program p = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    must(code, "clCreateProgramWithSource");
    must(clBuildProgram(p, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_kernel add = clCreateKernel(p, "add", &code), eight = clCreateKernel(p, "eight", &code);
    cl_kernel groups = clCreateKernel(p, "groups", &code), wide = clCreateKernel(p, "wide", &code);
    cl_kernel three = clCreateKernel(p, "three", &code), both = clCreateKernel(p, "both", &code);
    must(code, "clCreateKernel");
    cl_mem b = clCreateBuffer(context, CL_MEM_READ_WRITE, N * 4, NULL, &code);
    must(code, "clCreateBuffer");
    static int host[N];
    int one = 1;

    size_t group = 0, most = 0;
    must(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, NULL), "max");
    clGetKernelWorkGroupInfo(groups, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    printf("the device takes groups of %zu, the kernel of %zu\n", most, group);

    /* Sizes. */
    must(clSetKernelArg(add, 0, sizeof b, &b) | clSetKernelArg(add, 1, 4, &one), "arguments");
    must(clSetKernelArg(eight, 0, sizeof b, &b) | clSetKernelArg(groups, 0, sizeof b, &b), "more");
    for (size_t local = 32; local <= 4096; local *= 2) {
        must(clSetKernelArg(groups, 1, local * 4, NULL), "local");
        size_t all = 4096;
        memset(host, 0, sizeof host);
        cl_event e = NULL;
        cl_int a = clEnqueueNDRangeKernel(queue, groups, 1, NULL, &all, &local, 0, NULL, &e);
        cl_int f = clFinish(queue), state = 1;
        if (!a) clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, 4, &state, NULL);
        clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 4096, host, 0, NULL, NULL);
        printf("groups of %zu: %d, finish %d, state %d, %d\n", local, a, f, state, host[0]);
    }
#define LAUNCH(k, dims, g, l)                                                                      \
    do {                                                                                           \
        TRY(clEnqueueNDRangeKernel(queue, k, dims, NULL, g, l, 0, NULL, NULL));                    \
        TRY(clFinish(queue));                                                                      \
    } while (0)
#define SIZES(...) ((const size_t[]){__VA_ARGS__})
    LAUNCH(add, 1, SIZES(100), SIZES(64));
    LAUNCH(add, 1, SIZES(100), SIZES(100));
    LAUNCH(add, 1, SIZES(63), SIZES(64));
    LAUNCH(add, 1, SIZES(0), NULL);
    LAUNCH(add, 1, NULL, NULL);
    LAUNCH(add, 2, SIZES(64, 2), SIZES(64, 2));
    LAUNCH(add, 3, SIZES(64, 1, 1), SIZES(8, 1, 128));
    LAUNCH(add, 0, SIZES(64), NULL);
    LAUNCH(add, 4, SIZES(64, 1, 1, 1), NULL);
    LAUNCH(eight, 1, SIZES(64), NULL);
    LAUNCH(eight, 1, SIZES(64), SIZES(16));
    LAUNCH(eight, 1, SIZES(60), SIZES(8));
    LAUNCH(wide, 1, SIZES(1), NULL);

    /* Arguments. */
    float four[4] = {1, 2, 3, 4};
    int ints[4] = {1, 2, 3, 4};
    TRY(clSetKernelArg(add, 1, 8, four));
    TRY(clSetKernelArg(add, 1, 2, four));
    TRY(clSetKernelArg(add, 1, 4, NULL));
    TRY(clSetKernelArg(add, 2, 4, &one));
    TRY(clSetKernelArg(add, 0, 4, &one));
    TRY(clSetKernelArg(add, 0, sizeof b, NULL));
    TRY(clSetKernelArg(wide, 1, 12, four));
    TRY(clSetKernelArg(wide, 1, 16, four));
    TRY(clSetKernelArg(three, 1, 12, ints));
    TRY(clSetKernelArg(three, 1, 16, ints));
    TRY(clSetKernelArg(both, 1, sizeof b, &b));
    TRY(clSetKernelArg(both, 1, sizeof b, NULL));
    TRY(clSetKernelArg(groups, 1, 0, NULL));
    TRY(clSetKernelArg(groups, 1, 4, &one));
    TRY(clSetKernelArg(groups, 1, 1 << 30, NULL));

    /* Buffers. */
    size_t align = 0;
    cl_uint bits = 0;
    must(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4, &bits, NULL), "alignment");
    align = bits / 8;
#define BUFFER(flags, size, at) TRY(MADE(clCreateBuffer(context, flags, size, at, &code)))
    BUFFER(0, 16, NULL);
    BUFFER(CL_MEM_READ_WRITE, 0, NULL);
    BUFFER(CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 16, NULL);
    BUFFER(CL_MEM_READ_WRITE | CL_MEM_READ_ONLY, 16, NULL);
    BUFFER(CL_MEM_COPY_HOST_PTR, 16, NULL);
    BUFFER(CL_MEM_READ_WRITE, 16, host);
    BUFFER(CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, 16, host);
    BUFFER(CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, 16, host);
    BUFFER(CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR, 16, host);
    BUFFER(CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY, 16, NULL);
    BUFFER(CL_MEM_HOST_NO_ACCESS | CL_MEM_COPY_HOST_PTR, 16, host);
    BUFFER(1ull << 40, 16, NULL);
    BUFFER(CL_MEM_READ_WRITE, ~(size_t)0, NULL);
#define PART(flags, from, size)                                                                    \
    TRY(MADE(clCreateSubBuffer(b, flags, CL_BUFFER_CREATE_TYPE_REGION,                             \
                               &(cl_buffer_region){from, size}, &code)))
    PART(0, align, 64);
    PART(0, 4, 64);
    PART(0, 0, 0);
    PART(0, 0, N * 4 + 4);
    PART(CL_MEM_READ_ONLY, 0, 64);
    cl_mem read_only = clCreateBuffer(context, CL_MEM_READ_ONLY, 64, NULL, &code);
    cl_mem unread = clCreateBuffer(context, CL_MEM_HOST_NO_ACCESS, 64, NULL, &code);

    /* Copies. */
    TRY(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 0, host, 0, NULL, NULL));
    TRY(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 4, NULL, 0, NULL, NULL));
    TRY(clEnqueueReadBuffer(queue, b, CL_TRUE, N * 4 - 4, 8, host, 0, NULL, NULL));
    TRY(clEnqueueWriteBuffer(queue, b, CL_TRUE, N * 4, 4, host, 0, NULL, NULL));
    TRY(clEnqueueWriteBuffer(queue, b, CL_TRUE, 0, 0, host, 0, NULL, NULL));
    TRY(clEnqueueWriteBuffer(queue, b, 7, 0, 4, host, 0, NULL, NULL));
    TRY(clEnqueueReadBuffer(queue, unread, CL_TRUE, 0, 4, host, 0, NULL, NULL));
    TRY(clEnqueueCopyBuffer(queue, b, b, 0, 2, 8, 0, NULL, NULL));
    TRY(clEnqueueCopyBuffer(queue, b, b, 0, 8, 8, 0, NULL, NULL));
    TRY(clEnqueueCopyBuffer(queue, b, b, 0, 8, 0, 0, NULL, NULL));
    TRY(clEnqueueCopyBuffer(queue, b, read_only, 0, 0, 8, 0, NULL, NULL));
    TRY(clEnqueueFillBuffer(queue, b, &one, 3, 0, 12, 0, NULL, NULL));
    TRY(clEnqueueFillBuffer(queue, b, &one, 4, 2, 12, 0, NULL, NULL));
    TRY(clEnqueueFillBuffer(queue, b, &one, 4, 0, 10, 0, NULL, NULL));
    TRY(clEnqueueFillBuffer(queue, b, &one, 4, 0, 0, 0, NULL, NULL));
    TRY(clFinish(queue));
#define MAP(flags, from, size)                                                                     \
    do {                                                                                           \
        void *m = clEnqueueMapBuffer(queue, b, CL_TRUE, flags, from, size, 0, NULL, NULL, &code);  \
        printf("map " #flags " " #from " " #size ": %d\n", code);                                  \
        if (m) clEnqueueUnmapMemObject(queue, b, m, 0, NULL, NULL);                                \
    } while (0)
    MAP(CL_MAP_READ, 0, 0);
    MAP(0, 0, 16);
    MAP(CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 0, 16);
    MAP(CL_MAP_READ, N * 4, 4);
    TRY(clEnqueueUnmapMemObject(queue, b, host, 0, NULL, NULL));
    TRY(clFinish(queue));
    const size_t at[3] = {0, 0, 0}, box[3] = {16, 2, 1}, flat[3] = {16, 0, 1};
#define RECT(region, row, slice)                                                                   \
    TRY(clEnqueueReadBufferRect(queue, b, CL_TRUE, at, at, region, row, slice, 0, 0, host, 0,      \
                                NULL, NULL))
    RECT(box, 0, 0);
    RECT(box, 8, 0);
    RECT(box, 64, 60);
    RECT(box, 64, 200);
    RECT(flat, 0, 0);
    TRY(clEnqueueCopyBufferRect(queue, b, b, at, at, box, 0, 0, 0, 0, 0, NULL, NULL));

    /* Lists, events, queues. */
    cl_event user = clCreateUserEvent(context, &code);
    TRY(clEnqueueMarkerWithWaitList(queue, 1, NULL, NULL));
    TRY(clEnqueueMarkerWithWaitList(queue, 0, &user, NULL));
    TRY(clWaitForEvents(0, NULL));
    TRY(clWaitForEvents(0, &user));
    TRY(clSetUserEventStatus(user, 1));
    TRY(clSetUserEventStatus(user, CL_COMPLETE));
    TRY(clGetEventProfilingInfo(user, CL_PROFILING_COMMAND_END, 8, host, NULL));
    cl_event e;
    must(clEnqueueMarker(queue, &e), "marker");
    TRY(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, 8, host, NULL));
    TRY(clSetEventCallback(e, CL_COMPLETE, NULL, NULL));
    TRY(clSetEventCallback(e, 7, NULL, NULL));
    TRY(MADE(clCreateCommandQueue(context, device, 1ull << 40, &code)));
    const cl_queue_properties twice[] = {CL_QUEUE_PROPERTIES, 0, CL_QUEUE_PROPERTIES, 0, 0};
    TRY(MADE(clCreateCommandQueueWithProperties(context, device, twice, &code)));
    const cl_queue_properties unknown[] = {0x9999, 1, 0};
    TRY(MADE(clCreateCommandQueueWithProperties(context, device, unknown, &code)));
    TRY(clGetDeviceInfo(device, CL_DEVICE_NAME, 1, host, NULL));
    TRY(clGetDeviceInfo(device, 0x9999, 4, host, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, &device, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ACCELERATOR, 0, NULL, &bits));
    TRY(clGetPlatformIDs(0, NULL, NULL));

    /* Programs. */
    TRY(MADE(clCreateProgramWithSource(context, 0, &source, NULL, &code)));
    cl_program q = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    TRY(MADE(clCreateKernel(q, "add", &code)));
    TRY(clBuildProgram(q, 0, NULL, "-cl-nothing", NULL, NULL));
    TRY(clBuildProgram(q, 1, NULL, "", NULL, NULL));
    TRY(clBuildProgram(q, 0, &device, "", NULL, NULL));
    TRY(clBuildProgram(q, 0, NULL, "-D A=1 -cl-std=CL1.1 -w", NULL, NULL));
    TRY(MADE(clCreateKernel(q, "none", &code)));
    TRY(MADE(clCreateKernel(q, NULL, &code)));
    TRY(clBuildProgram(p, 0, NULL, "", NULL, NULL));
    const unsigned char *bytes = (const unsigned char *)"nothing";
    size_t seven = 7;
    cl_int status = 0;
    TRY(MADE(clCreateProgramWithBinary(context, 1, &device, &seven, &bytes, &status, &code)));

    /* Images. */
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8}, odd = {CL_RGB, CL_UNSIGNED_INT8};
#define IMAGE(f, ...)                                                                              \
    TRY(MADE(clCreateImage(context, CL_MEM_READ_WRITE, f, &(cl_image_desc){__VA_ARGS__}, NULL,     \
                           &code)))
    IMAGE(&format, CL_MEM_OBJECT_IMAGE2D, 16, 16);
    IMAGE(&format, CL_MEM_OBJECT_IMAGE2D, 0, 16);
    IMAGE(&format, CL_MEM_OBJECT_IMAGE2D, 1 << 24, 16);
    IMAGE(&odd, CL_MEM_OBJECT_IMAGE2D, 16, 16);
    IMAGE(&format, CL_MEM_OBJECT_IMAGE2D, 16, 16, 0, 0, 64);
    IMAGE(NULL, CL_MEM_OBJECT_IMAGE2D, 16, 16);
    IMAGE(&format, CL_MEM_OBJECT_IMAGE1D_BUFFER, 16, 0, 0, 0, 0, 0, 0, 0, {b});
    TRY(MADE(clCreateSampler(context, 2, CL_ADDRESS_CLAMP, CL_FILTER_LINEAR, &code)));
    TRY(MADE(clCreateSampler(context, CL_FALSE, CL_ADDRESS_REPEAT, CL_FILTER_LINEAR, &code)));
    TRY(clFinish(queue));
    printf("done\n");
    return 0;
}
