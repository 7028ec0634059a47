// What CUDA's documentation says of copies of boxes, fills of boxes, arrays, textures and surfaces.
// See doc.h.
#include "doc.h"

/// Pitched memory of a box, each byte of which is told apart.
struct Box {
    cudaPitchedPtr p = {};
    cudaExtent e;
    Box(size_t w, size_t h, size_t d) : e(make_cudaExtent(w, h, d)) {
        OK(cudaMalloc3D(&p, e));
    }
    ~Box() { cudaFree(p.ptr); }
    std::vector<unsigned char> all() const {
        std::vector<unsigned char> v(e.width * e.height * e.depth);
        cudaMemcpy3DParms c = {};
        c.srcPtr = p;
        c.dstPtr = make_cudaPitchedPtr(v.data(), e.width, e.width, e.height);
        c.extent = e;
        c.kind = cudaMemcpyDeviceToHost;
        OK(cudaMemcpy3D(&c));
        return v;
    }
    void fill(std::vector<unsigned char> &v) const {
        cudaMemcpy3DParms c = {};
        c.srcPtr = make_cudaPitchedPtr(v.data(), e.width, e.width, e.height);
        c.dstPtr = p;
        c.extent = e;
        c.kind = cudaMemcpyHostToDevice;
        OK(cudaMemcpy3D(&c));
    }
};
static std::vector<unsigned char> counted(size_t n, int from = 0) {
    std::vector<unsigned char> v(n);
    for (size_t i = 0; i < n; i++) v[i] = (unsigned char)(from + i);
    return v;
}
struct Array {
    cudaArray_t a = nullptr;
    Array(cudaChannelFormatDesc d, size_t w, size_t h, unsigned flags = 0) {
        OK(cudaMallocArray(&a, &d, w, h, flags));
    }
    ~Array() { cudaFreeArray(a); }
    operator cudaArray_t() const { return a; }
};

