// Takes device memory from sixteen threads in all ways that there are, for some seconds: whatever
// is refused must be refused for want of memory, and never is there more than the device says.
// See quota.py.
//     nvcc -std=c++17 -o quota quota.cu -lcuda && ./quota SECONDS [MIB] [trim] [small]
// With MIB it takes no more than that by its own account, as natively it must: what there is of a
// device does not bound managed memory. With `trim` whatever that refuses has pools and graphs give
// back what they keep, as Busbar's server has them do. With `small` nine of ten are small and of
// pools, which is quick, so that there are many more of them.
// With `beyond` it has instead what a driver takes without being asked: variables of a module that
// have no contents, then local memory of a kernel; it waits for a line after each.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

static const char* const IMAGE =
    ".version 7.0\n.target sm_70\n.address_size 64\n.global .align 4 .b8 room[4194304];\n"
    ".visible .entry nothing()\n{\n ret;\n}\n";
static const int THREADS = 16, WAYS = 12;
static const uint64_t UNIT = 2 << 20, SMALL = 4096;

static const char* const VARIABLES =
    ".version 7.0\n.target sm_70\n.address_size 64\n.global .align 4 .b8 room[536870912];\n"
    ".visible .entry nothing()\n{\n ret;\n}\n";
// Each thread has so many bytes, which it writes and reads where nobody knows.
static std::string locals(int bytes) {
    return ".version 7.0\n.target sm_70\n.address_size 64\n"
           ".visible .entry deep(.param .u32 at, .param .u64 out)\n{\n"
           " .local .align 4 .b8 room[" +
           std::to_string(bytes) +
           "];\n .reg .b32 %r<4>;\n .reg .b64 %d<6>;\n"
           " ld.param.u32 %r1, [at];\n ld.param.u64 %d1, [out];\n mul.wide.u32 %d2, %r1, 4;\n"
           " mov.u64 %d3, room;\n add.u64 %d4, %d3, %d2;\n st.local.u32 [%d4], %r1;\n"
           " ld.local.u32 %r2, [%d3+128];\n st.global.u32 [%d1], %r2;\n ret;\n}\n";
}

static std::atomic<uint64_t> held, steps, refused, each[WAYS], spent[2 * WAYS];
static uint64_t most, bound = ~0ull;
static bool trims, mostly_small;

#define MUST(call)                                                                                \
    do {                                                                                          \
        CUresult rc_ = (call);                                                                    \
        if (rc_ != CUDA_SUCCESS) {                                                                \
            std::printf("%s: %d\n", #call, rc_);                                                  \
            std::exit(1);                                                                         \
        }                                                                                         \
    } while (0)

// What was taken, and how it is given back.
struct Piece {
    int way;
    uint64_t handle, size;
};

static CUmemAllocationProp on_device() {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return p;
}

static CUmemPoolProps of_pool() {
    CUmemPoolProps p = {};
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return p;
}

// A graph that takes memory when it runs, which stays until it is given back.
static CUresult of_graph(CUstream stream, uint64_t size, CUdeviceptr* at) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_MEM_ALLOC_NODE_PARAMS p = {};
    p.poolProps = of_pool();
    p.bytesize = size;
    MUST(cuGraphCreate(&graph, 0));
    CUresult rc = cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &p);
    *at = p.dptr;
    if (!rc) {
        rc = cuGraphInstantiate(&exec, graph, 0);
        if (!rc) {
            rc = cuGraphLaunch(exec, stream);
            MUST(cuGraphExecDestroy(exec));
        }
    }
    MUST(cuGraphDestroy(graph));
    return rc;
}

