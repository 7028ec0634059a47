// The steps of a program made at random that are not about graphs.
#pragma once
#include "random_work.h"
#include <atomic>
#include <unistd.h>

namespace {

void step_work(Program &p) {
    Lane &lane = p.lane_if(false);
    for (unsigned i = 1 + p.random.below(3); i-- > 0;)
        work(p, p.order, lane, p.live, nullptr, false);
}

/// The host reads or writes memory as any program does.
void step_host(Program &p) {
    int id = p.piece_if(on_host, p.live);
    if (id < 0) return;
    Piece &piece = p.pieces[id];
    if (p.random.chance(50)) return p.show(id);
    p.ready_host({}, {id});
    unsigned at = p.random.below(piece.n), n = 1 + p.random.below(piece.n - at);
    if (p.random.chance(30)) n = 1;
    for (unsigned i = 0; i < n; i++) piece.p[at + i] = stir(at + i + n);
    p.order.host_wrote(id);
    p.say("the host wrote %u words of %s", n, NAMES[piece.kind]);
}

void step_allocate(Program &p) {
    if (p.live.size() > 30) return;
    p.allocate(p.random.of({DEVICE, ASYNC, ASYNC, MANAGED, PINNED, PAGEABLE, VIRTUAL}));
}

void step_free(Program &p) {
    if (p.live.size() < 14) return;
    int block = p.pieces[p.random.one(p.live)].block;
    if (p.blocks[block].kind != SYMBOL) p.release(block);
}

/// Memory of the program's own that becomes page-locked, or does no longer.
void step_pin(Program &p) {
    int id = p.piece_if([](const Piece &q) { return q.kind == PAGEABLE || q.kind == REGISTERED; },
                        p.live);
    if (id < 0) return;
    int block = p.pieces[id].block;
    std::vector<int> all;
    for (size_t i = 0; i < p.pieces.size(); i++)
        if (p.pieces[i].block == block) all.push_back((int)i);
    p.ready_host({}, all);
    p.drop_graphs_of(block);
    Block &b = p.blocks[block];
    bool pins = b.kind == PAGEABLE;
    cudaError_t rc =
        pins ? p.told(cudaHostRegister(b.p, b.bytes,
                                       p.random.of({cudaHostRegisterDefault,
                                                    cudaHostRegisterMapped,
                                                    cudaHostRegisterPortable})),
                      "register %zu", b.bytes)
             : p.told(cudaHostUnregister(b.p), "unregister");
    if (rc != cudaSuccess) return;
    b.kind = pins ? REGISTERED : PAGEABLE;
    for (int i : all) p.pieces[i].kind = b.kind;
}

void step_wait(Program &p) {
    Lane &lane = p.lane_if(false);
    switch (p.random.below(3)) {
    case 0: return p.wait_for_all();
    case 1:
        p.told(cudaStreamSynchronize(lane.stream), "wait for a stream");
        p.order.host_waits(p.order.recorded(lane.id));
        p.told(cudaStreamQuery(lane.stream), "ask a stream that is over");
        return;
    default: {
        cudaEvent_t e = p.event(lane.device);
        p.told(cudaEventRecord(e, lane.stream), "record");
        auto clock = p.order.recorded(lane.id);
        if (p.random.chance(50)) work(p, p.order, lane, p.live, nullptr, false);
        p.told(cudaEventSynchronize(e), "wait for an event");
        p.order.host_waits(clock);
        p.told(cudaEventQuery(e), "ask an event that is over");
    }
    }
}

/// A stream waits for the host, while others go on and are waited for.
void step_hold(Program &p) {
    if (!p.alone) return;
    p.wait_for_all();
    std::atomic<int> go{0};
    std::vector<int> free;
    for (size_t i = 0; i < p.lanes.size(); i++)
        if (p.lanes[i].alive && !p.lanes[i].blocking && !p.lanes[i].legacy) free.push_back((int)i);
    if (free.size() < 2) return;
    Lane &held = p.lanes[free[0]];
    p.told(cudaLaunchHostFunc(
               held.stream, [](void *go) { while (!*(std::atomic<int> *)go) usleep(50); }, &go),
           "a host function that waits");
    p.may_wait = false;
    for (unsigned i = 2 + p.random.below(6); i-- > 0;) {
        work(p, p.order, p.lane_if(false), p.live, nullptr, false);
        if (p.random.chance(30)) p.told(cudaStreamQuery(held.stream), "ask the one that is held");
    }
    // What is put into a stream that never had to do with the one that is held.
    cudaStream_t other;
    p.told(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "a stream beside");
    p.told(cudaStreamSynchronize(other), "wait for that one");
    p.told(cudaStreamDestroy(other), "destroy that one");
    p.may_wait = true;
    go = 1;
    p.wait_for_all();
}

/// System calls that reach memory a device may have written.
void step_file(Program &p) {
    int id = p.piece_if(on_host, p.live);
    if (id < 0) return;
    Piece &piece = p.pieces[id];
    size_t bytes = 4ul * (1 + p.random.below(piece.n));
    if (p.random.chance(50)) {
        p.ready_host({id}, {});
        ssize_t n = pwrite(p.file, piece.p, bytes, 0);
        p.say("%s to a file: %zd of %zu", NAMES[piece.kind], n, bytes);
    } else {
        p.ready_host({}, {id});
        ssize_t n = pread(p.file, piece.p, bytes, 0);
        p.order.host_wrote(id);
        p.say("a file to %s: %zd of %zu", NAMES[piece.kind], n, bytes);
    }
}

/// A copy that returns when it is over, or as its kind has it.
void step_copy_now(Program &p) {
    int to = p.piece_if(any, p.live), from = p.piece_if(any, p.live, to);
    if (to < 0 || from < 0) return;
    p.ready_host({from}, {to});
    Piece &t = p.pieces[to], &f = p.pieces[from];
    unsigned n = 1 + p.random.below(std::min(t.n, f.n));
    p.told(cudaMemcpy(t.p, f.p, 4ul * n, cudaMemcpyDefault), "copy %u words now, %s to %s", n,
           NAMES[f.kind], NAMES[t.kind]);
    // Between device memories it may return before.
    p.wait_for_all();
    p.order.host_wrote(to);
    if (p.alone && f.host() && f.n >= 64 && p.random.chance(20)) {
        p.constants(f.p);
        p.wait_for_all();
    }
}

void step_ask(Program &p) {
    int id = p.piece_if(any, p.live);
    Piece &piece = p.pieces[id];
    cudaPointerAttributes a{};
    unsigned *at = piece.p + p.random.below(piece.n);
    p.told(cudaPointerGetAttributes(&a, at), "attributes");
    p.say("%s is of type %d on %d, for the device %d, for the host %d", NAMES[piece.kind], a.type,
          a.device, a.devicePointer == at, a.hostPointer == at);
    unsigned flags = 0;
    // What a driver tells of registered memory is not the same from run to run, nor where threads
    // allocate at once, and of a little memory it tells how that was allocated of which it is a
    // part.
    if (p.alone && piece.kind == PINNED && p.blocks[piece.block].bytes >= 400000) {
        p.told(cudaHostGetFlags(&flags, at), "flags");
        p.say("flags %x", flags);
    }
    if (piece.kind != PAGEABLE) {
        CUdeviceptr base = 0;
        size_t size = 0;
        p.told(cuMemGetAddressRange(&base, &size, (CUdeviceptr)at), "range");
        p.say("of %zu, from it %d", size, base <= (CUdeviceptr)at);
    }
}

void step_advise(Program &p) {
    // What is told of a page is of all that lie in it, those of other threads, too.
    int id = p.piece_if([](const Piece &q) { return q.kind == MANAGED; }, p.live);
    if (id < 0 || !p.alone) return;
    Piece &piece = p.pieces[id];
    cudaMemLocation here{cudaMemLocationTypeDevice, 0}, host{cudaMemLocationTypeHost, 0};
    auto place = p.random.chance(50) ? here : host;
    size_t bytes = 4ul * (1 + p.random.below(piece.n));
    if (p.random.chance(50)) {
        auto advice = p.random.of({cudaMemAdviseSetReadMostly, cudaMemAdviseUnsetReadMostly,
                                   cudaMemAdviseSetPreferredLocation,
                                   cudaMemAdviseUnsetPreferredLocation, cudaMemAdviseSetAccessedBy,
                                   cudaMemAdviseUnsetAccessedBy});
        p.told(cudaMemAdvise(piece.p, bytes, advice, place), "advise %d of %zu", advice, bytes);
    } else {
        Lane &lane = p.lane_if(false);
        p.told(cudaMemPrefetchAsync(piece.p, bytes, place, 0, lane.stream), "prefetch %zu", bytes);
    }
    // Of a page alone: of several, of which the first is the last of what was advised, the driver
    // says what is true of that one.
    auto page = (void *)((uintptr_t)piece.p & ~4095ul);
    int mostly = 0, preferred = 0;
    p.told(cudaMemRangeGetAttribute(&mostly, 4, cudaMemRangeAttributeReadMostly, page, 4096),
           "ask of it");
    p.told(cudaMemRangeGetAttribute(&preferred, 4, cudaMemRangeAttributePreferredLocation, page,
                                    4096),
           "ask where");
    p.say("mostly read %d, preferred at %d", mostly, preferred);
}

/// What a program asks of functions, pools, events and arrays.
void step_learn(Program &p) {
    switch (p.random.below(5)) {
    case 0: {
        cudaFuncAttributes a{};
        int blocks = 0;
        p.told(cudaFuncGetAttributes(&a, (void *)mix_shared), "attributes of a function");
        p.told(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mix, 128, 0), "blocks");
        p.say("%d registers, %zu constant, %d threads, %d blocks", a.numRegs, a.constSizeBytes,
              a.maxThreadsPerBlock, blocks);
        break;
    }
    case 1: {
        uint64_t most = p.random.below(1 << 30);
        int reuse = -1;
        p.told(cudaMemPoolSetAttribute(p.pool, cudaMemPoolAttrReleaseThreshold, &most), "keep");
        p.told(cudaMemPoolGetAttribute(p.pool, cudaMemPoolAttrReleaseThreshold, &most), "kept");
        p.told(cudaMemPoolGetAttribute(p.pool, cudaMemPoolReuseAllowOpportunistic, &reuse),
               "reuse");
        p.told(cudaMemPoolTrimTo(p.pool, 0), "trim");
        p.say("keeps %llu, reuse %d", (unsigned long long)most, reuse);
        break;
    }
    case 2: {
        cudaEvent_t from, to;
        Lane &lane = p.lane_if(false);
        float ms = -1;
        p.told(cudaEventCreate(&from), "an event");
        p.told(cudaEventCreate(&to), "another");
        p.told(cudaEventRecord(from, lane.stream), "record");
        work(p, p.order, lane, p.live, nullptr, false);
        p.told(cudaEventRecordWithFlags(to, lane.stream, cudaEventRecordDefault), "record");
        p.told(cudaEventSynchronize(to), "wait for it");
        p.told(cudaEventElapsedTime(&ms, from, to), "time");
        p.say("it took time: %d", ms >= 0 && ms < 60000);
        p.told(cudaEventDestroy(from), "destroy it");
        p.told(cudaEventDestroy(to), "destroy the other");
        break;
    }
    case 3: {
        Image &i = p.random.one(p.images);
        cudaChannelFormatDesc d{};
        cudaExtent size{};
        unsigned flags = 0;
        cudaResourceDesc what{};
        p.told(cudaArrayGetInfo(&d, &size, &flags, i.array), "ask an array");
        p.told(cudaGetTextureObjectResourceDesc(&what, i.texture), "ask a texture");
        p.say("%zu by %zu of %d bits, flags %u, of an array %d", size.width, size.height, d.x,
              flags, what.resType == cudaResourceTypeArray && what.res.array.array == i.array);
        break;
    }
    default:
        if (p.images.size() < 4) p.make_image();
    }
}

