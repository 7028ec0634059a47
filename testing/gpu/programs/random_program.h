// A program made at random: its memory, its streams, and the steps that use both.
#pragma once
#include "check.h"
#include "random_order.h"
#include <cooperative_groups.h>
#include <cstdarg>
#include <cstring>
#include <cuda.h>
#include <deque>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

// ------------------------------------------------------------------------------- what runs

__host__ __device__ inline unsigned stir(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

/// `out`, a range of its own, from itself and two others.
struct Mix {
    unsigned *out;
    const unsigned *a, *b;
    unsigned n, na, nb, seed;
    __host__ __device__ void word(unsigned i) const {
        out[i] = stir(out[i] + 3 * a[i % na] + 5 * b[i % nb] + seed);
    }
};

__global__ void mix(unsigned *out, const unsigned *a, const unsigned *b, unsigned n, unsigned na,
                    unsigned nb, unsigned seed) {
    Mix m{out, a, b, n, na, nb, seed};
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        m.word(i);
}
/// With more parameters than fit in the first kilobyte.
struct Long {
    unsigned before[500];
    Mix mix;
    unsigned after[100];
};
__global__ void mix_long(__grid_constant__ const Long l) {
    Mix m = l.mix;
    m.seed += l.before[7] + l.after[9];
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < m.n; i += gridDim.x * blockDim.x)
        m.word(i);
}
/// What it works on stands in memory.
__global__ void mix_told(const Mix *told) {
    Mix m = *told;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < m.n; i += gridDim.x * blockDim.x)
        m.word(i);
}
/// In two halves, with a wait of the whole grid between them.
__global__ void mix_together(Mix m) {
    auto grid = cooperative_groups::this_grid();
    unsigned half = m.n / 2, at = (unsigned)grid.thread_rank();
    for (unsigned i = at; i < half; i += (unsigned)grid.num_threads()) m.word(i);
    grid.sync();
    for (unsigned i = half + at; i < m.n; i += (unsigned)grid.num_threads()) {
        if (i - half < half) m.out[i] += m.out[i - half];
        m.word(i);
    }
}
/// By shared memory whose size the launch says.
__global__ void mix_shared(Mix m) {
    extern __shared__ unsigned words[];
    for (unsigned base = blockIdx.x * blockDim.x; base < m.n; base += gridDim.x * blockDim.x) {
        unsigned i = base + threadIdx.x;
        words[threadIdx.x] = i < m.n ? m.a[i % m.na] : 0;
        __syncthreads();
        if (i < m.n)
            m.out[i] = stir(m.out[i] + 3 * words[threadIdx.x] + 5 * m.b[i % m.nb] + m.seed);
        __syncthreads();
    }
}
constexpr unsigned SYMBOL_WORDS = 3000;
__device__ unsigned symbol_words[SYMBOL_WORDS];
__constant__ unsigned constant_words[64];
__global__ void mix_texture(unsigned *out, unsigned n, cudaTextureObject_t from, unsigned width,
                            unsigned height) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned x = i % width, y = i / width % height;
        out[i] = stir(out[i] + tex2D<unsigned>(from, (float)x, (float)y));
    }
}
__global__ void mix_surface(cudaSurfaceObject_t to, unsigned width, unsigned height,
                            const unsigned *a, unsigned na, unsigned seed) {
    unsigned all = width * height;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x)
        surf2Dwrite(stir(a[i % na] + seed), to, (int)(i % width) * 4, (int)(i / width));
}
__global__ void mix_constant(unsigned *out, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = stir(out[i] + constant_words[i % 64]);
}

// ------------------------------------------------------------------------------ the program

enum Kind { DEVICE, ASYNC, MANAGED, PINNED, PAGEABLE, REGISTERED, VIRTUAL, SYMBOL, ARRAY };
static const char *const NAMES[] = {"device",     "async",   "managed", "pinned", "pageable",
                                    "registered", "virtual", "symbol",  "array"};

/// A range of words that nothing else overlaps; those of one block lie in one allocation.
struct Piece {
    Kind kind;
    unsigned *p;
    unsigned n;
    int block;
    /// The device that it is on; -1 for none in particular.
    int home;
    bool host() const {
        return kind == MANAGED || kind == PINNED || kind == PAGEABLE || kind == REGISTERED;
    }
    bool device() const { return kind != PAGEABLE; }
};

struct Block {
    Kind kind;
    char *p;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
    bool alive;
    int device;
};

