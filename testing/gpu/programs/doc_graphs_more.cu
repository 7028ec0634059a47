// What CUDA's documentation says of graphs: their memory, what they decide, objects that they
// keep alive. See doc.h.
#include "doc.h"

__global__ void decide(cudaGraphConditionalHandle h, int *p) {
    cudaGraphSetConditional(h, ++*p < 10);
}

struct Graph {
    cudaGraph_t g = nullptr;
    Graph() { OK(cudaGraphCreate(&g, 0)); }
    ~Graph() { cudaGraphDestroy(g); }
    operator cudaGraph_t() const { return g; }
    cudaGraphNode_t memory(size_t bytes, void **at, cudaGraphNode_t after = nullptr) {
        cudaMemAllocNodeParams p = {};
        p.poolProps.allocType = cudaMemAllocationTypePinned;
        p.poolProps.location.type = cudaMemLocationTypeDevice;
        p.bytesize = bytes;
        cudaGraphNode_t n = nullptr;
        OK(cudaGraphAddMemAllocNode(&n, g, &after, after ? 1 : 0, &p));
        *at = p.dptr;
        return n;
    }
    cudaGraphNode_t free(void *p, cudaGraphNode_t after) {
        cudaGraphNode_t n = nullptr;
        OK(cudaGraphAddMemFreeNode(&n, g, &after, 1, p));
        return n;
    }
    cudaGraphNode_t memset(void *p, unsigned v, cudaGraphNode_t after) {
        cudaGraphNode_t node = nullptr;
        cudaMemsetParams m = {p, 0, v, 4, 1, 1};
        OK(cudaGraphAddMemsetNode(&node, g, &after, after ? 1 : 0, &m));
        return node;
    }
};
static void go(cudaGraphExec_t x) {
    OK(cudaGraphLaunch(x, cudaStreamPerThread));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
}
static size_t graph_memory(cudaGraphMemAttributeType which) {
    size_t n = 1;
    OK(cudaDeviceGetGraphMemAttribute(0, which, &n));
    return n;
}

DOC("memory of a graph has one address, which is known when the node is added") {
    Graph g;
    void *p = nullptr;
    auto a = g.memory(1 << 20, &p);
    HOLDS(p != nullptr);
    cudaMemAllocNodeParams got = {};
    OK(cudaGraphMemAllocNodeGetParams(a, &got));
    HOLDS(got.dptr == p && got.bytesize == 1 << 20);
    auto b = g.memset(p, 77, a);
    g.free(p, b);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    go(x);
    go(x);
    OK(cudaGraphExecDestroy(x));
}
DOC("memory that a graph does not free outlives it, and is freed as other memory is") {
    Graph g;
    void *p;
    auto a = g.memory(1 << 20, &p);
    g.memset(p, 77, a);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    go(x);
    HOLDS(value(p) == 77);
    OK(cudaFree(p));
    go(x);
    HOLDS(value(p) == 77);
    OK(cudaFreeAsync(p, cudaStreamPerThread));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaGraphExecDestroy(x));
}
DOC("a graph whose memory was not freed cannot be launched again") {
    Graph g;
    void *p;
    auto a = g.memory(1 << 20, &p);
    g.memset(p, 77, a);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    go(x);
    IS(cudaGraphLaunch(x, cudaStreamPerThread), cudaErrorInvalidValue);
    cudaGetLastError();
    OK(cudaFree(p));
    go(x);
    OK(cudaFree(p));
    OK(cudaGraphExecDestroy(x));
}
DOC("a graph that frees at launch can be launched again and again") {
    Graph g;
    void *p;
    auto a = g.memory(1 << 20, &p);
    g.memset(p, 78, a);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < 3; i++) go(x);
    HOLDS(value(p) == 78);
    OK(cudaFree(p));
    OK(cudaGraphExecDestroy(x));
}
DOC("a graph with memory cannot be instantiated twice at a time, cloned or be a child") {
    Graph g, parent;
    void *p;
    auto a = g.memory(1 << 20, &p);
    g.free(p, a);
    cudaGraph_t clone;
    REFUSED(cudaGraphClone(&clone, g));
    cudaGetLastError();
    cudaGraphNode_t n;
    REFUSED(cudaGraphAddChildGraphNode(&n, parent, nullptr, 0, g));
    cudaGetLastError();
    cudaGraphExec_t x, y;
    OK(cudaGraphInstantiate(&x, g, 0));
    REFUSED(cudaGraphInstantiate(&y, g, 0));
    OK(cudaGraphExecDestroy(x));
    OK(cudaGraphInstantiate(&y, g, 0));
    OK(cudaGraphExecDestroy(y));
}
DOC("nodes and edges cannot be removed from a graph with memory") {
    Graph g;
    void *p;
    auto a = g.memory(1 << 20, &p), b = g.free(p, a);
    REFUSED(cudaGraphDestroyNode(b));
    cudaGetLastError();
    REFUSED(cudaGraphRemoveDependencies(g, &a, &b, nullptr, 1));
}
DOC("a free node gives the address that it frees") {
    Graph g;
    void *p, *got = nullptr;
    auto a = g.memory(1 << 20, &p), b = g.free(p, a);
    OK(cudaGraphMemFreeNodeGetParams(b, &got));
    HOLDS(got == p);
}
DOC("memory of a graph can be freed once only in it") {
    Graph g;
    void *p;
    auto a = g.memory(1 << 20, &p), b = g.free(p, a);
    cudaGraphNode_t n;
    IS(cudaGraphAddMemFreeNode(&n, g, &b, 1, p), cudaErrorInvalidValue);
}
DOC("what graphs use and hold of memory is told, is high at most, and can be given back") {
    OK(cudaDeviceSynchronize());
    OK(cudaDeviceGraphMemTrim(0));
    size_t zero = 0;
    OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
    HOLDS(graph_memory(cudaGraphMemAttrUsedMemCurrent) == 0);
    Graph g;
    void *p;
    auto a = g.memory(1 << 20, &p);
    g.free(p, a);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    go(x);
    HOLDS(graph_memory(cudaGraphMemAttrUsedMemHigh) >= 1 << 20);
    HOLDS(graph_memory(cudaGraphMemAttrReservedMemCurrent) >= 1 << 20);
    OK(cudaGraphExecDestroy(x));
    OK(cudaDeviceGraphMemTrim(0));
    HOLDS(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 0);
    size_t one = 1;
    REFUSED(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &one));
    cudaGetLastError();
    REFUSED(cudaDeviceGetGraphMemAttribute(0, (cudaGraphMemAttributeType)77, &one));
}
DOC("memory that a stream freed may be used again by a graph, and holds what the graph wrote") {
    Stream s;
    Graph g;
    void *p;
    auto a = g.memory(4 << 20, &p);
    g.memset(p, 5, a);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    for (int i = 0; i < 4; i++) {
        OK(cudaGraphLaunch(x, s));
        add<<<1, 1, 0, s>>>((int *)p, i);
        int v = 0;
        OK(cudaMemcpyAsync(&v, p, 4, cudaMemcpyDeviceToHost, s));
        OK(cudaStreamSynchronize(s));
        HOLDS(v == 5 + i);
        OK(cudaFreeAsync(p, s));
    }
    OK(cudaStreamSynchronize(s));
    OK(cudaGraphExecDestroy(x));
}

