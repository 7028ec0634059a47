// Which device's memory may be copied, filled, asked about and put into graphs, in which device's
// stream, with which device current. Each line has four results, with device 0 or 1 current and a
// stream of device 0 or 1, in this order: 00 01 10 11. A result is the call's error, `ok`, or
// `wrong` where bytes did not arrive. With one device it ends at once.
#include "tell.h"
#include <cstring>
#include <cuda_runtime.h>
#include <functional>
#include <string>

namespace {

constexpr size_t SIZE = 64 << 10, MAPPED = 2 << 20;
constexpr unsigned MARK = 0x6d61726b;

__device__ unsigned variable[SIZE / 4];
__global__ void read_first(unsigned *to, const unsigned *from) { *to = *from; }

enum Kind { PLAIN, PITCHED, MANAGED, POOL, OWN_POOL, MAP, CLOSED, PINNED, REGISTERED, VARIABLE };
const char *const KINDS[] = {"plain",  "pitched", "managed", "pool",       "own pool",
                             "mapped", "closed",  "pinned",  "registered", "variable"};
constexpr int COUNT = 10;

/// Which device is let in to the other's memory: the bit of each.
struct World {
    int let_in;
    CUcontext context[2];
    CUstream stream[2];
    CUdeviceptr scratch[2], memory[2][COUNT];
    CUarray array[2];
    unsigned *host;
    CUmemGenericAllocationHandle handles[2][2];
    CUmemoryPool own[2];

    bool may(int user, int home) const { return user == home || let_in >> user & 1; }
    void use(int d) const { DRIVER(cuCtxSetCurrent(context[d])); }
    void begin();
    void end();
    CUdeviceptr map(int home, bool closed);
    CUdeviceptr of_pool(int home, CUmemoryPool pool);
};

CUdeviceptr World::map(int home, bool closed) {
    CUmemAllocationProp props{};
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, home};
    CUdeviceptr p;
    DRIVER(cuMemCreate(&handles[home][closed], MAPPED, &props, 0));
    DRIVER(cuMemAddressReserve(&p, MAPPED, 0, 0, 0));
    DRIVER(cuMemMap(p, MAPPED, 0, handles[home][closed], 0));
    for (int d = 0; d < 2 && !closed; d++) {
        CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, d}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (may(d, home)) DRIVER(cuMemSetAccess(p, MAPPED, &desc, 1));
    }
    return p;
}

CUdeviceptr World::of_pool(int home, CUmemoryPool pool) {
    CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 1 - home},
                         may(1 - home, home) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                             : CU_MEM_ACCESS_FLAGS_PROT_NONE};
    DRIVER(cuMemPoolSetAccess(pool, &desc, 1));
    CUdeviceptr p;
    DRIVER(cuMemAllocFromPoolAsync(&p, SIZE, pool, stream[home]));
    DRIVER(cuStreamSynchronize(stream[home]));
    return p;
}

