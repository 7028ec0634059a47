// Two devices: copies with and without peer access, kernels that read the other's memory.
#include "check.h"
#include <vector>

__global__ void add(int *to, const int *from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] += from[i];
}

int main() {
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        printf("skipped: one device\n");
        return 0;
    }
    const int n = 1 << 20;
    std::vector<int> in(n), out(n);
    for (int i = 0; i < n; i++) in[i] = i * 3;
    int *a, *b, can = 0;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc((void **)&a, n * 4));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc((void **)&b, n * 4));
    CHECK(cudaMemset(b, 0, n * 4));
    CHECK(cudaDeviceSynchronize());

    // From the wrong device: an address says where it belongs.
    CHECK(cudaMemcpy(a, in.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, a, n * 4, cudaMemcpyDeviceToDevice));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpy(out.data(), b, n * 4, cudaMemcpyDeviceToHost));
    EXPECT(in == out);
    CHECK(cudaMemset(a, 0, n * 4));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyPeer(a, 0, b, 1, n * 4));
    CHECK(cudaMemcpy(out.data(), a, n * 4, cudaMemcpyDeviceToHost));
    EXPECT(in == out);
    printf("copies ok\n");
    char id[32];
    int found = -1;
    CHECK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
    CHECK(cudaDeviceGetByPCIBusId(&found, id));
    printf("by bus id: %d\n", found);

    CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
    if (!can) {
        printf("skipped: no peer access\n");
        return 0;
    }
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    printf("again: %s\n", cudaGetErrorName(cudaDeviceEnablePeerAccess(1, 0)));
    cudaGetLastError();
    // Memory from before and from after.
    add<<<(n + 255) / 256, 256>>>(a, b, n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(1));
    int *c;
    CHECK(cudaMalloc((void **)&c, n * 4));
    CHECK(cudaMemcpy(c, in.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaSetDevice(0));
    add<<<(n + 255) / 256, 256>>>(a, c, n);
    CHECK(cudaMemcpy(out.data(), a, n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) EXPECT(out[i] == in[i] * 3);
    printf("kernels ok\n");
    CHECK(cudaDeviceDisablePeerAccess(1));
    printf("again: %s\n", cudaGetErrorName(cudaDeviceDisablePeerAccess(1)));
    cudaGetLastError();
    CHECK(cudaMemcpyPeer(a, 0, c, 1, n * 4));
    CHECK(cudaMemcpy(out.data(), a, n * 4, cudaMemcpyDeviceToHost));
    EXPECT(in == out);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    printf("done\n");
}