static std::atomic<int> gone;
static void went(void *n) { gone += *(int *)n; }
static bool all_gone(int want) {
    for (int i = 0; i < 2000 && gone != want; i++) usleep(1000);
    return gone == want;
}
static int one = 1;

DOC("a user object's function is called when its last reference is released") {
    gone = 0;
    cudaUserObject_t o;
    OK(cudaUserObjectCreate(&o, &one, went, 2, cudaUserObjectNoDestructorSync));
    OK(cudaUserObjectRelease(o, 1));
    usleep(20000);
    HOLDS(gone == 0);
    OK(cudaUserObjectRetain(o, 1));
    OK(cudaUserObjectRelease(o, 2));
    HOLDS(all_gone(1));
}
DOC("a user object must have the flag that says its function is not synchronized") {
    cudaUserObject_t o;
    IS(cudaUserObjectCreate(&o, &one, went, 1, 0), cudaErrorInvalidValue);
    IS(cudaUserObjectCreate(&o, &one, went, 0, cudaUserObjectNoDestructorSync),
       cudaErrorInvalidValue);
    IS(cudaUserObjectCreate(nullptr, &one, went, 1, cudaUserObjectNoDestructorSync),
       cudaErrorInvalidValue);
}
DOC("a graph that holds an object keeps it alive until the graph is destroyed") {
    gone = 0;
    cudaUserObject_t o;
    OK(cudaUserObjectCreate(&o, &one, went, 1, cudaUserObjectNoDestructorSync));
    {
        Graph g;
        OK(cudaGraphRetainUserObject(g, o, 1, cudaGraphUserObjectMove));
        usleep(20000);
        HOLDS(gone == 0);
    }
    HOLDS(all_gone(1));
}
DOC("a graph's reference can be released, and what is executable has references of its own") {
    gone = 0;
    cudaUserObject_t o;
    OK(cudaUserObjectCreate(&o, &one, went, 1, cudaUserObjectNoDestructorSync));
    cudaGraphExec_t x;
    {
        Graph g;
        OK(cudaGraphRetainUserObject(g, o, 1, 0));
        OK(cudaUserObjectRelease(o, 1));
        OK(cudaGraphInstantiate(&x, g, 0));
        OK(cudaGraphReleaseUserObject(g, o, 1));
    }
    usleep(20000);
    HOLDS(gone == 0);
    OK(cudaGraphExecDestroy(x));
    HOLDS(all_gone(1));
}
DOC("a clone has references of its own") {
    gone = 0;
    cudaUserObject_t o;
    OK(cudaUserObjectCreate(&o, &one, went, 1, cudaUserObjectNoDestructorSync));
    cudaGraph_t clone;
    {
        Graph g;
        OK(cudaGraphRetainUserObject(g, o, 1, cudaGraphUserObjectMove));
        OK(cudaGraphClone(&clone, g));
    }
    usleep(20000);
    HOLDS(gone == 0);
    OK(cudaGraphDestroy(clone));
    HOLDS(all_gone(1));
}
DOC("an executable graph that runs keeps its objects until it has run") {
    gone = 0;
    Stream s;
    cudaUserObject_t o;
    OK(cudaUserObjectCreate(&o, &one, went, 1, cudaUserObjectNoDestructorSync));
    cudaGraphExec_t x;
    {
        Graph g;
        cudaGraphNode_t n;
        OK(cudaGraphAddEmptyNode(&n, g, nullptr, 0));
        OK(cudaGraphRetainUserObject(g, o, 1, cudaGraphUserObjectMove));
        OK(cudaGraphInstantiate(&x, g, 0));
    }
    {
        Held h(s);
        OK(cudaGraphLaunch(x, s));
        OK(cudaGraphExecDestroy(x));
        usleep(20000);
        HOLDS(gone == 0);
    }
    HOLDS(all_gone(1));
}
DOC("retaining an object with wrong flags or a count of 0 is an invalid value") {
    Graph g;
    cudaUserObject_t o;
    OK(cudaUserObjectCreate(&o, &one, went, 1, cudaUserObjectNoDestructorSync));
    IS(cudaGraphRetainUserObject(g, o, 1, 8), cudaErrorInvalidValue);
    IS(cudaGraphRetainUserObject(g, o, 0, 0), cudaErrorInvalidValue);
    IS(cudaUserObjectRetain(o, 0), cudaErrorInvalidValue);
    IS(cudaUserObjectRelease(o, 0), cudaErrorInvalidValue);
    OK(cudaUserObjectRelease(o, 1));
}

