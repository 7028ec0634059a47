// A copy that has returned is done: also for the first stream of the program, which is made only
// then and waits for no other, and though work before the copy had not ended when it was asked for.
#include "check.h"
#include <vector>

__global__ void busy(long long cycles) {
    long long from = clock64();
    while (clock64() - from < cycles) {
    }
}

__global__ void sum(const unsigned char *p, size_t n, unsigned long long *out) {
    unsigned long long mine = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        mine += p[i];
    atomicAdd(out, mine);
}

int main() {
    const size_t n = 64 << 20;
    std::vector<unsigned char> bytes(n, 2);
    unsigned char *p;
    unsigned long long *total, result = 0;
    CHECK(cudaMalloc(&p, n));
    CHECK(cudaMalloc(&total, sizeof(*total)));
    CHECK(cudaMemset(p, 1, n));
    CHECK(cudaMemset(total, 0, sizeof(*total)));
    busy<<<1, 1>>>(200000000);
    CHECK(cudaMemcpy(p, bytes.data(), n, cudaMemcpyHostToDevice));
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    sum<<<64, 256, 0, s>>>(p, n, total);
    CHECK(cudaMemcpyAsync(&result, total, sizeof(result), cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    printf("%llu of %llu\n", result, 2ull * n);
}
