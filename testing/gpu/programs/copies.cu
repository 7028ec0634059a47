// Copies of boxes between every two places, fills of rectangles, and copies in batches.
#include "tell.h"
#include <cstring>
#include <string>
#include <vector>

static const int W = 24, H = 6, D = 4;  // of a box in ints, within places that are larger
static const int PW = 40, PH = 9, PD = 5;

struct Place {
    const char *name;
    CUmemorytype kind;
    std::vector<int> pageable;
    int *pinned = nullptr;
    CUdeviceptr device = 0;
    size_t pitch = PW * 4;
    CUarray array = nullptr;
};

static void fill(Place &a, int base);
static std::vector<int> read(Place &a);

static CUDA_MEMCPY3D box(Place &src, Place &dst) {
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = src.kind;
    c.dstMemoryType = dst.kind;
    c.srcHost = src.pinned ? (void *)src.pinned : src.pageable.data();
    c.dstHost = dst.pinned ? (void *)dst.pinned : dst.pageable.data();
    c.srcDevice = src.device;
    c.dstDevice = dst.device;
    c.srcArray = src.array;
    c.dstArray = dst.array;
    if (src.kind == CU_MEMORYTYPE_UNIFIED)
        c.srcDevice = src.device ? src.device : (CUdeviceptr)c.srcHost;
    if (dst.kind == CU_MEMORYTYPE_UNIFIED)
        c.dstDevice = dst.device ? dst.device : (CUdeviceptr)c.dstHost;
    c.srcPitch = src.pitch;
    c.dstPitch = dst.pitch;
    c.srcHeight = c.dstHeight = PH;
    c.srcXInBytes = 8;
    c.dstXInBytes = 12;
    c.srcY = 1;
    c.dstY = 2;
    c.srcZ = 0;
    c.dstZ = 1;
    c.WidthInBytes = W * 4;
    c.Height = H;
    c.Depth = D;
    return c;
}

static void fill(Place &a, int base) {
    std::vector<int> v(PW * PH * PD);
    for (size_t i = 0; i < v.size(); i++) v[i] = base + (int)i;
    if (a.array) {
        CUDA_MEMCPY3D c{};
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = v.data();
        c.srcPitch = PW * 4;
        c.srcHeight = PH;
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c.dstArray = a.array;
        c.WidthInBytes = PW * 4;
        c.Height = PH;
        c.Depth = PD;
        DRIVER(cuMemcpy3D(&c));
    } else if (a.device) {
        CUDA_MEMCPY2D c{};
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = v.data();
        c.srcPitch = PW * 4;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = a.device;
        c.dstPitch = a.pitch;
        c.WidthInBytes = PW * 4;
        c.Height = PH * PD;
        DRIVER(cuMemcpy2D(&c));
    } else {
        memcpy(a.pinned ? a.pinned : a.pageable.data(), v.data(), v.size() * 4);
    }
}

static std::vector<int> read(Place &a) {
    std::vector<int> v(PW * PH * PD);
    if (a.array) {
        CUDA_MEMCPY3D c{};
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = v.data();
        c.dstPitch = PW * 4;
        c.dstHeight = PH;
        c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        c.srcArray = a.array;
        c.WidthInBytes = PW * 4;
        c.Height = PH;
        c.Depth = PD;
        DRIVER(cuMemcpy3D(&c));
    } else if (a.device) {
        CUDA_MEMCPY2D c{};
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = v.data();
        c.dstPitch = PW * 4;
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = a.device;
        c.srcPitch = a.pitch;
        c.WidthInBytes = PW * 4;
        c.Height = PH * PD;
        DRIVER(cuMemcpy2D(&c));
    } else {
        memcpy(v.data(), a.pinned ? a.pinned : a.pageable.data(), v.size() * 4);
    }
    return v;
}

static unsigned sum(const void *p, size_t n) {
    unsigned h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)p)[i]) * 16777619u;
    return h;
}

