// What CUDA's documentation says of graphs: nodes, edges, copies, what is executable. See doc.h.
#include "doc.h"

typedef std::vector<cudaGraphNode_t> Nodes;

struct Graph {
    cudaGraph_t g = nullptr;
    Graph() { OK(cudaGraphCreate(&g, 0)); }
    ~Graph() { cudaGraphDestroy(g); }
    operator cudaGraph_t() const { return g; }
    cudaGraphNode_t empty(Nodes after = {}) {
        cudaGraphNode_t n = nullptr;
        OK(cudaGraphAddEmptyNode(&n, g, after.data(), after.size()));
        return n;
    }
    cudaGraphNode_t kernel(const void *f, int *p, int v, Nodes after = {}) {
        cudaGraphNode_t n = nullptr;
        void *list[] = {&p, &v};
        cudaKernelNodeParams k = {(void *)f, 1, 1, 0, list, nullptr};
        OK(cudaGraphAddKernelNode(&n, g, after.data(), after.size(), &k));
        return n;
    }
    cudaGraphNode_t memset(void *p, unsigned v, size_t n, Nodes after = {}) {
        cudaGraphNode_t node = nullptr;
        cudaMemsetParams m = {p, 0, v, 4, n, 1};
        OK(cudaGraphAddMemsetNode(&node, g, after.data(), after.size(), &m));
        return node;
    }
    cudaGraphNode_t host(cudaHostFn_t f, void *data, Nodes after = {}) {
        cudaGraphNode_t node = nullptr;
        cudaHostNodeParams h = {f, data};
        OK(cudaGraphAddHostNode(&node, g, after.data(), after.size(), &h));
        return node;
    }
    size_t count() const {
        size_t n = 99;
        OK(cudaGraphGetNodes(g, nullptr, &n));
        return n;
    }
    size_t edges() const {
        size_t n = 99;
        OK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &n));
        return n;
    }
};
struct Exec {
    cudaGraphExec_t x = nullptr;
    explicit Exec(cudaGraph_t g, unsigned long long flags = 0) {
        OK(cudaGraphInstantiate(&x, g, flags));
    }
    ~Exec() { cudaGraphExecDestroy(x); }
    operator cudaGraphExec_t() const { return x; }
    void run() {
        OK(cudaGraphLaunch(x, cudaStreamPerThread));
        OK(cudaStreamSynchronize(cudaStreamPerThread));
    }
};
/// Works in the driver, the simulated one, too, where no kernel of this program does.
struct Counter {
    int *p = nullptr;
    Counter() { OK(cudaMallocHost(&p, 64)), ::memset(p, 0, 64); }
    ~Counter() { cudaFreeHost(p); }
};

