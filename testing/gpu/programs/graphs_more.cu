// What graphs can do beside running: attributes and parameters of nodes, edges with data, updates
// and why they fail, memory of their own, objects that they keep alive, captures that are steered.
#include "tell.h"
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

__global__ void put(int *p, int v) { *p = v; }
__global__ void add(int *p, int v) { atomicAdd(p, v); }
__global__ void times(int *p, int v) { *p *= v; }

static int *p;
static cudaStream_t s;
static CUcontext ctx;

static CUfunction function(const void *symbol) {
    cudaFunction_t f;
    CHECK(cudaGetFuncBySymbol(&f, symbol));
    return f;
}

/// A kernel node that does something to `*p`.
struct Node {
    CUdeviceptr at;
    int v;
    void *list[2] = {&at, &v};
    CUDA_KERNEL_NODE_PARAMS params{};
    Node(const void *symbol, int *where, int v) : at((CUdeviceptr)where), v(v) {
        params.func = function(symbol);
        params.gridDimX = params.gridDimY = params.gridDimZ = 1;
        params.blockDimX = params.blockDimY = params.blockDimZ = 1;
        params.kernelParams = list;
    }
};

static CUgraphNode kernel(CUgraph g, std::vector<CUgraphNode> after, const void *symbol, int v) {
    Node k(symbol, p, v);
    CUgraphNode n = nullptr;
    DRIVER(cuGraphAddKernelNode(&n, g, after.data(), after.size(), &k.params));
    return n;
}

static int value() {
    int v = -1;
    CHECK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
    return v;
}

static void run(const char *what, CUgraphExec x) {
    CHECK(cudaMemset(p, 0, 4));
    CHECK(cudaDeviceSynchronize());
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    printf("%s: %d\n", what, value());
}

static void instantiate(CUgraphExec *x, CUgraph g) {
    CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    CUresult rc = cuGraphInstantiateWithParams(x, g, &how);
    printf("instantiate: %d result %d node %s\n", (int)rc, (int)how.result_out,
           how.hErrNode_out ? "told" : "none");
}

static void attributes() {
    puts("-- attributes of kernel nodes");
    CUgraph g;
    DRIVER(cuGraphCreate(&g, 0));
    CUgraphNode n = kernel(g, {}, (void *)put, 3), m = kernel(g, {n}, (void *)add, 4);
    CUlaunchAttributeValue v, w;
    auto ask = [&](CUgraphNode of, CUlaunchAttributeID id, const char *what) {
        memset(&w, 0, sizeof w);
        CUresult rc = cuGraphKernelNodeGetAttribute(of, id, &w);
        unsigned u[4];
        memcpy(u, &w, sizeof u);
        printf("%s: %d", what, (int)rc);
        if (!rc) printf(" %u %u %u", u[0], u[1], u[2]);
        puts("");
    };
    ask(n, CU_LAUNCH_ATTRIBUTE_PRIORITY, "priority");
    memset(&v, 0, sizeof v);
    v.priority = -3;
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    ask(n, CU_LAUNCH_ATTRIBUTE_PRIORITY, "priority");
    ask(n, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, "cooperative");
    v.cooperative = 1;
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
    ask(n, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, "cooperative");
    ask(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, "cluster");
    v.clusterDim = {1, 1, 1};
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v));
    ask(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, "cluster");
    v.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
                                      &v));
    v.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &v));
    ask(n, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, "domain");
    ask(n, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, "domain map");
    memset(&v, 0, sizeof v);
    v.accessPolicyWindow.base_ptr = p;
    v.accessPolicyWindow.num_bytes = 4096;
    v.accessPolicyWindow.hitRatio = 0.5f;
    v.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    v.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &v));
    memset(&w, 0, sizeof w);
    SAY(cuGraphKernelNodeGetAttribute(n, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &w));
    printf("window: %d %zu %g\n", w.accessPolicyWindow.base_ptr == p,
           w.accessPolicyWindow.num_bytes, w.accessPolicyWindow.hitRatio);
    SAY(cuGraphKernelNodeCopyAttributes(m, n));
    ask(m, CU_LAUNCH_ATTRIBUTE_PRIORITY, "copied priority");
    // An event in the value: what a node may not have must be refused, not followed.
    CUevent e;
    DRIVER(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    memset(&v, 0, sizeof v);
    v.programmaticEvent.event = e;
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, &v));
    memset(&v, 0, sizeof v);
    v.launchCompletionEvent.event = e;
    SAY(cuGraphKernelNodeSetAttribute(n, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, &v));
    DRIVER(cuEventDestroy(e));
    CUgraphExec x;
    instantiate(&x, g);
    run("3 + 4", x);
    DRIVER(cuGraphExecDestroy(x));
    DRIVER(cuGraphDestroy(g));
}

