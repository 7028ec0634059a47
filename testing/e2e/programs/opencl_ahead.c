// Is some steps ahead of the device, and waits for the event of an earlier step each time: of a
// read whose bytes must be there then, though more is queued behind it. Then for an event that
// stands still until another thread lets it go, and for one that fails.
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AHEAD 3
#define CHECK(call) do { cl_int e_ = (call); \
    if (e_ != CL_SUCCESS) { printf("%s: %d\n", #call, e_); exit(1); } } while (0)

static volatile int let_go;

static void *lets_go(void *held) {
    usleep(2000);
    let_go = 1;
    clSetUserEventStatus(held, CL_COMPLETE);
    return NULL;
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    const char *source = "kernel void next(global int *n) { *n = *n + 1; }";
    cl_platform_id platform;
    cl_device_id device;
    cl_int rc;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
    CHECK(rc);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &rc);
    CHECK(rc);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &rc);
    CHECK(rc);
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "next", &rc);
    CHECK(rc);
    cl_mem n = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(int), NULL, &rc);
    CHECK(rc);
    int zero = 0, early = 0, all[AHEAD + 1] = {0};
    CHECK(clEnqueueWriteBuffer(queue, n, CL_TRUE, 0, sizeof zero, &zero, 0, NULL, NULL));
    CHECK(clSetKernelArg(kernel, 0, sizeof n, &n));
    cl_event events[AHEAD + 1];
    size_t one = 1;
    for (int i = 0; i < steps + AHEAD; i++) {
        int at = i % (AHEAD + 1), old = (i + 1) % (AHEAD + 1);
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
        CHECK(clEnqueueReadBuffer(queue, n, CL_FALSE, 0, sizeof(int), &all[at], 0, NULL,
                                  &events[at]));
        if (i < AHEAD) continue;
        CHECK(clWaitForEvents(1, &events[old]));
        early += all[old] != i - AHEAD + 1;
        CHECK(clReleaseEvent(events[old]));
    }
    CHECK(clFinish(queue));
    printf("too early: %d, of steps: %d\n", early, steps);
    for (int i = 0; i < 4; i++) {
        pthread_t other;
        cl_event held = clCreateUserEvent(context, &rc), kernels, ends[2];
        CHECK(rc);
        let_go = 0;
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 1, &held, &kernels));
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, &ends[0]));
        CHECK(clEnqueueMarkerWithWaitList(queue, 0, NULL, &ends[1]));
        pthread_create(&other, NULL, lets_go, held);
        CHECK(clWaitForEvents(1, &kernels));
        printf("held: %d\n", let_go);
        pthread_join(other, NULL);
        // Several at once, one of which the program itself has ended.
        cl_event list[] = {ends[0], held, ends[1]};
        CHECK(clWaitForEvents(3, list));
        for (int k = 0; k < 3; k++) CHECK(clReleaseEvent(list[k]));
        CHECK(clReleaseEvent(kernels));
    }
    cl_event fails = clCreateUserEvent(context, &rc), behind;
    CHECK(rc);
    CHECK(clEnqueueReadBuffer(queue, n, CL_FALSE, 0, sizeof(int), all, 1, &fails, &behind));
    CHECK(clSetUserEventStatus(fails, -7));
    printf("failed: %d\n", clWaitForEvents(1, &behind));
    return 0;
}
