// Texture and surface objects of arrays, mipmapped arrays, plain and pitched memory, read
// by kernels.
#include "check.h"
#include <cstring>
#include <vector>

__global__ void sample2d(cudaTextureObject_t t, float *out, int w, int h, float dx, float dy) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(t, x + dx, y + dy);
}

__global__ void sample_line(cudaTextureObject_t t, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<float>(t, n - 1 - i);
}

__global__ void sample_level(cudaTextureObject_t t, float *out, int levels) {
    int i = threadIdx.x;
    if (i < levels) out[i] = tex2DLod<float>(t, 0.5f, 0.5f, (float)i);
}

__global__ void turn(cudaSurfaceObject_t s, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        float v;
        surf2Dread(&v, s, x * 4, y);
        surf2Dwrite(-v, s, x * 4, y);
    }
}

static cudaTextureDesc plain(cudaTextureFilterMode filter, cudaTextureAddressMode mode) {
    cudaTextureDesc t;
    memset(&t, 0, sizeof t);
    t.addressMode[0] = t.addressMode[1] = t.addressMode[2] = mode;
    t.filterMode = filter;
    t.readMode = cudaReadModeElementType;
    return t;
}

int main() {
    const int w = 64, h = 48;
    dim3 block(16, 16), grid(4, 3);
    cudaChannelFormatDesc f = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    std::vector<float> in(w * h), out(w * h);
    for (int i = 0; i < w * h; i++) in[i] = (float)(i % 251);
    float *result;
    CHECK(cudaMalloc((void **)&result, w * h * 4));
    auto fetch = [&] {
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(out.data(), result, w * h * 4, cudaMemcpyDeviceToHost));
    };

    // An array: exact points, points between, and points past the edge.
    cudaArray_t a;
    CHECK(cudaMallocArray(&a, &f, w, h, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(a, 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    cudaResourceDesc r;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    cudaTextureObject_t t;
    cudaTextureDesc d = plain(cudaFilterModePoint, cudaAddressModeClamp);
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    sample2d<<<grid, block>>>(t, result, w, h, 0.5f, 0.5f);
    fetch();
    EXPECT(out == in);
    sample2d<<<grid, block>>>(t, result, w, h, 1000.0f, 0.5f);
    fetch();
    EXPECT(out[0] == in[w - 1]);
    CHECK(cudaDestroyTextureObject(t));
    d = plain(cudaFilterModeLinear, cudaAddressModeBorder);
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    sample2d<<<grid, block>>>(t, result, w, h, 1.0f, 0.5f);
    fetch();
    EXPECT(out[0] == (in[0] + in[1]) / 2);
    double sum = 0;
    for (float v : out) sum += v;
    printf("between: %.2f\n", sum);
    CHECK(cudaDestroyTextureObject(t));

    // A surface changes the array in place.
    cudaSurfaceObject_t s;
    CHECK(cudaCreateSurfaceObject(&s, &r));
    turn<<<grid, block>>>(s, w, h);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy2DFromArray(out.data(), w * 4, a, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < w * h; i++) EXPECT(out[i] == -in[i]);
    CHECK(cudaDestroySurfaceObject(s));
    CHECK(cudaFreeArray(a));
    printf("surface ok\n");

    // Plain memory, and memory with a pitch.
    float *line;
    CHECK(cudaMalloc((void **)&line, w * h * 4));
    CHECK(cudaMemcpy(line, in.data(), w * h * 4, cudaMemcpyHostToDevice));
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = line;
    r.res.linear.desc = f;
    r.res.linear.sizeInBytes = w * h * 4;
    d = plain(cudaFilterModePoint, cudaAddressModeClamp);
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    sample_line<<<(w * h + 255) / 256, 256>>>(t, result, w * h);
    fetch();
    for (int i = 0; i < w * h; i++) EXPECT(out[i] == in[w * h - 1 - i]);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(line));
    float *rows;
    size_t pitch;
    CHECK(cudaMallocPitch((void **)&rows, &pitch, w * 4, h));
    CHECK(cudaMemcpy2D(rows, pitch, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = rows;
    r.res.pitch2D.desc = f;
    r.res.pitch2D.width = w;
    r.res.pitch2D.height = h;
    r.res.pitch2D.pitchInBytes = pitch;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    sample2d<<<grid, block>>>(t, result, w, h, 0.5f, 0.5f);
    fetch();
    EXPECT(out == in);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(rows));
    printf("plain memory ok\n");

    // Levels of a mipmapped array.
    cudaMipmappedArray_t m;
    CHECK(cudaMallocMipmappedArray(&m, &f, cudaExtent{64, 64, 0}, 4, 0));
    for (unsigned i = 0; i < 4; i++) {
        cudaArray_t level;
        CHECK(cudaGetMipmappedArrayLevel(&level, m, i));
        size_t n = 64 >> i;
        std::vector<float> v(n * n, 10.0f * i);
        CHECK(cudaMemcpy2DToArray(level, 0, 0, v.data(), n * 4, n * 4, n, cudaMemcpyHostToDevice));
    }
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeMipmappedArray;
    r.res.mipmap.mipmap = m;
    d = plain(cudaFilterModePoint, cudaAddressModeClamp);
    d.normalizedCoords = 1;
    d.maxMipmapLevelClamp = 3;
    cudaResourceViewDesc view;
    memset(&view, 0, sizeof view);
    view.format = cudaResViewFormatFloat1;
    view.width = view.height = 64;
    view.lastMipmapLevel = 3;
    CHECK(cudaCreateTextureObject(&t, &r, &d, &view));
    sample_level<<<1, 32>>>(t, result, 4);
    fetch();
    printf("levels %.0f %.0f %.0f %.0f\n", out[0], out[1], out[2], out[3]);
    cudaResourceViewDesc back;
    CHECK(cudaGetTextureObjectResourceViewDesc(&back, t));
    printf("view to level %u\n", back.lastMipmapLevel);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeMipmappedArray(m));
    CHECK(cudaFree(result));
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
}
