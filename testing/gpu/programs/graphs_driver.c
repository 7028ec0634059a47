// Graphs through the driver API alone: constructed and captured, with the program's memory as
// source and destination, host functions between them, updates, clones, user objects, errors of
// captures.
// Prints the same lines wherever it runs.
//   gcc -I CUDA/include graphs_driver.c -ldl -o graphs_driver && ./graphs_driver
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *lib;
static int failed;

static void *sym(const char *name) {
  void *p = dlsym(lib, name);
  if (!p) { printf("no %s\n", name); exit(2); }
  return p;
}
#define F(name) ((__typeof__(&name))sym(#name))
#define OK(call) do { CUresult r_ = (call); if (r_) { \
  printf("line %d: %s gives %d\n", __LINE__, #call, r_); failed = 1; } } while (0)
#define GIVES(want, call) do { CUresult r_ = (call); if (r_ != (want)) { \
  printf("line %d: %s gives %d, not %d\n", __LINE__, #call, r_, want); failed = 1; } } while (0)
#define SAME(a, b) do { long long a_ = (a), b_ = (b); if (a_ != b_) { \
  printf("line %d: %s is %lld, not %lld\n", __LINE__, #a, a_, b_); failed = 1; } } while (0)

// Page-locked: what a graph copies from pageable memory, the driver reads before the graph runs.
static int *out_buf, *in_buf, calls;
static volatile int destroyed;
static void between(void *p) {
  (void)p;
  calls++;
  for (int i = 0; i < 4; i++) in_buf[i] = out_buf[i] * 10;
}
static void count(void *p) { ++*(int *)p; }
static void gone(void *p) { destroyed += *(int *)p; }
static int seven = 7;

int main(void) {
  lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) { puts("no driver"); return 2; }
  CUdevice dev; CUcontext ctx; CUstream s, s2; CUdeviceptr a, b; CUevent ev;
  OK(F(cuInit)(0));
  OK(F(cuDeviceGet)(&dev, 0));
  __typeof__(&cuDevicePrimaryCtxRetain) retain = F(cuDevicePrimaryCtxRetain);
  OK(retain(&ctx, dev));
  OK(F(cuCtxSetCurrent)(ctx));
  OK(F(cuMemHostAlloc)((void **)&out_buf, 16, 0));
  OK(F(cuMemHostAlloc)((void **)&in_buf, 16, 0));
  OK(F(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
  OK(F(cuStreamCreate)(&s2, CU_STREAM_NON_BLOCKING));
  OK(F(cuEventCreate)(&ev, CU_EVENT_DISABLE_TIMING));
  CUresult (*alloc)(CUdeviceptr *, size_t) = sym("cuMemAlloc_v2");
  CUresult (*h2d)(CUdeviceptr, const void *, size_t, CUstream) = sym("cuMemcpyHtoDAsync_v2");
  CUresult (*d2h)(void *, CUdeviceptr, size_t, CUstream) = sym("cuMemcpyDtoHAsync_v2");
  CUresult (*begin)(CUstream, CUstreamCaptureMode) = sym("cuStreamBeginCapture_v2");
  CUresult (*deps)(CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *)
    = sym("cuGraphNodeGetDependencies_v2");
  CUresult (*edges)(CUgraph, CUgraphNode *, CUgraphNode *, CUgraphEdgeData *, size_t *)
    = sym("cuGraphGetEdges_v2");
  CUresult (*update)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *)
    = sym("cuGraphExecUpdate_v2");
  __typeof__(&cuGraphLaunch) launch = F(cuGraphLaunch);
  __typeof__(&cuStreamSynchronize) sync = F(cuStreamSynchronize);
  __typeof__(&cuGraphInstantiateWithFlags) inst = F(cuGraphInstantiateWithFlags);
  __typeof__(&cuGraphAddMemcpyNode) add_copy = F(cuGraphAddMemcpyNode);
  OK(alloc(&a, 4096)); OK(alloc(&b, 1 << 22));

  // A capture: host memory to device, back, a function of the program's between, and again.
  CUgraph g; CUgraphExec x; int src[4], back[4];
  CUstreamCaptureStatus st; size_t n = 0;
  for (int i = 0; i < 4; i++) src[i] = i + 1;
  OK(begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(F(cuStreamIsCapturing)(s, &st)); SAME(st, 1);
  OK(h2d(a, src, sizeof src, s));
  OK(d2h(out_buf, a, 4 * sizeof *out_buf, s));
  OK(F(cuLaunchHostFunc)(s, between, NULL));
  OK(h2d(a, in_buf, 4 * sizeof *in_buf, s));
  OK(d2h(back, a, sizeof back, s));
  OK(F(cuStreamEndCapture)(s, &g));
  OK(F(cuStreamIsCapturing)(s, &st)); SAME(st, 0);
  OK(F(cuGraphGetNodes)(g, NULL, &n)); SAME(n, 5);
  OK(inst(&x, g, 0));
  for (int round = 1; round <= 3; round++) {
    for (int i = 0; i < 4; i++) src[i] = round * 100 + i;
    OK(launch(x, s)); OK(sync(s));
    printf("captured round %d: %d %d %d %d, calls %d\n", round,
           back[0], back[1], back[2], back[3], calls);
    for (int i = 0; i < 4; i++) SAME(back[i], (round * 100 + i) * 10);
  }
  // A clone lives on without its original, and so does what it copies.
  CUgraph c; CUgraphExec xc; CUgraphNode nodes[8], found; n = 8;
  OK(F(cuGraphClone)(&c, g));
  OK(F(cuGraphGetNodes)(g, nodes, &n)); SAME(n, 5); SAME(nodes[5] == NULL, 1);
  OK(F(cuGraphNodeFindInClone)(&found, nodes[0], c));
  CUgraphNodeType t;
  OK(F(cuGraphNodeGetType)(found, &t)); SAME(t, CU_GRAPH_NODE_TYPE_MEMCPY);
  n = 0; OK(edges(g, NULL, NULL, NULL, &n)); SAME(n, 4);
  n = 0; OK(deps(nodes[4], NULL, NULL, &n)); SAME(n, 1);
  OK(F(cuGraphExecDestroy)(x)); OK(F(cuGraphDestroy)(g));
  OK(inst(&xc, c, 0));
  for (int i = 0; i < 4; i++) src[i] = -i;
  OK(launch(xc, s)); OK(sync(s));
  printf("clone: %d %d %d %d\n", back[0], back[1], back[2], back[3]);
  for (int i = 0; i < 4; i++) SAME(back[i], -i * 10);
  OK(F(cuGraphExecDestroy)(xc)); OK(F(cuGraphDestroy)(c));

  // Constructed: a large source with gaps between its rows, a fill, a destination, pitched.
  enum { W = 300, H = 1000, P = 512 };
  unsigned char *big = malloc(P * H), *res = malloc(P * H);
  CUgraphNode in, fill, copy, host, child;
  OK(F(cuGraphCreate)(&g, 0));
  CUDA_MEMCPY3D m = {0};
  m.srcMemoryType = CU_MEMORYTYPE_HOST; m.srcHost = big; m.srcPitch = P; m.srcHeight = H;
  m.dstMemoryType = CU_MEMORYTYPE_DEVICE; m.dstDevice = b; m.dstPitch = W; m.dstHeight = H;
  m.WidthInBytes = W; m.Height = H; m.Depth = 1;
  OK(add_copy(&in, g, NULL, 0, &m, ctx));
  CUDA_MEMCPY3D got;
  OK(F(cuGraphMemcpyNodeGetParams)(in, &got));
  SAME(got.srcHost == big, 1); SAME(got.srcPitch, P); SAME(got.WidthInBytes, W);
  CUDA_MEMSET_NODE_PARAMS f = {b, 0, 0xee, 1, 100, 1};
  OK(F(cuGraphAddMemsetNode)(&fill, g, &in, 1, &f, ctx));
  CUDA_MEMCPY3D o = {0};
  o.dstMemoryType = CU_MEMORYTYPE_HOST; o.dstHost = res; o.dstPitch = P; o.dstHeight = H;
  o.srcMemoryType = CU_MEMORYTYPE_DEVICE; o.srcDevice = b; o.srcPitch = W; o.srcHeight = H;
  o.WidthInBytes = W; o.Height = H; o.Depth = 1;
  OK(add_copy(&copy, g, &fill, 1, &o, ctx));
  int runs = 0;
  CUDA_HOST_NODE_PARAMS hp = {count, &runs}, hq;
  OK(F(cuGraphAddHostNode)(&host, g, &copy, 1, &hp));
  OK(F(cuGraphHostNodeGetParams)(host, &hq)); SAME(hq.fn == count && hq.userData == &runs, 1);
  GIVES(CUDA_ERROR_INVALID_VALUE, F(cuGraphAddHostNode)(&host, g, (CUgraphNode[]){in, in}, 2, &hp));
  CUgraphNode roots[2]; n = 2;
  OK(F(cuGraphGetRootNodes)(g, roots, &n)); SAME(n, 1); SAME(roots[0] == in, 1);
  OK(inst(&x, g, 0));
  // Launches one behind the other: each reads what the source held when it was launched.
  unsigned sum[3] = {0};
  for (int r = 0; r < 3; r++) {
    memset(big, r + 1, P * H); memset(res, 0x55, P * H);
    OK(launch(x, s)); OK(sync(s));
    for (int y = 0; y < H; y++) for (int i = 0; i < P; i++) {
      unsigned char want = i >= W ? 0x55 : (y == 0 && i < 100) ? 0xee : r + 1;
      if (res[y * P + i] != want) { sum[r]++; }
    }
    SAME(sum[r], 0);
  }
  printf("constructed: wrong bytes %u %u %u, runs %d\n", sum[0], sum[1], sum[2], runs);
  SAME(runs, 3);
  // Another destination for this executable graph; then left out altogether.
  unsigned char *other = calloc(1, P * H);
  o.dstHost = other;
  OK(F(cuGraphExecMemcpyNodeSetParams)(x, copy, &o, ctx));
  memset(res, 0x33, P * H); memset(big, 9, P * H);
  OK(launch(x, s)); OK(sync(s));
  SAME(res[5 * P], 0x33); SAME(other[5 * P], 9);
  OK(F(cuGraphNodeSetEnabled)(x, copy, 0));
  unsigned on = 1; OK(F(cuGraphNodeGetEnabled)(x, copy, &on)); SAME(on, 0);
  memset(other, 0x44, P * H);
  OK(launch(x, s)); OK(sync(s));
  SAME(other[5 * P], 0x44);
  printf("after changes: %d %d\n", other[5 * P], res[5 * P]);
  CUgraphExecUpdateResultInfo info;
  OK(update(x, g, &info)); SAME(info.result, 0);
  OK(F(cuGraphNodeSetEnabled)(x, copy, 1));
  memset(res, 0, P * H);
  OK(launch(x, s)); OK(sync(s)); SAME(res[5 * P], 9);
  // A graph inside a graph.
  CUgraph outer, inner; CUgraphExec xo;
  OK(F(cuGraphCreate)(&outer, 0));
  OK(F(cuGraphAddChildGraphNode)(&child, outer, NULL, 0, g));
  OK(F(cuGraphChildGraphNodeGetGraph)(child, &inner)); SAME(inner != g, 1);
  OK(F(cuGraphExecDestroy)(x)); OK(F(cuGraphDestroy)(g));
  OK(inst(&xo, outer, 0));
  memset(big, 77, P * H); memset(res, 0, P * H);
  OK(launch(xo, s)); OK(sync(s));
  SAME(res[7 * P], 77);
  printf("child: %d, runs %d\n", res[7 * P], runs);
  CUgraph empty;
  OK(F(cuGraphCreate)(&empty, 0));
  GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, update(xo, empty, &info)); SAME(info.result != 0, 1);
  // What is tied to a graph goes with the last that holds it.
  CUuserObject u; CUgraphExec xe; CUgraphNode en;
  OK(F(cuUserObjectCreate)(&u, &seven, gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(F(cuGraphRetainUserObject)(empty, u, 1, CU_GRAPH_USER_OBJECT_MOVE));
  OK(F(cuGraphAddEmptyNode)(&en, empty, NULL, 0));
  OK(inst(&xe, empty, 0));
  OK(F(cuGraphDestroy)(empty)); OK(F(cuCtxSynchronize)()); SAME(destroyed, 0);
  OK(F(cuGraphExecDestroy)(xe)); OK(F(cuCtxSynchronize)());
  for (int i = 0; i < 200 && !destroyed; i++) usleep(10000);
  printf("destroyed: %d\n", destroyed); SAME(destroyed, 7);
  OK(F(cuGraphExecDestroy)(xo)); OK(F(cuGraphDestroy)(outer));

  // A second stream joins a capture; what may not be done during one.
  OK(begin(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(F(cuEventRecord)(ev, s)); OK(F(cuStreamWaitEvent)(s2, ev, 0));
  OK(h2d(a, src, sizeof src, s2));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, F(cuStreamEndCapture)(s, &g));
  SAME(g == NULL, 1);
  OK(begin(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, sync(s));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, F(cuStreamEndCapture)(s, &g));
  OK(F(cuStreamIsCapturing)(s, &st)); SAME(st, 0);
  OK(sync(s));
  // Copies outside captures are as ever.
  for (int i = 0; i < 4; i++) src[i] = 5 + i;
  OK(h2d(a, src, sizeof src, s)); OK(d2h(back, a, sizeof back, s)); OK(sync(s));
  SAME(back[3], 8);
  puts(failed ? "FAILED" : "all as it should be");
  return failed;
}
