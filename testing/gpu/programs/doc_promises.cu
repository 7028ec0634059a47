// What CUDA's documentation says of launches that depend on each other, of clusters, green
// contexts, batches on managed memory, pointers of pools and contexts with parameters. See doc.h.
#include "doc.h"

/// Writes late, and says early that the next kernel may begin.
__global__ void first_of_two(int *p, int v) {
    cudaTriggerProgrammaticLaunchCompletion();
    for (int i = 0; i < 100; i++) __nanosleep(1000);
    *p = v;
}
__global__ void second_of_two(const int *p, int *out) {
    cudaGridDependencySynchronize();
    *out = *(const volatile int *)p + 1;
}
__global__ void size_of_cluster(int *out) {
    unsigned n;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    if (blockIdx.x == 0) *out = (int)n;
}
__global__ void __cluster_dims__(2, 1, 1) of_two(int *out) { *out = 2; }
__global__ void multiprocessor(int *seen) {
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    if (threadIdx.x == 0) seen[id] = 1;
    for (int i = 0; i < 20; i++) __nanosleep(1000);
}

static cudaLaunchConfig_t config_of(cudaStream_t s, cudaLaunchAttribute *a, unsigned n = 1) {
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(4);
    c.blockDim = dim3(32);
    c.stream = s;
    c.attrs = a;
    c.numAttrs = n;
    return c;
}

DOC("a kernel that may begin early sees what the one before it wrote once it has waited for it") {
    Stream s;
    Memory m(64);
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = 1;
    auto c = config_of(s, &a);
    c.gridDim = c.blockDim = dim3(1);
    for (int i = 0; i < 50; i++) {
        first_of_two<<<1, 1, 0, s>>>(m.ints(), i);
        OK(cudaLaunchKernelEx(&c, second_of_two, (const int *)m.ints(), m.ints() + 1));
        int v = -1;
        OK(cudaMemcpyAsync(&v, m.ints() + 1, 4, cudaMemcpyDeviceToHost, s));
        OK(cudaStreamSynchronize(s));
        if (!HOLDS(v == i + 1)) break;
    }
}

DOC("an event may be recorded when all blocks of a kernel have begun; it is complete in the end") {
    Stream s;
    Memory m(64);
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeLaunchCompletionEvent;
    a.val.launchCompletionEvent.event = e;
    auto c = config_of(s, &a);
    OK(cudaLaunchKernelEx(&c, put, m.ints(), 5));
    OK(cudaEventSynchronize(e));
    OK(cudaStreamSynchronize(s));
    OK(cudaEventQuery(e));
    HOLDS(value(m.p) == 5);
    OK(cudaEventDestroy(e));
}

DOC("domains of memory synchronization: a stream has the default one, and a map of two") {
    Stream s;
    cudaStreamAttrValue v = {};
    OK(cudaStreamGetAttribute(s, cudaLaunchAttributeMemSyncDomain, &v));
    HOLDS(v.memSyncDomain == cudaLaunchMemSyncDomainDefault);
    v = {};
    v.memSyncDomain = cudaLaunchMemSyncDomainRemote;
    OK(cudaStreamSetAttribute(s, cudaLaunchAttributeMemSyncDomain, &v));
    v = {};
    OK(cudaStreamGetAttribute(s, cudaLaunchAttributeMemSyncDomain, &v));
    HOLDS(v.memSyncDomain == cudaLaunchMemSyncDomainRemote);
    int n = 0;
    OK(cudaDeviceGetAttribute(&n, cudaDevAttrMemSyncDomainCount, 0));
    HOLDS(n >= 1);
    v = {};
    v.memSyncDomainMap.default_ = 0;
    v.memSyncDomainMap.remote = (unsigned char)(n - 1);
    OK(cudaStreamSetAttribute(s, cudaLaunchAttributeMemSyncDomainMap, &v));
    v = {};
    OK(cudaStreamGetAttribute(s, cudaLaunchAttributeMemSyncDomainMap, &v));
    HOLDS(v.memSyncDomainMap.remote == n - 1);
    Memory m(64);
    put<<<1, 1, 0, s>>>(m.ints(), 8);
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 8);
}

