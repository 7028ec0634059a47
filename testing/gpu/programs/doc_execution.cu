// What CUDA's documentation says of how kernels run: attributes of functions and launches,
// occupancy, cooperative groups, functions of the program's in streams, and nodes' attributes. See
// doc.h.
#include "doc.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern __shared__ int dynamic_[];
__global__ void uses_shared(int *out, int n) {
    dynamic_[n - 1] = 41;
    *out = dynamic_[n - 1] + 1;
}
__global__ void all_blocks(int *sum, int *seen) {
    cg::grid_group grid = cg::this_grid();
    if (threadIdx.x == 0) atomicAdd(sum, 1);
    grid.sync();
    if (threadIdx.x == 0) seen[blockIdx.x] = *(volatile int *)sum;
}
__global__ void is_cooperative(int *out) { *out = cg::this_grid().is_valid(); }
__global__ void tiles(int *out) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int sum = (int)threadIdx.x;
    for (int i = tile.size() / 2; i > 0; i /= 2) sum += tile.shfl_down(sum, i);
    if (tile.thread_rank() == 0) out[threadIdx.x / 8] = sum;
}
template <typename... A> static cudaError_t launch(cudaLaunchConfig_t &c, void (*f)(A...), A... a) {
    return cudaLaunchKernelEx(&c, f, a...);
}
struct FourBytesEach {
    __host__ __device__ size_t operator()(int n) const { return (size_t)n * 4; }
};
static int attribute(cudaDeviceAttr a) {
    int v = -1;
    OK(cudaDeviceGetAttribute(&v, a, 0));
    return v;
}

