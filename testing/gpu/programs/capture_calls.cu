// What becomes of a call, and of a capture, when the call is made while a stream captures: relaxed,
// by the thread that captures, and by another one while a capture minds all threads. One line a
// call: its result and whether the capture still stands, for each of the four. Nothing is expected
// here; native and remote runs must say the same.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <functional>
#include <thread>
#include <vector>

__global__ void put(int *p, int v) { *p = v; }

static cudaStream_t s, other, blocking;
static cudaEvent_t recorded, fresh, timed[2];
static int *dev;
static int *pinned;
static int *managed;
static int pageable[64];
static cudaGraph_t small;
static cudaGraphExec_t ready;
static cudaMemPool_t pool;
static cudaArray_t array;
static CUmodule module_;
static CUcontext context;

static const char *name(int rc) { return cudaGetErrorName((cudaError_t)rc); }

struct Call {
    const char *what;
    std::function<int()> run;
};
static int first(int rc, int) { return rc; }

static std::vector<Call> calls() {
    static void *p;
    static cudaStream_t t;
    static cudaEvent_t e;
    static cudaGraph_t g;
    static size_t a, b;
    static int n;
    static float ms;
    static cudaPointerAttributes at;
    return {
        {"cudaStreamSynchronize(the one)", [] { return cudaStreamSynchronize(s); }},
        {"cudaStreamSynchronize(another)", [] { return cudaStreamSynchronize(other); }},
        {"cudaStreamSynchronize(legacy)", [] { return cudaStreamSynchronize(nullptr); }},
        {"cudaStreamQuery(the one)", [] { return cudaStreamQuery(s); }},
        {"cudaStreamQuery(another)", [] { return cudaStreamQuery(other); }},
        {"cudaStreamQuery(legacy)", [] { return cudaStreamQuery(nullptr); }},
        {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }},
        {"cuCtxSynchronize", [] { return cuCtxSynchronize(); }},
        {"cudaEventQuery(recorded)", [] { return cudaEventQuery(recorded); }},
        {"cudaEventQuery(fresh)", [] { return cudaEventQuery(fresh); }},
        {"cudaEventSynchronize(recorded)", [] { return cudaEventSynchronize(recorded); }},
        {"cudaEventSynchronize(fresh)", [] { return cudaEventSynchronize(fresh); }},
        {"cudaEventElapsedTime", [] { return cudaEventElapsedTime(&ms, timed[0], timed[1]); }},
        {"cudaEventRecord(the one)", [] { return cudaEventRecord(fresh, s); }},
        {"cudaEventRecord(another)", [] { return cudaEventRecord(timed[0], other); }},
        {"cudaEventRecord(legacy)", [] { return cudaEventRecord(timed[0], nullptr); }},
        {"cudaStreamWaitEvent(the one, recorded)",
         [] { return cudaStreamWaitEvent(s, recorded, 0); }},
        {"cudaStreamWaitEvent(the one, never recorded)", [] {
             cudaEvent_t never;
             cudaEventCreate(&never);
             int rc = cudaStreamWaitEvent(s, never, 0);
             cudaEventDestroy(never);
             return rc;
         }},
        {"cudaStreamWaitEvent(another, recorded)",
         [] { return cudaStreamWaitEvent(other, recorded, 0); }},
        {"kernel(the one)", [] { return put<<<1, 1, 0, s>>>(dev, 1), (int)cudaGetLastError(); }},
        {"kernel(another)",
         [] { return put<<<1, 1, 0, other>>>(dev, 1), (int)cudaGetLastError(); }},
        {"kernel(legacy)", [] { return put<<<1, 1>>>(dev, 1), (int)cudaGetLastError(); }},
        {"kernel(a thread's own)",
         [] { return put<<<1, 1, 0, cudaStreamPerThread>>>(dev, 1), (int)cudaGetLastError(); }},
        {"cudaMemsetAsync(the one)", [] { return cudaMemsetAsync(dev, 0, 4, s); }},
        {"cudaMemsetAsync(legacy)", [] { return cudaMemsetAsync(dev, 0, 4, nullptr); }},
        {"cudaMemset", [] { return cudaMemset(dev, 0, 4); }},
        {"cudaMemcpyAsync(in, page-locked)",
         [] { return cudaMemcpyAsync(dev, pinned, 4, cudaMemcpyHostToDevice, s); }},
        {"cudaMemcpyAsync(in, pageable)",
         [] { return cudaMemcpyAsync(dev, pageable, 4, cudaMemcpyHostToDevice, s); }},
        {"cudaMemcpyAsync(out, page-locked)",
         [] { return cudaMemcpyAsync(pinned, dev, 4, cudaMemcpyDeviceToHost, s); }},
        {"cudaMemcpyAsync(out, pageable)",
         [] { return cudaMemcpyAsync(pageable, dev, 4, cudaMemcpyDeviceToHost, s); }},
        {"cudaMemcpyAsync(another stream, page-locked)",
         [] { return cudaMemcpyAsync(dev, pinned, 4, cudaMemcpyHostToDevice, other); }},
        {"cudaMemcpyAsync(on the device)",
         [] { return cudaMemcpyAsync(dev + 8, dev, 4, cudaMemcpyDeviceToDevice, s); }},
        {"cudaMemcpyAsync(on the host)",
         [] { return cudaMemcpyAsync(pageable, pageable + 9, 4, cudaMemcpyHostToHost, s); }},
        {"cudaMemcpy(in)", [] { return cudaMemcpy(dev, pageable, 4, cudaMemcpyHostToDevice); }},
        {"cudaMemcpy(out)", [] { return cudaMemcpy(pageable, dev, 4, cudaMemcpyDeviceToHost); }},
        {"cudaMemcpy(on the device)",
         [] { return cudaMemcpy(dev + 8, dev, 4, cudaMemcpyDeviceToDevice); }},
        {"cudaMemcpy2DAsync(in)",
         [] {
             return cudaMemcpy2DAsync(dev, 8, pinned, 8, 4, 2, cudaMemcpyHostToDevice, s);
         }},
        {"cudaMemcpy2DToArrayAsync",
         [] {
             return cudaMemcpy2DToArrayAsync(array, 0, 0, pinned, 16, 16, 2,
                                             cudaMemcpyHostToDevice, s);
         }},
        {"cudaMalloc", [] { return first(cudaMalloc(&p, 64), cudaFree(p)); }},
        {"cudaFree(nullptr)", [] { return cudaFree(nullptr); }},
        {"cudaMallocHost", [] { return first(cudaMallocHost(&p, 64), cudaFreeHost(p)); }},
        {"cudaMallocManaged", [] { return first(cudaMallocManaged(&p, 64), cudaFree(p)); }},
        {"cudaHostRegister", [] {
             static char place[8192];
             char *q = (char *)(((size_t)place + 4095) & ~(size_t)4095);
             int rc = cudaHostRegister(q, 4096, 0);
             if (!rc) cudaHostUnregister(q);
             return rc;
         }},
        {"cudaMallocAsync(the one)", [] {
             int rc = cudaMallocAsync(&p, 64, s);
             if (!rc) cudaFreeAsync(p, s);
             return rc;
         }},
        {"cudaMallocAsync(another)", [] {
             int rc = cudaMallocAsync(&p, 64, other);
             if (!rc) cudaFreeAsync(p, other);
             return rc;
         }},
        {"cudaMallocAsync(legacy)", [] {
             int rc = cudaMallocAsync(&p, 64, nullptr);
             if (!rc) cudaFreeAsync(p, nullptr);
             return rc;
         }},
        {"cudaStreamCreate", [] {
             int rc = cudaStreamCreate(&t);
             if (!rc) cudaStreamDestroy(t);
             return rc;
         }},
        {"cudaStreamCreate(not blocking)", [] {
             int rc = cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
             if (!rc) cudaStreamDestroy(t);
             return rc;
         }},
        {"cudaEventCreate", [] {
             int rc = cudaEventCreate(&e);
             if (!rc) cudaEventDestroy(e);
             return rc;
         }},
        {"cudaGraphCreate", [] {
             int rc = cudaGraphCreate(&g, 0);
             if (!rc) cudaGraphDestroy(g);
             return rc;
         }},
        {"cudaGraphInstantiate", [] {
             cudaGraphExec_t x;
             int rc = cudaGraphInstantiate(&x, small, 0);
             if (!rc) cudaGraphExecDestroy(x);
             return rc;
         }},
        {"cudaGraphUpload(another)", [] { return cudaGraphUpload(ready, other); }},
        {"cudaGraphLaunch(the one)", [] { return cudaGraphLaunch(ready, s); }},
        {"cudaGraphLaunch(another)", [] { return cudaGraphLaunch(ready, other); }},
        {"cudaGraphLaunch(legacy)", [] { return cudaGraphLaunch(ready, nullptr); }},
        {"cudaLaunchHostFunc(the one)",
         [] { return cudaLaunchHostFunc(s, [](void *) {}, nullptr); }},
        {"cudaLaunchHostFunc(another)",
         [] { return cudaLaunchHostFunc(other, [](void *) {}, nullptr); }},
        {"cudaStreamAddCallback(the one)",
         [] {
             return cudaStreamAddCallback(s, [](cudaStream_t, cudaError_t, void *) {}, nullptr, 0);
         }},
        {"cudaStreamAddCallback(another)",
         [] {
             return cudaStreamAddCallback(other, [](cudaStream_t, cudaError_t, void *) {}, nullptr,
                                          0);
         }},
        {"cudaStreamIsCapturing(legacy)", [] {
             cudaStreamCaptureStatus st;
             return cudaStreamIsCapturing(nullptr, &st);
         }},
        {"cudaStreamAttachMemAsync",
         [] { return cudaStreamAttachMemAsync(s, managed, 0, cudaMemAttachGlobal); }},
        {"cudaMallocArray", [] {
             cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
             cudaArray_t made;
             int rc = cudaMallocArray(&made, &desc, 4, 4);
             if (!rc) cudaFreeArray(made);
             return rc;
         }},
        {"cudaFreeHost(nullptr)", [] { return cudaFreeHost(nullptr); }},
        {"cudaMallocPitch",
         [] { return first(cudaMallocPitch(&p, &a, 64, 4), cudaFree(p)); }},
        {"cudaFreeAsync(another)", [] {
             static void *q;
             cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
             cudaThreadExchangeStreamCaptureMode(&mode);
             cudaMallocAsync(&q, 64, other);
             cudaThreadExchangeStreamCaptureMode(&mode);
             return cudaFreeAsync(q, other);
         }},
        {"cudaGraphExecDestroy", [] {
             cudaGraphExec_t x;
             cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
             cudaThreadExchangeStreamCaptureMode(&mode);
             cudaGraphInstantiate(&x, small, 0);
             cudaThreadExchangeStreamCaptureMode(&mode);
             return cudaGraphExecDestroy(x);
         }},
        {"cudaMemPoolDestroy", [] {
             cudaMemPoolProps props = {};
             props.allocType = cudaMemAllocationTypePinned;
             props.location = {cudaMemLocationTypeDevice, 0};
             cudaMemPool_t q;
             cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
             cudaThreadExchangeStreamCaptureMode(&mode);
             cudaMemPoolCreate(&q, &props);
             cudaThreadExchangeStreamCaptureMode(&mode);
             return cudaMemPoolDestroy(q);
         }},
        {"cuMemCreate", [] {
             CUmemAllocationProp prop = {};
             prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
             prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
             CUmemGenericAllocationHandle h;
             int rc = cuMemCreate(&h, 2 << 20, &prop, 0);
             if (!rc) cuMemRelease(h);
             return rc;
         }},
        {"cuMemAddressReserve", [] {
             CUdeviceptr at;
             int rc = cuMemAddressReserve(&at, 2 << 20, 0, 0, 0);
             if (!rc) cuMemAddressFree(at, 2 << 20);
             return rc;
         }},
        {"cudaMemAdvise", [] {
             cudaMemLocation where = {cudaMemLocationTypeDevice, 0};
             return cudaMemAdvise(managed, 4096, cudaMemAdviseSetReadMostly, where);
         }},
        {"cudaIpcGetMemHandle", [] {
             cudaIpcMemHandle_t h;
             return cudaIpcGetMemHandle(&h, dev);
         }},
        {"cudaDeviceGraphMemTrim", [] { return cudaDeviceGraphMemTrim(0); }},
        {"cudaDeviceSetCacheConfig",
         [] { return cudaDeviceSetCacheConfig(cudaFuncCachePreferNone); }},
        {"cudaMemPrefetchAsync", [] {
             cudaMemLocation where = {cudaMemLocationTypeDevice, 0};
             return cudaMemPrefetchAsync(managed, 4096, where, 0, s);
         }},
        {"cuStreamWriteValue32(the one)",
         [] { return cuStreamWriteValue32(s, (CUdeviceptr)dev, 1, 0); }},
        {"cuStreamWaitValue32(the one)",
         [] { return cuStreamWaitValue32(s, (CUdeviceptr)dev, 0, CU_STREAM_WAIT_VALUE_GEQ); }},
        {"cudaMemGetInfo", [] { return cudaMemGetInfo(&a, &b); }},
        {"cudaDeviceGetAttribute",
         [] { return cudaDeviceGetAttribute(&n, cudaDevAttrWarpSize, 0); }},
        {"cudaPointerGetAttributes", [] { return cudaPointerGetAttributes(&at, dev); }},
        {"cudaFuncGetAttributes", [] {
             cudaFuncAttributes f;
             return cudaFuncGetAttributes(&f, (void *)put);
         }},
        {"cudaFuncSetAttribute",
         [] {
             return cudaFuncSetAttribute((void *)put, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         1024);
         }},
        {"cudaOccupancyMaxActiveBlocksPerMultiprocessor",
         [] { return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, put, 64, 0); }},
        {"cudaDeviceSetLimit", [] { return cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20); }},
        {"cudaMemPoolTrimTo", [] { return cudaMemPoolTrimTo(pool, 0); }},
        {"cudaMemPoolCreate", [] {
             cudaMemPoolProps props = {};
             props.allocType = cudaMemAllocationTypePinned;
             props.location = {cudaMemLocationTypeDevice, 0};
             cudaMemPool_t q;
             int rc = cudaMemPoolCreate(&q, &props);
             if (!rc) cudaMemPoolDestroy(q);
             return rc;
         }},
        {"cuModuleLoadData", [] {
             static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                                        ".visible .entry nothing() { ret; }\n";
             CUmodule m;
             int rc = cuModuleLoadData(&m, text);
             if (!rc) cuModuleUnload(m);
             return rc;
         }},
        {"cuModuleGetFunction", [] {
             CUfunction f;
             return cuModuleGetFunction(&f, module_, "nothing");
         }},
        {"cuCtxGetCurrent", [] {
             CUcontext c;
             return cuCtxGetCurrent(&c);
         }},
        {"cuCtxPushCurrent and Pop", [] {
             CUcontext c;
             int rc = cuCtxPushCurrent(context);
             return rc ? rc : (int)cuCtxPopCurrent(&c);
         }},
        {"cudaStreamBeginCapture(another)", [] {
             int rc = cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed);
             cudaGraph_t h = nullptr;
             if (!rc) rc = cudaStreamEndCapture(other, &h);
             if (h) cudaGraphDestroy(h);
             return rc;
         }},
        {"cudaStreamGetPriority", [] { return cudaStreamGetPriority(s, &n); }},
        {"cudaEventDestroy(recorded in it)", [] {
             cudaEvent_t x;
             cudaEventCreate(&x);
             cudaEventRecord(x, s);
             return cudaEventDestroy(x);
         }},
        {"cudaEventQuery(recorded in it)", [] {
             cudaEvent_t x;
             cudaEventCreate(&x);
             cudaEventRecord(x, s);
             int rc = cudaEventQuery(x);
             cudaEventDestroy(x);
             return rc;
         }},
        {"cudaEventSynchronize(recorded in it)", [] {
             cudaEvent_t x;
             cudaEventCreate(&x);
             cudaEventRecord(x, s);
             int rc = cudaEventSynchronize(x);
             cudaEventDestroy(x);
             return rc;
         }},
    };
}

