// What a driver says of arguments that are odd: sizes of nothing, beyond an end or not aligned,
// flags and numbers that there are not, things that are used twice or in the wrong place. Each
// family has a process of its own, whose line begins with "#" if it does not end by itself. Prints
// the same lines wherever it runs. (null_arguments.c does this of arguments that are not there.)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <initializer_list>
#include <sys/wait.h>
#include <unistd.h>

// One answer, and what comes of the next wait, if anything does.
static void say(const char *call, CUresult r) {
    printf("%.100s: %d\n", call, r);
    CUresult later = cuCtxSynchronize();
    if (later) printf("  later: %d\n", later);
}
#define TRY(...) say(#__VA_ARGS__, __VA_ARGS__)

static void must(int line, CUresult r) {
    if (!r) return;
    printf("line %d: the preparation gives %d\n", line, r);
    exit(3);
}
#define DO(...) must(__LINE__, __VA_ARGS__)

static const char *PTX = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .entry k(.param .u64 p, .param .u32 n) { ret; }
.visible .entry none() { ret; }
.visible .entry bound() .maxntid 64, 1, 1 { ret; }
)";

static CUdevice device;
static CUcontext context;
static CUstream stream;
static CUmodule module_;
static CUfunction k, none, bound;
static CUdeviceptr memory;
static char host[4096];
static void *params[2];
static unsigned number = 7;

static void prepare() {
    DO(cuInit(0));
    DO(cuDeviceGet(&device, 0));
    DO(cuDevicePrimaryCtxRetain(&context, device));
    DO(cuCtxSetCurrent(context));
    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DO(cuModuleLoadData(&module_, PTX));
    DO(cuModuleGetFunction(&k, module_, "k"));
    DO(cuModuleGetFunction(&none, module_, "none"));
    DO(cuModuleGetFunction(&bound, module_, "bound"));
    DO(cuMemAlloc(&memory, 4096));
    params[0] = &memory;
    params[1] = &number;
}

#define LAUNCH(f, gx, gy, gz, bx, by, bz, shared)                                                  \
    TRY(cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, nullptr))

static void launches() {
    LAUNCH(k, 0, 1, 1, 1, 1, 1, 0);
    LAUNCH(k, 1, 0, 1, 1, 1, 1, 0);
    LAUNCH(k, 1, 1, 1, 0, 1, 1, 0);
    LAUNCH(k, 1, 1, 1, 1, 1, 0, 0);
    LAUNCH(k, 1, 1, 1, 1024, 1, 1, 0);
    LAUNCH(k, 1, 1, 1, 1025, 1, 1, 0);
    LAUNCH(k, 1, 1, 1, 1, 1, 64, 0);
    LAUNCH(k, 1, 1, 1, 1, 1, 65, 0);
    LAUNCH(k, 1, 1, 1, 32, 32, 2, 0);
    LAUNCH(k, 2147483647, 1, 1, 1, 1, 1, 0);
    LAUNCH(k, 1, 65536, 1, 1, 1, 1, 0);
    LAUNCH(k, 1, 1, 65536, 1, 1, 1, 0);
    LAUNCH(k, 1, 1, 1, 1, 1, 1, 49152);
    LAUNCH(k, 1, 1, 1, 1, 1, 1, 49153);
    LAUNCH(k, 1, 1, 1, 1, 1, 1, 1 << 30);
    LAUNCH(bound, 1, 1, 1, 64, 1, 1, 0);
    LAUNCH(bound, 1, 1, 1, 65, 1, 1, 0);
    TRY(cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    size_t n = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, host, CU_LAUNCH_PARAM_BUFFER_SIZE, &n,
                     CU_LAUNCH_PARAM_END};
    TRY(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
    TRY(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, params, extra));
    n = 8;
    TRY(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
    for (size_t size : {0, 1, 11, 13, 16, 17, 24, 32, 64, 4096}) {
        n = size;
        printf("%zu: ", n);
        TRY(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
        TRY(cuStreamSynchronize(stream));
    }
    TRY(cuLaunchCooperativeKernel(k, 1, 1, 1, 32, 1, 1, 0, stream, params));
    TRY(cuLaunchCooperativeKernel(k, 1 << 20, 1, 1, 1024, 1, 1, 0, stream, params));
    for (int value : {-1, 0, 49152, 70000, 227 << 10, (227 << 10) + 1, 1 << 30})
        TRY(cuFuncSetAttribute(k, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, value));
    for (int value : {-2, -1, 0, 50, 100, 101})
        TRY(cuFuncSetAttribute(k, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, value));
    TRY(cuFuncSetAttribute(k, CU_FUNC_ATTRIBUTE_NUM_REGS, 3));
    TRY(cuFuncSetAttribute(k, (CUfunction_attribute)99, 3));
    TRY(cuFuncSetCacheConfig(k, (CUfunc_cache)9));
    int blocks = -1;
    for (int size : {-1, 0, 1, 1024, 1025, 1 << 20}) {
        TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, size, 0));
        printf("  %d\n", blocks);
    }
    TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 64, 1 << 30));
    printf("  %d\n", blocks);
}