DOC("more shared memory than a block has by itself must be asked for, and then is there") {
    Memory m(4);
    int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    int usual = attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    HOLDS(most >= usual);
    OK(cudaFuncSetAttribute(uses_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    uses_shared<<<1, 1, most>>>(m.ints(), most / 4);
    OK(cudaGetLastError());
    HOLDS(value(m.p) == 42);
    cudaFuncAttributes a;
    OK(cudaFuncGetAttributes(&a, uses_shared));
    HOLDS(a.maxDynamicSharedSizeBytes == most);
    REFUSED(cudaFuncSetAttribute(uses_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 most + 1));
    cudaGetLastError();
    REFUSED(cudaFuncSetAttribute(uses_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, -1));
    cudaGetLastError();
    OK(cudaFuncSetAttribute(uses_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, usual));
}
DOC("how much shared memory is preferred is a share in percent, or the default") {
    for (int v : {0, 50, 100, (int)cudaSharedmemCarveoutDefault}) {
        OK(cudaFuncSetAttribute(uses_shared, cudaFuncAttributePreferredSharedMemoryCarveout, v));
        cudaFuncAttributes a;
        OK(cudaFuncGetAttributes(&a, uses_shared));
        HOLDS(a.preferredShmemCarveout == v);
    }
    REFUSED(cudaFuncSetAttribute(uses_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 101));
    cudaGetLastError();
    REFUSED(cudaFuncSetAttribute(uses_shared, cudaFuncAttributePreferredSharedMemoryCarveout, -2));
    cudaGetLastError();
    REFUSED(cudaFuncSetAttribute(uses_shared, (cudaFuncAttribute)99, 0));
}
DOC("fewer blocks are resident the more shared memory each has") {
    int few = 0, many = 0, none = 0;
    int usual = attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&many, uses_shared, 64, 0));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, uses_shared, 64, usual));
    HOLDS(few >= 1 && few < many);
    TOLD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&none, uses_shared, 64, 100 << 20));
    cudaGetLastError();
    REFUSED(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&none, uses_shared, 0, 0));
    cudaGetLastError();
    REFUSED(cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, uses_shared, 64, 0));
}
DOC("occupancy with flags is the same, and an unknown flag is refused") {
    int a = 0, b = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a, put, 128, 0));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&b, put, 128, 0,
                                                              cudaOccupancyDefault));
    HOLDS(a == b && a >= 1);
    REFUSED(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&b, put, 128, 0, 77));
}
DOC("the best block size keeps a limit, and asks for the shared memory of each size") {
    int grid = 0, block = 0;
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, put, 0, 128));
    HOLDS(block >= 1 && block <= 128 && grid >= 1);
    OK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, uses_shared,
                                                      FourBytesEach()));
    HOLDS(block >= 32 && block <= 1024);
    size_t left = 0;
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&left, put, 1, 128));
    HOLDS(left > 0);
}
DOC("the blocks of a cooperative launch wait for each other") {
    const int n = 16;
    Memory sum(4), seen(4 * n);
    OK(cudaMemset(sum.p, 0, 4));
    int *a = sum.ints(), *b = seen.ints();
    void *args[] = {&a, &b};
    OK(cudaLaunchCooperativeKernel((void *)all_blocks, n, 32, args, 0, nullptr));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) HOLDS(value(b + i) == n);
}
DOC("a grid knows whether it was launched as cooperative") {
    Memory m(4);
    int *out = m.ints();
    void *args[] = {&out};
    is_cooperative<<<1, 1>>>(out);
    HOLDS(value(m.p) == 0);
    OK(cudaLaunchCooperativeKernel((void *)is_cooperative, 1, 1, args, 0, nullptr));
    HOLDS(value(m.p) == 1);
}
DOC("a cooperative launch by attribute is one, too, and is refused when it is too large") {
    Memory sum(4), seen(64);
    OK(cudaMemset(sum.p, 0, 4));
    cudaLaunchAttribute a[1] = {};
    a[0].id = cudaLaunchAttributeCooperative;
    a[0].val.cooperative = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = 4, c.blockDim = 32, c.attrs = a, c.numAttrs = 1;
    OK(launch(c, all_blocks, sum.ints(), seen.ints()));
    OK(cudaDeviceSynchronize());
    HOLDS(value(seen.p) == 4);
    c.gridDim = 1 << 20;
    IS(launch(c, all_blocks, sum.ints(), seen.ints()), cudaErrorCooperativeLaunchTooLarge);
}
DOC("threads of a tile hand values on") {
    Memory m(16);
    tiles<<<1, 32>>>(m.ints());
    for (int i = 0; i < 4; i++) HOLDS(value(m.ints() + i) == 8 * (8 * i) + 28);
}
DOC("a launch's priority is an attribute, one that does not exist is refused") {
    Memory m(4);
    cudaLaunchAttribute a[1] = {};
    a[0].id = cudaLaunchAttributePriority;
    cudaLaunchConfig_t c = {};
    c.gridDim = 1, c.blockDim = 1, c.attrs = a, c.numAttrs = 1;
    OK(launch(c, put, m.ints(), 5));
    HOLDS(value(m.p) == 5);
    a[0].id = (cudaLaunchAttributeID)250;
    TOLD(launch(c, put, m.ints(), 6));
    cudaGetLastError();
    c.attrs = nullptr;
    REFUSED(launch(c, put, m.ints(), 7));
}
DOC("a function of the program's in a stream runs in its order, once, and may use what it finds") {
    Stream s;
    static std::vector<int> order;
    order.clear();
    for (long i = 0; i < 5; i++) {
        OK(cudaLaunchHostFunc(s, [](void *i) { order.push_back((int)(long)i); }, (void *)i));
    }
    OK(cudaStreamSynchronize(s));
    HOLDS((order == std::vector<int>{0, 1, 2, 3, 4}));
}
DOC("a callback hears that all went well, and of its stream") {
    Stream s;
    static cudaError_t said;
    static cudaStream_t in;
    said = cudaErrorUnknown, in = nullptr;
    OK(cudaStreamAddCallback(
        s, [](cudaStream_t t, cudaError_t rc, void *) { said = rc, in = t; }, nullptr, 0));
    OK(cudaStreamSynchronize(s));
    HOLDS(said == cudaSuccess && in == s.s);
    REFUSED(cudaStreamAddCallback(s, nullptr, nullptr, 0));
    cudaGetLastError();
    REFUSED(cudaStreamAddCallback(
        s, [](cudaStream_t, cudaError_t, void *) {}, nullptr, 1));
}
DOC("a function of the program's that calls CUDA is refused there") {
    Stream s;
    static cudaError_t said;
    said = cudaSuccess;
    OK(cudaLaunchHostFunc(
        s,
        [](void *) {
            void *p;
            said = cudaMalloc(&p, 4);
        },
        nullptr));
    OK(cudaStreamSynchronize(s));
    told_(cudaGetErrorName(said));
    HOLDS(said != cudaSuccess);
}
APART("callbacks behind an error run, and hear of it; functions do not run") {
    cudaFree(nullptr);
    Stream s;
    static std::atomic<int> functions, callbacks, error;
    put<<<1, 1, 0, s>>>((int *)8, 1);
    cudaStreamAddCallback(
        s, [](cudaStream_t, cudaError_t rc, void *) { error = rc, ++callbacks; }, nullptr, 0);
    cudaLaunchHostFunc(s, [](void *) { ++functions; }, nullptr);
    IS(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    usleep(100000);
    told_(("callbacks " + std::to_string(callbacks) + " functions " + std::to_string(functions))
              .c_str());
}
static cudaGraphNode_t kernel_node(cudaGraph_t g, int *p, int v) {
    cudaGraphNode_t node = nullptr;
    void *args[] = {&p, &v};
    cudaKernelNodeParams k = {(void *)put, 1, 1, 0, args, nullptr};
    OK(cudaGraphAddKernelNode(&node, g, nullptr, 0, &k));
    return node;
}
DOC("attributes of a kernel node are what was set, and stay when its parameters change") {
    Memory m(4);
    cudaGraph_t g;
    OK(cudaGraphCreate(&g, 0));
    auto node = kernel_node(g, m.ints(), 1);
    cudaKernelNodeAttrValue v = {}, got = {};
    v.priority = 0;
    OK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &v));
    int least = 0, greatest = 0;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    v.priority = greatest;
    OK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &v));
    OK(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &got));
    HOLDS(got.priority == greatest);
    int *p = m.ints(), two = 2;
    void *args[] = {&p, &two};
    cudaKernelNodeParams k = {(void *)put, 1, 1, 0, args, nullptr};
    OK(cudaGraphKernelNodeSetParams(node, &k));
    got = {};
    OK(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &got));
    HOLDS(got.priority == greatest);
    OK(cudaGraphDestroy(g));
}
DOC("attributes of a kernel node are copied to another one, and a clone of its graph has them") {
    Memory m(4);
    cudaGraph_t g, clone;
    OK(cudaGraphCreate(&g, 0));
    auto a = kernel_node(g, m.ints(), 1), b = kernel_node(g, m.ints(), 2);
    int least = 0, greatest = 0;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaKernelNodeAttrValue v = {}, got = {};
    v.priority = greatest;
    OK(cudaGraphKernelNodeSetAttribute(a, cudaLaunchAttributePriority, &v));
    OK(cudaGraphKernelNodeCopyAttributes(b, a));
    OK(cudaGraphKernelNodeGetAttribute(b, cudaLaunchAttributePriority, &got));
    HOLDS(got.priority == greatest);
    OK(cudaGraphClone(&clone, g));
    cudaGraphNode_t there = nullptr;
    OK(cudaGraphNodeFindInClone(&there, a, clone));
    got = {};
    OK(cudaGraphKernelNodeGetAttribute(there, cudaLaunchAttributePriority, &got));
    HOLDS(got.priority == greatest);
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(g));
}
DOC("a captured launch is a node with the launch's attributes") {
    Stream s;
    Memory m(4);
    cudaGraph_t g;
    cudaLaunchAttribute a[1] = {};
    int least = 0, greatest = 0;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    a[0].id = cudaLaunchAttributePriority;
    a[0].val.priority = greatest;
    cudaLaunchConfig_t c = {};
    c.gridDim = 1, c.blockDim = 1, c.attrs = a, c.numAttrs = 1, c.stream = s;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(launch(c, put, m.ints(), 3));
    OK(cudaStreamEndCapture(s, &g));
    cudaGraphNode_t node = nullptr;
    size_t n = 1;
    OK(cudaGraphGetNodes(g, &node, &n));
    cudaKernelNodeAttrValue got = {};
    OK(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &got));
    HOLDS(n == 1 && got.priority == greatest);
    OK(cudaGraphDestroy(g));
}
DOC("an attribute that kernel nodes do not have is refused") {
    Memory m(4);
    cudaGraph_t g;
    OK(cudaGraphCreate(&g, 0));
    auto node = kernel_node(g, m.ints(), 1);
    cudaKernelNodeAttrValue v = {};
    REFUSED(cudaGraphKernelNodeGetAttribute(node, (cudaLaunchAttributeID)250, &v));
    OK(cudaGraphDestroy(g));
}
