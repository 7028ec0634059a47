// Textures and surfaces of every shape: layers, cubes, levels, volumes, formats, ways to filter.
#include "tell.h"
#include <cstring>
#include <vector>

static int failed;
static unsigned sum(const void *p, size_t n) {
    unsigned h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)p)[i]) * 16777619u;
    return h;
}

__global__ void flat1(cudaTextureObject_t t, float *o) {
    o[threadIdx.x] = tex1D<float>(t, threadIdx.x + 0.5f);
}
__global__ void fetch1(cudaTextureObject_t t, float *o) {
    o[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x);
}
__global__ void layer1(cudaTextureObject_t t, float *o) {
    o[blockIdx.x * blockDim.x + threadIdx.x] =
        tex1DLayered<float>(t, threadIdx.x + 0.5f, blockIdx.x);
}
__global__ void layer2(cudaTextureObject_t t, float *o) {
    int i = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    o[i] = tex2DLayered<float>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f, blockIdx.x);
}
__global__ void volume(cudaTextureObject_t t, float *o, float step) {
    int i = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    o[i] = tex3D<float>(t, threadIdx.x * step + 0.5f, threadIdx.y * step + 0.5f,
                        blockIdx.x * step + 0.5f);
}
__global__ void cube(cudaTextureObject_t t, float *o) {
    const float d[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
    int f = threadIdx.x;
    if (f < 6) o[f] = texCubemap<float>(t, d[f][0], d[f][1], d[f][2]);
}
__global__ void cubes(cudaTextureObject_t t, float *o) {
    int f = threadIdx.x;
    o[blockIdx.x * 3 + f] = texCubemapLayered<float>(t, f == 0, f == 1, f == 2, blockIdx.x);
}
__global__ void levels(cudaTextureObject_t t, float *o) {
    for (int l = 0; l < 4; l++) o[l] = tex2DLod<float>(t, 0.3f, 0.6f, l);
    o[4] = tex2DLod<float>(t, 0.3f, 0.6f, 1.5f);
    o[5] = tex2DLod<float>(t, 0.3f, 0.6f, 77);
}
__global__ void gather(cudaTextureObject_t t, float4 *o) {
    for (int i = 0; i < 4; i++) o[i] = tex2Dgather<float4>(t, 2.0f, 3.0f, i);
}
template <class T>
__global__ void kinds(cudaTextureObject_t t, T *o) {
    o[threadIdx.x] = tex1D<T>(t, threadIdx.x + 0.5f);
}
__global__ void addresses(cudaTextureObject_t t, float *o) {
    o[threadIdx.x] = tex2D<float>(t, threadIdx.x * 0.25f - 1.0f, 0.4f);
}
__global__ void write1(cudaSurfaceObject_t s) {
    surf1Dwrite((float)threadIdx.x * 3, s, threadIdx.x * 4);
}
__global__ void write3(cudaSurfaceObject_t s) {
    surf3Dwrite((float)(threadIdx.x + 10 * threadIdx.y + 100 * blockIdx.x), s, threadIdx.x * 4,
                threadIdx.y, blockIdx.x);
}
__global__ void writel(cudaSurfaceObject_t s) {
    surf2DLayeredwrite((float)(threadIdx.x + 10 * threadIdx.y + 1000 * blockIdx.x), s,
                       threadIdx.x * 4, threadIdx.y, blockIdx.x);
}
__global__ void outside(cudaSurfaceObject_t s, float *o) {
    o[threadIdx.x] = surf1Dread<float>(s, threadIdx.x * 4, cudaBoundaryModeZero);
}

static float *out;
static void result(const char *what, size_t n) {
    cudaError_t rc = cudaDeviceSynchronize();
    std::vector<float> v(n);
    cudaError_t rm = cudaMemcpy(v.data(), out, n * 4, cudaMemcpyDeviceToHost);
    printf("%s: %d %d %08x, first %g last %g\n", what, (int)rc, (int)rm, sum(v.data(), n * 4), v[0],
           v[n - 1]);
    cudaMemset(out, 0, 1 << 20);
    failed += rc != cudaSuccess;
}

static cudaArray_t array(cudaExtent e, unsigned flags,
                         cudaChannelFormatDesc d = cudaCreateChannelDesc<float>()) {
    cudaArray_t a = nullptr;
    cudaError_t rc = cudaMalloc3DArray(&a, &d, e, flags);
    printf("array %zu %zu %zu flags %#x: %d\n", e.width, e.height, e.depth, flags, (int)rc);
    cudaGetLastError();
    return a;
}
static void put(cudaArray_t a, cudaExtent e, float base = 0) {
    size_t w = e.width, h = e.height ? e.height : 1, d = e.depth ? e.depth : 1;
    std::vector<float> v(w * h * d);
    for (size_t i = 0; i < v.size(); i++) v[i] = base + i * 0.5f;
    cudaMemcpy3DParms c{};
    c.srcPtr = make_cudaPitchedPtr(v.data(), w * 4, w, h);
    c.dstArray = a;
    c.extent = make_cudaExtent(w, h, d);
    c.kind = cudaMemcpyHostToDevice;
    SAY(cudaMemcpy3D(&c));
}
static cudaTextureObject_t texture(cudaResourceDesc r,
                                   cudaTextureFilterMode filter = cudaFilterModePoint,
                                   bool normal = false,
                                   cudaTextureReadMode read = cudaReadModeElementType,
                                   cudaTextureAddressMode mode = cudaAddressModeClamp) {
    cudaTextureDesc d{};
    d.addressMode[0] = d.addressMode[1] = d.addressMode[2] = mode;
    d.filterMode = d.mipmapFilterMode = filter;
    d.readMode = read;
    d.normalizedCoords = normal;
    d.maxMipmapLevelClamp = 3;
    d.borderColor[0] = 9;
    cudaTextureObject_t t = 0;
    SAY(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
}
static cudaResourceDesc of(cudaArray_t a) {
    cudaResourceDesc r{};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    return r;
}
static cudaSurfaceObject_t surface(cudaArray_t a) {
    cudaResourceDesc r = of(a);
    cudaSurfaceObject_t s = 0;
    SAY(cudaCreateSurfaceObject(&s, &r));
    return s;
}

template <class T> static void format(const char *what, cudaTextureReadMode read, T first) {
    cudaChannelFormatDesc d = cudaCreateChannelDesc<T>();
    cudaArray_t a = array(make_cudaExtent(16, 0, 0), 0, d);
    if (!a) return;
    std::vector<T> v(16, first);
    memset(&v[3], 0x41, sizeof(T));
    SAY(cudaMemcpy2DToArray(a, 0, 0, v.data(), 16 * sizeof(T), 16 * sizeof(T), 1,
                            cudaMemcpyHostToDevice));
    cudaTextureObject_t t = texture(of(a), cudaFilterModePoint, false, read);
    if (!t) return;
    if (read == cudaReadModeElementType) kinds<T><<<1, 16>>>(t, (T *)out);
    else kinds<float><<<1, 16>>>(t, out);
    result(what, read == cudaReadModeElementType ? 16 * sizeof(T) / 4 : 16);
    SAY(cudaDestroyTextureObject(t));
    SAY(cudaFreeArray(a));
}

int main() {
    CHECK(cudaMalloc((void **)&out, 1 << 20));
    CHECK(cudaMemset(out, 0, 1 << 20));
    puts("-- lines");
    cudaExtent e = make_cudaExtent(32, 0, 0);
    cudaArray_t a = array(e, cudaArraySurfaceLoadStore);
    put(a, e);
    flat1<<<1, 32>>>(texture(of(a)), out);
    result("1D", 32);
    flat1<<<1, 40>>>(texture(of(a), cudaFilterModeLinear), out);
    result("1D, linear and beyond", 40);
    cudaSurfaceObject_t s = surface(a);
    write1<<<1, 32>>>(s);
    outside<<<1, 40>>>(s, out);
    result("1D surface", 40);
    SAY(cudaDestroySurfaceObject(s));
    e = make_cudaExtent(16, 0, 5);
    a = array(e, cudaArrayLayered);
    put(a, make_cudaExtent(16, 1, 5));
    layer1<<<5, 16>>>(texture(of(a)), out);
    result("1D layers", 80);
    float *lin;
    CHECK(cudaMalloc((void **)&lin, 4096));
    CHECK(cudaMemset(lin, 0x3f, 4096));
    cudaResourceDesc r{};
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = lin;
    r.res.linear.desc = cudaCreateChannelDesc<float>();
    r.res.linear.sizeInBytes = 256;
    fetch1<<<1, 80>>>(texture(r), out);
    result("plain memory and beyond", 80);
    r.res.linear.devPtr = (char *)lin + 4;
    texture(r);

    puts("-- layers, cubes, volumes");
    e = make_cudaExtent(8, 6, 3);
    a = array(e, cudaArrayLayered | cudaArraySurfaceLoadStore);
    put(a, e);
    layer2<<<3, dim3(8, 6)>>>(texture(of(a)), out);
    result("2D layers", 144);
    s = surface(a);
    writel<<<3, dim3(8, 6)>>>(s);
    layer2<<<3, dim3(8, 6)>>>(texture(of(a)), out);
    result("2D layers, written", 144);
    e = make_cudaExtent(8, 6, 4);
    a = array(e, cudaArraySurfaceLoadStore);
    put(a, e);
    volume<<<4, dim3(8, 6)>>>(texture(of(a)), out, 1);
    result("3D", 192);
    volume<<<4, dim3(8, 6)>>>(texture(of(a), cudaFilterModeLinear), out, 0.75f);
    result("3D, linear", 192);
    write3<<<4, dim3(8, 6)>>>(surface(a));
    volume<<<4, dim3(8, 6)>>>(texture(of(a)), out, 1);
    result("3D, written", 192);
    e = make_cudaExtent(4, 4, 6);
    a = array(e, cudaArrayCubemap);
    put(a, e);
    cube<<<1, 32>>>(texture(of(a), cudaFilterModePoint, true), out);
    result("cube", 6);
    e = make_cudaExtent(4, 4, 12);
    a = array(e, cudaArrayCubemap | cudaArrayLayered);
    put(a, e);
    cubes<<<2, 3>>>(texture(of(a), cudaFilterModePoint, true), out);
    result("cubes", 6);
    array(make_cudaExtent(4, 5, 6), cudaArrayCubemap);
    array(make_cudaExtent(4, 4, 5), cudaArrayCubemap);
    array(make_cudaExtent(1 << 20, 4, 4), 0);
    array(make_cudaExtent(0, 4, 4), 0);

    puts("-- levels");
    cudaMipmappedArray_t m;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    SAY(cudaMallocMipmappedArray(&m, &f, make_cudaExtent(16, 16, 0), 4, 0));
    for (int l = 0; l < 5; l++) {
        cudaArray_t level = nullptr;
        if (SAY(cudaGetMipmappedArrayLevel(&level, m, l))) continue;
        put(level, make_cudaExtent(16 >> l, 16 >> l, 0), 100.0f * l);
    }
    cudaResourceDesc mr{};
    mr.resType = cudaResourceTypeMipmappedArray;
    mr.res.mipmap.mipmap = m;
    levels<<<1, 1>>>(texture(mr, cudaFilterModePoint, true), out);
    result("levels", 6);
    levels<<<1, 1>>>(texture(mr, cudaFilterModeLinear, true), out);
    result("levels, linear", 6);
    SAY(cudaFreeMipmappedArray(m));

    puts("-- edges, gathering, formats");
    e = make_cudaExtent(8, 8, 0);
    a = array(e, cudaArrayTextureGather);
    put(a, e);
    gather<<<1, 1>>>(texture(of(a)), (float4 *)out);
    result("gather", 16);
    for (auto mode : {cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror,
                      cudaAddressModeBorder}) {
        addresses<<<1, 16>>>(
            texture(of(a), cudaFilterModePoint, true, cudaReadModeElementType, mode), out);
        result("mode", 16);
    }
    format<unsigned char>("u8 as float", cudaReadModeNormalizedFloat, 51);
    format<short>("s16 as float", cudaReadModeNormalizedFloat, -16384);
    format<int4>("int4", cudaReadModeElementType, make_int4(1, -2, 3, -4));
    format<ushort2>("ushort2", cudaReadModeElementType, make_ushort2(7, 65535));
    format<float2>("float2", cudaReadModeElementType, make_float2(1.5f, -2));
    format<int>("s32 as float", cudaReadModeNormalizedFloat, 5);
    cudaResourceDesc none{};
    texture(none);
    SAY(cudaDestroyTextureObject(0));
    printf("done, %d failed\n", failed);
}
