// A client whose kernel makes system calls where the CPU device is: its machine code runs in the
// worker. Each group of arguments "TIMES NUMBER A B C D" is a call that is made so many times; an
// argument that is not a number is a text, and its address is given. One result a line.
#include "opencl_first.h"
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

int main(int argc, char **argv) {
    cl_int e;
    begin(SOURCE);
    cl_kernel call = kernel("call");
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
            check(clSetKernelArg(call, i, sizeof buffers[i], &buffers[i]), "clSetKernelArg");
        size_t one = 1;
        e = clEnqueueNDRangeKernel(queue, call, 1, NULL, &one, &one, 0, NULL, NULL);
        check(e, "clEnqueueNDRangeKernel");
        e = clEnqueueReadBuffer(queue, buffers[0], CL_TRUE, 0, 8, words, 0, NULL, NULL);
        check(e, "clEnqueueReadBuffer");
        printf("%ld\n", (long)words[0]);
        fflush(stdout);
    }
    return 0;
}
