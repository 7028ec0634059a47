/* Every family of the API, with output that depends on results alone: the native run and the run
 * through Busbar must print the same lines. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N 4096
#define OK(x)                                                                                      \
    do {                                                                                           \
        cl_int code_ = (x);                                                                        \
        if (code_) {                                                                               \
            printf("line %d: %s gave %d\n", __LINE__, #x, code_);                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define SHOW(x) printf("%s = %d\n", #x, (int)(x))

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue, loose;
static cl_program program;
static cl_int code;

static const char *source =
    "#define K 3\n"
    "kernel void scale(global int *x, int k) { x[get_global_id(0)] *= k; }\n"
    "kernel void sum(global const int *x, global int *y, local int *l) {\n"
    "  int i = get_local_id(0); l[i] = x[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  if (i == 0) { int s = 0; for (int j = 0; j < (int)get_local_size(0); j++) s += l[j];\n"
    "    y[get_group_id(0)] = s; } }\n"
    "kernel __attribute__((reqd_work_group_size(8, 1, 1))) void fixed8(global int *x) {\n"
    "  x[get_global_id(0)] = get_local_size(0); }\n"
    "typedef struct { int a; float b; char c; } item;\n"
    "kernel void by_value(global float *x, item v, float4 w) { x[0] = v.a + v.b + v.c + w.z; }\n"
    "kernel void say(int n) { printf(\"kernel says %d %s\\n\", n, \"hello\"); }\n"
    "constant sampler_t near = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE |"
    " CLK_FILTER_NEAREST;\n"
    "kernel void flip(read_only image2d_t a, write_only image2d_t b, sampler_t s) {\n"
    "  int2 p = (int2)(get_global_id(0), get_global_id(1));\n"
    "  int2 q = (int2)(get_image_width(a) - 1 - p.x, p.y);\n"
    "  write_imageui(b, p, read_imageui(a, s, q) + read_imageui(a, near, q)); }\n"
    "kernel void null_ok(global int *x, global int *out) { out[0] = x ? 1 : 2; }\n";

static void callback(cl_event e, cl_int status, void *user) {
    (void)e;
    __atomic_store_n((int *)user, status == CL_COMPLETE ? 100 : status, __ATOMIC_SEQ_CST);
}

/* Waits until a callback has counted so far; on a busy machine a build may take its time. */
static void wait_for(int *counter, int least) {
    for (int i = 0; i < 60000 && __atomic_load_n(counter, __ATOMIC_SEQ_CST) < least; i++)
        usleep(1000);
    if (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < least) {
        printf("a callback did not come\n");
        exit(1);
    }
}

static cl_mem ints(cl_mem_flags flags, int *init) {
    cl_mem m = clCreateBuffer(context, flags, N * sizeof(int), init, &code);
    OK(code);
    return m;
}

static long total(const int *x, int n) {
    long s = 0;
    for (int i = 0; i < n; i++)
        s += (long)x[i] * (i % 7 + 1);
    return s;
}

static void run(cl_kernel k, size_t n) {
    OK(clEnqueueNDRangeKernel(queue, k, 1, NULL, &n, NULL, 0, NULL, NULL));
}