struct Deciding : Graph {
    cudaGraphConditionalHandle h{};
    cudaGraph_t body[2] = {};
    void node(unsigned value, cudaGraphConditionalNodeType type, unsigned size = 1,
              cudaGraphNode_t after = nullptr) {
        if (!h) OK(cudaGraphConditionalHandleCreate(&h, g, value, cudaGraphCondAssignDefault));
        cudaGraphNodeParams p = {};
        p.type = cudaGraphNodeTypeConditional;
        p.conditional.handle = h;
        p.conditional.type = type;
        p.conditional.size = size;
        cudaGraphNode_t n;
        OK(cudaGraphAddNode(&n, g, &after, nullptr, after ? 1 : 0, &p));
        for (unsigned i = 0; i < size && p.conditional.phGraph_out; i++)
            body[i] = p.conditional.phGraph_out[i];
    }
    void fill(int i, void *p, unsigned v) {
        cudaGraphNode_t n;
        cudaMemsetParams m = {p, 0, v, 4, 1, 1};
        OK(cudaGraphAddMemsetNode(&n, body[i], nullptr, 0, &m));
    }
    void run() {
        cudaGraphExec_t x;
        OK(cudaGraphInstantiate(&x, g, 0));
        go(x);
        OK(cudaGraphExecDestroy(x));
    }
};
DOC("the body of an if node runs when its value is not 0") {
    for (unsigned v : {0u, 1u, 7u}) {
        Memory m(8);
        OK(cudaMemset(m.p, 0, 8));
        Deciding d;
        d.node(v, cudaGraphCondTypeIf);
        d.fill(0, m.p, 5);
        d.run();
        HOLDS(value(m.p) == (v ? 5 : 0));
    }
}
DOC("an if node of two bodies runs the second when its value is 0") {
    for (unsigned v : {0u, 1u}) {
        Memory m(8);
        OK(cudaMemset(m.p, 0, 8));
        Deciding d;
        d.node(v, cudaGraphCondTypeIf, 2);
        d.fill(0, m.p, 5);
        d.fill(1, m.p, 6);
        d.run();
        HOLDS(value(m.p) == (v ? 5 : 6));
    }
}
DOC("a switch node runs the body of its value, and none beyond its bodies") {
    for (unsigned v : {0u, 1u, 2u}) {
        Memory m(8);
        OK(cudaMemset(m.p, 0, 8));
        Deciding d;
        d.node(v, cudaGraphCondTypeSwitch, 2);
        d.fill(0, m.p, 5);
        d.fill(1, m.p, 6);
        d.run();
        HOLDS(value(m.p) == (v == 0 ? 5 : v == 1 ? 6 : 0));
    }
}
DOC("a while node whose value is 0 from the start does not run") {
    Memory m(8);
    OK(cudaMemset(m.p, 0, 8));
    Deciding d;
    d.node(0, cudaGraphCondTypeWhile);
    d.fill(0, m.p, 5);
    d.run();
    HOLDS(value(m.p) == 0);
}
DOC("a while node runs as long as its kernel says so") {
    Memory m(8);
    OK(cudaMemset(m.p, 0, 8));
    Deciding d;
    d.node(1, cudaGraphCondTypeWhile);
    int *p = m.ints();
    void *list[] = {&d.h, &p};
    cudaKernelNodeParams k = {(void *)decide, 1, 1, 0, list, nullptr};
    cudaGraphNode_t n;
    OK(cudaGraphAddKernelNode(&n, d.body[0], nullptr, 0, &k));
    d.run();
    HOLDS(value(m.p) == 10);
}
DOC("a while node has one body; a conditional node must have a size") {
    Graph g;
    cudaGraphConditionalHandle h;
    OK(cudaGraphConditionalHandleCreate(&h, g, 0, cudaGraphCondAssignDefault));
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = h;
    p.conditional.type = cudaGraphCondTypeWhile;
    p.conditional.size = 3;
    cudaGraphNode_t n;
    IS(cudaGraphAddNode(&n, g, nullptr, nullptr, 0, &p), cudaErrorInvalidValue);
    p.conditional.size = 0;
    IS(cudaGraphAddNode(&n, g, nullptr, nullptr, 0, &p), cudaErrorInvalidValue);
}
DOC("a value for a condition with flags that do not exist is an invalid value") {
    Graph g;
    cudaGraphConditionalHandle h;
    IS(cudaGraphConditionalHandleCreate(&h, g, 0, 0x80), cudaErrorInvalidValue);
    IS(cudaGraphConditionalHandleCreate(nullptr, g, 0, 0), cudaErrorInvalidValue);
}
DOC("the parameters of batched operations on memory are read back from their node") {
    Graph g;
    Memory m(16);
    CUcontext now;
    OK(cuCtxGetCurrent(&now));
    CUstreamBatchMemOpParams op[2];
    memset(op, 0, sizeof op);
    for (int i = 0; i < 2; i++) {
        op[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        op[i].writeValue.address = m.at() + 4 * i;
        op[i].writeValue.value = 60 + i;
    }
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {now, 2, op, 0}, got = {};
    CUgraphNode n;
    OK(cuGraphAddBatchMemOpNode(&n, g, nullptr, 0, &p));
    OK(cuGraphBatchMemOpNodeGetParams(n, &got));
    HOLDS(got.count == 2 && got.paramArray && got.paramArray[1].writeValue.value == 61);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    go(x);
    HOLDS(value(m.p) == 60 && value(m.ints() + 1) == 61);
    op[0].writeValue.value = 70;
    OK(cuGraphExecBatchMemOpNodeSetParams(x, n, &p));
    go(x);
    HOLDS(value(m.p) == 70);
    OK(cudaGraphExecDestroy(x));
}
DOC("edges between kernels may be programmatic, and are read back as such") {
    Graph g;
    Memory m(4);
    int *p = m.ints(), v = 1;
    void *list[] = {&p, &v};
    cudaKernelNodeParams k = {(void *)put, 1, 1, 0, list, nullptr};
    cudaGraphNode_t a, b;
    OK(cudaGraphAddKernelNode(&a, g, nullptr, 0, &k));
    OK(cudaGraphAddKernelNode(&b, g, nullptr, 0, &k));
    cudaGraphEdgeData e = {}, got = {};
    e.from_port = cudaGraphKernelNodePortProgrammatic;
    e.type = cudaGraphDependencyTypeProgrammatic;
    OK(cudaGraphAddDependencies(g, &a, &b, &e, 1));
    cudaGraphNode_t from, to;
    size_t count = 1;
    OK(cudaGraphGetEdges(g, &from, &to, &got, &count));
    HOLDS(got.from_port == e.from_port && got.type == e.type);
    REFUSED(cudaGraphGetEdges(g, &from, &to, nullptr, &count));
    OK(cudaGraphRemoveDependencies(g, &a, &b, &e, 1));
}
DOC("an edge's reserved bytes must be 0") {
    Graph g;
    cudaGraphNode_t a, b;
    OK(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
    OK(cudaGraphAddEmptyNode(&b, g, nullptr, 0));
    cudaGraphEdgeData e = {};
    e.reserved[0] = 1;
    IS(cudaGraphAddDependencies(g, &a, &b, &e, 1), cudaErrorInvalidValue);
}
