// What a device says of itself, limits of a context, names of errors, and where functions are
// found.
#include "tell.h"
#include <atomic>
#include <cstring>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

__global__ void nothing() {}

/// Attributes that are the machine's of the program rather than the device's.
static bool local(int a) {
    static const int masked[] = {
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
        CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
        CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
        114, 121, 136, 137,            // other APIs' semaphores, sparse arrays, decompression
        143, 146,                      // memory of the host that other machines have, and adapters
    };
    for (int m : masked)
        if (m == a) return true;
    return false;
}

static void attributes() {
    puts("-- attributes");
    for (int a = 0; a < 160; a++) {
        int v = -77;
        CUresult rc = cuDeviceGetAttribute(&v, (CUdevice_attribute)a, 0);
        if (!local(a)) printf("%d: %d %d\n", a, (int)rc, v);
    }
    int v;
    SAY(cuDeviceGetAttribute(&v, (CUdevice_attribute)100000, 0));
    SAY(cuDeviceGetAttribute(&v, (CUdevice_attribute)-1, 0));
    SAY(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1));
    SAY(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000));
    CUdevprop old;
    SAY(cuDeviceGetProperties(&old, 0));
    printf("%d threads, %d shared, %d constant, warps of %d, pitch %d, %d registers, align %d\n",
           old.maxThreadsPerBlock, old.sharedMemPerBlock, old.totalConstantMemory, old.SIMDWidth,
           old.memPitch, old.regsPerBlock, old.textureAlign);
    int major, minor;
    SAY(cuDeviceComputeCapability(&major, &minor, 0));
    printf("%d.%d\n", major, minor);
    char name[256], tiny[6];
    SAY(cuDeviceGetName(name, 256, 0));
    SAY(cuDeviceGetName(tiny, 6, 0));
    printf("%s, %s\n", name, tiny);
    size_t bytes;
    SAY(cuDeviceTotalMem(&bytes, 0));
    printf("%zu bytes\n", bytes);
    cudaDeviceProp p;
    SAY(cudaGetDeviceProperties(&p, 0));
    printf("%s %d.%d: %zu %d %d %d %d %zu %zu %d %d %d %zu %d\n", p.name, p.major, p.minor,
           p.totalGlobalMem, p.multiProcessorCount, p.l2CacheSize, p.maxThreadsPerMultiProcessor,
           p.memoryBusWidth, p.sharedMemPerMultiprocessor, p.sharedMemPerBlockOptin,
           p.persistingL2CacheMaxSize, p.accessPolicyMaxWindowSize, p.maxBlocksPerMultiProcessor,
           p.reservedSharedMemPerBlock, p.asyncEngineCount);
    CUuuid uuid;
    char bus[32], small[4];
    SAY(cuDeviceGetUuid(&uuid, 0));
    SAY(cuDeviceGetPCIBusId(bus, 32, 0));
    SAY(cuDeviceGetPCIBusId(small, 4, 0));
    CUdevice back = -1;
    SAY(cuDeviceGetByPCIBusId(&back, bus));
    printf("found %d\n", (int)back);
    SAY(cuDeviceGetByPCIBusId(&back, "ffff:ff:1f.0"));
    SAY(cuDeviceGetByPCIBusId(&back, "nonsense"));
    size_t width = 0;
    SAY(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 0));
    printf("%zu wide\n", width);
    for (int a = 1; a <= 7; a++) {
        int v = -7;
        CUresult rc = cuDeviceGetP2PAttribute(&v, (CUdevice_P2PAttribute)a, 0, 0);
        printf("with itself %d: %d\n", a, (int)rc);
    }
    SAY(cuDeviceCanAccessPeer(&v, 0, 0));
    printf("can %d\n", v);
    CUexecAffinityType type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    SAY(cuDeviceGetExecAffinitySupport(&v, type, 0));
    printf("# affinity %d\n", v);
    SAY(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                   CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
    SAY(cuFlushGPUDirectRDMAWrites((CUflushGPUDirectRDMAWritesTarget)9,
                                   CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
    int version = 0;
    SAY(cuDriverGetVersion(&version));
    printf("%d\n", version);
    unsigned api = 0;
    CUcontext c;
    DRIVER(cuCtxGetCurrent(&c));
    SAY(cuCtxGetApiVersion(c, &api));
    printf("api %u\n", api);
    unsigned long long id = 0;
    SAY(cuCtxGetId(c, &id));
    printf("id %d\n", id != 0);
    CUmoduleLoadingMode mode;
    SAY(cuModuleGetLoadingMode(&mode));
    printf("loading %d\n", (int)mode);
}

static void limits() {
    puts("-- limits");
    for (int l = 0; l < 9; l++) {
        size_t v = 77;
        CUresult rc = cuCtxGetLimit(&v, (CUlimit)l);
        printf("%d: %d %zu\n", l, (int)rc, v);
    }
    struct {
        CUlimit l;
        size_t v;
    } all[] = {
        {CU_LIMIT_STACK_SIZE, 5000}, {CU_LIMIT_PRINTF_FIFO_SIZE, 3 << 20},
        {CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20}, {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3},
        {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1000}, {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
        {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 77}, {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 1 << 20},
        {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, (size_t)1 << 40}, {(CUlimit)99, 1},
    };
    for (auto &x : all) {
        CUresult rc = cuCtxSetLimit(x.l, x.v);
        size_t v = 77;
        CUresult got = cuCtxGetLimit(&v, x.l);
        printf("%d to %zu: %d, then %d %zu\n", (int)x.l, x.v, (int)rc, (int)got, v);
    }
    nothing<<<1, 1>>>();
    SAY(cudaDeviceSynchronize());
    SAY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20));
    unsigned flags = 0;
    SAY(cuCtxGetFlags(&flags));
    printf("flags %#x\n", flags);
    SAY(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
    SAY(cuCtxGetFlags(&flags));
    printf("flags %#x\n", flags);
    SAY(cuCtxSetFlags(0x4000));
    SAY(cuCtxSetFlags(0x7));
    SAY(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN));
    int active = 7;
    SAY(cuDevicePrimaryCtxGetState(0, &flags, &active));
    printf("flags %#x active %d\n", flags, active);
    SAY(cuDevicePrimaryCtxSetFlags(0, 0x1000));
    SAY(cudaSetDeviceFlags(cudaDeviceScheduleYield));
    SAY(cudaGetDeviceFlags(&flags));
    printf("flags %#x\n", flags);
    CUsharedconfig config;
    SAY(cuCtxGetSharedMemConfig(&config));
    SAY(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
}

static void names() {
    puts("-- names");
    for (int e = -1; e < 1001; e++) {
        const char *name = nullptr, *text = nullptr;
        CUresult a = cuGetErrorName((CUresult)e, &name), b = cuGetErrorString((CUresult)e, &text);
        if (!a || !b || e == -1)
            printf("%d: %d %s, %d %s\n", e, (int)a, name ? name : "none", (int)b,
                   text ? text : "none");
    }
}

/// Which of these are there for which version. Which versions share a function (=), and whether the
/// flag makes a difference (t), is for people: a driver may share code, and so may a compiler.
static void functions() {
    puts("-- functions");
    const char *all[] = {
        "cuMemAlloc", "cuCtxCreate", "cuCtxDestroy", "cuMemcpyHtoDAsync", "cuStreamBeginCapture",
        "cuGraphInstantiate", "cuGraphExecUpdate", "cuGraphAddKernelNode",
        "cuStreamGetCaptureInfo", "cuGraphAddDependencies", "cuGetProcAddress",
        "cuMemPrefetchAsync", "cuMemAdvise", "cuDeviceGetUuid", "cuStreamWaitValue32",
        "cuStreamBatchMemOp", "cuLaunchKernelEx", "cuKernelGetName", "cuLibraryLoadData",
        "cuTensorMapEncodeTiled", "cuMulticastCreate", "cuGreenCtxCreate", "cuCtxCreate_v2",
        "cuMemcpyBatchAsync", "cuLogsCurrent", "cuEventElapsedTime", "cuNothing", "",
        "cuCoredumpGetAttribute", "cuCheckpointProcessLock", "cuCtxGetDevice", "cuMemGetInfo",
        "cuGraphicsGLRegisterBuffer", "cuEGLStreamConsumerConnect", "cuMemCreate",
        "cuLaunchHostFunc", "cuStreamGetCtx", "cuCtxFromGreenCtx", "cuMemBatchDecompressAsync",
        "cuProfilerStart"};
    const int versions[] = {2000,  3020,  4000,  7000,  10000, 11000,
                            11080, 12000, 12040, 12080, 13000};
    for (const char *f : all) {
        std::string line = f, how = std::string("# ") + f;
        void *last = nullptr;
        for (int v : versions) {
            void *p = (void *)1, *q = nullptr;
            CUdriverProcAddressQueryResult r = (CUdriverProcAddressQueryResult)7, rq;
            CUresult rc = cuGetProcAddress(f, &p, v, CU_GET_PROC_ADDRESS_DEFAULT, &r);
            cuGetProcAddress(f, &q, v, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &rq);
            line += " " + std::to_string((int)rc) + "/" + std::to_string((int)r) +
                    (rc || !p ? "-" : "+");
            how += std::string(" ") + (rc || !p ? "-" : p == last ? "=" : "+") +
                   (p == q ? "" : "t");
            last = p;
        }
        puts(line.c_str());
        puts(how.c_str());
    }
    void *p = nullptr;
    SAY(cuGetProcAddress("cuMemAlloc", &p, 13000, 0x80, nullptr));
    SAY(cuGetProcAddress("cuMemAlloc", &p, 0, 0, nullptr));
    SAY(cuGetProcAddress("cuMemAlloc", &p, 99000, 0, nullptr));
    cudaDriverEntryPointQueryResult r;
#if CUDA_VERSION >= 12050
    SAY(cudaGetDriverEntryPointByVersion("cuMemAlloc", &p, 12000, cudaEnableDefault, &r));
    printf("%d %d\n", p != nullptr, (int)r);
    SAY(cudaGetDriverEntryPointByVersion("cuNothing", &p, 12000, cudaEnableDefault, &r));
    printf("%d %d\n", p != nullptr, (int)r);
    SAY(cudaGetDriverEntryPointByVersion("cuGreenCtxCreate", &p, 11000,
                                         cudaEnablePerThreadDefaultStream, &r));
    printf("%d %d\n", p != nullptr, (int)r);
#else
    SAY(cudaGetDriverEntryPoint("cuMemAlloc", &p, cudaEnableDefault, &r));
#endif
}

static std::atomic<int> heard{0};
static void CUDA_CB hear(void *to, CUlogLevel, char *message, size_t length) {
    if (to == &heard && message && length) heard++;
}

/// The driver's log. Its words are its own, so they are for people; times and threads are in them.
static void words() {
    puts("-- words of the driver");
    CUlogIterator at = 0, file = 0;
    SAY(cuLogsCurrent(&at, 0));
    char text[25601] = "x";
    size_t room = sizeof text;
    SAY(cuLogsDumpToMemory(&at, text, &room, 0));
    printf("%zu bytes\n", room);
    CUlogsCallbackHandle listener = nullptr;
    SAY(cuLogsRegisterCallback(hear, &heard, &listener));
    file = at;
    // What is documented to be logged.
    room = 1;
    SAY(cuLogsDumpToMemory(&at, nullptr, &room, 0));
    usleep(50000);
    printf("heard %d\n", heard > 0);
    room = sizeof text;
    SAY(cuLogsDumpToMemory(&at, text, &room, 0));
    printf("some %d\n", room > 0 && text[0] == '[' && !text[room]);
    for (char *line = strtok(text, "\n"); line; line = strtok(nullptr, "\n"))
        printf("# %s\n", line);
    room = sizeof text;
    SAY(cuLogsDumpToMemory(&at, text, &room, 0));
    printf("%zu bytes\n", room);
    char path[] = "/tmp/device-facts-XXXXXX";
    int fd = mkstemp(path);
    CUlogIterator again = file;
    SAY(cuLogsDumpToFile(&file, path, 0));
    struct stat first{}, second{};
    fstat(fd, &first);
    SAY(cuLogsDumpToFile(&again, path, 0));
    stat(path, &second);
    printf("in the file %d\n", first.st_size > 0);
    printf("# it is %ld bytes long, then %ld\n", (long)first.st_size, (long)second.st_size);
    close(fd);
    unlink(path);
    if (listener) SAY(cuLogsUnregisterCallback(listener));
    int before = heard;
    room = 1;
    SAY(cuLogsDumpToMemory(&at, nullptr, &room, 0));
    usleep(50000);
    printf("heard more %d\n", heard != before);
}

int main() {
    DRIVER(cuInit(0));
    CHECK(cudaFree(nullptr));
    attributes();
    limits();
    names();
    functions();
    words();
    printf("done\n");
}
