// Contexts of the driver API beside the runtime's: what lives where, what an error in one does to
// another, what a pointer says of itself, and frees beside a capture.
#include "check.h"
#include <cstring>
#include <cuda.h>
#include <thread>

static void tell(const char *what, CUresult rc) {
    const char *name = "?";
    cuGetErrorName(rc, &name);
    printf("%s: %d %s\n", what, (int)rc, name);
}

static void tell(const char *what, cudaError_t rc) {
    printf("%s: %d %s\n", what, (int)rc, cudaGetErrorName(rc));
    cudaGetLastError();
}

#define DRIVER(call)                                                                              \
    do {                                                                                          \
        CUresult rc_ = (call);                                                                    \
        if (rc_ != CUDA_SUCCESS) {                                                                \
            printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)rc_);                       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

__global__ void write(int *p, int v) { *p = v; }
__global__ void nap(long long n) {
    long long end = clock64() + n;
    while (clock64() < end) {}
}

static CUcontext made(CUdevice d) {
    CUcontext c;
#if CUDA_VERSION >= 13000
    DRIVER(cuCtxCreate(&c, nullptr, 0, d));
#else
    DRIVER(cuCtxCreate(&c, 0, d));
#endif
    return c;
}

/// What the attributes say, into variables that are not clean.
static void attributes(const char *what, void *p) {
    unsigned kind = 0xaaaaaaaa, managed = 0xaaaaaaaa, mapped = 0xaaaaaaaa, legacy = 0xaaaaaaaa;
    int device = -7;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_MAPPED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *to[] = {&kind, &managed, &mapped, &device};
    CUresult rc = cuPointerGetAttributes(4, which, to, (CUdeviceptr)p);
    printf("%s: %d kind %u managed %u mapped %u device %d\n", what, (int)rc, kind, managed, mapped,
           device);
    unsigned one = 0xaaaaaaaa;
    rc = cuPointerGetAttribute(&one, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)p);
    printf("  managed alone: %d", (int)rc);
    if (rc == CUDA_SUCCESS) printf(" %u", one);
    (void)legacy;
    cudaPointerAttributes a;
    memset(&a, 0xaa, sizeof a);
    cudaError_t rrc = cudaPointerGetAttributes(&a, p);
    printf("; runtime: %d type %d\n", (int)rrc, (int)a.type);
}

