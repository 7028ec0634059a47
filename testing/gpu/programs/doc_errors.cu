// What CUDA's documentation says of errors. See doc.h.
#include "doc.h"
#include <cudaProfiler.h>

__global__ void trap() { asm("trap;"); }
__global__ void wide(long long *p) { *p = 1; }
__global__ void fails(int v) {
    if (!v) __trap();
}
__global__ void __launch_bounds__(64) few(int *p) { *p = 1; }
__global__ void shares(int *p) {
    extern __shared__ int s[];
    s[threadIdx.x] = 1;
    if (p) *p = s[0];
}

DOC("the last error is success when nothing failed") {
    IS(cudaGetLastError(), cudaSuccess);
    IS(cudaPeekAtLastError(), cudaSuccess);
}
DOC("an error is the last error until it is got; peeking leaves it") {
    IS(cudaSetDevice(99), cudaErrorInvalidDevice);
    IS(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    IS(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    IS(cudaGetLastError(), cudaErrorInvalidDevice);
    IS(cudaGetLastError(), cudaSuccess);
}
DOC("a call that succeeds does not clear the last error") {
    IS(cudaSetDevice(99), cudaErrorInvalidDevice);
    OK(cudaSetDevice(0));
    OK(cudaDeviceSynchronize());
    IS(cudaGetLastError(), cudaErrorInvalidDevice);
}
DOC("of two errors the second is the last") {
    IS(cudaSetDevice(99), cudaErrorInvalidDevice);
    IS(cudaMalloc((void **)nullptr, 4), cudaErrorInvalidValue);
    IS(cudaGetLastError(), cudaErrorInvalidValue);
    IS(cudaGetLastError(), cudaSuccess);
}
DOC("the last error is each thread's own") {
    IS(cudaSetDevice(99), cudaErrorInvalidDevice);
    std::thread([] { IS(cudaGetLastError(), cudaSuccess); }).join();
    IS(cudaGetLastError(), cudaErrorInvalidDevice);
}
DOC("an error of the driver API is not the runtime's last error") {
    REFUSED(cuMemAlloc(nullptr, 4));
    IS(cudaGetLastError(), cudaSuccess);
}
DOC("errors have names and descriptions; what is none is unrecognized") {
    HOLDS(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"));
    HOLDS(!strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument"));
    HOLDS(!strcmp(cudaGetErrorString(cudaSuccess), "no error"));
    HOLDS(!strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code"));
    const char *s = (const char *)8;
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &s));
    HOLDS(!strcmp(s, "CUDA_ERROR_OUT_OF_MEMORY"));
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &s));
    HOLDS(!strcmp(s, "out of memory"));
    IS(cuGetErrorString((CUresult)12345, &s), CUDA_ERROR_INVALID_VALUE);
    HOLDS(s == nullptr);
}
DOC("a launch with more threads than a block may have is refused") {
    Memory m(64);
    put<<<1, 2048>>>(m.ints(), 1);
    REFUSED(cudaGetLastError());
    put<<<dim3(1, 70000), 1>>>(m.ints(), 1);
    REFUSED(cudaGetLastError());
    put<<<1, dim3(1, 1, 65)>>>(m.ints(), 1);
    REFUSED(cudaGetLastError());
}
DOC("a launch without blocks or without threads is refused") {
    Memory m(64);
    put<<<0, 1>>>(m.ints(), 1);
    REFUSED(cudaGetLastError());
    put<<<1, 0>>>(m.ints(), 1);
    REFUSED(cudaGetLastError());
}
DOC("a launch with more shared memory than there is is an invalid value") {
    shares<<<1, 32, 1 << 20>>>(nullptr);
    IS(cudaGetLastError(), cudaErrorInvalidValue);
    shares<<<1, 32, 60 << 10>>>(nullptr);
    IS(cudaGetLastError(), cudaErrorInvalidValue);
}
DOC("more shared memory is there for a kernel that asked for it") {
    Memory m(64);
    OK(cudaFuncSetAttribute((void *)shares, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10));
    shares<<<1, 32, 60 << 10>>>(m.ints());
    OK(cudaGetLastError());
    HOLDS(value(m.p) == 1);
}
DOC("a launch with more threads than a kernel's bounds is refused") {
    Memory m(64);
    few<<<1, 128>>>(m.ints());
    cudaError_t rc = cudaGetLastError();
    REFUSED(rc);
    OK(cudaDeviceSynchronize());
}
DOC("a launch that was refused does not run, and the next one does") {
    Memory m(64);
    OK(cudaMemset(m.p, 0, 4));
    put<<<1, 4096>>>(m.ints(), 1);
    REFUSED(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    HOLDS(value(m.p) == 0);
    put<<<1, 1>>>(m.ints(), 2);
    HOLDS(value(m.p) == 2);
}
DOC("launching what is no kernel is refused") {
    int v = 0;
    void *list[] = {&v};
    REFUSED(cudaLaunchKernel((void *)&count_up, 1, 1, list, 0, nullptr));
    cudaGetLastError();
    REFUSED(cudaLaunchKernel(nullptr, 1, 1, list, 0, nullptr));
}
DOC("a device that there is not is an invalid device") {
    cudaDeviceProp p;
    int v;
    IS(cudaGetDeviceProperties(&p, 99), cudaErrorInvalidDevice);
    IS(cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, -1), cudaErrorInvalidDevice);
    CUdevice d;
    IS(cuDeviceGet(&d, 99), CUDA_ERROR_INVALID_DEVICE);
    IS(cuDeviceGet(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("an attribute that there is not is an invalid value") {
    int v;
    IS(cudaDeviceGetAttribute(&v, (cudaDeviceAttr)9999, 0), cudaErrorInvalidValue);
    IS(cuDeviceGetAttribute(&v, (CUdevice_attribute)9999, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("a device cannot be a peer of itself") {
    int can = 9;
    OK(cudaDeviceCanAccessPeer(&can, 0, 0));
    HOLDS(can == 0);
    REFUSED(cudaDeviceEnablePeerAccess(0, 0));
    cudaGetLastError();
    REFUSED(cudaDeviceDisablePeerAccess(0));
    cudaGetLastError();
    IS(cudaDeviceCanAccessPeer(&can, 0, 99), cudaErrorInvalidDevice);
}
DOC("handles for other processes: only of device memory, and not opened where they were made") {
    Memory m(4096);
    cudaIpcMemHandle_t h;
    OK(cudaIpcGetMemHandle(&h, m.p));
    void *p;
    REFUSED(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess));
    cudaGetLastError();
    REFUSED(cudaIpcOpenMemHandle(&p, h, 77));
    cudaGetLastError();
    int stack;
    REFUSED(cudaIpcGetMemHandle(&h, &stack));
    cudaGetLastError();
    REFUSED(cudaIpcCloseMemHandle(m.p));
}
DOC("the profiler's start and stop succeed") {
    OK(cuProfilerStart());
    OK(cuProfilerStop());
    OK(cuProfilerStart());
    OK(cuProfilerStart());
    OK(cuProfilerStop());
}

/// After an error that breaks a context every call says it.
static void broken(cudaError_t want) {
    IS(cudaDeviceSynchronize(), want);
    void *p;
    IS(cudaMalloc(&p, 4), want);
    IS(cudaStreamSynchronize(nullptr), want);
    IS(cudaGetLastError(), want);
    TOLD(cudaPeekAtLastError());
    IS(cudaDeviceSynchronize(), want);
    std::thread([&] { IS(cudaDeviceSynchronize(), want); }).join();
}
APART("a kernel that writes where there is nothing: illegal address, in every call after it") {
    put<<<1, 1>>>((int *)64, 1);
    OK(cudaGetLastError());
    broken(cudaErrorIllegalAddress);
}
APART("a kernel that writes to an address that is not aligned: misaligned, in every call after") {
    void *p;
    OK(cudaMalloc(&p, 64));
    wide<<<1, 1>>>((long long *)((char *)p + 4));
    broken(cudaErrorMisalignedAddress);
}
APART("a kernel that traps: launch failure, in every call after it") {
    trap<<<1, 1>>>();
    broken(cudaErrorLaunchFailure);
}
APART("the driver says the same after such an error") {
    OK(cudaFree(nullptr));
    put<<<1, 1>>>((int *)64, 1);
    IS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr d;
    IS(cuMemAlloc(&d, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUstream s;
    IS(cuStreamCreate(&s, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    int v = 0;
    OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    HOLDS(v == 32);
}
APART("launches after such an error are refused with it") {
    int *p;
    OK(cudaMalloc(&p, 64));
    put<<<1, 1>>>((int *)64, 1);
    IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    cudaGetLastError();
    put<<<1, 1>>>(p, 1);
    IS(cudaGetLastError(), cudaErrorIllegalAddress);
}
APART("an error of a kernel comes with a later call, and a copy that waits brings it") {
    int *p, v = 7;
    OK(cudaMalloc(&p, 64));
    fails<<<1, 1>>>(0);
    IS(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost), cudaErrorLaunchFailure);
    HOLDS(v == 7);
}
APART("queries bring the error of a kernel, too") {
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    fails<<<1, 1, 0, s>>>(0);
    cudaError_t rc;
    while ((rc = cudaStreamQuery(s)) == cudaErrorNotReady) usleep(1000);
    IS(rc, cudaErrorLaunchFailure);
}
APART("resetting the device frees everything in it, and it can be used anew") {
    void *p, *q;
    OK(cudaMalloc(&p, 4096));
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    OK(cudaDeviceReset());
    IS(cudaFree(p), cudaErrorInvalidValue);
    cudaGetLastError();
    OK(cudaMalloc(&q, 4096));
    put<<<1, 1>>>((int *)q, 8);
    HOLDS(value(q) == 8);
    OK(cudaDeviceReset());
    OK(cudaDeviceReset());
}
APART("a call of the driver before it is initialized says so") {
    int n;
    IS(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    CUcontext c;
    IS(cuCtxGetCurrent(&c), CUDA_ERROR_NOT_INITIALIZED);
    IS(cuInit(7), CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    HOLDS(n >= 1);
    OK(cuDriverGetVersion(&n));
    HOLDS(n >= 13000);
}
APART("calls without a context say that there is none") {
    OK(cuInit(0));
    CUdeviceptr d;
    IS(cuMemAlloc(&d, 4), CUDA_ERROR_INVALID_CONTEXT);
    CUstream s;
    IS(cuStreamCreate(&s, 0), CUDA_ERROR_INVALID_CONTEXT);
    CUevent e;
    IS(cuEventCreate(&e, 0), CUDA_ERROR_INVALID_CONTEXT);
    IS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    CUdevice dev;
    IS(cuCtxGetDevice(&dev), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext c = (CUcontext)8;
    OK(cuCtxGetCurrent(&c));
    HOLDS(c == nullptr);
    void *h;
    IS(cuMemHostAlloc(&h, 64, 0), CUDA_ERROR_INVALID_CONTEXT);
}
