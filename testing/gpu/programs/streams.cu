// Streams: priorities, order between them, functions on the host, times, default streams.
#include "check.h"
#include <cstring>
#include <thread>
#include <vector>

__global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {
    }
}

__global__ void twice(int *v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] = v[i] * 2 + 1;
}

static void CUDART_CB append(void *list) { ((std::vector<int> *)list)->push_back(1); }

static void CUDART_CB called(cudaStream_t, cudaError_t rc, void *list) {
    ((std::vector<int> *)list)->push_back(rc == cudaSuccess ? 2 : -1);
}

int main() {
    const int n = 1 << 16;
    int least, most, got;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
    EXPECT(most <= least);
    cudaStream_t low, high;
    CHECK(cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, least));
    CHECK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, most));
    CHECK(cudaStreamGetPriority(high, &got));
    printf("priorities %d..%d, %d\n", least, most, got);
    unsigned flags;
    CHECK(cudaStreamGetFlags(low, &flags));
    printf("flags %u\n", flags);
    // A stream in the place of another has its own properties.
    CHECK(cudaStreamDestroy(high));
    CHECK(cudaStreamCreate(&high));
    CHECK(cudaStreamGetFlags(high, &flags));
    CHECK(cudaStreamGetPriority(high, &got));
    printf("flags %u, priority %d\n", flags, got);

    int *v;
    CHECK(cudaMalloc((void **)&v, n * 4));
    CHECK(cudaMemset(v, 0, n * 4));
    CHECK(cudaDeviceSynchronize());
    cudaEvent_t start, stop, plain;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    std::vector<int> order;
    CHECK(cudaEventRecord(start, low));
    spin<<<1, 1, 0, low>>>(20000000);
    printf("query: %s\n", cudaGetErrorName(cudaStreamQuery(low)));
    cudaGetLastError();
    CHECK(cudaLaunchHostFunc(low, append, &order));
    CHECK(cudaStreamAddCallback(low, called, &order, 0));
    twice<<<n / 256, 256, 0, low>>>(v, n);
    CHECK(cudaEventRecord(stop, low));
    CHECK(cudaStreamWaitEvent(high, stop, 0));
    twice<<<n / 256, 256, 0, high>>>(v, n);
    CHECK(cudaEventRecord(plain, high));
    CHECK(cudaEventSynchronize(plain));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    EXPECT(ms > 0);
    printf("untimed: %s\n", cudaGetErrorName(cudaEventElapsedTime(&ms, start, plain)));
    cudaGetLastError();
    EXPECT(order.size() == 2 && order[0] == 1 && order[1] == 2);
    std::vector<int> out(n);
    CHECK(cudaMemcpy(out.data(), v, n * 4, cudaMemcpyDeviceToHost));
    for (int x : out) EXPECT(x == 3);
    CHECK(cudaStreamSynchronize(low));
    printf("query: %s\n", cudaGetErrorName(cudaStreamQuery(low)));

    // Each thread on a default stream of its own.
    std::vector<std::thread> threads;
    std::vector<int> right(8);
    for (int t = 0; t < 8; t++)
        threads.emplace_back([t, &right] {
            int *mine, *host;
            CHECK(cudaMalloc((void **)&mine, n * 4));
            CHECK(cudaMallocHost((void **)&host, n * 4));
            CHECK(cudaMemsetAsync(mine, 0, n * 4, cudaStreamPerThread));
            for (int i = 0; i <= t; i++) twice<<<n / 256, 256, 0, cudaStreamPerThread>>>(mine, n);
            CHECK(cudaMemcpyAsync(host, mine, n * 4, cudaMemcpyDeviceToHost, cudaStreamPerThread));
            CHECK(cudaStreamSynchronize(cudaStreamPerThread));
            for (int i = 0; i < n; i++) right[t] += host[i] == (1 << (t + 1)) - 1;
            CHECK(cudaFreeHost(host));
            CHECK(cudaFree(mine));
        });
    for (auto &t : threads) t.join();
    for (int r : right) EXPECT(r == n);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaEventDestroy(plain));
    CHECK(cudaStreamDestroy(low));
    CHECK(cudaStreamDestroy(high));
    CHECK(cudaFree(v));
    printf("done\n");
}
