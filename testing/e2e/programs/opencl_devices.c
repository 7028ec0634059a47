/* Contexts over several devices and parts of devices: what one device's queue does, another's sees,
 * in the order that wait lists, user events and callbacks say. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 4096
#define MOST 8
#define OK(call)                                                                                   \
    do {                                                                                           \
        cl_int rc = (call);                                                                        \
        if (rc) {                                                                                  \
            printf("line %d: %s = %d\n", __LINE__, #call, rc);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define SHOW(call) printf("%s = %d\n", #call, (int)(call))

static cl_int code;
static const char *source =
    "kernel void advance(global int *x, int k) {\n"
    "  size_t i = get_global_id(0); x[i] = x[i] * k + 1; }\n"
    "kernel void tint(write_only image2d_t o, int v) {\n"
    "  write_imagei(o, (int2)(get_global_id(0), get_global_id(1)), (int4)(v)); }\n"
    "kernel void say(int who) { printf(\"device %d\\n\", who); }\n";

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static char order[64];

static void heard(cl_event e, cl_int status, void *user) {
    (void)e;
    pthread_mutex_lock(&gate);
    size_t n = strlen(order);
    order[n] = (char)(size_t)user;
    order[n + 1] = status == CL_COMPLETE ? 0 : '!';
    pthread_cond_broadcast(&came);
    pthread_mutex_unlock(&gate);
}

static void hear(size_t n) {
    pthread_mutex_lock(&gate);
    while (strlen(order) < n)
        pthread_cond_wait(&came, &gate);
    pthread_mutex_unlock(&gate);
}

static long sum(const int *x) {
    long s = 0;
    for (int i = 0; i < N; i++)
        s += (long)x[i] * (i % 7 + 1);
    return s;
}

static cl_command_queue queue_of(cl_context c, cl_device_id d, cl_command_queue_properties p) {
    cl_command_queue q = clCreateCommandQueue(c, d, p, &code);
    OK(code);
    return q;
}

static cl_event step(cl_command_queue q, cl_kernel k, cl_mem m, int by, cl_uint n,
                     cl_event *after) {
    size_t size = N;
    cl_event e;
    OK(clSetKernelArg(k, 0, sizeof m, &m));
    OK(clSetKernelArg(k, 1, sizeof by, &by));
    OK(clEnqueueNDRangeKernel(q, k, 1, NULL, &size, NULL, n, after, &e));
    return e;
}

static cl_uint references(cl_context c) {
    cl_uint n;
    OK(clGetContextInfo(c, CL_CONTEXT_REFERENCE_COUNT, sizeof n, &n, NULL));
    return n;
}

/* An image that several devices write, and a map of part of it. */
static void images(cl_uint n, cl_context c, cl_program p, cl_command_queue *q) {
    cl_image_format f = {CL_RGBA, CL_SIGNED_INT32};
    cl_image_desc d = {CL_MEM_OBJECT_IMAGE2D, 512, 300, 0, 0, 0, 0, 0, 0, {NULL}};
    cl_mem image = clCreateImage(c, CL_MEM_READ_WRITE, &f, &d, NULL, &code);
    OK(code);
    cl_kernel tint = clCreateKernel(p, "tint", &code);
    OK(code);
    cl_event painted = NULL;
    for (cl_uint i = 0; i < n; i++) {
        size_t from[2] = {0, 300 / n * i}, part[2] = {512, 300 / n};
        int v = (int)i + 3;
        OK(clSetKernelArg(tint, 0, sizeof image, &image));
        OK(clSetKernelArg(tint, 1, sizeof v, &v));
        cl_event e;
        OK(clEnqueueNDRangeKernel(q[i], tint, 2, from, part, NULL, !!i, i ? &painted : NULL, &e));
        painted = e;
    }
    size_t o[3] = {100, 20, 0}, r[3] = {400, 270, 1}, pitch;
    long total = 0;
    if (n == 1) {
        /* PoCL 3.1 ends the program where there are more. */
        int *mapped = clEnqueueMapImage(q[0], image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, o, r,
                                        &pitch, NULL, 1, &painted, NULL, &code);
        OK(code);
        for (size_t i = 0; i < r[1]; i++)
            for (size_t j = 0; j < r[0] * 4; j++) {
                total += mapped[i * pitch / 4 + j];
                mapped[i * pitch / 4 + j] += (int)(i * j % 11);
            }
        printf("mapped: %ld\n", total);
        OK(clEnqueueUnmapMemObject(q[0], image, mapped, 0, NULL, NULL));
        OK(clFinish(q[0]));
    } else {
        OK(clWaitForEvents(1, &painted));
    }
    size_t zero[3] = {0}, whole[3] = {512, 300, 1};
    int *pixels = malloc(512 * 300 * 16 + 300 * 64);
    OK(clEnqueueReadImage(
        q[n - 1], image, CL_TRUE, zero, whole, 512 * 16 + 64, 0, pixels, 0, NULL, NULL));
    for (size_t i = total = 0; i < 300; i++)
        for (size_t j = 0; j < 512 * 4; j++)
            total += pixels[i * (512 * 4 + 16) + j] * (long)(i % 5 + j % 3);
    printf("read: %ld\n", total);
    for (size_t i = 0; i < 512 * 300 * 4; i++)
        pixels[i] = (int)(i * 7 % 1001);
    OK(clEnqueueWriteImage(q[0], image, CL_FALSE, zero, whole, 0, 0, pixels, 0, NULL, NULL));
    OK(clEnqueueReadImage(q[0], image, CL_TRUE, o, r, 0, 0, pixels, 0, NULL, NULL));
    for (size_t i = total = 0; i < r[0] * r[1] * 4; i++)
        total += pixels[i] * (long)(i % 13);
    printf("written: %ld\n", total);
    free(pixels);
    OK(clReleaseMemObject(image));
    OK(clReleaseKernel(tint));
}

