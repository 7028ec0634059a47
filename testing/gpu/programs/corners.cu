// Small things that a driver decides: what it says is printed. Plain output.
#include "check.h"
#include <cstring>
#include <cuda.h>

__global__ void trap() { asm("trap;"); }

int main() {
    CHECK(cudaFree(0));
    void *host, *dev;
    CHECK(cudaMallocHost(&host, 4096));
    CHECK(cudaMalloc(&dev, 1 << 20));
    // Tensor maps, wherever they lie.
    alignas(128) char room[512];
    for (int at : {0, 8, 16, 32, 64}) {
        CUtensorMap *map = (CUtensorMap *)(room + at);
        memset(room, 0, sizeof room);
        cuuint64_t size[] = {64, 64}, stride[] = {256};
        cuuint32_t box[] = {16, 16}, each[] = {1, 1};
        CUresult made = cuTensorMapEncodeTiled(
            map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, dev, size, stride, box, each,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        CUresult other = cuTensorMapReplaceAddress(map, (char *)dev + 4096);
        CUresult odd = cuTensorMapReplaceAddress(map, (char *)dev + 1);
        printf("tensor map at %d: %d %d %d\n", at, made, other, odd);
    }
    printf("free nothing: %s\n", cudaGetErrorName(cudaFreeAsync(nullptr, 0)));
    trap<<<1, 1>>>();
    printf("sync: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("free host: %s\n", cudaGetErrorName(cudaFreeHost(host)));
    printf("done\n");
}
