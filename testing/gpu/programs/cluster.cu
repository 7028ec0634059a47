// Clusters of blocks that read each other's shared memory.
#include "check.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Each block writes its number; then each reads its neighbour's.
__global__ void ring(int *out) {
    __shared__ int mine;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = 100 + blockIdx.x;
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&mine, next);
    cluster.sync();
}

__global__ void __cluster_dims__(2, 1, 1) fixed(int *out) {
    if (threadIdx.x == 0) out[blockIdx.x] = cg::this_cluster().num_blocks();
}

int main() {
    int able = 0, *out, host[16];
    CHECK(cudaDeviceGetAttribute(&able, cudaDevAttrClusterLaunch, 0));
    printf("cluster launch %d\n", able);
    CHECK(cudaMalloc((void **)&out, sizeof host));
    for (unsigned size : {1u, 2u, 4u, 8u}) {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = size;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(16);
        config.blockDim = dim3(32);
        config.attrs = &attribute;
        config.numAttrs = 1;
        int clusters = 0;
        CHECK(cudaOccupancyMaxActiveClusters(&clusters, ring, &config));
        EXPECT(clusters > 0);
        CHECK(cudaLaunchKernelEx(&config, ring, out));
        CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
        for (unsigned i = 0; i < 16; i++) {
            EXPECT(host[i] == (int)(100 + i / size * size + (i % size + 1) % size));
        }
        printf("ring of %u\n", size);
    }
    fixed<<<16, 32>>>(out);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    printf("by the kernel itself: %d\n", host[0]);
    fixed<<<3, 32>>>(out);
    printf("a grid that is no whole number of clusters: %s\n",
           cudaGetErrorName(cudaGetLastError()));
    CHECK(cudaFree(out));
    printf("done\n");
}
