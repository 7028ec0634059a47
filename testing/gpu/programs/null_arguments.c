// What a driver says of arguments that are not there: each function is called with good arguments,
// then with each of its pointers and handles null, and then where no context is current. Some
// arguments are optional, some calls are refused, and nobody wrote down which. A call that ends
// its process has a line that begins with "#"; a new one goes on. Prints the same lines wherever
// it runs.
//   gcc null_arguments.c -ldl -o null_arguments && ./null_arguments
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t word;
typedef int (*Call)(word, word, word, word, word, word, word, word, word, word);
enum { MOST = 10 };
// What is wrong with a call, beside the number of an argument that is null.
enum { NO_CONTEXT = -2, ALL = -1 };

static void *lib;
// One entry for each name that is called: `v2` and the like belong to the symbol.
static Call sym(const char *name) {
  void *p = dlsym(lib, name);
  if (!p) { printf("no %s\n", name); exit(2); }
  return (Call)p;
}

// A call that must work, of the preparations, which each call has anew.
static void ok(int line, int rc) {
  if (rc) { printf("line %d: the preparation gives %d\n", line, rc); exit(3); }
}
#define DO(name, ...) ok(__LINE__, ((int (*)())sym(name))(__VA_ARGS__))

static const char ptx[] =
  ".version 7.0\n.target sm_70\n.address_size 64\n"
  ".visible .global .align 4 .u32 counter;\n"
  ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n ret;\n}\n";

static int dev;
static word ctx, stream, event, event2, shared_event, module, library, kernel, function, memory;
static word managed, pinned;
static word graph, other, memset_node, exec, pool, array, mipmaps, texture, range;

static word w(const void *p) { return (word)(uintptr_t)p; }

static void prepare(void) {
  DO("cuInit", 0);
  DO("cuDeviceGet", &dev, 0);
  DO("cuDevicePrimaryCtxRetain", &ctx, dev);
  DO("cuCtxSetCurrent", ctx);
  DO("cuStreamCreate", &stream, 1);
  DO("cuEventCreate", &event, 0);
  DO("cuEventCreate", &event2, 0);
  DO("cuEventCreate", &shared_event, 6);
  DO("cuEventRecord", event, stream);
  DO("cuEventRecord", event2, stream);
  DO("cuStreamSynchronize", stream);
  DO("cuModuleLoadData", &module, ptx);
  DO("cuModuleGetFunction", &function, module, "k");
  DO("cuLibraryLoadData", &library, ptx, (word)0, (word)0, 0, (word)0, (word)0, 0);
  DO("cuLibraryGetKernel", &kernel, library, "k");
  DO("cuMemAlloc_v2", &memory, (word)4096);
  DO("cuMemAllocManaged", &managed, (word)4096, 1);
  DO("cuMemHostAlloc", &pinned, (word)4096, 2);
  DO("cuGraphCreate", &graph, 0);
  DO("cuGraphCreate", &other, 0);
  struct { word dst, pitch; unsigned value, size; word width, height; }
    set = {memory, 0, 0, 1, 16, 1};
  DO("cuGraphAddMemsetNode", &memset_node, graph, (word)0, (word)0, &set, ctx);
  DO("cuGraphInstantiateWithFlags", &exec, graph, (word)0);
  DO("cuDeviceGetDefaultMemPool", &pool, dev);
  struct { word width, height; unsigned format, channels; } flat = {16, 16, 0x20, 1};
  DO("cuArrayCreate_v2", &array, &flat);
  struct { word width, height, depth; unsigned format, channels, flags; }
    deep = {16, 16, 0, 0x20, 1, 0};
  DO("cuMipmappedArrayCreate", &mipmaps, &deep, 2);
  static struct { unsigned type; word array; char rest[120]; } of_array;
  static char how[104];
  of_array.array = array;
  DO("cuTexObjectCreate", &texture, &of_array, how, (word)0);
  DO("cuMemAddressReserve", &range, (word)4 << 20, (word)0, (word)0, (word)0);
}