/// Makes a call during a capture.
static void one(const Call &c, cudaStream_t stream, cudaStreamCaptureMode mode, bool elsewhere) {
    cudaStream_t kept = s;
    s = stream;
    cudaGraph_t g = nullptr;
    int began = cudaStreamBeginCapture(s, mode), rc = 0;
    if (elsewhere) {
        std::thread([&] { rc = c.run(), cudaGetLastError(); }).join();
    } else {
        rc = c.run();
    }
    cudaGetLastError();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    int asked = cudaStreamIsCapturing(s, &status);
    cudaGetLastError();
    size_t nodes = 0;
    int end = cudaStreamEndCapture(s, &g);
    if (g) {
        cudaGraphGetNodes(g, nullptr, &nodes);
        cudaGraphDestroy(g);
    }
    cudaGetLastError();
    printf(" | %s%s%s %s %zu", began ? name(began) : "", rc ? name(rc) : "ok",
           asked ? "?" : status == cudaStreamCaptureStatusActive ? " active" : " void",
           end ? name(end) : "ended", nodes);
    s = kept;
}

int main() {
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaStreamCreate(&blocking);
    cudaMalloc(&dev, 4096);
    cudaMallocHost(&pinned, 4096);
    cudaMallocManaged(&managed, 4096);
    cudaEventCreate(&recorded), cudaEventCreate(&fresh);
    cudaEventCreate(&timed[0]), cudaEventCreate(&timed[1]);
    cudaEventRecord(recorded, other);
    cudaEventRecord(timed[0], other), cudaEventRecord(timed[1], other);
    put<<<1, 1>>>(dev, 1);
    put<<<1, 1, 0, cudaStreamPerThread>>>(dev, 1);
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &desc, 4, 4);
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cuCtxGetCurrent(&context);
    static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry nothing() { ret; }\n";
    cuModuleLoadData(&module_, text);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    put<<<1, 1, 0, s>>>(dev, 2);
    cudaStreamEndCapture(s, &small);
    cudaGraphInstantiate(&ready, small, 0);
    cudaDeviceSynchronize();
    printf("a call | relaxed | thread's | global | global, another thread | blocking stream\n");
    for (const Call &c : calls()) {
        printf("%s", c.what);
        one(c, s, cudaStreamCaptureModeRelaxed, false);
        one(c, s, cudaStreamCaptureModeThreadLocal, false);
        one(c, s, cudaStreamCaptureModeGlobal, false);
        one(c, s, cudaStreamCaptureModeGlobal, true);
        one(c, blocking, cudaStreamCaptureModeRelaxed, false);
        printf("\n");
        fflush(stdout);
    }
    printf("at the end: %s\n", name(cudaDeviceSynchronize()));
    return 0;
}