static void memory_sizes() {
    CUdeviceptr p = 0;
    size_t pitch = 0;
    TRY(cuMemAlloc(&p, 0));
    TRY(cuMemAlloc(&p, (size_t)1 << 50));
    TRY(cuMemAlloc(&p, ~(size_t)0));
    for (unsigned element : {0u, 1u, 2u, 3u, 4u, 8u, 12u, 16u, 32u}) {
        TRY(cuMemAllocPitch(&p, &pitch, 100, 4, element));
        printf("  %zu\n", pitch);
    }
    for (size_t width : {(size_t)0, (size_t)100, (size_t)1 << 50, ~(size_t)0})
        for (size_t height : {(size_t)0, (size_t)4, (size_t)1 << 40}) {
            pitch = 7;
            printf("%zu x %zu: ", width, height);
            TRY(cuMemAllocPitch(&p, &pitch, width, height, 4));
            printf("  %zu\n", pitch);
        }
    TRY(cuMemFree(0));
    TRY(cuMemFree(memory + 16));
    TRY(cuMemFree(0x1234));
    DO(cuMemAlloc(&p, 64));
    DO(cuMemFree(p));
    TRY(cuMemFree(p));
    TRY(cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
    TRY(cuMemAllocManaged(&p, 64, 0));
    TRY(cuMemAllocManaged(&p, 64, 3));
    TRY(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_SINGLE));
    TRY(cuMemAllocAsync(&p, 0, stream));
    TRY(cuMemAllocAsync(&p, 64, stream));
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuMemFreeAsync(0, stream));
    void *h = nullptr;
    TRY(cuMemAllocHost(&h, 0));
    TRY(cuMemHostAlloc(&h, 64, 0x80));
    TRY(cuMemHostAlloc(&h, 64, 7));
    TRY(cuMemFreeHost(host));
    TRY(cuMemFreeHost((char *)h + 1));
    CUdeviceptr base = 0;
    size_t size = 0;
    TRY(cuMemGetAddressRange(&base, &size, memory + 100));
    printf("  %d %zu\n", base == memory, size);
    TRY(cuMemGetAddressRange(&base, &size, memory - 1));
    TRY(cuMemGetAddressRange(&base, &size, (CUdeviceptr)host));
    uint64_t value = 0;
    TRY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host));
    TRY(cuPointerGetAttribute(&value, (CUpointer_attribute)999, memory));
    TRY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory + 4095));
    int yes = 1;
    TRY(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory + 1));
    TRY(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    CUipcMemHandle ipc;
    TRY(cuIpcGetMemHandle(&ipc, memory + 256));
    TRY(cuIpcGetMemHandle(&ipc, (CUdeviceptr)host));
}

static void registered() {
    char *page = (char *)aligned_alloc(4096, 4 * 4096);
    TRY(cuMemHostRegister(page, 0, 0));
    TRY(cuMemHostRegister(page + 1, 100, 0));
    TRY(cuMemHostRegister(page, 4096, 0));
    TRY(cuMemHostUnregister(page + 1));
    TRY(cuMemHostUnregister(page));
    TRY(cuMemHostUnregister(page));
    TRY(cuMemHostRegister(page, 4096, 0x100));
    TRY(cuMemHostRegister(page, 4096, CU_MEMHOSTREGISTER_READ_ONLY));
    TRY(cuMemHostRegister(page, 4096, CU_MEMHOSTREGISTER_IOMEMORY));
    TRY(cuMemHostRegister((void *)0x10000, 4096, 0));
    CUdeviceptr p = 0;
    unsigned flags = 0;
    TRY(cuMemHostGetDevicePointer(&p, page, 0));
    TRY(cuMemHostGetDevicePointer(&p, host, 0));
    TRY(cuMemHostGetDevicePointer(&p, host, 1));
    TRY(cuMemHostGetFlags(&flags, host));
}

