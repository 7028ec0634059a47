// What CUDA's documentation says of host memory that is created and mapped, and of pools of host
// memory. See doc.h.
#include "doc.h"

static CUmemAllocationProp made_in(CUmemLocationType type, int id = 0) {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = type;
    p.location.id = id;
    return p;
}
static CUmemAccessDesc lets(CUmemLocationType type) {
    CUmemAccessDesc a = {};
    a.location.type = type;
    a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return a;
}
/// Host memory at an address of its own.
struct Created {
    CUdeviceptr at = 0;
    size_t n = 0;
    CUmemGenericAllocationHandle h = 0;
    bool mapped = false;
    explicit Created(bool device = true) {
        OK(cudaFree(nullptr));
        auto p = made_in(CU_MEM_LOCATION_TYPE_HOST_NUMA);
        OK(cuMemGetAllocationGranularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        OK(cuMemCreate(&h, n, &p, 0));
        OK(cuMemAddressReserve(&at, 2 * n, 0, 0, 0));
        map(at);
        CUmemAccessDesc a[2] = {lets(CU_MEM_LOCATION_TYPE_HOST),
                                lets(CU_MEM_LOCATION_TYPE_DEVICE)};
        OK(cuMemSetAccess(at, n, a, device ? 2 : 1));
    }
    void map(CUdeviceptr where) {
        OK(cuMemMap(where, n, 0, h, 0));
        mapped = true;
    }
    ~Created() {
        if (mapped) cuMemUnmap(at, 2 * n);
        cuMemAddressFree(at, 2 * n);
        cuMemRelease(h);
    }
    int *ints() const { return (int *)at; }
};
DOC("created host memory begins with zeros, and host and device see each other's writes") {
    Created c;
    HOLDS(c.ints()[0] == 0 && c.ints()[c.n / 4 - 1] == 0);
    c.ints()[7] = 5;
    add<<<1, 1>>>(c.ints() + 7, 6);
    put<<<1, 1>>>(c.ints() + c.n / 4 - 1, 9);
    OK(cudaDeviceSynchronize());
    HOLDS(c.ints()[7] == 11 && c.ints()[c.n / 4 - 1] == 9);
}
DOC("created host memory is an end of copies and fills, also in streams and graphs") {
    Created c;
    Stream s;
    Memory m(64);
    int *p = c.ints();
    p[0] = 3;
    OK(cudaMemcpyAsync(m.p, p, 4, cudaMemcpyDefault, s));
    OK(cudaMemcpyAsync(p + 1, m.p, 4, cudaMemcpyDefault, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 3 && p[1] == 3);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemcpyAsync(m.p, p, 4, cudaMemcpyDefault, s));
    add<<<1, 1, 0, s>>>(m.ints(), 1);
    OK(cudaMemcpyAsync(p, m.p, 4, cudaMemcpyDefault, s));
    cudaGraph_t g;
    cudaGraphExec_t x;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphInstantiate(&x, g, 0));
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(p[0] == 6);
    OK(cudaGraphExecDestroy(x));
    OK(cudaGraphDestroy(g));
}
DOC("created host memory that is unmapped and mapped elsewhere has its bytes") {
    Created c;
    put<<<1, 1>>>(c.ints() + 3, 33);
    OK(cudaDeviceSynchronize());
    OK(cuMemUnmap(c.at, c.n));
    c.map(c.at + c.n);
    auto a = lets(CU_MEM_LOCATION_TYPE_HOST);
    OK(cuMemSetAccess(c.at + c.n, c.n, &a, 1));
    HOLDS(((int *)(c.at + c.n))[3] == 33);
}
DOC("what was said of created host memory is read back") {
    Created c;
    CUmemAllocationProp p = {};
    OK(cuMemGetAllocationPropertiesFromHandle(&p, c.h));
    HOLDS(p.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && p.location.id == 0);
    for (auto type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_DEVICE}) {
        CUmemLocation l = {};
        l.type = type;
        unsigned long long f = 9;
        OK(cuMemGetAccess(&f, &l, c.at));
        HOLDS(f == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    void *host = nullptr;
    OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, c.at + 8));
    HOLDS((CUdeviceptr)host == c.at + 8);
    unsigned managed = 9;
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, c.at));
    HOLDS(managed == 0);
}
DOC("created host memory: kinds and nodes that there are not are refused") {
    CUmemGenericAllocationHandle h;
    size_t n = 2 << 20;
    auto p = made_in(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
    REFUSED(cuMemCreate(&h, n, &p, 0));
    p = made_in(CU_MEM_LOCATION_TYPE_HOST_NUMA, 9999);
    REFUSED(cuMemCreate(&h, n, &p, 0));
    p = made_in(CU_MEM_LOCATION_TYPE_HOST);
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    REFUSED(cuMemCreate(&h, n, &p, 0));
    p = made_in(CU_MEM_LOCATION_TYPE_HOST);
    if (TOLD(cuMemCreate(&h, n, &p, 0)) && cuMemCreate(&h, n, &p, 0) == CUDA_SUCCESS)
        cuMemRelease(h);
}
DOC("the program has no access to a device's created memory by saying so") {
    CUmemGenericAllocationHandle h;
    auto p = made_in(CU_MEM_LOCATION_TYPE_DEVICE);
    size_t n = 2 << 20;
    CUdeviceptr at = 0;
    OK(cuMemCreate(&h, n, &p, 0));
    OK(cuMemAddressReserve(&at, n, 0, 0, 0));
    OK(cuMemMap(at, n, 0, h, 0));
    auto a = lets(CU_MEM_LOCATION_TYPE_HOST);
    TOLD(cuMemSetAccess(at, n, &a, 1));
    a = lets(CU_MEM_LOCATION_TYPE_DEVICE);
    a.flags = (CUmemAccess_flags)9;
    REFUSED(cuMemSetAccess(at, n, &a, 1));
    a = lets(CU_MEM_LOCATION_TYPE_DEVICE);
    a.location.id = 99;
    REFUSED(cuMemSetAccess(at, n, &a, 1));
    OK(cuMemUnmap(at, n));
    OK(cuMemAddressFree(at, n));
    OK(cuMemRelease(h));
}
APART("a kernel on created host memory that only the host was let use: an illegal access") {
    Created c(false);
    c.ints()[0] = 1;
    put<<<1, 1>>>(c.ints(), 2);
    IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}
APART("a flag in created host memory that a kernel waits for arrives while it runs") {
    Created c;
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    // A kernel's first launch loads it, which waits for the device.
    put<<<1, 1, 0, s>>>(c.ints(), 7);
    OK(cudaStreamSynchronize(s));
    OK(cuStreamWaitValue32((CUstream)s, c.at + 4096, 1, CU_STREAM_WAIT_VALUE_EQ));
    put<<<1, 1, 0, s>>>(c.ints(), 8);
    HOLDS(cudaStreamQuery(s) == cudaErrorNotReady);
    ((volatile int *)c.at)[1024] = 1;
    OK(cudaStreamSynchronize(s));
    HOLDS(c.ints()[0] == 8);
}
struct HostPool {
    cudaMemPool_t p = nullptr;
    explicit HostPool(cudaMemLocationType type = cudaMemLocationTypeHostNuma, size_t most = 0) {
        cudaMemPoolProps how = {};
        how.allocType = cudaMemAllocationTypePinned;
        how.location.type = type;
        how.maxSize = most;
        OK(cudaMemPoolCreate(&p, &how));
    }
    ~HostPool() { cudaMemPoolDestroy(p); }
    void let_in() const {
        cudaMemAccessDesc a = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
        OK(cudaMemPoolSetAccess(p, &a, 1));
    }
};
DOC("a pool of a host's node is the host's, and a device's once it is let in") {
    HostPool pool;
    Stream s;
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    cudaMemAccessFlags f = (cudaMemAccessFlags)9;
    OK(cudaMemPoolGetAccess(&f, pool.p, &here));
    HOLDS(f == cudaMemAccessFlagsProtNone);
    pool.let_in();
    OK(cudaMemPoolGetAccess(&f, pool.p, &here));
    HOLDS(f == cudaMemAccessFlagsProtReadWrite);
    int *p = nullptr;
    OK(cudaMallocFromPoolAsync((void **)&p, 1 << 20, pool.p, s));
    OK(cudaStreamSynchronize(s));
    p[0] = 4;
    add<<<1, 1, 0, s>>>(p, 5);
    OK(cudaStreamSynchronize(s));
    HOLDS(p[0] == 9);
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
}
DOC("pools: nodes and kinds that there are not are refused") {
    cudaMemPool_t p;
    cudaMemPoolProps how = {};
    how.allocType = cudaMemAllocationTypePinned;
    how.location = {cudaMemLocationTypeHostNumaCurrent, 0};
    REFUSED(cudaMemPoolCreate(&p, &how));
    how.location = {cudaMemLocationTypeHostNuma, 9999};
    REFUSED(cudaMemPoolCreate(&p, &how));
    how.location = {cudaMemLocationTypeHost, 0};
    how.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    REFUSED(cudaMemPoolCreate(&p, &how));
}
DOC("memory of a pool that is freed twice, or in part, is refused") {
    Stream s;
    char *p;
    OK(cudaMallocAsync((void **)&p, 1 << 20, s));
    REFUSED(cudaFreeAsync(p + 512, s));
    cudaGetLastError();
    OK(cudaFreeAsync(p, s));
    REFUSED(cudaFreeAsync(p, s));
}
DOC("a pool's marks: what it has at most is as much as it has, and can be set back to that") {
    Stream s;
    cudaMemPool_t p;
    cudaMemPoolProps how = {};
    how.allocType = cudaMemAllocationTypePinned;
    how.location = {cudaMemLocationTypeDevice, 0};
    OK(cudaMemPoolCreate(&p, &how));
    void *a;
    OK(cudaMallocFromPoolAsync(&a, 4 << 20, p, s));
    OK(cudaStreamSynchronize(s));
    unsigned long long high = 0, now = 0, zero = 0;
    OK(cudaMemPoolGetAttribute(p, cudaMemPoolAttrReservedMemCurrent, &now));
    OK(cudaMemPoolGetAttribute(p, cudaMemPoolAttrReservedMemHigh, &high));
    HOLDS(now >= 4 << 20 && high >= now);
    OK(cudaMemPoolSetAttribute(p, cudaMemPoolAttrReservedMemHigh, &zero));
    OK(cudaMemPoolGetAttribute(p, cudaMemPoolAttrReservedMemHigh, &high));
    HOLDS(high == now);
    OK(cudaFreeAsync(a, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemPoolDestroy(p));
}