static void buffers(void) {
    int *a = aligned_alloc(4096, N * sizeof(int)), *b = malloc(N * sizeof(int));
    for (int i = 0; i < N; i++)
        a[i] = i;
    cl_mem copy = ints(CL_MEM_COPY_HOST_PTR, a), use = ints(CL_MEM_USE_HOST_PTR, a);
    cl_mem host = ints(CL_MEM_ALLOC_HOST_PTR, NULL);
    cl_kernel scale = clCreateKernel(program, "scale", &code);
    OK(code);
    int k = 3;
    OK(clSetKernelArg(scale, 0, sizeof use, &use));
    OK(clSetKernelArg(scale, 1, sizeof k, &k));
    run(scale, N);
    int *p = clEnqueueMapBuffer(queue, use, CL_TRUE, CL_MAP_READ, 400, 800, 0, NULL, NULL, &code);
    OK(code);
    printf("map of the program's own memory: %d %d\n", (char *)p - (char *)a == 400, p[5]);
    OK(clEnqueueUnmapMemObject(queue, use, p, 0, NULL, NULL));
    p = clEnqueueMapBuffer(queue, host, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, N * 4, 0, NULL,
                           NULL, &code);
    OK(code);
    for (int i = 0; i < N; i++)
        p[i] = N - i;
    cl_uint maps;
    OK(clGetMemObjectInfo(host, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
    SHOW(maps);
    OK(clEnqueueUnmapMemObject(queue, host, p, 0, NULL, NULL));
    OK(clEnqueueCopyBuffer(queue, host, copy, 0, 1024, 2048, 0, NULL, NULL));
    int pattern[2] = {7, 9};
    OK(clEnqueueFillBuffer(queue, copy, pattern, sizeof pattern, 64, 128, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(queue, copy, CL_TRUE, 0, N * 4, b, 0, NULL, NULL));
    printf("copy and fill: %ld\n", total(b, N));
    cl_buffer_region region = {1024, 1024};
    cl_mem sub = clCreateSubBuffer(copy, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    OK(code);
    OK(clSetKernelArg(scale, 0, sizeof sub, &sub));
    run(scale, 256);
    OK(clEnqueueMigrateMemObjects(queue, 1, &copy, 0, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(queue, copy, CL_TRUE, 0, N * 4, b, 0, NULL, NULL));
    printf("part of a buffer: %ld\n", total(b, N));
    int other[1024];
    for (int i = 0; i < 1024; i++)
        other[i] = i * 5;
    size_t bo[3] = {8, 2, 1}, ho[3] = {4, 1, 0}, r[3] = {16, 5, 3};
    memset(b, 0, N * 4);
    OK(clEnqueueReadBufferRect(queue, copy, CL_TRUE, bo, ho, r, 64, 64 * 8, 48, 48 * 7, b, 0, NULL,
                               NULL));
    printf("box read: %ld\n", total(b, N));
    OK(clEnqueueWriteBufferRect(queue, copy, CL_FALSE, ho, bo, r, 32, 32 * 8, 64, 64 * 8, other, 0,
                                NULL, NULL));
    size_t far[3] = {0, 0, 16};
    OK(clEnqueueCopyBufferRect(queue, copy, copy, ho, far, r, 32, 256, 32, 256, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(queue, copy, CL_TRUE, 0, N * 4, b, 0, NULL, NULL));
    printf("box write and copy: %ld\n", total(b, N));
    SHOW(clEnqueueReadBuffer(queue, copy, CL_TRUE, N * 4 - 4, 8, b, 0, NULL, NULL));
    SHOW(clEnqueueCopyBuffer(queue, copy, copy, 0, 8, 16, 0, NULL, NULL));
    SHOW(clSetKernelArg(scale, 2, 4, &k));
    SHOW(clSetKernelArg(scale, 1, 8, b));
    SHOW(clSetKernelArg(scale, 0, 4, &copy));
    cl_kernel clone = clCloneKernel(scale, &code);
    OK(code);
    run(clone, 16);
    OK(clEnqueueReadBuffer(queue, sub, CL_TRUE, 0, 1024, b, 0, NULL, NULL));
    printf("clone: %ld\n", total(b, 256));
    OK(clReleaseKernel(clone));
    OK(clReleaseKernel(scale));
    OK(clReleaseMemObject(copy));
    OK(clReleaseMemObject(sub));
    OK(clReleaseMemObject(use));
    OK(clReleaseMemObject(host));
    free(a);
    free(b);
}

static void big(void) {
    size_t n = 5 * 1024 * 1024 + 123;
    unsigned char *a = malloc(n), *b = malloc(n);
    for (size_t i = 0; i < n; i++)
        a[i] = (unsigned char)(i * 2654435761u >> 13);
    cl_mem m = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, n, a, &code);
    OK(code);
    OK(clEnqueueReadBuffer(queue, m, CL_TRUE, 0, n, b, 0, NULL, NULL));
    SHOW(memcmp(a, b, n));
    for (size_t i = 0; i < n; i++)
        a[i] ^= 0x5a;
    cl_event w, r;
    OK(clEnqueueWriteBuffer(queue, m, CL_FALSE, 0, n, a, 0, NULL, &w));
    OK(clEnqueueReadBuffer(loose, m, CL_FALSE, 0, n, b, 1, &w, &r));
    OK(clFlush(queue));
    OK(clWaitForEvents(1, &r));
    SHOW(memcmp(a, b, n));
    OK(clReleaseEvent(w));
    OK(clReleaseEvent(r));
    OK(clReleaseMemObject(m));
    free(a);
    free(b);
}

static void events(void) {
    int x[N], k = 2, flag = 0;
    static int second;
    for (int i = 0; i < N; i++)
        x[i] = i;
    cl_mem m = ints(CL_MEM_COPY_HOST_PTR, x);
    cl_kernel scale = clCreateKernel(program, "scale", &code);
    OK(code);
    OK(clSetKernelArg(scale, 0, sizeof m, &m));
    OK(clSetKernelArg(scale, 1, sizeof k, &k));
    cl_event gate = clCreateUserEvent(context, &code), e[3], mark;
    OK(code);
    size_t n = N;
    OK(clEnqueueNDRangeKernel(loose, scale, 1, NULL, &n, NULL, 1, &gate, &e[0]));
    OK(clEnqueueNDRangeKernel(loose, scale, 1, NULL, &n, NULL, 1, &e[0], &e[1]));
    OK(clEnqueueReadBuffer(loose, m, CL_FALSE, 0, sizeof x, x, 1, &e[1], &e[2]));
    OK(clSetEventCallback(e[2], CL_COMPLETE, callback, &flag));
    OK(clEnqueueMarkerWithWaitList(queue, 1, &e[2], &mark));
    cl_int state;
    OK(clGetEventInfo(e[0], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    printf("gated: %d\n", state > CL_COMPLETE);
    OK(clFlush(loose));
    OK(clSetUserEventStatus(gate, CL_COMPLETE));
    SHOW(clSetUserEventStatus(gate, CL_COMPLETE));
    OK(clWaitForEvents(1, &mark));
    wait_for(&flag, 1);
    printf("after the gate: %ld, callback %d\n", total(x, N), flag);
    cl_command_type type;
    OK(clGetEventInfo(e[2], CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    SHOW(type == CL_COMMAND_READ_BUFFER);
    cl_ulong t[4];
    for (int i = 0; i < 4; i++)
        OK(clGetEventProfilingInfo(e[1], CL_PROFILING_COMMAND_QUEUED + i, 8, &t[i], NULL));
    printf("times in order: %d\n", t[0] <= t[1] && t[1] <= t[2] && t[2] <= t[3]);
    for (int i = 0; i < 3; i++)
        OK(clReleaseEvent(e[i]));
    OK(clReleaseEvent(mark));
    OK(clReleaseEvent(gate));
    gate = clCreateUserEvent(context, &code);
    OK(code);
    OK(clSetEventCallback(gate, CL_COMPLETE, callback, &second));
    OK(clSetUserEventStatus(gate, -5));
    /* PoCL forgets the callback of a failed event, so its coming is not compared. */
    printf("failed user event: wait %d\n", clWaitForEvents(1, &gate));
    OK(clReleaseEvent(gate));
    SHOW(clWaitForEvents(0, NULL));
    SHOW(clEnqueueMarkerWithWaitList(queue, 1, NULL, NULL));
    OK(clReleaseKernel(scale));
    OK(clReleaseMemObject(m));
}

static void kernels(void) {
    int x[N], y[N / 64];
    for (int i = 0; i < N; i++)
        x[i] = i * 3 % 101;
    cl_mem a = ints(CL_MEM_COPY_HOST_PTR, x), b = ints(0, NULL);
    cl_kernel k = clCreateKernel(program, "sum", &code);
    OK(code);
    OK(clSetKernelArg(k, 0, sizeof a, &a));
    OK(clSetKernelArg(k, 1, sizeof b, &b));
    size_t n = N, local = 64, odd = 60;
    SHOW(clEnqueueNDRangeKernel(queue, k, 1, NULL, &n, &local, 0, NULL, NULL));
    SHOW(clSetKernelArg(k, 2, 256, x));
    OK(clSetKernelArg(k, 2, 64 * sizeof(int), NULL));
    OK(clEnqueueNDRangeKernel(queue, k, 1, NULL, &n, &local, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
    printf("sums: %ld\n", total(y, N / 64));
    (void)odd;
    char name[64];
    cl_uint args;
    OK(clGetKernelInfo(k, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL));
    OK(clGetKernelInfo(k, CL_KERNEL_NUM_ARGS, sizeof args, &args, NULL));
    printf("%s has %u arguments:", name, args);
    for (cl_uint i = 0; i < args; i++) {
        cl_kernel_arg_address_qualifier where;
        char type[64];
        OK(clGetKernelArgInfo(k, i, CL_KERNEL_ARG_NAME, sizeof name, name, NULL));
        OK(clGetKernelArgInfo(k, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL));
        OK(clGetKernelArgInfo(k, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, NULL));
        printf(" %s %s %x", type, name, where);
    }
    printf("\n");
    cl_ulong bytes;
    OK(clGetKernelWorkGroupInfo(k, device, CL_KERNEL_LOCAL_MEM_SIZE, 8, &bytes, NULL));
    printf("local memory: %d\n", bytes >= 256);
    OK(clReleaseKernel(k));
    k = clCreateKernel(program, "fixed8", &code);
    OK(code);
    OK(clSetKernelArg(k, 0, sizeof b, &b));
    SHOW(clEnqueueNDRangeKernel(queue, k, 1, NULL, &n, &local, 0, NULL, NULL));
    local = 8;
    SHOW(clEnqueueNDRangeKernel(queue, k, 1, NULL, &n, &local, 0, NULL, NULL));
    size_t fixed[3];
    OK(clGetKernelWorkGroupInfo(k, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof fixed, fixed,
                                NULL));
    printf("fixed at %zu %zu %zu\n", fixed[0], fixed[1], fixed[2]);
    OK(clReleaseKernel(k));
    struct {
        int a;
        float b;
        char c;
    } item = {1, 2.5f, 3};
    cl_float4 w = {{0, 0, 10, 0}};
    float f;
    k = clCreateKernel(program, "by_value", &code);
    OK(code);
    OK(clSetKernelArg(k, 0, sizeof b, &b));
    OK(clSetKernelArg(k, 1, sizeof item, &item));
    OK(clSetKernelArg(k, 2, sizeof w, &w));
    OK(clEnqueueTask(queue, k, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, sizeof f, &f, 0, NULL, NULL));
    printf("by value: %.2f\n", f);
    OK(clReleaseKernel(k));
    k = clCreateKernel(program, "null_ok", &code);
    OK(code);
    OK(clSetKernelArg(k, 0, sizeof(cl_mem), NULL));
    OK(clSetKernelArg(k, 1, sizeof b, &b));
    run(k, 1);
    OK(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 4, y, 0, NULL, NULL));
    printf("null argument: %d\n", y[0]);
    OK(clReleaseKernel(k));
    k = clCreateKernel(program, "say", &code);
    OK(code);
    for (int i = 0; i < 3; i++) {
        OK(clSetKernelArg(k, 0, sizeof i, &i));
        run(k, 1);
        OK(clFinish(queue));
        printf("host says %d\n", i);
        fflush(stdout);
    }
    OK(clReleaseKernel(k));
    clCreateKernel(program, "no_such", &code);
    SHOW(code);
    size_t many;
    char names[256];
    OK(clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof many, &many, NULL));
    OK(clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL));
    printf("%zu kernels: %s\n", many, names);
    OK(clReleaseMemObject(a));
    OK(clReleaseMemObject(b));
}

static void images(void) {
    enum { W = 33, H = 17 };
    unsigned char *in = malloc(W * H * 4 + H * 28), *out = calloc(1, W * H * 4);
    for (int i = 0; i < W * H * 4 + H * 28; i++)
        in[i] = (unsigned char)(i * 31 % 101);
    cl_image_format f = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc d = {0};
    d.image_type = CL_MEM_OBJECT_IMAGE2D;
    d.image_width = W;
    d.image_height = H;
    cl_uint formats;
    OK(clGetSupportedImageFormats(context, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D, 0, NULL,
                                  &formats));
    SHOW(formats);
    cl_mem b = clCreateImage(context, CL_MEM_WRITE_ONLY, &f, &d, NULL, &code);
    OK(code);
    d.image_row_pitch = W * 4 + 28;
    cl_mem a = clCreateImage(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &f, &d, in, &code);
    OK(code);
    size_t width, element;
    OK(clGetImageInfo(a, CL_IMAGE_WIDTH, sizeof width, &width, NULL));
    OK(clGetImageInfo(a, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL));
    printf("image %zu %zu\n", width, element);
    cl_sampler s = clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &code);
    OK(code);
    cl_kernel k = clCreateKernel(program, "flip", &code);
    OK(code);
    OK(clSetKernelArg(k, 0, sizeof a, &a));
    OK(clSetKernelArg(k, 1, sizeof b, &b));
    OK(clSetKernelArg(k, 2, sizeof s, &s));
    size_t n[2] = {W, H}, o[3] = {0}, r[3] = {W, H, 1}, o2[3] = {3, 2, 0}, r2[3] = {8, 5, 1};
    OK(clEnqueueNDRangeKernel(queue, k, 2, NULL, n, NULL, 0, NULL, NULL));
    OK(clEnqueueReadImage(queue, b, CL_TRUE, o, r, 0, 0, out, 0, NULL, NULL));
    printf("flipped: %ld\n", total((int *)out, W * H));
    unsigned color[4] = {1, 2, 3, 4};
    OK(clEnqueueFillImage(queue, b, color, o2, r2, 0, NULL, NULL));
    size_t pitch;
    unsigned char *p = clEnqueueMapImage(queue, b, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, o2, r2,
                                         &pitch, NULL, 0, NULL, NULL, &code);
    OK(code);
    printf("mapped: %d %d\n", p[0], p[pitch + 5]);
    p[pitch + 5] = 99;
    OK(clEnqueueUnmapMemObject(queue, b, p, 0, NULL, NULL));
    OK(clEnqueueWriteImage(queue, b, CL_FALSE, o, r2, 64, 0, in, 0, NULL, NULL));
    cl_mem flat = ints(0, NULL);
    OK(clEnqueueCopyImageToBuffer(queue, b, flat, o, r, 16, 0, NULL, NULL));
    OK(clEnqueueCopyBufferToImage(queue, flat, b, 64, o2, r2, 0, NULL, NULL));
    cl_mem c = clCreateImage2D(context, CL_MEM_READ_WRITE, &f, W, H, 0, NULL, &code);
    OK(code);
    OK(clEnqueueCopyImage(queue, b, c, o, o, r, 0, NULL, NULL));
    memset(out, 0, W * H * 4);
    OK(clEnqueueReadImage(queue, c, CL_TRUE, o2, r2, 64, 0, out, 0, NULL, NULL));
    printf("copied: %ld\n", total((int *)out, W * H));
    SHOW(clEnqueueReadImage(queue, c, CL_TRUE, o2, r, 0, 0, out, 0, NULL, NULL));
    /* What a kind of image has not may hold anything. */
    memset(&d, 0xcd, sizeof d);
    d.image_type = CL_MEM_OBJECT_IMAGE1D;
    d.image_width = W;
    d.image_row_pitch = d.image_slice_pitch = 0;
    d.num_mip_levels = d.num_samples = 0;
    d.mem_object = NULL;
    cl_mem line = clCreateImage(context, CL_MEM_READ_WRITE, &f, &d, NULL, &code);
    OK(code);
    size_t one[3] = {W, 1, 1}, sizes[3];
    OK(clEnqueueWriteImage(queue, line, CL_TRUE, o, one, 0, 0, in, 0, NULL, NULL));
    memset(out, 0, W * 4);
    OK(clEnqueueReadImage(queue, line, CL_TRUE, o, one, 0, 0, out, 0, NULL, NULL));
    OK(clGetImageInfo(line, CL_IMAGE_HEIGHT, sizeof(size_t), &sizes[0], NULL));
    OK(clGetImageInfo(line, CL_IMAGE_DEPTH, sizeof(size_t), &sizes[1], NULL));
    OK(clGetImageInfo(line, CL_IMAGE_ARRAY_SIZE, sizeof(size_t), &sizes[2], NULL));
    printf("a line: %ld %zu\n", total((int *)out, W), sizes[0] + sizes[1] + sizes[2]);
    OK(clReleaseMemObject(line));
    OK(clReleaseSampler(s));
    OK(clReleaseKernel(k));
    OK(clReleaseMemObject(a));
    OK(clReleaseMemObject(b));
    OK(clReleaseMemObject(c));
    OK(clReleaseMemObject(flat));
    free(in);
    free(out);
}

static void built(cl_program p, void *user) {
    (void)p;
    __atomic_store_n((int *)user, 1, __ATOMIC_SEQ_CST);
}

static int answer(cl_program p, const char *name) {
    int v = 0;
    cl_kernel k = clCreateKernel(p, name, &code);
    OK(code);
    cl_mem m = ints(0, NULL);
    OK(clSetKernelArg(k, 0, sizeof m, &m));
    run(k, 1);
    OK(clEnqueueReadBuffer(queue, m, CL_TRUE, 0, 4, &v, 0, NULL, NULL));
    OK(clReleaseMemObject(m));
    OK(clReleaseKernel(k));
    return v;
}

static void programs(void) {
    char dir[] = "/tmp/busbar-e2e-XXXXXX", path[256], options[300];
    if (!mkdtemp(dir))
        exit(1);
    snprintf(path, sizeof path, "%s/inner.h", dir);
    FILE *f = fopen(path, "w");
    fputs("#define INNER 40\n", f);
    fclose(f);
    snprintf(options, sizeof options, "-I %s -DADD=2", dir);
    const char *with = "#include \"inner.h\"\nkernel void k(global int *x) { *x = INNER + ADD; }";
    cl_program p = clCreateProgramWithSource(context, 1, &with, NULL, &code);
    OK(code);
    int done = 0;
    OK(clBuildProgram(p, 1, &device, options, built, &done));
    wait_for(&done, 1);
    cl_build_status status;
    OK(clGetProgramBuildInfo(p, device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL));
    printf("built with headers: %d %d, answer %d\n", done, status, answer(p, "k"));
    // A name that macros put together, of a whole path.
    snprintf(options, sizeof options, "-D DIR=%s -D STRING(x)=QUOTED(x)", dir);
    const char *made = "#define QUOTED(x) #x\n#include STRING(DIR/inner.h)\n"
                       "kernel void k(global int *x) { *x = INNER + 5; }";
    cl_program q = clCreateProgramWithSource(context, 1, &made, NULL, &code);
    OK(code);
    OK(clBuildProgram(q, 0, NULL, options, NULL, NULL));
    printf("built with a header that macros name: answer %d\n", answer(q, "k"));
    OK(clReleaseProgram(q));
    // One that lies where the program is.
    char *before = getcwd(NULL, 0);
    if (!before || chdir(dir))
        exit(1);
    q = clCreateProgramWithSource(context, 1, &with, NULL, &code);
    OK(code);
    SHOW(clBuildProgram(q, 0, NULL, "-DADD=7", NULL, NULL));
    printf("built with a header of the folder: answer %d\n", answer(q, "k"));
    OK(clReleaseProgram(q));
    if (chdir(before))
        exit(1);
    free(before);
    unlink(path);
    rmdir(dir);
    size_t size;
    OK(clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL));
    unsigned char *binary = malloc(size);
    OK(clGetProgramInfo(p, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
    cl_int loaded;
    q = clCreateProgramWithBinary(context, 1, &device, &size, (const unsigned char **)&binary,
                                  &loaded, &code);
    OK(code);
    OK(clBuildProgram(q, 0, NULL, NULL, NULL, NULL));
    printf("from a binary: %d, answer %d\n", loaded, answer(q, "k"));
    OK(clReleaseProgram(q));
    OK(clReleaseProgram(p));
    free(binary);
    const char *bad = "kernel void k(global int *x) { *x = nothing; }";
    p = clCreateProgramWithSource(context, 1, &bad, NULL, &code);
    OK(code);
    SHOW(clBuildProgram(p, 0, NULL, "", NULL, NULL));
    char log[4096] = "";
    OK(clGetProgramBuildInfo(p, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
    printf("the log names it: %d\n", strstr(log, "nothing") != NULL);
    OK(clGetProgramBuildInfo(p, device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL));
    SHOW(status);
    clCreateKernel(p, "k", &code);
    SHOW(code);
    OK(clReleaseProgram(p));
    const char *one = "#include \"h.h\"\nint helper(void) { return H; }";
    const char *two = "int helper(void);\nkernel void k(global int *x) { *x = helper(); }";
    const char *header = "#define H 77\n", *name = "h.h";
    cl_program parts[2], h = clCreateProgramWithSource(context, 1, &header, NULL, &code);
    OK(code);
    parts[0] = clCreateProgramWithSource(context, 1, &one, NULL, &code);
    OK(code);
    parts[1] = clCreateProgramWithSource(context, 1, &two, NULL, &code);
    OK(code);
    OK(clCompileProgram(parts[0], 0, NULL, NULL, 1, &h, &name, NULL, NULL));
    OK(clCompileProgram(parts[1], 0, NULL, NULL, 0, NULL, NULL, NULL, NULL));
    p = clLinkProgram(context, 0, NULL, NULL, 2, parts, NULL, NULL, &code);
    OK(code);
    printf("compiled and linked: answer %d\n", answer(p, "k"));
    OK(clReleaseProgram(p));
    OK(clReleaseProgram(h));
    OK(clReleaseProgram(parts[0]));
    OK(clReleaseProgram(parts[1]));
    // A source without a byte is one, too.
    const char *nothing = "";
    for (int built = 0; built < 2; built++) {
        p = clCreateProgramWithSource(context, 1, &nothing, NULL, &code);
        OK(code);
        SHOW(built ? clBuildProgram(p, 0, NULL, NULL, NULL, NULL)
                   : clCompileProgram(p, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL));
        size_t bytes = 0;
        OK(clGetProgramInfo(p, CL_PROGRAM_SOURCE, 0, NULL, &bytes));
        printf("bytes of it: %d\n", (int)bytes);
        OK(clReleaseProgram(p));
    }
}

static int gone[2], gone_count;

static void destroyed(cl_mem m, void *user) {
    (void)m;
    gone[gone_count] = *(int *)user;
    __atomic_fetch_add(&gone_count, 1, __ATOMIC_SEQ_CST);
}

static void svm(void) {
    int *p = clSVMAlloc(context, CL_MEM_READ_WRITE, N * sizeof(int), 0);
    printf("shared memory: %d\n", p != NULL);
    if (!p)
        return;
    OK(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, p, N * 4, 0, NULL, NULL));
    for (int i = 0; i < N; i++)
        p[i] = i;
    OK(clEnqueueSVMUnmap(queue, p, 0, NULL, NULL));
    cl_kernel k = clCreateKernel(program, "scale", &code);
    OK(code);
    int by = 5, back[16];
    OK(clSetKernelArgSVMPointer(k, 0, p));
    OK(clSetKernelArg(k, 1, sizeof by, &by));
    run(k, N);
    OK(clEnqueueSVMMemFill(queue, p + 8, &by, sizeof by, 16, 0, NULL, NULL));
    OK(clEnqueueSVMMemcpy(queue, CL_TRUE, back, p + 4, sizeof back, 0, NULL, NULL));
    printf("copied out: %ld\n", total(back, 16));
    OK(clEnqueueSVMMemcpy(queue, CL_FALSE, p + 100, back, sizeof back, 0, NULL, NULL));
    OK(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, p, N * 4, 0, NULL, NULL));
    printf("mapped: %ld\n", total(p, N));
    OK(clEnqueueSVMUnmap(queue, p, 0, NULL, NULL));
    // What comes to the host is there without a map: the whole of it, and a part.
    const void *whole = p, *part = p + 8;
    size_t bytes = 32;
    cl_event came;
    run(k, N);
    OK(clEnqueueSVMMigrateMem(queue, 1, &whole, NULL, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, &came));
    OK(clWaitForEvents(1, &came));
    printf("came: %ld\n", total(p, N));
    run(k, N);
    OK(clEnqueueSVMMigrateMem(queue, 1, &part, &bytes, CL_MIGRATE_MEM_OBJECT_HOST, 1, &came, NULL));
    OK(clFinish(queue));
    printf("came: %ld\n", total(p + 8, 8));
    OK(clReleaseEvent(came));
    clSVMFree(context, p);
    OK(clReleaseKernel(k));
}

static void rest(void) {
    int first = 1, second = 2;
    cl_mem m = ints(0, NULL);
    OK(clSetMemObjectDestructorCallback(m, destroyed, &first));
    OK(clSetMemObjectDestructorCallback(m, destroyed, &second));
    OK(clReleaseMemObject(m));
    wait_for(&gone_count, 2);
    printf("destructors: %d %d\n", gone[0], gone[1]);
    cl_uint units;
    OK(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    cl_device_partition_property by[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_id parts[256];
    cl_uint n = 0;
    code = units > 1 ? clCreateSubDevices(device, by, 256, parts, &n) : 0;
    printf("parts of the device: %d %d\n", code, n == units || units == 1);
    if (n) {
        cl_device_id whole;
        OK(clGetDeviceInfo(parts[0], CL_DEVICE_PARENT_DEVICE, sizeof whole, &whole, NULL));
        printf("parent: %d\n", whole == device);
        cl_context c = clCreateContext(NULL, 1, parts, NULL, NULL, &code);
        OK(code);
        cl_command_queue q = clCreateCommandQueue(c, parts[0], 0, &code);
        OK(code);
        OK(clFinish(q));
        OK(clReleaseCommandQueue(q));
        OK(clReleaseContext(c));
        for (cl_uint i = 0; i < n; i++)
            OK(clReleaseDevice(parts[i]));
    }
    clCreateBuffer(context, 0, 0, NULL, &code);
    SHOW(code);
    clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 16, NULL, &code);
    SHOW(code);
    clCreateBuffer(NULL, 0, 16, NULL, &code);
    SHOW(code);
    SHOW(clGetDeviceInfo(device, 0x7777, 0, NULL, NULL));
    cl_uint refs;
    OK(clRetainContext(context));
    OK(clReleaseContext(context));
    (void)refs;
}

static void *worker(void *arg) {
    int x[N], k = 2;
    for (int i = 0; i < N; i++)
        x[i] = i + (int)(size_t)arg;
    cl_mem m = ints(CL_MEM_COPY_HOST_PTR, x);
    cl_int e;
    cl_command_queue q = clCreateCommandQueue(context, device, 0, &e);
    OK(e);
    cl_kernel scale = clCreateKernel(program, "scale", &e);
    OK(e);
    OK(clSetKernelArg(scale, 0, sizeof m, &m));
    OK(clSetKernelArg(scale, 1, sizeof k, &k));
    size_t n = N;
    for (int i = 0; i < 5; i++)
        OK(clEnqueueNDRangeKernel(q, scale, 1, NULL, &n, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    OK(clReleaseKernel(scale));
    OK(clReleaseCommandQueue(q));
    OK(clReleaseMemObject(m));
    return (void *)total(x, N);
}

int main(void) {
    /* A driver may print past the program's buffer. */
    setvbuf(stdout, NULL, _IONBF, 0);
    OK(clGetPlatformIDs(1, &platform, NULL));
    OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    // Programs have all kinds in a number with a sign.
    cl_uint kinds = 0;
    SHOW(clGetDeviceIDs(platform, (cl_device_type)-1, 0, NULL, &kinds));
    printf("devices of all kinds: %d\n", kinds > 0);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    OK(code);
    queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
    OK(code);
    loose = clCreateCommandQueue(
        context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE, &code);
    OK(code);
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    OK(code);
    OK(clBuildProgram(program, 0, NULL, "-cl-kernel-arg-info", NULL, NULL));
    buffers();
    big();
    events();
    kernels();
    images();
    programs();
    svm();
    rest();
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(t[i], &sum);
        printf("thread %d: %ld\n", i, (long)sum);
    }
    OK(clReleaseProgram(program));
    OK(clReleaseCommandQueue(queue));
    OK(clReleaseCommandQueue(loose));
    OK(clReleaseContext(context));
    printf("done\n");
    return 0;
}