// An argument, and whether it may be null: a pointer or a handle.
struct Word { word value; int may_be_null; };
static char places[MOST][4096];
static struct Word words[MOST];
static int count;
static const char *called;
static void take(const char *name, int n, const struct Word *of) {
  called = name;
  count = n;
  memcpy(words, of, n * sizeof *of);
}
static struct Word in(word value) { return (struct Word){value, 0}; }
static struct Word out(void) {
  static int next;
  return (struct Word){w(places[next++ % MOST]), 1};
}
static struct Word out_of(word first) {
  struct Word o = out();
  memcpy((void *)(uintptr_t)o.value, &first, 8);
  return o;
}
#define O out()
#define I(v) in((word)(v))
#define P(v) ((struct Word){w(v), 1})
#define H(v) ((struct Word){v, 1})
#define CASE(name, ...) { const struct Word of[] = {__VA_ARGS__}; \
  if (at-- == 0) { take(name, sizeof of / sizeof *of, of); return 1; } }

static struct { unsigned type, handles; unsigned where, id; word win; unsigned char flags[8]; }
  on_device = {1, 1, 1, 0, 0, {0}};

// Prepares the call with this number; 0 where there is none.
static int choose(int at) {
  static char name[64] = "k";
  static struct { word width, height; unsigned format, channels; } flat = {16, 16, 0x20, 1};
  static struct { word width, height, depth; unsigned format, channels, flags; }
    deep = {16, 16, 0, 0x20, 1, 0};
  static unsigned attributes[2] = {1, 2};
  static struct { unsigned type; word array; char rest[120]; } of_array;
  static char how[104];
  static char page[8192] __attribute__((aligned(4096))), zeros[512];
  static struct { unsigned grid[3], block[3], shared; word stream, attributes; unsigned n; }
    launch = {{1, 1, 1}, {1, 1, 1}, 0, 0, 0, 0};
  static word first, second;
  static void *parameters[2] = {&first, &second};
  of_array.array = array;
  CASE("cuDriverGetVersion", O)
  CASE("cuDeviceGet", O, I(0))
  CASE("cuDeviceGetCount", O)
  CASE("cuDeviceGetName", O, I(64), I(dev))
  CASE("cuDeviceGetUuid_v2", O, I(dev))
  CASE("cuDeviceTotalMem_v2", O, I(dev))
  CASE("cuDeviceGetAttribute", O, I(1), I(dev))
  CASE("cuDeviceComputeCapability", O, O, I(dev))
  CASE("cuDeviceGetProperties", O, I(dev))
  CASE("cuDeviceGetPCIBusId", O, I(64), I(dev))
  CASE("cuDeviceGetByPCIBusId", O, P("ff:ff.0"))
  CASE("cuDeviceGetTexture1DLinearMaxWidth", O, I(0x20), I(1), I(dev))
  CASE("cuDeviceGetExecAffinitySupport", O, I(0), I(dev))
  CASE("cuDeviceGetDefaultMemPool", O, I(dev))
  CASE("cuDeviceGetMemPool", O, I(dev))
  CASE("cuDeviceCanAccessPeer", O, I(dev), I(dev))
  CASE("cuDeviceGetP2PAttribute", O, I(1), I(dev), I(dev))
  CASE("cuDevicePrimaryCtxRetain", O, I(dev))
  CASE("cuDevicePrimaryCtxGetState", I(dev), O, O)
  CASE("cuCtxGetCurrent", O)
  CASE("cuCtxGetDevice", O)
  CASE("cuCtxGetFlags", O)
  CASE("cuCtxGetId", H(ctx), O)
  CASE("cuCtxGetId", I(0), O)
  CASE("cuCtxGetLimit", O, I(0))
  CASE("cuCtxGetCacheConfig", O)
  CASE("cuCtxGetSharedMemConfig", O)
  CASE("cuCtxGetStreamPriorityRange", O, O)
  CASE("cuCtxGetApiVersion", H(ctx), O)
  CASE("cuCtxGetExecAffinity", O, I(0))
  CASE("cuCtxPopCurrent_v2", O)
  CASE("cuCtxCreate_v2", O, I(0), I(dev))
  CASE("cuMemGetInfo_v2", O, O)
  CASE("cuMemAlloc_v2", O, I(64))
  CASE("cuMemAllocPitch_v2", O, O, I(64), I(4), I(4))
  CASE("cuMemAllocManaged", O, I(64), I(1))
  CASE("cuMemAllocHost_v2", O, I(64))
  CASE("cuMemHostAlloc", O, I(64), I(0))
  CASE("cuMemGetAddressRange_v2", O, O, H(memory))
  CASE("cuMemHostGetDevicePointer_v2", O, H(pinned), I(0))
  CASE("cuMemHostGetFlags", O, H(pinned))
  CASE("cuPointerGetAttribute", O, I(2), H(memory))
  CASE("cuPointerGetAttributes", I(1), P(attributes), out_of(w(name)), H(memory))
  CASE("cuMemRangeGetAttribute", O, I(4), I(2), H(managed), I(4096))
  CASE("cuMemAllocAsync", O, I(64), H(stream))
  CASE("cuMemAllocFromPoolAsync", O, I(64), H(pool), H(stream))
  CASE("cuMemPoolGetAttribute", H(pool), I(4), O)
  CASE("cuMemAddressReserve", O, I(4 << 20), I(0), I(0), I(0))
  CASE("cuMemCreate", O, I(2 << 20), P(&on_device), I(0))
  CASE("cuMemGetAllocationGranularity", O, P(&on_device), I(0))
  CASE("cuMemGetAccess", O, P(&on_device.where), H(range))
  CASE("cuArrayCreate_v2", O, P(&flat))
  CASE("cuArray3DCreate_v2", O, P(&deep))
  CASE("cuArrayGetDescriptor_v2", O, H(array))
  CASE("cuArray3DGetDescriptor_v2", O, H(array))
  CASE("cuArrayGetMemoryRequirements", O, H(array), I(dev))
  CASE("cuArrayGetSparseProperties", O, H(array))
  CASE("cuArrayGetPlane", O, H(array), I(0))
  CASE("cuMipmappedArrayCreate", O, P(&deep), I(2))
  CASE("cuMipmappedArrayGetLevel", O, H(mipmaps), I(0))
  CASE("cuTexObjectCreate", O, P(&of_array), P(how), I(0))
  CASE("cuTexObjectGetResourceDesc", O, H(texture))
  CASE("cuTexObjectGetTextureDesc", O, H(texture))
  CASE("cuTexObjectGetResourceViewDesc", O, H(texture))
  CASE("cuTexRefCreate", O)
  CASE("cuStreamCreate", O, I(0))
  CASE("cuStreamCreateWithPriority", O, I(0), I(0))
  CASE("cuStreamGetPriority", H(stream), O)
  CASE("cuStreamGetFlags", H(stream), O)
  CASE("cuStreamGetId", H(stream), O)
  CASE("cuStreamGetCtx", H(stream), O)
  CASE("cuStreamGetCtx_v2", H(stream), O, O)
  CASE("cuStreamGetDevice", H(stream), O)
  CASE("cuStreamIsCapturing", H(stream), O)
  CASE("cuStreamGetCaptureInfo_v3", H(stream), O, O, O, O, O, O)
  CASE("cuStreamGetCaptureInfo_v2", H(stream), O, O, O, O, O)
  CASE("cuStreamGetAttribute", H(stream), I(1), O)
  CASE("cuThreadExchangeStreamCaptureMode", out_of(1))
  CASE("cuEventCreate", O, I(0))
  CASE("cuEventElapsedTime_v2", O, H(event), H(event2))
  CASE("cuEventElapsedTime", O, H(event), H(event2))
  CASE("cuModuleLoadData", O, P(ptx))
  CASE("cuModuleLoadDataEx", O, P(ptx), I(0), I(0), I(0))
  CASE("cuModuleGetFunction", O, H(module), P(name))
  CASE("cuModuleGetFunctionCount", O, H(module))
  CASE("cuModuleEnumerateFunctions", O, I(1), H(module))
  CASE("cuModuleGetGlobal_v2", O, O, H(module), P("counter"))
  CASE("cuModuleGetLoadingMode", O)
  CASE("cuLinkCreate_v2", I(0), I(0), I(0), O)
  CASE("cuFuncGetAttribute", O, I(0), H(function))
  CASE("cuFuncGetModule", O, H(function))
  CASE("cuFuncGetName", O, H(function))
  CASE("cuFuncGetParamInfo", H(function), I(0), O, O)
  CASE("cuFuncIsLoaded", O, H(function))
  CASE("cuLibraryLoadData", O, P(ptx), I(0), I(0), I(0), I(0), I(0), I(0))
  CASE("cuLibraryGetKernel", O, H(library), P(name))
  CASE("cuLibraryGetKernelCount", O, H(library))
  CASE("cuLibraryEnumerateKernels", O, I(1), H(library))
  CASE("cuLibraryGetModule", O, H(library))
  CASE("cuLibraryGetGlobal", O, O, H(library), P("counter"))
  CASE("cuKernelGetFunction", O, H(kernel))
  CASE("cuKernelGetLibrary", O, H(kernel))
  CASE("cuKernelGetAttribute", O, I(0), H(kernel), I(dev))
  CASE("cuKernelGetName", O, H(kernel))
  CASE("cuKernelGetParamInfo", H(kernel), I(0), O, O)
  CASE("cuOccupancyMaxActiveBlocksPerMultiprocessor", O, H(function), I(32), I(0))
  CASE("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", O, H(function), I(32), I(0), I(0))
  CASE("cuOccupancyMaxPotentialBlockSize", O, O, H(function), I(0), I(0), I(0))
  CASE("cuOccupancyAvailableDynamicSMemPerBlock", O, H(function), I(1), I(32))
  CASE("cuGraphCreate", O, I(0))
  CASE("cuGraphClone", O, H(graph))
  CASE("cuGraphAddEmptyNode", O, H(graph), I(0), I(0))
  CASE("cuGraphAddEventRecordNode", O, H(graph), I(0), I(0), H(event))
  CASE("cuGraphAddMemFreeNode", O, H(graph), I(0), I(0), H(memory))
  CASE("cuGraphGetNodes", H(graph), O, out_of(4))
  CASE("cuGraphGetRootNodes", H(graph), O, out_of(4))
  CASE("cuGraphGetEdges_v2", H(graph), O, O, O, out_of(4))
  CASE("cuGraphNodeGetType", H(memset_node), O)
  CASE("cuGraphNodeGetDependencies_v2", H(memset_node), O, O, out_of(4))
  CASE("cuGraphNodeGetDependentNodes_v2", H(memset_node), O, O, out_of(4))
  CASE("cuGraphMemsetNodeGetParams", H(memset_node), O)
  CASE("cuGraphInstantiateWithFlags", O, H(graph), I(0))
  CASE("cuGraphExecGetFlags", H(exec), O)
  CASE("cuGraphExecUpdate_v2", H(exec), H(graph), O)
  CASE("cuGraphNodeGetEnabled", H(exec), H(memset_node), O)
  CASE("cuGraphConditionalHandleCreate", O, H(graph), H(ctx), I(0), I(0))
  CASE("cuUserObjectCreate", O, P(&dev), I(dlsym(lib, "cuDriverGetVersion")), I(1), I(1))
  CASE("cuIpcGetEventHandle", O, H(shared_event))
  CASE("cuIpcGetMemHandle", O, H(memory))
  CASE("cuGetProcAddress_v2", P("cuInit"), O, I(12000), I(0), O)
  CASE("cuGetErrorName", I(1), O)
  CASE("cuGetErrorString", I(1), O)
  CASE("cuMemPoolGetAccess", O, H(pool), P(&on_device.where))
  CASE("cuDeviceGetGraphMemAttribute", I(dev), I(0), O)
  CASE("cuDeviceGetDevResource", I(dev), O, I(1))
  CASE("cuCtxGetDevResource", H(ctx), O, I(1))
  CASE("cuLogsCurrent", O, I(0))
  CASE("cuInit", I(0))
  CASE("cuDevicePrimaryCtxRelease_v2", I(dev))
  CASE("cuDevicePrimaryCtxReset_v2", I(dev))
  CASE("cuCtxSetCurrent", H(ctx))
  CASE("cuCtxPushCurrent_v2", H(ctx))
  CASE("cuCtxSynchronize", I(ctx))
  CASE("cuCtxSetLimit", I(0), I(2048))
  CASE("cuCtxSetCacheConfig", I(1))
  CASE("cuCtxResetPersistingL2Cache", I(0))
  CASE("cuCtxRecordEvent", H(ctx), H(event))
  CASE("cuCtxWaitEvent", H(ctx), H(event))
  CASE("cuCtxDestroy_v2", I(0))
  CASE("cuCtxEnablePeerAccess", H(ctx), I(0))
  CASE("cuMemFree_v2", H(memory))
  CASE("cuMemFreeHost", H(pinned))
  CASE("cuMemHostRegister_v2", P(page), I(4096), I(0))
  CASE("cuMemHostRegister_v2", P(page), I(0), I(0))
  CASE("cuMemHostUnregister", P(page))
  CASE("cuMemFreeAsync", H(memory), H(stream))
  CASE("cuMemcpyHtoD_v2", H(memory), P(page), I(64))
  CASE("cuMemcpyHtoD_v2", H(memory), P(page), I(0))
  CASE("cuMemcpyDtoH_v2", P(page), H(memory), I(64))
  CASE("cuMemcpyDtoH_v2", P(page), H(memory), I(0))
  CASE("cuMemcpyDtoD_v2", H(memory), H(memory), I(64))
  CASE("cuMemcpy", H(memory), P(page), I(64))
  CASE("cuMemcpyHtoDAsync_v2", H(memory), P(page), I(64), H(stream))
  CASE("cuMemcpyDtoHAsync_v2", P(page), H(memory), I(64), H(stream))
  CASE("cuMemcpyDtoDAsync_v2", H(memory), H(memory), I(64), H(stream))
  CASE("cuMemcpyAsync", H(memory), P(page), I(64), H(stream))
  CASE("cuMemcpyAsync", H(memory), P(page), I(0), H(stream))
  CASE("cuMemcpyPeer", H(memory), H(ctx), H(memory), H(ctx), I(64))
  CASE("cuMemcpyHtoA_v2", H(array), I(0), P(page), I(16))
  CASE("cuMemcpyAtoH_v2", P(page), H(array), I(0), I(16))
  CASE("cuMemcpy2D_v2", P(zeros))
  CASE("cuMemcpy3D_v2", P(zeros))
  CASE("cuMemsetD8_v2", H(memory), I(1), I(64))
  CASE("cuMemsetD8_v2", H(memory), I(1), I(0))
  CASE("cuMemsetD32_v2", H(memory), I(1), I(0))
  CASE("cuMemsetD2D8_v2", H(memory), I(64), I(1), I(0), I(1))
  CASE("cuMemsetD2D8_v2", H(memory), I(8), I(1), I(64), I(2))
  CASE("cuMemsetD8Async", H(memory), I(1), I(64), H(stream))
  CASE("cuMemAdvise_v2", H(managed), I(4096), I(1), I(1))
  CASE("cuMemPoolTrimTo", H(pool), I(0))
  CASE("cuMemPoolSetAttribute", H(pool), I(4), P(zeros))
  CASE("cuMemPoolSetAccess", H(pool), P(zeros), I(0))
  CASE("cuMemPoolDestroy", H(pool))
  CASE("cuDeviceSetMemPool", I(dev), H(pool))
  CASE("cuMemAddressFree", H(range), I(4 << 20))
  CASE("cuMemUnmap", H(range), I(2 << 20))
  CASE("cuMemRelease", H(range))
  CASE("cuMemSetAccess", H(range), I(2 << 20), P(zeros), I(1))
  CASE("cuArrayDestroy", H(array))
  CASE("cuMipmappedArrayDestroy", H(mipmaps))
  CASE("cuTexObjectDestroy", H(texture))
  CASE("cuStreamSynchronize", H(stream))
  CASE("cuStreamQuery", H(stream))
  CASE("cuStreamDestroy_v2", H(stream))
  CASE("cuStreamWaitEvent", H(stream), H(event), I(0))
  CASE("cuStreamAddCallback", H(stream), H(0), I(0), I(0))
  CASE("cuLaunchHostFunc", H(stream), H(0), I(0))
  CASE("cuStreamBeginCapture_v2", H(stream), I(0))
  CASE("cuStreamUpdateCaptureDependencies_v2", H(stream), I(0), I(0), I(0), I(0))
  CASE("cuStreamWriteValue32_v2", H(stream), H(memory), I(1), I(0))
  CASE("cuStreamWaitValue32_v2", H(stream), H(memory), I(0), I(0))
  CASE("cuStreamBatchMemOp_v2", H(stream), I(0), P(zeros), I(0))
  CASE("cuStreamCopyAttributes", H(stream), H(stream))
  CASE("cuStreamSetAttribute", H(stream), I(3), P(zeros))
  CASE("cuEventRecord", H(event), H(stream))
  CASE("cuEventRecordWithFlags", H(event), H(stream), I(0))
  CASE("cuEventQuery", H(event))
  CASE("cuEventSynchronize", H(event))
  CASE("cuEventDestroy_v2", H(event))
  CASE("cuModuleUnload", H(module))
  CASE("cuLibraryUnload", H(library))
  CASE("cuLinkDestroy", H(0))
  CASE("cuLinkComplete", H(0), O, O)
  CASE("cuFuncSetAttribute", H(function), I(8), I(1024))
  CASE("cuFuncSetCacheConfig", H(function), I(1))
  CASE("cuFuncLoad", H(function))
  CASE("cuKernelSetAttribute", I(8), I(1024), H(kernel), I(dev))
  CASE("cuKernelSetCacheConfig", H(kernel), I(1), I(dev))
  CASE("cuLaunchKernelEx", P(&launch), H(function), P(parameters), I(0))
  CASE("cuLaunchKernelEx", P(&launch), H(kernel), P(parameters), I(0))
  CASE("cuGraphDestroy", H(graph))
  CASE("cuGraphDestroyNode", H(memset_node))
  CASE("cuGraphExecDestroy", H(exec))
  CASE("cuGraphLaunch", H(exec), H(stream))
  CASE("cuGraphUpload", H(exec), H(stream))
  CASE("cuGraphAddDependencies_v2", H(graph), I(0), I(0), I(0), I(0))
  CASE("cuGraphRemoveDependencies_v2", H(graph), I(0), I(0), I(0), I(0))
  CASE("cuGraphAddDependencies_v2", H(graph), P(zeros), P(zeros), I(0), I(1))
  CASE("cuGraphAddChildGraphNode", O, H(graph), I(0), I(0), H(other))
  CASE("cuGraphAddHostNode", O, H(graph), I(0), I(0), P(zeros))
  CASE("cuGraphAddKernelNode_v2", O, H(graph), I(0), I(0), P(zeros))
  CASE("cuGraphAddMemcpyNode", O, H(graph), I(0), I(0), P(zeros), H(ctx))
  CASE("cuGraphAddMemsetNode", O, H(graph), I(0), I(0), P(zeros), H(ctx))
  CASE("cuGraphAddEventWaitNode", O, H(graph), I(0), I(0), H(event))
  CASE("cuGraphKernelNodeGetParams_v2", H(memset_node), O)
  CASE("cuGraphMemsetNodeSetParams", H(memset_node), P(zeros))
  CASE("cuGraphExecMemsetNodeSetParams", H(exec), H(memset_node), P(zeros), H(ctx))
  CASE("cuGraphNodeSetEnabled", H(exec), H(memset_node), I(1))
  CASE("cuGraphNodeFindInClone", O, H(memset_node), H(other))
  CASE("cuGraphChildGraphNodeGetGraph", H(memset_node), O)
  CASE("cuGraphHostNodeGetParams", H(memset_node), O)
  CASE("cuGraphEventRecordNodeGetEvent", H(memset_node), O)
  CASE("cuGraphDebugDotPrint", H(graph), P(""), I(0))
  CASE("cuGraphRetainUserObject", H(graph), H(0), I(1), I(0))
  CASE("cuUserObjectRetain", H(0), I(1))
  CASE("cuIpcCloseMemHandle", H(memory))
  CASE("cuDeviceGraphMemTrim", I(dev))
  CASE("cuProfilerStart", I(0))
  CASE("cuProfilerStop", I(0))
  CASE("cuStreamAttachMemAsync", H(stream), H(managed), I(0), I(4))
  CASE("cuMemPrefetchAsync_v2", H(managed), I(4096), I(1), I(0), H(stream))
  CASE("cuStreamEndCapture", H(stream), O)
  return 0;
}

