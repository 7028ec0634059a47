// Says how much memory the device has, and takes buffers until there is no more.
#include <CL/cl.h>
#include <stdio.h>

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    cl_ulong all = 0, one = 0;
    cl_int rc;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS) return 1;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) return 2;
    clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof all, &all, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof one, &one, NULL);
    printf("memory %llu at once %llu\n", (unsigned long long)all, (unsigned long long)one);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
    if (rc != CL_SUCCESS) return 3;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &rc);
    if (rc != CL_SUCCESS) return 4;
    cl_mem taken[64];
    int n = 0;
    for (; n < 64; n++) {
        taken[n] = clCreateBuffer(context, CL_MEM_READ_WRITE, 1 << 20, NULL, &rc);
        if (rc == CL_SUCCESS) {
            char byte = 7;
            rc = clEnqueueWriteBuffer(queue, taken[n], CL_TRUE, 0, 1, &byte, 0, NULL, NULL);
        }
        if (rc != CL_SUCCESS) break;
    }
    printf("buffers %d then %d\n", n, rc);
    clReleaseMemObject(taken[0]);
    clFinish(queue);
    clCreateBuffer(context, CL_MEM_READ_WRITE, 1 << 20, NULL, &rc);
    printf("after one was given back %d\n", rc);
    return 0;
}