static void copies() {
    TRY(cuMemcpyHtoD(memory, host, 0));
    TRY(cuMemcpyHtoD(0, host, 0));
    TRY(cuMemcpyHtoD(memory, nullptr, 0));
    TRY(cuMemcpyHtoD(memory + 4090, host, 16));
    TRY(cuMemcpyDtoH(host, memory + 4090, 16));
    TRY(cuMemcpyDtoH(host, memory, 0));
    TRY(cuMemcpyDtoD(memory, memory + 8, 64));
    TRY(cuMemcpyDtoD(memory, memory, 64));
    TRY(cuMemcpyDtoD(memory, (CUdeviceptr)host, 64));
    TRY(cuMemcpy(memory, (CUdeviceptr)host, 64));
    TRY(cuMemcpy((CUdeviceptr)host, (CUdeviceptr)host + 64, 64));
    TRY(cuMemcpyAsync(memory, memory + 64, 0, stream));
    TRY(cuMemcpyPeer(memory, context, memory + 64, context, 64));
    TRY(cuMemcpyPeerAsync(memory, context, memory + 64, context, 0, stream));
    TRY(cuMemsetD8(memory, 1, 0));
    TRY(cuMemsetD8(memory + 1, 1, 3));
    TRY(cuMemsetD16(memory + 1, 1, 4));
    TRY(cuMemsetD16(memory + 2, 1, 3));
    TRY(cuMemsetD32(memory + 2, 1, 4));
    TRY(cuMemsetD32(memory + 4, 1, 3));
    TRY(cuMemsetD32(memory, 1, 0));
    TRY(cuMemsetD32(memory + 4092, 1, 2));
    TRY(cuMemsetD8((CUdeviceptr)host, 1, 16));
    TRY(cuMemsetD2D8(memory, 64, 1, 65, 2));
    TRY(cuMemsetD2D8(memory, 64, 1, 64, 2));
    TRY(cuMemsetD2D8(memory, 64, 1, 0, 2));
    TRY(cuMemsetD2D8(memory, 64, 1, 64, 0));
    TRY(cuMemsetD2D32(memory, 66, 1, 4, 2));
    CUDA_MEMCPY2D c = {};
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = host;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = memory;
    auto plane = [&](size_t width, size_t height, size_t from, size_t to) {
        c.WidthInBytes = width, c.Height = height, c.srcPitch = from, c.dstPitch = to;
        printf("%zu x %zu, pitches %zu %zu: ", width, height, from, to);
        TRY(cuMemcpy2D(&c));
        TRY(cuMemcpy2DUnaligned(&c));
        TRY(cuMemcpy2DAsync(&c, stream));
    };
    plane(64, 2, 64, 64);
    plane(64, 2, 63, 64);
    plane(64, 2, 64, 63);
    plane(64, 1, 0, 0);
    plane(64, 2, 0, 64);
    plane(0, 2, 64, 64);
    plane(64, 0, 64, 64);
    plane(64, 2, 100, 100);
    plane(64, 65, 64, 64);
    c.srcXInBytes = 8;
    plane(56, 2, 64, 64);
    plane(64, 2, 64, 64);
    plane(64, 1, 64, 64);
    plane(57, 1, 64, 64);
    c.srcXInBytes = 0, c.dstXInBytes = 8;
    plane(64, 2, 64, 64);
    plane(64, 1, 64, 64);
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE, c.srcDevice = memory + 2048;
    plane(64, 2, 64, 64);
    plane(56, 2, 64, 64);
    c.srcXInBytes = 16;
    plane(56, 2, 64, 64);
    plane(48, 2, 64, 64);
    c.srcXInBytes = 64;
    plane(8, 2, 64, 72);
    // Without a pitch: which bytes are they?
    c.dstXInBytes = 0, c.srcXInBytes = 8;
    for (size_t height : {1, 2, 3}) {
        unsigned char in[256], out[64];
        for (int i = 0; i < 256; i++) in[i] = i;
        CUDA_MEMCPY2D from = c;
        from.srcMemoryType = CU_MEMORYTYPE_HOST, from.srcHost = in;
        from.dstDevice = memory + 1024;
        DO(cuMemsetD8(memory + 1024, 0xee, 64));
        from.WidthInBytes = 4, from.Height = height, from.srcPitch = 0, from.dstPitch = 0;
        TRY(cuMemcpy2D(&from));
        from.dstXInBytes = 3, from.srcXInBytes = 2;
        from.dstDevice += 24;
        TRY(cuMemcpy2D(&from));
        DO(cuMemcpyDtoH(out, memory + 1024, 64));
        for (int i = 0; i < 48; i++) printf(" %02x", out[i]);
        printf("\n");
    }
    for (size_t x : {0, 8, 60})
        for (size_t height : {1, 2}) {
            CUDA_MEMCPY3D b = {};
            b.srcMemoryType = b.dstMemoryType = CU_MEMORYTYPE_DEVICE;
            b.srcDevice = memory, b.dstDevice = memory + 2048;
            b.srcPitch = b.dstPitch = 64, b.srcHeight = b.dstHeight = 4;
            b.srcXInBytes = x, b.WidthInBytes = 16, b.Height = height, b.Depth = 1;
            TRY(cuMemcpy3D(&b));
            TRY(cuMemcpy3DAsync(&b, stream));
        }
    c.dstXInBytes = 8, c.srcXInBytes = 64;
    plane(0, 2, 64, 72);
    c.srcMemoryType = (CUmemorytype)9;
    plane(8, 1, 64, 64);
}

