// What a pointer says of itself, whatever it points to; and the memory of symbols, of arrays and of
// the program, registered and not.
#include "tell.h"
#include <cstring>
#include <sys/mman.h>
#include <vector>

__device__ int symbol[64];
__constant__ int constant[64];
__managed__ int shared[64];

static void show(const char *what, CUdeviceptr p) {
    printf("%s\n", what);
    struct {
        CUpointer_attribute a;
        const char *name;
        int size;
        bool number;
    } all[] = {
        {CU_POINTER_ATTRIBUTE_CONTEXT, "context", 8, false},
        {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "type", 4, true},
        {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "device pointer", 8, false},
        {CU_POINTER_ATTRIBUTE_HOST_POINTER, "host pointer", 8, false},
        {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "sync", 4, true},
        {CU_POINTER_ATTRIBUTE_BUFFER_ID, "buffer id", 8, false},
        {CU_POINTER_ATTRIBUTE_IS_MANAGED, "managed", 4, true},
        {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "device", 4, true},
        {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "ipc", 4, true},
        {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "start", 8, false},
        {CU_POINTER_ATTRIBUTE_RANGE_SIZE, "size", 8, false},
        {CU_POINTER_ATTRIBUTE_MAPPED, "mapped", 4, true},
        {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "handles", 8, false},
        {CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, "rdma", 4, false},
        {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "access", 4, true},
        {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "pool", 8, false},
        {CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "mapping size", 8, false},
        {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "mapping base", 8, false},
        {CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, "block", 8, false},
        {CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, "decompress", 4, false},
    };
    for (auto &x : all) {
        unsigned long long v = 0;
        CUresult rc = cuPointerGetAttribute(&v, x.a, p);
        printf("  %s: %d", x.name, (int)rc);
        if (!rc && x.number) printf(" %d", (int)v);
        if (!rc && x.size == 8 && x.a != CU_POINTER_ATTRIBUTE_RANGE_SIZE &&
            x.a != CU_POINTER_ATTRIBUTE_MAPPING_SIZE &&
            x.a != CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES) {
            if (v == p) printf(" itself");
            else printf(v ? " another" : " none");
        }
        if (!rc && x.a == CU_POINTER_ATTRIBUTE_RANGE_SIZE) printf(" %llu", v);
        puts("");
    }
    cudaPointerAttributes r;
    cudaError_t rc = cudaPointerGetAttributes(&r, (void *)p);
    printf("  runtime: %d type %d device %d, %s %s\n", (int)rc, (int)r.type, r.device,
           r.devicePointer ? (r.devicePointer == (void *)p ? "itself" : "another") : "none",
           r.hostPointer ? (r.hostPointer == (void *)p ? "itself" : "another") : "none");
    cudaGetLastError();
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult arc = cuMemGetAddressRange(&base, &size, p);
    printf("  range: %d", (int)arc);
    if (!arc) printf(" %d before, %zu long", (int)(p - base), size);
    puts("");
}