void World::begin() {
    for (int d = 0; d < 2; d++) {
        DRIVER(cuDevicePrimaryCtxRetain(&context[d], d));
        use(d);
        DRIVER(cuStreamCreate(&stream[d], CU_STREAM_NON_BLOCKING));
        DRIVER(cuMemAlloc(&scratch[d], SIZE));
        CUDA_ARRAY_DESCRIPTOR of{16, 4, CU_AD_FORMAT_UNSIGNED_INT32, 1};
        DRIVER(cuArrayCreate(&array[d], &of));
    }
    DRIVER(cuMemHostAlloc((void **)&host, SIZE, CU_MEMHOSTALLOC_PORTABLE));
    for (int d = 0; d < 2; d++) {
        use(d);
        if (may(d, 1 - d)) DRIVER(cuCtxEnablePeerAccess(context[1 - d], 0));
        CUdeviceptr *m = memory[d];
        DRIVER(cuMemAlloc(&m[PLAIN], SIZE));
        size_t pitch;
        DRIVER(cuMemAllocPitch(&m[PITCHED], &pitch, 512, SIZE / 512, 4));
        DRIVER(cuMemAllocManaged(&m[MANAGED], SIZE, CU_MEM_ATTACH_GLOBAL));
        CUmemoryPool pool;
        DRIVER(cuDeviceGetDefaultMemPool(&pool, d));
        m[POOL] = of_pool(d, pool);
        CUmemPoolProps props{};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location = {CU_MEM_LOCATION_TYPE_DEVICE, d};
        DRIVER(cuMemPoolCreate(&own[d], &props));
        m[OWN_POOL] = of_pool(d, own[d]);
        m[MAP] = map(d, false);
        m[CLOSED] = map(d, true);
        DRIVER(cuMemHostAlloc((void **)&m[PINNED], SIZE, CU_MEMHOSTALLOC_DEVICEMAP));
        m[REGISTERED] = (CUdeviceptr)aligned_alloc(4096, SIZE);
        DRIVER(cuMemHostRegister((void *)m[REGISTERED], SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
        CHECK(cudaGetSymbolAddress((void **)&m[VARIABLE], variable));
    }
}

void World::end() {
    for (int d = 0; d < 2; d++) {
        use(d);
        cuCtxSynchronize();
        for (int closed = 0; closed < 2; closed++) {
            CUdeviceptr p = memory[d][closed ? CLOSED : MAP];
            cuMemUnmap(p, MAPPED);
            cuMemAddressFree(p, MAPPED);
            cuMemRelease(handles[d][closed]);
        }
        cuMemFree(memory[d][POOL]);
        cuMemFree(memory[d][OWN_POOL]);
        cuMemPoolDestroy(own[d]);
        cuMemHostUnregister((void *)memory[d][REGISTERED]);
        free((void *)memory[d][REGISTERED]);
    }
    cuCtxSetCurrent(nullptr);
    for (int d = 0; d < 2; d++) {
        cuDevicePrimaryCtxReset(d);
        cuDevicePrimaryCtxRelease(d);
    }
}

/// One call: with a device current and a stream, of memory of a kind that is at home somewhere.
struct Call {
    const World &w;
    Kind kind;
    int current, lane, home;
    CUdeviceptr m;
    CUstream s;
    /// Where words arrive that were copied, if the call is a copy.
    unsigned *arrives_on_host = nullptr;
    CUdeviceptr arrives = 0;
    int arrives_at = 0;

    CUresult at(CUdeviceptr p, int device, CUresult rc) {
        arrives = p;
        arrives_at = device;
        return rc;
    }
    CUresult to(int device, CUresult rc) { return at(w.scratch[device], device, rc); }
    CUresult to_memory(CUresult rc) { return at(m, home, rc); }
    CUresult to_host(CUresult rc) {
        arrives_on_host = w.host;
        return rc;
    }
    /// Whether a kernel in the stream reads the memory, and does not fail by that.
    bool is_read() const {
        bool anywhere = kind == PINNED || kind == REGISTERED || kind == MANAGED;
        // A variable is not let in to.
        bool let_in = w.may(lane, home) && (kind != VARIABLE || lane == home);
        return kind != CLOSED && (anywhere || let_in);
    }
};

/// Puts the mark into memory, and something else, by the device that may.
bool fill(const Call &c, CUdeviceptr p, int device, unsigned word) {
    c.w.use(device);
    CUresult rc = cuMemsetD32(p, word, 64);
    return rc == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
}

std::string name_of(CUresult rc) {
    if (rc == CUDA_SUCCESS) return "ok";
    const char *name = "?";
    cuGetErrorName(rc, &name);
    return name + (strncmp(name, "CUDA_ERROR_", 11) ? 0 : 11);
}

using Do = std::function<CUresult(Call &)>;

std::string result(World &w, Kind kind, int home, int current, int lane, const Do &call) {
    Call c{w, kind, current, lane, home, w.memory[home][kind], w.stream[lane]};
    // Closed memory has no words that one could look at.
    bool marked = kind != CLOSED && fill(c, c.m, home, MARK);
    for (int d = 0; d < 2; d++) fill(c, w.scratch[d], d, MARK);
    // What arrives must have been elsewhere: the mark comes from the other end alone.
    for (int i = 0; i < 64; i++) w.host[i] = MARK;
    w.use(current);
    CUresult rc = call(c);
    std::string said = name_of(rc);
    CUresult after = CUDA_SUCCESS;
    for (int d = 0; d < 2; d++) {
        w.use(d);
        CUresult one = cuCtxSynchronize();
        if (one != CUDA_SUCCESS) after = one;
    }
    if (after != CUDA_SUCCESS) {
        said += " then " + name_of(after);
        w.end();
        w.begin();
        return said;
    }
    if (rc != CUDA_SUCCESS || !marked) return said;
    if (c.arrives) {
        unsigned word = 0;
        w.use(c.arrives_at);
        DRIVER(cuMemcpyDtoH(&word, c.arrives, 4));
        if (word != MARK + 1) said += " wrong";
    }
    if (c.arrives_on_host && *c.arrives_on_host != MARK + 1) said += " wrong";
    return said;
}

/// The call, with its source having what must arrive.
Do out(const Do &call) {
    return [=](Call &c) {
        if (c.kind != CLOSED) fill(c, c.m, c.home, MARK + 1);
        c.w.use(c.current);
        return call(c);
    };
}
Do in(const Do &call) {
    return [=](Call &c) {
        for (int d = 0; d < 2; d++) fill(c, c.w.scratch[d], d, MARK + 1);
        for (int i = 0; i < 64; i++) c.w.host[i] = MARK + 1;
        c.w.use(c.current);
        return call(c);
    };
}

CUDA_MEMCPY2D rows(CUdeviceptr to, CUdeviceptr from, CUmemorytype type) {
    CUDA_MEMCPY2D r{};
    r.dstMemoryType = r.srcMemoryType = type;
    r.dstDevice = to;
    r.srcDevice = from;
    r.dstPitch = r.srcPitch = 64;
    r.WidthInBytes = 32;
    r.Height = 4;
    return r;
}

CUDA_MEMCPY3D box(CUdeviceptr to, CUdeviceptr from, CUmemorytype type) {
    CUDA_MEMCPY3D b{};
    b.dstMemoryType = b.srcMemoryType = type;
    b.dstDevice = to;
    b.srcDevice = from;
    b.dstPitch = b.srcPitch = 32;
    b.dstHeight = b.srcHeight = 2;
    b.WidthInBytes = 32;
    b.Height = b.Depth = 2;
    return b;
}

CUDA_MEMCPY3D_PEER peer_box(CUdeviceptr to, CUcontext of, CUdeviceptr from, CUcontext its) {
    CUDA_MEMCPY3D_PEER b{};
    b.dstMemoryType = b.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    b.dstDevice = to;
    b.dstContext = of;
    b.srcDevice = from;
    b.srcContext = its;
    b.dstPitch = b.srcPitch = 32;
    b.dstHeight = b.srcHeight = 2;
    b.WidthInBytes = 32;
    b.Height = b.Depth = 2;
    return b;
}

CUresult batch(Call &c, CUdeviceptr to, CUdeviceptr from) {
    CUmemcpyAttributes how{};
    how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t bytes = 64, which = 0;
    return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &how, &which, 1, c.s);
}

/// Runs what a graph became, and forgets it.
CUresult run(Call &c, CUgraph graph, CUresult rc,
             const std::function<CUresult(CUgraphExec)> &change = nullptr) {
    CUgraphExec exec = nullptr;
    if (rc == CUDA_SUCCESS) rc = cuGraphInstantiate(&exec, graph, 0);
    if (rc == CUDA_SUCCESS && change) rc = change(exec);
    if (rc == CUDA_SUCCESS) rc = cuGraphLaunch(exec, c.s);
    cuStreamSynchronize(c.s);
    if (exec) cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    return rc;
}

/// As a stream captures it.
CUresult captured(Call &c, const std::function<CUresult()> &call) {
    CUresult rc = cuStreamBeginCapture(c.s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (rc != CUDA_SUCCESS) return rc;
    rc = call();
    CUgraph graph = nullptr;
    CUresult ended = cuStreamEndCapture(c.s, &graph);
    if (rc != CUDA_SUCCESS || ended != CUDA_SUCCESS) {
        if (graph) cuGraphDestroy(graph);
        return rc != CUDA_SUCCESS ? rc : ended;
    }
    return run(c, graph, rc);
}

CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr p, unsigned value) {
    CUDA_MEMSET_NODE_PARAMS s{};
    s.dst = p;
    s.value = value;
    s.elementSize = 4;
    s.width = 16;
    s.height = 1;
    return s;
}

/// A node with one context, changed with another one: 0 in the graph, 1 in what it became.
CUresult fill_node(Call &c, CUcontext first, CUcontext second, int how) {
    CUgraph graph;
    CUgraphNode node;
    DRIVER(cuGraphCreate(&graph, 0));
    auto was = fill_of(c.m, how < 0 ? MARK + 1 : MARK + 9), then = fill_of(c.m, MARK + 1);
    CUresult rc = cuGraphAddMemsetNode(&node, graph, nullptr, 0, &was, first);
    if (rc == CUDA_SUCCESS && how == 0) rc = cuGraphMemsetNodeSetParams(node, &then);
    return run(c, graph, rc, [&](CUgraphExec exec) {
        return how == 1 ? cuGraphExecMemsetNodeSetParams(exec, node, &then, second) : CUDA_SUCCESS;
    });
}

CUresult copy_node(Call &c, CUdeviceptr to, CUdeviceptr from, CUcontext first, CUcontext second,
                   int how) {
    CUgraph graph;
    CUgraphNode node;
    DRIVER(cuGraphCreate(&graph, 0));
    auto copy = box(to, from, CU_MEMORYTYPE_UNIFIED);
    CUresult rc = cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, first);
    if (rc == CUDA_SUCCESS && how == 0) rc = cuGraphMemcpyNodeSetParams(node, &copy);
    return run(c, graph, rc, [&](CUgraphExec exec) {
        return how == 1 ? cuGraphExecMemcpyNodeSetParams(exec, node, &copy, second) : CUDA_SUCCESS;
    });
}

