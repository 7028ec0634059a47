/* Opens OpenCL's loader by the name it is given, as programs do that go without OpenCL where there
 * is none: computes with what it finds, and says so. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>

#define FIND(f) __typeof__(&f) f##_ = (__typeof__(&f))dlsym(lib, #f)

int main(int argc, char **argv) {
    void *lib = dlopen(argc > 1 ? argv[1] : "libOpenCL.so.1", RTLD_NOW);
    if (!lib) {
        printf("no OpenCL: %s\n", dlerror());
        return 1;
    }
    FIND(clGetPlatformIDs);
    FIND(clGetDeviceIDs);
    FIND(clCreateContext);
    FIND(clCreateCommandQueue);
    FIND(clCreateProgramWithSource);
    FIND(clBuildProgram);
    FIND(clCreateKernel);
    FIND(clCreateBuffer);
    FIND(clSetKernelArg);
    FIND(clEnqueueTask);
    FIND(clEnqueueReadBuffer);
    cl_platform_id platform;
    cl_device_id device;
    cl_int code = clGetPlatformIDs_(1, &platform, NULL);
    if (!code)
        code = clGetDeviceIDs_(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    if (code) {
        printf("no device: %d\n", code);
        return 1;
    }
    cl_context context = clCreateContext_(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queue = clCreateCommandQueue_(context, device, 0, &code);
    const char *source = "kernel void k(global int *x) { *x = 40 + 2; }";
    cl_program program = clCreateProgramWithSource_(context, 1, &source, NULL, &code);
    code = clBuildProgram_(program, 1, &device, "", NULL, NULL);
    if (code) {
        printf("build: %d\n", code);
        return 1;
    }
    cl_kernel kernel = clCreateKernel_(program, "k", &code);
    cl_mem memory = clCreateBuffer_(context, CL_MEM_READ_WRITE, 4, NULL, &code);
    clSetKernelArg_(kernel, 0, sizeof memory, &memory);
    clEnqueueTask_(queue, kernel, 0, NULL, NULL);
    int x = 0;
    code = clEnqueueReadBuffer_(queue, memory, CL_TRUE, 0, 4, &x, 0, NULL, NULL);
    printf("read: %d, answer: %d\n", code, x);
    return code != 0;
}
