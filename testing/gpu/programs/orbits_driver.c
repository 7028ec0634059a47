// A million orbits of the logistic map through the driver API alone, in a thousand launches of a
// kernel in PTX; prints how many differ from the CPU's, and a checksum.
// Needs neither CUDA's headers nor its compiler: cc -O1 orbits_driver.c -ldl -o orbits_driver
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N (1 << 20)
#define LAUNCHES 1000
#define EVERY 4096

// x = r * x * (1 - x), rounded after each operation, as the CPU does it.
static const char *PTX =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry orbit(.param .u64 place, .param .u32 count, .param .f32 rate)\n"
    "{\n"
    "  .reg .pred %p;\n"
    "  .reg .b32 %i<5>;\n"
    "  .reg .b64 %a<3>;\n"
    "  .reg .f32 %x<4>;\n"
    "  mov.u32 %i0, %ctaid.x;\n"
    "  mov.u32 %i1, %ntid.x;\n"
    "  mov.u32 %i2, %tid.x;\n"
    "  mad.lo.u32 %i3, %i0, %i1, %i2;\n"
    "  ld.param.u32 %i4, [count];\n"
    "  setp.ge.u32 %p, %i3, %i4;\n"
    "  @%p bra DONE;\n"
    "  ld.param.u64 %a0, [place];\n"
    "  cvta.to.global.u64 %a0, %a0;\n"
    "  mul.wide.u32 %a1, %i3, 4;\n"
    "  add.u64 %a2, %a0, %a1;\n"
    "  ld.param.f32 %x0, [rate];\n"
    "  ld.global.f32 %x1, [%a2];\n"
    "  mul.rn.f32 %x2, %x0, %x1;\n"
    "  mov.f32 %x3, 0f3F800000;\n"
    "  sub.rn.f32 %x3, %x3, %x1;\n"
    "  mul.rn.f32 %x1, %x2, %x3;\n"
    "  st.global.f32 [%a2], %x1;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n";

// The same numbers on every machine.
static float start(unsigned i) { return 0.1f + 0.8f * (float)i / N; }

static void *library;

static void *function(const char *name) {
  void *found = dlsym(library, name);
  if (found) return found;
  fprintf(stderr, "the driver has no %s\n", name);
  exit(1);
}

static void check(int error, const char *what) {
  if (!error) return;
  fprintf(stderr, "%s gives error %d\n", what, error);
  exit(1);
}
#define CALL(name, types, ...) check(((int(*) types)function(#name))(__VA_ARGS__), #name)

int main(void) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int device;
  char name[100];
  void *context, *module, *kernel, *stream;
  unsigned long long place;
  unsigned count = N;
  float rate = 3.7f, *x = malloc(N * sizeof *x);
  CALL(cuInit, (unsigned), 0);
  CALL(cuDeviceGet, (int *, int), &device, 0);
  CALL(cuDeviceGetName, (char *, int, int), name, sizeof name, device);
  CALL(cuCtxCreate_v2, (void **, unsigned, int), &context, 0, device);
  CALL(cuModuleLoadData, (void **, const void *), &module, PTX);
  CALL(cuModuleGetFunction, (void **, void *, const char *), &kernel, module, "orbit");
  CALL(cuStreamCreate, (void **, unsigned), &stream, 0);
  CALL(cuMemAlloc_v2, (unsigned long long *, size_t), &place, N * sizeof *x);
  for (unsigned i = 0; i < N; i++) x[i] = start(i);
  CALL(cuMemcpyHtoD_v2, (unsigned long long, const void *, size_t), place, x, N * sizeof *x);
  void *arguments[] = {&place, &count, &rate};
  for (int i = 0; i < LAUNCHES; i++)
    CALL(cuLaunchKernel,
         (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
          void **, void **),
         kernel, N / 256, 1, 1, 256, 1, 1, 0, stream, arguments, NULL);
  CALL(cuStreamSynchronize, (void *), stream);
  CALL(cuMemcpyDtoH_v2, (void *, unsigned long long, size_t), x, place, N * sizeof *x);

  int checked = 0, wrong = 0;
  for (unsigned i = 0; i < N; i += EVERY, checked++) {
    volatile float y = start(i);
    for (int n = 0; n < LAUNCHES; n++) {
      volatile float a = rate * y, b = 1.0f - y;
      y = a * b;
    }
    wrong += y != x[i];
  }
  unsigned sum = 2166136261u;
  for (unsigned i = 0; i < N; i++) {
    unsigned word;
    memcpy(&word, &x[i], sizeof word);
    sum = (sum ^ word) * 16777619u;
  }
  printf("on %s, %d of %d orbits differ from the CPU's, checksum %08x\n", name, wrong, checked,
         sum);
  CALL(cuMemFree_v2, (unsigned long long), place);
  CALL(cuModuleUnload, (void *), module);
  CALL(cuCtxDestroy_v2, (void *), context);
  return wrong != 0;
}
