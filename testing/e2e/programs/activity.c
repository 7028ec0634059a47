/* What a profiler hears: records of calls and of devices' work, and callbacks. CUPTI is asked for
   by its name. Numbers that differ from run to run are checked here, and not printed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t ptr;
static void *cuda, *cupti;
static void *find(void *lib, const char *name) {
  void *f = dlsym(lib, name);
  if (!f) { printf("no %s\n", name); exit(1); }
  return f;
}
static void check(const char *what, int rc) {
  if (rc) { printf("%s: %d\n", what, rc); fflush(stdout); exit(1); }
}
#define CU(name, type, ...) check(#name, ((int (*) type)find(cuda, #name))(__VA_ARGS__))
#define SAY(name, type, ...) \
  printf("%s: %d\n", #name, ((int (*) type)find(cupti, #name))(__VA_ARGS__))
#define TI(name, type, ...) check(#name, ((int (*) type)find(cupti, #name))(__VA_ARGS__))

enum { COPY = 1, FILL = 2, DRIVER = 4, KERNEL = 10, EXTERNAL = 39 };
enum { SIZE = 256 << 10 };
static uint64_t began, ticks;
static uint32_t first_call;
static int buffers;

/* The program's own clock: it counts in steps of half a nanosecond, from one. */
static uint64_t clock_of_ours(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t now = t.tv_sec * 1000000000ull + t.tv_nsec;
  if (!began) began = now;
  ticks++;
  return (now - began) * 2 + 1;
}
static void request(uint8_t **at, size_t *size, size_t *most) {
  *size = SIZE;
  *at = aligned_alloc(8, SIZE);
  *most = 0;
}
static uint32_t u32(const uint8_t *r, int at) { uint32_t v; memcpy(&v, r + at, 4); return v; }
static uint64_t u64(const uint8_t *r, int at) { uint64_t v; memcpy(&v, r + at, 8); return v; }
static uint64_t calls[64];
static const char *timely(const uint8_t *r, int at, uint32_t of) {
  uint64_t start = u64(r, at), end = u64(r, at + 8), now = clock_of_ours();
  int known = of - first_call < 64;
  if (!start || end < start || end > now + 2000000) return "at a wrong time";
  if (known && start < calls[of - first_call]) return "before its call";
  return "in time";
}
static void complete(void *ctx, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  uint8_t *r = 0;
  buffers++;
  int (*next)(uint8_t *, size_t, uint8_t **) = find(cupti, "cuptiActivityGetNextRecord");
  while (!next(buffer, valid, &r)) {
    uint32_t kind = u32(r, 0);
    if (kind == DRIVER) {
      const char *name;
      TI(cuptiGetCallbackName, (uint32_t, uint32_t, const char **), 1, u32(r, 4), &name);
      uint32_t of = u32(r, 32);
      if (!first_call) first_call = of;
      calls[of - first_call] = u64(r, 8);
      printf("call %d %s -> %d\n", of - first_call, name, u32(r, 36));
    } else if (kind == EXTERNAL) {
      if (!first_call) first_call = u32(r, 16);
      printf("call %d is of %d:%d\n", u32(r, 16) - first_call, u32(r, 4), (int)u64(r, 8));
    } else if (kind == COPY) {
      printf("for %d a copy %d (%d to %d) of %d bytes, flags %d, %s\n", u32(r, 44) - first_call,
             r[4], r[5], r[6], (int)u64(r, 8), r[7], timely(r, 16, u32(r, 44)));
    } else if (kind == FILL) {
      printf("for %d a fill of %d bytes with %d, %s\n", u32(r, 44) - first_call, (int)u64(r, 8),
             u32(r, 4), timely(r, 16, u32(r, 44)));
    } else if (kind == KERNEL) {
      printf("for %d a kernel %s of %d x %d, %s\n", u32(r, 92) - first_call,
             *(const char **)(r + 104), u32(r, 52), u32(r, 64), timely(r, 16, u32(r, 92)));
    } else {
      printf("kind %d\n", kind);
    }
  }
  free(buffer);
}
typedef struct {
  int site;
  const char *function;
  const void *params;
  const int *result;
  const char *symbol;
  void *context;
  uint32_t uid;
  uint64_t *data;
  uint32_t correlation;
} Told;
static void told(void *user, int domain, int id, const Told *t) {
  if (domain == 3) {
    void *const *of = (void *const *)t;
    printf("%s resource %d, a stream: %d\n", (char *)user, id, of[1] != 0);
    return;
  }
  printf("%s %d %d %s", (char *)user, domain, id, t->function);
  if (t->site == 0) {
    *t->data = 4711;
    printf(" begins with %d bytes\n", (int)((uint64_t *)t->params)[1]);
  } else {
    printf(" ends: %d, %d\n", *t->result, (int)*t->data);
  }
}