DOC("a box goes out and comes back") {
    Box b(37, 5, 3);
    HOLDS(b.p.pitch >= 37 && b.p.xsize == 37 && b.p.ysize == 5);
    auto v = counted(37 * 5 * 3);
    b.fill(v);
    HOLDS(b.all() == v);
}
DOC("a box of a box is copied from a place to a place, and the rest is left alone") {
    Box from(16, 8, 4), to(16, 8, 4);
    auto v = counted(16 * 8 * 4), w = std::vector<unsigned char>(16 * 8 * 4, 200);
    from.fill(v), to.fill(w);
    cudaMemcpy3DParms c = {};
    c.srcPtr = from.p, c.dstPtr = to.p;
    c.srcPos = make_cudaPos(3, 2, 1), c.dstPos = make_cudaPos(5, 1, 2);
    c.extent = make_cudaExtent(4, 3, 2);
    c.kind = cudaMemcpyDeviceToDevice;
    OK(cudaMemcpy3D(&c));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 3; y++)
            for (int x = 0; x < 4; x++)
                w[((z + 2) * 8 + y + 1) * 16 + x + 5] = v[((z + 1) * 8 + y + 2) * 16 + x + 3];
    HOLDS(to.all() == w);
}
DOC("a box without width, height or depth copies nothing, and succeeds") {
    Box b(16, 2, 2);
    auto v = counted(64);
    b.fill(v);
    cudaExtent none[] = {make_cudaExtent(0, 2, 2), make_cudaExtent(16, 0, 2),
                         make_cudaExtent(16, 2, 0)};
    for (auto e : none) {
        std::vector<unsigned char> z(64, 9);
        cudaMemcpy3DParms c = {};
        c.srcPtr = make_cudaPitchedPtr(z.data(), 16, 16, 2);
        c.dstPtr = b.p;
        c.extent = e;
        c.kind = cudaMemcpyHostToDevice;
        TOLD(cudaMemcpy3D(&c));
    }
    cudaGetLastError();
    HOLDS(b.all() == v);
}
DOC("a box whose rows are longer than its pitch is refused") {
    Box b(64, 4, 1);
    std::vector<unsigned char> v(256);
    cudaMemcpy3DParms c = {};
    c.srcPtr = make_cudaPitchedPtr(v.data(), 16, 16, 4);
    c.dstPtr = b.p;
    c.extent = make_cudaExtent(64, 4, 1);
    c.kind = cudaMemcpyHostToDevice;
    REFUSED(cudaMemcpy3D(&c));
}
DOC("a copy of a box with an array and a pointer as one end, or with none, is refused") {
    Array a(cudaCreateChannelDesc<unsigned char>(), 16, 4);
    Box b(16, 4, 1);
    cudaMemcpy3DParms c = {};
    c.srcArray = a, c.srcPtr = b.p, c.dstPtr = b.p;
    c.extent = make_cudaExtent(16, 4, 1);
    c.kind = cudaMemcpyDeviceToDevice;
    REFUSED(cudaMemcpy3D(&c));
    cudaMemcpy3DParms none = {};
    none.dstPtr = b.p;
    none.extent = make_cudaExtent(16, 4, 1);
    none.kind = cudaMemcpyDeviceToDevice;
    REFUSED(cudaMemcpy3D(&none));
}
DOC("a copy in a stream comes behind what is there, and its page-locked end is filled then") {
    Stream s;
    Box b(32, 4, 2);
    unsigned char *host = nullptr;
    OK(cudaMallocHost(&host, 32 * 4 * 2));
    memset(host, 1, 256);
    OK(cudaMemset3D(b.p, 7, b.e));
    OK(cudaDeviceSynchronize());
    Held held(s);
    cudaMemcpy3DParms c = {};
    c.srcPtr = b.p;
    c.dstPtr = make_cudaPitchedPtr(host, 32, 32, 4);
    c.extent = b.e;
    c.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3DAsync(&c, s));
    HOLDS(host[0] == 1 && host[255] == 1);
    held.release();
    HOLDS(host[0] == 7 && host[255] == 7);
    OK(cudaFreeHost(host));
}
DOC("filling a box leaves what is outside of it alone") {
    Box b(40, 6, 3);
    auto v = counted(40 * 6 * 3);
    b.fill(v);
    cudaPitchedPtr part = b.p;
    part.ptr = (char *)b.p.ptr + 4;
    OK(cudaMemset3D(part, 0x155, make_cudaExtent(10, 2, 2)));
    OK(cudaDeviceSynchronize());
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 10; x++) v[(z * 6 + y) * 40 + x + 4] = 0x55;
    HOLDS(b.all() == v);
}
DOC("filling rows in a stream comes behind what is there") {
    Stream s;
    Memory m(64 * 8);
    OK(cudaMemset(m.p, 0, 64 * 8));
    OK(cudaDeviceSynchronize());
    Held held(s);
    OK(cudaMemset2DAsync(m.p, 64, 3, 16, 8, s));
    OK(cudaMemsetAsync((char *)m.p + 64, 4, 16, s));
    held.release();
    HOLDS(value(m.p) == 0x03030303 && value((char *)m.p + 64) == 0x04040404);
    HOLDS(value((char *)m.p + 16) == 0);
}
DOC("filling rows with a pitch below their width is refused") {
    Memory m(1024);
    REFUSED(cudaMemset2D(m.p, 8, 1, 16, 4));
    OK(cudaMemset2D(m.p, 16, 1, 16, 4));
    OK(cudaMemset2D(m.p, 16, 1, 0, 4));
    OK(cudaMemset2D(m.p, 16, 1, 16, 0));
}
DOC("rows go into an array and out of it, from an offset") {
    Array a(cudaCreateChannelDesc<int>(), 16, 8);
    std::vector<int> v(16 * 8), w(16 * 8, -1);
    for (size_t i = 0; i < v.size(); i++) v[i] = (int)i;
    OK(cudaMemcpy2DToArray(a, 0, 0, v.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DFromArray(w.data(), 16, a, 4 * 4, 2, 16, 3, cudaMemcpyDeviceToHost));
    HOLDS(w[0] == 2 * 16 + 4 && w[3] == 2 * 16 + 7 && w[4] == 3 * 16 + 4 && w[11] == 4 * 16 + 7);
    HOLDS(w[12] == -1);
}
DOC("a copy beyond an array is refused, and copies nothing") {
    Array a(cudaCreateChannelDesc<int>(), 16, 8);
    std::vector<int> v(1024, 5), w(16 * 8, 0);
    OK(cudaMemcpy2DToArray(a, 0, 0, w.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    REFUSED(cudaMemcpy2DToArray(a, 4, 0, v.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    REFUSED(cudaMemcpy2DToArray(a, 0, 1, v.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    REFUSED(cudaMemcpy2DToArray(a, 0, 0, v.data(), 32, 64, 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DFromArray(v.data(), 64, a, 0, 0, 64, 8, cudaMemcpyDeviceToHost));
    HOLDS(v[0] == 0 && v[127] == 0 && v[128] == 5);
}
DOC("from array to array") {
    Array a(cudaCreateChannelDesc<int>(), 16, 8), b(cudaCreateChannelDesc<int>(), 16, 8);
    std::vector<int> v(128), w(128, -1);
    for (int i = 0; i < 128; i++) v[i] = i;
    OK(cudaMemcpy2DToArray(a, 0, 0, v.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DArrayToArray(b, 0, 0, a, 16, 1, 48, 7, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy2DFromArray(w.data(), 64, b, 0, 0, 48, 7, cudaMemcpyDeviceToHost));
    HOLDS(w[0] == 16 + 4 && w[11] == 16 + 15 && w[16] == 32 + 4);
}
DOC("an array of three dimensions, and of layers, says so") {
    auto d = cudaCreateChannelDesc<float>();
    for (unsigned flags : {0u, (unsigned)cudaArrayLayered, (unsigned)cudaArraySurfaceLoadStore}) {
        cudaArray_t a = nullptr;
        OK(cudaMalloc3DArray(&a, &d, make_cudaExtent(8, 4, 3), flags));
        cudaChannelFormatDesc got;
        cudaExtent e;
        unsigned f = 99;
        OK(cudaArrayGetInfo(&got, &e, &f, a));
        HOLDS(e.width == 8 && e.height == 4 && e.depth == 3 && f == flags);
        HOLDS(got.x == 32 && got.y == 0 && got.f == cudaChannelFormatKindFloat);
        OK(cudaFreeArray(a));
    }
}

__global__ void look(cudaTextureObject_t t, float *out, float x, float y) {
    *out = tex2D<float>(t, x, y);
}
__global__ void look_1d(cudaTextureObject_t t, int *out, int i) { *out = tex1Dfetch<int>(t, i); }
__global__ void write_surface(cudaSurfaceObject_t s, int x, int y, float v) {
    surf2Dwrite(v, s, x * (int)sizeof(float), y);
}
__global__ void read_surface(cudaSurfaceObject_t s, int x, int y, float *out) {
    *out = surf2Dread<float>(s, x * (int)sizeof(float), y);
}
static cudaResourceDesc of_array(cudaArray_t a) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    return r;
}
struct Texture {
    cudaTextureObject_t t = 0;
    Texture(const cudaResourceDesc &r, const cudaTextureDesc &d) {
        OK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    }
    ~Texture() { cudaDestroyTextureObject(t); }
    float at(float x, float y) const {
        Memory m(4);
        look<<<1, 1>>>(t, (float *)m.p, x, y);
        float v = -1;
        OK(cudaMemcpy(&v, m.p, 4, cudaMemcpyDeviceToHost));
        return v;
    }
};
struct Picture {
    Array a{cudaCreateChannelDesc<float>(), 4, 2, cudaArraySurfaceLoadStore};
    Picture() {
        float v[8] = {0, 1, 2, 3, 10, 11, 12, 13};
        OK(cudaMemcpy2DToArray(a, 0, 0, v, 16, 16, 2, cudaMemcpyHostToDevice));
    }
};
DOC("a texture reads points, and between them when it filters") {
    Picture p;
    cudaTextureDesc d = {};
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeClamp;
    {
        Texture t(of_array(p.a), d);
        HOLDS(t.at(2.5f, 0.5f) == 2 && t.at(2.9f, 1.1f) == 12);
    }
    d.filterMode = cudaFilterModeLinear;
    Texture t(of_array(p.a), d);
    HOLDS(t.at(2.0f, 0.5f) == 1.5f && t.at(2.5f, 1.0f) == 7);
}
DOC("a texture beyond its border: clamped, or 0") {
    Picture p;
    cudaTextureDesc d = {};
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeClamp;
    {
        Texture t(of_array(p.a), d);
        HOLDS(t.at(9, 0) == 3 && t.at(-5, 9) == 10);
    }
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeBorder;
    Texture t(of_array(p.a), d);
    HOLDS(t.at(9, 0) == 0 && t.at(3.5f, 1.5f) == 13);
}
DOC("normalized coordinates wrap and mirror") {
    Picture p;
    cudaTextureDesc d = {};
    d.normalizedCoords = 1;
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeWrap;
    {
        Texture t(of_array(p.a), d);
        HOLDS(t.at(0.1f, 0.1f) == 0 && t.at(1.1f, 0.1f) == 0 && t.at(0.9f, 0.9f) == 13);
    }
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeMirror;
    Texture t(of_array(p.a), d);
    HOLDS(t.at(1.1f, 0.1f) == 3);
}
DOC("a texture of plain memory is read by index, and sees what is written later") {
    Memory m(64), out(4);
    OK(cudaMemset(m.p, 0, 64));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeLinear;
    r.res.linear = {m.p, cudaCreateChannelDesc<int>(), 64};
    cudaTextureDesc d = {};
    Texture t(r, d);
    put<<<1, 1>>>(m.ints() + 5, 55);
    look_1d<<<1, 1>>>(t.t, out.ints(), 5);
    HOLDS(value(out.p) == 55);
}
DOC("a texture says what it was made of") {
    Picture p;
    cudaTextureDesc d = {}, got = {};
    d.addressMode[0] = cudaAddressModeMirror;
    d.normalizedCoords = 1;
    d.maxAnisotropy = 2;
    Texture t(of_array(p.a), d);
    cudaResourceDesc r = {};
    OK(cudaGetTextureObjectResourceDesc(&r, t.t));
    HOLDS(r.resType == cudaResourceTypeArray && r.res.array.array == p.a.a);
    OK(cudaGetTextureObjectTextureDesc(&got, t.t));
    HOLDS(got.addressMode[0] == cudaAddressModeMirror && got.normalizedCoords == 1);
}
DOC("textures and surfaces that cannot be are refused") {
    cudaTextureObject_t t;
    cudaSurfaceObject_t s;
    cudaTextureDesc d = {};
    cudaResourceDesc none = of_array(nullptr);
    REFUSED(cudaCreateTextureObject(&t, &none, &d, nullptr));
    REFUSED(cudaCreateSurfaceObject(&s, &none));
    Array plain(cudaCreateChannelDesc<float>(), 4, 4);
    auto r = of_array(plain);
    REFUSED(cudaCreateTextureObject(nullptr, &r, &d, nullptr));
    TOLD(cudaCreateSurfaceObject(&s, &r));
}
DOC("a kernel writes to a surface, another reads it, and a texture of the array, too") {
    Picture p;
    auto r = of_array(p.a);
    cudaSurfaceObject_t s = 0;
    OK(cudaCreateSurfaceObject(&s, &r));
    write_surface<<<1, 1>>>(s, 2, 1, 99.5f);
    Memory m(4);
    read_surface<<<1, 1>>>(s, 2, 1, (float *)m.p);
    float v = 0;
    OK(cudaMemcpy(&v, m.p, 4, cudaMemcpyDeviceToHost));
    HOLDS(v == 99.5f);
    cudaTextureDesc d = {};
    Texture t(r, d);
    HOLDS(t.at(2.5f, 1.5f) == 99.5f);
    cudaResourceDesc got = {};
    OK(cudaGetSurfaceObjectResourceDesc(&got, s));
    HOLDS(got.res.array.array == p.a.a);
    OK(cudaDestroySurfaceObject(s));
}