DOC("creating a graph with flags, or into NULL, is an invalid value") {
    cudaGraph_t g;
    IS(cudaGraphCreate(&g, 1), cudaErrorInvalidValue);
    IS(cudaGraphCreate(nullptr, 0), cudaErrorInvalidValue);
    IS(cuGraphCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("an empty graph has no nodes and no edges, and can be run") {
    Graph g;
    HOLDS(g.count() == 0 && g.edges() == 0);
    Exec x(g);
    x.run();
}
DOC("each node has the type that it was added as") {
    Graph g, inner;
    Memory m(16);
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    cudaGraphNode_t child, record, wait, copy;
    OK(cudaGraphAddChildGraphNode(&child, g, nullptr, 0, inner));
    OK(cudaGraphAddEventRecordNode(&record, g, nullptr, 0, e));
    OK(cudaGraphAddEventWaitNode(&wait, g, nullptr, 0, e));
    OK(cudaGraphAddMemcpyNode1D(&copy, g, nullptr, 0, m.ints() + 1, m.p, 4,
                                cudaMemcpyDeviceToDevice));
    struct {
        cudaGraphNode_t n;
        cudaGraphNodeType want;
    } all[] = {{g.empty(), cudaGraphNodeTypeEmpty},
               {g.kernel((void *)put, m.ints(), 1), cudaGraphNodeTypeKernel},
               {g.memset(m.p, 1, 1), cudaGraphNodeTypeMemset},
               {g.host(count_up, nullptr), cudaGraphNodeTypeHost},
               {child, cudaGraphNodeTypeGraph},
               {record, cudaGraphNodeTypeEventRecord},
               {wait, cudaGraphNodeTypeWaitEvent},
               {copy, cudaGraphNodeTypeMemcpy}};
    for (auto &a : all) {
        cudaGraphNodeType got;
        OK(cudaGraphNodeGetType(a.n, &got));
        HOLDS(got == a.want);
    }
    OK(cudaEventDestroy(e));
}
DOC("fewer places than nodes: as many as fit; more: the rest are NULL, the count is the nodes'") {
    Graph g;
    auto a = g.empty(), b = g.empty(), c = g.empty();
    cudaGraphNode_t n[5] = {(cudaGraphNode_t)8, (cudaGraphNode_t)8, (cudaGraphNode_t)8,
                            (cudaGraphNode_t)8, (cudaGraphNode_t)8};
    size_t count = 2;
    OK(cudaGraphGetNodes(g, n, &count));
    HOLDS(count == 2 && n[2] == (cudaGraphNode_t)8);
    count = 5;
    OK(cudaGraphGetNodes(g, n, &count));
    HOLDS(count == 3 && n[3] == nullptr && n[4] == nullptr);
    HOLDS(n[0] == a && n[1] == b && n[2] == c);
}
DOC("root nodes are those that depend on nothing") {
    Graph g;
    auto a = g.empty(), b = g.empty({a}), c = g.empty();
    (void)b;
    cudaGraphNode_t n[3] = {};
    size_t count = 3;
    OK(cudaGraphGetRootNodes(g, n, &count));
    HOLDS(count == 2 && n[2] == nullptr);
    HOLDS((n[0] == a && n[1] == c) || (n[0] == c && n[1] == a));
}
DOC("dependencies and dependent nodes of a node are its edges") {
    Graph g;
    auto a = g.empty(), b = g.empty(), c = g.empty({a, b}), d = g.empty({c});
    cudaGraphNode_t n[3] = {};
    size_t count = 3;
    OK(cudaGraphNodeGetDependencies(c, n, nullptr, &count));
    HOLDS(count == 2 && (n[0] == a || n[0] == b) && (n[1] == a || n[1] == b) && n[0] != n[1]);
    count = 3;
    OK(cudaGraphNodeGetDependentNodes(c, n, nullptr, &count));
    HOLDS(count == 1 && n[0] == d);
    count = 7;
    OK(cudaGraphNodeGetDependencies(a, nullptr, nullptr, &count));
    HOLDS(count == 0);
}
DOC("edges can be added and removed") {
    Graph g;
    auto a = g.empty(), b = g.empty();
    OK(cudaGraphAddDependencies(g, &a, &b, nullptr, 1));
    HOLDS(g.edges() == 1);
    cudaGraphNode_t from = nullptr, to = nullptr;
    size_t count = 1;
    OK(cudaGraphGetEdges(g, &from, &to, nullptr, &count));
    HOLDS(count == 1 && from == a && to == b);
    OK(cudaGraphRemoveDependencies(g, &a, &b, nullptr, 1));
    HOLDS(g.edges() == 0);
}
DOC("adding no edges is fine") {
    Graph g;
    OK(cudaGraphAddDependencies(g, nullptr, nullptr, nullptr, 0));
    OK(cudaGraphRemoveDependencies(g, nullptr, nullptr, nullptr, 0));
}
DOC("adding an edge that there is, removing one that there is not: an error") {
    Graph g;
    auto a = g.empty(), b = g.empty();
    OK(cudaGraphAddDependencies(g, &a, &b, nullptr, 1));
    IS(cudaGraphAddDependencies(g, &a, &b, nullptr, 1), cudaErrorInvalidValue);
    HOLDS(g.edges() == 1);
    IS(cudaGraphRemoveDependencies(g, &b, &a, nullptr, 1), cudaErrorInvalidValue);
    HOLDS(g.edges() == 1);
}
DOC("an edge from a node to itself is an invalid value") {
    Graph g;
    auto a = g.empty();
    IS(cudaGraphAddDependencies(g, &a, &a, nullptr, 1), cudaErrorInvalidValue);
}
DOC("a graph with a cycle cannot be instantiated") {
    Graph g;
    auto a = g.empty(), b = g.empty({a});
    cudaError_t added = cudaGraphAddDependencies(g, &b, &a, nullptr, 1);
    cudaGraphExec_t x;
    if (added == cudaSuccess) IS(cudaGraphInstantiate(&x, g, 0), cudaErrorInvalidValue);
}
DOC("an edge to a node of another graph is an invalid value") {
    Graph g, other;
    auto a = g.empty(), b = other.empty();
    IS(cudaGraphAddDependencies(g, &a, &b, nullptr, 1), cudaErrorInvalidValue);
    cudaGraphNode_t n;
    IS(cudaGraphAddEmptyNode(&n, g, &b, 1), cudaErrorInvalidValue);
    HOLDS(g.count() == 1);
}
DOC("a dependency may not be given twice") {
    Graph g;
    auto a = g.empty();
    cudaGraphNode_t twice[] = {a, a}, n;
    IS(cudaGraphAddEmptyNode(&n, g, twice, 2), cudaErrorInvalidValue);
    HOLDS(g.count() == 1);
}
DOC("destroying a node removes its edges") {
    Graph g;
    auto a = g.empty(), b = g.empty({a}), c = g.empty({b});
    (void)c;
    OK(cudaGraphDestroyNode(b));
    HOLDS(g.count() == 2 && g.edges() == 0);
}
DOC("a clone is a copy: changes of either do not reach the other") {
    Graph g;
    auto a = g.empty();
    cudaGraph_t clone;
    OK(cudaGraphClone(&clone, g));
    g.empty({a});
    size_t n = 9;
    OK(cudaGraphGetNodes(clone, nullptr, &n));
    HOLDS(n == 1 && g.count() == 2);
    OK(cudaGraphDestroy(clone));
    HOLDS(g.count() == 2);
}
DOC("a node is found in a clone, unless it came later or the graph is no clone") {
    Graph g, other;
    auto a = g.empty(), b = g.empty({a});
    cudaGraph_t clone;
    OK(cudaGraphClone(&clone, g));
    cudaGraphNode_t found = nullptr, dep = nullptr, fa = nullptr;
    OK(cudaGraphNodeFindInClone(&found, b, clone));
    OK(cudaGraphNodeFindInClone(&fa, a, clone));
    size_t one = 1;
    OK(cudaGraphNodeGetDependencies(found, &dep, nullptr, &one));
    HOLDS(found != b && fa != a && dep == fa);
    auto later = g.empty();
    IS(cudaGraphNodeFindInClone(&found, later, clone), cudaErrorInvalidValue);
    IS(cudaGraphNodeFindInClone(&found, a, other), cudaErrorInvalidValue);
    OK(cudaGraphDestroy(clone));
}
DOC("a child graph is cloned when it is added, and its node gives the clone") {
    Graph g, inner;
    auto a = inner.empty();
    cudaGraphNode_t child;
    OK(cudaGraphAddChildGraphNode(&child, g, nullptr, 0, inner));
    inner.empty({a});
    cudaGraph_t got = nullptr;
    OK(cudaGraphChildGraphNodeGetGraph(child, &got));
    size_t n = 9;
    OK(cudaGraphGetNodes(got, nullptr, &n));
    HOLDS(got != inner.g && n == 1);
}
DOC("the child graph of a node may be changed before the parent is instantiated") {
    Graph g, inner;
    Counter c;
    cudaGraphNode_t child, n;
    OK(cudaGraphAddChildGraphNode(&child, g, nullptr, 0, inner));
    cudaGraph_t got;
    OK(cudaGraphChildGraphNodeGetGraph(child, &got));
    cudaHostNodeParams h = {[](void *p) { ++*(int *)p; }, c.p};
    OK(cudaGraphAddHostNode(&n, got, nullptr, 0, &h));
    Exec x(g);
    x.run();
    HOLDS(*c.p == 1);
}
DOC("nodes run in the order of their edges") {
    Graph g;
    static std::vector<int> order;
    order.clear();
    auto a = g.host([](void *) { usleep(5000), order.push_back(1); }, nullptr);
    auto b = g.host([](void *) { order.push_back(2); }, nullptr, {a});
    g.host([](void *) { order.push_back(3); }, nullptr, {a, b});
    Exec x(g);
    x.run();
    HOLDS((order == std::vector<int>{1, 2, 3}));
}
DOC("launches of one executable graph do not run beside each other, whatever their streams") {
    Graph g;
    static std::atomic<int> inside, most;
    inside = most = 0;
    g.host(
        [](void *) {
            int now = ++inside;
            if (now > most) most = now;
            usleep(5000);
            --inside;
        },
        nullptr);
    Exec x(g);
    Stream s, t;
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(x, s));
        OK(cudaGraphLaunch(x, t));
    }
    OK(cudaDeviceSynchronize());
    HOLDS(most == 1);
}
DOC("a graph runs behind the work of its stream and before the work behind it") {
    Graph g;
    Counter c;
    g.host([](void *p) { *(int *)p = *(int *)p * 10 + 2; }, c.p);
    Exec x(g);
    Stream s;
    OK(cudaLaunchHostFunc(s, [](void *p) { usleep(5000), *(int *)p = 1; }, c.p));
    OK(cudaGraphLaunch(x, s));
    OK(cudaLaunchHostFunc(s, [](void *p) { *(int *)p = *(int *)p * 10 + 3; }, c.p));
    OK(cudaStreamSynchronize(s));
    HOLDS(*c.p == 123);
}
DOC("a graph may be destroyed once it is instantiated") {
    cudaGraphExec_t x;
    Counter c;
    {
        Graph g;
        g.host([](void *p) { ++*(int *)p; }, c.p);
        OK(cudaGraphInstantiate(&x, g, 0));
    }
    OK(cudaGraphLaunch(x, cudaStreamPerThread));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    HOLDS(*c.p == 1);
    OK(cudaGraphExecDestroy(x));
}
DOC("an executable graph may be destroyed while it runs: it runs to its end") {
    Graph g;
    Counter c;
    Stream s;
    g.host([](void *p) { usleep(2000), ++*(int *)p; }, c.p);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    {
        Held h(s);
        OK(cudaGraphLaunch(x, s));
        OK(cudaGraphExecDestroy(x));
    }
    OK(cudaStreamSynchronize(s));
    HOLDS(*c.p == 1);
}
DOC("changes of a graph do not reach what was instantiated of it") {
    Graph g;
    Counter c;
    auto a = g.host([](void *p) { ++*(int *)p; }, c.p);
    Exec x(g);
    g.host([](void *p) { *(int *)p += 100; }, c.p, {a});
    x.run();
    HOLDS(*c.p == 1);
}
DOC("instantiating with flags that do not exist, or into NULL, is an invalid value") {
    Graph g;
    cudaGraphExec_t x;
    IS(cudaGraphInstantiate(&x, g, 1ull << 20), cudaErrorInvalidValue);
    IS(cudaGraphInstantiate(nullptr, g, 0), cudaErrorInvalidValue);
}
DOC("what flags an executable graph has") {
    Graph g;
    for (unsigned long long f : {0ull, (unsigned long long)cudaGraphInstantiateFlagAutoFreeOnLaunch,
                                 (unsigned long long)cudaGraphInstantiateFlagUseNodePriority}) {
        Exec x(g, f);
        unsigned long long got = 99;
        OK(cudaGraphExecGetFlags(x, &got));
        told_(std::to_string(got).c_str());
    }
}
DOC("a graph can be uploaded ahead of its launch") {
    Graph g;
    Counter c;
    g.host([](void *p) { ++*(int *)p; }, c.p);
    Exec x(g);
    OK(cudaGraphUpload(x, cudaStreamPerThread));
    x.run();
    HOLDS(*c.p == 1);
}
DOC("instantiation with parameters says success, and uploads into the stream it is given") {
    Graph g;
    g.empty();
    Stream s;
    cudaGraphInstantiateParams how = {};
    how.flags = cudaGraphInstantiateFlagUpload;
    how.uploadStream = s;
    how.result_out = cudaGraphInstantiateError;
    cudaGraphExec_t x;
    OK(cudaGraphInstantiateWithParams(&x, g, &how));
    HOLDS(how.result_out == cudaGraphInstantiateSuccess);
    OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaGraphExecDestroy(x));
}
DOC("an update with a graph of the same shape changes what is executed") {
    Counter c;
    Graph g, h;
    g.host([](void *p) { *(int *)p = 1; }, c.p);
    h.host([](void *p) { *(int *)p = 2; }, c.p);
    Exec x(g);
    cudaGraphExecUpdateResultInfo r = {};
    OK(cudaGraphExecUpdate(x, h, &r));
    HOLDS(r.result == cudaGraphExecUpdateSuccess);
    x.run();
    HOLDS(*c.p == 2);
}
DOC("an update with a graph of another shape fails, and says topology") {
    Graph g, h;
    auto a = g.empty();
    g.empty({a});
    h.empty();
    Exec x(g);
    cudaGraphExecUpdateResultInfo r = {};
    IS(cudaGraphExecUpdate(x, h, &r), cudaErrorGraphExecUpdateFailure);
    HOLDS(r.result == cudaGraphExecUpdateErrorTopologyChanged);
    x.run();
}
DOC("an update with a node of another type fails, says so, and names the node") {
    Counter c;
    Graph g, h;
    g.empty();
    auto n = h.host([](void *) {}, c.p);
    Exec x(g);
    cudaGraphExecUpdateResultInfo r = {};
    IS(cudaGraphExecUpdate(x, h, &r), cudaErrorGraphExecUpdateFailure);
    HOLDS(r.result == cudaGraphExecUpdateErrorNodeTypeChanged && r.errorNode == n);
}
DOC("a kernel node's parameters are what it was added with, until they are set") {
    Graph g;
    Memory m(4);
    auto n = g.kernel((void *)put, m.ints(), 31);
    cudaKernelNodeParams k = {};
    OK(cudaGraphKernelNodeGetParams(n, &k));
    HOLDS(k.func == (void *)put && k.gridDim.x == 1 && k.blockDim.x == 1);
    HOLDS(k.sharedMemBytes == 0 && k.kernelParams && *(int *)k.kernelParams[1] == 31);
    k.gridDim.x = 3;
    OK(cudaGraphKernelNodeSetParams(n, &k));
    cudaKernelNodeParams again = {};
    OK(cudaGraphKernelNodeGetParams(n, &again));
    HOLDS(again.gridDim.x == 3 && *(int *)again.kernelParams[1] == 31);
}
DOC("a kernel node of an executable graph is changed there only") {
    Graph g;
    Memory m(4);
    auto n = g.kernel((void *)put, m.ints(), 31);
    Exec x(g);
    int *p = m.ints(), v = 32;
    void *list[] = {&p, &v};
    cudaKernelNodeParams k = {(void *)put, 1, 1, 0, list, nullptr}, got = {};
    OK(cudaGraphExecKernelNodeSetParams(x, n, &k));
    OK(cudaGraphKernelNodeGetParams(n, &got));
    HOLDS(*(int *)got.kernelParams[1] == 31);
    x.run();
    HOLDS(value(m.p) == 32);
}
DOC("a node that is not in the graph cannot be set in what was instantiated of it") {
    Graph g, other;
    Counter c;
    g.host([](void *) {}, nullptr);
    auto n = other.host([](void *) {}, nullptr);
    Exec x(g);
    cudaHostNodeParams h = {[](void *) {}, c.p};
    IS(cudaGraphExecHostNodeSetParams(x, n, &h), cudaErrorInvalidValue);
}
DOC("a host node's parameters are read back as they were set, and set in what is executable") {
    Counter c;
    Graph g;
    cudaHostFn_t one = [](void *p) { *(int *)p = 1; }, two = [](void *p) { *(int *)p = 2; };
    auto n = g.host(one, c.p);
    cudaHostNodeParams got = {};
    OK(cudaGraphHostNodeGetParams(n, &got));
    HOLDS(got.fn == one && got.userData == c.p);
    Exec x(g);
    cudaHostNodeParams h = {two, c.p + 1};
    OK(cudaGraphExecHostNodeSetParams(x, n, &h));
    x.run();
    HOLDS(c.p[0] == 0 && c.p[1] == 2);
    OK(cudaGraphHostNodeSetParams(n, &h));
    OK(cudaGraphHostNodeGetParams(n, &got));
    HOLDS(got.fn == two && got.userData == c.p + 1);
}
DOC("a memset node's parameters are read back as they were set, and run") {
    Memory m(64);
    Graph g;
    auto n = g.memset(m.p, 0x01020304, 4);
    cudaMemsetParams got = {};
    OK(cudaGraphMemsetNodeGetParams(n, &got));
    HOLDS(got.dst == m.p && got.value == 0x01020304 && got.elementSize == 4 && got.width == 4);
    Exec x(g);
    x.run();
    HOLDS(value(m.ints() + 3) == 0x01020304);
    got.value = 9;
    OK(cudaGraphExecMemsetNodeSetParams(x, n, &got));
    x.run();
    HOLDS(value(m.p) == 9);
}
DOC("a memset node with elements of another size than 1, 2 or 4 is an invalid value") {
    Memory m(64);
    Graph g;
    cudaGraphNode_t n;
    cudaMemsetParams p = {m.p, 0, 1, 3, 4, 1};
    IS(cudaGraphAddMemsetNode(&n, g, nullptr, 0, &p), cudaErrorInvalidValue);
    HOLDS(g.count() == 0);
}
DOC("a copy node copies, and its source can be changed in what is executable") {
    Memory m(64);
    Counter c;
    c.p[0] = 5, c.p[1] = 6;
    Graph g;
    cudaGraphNode_t n;
    OK(cudaGraphAddMemcpyNode1D(&n, g, nullptr, 0, m.p, c.p, 4, cudaMemcpyHostToDevice));
    Exec x(g);
    x.run();
    HOLDS(value(m.p) == 5);
    OK(cudaGraphExecMemcpyNodeSetParams1D(x, n, m.p, c.p + 1, 4, cudaMemcpyHostToDevice));
    x.run();
    HOLDS(value(m.p) == 6);
    c.p[1] = 7;
    x.run();
    HOLDS(value(m.p) == 7);
}
DOC("a copy node of three dimensions gives its parameters back") {
    Memory m(64), o(64);
    Graph g;
    cudaGraphNode_t n;
    cudaMemcpy3DParms p = {}, got = {};
    p.srcPtr = make_cudaPitchedPtr(m.p, 16, 16, 4);
    p.dstPtr = make_cudaPitchedPtr(o.p, 16, 16, 4);
    p.extent = make_cudaExtent(16, 4, 1);
    p.kind = cudaMemcpyDeviceToDevice;
    OK(cudaGraphAddMemcpyNode(&n, g, nullptr, 0, &p));
    OK(cudaGraphMemcpyNodeGetParams(n, &got));
    HOLDS(got.srcPtr.ptr == m.p && got.dstPtr.ptr == o.p && got.extent.height == 4);
    HOLDS(got.extent.width == 16 && got.kind == cudaMemcpyDeviceToDevice);
}
DOC("a node that is disabled is not run until it is enabled again") {
    Memory m(8);
    OK(cudaMemset(m.p, 0, 8));
    Graph g;
    auto n = g.memset(m.p, 1, 1);
    g.memset(m.ints() + 1, 1, 1, {n});
    Exec x(g);
    unsigned on = 9;
    OK(cudaGraphNodeGetEnabled(x, n, &on));
    HOLDS(on == 1);
    OK(cudaGraphNodeSetEnabled(x, n, 0));
    OK(cudaGraphNodeGetEnabled(x, n, &on));
    HOLDS(on == 0);
    x.run();
    HOLDS(value(m.p) == 0 && value(m.ints() + 1) == 1);
    OK(cudaGraphNodeSetEnabled(x, n, 1));
    x.run();
    HOLDS(value(m.p) == 1);
}
DOC("only kernel, memset and copy nodes can be disabled") {
    Graph g;
    auto n = g.host([](void *) {}, nullptr);
    Exec x(g);
    IS(cudaGraphNodeSetEnabled(x, n, 0), cudaErrorInvalidValue);
}
DOC("event nodes have their events, which can be set") {
    Graph g;
    cudaEvent_t a, b, got = nullptr;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    cudaGraphNode_t record, wait;
    OK(cudaGraphAddEventRecordNode(&record, g, nullptr, 0, a));
    OK(cudaGraphAddEventWaitNode(&wait, g, nullptr, 0, a));
    OK(cudaGraphEventRecordNodeGetEvent(record, &got));
    HOLDS(got == a);
    OK(cudaGraphEventRecordNodeSetEvent(record, b));
    OK(cudaGraphEventRecordNodeGetEvent(record, &got));
    HOLDS(got == b);
    OK(cudaGraphEventWaitNodeGetEvent(wait, &got));
    HOLDS(got == a);
    Exec x(g);
    x.run();
    OK(cudaEventQuery(b));
    OK(cudaGraphExecEventRecordNodeSetEvent(x, record, a));
    x.run();
    OK(cudaEventSynchronize(a));
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
}
DOC("a graph's event is recorded when the graph runs") {
    Graph g;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    cudaGraphNode_t record;
    auto slow = g.host([](void *) { usleep(20000); }, nullptr);
    OK(cudaGraphAddEventRecordNode(&record, g, &slow, 1, e));
    Exec x(g);
    OK(cudaEventQuery(e));
    OK(cudaGraphLaunch(x, cudaStreamPerThread));
    IS(cudaEventQuery(e), cudaErrorNotReady);
    OK(cudaEventSynchronize(e));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaEventDestroy(e));
}
DOC("a kernel node's attributes are what was set, are copied, and go along with a clone") {
    Graph g;
    Memory m(4);
    auto n = g.kernel((void *)put, m.ints(), 1), o = g.kernel((void *)put, m.ints(), 2);
    cudaKernelNodeAttrValue v = {}, w = {};
    v.priority = -2;
    OK(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributePriority, &v));
    OK(cudaGraphKernelNodeGetAttribute(n, cudaLaunchAttributePriority, &w));
    HOLDS(w.priority == -2);
    OK(cudaGraphKernelNodeCopyAttributes(o, n));
    w = {};
    OK(cudaGraphKernelNodeGetAttribute(o, cudaLaunchAttributePriority, &w));
    HOLDS(w.priority == -2);
    cudaGraph_t clone;
    cudaGraphNode_t found;
    OK(cudaGraphClone(&clone, g));
    OK(cudaGraphNodeFindInClone(&found, n, clone));
    w = {};
    OK(cudaGraphKernelNodeGetAttribute(found, cudaLaunchAttributePriority, &w));
    HOLDS(w.priority == -2);
    OK(cudaGraphDestroy(clone));
}
DOC("attributes of a node that is no kernel are refused") {
    Graph g;
    auto n = g.empty();
    cudaKernelNodeAttrValue v = {};
    REFUSED(cudaGraphKernelNodeGetAttribute(n, cudaLaunchAttributePriority, &v));
    cudaKernelNodeParams k = {};
    REFUSED(cudaGraphKernelNodeGetParams(n, &k));
}
DOC("a captured kernel has the attributes of its launch and its stream") {
    int least, greatest;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t s;
    OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
    Memory m(4);
    cudaLaunchAttribute a[1];
    a[0].id = cudaLaunchAttributeCooperative;
    a[0].val.cooperative = 1;
    cudaLaunchConfig_t how = {1, 1, 0, s, a, 1};
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    OK(cudaLaunchKernelEx(&how, put, m.ints(), 5));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    cudaGraphNode_t n;
    size_t one = 1;
    OK(cudaGraphGetNodes(g, &n, &one));
    cudaKernelNodeAttrValue v = {};
    OK(cudaGraphKernelNodeGetAttribute(n, cudaLaunchAttributeCooperative, &v));
    HOLDS(v.cooperative == 1);
    v = {};
    OK(cudaGraphKernelNodeGetAttribute(n, cudaLaunchAttributePriority, &v));
    HOLDS(v.priority == greatest);
    OK(cudaGraphDestroy(g));
    OK(cudaStreamDestroy(s));
}
DOC("a node is added and set by its general parameters, too") {
    Counter c;
    Graph g;
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeHost;
    p.host.fn = [](void *at) { *(int *)at = 4; };
    p.host.userData = c.p;
    cudaGraphNode_t n;
    OK(cudaGraphAddNode(&n, g, nullptr, nullptr, 0, &p));
    Exec x(g);
    x.run();
    HOLDS(*c.p == 4);
    p.host.userData = c.p + 1;
    OK(cudaGraphExecNodeSetParams(x, n, &p));
    x.run();
    HOLDS(c.p[1] == 4);
    p = {};
    p.type = (cudaGraphNodeType)99;
    IS(cudaGraphAddNode(&n, g, nullptr, nullptr, 0, &p), cudaErrorInvalidValue);
}
DOC("destroying nothing is refused") {
    REFUSED(cudaGraphDestroy(nullptr));
    cudaGetLastError();
    REFUSED(cudaGraphExecDestroy(nullptr));
    cudaGetLastError();
    REFUSED(cudaGraphDestroyNode(nullptr));
    REFUSED(cudaGraphLaunch(nullptr, nullptr));
}
DOC("a graph's picture is written to the file that is named") {
    Graph g;
    auto a = g.empty();
    g.empty({a});
    char path[64];
    snprintf(path, sizeof path, "/tmp/doc_graphs.%d.dot", (int)getpid());
    OK(cudaGraphDebugDotPrint(g, path, 0));
    FILE *f = fopen(path, "r");
    HOLDS(f != nullptr);
    char line[64] = "";
    if (f) {
        HOLDS(fgets(line, sizeof line, f) && !strncmp(line, "digraph", 7));
        fclose(f);
    }
    unlink(path);
}
DOC("an executable graph is changed for launches to come, not for those that are queued") {
    Memory m(4);
    Counter c;
    Stream s;
    Graph g;
    auto n = g.memset(m.p, 1, 1);
    Exec x(g);
    cudaMemsetParams p = {m.p, 0, 2, 4, 1, 1};
    {
        Held h(s);
        OK(cudaGraphLaunch(x, s));
        OK(cudaMemcpyAsync(c.p, m.p, 4, cudaMemcpyDeviceToHost, s));
        OK(cudaGraphExecMemsetNodeSetParams(x, n, &p));
        OK(cudaGraphLaunch(x, s));
        OK(cudaMemcpyAsync(c.p + 1, m.p, 4, cudaMemcpyDeviceToHost, s));
    }
    HOLDS(c.p[0] == 1 && c.p[1] == 2);
}
DOC("a graph of a thousand nodes runs them all") {
    Graph g;
    Memory m(4000);
    cudaGraphNode_t last = nullptr;
    for (int i = 0; i < 1000; i++)
        last = g.memset(m.ints() + i, i, 1, last ? Nodes{last} : Nodes{});
    HOLDS(g.count() == 1000 && g.edges() == 999);
    Exec x(g);
    x.run();
    std::vector<int> v(1000);
    OK(cudaMemcpy(v.data(), m.p, 4000, cudaMemcpyDeviceToHost));
    bool same = true;
    for (int i = 0; i < 1000; i++) same &= v[i] == i;
    HOLDS(same);
}
