// Mistakes that programs make, and the errors that they get: the same, and at the same call.
#include "check.h"
#include <vector>

__global__ void write(int *p, int v) { *p = v; }
__global__ void wide(long long *p) { *p = 1; }
__global__ void fault() { asm volatile("trap;"); }
__global__ void many(int *p) {
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    if (p) *p = s[0];
}

static void tell(const char *what, cudaError_t rc) {
    printf("%s: %d %s\n", what, (int)rc, cudaGetErrorName(rc));
    cudaGetLastError();
}

/// What the device says to a launch that must break it; then the device is reset.
static void broken(const char *what) {
    tell(what, cudaDeviceSynchronize());
    void *p;
    tell("  then cudaMalloc", cudaMalloc(&p, 4));
    tell("  then again", cudaDeviceSynchronize());
    tell("  then reset", cudaDeviceReset());
    tell("  then cudaMalloc", cudaMalloc(&p, 4));
    tell("  and cudaFree", cudaFree(p));
}

int main() {
    int *p, host = 0;
    CHECK(cudaMalloc((void **)&p, 4096));
    many<<<1, 2048>>>(p);
    tell("2048 threads", cudaGetLastError());
    many<<<dim3(1, 70000), 1>>>(p);
    tell("70000 blocks high", cudaGetLastError());
    many<<<1, 32, 1 << 20>>>(p);
    tell("1 MiB shared", cudaGetLastError());
    many<<<0, 32>>>(p);
    tell("no blocks", cudaGetLastError());
    write<<<1, 1>>>(p, 5);
    tell("a right one", cudaDeviceSynchronize());
    void *q;
    tell("malloc too much", cudaMalloc(&q, (size_t)1 << 50));
    tell("malloc nowhere", cudaMalloc(nullptr, 4));
    tell("copy of nothing", cudaMemcpy(p, &host, 0, cudaMemcpyHostToDevice));
    std::vector<char> big(4 << 20);
    tell("copy past the end", cudaMemcpy(p, big.data(), big.size(), cudaMemcpyHostToDevice));
    tell("copy to nothing", cudaMemcpy((void *)64, &host, 4, cudaMemcpyHostToDevice));
    tell("copy from nothing", cudaMemcpy(&host, (void *)64, 4, cudaMemcpyDeviceToHost));
    tell("wrong direction", cudaMemcpy(p, &host, 4, (cudaMemcpyKind)9));
    tell("2D pitch too small", cudaMemcpy2D(p, 4, big.data(), 64, 16, 4, cudaMemcpyHostToDevice));
    tell("memset nothing", cudaMemset((void *)64, 0, 4));
    tell("free the middle", cudaFree((char *)p + 16));
    tell("free", cudaFree(p));
    tell("free twice", cudaFree(p));
    tell("free null", cudaFree(nullptr));
    tell("free host memory", cudaFreeHost(&host));
    tell("no such device", cudaSetDevice(1000));
    int value;
    tell("no such attribute", cudaDeviceGetAttribute(&value, (cudaDeviceAttr)100000, 0));
    tell("attribute of no device", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1000));
    cudaEvent_t e;
    CHECK(cudaEventCreate(&e));
    float ms;
    tell("time of no record", cudaEventElapsedTime(&ms, e, e));
    CHECK(cudaEventDestroy(e));
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, &host));
    printf("a plain pointer: type %d\n", (int)a.type);
    tell("registered never", cudaHostUnregister(big.data()));
    tell("unknown symbol", cudaMemcpyToSymbol((const void *)&host, &host, 4, 0,
                                              cudaMemcpyHostToDevice));
    tell("limit", cudaDeviceSetLimit((cudaLimit)77, 1));
    tell("peer with itself", cudaDeviceEnablePeerAccess(0, 0));
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMalloc((void **)&p, 4096));
    write<<<1, 1>>>((int *)64, 1);
    broken("a wild pointer");
    // Whether a process gets its device back after such an error is the driver's to say.
    p = nullptr;
    tell("malloc after the reset", cudaMalloc((void **)&p, 4096));
    if (!p) {
        printf("the device is gone for this process\n");
        return 0;
    }
    wide<<<1, 1>>>((long long *)((char *)p + 4));
    broken("misaligned");
    fault<<<1, 1>>>();
    broken("a trap");
    printf("done\n");
}