static void describe(char *what, int size, int null) {
  switch (null) {
    case ALL: snprintf(what, size, "all there"); break;
    case NO_CONTEXT: snprintf(what, size, "no context"); break;
    default: snprintf(what, size, "null %d", null);
  }
}

// Makes the call, with one argument null (or none), and says what came.
static void call(int at, int null) {
  prepare();
  if (!choose(at)) exit(2);
  int is_end = !strcmp(called, "cuStreamEndCapture");
  if (is_end) DO("cuStreamBeginCapture_v2", stream, 0);
  if (null == NO_CONTEXT) DO("cuCtxSetCurrent", (word)0);
  word v[MOST] = {0};
  int seen = 0;
  for (int i = 0; i < count; i++) {
    v[i] = words[i].value;
    if (words[i].may_be_null && seen++ == null) v[i] = 0;
  }
  int rc = sym(called)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]);
  char what[32];
  describe(what, sizeof what, null);
  int state = 0;
  if (is_end) {
    int later = ((int (*)())sym("cuStreamIsCapturing"))(stream, &state);
    printf("%s, %s: %d, then %d %d\n", called, what, rc, later, state);
  } else {
    printf("%s, %s: %d\n", called, what, rc);
  }
  fflush(stdout);
}

enum { CALLS = 1500, PROCESSES = 12 };
static struct { int at, null; } todo[CALLS];
// How many of the calls a process has begun, and where it is told what they print.
static volatile int *begun;

