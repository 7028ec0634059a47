// What dies with a stream, a context, a reset, and what does not: captures end with their streams
// and contexts, ids of contexts never come back, code that the runtime registered works after a
// reset.
#include "check.h"
#include <cstring>
#include <cuda.h>
#include <set>

static void tell(const char *what, CUresult rc) {
    const char *name = "?";
    cuGetErrorName(rc, &name);
    printf("%s: %d %s\n", what, (int)rc, name);
}

static void tell(const char *what, cudaError_t rc) {
    printf("%s: %d %s\n", what, (int)rc, cudaGetErrorName(rc));
    cudaGetLastError();
}

__device__ int counter = 5;
__global__ void count(int *out, int n) { *out = (counter += n); }
__global__ void write(int *p, int v) { *p = v; }
__global__ void nap(long long n) {
    long long end = clock64() + n;
    while (clock64() < end) {}
}

static CUcontext made() {
    CUcontext c = nullptr;
#if CUDA_VERSION >= 13000
    tell("create", cuCtxCreate(&c, nullptr, 0, 0));
#else
    tell("create", cuCtxCreate(&c, 0, 0));
#endif
    return c;
}

// An allocation would disturb a capture.
static void nothing_captures(const char *when) {
    CUdeviceptr p = 0;
    printf("%s\n", when);
    tell("  cuMemAlloc", cuMemAlloc(&p, 4096));
    tell("  cuMemFree", cuMemFree(p));
    tell("  cuCtxSynchronize", cuCtxSynchronize());
}

static CUstream capturing() {
    CUstream s = nullptr;
    tell("stream", cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    tell("capture", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    return s;
}

static void captures() {
    CUcontext a = made();
    CUstream s = capturing();
    tell("destroy stream", cuStreamDestroy(s));
    nothing_captures("after the stream");
    capturing();
    tell("destroy context", cuCtxDestroy(a));
    made();
    nothing_captures("after the context");
}

static void ids() {
    std::set<unsigned long long> seen;
    bool fresh = true;
    for (int i = 0; i < 5; i++) {
        CUcontext c = made();
        unsigned long long id = 0;
        tell("id", cuCtxGetId(c, &id));
        fresh = seen.insert(id).second && fresh;
        tell("destroy", cuCtxDestroy(c));
    }
    printf("every id is new: %d\n", fresh);
}

static void resets() {
    for (int round = 0; round < 3; round++) {
        int *p = nullptr, back = 0;
        tell("malloc", cudaMalloc(&p, 4096));
        count<<<1, 1>>>(p, 2);
        tell("launch", cudaGetLastError());
        tell("copy", cudaMemcpy(&back, p, 4, cudaMemcpyDeviceToHost));
        printf("round %d: %d\n", round, back);
        cudaStream_t s;
        cudaEvent_t e;
        tell("stream", cudaStreamCreate(&s));
        tell("event", cudaEventCreate(&e));
        write<<<1, 1, 0, s>>>(p, 40 + round);
        tell("record", cudaEventRecord(e, s));
        tell("wait", cudaEventSynchronize(e));
        tell("copy", cudaMemcpy(&back, p, 4, cudaMemcpyDeviceToHost));
        printf("round %d: %d\n", round, back);
        tell("reset", cudaDeviceReset());
    }
}

// A graph that runs is destroyed with another context current.
static void others() {
    int *p = nullptr, back = 0;
    cudaStream_t s;
    CHECK(cudaMalloc(&p, 4096));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    nap<<<1, 1, 0, s>>>(50000000);
    write<<<1, 1, 0, s>>>(p, 77);
    cudaGraph_t g;
    cudaGraphExec_t x;
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    CHECK(cudaGraphLaunch(x, s));
    CUcontext first = nullptr;
    tell("current", cuCtxGetCurrent(&first));
    CUcontext second = made();
    tell("destroy exec", cuGraphExecDestroy(x));
    tell("destroy graph", cuGraphDestroy(g));
    tell("back", cuCtxSetCurrent(first));
    tell("wait", cudaStreamSynchronize(s));
    tell("copy", cudaMemcpy(&back, p, 4, cudaMemcpyDeviceToHost));
    printf("%d\n", back);
    tell("destroy", cuCtxDestroy(second));
}

int main() {
    tell("init", cuInit(0));
    captures();
    ids();
    resets();
    others();
}