int main() {
    CHECK(cudaFree(nullptr));
    CUdeviceptr d, m, pitched, q, arr;
    void *pinned, *mapped, *combined, *stack[16];
    DRIVER(cuMemAlloc(&d, 10000));
    show("device", d);
    show("in the middle", d + 5000);
    DRIVER(cuMemAllocManaged(&m, 4096, CU_MEM_ATTACH_GLOBAL));
    show("managed", m);
    size_t pitch;
    DRIVER(cuMemAllocPitch(&pitched, &pitch, 100, 10, 4));
    printf("pitch %zu\n", pitch);
    show("pitched", pitched);
    DRIVER(cuMemHostAlloc(&pinned, 4096, 0));
    show("pinned", (CUdeviceptr)pinned);
    show("in the middle of it", (CUdeviceptr)pinned + 100);
    DRIVER(cuMemHostAlloc(&mapped, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    show("mapped", (CUdeviceptr)mapped);
    DRIVER(cuMemHostAlloc(&combined, 4096, CU_MEMHOSTALLOC_WRITECOMBINED));
    show("write-combined", (CUdeviceptr)combined);
    CUdeviceptr same = 0;
    SAY(cuMemHostGetDevicePointer(&same, pinned, 0));
    printf("the same %d\n", same == (CUdeviceptr)pinned);
    unsigned flags = 0;
    for (void *p : {pinned, mapped, combined}) {
        CUresult rc = cuMemHostGetFlags(&flags, p);
        printf("flags: %d %#x\n", (int)rc, flags);
    }
    void *pages = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    show("pageable", (CUdeviceptr)pages);
    SAY(cuMemHostRegister(pages, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
    show("registered", (CUdeviceptr)pages);
    show("behind it", (CUdeviceptr)pages + 8192);
    SAY(cuMemHostRegister(pages, 8192, 0));
    SAY(cuMemHostRegister((char *)pages + 4096, 8192, 0));
    SAY(cuMemHostUnregister((char *)pages + 4096));
    SAY(cuMemHostUnregister(pages));
    SAY(cuMemHostUnregister(pages));
    SAY(cuMemHostUnregister(pinned));
    SAY(cuMemHostRegister(nullptr, 4096, 0));
    SAY(cuMemHostRegister(pages, 0, 0));
    SAY(cuMemHostRegister(pages, 4096, 0x80));
    SAY(cuMemHostRegister((char *)pages + 100, 1000, 0));
    show("registered, odd", (CUdeviceptr)pages + 100);
    SAY(cuMemHostUnregister((char *)pages + 100));
    show("stack", (CUdeviceptr)stack);
    void *at;
    CHECK(cudaGetSymbolAddress(&at, symbol));
    show("symbol", (CUdeviceptr)at);
    CHECK(cudaGetSymbolAddress(&at, constant));
    show("constant", (CUdeviceptr)at);
    shared[0] = 3;
    CHECK(cudaGetSymbolAddress(&at, shared));
    show("managed symbol", (CUdeviceptr)at);
    CUstream s;
    DRIVER(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    DRIVER(cuMemAllocAsync(&q, 5000, s));
    DRIVER(cuStreamSynchronize(s));
    show("of a pool", q);
    DRIVER(cuMemFreeAsync(q, s));
    DRIVER(cuStreamSynchronize(s));
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle h;
    DRIVER(cuMemAddressReserve(&arr, 4 << 20, 0, 0, 0));
    DRIVER(cuMemCreate(&h, 2 << 20, &p, 0));
    DRIVER(cuMemMap(arr, 2 << 20, 0, h, 0));
    show("mapped, without access", arr);
    CUmemAccessDesc rw{};
    rw.location = p.location;
    rw.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemSetAccess(arr, 2 << 20, &rw, 1));
    show("mapped, with access", arr + 8);
    show("reserved", arr + (3 << 20));
    show("nothing", 0);
    show("nonsense", 0x1234);
    DRIVER(cuMemFree(d));
    show("freed", d);
    int sync = 1;
    SAY(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m));
    SAY(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pitched));
    show("with order", pitched);
    SAY(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pitched));
    SAY(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1234));
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUpointer_attribute)99};
    unsigned long long a = 7, b = 7;
    void *to[] = {&a, &b};
    SAY(cuPointerGetAttributes(2, which, to, m));
    SAY(cuPointerGetAttributes(0, which, to, m));
    SAY(cuPointerGetAttribute(&a, (CUpointer_attribute)0, m));

    puts("-- advice and prefetching");
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    SAY(cuMemAdvise_v2(m, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    int v = 0;
    SAY(cuMemRangeGetAttribute(&v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, m, 4096));
    printf("read mostly %d\n", v);
    SAY(cuMemAdvise_v2(m, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    SAY(cuMemRangeGetAttribute(&v, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, m, 4096));
    printf("preferred %d\n", v);
    SAY(cuMemAdvise_v2(m, 4096, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, here));
    SAY(cuMemAdvise_v2(pitched, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    SAY(cuMemAdvise_v2(m, 4096, (CUmem_advise)99, here));
    SAY(cuMemRangeGetAttribute(&v, 4, (CUmem_range_attribute)99, m, 4096));
    SAY(cuStreamAttachMemAsync(s, m, 0, CU_MEM_ATTACH_SINGLE));
    SAY(cuStreamAttachMemAsync(s, pitched, 0, CU_MEM_ATTACH_SINGLE));
    SAY(cuStreamSynchronize(s));
    printf("done\n");
}