/// A context beside the program's: work in one is behind work in the other, and it goes again.
void step_context(Program &p) {
    p.use(0);
    int id = p.own_piece_if(on_device, p.live, 0);
    if (!p.alone || id < 0) return;
    Piece &piece = p.pieces[id];
    CUcontext before = nullptr, other = nullptr, now = nullptr;
    CUdeviceptr memory = 0;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    unsigned value = p.random.below(1 << 20), n = 1 + p.random.below(piece.n);
    p.ready_host({}, {id});
    p.told(cuCtxGetCurrent(&before), "which is current");
    if (p.told(cuCtxCreate(&other, nullptr, 0, 0), "another context")) return;
    p.told(cuMemAlloc(&memory, 4ul * piece.n), "allocate there");
    p.told(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "a stream there");
    p.told(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "an event there");
    p.told(cuMemsetD32Async(memory, value, piece.n, stream), "set there");
    bool there = p.random.chance(50);
    if (there) p.told(cuMemcpyAsync((CUdeviceptr)piece.p, memory, 4ul * n, stream), "copy there");
    p.told(cuEventRecord(event, stream), "record there");
    p.told(cuCtxPopCurrent(&now), "back");
    p.say("from it %d", now == other);
    Lane &lane = p.lane_if(false, 0);
    p.ready(p.order, lane, {}, {id});
    p.told(cuStreamWaitEvent(lane.stream, event, 0), "wait for the other");
    if (!there)
        p.told(cuMemcpyAsync((CUdeviceptr)piece.p, memory, 4ul * n, lane.stream), "copy here");
    p.put(p.order, lane, {}, {id});
    p.told(cudaStreamSynchronize(lane.stream), "wait here");
    p.order.host_waits(p.order.recorded(lane.id));
    p.told(cuCtxPushCurrent(other), "there again");
    if (p.random.chance(50)) {
        p.told(cuEventDestroy(event), "the event goes");
        p.told(cuStreamDestroy(stream), "the stream goes");
        p.told(cuMemFree(memory), "the memory goes");
    }
    p.told(cuCtxDestroy(other), "all of it goes");
    p.told(cuCtxGetCurrent(&now), "which is current");
    p.say("the one before %d", now == before);
}

