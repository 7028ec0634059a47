// Grids whose blocks wait for each other.
#include "check.h"
#include <cooperative_groups.h>
#include <vector>
namespace cg = cooperative_groups;

// A sum by halves: each round needs all of the last.
__global__ void halves(unsigned long long *v, int n) {
    cg::grid_group grid = cg::this_grid();
    for (int half = n / 2; half > 0; half /= 2) {
        for (int i = grid.thread_rank(); i < half; i += grid.size()) v[i] += v[i + half];
        grid.sync();
    }
}

int main() {
    int able, per_sm;
    cudaDeviceProp p;
    CHECK(cudaDeviceGetAttribute(&able, cudaDevAttrCooperativeLaunch, 0));
    CHECK(cudaGetDeviceProperties(&p, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, halves, 256, 0));
    printf("cooperative %d\n", able);
    int n = 1 << 20;
    std::vector<unsigned long long> in(n);
    for (int i = 0; i < n; i++) in[i] = i;
    unsigned long long *v, sum;
    CHECK(cudaMalloc((void **)&v, n * 8));
    CHECK(cudaMemcpy(v, in.data(), n * 8, cudaMemcpyHostToDevice));
    void *args[] = {&v, &n};
    int blocks = p.multiProcessorCount * per_sm;
    CHECK(cudaLaunchCooperativeKernel((void *)halves, dim3(blocks), dim3(256), args, 0, 0));
    CHECK(cudaMemcpy(&sum, v, 8, cudaMemcpyDeviceToHost));
    printf("sum %llu\n", sum);
    EXPECT(sum == (unsigned long long)n * (n - 1) / 2);
    cudaError_t rc = cudaLaunchCooperativeKernel((void *)halves, dim3(blocks + 1), dim3(256), args,
                                                 0, 0);
    if (rc == cudaSuccess) rc = cudaDeviceSynchronize();
    printf("one block too many: %s\n", cudaGetErrorName(rc));
    cudaGetLastError();
    CHECK(cudaFree(v));
    printf("done\n");
}
