// Many threads, each on a default stream of its own (this file is compiled so), and several
// contexts.
#include "check.h"
#include <cuda.h>
#include <thread>
#include <vector>

__global__ void add(int *v, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] += by;
}

static void work(int me, long long *sum) {
    const int n = 1 << 16;
    int *d;
    std::vector<int> h(n, me);
    CHECK(cudaMalloc((void **)&d, n * sizeof(int)));
    for (int round = 0; round < 50; round++) {
        CHECK(cudaMemcpyAsync(d, h.data(), n * sizeof(int), cudaMemcpyHostToDevice, 0));
        add<<<n / 256, 256>>>(d, n, round);
        CHECK(cudaMemcpyAsync(h.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost, 0));
        CHECK(cudaStreamSynchronize(0));
    }
    cudaError_t rc = cudaMalloc((void **)&d, ~0ull >> 1);
    EXPECT(rc == cudaErrorMemoryAllocation);
    // Each thread has its own last error.
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaSuccess);
    *sum = 0;
    for (int x : h) *sum += x;
}

static void context(int me, bool *right) {
    CUcontext ctx;
    CUdevice device;
    CUdeviceptr p;
    unsigned back[4] = {};
    *right = cuDeviceGet(&device, 0) == CUDA_SUCCESS
        && cuDevicePrimaryCtxRetain(&ctx, device) == CUDA_SUCCESS
        && cuDevicePrimaryCtxRelease(device) == CUDA_SUCCESS
        && cuCtxCreate(&ctx, nullptr, 0, device) == CUDA_SUCCESS
        && cuMemAlloc(&p, 16) == CUDA_SUCCESS
        && cuMemsetD32(p, me, 4) == CUDA_SUCCESS
        && cuMemcpyDtoH(back, p, 16) == CUDA_SUCCESS
        && back[0] == (unsigned)me && back[3] == (unsigned)me
        && cuCtxDestroy(ctx) == CUDA_SUCCESS
        && cuCtxGetCurrent(&ctx) == CUDA_SUCCESS;
}

int main() {
    const int count = 8;
    long long sums[count];
    bool right[count];
    std::vector<std::thread> threads;
    CHECK(cudaFree(0));
    for (int i = 0; i < count; i++) threads.emplace_back(work, i, &sums[i]);
    for (auto &t : threads) t.join();
    for (int i = 0; i < count; i++) printf("thread %d: %lld\n", i, sums[i]);
    threads.clear();
    for (int i = 0; i < 4; i++) threads.emplace_back(context, i + 1, &right[i]);
    for (auto &t : threads) t.join();
    for (int i = 0; i < 4; i++) printf("context %d: %s\n", i, right[i] ? "right" : "wrong");
    CUcontext ctx;
    unsigned flags;
    CHECK(cudaSetDevice(0));
    EXPECT(cuCtxGetCurrent(&ctx) == CUDA_SUCCESS && ctx);
    EXPECT(cuCtxGetFlags(&flags) == CUDA_SUCCESS);
    printf("done\n");
}
