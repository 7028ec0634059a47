// What variables of the driver's change: each case is a process of its own, which this starts
// again with the variable set. Prints what each call says, and what still runs behind it, and how
// many lines of the log end in which error (a driver also says why, which a client cannot).
#include "tell.h"
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

static const char PTX[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry spin(.param .u64 cycles) {
    .reg .u64 %r<4>;
    .reg .pred %p;
    ld.param.u64 %r1, [cycles];
    mov.u64 %r2, %clock64;
again:
    mov.u64 %r3, %clock64;
    sub.u64 %r3, %r3, %r2;
    setp.lt.u64 %p, %r3, %r1;
    @%p bra again;
    ret;
}
.visible .entry fault(.param .u64 at) {
    .reg .u64 %r<2>;
    ld.param.u64 %r1, [at];
    st.global.u64 [%r1], %r1;
    ret;
}
)";

__global__ void own() {}

static CUstream stream, other;
static CUfunction spin, fault;

static void begin() {
    CUdevice device;
    CUcontext context;
    DRIVER(cuInit(0));
    DRIVER(cuDeviceGet(&device, 0));
    DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    DRIVER(cuCtxSetCurrent(context));
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
}

static void kernels() {
    CUmodule m;
    DRIVER(cuModuleLoadData(&m, PTX));
    DRIVER(cuModuleGetFunction(&spin, m, "spin"));
    DRIVER(cuModuleGetFunction(&fault, m, "fault"));
}

/// Whether the call has waited for what it began.
static void after(const char *what, CUresult rc, CUstream of) {
    CUresult now = cuStreamQuery(of);
    printf("%s: %d, %s\n", what, rc, now ? now == CUDA_ERROR_NOT_READY ? "runs" : "?" : "done");
    printf("  synchronize: %d\n", cuStreamSynchronize(of));
}

static void CUDA_CB sleeps(void *) { usleep(100000); }
// Longer than a kernel takes, also on a busy machine.
static void CUDA_CB sleeps_long(void *) { sleep(2); }

static void launches() {
    begin();
    kernels();
    unsigned long long cycles = 100'000'000;
    void *params[] = {&cycles};
#define LAUNCH(s) cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, s, params, nullptr)
    DRIVER(LAUNCH(stream));
    DRIVER(cuStreamSynchronize(stream));
    after("kernel", LAUNCH(stream), stream);
    after("kernel of the default stream", LAUNCH(nullptr), nullptr);
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, nullptr, 0};
    after("kernel, extended", cuLaunchKernelEx(&config, spin, params, nullptr), stream);
    after("kernel, cooperative",
          cuLaunchCooperativeKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params), stream);
    CUgraph graph;
    CUgraphExec exec;
    DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("kernel, captured: %d\n", LAUNCH(stream));
    DRIVER(cuStreamEndCapture(stream, &graph));
    DRIVER(cuGraphInstantiate(&exec, graph, 0));
    DRIVER(cuGraphUpload(exec, stream));
    DRIVER(cuStreamSynchronize(stream));
    after("graph", cuGraphLaunch(exec, stream), stream);
    after("function", cuLaunchHostFunc(stream, sleeps, nullptr), stream);
    const size_t big = (size_t)4 << 30, some = (size_t)256 << 20;
    CUdeviceptr a, b;
    void *host;
    DRIVER(cuMemAlloc(&a, big));
    DRIVER(cuMemAlloc(&b, big));
    DRIVER(cuMemAllocHost(&host, some));
    memset(host, 1, some);
    after("set", cuMemsetD8Async(a, 1, big, stream), stream);
    after("copy", cuMemcpyDtoDAsync(b, a, big, stream), stream);
    after("copy in", cuMemcpyHtoDAsync(a, host, some, stream), stream);
    after("copy out", cuMemcpyDtoHAsync(host, a, some, stream), stream);
    // Is what was begun elsewhere waited for?
    DRIVER(cuLaunchHostFunc(other, sleeps_long, nullptr));
    after("kernel beside a function", LAUNCH(stream), stream);
    printf("  the function: %s\n", cuStreamQuery(other) ? "runs" : "done");
    DRIVER(cuStreamSynchronize(other));
    unsigned long long nowhere = 64;
    void *at[] = {&nowhere};
    SAY(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, stream, at, nullptr));
    SAY(LAUNCH(stream));
    SAY(cuStreamSynchronize(stream));
}

