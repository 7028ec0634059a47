// Page-locked memory that kernels use in place. Plain output, the same natively and through Busbar.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#define OK(call)                                                                         \
    do {                                                                                 \
        cudaError_t e = (call);                                                          \
        if (e != cudaSuccess) {                                                          \
            printf("%s: %s\n", #call, cudaGetErrorName(e));                              \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

__global__ void add(int *p, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += by;
}
__global__ void sum(const int *p, int n, long long *out) {
    long long s = 0;
    for (int i = 0; i < n; i++) s += p[i];
    *out = s;
}
struct Args {
    int *p;
    int n;
};
__global__ void by_struct(Args a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n) a.p[i] *= 2;
}

int main() {
    const int n = 100000, blocks = (n + 255) / 256;
    int *h, *d;
    long long *out;
    OK(cudaHostAlloc(&h, n * sizeof(int), cudaHostAllocMapped));
    OK(cudaHostAlloc(&out, sizeof(*out), cudaHostAllocDefault));
    OK(cudaHostGetDevicePointer(&d, h, 0));
    for (int i = 0; i < n; i++) h[i] = i;
    add<<<blocks, 256>>>(d, n, 1);
    sum<<<1, 1>>>(h, n, out);
    OK(cudaDeviceSynchronize());
    printf("mapped %d %d sum %lld\n", h[0], h[n - 1], *out);
    h[3] = 1000000;
    by_struct<<<blocks, 256>>>(Args{h, n});
    sum<<<1, 1>>>(h, n, out);
    OK(cudaDeviceSynchronize());
    printf("by structure %d sum %lld\n", h[3], *out);

    // Copies out of and into the same memory, afterwards.
    int *dev;
    OK(cudaMalloc(&dev, n * sizeof(int)));
    OK(cudaMemcpyAsync(dev, h, n * sizeof(int), cudaMemcpyHostToDevice));
    add<<<blocks, 256>>>(dev, n, 7);
    OK(cudaMemcpyAsync(h, dev, n * sizeof(int), cudaMemcpyDeviceToHost));
    OK(cudaDeviceSynchronize());
    printf("copied %d %d\n", h[0], h[n - 1]);

    // Registered memory at an address that is no page's.
    char *raw = (char *)malloc(n * sizeof(int) + 4096);
    int *r = (int *)(raw + 24);
    for (int i = 0; i < n; i++) r[i] = -i;
    OK(cudaHostRegister(r, n * sizeof(int), cudaHostRegisterMapped));
    OK(cudaHostGetDevicePointer(&d, r, 0));
    add<<<blocks, 256>>>(d, n, 5);
    OK(cudaDeviceSynchronize());
    printf("registered %d %d %d\n", r[0], r[n / 2], r[n - 1]);
    r[0] = r[n - 1] = 50;
    add<<<blocks, 256>>>(r, n, 5);
    OK(cudaDeviceSynchronize());
    printf("by its own address %d %d %d\n", r[0], r[n / 2], r[n - 1]);
    add<<<blocks, 256>>>(d, n, 1);
    OK(cudaDeviceSynchronize());
    OK(cudaHostUnregister(r));
    printf("unregistered %d %d\n", r[0], r[n - 1]);
    free(raw);

    OK(cudaFreeHost(h));
    OK(cudaFreeHost(out));
    OK(cudaFree(dev));
    printf("done\n");
}
