// Green contexts: parts of a device with streams of their own, and what is refused.
#include "tell.h"
#include <cstring>
#include <vector>

__global__ void count(int *seen) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (threadIdx.x == 0) seen[sm] = 1;
    long long end = clock64() + 2000000;
    while (clock64() < end) {}
}
__global__ void write(int *p, int v) { *p = v; }

int main() {
    CUdevice dev;
    CUcontext primary;
    DRIVER(cuInit(0));
    DRIVER(cuDeviceGet(&dev, 0));
    CHECK(cudaFree(nullptr));
    DRIVER(cuCtxGetCurrent(&primary));
    int *seen, *p;
    CHECK(cudaMalloc((void **)&seen, 4096));
    CHECK(cudaMalloc((void **)&p, 4096));

    CUdevResource all{}, whole{}, group[16], rest{};
    SAY(cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM));
    printf("type %d processors %u\n", (int)all.type, all.sm.smCount);
    SAY(cuCtxGetDevResource(primary, &whole, CU_DEV_RESOURCE_TYPE_SM));
    printf("processors %u\n", whole.sm.smCount);
    SAY(cuDeviceGetDevResource(dev, &whole, CU_DEV_RESOURCE_TYPE_INVALID));
    SAY(cuDeviceGetDevResource(99, &whole, CU_DEV_RESOURCE_TYPE_SM));
    unsigned n = 16;
    SAY(cuDevSmResourceSplitByCount(nullptr, &n, &all, nullptr, 0, 16));
    printf("%u groups are possible\n", n);
    n = 4;
    SAY(cuDevSmResourceSplitByCount(group, &n, &all, &rest, 0, 16));
    printf("%u groups, %u processors in the first, %u in the rest\n", n, group[0].sm.smCount,
           rest.sm.smCount);
    n = 1;
    SAY(cuDevSmResourceSplitByCount(group + 4, &n, &all, nullptr, 0, 100000));
    CUdevResource more[2];
    n = 2;
    SAY(cuDevSmResourceSplitByCount(more, &n, &group[0], nullptr, 0, 8));
    CUdevResourceDesc desc, both;
    SAY(cuDevResourceGenerateDesc(&desc, group, 1));
    SAY(cuDevResourceGenerateDesc(&both, group + 1, 2));
    CUgreenCtx g, h;
    SAY(cuGreenCtxCreate(&g, desc, dev, 0));
    SAY(cuGreenCtxCreate(&g, desc, dev, CU_GREEN_CTX_DEFAULT_STREAM));
    SAY(cuGreenCtxCreate(&h, both, dev, CU_GREEN_CTX_DEFAULT_STREAM));
    CUdevResource told{};
    SAY(cuGreenCtxGetDevResource(g, &told, CU_DEV_RESOURCE_TYPE_SM));
    printf("processors %u\n", told.sm.smCount);
    SAY(cuGreenCtxGetDevResource(h, &told, CU_DEV_RESOURCE_TYPE_SM));
    printf("processors %u\n", told.sm.smCount);
    CUcontext of_g, of_h;
    SAY(cuCtxFromGreenCtx(&of_g, g));
    SAY(cuCtxFromGreenCtx(&of_h, h));
    SAY(cuCtxGetDevResource(of_g, &told, CU_DEV_RESOURCE_TYPE_SM));
    printf("processors %u\n", told.sm.smCount);
    CUstream s, t;
    SAY(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    SAY(cuGreenCtxStreamCreate(&t, g, 0, 0));
    SAY(cuGreenCtxStreamCreate(&t, h, CU_STREAM_NON_BLOCKING, 0));
    CUgreenCtx owner = nullptr;
    SAY(cuStreamGetGreenCtx(s, &owner));
    printf("its own %d\n", owner == g);
    SAY(cuStreamGetGreenCtx(nullptr, &owner));
    printf("none %d\n", owner == nullptr);
    CUcontext ctx = nullptr;
    owner = nullptr;
    SAY(cuStreamGetCtx_v2(s, &ctx, &owner));
    printf("context %d green %d\n", ctx != nullptr, owner == g);
    CUdevice where = -1;
    SAY(cuCtxSetCurrent(of_g));
    SAY(cuCtxGetDevice(&where));
    printf("device %d\n", (int)where);
    unsigned flags = 77;
    SAY(cuCtxGetFlags(&flags));
    SAY(cuCtxSetCurrent(primary));

    // What runs there sees only its part of the device.
    CHECK(cudaMemset(seen, 0, 4096));
    count<<<1024, 64, 0, s>>>(seen);
    SAY(cudaGetLastError());
    SAY(cudaStreamSynchronize(s));
    std::vector<int> v(1024);
    CHECK(cudaMemcpy(v.data(), seen, 4096, cudaMemcpyDeviceToHost));
    int used = 0;
    for (int x : v) used += x;
    SAY(cuGreenCtxGetDevResource(g, &told, CU_DEV_RESOURCE_TYPE_SM));
    printf("within its part %d\n", used > 0 && used <= (int)told.sm.smCount);
    CUevent e;
    DRIVER(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    write<<<1, 1, 0, s>>>(p, 5);
    SAY(cuGreenCtxRecordEvent(g, e));
    SAY(cuGreenCtxWaitEvent(h, e));
    write<<<1, 1, 0, t>>>(p, 6);
    SAY(cuStreamSynchronize(t));
    int x = 0;
    CHECK(cudaMemcpy(&x, p, 4, cudaMemcpyDeviceToHost));
    printf("in order: %d\n", x);
    SAY(cuEventQuery(e));
    SAY(cuCtxRecordEvent(of_g, e));
    SAY(cuCtxWaitEvent(of_h, e));
    // With it current, memory is the primary context's.
    SAY(cuCtxPushCurrent(of_h));
    CUdeviceptr q;
    SAY(cuMemAlloc(&q, 4096));
    SAY(cuMemsetD32(q, 9, 1024));
    SAY(cuCtxSynchronize());
    CUstream own;
    SAY(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    owner = nullptr;
    SAY(cuStreamGetGreenCtx(own, &owner));
    printf("made in it %d\n", owner == h);
    SAY(cuStreamDestroy(own));
    CUcontext popped;
    SAY(cuCtxPopCurrent(&popped));
    printf("popped %d\n", popped == of_h);
    SAY(cuMemcpyDtoH(&x, q, 4));
    printf("seen from the primary context: %d\n", x);
    SAY(cuMemFree(q));
    SAY(cuStreamDestroy(s));
    SAY(cuStreamDestroy(t));
    SAY(cuGreenCtxDestroy(g));
    SAY(cuGreenCtxDestroy(h));
    SAY(cuCtxSynchronize());
    write<<<1, 1>>>(p, 8);
    SAY(cudaDeviceSynchronize());
    printf("done\n");
}
