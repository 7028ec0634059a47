// What CUDA's documentation says of virtual memory and of memory in the order of streams. See
// doc.h.
#include "doc.h"

static CUmemAllocationProp on_device() {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return p;
}
static size_t grain() {
    auto p = on_device();
    size_t g = 0;
    OK(cuMemGetAllocationGranularity(&g, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return g ? g : 1;
}
static CUmemAccessDesc access(CUmemAccess_flags f = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    CUmemAccessDesc d = {};
    d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    d.flags = f;
    return d;
}
/// A range of addresses, a piece of memory, and where that was mapped.
struct Mapped {
    size_t n = grain();
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle h = 0;
    explicit Mapped(bool all = true) {
        auto p = on_device();
        OK(cuMemAddressReserve(&at, 2 * n, 0, 0, 0));
        OK(cuMemCreate(&h, n, &p, 0));
        if (!all) return;
        auto a = access();
        OK(cuMemMap(at, n, 0, h, 0));
        OK(cuMemSetAccess(at, n, &a, 1));
    }
    ~Mapped() {
        cuMemUnmap(at, n);
        if (h) cuMemRelease(h);
        cuMemAddressFree(at, 2 * n);
    }
};

DOC("the granularity is a power of two; the recommended is not below the minimum") {
    auto p = on_device();
    size_t least = 0, best = 0;
    OK(cuMemGetAllocationGranularity(&least, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemGetAllocationGranularity(&best, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    HOLDS(least && !(least & (least - 1)) && best >= least && best % least == 0);
    REFUSED(cuMemGetAllocationGranularity(&least, &p, (CUmemAllocationGranularity_flags)9));
}
DOC("memory that was created, mapped and let in is used as any other") {
    Mapped m;
    OK(cuMemsetD32(m.at, 17, m.n / 4));
    HOLDS(value((void *)m.at) == 17);
    HOLDS(value((void *)(m.at + m.n - 4)) == 17);
    add<<<1, 1>>>((int *)m.at, 3);
    OK(cudaDeviceSynchronize());
    HOLDS(value((void *)m.at) == 20);
}
DOC("a size that is no multiple of the granularity, or 0, is an invalid value") {
    auto p = on_device();
    CUmemGenericAllocationHandle h;
    IS(cuMemCreate(&h, grain() / 2, &p, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemCreate(&h, 0, &p, 0), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr at;
    REFUSED(cuMemAddressReserve(&at, 0, 0, 0, 0));
}
DOC("memory with wrong properties or flags is refused") {
    auto p = on_device();
    CUmemGenericAllocationHandle h;
    REFUSED(cuMemCreate(&h, grain(), &p, 1));
    p.location.id = 99;
    REFUSED(cuMemCreate(&h, grain(), &p, 0));
    p = on_device();
    p.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    REFUSED(cuMemCreate(&h, grain(), &p, 0));
}
DOC("an address that is asked for is aligned as asked") {
    CUdeviceptr at = 0;
    size_t n = grain();
    OK(cuMemAddressReserve(&at, n, 64 * n, 0, 0));
    HOLDS(at % (64 * n) == 0);
    OK(cuMemAddressFree(at, n));
    REFUSED(cuMemAddressReserve(&at, n, 3, 0, 0));
}
DOC("mapping where nothing was reserved, or over what is mapped, is an invalid value") {
    Mapped m;
    auto p = on_device();
    CUmemGenericAllocationHandle h;
    OK(cuMemCreate(&h, m.n, &p, 0));
    REFUSED(cuMemMap(m.at, m.n, 0, h, 0));
    REFUSED(cuMemMap(1ull << 20, m.n, 0, h, 0));
    REFUSED(cuMemMap(m.at + m.n, m.n, 0, h, 1));
    REFUSED(cuMemMap(m.at + m.n, 2 * m.n, 0, h, 0));
    OK(cuMemRelease(h));
}
DOC("memory that is mapped twice is the same memory") {
    Mapped m;
    auto a = access();
    OK(cuMemMap(m.at + m.n, m.n, 0, m.h, 0));
    OK(cuMemSetAccess(m.at + m.n, m.n, &a, 1));
    OK(cuMemsetD32(m.at, 5, 4));
    HOLDS(value((void *)(m.at + m.n)) == 5);
    OK(cudaDeviceSynchronize());
    OK(cuMemUnmap(m.at + m.n, m.n));
}
DOC("memory that was released lives as long as it is mapped") {
    Mapped m;
    OK(cuMemRelease(m.h));
    m.h = 0;
    OK(cuMemsetD32(m.at, 9, 4));
    HOLDS(value((void *)m.at) == 9);
}
DOC("access is none until it is set, and what was set is read back") {
    Mapped m(false);
    OK(cuMemMap(m.at, m.n, 0, m.h, 0));
    CUmemLocation here = {};
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    unsigned long long got = 99;
    OK(cuMemGetAccess(&got, &here, m.at));
    HOLDS(got == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    auto a = access();
    OK(cuMemSetAccess(m.at, m.n, &a, 1));
    OK(cuMemGetAccess(&got, &here, m.at));
    HOLDS(got == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    REFUSED(cuMemSetAccess(m.at + m.n, m.n, &a, 1));
    a.location.id = 99;
    REFUSED(cuMemSetAccess(m.at, m.n, &a, 1));
}
DOC("the handle of mapped memory can be asked for, and keeps it alive") {
    Mapped m;
    CUmemGenericAllocationHandle again = 0;
    OK(cuMemRetainAllocationHandle(&again, (void *)m.at));
    HOLDS(again == m.h);
    OK(cuMemRelease(again));
    CUmemAllocationProp got = {};
    OK(cuMemGetAllocationPropertiesFromHandle(&got, m.h));
    HOLDS(got.type == CU_MEM_ALLOCATION_TYPE_PINNED && got.location.id == 0);
    HOLDS(got.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    Memory plain(64);
    REFUSED(cuMemRetainAllocationHandle(&again, plain.p));
}
DOC("addresses are freed as they were reserved, and only when nothing is mapped") {
    Mapped m;
    REFUSED(cuMemAddressFree(m.at, 2 * m.n));
    REFUSED(cuMemAddressFree(m.at + m.n, m.n));
}
DOC("unmapping a part of what is mapped is refused") {
    Mapped m;
    TOLD(cuMemUnmap(m.at + m.n, m.n));
    REFUSED(cuMemUnmap(m.at, m.n / 2));
}
DOC("the attributes of mapped memory are those of device memory") {
    Mapped m;
    CUmemorytype type = (CUmemorytype)0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m.at));
    HOLDS(type == CU_MEMORYTYPE_DEVICE);
    unsigned mapped = 9;
    OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, m.at));
    HOLDS(mapped == 1);
    int ipc = 9;
    OK(cuPointerGetAttribute(&ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, m.at));
    HOLDS(ipc == 0);
}
DOC("memory is exported as a file and imported again: the same memory") {
    auto p = on_device();
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    size_t n = grain();
    CUmemGenericAllocationHandle h, other = 0;
    OK(cuMemCreate(&h, n, &p, 0));
    int fd = -1;
    OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    HOLDS(fd >= 0);
    OK(cuMemImportFromShareableHandle(&other, (void *)(long)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr at;
    auto a = access();
    OK(cuMemAddressReserve(&at, 2 * n, 0, 0, 0));
    OK(cuMemMap(at, n, 0, h, 0));
    OK(cuMemMap(at + n, n, 0, other, 0));
    OK(cuMemSetAccess(at, 2 * n, &a, 1));
    OK(cuMemsetD32(at, 6, 4));
    HOLDS(value((void *)(at + n)) == 6);
    OK(cudaDeviceSynchronize());
    OK(cuMemUnmap(at, 2 * n));
    OK(cuMemAddressFree(at, 2 * n));
    OK(cuMemRelease(h));
    OK(cuMemRelease(other));
    close(fd);
}
DOC("memory that was not created for it cannot be exported") {
    Mapped m;
    int fd;
    REFUSED(cuMemExportToShareableHandle(&fd, m.h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}
DOC("memory can be created on the host, and host and device use it at one address") {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    size_t n = 0;
    OK(cuMemGetAllocationGranularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle h = 0;
    if (!OK(cuMemCreate(&h, n, &p, 0))) return;
    CUdeviceptr at = 0;
    OK(cuMemAddressReserve(&at, n, 0, 0, 0));
    OK(cuMemMap(at, n, 0, h, 0));
    CUmemAccessDesc a[2] = {access(), access()};
    a[1].location.type = CU_MEM_LOCATION_TYPE_HOST;
    OK(cuMemSetAccess(at, n, a, 2));
    int *both = (int *)at;
    both[0] = 30;
    add<<<1, 1>>>(both, 4);
    OK(cudaDeviceSynchronize());
    HOLDS(both[0] == 34);
    CUmemorytype type = (CUmemorytype)0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    HOLDS(type == CU_MEMORYTYPE_HOST);
    OK(cuMemUnmap(at, n));
    OK(cuMemAddressFree(at, n));
    OK(cuMemRelease(h));
}
APART("a kernel that writes where access was not given makes an illegal access") {
    cudaFree(nullptr);
    Mapped m(false);
    OK(cuMemMap(m.at, m.n, 0, m.h, 0));
    put<<<1, 1>>>((int *)m.at, 1);
    IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

struct Pool {
    cudaMemPool_t p = nullptr;
    explicit Pool(size_t most = 0) {
        cudaMemPoolProps how = {};
        how.allocType = cudaMemAllocationTypePinned;
        how.location.type = cudaMemLocationTypeDevice;
        how.maxSize = most;
        OK(cudaMemPoolCreate(&p, &how));
    }
    ~Pool() { cudaMemPoolDestroy(p); }
    operator cudaMemPool_t() const { return p; }
    unsigned long long number(cudaMemPoolAttr what) const {
        unsigned long long v = 99;
        OK(cudaMemPoolGetAttribute(p, what, &v));
        return v;
    }
    int flag(cudaMemPoolAttr what) const {
        int v = 99;
        OK(cudaMemPoolGetAttribute(p, what, &v));
        return v;
    }
};
DOC("memory is there for work behind its allocation, and gone behind its free") {
    Stream s;
    void *p = nullptr;
    OK(cudaMallocAsync(&p, 1 << 20, s));
    HOLDS(p != nullptr);
    put<<<1, 1, 0, s>>>((int *)p, 12);
    int v = 0;
    OK(cudaMemcpyAsync(&v, p, 4, cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(v == 12);
}
DOC("memory of a stream may be freed in another, and with cudaFree") {
    Stream s, t;
    void *p, *q;
    OK(cudaMallocAsync(&p, 1 << 20, s));
    OK(cudaMallocAsync(&q, 1 << 20, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaFreeAsync(p, t));
    OK(cudaFree(q));
    OK(cudaStreamSynchronize(t));
}
DOC("memory of cudaMalloc may be freed in the order of a stream") {
    Stream s;
    void *p;
    OK(cudaMalloc(&p, 1 << 20));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
}
DOC("freeing nothing, or twice, in the order of a stream") {
    Stream s;
    void *p;
    OK(cudaMallocAsync(&p, 1 << 20, s));
    OK(cudaFreeAsync(p, s));
    REFUSED(cudaFreeAsync(p, s));
    cudaGetLastError();
    OK(cudaStreamSynchronize(s));
    int stack;
    REFUSED(cudaFreeAsync(&stack, s));
}
DOC("allocating 0 bytes in the order of a stream gives no address") {
    Stream s;
    void *p = (void *)8;
    OK(cudaMallocAsync(&p, 0, s));
    HOLDS(p == nullptr);
    IS(cudaMallocAsync((void **)nullptr, 4, s), cudaErrorInvalidValue);
}
DOC("a device has a default pool, which is the current one until another is set") {
    cudaMemPool_t def, now;
    OK(cudaDeviceGetDefaultMemPool(&def, 0));
    OK(cudaDeviceGetMemPool(&now, 0));
    HOLDS(def == now);
    Pool p;
    OK(cudaDeviceSetMemPool(0, p));
    OK(cudaDeviceGetMemPool(&now, 0));
    HOLDS(now == p.p);
    Stream s;
    void *q;
    OK(cudaMallocAsync(&q, 1 << 20, s));
    cudaMemPool_t of = nullptr;
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (CUdeviceptr)q));
    HOLDS(of == p.p);
    OK(cudaFreeAsync(q, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaDeviceSetMemPool(0, def));
}
DOC("destroying the current pool makes the default one current; that cannot be destroyed") {
    cudaMemPool_t def, now;
    OK(cudaDeviceGetDefaultMemPool(&def, 0));
    {
        Pool p;
        OK(cudaDeviceSetMemPool(0, p));
    }
    OK(cudaDeviceGetMemPool(&now, 0));
    HOLDS(now == def);
    REFUSED(cudaMemPoolDestroy(def));
}
DOC("a pool that is new: it reuses, keeps nothing, and uses nothing") {
    Pool p;
    HOLDS(p.flag(cudaMemPoolReuseFollowEventDependencies) == 1);
    HOLDS(p.flag(cudaMemPoolReuseAllowOpportunistic) == 1);
    HOLDS(p.flag(cudaMemPoolReuseAllowInternalDependencies) == 1);
    HOLDS(p.number(cudaMemPoolAttrReleaseThreshold) == 0);
    HOLDS(p.number(cudaMemPoolAttrUsedMemCurrent) == 0);
    HOLDS(p.number(cudaMemPoolAttrReservedMemCurrent) == 0);
}
DOC("a pool's attributes are what was set") {
    Pool p;
    int off = 0;
    for (auto a : {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                   cudaMemPoolReuseAllowInternalDependencies}) {
        OK(cudaMemPoolSetAttribute(p, a, &off));
        HOLDS(p.flag(a) == 0);
    }
    unsigned long long much = 1ull << 30;
    OK(cudaMemPoolSetAttribute(p, cudaMemPoolAttrReleaseThreshold, &much));
    HOLDS(p.number(cudaMemPoolAttrReleaseThreshold) == much);
}
DOC("a pool counts what is used, and how much it was at most") {
    Pool p;
    Stream s;
    void *a, *b;
    OK(cudaMallocFromPoolAsync(&a, 1 << 20, p, s));
    OK(cudaMallocFromPoolAsync(&b, 1 << 20, p, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(p.number(cudaMemPoolAttrUsedMemCurrent) == 2 << 20);
    HOLDS(p.number(cudaMemPoolAttrReservedMemCurrent) >= 2 << 20);
    OK(cudaFreeAsync(a, s));
    OK(cudaFreeAsync(b, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(p.number(cudaMemPoolAttrUsedMemCurrent) == 0);
    HOLDS(p.number(cudaMemPoolAttrUsedMemHigh) == 2 << 20);
    unsigned long long zero = 0, one = 1;
    OK(cudaMemPoolSetAttribute(p, cudaMemPoolAttrUsedMemHigh, &zero));
    HOLDS(p.number(cudaMemPoolAttrUsedMemHigh) == 0);
    REFUSED(cudaMemPoolSetAttribute(p, cudaMemPoolAttrUsedMemHigh, &one));
    cudaGetLastError();
    REFUSED(cudaMemPoolSetAttribute(p, cudaMemPoolAttrUsedMemCurrent, &zero));
}
DOC("a pool with a threshold keeps memory over a synchronization, and gives it back when trimmed") {
    Pool p;
    Stream s;
    unsigned long long much = 1ull << 40;
    OK(cudaMemPoolSetAttribute(p, cudaMemPoolAttrReleaseThreshold, &much));
    void *a;
    OK(cudaMallocFromPoolAsync(&a, 64 << 20, p, s));
    OK(cudaFreeAsync(a, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(p.number(cudaMemPoolAttrReservedMemCurrent) >= 64 << 20);
    OK(cudaMemPoolTrimTo(p, 0));
    HOLDS(p.number(cudaMemPoolAttrReservedMemCurrent) == 0);
}
DOC("a pool without a threshold gives its memory back at a synchronization") {
    Pool p;
    Stream s;
    void *a;
    OK(cudaMallocFromPoolAsync(&a, 64 << 20, p, s));
    OK(cudaFreeAsync(a, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(p.number(cudaMemPoolAttrReservedMemCurrent) == 0);
}
DOC("a trim leaves what is used") {
    Pool p;
    Stream s;
    void *a;
    OK(cudaMallocFromPoolAsync(&a, 64 << 20, p, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemPoolTrimTo(p, 0));
    HOLDS(p.number(cudaMemPoolAttrReservedMemCurrent) >= 64 << 20);
    put<<<1, 1, 0, s>>>((int *)a, 4);
    OK(cudaFreeAsync(a, s));
    OK(cudaStreamSynchronize(s));
}
DOC("memory freed in a stream is reused by the next allocation of its size in it") {
    Pool p;
    Stream s;
    void *a, *b;
    OK(cudaMallocFromPoolAsync(&a, 1 << 20, p, s));
    OK(cudaFreeAsync(a, s));
    OK(cudaMallocFromPoolAsync(&b, 1 << 20, p, s));
    HOLDS(a == b);
    OK(cudaFreeAsync(b, s));
    OK(cudaStreamSynchronize(s));
}
DOC("a pool of a size at most gives no more") {
    Pool p(64 << 20);
    Stream s;
    void *a, *b = nullptr;
    OK(cudaMallocFromPoolAsync(&a, 32 << 20, p, s));
    IS(cudaMallocFromPoolAsync(&b, 512 << 20, p, s), cudaErrorMemoryAllocation);
    OK(cudaFreeAsync(a, s));
    OK(cudaStreamSynchronize(s));
}
DOC("the device of a pool may use it, and cannot be shut out") {
    Pool p;
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    cudaMemAccessFlags f = (cudaMemAccessFlags)9;
    OK(cudaMemPoolGetAccess(&f, p, &here));
    HOLDS(f == cudaMemAccessFlagsProtReadWrite);
    cudaMemAccessDesc none = {here, cudaMemAccessFlagsProtNone};
    REFUSED(cudaMemPoolSetAccess(p, &none, 1));
}
DOC("a pool with wrong properties is refused") {
    cudaMemPoolProps how = {};
    cudaMemPool_t p;
    REFUSED(cudaMemPoolCreate(&p, &how));
    how.allocType = cudaMemAllocationTypePinned;
    how.location.type = cudaMemLocationTypeDevice;
    how.location.id = 99;
    REFUSED(cudaMemPoolCreate(&p, &how));
    REFUSED(cudaMemPoolCreate(nullptr, &how));
    unsigned long long v;
    Pool q;
    REFUSED(cudaMemPoolGetAttribute(q, (cudaMemPoolAttr)99, &v));
}
DOC("a pool that was not made for it cannot be exported") {
    Pool p;
    int fd;
    REFUSED(cudaMemPoolExportToShareableHandle(&fd, p, cudaMemHandleTypePosixFileDescriptor, 0));
}
DOC("a pool may be destroyed while memory of it is used, which is freed later") {
    Stream s;
    void *a;
    {
        Pool p;
        OK(cudaMallocFromPoolAsync(&a, 1 << 20, p, s));
    }
    put<<<1, 1, 0, s>>>((int *)a, 44);
    int v = 0;
    OK(cudaMemcpyAsync(&v, a, 4, cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(a, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(v == 44);
}
DOC("a stream that waits for the free in another gets memory that nobody uses") {
    Pool p;
    Stream s, t;
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    void *a, *b;
    OK(cudaMallocFromPoolAsync(&a, 1 << 20, p, s));
    OK(cudaMemsetAsync(a, 1, 1 << 20, s));
    OK(cudaFreeAsync(a, s));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(t, e, 0));
    OK(cudaMallocFromPoolAsync(&b, 1 << 20, p, t));
    OK(cudaMemsetAsync(b, 2, 1 << 20, t));
    OK(cudaStreamSynchronize(t));
    HOLDS(value(b) == 0x02020202);
    OK(cudaFreeAsync(b, t));
    OK(cudaStreamSynchronize(t));
    OK(cudaEventDestroy(e));
}
