// The steps of a program made at random that make graphs, change them and launch them.
#pragma once
#include "random_steps.h"

namespace {

/// A few pieces for a graph to work on.
std::vector<int> some_pieces(Program &p) {
    std::vector<int> some;
    for (unsigned i = 0; i < 7; i++) {
        int id = p.random.one(p.live);
        if (std::find(some.begin(), some.end(), id) == some.end()) some.push_back(id);
    }
    return some;
}

/// Instantiates what was made, says of what it consists, and keeps it.
void keep(Program &p, cudaGraph_t graph, const Touch &t, int device) {
    size_t nodes = 0, edges = 0;
    cudaGraphExec_t exec = nullptr;
    p.told(cudaGraphGetNodes(graph, nullptr, &nodes), "nodes");
    p.told(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), "edges");
    p.say("a graph of %zu nodes, %zu edges", nodes, edges);
    unsigned long long flags = p.random.chance(20) ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0;
    if (p.told(cudaGraphInstantiate(&exec, graph, flags), "instantiate") != cudaSuccess ||
        t.writes.empty()) {
        if (exec) p.told(cudaGraphExecDestroy(exec), "destroy an executable");
        p.told(cudaGraphDestroy(graph), "destroy a graph");
        return;
    }
    p.graphs.push_back({graph, exec, t.reads, t.writes, device});
}

void launch_graph(Program &p, Graph &g) {
    Lane &lane = p.lane_if(false, g.device);
    // A launch reads pageable memory at once, whatever its stream has to do before.
    for (int id : g.reads)
        if (p.pieces[id].kind == PAGEABLE) p.ready_host({id}, {});
    p.ready(p.order, lane, g.reads, g.writes);
    p.stray();
    if (p.random.chance(20)) p.told(cudaGraphUpload(g.exec, lane.stream), "upload");
    p.told(cudaGraphLaunch(g.exec, lane.stream), "launch a graph");
    p.put(p.order, lane, g.reads, g.writes);
}

void step_launch(Program &p) {
    if (!p.graphs.empty()) launch_graph(p, p.random.one(p.graphs));
}

/// What is put into one or several streams becomes a graph.
void step_capture(Program &p) {
    // Other threads wait for the whole device, which a capture forbids them.
    if (p.graphs.size() > 6 || !p.alone) return;
    auto among = some_pieces(p);
    Lane *first = &p.lane_if(true);
    auto mode = p.random.of({cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                             cudaStreamCaptureModeRelaxed});
    Order inner;
    std::vector<Lane *> lanes{first};
    std::vector<int> ids;
    for (Lane &l : p.lanes) {
        bool can = l.alive && !l.legacy && l.device == first->device;
        if (&l != first && can && lanes.size() < 3 && p.random.chance(40))
            lanes.push_back(&l);
    }
    // While it lasts, numbers of lanes are those of its own order.
    for (Lane *l : lanes) {
        ids.push_back(l->id);
        l->id = inner.add_lane();
    }
    std::vector<std::pair<Lane *, int>> others;
    for (Lane &l : p.lanes)
        if (std::find(lanes.begin(), lanes.end(), &l) == lanes.end())
            others.push_back({&l, l.id}), l.id = -1;
    Touch all;
    cudaGraph_t graph = nullptr;
    cudaEvent_t e = p.event(first->device);
    cudaError_t rc = p.told(cudaStreamBeginCapture(first->stream, mode), "begin to capture");
    if (rc == cudaSuccess) {
        p.told(cudaEventRecord(e, first->stream), "fork");
        for (size_t i = 1; i < lanes.size(); i++)
            p.told(cudaStreamWaitEvent(lanes[i]->stream, e, 0), "wait for the fork");
        for (unsigned i = 1 + p.random.below(8); i-- > 0;) {
            work(p, inner, *p.random.one(lanes), among, &all, true);
            if (p.random.chance(3)) p.told(cudaStreamSynchronize(first->stream), "wait meanwhile");
            if (p.random.chance(3)) p.told(cudaStreamQuery(first->stream), "ask meanwhile");
            cudaStreamCaptureStatus status;
            if (p.random.chance(10) &&
                !p.told(cudaStreamIsCapturing(first->stream, &status), "is it captured"))
                p.say("status %d", status);
        }
        bool joins = !p.random.chance(4);
        for (size_t i = 1; i < lanes.size() && joins; i++) {
            p.told(cudaEventRecord(e, lanes[i]->stream), "record to join");
            p.told(cudaStreamWaitEvent(first->stream, e, 0), "join");
        }
        rc = p.told(cudaStreamEndCapture(first->stream, &graph), "end the capture");
        cudaStreamCaptureStatus status;
        for (Lane *l : lanes)
            if (!p.told(cudaStreamIsCapturing(l->stream, &status), "still")) p.say("is %d", status);
    }
    for (size_t i = 0; i < lanes.size(); i++) lanes[i]->id = ids[i];
    for (auto &other : others) other.first->id = other.second;
    if (rc == cudaSuccess && graph) keep(p, graph, all, first->device);
}

