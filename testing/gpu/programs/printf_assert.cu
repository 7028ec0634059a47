// What kernels print comes in order and before a wait returns; a failed assertion is error 710.
#include "check.h"
#include <cassert>

__global__ void say(int round) {
    if (threadIdx.x == 0) printf("round %d: %s %.2f %c\n", round, "text", 1.25, 'x');
}

__global__ void must(int holds) { assert(holds); }

int main() {
    setvbuf(stdout, nullptr, _IONBF, 0);
    for (int i = 0; i < 5; i++) {
        printf("before %d\n", i);
        say<<<1, 32>>>(i);
        CHECK(cudaDeviceSynchronize());
        printf("after %d\n", i);
    }
    for (int i = 5; i < 8; i++) say<<<1, 1>>>(i);
    CHECK(cudaDeviceSynchronize());
    size_t size;
    CHECK(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize));
    EXPECT(size >= 1 << 16);
    must<<<1, 1>>>(1);
    CHECK(cudaDeviceSynchronize());
    must<<<1, 1>>>(0);
    cudaError_t rc = cudaDeviceSynchronize();
    printf("assert: %d %s\n", (int)rc, cudaGetErrorName(rc));
    void *p;
    printf("afterwards: %s\n", cudaGetErrorName(cudaMalloc(&p, 16)));
}