static void streams_and_events() {
    CUstream s;
    CUevent e, timed, quiet;
    for (unsigned flags : {0u, 1u, 2u, 7u, 0x100u}) TRY(cuStreamCreate(&s, flags));
    for (int priority : {-99, -5, 0, 1, 99}) {
        TRY(cuStreamCreateWithPriority(&s, 0, priority));
        int now = 77;
        cuStreamGetPriority(s, &now);
        printf("  %d\n", now);
    }
    for (unsigned flags : {0u, 1u, 2u, 3u, 4u, 6u, 8u, 0xffu}) TRY(cuEventCreate(&e, flags));
    DO(cuEventCreate(&timed, 0));
    DO(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    float ms = -1;
    TRY(cuEventElapsedTime(&ms, timed, timed));
    TRY(cuEventQuery(timed));
    TRY(cuEventSynchronize(timed));
    TRY(cuEventRecord(timed, stream));
    TRY(cuEventRecord(quiet, stream));
    TRY(cuEventElapsedTime(&ms, timed, timed));
    printf("  %g\n", ms);
    TRY(cuEventElapsedTime(&ms, timed, quiet));
    TRY(cuEventRecordWithFlags(timed, stream, 1));
    TRY(cuEventRecordWithFlags(timed, stream, 2));
    for (unsigned flags : {0u, 1u, 2u}) TRY(cuStreamWaitEvent(stream, timed, flags));
    CUipcEventHandle ipc;
    TRY(cuIpcGetEventHandle(&ipc, timed));
    TRY(cuStreamAddCallback(stream, [](CUstream, CUresult, void *) {}, nullptr, 1));
    TRY(cuStreamBeginCapture(stream, (CUstreamCaptureMode)9));
    CUgraph graph;
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
    TRY(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
    TRY(cuStreamWriteValue32(stream, memory, 5, 0));
    TRY(cuStreamWriteValue32(stream, memory + 1, 5, 0));
    TRY(cuStreamWriteValue32(stream, memory + 4, 5, 0xff));
    TRY(cuStreamWaitValue32(stream, memory, 5, 0));
    TRY(cuStreamWaitValue32(stream, memory, 5, 0xff));
    TRY(cuStreamWriteValue64(stream, memory + 4, 5, 0));
    unsigned long long id = 0;
    TRY(cuStreamGetId(CU_STREAM_LEGACY, &id));
    TRY(cuStreamDestroy(CU_STREAM_LEGACY));
    TRY(cuStreamDestroy(nullptr));
}

static void contexts_and_devices() {
    int value = 0;
    char name[64] = "";
    CUdevice d;
    TRY(cuDeviceGet(&d, -1));
    TRY(cuDeviceGet(&d, 99));
    TRY(cuDeviceGetAttribute(&value, (CUdevice_attribute)0, device));
    TRY(cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, device));
    TRY(cuDeviceGetAttribute(&value, (CUdevice_attribute)-1, device));
    TRY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99));
    TRY(cuDeviceGetName(name, 1, device));
    TRY(cuDeviceGetName(name, 5, device));
    printf("  %s\n", name);
    TRY(cuDeviceGetPCIBusId(name, 5, device));
    TRY(cuDeviceGetByPCIBusId(&d, "nothing"));
    TRY(cuDeviceCanAccessPeer(&value, device, device));
    TRY(cuCtxEnablePeerAccess(context, 0));
    for (size_t limit : {(size_t)0, (size_t)1, (size_t)1 << 20, (size_t)1 << 40})
        TRY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, limit));
    TRY(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1));
    TRY(cuCtxSetLimit((CUlimit)99, 1));
    size_t size = 0;
    TRY(cuCtxGetLimit(&size, (CUlimit)99));
    TRY(cuCtxSetCacheConfig((CUfunc_cache)9));
    TRY(cuCtxSetFlags(0xffff));
    TRY(cuDevicePrimaryCtxSetFlags(device, 0xffff));
    TRY(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC));
    CUcontext popped;
    TRY(cuCtxPopCurrent(&popped));
    TRY(cuCtxPopCurrent(&popped));
    TRY(cuCtxSetCurrent(context));
    TRY(cuCtxDestroy(context));
    const char *text = nullptr;
    TRY(cuGetErrorString((CUresult)9999, &text));
    TRY(cuGetErrorName((CUresult)-1, &text));
    void *f = nullptr;
    CUdriverProcAddressQueryResult found;
    TRY(cuGetProcAddress("cuNothing", &f, 13000, 0, &found));
    printf("  %d\n", found);
    TRY(cuGetProcAddress("cuInit", &f, 1, 0, &found));
    printf("  %d\n", found);
    TRY(cuGetProcAddress("cuInit", &f, 99000, 0, &found));
    TRY(cuGetProcAddress("cuInit", &f, 13000, 99, &found));
}