/// A graph made node by node, each behind those with which it conflicts.
void step_build(Program &p) {
    if (p.graphs.size() > 6) return;
    auto among = some_pieces(p);
    int device = p.devices > 1 ? (int)p.random.below(p.devices) : 0;
    p.use(device);
    cudaGraph_t graph = nullptr;
    p.told(cudaGraphCreate(&graph, 0), "create a graph");
    Order inner;
    std::vector<cudaGraphNode_t> nodes;
    Touch all;
    for (unsigned i = 1 + p.random.below(7); i-- > 0;) {
        int out = p.near_piece_if(on_device, among, device);
        int a = p.near_piece_if(on_device, among, device, out);
        int host = p.piece_if(on_host, among);
        if (out < 0 || a < 0) continue;
        int seen = p.piece_if(on_host, among, host);
        unsigned what = p.random.below(8);
        if (what == 2 && (host < 0 || seen < 0)) what = 0;
        if (what == 1) out = p.own_piece_if(on_device, among, device);
        if (out < 0) continue;
        if (what == 2) out = host, a = seen;
        Touch t{{a}, {out}};
        if (what == 1) t.reads.clear();
        int lane = inner.add_lane();
        std::vector<cudaGraphNode_t> after;
        for (int other : inner.before(lane, t.reads, t.writes)) after.push_back(nodes[other]);
        inner.put(lane, t.reads, t.writes);
        for (size_t other = 0; other < nodes.size(); other++)
            if (std::find(after.begin(), after.end(), nodes[other]) != after.end())
                inner.waits(lane, inner.recorded((int)other));
        Piece &o1 = p.pieces[out], &a1 = p.pieces[a];
        unsigned n = std::min(o1.n, a1.n), seed = p.random.below(1 << 20);
        Mix m{o1.p, a1.p, a1.p, o1.n, a1.n, a1.n, seed};
        cudaGraphNode_t node = nullptr;
        switch (what) {
        case 1: {
            cudaMemsetParams s{};
            s.dst = o1.p;
            s.elementSize = 4;
            s.value = seed;
            s.width = 1 + p.random.below(o1.n);
            s.height = 1;
            p.told(cudaGraphAddMemsetNode(&node, graph, after.data(), after.size(), &s),
                   "add a set");
            break;
        }
        case 2: {
            m.n = std::min(m.n, 3000u);
            p.chores.push_back({m});
            cudaHostNodeParams s{run_chore, &p.chores.back()};
            p.told(cudaGraphAddHostNode(&node, graph, after.data(), after.size(), &s),
                   "add a host function");
            break;
        }
        case 3:
            p.told(cudaGraphAddMemcpyNode1D(&node, graph, after.data(), after.size(), o1.p, a1.p,
                                            4ul * n, cudaMemcpyDefault),
                   "add a copy");
            break;
        case 4: {
            cudaGraph_t child = nullptr;
            cudaGraphNode_t inside[2];
            void *arguments[] = {&m.out, &m.a, &m.b, &m.n, &m.na, &m.nb, &m.seed};
            cudaKernelNodeParams k{(void *)mix, dim3(2), dim3(64), 0, arguments, nullptr};
            p.told(cudaGraphCreate(&child, 0), "create a child");
            p.told(cudaGraphAddKernelNode(&inside[0], child, nullptr, 0, &k), "add a kernel there");
            p.told(cudaGraphAddKernelNode(&inside[1], child, inside, 1, &k), "add another");
            p.told(cudaGraphAddChildGraphNode(&node, graph, after.data(), after.size(), child),
                   "add the child");
            p.told(cudaGraphDestroy(child), "destroy the child");
            break;
        }
        case 5: {
            // Memory of the graph's own: filled, used, and given back.
            cudaMemAllocNodeParams own{};
            own.poolProps.allocType = cudaMemAllocationTypePinned;
            own.poolProps.location = {cudaMemLocationTypeDevice, device};
            own.bytesize = 4ul * a1.n;
            cudaGraphNode_t made, filled, used;
            if (p.told(cudaGraphAddMemAllocNode(&made, graph, after.data(), after.size(), &own),
                       "add memory"))
                break;
            p.told(cudaGraphAddMemcpyNode1D(&filled, graph, &made, 1, own.dptr, a1.p, 4ul * a1.n,
                                            cudaMemcpyDefault),
                   "add a copy to it");
            m.a = m.b = (unsigned *)own.dptr;
            void *arguments[] = {&m.out, &m.a, &m.b, &m.n, &m.na, &m.nb, &m.seed};
            cudaKernelNodeParams k{(void *)mix, dim3(2), dim3(128), 0, arguments, nullptr};
            p.told(cudaGraphAddKernelNode(&used, graph, &filled, 1, &k), "add a kernel on it");
            p.told(cudaGraphAddMemFreeNode(&node, graph, &used, 1, own.dptr), "add its end");
            break;
        }
        default: {
            void *arguments[] = {&m.out, &m.a, &m.b, &m.n, &m.na, &m.nb, &m.seed};
            cudaKernelNodeParams k{(void *)mix, dim3(3), dim3(128), 0, arguments, nullptr};
            p.told(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &k),
                   "add a kernel");
        }
        }
        nodes.push_back(node);
        all.reads.insert(all.reads.end(), t.reads.begin(), t.reads.end());
        all.writes.insert(all.writes.end(), t.writes.begin(), t.writes.end());
    }
    keep(p, graph, all, device);
}