static void edges() {
    puts("-- edges with data");
    CUgraph g;
    DRIVER(cuGraphCreate(&g, 0));
    CUgraphNode n = kernel(g, {}, (void *)put, 5), m = kernel(g, {}, (void *)times, 3);
    CUgraphNode o = kernel(g, {}, (void *)add, 1);
    CUgraphEdgeData programmatic{}, full{};
    programmatic.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    programmatic.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
#if CUDA_VERSION >= 13000
#define ADD cuGraphAddDependencies
#define REMOVE cuGraphRemoveDependencies
#define EDGES cuGraphGetEdges
#define DEPENDENCIES cuGraphNodeGetDependencies
#define DEPENDENTS cuGraphNodeGetDependentNodes
#else
#define ADD cuGraphAddDependencies_v2
#define REMOVE cuGraphRemoveDependencies_v2
#define EDGES cuGraphGetEdges_v2
#define DEPENDENCIES cuGraphNodeGetDependencies_v2
#define DEPENDENTS cuGraphNodeGetDependentNodes_v2
#endif
    SAY(ADD(g, &n, &m, &programmatic, 1));
    SAY(ADD(g, &m, &o, &full, 1));
    SAY(ADD(g, &n, &m, &programmatic, 1));
    SAY(ADD(g, &n, &n, nullptr, 1));
    CUgraphNode from[8], to[8];
    CUgraphEdgeData data[8];
    size_t count = 8;
    SAY(EDGES(g, from, to, data, &count));
    for (size_t i = 0; i < count; i++)
        printf("edge %d -> %d: ports %d %d type %d\n",
               from[i] == n   ? 0
               : from[i] == m ? 1
                              : 2,
               to[i] == n   ? 0
               : to[i] == m ? 1
                            : 2,
               data[i].from_port, data[i].to_port, data[i].type);
    count = 8;
    SAY(EDGES(g, from, to, nullptr, &count));
    count = 0;
    SAY(EDGES(g, nullptr, nullptr, nullptr, &count));
    printf("%zu edges\n", count);
    count = 8;
    SAY(DEPENDENCIES(m, from, data, &count));
    printf("%zu: %d type %d\n", count, from[0] == n, data[0].type);
    count = 8;
    SAY(DEPENDENTS(m, to, data, &count));
    printf("%zu: %d type %d\n", count, to[0] == o, data[0].type);
    CUgraphExec x;
    instantiate(&x, g);
    run("5 * 3 + 1", x);
    DRIVER(cuGraphExecDestroy(x));
    SAY(REMOVE(g, &n, &m, nullptr, 1));
    SAY(REMOVE(g, &n, &m, &programmatic, 1));
    SAY(REMOVE(g, &n, &o, nullptr, 1));
    SAY(ADD(g, &o, &m, nullptr, 1));
    SAY(cuGraphInstantiate(&x, g, 0));
    DRIVER(cuGraphDestroy(g));
}

