// What a program made at random puts into a stream, captured or not.
#pragma once
#include "random_program.h"

namespace {

bool on_device(const Piece &piece) { return piece.device(); }
bool on_host(const Piece &piece) { return piece.host(); }
bool any(const Piece &) { return true; }
bool quick(const Piece &q) { return q.kind != PAGEABLE && q.kind != MANAGED; }
bool steady(const Piece &q) { return q.device() && q.kind != MANAGED && q.kind != ASYNC; }
bool apart(const Piece &piece) { return !piece.host(); }

void CUDART_CB run_chore(void *chore) { ((Chore *)chore)->run(); }
void CUDART_CB run_callback(cudaStream_t, cudaError_t, void *chore) { ((Chore *)chore)->run(); }

/// What one piece of work touches, found before it is put.
struct Touch {
    std::vector<int> reads, writes;
};

/// A kernel over three pieces, launched in one of the ways there are.
void launch(Program &p, Lane &lane, Mix m, bool captures) {
    Random &r = p.random;
    unsigned threads = r.of({32u, 64u, 96u, 256u}), blocks = 1 + r.below(12);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = lane.stream;
    cudaLaunchAttribute attribute[2]{};
    config.attrs = attribute;
    switch (r.below(7)) {
    case 0:
        mix<<<blocks, threads, 0, lane.stream>>>(m.out, m.a, m.b, m.n, m.na, m.nb, m.seed);
        p.told(cudaPeekAtLastError(), "launch");
        break;
    case 1: {
        p.longs.push_back({});
        Long &l = p.longs.back();
        for (unsigned i = 0; i < 500; i++) l.before[i] = m.seed + i;
        l.mix = m;
        l.after[9] = m.n;
        void *arguments[] = {&l};
        p.told(cudaLaunchKernel((void *)mix_long, config.gridDim, config.blockDim, arguments, 0,
                                lane.stream),
               "launch with long parameters");
        break;
    }
    case 2: {
        void *arguments[] = {&m};
        p.told(cudaLaunchCooperativeKernel((void *)mix_together, dim3(blocks), dim3(threads),
                                           arguments, 0, lane.stream),
               "launch a grid that waits");
        break;
    }
    case 3:
        config.dynamicSmemBytes = threads * 4;
        p.told(cudaLaunchKernelEx(&config, mix_shared, m), "launch with shared memory");
        break;
    case 4:
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.x = 2;
        attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
        attribute[1].id = cudaLaunchAttributePriority;
        attribute[1].val.priority = -1;
        config.gridDim = dim3(blocks + blocks % 2);
        config.numAttrs = 2;
        p.told(cudaLaunchKernelEx(&config, mix, m.out, m.a, m.b, m.n, m.na, m.nb, m.seed),
               "launch clusters");
        break;
    case 5: {
        // The addresses that it uses stand in memory alone.
        Mix *told = nullptr;
        if (captures || !p.may_wait) {
            mix<<<1, 1024, 0, lane.stream>>>(m.out, m.a, m.b, m.n, m.na, m.nb, m.seed);
            p.told(cudaPeekAtLastError(), "launch a large block");
            break;
        }
        p.told(cudaMallocAsync((void **)&told, sizeof m, lane.stream), "malloc for what is told");
        p.told(cudaMemcpyAsync(told, &m, sizeof m, cudaMemcpyHostToDevice, lane.stream), "tell");
        mix_told<<<blocks, threads, 0, lane.stream>>>(told);
        p.told(cudaPeekAtLastError(), "launch what is told by memory");
        p.told(cudaFreeAsync(told, lane.stream), "free what was told");
        break;
    }
    default:
        mix_constant<<<blocks, threads, 0, lane.stream>>>(m.out, m.n);
        p.told(cudaPeekAtLastError(), "launch with constants");
    }
}

/// A copy of some of one piece to another: of words, of rows, of planes.
void copy(Program &p, Lane &lane, const Piece &to, const Piece &from) {
    Random &r = p.random;
    unsigned n = std::min(to.n, from.n);
    auto kind = cudaMemcpyDefault;
    bool host_from = from.kind == PAGEABLE || from.kind == PINNED || from.kind == REGISTERED;
    bool host_to = to.kind == PAGEABLE || to.kind == PINNED || to.kind == REGISTERED;
    if (r.chance(50))
        kind = host_from ? (host_to ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                         : (host_to ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice);
    unsigned words = 1 + r.below(n), at = r.below(to.n - words + 1);
    unsigned of = r.below(from.n - words + 1);
    switch (r.below(5)) {
    case 0: {
        unsigned width = 1 + r.below(std::min(n, 90u)), pitch = width + r.below(9);
        unsigned rows = std::max(1u, std::min(n / pitch, 1 + r.below(40)));
        if (pitch * rows > n) pitch = width;
        p.told(cudaMemcpy2DAsync(to.p, 4ul * pitch, from.p, 4ul * width, 4ul * width, rows, kind,
                                 lane.stream),
               "copy %u rows of %u from %s to %s", rows, width, NAMES[from.kind], NAMES[to.kind]);
        return;
    }
    case 1: {
        unsigned width = 1 + r.below(12), height = 1 + r.below(6), depth = 1 + r.below(4);
        if (width * height * depth > n) width = height = depth = 1;
        cudaMemcpy3DParms c{};
        c.srcPtr = make_cudaPitchedPtr(from.p, 4ul * width, 4ul * width, height);
        c.dstPtr = make_cudaPitchedPtr(to.p, 4ul * width, 4ul * width, height);
        c.extent = make_cudaExtent(4ul * width, height, depth);
        c.kind = kind;
        p.told(cudaMemcpy3DAsync(&c, lane.stream), "copy a box of %u %u %u from %s to %s", width,
               height, depth, NAMES[from.kind], NAMES[to.kind]);
        return;
    }
    default:
        // At any byte.
        size_t bytes = 4ul * words - r.below(4), low = 4ul * at, low_of = 4ul * of;
        p.told(cudaMemcpyAsync((char *)to.p + low, (char *)from.p + low_of, bytes, kind,
                               lane.stream),
               "copy %zu bytes from %s to %s", bytes, NAMES[from.kind], NAMES[to.kind]);
    }
}

void set(Program &p, Lane &lane, const Piece &to) {
    Random &r = p.random;
    unsigned n = 1 + r.below(to.n), value = r.below(1 << 30);
    auto at = (CUdeviceptr)(to.p + r.below(to.n - n + 1));
    switch (r.below(4)) {
    case 0: p.told(cuMemsetD32Async(at, value, n, lane.stream), "set words"); break;
    case 1:
        p.told(cuMemsetD16Async(at, (uint16_t)value, 2ul * n, lane.stream), "set halves");
        break;
    case 2: {
        unsigned width = 1 + r.below(std::min(to.n, 50u)), rows = std::max(1u, to.n / (2 * width));
        p.told(cudaMemset2DAsync(to.p, 4ul * width, (int)(value & 255), 4ul * width - 2, rows,
                                 lane.stream),
               "set rows");
        break;
    }
    default:
        p.told(cudaMemsetAsync((void *)at, (int)(value & 255), 4ul * n - 1, lane.stream),
               "set bytes");
    }
}

/// An array's words go somewhere, or come from there: by a copy, a texture, or a surface.
void use_image(Program &p, Lane &lane, const Image &i, const Piece &piece, bool writes,
               bool copies) {
    size_t row = 4ul * i.width;
    unsigned rows = std::min(i.height, piece.n / i.width);
    unsigned seed = p.random.below(1 << 20);
    if (copies && writes)
        p.told(cudaMemcpy2DToArrayAsync(i.array, 0, 0, piece.p, row, row, rows, cudaMemcpyDefault,
                                        lane.stream),
               "copy %u rows of %s to an array", rows, NAMES[piece.kind]);
    else if (copies)
        p.told(cudaMemcpy2DFromArrayAsync(piece.p, row, i.array, 0, 0, row, rows,
                                          cudaMemcpyDefault, lane.stream),
               "copy %u rows of an array to %s", rows, NAMES[piece.kind]);
    else if (writes) {
        mix_surface<<<2, 128, 0, lane.stream>>>(i.surface, i.width, i.height, piece.p, piece.n,
                                                seed);
        p.told(cudaPeekAtLastError(), "launch with a surface and %s", NAMES[piece.kind]);
    } else {
        mix_texture<<<3, 96, 0, lane.stream>>>(piece.p, piece.n, i.texture, i.width, i.height);
        p.told(cudaPeekAtLastError(), "launch with a texture and %s", NAMES[piece.kind]);
    }
}

/// Several copies at once, or one between two devices that are the same.
void copy_otherwise(Program &p, Lane &lane, const Piece &to, const Piece &from, bool captures) {
    size_t bytes = 4ul * (1 + p.random.below(std::min(to.n, from.n)));
    bool apart_ = apart(to) && apart(from);
    if (apart_ && p.random.chance(50)) {
        p.told(cudaMemcpyPeerAsync(to.p, to.home, from.p, from.home, bytes, lane.stream),
               "copy %zu bytes from device %d to %d", bytes, from.home, to.home);
        return;
    }
    if (captures || lane.legacy) {
        p.told(cudaMemcpyAsync(to.p, from.p, bytes, cudaMemcpyDefault, lane.stream),
               "copy %zu bytes from %s to %s", bytes, NAMES[from.kind], NAMES[to.kind]);
        return;
    }
    size_t half = bytes / 2, sizes[] = {half, bytes - half}, which = 0;
    void *to_all[] = {to.p, (char *)to.p + half};
    const void *from_all[] = {from.p, (const char *)from.p + half};
    cudaMemcpyAttributes how{};
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = half ? 0 : 1;
    p.told(cudaMemcpyBatchAsync(to_all + first, from_all + first, sizes + first, 2 - first, &how,
                                &which, 1, lane.stream),
           "copy %zu bytes in two from %s to %s", bytes, NAMES[from.kind], NAMES[to.kind]);
}

/// Work put into a stream; `among` is what it may touch. Adds what it touches to `all`.
void work(Program &p, Order &o, Lane &lane, const std::vector<int> &among, Touch *all,
          bool captures) {
    Random &r = p.random;
    Touch t;
    p.use(lane.device);
    auto begin = [&] { p.ready(o, lane, t.reads, t.writes); };
    switch (r.below(14)) {
    default: {
        int out = p.near_piece_if(on_device, among, lane.device);
        int a = p.near_piece_if(on_device, among, lane.device, out);
        int b = p.near_piece_if(on_device, among, lane.device, out);
        if (out < 0 || a < 0 || b < 0) return;
        t = {{a, b}, {out}};
        begin();
        Piece &o1 = p.pieces[out], &a1 = p.pieces[a], &b1 = p.pieces[b];
        p.say("%s from %s and %s", NAMES[o1.kind], NAMES[a1.kind], NAMES[b1.kind]);
        launch(p, lane, {o1.p, a1.p, b1.p, o1.n, a1.n, b1.n, (unsigned)r.below(1 << 20)}, captures);
        break;
    }
    case 0: {
        int out = p.piece_if(on_host, among), a = p.piece_if(on_host, among, out);
        if (out < 0 || a < 0) return;
        t = {{a}, {out}};
        begin();
        Piece &o1 = p.pieces[out], &a1 = p.pieces[a];
        Mix m{o1.p, a1.p, a1.p, std::min(o1.n, 3000u), a1.n, a1.n, r.below(1 << 20)};
        p.chores.push_back({m});
        p.stray();
        if (!captures && r.chance(30))
            p.told(cudaStreamAddCallback(lane.stream, run_callback, &p.chores.back(), 0),
                   "a callback on %s and %s", NAMES[o1.kind], NAMES[a1.kind]);
        else
            p.told(cudaLaunchHostFunc(lane.stream, run_chore, &p.chores.back()),
                   "a host function on %s and %s", NAMES[o1.kind], NAMES[a1.kind]);
        break;
    }
    case 1: {
        // Memory of the host is set at once.
        int to = p.own_piece_if(p.may_wait ? on_device : apart, among, lane.device);
        if (to < 0) return;
        t = {{}, {to}};
        begin();
        p.stray();
        set(p, lane, p.pieces[to]);
        break;
    }
    case 2:
    case 3:
    case 4: {
        // Between memories of the host, and where managed memory is one end, it may wait.
        int to = p.piece_if(p.may_wait ? any : apart, among);
        int from = p.piece_if(p.may_wait ? any : quick, among, to);
        if (to < 0 || from < 0 || p.is_far(lane, to, from, captures)) return;
        t = {{from}, {to}};
        // It may be read at once, whatever its stream has to do before.
        if (!captures && p.pieces[from].kind == PAGEABLE) p.ready_host({from}, {});
        begin();
        p.stray();
        copy(p, lane, p.pieces[to], p.pieces[from]);
        break;
    }
    case 6:
    case 7: {
        if (p.images.empty() || lane.device != 0) return;
        const Image i = r.one(p.images);
        bool writes = r.chance(50), copies = r.chance(50);
        auto fits = !copies ? on_device : p.may_wait ? any : quick;
        int id = p.near_piece_if(fits, among, lane.device);
        if (id < 0 || p.pieces[id].n < i.width) return;
        if (writes) t = {{id}, {i.piece}};
        else t = {{i.piece}, {id}};
        if (!captures && copies && p.pieces[id].kind == PAGEABLE) p.ready_host({id}, {});
        begin();
        use_image(p, lane, i, p.pieces[id], writes, copies);
        break;
    }
    case 9: {
        // Memory that is there for a while: a graph's own, where this is captured.
        int out = p.near_piece_if(on_device, among, lane.device);
        int a = p.piece_if(apart, among, out);
        if (out < 0 || a < 0 || (!captures && !p.may_wait)) return;
        if (p.is_far(lane, a, a, captures)) return;
        t = {{a}, {out}};
        begin();
        Piece &o1 = p.pieces[out], &a1 = p.pieces[a];
        unsigned *own = nullptr;
        if (p.told(cudaMallocAsync((void **)&own, 4ul * a1.n, lane.stream), "malloc for a while"))
            break;
        p.told(cudaMemcpyAsync(own, a1.p, 4ul * a1.n, cudaMemcpyDefault, lane.stream),
               "copy %s there", NAMES[a1.kind]);
        mix<<<2, 64, 0, lane.stream>>>(o1.p, own, own, o1.n, a1.n, a1.n, r.below(1 << 20));
        p.told(cudaPeekAtLastError(), "use it for %s", NAMES[o1.kind]);
        p.told(cudaFreeAsync(own, lane.stream), "free it");
        break;
    }
    case 8: {
        auto fits = p.may_wait ? any : apart;
        int to = p.piece_if(fits, among), from = p.piece_if(fits, among, to);
        if (to < 0 || from < 0 || p.is_far(lane, to, from, captures)) return;
        t = {{from}, {to}};
        if (!captures && p.pieces[from].kind == PAGEABLE) p.ready_host({from}, {});
        begin();
        p.stray();
        copy_otherwise(p, lane, p.pieces[to], p.pieces[from], captures);
        break;
    }
    case 5: {
        // A graph that has words of managed memory or of a pool cannot be launched.
        int to = p.own_piece_if(captures ? steady : on_device, among, lane.device);
        if (to < 0) return;
        t = {{}, {to}};
        begin();
        Piece &piece = p.pieces[to];
        p.say("a value of %s", NAMES[piece.kind]);
        p.stray();
        CUdeviceptr at = (CUdeviceptr)(piece.p + r.below(piece.n));
        if (!p.told(cuStreamWriteValue32(lane.stream, at, 77, 0), "write a value"))
            p.told(cuStreamWaitValue32(lane.stream, at, 77, CU_STREAM_WAIT_VALUE_EQ),
                   "wait for it");
        break;
    }
    }
    p.put(o, lane, t.reads, t.writes);
    if (!all) return;
    all->reads.insert(all->reads.end(), t.reads.begin(), t.reads.end());
    all->writes.insert(all->writes.end(), t.writes.begin(), t.writes.end());
}

} // namespace