/// Another number for a kernel or a set of an executable graph, or all that a changed graph has.
void step_change(Program &p) {
    if (p.graphs.empty()) return;
    Graph &g = p.random.one(p.graphs);
    p.use(g.device);
    size_t count = 0;
    p.told(cudaGraphGetNodes(g.graph, nullptr, &count), "nodes");
    std::vector<cudaGraphNode_t> nodes(count);
    if (!count) return;
    p.told(cudaGraphGetNodes(g.graph, nodes.data(), &count), "nodes");
    bool whole = p.random.chance(30);
    for (cudaGraphNode_t node : nodes) {
        cudaGraphNodeType type;
        if (p.told(cudaGraphNodeGetType(node, &type), "type")) continue;
        p.say("of type %d", type);
        if (type == cudaGraphNodeTypeKernel) {
            cudaKernelNodeParams k{};
            if (p.told(cudaGraphKernelNodeGetParams(node, &k), "parameters")) continue;
            if (k.func != (void *)mix || !k.kernelParams) continue;
            p.say("%u blocks of %u with %08x", k.gridDim.x, k.blockDim.x,
                  *(unsigned *)k.kernelParams[6]);
            unsigned seed = p.random.below(1000);
            void *arguments[7];
            std::copy(k.kernelParams, k.kernelParams + 7, arguments);
            arguments[6] = &seed;
            k.kernelParams = arguments;
            k.gridDim.x = 1 + p.random.below(5);
            if (whole) p.told(cudaGraphKernelNodeSetParams(node, &k), "change a kernel");
            else p.told(cudaGraphExecKernelNodeSetParams(g.exec, node, &k), "change one's kernel");
        } else if (type == cudaGraphNodeTypeMemset) {
            cudaMemsetParams s{};
            if (p.told(cudaGraphMemsetNodeGetParams(node, &s), "parameters")) continue;
            p.say("%zu of %u, %zu rows, pitch %zu, value %u", s.width, s.elementSize, s.height,
                  s.height > 1 ? s.pitch : 0, s.value);
            s.value = p.random.below(200);
            if (whole) p.told(cudaGraphMemsetNodeSetParams(node, &s), "change a set");
            else p.told(cudaGraphExecMemsetNodeSetParams(g.exec, node, &s), "change one's set");
        } else if (type == cudaGraphNodeTypeMemcpy) {
            cudaMemcpy3DParms c{};
            if (p.told(cudaGraphMemcpyNodeGetParams(node, &c), "parameters")) continue;
            p.say("%zu %zu %zu, kind %d", c.extent.width, c.extent.height, c.extent.depth, c.kind);
        } else if (!whole && type == cudaGraphNodeTypeHost && p.random.chance(50)) {
            unsigned on = 7;
            p.told(cudaGraphNodeGetEnabled(g.exec, node, &on), "is it enabled");
        }
    }
    if (!whole) return;
    cudaGraphExecUpdateResultInfo info{};
    p.told(cudaGraphExecUpdate(g.exec, g.graph, &info), "change it all");
    p.say("result %d", info.result);
}

/// A clone of a graph, or a graph that has it twice.
void step_clone(Program &p) {
    if (p.graphs.empty() || p.graphs.size() > 6) return;
    Graph &g = p.random.one(p.graphs);
    int device = g.device;
    p.use(device);
    Touch t{g.reads, g.writes};
    cudaGraph_t made = nullptr;
    if (p.random.chance(50)) {
        if (p.told(cudaGraphClone(&made, g.graph), "clone")) return;
    } else {
        cudaGraphNode_t nodes[2];
        p.told(cudaGraphCreate(&made, 0), "create a graph");
        // One that allocates is inside no other.
        if (p.told(cudaGraphAddChildGraphNode(&nodes[0], made, nullptr, 0, g.graph), "add it")) {
            p.told(cudaGraphDestroy(made), "destroy a graph");
            return;
        }
        p.told(cudaGraphAddChildGraphNode(&nodes[1], made, nodes, 1, g.graph), "add it again");
    }
    keep(p, made, t, device);
}

/// A graph goes, perhaps while it runs.
void step_forget(Program &p) {
    if (p.graphs.size() < 3) return;
    size_t at = p.random.below((uint32_t)p.graphs.size());
    if (p.random.chance(60)) launch_graph(p, p.graphs[at]);
    p.told(cudaGraphExecDestroy(p.graphs[at].exec), "destroy an executable");
    p.told(cudaGraphDestroy(p.graphs[at].graph), "destroy a graph");
    p.graphs.erase(p.graphs.begin() + at);
}

} // namespace