static void changes() {
    puts("-- parameters of nodes");
    CUgraph g;
    DRIVER(cuGraphCreate(&g, 0));
    CUgraphNode n = kernel(g, {}, (void *)put, 7), set, empty;
    CUDA_MEMSET_NODE_PARAMS ms{};
    ms.dst = (CUdeviceptr)p;
    ms.elementSize = 4;
    ms.width = 1;
    ms.height = 1;
    ms.value = 11;
    DRIVER(cuGraphAddMemsetNode(&set, g, &n, 1, &ms, ctx));
    DRIVER(cuGraphAddEmptyNode(&empty, g, &set, 1));
    CUgraphExec x;
    instantiate(&x, g);
    run("memset", x);
    // The generic way, on the graph and on the executable one.
    Node k((void *)put, p, 8);
    CUgraphNodeParams all{};
    all.type = CU_GRAPH_NODE_TYPE_KERNEL;
    memcpy(&all.kernel, &k.params, sizeof k.params);
    SAY(cuGraphNodeSetParams(n, &all));
    SAY(cuGraphExecNodeSetParams(x, n, &all));
    CUgraphNodeParams mem{};
    mem.type = CU_GRAPH_NODE_TYPE_MEMSET;
    memcpy(&mem.memset, &ms, sizeof ms);
    mem.memset.value = 12;
    mem.memset.ctx = ctx;
    SAY(cuGraphNodeSetParams(set, &mem));
    SAY(cuGraphExecNodeSetParams(x, set, &mem));
    run("memset changed", x);
    // Of another kind.
    SAY(cuGraphNodeSetParams(n, &mem));
    SAY(cuGraphExecNodeSetParams(x, n, &mem));
    CUDA_MEMSET_NODE_PARAMS told{};
    SAY(cuGraphMemsetNodeGetParams(set, &told));
    printf("%d %u %u %zu %zu\n", told.dst == ms.dst, told.elementSize, told.value, told.width,
           told.height);
    CUDA_KERNEL_NODE_PARAMS kt{};
    SAY(cuGraphKernelNodeGetParams(n, &kt));
    printf("grid %u block %u parameter %d\n", kt.gridDimX, kt.blockDimX,
           kt.kernelParams ? *(int *)kt.kernelParams[1] : -1);
    SAY(cuGraphMemsetNodeGetParams(n, &told));
    unsigned on = 7;
    SAY(cuGraphNodeGetEnabled(x, set, &on));
    printf("enabled %u\n", on);
    SAY(cuGraphNodeSetEnabled(x, set, 0));
    SAY(cuGraphNodeGetEnabled(x, set, &on));
    printf("enabled %u\n", on);
    run("without memset", x);
    SAY(cuGraphNodeSetEnabled(x, empty, 0));
    unsigned long long flags = 77;
    SAY(cuGraphExecGetFlags(x, (cuuint64_t *)&flags));
    printf("flags %llu\n", flags);
    SAY(cuGraphUpload(x, s));
    run("uploaded", x);

    puts("-- updates, and why not");
    auto update = [&](const char *what, CUgraph from) {
        CUgraphExecUpdateResultInfo info;
        memset(&info, 0x55, sizeof info);
        CUresult rc = cuGraphExecUpdate(x, from, &info);
        printf("%s: %d result %d nodes %s %s\n", what, (int)rc, (int)info.result,
               info.errorNode ? "told" : "none", info.errorFromNode ? "told" : "none");
    };
    update("same", g);
    CUgraph h;
    DRIVER(cuGraphCreate(&h, 0));
    CUgraphNode hn = kernel(h, {}, (void *)put, 9);
    update("fewer nodes", h);
    CUgraphNode hs, he;
    DRIVER(cuGraphAddEmptyNode(&hs, h, &hn, 1));
    DRIVER(cuGraphAddEmptyNode(&he, h, &hs, 1));
    update("other kind", h);
    DRIVER(cuGraphDestroyNode(hs));
    DRIVER(cuGraphDestroyNode(he));
    ms.value = 13;
    DRIVER(cuGraphAddMemsetNode(&hs, h, nullptr, 0, &ms, ctx));
    DRIVER(cuGraphAddEmptyNode(&he, h, &hs, 1));
    update("other edges", h);
    DRIVER(cuGraphDestroy(h));
    DRIVER(cuGraphCreate(&h, 0));
    hn = kernel(h, {}, (void *)add, 40);
    DRIVER(cuGraphAddMemsetNode(&hs, h, &hn, 1, &ms, ctx));
    DRIVER(cuGraphAddEmptyNode(&he, h, &hs, 1));
    update("other function", h);
    run("updated", x);
    SAY(cuGraphNodeSetEnabled(x, set, 0));
    run("without memset again", x);
    DRIVER(cuGraphDestroy(h));
    DRIVER(cuGraphExecDestroy(x));

    puts("-- clones, children");
    CUgraph c;
    SAY(cuGraphClone(&c, g));
    CUgraphNode found = nullptr;
    SAY(cuGraphNodeFindInClone(&found, n, c));
    printf("found %d\n", found && found != n);
    SAY(cuGraphNodeFindInClone(&found, n, g));
    CUgraph outer;
    DRIVER(cuGraphCreate(&outer, 0));
    CUgraphNode child, after;
    SAY(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, g));
    after = kernel(outer, {child}, (void *)times, 2);
    CUgraph inner = nullptr;
    SAY(cuGraphChildGraphNodeGetGraph(child, &inner));
    size_t count = 0;
    SAY(cuGraphGetNodes(inner, nullptr, &count));
    printf("inner nodes %zu another %d\n", count, inner != g);
    instantiate(&x, outer);
    run("12 * 2", x);
    CUgraphNode cn;
    SAY(cuGraphNodeFindInClone(&cn, n, c));
    CUDA_MEMSET_NODE_PARAMS other = ms;
    CUgraphNode cs;
    SAY(cuGraphNodeFindInClone(&cs, set, c));
    other.value = 21;
    SAY(cuGraphMemsetNodeSetParams(cs, &other));
    SAY(cuGraphExecChildGraphNodeSetParams(x, child, c));
    run("21 * 2", x);
    SAY(cuGraphExecChildGraphNodeSetParams(x, child, outer));
    SAY(cuGraphDestroyNode(after));
    count = 0;
    SAY(cuGraphGetNodes(outer, nullptr, &count));
    printf("outer nodes %zu\n", count);
    DRIVER(cuGraphExecDestroy(x));
    DRIVER(cuGraphDestroy(outer));
    DRIVER(cuGraphDestroy(c));
    DRIVER(cuGraphDestroy(g));
}