int main() {
    CHECK(cudaFree(nullptr));
    int *p, *pinned, *managed, stack = 0;
    CHECK(cudaMalloc((void **)&p, 4096));
    CHECK(cudaMallocHost((void **)&pinned, 4096));
    CHECK(cudaMallocManaged((void **)&managed, 4096));
    attributes("device", p);
    attributes("pinned", pinned);
    attributes("managed", managed);
    attributes("stack", &stack);

    // Nothing to do, nowhere to put it.
    tell("malloc 0", cudaMalloc((void **)&p, 0));
    printf("  %s\n", p ? "something" : "nothing");
    CHECK(cudaMalloc((void **)&p, 4096));
    CUdeviceptr d = (CUdeviceptr)p, none = 0;
    tell("cuMemAlloc 0", cuMemAlloc(&none, 0));
    tell("cuMemFree 0", cuMemFree(0));
    tell("cuMemsetD8 of 0 at 0", cuMemsetD8(0, 1, 0));
    tell("cuMemsetD8 of 0", cuMemsetD8(d, 1, 0));
    tell("cuMemsetD8 at 0", cuMemsetD8(0, 1, 4));
    tell("cuMemsetD32 misaligned", cuMemsetD32(d + 1, 1, 1));
    tell("cuMemcpyHtoD of 0", cuMemcpyHtoD(d, &stack, 0));
    tell("cuMemcpyHtoD of 0 from null", cuMemcpyHtoD(d, nullptr, 0));
    tell("cuMemcpyHtoD of 0 to 0", cuMemcpyHtoD(0, &stack, 0));
    tell("cuMemcpyDtoH of 0", cuMemcpyDtoH(&stack, d, 0));
    tell("cuMemcpyDtoH of 0 from 0", cuMemcpyDtoH(&stack, 0, 0));
    tell("cuMemcpyDtoD of 0", cuMemcpyDtoD(d, d + 64, 0));
    tell("cuMemcpyDtoD of 0 from 0", cuMemcpyDtoD(d, 0, 0));
    tell("cuMemcpy of 0", cuMemcpy(d, (CUdeviceptr)&stack, 0));
    tell("cudaMemset of 0 at 0", cudaMemset(nullptr, 0, 0));
    tell("cudaMemset at 0", cudaMemset(nullptr, 0, 4));
    tell("cudaMemcpy of 0 from null", cudaMemcpy(p, nullptr, 0, cudaMemcpyHostToDevice));
    tell("cudaMemcpy from null", cudaMemcpy(p, nullptr, 4, cudaMemcpyHostToDevice));
    tell("cudaMemcpyAsync of 0", cudaMemcpyAsync(p, &stack, 0, cudaMemcpyHostToDevice));
    tell("cudaStreamSynchronize", cudaStreamSynchronize(0));
    tell("cuStreamCreate null", cuStreamCreate(nullptr, 0));
    tell("cuStreamCreate flags", cuStreamCreate((CUstream *)&none, 0x80));
    tell("cuEventCreate null", cuEventCreate(nullptr, 0));
    tell("cuEventRecord null", cuEventRecord(nullptr, nullptr));
    tell("cuEventQuery null", cuEventQuery(nullptr));
    tell("cuEventDestroy null", cuEventDestroy(nullptr));
    tell("cuModuleUnload null", cuModuleUnload(nullptr));
    tell("cuCtxDestroy null", cuCtxDestroy(nullptr));
    tell("cuLaunchKernel null", cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, 0, nullptr, nullptr));
    tell("cuMemHostAlloc null", cuMemHostAlloc(nullptr, 64, 0));
    tell("cuMemHostAlloc 0", cuMemHostAlloc((void **)&none, 0, 0));
    tell("cuMemHostAlloc flags", cuMemHostAlloc((void **)&none, 64, 0x1000));
    unsigned flags = 77;
    tell("cuMemHostGetFlags", cuMemHostGetFlags(&flags, pinned));
    tell("cuMemHostGetFlags of device", cuMemHostGetFlags(&flags, p));
    tell("cuDeviceGet 99", cuDeviceGet((CUdevice *)&none, 99));
    tell("cuCtxGetLimit", cuCtxGetLimit((size_t *)&none, (CUlimit)99));
    CHECK(cudaDeviceSynchronize());

    // What may disturb a capture, and what a thread may say about that.
    cudaStream_t s, other;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    int *q;
    cudaGraph_t graph;
    for (int mode = 0; mode < 3; mode++) {
        CHECK(cudaMalloc((void **)&q, 8 << 20));
        CHECK(cudaStreamBeginCapture(s, (cudaStreamCaptureMode)mode));
        write<<<1, 1, 0, s>>>(p, mode);
        int *r = nullptr;
        printf("mode %d\n", mode);
        tell("malloc in it", cudaMalloc((void **)&r, 4096));
        cudaStreamCaptureStatus status;
        tell("status", cudaStreamIsCapturing(s, &status));
        printf("  %d\n", (int)status);
        tell("end", cudaStreamEndCapture(s, &graph));
        if (graph) cudaGraphDestroy(graph);
        graph = nullptr;
        cudaFree(r);
        // With leave.
        CHECK(cudaStreamBeginCapture(s, (cudaStreamCaptureMode)mode));
        write<<<1, 1, 0, s>>>(p, 40 + mode);
        cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
        CHECK(cudaThreadExchangeStreamCaptureMode(&relaxed));
        nap<<<1, 1, 0, other>>>(10000000);
        tell("malloc with leave", cudaMalloc((void **)&r, 4096));
        tell("query", cudaStreamQuery(other) == cudaErrorNotReady ? cudaSuccess : cudaSuccess);
        CHECK(cudaThreadExchangeStreamCaptureMode(&relaxed));
        tell("end", cudaStreamEndCapture(s, &graph));
        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaStreamSynchronize(s));
        int v;
        CHECK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
        printf("  wrote %d\n", v);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        graph = nullptr;
        CHECK(cudaFree(r));
        CHECK(cudaFree(q));
    }

    // A context's end is the end of what lives in it, and of nothing else.
    CUdevice dev;
    DRIVER(cuDeviceGet(&dev, 0));
    CUcontext primary, a, b;
    DRIVER(cuCtxGetCurrent(&primary));
    for (int round = 0; round < 3; round++) {
        a = made(dev);
        CUdeviceptr x, y;
        DRIVER(cuMemAlloc(&x, 64 << 20));
        DRIVER(cuMemAlloc(&y, 256));
        DRIVER(cuMemsetD32(x, round, 16 << 20));
        int v = -1;
        DRIVER(cuMemcpyDtoH(&v, x + (64 << 20) - 4, 4));
        EXPECT(v == round);
        DRIVER(cuCtxDestroy(a));
    }
    DRIVER(cuCtxSetCurrent(primary));
    int v;
    CHECK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
    printf("the primary context's memory: %d\n", v);

    // Destroyed under a thread that has it current.
    a = made(dev);
    b = made(dev);
    DRIVER(cuCtxSetCurrent(a));
    std::thread([&] {
        DRIVER(cuCtxSetCurrent(b));
        DRIVER(cuCtxDestroy(a));
    }).join();
    CUdeviceptr x;
    tell("alloc where nothing is", cuMemAlloc(&x, 4096));
    tell("wait where nothing is", cuCtxSynchronize());
    DRIVER(cuCtxSetCurrent(b));
    tell("alloc elsewhere", cuMemAlloc(&x, 4096));
    tell("set the gone one", cuCtxSetCurrent(a));
    DRIVER(cuCtxDestroy(b));
    DRIVER(cuCtxSetCurrent(primary));
    CHECK(cudaDeviceSynchronize());

    // An error is its context's own. (What the driver lets others do then is printed, not judged.)
    b = made(dev);
    DRIVER(cuCtxSetCurrent(primary));
    write<<<1, 1>>>((int *)64, 1);
    tell("wild pointer", cudaDeviceSynchronize());
    tell("again", cudaDeviceSynchronize());
    tell("free", cudaFree(p));
    tell("event", cuEventCreate((CUevent *)&none, 0));
    tell("memset", cuMemsetD8(d, 1, 4));
    tell("device attribute", cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 0));
    tell("last error", cudaGetLastError());
    DRIVER(cuCtxSetCurrent(b));
    tell("other context's alloc", cuMemAlloc(&x, 4096));
    tell("other context's wait", cuCtxSynchronize());
    tell("other context's end", cuCtxDestroy(b));
    printf("done\n");
}
