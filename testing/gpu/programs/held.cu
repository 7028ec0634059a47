// A stream that stands still, behind a function or a kernel that the program lets go later: other
// streams go on, and calls that are asynchronous return. Plain output, the same natively and
// through Busbar; a call that waits for the wrong stream ends the program after 20 s.
#include "check.h"
#include <atomic>
#include <chrono>
#include <thread>
#include <unistd.h>

static std::atomic<int> go;

static void wait_here(void *) {
    while (!go.load()) std::this_thread::yield();
}
__global__ void spin(volatile int *flag) {
    while (!*flag) {
    }
}
__global__ void fill(int *p, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}

int main() {
    alarm(20);
    const int n = 1 << 20, rows = 64, row = 4096;
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    int *dev, *from, *to, *flag;
    CHECK(cudaMalloc(&dev, n * sizeof(int)));
    CHECK(cudaHostAlloc(&from, n * sizeof(int), cudaHostAllocDefault));
    CHECK(cudaHostAlloc(&to, n * sizeof(int), cudaHostAllocDefault));
    CHECK(cudaHostAlloc(&flag, 64, cudaHostAllocMapped));
    cudaArray_t array;
    cudaChannelFormatDesc bytes = cudaCreateChannelDesc<unsigned char>();
    CHECK(cudaMallocArray(&array, &bytes, row, rows));
    fill<<<n / 256, 256, 0, b>>>(dev, n, 0);
    CHECK(cudaStreamSynchronize(b));
    for (int how = 0; how < 2; how++) {
        for (int where = 0; where < 2; where++) {
            cudaStream_t s = where ? a : b;
            go = 0;
            *(volatile int *)flag = 0;
            for (int i = 0; i < n; i++) from[i] = i + how * 7 + where;
            if (how)
                spin<<<1, 1, 0, a>>>(flag);
            else
                CHECK(cudaLaunchHostFunc(a, wait_here, nullptr));
            CHECK(cudaMemcpyAsync(dev, from, n * sizeof(int), cudaMemcpyHostToDevice, s));
            CHECK(cudaMemcpyAsync(to, dev, n * sizeof(int), cudaMemcpyDeviceToHost, s));
            CHECK(cudaMemcpy2DAsync(dev, row, from, row, row, rows, cudaMemcpyHostToDevice, s));
            CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, from, row, row, rows,
                                           cudaMemcpyHostToDevice, s));
            CHECK(cudaMemcpy2DFromArrayAsync(to, row, array, 0, 0, row, rows,
                                             cudaMemcpyDeviceToHost, s));
            if (!where) CHECK(cudaStreamSynchronize(b));
            printf("%d %d other still: %s\n", how, where, cudaGetErrorName(cudaStreamQuery(a)));
            go = 1;
            *(volatile int *)flag = 1;
            CHECK(cudaStreamSynchronize(a));
            bool same = true;
            for (int i = 0; i < n; i++) same &= to[i] == from[i];
            printf("%d %d arrived: %d\n", how, where, same);
        }
    }
    printf("done\n");
}
