/* A driver that does nothing, fast: enough to run driver.c and calls.c without a GPU. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef uint64_t P;
int cuInit(unsigned f) { return (int)f; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; *c = c; return 0; }
int cuCtxSetCurrent(void *c) { return c == NULL; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadData(void **m, const void *t) {
    *m = m;
    /* The first text is for a newer driver than this. */
    return strstr(t, "sm_75") ? 222 : strstr(t, ".entry nothing") == NULL;
}
int cuModuleGetFunction(void **f, void *m, const char *n) { *f = m; return strcmp(n, "nothing"); }
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g,
                   unsigned s, void *stream, void **p, void **x) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)g, (void)s, (void)stream, (void)x;
    return f == NULL || p == NULL;
}
int cuStreamCreate(void **s, unsigned f) { (void)f; *s = s; return 0; }
int cuStreamSynchronize(void *s) { return s == NULL; }
int cuMemAlloc_v2(P *p, size_t n) { *p = (P)(uintptr_t)malloc(n); return 0; }
int cuMemHostAlloc(void **p, size_t n, unsigned f) { (void)f; *p = malloc(n); return 0; }
int cuMemcpyHtoD_v2(P d, const void *h, size_t n) { memcpy((void *)(uintptr_t)d, h, n); return 0; }
int cuMemcpyDtoH_v2(void *h, P d, size_t n) { memcpy(h, (void *)(uintptr_t)d, n); return 0; }
int cuMemcpyPeer(P d, void *dc, P s, void *sc, size_t n) {
    memcpy((void *)(uintptr_t)d, (void *)(uintptr_t)s, n);
    return dc == NULL || sc == NULL;
}

/* The calls that only calls.c makes. One is refused, as a driver may. */
#define NOTHING(name) int name(void) { return 0; }
#define MAKES(name) int name(void **made) { *made = made; return 0; }
NOTHING(cuModuleUnload)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuStreamQuery)
NOTHING(cuStreamWaitEvent)
int cuStreamWriteValue32_v2(void) { return 801; }
NOTHING(cuLaunchHostFunc)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventRecord)
NOTHING(cuEventQuery)
NOTHING(cuEventSynchronize)
NOTHING(cuEventElapsedTime)
NOTHING(cuMemFree_v2)
NOTHING(cuMemFreeAsync)
NOTHING(cuMemFreeHost)
NOTHING(cuMemHostRegister_v2)
NOTHING(cuMemHostUnregister)
NOTHING(cuMemGetInfo_v2)
NOTHING(cuPointerGetAttribute)
NOTHING(cuMemsetD8Async)
NOTHING(cuMemcpyHtoDAsync_v2)
NOTHING(cuMemcpyDtoHAsync_v2)
NOTHING(cuMemcpyDtoDAsync_v2)
NOTHING(cuStreamBeginCapture_v2)
NOTHING(cuGraphLaunch)
NOTHING(cuGraphExecDestroy)
NOTHING(cuGraphDestroy)
NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
MAKES(cuCtxGetCurrent)
MAKES(cuEventCreate)
MAKES(cuGraphInstantiateWithFlags)
MAKES(cuMemAllocAsync)
int cuStreamEndCapture(void *s, void **g) { *g = g; return s == NULL; }
