// A client whose kernel makes system calls where the CPU device is: its machine code runs in the
// worker. Each group of arguments "TIMES NUMBER A B C D" is a call that is made so many times; an
// argument that is not a number is a text, and its address is given. One result a line.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 6, ROOM = 1 << 16 };

static const char *SOURCE =
    "kernel void call(global long *a, global char *text, global long *is_text) {\n"
    "  long v[6], r = 0;\n"
    "  for (int i = 0; i < 6; i++) v[i] = a[i] + (is_text[i] ? (long)(uintptr_t)text : 0);\n"
    "  for (long n = 0; n < v[0]; n++) {\n"
    "    r = v[1];\n"
    "    __asm__ volatile(\"movq %5, %%r10\\n syscall\" : \"+a\"(r)\n"
    "      : \"D\"(v[2]), \"S\"(v[3]), \"d\"(v[4]), \"r\"(v[5])\n"
    "      : \"rcx\", \"r10\", \"r11\", \"memory\");\n"
    "  }\n"
    "  a[0] = r;\n"
    "}\n";

static void check(cl_int e, const char *what) {
    if (e == CL_SUCCESS) return;
    fprintf(stderr, "%s failed with error %d\n", what, e);
    exit(1);
}

int main(int argc, char **argv) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int e;
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &e);
    check(e, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &e);
    check(e, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &SOURCE, NULL, &e);
    check(e, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "call", &e);
    check(e, "clCreateKernel");
    for (int at = 1; at + WORDS <= argc; at += WORDS) {
        cl_long words[WORDS], is_text[WORDS];
        static char text[ROOM];
        size_t used = 0;
        for (int i = 0; i < WORDS; i++) {
            char *end;
            words[i] = strtol(argv[at + i], &end, 10);
            is_text[i] = *end != 0 || end == argv[at + i];
            if (!is_text[i]) continue;
            words[i] = used;
            used += snprintf(text + used, ROOM - used, "%s", argv[at + i]) + 1;
        }
        cl_mem_flags copy = CL_MEM_COPY_HOST_PTR;
        cl_mem buffers[3] = {
            clCreateBuffer(context, copy, sizeof words, words, &e),
            clCreateBuffer(context, copy, sizeof text, text, &e),
            clCreateBuffer(context, copy, sizeof is_text, is_text, &e),
        };
        for (int i = 0; i < 3; i++)
            check(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]), "clSetKernelArg");
        size_t one = 1;
        e = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
        check(e, "clEnqueueNDRangeKernel");
        e = clEnqueueReadBuffer(queue, buffers[0], CL_TRUE, 0, 8, words, 0, NULL, NULL);
        check(e, "clEnqueueReadBuffer");
        printf("%ld\n", (long)words[0]);
        fflush(stdout);
    }
    return 0;
}
