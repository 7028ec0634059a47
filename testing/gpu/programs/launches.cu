// Launches with attributes, limits of launches, occupancy, and launch mistakes.
#include "tell.h"
#include <cooperative_groups.h>
#include <cstring>
#include <vector>
namespace cg = cooperative_groups;

__global__ void put(int *p, int v) { *p = v; }
__global__ void add(int *p, int v) { *p += v; }
__global__ void __launch_bounds__(128) narrow(int *p) { p[threadIdx.x] = blockDim.x; }
extern __shared__ int scratch[];
__global__ void dynamic(int *p, int n) {
    scratch[n - 1] = n;
    __syncthreads();
    *p = scratch[n - 1];
}
__global__ void early(int *p) {
    *p = 1;
    cudaTriggerProgrammaticLaunchCompletion();
    long long end = clock64() + 200000;
    while (clock64() < end) {}
    p[1] = 5;
}
__global__ void late(int *p) {
    cudaGridDependencySynchronize();
    p[2] = p[1] + 1;
}
__global__ void clusters(int *p) {
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x == 0) atomicAdd(p, (int)c.num_blocks());
}
__global__ void __cluster_dims__(2, 1, 1) pairs(int *p) {
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x == 0) atomicAdd(p, (int)c.block_rank());
}

static int *p;
static cudaStream_t s;

static CUfunction of(const void *symbol) {
    cudaFunction_t f;
    CHECK(cudaGetFuncBySymbol(&f, symbol));
    return f;
}
static int value(int i = 0) {
    int v = -1;
    cudaMemcpy(&v, p + i, 4, cudaMemcpyDeviceToHost);
    return v;
}

/// Launches with one attribute, and says what became of it.
static void with(const char *what, const void *symbol, CUlaunchAttribute a, int blocks,
                 std::vector<void *> list) {
    CUlaunchConfig c{};
    c.gridDimX = blocks;
    c.gridDimY = c.gridDimZ = 1;
    c.blockDimX = 32;
    c.blockDimY = c.blockDimZ = 1;
    c.hStream = s;
    c.attrs = &a;
    c.numAttrs = 1;
    CHECK(cudaMemset(p, 0, 64));
    CUresult rc = cuLaunchKernelEx(&c, of(symbol), list.data(), nullptr);
    CUresult rs = cuStreamSynchronize(s);
    printf("%s: %d %d, %d\n", what, (int)rc, (int)rs, value());
}

