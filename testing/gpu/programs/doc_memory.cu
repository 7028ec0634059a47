// What CUDA's documentation says of memory: allocation, copies, what is known of an address.
// See doc.h.
#include "doc.h"

__device__ int symbol[4] = {1, 2, 3, 4};
__constant__ int constant[4] = {5, 6, 7, 8};

template <typename T> static CUresult about(T *to, CUpointer_attribute what, const void *p) {
    return cuPointerGetAttribute(to, what, (CUdeviceptr)p);
}
/// Page-locked memory, which ends with the check.
struct Pinned {
    int *p = nullptr;
    explicit Pinned(size_t n, unsigned flags = 0) { OK(cudaHostAlloc((void **)&p, n, flags)); }
    ~Pinned() { cudaFreeHost(p); }
};
struct Managed {
    int *p = nullptr;
    explicit Managed(size_t n) { OK(cudaMallocManaged(&p, n)); }
    ~Managed() { cudaFree(p); }
};

DOC("allocating 0 bytes succeeds in the runtime, with no address, and fails in the driver") {
    void *p = (void *)8;
    OK(cudaMalloc(&p, 0));
    HOLDS(p == nullptr);
    CUdeviceptr d = 8;
    IS(cuMemAlloc(&d, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("allocating into NULL is an invalid value") {
    IS(cudaMalloc((void **)nullptr, 4), cudaErrorInvalidValue);
    IS(cudaMallocHost((void **)nullptr, 4), cudaErrorInvalidValue);
    IS(cudaMallocManaged((void **)nullptr, 4), cudaErrorInvalidValue);
    IS(cuMemAlloc(nullptr, 4), CUDA_ERROR_INVALID_VALUE);
}
DOC("allocating more than there is fails with out of memory, and less succeeds after it") {
    void *p;
    IS(cudaMalloc(&p, (size_t)1 << 46), cudaErrorMemoryAllocation);
    IS(cudaGetLastError(), cudaErrorMemoryAllocation);
    Memory m(1 << 20);
}
DOC("memory is aligned to 256 bytes at least") {
    for (size_t n : {1, 3, 100, 257, 5000}) {
        Memory a(n), b(n);
        HOLDS((size_t)a.p % 256 == 0 && (size_t)b.p % 256 == 0 && a.p != b.p);
    }
}
DOC("freeing NULL does nothing") {
    OK(cudaFree(nullptr));
    OK(cudaFreeHost(nullptr));
    OK(cudaFreeArray(nullptr));
}
DOC("freeing twice, or the middle of memory, or what was never allocated, is an invalid value") {
    void *p;
    int stack;
    OK(cudaMalloc(&p, 4096));
    IS(cudaFree((char *)p + 256), cudaErrorInvalidValue);
    OK(cudaFree(p));
    IS(cudaFree(p), cudaErrorInvalidValue);
    IS(cudaFree(&stack), cudaErrorInvalidValue);
    IS(cuMemFree((CUdeviceptr)p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(0));
}
DOC("freeing page-locked memory that is none is an invalid value") {
    std::vector<char> plain(4096);
    IS(cudaFreeHost(plain.data()), cudaErrorInvalidValue);
    Memory m(64);
    IS(cudaFreeHost(m.p), cudaErrorInvalidValue);
}
DOC("free memory shrinks by what is allocated, total memory does not") {
    size_t before, total, after, again;
    OK(cudaMemGetInfo(&before, &total));
    void *p;
    // More than programs beside this one take and give meanwhile.
    OK(cudaMalloc(&p, (size_t)8 << 30));
    OK(cudaMemGetInfo(&after, &again));
    HOLDS(total == again && before <= total && after < before);
    OK(cudaFree(p));
}
DOC("the range of an address is the allocation it lies in") {
    Memory m(100000);
    CUdeviceptr base = 0;
    size_t size = 0;
    OK(cuMemGetAddressRange(&base, &size, m.at() + 5000));
    HOLDS(base == m.at() && size == 100000);
    OK(cuMemGetAddressRange(&base, nullptr, m.at()));
    OK(cuMemGetAddressRange(nullptr, &size, m.at()));
    int stack;
    REFUSED(cuMemGetAddressRange(&base, &size, (CUdeviceptr)&stack));
}
DOC("device memory: its type, device, start and size") {
    Memory m(4096);
    CUmemorytype type = (CUmemorytype)0;
    OK(about(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m.p));
    HOLDS(type == CU_MEMORYTYPE_DEVICE);
    int device = 9;
    OK(about(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, m.p));
    HOLDS(device == 0);
    CUdeviceptr start = 0;
    size_t size = 0;
    OK(about(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, m.ints() + 7));
    OK(about(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, m.ints() + 7));
    HOLDS(start == m.at() && size == 4096);
    CUcontext of = nullptr, now;
    OK(cuCtxGetCurrent(&now));
    OK(about(&of, CU_POINTER_ATTRIBUTE_CONTEXT, m.p));
    HOLDS(of == now);
    unsigned managed = 9;
    OK(about(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m.p));
    HOLDS(!managed);
    void *host;
    IS(about(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, m.p), CUDA_ERROR_INVALID_VALUE);
}
DOC("a buffer's id is unique in the process, and another one when its address is used again") {
    std::vector<unsigned long long> seen;
    for (int i = 0; i < 4; i++) {
        void *p;
        OK(cudaMalloc(&p, 4096));
        unsigned long long id = 0;
        OK(about(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
        for (auto s : seen) HOLDS(s != id);
        seen.push_back(id);
        OK(cudaFree(p));
    }
}
DOC("page-locked memory: type, host address, device address") {
    Pinned h(4096, cudaHostAllocMapped);
    CUmemorytype type = (CUmemorytype)0;
    OK(about(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, h.p));
    HOLDS(type == CU_MEMORYTYPE_HOST);
    void *host = nullptr;
    OK(about(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, h.p + 3));
    HOLDS(host == h.p + 3);
    void *device = nullptr;
    OK(cudaHostGetDevicePointer(&device, h.p, 0));
    HOLDS(device == h.p);
    cudaPointerAttributes a = {};
    OK(cudaPointerGetAttributes(&a, h.p));
    HOLDS(a.type == cudaMemoryTypeHost && a.hostPointer == h.p && a.devicePointer == device);
}
DOC("managed memory: type, and that it is managed") {
    Managed m(4096);
    unsigned managed = 9;
    OK(about(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m.p));
    HOLDS(managed == 1);
    cudaPointerAttributes a = {};
    OK(cudaPointerGetAttributes(&a, m.p));
    HOLDS(a.type == cudaMemoryTypeManaged && a.hostPointer == m.p && a.devicePointer == m.p);
}
DOC("a plain host address is unregistered for the runtime, an invalid value for the driver") {
    int stack;
    cudaPointerAttributes a;
    memset(&a, 0xff, sizeof a);
    OK(cudaPointerGetAttributes(&a, &stack));
    HOLDS(a.type == cudaMemoryTypeUnregistered && a.devicePointer == nullptr);
    CUmemorytype type;
    IS(about(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &stack), CUDA_ERROR_INVALID_VALUE);
}
DOC("attributes together: what an address does not have is 0, and the call succeeds") {
    int stack, device = 7;
    CUmemorytype type = CU_MEMORYTYPE_ARRAY;
    unsigned managed = 7;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *to[] = {&type, &managed, &device};
    OK(cuPointerGetAttributes(3, which, to, (CUdeviceptr)&stack));
    HOLDS((int)type == 0 && managed == 0 && device == -2);
}
DOC("memory that was freed is known no more") {
    void *p;
    OK(cudaMalloc(&p, 64 << 20));
    OK(cudaFree(p));
    cudaPointerAttributes a = {};
    OK(cudaPointerGetAttributes(&a, p));
    HOLDS(a.type == cudaMemoryTypeUnregistered);
}
DOC("synchronous behaviour of memory can be set, and is read back") {
    Memory m(4096);
    unsigned on = 9;
    OK(about(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m.p));
    HOLDS(on == 0);
    on = 1;
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m.at()));
    on = 9;
    OK(about(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m.p));
    HOLDS(on == 1);
    REFUSED(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m.at()));
}
DOC("page-locked memory has the flags it was allocated with") {
    for (unsigned f : {0u, (unsigned)cudaHostAllocPortable, (unsigned)cudaHostAllocWriteCombined}) {
        Pinned h(4096, f);
        unsigned got = 99;
        OK(cudaHostGetFlags(&got, h.p));
        HOLDS((got & ~cudaHostAllocMapped) == f);
    }
    std::vector<char> plain(64);
    unsigned got;
    IS(cudaHostGetFlags(&got, plain.data()), cudaErrorInvalidValue);
}
DOC("page-locked memory with flags that do not exist is an invalid value") {
    void *p;
    IS(cudaHostAlloc(&p, 64, 0x100), cudaErrorInvalidValue);
    IS(cuMemHostAlloc(&p, 64, 0x100), CUDA_ERROR_INVALID_VALUE);
}
DOC("page-locked memory of 0 bytes has no address") {
    void *p = (void *)8;
    OK(cudaHostAlloc(&p, 0, 0));
    HOLDS(p == nullptr);
    p = (void *)8;
    OK(cuMemHostAlloc(&p, 0, 0));
    told_(p ? "some address" : "none");
}
DOC("the device's address of page-locked memory takes no flags, and no other memory has one") {
    Pinned h(64);
    void *d;
    IS(cudaHostGetDevicePointer(&d, h.p, 1), cudaErrorInvalidValue);
    std::vector<char> plain(64);
    IS(cudaHostGetDevicePointer(&d, plain.data(), 0), cudaErrorInvalidValue);
}
DOC("memory is registered once, and once only unregistered") {
    void *p = aligned_alloc(4096, 16384);
    OK(cudaHostRegister(p, 16384, 0));
    IS(cudaHostRegister(p, 16384, 0), cudaErrorHostMemoryAlreadyRegistered);
    cudaPointerAttributes a = {};
    OK(cudaPointerGetAttributes(&a, (char *)p + 100));
    HOLDS(a.type == cudaMemoryTypeHost);
    OK(cudaHostUnregister(p));
    IS(cudaHostUnregister(p), cudaErrorHostMemoryNotRegistered);
    OK(cudaPointerGetAttributes(&a, p));
    HOLDS(a.type == cudaMemoryTypeUnregistered);
    free(p);
}
DOC("registering nothing, 0 bytes or with wrong flags is an invalid value") {
    void *p = aligned_alloc(4096, 4096);
    IS(cudaHostRegister(nullptr, 64, 0), cudaErrorInvalidValue);
    IS(cudaHostRegister(p, 0, 0), cudaErrorInvalidValue);
    IS(cudaHostRegister(p, 4096, 0x400), cudaErrorInvalidValue);
    free(p);
}
DOC("registered memory is unregistered at its start only") {
    char *p = (char *)aligned_alloc(4096, 16384);
    OK(cudaHostRegister(p, 16384, 0));
    REFUSED(cudaHostUnregister(p + 4096));
    cudaGetLastError();
    OK(cudaHostUnregister(p));
    free(p);
}
DOC("a kernel writes to registered memory, and the host reads it after synchronizing") {
    int *p = (int *)aligned_alloc(4096, 4096), *d;
    p[0] = 0;
    OK(cudaHostRegister(p, 4096, cudaHostRegisterMapped));
    OK(cudaHostGetDevicePointer((void **)&d, p, 0));
    put<<<1, 1>>>(d, 91);
    OK(cudaDeviceSynchronize());
    HOLDS(p[0] == 91);
    OK(cudaHostUnregister(p));
    free(p);
}
DOC("copies: in, out, on the device, on the host, and found out by the addresses") {
    Memory a(64), b(64);
    int in = 3, out = 0, host = 0;
    OK(cudaMemcpy(a.p, &in, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b.p, a.p, 4, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(&out, b.p, 4, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(&host, &out, 4, cudaMemcpyHostToHost));
    HOLDS(out == 3 && host == 3);
    in = 4;
    OK(cudaMemcpy(a.p, &in, 4, cudaMemcpyDefault));
    OK(cudaMemcpy(b.p, a.p, 4, cudaMemcpyDefault));
    OK(cudaMemcpy(&out, b.p, 4, cudaMemcpyDefault));
    HOLDS(out == 4);
}
DOC("a direction that does not exist is an invalid direction") {
    Memory a(64);
    int v = 0;
    IS(cudaMemcpy(a.p, &v, 4, (cudaMemcpyKind)5), cudaErrorInvalidMemcpyDirection);
    IS(cudaMemcpyAsync(a.p, &v, 4, (cudaMemcpyKind)-1, nullptr), cudaErrorInvalidMemcpyDirection);
}
DOC("a copy beyond the end of an allocation is an invalid value, and copies nothing") {
    Memory a(4096);
    std::vector<char> big(64 << 20, 1);
    OK(cudaMemset(a.p, 0, 4096));
    IS(cudaMemcpy(a.p, big.data(), big.size(), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    IS(cudaMemcpy(big.data(), a.p, big.size(), cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    HOLDS(value(a.p) == 0);
}
DOC("a copy of 0 bytes does nothing, whatever the addresses") {
    Memory a(64);
    int v = 0;
    OK(cudaMemcpy(a.p, &v, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpyAsync(&v, a.p, 0, cudaMemcpyDeviceToHost, nullptr));
    OK(cuMemcpyHtoD(a.at(), &v, 0));
}
DOC("rows with a pitch below their width are an invalid pitch") {
    Memory a(4096);
    std::vector<char> h(4096);
    IS(cudaMemcpy2D(a.p, 8, h.data(), 64, 16, 4, cudaMemcpyHostToDevice),
       cudaErrorInvalidPitchValue);
    IS(cudaMemcpy2D(a.p, 64, h.data(), 8, 16, 4, cudaMemcpyHostToDevice),
       cudaErrorInvalidPitchValue);
    OK(cudaMemcpy2D(a.p, 64, h.data(), 16, 16, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(a.p, 64, h.data(), 16, 16, 0, cudaMemcpyHostToDevice));
}
DOC("rows are copied, and what lies between them is left alone") {
    Memory a(256);
    OK(cudaMemset(a.p, 9, 256));
    std::vector<char> h(64, 1), back(256);
    OK(cudaMemcpy2D(a.p, 64, h.data(), 16, 16, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(back.data(), a.p, 256, cudaMemcpyDeviceToHost));
    bool same = true;
    for (int i = 0; i < 256; i++) same &= back[i] == (i % 64 < 16 ? 1 : 9);
    HOLDS(same);
}
DOC("memory with a pitch: rows of at least the width, aligned") {
    void *p;
    size_t pitch = 0;
    OK(cudaMallocPitch(&p, &pitch, 100, 7));
    HOLDS(pitch >= 100 && pitch % 32 == 0);
    OK(cudaFree(p));
    CUdeviceptr d;
    IS(cuMemAllocPitch(&d, &pitch, 100, 7, 5), CUDA_ERROR_INVALID_VALUE);
    cudaPitchedPtr three;
    OK(cudaMalloc3D(&three, make_cudaExtent(100, 4, 3)));
    HOLDS(three.pitch >= 100 && three.xsize == 100 && three.ysize == 4);
    OK(cudaFree(three.ptr));
}
DOC("memset takes the low byte of its value") {
    Memory a(64);
    OK(cudaMemset(a.p, 0x1234, 4));
    HOLDS(value(a.p) == 0x34343434);
}
DOC("memset of wider values needs aligned addresses") {
    Memory a(64);
    OK(cuMemsetD16(a.at() + 2, 7, 2));
    OK(cuMemsetD32(a.at() + 4, 7, 2));
    IS(cuMemsetD16(a.at() + 1, 7, 2), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemsetD32(a.at() + 2, 7, 2), CUDA_ERROR_INVALID_VALUE);
}
DOC("memset of rows leaves what lies between them alone") {
    Memory a(256);
    OK(cudaMemset(a.p, 0, 256));
    OK(cudaMemset2D(a.p, 64, 7, 16, 4));
    HOLDS(value(a.ints() + 16) == 0x07070707 && value(a.ints() + 4) == 0);
    OK(cuMemsetD2D32(a.at(), 64, 5, 2, 2));
    HOLDS(value(a.ints() + 17) == 5 && value(a.ints() + 18) == 0x07070707);
}
DOC("memset beyond an allocation, or of host memory, is an invalid value") {
    Memory a(4096);
    IS(cudaMemset(a.p, 0, 64 << 20), cudaErrorInvalidValue);
    std::vector<char> h(64);
    IS(cudaMemset(h.data(), 0, 64), cudaErrorInvalidValue);
    OK(cudaMemset(a.p, 0, 0));
}
DOC("managed memory attached with a wrong flag, is an invalid value") {
    void *p;
    TOLD(cudaMallocManaged(&p, 0));
    IS(cudaMallocManaged(&p, 64, 0), cudaErrorInvalidValue);
    IS(cudaMallocManaged(&p, 64, cudaMemAttachSingle), cudaErrorInvalidValue);
    OK(cudaMallocManaged(&p, 64, cudaMemAttachHost));
    OK(cudaFree(p));
}
DOC("what a kernel writes to managed memory the host reads, and the other way") {
    Managed m(4096);
    m.p[0] = 5;
    add<<<1, 1>>>(m.p, 6);
    OK(cudaDeviceSynchronize());
    HOLDS(m.p[0] == 11);
    m.p[0] = 20;
    add<<<1, 1>>>(m.p, 1);
    OK(cudaStreamSynchronize(nullptr));
    HOLDS(m.p[0] == 21);
}
static cudaMemLocation here() { return {cudaMemLocationTypeDevice, 0}; }
static cudaMemLocation host() { return {cudaMemLocationTypeHost, 0}; }
static int range(const int *p, cudaMemRangeAttribute what, size_t bytes) {
    int v = -99;
    OK(cudaMemRangeGetAttribute(&v, 4, what, p, bytes));
    return v;
}
DOC("memory that was never advised about: not read-mostly, no preferred place, not prefetched") {
    Managed m(4 << 20);
    HOLDS(range(m.p, cudaMemRangeAttributeReadMostly, 4 << 20) == 0);
    HOLDS(range(m.p, cudaMemRangeAttributePreferredLocation, 4 << 20) == cudaInvalidDeviceId);
    HOLDS(range(m.p, cudaMemRangeAttributeLastPrefetchLocation, 4 << 20) == cudaInvalidDeviceId);
}
DOC("advice holds until it is taken back, for its range alone") {
    Managed m(4 << 20);
    OK(cudaMemAdvise(m.p, 2 << 20, cudaMemAdviseSetReadMostly, here()));
    HOLDS(range(m.p, cudaMemRangeAttributeReadMostly, 2 << 20) == 1);
    HOLDS(range(m.p, cudaMemRangeAttributeReadMostly, 4 << 20) == 0);
    OK(cudaMemAdvise(m.p, 2 << 20, cudaMemAdviseUnsetReadMostly, here()));
    HOLDS(range(m.p, cudaMemRangeAttributeReadMostly, 2 << 20) == 0);
    OK(cudaMemAdvise(m.p, 2 << 20, cudaMemAdviseSetPreferredLocation, host()));
    HOLDS(range(m.p, cudaMemRangeAttributePreferredLocation, 2 << 20) == cudaCpuDeviceId);
    OK(cudaMemAdvise(m.p, 4 << 20, cudaMemAdviseSetPreferredLocation, here()));
    HOLDS(range(m.p, cudaMemRangeAttributePreferredLocation, 4 << 20) == 0);
}
DOC("who was said to access memory is listed, and the rest of the list is invalid") {
    Managed m(4 << 20);
    OK(cudaMemAdvise(m.p, 4 << 20, cudaMemAdviseSetAccessedBy, here()));
    OK(cudaMemAdvise(m.p, 4 << 20, cudaMemAdviseSetAccessedBy, host()));
    int by[4] = {7, 7, 7, 7};
    OK(cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy, m.p, 4 << 20));
    HOLDS((by[0] == 0 && by[1] == cudaCpuDeviceId) || (by[1] == 0 && by[0] == cudaCpuDeviceId));
    HOLDS(by[2] == cudaInvalidDeviceId && by[3] == cudaInvalidDeviceId);
}
DOC("where memory was last prefetched to is remembered") {
    Managed m(4 << 20);
    memset(m.p, 1, 4 << 20);
    OK(cudaMemPrefetchAsync(m.p, 4 << 20, here(), 0, nullptr));
    OK(cudaStreamSynchronize(nullptr));
    HOLDS(range(m.p, cudaMemRangeAttributeLastPrefetchLocation, 4 << 20) == 0);
    OK(cudaMemPrefetchAsync(m.p, 4 << 20, host(), 0, nullptr));
    OK(cudaStreamSynchronize(nullptr));
    HOLDS(range(m.p, cudaMemRangeAttributeLastPrefetchLocation, 4 << 20) == cudaCpuDeviceId);
    HOLDS(m.p[5] == 0x01010101);
}
DOC("advice and prefetch: wrong addresses, sizes, flags and devices are refused") {
    Managed m(4096);
    Memory d(4096);
    cudaMemLocation nowhere = {cudaMemLocationTypeDevice, 99};
    REFUSED(cudaMemAdvise(d.p, 4096, cudaMemAdviseSetReadMostly, here()));
    REFUSED(cudaMemAdvise(m.p, 0, cudaMemAdviseSetReadMostly, here()));
    REFUSED(cudaMemAdvise(m.p, 4096, (cudaMemoryAdvise)77, here()));
    REFUSED(cudaMemAdvise(m.p, 4096, cudaMemAdviseSetPreferredLocation, nowhere));
    REFUSED(cudaMemPrefetchAsync(m.p, 4096, here(), 7, nullptr));
    REFUSED(cudaMemPrefetchAsync(m.p, 0, here(), 0, nullptr));
    REFUSED(cudaMemPrefetchAsync(m.p, 4096, nowhere, 0, nullptr));
    int v;
    REFUSED(cudaMemRangeGetAttribute(&v, 3, cudaMemRangeAttributeReadMostly, m.p, 4096));
    REFUSED(cudaMemRangeGetAttribute(&v, 4, (cudaMemRangeAttribute)77, m.p, 4096));
    REFUSED(cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributeReadMostly, d.p, 4096));
}
DOC("copies to and from symbols, with an offset") {
    int v = 50, back[4] = {};
    OK(cudaMemcpyToSymbol(symbol, &v, 4, 8));
    OK(cudaMemcpyFromSymbol(back, symbol, 16));
    HOLDS(back[0] == 1 && back[1] == 2 && back[2] == 50 && back[3] == 4);
    OK(cudaMemcpyFromSymbol(back, constant, 16));
    HOLDS(back[3] == 8);
    OK(cudaMemcpyToSymbol(constant, &v, 4));
    OK(cudaMemcpyFromSymbol(back, constant, 4));
    HOLDS(back[0] == 50);
}
DOC("copies beyond a symbol, and in the wrong direction, are refused") {
    int v[8] = {};
    REFUSED(cudaMemcpyToSymbol(symbol, v, 32));
    REFUSED(cudaMemcpyToSymbol(symbol, v, 4, 16));
    REFUSED(cudaMemcpyToSymbol(symbol, v, 4, 0, cudaMemcpyDeviceToHost));
    REFUSED(cudaMemcpyFromSymbol(v, symbol, 4, 0, cudaMemcpyHostToDevice));
}
DOC("a symbol has an address and a size, and what is none is an invalid symbol") {
    void *p = nullptr;
    size_t n = 0;
    OK(cudaGetSymbolAddress(&p, symbol));
    OK(cudaGetSymbolSize(&n, symbol));
    HOLDS(p && n == 16);
    cudaPointerAttributes a = {};
    OK(cudaPointerGetAttributes(&a, p));
    HOLDS(a.type == cudaMemoryTypeDevice);
    int stack;
    IS(cudaGetSymbolAddress(&p, &stack), cudaErrorInvalidSymbol);
    IS(cudaGetSymbolSize(&n, &stack), cudaErrorInvalidSymbol);
}
DOC("an array is what it was made as") {
    cudaArray_t a;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<float2>(), got = {};
    OK(cudaMallocArray(&a, &d, 64, 16, cudaArraySurfaceLoadStore));
    cudaExtent e = {};
    unsigned flags = 0;
    OK(cudaArrayGetInfo(&got, &e, &flags, a));
    HOLDS(got.x == 32 && got.y == 32 && got.z == 0 && got.f == cudaChannelFormatKindFloat);
    HOLDS(e.width == 64 && e.height == 16 && e.depth == 0);
    HOLDS(flags == cudaArraySurfaceLoadStore);
    CUDA_ARRAY3D_DESCRIPTOR as = {};
    OK(cuArray3DGetDescriptor(&as, (CUarray)a));
    HOLDS(as.Width == 64 && as.NumChannels == 2 && as.Format == CU_AD_FORMAT_FLOAT);
    OK(cudaFreeArray(a));
}
DOC("an array keeps what was copied into it") {
    cudaArray_t a;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<int>();
    OK(cudaMallocArray(&a, &d, 16, 4));
    std::vector<int> in(64), out(64, 0);
    for (int i = 0; i < 64; i++) in[i] = i * 3;
    OK(cudaMemcpy2DToArray(a, 0, 0, in.data(), 64, 64, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DFromArray(out.data(), 64, a, 0, 0, 64, 4, cudaMemcpyDeviceToHost));
    HOLDS(in == out);
    REFUSED(cudaMemcpy2DToArray(a, 32, 0, in.data(), 64, 64, 4, cudaMemcpyHostToDevice));
    OK(cudaFreeArray(a));
}
DOC("arrays that cannot be are refused") {
    cudaArray_t a;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<int>(), odd = {7, 0, 0, 0};
    odd.f = cudaChannelFormatKindSigned;
    REFUSED(cudaMallocArray(&a, &d, 0, 0));
    REFUSED(cudaMallocArray(&a, &odd, 16, 16));
    REFUSED(cudaMallocArray(&a, &d, (size_t)1 << 30, 4));
    REFUSED(cudaMallocArray(nullptr, &d, 16, 16));
}
DOC("a mipmapped array has a level for each halving, and no more") {
    cudaMipmappedArray_t m;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<int>();
    OK(cudaMallocMipmappedArray(&m, &d, make_cudaExtent(64, 32, 0), 3));
    cudaArray_t a;
    cudaExtent e;
    unsigned flags;
    OK(cudaGetMipmappedArrayLevel(&a, m, 2));
    OK(cudaArrayGetInfo(&d, &e, &flags, a));
    HOLDS(e.width == 16 && e.height == 8);
    REFUSED(cudaGetMipmappedArrayLevel(&a, m, 3));
    OK(cudaFreeMipmappedArray(m));
}
DOC("a batch of copies is done in its stream") {
    Stream s;
    Memory m(64);
    Pinned h(64);
    h.p[0] = 1, h.p[1] = 2;
    void *to[] = {m.p, m.ints() + 1};
    const void *from[] = {h.p, h.p + 1};
    size_t sizes[] = {4, 4}, at = 0;
    cudaMemcpyAttributes a = {};
    a.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    OK(cudaMemcpyBatchAsync(to, from, sizes, 2, &a, &at, 1, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 1 && value(m.ints() + 1) == 2);
    REFUSED(cudaMemcpyBatchAsync(to, from, sizes, 0, &a, &at, 1, s));
    REFUSED(cudaMemcpyBatchAsync(to, from, sizes, 2, &a, &at, 0, s));
}
DOC("copies between devices, of a device and itself, are copies on it") {
    Memory a(64), b(64);
    OK(cudaMemset(a.p, 6, 64));
    OK(cudaMemcpyPeer(b.p, 0, a.p, 0, 64));
    HOLDS(value(b.p) == 0x06060606);
    IS(cudaMemcpyPeer(b.p, 99, a.p, 0, 64), cudaErrorInvalidDevice);
}