// A process that makes calls of its part until one is fatal to it or to its context; what it prints
// goes to a file.
static pid_t make_calls(int from, int to, FILE *file, int mine) {
  pid_t pid = fork();
  if (pid) return pid;
  alarm(100);
  dup2(fileno(file), 1);
  lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) { puts("no driver"); exit(2); }
  for (int i = from; i < to; i++) {
    begun[mine] = i + 1;
    call(todo[i].at, todo[i].null);
    ((int (*)())sym("cuCtxSetCurrent"))(ctx);
    if (((int (*)())sym("cuCtxSynchronize"))()) break;
    // Captures and the like are not for the next call to find.
    if (strstr(called, "Capture") || strstr(called, "PrimaryCtx")) break;
  }
  // Not exit(): what the driver does at the end is not what is looked at.
  _exit(0);
}

int main(void) {
  static struct { pid_t pid; int at, to; FILE *file; } parts[PROCESSES];
  begun = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int n = 0, running = 0;
  for (int at = 0; choose(at); at++) {
    int nulls = 0;
    for (int i = 0; i < count; i++) nulls += words[i].may_be_null;
    for (int null = NO_CONTEXT; null < nulls; null++, n++) {
      if (n == CALLS) { puts("too many calls"); return 2; }
      todo[n].at = at, todo[n].null = null;
    }
  }
  for (int i = 0; i < PROCESSES; i++) {
    int from = n * i / PROCESSES, to = n * (i + 1) / PROCESSES;
    FILE *file = tmpfile();
    pid_t pid = make_calls(from, to, file, i);
    parts[i].pid = pid, parts[i].to = to, parts[i].file = file;
    running++;
  }
  while (running) {
    int status, i = 0;
    pid_t pid = wait(&status);
    while (parts[i].pid != pid) i++;
    int next = begun[i];
    if (WIFSIGNALED(status)) {
      char what[32];
      choose(todo[next - 1].at);
      describe(what, sizeof what, todo[next - 1].null);
      dprintf(fileno(parts[i].file), "# %s, %s: signal %d\n", called, what, WTERMSIG(status));
    } else if (WEXITSTATUS(status)) {
      return printf("exit %d\n", WEXITSTATUS(status)), WEXITSTATUS(status);
    }
    if (next < parts[i].to)
      parts[i].pid = make_calls(next, parts[i].to, parts[i].file, i);
    else
      running--;
  }
  for (int i = 0; i < PROCESSES; i++) {
    char text[4096];
    size_t length;
    rewind(parts[i].file);
    while ((length = fread(text, 1, sizeof text, parts[i].file))) fwrite(text, 1, length, stdout);
  }
  return 0;
}