static std::vector<Place> places() {
    std::vector<Place> all;
    for (const char *name :
         {"pageable", "pinned", "device", "pitched", "array", "managed", "unified"}) {
        Place a;
        a.name = name;
        a.kind = CU_MEMORYTYPE_HOST;
        std::string n = name;
        if (n == "pageable") a.pageable.resize(PW * PH * PD);
        if (n == "pinned") CHECK(cudaMallocHost((void **)&a.pinned, PW * PH * PD * 4));
        if (n == "device" || n == "pitched" || n == "unified") {
            a.kind = n == "unified" ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
            if (n == "pitched")
                DRIVER(cuMemAllocPitch(&a.device, &a.pitch, PW * 4, PH * PD, 4));
            else
                DRIVER(cuMemAlloc(&a.device, PW * PH * PD * 4));
        }
        if (n == "managed") {
            a.kind = CU_MEMORYTYPE_UNIFIED;
            DRIVER(cuMemAllocManaged(&a.device, PW * PH * PD * 4, CU_MEM_ATTACH_GLOBAL));
        }
        if (n == "array") {
            a.kind = CU_MEMORYTYPE_ARRAY;
            CUDA_ARRAY3D_DESCRIPTOR d{};
            d.Width = PW;
            d.Height = PH;
            d.Depth = PD;
            d.Format = CU_AD_FORMAT_SIGNED_INT32;
            d.NumChannels = 1;
            DRIVER(cuArray3DCreate(&a.array, &d));
        }
        all.push_back(std::move(a));
    }
    return all;
}

static void boxes(CUstream s) {
    puts("-- boxes");
    auto from = places(), to = places();
    for (auto &a : from)
        for (auto &b : to)
            for (int async = 0; async < 2; async++) {
                fill(a, 1000);
                fill(b, 500000);
                CUDA_MEMCPY3D c = box(a, b);
                CUresult rc = async ? cuMemcpy3DAsync(&c, s) : cuMemcpy3D(&c);
                CUresult rs = cuStreamSynchronize(s);
                auto v = read(b);
                printf("%s to %s%s: %d %d %08x\n", a.name, b.name, async ? ", async" : "", (int)rc,
                       (int)rs, sum(v.data(), v.size() * 4));
            }
    puts("-- boxes that are wrong");
    Place &host = from[0], &dev = to[2], &arr = to[4];
    CUDA_MEMCPY3D c = box(host, dev);
    c.srcPitch = 8;
    SAY(cuMemcpy3D(&c));
    c = box(host, dev);
    c.WidthInBytes = 0;
    SAY(cuMemcpy3D(&c));
    c = box(host, dev);
    c.Depth = 0;
    SAY(cuMemcpy3D(&c));
    c = box(host, arr);
    c.dstXInBytes = PW * 4;
    SAY(cuMemcpy3D(&c));
    c = box(host, arr);
    c.dstXInBytes = 2;
    SAY(cuMemcpy3D(&c));
    c = box(host, arr);
    c.dstZ = PD;
    SAY(cuMemcpy3D(&c));
    c = box(host, dev);
    c.srcMemoryType = (CUmemorytype)9;
    SAY(cuMemcpy3D(&c));
    c = box(host, dev);
    c.dstDevice = 0;
    SAY(cuMemcpy3D(&c));
    CUDA_MEMCPY2D d{};
    d.srcMemoryType = CU_MEMORYTYPE_HOST;
    d.srcHost = host.pageable.data();
    d.srcPitch = 7;
    d.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    d.dstDevice = dev.device;
    d.dstPitch = 7;
    d.WidthInBytes = 7;
    d.Height = 5;
    SAY(cuMemcpy2D(&d));
    SAY(cuMemcpy2DUnaligned(&d));
    SAY(cuMemcpy2DAsync(&d, s));
    d.Height = 0;
    SAY(cuMemcpy2D(&d));
    d.Height = 2;
    d.WidthInBytes = 9;
    SAY(cuMemcpy2D(&d));
    SAY(cuStreamSynchronize(s));
}