DOC("a kernel without attributes is no cluster; with them it is one of that size") {
    Stream s;
    Memory m(64);
    for (unsigned size : {1u, 2u, 4u}) {
        cudaLaunchAttribute a = {};
        a.id = cudaLaunchAttributeClusterDimension;
        a.val.clusterDim.x = size;
        a.val.clusterDim.y = a.val.clusterDim.z = 1;
        auto c = config_of(s, &a);
        OK(cudaLaunchKernelEx(&c, size_of_cluster, m.ints()));
        OK(cudaStreamSynchronize(s));
        HOLDS(value(m.p) == (int)size);
    }
    size_of_cluster<<<4, 32, 0, s>>>(m.ints());
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 1);
}

DOC("a cluster of more blocks than is portable must be allowed; its size divides the grid") {
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim.x = 16;
    a.val.clusterDim.y = a.val.clusterDim.z = 1;
    Memory m(64);
    auto c = config_of(nullptr, &a);
    c.gridDim = dim3(16);
    REFUSED(cudaLaunchKernelEx(&c, size_of_cluster, m.ints()));
    OK(cudaFuncSetAttribute(size_of_cluster, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    TOLD(cudaLaunchKernelEx(&c, size_of_cluster, m.ints()));
    cudaDeviceSynchronize();
    cudaGetLastError();
    a.val.clusterDim.x = 3;
    REFUSED(cudaLaunchKernelEx(&c, size_of_cluster, m.ints()));
    OK(cudaFuncSetAttribute(size_of_cluster, cudaFuncAttributeNonPortableClusterSizeAllowed, 0));
}

DOC("a kernel that says its cluster in its code says so when it is asked") {
    cudaFuncAttributes f = {};
    OK(cudaFuncGetAttributes(&f, of_two));
    HOLDS(f.requiredClusterWidth == 2 && f.requiredClusterHeight == 1);
    OK(cudaFuncGetAttributes(&f, put));
    HOLDS(f.requiredClusterWidth == 0 && f.clusterDimMustBeSet == 0);
}

DOC("a launch with an attribute twice, and with one that does not exist") {
    Stream s;
    Memory m(64);
    cudaLaunchAttribute a[2] = {};
    a[0].id = a[1].id = cudaLaunchAttributePriority;
    auto c = config_of(s, a, 2);
    TOLD(cudaLaunchKernelEx(&c, put, m.ints(), 6));
    OK(cudaStreamSynchronize(s));
    a[0].id = (cudaLaunchAttributeID)77;
    c.numAttrs = 1;
    TOLD(cudaLaunchKernelEx(&c, put, m.ints(), 7));
    cudaStreamSynchronize(s);
}

/// A green context of at least so many multiprocessors of the device's.
static CUgreenCtx green_of(unsigned least, unsigned *has) {
    CUdevResource all = {}, part = {}, rest = {};
    unsigned groups = 1;
    CUdevResourceDesc d = nullptr;
    CUgreenCtx g = nullptr;
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, least));
    HOLDS(groups == 1 && part.sm.smCount >= least);
    HOLDS(part.sm.smCount + rest.sm.smCount <= all.sm.smCount);
    OK(cuDevResourceGenerateDesc(&d, &part, 1));
    OK(cuGreenCtxCreate(&g, d, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    *has = part.sm.smCount;
    return g;
}

DOC("kernels in a stream of a green context run on its multiprocessors, and no others") {
    OK(cudaFree(nullptr));
    unsigned has = 0;
    CUgreenCtx g = green_of(16, &has), of = nullptr;
    CUstream s = nullptr;
    OK(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    OK(cuStreamGetGreenCtx(s, &of));
    HOLDS(of == g);
    std::vector<int> seen(1024, 0);
    Memory m(seen.size() * 4);
    OK(cudaMemset(m.p, 0, seen.size() * 4));
    multiprocessor<<<2000, 32, 0, s>>>(m.ints());
    OK(cuStreamSynchronize(s));
    OK(cudaMemcpy(seen.data(), m.p, seen.size() * 4, cudaMemcpyDeviceToHost));
    unsigned used = 0;
    for (int v : seen) used += v;
    HOLDS(used > 0 && used <= has);
    OK(cuStreamDestroy(s));
    OK(cuGreenCtxDestroy(g));
}

DOC("a green context has the resource it was made of, and becomes a context") {
    OK(cudaFree(nullptr));
    unsigned has = 0;
    CUgreenCtx g = green_of(8, &has);
    CUdevResource r = {};
    OK(cuGreenCtxGetDevResource(g, &r, CU_DEV_RESOURCE_TYPE_SM));
    HOLDS(r.sm.smCount == has);
    CUcontext c = nullptr, before = nullptr, now = nullptr;
    OK(cuCtxFromGreenCtx(&c, g));
    OK(cuCtxGetCurrent(&before));
    OK(cuCtxPushCurrent(c));
    OK(cuCtxGetCurrent(&now));
    HOLDS(now == c && c != before);
    r = {};
    OK(cuCtxGetDevResource(c, &r, CU_DEV_RESOURCE_TYPE_SM));
    HOLDS(r.sm.smCount == has);
    OK(cuCtxPopCurrent(&now));
    OK(cuGreenCtxDestroy(g));
}

DOC("a green context must have a default stream by its flags, and a blocking stream is refused") {
    OK(cudaFree(nullptr));
    CUdevResource all = {};
    CUdevResourceDesc d = nullptr;
    CUgreenCtx g = nullptr;
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&d, &all, 1));
    REFUSED(cuGreenCtxCreate(&g, d, 0, 0));
    OK(cuGreenCtxCreate(&g, d, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CUstream s = nullptr;
    REFUSED(cuGreenCtxStreamCreate(&s, g, CU_STREAM_DEFAULT, 0));
    OK(cuGreenCtxDestroy(g));
}

DOC("a batch of prefetches, of discards: what is written afterwards is read") {
    const size_t n = 4 << 20;
    char *a = nullptr, *b = nullptr;
    OK(cudaMallocManaged((void **)&a, n));
    OK(cudaMallocManaged((void **)&b, n));
    memset(a, 3, n);
    memset(b, 4, n);
    Stream s;
    CUdeviceptr at[2] = {(CUdeviceptr)a, (CUdeviceptr)b};
    size_t sizes[2] = {n, n}, which[1] = {0};
    CUmemLocation place = {};
    place.type = CU_MEM_LOCATION_TYPE_DEVICE;
    place.id = 0;
    OK(cuMemPrefetchBatchAsync(at, sizes, 2, &place, which, 1, 0, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(a[n - 1] == 3 && b[0] == 4);
    OK(cuMemDiscardBatchAsync(at, sizes, 1, 0, s));
    put<<<1, 1, 0, s>>>((int *)a, 21);
    OK(cudaStreamSynchronize(s));
    HOLDS(*(int *)a == 21 && b[n - 1] == 4);
    REFUSED(cuMemPrefetchBatchAsync(at, sizes, 0, &place, which, 1, 0, s));
    REFUSED(cuMemPrefetchBatchAsync(at, sizes, 2, &place, which, 1, 1, s));
    which[0] = 1;
    REFUSED(cuMemPrefetchBatchAsync(at, sizes, 2, &place, which, 1, 0, s));
    cudaGetLastError();
    OK(cudaFree(a));
    OK(cudaFree(b));
}

DOC("memory of a pool says so: its pool, no handle of the old kind, and a device's type") {
    Stream s;
    void *p = nullptr;
    OK(cudaMallocAsync(&p, 1 << 20, s));
    cudaMemPool_t pool = nullptr;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CUmemoryPool of = nullptr;
    unsigned kind = 0;
    unsigned legacy = 0;
    CUdeviceptr at = (CUdeviceptr)p;
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
    HOLDS(of == (CUmemoryPool)pool);
    OK(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    HOLDS(kind == CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at));
    HOLDS(legacy == 0);
    Memory m(64);
    TOLD(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, m.at()));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
}

DOC("what is yes or no of a pointer, and how many bytes say so") {
    Memory m(64);
    void *managed = nullptr, *locked = nullptr;
    OK(cudaMallocManaged(&managed, 64));
    OK(cudaMallocHost(&locked, 64));
    for (auto which : {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                       CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                       CU_POINTER_ATTRIBUTE_MAPPED}) {
        for (void *p : {m.p, managed, locked}) {
            unsigned v = ~0u;
            TOLD(cuPointerGetAttribute(&v, which, (CUdeviceptr)p));
            char text[16];
            snprintf(text, sizeof text, "%#x", v);
            told_(text);
        }
    }
    OK(cudaFree(managed));
    OK(cudaFreeHost(locked));
}

DOC("small page-locked memory that comes again begins with what is written to it, each time") {
    Stream s;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    for (int i = 1; i <= 200; i++) {
        int *p = nullptr;
        OK(cudaHostAlloc((void **)&p, 4, cudaHostAllocMapped));
        *p = -i;
        add<<<1, 1, 0, s>>>(p, 2 * i);
        OK(cudaEventRecord(e, s));
        OK(cudaEventSynchronize(e));
        if (!HOLDS(*p == i)) break;
        OK(cudaFreeHost(p));
        cudaPointerAttributes told = {};
        OK(cudaPointerGetAttributes(&told, p));
        if (!HOLDS(told.type == cudaMemoryTypeUnregistered)) break;
        IS(cudaFreeHost(p), cudaErrorInvalidValue);
        cudaGetLastError();
    }
    OK(cudaEventDestroy(e));
}

DOC("a context is made without parameters as with none; one that asks for too many is refused") {
    CUcontext c = nullptr, old = nullptr;
    OK(cuCtxCreate(&c, nullptr, 0, 0));
    OK(cuCtxDestroy(c));
    CUctxCreateParams none = {};
    OK(cuCtxCreate(&c, &none, 0, 0));
    OK(cuCtxGetCurrent(&old));
    HOLDS(old == c);
    OK(cuCtxDestroy(c));
    CUctxCreateParams bad = {};
    bad.numExecAffinityParams = 1;
    REFUSED(cuCtxCreate(&c, &bad, 0, 0));
}

APART("releasing a primary context that nobody retained is an invalid context") {
    OK(cuInit(0));
    IS(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext c = nullptr;
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuDevicePrimaryCtxRelease(0));
    IS(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

DOC("a kernel of a library has a function for each context, which runs there") {
    static const char *text = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry seven(.param .u64 at) {
  .reg .u64 %p<3>;
  .reg .u32 %v;
  ld.param.u64 %p1, [at];
  cvta.to.global.u64 %p2, %p1;
  mov.u32 %v, 7;
  st.global.u32 [%p2], %v;
  ret;
}
)";
    OK(cudaFree(nullptr));
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    OK(cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cuLibraryGetKernel(&kernel, library, "seven"));
    CUcontext other = nullptr, was = nullptr;
    OK(cuCtxGetCurrent(&was));
    CUfunction here = nullptr, there = nullptr;
    OK(cuKernelGetFunction(&here, kernel));
    OK(cuCtxCreate(&other, nullptr, 0, 0));
    OK(cuKernelGetFunction(&there, kernel));
    HOLDS(here != there);
    CUdeviceptr p = 0;
    OK(cuMemAlloc(&p, 64));
    void *args[] = {&p};
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
    int v = 0;
    OK(cuMemcpyDtoH(&v, p, 4));
    HOLDS(v == 7);
    OK(cuMemFree(p));
    OK(cuCtxDestroy(other));
    CUcontext now = nullptr;
    OK(cuCtxGetCurrent(&now));
    HOLDS(now == was);
    OK(cuLibraryUnload(library));
}

DOC("an entry of the driver is found for the default stream of a thread, too, and is another one") {
    void *legacy = nullptr, *own = nullptr, *none = nullptr;
    cudaDriverEntryPointQueryResult r;
    OK(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &legacy, 12000,
                                        cudaEnableLegacyStream, &r));
    HOLDS(r == cudaDriverEntryPointSuccess && legacy);
    OK(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &own, 12000,
                                        cudaEnablePerThreadDefaultStream, &r));
    HOLDS(r == cudaDriverEntryPointSuccess && own && own != legacy);
    TOLD(cudaGetDriverEntryPointByVersion("cuNoSuchCall", &none, 12000, cudaEnableDefault, &r));
    HOLDS(r == cudaDriverEntryPointSymbolNotFound && !none);
    cudaGetLastError();
    TOLD(cudaGetDriverEntryPointByVersion("cuGreenCtxCreate", &none, 11000, cudaEnableDefault, &r));
    HOLDS(r == cudaDriverEntryPointVersionNotSufficent && !none);
    cudaGetLastError();
}

DOC("threads make flags of their own, hand them to kernels and free them, all at a time") {
    std::vector<std::thread> all;
    std::atomic<int> good{0};
    for (int t = 0; t < 6; t++) {
        all.emplace_back([t, &good] {
            cudaStream_t s;
            cudaEvent_t e;
            if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess) return;
            if (cudaEventCreateWithFlags(&e, cudaEventDisableTiming) != cudaSuccess) return;
            for (int i = 0; i < 100; i++) {
                int *p = nullptr;
                if (cudaHostAlloc((void **)&p, 4 << (i % 3), cudaHostAllocMapped)) return;
                *p = 1000 * t;
                add<<<1, 1, 0, s>>>(p, i);
                bool so = cudaEventRecord(e, s) == cudaSuccess
                          && cudaEventSynchronize(e) == cudaSuccess && *p == 1000 * t + i;
                good += so && cudaFreeHost(p) == cudaSuccess;
            }
            cudaEventDestroy(e);
            cudaStreamDestroy(s);
        });
    }
    for (auto &t : all) t.join();
    HOLDS(good == 600);
}

DOC("an event says that what is before it in its stream is over, and nothing of other streams") {
    Stream s, other;
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    int *p = nullptr;
    OK(cudaHostAlloc((void **)&p, 64 << 10, cudaHostAllocMapped));
    memset(p, 0, 64 << 10);
    Held held(other);
    add<<<1, 1, 0, other>>>(p + 4096, 5);
    for (int i = 1; i <= 20; i++) {
        add<<<1, 1, 0, s>>>(p, 1);
        OK(cudaEventRecord(e, s));
        OK(cudaEventSynchronize(e));
        if (!HOLDS(p[0] == i)) break;
    }
    held.release();
    HOLDS(p[4096] == 5 && p[0] == 20);
    // Recorded again elsewhere, it says nothing of where it was before.
    add<<<1, 1, 0, s>>>(p, 1);
    OK(cudaEventRecord(e, other));
    OK(cudaEventSynchronize(e));
    OK(cudaStreamSynchronize(s));
    HOLDS(p[0] == 21);
    OK(cudaEventDestroy(e));
    OK(cudaFreeHost(p));
}

DOC("pools by place: a device's default pool, and the current one, which can be set") {
    cudaMemLocation place = {};
    place.type = cudaMemLocationTypeDevice;
    cudaMemPool_t a = nullptr, b = nullptr, mine = nullptr;
    OK(cudaMemGetDefaultMemPool(&a, &place, cudaMemAllocationTypePinned));
    OK(cudaDeviceGetDefaultMemPool(&b, 0));
    HOLDS(a == b && a);
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = place;
    OK(cudaMemPoolCreate(&mine, &props));
    OK(cudaMemSetMemPool(&place, cudaMemAllocationTypePinned, mine));
    OK(cudaMemGetMemPool(&a, &place, cudaMemAllocationTypePinned));
    HOLDS(a == mine);
    OK(cudaDeviceGetMemPool(&a, 0));
    HOLDS(a == mine);
    OK(cudaMemSetMemPool(&place, cudaMemAllocationTypePinned, b));
    OK(cudaMemPoolDestroy(mine));
}

DOC("a kernel's parameters: where each is and how long, and no more of them than there are") {
    size_t offset = 99, size = 99;
    cudaFunction_t f = nullptr;
    OK(cudaGetFuncBySymbol(&f, (const void *)put));
    OK(cuFuncGetParamInfo((CUfunction)f, 0, &offset, &size));
    HOLDS(offset == 0 && size == 8);
    OK(cuFuncGetParamInfo((CUfunction)f, 1, &offset, &size));
    HOLDS(offset == 8 && size == 4);
    REFUSED(cuFuncGetParamInfo((CUfunction)f, 2, &offset, &size));
}

DOC("a library of the runtime's: its kernels by name and in all, launched as any other") {
    static const char *text = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 nine = 9;
.visible .entry eight(.param .u64 at) {
  .reg .u64 %p<3>;
  .reg .u32 %v;
  ld.param.u64 %p1, [at];
  cvta.to.global.u64 %p2, %p1;
  mov.u32 %v, 8;
  st.global.u32 [%p2], %v;
  ret;
}
)";
    cudaLibrary_t library = nullptr;
    cudaKernel_t kernel = nullptr, none = nullptr, listed = nullptr;
    unsigned n = 0;
    OK(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cudaLibraryGetKernel(&kernel, library, "eight"));
    REFUSED(cudaLibraryGetKernel(&none, library, "seven"));
    cudaGetLastError();
    OK(cudaLibraryGetKernelCount(&n, library));
    HOLDS(n == 1);
    OK(cudaLibraryEnumerateKernels(&listed, 1, library));
    HOLDS(listed == kernel);
    Memory m(64);
    void *args[] = {&m.p};
    OK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(1), args, 0, nullptr));
    OK(cudaDeviceSynchronize());
    HOLDS(value(m.p) == 8);
    void *nine = nullptr;
    size_t size = 0;
    OK(cudaLibraryGetGlobal(&nine, &size, library, "nine"));
    HOLDS(size == 4 && value(nine) == 9);
    OK(cudaLibraryUnload(library));
}

DOC("attributes of a range of managed memory, several at a time") {
    void *p = nullptr;
    OK(cudaMallocManaged(&p, 4 << 20));
    cudaMemLocation place = {};
    place.type = cudaMemLocationTypeDevice;
    OK(cudaMemAdvise(p, 4 << 20, cudaMemAdviseSetReadMostly, place));
    OK(cudaMemAdvise(p, 4 << 20, cudaMemAdviseSetPreferredLocation, place));
    int mostly = -1, preferred = -1;
    void *data[] = {&mostly, &preferred};
    size_t sizes[] = {4, 4};
    cudaMemRangeAttribute which[] = {cudaMemRangeAttributeReadMostly,
                                     cudaMemRangeAttributePreferredLocation};
    OK(cudaMemRangeGetAttributes(data, sizes, which, 2, p, 4 << 20));
    HOLDS(mostly == 1 && preferred == 0);
    sizes[0] = 8;
    REFUSED(cudaMemRangeGetAttributes(data, sizes, which, 2, p, 4 << 20));
    cudaGetLastError();
    OK(cudaFree(p));
}