/// Memory that the program maps is seen at another address as well, or is out of reach for a while.
void step_map(Program &p) {
    int id = p.piece_if([](const Piece &q) { return q.kind == VIRTUAL; }, p.live);
    if (id < 0) return;
    int block = p.pieces[id].block;
    std::vector<int> all;
    for (int i : p.live)
        if (p.pieces[i].block == block) all.push_back(i);
    p.ready_host({}, all);
    Block &b = p.blocks[block];
    p.use(std::max(b.device, 0));
    Piece &piece = p.pieces[id];
    std::vector<CUmemAccessDesc> access;
    for (int d = 0; d < p.devices; d++)
        if (p.together || d == b.device)
            access.push_back(
                {{CU_MEM_LOCATION_TYPE_DEVICE, d}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    auto at = (CUdeviceptr)b.p;
    switch (p.random.below(3)) {
    case 0: {
        CUdeviceptr other = 0;
        std::vector<unsigned> has(piece.n);
        size_t offset = (char *)piece.p - b.p;
        p.told(cuMemAddressReserve(&other, b.bytes, 0, 0, 0), "reserve elsewhere");
        p.told(cuMemMap(other, b.bytes, 0, b.handle, 0), "map it there, too");
        p.told(cuMemSetAccess(other, b.bytes, access.data(), access.size()), "access there");
        p.told(cudaMemcpy(has.data(), (void *)(other + offset), 4ul * piece.n, cudaMemcpyDefault),
               "copy from there");
        p.say("virtual has there %08x", p.sum(has.data(), piece.n));
        p.told(cudaMemset((void *)(other + offset), 3, 4ul * piece.n), "set it there");
        p.wait_for_all();
        p.told(cuMemUnmap(other, b.bytes), "unmap that");
        p.told(cuMemAddressFree(other, b.bytes), "free that range");
        break;
    }
    case 1: {
        // Graphs that have it would have to be made again.
        p.drop_graphs_of(block);
        p.told(cuMemUnmap(at, b.bytes), "unmap it");
        p.told(cudaMemset(piece.p, 1, 4), "set what is not there");
        p.told(cuMemMap(at, b.bytes, 0, b.handle, 0), "map it again");
        p.told(cuMemSetAccess(at, b.bytes, access.data(), access.size()), "access again");
        break;
    }
    default: {
        unsigned long long flags = 9;
        CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, std::max(b.device, 0)};
        CUmemGenericAllocationHandle handle = 0;
        CUmemAllocationProp prop{};
        p.told(cuMemGetAccess(&flags, &here, at), "ask for access");
        p.told(cuMemRetainAllocationHandle(&handle, (void *)at), "whose is it");
        p.told(cuMemGetAllocationPropertiesFromHandle(&prop, handle), "what is it");
        p.say("access %llu, of device %d, the same %d", flags, prop.location.id,
              handle == b.handle);
        p.told(cuMemRelease(handle), "release it once");
    }
    }
}

/// Devices let each other in, and a box goes from one to the other.
void step_peer(Program &p) {
    if (p.devices < 2) return;
    int from = (int)p.random.below(p.devices), to = (from + 1) % p.devices, can = -1, what = -1;
    p.told(cudaDeviceCanAccessPeer(&can, from, to), "can it");
    p.told(cudaDeviceGetP2PAttribute(&what, cudaDevP2PAttrAccessSupported, from, to), "may it");
    p.say("%d %d", can, what);
    if (p.alone && p.together && p.random.chance(40)) {
        p.wait_for_all();
        p.use(from);
        p.told(cudaDeviceDisablePeerAccess(to), "keep it out");
        p.told(cudaDeviceDisablePeerAccess(to), "keep it out again");
        p.told(cudaDeviceEnablePeerAccess(to, 0), "let it in");
        p.told(cudaDeviceEnablePeerAccess(to, 0), "let it in again");
    }
    int a = p.piece_if(apart, p.live), b = p.piece_if(apart, p.live, a);
    if (a < 0 || b < 0) return;
    Piece &t = p.pieces[a], &f = p.pieces[b];
    Lane &lane = p.lane_if(false);
    unsigned width = 1 + p.random.below(std::min({t.n, f.n, 40u}));
    unsigned rows = std::min({t.n / width, f.n / width, 30u});
    p.ready(p.order, lane, {b}, {a});
    cudaMemcpy3DPeerParms c{};
    c.srcPtr = make_cudaPitchedPtr(f.p, 4ul * width, 4ul * width, rows);
    c.dstPtr = make_cudaPitchedPtr(t.p, 4ul * width, 4ul * width, rows);
    c.srcDevice = f.home;
    c.dstDevice = t.home;
    c.extent = make_cudaExtent(4ul * width, rows, 1);
    p.told(cudaMemcpy3DPeerAsync(&c, lane.stream), "copy %u rows of %u from device %d to %d", rows,
           width, f.home, t.home);
    p.put(p.order, lane, {b}, {a});
}

void step_stream(Program &p) {
    Lane &lane = p.lanes[2 + p.random.below((uint32_t)p.lanes.size() - 2)];
    int device = lane.device;
    p.use(device);
    int priority = 0;
    unsigned flags = 0;
    if (lane.alive && !lane.legacy && p.lanes.size() < 12 * (unsigned)p.devices) {
        p.told(cudaStreamGetPriority(lane.stream, &priority), "priority");
        p.told(cudaStreamGetFlags(lane.stream, &flags), "flags");
        p.say("a stream of %d, %u goes, with what it has to do", priority, flags);
        p.told(cudaStreamDestroy(lane.stream), "destroy a stream");
        lane.alive = false;
        cudaStream_t s;
        bool blocking = p.random.chance(40) && p.alone;
        p.told(cudaStreamCreateWithFlags(&s, blocking ? cudaStreamDefault : cudaStreamNonBlocking),
               "a new stream");
        int id = p.order.add_lane();
        p.lanes.push_back({s, id, blocking, false, true, device});
    }
    cudaEvent_t &e = p.random.one(p.events[device]);
    p.told(cudaEventDestroy(e), "destroy an event");
    p.told(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "a new event");
}

/// What CUDA refuses; nothing is changed by it.
void step_mistake(Program &p) {
    Lane &lane = p.lane_if(false);
    int d = p.piece_if([](const Piece &q) { return q.kind == DEVICE || q.kind == ASYNC; }, p.live);
    int h = p.piece_if([](const Piece &q) { return q.kind == PAGEABLE; }, p.live);
    if (d < 0 || h < 0) return;
    unsigned *device = p.pieces[d].p, *host = p.pieces[h].p;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaPointerAttributes a;
    void *pointer = nullptr;
    float ms = 0;
    switch (p.random.below(26)) {
    case 0:
        mix<<<0, 64, 0, lane.stream>>>(device, device, device, 0, 1, 1, 0);
        p.told(cudaPeekAtLastError(), "no blocks");
        break;
    case 1:
        mix<<<1, 2000, 0, lane.stream>>>(device, device, device, 0, 1, 1, 0);
        p.told(cudaPeekAtLastError(), "too many threads");
        break;
    case 2:
        mix<<<1, 32, 1 << 20, lane.stream>>>(device, device, device, 0, 1, 1, 0);
        p.told(cudaPeekAtLastError(), "too much shared memory");
        break;
    case 3: p.told(cudaFree(device + 1), "free inside"); break;
    case 4: p.told(cudaFree(host), "free what is the host's"); break;
    case 5: p.told(cudaFreeHost(device), "free host memory that is none"); break;
    case 6: p.told(cudaHostUnregister(host), "unregister what is not"); break;
    case 7: p.told(cudaStreamEndCapture(lane.stream, &graph), "end no capture"); break;
    case 8:
        p.told(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed),
               "capture the legacy stream");
        break;
    case 9: p.told(cudaGraphLaunch(nullptr, lane.stream), "launch no graph"); break;
    case 10: p.told(cudaGraphInstantiate(&exec, nullptr, 0), "instantiate none"); break;
    case 11: p.told(cudaSetDevice(99), "device 99"); break;
    case 12: p.told(cudaMalloc(&pointer, (size_t)1 << 50), "a petabyte"); break;
    case 13: p.told(cudaMallocHost(&pointer, (size_t)1 << 50), "a petabyte of host memory"); break;
    case 14:
        p.told(cudaMemcpy2DAsync(device, 4, host, 8, 8, 2, cudaMemcpyDefault, lane.stream),
               "rows longer than their pitch");
        break;
    case 15:
        p.told(cudaMemcpyAsync(device, host, 4, (cudaMemcpyKind)9, lane.stream), "a kind of 9");
        break;
    case 16:
    case 17: {
        size_t bytes = p.random.of({0, 4});
        p.told(cudaMemcpyAsync(nullptr, host, bytes, cudaMemcpyDefault, lane.stream), "to 0");
        break;
    }
    case 18: p.told(cudaEventElapsedTime(&ms, nullptr, nullptr), "time of no events"); break;
    case 19: {
        cudaMemLocation here{cudaMemLocationTypeDevice, 0};
        p.told(cudaMemPrefetchAsync(device, 64, here, 0, lane.stream), "prefetch what stays");
        break;
    }
    case 20: p.told(cudaHostGetDevicePointer(&pointer, host, 0), "the device's address"); break;
    case 21: p.told(cudaPointerGetAttributes(&a, nullptr), "attributes of 0"); break;
    case 22: p.told(cudaFuncSetAttribute((void *)mix, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         1 << 20), "an attribute too large"); break;
    case 23: p.told(cudaMemsetAsync(host, 0, 4, lane.stream), "set what is the host's"); break;
    case 24: p.told(cudaFree(nullptr), "free nothing"); break;
    default: p.told(cudaStreamWaitEvent(lane.stream, nullptr, 0), "wait for no event");
    }
}

} // namespace
