// Which calls keep a copy of another thread's from its device while they wait for a function of the
// program's, and how many held streams do: what ADR 0046 rests on. Run natively:
//
//     nvcc -std=c++17 -arch=native who_waits.cu -o who_waits -lcuda && ./who_waits
//
// Each line tells how long a copy took in the context of the call, and in a second context on the
// same device, while a function held a stream for 150 ms.
#include "tell.h"
#include <atomic>
#include <chrono>
#include <cuda.h>
#include <cuda_runtime.h>
#include <functional>
#include <thread>
#include <unistd.h>
#include <vector>

static const useconds_t HELD = 150000;

static double now() {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

__global__ void add(int *p) { atomicAdd(p, 1); }
/// With more local memory than a context begins with.
__global__ void deep(int *p, int n) {
    volatile char much[60000];
    for (int i = 0; i < n; i++) much[i % 60000] = i;
    atomicAdd(p, much[n % 60000]);
}

static std::atomic<bool> go;
static void CUDART_CB hold(void *) {
    while (!go) usleep(100);
}

/// A stream of a context, and mapped memory, which all contexts of the device reach.
struct Lane {
    CUcontext context;
    CUstream stream;
    /// How long a copy from there takes.
    double copy(CUdeviceptr from) const {
        int to[4];
        DRIVER(cuCtxSetCurrent(context));
        double begun = now();
        DRIVER(cuMemcpyDtoHAsync(to, from, sizeof to, stream));
        DRIVER(cuStreamSynchronize(stream));
        return now() - begun;
    }
};

static Lane here, apart;
static CUdeviceptr mapped;
static cudaStream_t held;
static int *counter, *page_locked;

static void line(const char *name, const std::function<void()> &call) {
    double took[2];
    for (int other = 0; other < 2; other++) {
        std::thread timer([] { usleep(HELD), go = true; });
        std::thread caller([&] {
            DRIVER(cuCtxSetCurrent(here.context));
            call();
        });
        usleep(HELD / 5);
        took[other] = (other ? apart : here).copy(mapped);
        caller.join(), timer.join();
        DRIVER(cuCtxSetCurrent(here.context));
        CHECK(cudaDeviceSynchronize());
        go = false;
    }
    bool up = took[0] > HELD / 2000.0;
    printf("# %-44s %7.1f ms %7.1f ms%s\n", name, took[0], took[1], up ? "  held up" : "");
}

/// A call that finds a stream held.
static void behind(const char *name, const std::function<void()> &before,
                   const std::function<void()> &call) {
    line(name, [&] {
        before();
        CHECK(cudaLaunchHostFunc(held, hold, nullptr));
        call();
    });
}

static cudaGraphExec_t branches(int n) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    void *arguments[] = {&counter};
    cudaKernelNodeParams k{(void *)add, dim3(1), dim3(1), 0, arguments, nullptr};
    std::vector<cudaGraphNode_t> nodes(n);
    for (auto &node : nodes) CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &k));
    cudaGraphNode_t join;
    CHECK(cudaGraphAddKernelNode(&join, graph, nodes.data(), nodes.size(), &k));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

int main() {
    CHECK(cudaMalloc(&counter, 4));
    CHECK(cudaMallocHost(&page_locked, 4));
    DRIVER(cuCtxGetCurrent(&here.context));
    DRIVER(cuStreamCreate(&here.stream, CU_STREAM_NON_BLOCKING));
    CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    const size_t bytes = 2 << 20;
    DRIVER(cuMemCreate(&handle, bytes, &prop, 0));
    DRIVER(cuMemAddressReserve(&mapped, bytes, 0, 0, 0));
    DRIVER(cuMemMap(mapped, bytes, 0, handle, 0));
    DRIVER(cuMemSetAccess(mapped, bytes, &access, 1));
    size_t before, after, total;
    CHECK(cudaMemGetInfo(&before, &total));
    double begun = now();
    CUctxCreateParams none{};
    DRIVER(cuCtxCreate(&apart.context, &none, 0, 0));
    DRIVER(cuStreamCreate(&apart.stream, CU_STREAM_NON_BLOCKING));
    double made = now() - begun;
    CHECK(cudaMemGetInfo(&after, &total));
    DRIVER(cuCtxSetCurrent(here.context));
    printf("# a second context: %.0f ms, %zu MiB\n", made, (before - after) >> 20);

    const auto nothing = [] {};
    void *p = nullptr, *own = aligned_alloc(4096, 1 << 20);
    cudaArray_t array;
    cudaGraphExec_t exec;
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
    behind("nothing", nothing, nothing);
    behind("cudaFree", [&] { CHECK(cudaMalloc(&p, 1 << 20)); }, [&] { CHECK(cudaFree(p)); });
    behind("cudaFreeHost", [&] { CHECK(cudaMallocHost(&p, 1 << 20)); },
           [&] { CHECK(cudaFreeHost(p)); });
    behind("cudaHostUnregister", [&] { CHECK(cudaHostRegister(own, 1 << 20, 0)); },
           [&] { CHECK(cudaHostUnregister(own)); });
    behind("cudaFreeArray", [&] { CHECK(cudaMallocArray(&array, &floats, 64, 64)); },
           [&] { CHECK(cudaFreeArray(array)); });
    for (int n : {1, 4}) {
        line(n > 1 ? "cudaGraphExecDestroy, 4 branches" : "cudaGraphExecDestroy, 1 branch", [&] {
            exec = branches(n);
            CHECK(cudaLaunchHostFunc(held, hold, nullptr));
            CHECK(cudaGraphLaunch(exec, held));
            CHECK(cudaGraphExecDestroy(exec));
        });
    }
    behind("cudaDeviceSynchronize", nothing, [] { CHECK(cudaDeviceSynchronize()); });
    behind("2,000 kernels", nothing, [] {
        for (int i = 0; i < 2000; i++) add<<<1, 1, 0, held>>>(counter);
    });
    std::vector<cudaStream_t> streams(60);
    for (auto &s : streams) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int n : {4, 6, 7, 12, 30, 60}) {
        char name[40];
        snprintf(name, sizeof name, "%d streams with copies held", n);
        line(name, [&] {
            for (int i = 0; i < n; i++) {
                CHECK(cudaLaunchHostFunc(streams[i], hold, nullptr));
                add<<<1, 1, 0, streams[i]>>>(counter);
                CHECK(cudaMemcpyAsync(page_locked, counter, 4, cudaMemcpyDeviceToHost, streams[i]));
            }
        });
    }
    // Last, since it stays.
    behind("a kernel of much local memory", nothing, [] { deep<<<1, 1, 0, held>>>(counter, 5); });
    return 0;
}
