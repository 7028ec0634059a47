// What CUDA's documentation says of contexts, devices and their limits. See doc.h.
#include "doc.h"

static CUcontext current() {
    CUcontext c = (CUcontext)8;
    OK(cuCtxGetCurrent(&c));
    return c;
}
/// A context of its own, current while it lives.
struct Own {
    CUcontext c = nullptr;
    explicit Own(unsigned flags = 0) { OK(cuCtxCreate(&c, nullptr, flags, 0)); }
    ~Own() {
        if (c) cuCtxDestroy(c);
    }
};

DOC("the runtime's context is the device's primary one") {
    CUcontext primary;
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    HOLDS(primary == current());
    OK(cuDevicePrimaryCtxRelease(0));
}
DOC("the primary context is active while the runtime uses it, with its flags") {
    unsigned flags = 99;
    int active = 9;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active == 1);
    unsigned of = 98;
    OK(cuCtxGetFlags(&of));
    unsigned device = 97;
    OK(cudaGetDeviceFlags(&device));
    HOLDS((of & CU_CTX_SCHED_MASK) == (flags & CU_CTX_SCHED_MASK));
    HOLDS((device & cudaDeviceScheduleMask) == (of & CU_CTX_SCHED_MASK));
}
DOC("a context that is created is current, and destroying it gives the one before back") {
    CUcontext before = current();
    {
        Own o;
        HOLDS(current() == o.c && o.c != before);
    }
    HOLDS(current() == before);
}
DOC("contexts are pushed and popped, each thread has its own stack") {
    CUcontext before = current(), got = nullptr;
    Own o;
    OK(cuCtxPopCurrent(&got));
    HOLDS(got == o.c && current() == before);
    OK(cuCtxPushCurrent(o.c));
    HOLDS(current() == o.c);
    std::thread([&] {
        HOLDS(current() == nullptr);
        CUcontext none;
        IS(cuCtxPopCurrent(&none), CUDA_ERROR_INVALID_CONTEXT);
        OK(cuCtxPushCurrent(o.c));
        HOLDS(current() == o.c);
        OK(cuCtxPopCurrent(&none));
        HOLDS(none == o.c && current() == nullptr);
    }).join();
    HOLDS(current() == o.c);
}
DOC("setting the current context replaces the top of the stack; NULL takes it off") {
    CUcontext before = current();
    Own o;
    OK(cuCtxSetCurrent(before));
    HOLDS(current() == before);
    CUcontext got;
    OK(cuCtxPopCurrent(&got));
    HOLDS(got == before && current() == before);
    OK(cuCtxPushCurrent(o.c));
    OK(cuCtxSetCurrent(nullptr));
    HOLDS(current() == before);
}
DOC("pushing nothing is refused, popping into NULL pops") {
    CUcontext before = current();
    REFUSED(cuCtxPushCurrent(nullptr));
    Own o;
    OK(cuCtxPopCurrent(nullptr));
    HOLDS(current() == before);
}
DOC("memory of one context is known in another of the same device") {
    CUcontext before = current();
    CUdeviceptr p;
    Own o;
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemsetD32(p, 33, 4));
    OK(cuCtxSetCurrent(before));
    CUcontext of = nullptr;
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    HOLDS(of == o.c);
}
DOC("destroying a context frees its memory") {
    CUdeviceptr p;
    {
        Own o;
        OK(cuMemAlloc(&p, 4096));
    }
    IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}