static CUresult take(int way, uint64_t size, CUmemoryPool pool, CUstream stream, uint64_t* out) {
    CUdeviceptr at = 0;
    size_t pitch;
    CUarray array;
    CUmipmappedArray levels;
    CUmodule module;
    CUlibrary library;
    CUmemGenericAllocationHandle made;
    CUresult rc;
    CUDA_ARRAY3D_DESCRIPTOR cube = {64, 64, size / 4096, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    CUDA_ARRAY_DESCRIPTOR plane = {1024, size / 1024, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUmemAllocationProp device = on_device();
    switch (way) {
        case 0: rc = cuMemAlloc(&at, size); break;
        case 1: rc = cuMemAllocManaged(&at, size, CU_MEM_ATTACH_GLOBAL); break;
        case 2: rc = cuMemAllocAsync(&at, size, stream); break;
        case 3: rc = cuMemAllocFromPoolAsync(&at, size, pool, stream); break;
        case 4: rc = cuMemAllocPitch(&at, &pitch, 512, size / 512, 4); break;
        case 5: rc = cuMemCreate(&made, size, &device, 0), at = made; break;
        case 6: rc = cuArrayCreate(&array, &plane), at = (CUdeviceptr)array; break;
        case 7: rc = cuArray3DCreate(&array, &cube), at = (CUdeviceptr)array; break;
        case 8: rc = cuMipmappedArrayCreate(&levels, &cube, 1), at = (CUdeviceptr)levels; break;
        case 9: rc = cuModuleLoadData(&module, IMAGE), at = (CUdeviceptr)module; break;
        case 10:
            rc = cuLibraryLoadData(&library, IMAGE, 0, 0, 0, 0, 0, 0);
            at = (CUdeviceptr)library;
            break;
        default: rc = of_graph(stream, size, &at);
    }
    *out = at;
    return rc;
}

static void give_back(const Piece& p, CUstream stream) {
    CUresult rc;
    // First: another thread may have it as soon as it is free.
    held -= p.size;
    switch (p.way) {
        case 2: case 3: case 11: rc = cuMemFreeAsync(p.handle, stream); break;
        case 5: rc = cuMemRelease(p.handle); break;
        case 6: case 7: rc = cuArrayDestroy((CUarray)p.handle); break;
        case 8: rc = cuMipmappedArrayDestroy((CUmipmappedArray)p.handle); break;
        case 9: rc = cuModuleUnload((CUmodule)p.handle); break;
        case 10: rc = cuLibraryUnload((CUlibrary)p.handle); break;
        default: rc = cuMemFree(p.handle);
    }
    if (rc != CUDA_SUCCESS) {
        std::printf("way %d, %llu bytes at %llx given back: %d\n", p.way,
                    (unsigned long long)p.size, (unsigned long long)p.handle, rc);
        std::fflush(stdout);
        _exit(1);
    }
}

// Adds how long something took, to where that is counted.
struct Timed {
    std::atomic<uint64_t>& sum;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    ~Timed() { sum += (std::chrono::steady_clock::now() - begun).count(); }
};

static void work(CUcontext context, uint64_t seed, std::chrono::steady_clock::time_point end) {
    MUST(cuCtxSetCurrent(context));
    CUmemPoolProps props = of_pool();
    CUmemoryPool pool;
    CUstream stream;
    MUST(cuMemPoolCreate(&pool, &props));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    auto below = [&seed](uint64_t n) {
        seed = seed * 6364136223846793005u + 1;
        return (seed >> 33) % n;
    };
    std::vector<Piece> pieces;
    while (std::chrono::steady_clock::now() < end) {
        bool quick = mostly_small && below(10);
        int way = quick ? 2 + (int)below(2) : (int)below(WAYS);
        bool image = way == 9 || way == 10;
        uint64_t size = UNIT * (1 + below(16)), handle;
        // Physical memory comes in whole units.
        if ((quick || below(2)) && way != 5) size = SMALL * (1 + below(256));
        CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
        if (held + size <= bound) {
            Timed timed{spent[way]};
            rc = take(way, size, pool, stream, &handle);
        } else if (trims) {
            MUST(cuMemPoolTrimTo(pool, 0));
            MUST(cuDeviceGraphMemTrim(0));
        }
        ++steps;
        if (rc == CUDA_SUCCESS) {
            // What an image takes is its own affair.
            uint64_t mine = image ? 0 : size, now = held += mine;
            if (now > most && bound == ~0ull) {
                std::printf("%llu bytes of %llu\n", (unsigned long long)now,
                            (unsigned long long)most);
                std::exit(1);
            }
            ++each[way];
            pieces.push_back({way, handle, mine});
        } else if (rc == CUDA_ERROR_OUT_OF_MEMORY) {
            ++refused;
        } else {
            std::printf("way %d: %d\n", way, rc);
            std::fflush(stdout);
            _exit(1);
        }
        // Whoever is refused makes room, as programs do. It is full nearly all the time even so.
        uint64_t back = rc == CUDA_SUCCESS ? (below(20) < 9) : 3;
        for (; back > 0 && !pieces.empty(); --back) {
            std::swap(pieces[below(pieces.size())], pieces.back());
            Timed timed{spent[WAYS + pieces.back().way]};
            give_back(pieces.back(), stream);
            pieces.pop_back();
        }
    }
    for (const Piece& p : pieces) give_back(p, stream);
    MUST(cuStreamSynchronize(stream));
    MUST(cuStreamDestroy(stream));
    MUST(cuMemPoolDestroy(pool));
}

static void say(const char* what) {
    std::printf("%s\n", what);
    std::fflush(stdout);
    std::getchar();
}

static int beyond() {
    CUmodule module;
    CUfunction deep;
    CUdeviceptr room, out;
    size_t size;
    unsigned at = 5;
    void* params[] = {&at, &out};
    MUST(cuMemAlloc(&out, 4096));
    say("nothing");
    MUST(cuModuleLoadData(&module, VARIABLES));
    MUST(cuModuleGetGlobal(&room, &size, module, "room"));
    MUST(cuMemsetD8(room, 1, size));
    say("variables");
    for (int bytes : {8192, 1 << 18}) {
        MUST(cuModuleLoadData(&module, locals(bytes).c_str()));
        MUST(cuModuleGetFunction(&deep, module, "deep"));
        CUresult rc = cuLaunchKernel(deep, 4096, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr);
        MUST(cuCtxSynchronize());
        say(("locals of " + std::to_string(bytes) + ": " + std::to_string(rc)).c_str());
    }
    int loaded = 0;
    while (loaded < 1000 && !cuModuleLoadData(&module, VARIABLES)) ++loaded;
    say(("variables " + std::to_string(loaded) + " times more").c_str());
    int streams = 0;
    CUstream stream;
    while (streams < 100000 && !cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) ++streams;
    say(("streams " + std::to_string(streams)).c_str());
    return 0;
}

int main(int argc, char** argv) {
    CUcontext context;
    size_t free, total;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    if (argc > 1 && std::string(argv[1]) == "beyond") return beyond();
    MUST(cuMemGetInfo(&free, &total));
    most = free;
    for (int i = 2; i < argc; ++i) {
        std::string word = argv[i];
        if (word == "trim") {
            trims = true;
        } else if (word == "small") {
            mostly_small = true;
        } else {
            bound = std::strtoull(argv[i], nullptr, 10) << 20;
        }
    }
    std::printf("total %zu free %zu\n", total, free);
    std::fflush(stdout);
    auto end = std::chrono::steady_clock::now() +
               std::chrono::milliseconds((long)(1000 * std::atof(argc > 1 ? argv[1] : "5")));
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; ++i) threads.emplace_back(work, context, 1 + i, end);
    for (auto& t : threads) t.join();
    std::printf("steps %llu refused %llu; given by each way:", (unsigned long long)steps,
                (unsigned long long)refused);
    for (auto& n : each) std::printf(" %llu", (unsigned long long)n);
    std::printf("\nseconds that they took, and that they took to be given back:");
    for (int i = 0; i < WAYS; ++i) {
        std::printf(" %.1f+%.1f", spent[i] / 1e9, spent[WAYS + i] / 1e9);
    }
    std::printf("\n");
}