static void code() {
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    size_t n;
    TRY(cuModuleGetFunction(&f, module_, ""));
    TRY(cuModuleGetFunction(&f, module_, "counter"));
    TRY(cuModuleGetGlobal(&p, &n, module_, "k"));
    TRY(cuModuleGetGlobal(nullptr, &n, module_, "counter"));
    TRY(cuModuleLoadData(&m, "nonsense, which is no code of any kind, and long enough for a look"));
    TRY(cuModuleLoadData(&m, ".version 7.0\n.target sm_70\n.address_size 64\n"));
    TRY(cuModuleLoadData(&m, ".version 99.0\n.target sm_70\n.address_size 64\n"));
    TRY(cuModuleLoadData(&m, ".version 7.0\n.target sm_999\n.address_size 64\n"));
    TRY(cuModuleLoad(&m, "/nowhere"));
    size_t offset, size;
    TRY(cuFuncGetParamInfo(k, 1, &offset, &size));
    TRY(cuFuncGetParamInfo(k, 2, &offset, &size));
    CUlinkState link;
    CUjit_option odd[] = {(CUjit_option)999};
    void *values[] = {nullptr};
    TRY(cuLinkCreate(1, odd, values, &link));
    TRY(cuModuleLoadDataEx(&m, PTX, 1, odd, values));
}

static void arrays() {
    CUarray a;
    auto make = [&](size_t width, size_t height, CUarray_format format, unsigned channels) {
        CUDA_ARRAY_DESCRIPTOR d = {width, height, format, channels};
        printf("%zu x %zu, format %d, %u channels: ", width, height, format, channels);
        TRY(cuArrayCreate(&a, &d));
    };
    make(16, 16, CU_AD_FORMAT_FLOAT, 1);
    make(0, 16, CU_AD_FORMAT_FLOAT, 1);
    make(16, 0, CU_AD_FORMAT_FLOAT, 1);
    make(16, 16, CU_AD_FORMAT_FLOAT, 0);
    make(16, 16, CU_AD_FORMAT_FLOAT, 3);
    make(16, 16, (CUarray_format)0x99, 1);
    make((size_t)1 << 30, 16, CU_AD_FORMAT_FLOAT, 1);
    auto solid = [&](size_t depth, unsigned flags) {
        CUDA_ARRAY3D_DESCRIPTOR d = {16, 16, depth, CU_AD_FORMAT_FLOAT, 1, flags};
        printf("depth %zu, flags %u: ", depth, flags);
        TRY(cuArray3DCreate(&a, &d));
    };
    solid(6, CUDA_ARRAY3D_CUBEMAP);
    solid(5, CUDA_ARRAY3D_CUBEMAP);
    solid(4, CUDA_ARRAY3D_LAYERED);
    solid(4, 0x8000);
    solid(0, 0);
    CUDA_ARRAY_DESCRIPTOR d = {16, 16, CU_AD_FORMAT_FLOAT, 1};
    DO(cuArrayCreate(&a, &d));
    TRY(cuMemcpyHtoA(a, 0, host, 64));
    TRY(cuMemcpyHtoA(a, 0, host, 65));
    TRY(cuMemcpyHtoA(a, 64, host, 64));
    TRY(cuMemcpyAtoH(host, a, 0, 0));
    CUDA_RESOURCE_DESC of = {};
    of.resType = CU_RESOURCE_TYPE_LINEAR;
    of.res.linear = {memory + 4, CU_AD_FORMAT_FLOAT, 1, 64};
    CUDA_TEXTURE_DESC how = {};
    CUtexObject t;
    TRY(cuTexObjectCreate(&t, &of, &how, nullptr));
    of.res.linear.devPtr = memory;
    of.res.linear.sizeInBytes = 0;
    TRY(cuTexObjectCreate(&t, &of, &how, nullptr));
    of.res.linear.sizeInBytes = 64;
    how.filterMode = CU_TR_FILTER_MODE_LINEAR;
    TRY(cuTexObjectCreate(&t, &of, &how, nullptr));
    how.maxAnisotropy = 99;
    TRY(cuTexObjectCreate(&t, &of, &how, nullptr));
    of.resType = (CUresourcetype)9;
    TRY(cuTexObjectCreate(&t, &of, &how, nullptr));
}