struct Lane {
    cudaStream_t stream;
    int id;
    bool blocking, legacy, alive;
    int device;
};

/// An array of words, and the piece by which what uses it is ordered, which has no address.
struct Image {
    cudaArray_t array;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    unsigned width, height;
    int piece;
};

struct Graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    std::vector<int> reads, writes;
    int device;
};

/// What a host function does: reads a piece and changes another.
struct Chore {
    Mix mix;
    void run() {
        for (unsigned i = 0; i < mix.n; i++) mix.word(i);
    }
};

struct Program {
    Random random;
    Order order;
    bool alone, may_wait = true;
    int devices;
    /// Whether each device may use what the others have.
    bool together = true;
    std::string &out;
    std::vector<Piece> pieces;
    std::vector<int> live;
    std::vector<Block> blocks;
    std::vector<Lane> lanes;
    std::vector<Graph> graphs;
    std::vector<Image> images;
    cudaMemPool_t pool = nullptr;
    /// Those of each device.
    std::vector<std::vector<cudaEvent_t>> events;
    std::deque<Chore> chores;
    std::deque<Long> longs;
    int file;

    Program(uint64_t seed, bool alone, int devices, std::string &out);
    void begin_step(int at) { step_ = at, say_ = 0; }
    /// One line; the threads of a program keep theirs until all are over.
    void say(const char *format, ...) __attribute__((format(printf, 2, 3)));
    /// What a call said, and what is then left as the last error.
    cudaError_t told(cudaError_t rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
    CUresult told(CUresult rc, const char *what) {
        say("%s: driver %d", what, (int)rc);
        return rc;
    }

    int piece_if(bool (*fits)(const Piece &), const std::vector<int> &among, int not1 = -1,
                 int not2 = -1);
    /// The same, of what a device has that is asked to change it itself.
    int own_piece_if(bool (*fits)(const Piece &), const std::vector<int> &among, int device,
                     int not1 = -1, int not2 = -1);
    /// Whether a copy must not be as it has to do with a device that the stream's may not use.
    bool is_far(const Lane &lane, int to, int from, bool captures) {
        auto far = [&](int i) { return pieces[i].home >= 0 && pieces[i].home != lane.device; };
        return !together && (!may_wait || captures) && (far(to) || far(from));
    }
    /// The same, of what kernels of a device can use.
    int near_piece_if(bool (*fits)(const Piece &), const std::vector<int> &among, int device,
                      int not1 = -1, int not2 = -1) {
        return together ? piece_if(fits, among, not1, not2)
                        : own_piece_if(fits, among, device, not1, not2);
    }
    Lane &lane_if(bool captures, int device = -1);
    /// What is launched and allocated next is on that device.
    void use(int device) {
        if (devices > 1) told(cudaSetDevice(now_ = device), "use device %d", device);
    }
    void ready(Order &o, Lane &lane, const std::vector<int> &reads, const std::vector<int> &writes);
    void ready_host(const std::vector<int> &reads, const std::vector<int> &writes);
    void put(Order &o, Lane &lane, const std::vector<int> &reads, const std::vector<int> &writes);
    /// What is no launch may be called with another device in use than the stream's.
    void stray() {
        if (devices > 1 && random.chance(25)) use((int)random.below(devices));
    }
    void wait_for_all() {
        for (int d = devices; d-- > 0;) {
            if (devices > 1) cudaSetDevice(d);
            told(cudaDeviceSynchronize(), "wait for all");
        }
        if (devices > 1) cudaSetDevice(now_);
        order.host_waits_for_all();
    }
    cudaEvent_t event(int device = 0) { return random.one(events[device]); }
    void allocate(Kind kind);
    void make_image();
    void let_in(int device, int other);
    void constants(const unsigned *words);
    void drop_graphs_of(int block);
    void release(int block);
    unsigned sum(const unsigned *p, unsigned n) {
        unsigned s = n;
        for (unsigned i = 0; i < n; i++) s = stir(s + p[i]);
        return s;
    }
    /// Sums of all there is, once nothing runs.
    void check() {
        for (int d = devices; d-- > 0;) cudaSetDevice(d), cudaDeviceSynchronize();
        cudaSetDevice(now_);
        std::vector<unsigned> copy;
        for (int i : live) {
            Piece &piece = pieces[i];
            copy.resize(piece.n);
            cudaMemcpy(copy.data(), piece.p, 4ul * piece.n, cudaMemcpyDefault);
            say("piece %d, %s, has %08x", i, NAMES[piece.kind], sum(copy.data(), piece.n));
        }
    }
    /// What a piece has, by the host, or by a copy.
    void show(int piece);
    void end();

private:
    int step_ = 0, say_ = 0, now_ = 0;
};

// ------------------------------------------------------------------------------ what it does

inline void Program::say(const char *format, ...) {
    char text[400];
    int at = snprintf(text, sizeof text, "%d.%d ", step_, say_++);
    va_list list;
    va_start(list, format);
    vsnprintf(text + at, sizeof text - at, format, list);
    va_end(list);
    if (alone) puts(text);
    else out += text, out += '\n';
}

inline cudaError_t Program::told(cudaError_t rc, const char *format, ...) {
    char text[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cudaError_t last = cudaGetLastError();
    if (rc == cudaSuccess && last == cudaSuccess) say("%s", text);
    else say("%s: %s, then %s", text, cudaGetErrorName(rc), cudaGetErrorName(last));
    return rc;
}

inline int Program::piece_if(bool (*fits)(const Piece &), const std::vector<int> &among, int not1,
                             int not2) {
    std::vector<int> some;
    for (int i : among) {
        // Variables are the first device's.
        bool here = now_ == 0 || pieces[i].kind != SYMBOL;
        if (i != not1 && i != not2 && here && fits(pieces[i])) some.push_back(i);
    }
    return some.empty() ? -1 : random.one(some);
}

inline int Program::own_piece_if(bool (*fits)(const Piece &), const std::vector<int> &among,
                                 int device, int not1, int not2) {
    std::vector<int> some;
    for (int i : among)
        if (pieces[i].home < 0 || pieces[i].home == device) some.push_back(i);
    return piece_if(fits, some, not1, not2);
}

/// A stream; for capture, one that can.
inline Lane &Program::lane_if(bool captures, int device) {
    std::vector<int> some;
    for (size_t i = 0; i < lanes.size(); i++) {
        Lane &l = lanes[i];
        bool holds = may_wait || (!l.blocking && !l.legacy);
        bool there = device < 0 || l.device == device;
        if (l.alive && holds && there && !(captures && l.legacy)) some.push_back((int)i);
    }
    Lane &lane = lanes[random.one(some)];
    use(lane.device);
    return lane;
}

/// Orders what comes next in `lane` behind what it conflicts with, in one of the ways there are.
inline void Program::ready(Order &o, Lane &lane, const std::vector<int> &reads,
                           const std::vector<int> &writes) {
    bool captured = &o != &order;
    for (int id : o.before(lane.id, reads, writes)) {
        auto other = std::find_if(lanes.begin(), lanes.end(), [&](Lane &l) {
            return l.id == id && (captured || l.alive);
        });
        unsigned how = captured || !may_wait ? 0 : random.below(5);
        if (other == lanes.end()) how = 4;
        cudaEvent_t e = event(other == lanes.end() ? 0 : other->device);
        switch (how) {
        case 0:
        case 1:
            told(cudaEventRecord(e, other->stream), "record");
            told(cudaStreamWaitEvent(lane.stream, e, 0), "wait for it");
            o.waits(lane.id, o.recorded(id));
            break;
        case 2:
            told(cudaStreamSynchronize(other->stream), "wait for a stream");
            o.host_waits(o.recorded(id));
            break;
        case 3:
            told(cudaEventRecord(e, other->stream), "record");
            told(cudaEventSynchronize(e), "wait for an event");
            o.host_waits(o.recorded(id));
            break;
        default: wait_for_all();
        }
    }
}

inline void Program::ready_host(const std::vector<int> &reads, const std::vector<int> &writes) {
    for (int id : order.before_host(reads, writes)) {
        auto other = std::find_if(lanes.begin(), lanes.end(),
                                  [&](Lane &l) { return l.id == id && l.alive; });
        unsigned how = other == lanes.end() ? 3 : random.below(4);
        cudaEvent_t e = event(other == lanes.end() ? 0 : other->device);
        switch (how) {
        case 0:
        case 1:
            told(cudaStreamSynchronize(other->stream), "the host waits for a stream");
            order.host_waits(order.recorded(id));
            break;
        case 2:
            told(cudaEventRecord(e, other->stream), "record");
            told(cudaEventSynchronize(e), "the host waits for an event");
            order.host_waits(order.recorded(id));
            break;
        default: wait_for_all();
        }
    }
}

/// Work of the legacy stream is behind that of those that block, and theirs behind its. That holds
/// for work alone: who waits for a stream that has none waits for nothing.
inline void Program::put(Order &o, Lane &lane, const std::vector<int> &reads,
                         const std::vector<int> &writes) {
    for (Lane &l : lanes) {
        bool orders = lane.legacy ? l.blocking : lane.blocking && l.legacy;
        orders = orders && l.device == lane.device;
        if (&o == &order && l.alive && orders) o.behind(lane.id, l.id);
    }
    o.put(lane.id, reads, writes);
}

inline void Program::allocate(Kind kind) {
    Block b{kind, nullptr, 4 * (200 + random.below(9000)), 0, true, -1};
    if (random.chance(4)) b.bytes = 4 * (200000 + random.below(600000));
    // What is advised of a page is of all that lie in it: two allocations of the driver's, too.
    if (kind == MANAGED) b.bytes = (b.bytes + 4095) & ~4095ul;
    Lane &lane = lane_if(false, kind == SYMBOL ? 0 : -1);
    void *p = nullptr;
    cudaError_t rc = cudaSuccess;
    bool pooled = false, hosts = kind == MANAGED || kind == PINNED || kind == PAGEABLE;
    if (!hosts) b.device = lane.device;
    switch (kind) {
    case DEVICE: rc = told(cudaMalloc(&p, b.bytes), "malloc %zu", b.bytes); break;
    case ASYNC:
        // The pool is the first device's.
        pooled = random.chance(30) && (together || lane.device == 0);
        if (pooled) b.device = 0;
        rc = pooled
                 ? told(cudaMallocFromPoolAsync(&p, b.bytes, pool, lane.stream),
                        "malloc from a pool %zu", b.bytes)
                 : told(cudaMallocAsync(&p, b.bytes, lane.stream), "malloc async %zu", b.bytes);
        break;
    case MANAGED: rc = told(cudaMallocManaged(&p, b.bytes), "malloc managed %zu", b.bytes); break;
    case PINNED:
        rc = told(cudaHostAlloc(&p, b.bytes,
                                random.of({cudaHostAllocDefault, cudaHostAllocMapped,
                                           cudaHostAllocPortable | cudaHostAllocMapped,
                                           cudaHostAllocWriteCombined})),
                  "malloc host %zu", b.bytes);
        break;
    case PAGEABLE: p = malloc(b.bytes); break;
    case VIRTUAL: {
        CUmemAllocationProp prop{};
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, lane.device};
        b.bytes = 2 << 20;
        std::vector<CUmemAccessDesc> access;
        for (int d = 0; d < devices; d++)
            if (together || d == lane.device)
                access.push_back(
                    {{CU_MEM_LOCATION_TYPE_DEVICE, d}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
        CUdeviceptr at = 0;
        told(cuMemCreate(&b.handle, b.bytes, &prop, 0), "create");
        told(cuMemAddressReserve(&at, b.bytes, 0, 0, 0), "reserve");
        told(cuMemMap(at, b.bytes, 0, b.handle, 0), "map");
        told(cuMemSetAccess(at, b.bytes, access.data(), access.size()), "access");
        p = (void *)at;
        break;
    }
    case SYMBOL:
        rc = told(cudaGetSymbolAddress(&p, symbol_words), "symbol's address");
        b.bytes = sizeof symbol_words;
        break;
    default: return;
    }
    if (rc != cudaSuccess || !p) return;
    b.p = (char *)p;
    int block = (int)blocks.size();
    blocks.push_back(b);
    // What is there first is of no meaning; then it is the same everywhere.
    Piece all{kind, (unsigned *)p, (unsigned)(b.bytes / 4), block, b.device};
    unsigned fill = random.below(256);
    if (kind == PAGEABLE) memset(p, (int)fill, b.bytes);
    else if (kind == PINNED || (kind == MANAGED && random.chance(50)))
        for (unsigned i = 0; i < all.n; i++) all.p[i] = fill * (i + 1);
    else if (kind == ASYNC)
        told(cudaMemsetAsync(p, (int)fill, b.bytes, lane.stream), "set");
    else {
        told(cudaMemset(p, (int)fill, b.bytes), "set");
        wait_for_all();
    }
    // Pieces that lie next to each other, in the same pages, have nothing to do with each other.
    unsigned count = 1 + random.below(4), from = 0;
    for (unsigned i = 0; i < count && from + 8 < all.n; i++) {
        unsigned room = all.n - from;
        unsigned n = i + 1 == count ? room : std::min(room, 4 + random.below(2 * all.n / count));
        if (kind == VIRTUAL) n = std::min(n, 20000u);
        int id = (int)pieces.size();
        pieces.push_back({kind, all.p + from, n, block, b.device});
        live.push_back(id);
        if (kind == ASYNC) put(order, lane, {}, {id});
        from += n;
    }
}

/// An array that kernels read by a texture and write by a surface, with zeros in it.
inline void Program::make_image() {
    use(0);
    Image i{nullptr, 0, 0, 1 + random.below(60), 1 + random.below(30), (int)pieces.size()};
    auto words = cudaCreateChannelDesc<unsigned>();
    if (told(cudaMallocArray(&i.array, &words, i.width, i.height, cudaArraySurfaceLoadStore),
             "an array of %u by %u", i.width, i.height))
        return;
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeArray;
    what.res.array.array = i.array;
    cudaTextureDesc how{};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    told(cudaCreateTextureObject(&i.texture, &what, &how, nullptr), "its texture");
    told(cudaCreateSurfaceObject(&i.surface, &what), "its surface");
    std::vector<unsigned> zeros(i.width * i.height);
    told(cudaMemcpy2DToArray(i.array, 0, 0, zeros.data(), 4ul * i.width, 4ul * i.width, i.height,
                             cudaMemcpyHostToDevice),
         "fill it");
    pieces.push_back({ARRAY, nullptr, i.width * i.height, -1, 0});
    images.push_back(i);
}

inline void Program::drop_graphs_of(int block) {
    auto has = [&](const std::vector<int> &ids) {
        return std::any_of(ids.begin(), ids.end(), [&](int i) { return pieces[i].block == block; });
    };
    for (size_t i = graphs.size(); i-- > 0;) {
        Graph &g = graphs[i];
        if (!has(g.reads) && !has(g.writes)) continue;
        told(cudaGraphExecDestroy(g.exec), "destroy an executable");
        told(cudaGraphDestroy(g.graph), "destroy a graph");
        graphs.erase(graphs.begin() + i);
    }
}

/// Gives a block's memory back, behind all that uses it.
inline void Program::release(int block) {
    Block &b = blocks[block];
    std::vector<int> of;
    for (int i : live)
        if (pieces[i].block == block) of.push_back(i);
    drop_graphs_of(block);
    if (b.kind == ASYNC) {
        Lane &lane = lane_if(false, b.device);
        ready(order, lane, {}, of);
        stray();
        told(cudaFreeAsync(b.p, lane.stream), "free async");
        put(order, lane, {}, of);
    } else {
        ready_host({}, of);
        if (b.kind == DEVICE || b.kind == MANAGED) told(cudaFree(b.p), "free");
        if (b.kind == PINNED) told(cudaFreeHost(b.p), "free host");
        if (b.kind == REGISTERED) told(cudaHostUnregister(b.p), "unregister");
        if (b.kind == REGISTERED || b.kind == PAGEABLE) free(b.p);
        if (b.kind == VIRTUAL) {
            told(cuMemUnmap((CUdeviceptr)b.p, b.bytes), "unmap");
            told(cuMemAddressFree((CUdeviceptr)b.p, b.bytes), "free the range");
            told(cuMemRelease(b.handle), "release");
        }
    }
    b.alive = false;
    live.erase(std::remove_if(live.begin(), live.end(),
                              [&](int i) { return pieces[i].block == block; }),
               live.end());
}

inline void Program::show(int id) {
    Piece &piece = pieces[id];
    if (piece.host() && random.chance(80)) {
        ready_host({id}, {});
        say("%s has %08x", NAMES[piece.kind], sum(piece.p, piece.n));
        return;
    }
    std::vector<unsigned> copy(piece.n);
    if (random.chance(50)) {
        ready_host({id}, {});
        told(cudaMemcpy(copy.data(), piece.p, 4ul * piece.n, cudaMemcpyDefault), "copy to show");
    } else {
        Lane &lane = lane_if(false);
        // It may be read at once, whatever its stream has to do before.
        if (piece.kind == PAGEABLE) ready_host({id}, {});
        ready(order, lane, {id}, {});
        told(cudaMemcpyAsync(copy.data(), piece.p, 4ul * piece.n, cudaMemcpyDefault, lane.stream),
             "copy to show, async");
        put(order, lane, {id}, {});
        told(cudaStreamSynchronize(lane.stream), "wait for the stream");
        order.host_waits(order.recorded(lane.id));
    }
    say("%s had %08x", NAMES[piece.kind], sum(copy.data(), piece.n));
}

inline Program::Program(uint64_t seed, bool alone, int devices, std::string &out)
    : random{seed}, alone(alone), devices(devices), out(out), events(devices) {
    file = memfd_create("words", 0);
    // Threads have the same devices, and what one lets in all have let in.
    if (devices > 1 && alone) together = random.chance(60);
    for (int d = devices; d-- > 0;) {
        use(d);
        for (int other = 0; other < devices && together; other++) let_in(d, other);
        // With several devices its name is that of each one's.
        if (alone && devices == 1)
            lanes.push_back({cudaStreamLegacy, order.add_lane(), false, true, true, d});
        for (int i = 0; i < 4; i++) {
            cudaStream_t s;
            bool blocking = alone && i == 0;
            CHECK(cudaStreamCreateWithPriority(
                &s, blocking ? cudaStreamDefault : cudaStreamNonBlocking, -(int)random.below(3)));
            lanes.push_back({s, order.add_lane(), blocking, false, true, d});
        }
        for (int i = 0; i < 12; i++) {
            cudaEvent_t e;
            CHECK(cudaEventCreateWithFlags(
                &e, random.of({cudaEventDefault, cudaEventDisableTiming, cudaEventBlockingSync})));
            events[d].push_back(e);
        }
    }
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    told(cudaMemPoolCreate(&pool, &props), "a pool");
    for (int d = 1; d < devices && together; d++) {
        cudaMemAccessDesc access{{cudaMemLocationTypeDevice, d}, cudaMemAccessFlagsProtReadWrite};
        told(cudaMemPoolSetAccess(pool, &access, 1), "let device %d use it", d);
    }
    for (Kind kind : {DEVICE, ASYNC, MANAGED, PINNED, PAGEABLE, VIRTUAL}) allocate(kind);
    make_image();
    if (!alone) return;
    allocate(SYMBOL);
    static const unsigned none[64] = {};
    constants(none);
}

/// A device may use what another one has.
inline void Program::let_in(int device, int other) {
    if (device == other) return;
    cudaError_t rc = cudaDeviceEnablePeerAccess(other, 0);
    // Another thread may have been first.
    cudaGetLastError();
    say("let in: %d", rc == cudaSuccess || rc == cudaErrorPeerAccessAlreadyEnabled);
    cudaMemPool_t its;
    told(cudaDeviceGetDefaultMemPool(&its, other), "its pool");
    cudaMemAccessDesc access{{cudaMemLocationTypeDevice, device}, cudaMemAccessFlagsProtReadWrite};
    told(cudaMemPoolSetAccess(its, &access, 1), "and what is in that");
}

/// Each device has the same.
inline void Program::constants(const unsigned *words) {
    for (int d = 0; d < devices; d++) {
        use(d);
        told(cudaMemcpyToSymbol(constant_words, words, 256), "constants");
    }
}

inline void Program::end() {
    begin_step(-1);
    std::vector<int> all = live;
    for (int i : all) show(i);
    for (Graph &g : graphs) {
        told(cudaGraphExecDestroy(g.exec), "destroy an executable");
        told(cudaGraphDestroy(g.graph), "destroy a graph");
    }
    graphs.clear();
    for (size_t i = 0; i < blocks.size(); i++)
        if (blocks[i].alive) release((int)i);
    for (Image &i : images) {
        std::vector<unsigned> has(i.width * i.height);
        wait_for_all();
        told(cudaMemcpy2DFromArray(has.data(), 4ul * i.width, i.array, 0, 0, 4ul * i.width,
                                   i.height, cudaMemcpyDeviceToHost),
             "copy an array");
        say("it has %08x", sum(has.data(), (unsigned)has.size()));
        told(cudaDestroyTextureObject(i.texture), "destroy a texture");
        told(cudaDestroySurfaceObject(i.surface), "destroy a surface");
        told(cudaFreeArray(i.array), "free an array");
    }
    told(cudaMemPoolDestroy(pool), "destroy the pool");
    for (auto &all : events)
        for (cudaEvent_t e : all) told(cudaEventDestroy(e), "destroy an event");
    for (Lane &l : lanes)
        if (l.alive && !l.legacy) told(cudaStreamDestroy(l.stream), "destroy a stream");
    wait_for_all();
    close(file);
}