static void fills(CUstream s) {
    puts("-- fills");
    CUdeviceptr p;
    size_t pitch;
    DRIVER(cuMemAllocPitch(&p, &pitch, 100, 20, 4));
    std::vector<unsigned char> v(pitch * 20);
    auto show = [&](const char *what) {
        DRIVER(cuStreamSynchronize(s));
        DRIVER(cuMemcpyDtoH(v.data(), p, v.size()));
        unsigned h = 0;
        for (int y = 0; y < 20; y++) h = h * 31 + sum(v.data() + y * pitch, 100);
        printf("%s: %08x\n", what, h);
    };
    SAY(cuMemsetD2D8(p, pitch, 0, pitch, 20));
    show("cleared");
    SAY(cuMemsetD2D8(p + 3, pitch, 0x5a, 41, 7));
    SAY(cuMemsetD2D16(p + 50, pitch, 0x1234, 11, 9));
    SAY(cuMemsetD2D32(p + 8 * pitch, pitch, 0x89abcdef, 25, 12));
    show("filled");
    SAY(cuMemsetD2D8Async(p + 1, pitch, 0x77, 99, 3, s));
    SAY(cuMemsetD2D16Async(p + 2, pitch, 0x4321, 40, 19, s));
    SAY(cuMemsetD2D32Async(p + 4 * pitch, pitch, 7, 3, 1, s));
    show("filled in order");
    SAY(cuMemsetD16Async(p + 2, 0xbeef, 30, s));
    SAY(cuMemsetD32Async(p + 4, 0xdead, 5, s));
    SAY(cuMemsetD8Async(p, 1, 3, s));
    show("lines");
    SAY(cuMemsetD2D32(p + 2, pitch, 1, 4, 4));
    SAY(cuMemsetD2D16(p + 1, pitch, 1, 4, 4));
    SAY(cuMemsetD2D8(p, 4, 1, 8, 4));
    SAY(cuMemsetD2D8(p, pitch, 1, 0, 4));
    SAY(cuMemsetD2D8(p, pitch, 1, 4, 0));
    SAY(cuMemsetD2D32(p, pitch + 1, 1, 4, 2));
    SAY(cuMemsetD2D8(0, pitch, 1, 4, 4));
    SAY(cuMemsetD16(p + 1, 1, 4));
    show("after mistakes");
}