static void code() {
    begin();
    CUmodule m;
    CUlinkState state;
    void *cubin;
    size_t size;
    SAY(cuModuleLoadData(&m, PTX));
    SAY(cuLinkCreate(0, nullptr, nullptr, &state));
    SAY(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)PTX, sizeof PTX, "k", 0, nullptr, nullptr));
    if (SAY(cuLinkComplete(state, &cubin, &size)) == CUDA_SUCCESS)
        SAY(cuModuleLoadData(&m, cubin));
    CUmoduleLoadingMode mode;
    SAY(cuModuleGetLoadingMode(&mode));
    printf("loading mode %d\n", mode);
    // A kernel of this program's own, which is there as code and as PTX.
    cudaFuncAttributes of;
    SAY(cudaFuncGetAttributes(&of, (void *)own));
}

/// With one queue for all streams, what comes behind a kernel's successor waits for it.
static void connections() {
    begin();
    kernels();
    unsigned long long cycles = 1'000'000'000, little = 1000;
    void *params[] = {&cycles}, *few[] = {&little};
    DRIVER(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, other, few, nullptr));
    DRIVER(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, few, nullptr));
    DRIVER(cuCtxSynchronize());
    DRIVER(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
    DRIVER(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, few, nullptr));
    DRIVER(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, other, few, nullptr));
    usleep(100000);
    printf("%s\n", cuStreamQuery(other) ? "one after another" : "side by side");
    DRIVER(cuCtxSynchronize());
}

static void lines() {
    begin();
    CUdeviceptr p;
    SAY(cuMemAlloc(&p, 0));
    SAY(cuMemFree(64));
    SAY(cuStreamCreate(&stream, 64));
    SAY(cuStreamQuery(nullptr));
    SAY(cuCtxSetLimit((CUlimit)99, 1));
    const char *path = getenv("CUDA_LOG_FILE");
    FILE *log = path ? fopen(path, "r") : nullptr;
    char line[4096];
    while (log && fgets(line, sizeof line, log))
        if (const char *returns = strstr(line, "Returning")) printf("logged: %s", returns);
    if (path) unlink(path);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (argc > 2) {
            DRIVER(cuInit(0));
            setenv(argv[2], argv[3], 1);
        }
        void (*what[])() = {launches, code, connections, lines};
        what[atoi(argv[1])]();
        return 0;
    }
    const char *cases[][3] = {
        {"0", "CUDA_LAUNCH_BLOCKING", "0"},
        {"0", "CUDA_LAUNCH_BLOCKING", "1"},
        {"0", "CUDA_LAUNCH_BLOCKING", "2"},
        {"0", "CUDA_LAUNCH_BLOCKING", "yes"},
        {"0", "CUDA_LAUNCH_BLOCKING", ""},
        {"1", "CUDA_FORCE_PTX_JIT", "1"},
        {"1", "CUDA_FORCE_JIT", "1"},
        {"1", "CUDA_DISABLE_PTX_JIT", "1"},
        {"1", "CUDA_DISABLE_JIT", "1"},
        {"1", "CUDA_MODULE_LOADING", "EAGER"},
        {"1", "CUDA_MODULE_LOADING", "LAZY"},
        {"1", "CUDA_MODULE_LOADING", "eager"},
        {"2", "CUDA_DEVICE_MAX_CONNECTIONS", "1"},
        {"2", "CUDA_DEVICE_MAX_CONNECTIONS", "8"},
        {"3", "CUDA_LOG_FILE", "environment.log"},
    };
    for (auto &c : cases) {
        for (int late = 0; late < 2; late++) {
            printf("%s=%s%s\n", c[1], c[2], late ? ", too late" : "");
            fflush(stdout);
            if (!fork()) {
                if (late) execl("/proc/self/exe", argv[0], c[0], c[1], c[2], nullptr);
                setenv(c[1], c[2], 1);
                execl("/proc/self/exe", argv[0], c[0], nullptr);
            }
            int status;
            wait(&status);
            if (status) printf("ended with %d\n", status);
        }
    }
    printf("done\n");
    return 0;
}