static void memory() {
    puts("-- memory of a graph's own");
    CUdevice dev = 0;
    cuuint64_t v = 77;
    for (int a = 0; a < 4; a++) {
        CUresult rc = cuDeviceGetGraphMemAttribute(dev, (CUgraphMem_attribute)a, &v);
        printf("attribute %d: %d %llu\n", a, (int)rc, (unsigned long long)v);
    }
    CUgraph g;
    DRIVER(cuGraphCreate(&g, 0));
    CUDA_MEM_ALLOC_NODE_PARAMS want{};
    want.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    want.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    want.bytesize = 1 << 20;
    CUgraphNode a, f;
    SAY(cuGraphAddMemAllocNode(&a, g, nullptr, 0, &want));
    printf("address %s\n", want.dptr ? "given" : "none");
    CUDA_MEM_ALLOC_NODE_PARAMS told{};
    SAY(cuGraphMemAllocNodeGetParams(a, &told));
    printf("%d %zu type %d location %d %d access %zu\n", told.dptr == want.dptr, told.bytesize,
           (int)told.poolProps.allocType, (int)told.poolProps.location.type,
           told.poolProps.location.id, told.accessDescCount);
    Node w((void *)put, (int *)want.dptr, 31);
    CUgraphNode wn, cn;
    SAY(cuGraphAddKernelNode(&wn, g, &a, 1, &w.params));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = want.dptr;
    copy.dstDevice = (CUdeviceptr)p;
    copy.WidthInBytes = 4;
    copy.Height = copy.Depth = 1;
    SAY(cuGraphAddMemcpyNode(&cn, g, &wn, 1, &copy, ctx));
    SAY(cuGraphAddMemFreeNode(&f, g, &cn, 1, want.dptr));
    CUdeviceptr back = 0;
    SAY(cuGraphMemFreeNodeGetParams(f, &back));
    printf("the same %d\n", back == want.dptr);
    CUgraph clone;
    SAY(cuGraphClone(&clone, g));
    CUgraphExec x, y;
    instantiate(&x, g);
    run("through its memory", x);
    run("again", x);
    SAY(cuGraphInstantiate(&y, g, 0));
    SAY(cuDeviceGetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v));
    printf("used %llu\n", (unsigned long long)v);
    SAY(cuDeviceGetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v));
    printf("high %d\n", v >= (1 << 20));
    v = 0;
    SAY(cuDeviceSetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v));
    v = 1;
    SAY(cuDeviceSetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v));
    SAY(cuDeviceSetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v));
    DRIVER(cuGraphExecDestroy(x));
    SAY(cuDeviceGraphMemTrim(dev));
    SAY(cuDeviceGetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &v));
    printf("reserved %llu\n", (unsigned long long)v);
    DRIVER(cuGraphDestroy(g));

    // Memory that outlives the launch: freed by the program, or by the next launch.
    DRIVER(cuGraphCreate(&g, 0));
    SAY(cuGraphAddMemAllocNode(&a, g, nullptr, 0, &want));
    Node w2((void *)put, (int *)want.dptr, 32);
    SAY(cuGraphAddKernelNode(&wn, g, &a, 1, &w2.params));
    SAY(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    SAY(cuGraphLaunch(x, s));
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    int seen = 0;
    SAY(cuMemcpyDtoH(&seen, want.dptr, 4));
    printf("outlived: %d\n", seen);
    SAY(cuMemFreeAsync(want.dptr, s));
    SAY(cuStreamSynchronize(s));
    SAY(cuMemFreeAsync(want.dptr, s));
    DRIVER(cuGraphExecDestroy(x));
    DRIVER(cuGraphDestroy(g));
    SAY(cuDeviceGraphMemTrim(dev));
}