/* Libraries call on when a program has ended, where threads have nothing of their own any more. */
__attribute__((destructor)) static void last(void) {
  ptr p;
  int rc = cuda ? ((int (*)(ptr *, size_t))find(cuda, "cuMemAlloc_v2"))(&p, 300) : 0;
  printf("at the end: %d\n", rc == 0 || rc == 4);
}

int main(int argc, char **argv) {
  void *ctx, *stream, *module, *kernel, *locked, *sub, *other;
  static char bytes[3 << 20];
  ptr p;
  cuda = dlopen("libcuda.so.1", RTLD_NOW);
  cupti = dlopen("libcupti.so.13", RTLD_NOW);
  if (!cuda || !cupti) { printf("%s\n", dlerror()); return 1; }
  int early = argc > 1 && !strcmp(argv[1], "early");
  uint32_t version = 0;
  TI(cuptiGetVersion, (uint32_t *), &version);
  printf("version: %d\n", version >= 28);
  TI(cuptiActivityRegisterTimestampCallback, (uint64_t (*)(void)), clock_of_ours);
  TI(cuptiActivityRegisterCallbacks, (void *, void *), request, complete);
  /* What is asked for before there is a session is asked for when there is one. */
  if (early) SAY(cuptiActivityEnable, (uint32_t), FILL);
  CU(cuInit, (unsigned), 0);
  CU(cuDevicePrimaryCtxRetain, (void **, int), &ctx, 0);
  CU(cuCtxSetCurrent, (void *), ctx);
  CU(cuMemAlloc_v2, (ptr *, size_t), &p, sizeof bytes);
  CU(cuMemHostAlloc, (void **, size_t, unsigned), &locked, sizeof bytes, 0);
  CU(cuStreamCreate, (void **, unsigned), &stream, 1);
  CU(cuModuleLoadData, (void **, const void *), &module,
     "fakedev-module 1\nkernel fill fill_u32\n");
  CU(cuModuleGetFunction, (void **, void *, const char *), &kernel, module, "fill");
  SAY(cuptiActivityEnable, (uint32_t), 77);
  SAY(cuptiActivityEnable, (uint32_t), 36);
  for (int k = 0; k < 5; k++) {
    uint32_t kinds[] = {COPY, FILL, DRIVER, KERNEL, EXTERNAL};
    SAY(cuptiActivityEnable, (uint32_t), kinds[k]);
  }
  uint64_t last = 0;
  TI(cuptiActivityPushExternalCorrelationId, (uint32_t, uint64_t), 3, 41);
  TI(cuptiActivityPushExternalCorrelationId, (uint32_t, uint64_t), 3, 42);
  CU(cuMemsetD8Async, (ptr, unsigned char, size_t, void *), p, 7, 100, stream);
  TI(cuptiActivityPopExternalCorrelationId, (uint32_t, uint64_t *), 3, &last);
  TI(cuptiActivityPopExternalCorrelationId, (uint32_t, uint64_t *), 3, &last);
  printf("popped %d\n", (int)last);
  SAY(cuptiActivityPopExternalCorrelationId, (uint32_t, uint64_t *), 3, &last);
  uint32_t value = 5;
  uint64_t n = 64;
  void *args[] = {&p, &value, &n};
  CU(cuLaunchKernel,
     (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
      void **),
     kernel, 2, 1, 1, 32, 1, 1, 0, stream, args, 0);
  CU(cuMemcpyHtoD_v2, (ptr, const void *, size_t), p, bytes, sizeof bytes);
  CU(cuMemcpyDtoHAsync_v2, (void *, ptr, size_t, void *), locked, p, 1 << 20, stream);
  CU(cuMemcpyDtoH_v2, (void *, ptr, size_t), bytes, p, 64);
  CU(cuStreamSynchronize, (void *), stream);
  SAY(cuptiActivityFlushAll, (uint32_t), 1);
  printf("records came: %d\n", buffers > 0);
  /* One kind alone, and one function alone. */
  for (int k = 0; k < 3; k++) {
    uint32_t kinds[] = {COPY, DRIVER, EXTERNAL};
    SAY(cuptiActivityDisable, (uint32_t), kinds[k]);
  }
  TI(cuptiActivityEnableDriverApi, (uint32_t, uint8_t), 126, 1);
  CU(cuMemsetD8_v2, (ptr, unsigned char, size_t), p, 9, 200);
  CU(cuMemcpyDtoH_v2, (void *, ptr, size_t), bytes, p, 64);
  CU(cuStreamSynchronize, (void *), stream);
  SAY(cuptiActivityFlushAll, (uint32_t), 1);
  SAY(cuptiActivityDisable, (uint32_t), FILL);
  SAY(cuptiActivityDisable, (uint32_t), KERNEL);
  TI(cuptiActivityEnableDriverApi, (uint32_t, uint8_t), 126, 0);
  CU(cuMemsetD8_v2, (ptr, unsigned char, size_t), p, 9, 200);
  buffers = 0;
  SAY(cuptiActivityFlushAll, (uint32_t), 1);
  printf("records came: %d\n", buffers > 0);
  /* A subscriber. */
  SAY(cuptiSubscribe, (void **, void *, void *), &sub, told, "told:");
  SAY(cuptiSubscribe, (void **, void *, void *), &other, told, "other:");
  SAY(cuptiEnableCallback, (uint32_t, void *, uint32_t, uint32_t), 1, sub, 1, 243);
  CU(cuMemAlloc_v2, (ptr *, size_t), &p, 300);
  CU(cuMemFree_v2, (ptr), p);
  SAY(cuptiEnableCallback, (uint32_t, void *, uint32_t, uint32_t), 0, sub, 1, 243);
  CU(cuMemAlloc_v2, (ptr *, size_t), &p, 300);
  SAY(cuptiEnableCallback, (uint32_t, void *, uint32_t, uint32_t), 1, sub, 3, 9);
  SAY(cuptiEnableDomain, (uint32_t, void *, uint32_t), 1, sub, 3);
  CU(cuCtxCreate_v2, (void **, unsigned, int), &ctx, 0, 0);
  uint32_t number = 7;
  TI(cuptiGetDeviceId, (void *, uint32_t *), ctx, &number);
  CU(cuStreamCreate, (void **, unsigned), &stream, 1);
  CU(cuCtxDestroy_v2, (void *), ctx);
  printf("device: %d\n", number);
  SAY(cuptiUnsubscribe, (void *), sub);
  SAY(cuptiUnsubscribe, (void *), sub);
  const char *text;
  TI(cuptiGetResultString, (uint32_t, const char **), 27, &text);
  printf("%s\n", text);
  SAY(cuptiProfilerInitialize, (void *), 0);
  size_t dropped = 7;
  TI(cuptiActivityGetNumDroppedRecords, (void *, uint32_t, size_t *), 0, 0, &dropped);
  printf("dropped: %d, our clock: %d\n", (int)dropped, ticks > 10);
  SAY(cuptiActivityEnable, (uint32_t), DRIVER);
  return 0;
}
