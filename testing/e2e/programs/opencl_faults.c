/* Works until something breaks, and then says which code a call gave; `listen` also says what its
 * context is told. `steps N` computes and prints a digest. `fork` and `exit` try what a program
 * does at its end, `gate` data that waits for an event, `build` a build's results, `include
 * OPTIONS` a build with the header slow.h, `churn` whether objects that come and go leave
 * something behind. `idle`, `long-kernel` and `clogged` wait for nothing, for a kernel that takes
 * hours, and for copies behind one. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static cl_context context;
static cl_command_queue queue;
static cl_mem memory;

static void fail(const char *what, cl_int code) {
    printf("%s gave %d\n", what, code);
    exit(3);
}

static void late(void) {
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

static void CL_CALLBACK told(const char *text, const void *info, size_t size, void *user) {
    (void)info, (void)size, (void)user;
    printf("told: %s\n", text);
}

static const char *source = "// not a word of this is compiled anywhere else\n"
                            "kernel void twice(global int *a, int n) {\n"
                            "    a[get_global_id(0)] = n * FACTOR;\n"
                            "}\n";

static cl_program built(cl_device_id device) {
    cl_int code;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    if ((code = clBuildProgram(program, 1, &device, "-DFACTOR=2 -cl-kernel-arg-info", NULL, NULL)))
        fail("clBuildProgram", code);
    return program;
}

/* Builds, asks for the binary, and runs the kernel. */
static int build(cl_device_id device) {
    cl_int code, result = 0, n = 21;
    cl_program program = built(device);
    size_t size = 0, one = 1, kernels = 0;
    clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    unsigned char *binary = malloc(size + 1);
    code = clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL);
    clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof kernels, &kernels, NULL);
    printf("binary: %d, kernels: %zu\n", size > 0 ? code : -1, kernels);
    char name[64] = "";
    cl_kernel kernel = clCreateKernel(program, "twice", &code);
    clGetKernelArgInfo(kernel, 1, CL_KERNEL_ARG_NAME, sizeof name, name, NULL);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    clSetKernelArg(kernel, 1, sizeof n, &n);
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    code = clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof result, &result, 0, NULL, NULL);
    printf("%s: %d %d\n", name, code, result);
    return code != 0;
}

/* Makes and releases objects of every kind; stops before and after, for somebody to look. */
static int churn(cl_device_id device) {
    cl_program program = built(device);
    static char bytes[4096];
    cl_int code, n = 1;
    size_t one = 1;
    for (int i = 0; i < 6000; i++) {
        if (i == 1000) {
            puts("warm");
            getchar();
        }
        cl_command_queue q = clCreateCommandQueue(context, device, i & 1, &code);
        cl_mem m = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof bytes, bytes, &code);
        cl_event gate = clCreateUserEvent(context, &code), end;
        cl_kernel k = clCreateKernel(program, "twice", &code);
        clSetKernelArg(k, 0, sizeof m, &m);
        clSetKernelArg(k, 1, sizeof n, &n);
        code = clEnqueueNDRangeKernel(q, k, 1, NULL, &one, NULL, 1, &gate, &end);
        clSetUserEventStatus(gate, CL_COMPLETE);
        char *p = clEnqueueMapBuffer(q, m, CL_FALSE, CL_MAP_READ, 0, 64, 1, &end, NULL, NULL);
        clEnqueueUnmapMemObject(q, m, p, 0, NULL, NULL);
        code = code ? code : clFinish(q);
        clReleaseEvent(gate);
        clReleaseEvent(end);
        clReleaseKernel(k);
        clReleaseMemObject(m);
        clReleaseCommandQueue(q);
        if (code)
            fail("churning", code);
    }
    puts("done");
    getchar();
    return 0;
}