static void attributes() {
    puts("-- attributes");
    int v = 5;
    std::vector<void *> list = {&p, &v};
    auto a = [](CUlaunchAttributeID id) {
        CUlaunchAttribute a;
        memset(&a, 0, sizeof a);
        a.id = id;
        return a;
    };
    CUlaunchAttribute x = a(CU_LAUNCH_ATTRIBUTE_IGNORE);
    with("ignored", (void *)put, x, 1, list);
    x = a(CU_LAUNCH_ATTRIBUTE_PRIORITY);
    x.value.priority = -2;
    with("priority", (void *)put, x, 1, list);
    x.value.priority = -200;
    with("priority beyond", (void *)put, x, 1, list);
    x = a(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    x.value.cooperative = 1;
    with("cooperative", (void *)put, x, 4, list);
    with("cooperative, too many", (void *)put, x, 100000, list);
    x = a(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    x.value.clusterDim = {4, 1, 1};
    with("cluster of 4", (void *)clusters, x, 8, {&p});
    with("cluster of 4 in 6", (void *)clusters, x, 6, {&p});
    x.value.clusterDim = {16, 1, 1};
    with("cluster of 16", (void *)clusters, x, 16, {&p});
    CUfunction f = of((void *)clusters);
    SAY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    with("cluster of 16, allowed", (void *)clusters, x, 16, {&p});
    x.value.clusterDim = {0, 1, 1};
    with("cluster of 0", (void *)clusters, x, 16, {&p});
    x.value.clusterDim = {4, 1, 1};
    with("other clusters than its own", (void *)pairs, x, 8, {&p});
    x.value.clusterDim = {2, 1, 1};
    with("its own clusters", (void *)pairs, x, 8, {&p});
    x = a(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    x.value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
    with("policy", (void *)put, x, 1, list);
    x = a(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
    x.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    with("domain", (void *)put, x, 1, list);
    x = a(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
    x.value.accessPolicyWindow.base_ptr = p;
    x.value.accessPolicyWindow.num_bytes = 4096;
    x.value.accessPolicyWindow.hitRatio = 1;
    x.value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    with("window", (void *)put, x, 1, list);
    x.value.accessPolicyWindow.hitRatio = 7;
    with("window, wrong", (void *)put, x, 1, list);
    x = a(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    x.value.sharedMemCarveout = 50;
    with("carveout", (void *)put, x, 1, list);
    CUevent e;
    DRIVER(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    x = a(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
    x.value.programmaticEvent.event = e;
    with("programmatic event", (void *)put, x, 1, list);
    SAY(cuEventSynchronize(e));
    x = a(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
    x.value.launchCompletionEvent.event = e;
    with("launch completion event", (void *)put, x, 1, list);
    SAY(cuEventSynchronize(e));
    CUevent timed;
    DRIVER(cuEventCreate(&timed, 0));
    x.value.launchCompletionEvent.event = timed;
    with("with a timed event", (void *)put, x, 1, list);
    x = a((CUlaunchAttributeID)77);
    with("unknown", (void *)put, x, 1, list);
    // One kernel begins before the other has ended.
    CHECK(cudaMemset(p, 0, 64));
    early<<<1, 1, 0, s>>>(p);
    CUlaunchConfig c{};
    c.gridDimX = c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
    c.hStream = s;
    x = a(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    x.value.programmaticStreamSerializationAllowed = 1;
    c.attrs = &x;
    c.numAttrs = 1;
    void *one[] = {&p};
    SAY(cuLaunchKernelEx(&c, of((void *)late), one, nullptr));
    SAY(cuStreamSynchronize(s));
    printf("dependent: %d %d %d\n", value(0), value(1), value(2));
    // Captured: an edge of its own kind.
    CUgraph g;
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    early<<<1, 1, 0, s>>>(p);
    SAY(cuLaunchKernelEx(&c, of((void *)late), one, nullptr));
    SAY(cuStreamEndCapture(s, &g));
    CUgraphNode from, to;
    CUgraphEdgeData data{};
    size_t n = 1;
    SAY(cuGraphGetEdges_v2(g, &from, &to, &data, &n));
    printf("%zu edges: port %d type %d\n", n, data.from_port, data.type);
    CUgraphExec exec;
    SAY(cuGraphInstantiate(&exec, g, 0));
    CHECK(cudaMemset(p, 0, 64));
    SAY(cuGraphLaunch(exec, s));
    SAY(cuStreamSynchronize(s));
    printf("dependent in a graph: %d %d %d\n", value(0), value(1), value(2));
    DRIVER(cuGraphExecDestroy(exec));
    DRIVER(cuGraphDestroy(g));
    // A stream's own attributes.
    CUlaunchAttributeValue w, got;
    memset(&w, 0, sizeof w);
    w.priority = -1;
    SAY(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &w));
    memset(&got, 0, sizeof got);
    SAY(cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got));
    printf("priority %d\n", got.priority);
    w.syncPolicy = CU_SYNC_POLICY_YIELD;
    SAY(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &w));
    SAY(cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    printf("policy %d\n", (int)got.syncPolicy);
    memset(&w, 0, sizeof w);
    SAY(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &w));
    SAY(cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &got));
    w.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    SAY(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &w));
    cudaStream_t t;
    CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    SAY(cuStreamCopyAttributes(t, s));
    SAY(cuStreamGetAttribute(t, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &got));
    printf("copied domain %d\n", (int)got.memSyncDomain);
    SAY(cuCtxSynchronize());
}

static void limits() {
    puts("-- shapes that are wrong");
    int v = 1;
    void *list[] = {&p, &v};
    CUfunction f = of((void *)put);
    struct {
        const char *name;
        unsigned g[3], b[3], shared;
    } shapes[] = {
        {"no blocks", {0, 1, 1}, {1, 1, 1}, 0},
        {"no threads", {1, 1, 1}, {1, 0, 1}, 0},
        {"too many threads", {1, 1, 1}, {1025, 1, 1}, 0},
        {"too many threads in z", {1, 1, 1}, {1, 1, 65}, 0},
        {"too many in all", {1, 1, 1}, {64, 32, 1}, 0},
        {"too many blocks in y", {1, 65536, 1}, {1, 1, 1}, 0},
        {"too many blocks in x", {2147483648u, 1, 1}, {1, 1, 1}, 0},
        {"too much shared memory", {1, 1, 1}, {1, 1, 1}, 49153},
        {"all that is allowed", {1, 1, 1}, {1024, 1, 1}, 49152},
    };
    for (auto &x : shapes) {
        CUresult rc = cuLaunchKernel(f, x.g[0], x.g[1], x.g[2], x.b[0], x.b[1], x.b[2], x.shared, s,
                                     list, nullptr);
        CUresult rs = cuStreamSynchronize(s);
        printf("%s: %d %d\n", x.name, (int)rc, (int)rs);
    }
    narrow<<<1, 129, 0, s>>>(p);
    SAY(cudaGetLastError());
    narrow<<<1, 128, 0, s>>>(p);
    SAY(cudaGetLastError());
    int n = 16384;
    dynamic<<<1, 1, 65536, s>>>(p, n);
    SAY(cudaGetLastError());
    SAY(cudaFuncSetAttribute((void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    dynamic<<<1, 1, 65536, s>>>(p, n);
    SAY(cudaGetLastError());
    SAY(cudaStreamSynchronize(s));
    printf("dynamic %d\n", value());
    SAY(cudaFuncSetAttribute((void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             1 << 20));
    // Parameters as a buffer.
    struct {
        int *p;
        int v;
    } packed = {p, 61};
    size_t size = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    SAY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, extra));
    SAY(cuStreamSynchronize(s));
    printf("buffer %d\n", value());
    SAY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, list, extra));
    size = 8;
    SAY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, extra));
    SAY(cuStreamSynchronize(s));
}

static size_t CUDA_CB shared_for(int threads) { return threads * 16; }

static void occupancy() {
    puts("-- occupancy");
    CUfunction f = of((void *)put), n = of((void *)narrow), d = of((void *)dynamic),
               c = of((void *)clusters);
    int v, grid, block;
    for (int threads : {32, 128, 512, 1024, 2048}) {
        CUresult rc = cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, threads, 0);
        printf("%d threads: %d", threads, (int)rc);
        if (!rc) printf(" %d", v);
        rc = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&v, n, threads, 1024, 1);
        printf(", narrow: %d", (int)rc);
        if (!rc) printf(" %d", v);
        puts("");
    }
    SAY(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, nullptr, 0, 0));
    printf("%d threads a block, a grid %d\n", block, grid > 0);
    SAY(cuOccupancyMaxPotentialBlockSize(&grid, &block, d, shared_for, 0, 256));
    printf("%d threads a block, a grid %d\n", block, grid > 0);
    SAY(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, n, nullptr, 2048, 0, 0));
    printf("%d threads a block\n", block);
    size_t room = 0;
    SAY(cuOccupancyAvailableDynamicSMemPerBlock(&room, d, 2, 256));
    printf("%zu bytes\n", room);
    CUlaunchConfig conf{};
    conf.gridDimX = 64;
    conf.gridDimY = conf.gridDimZ = 1;
    conf.blockDimX = 128;
    conf.blockDimY = conf.blockDimZ = 1;
    SAY(cuOccupancyMaxPotentialClusterSize(&v, c, &conf));
    printf("clusters of %d\n", v);
    CUlaunchAttribute a;
    memset(&a, 0, sizeof a);
    a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a.value.clusterDim = {2, 1, 1};
    conf.attrs = &a;
    conf.numAttrs = 1;
    SAY(cuOccupancyMaxActiveClusters(&v, c, &conf));
    printf("%d clusters\n", v > 0);
    SAY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, nullptr, 32, 0));
    SAY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 0, 0));
    cudaFuncAttributes fa;
    SAY(cudaFuncGetAttributes(&fa, (void *)narrow));
    printf("%d threads at most, %zu shared, %zu local\n", fa.maxThreadsPerBlock, fa.sharedSizeBytes,
           fa.localSizeBytes);
    for (auto cache : {CU_FUNC_CACHE_PREFER_NONE, CU_FUNC_CACHE_PREFER_L1, (CUfunc_cache)9})
        printf("cache %d: %d\n", (int)cache, (int)cuFuncSetCacheConfig(f, cache));
    CUfunc_cache told;
    SAY(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    SAY(cuCtxGetCacheConfig(&told));
    printf("cache %d\n", (int)told);
    int least, greatest;
    SAY(cuCtxGetStreamPriorityRange(&least, &greatest));
    printf("priorities %d to %d\n", least, greatest);
    SAY(cuCtxResetPersistingL2Cache());
}

int main() {
    CHECK(cudaMalloc((void **)&p, 4096));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    attributes();
    limits();
    occupancy();
    SAY(cuCtxSynchronize());
    printf("done\n");
}