static void graphs() {
    CUgraph g;
    CUgraphNode n;
    CUgraphExec exec;
    TRY(cuGraphCreate(&g, 1));
    DO(cuGraphCreate(&g, 0));
    TRY(cuGraphInstantiate(&exec, g, 0));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuGraphInstantiate(&exec, g, 0x8000));
    CUDA_MEMSET_NODE_PARAMS fill = {memory, 0, 1, 4, 4, 1};
    for (unsigned element : {1u, 2u, 3u, 4u, 8u}) {
        fill.elementSize = element;
        TRY(cuGraphAddMemsetNode(&n, g, nullptr, 0, &fill, context));
    }
    fill.elementSize = 4;
    fill.dst = memory + 2;
    TRY(cuGraphAddMemsetNode(&n, g, nullptr, 0, &fill, context));
    fill.dst = memory;
    fill.width = 0;
    TRY(cuGraphAddMemsetNode(&n, g, nullptr, 0, &fill, context));
    fill.width = 4;
    fill.height = 0;
    TRY(cuGraphAddMemsetNode(&n, g, nullptr, 0, &fill, context));
    CUDA_KERNEL_NODE_PARAMS run = {};
    run.func = k;
    run.kernelParams = params;
    for (unsigned block : {0u, 1u, 1024u, 1025u}) {
        run.gridDimX = run.gridDimY = run.gridDimZ = run.blockDimY = run.blockDimZ = 1;
        run.blockDimX = block;
        TRY(cuGraphAddKernelNode(&n, g, nullptr, 0, &run));
    }
    run.blockDimX = 1;
    run.sharedMemBytes = 1 << 30;
    TRY(cuGraphAddKernelNode(&n, g, nullptr, 0, &run));
    CUgraph other;
    CUgraphNode a, b, foreign;
    DO(cuGraphCreate(&other, 0));
    DO(cuGraphAddEmptyNode(&a, other, nullptr, 0));
    DO(cuGraphAddEmptyNode(&b, other, &a, 1));
    DO(cuGraphAddEmptyNode(&foreign, g, nullptr, 0));
    TRY(cuGraphAddEmptyNode(&n, other, &foreign, 1));
    CUgraphNode twice[] = {a, a};
    TRY(cuGraphAddEmptyNode(&n, other, twice, 2));
    TRY(cuGraphAddDependencies(other, &b, &a, nullptr, 1));
    TRY(cuGraphAddDependencies(other, &a, &a, nullptr, 1));
    TRY(cuGraphAddDependencies(other, &a, &b, nullptr, 1));
    TRY(cuGraphRemoveDependencies(other, &b, &a, nullptr, 1));
    TRY(cuGraphInstantiate(&exec, other, 0));
    size_t count = 0;
    TRY(cuGraphGetNodes(other, nullptr, &count));
    printf("  %zu\n", count);
}