static void batches(CUstream s) {
    puts("-- batches");
    const size_t n = 8;
    std::vector<int> in(n * 256), out(n * 256, -1);
    for (size_t i = 0; i < in.size(); i++) in[i] = (int)(i * 3);
    int *pinned;
    CUdeviceptr d;
    CHECK(cudaMallocHost((void **)&pinned, n * 1024));
    DRIVER(cuMemAlloc(&d, n * 1024));
    CUdeviceptr to[n], from[n], back[n];
    size_t sizes[n], first[2] = {0, 4};
    for (size_t i = 0; i < n; i++) {
        sizes[i] = 1024 - 4 * i;
        from[i] = (CUdeviceptr)(in.data() + 256 * i);
        to[i] = d + 1024 * (n - 1 - i);
        back[i] = (CUdeviceptr)((i & 1 ? pinned : out.data()) + 256 * i);
    }
    CUmemcpyAttributes how[2] = {};
    how[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    how[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    DRIVER(cuMemsetD8(d, 0, n * 1024));
    // The stream waits for no other.
    DRIVER(cuCtxSynchronize());
#if CUDA_VERSION >= 13000
#define BATCH(...) cuMemcpyBatchAsync(__VA_ARGS__, s)
#define BATCH3(n, ops, flags) cuMemcpy3DBatchAsync(n, ops, flags, s)
#else
    size_t fail;
#define BATCH(...) cuMemcpyBatchAsync(__VA_ARGS__, &fail, s)
#define BATCH3(n, ops, flags) cuMemcpy3DBatchAsync(n, ops, &fail, flags, s)
#endif
    SAY(BATCH(to, from, sizes, n, how, first, 2));
    memset(in.data(), 0xff, 4 * 1024);
    SAY(BATCH(back, to, sizes, n, how + 1, first, 1));
    SAY(cuStreamSynchronize(s));
    printf("%08x %08x\n", sum(out.data(), 1020), sum(pinned + 256, 1020));
    int right = 0;
    for (size_t i = 0; i < n; i++) {
        const int *got = (i & 1 ? pinned : out.data()) + 256 * i;
        for (size_t k = 0; k < sizes[i] / 4; k++) right += got[k] == (int)((256 * i + k) * 3);
    }
    printf("right %d\n", right);
    SAY(BATCH(to, from, sizes, 0, how, first, 1));
    SAY(BATCH(to, from, sizes, n, how, first, 0));
    first[1] = 0;
    SAY(BATCH(to, from, sizes, n, how, first, 2));
    first[1] = 99;
    SAY(BATCH(to, from, sizes, n, how, first, 2));
    first[1] = 4;
    how[1].srcAccessOrder = (CUmemcpySrcAccessOrder)0;
    SAY(BATCH(to, from, sizes, n, how, first, 2));
    how[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    sizes[2] = 0;
    SAY(BATCH(to, from, sizes, n, how, first, 2));
    SAY(cuStreamSynchronize(s));
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR a{};
    a.Width = 16;
    a.Height = 8;
    a.Depth = 4;
    a.Format = CU_AD_FORMAT_FLOAT;
    a.NumChannels = 2;
    DRIVER(cuArray3DCreate(&array, &a));
    for (size_t i = 0; i < in.size(); i++) in[i] = (int)i;
    std::vector<int> seen(16 * 8 * 4 * 2, -1);
    CUDA_MEMCPY3D_BATCH_OP ops[2] = {};
    ops[0].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    ops[0].src.op.ptr.ptr = (CUdeviceptr)in.data();
    ops[0].src.op.ptr.rowLength = 16;
    ops[0].src.op.ptr.layerHeight = 8;
    ops[0].src.op.ptr.locHint = {CU_MEM_LOCATION_TYPE_HOST, 0};
    ops[0].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    ops[0].dst.op.array.array = array;
    ops[0].extent = {16, 8, 4};
    ops[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    SAY(BATCH3(1, ops, 0));
    ops[1].src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    ops[1].src.op.array.array = array;
    ops[1].src.op.array.offset = {2, 1, 1};
    ops[1].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    ops[1].dst.op.ptr.ptr = (CUdeviceptr)seen.data();
    ops[1].dst.op.ptr.rowLength = 16;
    ops[1].dst.op.ptr.layerHeight = 8;
    ops[1].dst.op.ptr.locHint = {CU_MEM_LOCATION_TYPE_HOST, 0};
    ops[1].extent = {7, 5, 3};
    ops[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    SAY(BATCH3(1, ops + 1, 0));
    SAY(cuStreamSynchronize(s));
    printf("%08x\n", sum(seen.data(), seen.size() * 4));
    ops[1].extent = {0, 5, 3};
    SAY(BATCH3(1, ops + 1, 0));
    SAY(BATCH3(0, ops, 0));
    SAY(BATCH3(1, ops, 9));
    SAY(cuStreamSynchronize(s));
}

static void linear(CUstream s) {
    puts("-- arrays and lines");
    CUarray a, b;
    CUDA_ARRAY_DESCRIPTOR d{};
    d.Width = 64;
    d.Height = 0;
    d.Format = CU_AD_FORMAT_UNSIGNED_INT16;
    d.NumChannels = 4;
    DRIVER(cuArrayCreate(&a, &d));
    DRIVER(cuArrayCreate(&b, &d));
    std::vector<unsigned short> in(256), out(256);
    for (int i = 0; i < 256; i++) in[i] = (unsigned short)(i * 7);
    CUdeviceptr p;
    DRIVER(cuMemAlloc(&p, 512));
    SAY(cuMemcpyHtoA(a, 0, in.data(), 512));
    SAY(cuMemcpyAtoA(b, 128, a, 0, 256));
    SAY(cuMemcpyDtoA(b, 0, p, 0));
    SAY(cuMemcpyAtoD(p, b, 64, 320));
    SAY(cuMemcpyDtoA(b, 0, p, 128));
    // Copies within the device may still be under way, and the stream waits for no other.
    SAY(cuCtxSynchronize());
    SAY(cuMemcpyHtoAAsync(b, 384, in.data(), 128, s));
    SAY(cuMemcpyAtoHAsync(out.data(), b, 0, 512, s));
    SAY(cuStreamSynchronize(s));
    // What was never written is not looked at.
    printf("%08x %08x\n", sum(out.data() + 64, 256), sum(out.data() + 192, 128));
    SAY(cuMemcpyAtoH(out.data(), b, 384, 128));
    SAY(cuMemcpyAtoH(out.data(), b, 500, 128));
    SAY(cuMemcpyHtoA(a, 3, in.data(), 16));
    CUDA_ARRAY_DESCRIPTOR got{};
    SAY(cuArrayGetDescriptor(&got, a));
    printf("%zu %zu %d %u\n", got.Width, got.Height, (int)got.Format, got.NumChannels);
    CUDA_ARRAY_MEMORY_REQUIREMENTS need{};
    SAY(cuArrayGetMemoryRequirements(&need, a, 0));
    printf("needs %d\n", need.size > 0);
    CUDA_ARRAY_SPARSE_PROPERTIES sparse{};
    SAY(cuArrayGetSparseProperties(&sparse, a));
    CUarray plane;
    SAY(cuArrayGetPlane(&plane, a, 0));
}

int main() {
    CHECK(cudaFree(nullptr));
    CUstream s;
    DRIVER(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    boxes(s);
    fills(s);
    batches(s);
    linear(s);
    SAY(cuCtxSynchronize());
    printf("done\n");
}
