/* What programs of ranks need: the two libraries, loaded by name, and their functions. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t ptr;
typedef struct { char bytes[128]; } Id;
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cga, min, max;
  const char *net;
  int share, traffic;
  const char *name;
  int rest[6];
} Config;

static void *cuda, *nccl;
static void *find(void *lib, const char *name) {
  void *f = dlsym(lib, name);
  if (!f) { printf("no %s\n", name); exit(1); }
  return f;
}
#define NC(name, type, ...) ((int (*) type)find(nccl, #name)) (__VA_ARGS__)
static void check(const char *what, int rc) {
  if (rc) { printf("%s: %d\n", what, rc); fflush(stdout); exit(1); }
}

static void load(void) {
  cuda = dlopen("libcuda.so.1", RTLD_NOW);
  nccl = dlopen("libnccl.so.2", RTLD_NOW);
  if (!cuda || !nccl) { printf("%s\n", dlerror()); exit(1); }
}

static void use(int device) {
  void *ctx;
  check("cuInit", ((int (*)(unsigned))find(cuda, "cuInit"))(0));
  check("retain", ((int (*)(void **, int))find(cuda, "cuDevicePrimaryCtxRetain"))(&ctx, device));
  check("current", ((int (*)(void *))find(cuda, "cuCtxSetCurrent"))(ctx));
}
static ptr alloc(size_t n) {
  ptr p;
  check("alloc", ((int (*)(ptr *, size_t))find(cuda, "cuMemAlloc_v2"))(&p, n));
  return p;
}
static void put(ptr to, const void *from, size_t n) {
  check("put", ((int (*)(ptr, const void *, size_t))find(cuda, "cuMemcpyHtoD_v2"))(to, from, n));
}
static void get(void *to, ptr from, size_t n) {
  check("get", ((int (*)(void *, ptr, size_t))find(cuda, "cuMemcpyDtoH_v2"))(to, from, n));
}
static void *stream(void) {
  void *s;
  check("stream", ((int (*)(void **, unsigned))find(cuda, "cuStreamCreate"))(&s, 1));
  return s;
}
static int sync_(void *s) { return ((int (*)(void *))find(cuda, "cuStreamSynchronize"))(s); }

typedef int Coll(ptr, ptr, size_t, int, int, void *, void *);
typedef int Rooted(ptr, ptr, size_t, int, int, int, void *, void *);
typedef int Plain(ptr, ptr, size_t, int, void *, void *);
typedef int Init(void **, int, Id, int, Config *);
typedef int Split(void *, int, int, void **, Config *);
typedef int Register(void *, ptr, size_t, void **);
typedef int Peer(ptr, size_t, int, int, void *, void *);

static Config config(int blocking) {
  Config c = {0};
  int none = -2147483647 - 1;
  c.size = sizeof c;
  c.magic = 0xcafebeef;
  c.version = 22809;
  c.blocking = blocking;
  c.cga = c.min = c.max = c.share = c.traffic = none;
  for (int i = 0; i < 6; i++) c.rest[i] = none;
  c.name = "a name";
  return c;
}