/* Starts a kernel that takes hours, and perhaps copies that have to wait for it; never returns. */
static void take_long(cl_device_id device, int copy) {
    const char *source = "kernel void turn(global volatile uint *p, ulong n) {"
                         "    for (ulong i = 0; i < n; i++)"
                         "        p[0] = p[0] * 5u + (uint)i;"
                         "}";
    cl_int code;
    cl_ulong turns = 1ull << 50;
    size_t one = 1, size = 64 << 20;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    if ((code = clBuildProgram(program, 1, &device, "", NULL, NULL)))
        fail("clBuildProgram", code);
    cl_kernel kernel = clCreateKernel(program, "turn", &code);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    clSetKernelArg(kernel, 1, sizeof turns, &turns);
    code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    if (code)
        fail("clEnqueueNDRangeKernel", code);
    cl_mem much = clCreateBuffer(context, 0, size, NULL, &code);
    char *from = calloc(size, 1);
    clFlush(queue);
    puts("busy");
    while (copy) {
        code = clEnqueueWriteBuffer(queue, much, CL_FALSE, 0, size, from, 0, NULL, NULL);
        if (code)
            fail("clEnqueueWriteBuffer", code);
    }
    fail("clFinish", clFinish(queue));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "work";
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(mode, "exit"))
        atexit(late);
    cl_platform_id platform;
    cl_device_id device;
    cl_int code = clGetPlatformIDs(1, &platform, NULL);
    if (code)
        fail("clGetPlatformIDs", code);
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    if (code)
        fail("clGetDeviceIDs", code);
    int listens = !strcmp(mode, "listen");
    context = clCreateContext(NULL, 1, &device, listens ? told : NULL, NULL, &code);
    if (code)
        fail("clCreateContext", code);
    queue = clCreateCommandQueue(context, device, 0, &code);
    memory = clCreateBuffer(context, 0, 1 << 20, NULL, &code);
    if (code)
        fail("clCreateBuffer", code);
    if (!strcmp(mode, "build"))
        return build(device);
    if (!strcmp(mode, "include")) {
        const char *text = "#include \"slow.h\"\n";
        cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &code);
        printf("building\n");
        return clBuildProgram(program, 1, &device, argv[2], NULL, NULL) != CL_SUCCESS;
    }
    if (!strcmp(mode, "churn"))
        return churn(device);
    if (!strcmp(mode, "idle")) {
        puts("idle");
        for (;;)
            pause();
    }
    if (!strcmp(mode, "long-kernel") || !strcmp(mode, "clogged"))
        take_long(device, !strcmp(mode, "clogged"));
    static char bytes[1 << 20];
    if (!strcmp(mode, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            code = clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, 4, bytes, 0, NULL, NULL);
            _exit(code ? 7 : 0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child: %d\n", WEXITSTATUS(status));
        code = clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, 4, bytes, 0, NULL, NULL);
        printf("parent: %d\n", code);
        return code != 0;
    }
    if (!strcmp(mode, "exit")) {
        printf("leaving\n");
        return 0;
    }
    if (!strcmp(mode, "gate")) {
        /* Much data waits for an event that is set only afterwards. */
        cl_mem much = clCreateBuffer(context, 0, 128 << 20, NULL, &code);
        char *from = malloc(128 << 20);
        memset(from, 5, 128 << 20);
        cl_event gate = clCreateUserEvent(context, &code);
        code = clEnqueueWriteBuffer(queue, much, CL_FALSE, 0, 128 << 20, from, 1, &gate, NULL);
        if (code)
            fail("clEnqueueWriteBuffer", code);
        code = clSetUserEventStatus(gate, CL_COMPLETE);
        memset(bytes, 0, sizeof bytes);
        code = clEnqueueReadBuffer(queue, much, CL_TRUE, 127 << 20, 1 << 20, bytes, 0, NULL, NULL);
        printf("gate: %d %d\n", code, bytes[12345]);
        return code != 0;
    }
    if (!strcmp(mode, "steps")) {
        /* Each step depends on all before it, and is read back. */
        const char *source = "kernel void churn(global uint *p, uint step) {"
                             "    size_t i = get_global_id(0);"
                             "    uint x = p[i] ^ (step * 2654435761u + (uint)i);"
                             "    p[i] = (x << 13 | x >> 19) * 5u + 0xe6546b64u;"
                             "}";
        cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
        code = clBuildProgram(program, 1, &device, "", NULL, NULL);
        if (code)
            fail("clBuildProgram", code);
        cl_kernel kernel = clCreateKernel(program, "churn", &code);
        if (code)
            fail("clCreateKernel", code);
        code = clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, sizeof bytes, bytes, 0, NULL, NULL);
        cl_uint digest = 0, steps = argc > 2 ? atoi(argv[2]) : 100;
        size_t all = sizeof bytes / 4;
        for (cl_uint step = 0; step < steps; step++) {
            clSetKernelArg(kernel, 0, sizeof memory, &memory);
            clSetKernelArg(kernel, 1, sizeof step, &step);
            code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &all, NULL, 0, NULL, NULL);
            if (code)
                fail("clEnqueueNDRangeKernel", code);
            code = clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof bytes, bytes, 0, NULL,
                                       NULL);
            if (code)
                fail("clEnqueueReadBuffer", code);
            for (size_t i = 0; i < all; i++)
                digest = (digest << 5 | digest >> 27) ^ ((cl_uint *)bytes)[i];
            if (step % 16 == 0)
                printf("step %u\n", step);
        }
        printf("digest %08x\n", digest);
        return 0;
    }
    printf("working\n");
    for (;;) {
        code = clEnqueueWriteBuffer(queue, memory, CL_FALSE, 0, sizeof bytes, bytes, 0, NULL, NULL);
        if (!code)
            code = clFinish(queue);
        // What the context is told comes from another thread.
        if (code && listens)
            sleep(2);
        if (code)
            fail("clFinish", code);
        usleep(1000);
    }
}