/// Rows of an array that is at home where the memory is, to memory or from there.
CUresult of_array(Call &c, CUdeviceptr p, bool writes, bool now = false) {
    CUDA_MEMCPY2D r = rows(p, p, CU_MEMORYTYPE_UNIFIED);
    (writes ? r.dstMemoryType : r.srcMemoryType) = CU_MEMORYTYPE_ARRAY;
    (writes ? r.dstArray : r.srcArray) = c.w.array[c.home];
    return now ? cuMemcpy2D(&r) : cuMemcpy2DAsync(&r, c.s);
}

/// What a stream captured is changed before it runs, with the current context.
CUresult captured_fill(Call &c, bool changes) {
    DRIVER(cuStreamBeginCapture(c.s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CUresult rc = cuMemsetD32Async(c.m, changes ? MARK + 5 : MARK + 1, 16, c.s);
    CUgraph graph = nullptr;
    CUresult ended = cuStreamEndCapture(c.s, &graph);
    if (rc != CUDA_SUCCESS || ended != CUDA_SUCCESS) {
        if (graph) cuGraphDestroy(graph);
        return rc != CUDA_SUCCESS ? rc : ended;
    }
    CUgraphNode node;
    size_t one = 1;
    DRIVER(cuGraphGetNodes(graph, &node, &one));
    auto then = fill_of(c.m, MARK + 1);
    return run(c, graph, rc, [&](CUgraphExec exec) {
        CUcontext context = c.w.context[c.current];
        return changes ? cuGraphExecMemsetNodeSetParams(exec, node, &then, context) : CUDA_SUCCESS;
    });
}

struct Named {
    const char *name;
    Do call;
};

#define OUT_TO(device, ...) out([](Call &c) { return c.to(device, __VA_ARGS__); })
#define OUT_TO_HOST(...) out([](Call &c) { return c.to_host(__VA_ARGS__); })
#define INTO(...) in([](Call &c) { return c.to_memory(__VA_ARGS__); })
#define HOST ((CUdeviceptr)c.w.host)
#define NEAR c.w.scratch[c.lane]
#define FAR c.w.scratch[1 - c.lane]
#define OWN c.w.context[c.home]

const Named CALLS[] = {
    {"fill", INTO(cuMemsetD32Async(c.m, MARK + 1, 64, c.s))},
    {"fill rows", INTO(cuMemsetD2D32Async(c.m, 64, MARK + 1, 4, 4, c.s))},
    {"fill now", INTO(cuMemsetD32(c.m, MARK + 1, 64))},
    {"to the host", OUT_TO_HOST(cuMemcpyDtoHAsync(c.w.host, c.m, 256, c.s))},
    {"to the host now", OUT_TO_HOST(cuMemcpyDtoH(c.w.host, c.m, 256))},
    {"to the host's stack", out([](Call &c) {
         unsigned words[64] = {};
         CUresult rc = cuMemcpyDtoHAsync(words, c.m, 256, c.s);
         cuStreamSynchronize(c.s);
         c.w.host[0] = words[0];
         return c.to_host(rc);
     })},
    {"from the host", INTO(cuMemcpyHtoDAsync(c.m, c.w.host, 256, c.s))},
    {"from the host now", INTO(cuMemcpyHtoD(c.m, c.w.host, 256))},
    {"from the host's stack", in([](Call &c) {
         unsigned words[64];
         memcpy(words, c.w.host, 256);
         return c.to_memory(cuMemcpyHtoDAsync(c.m, words, 256, c.s));
     })},
    {"any to the host", OUT_TO_HOST(cuMemcpyAsync(HOST, c.m, 256, c.s))},
    {"any from the host", INTO(cuMemcpyAsync(c.m, HOST, 256, c.s))},
    {"from the near", INTO(cuMemcpyDtoDAsync(c.m, NEAR, 256, c.s))},
    {"to the near", OUT_TO(c.lane, cuMemcpyDtoDAsync(NEAR, c.m, 256, c.s))},
    {"to the far", OUT_TO(1 - c.lane, cuMemcpyDtoDAsync(FAR, c.m, 256, c.s))},
    {"from the far", INTO(cuMemcpyDtoDAsync(c.m, FAR, 256, c.s))},
    {"any to the near", OUT_TO(c.lane, cuMemcpyAsync(NEAR, c.m, 256, c.s))},
    {"to the first now", OUT_TO(0, cuMemcpyDtoD(c.w.scratch[0], c.m, 256))},
    {"from the first now", INTO(cuMemcpyDtoD(c.m, c.w.scratch[0], 256))},
    {"rows to the host", out([](Call &c) {
         auto r = rows(HOST, c.m, CU_MEMORYTYPE_UNIFIED);
         return c.to_host(cuMemcpy2DAsync(&r, c.s));
     })},
    {"rows from the host", in([](Call &c) {
         auto r = rows(c.m, HOST, CU_MEMORYTYPE_UNIFIED);
         return c.to_memory(cuMemcpy2DAsync(&r, c.s));
     })},
    {"rows to the host now", out([](Call &c) {
         auto r = rows(HOST, c.m, CU_MEMORYTYPE_UNIFIED);
         return c.to_host(cuMemcpy2D(&r));
     })},
    {"rows to the near", out([](Call &c) {
         auto r = rows(NEAR, c.m, CU_MEMORYTYPE_DEVICE);
         return c.to(c.lane, cuMemcpy2DAsync(&r, c.s));
     })},
    {"rows from the far", in([](Call &c) {
         auto r = rows(c.m, FAR, CU_MEMORYTYPE_DEVICE);
         return c.to_memory(cuMemcpy2DAsync(&r, c.s));
     })},
    {"a box to the host", out([](Call &c) {
         auto b = box(HOST, c.m, CU_MEMORYTYPE_UNIFIED);
         return c.to_host(cuMemcpy3DAsync(&b, c.s));
     })},
    {"a box from the far", in([](Call &c) {
         auto b = box(c.m, FAR, CU_MEMORYTYPE_DEVICE);
         return c.to_memory(cuMemcpy3DAsync(&b, c.s));
     })},
    {"peer to the near",
     OUT_TO(c.lane, cuMemcpyPeerAsync(NEAR, c.w.context[c.lane], c.m, OWN, 256, c.s))},
    {"peer to the far",
     OUT_TO(1 - c.lane, cuMemcpyPeerAsync(FAR, c.w.context[1 - c.lane], c.m, OWN, 256, c.s))},
    {"peer from the near",
     INTO(cuMemcpyPeerAsync(c.m, OWN, NEAR, c.w.context[c.lane], 256, c.s))},
    {"peer with another's context",
     OUT_TO(c.lane, cuMemcpyPeerAsync(NEAR, c.w.context[c.lane], c.m, c.w.context[1 - c.home], 256,
                                      c.s))},
    {"peer now", OUT_TO(0, cuMemcpyPeer(c.w.scratch[0], c.w.context[0], c.m, OWN, 256))},
    {"a peer's box to the near", out([](Call &c) {
         auto b = peer_box(NEAR, c.w.context[c.lane], c.m, OWN);
         return c.to(c.lane, cuMemcpy3DPeerAsync(&b, c.s));
     })},
    {"batch to the host", out([](Call &c) { return c.to_host(batch(c, HOST, c.m)); })},
    {"batch from the far", in([](Call &c) { return c.to_memory(batch(c, c.m, FAR)); })},
    {"write a word", INTO(cuStreamWriteValue32(c.s, c.m, MARK + 1, 0))},
    {"wait for a word", out([](Call &c) {
         // Where it may be wrong, nothing must wait for ever.
         if (!c.is_read()) return CUDA_SUCCESS;
         return cuStreamWaitValue32(c.s, c.m, MARK + 1, CU_STREAM_WAIT_VALUE_EQ);
     })},
    {"a kernel", out([](Call &c) {
         if (!c.is_read() || c.current != c.lane) return CUDA_SUCCESS;
         read_first<<<1, 1, 0, c.s>>>((unsigned *)NEAR, (const unsigned *)c.m);
         return c.to(c.lane, (CUresult)cudaGetLastError());
     })},
    {"fill, captured", in([](Call &c) {
         return c.to_memory(captured(c, [&] { return cuMemsetD32Async(c.m, MARK + 1, 64, c.s); }));
     })},
    {"to the host, captured", out([](Call &c) {
         return c.to_host(captured(c, [&] { return cuMemcpyDtoHAsync(c.w.host, c.m, 256, c.s); }));
     })},
    {"from the host, captured", in([](Call &c) {
         return c.to_memory(
             captured(c, [&] { return cuMemcpyHtoDAsync(c.m, c.w.host, 256, c.s); }));
     })},
    {"to the near, captured", out([](Call &c) {
         return c.to(c.lane, captured(c, [&] { return cuMemcpyDtoDAsync(NEAR, c.m, 256, c.s); }));
     })},
    {"from the far, captured", in([](Call &c) {
         return c.to_memory(captured(c, [&] { return cuMemcpyDtoDAsync(c.m, FAR, 256, c.s); }));
     })},
    {"rows to the host, captured", out([](Call &c) {
         auto r = rows(HOST, c.m, CU_MEMORYTYPE_UNIFIED);
         return c.to_host(captured(c, [&] { return cuMemcpy2DAsync(&r, c.s); }));
     })},
    {"a captured fill, changed",
     in([](Call &c) {
         // Page-locked memory that a server shares is at home where its segment is.
         bool locked = c.kind == PINNED || c.kind == REGISTERED;
         return locked ? c.to_memory(captured_fill(c, false)) : c.to_memory(captured_fill(c, true));
     })},
    // Here the second number is the device whose context the node has.
    {"a node that fills",
     in([](Call &c) { return c.to_memory(fill_node(c, c.w.context[c.lane], nullptr, -1)); })},
    {"a fill that is changed",
     in([](Call &c) { return c.to_memory(fill_node(c, c.w.context[c.lane], nullptr, 0)); })},
    {"a fill in an executable", in([](Call &c) {
         return c.to_memory(fill_node(c, c.w.context[c.lane], c.w.context[c.lane], 1));
     })},
    {"a fill by the other device", in([](Call &c) {
         return c.to_memory(fill_node(c, c.w.context[c.lane], c.w.context[1 - c.lane], 1));
     })},
    {"a node that copies", out([](Call &c) {
         return c.to_host(copy_node(c, HOST, c.m, c.w.context[c.lane], nullptr, -1));
     })},
    {"a copy that is changed", out([](Call &c) {
         return c.to_host(copy_node(c, HOST, c.m, c.w.context[c.lane], nullptr, 0));
     })},
    {"a copy in an executable", out([](Call &c) {
         return c.to_host(copy_node(c, HOST, c.m, c.w.context[c.lane], c.w.context[c.lane], 1));
     })},
    {"a copy by the other device", out([](Call &c) {
         return c.to_host(
             copy_node(c, HOST, c.m, c.w.context[c.lane], c.w.context[1 - c.lane], 1));
     })},
    {"a node between devices", in([](Call &c) {
         return c.to_memory(copy_node(c, c.m, NEAR, c.w.context[c.lane], nullptr, -1));
     })},
    {"a node from the far", in([](Call &c) {
         return c.to_memory(copy_node(c, c.m, FAR, c.w.context[c.lane], nullptr, -1));
     })},
    {"its address", [](Call &c) {
         CUdeviceptr p = 0;
         CUresult rc = cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, c.m);
         return rc == CUDA_SUCCESS && p != c.m ? CUDA_ERROR_UNKNOWN : rc;
     }},
    {"its kind", [](Call &c) {
         int kind = 0;
         CUresult rc = cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, c.m);
         return rc == CUDA_SUCCESS && kind != CU_MEMORYTYPE_DEVICE ? CUDA_ERROR_NOT_FOUND : rc;
     }},
    {"its device", [](Call &c) {
         int device = -1;
         CUresult rc = cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, c.m);
         return rc == CUDA_SUCCESS && device != c.home ? CUDA_ERROR_NOT_FOUND : rc;
     }},
    {"its context", [](Call &c) {
         CUcontext context = nullptr;
         CUresult rc = cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, c.m);
         return rc == CUDA_SUCCESS && context != OWN ? CUDA_ERROR_NOT_FOUND : rc;
     }},
    {"its range", [](Call &c) {
         CUdeviceptr p = 0;
         size_t size = 0;
         CUresult rc = cuMemGetAddressRange(&p, &size, c.m + 64);
         bool small = size != SIZE && size != MAPPED;
         return rc == CUDA_SUCCESS && (p != c.m || small) ? CUDA_ERROR_UNKNOWN : rc;
     }},
    {"as a texture", [](Call &c) {
         CUDA_RESOURCE_DESC r{};
         CUDA_TEXTURE_DESC t{};
         r.resType = CU_RESOURCE_TYPE_LINEAR;
         r.res.linear = {c.m, CU_AD_FORMAT_UNSIGNED_INT32, 1, 4096};
         CUtexObject texture = 0;
         CUresult rc = cuTexObjectCreate(&texture, &r, &t, nullptr);
         if (texture) cuTexObjectDestroy(texture);
         return rc;
     }},
    {"attach it", [](Call &c) {
         return cuStreamAttachMemAsync(c.s, c.m, 0, CU_MEM_ATTACH_GLOBAL);
     }},
    {"prefetch it to the first", [](Call &c) {
         CUmemLocation where{CU_MEM_LOCATION_TYPE_DEVICE, 0};
         return cuMemPrefetchAsync(c.m, 4096, where, 0, c.s);
     }},
    {"advise it", [](Call &c) {
         CUmemLocation where{CU_MEM_LOCATION_TYPE_DEVICE, 0};
         return cuMemAdvise(c.m, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, where);
     }},
    {"an array from the host", [](Call &c) {
         return c.kind == PLAIN ? of_array(c, HOST, true) : CUDA_SUCCESS;
     }},
    {"an array to the host", [](Call &c) {
         return c.kind == PLAIN ? of_array(c, HOST, false) : CUDA_SUCCESS;
     }},
    {"an array to the host now", [](Call &c) {
         return c.kind == PLAIN ? of_array(c, HOST, false, true) : CUDA_SUCCESS;
     }},
    {"an array to the near", [](Call &c) {
         return c.kind == PLAIN ? of_array(c, NEAR, false) : CUDA_SUCCESS;
     }},
    {"an array from the far", [](Call &c) {
         return c.kind == PLAIN ? of_array(c, FAR, true) : CUDA_SUCCESS;
     }},
    {"an array to the host, captured", [](Call &c) {
         auto call = [&] { return of_array(c, HOST, false); };
         return c.kind == PLAIN ? captured(c, call) : CUDA_SUCCESS;
     }},
    {"an array from the far, captured", [](Call &c) {
         auto call = [&] { return of_array(c, FAR, true); };
         return c.kind == PLAIN ? captured(c, call) : CUDA_SUCCESS;
     }},
    {"allocate and free", [](Call &c) {
         if (c.kind != POOL && c.kind != OWN_POOL) return CUDA_SUCCESS;
         CUmemoryPool pool = c.w.own[c.home];
         if (c.kind == POOL) DRIVER(cuDeviceGetDefaultMemPool(&pool, c.home));
         CUdeviceptr p;
         CUresult rc = cuMemAllocFromPoolAsync(&p, SIZE, pool, c.s);
         return rc == CUDA_SUCCESS ? cuMemFreeAsync(p, c.s) : rc;
     }},
    {"allocate of the stream's", [](Call &c) {
         CUdeviceptr p;
         CUresult rc = cuMemAllocAsync(&p, SIZE, c.s);
         int device = -1;
         if (rc == CUDA_SUCCESS)
             rc = cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
         if (rc == CUDA_SUCCESS) rc = cuMemFreeAsync(p, c.s);
         return rc == CUDA_SUCCESS && device != c.lane ? CUDA_ERROR_NOT_FOUND : rc;
     }},
    {"record", [](Call &c) {
         CUevent event;
         DRIVER(cuEventCreate(&event, 0));
         CUresult rc = cuEventRecord(event, c.s);
         if (rc == CUDA_SUCCESS) rc = cuStreamWaitEvent(c.w.stream[1 - c.lane], event, 0);
         cuEventDestroy(event);
         return rc;
     }},
};

} // namespace

int main(int count, char **words) {
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        printf("skipped: one device\n");
        return 0;
    }
    CHECK(cudaFree(nullptr));
    static const char *const LET_IN[] = {"apart", "0 let in", "1 let in", "both let in"};
    for (int let_in = 0; let_in < 4; let_in++) {
        World w{let_in};
        w.begin();
        for (int kind = 0; kind < COUNT; kind++)
            for (int home = 0; home < 2; home++)
                for (const Named &n : CALLS) {
                    std::string line;
                    for (int i = 0; i < 4; i++)
                        line += ", " + result(w, (Kind)kind, home, i >> 1, i & 1, n.call);
                    printf("%s, %s of %d, %s: %s\n", LET_IN[let_in], KINDS[kind], home, n.name,
                           line.c_str() + 2);
                }
        w.end();
    }
}
