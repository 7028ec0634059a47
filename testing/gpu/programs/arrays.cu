// Arrays of every shape, what is known of them, and copies between them, the host and the device.
#include "check.h"
#include <cstring>
#include <vector>

static std::vector<float> numbers(size_t n, float first) {
    std::vector<float> v(n);
    for (size_t i = 0; i < n; i++) v[i] = first + (float)i;
    return v;
}

static void plane() {
    const size_t w = 100, h = 37;
    cudaChannelFormatDesc f = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    cudaArray_t a, b;
    CHECK(cudaMallocArray(&a, &f, w, h, 0));
    CHECK(cudaMallocArray(&b, &f, w, h, 0));
    auto in = numbers(w * h, 1);
    std::vector<float> out(w * h);
    CHECK(cudaMemcpy2DToArray(a, 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 0, w * 4, h, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DFromArray(out.data(), w * 4, b, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    EXPECT(in == out);

    // A part of it, from and to memory with gaps between the rows.
    float *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch((void **)&pitched, &pitch, w * 4, h));
    CHECK(cudaMemset2D(pitched, pitch, 0, w * 4, h));
    CHECK(cudaMemcpy2DFromArray(pitched, pitch, a, 40, 5, 80, 10, cudaMemcpyDeviceToDevice));
    std::vector<float> part(20 * 10);
    CHECK(cudaMemcpy2D(part.data(), 80, pitched, pitch, 80, 10, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < 10; y++)
        for (size_t x = 0; x < 20; x++) EXPECT(part[y * 20 + x] == in[(y + 5) * w + x + 10]);

    // In stream order, from page-locked memory.
    float *pinned;
    cudaStream_t s;
    CHECK(cudaMallocHost((void **)&pinned, w * h * 4));
    CHECK(cudaStreamCreate(&s));
    memset(pinned, 0, w * h * 4);
    CHECK(cudaMemcpy2DFromArrayAsync(pinned, w * 4, b, 0, 0, w * 4, h, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    EXPECT(memcmp(pinned, in.data(), w * h * 4) == 0);
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaFreeHost(pinned));

    cudaChannelFormatDesc d;
    cudaExtent e;
    unsigned flags;
    CHECK(cudaArrayGetInfo(&d, &e, &flags, a));
    printf("plane %d bits kind %d, %zu x %zu x %zu, flags %u\n", d.x, (int)d.f, e.width, e.height,
           e.depth, flags);
    cudaError_t rc = cudaMemcpy2DToArray(a, 0, h - 1, in.data(), w * 4, w * 4, 2,
                                         cudaMemcpyHostToDevice);
    printf("past the end: %s\n", cudaGetErrorName(rc));
    cudaGetLastError();
    CHECK(cudaFree(pitched));
    CHECK(cudaFreeArray(a));
    CHECK(cudaFreeArray(b));

    // The next array gets the place of the last: nothing that was known of that one may remain.
    cudaChannelFormatDesc bytes = {8, 8, 0, 0, cudaChannelFormatKindUnsigned};
    CHECK(cudaMallocArray(&a, &bytes, 16, 0, 0));
    CHECK(cudaArrayGetInfo(&d, &e, &flags, a));
    printf("line %d+%d bits kind %d, %zu x %zu x %zu\n", d.x, d.y, (int)d.f, e.width, e.height,
           e.depth);
    CHECK(cudaFreeArray(a));
}

static void box() {
    const size_t w = 33, h = 17, d = 9;
    cudaChannelFormatDesc f = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    cudaExtent all = {w, h, d};
    cudaArray_t a;
    CHECK(cudaMalloc3DArray(&a, &f, all, 0));
    auto in = numbers(w * h * d, 7);
    cudaMemcpy3DParms p;
    memset(&p, 0, sizeof p);
    p.srcPtr = {in.data(), w * 4, w, h};
    p.dstArray = a;
    p.extent = all;
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));

    // A box out of the middle, into the middle of memory of the device.
    cudaPitchedPtr q;
    cudaExtent room = {20 * 4, 12, 6};
    CHECK(cudaMalloc3D(&q, room));
    CHECK(cudaMemset3D(q, 0, room));
    memset(&p, 0, sizeof p);
    p.srcArray = a;
    p.srcPos = {3, 2, 1};
    p.dstPtr = q;
    p.dstPos = {0, 1, 2};
    p.extent = {10, 8, 4};
    p.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3D(&p));
    std::vector<float> out(20 * 12 * 6, -1);
    memset(&p, 0, sizeof p);
    p.srcPtr = q;
    p.dstPtr = {out.data(), 80, 20, 12};
    p.extent = room;
    p.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&p));
    double sum = 0;
    for (float v : out) sum += v;
    for (size_t z = 0; z < 4; z++)
        for (size_t y = 0; y < 8; y++)
            for (size_t x = 0; x < 10; x++) {
                float want = in[((z + 1) * h + y + 2) * w + x + 3];
                EXPECT(out[((z + 2) * 12 + y + 1) * 20 + x] == want);
            }
    printf("box sum %.0f\n", sum);
    CHECK(cudaFree(q.ptr));
    CHECK(cudaFreeArray(a));
}