DOC("a context has the flags that it was created with") {
    for (unsigned f : {(unsigned)CU_CTX_SCHED_SPIN, (unsigned)CU_CTX_SCHED_YIELD,
                       (unsigned)CU_CTX_SCHED_BLOCKING_SYNC}) {
        Own o(f);
        unsigned got = 99;
        OK(cuCtxGetFlags(&got));
        HOLDS((got & CU_CTX_SCHED_MASK) == f);
    }
}
DOC("a context of flags that do not exist, or of no device, or into NULL, is refused") {
    CUcontext c;
    IS(cuCtxCreate(&c, nullptr, 0x4000, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuCtxCreate(&c, nullptr, 3, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuCtxCreate(&c, nullptr, 0, 99), CUDA_ERROR_INVALID_DEVICE);
    IS(cuCtxCreate(nullptr, nullptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("the version of a context is the driver API's, its device is the one it was made on") {
    Own o;
    unsigned v = 0;
    OK(cuCtxGetApiVersion(o.c, &v));
    HOLDS(v >= 3010);
    CUdevice d = 9;
    OK(cuCtxGetDevice(&d));
    HOLDS(d == 0);
}
DOC("contexts have different ids") {
    unsigned long long a = 0, b = 0;
    OK(cuCtxGetId(nullptr, &a));
    Own o;
    OK(cuCtxGetId(o.c, &b));
    HOLDS(a != b);
    unsigned long long now = 0;
    OK(cuCtxGetId(nullptr, &now));
    HOLDS(now == b);
}
DOC("a stream belongs to its context: a launch in another with it is an invalid handle") {
    CUcontext before = current();
    CUstream s;
    Own o;
    OK(cuStreamCreate(&s, 0));
    CUcontext of = nullptr;
    OK(cuCtxSetCurrent(before));
    OK(cuStreamGetCtx(s, &of));
    HOLDS(of == o.c);
    CUfunction f;
    OK(cudaGetFuncBySymbol(&f, (void *)put));
    CUdeviceptr p = 0;
    int v = 1;
    void *list[] = {&p, &v};
    REFUSED(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, list, nullptr));
}
DOC("a kernel runs in the context of its stream, its function in the context it was asked in") {
    CUcontext before = current();
    cudaKernel_t k;
    OK(cudaGetKernel(&k, (void *)put));
    CUfunction f, g;
    OK(cuKernelGetFunction(&f, (CUkernel)k));
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4096));
    int v = 1;
    void *list[] = {&p, &v};
    Own o;
    CUstream s;
    OK(cuStreamCreate(&s, 0));
    OK(cuKernelGetFunction(&g, (CUkernel)k));
    HOLDS(f != g);
    REFUSED(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, list, nullptr));
    REFUSED(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, list, nullptr));
    OK(cuCtxSetCurrent(before));
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, s, list, nullptr));
    OK(cuLaunchKernel(g, 1, 1, 1, 1, 1, 1, 0, s, list, nullptr));
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
    OK(cuMemFree(p));
}
DOC("each context has limits of its own, which are at least what was asked for") {
    size_t before = 0, got = 0;
    OK(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE));
    {
        Own o;
        OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
        OK(cuCtxGetLimit(&got, CU_LIMIT_STACK_SIZE));
        HOLDS(got >= 8192);
    }
    OK(cuCtxGetLimit(&got, CU_LIMIT_STACK_SIZE));
    HOLDS(got == before);
}
DOC("limits: the buffer of printf, the heap, granularity of L2") {
    size_t n = 0;
    OK(cudaDeviceGetLimit(&n, cudaLimitPrintfFifoSize));
    HOLDS(n >= 1 << 20);
    OK(cudaDeviceGetLimit(&n, cudaLimitMallocHeapSize));
    HOLDS(n == 8 << 20);
    OK(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 64));
    OK(cudaDeviceGetLimit(&n, cudaLimitMaxL2FetchGranularity));
    HOLDS(n == 64);
}
DOC("a limit that does not exist is refused") {
    size_t n;
    REFUSED(cudaDeviceGetLimit(&n, (cudaLimit)77));
    REFUSED(cudaDeviceSetLimit((cudaLimit)77, 1));
    REFUSED(cuCtxGetLimit(&n, (CUlimit)77));
    IS(cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
}
DOC("the preference for cache or shared memory of a context is set and read") {
    CUfunc_cache c = (CUfunc_cache)9;
    OK(cuCtxGetCacheConfig(&c));
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
    OK(cuCtxGetCacheConfig(&c));
    HOLDS(c == CU_FUNC_CACHE_PREFER_NONE);
    REFUSED(cuCtxSetCacheConfig((CUfunc_cache)99));
}
DOC("a device has a name, an id of 16 bytes, memory, and its attributes agree") {
    char name[64] = "";
    OK(cuDeviceGetName(name, sizeof name, 0));
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    HOLDS(!strcmp(name, p.name));
    CUuuid id;
    OK(cuDeviceGetUuid(&id, 0));
    HOLDS(!memcmp(&id, &p.uuid, 16));
    size_t total = 0;
    OK(cuDeviceTotalMem(&total, 0));
    HOLDS(total == p.totalGlobalMem);
    int v = 0;
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0));
    HOLDS(v == p.multiProcessorCount);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrUnifiedAddressing, 0));
    HOLDS(v == 1);
}
DOC("a name is cut to the room there is") {
    char name[8];
    memset(name, 'x', sizeof name);
    OK(cuDeviceGetName(name, 5, 0));
    HOLDS(name[4] == 0 && name[5] == 'x');
}
DOC("a device is found by its place on the bus") {
    char bus[32] = "";
    int d = 9;
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    OK(cudaDeviceGetByPCIBusId(&d, bus));
    HOLDS(d == 0);
    IS(cudaDeviceGetByPCIBusId(&d, "ffff:ff:1f.0"), cudaErrorInvalidDevice);
    REFUSED(cudaDeviceGetByPCIBusId(&d, "nonsense"));
}
DOC("the device that suits the wishes is chosen") {
    cudaDeviceProp p = {};
    int d = 9;
    p.major = 7;
    OK(cudaChooseDevice(&d, &p));
    HOLDS(d == 0);
}
DOC("a thread's device is 0 until it sets another") {
    int d = 9;
    OK(cudaGetDevice(&d));
    HOLDS(d == 0);
    IS(cudaGetDevice(nullptr), cudaErrorInvalidValue);
    IS(cudaGetDeviceCount(nullptr), cudaErrorInvalidValue);
    std::thread([] {
        int d = 9;
        OK(cudaGetDevice(&d));
        HOLDS(d == 0);
    }).join();
}
DOC("flags of a device that do not exist are an invalid value") {
    IS(cudaSetDeviceFlags(0x4000), cudaErrorInvalidValue);
    IS(cudaInitDevice(99, 0, 0), cudaErrorInvalidDevice);
}
DOC("an execution affinity that a device supports is told") {
    int has = 9;
    OK(cuDeviceGetExecAffinitySupport(&has, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    HOLDS(has == 0 || has == 1);
}
DOC("writes of other devices can be flushed, or that is not supported") {
    CUresult rc = cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                             CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    HOLDS(rc == CUDA_SUCCESS || rc == CUDA_ERROR_NOT_SUPPORTED);
}
DOC("a function is found by its name and version, and what there is not is said to be not there") {
    void *f = nullptr;
    CUdriverProcAddressQueryResult how = (CUdriverProcAddressQueryResult)9;
    OK(cuGetProcAddress("cuMemAlloc", &f, 12000, 0, &how));
    HOLDS(f && how == CU_GET_PROC_ADDRESS_SUCCESS);
    f = (void *)8;
    cuGetProcAddress("cuNothingOfThisName", &f, 12000, 0, &how);
    HOLDS(f == nullptr && how == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    cuGetProcAddress("cuGraphConditionalHandleCreate", &f, 11000, 0, &how);
    HOLDS(f == nullptr && how == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}
APART("a primary context is not active before it is retained, and not after the last release") {
    OK(cuInit(0));
    unsigned flags = 99;
    int active = 9;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active == 0);
    CUcontext a, b;
    OK(cuDevicePrimaryCtxRetain(&a, 0));
    OK(cuDevicePrimaryCtxRetain(&b, 0));
    HOLDS(a == b && current() == nullptr);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active == 1);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active == 0);
    IS(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}
APART("the flags of a primary context are set before it is active, and while it is") {
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
    unsigned flags = 99;
    int active = 9;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC && active == 0);
    OK(cudaFree(nullptr));
    OK(cuCtxGetFlags(&flags));
    HOLDS((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_SPIN && active == 1);
    IS(cuDevicePrimaryCtxSetFlags(0, 0x4000), CUDA_ERROR_INVALID_VALUE);
}
APART("resetting a primary context that is retained frees what is in it") {
    OK(cudaFree(nullptr));
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4096));
    OK(cuDevicePrimaryCtxReset(0));
    unsigned flags;
    int active = 9;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active == 0);
}
APART("asking for devices makes no context") {
    int n = 0;
    OK(cudaGetDeviceCount(&n));
    HOLDS(n >= 1);
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    unsigned flags;
    int active = 9;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active == 0);
}
APART("setting the device makes its context") {
    OK(cudaSetDevice(0));
    unsigned flags;
    int active = 9;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active == 1);
    HOLDS(current() != nullptr);
}
APART("flags that are set before the device is used are its flags") {
    OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    OK(cudaFree(nullptr));
    unsigned flags = 0;
    OK(cudaGetDeviceFlags(&flags));
    HOLDS((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
}
APART("a list of valid devices is taken; one that names none is refused") {
    int ok[] = {0}, bad[] = {99};
    REFUSED(cudaSetValidDevices(bad, 1));
    cudaGetLastError();
    OK(cudaSetValidDevices(ok, 1));
    OK(cudaSetValidDevices(nullptr, 0));
}