static int released[3];
static void release(void *which) {
    __atomic_add_fetch(&released[(long)which], 1, __ATOMIC_SEQ_CST);
}
/// The driver calls a destructor from a thread of its own, soon.
static void soon(int which) {
    for (int i = 0; i < 5000 && !__atomic_load_n(&released[which], __ATOMIC_SEQ_CST); i++)
        usleep(1000);
}

static void objects() {
    puts("-- objects that graphs keep");
    CUuserObject o[3];
    for (long i = 0; i < 3; i++)
        SAY(cuUserObjectCreate(&o[i], (void *)i, release, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CUuserObject none;
    SAY(cuUserObjectCreate(&none, nullptr, release, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    SAY(cuUserObjectRelease(o[1], 2));
    soon(1);
    printf("released: %d\n", released[1]);
    CUgraph g, c;
    DRIVER(cuGraphCreate(&g, 0));
    kernel(g, {}, (void *)put, 1);
    SAY(cuGraphRetainUserObject(g, o[2], 1, CU_GRAPH_USER_OBJECT_MOVE));
    SAY(cuUserObjectRelease(o[2], 1));
    SAY(cuGraphClone(&c, g));
    DRIVER(cuGraphDestroy(g));
    usleep(100000);
    printf("kept by the clone: %d\n", released[2]);
    CUgraphExec x;
    DRIVER(cuGraphInstantiate(&x, c, 0));
    SAY(cuGraphReleaseUserObject(c, o[2], 1));
    DRIVER(cuGraphDestroy(c));
    usleep(100000);
    printf("kept by the executable: %d\n", released[2]);
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    DRIVER(cuGraphExecDestroy(x));
    soon(2);
    printf("gone: %d\n", released[2]);
}

static void dot() {
    puts("-- as text");
    CUgraph g;
    DRIVER(cuGraphCreate(&g, 0));
    CUgraphNode n = kernel(g, {}, (void *)put, 5), m = kernel(g, {n}, (void *)add, 3);
    kernel(g, {n, m}, (void *)times, 3);
    std::string path = "/tmp/busbar-dot-" + std::to_string(getpid());
    for (unsigned flags : {0u, 1u, 0x7ffu}) {
        CUresult rc = cuGraphDebugDotPrint(g, path.c_str(), flags);
        std::ifstream f(path);
        std::string line, first;
        int lines = 0, arrows = 0, put = 0;
        while (std::getline(f, line)) {
            lines++;
            arrows += line.find("->") != std::string::npos;
            put += line.find("put") != std::string::npos;
        }
        printf("flags %#x: %d lines %d arrows %d put %d\n", flags, (int)rc, lines > 5, arrows,
               put > 0);
        unlink(path.c_str());
    }
    SAY(cuGraphDebugDotPrint(g, "/nowhere/at/all", 0));
    DRIVER(cuGraphDestroy(g));
}

static void captures() {
    puts("-- captures that are steered");
    cudaStream_t t;
    CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CUgraph g, got = nullptr;
    DRIVER(cuGraphCreate(&g, 0));
    CUgraphNode first = kernel(g, {}, (void *)put, 2);
    SAY(cuStreamBeginCaptureToGraph(s, g, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    times<<<1, 1, 0, s>>>(p, 10);
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph during = nullptr;
    const CUgraphNode *deps = nullptr;
    size_t n = 0;
#if CUDA_VERSION >= 13000
    SAY(cuStreamGetCaptureInfo(s, &status, &id, &during, &deps, nullptr, &n));
#else
    SAY(cuStreamGetCaptureInfo_v2(s, &status, &id, &during, &deps, &n));
#endif
    printf("status %d id %d graph %d dependencies %zu\n", (int)status, id != 0, during == g, n);
    CUgraphNode last = n ? deps[0] : nullptr;
    // A node of the program's own, behind which the capture goes on.
    CUgraphNode mine = kernel(g, {last}, (void *)add, 3);
#if CUDA_VERSION >= 13000
#define STEER(nodes, n, flags) cuStreamUpdateCaptureDependencies(s, nodes, nullptr, n, flags)
#else
#define STEER(nodes, n, flags) cuStreamUpdateCaptureDependencies(s, nodes, n, flags)
#endif
    SAY(STEER(&mine, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    times<<<1, 1, 0, s>>>(p, 2);
    SAY(STEER(&first, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    add<<<1, 1, 0, s>>>(p, 1);
    SAY(cuStreamEndCapture(s, &got));
    printf("into the same graph %d\n", got == g);
    size_t count = 0;
    SAY(cuGraphGetNodes(g, nullptr, &count));
    printf("%zu nodes\n", count);
    CUgraphExec x;
    instantiate(&x, g);
    run("(2 * 10 + 3) * 2 + 1", x);
    DRIVER(cuGraphExecDestroy(x));
    DRIVER(cuGraphDestroy(g));

    puts("-- captures that fail");
    SAY(cuStreamEndCapture(s, &got));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamIsCapturing(s, &status));
    printf("status %d\n", (int)status);
    SAY(cuStreamSynchronize(s));
    SAY(cuStreamIsCapturing(s, &status));
    printf("status %d\n", (int)status);
    SAY(cuStreamQuery(s));
    put<<<1, 1, 0, s>>>(p, 1);
    SAY(cudaGetLastError());
    got = (CUgraph)1;
    SAY(cuStreamEndCapture(s, &got));
    printf("graph %s\n", got ? "some" : "none");
    SAY(cuStreamIsCapturing(s, &status));
    printf("status %d\n", (int)status);
    // Left unjoined.
    CUevent e;
    DRIVER(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    put<<<1, 1, 0, s>>>(p, 1);
    SAY(cuEventRecord(e, s));
    SAY(cuStreamWaitEvent(t, e, 0));
    SAY(cuStreamIsCapturing(t, &status));
    printf("joined status %d\n", (int)status);
    SAY(cuEventQuery(e));
    SAY(cuEventSynchronize(e));
    SAY(cuStreamIsCapturing(s, &status));
    printf("status %d\n", (int)status);
    SAY(cuStreamEndCapture(s, &got));
    SAY(cuStreamIsCapturing(t, &status));
    printf("status %d\n", (int)status);
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    put<<<1, 1, 0, s>>>(p, 1);
    SAY(cuEventRecord(e, s));
    SAY(cuStreamWaitEvent(t, e, 0));
    add<<<1, 1, 0, t>>>(p, 1);
    SAY(cuStreamEndCapture(t, &got));
    SAY(cuStreamEndCapture(s, &got));
    // Over the default stream, which cannot be captured.
    SAY(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuStreamBeginCapture(s, (CUstreamCaptureMode)7));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    SAY(cuStreamDestroy(t));
    cudaStream_t u;
    CHECK(cudaStreamCreate(&u));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    SAY(cuThreadExchangeStreamCaptureMode(&mode));
    printf("mode was %d\n", (int)mode);
    SAY(cuThreadExchangeStreamCaptureMode(&mode));
    printf("mode was %d\n", (int)mode);
    // A launch of another graph, a copy of a symbol, a timed event within a capture.
    CUevent timed;
    SAY(cuEventCreate(&timed, 0));
    SAY(cuEventRecordWithFlags(timed, s, CU_EVENT_RECORD_EXTERNAL));
    SAY(cuStreamWaitEvent(s, timed, CU_EVENT_WAIT_EXTERNAL));
    put<<<1, 1, 0, s>>>(p, 77);
    SAY(cuStreamEndCapture(s, &got));
    count = 0;
    SAY(cuGraphGetNodes(got, nullptr, &count));
    std::vector<CUgraphNode> nodes(count);
    SAY(cuGraphGetNodes(got, nodes.data(), &count));
    for (auto n : nodes) {
        CUgraphNodeType type;
        CUevent told = nullptr;
        DRIVER(cuGraphNodeGetType(n, &type));
        printf("type %d", (int)type);
        if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && !cuGraphEventRecordNodeGetEvent(n, &told))
            printf(" its event %d", told == timed);
        if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && !cuGraphEventWaitNodeGetEvent(n, &told))
            printf(" its event %d", told == timed);
        puts("");
    }
    SAY(cuGraphInstantiate(&x, got, 0));
    run("with external events", x);
    SAY(cuEventQuery(timed));
    DRIVER(cuGraphExecDestroy(x));
    DRIVER(cuGraphDestroy(got));
    DRIVER(cuEventDestroy(timed));
    DRIVER(cuEventDestroy(e));
    CHECK(cudaStreamDestroy(u));
}

int main() {
    CHECK(cudaMalloc((void **)&p, 4096));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    DRIVER(cuCtxGetCurrent(&ctx));
    attributes();
    edges();
    changes();
    memory();
    objects();
    dot();
    captures();
    SAY(cudaDeviceSynchronize());
    printf("done\n");
}