/* Work that goes from device to device and is held up by the program's own event. */
static void together(cl_uint n, cl_device_id *devices, int whole) {
    cl_context c = clCreateContext(NULL, n, devices, NULL, NULL, &code);
    OK(code);
    cl_uint count;
    OK(clGetContextInfo(c, CL_CONTEXT_NUM_DEVICES, sizeof count, &count, NULL));
    cl_program p = clCreateProgramWithSource(c, 1, &source, NULL, &code);
    OK(code);
    OK(clBuildProgram(p, 0, NULL, "", NULL, NULL));
    printf("devices: %u\n", count);
    cl_kernel k = clCreateKernel(p, "advance", &code);
    OK(code);
    int x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = i;
    cl_mem m = clCreateBuffer(c, CL_MEM_COPY_HOST_PTR, sizeof x, x, &code);
    OK(code);
    cl_command_queue q[MOST];
    for (cl_uint i = 0; i < n; i++)
        q[i] = queue_of(c, devices[i], i % 2 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
    cl_event start = clCreateUserEvent(c, &code);
    OK(code);
    cl_event last = start, all[4 * MOST];
    cl_uint made = 0;
    order[0] = 0;
    for (cl_uint i = 0; i < 3 * n; i++) {
        last = all[made++] = step(q[i % n], k, m, (int)i + 2, 1, &last);
        OK(clSetEventCallback(last, CL_COMPLETE, heard, (void *)(size_t)('a' + i)));
    }
    cl_event moved;
    OK(clEnqueueMigrateMemObjects(q[0], 1, &m, 0, 1, &last, &moved));
    OK(clEnqueueReadBuffer(q[n - 1], m, CL_FALSE, 0, sizeof y, y, 1, &moved, &all[made++]));
    for (cl_uint i = 0; i < n; i++)
        OK(clFlush(q[i]));
    cl_int state;
    OK(clGetEventInfo(all[0], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    printf("before the start: %d, heard %zu\n", state > CL_COMPLETE, strlen(order));
    OK(clSetUserEventStatus(start, CL_COMPLETE));
    OK(clWaitForEvents(1, &all[made - 1]));
    hear(3 * n);
    printf("after it: %ld, heard %s\n", sum(y), order);
    SHOW(clEnqueueMigrateMemObjects(q[0], 0, NULL, 0, 0, NULL, NULL));
    SHOW(clEnqueueMigrateMemObjects(q[0], 1, &m, 1 << 9, 0, NULL, NULL));
    OK(clEnqueueMigrateMemObjects(q[0], 1, &m, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, NULL));

    /* What cannot start because what it waits for has failed. */
    cl_event broken = clCreateUserEvent(c, &code), after, next;
    OK(code);
    after = step(q[0], k, m, 5, 1, &broken);
    next = step(q[n - 1], k, m, 5, 1, &after);
    OK(clSetUserEventStatus(broken, -7));
    SHOW(clWaitForEvents(1, &next));
    OK(clGetEventInfo(next, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    printf("failed: %d\n", state < 0);
    OK(clEnqueueReadBuffer(q[0], m, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
    printf("unchanged: %ld\n", sum(y));

    if (whole)
        images(n, c, p, q);

    /* A box of a buffer, of more than one record. */
    size_t zero[3] = {0};
    long total = 0;
    size_t side = 700, box[3] = {650 * 4, 600, 1}, at[3] = {20 * 4, 30, 0};
    cl_mem square = clCreateBuffer(c, 0, side * side * 4, NULL, &code);
    OK(code);
    int *host = calloc(side * side, 4);
    for (size_t i = 0; i < side * side; i++)
        host[i] = (int)(i % 4099);
    OK(clEnqueueFillBuffer(q[0], square, &made, sizeof made, 0, side * side * 4, 0, NULL, NULL));
    OK(clEnqueueWriteBufferRect(
        q[0], square, CL_TRUE, at, at, box, side * 4, 0, side * 4, 0, host, 0, NULL, NULL));
    OK(clEnqueueReadBufferRect(
        q[n - 1], square, CL_TRUE, zero, at, box, side * 4, 0, side * 4, 0, host, 0, NULL, NULL));
    for (size_t i = total = 0; i < side * side; i++)
        total += host[i] * (long)(i % 17);
    printf("boxes: %ld\n", total);
    free(host);

    /* A program for one of the devices only. */
    cl_program one = clCreateProgramWithSource(c, 1, &source, NULL, &code);
    OK(code);
    OK(clBuildProgram(one, 1, &devices[n - 1], "", NULL, NULL));
    cl_build_status built[2];
    for (cl_uint i = 0; i < 2; i++)
        OK(clGetProgramBuildInfo(
            one, devices[i * (n - 1)], CL_PROGRAM_BUILD_STATUS, sizeof *built, &built[i], NULL));
    printf("built: %d\n", built[1]);
    cl_kernel say = clCreateKernel(one, "say", &code);
    OK(code);
    int who = 1;
    size_t single = 1;
    OK(clSetKernelArg(say, 0, sizeof who, &who));
    OK(clEnqueueNDRangeKernel(q[n - 1], say, 1, NULL, &single, NULL, 0, NULL, NULL));
    OK(clFinish(q[n - 1]));

    /* The context lives as long as anything of it. */
    OK(clRetainContext(c));
    printf("owners: %u\n", references(c) > 1);
    OK(clReleaseContext(c));
    OK(clReleaseContext(c));
    OK(clEnqueueReadBuffer(q[0], m, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
    printf("still there: %ld\n", sum(y));
    for (cl_uint i = 0; i < made; i++)
        OK(clReleaseEvent(all[i]));
    OK(clReleaseEvent(start));
    OK(clReleaseEvent(moved));
    OK(clReleaseMemObject(square));
    OK(clReleaseMemObject(m));
    OK(clReleaseKernel(say));
    OK(clReleaseKernel(k));
    OK(clReleaseProgram(one));
    OK(clReleaseProgram(p));
    for (cl_uint i = 0; i < n; i++)
        OK(clReleaseCommandQueue(q[i]));
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    cl_platform_id platform;
    cl_device_id devices[MOST], parts[MOST];
    cl_uint n;
    OK(clGetPlatformIDs(1, &platform, NULL));
    OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &n));
    together(1, devices, 1);
    together(n, devices, 1);

    cl_device_partition_property ones[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_partition_property many[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, 10000, 0, 0};
    OK(clCreateSubDevices(devices[0], ones, MOST, parts, &n));
    printf("parts: %u\n", n);
    SHOW(clCreateSubDevices(devices[0], many, MOST, parts + n, NULL));
    cl_device_id parent;
    OK(clGetDeviceInfo(parts[0], CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL));
    cl_uint units, owners;
    OK(clGetDeviceInfo(parts[0], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    cl_device_partition_property how[4] = {0};
    OK(clGetDeviceInfo(parts[0], CL_DEVICE_PARTITION_TYPE, sizeof how, how, NULL));
    printf("of the first: %d, units %u, made by %lx %ld\n", parent == devices[0], units,
           (long)how[0], (long)how[1]);
    OK(clRetainDevice(parts[0]));
    OK(clGetDeviceInfo(parts[0], CL_DEVICE_REFERENCE_COUNT, sizeof owners, &owners, NULL));
    printf("owners: %u\n", owners);
    OK(clReleaseDevice(parts[0]));
    /* PoCL 3.1 takes parts of one device for the same, and has no images for them. */
    together(1, &parts[n - 1], 0);
    for (cl_uint i = 0; i < n; i++)
        OK(clReleaseDevice(parts[i]));
    printf("done\n");
    return 0;
}