static void levels() {
    cudaChannelFormatDesc f = {8, 8, 8, 8, cudaChannelFormatKindUnsigned};
    cudaExtent all = {64, 32, 0};
    cudaMipmappedArray_t m;
    CHECK(cudaMallocMipmappedArray(&m, &f, all, 4, 0));
    for (unsigned i = 0; i < 4; i++) {
        cudaArray_t level;
        cudaChannelFormatDesc d;
        cudaExtent e;
        unsigned flags;
        CHECK(cudaGetMipmappedArrayLevel(&level, m, i));
        CHECK(cudaArrayGetInfo(&d, &e, &flags, level));
        std::vector<unsigned char> in(e.width * e.height * 4, (unsigned char)(i + 1));
        std::vector<unsigned char> out(in.size());
        size_t row = e.width * 4;
        CHECK(cudaMemcpy2DToArray(level, 0, 0, in.data(), row, row, e.height,
                                  cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy2DFromArray(out.data(), row, level, 0, 0, row, e.height,
                                    cudaMemcpyDeviceToHost));
        EXPECT(in == out);
        printf("level %u: %zu x %zu\n", i, e.width, e.height);
    }
    cudaArray_t none;
    printf("level 9: %s\n", cudaGetErrorName(cudaGetMipmappedArrayLevel(&none, m, 9)));
    cudaGetLastError();
    CHECK(cudaFreeMipmappedArray(m));
}

static void objects() {
    cudaChannelFormatDesc f = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    cudaArray_t a;
    CHECK(cudaMallocArray(&a, &f, 64, 64, cudaArraySurfaceLoadStore));
    cudaResourceDesc r, back;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    cudaTextureDesc t, tback;
    memset(&t, 0, sizeof t);
    t.addressMode[0] = t.addressMode[1] = cudaAddressModeClamp;
    t.filterMode = cudaFilterModeLinear;
    t.readMode = cudaReadModeElementType;
    cudaTextureObject_t o;
    CHECK(cudaCreateTextureObject(&o, &r, &t, nullptr));
    CHECK(cudaGetTextureObjectResourceDesc(&back, o));
    EXPECT(back.resType == cudaResourceTypeArray && back.res.array.array == a);
    CHECK(cudaGetTextureObjectTextureDesc(&tback, o));
    EXPECT(tback.filterMode == cudaFilterModeLinear);
    EXPECT(tback.addressMode[1] == cudaAddressModeClamp);
    cudaSurfaceObject_t s;
    CHECK(cudaCreateSurfaceObject(&s, &r));
    CHECK(cudaGetSurfaceObjectResourceDesc(&back, s));
    EXPECT(back.res.array.array == a);
    CHECK(cudaDestroySurfaceObject(s));
    CHECK(cudaDestroyTextureObject(o));
    float *line;
    CHECK(cudaMalloc((void **)&line, 4096));
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = line;
    r.res.linear.desc = f;
    r.res.linear.sizeInBytes = 4096;
    memset(&t, 0, sizeof t);
    CHECK(cudaCreateTextureObject(&o, &r, &t, nullptr));
    CHECK(cudaGetTextureObjectResourceDesc(&back, o));
    EXPECT(back.res.linear.devPtr == line && back.res.linear.sizeInBytes == 4096);
    CHECK(cudaDestroyTextureObject(o));
    CHECK(cudaFree(line));
    CHECK(cudaFreeArray(a));
    printf("objects ok\n");
}

static void pools() {
    cudaMemPool_t p, q, own;
    CHECK(cudaDeviceGetDefaultMemPool(&p, 0));
    CHECK(cudaDeviceGetMemPool(&q, 0));
    EXPECT(p == q);
    unsigned long long keep = 1 << 20, v = 0;
    int flag = 0, was = 7;
    CHECK(cudaMemPoolSetAttribute(p, cudaMemPoolAttrReleaseThreshold, &keep));
    CHECK(cudaMemPoolGetAttribute(p, cudaMemPoolAttrReleaseThreshold, &v));
    CHECK(cudaMemPoolSetAttribute(p, cudaMemPoolReuseAllowOpportunistic, &flag));
    CHECK(cudaMemPoolGetAttribute(p, cudaMemPoolReuseAllowOpportunistic, &was));
    printf("threshold %llu, reuse %d\n", v, was);
    cudaMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&own, &props));
    CHECK(cudaDeviceSetMemPool(0, own));
    CHECK(cudaDeviceGetMemPool(&q, 0));
    EXPECT(q == own);
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    char *m;
    CHECK(cudaMallocAsync((void **)&m, 1000, s));
    CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &v));
    EXPECT(v >= 1000);
    CHECK(cudaFreeAsync(m, s));
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaMemPoolTrimTo(own, 0));
    CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &v));
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    cudaMemAccessFlags access;
    CHECK(cudaMemPoolGetAccess(&access, own, &here));
    printf("used %llu, access %d\n", v, (int)access);
    CHECK(cudaDeviceSetMemPool(0, p));
    CHECK(cudaMemPoolDestroy(own));

    // A batch of copies.
    char *a, *b;
    CHECK(cudaMalloc((void **)&a, 4096));
    CHECK(cudaMalloc((void **)&b, 4096));
    std::vector<char> in(4096), out(4096);
    for (size_t i = 0; i < in.size(); i++) in[i] = (char)(i * 7);
    void *dsts[3] = {a, b, out.data()}, *srcs[3] = {in.data(), a, b};
    size_t sizes[3] = {4096, 4096, 4096}, first = 0;
    cudaMemcpyAttributes how;
    memset(&how, 0, sizeof how);
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    // One batch each: within one, the order is the driver's.
    for (int i = 0; i < 3; i++) {
#if CUDART_VERSION >= 13000
        CHECK(cudaMemcpyBatchAsync((void **)&dsts[i], (const void **)&srcs[i], &sizes[i], 1,
                                   &how, &first, 1, s));
#else
        CHECK(cudaMemcpyBatchAsync(&dsts[i], &srcs[i], &sizes[i], 1, &how, &first, 1, nullptr, s));
#endif
    }
    CHECK(cudaStreamSynchronize(s));
    EXPECT(in == out);
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    printf("batch ok\n");
}

int main() {
    plane();
    box();
    levels();
    objects();
    pools();
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
}