static void advice() {
    CUdeviceptr p;
    DO(cuMemAllocManaged(&p, 1 << 20, CU_MEM_ATTACH_GLOBAL));
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, far = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
    TRY(cuMemAdvise(p, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    TRY(cuMemAdvise(p + 1, 5, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    TRY(cuMemAdvise(p, (1 << 20) + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    TRY(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, far));
    TRY(cuMemAdvise(p, 4096, (CUmem_advise)99, here));
    TRY(cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    TRY(cuMemPrefetchAsync(p, 4096, far, 0, stream));
    TRY(cuMemPrefetchAsync(p, 4096, here, 1, stream));
    TRY(cuMemPrefetchAsync(p, 0, here, 0, stream));
    TRY(cuMemPrefetchAsync(p, 2 << 20, here, 0, stream));
    TRY(cuMemPrefetchAsync(memory, 4096, here, 0, stream));
    int value = 0;
    TRY(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 0));
    TRY(cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096));
    TRY(cuMemRangeGetAttribute(&value, 4, (CUmem_range_attribute)99, p, 4096));
    CUmemoryPool pool;
    CUmemPoolProps props = {};
    TRY(cuMemPoolCreate(&pool, &props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = far;
    TRY(cuMemPoolCreate(&pool, &props));
    props.location = here;
    props.maxSize = 1;
    TRY(cuMemPoolCreate(&pool, &props));
    DO(cuDeviceGetDefaultMemPool(&pool, device));
    TRY(cuMemPoolDestroy(pool));
    TRY(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)99, &value));
    TRY(cuMemPoolTrimTo(pool, ~(size_t)0));
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = here;
    size_t grain = 0;
    DO(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle h;
    TRY(cuMemCreate(&h, grain / 2, &prop, 0));
    TRY(cuMemCreate(&h, 0, &prop, 0));
    TRY(cuMemCreate(&h, grain, &prop, 1));
    DO(cuMemCreate(&h, grain, &prop, 0));
    CUdeviceptr range = 0;
    TRY(cuMemAddressReserve(&range, grain / 2, 0, 0, 0));
    TRY(cuMemAddressReserve(&range, grain, 3, 0, 0));
    DO(cuMemAddressReserve(&range, 2 * grain, 0, 0, 0));
    TRY(cuMemMap(range, grain, grain, h, 0));
    TRY(cuMemMap(range, 2 * grain, 0, h, 0));
    TRY(cuMemMap(range + 1, grain, 0, h, 0));
    TRY(cuMemMap(range, grain, 0, h, 0));
    TRY(cuMemMap(range, grain, 0, h, 0));
    CUmemAccessDesc access = {here, (CUmemAccess_flags)9};
    TRY(cuMemSetAccess(range, grain, &access, 1));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    TRY(cuMemSetAccess(range, 2 * grain, &access, 1));
    TRY(cuMemSetAccess(range, grain, &access, 0));
    TRY(cuMemSetAccess(range, grain, &access, 1));
    TRY(cuMemUnmap(range, grain / 2));
    TRY(cuMemAddressFree(range, 2 * grain));
    TRY(cuMemUnmap(range, grain));
    TRY(cuMemAddressFree(range, grain));
    TRY(cuMemAddressFree(range, 2 * grain));
}

// What a function that a stream waits for may ask, and what it is told that may not.
static void in_a_function() {
    cuStreamSynchronize(stream);
    static CUevent event, spare;
    static CUgraph graph;
    static CUstream other, third;
    DO(cuEventCreate(&event, 0));
    DO(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    DO(cuGraphCreate(&graph, 0));
#define ASK(...) printf("%.100s: ", #__VA_ARGS__), printf("%d\n", __VA_ARGS__)
    auto asks = [](void *) {
        int value = 0;
        unsigned bits = 0;
        size_t size = 0, more = 0;
        float ms = 0;
        CUdeviceptr p = 0;
        CUcontext c = nullptr;
        CUdevice d = 0;
        CUmodule m = nullptr;
        CUfunction f = nullptr;
        CUstream s = nullptr;
        CUevent e = nullptr;
        CUgraph g = nullptr;
        CUmemoryPool pool = nullptr;
        CUstreamCaptureStatus status;
        CUstreamAttrValue attribute;
        CUdriverProcAddressQueryResult found;
        cuuint64_t capture = 0;
        unsigned long long id = 0;
        const char *text = nullptr;
        void *at = nullptr;
        char name[64];
        CUgreenCtx green = nullptr;
        const CUstream usual = nullptr;
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUuuid uuid;
        CUipcEventHandle handle;
        auto nothing = [](void *) {};
        auto neither = [](CUstream, CUresult, void *) {};
        attribute.priority = 0;
        ASK(cuDriverGetVersion(&value));
        ASK(cuInit(0));
        ASK(cuGetErrorString(CUDA_ERROR_NOT_PERMITTED, &text));
        ASK(cuDeviceGet(&d, 0));
        ASK(cuDeviceGetCount(&value));
        ASK(cuDeviceGetName(name, sizeof name, 0));
        ASK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        ASK(cuDeviceTotalMem(&size, 0));
        ASK(cuDevicePrimaryCtxGetState(0, &bits, &value));
        ASK(cuDeviceGetDefaultMemPool(&pool, 0));
        ASK(cuCtxGetCurrent(&c));
        ASK(cuCtxGetDevice(&d));
        ASK(cuCtxGetFlags(&bits));
        ASK(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE));
        ASK(cuCtxGetApiVersion(context, &bits));
        ASK(cuCtxGetStreamPriorityRange(&value, &value));
        ASK(cuMemGetAddressRange(&p, &size, memory));
        ASK(cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory));
        ASK(cuCtxPushCurrent(context));
        ASK(cuCtxSetCurrent(context));
        ASK(cuMemGetInfo(&size, &more));
        ASK(cuMemGetAddressRange(&p, &size, memory));
        ASK(cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory));
        ASK(cuMemHostGetFlags(&bits, host));
        ASK(cuMemFree(memory));
        ASK(cuMemAllocHost(&at, 64));
        ASK(cuMemFreeHost(nullptr));
        ASK(cuMemsetD8(memory, 1, 64));
        ASK(cuMemcpyHtoD(memory, host, 64));
        ASK(cuModuleGetFunction(&f, module_, "k"));
        ASK(cuModuleLoadData(&m, PTX));
        ASK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, k));
        ASK(cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
        ASK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, k, 64, 0));
        ASK(cuStreamCreate(&s, 0));
        ASK(cuStreamGetFlags(stream, &bits));
        ASK(cuStreamGetPriority(stream, &value));
        ASK(cuStreamGetCtx(stream, &c));
        ASK(cuStreamIsCapturing(stream, &status));
        ASK(cuStreamQuery(stream));
        ASK(cuEventCreate(&e, 0));
        ASK(cuEventQuery(event));
        ASK(cuEventElapsedTime(&ms, event, event));
        ASK(cuStreamGetId(stream, &id));
        ASK(cuStreamGetDevice(stream, &d));
        ASK(cuGetProcAddress("cuInit", &at, 12000, 0, &found));
        ASK(cuGraphCreate(&g, 0));
        ASK(cuGraphGetNodes(graph, nullptr, &size));
        // Of the stream that waits, of another one, and of the default one.
#define EACH(s)                                                                                   \
    ASK(cuStreamQuery(s));                                                                        \
    ASK(cuEventRecord(event, s));                                                                 \
    ASK(cuEventRecordWithFlags(event, s, 0));                                                     \
    ASK(cuStreamWaitEvent(s, event, 0));                                                          \
    ASK(cuStreamGetFlags(s, &bits));                                                              \
    ASK(cuStreamGetCaptureInfo(s, &status, &capture, 0, 0, 0, 0));                                \
    ASK(cuStreamIsCapturing(s, &status));                                                         \
    ASK(cuStreamGetAttribute(s, CU_STREAM_ATTRIBUTE_PRIORITY, &attribute));                       \
    ASK(cuStreamSetAttribute(s, CU_STREAM_ATTRIBUTE_PRIORITY, &attribute));                       \
    ASK(cuStreamCopyAttributes(s, third));                                                        \
    ASK(cuStreamGetGreenCtx(s, &green));                                                          \
    ASK(cuStreamUpdateCaptureDependencies(s, nullptr, nullptr, 0, 0))
        EACH(stream);
        EACH(other);
        EACH(usual);
        // It would wait for itself in the others.
        ASK(cuStreamSynchronize(other));
        ASK(cuEventRecord(event, other));
        ASK(cuEventSynchronize(event));
        ASK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        ASK(cuStreamEndCapture(other, &g));
        ASK(cuThreadExchangeStreamCaptureMode(&mode));
        ASK(cuLaunchHostFunc(other, nothing, nullptr));
        ASK(cuStreamAddCallback(other, neither, nullptr, 0));
        ASK(cuMemsetD8Async(memory, 1, 64, other));
        ASK(cuMemcpyHtoDAsync(memory, host, 64, other));
        ASK(cuMemcpyAsync(memory, memory + 64, 64, other));
        ASK(cuMemAllocAsync(&p, 64, other));
        ASK(cuMemFreeAsync(0, other));
        ASK(cuStreamWriteValue32(other, memory, 1, 0));
        ASK(cuStreamWaitValue32(other, memory, 0, CU_STREAM_WAIT_VALUE_GEQ));
        ASK(cuStreamAttachMemAsync(other, memory, 0, CU_MEM_ATTACH_GLOBAL));
        ASK(cuGraphLaunch(nullptr, other));
        ASK(cuGraphDestroy(nullptr));
        ASK(cuFuncGetName(&text, k));
        ASK(cuCtxSynchronize());
        ASK(cuCtxGetId(context, &id));
        ASK(cuDeviceGetUuid(&uuid, 0));
        ASK(cuIpcGetEventHandle(&handle, event));
        ASK(cuMemHostRegister(name, 1, 0));
        ASK(cuEventDestroy(spare));
        ASK(cuStreamDestroy(third));
    };
    DO(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    DO(cuEventCreate(&spare, 0));
    DO(cuLaunchHostFunc(stream, asks, nullptr));
    DO(cuStreamSynchronize(stream));
}

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    void (*families[])() = {launches,           memory_sizes,         registered, copies,
                            streams_and_events, contexts_and_devices, code,       arrays,
                            graphs,             advice,               in_a_function};
    int number = 0;
    for (auto family : families) {
        printf("family %d\n", number++);
        pid_t child = fork();
        if (!child) {
            prepare();
            family();
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status) printf("# ended with %#x\n", status);
    }
    printf("done\n");
}
