// Graphs that decide on the device: conditional nodes of every kind, inside children and clones,
// graphs that kernels launch, and kernels that others change.
#include "tell.h"
#include <cstring>
#include <vector>

static int *p;
static cudaStream_t s;
static CUcontext ctx;

__global__ void put(int *p, int v) { *p = v; }
__global__ void add(int *p, int v) { *p += v; }
__global__ void below(cudaGraphConditionalHandle h, int *p, int limit) {
    cudaGraphSetConditional(h, *p < limit);
}
__global__ void choose(cudaGraphConditionalHandle h, unsigned v) { cudaGraphSetConditional(h, v); }
__global__ void again(int *p, int limit) {
    *p += 1;
    if (*p < limit) cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
__global__ void fire(cudaGraphExec_t x, int tail) {
    if (tail)
        cudaGraphLaunch(x, cudaStreamGraphTailLaunch);
    else
        cudaGraphLaunch(x, cudaStreamGraphFireAndForget);
}

static CUgraphNode kernel(CUgraph g, std::vector<CUgraphNode> after, const void *symbol,
                          std::vector<void *> list) {
    cudaFunction_t f;
    CHECK(cudaGetFuncBySymbol(&f, symbol));
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = f;
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = list.data();
    CUgraphNode n = nullptr;
    DRIVER(cuGraphAddKernelNode(&n, g, after.data(), after.size(), &k));
    return n;
}
static CUgraphNode arithmetic(CUgraph g, std::vector<CUgraphNode> after, const void *symbol,
                              int v) {
    return kernel(g, after, symbol, {&p, &v});
}

static CUgraphNode conditional(CUgraph g, std::vector<CUgraphNode> after,
                               CUgraphConditionalHandle h, CUgraphConditionalNodeType type,
                               unsigned size, CUgraph *bodies) {
    CUgraphNodeParams c{};
    c.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    c.conditional.handle = h;
    c.conditional.type = type;
    c.conditional.size = size;
    c.conditional.ctx = ctx;
    CUgraphNode n = nullptr;
#if CUDA_VERSION >= 13000
    CUresult rc = cuGraphAddNode(&n, g, after.data(), nullptr, after.size(), &c);
#else
    CUresult rc = cuGraphAddNode(&n, g, after.data(), after.size(), &c);
#endif
    printf("conditional node %d of %u: %d\n", (int)type, size, (int)rc);
    for (unsigned i = 0; !rc && i < size; i++) bodies[i] = c.conditional.phGraph_out[i];
    return n;
}

static int value() {
    int v = -1;
    CHECK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
    return v;
}
static void run(const char *what, CUgraph g) {
    CUgraphExec x;
    if (SAY(cuGraphInstantiate(&x, g, 0))) return;
    for (int i = 0; i < 2; i++) {
        SAY(cuGraphLaunch(x, s));
        SAY(cuStreamSynchronize(s));
        printf("%s: %d\n", what, value());
    }
    SAY(cuGraphExecDestroy(x));
}
static size_t nodes(CUgraph g) {
    size_t n = 0;
    SAY(cuGraphGetNodes(g, nullptr, &n));
    return n;
}

static void loops() {
    puts("-- while");
    CUgraph g, body, c;
    CUgraphConditionalHandle h;
    DRIVER(cuGraphCreate(&g, 0));
    SAY(cuGraphConditionalHandleCreate(&h, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNode zero = arithmetic(g, {}, (void *)put, 0);
    CUgraphNode n = conditional(g, {zero}, h, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
    int limit = 30;
    CUgraphNode step = arithmetic(body, {}, (void *)add, 7);
    kernel(body, {step}, (void *)below, {&h, &p, &limit});
    arithmetic(g, {n}, (void *)add, 1000);
    CUgraphNodeType type;
    SAY(cuGraphNodeGetType(n, &type));
    printf("type %d nodes %zu in the body %zu\n", (int)type, nodes(g), nodes(body));
    run("while", g);
    // A clone, and a child, which the driver may allow or not.
    if (!SAY(cuGraphClone(&c, g))) {
        printf("nodes of the clone %zu\n", nodes(c));
        CUgraphNode found;
        SAY(cuGraphNodeFindInClone(&found, n, c));
        run("clone", c);
        SAY(cuGraphDestroy(c));
    }
    CUgraph outer;
    DRIVER(cuGraphCreate(&outer, 0));
    CUgraphNode child;
    if (!SAY(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, g))) {
        arithmetic(outer, {child}, (void *)add, 5);
        run("child", outer);
    }
    SAY(cuGraphDestroy(outer));
    CUgraphExec x;
    SAY(cuGraphInstantiate(&x, g, 0));
    CUgraphExecUpdateResultInfo info{};
    SAY(cuGraphExecUpdate(x, g, &info));
    printf("result %d\n", (int)info.result);
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    printf("updated: %d\n", value());
    SAY(cuGraphExecDestroy(x));
    SAY(cuGraphDestroy(g));
}

static void branches() {
    puts("-- if, else, switch");
    for (unsigned choice = 0; choice < 2; choice++) {
        CUgraph g, body[2];
        CUgraphConditionalHandle h;
        DRIVER(cuGraphCreate(&g, 0));
        SAY(cuGraphConditionalHandleCreate(&h, g, ctx, 0, 0));
        CUgraphNode zero = arithmetic(g, {}, (void *)put, 1);
        CUgraphNode set = kernel(g, {zero}, (void *)choose, {&h, &choice});
        CUgraphNode n = conditional(g, {set}, h, CU_GRAPH_COND_TYPE_IF, 2, body);
        if (n) {
            arithmetic(body[0], {}, (void *)add, 10);
            arithmetic(body[1], {}, (void *)add, 20);
            run(choice ? "if" : "else", g);
        }
        SAY(cuGraphDestroy(g));
    }
    for (unsigned choice = 0; choice < 4; choice++) {
        CUgraph g, body[3];
        CUgraphConditionalHandle h;
        DRIVER(cuGraphCreate(&g, 0));
        SAY(cuGraphConditionalHandleCreate(&h, g, ctx, choice, CU_GRAPH_COND_ASSIGN_DEFAULT));
        CUgraphNode zero = arithmetic(g, {}, (void *)put, 1);
        CUgraphNode n = conditional(g, {zero}, h, CU_GRAPH_COND_TYPE_SWITCH, 3, body);
        if (n) {
            for (int i = 0; i < 3; i++) arithmetic(body[i], {}, (void *)add, 100 * (i + 1));
            run("switch", g);
        }
        SAY(cuGraphDestroy(g));
    }
    // Captured into a body, with the program's memory copied in it, and one inside another.
    CUgraph g, body, inner, got;
    CUgraphConditionalHandle h, k;
    DRIVER(cuGraphCreate(&g, 0));
    SAY(cuGraphConditionalHandleCreate(&h, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNode n = conditional(g, {}, h, CU_GRAPH_COND_TYPE_IF, 1, &body);
    int *host;
    CHECK(cudaMallocHost((void **)&host, 8));
    SAY(cuStreamBeginCaptureToGraph(s, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    host[0] = 41;
    host[1] = 0;
    SAY(cudaMemcpyAsync(p, host, 4, cudaMemcpyHostToDevice, s));
    add<<<1, 1, 0, s>>>(p, 1);
    SAY(cuStreamEndCapture(s, &got));
    printf("into the body %d\n", got == body);
    SAY(cuGraphConditionalHandleCreate(&k, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    size_t count = 0;
    CUgraphNode last[8];
    count = 8;
    SAY(cuGraphGetNodes(body, last, &count));
    CUgraphNode m = conditional(body, {last[count - 1]}, k, CU_GRAPH_COND_TYPE_IF, 1, &inner);
    if (n && m) {
        arithmetic(inner, {}, (void *)add, 500);
        run("captured and nested", g);
    }
    SAY(cuGraphDestroy(g));
    CHECK(cudaFreeHost(host));
    // Without an owner, of the wrong kind.
    DRIVER(cuGraphCreate(&g, 0));
    CUgraph stranger;
    DRIVER(cuGraphCreate(&stranger, 0));
    SAY(cuGraphConditionalHandleCreate(&h, g, ctx, 1, 0));
    conditional(stranger, {}, h, CU_GRAPH_COND_TYPE_IF, 1, &body);
    conditional(g, {}, h, CU_GRAPH_COND_TYPE_WHILE, 2, &body);
    conditional(g, {}, h, (CUgraphConditionalNodeType)9, 1, &body);
    SAY(cuGraphDestroy(g));
    SAY(cuGraphDestroy(stranger));
}

static void launched() {
    puts("-- launched by the device");
    CUgraph g, h;
    CUgraphExec x, y;
    DRIVER(cuGraphCreate(&g, 0));
    int limit = 9;
    kernel(g, {}, (void *)again, {&p, &limit});
    CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    how.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    CUresult rc = cuGraphInstantiateWithParams(&x, g, &how);
    printf("instantiate: %d result %d\n", (int)rc, (int)how.result_out);
    cuuint64_t flags = 0;
    SAY(cuGraphExecGetFlags(x, &flags));
    printf("flags %llu\n", (unsigned long long)flags);
    CHECK(cudaMemset(p, 0, 4));
    SAY(cuGraphUpload(x, s));
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    printf("itself: %d\n", value());
    // One graph launches another.
    DRIVER(cuGraphCreate(&h, 0));
    for (int tail = 0; tail < 2; tail++) {
        CUgraph starter;
        DRIVER(cuGraphCreate(&starter, 0));
        CUgraphNode zero = arithmetic(starter, {}, (void *)put, 3);
        kernel(starter, {zero}, (void *)fire, {&x, &tail});
        SAY(cuGraphInstantiate(&y, starter, 0));
        SAY(cuGraphLaunch(y, s));
        SAY(cuStreamSynchronize(s));
        printf("%s: %d\n", tail ? "tail" : "fire and forget", value());
        SAY(cuGraphExecDestroy(y));
        SAY(cuGraphDestroy(starter));
    }
    // What may not be in one.
    CUgraphNode n;
    CUDA_MEM_ALLOC_NODE_PARAMS want{};
    want.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    want.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    want.bytesize = 4096;
    SAY(cuGraphAddMemAllocNode(&n, h, nullptr, 0, &want));
    how = {};
    how.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    rc = cuGraphInstantiateWithParams(&y, h, &how);
    printf("with an allocation: %d result %d node %d\n", (int)rc, (int)how.result_out,
           how.hErrNode_out == n);
    SAY(cuGraphDestroy(h));
    SAY(cuGraphExecDestroy(x));
    SAY(cuGraphDestroy(g));
}

__global__ void change(cudaGraphDeviceNode_t node, int v) {
    cudaGraphKernelNodeSetParam(node, sizeof(int *), v);
}

// Kernels in a graph that another kernel changes: made so by a launch, and as a node.
static void changed() {
    puts("-- changed by the device");
    CUgraph g;
    CUgraphExec x;
    int v = 5;
    void *list[] = {&p, &v};
    cudaFunction_t f;
    CHECK(cudaGetFuncBySymbol(&f, (void *)put));
    CUlaunchAttribute how{};
    how.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
    how.value.deviceUpdatableKernelNode.deviceUpdatable = 1;
    CUlaunchConfig c{};
    c.gridDimX = c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
    c.hStream = s;
    c.attrs = &how;
    c.numAttrs = 1;
    SAY(cuLaunchKernelEx(&c, f, list, nullptr));
    DRIVER(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuLaunchKernelEx(&c, f, list, nullptr));
    DRIVER(cuStreamEndCapture(s, &g));
    cudaGraphDeviceNode_t node = how.value.deviceUpdatableKernelNode.devNode;
    printf("a name: %d\n", node != nullptr);
    for (int as_node = 0; as_node < 2; as_node++) {
        if (as_node) {
            DRIVER(cuGraphCreate(&g, 0));
            CUgraphNode n = arithmetic(g, {}, (void *)put, 5);
            CUkernelNodeAttrValue set{}, told{};
            set.deviceUpdatableKernelNode.deviceUpdatable = 1;
            SAY(cuGraphKernelNodeSetAttribute(
                n, CU_KERNEL_NODE_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &set));
            SAY(cuGraphKernelNodeGetAttribute(
                n, CU_KERNEL_NODE_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &told));
            node = set.deviceUpdatableKernelNode.devNode;
            printf("a name: %d, the same: %d\n", node != nullptr,
                   node == told.deviceUpdatableKernelNode.devNode);
        }
        if (SAY(cuGraphInstantiate(&x, g, 0))) return;
        SAY(cuGraphUpload(x, s));
        SAY(cuGraphLaunch(x, s));
        SAY(cuStreamSynchronize(s));
        printf("first: %d\n", value());
        change<<<1, 1, 0, s>>>(node, 6 + as_node);
        SAY(cuStreamSynchronize(s));
        SAY(cuGraphLaunch(x, s));
        SAY(cuStreamSynchronize(s));
        printf("changed: %d\n", value());
        SAY(cuGraphExecDestroy(x));
        SAY(cuGraphDestroy(g));
    }
}

int main() {
    CHECK(cudaMalloc((void **)&p, 4096));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    DRIVER(cuCtxGetCurrent(&ctx));
    loops();
    branches();
    launched();
    changed();
    SAY(cudaDeviceSynchronize());
    printf("done\n");
}
