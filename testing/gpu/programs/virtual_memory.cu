// Addresses and memory apart: reserving, mapping one memory at two addresses, who may touch it,
// unmapping in parts, handing it to others, and pools.
#include "tell.h"
#include <cstring>
#include <unistd.h>
#include <vector>

__global__ void fill(int *p, int n, int v) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = v + i;
}

static const size_t G = 2 << 20;
static CUmemAllocationProp props(int handles = 0) {
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    p.requestedHandleTypes = (CUmemAllocationHandleType)handles;
    return p;
}
static CUmemAccessDesc access(CUmemAccess_flags flags) {
    CUmemAccessDesc a{};
    a.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    a.flags = flags;
    return a;
}
static int at(CUdeviceptr p) {
    int v = -1;
    CUresult rc = cuMemcpyDtoH(&v, p, 4);
    return rc ? -(int)rc : v;
}

static void mapping() {
    puts("-- mapping");
    CUmemAllocationProp p = props();
    size_t least = 0, best = 0;
    SAY(cuMemGetAllocationGranularity(&least, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    SAY(cuMemGetAllocationGranularity(&best, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    printf("%zu %zu\n", least, best);
    CUdeviceptr va, vb;
    SAY(cuMemAddressReserve(&va, 8 * G, 0, 0, 0));
    SAY(cuMemAddressReserve(&vb, 8 * G, 4 * G, 0, 0));
    printf("aligned %d %d\n", va % G == 0, vb % (4 * G) == 0);
    CUmemGenericAllocationHandle a, b;
    SAY(cuMemCreate(&a, 4 * G, &p, 0));
    SAY(cuMemCreate(&b, 2 * G, &p, 0));
    SAY(cuMemMap(va, 4 * G, 0, a, 0));
    SAY(cuMemMap(va + 4 * G, 2 * G, 0, b, 0));
    CUmemAccessDesc rw = access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    SAY(cuMemSetAccess(va, 6 * G, &rw, 1));
    unsigned long long flags = 0;
    SAY(cuMemGetAccess(&flags, &rw.location, va));
    printf("access %llu\n", flags);
    SAY(cuMemsetD32(va, 5, 6 * G / 4));
    // The same memory at a second address.
    SAY(cuMemMap(vb, 4 * G, 0, a, 0));
    SAY(cuMemSetAccess(vb, 4 * G, &rw, 1));
    fill<<<1, 256>>>((int *)va, 1 << 18, 100);
    SAY(cuCtxSynchronize());
    printf("seen at the other address: %d %d\n", at(vb), at(vb + 4000));
    SAY(cuMemsetD32(vb + 4, 77, 1));
    printf("and back: %d\n", at(va + 4));
    // Over the border of two mappings.
    SAY(cuMemsetD32(va + 4 * G - 8, 9, 4));
    printf("over the border: %d %d\n", at(va + 4 * G - 4), at(va + 4 * G));
    std::vector<int> big(3 * G / 4, 6);
    SAY(cuMemcpyHtoD(va + 2 * G, big.data(), 3 * G));
    printf("over the border: %d %d\n", at(va + 4 * G - 4), at(va + 5 * G - 4));
    CUdeviceptr base = 0;
    size_t size = 0;
    SAY(cuMemGetAddressRange(&base, &size, va + 5 * G));
    printf("range begins at %lld, %lld long\n", (long long)(base - va) / (long long)G,
           (long long)(size / G));
    CUmemGenericAllocationHandle again;
    SAY(cuMemRetainAllocationHandle(&again, (void *)(va + 100)));
    printf("the same %d\n", again == a);
    SAY(cuMemRelease(again));
    CUmemAllocationProp told{};
    SAY(cuMemGetAllocationPropertiesFromHandle(&told, a));
    printf("type %d location %d %d\n", (int)told.type, (int)told.location.type, told.location.id);

    puts("-- mistakes");
    SAY(cuMemMap(va, 4 * G, 0, a, 0));
    SAY(cuMemMap(va + 6 * G, 2 * G, 3 * G, a, 0));
    SAY(cuMemMap(va + 6 * G, G / 2, 0, a, 0));
    SAY(cuMemMap(va + 6 * G + 4096, G, 0, a, 0));
    SAY(cuMemMap(va + 7 * G, 2 * G, 0, a, 0));
    SAY(cuMemMap(va + 6 * G, G, 0, (CUmemGenericAllocationHandle)0, 0));
    SAY(cuMemSetAccess(va + 6 * G, G, &rw, 1));
    SAY(cuMemSetAccess(va, 6 * G, &rw, 0));
    SAY(cuMemAddressFree(va, 8 * G));
    SAY(cuMemAddressFree(va, 4 * G));
    SAY(cuMemUnmap(va, G));
    SAY(cuMemUnmap(va + 6 * G, G));
    SAY(cuMemCreate(&again, G + 5, &p, 0));
    SAY(cuMemCreate(&again, 0, &p, 0));
    SAY(cuMemCreate(&again, G, &p, 5));
    CUmemAllocationProp odd = p;
    odd.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    SAY(cuMemCreate(&again, G, &odd, 0));
    odd = p;
    odd.location.id = 99;
    SAY(cuMemCreate(&again, G, &odd, 0));
    SAY(cuMemAddressReserve(&base, G + 5, 0, 0, 0));
    SAY(cuMemAddressReserve(&base, 0, 0, 0, 0));
    SAY(cuMemAddressReserve(&base, G, 3, 0, 0));
    SAY(cuMemFree(va));
    SAY(cuMemAddressFree(vb + G, G));

    puts("-- taking apart");
    // Held by its mapping after its release.
    SAY(cuMemRelease(b));
    printf("still there: %d\n", at(va + 5 * G));
    SAY(cuMemUnmap(va + 4 * G, 2 * G));
    SAY(cuMemCreate(&b, 2 * G, &p, 0));
    SAY(cuMemMap(va + 4 * G, G, G, b, 0));
    SAY(cuMemMap(va + 5 * G, G, 0, b, 0));
    SAY(cuMemGetAccess(&flags, &rw.location, va + 4 * G));
    printf("access %llu\n", flags);
    SAY(cuMemSetAccess(va + 4 * G, G, &rw, 1));
    SAY(cuMemSetAccess(va + 5 * G, G, &rw, 1));
    SAY(cuMemsetD32(va + 4 * G, 41, 2 * G / 4));
    SAY(cuMemsetD32(va + 5 * G, 42, 1));
    printf("crossed: %d %d\n", at(va + 4 * G), at(va + 5 * G));
    CUmemAccessDesc none = access(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    SAY(cuMemSetAccess(va + 4 * G, G, &none, 1));
    SAY(cuMemGetAccess(&flags, &none.location, va + 4 * G));
    printf("access %llu\n", flags);
    SAY(cuMemSetAccess(va + 4 * G, G, &rw, 1));
    printf("access again: %d\n", at(va + 4 * G));
    SAY(cuMemUnmap(va, 6 * G));
    printf("the second address stays: %d\n", at(vb + 4));
    SAY(cuMemUnmap(vb, 4 * G));
    SAY(cuMemRelease(a));
    SAY(cuMemRelease(b));
    SAY(cuMemAddressFree(va, 8 * G));
    SAY(cuMemAddressFree(va, 8 * G));
    SAY(cuMemAddressFree(vb, 8 * G));
    // What grows, as allocators do it.
    SAY(cuMemAddressReserve(&va, 64 * G, 0, 0, 0));
    CUmemGenericAllocationHandle h[64];
    int bad = 0;
    for (int i = 0; i < 64; i++) {
        bad += cuMemCreate(&h[i], G, &p, 0) != 0;
        bad += cuMemMap(va + i * G, G, 0, h[i], 0) != 0;
        bad += cuMemSetAccess(va + i * G, G, &rw, 1) != 0;
        bad += cuMemRelease(h[i]) != 0;
    }
    SAY(cuMemsetD32(va, 3, 64 * G / 4));
    printf("bad %d, its end: %d\n", bad, at(va + 64 * G - 4));
    for (int i = 0; i < 64; i += 2) bad += cuMemUnmap(va + i * G, G) != 0;
    printf("bad %d, between holes: %d\n", bad, at(va + G));
    for (int i = 1; i < 64; i += 2) bad += cuMemUnmap(va + i * G, G) != 0;
    SAY(cuMemAddressFree(va, 64 * G));
    printf("bad %d\n", bad);
}

static void pools(CUstream s) {
    puts("-- pools");
    CUmemPoolProps p{};
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool, other, now;
    SAY(cuMemPoolCreate(&pool, &p));
    p.maxSize = 64 << 20;
    SAY(cuMemPoolCreate(&other, &p));
    for (int a = 1; a <= 8; a++) {
        cuuint64_t v = 0;
        CUresult rc = cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a, &v);
        printf("attribute %d: %d %llu\n", a, (int)rc, (unsigned long long)v);
    }
    cuuint64_t v = 0;
    SAY(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &v));
    CUdeviceptr a, b;
    SAY(cuMemAllocFromPoolAsync(&a, 1 << 20, pool, s));
    SAY(cuMemsetD32Async(a, 8, 1 << 18, s));
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
    printf("used %llu\n", (unsigned long long)v);
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &v));
    printf("reserved %d\n", v >= (1 << 20));
    SAY(cuMemAllocFromPoolAsync(&b, 256 << 20, other, s));
    SAY(cuMemFreeAsync(a, s));
    SAY(cuStreamSynchronize(s));
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
    printf("used %llu\n", (unsigned long long)v);
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
    printf("high %llu\n", (unsigned long long)v);
    v = 0;
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
    v = 3;
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
    printf("threshold %llu\n", (unsigned long long)v);
    int off = 0;
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &off));
    off = 5;
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &off));
    printf("opportunistic %d\n", off);
    SAY(cuMemPoolTrimTo(pool, 0));
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccess_flags f;
    SAY(cuMemPoolGetAccess(&f, pool, &here));
    printf("access %d\n", (int)f);
    CUmemAccessDesc none = access(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    SAY(cuMemPoolSetAccess(pool, &none, 1));
    SAY(cuDeviceGetMemPool(&now, 0));
    SAY(cuDeviceSetMemPool(0, pool));
    CUmemoryPool got, first;
    SAY(cuDeviceGetMemPool(&got, 0));
    printf("the new one %d\n", got == pool);
    SAY(cuDeviceGetDefaultMemPool(&first, 0));
    printf("the default one %d\n", first == now);
    SAY(cuMemAllocAsync(&a, 4096, s));
    CUmemoryPool owner = nullptr;
    SAY(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    printf("from the new one %d\n", owner == pool);
    SAY(cuMemFreeAsync(a, s));
    SAY(cuMemPoolDestroy(pool));
    SAY(cuDeviceGetMemPool(&got, 0));
    printf("the default one again %d\n", got == first);
    SAY(cuMemPoolDestroy(first));
    SAY(cuMemPoolDestroy(other));
    a = 5;
    SAY(cuMemAllocAsync(&a, 0, s));
    printf("no bytes at %llu\n", (unsigned long long)a);
    SAY(cuMemFreeAsync(0, s));
    SAY(cuMemFreeAsync(0x1234, s));
    DRIVER(cuMemAlloc(&b, 4096));
    SAY(cuMemFreeAsync(b, s));
    SAY(cuMemAllocAsync(&a, 4096, s));
    SAY(cuStreamSynchronize(s));
    SAY(cuMemFree(a));
    CUmemPoolProps odd{};
    SAY(cuMemPoolCreate(&pool, &odd));
    odd.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    odd.location = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
    SAY(cuMemPoolCreate(&pool, &odd));
}

static void shared() {
    puts("-- for other processes");
    CUmemAllocationProp p = props(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), q = props();
    CUmemGenericAllocationHandle a, b, c;
    CUdeviceptr va, vb;
    int fd = -1;
    SAY(cuMemCreate(&a, 2 * G, &p, 0));
    SAY(cuMemCreate(&c, G, &q, 0));
    SAY(cuMemExportToShareableHandle(&fd, c, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemExportToShareableHandle(&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
    SAY(cuMemExportToShareableHandle(&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemImportFromShareableHandle(&b, (void *)(long)fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CUmemAllocationProp told{};
    SAY(cuMemGetAllocationPropertiesFromHandle(&told, b));
    printf("type %d handles %d location %d %d\n", (int)told.type, (int)told.requestedHandleTypes,
           (int)told.location.type, told.location.id);
    SAY(cuMemAddressReserve(&va, 2 * G, 0, 0, 0));
    SAY(cuMemAddressReserve(&vb, 2 * G, 0, 0, 0));
    CUmemAccessDesc rw = access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    SAY(cuMemMap(va, 2 * G, 0, a, 0));
    SAY(cuMemMap(vb, 2 * G, 0, b, 0));
    SAY(cuMemSetAccess(va, 2 * G, &rw, 1));
    SAY(cuMemSetAccess(vb, 2 * G, &rw, 1));
    SAY(cuMemsetD32(va, 123, 2 * G / 4));
    printf("through the descriptor: %d %d\n", at(vb), at(vb + 2 * G - 4));
    SAY(cuMemRelease(a));
    SAY(cuMemUnmap(va, 2 * G));
    SAY(cuMemsetD32(vb, 124, 1));
    printf("after its maker let go: %d %d\n", at(vb), at(vb + 2 * G - 4));
    SAY(cuMemUnmap(vb, 2 * G));
    SAY(cuMemRelease(b));
    SAY(cuMemRelease(c));
}

int main() {
    CHECK(cudaFree(nullptr));
    CUstream s;
    DRIVER(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    mapping();
    pools(s);
    shared();
    SAY(cuCtxSynchronize());
    printf("done\n");
}
