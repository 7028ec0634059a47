// Code that comes at run time: PTX and cubins, loaded, linked and asked about, with options and
// with the compiler's words when it is wrong.
#include "tell.h"
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

static const char *known = R"(.version 7.8
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 4 .b8 table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
.visible .entry set(.param .u64 p, .param .u32 v)
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v];
  cvta.to.global.u64 %rd2, %rd1; st.global.u32 [%rd2], %r1; ret;
}
.visible .entry count(.param .u64 p)
{
  .reg .b64 %rd<4>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
  mov.u64 %rd3, counter; ld.global.u32 %r1, [%rd3]; add.u32 %r2, %r1, 1;
  st.global.u32 [%rd3], %r2; st.global.u32 [%rd2], %r2; ret;
}
.visible .entry odd(.param .align 16 .b8 big[48], .param .u8 small, .param .f64 wide)
{ ret; }
)";
/// The same with a variable that no other run has: the driver keeps what it has compiled, and then
/// has nothing to say in the log.
static const std::string fresh = std::string(known) + ".visible .global .u32 run_" +
    std::to_string(getpid()) + "_" +
    std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()) + ";\n";
static const char *good = fresh.c_str();
static const char *caller = R"(.version 7.8
.target sm_80
.address_size 64
.extern .func (.param .b32 out) twice(.param .b32 in);
.visible .entry call(.param .u64 p, .param .u32 v)
{
  .reg .b64 %rd<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v]; cvta.to.global.u64 %rd2, %rd1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), twice, (a);
    ld.param.b32 %r2, [b]; }
  st.global.u32 [%rd2], %r2; ret;
}
)";
static const char *callee = R"(.version 7.8
.target sm_80
.address_size 64
.visible .func (.param .b32 out) twice(.param .b32 in)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [in]; shl.b32 %r2, %r1, 1; st.param.b32 [out], %r2; ret;
}
)";
static const char *wrong = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry bad(.param .u64 p)
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [q];
  nonsense.u64 %rd1;
  ret;
}
)";
static const char *later = R"(.version 99.0
.target sm_80
.address_size 64
)";

static CUdeviceptr p;

/// Information and error logs, as a list of options.
struct Logs {
    char info[4096], error[4096];
    float time = -1;
    std::vector<CUjit_option> keys;
    std::vector<void *> values;
    explicit Logs(bool verbose, size_t room = 4096) {
        memset(info, 'x', sizeof info);
        memset(error, 'x', sizeof error);
        add(CU_JIT_INFO_LOG_BUFFER, info);
        add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, (void *)room);
        add(CU_JIT_ERROR_LOG_BUFFER, error);
        add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void *)room);
        add(CU_JIT_WALL_TIME, nullptr);
        add(CU_JIT_LOG_VERBOSE, (void *)(long)verbose);
    }
    void add(CUjit_option k, void *v) {
        keys.push_back(k);
        values.push_back(v);
    }
    size_t size(int which) const { return (size_t)(unsigned)(size_t)values[which]; }
    /// Only what does not change from machine to machine.
    void tell(bool text) {
        printf("info %s, error %s\n", size(1) ? "some" : "none", size(3) ? "some" : "none");
        if (text && size(3)) printf("%.*s\n", (int)size(3), error);
        printf("info ends with %d, error with %d\n",
               size(1) ? info[strnlen(info, 4096) == 4096 ? 0 : strlen(info)] : 0,
               size(3) ? error[strnlen(error, 4096) == 4096 ? 0 : strlen(error)] : 0);
    }
};

static int value() {
    int v = -1;
    CUresult rc = cuMemcpyDtoH(&v, p, 4);
    return rc ? -(int)rc : v;
}
static void launch(CUfunction f, int v, const char *what) {
    void *list[] = {&p, &v};
    CUresult rc = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, list, nullptr);
    printf("%s: %d, %d\n", what, (int)rc, value());
}

static void modules() {
    puts("-- modules");
    CUmodule m;
    Logs logs(true);
    SAY(cuModuleLoadDataEx(&m, good, (unsigned)logs.keys.size(), logs.keys.data(),
                           logs.values.data()));
    printf("a log of set: %d\n", strstr(logs.info, "set") != nullptr);
    logs.tell(false);
    CUfunction set, count, odd, none;
    SAY(cuModuleGetFunction(&set, m, "set"));
    SAY(cuModuleGetFunction(&count, m, "count"));
    SAY(cuModuleGetFunction(&odd, m, "odd"));
    SAY(cuModuleGetFunction(&none, m, "none"));
    launch(set, 42, "set");
    launch(count, 0, "count");
    CUdeviceptr at;
    size_t size;
    SAY(cuModuleGetGlobal(&at, &size, m, "counter"));
    int v = 0;
    SAY(cuMemcpyDtoH(&v, at, 4));
    printf("counter %d, %zu bytes\n", v, size);
    v = 100;
    SAY(cuMemcpyHtoD(at, &v, 4));
    launch(count, 0, "count");
    SAY(cuModuleGetGlobal(nullptr, &size, m, "table"));
    printf("table %zu bytes\n", size);
    SAY(cuModuleGetGlobal(&at, nullptr, m, "nothing"));
    unsigned n = 0;
    SAY(cuModuleGetFunctionCount(&n, m));
    std::vector<CUfunction> all(n + 2, nullptr);
    SAY(cuModuleEnumerateFunctions(all.data(), n + 2, m));
    int found = 0;
    for (unsigned i = 0; i < n; i++) {
        const char *name = nullptr;
        if (all[i] && !cuFuncGetName(&name, all[i]))
            found += !strcmp(name, "set") + !strcmp(name, "count") + !strcmp(name, "odd");
    }
    printf("%u functions, %d known, beyond them %d\n", n, found, all[n] != nullptr);
    for (int i = 0; i < 4; i++) {
        size_t offset = 77, length = 77;
        CUresult rc = cuFuncGetParamInfo(odd, i, &offset, &length);
        printf("parameter %d: %d", i, (int)rc);
        if (!rc) printf(" at %zu, %zu bytes", offset, length);
        puts("");
    }
    CUmodule owner = nullptr;
    SAY(cuFuncGetModule(&owner, set));
    printf("its module %d\n", owner == m);
    for (auto a : {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                   CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                   CU_FUNC_ATTRIBUTE_NUM_REGS, CU_FUNC_ATTRIBUTE_PTX_VERSION,
                   CU_FUNC_ATTRIBUTE_BINARY_VERSION, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                   CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
                   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED}) {
        v = -77;
        CUresult rc = cuFuncGetAttribute(&v, a, set);
        printf("attribute %d: %d %d\n", (int)a, (int)rc, v);
    }
    SAY(cuFuncGetAttribute(&v, (CUfunction_attribute)99, set));
    SAY(cuFuncSetAttribute(set, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    SAY(cuFuncSetAttribute(set, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 10000000));
    SAY(cuFuncSetAttribute(set, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
    SAY(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, set));
    printf("dynamic %d\n", v);
    CUfunctionLoadingState state;
    SAY(cuFuncIsLoaded(&state, set));
    printf("state %d\n", (int)state);
    SAY(cuFuncLoad(odd));
    SAY(cuFuncIsLoaded(&state, odd));
    printf("state %d\n", (int)state);
    SAY(cuModuleUnload(m));

    puts("-- modules that are wrong");
    Logs bad(false);
    SAY(cuModuleLoadDataEx(&m, wrong, (unsigned)bad.keys.size(), bad.keys.data(),
                           bad.values.data()));
    bad.tell(true);
    Logs little(false, 32);
    SAY(cuModuleLoadDataEx(&m, wrong, (unsigned)little.keys.size(), little.keys.data(),
                           little.values.data()));
    printf("%zu bytes, the last is %d\n", little.size(3), little.error[31]);
    SAY(cuModuleLoadData(&m, later));
    SAY(cuModuleLoadData(&m, "not code at all"));
    SAY(cuModuleLoadData(&m, ""));
    SAY(cuModuleLoad(&m, "/nowhere/at/all.ptx"));
    // Without what it calls.
    Logs missing(false);
    SAY(cuModuleLoadDataEx(&m, caller, (unsigned)missing.keys.size(), missing.keys.data(),
                           missing.values.data()));
    missing.tell(true);
    std::string path = "/tmp/busbar-jit-" + std::to_string(getpid()) + ".ptx";
    std::ofstream(path) << good;
    SAY(cuModuleLoad(&m, path.c_str()));
    SAY(cuModuleGetFunction(&set, m, "set"));
    launch(set, 43, "from a file");
    SAY(cuModuleUnload(m));
    unlink(path.c_str());
}

static void linking() {
    puts("-- linking");
    Logs logs(false);
    CUlinkState l;
    SAY(cuLinkCreate((unsigned)logs.keys.size(), logs.keys.data(), logs.values.data(), &l));
    SAY(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)caller, strlen(caller) + 1, "caller", 0, nullptr,
                      nullptr));
    CUjit_option level = CU_JIT_OPTIMIZATION_LEVEL;
    void *one = (void *)1;
    SAY(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)callee, strlen(callee) + 1, "callee", 1, &level,
                      &one));
    void *cubin = nullptr;
    size_t size = 0;
    SAY(cuLinkComplete(l, &cubin, &size));
    printf("an image %d, an ELF %d\n", size > 1000, cubin && !memcmp(cubin, "\177ELF", 4));
    std::vector<char> image((char *)cubin, (char *)cubin + size);
    SAY(cuLinkDestroy(l));
    CUmodule m;
    CUfunction f;
    SAY(cuModuleLoadData(&m, image.data()));
    SAY(cuModuleGetFunction(&f, m, "call"));
    launch(f, 21, "linked");
    SAY(cuModuleUnload(m));
    puts("-- linking what is wrong");
    Logs bad(false);
    SAY(cuLinkCreate((unsigned)bad.keys.size(), bad.keys.data(), bad.values.data(), &l));
    SAY(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)wrong, strlen(wrong) + 1, "wrong.ptx", 0,
                      nullptr, nullptr));
    bad.tell(true);
    SAY(cuLinkComplete(l, &cubin, &size));
    SAY(cuLinkDestroy(l));
    Logs missing(false);
    SAY(cuLinkCreate((unsigned)missing.keys.size(), missing.keys.data(), missing.values.data(),
                     &l));
    SAY(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)caller, strlen(caller) + 1, "caller", 0, nullptr,
                      nullptr));
    SAY(cuLinkComplete(l, &cubin, &size));
    missing.tell(true);
    SAY(cuLinkDestroy(l));
    SAY(cuLinkCreate(0, nullptr, nullptr, &l));
    SAY(cuLinkAddFile(l, CU_JIT_INPUT_PTX, "/nowhere/at/all.ptx", 0, nullptr, nullptr));
    SAY(cuLinkAddData(l, CU_JIT_INPUT_CUBIN, image.data(), image.size(), "image", 0, nullptr,
                      nullptr));
    SAY(cuLinkDestroy(l));
}

static void libraries() {
    puts("-- libraries");
    CUlibrary l;
    CUkernel k, none;
    SAY(cuLibraryLoadData(&l, good, nullptr, nullptr, 0, nullptr, nullptr, 0));
    SAY(cuLibraryGetKernel(&k, l, "set"));
    SAY(cuLibraryGetKernel(&none, l, "none"));
    unsigned n = 0;
    SAY(cuLibraryGetKernelCount(&n, l));
    std::vector<CUkernel> all(n);
    SAY(cuLibraryEnumerateKernels(all.data(), n, l));
    int found = 0;
    for (CUkernel each : all) {
        const char *name = nullptr;
        CUlibrary of = nullptr;
        if (!cuKernelGetName(&name, each))
            found += !strcmp(name, "set") + !strcmp(name, "count") + !strcmp(name, "odd");
        if (cuKernelGetLibrary(&of, each) || of != l) puts("of another library");
    }
    printf("%u kernels, %d known\n", n, found);
    CUfunction f;
    SAY(cuKernelGetFunction(&f, k));
    launch(f, 51, "its function");
    launch((CUfunction)k, 52, "itself");
    CUmodule m;
    SAY(cuLibraryGetModule(&m, l));
    SAY(cuModuleGetFunction(&f, m, "set"));
    launch(f, 53, "of its module");
    CUdeviceptr at;
    size_t size = 0;
    SAY(cuLibraryGetGlobal(&at, &size, l, "counter"));
    int v = 0;
    SAY(cuMemcpyDtoH(&v, at, 4));
    printf("counter %d, %zu bytes\n", v, size);
    SAY(cuLibraryGetManaged(&at, &size, l, "counter"));
    SAY(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 0));
    printf("threads %d\n", v);
    SAY(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, k, 0));
    SAY(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k, 0));
    printf("dynamic %d\n", v);
    SAY(cuKernelSetCacheConfig(k, CU_FUNC_CACHE_PREFER_SHARED, 0));
    size_t offset = 0;
    SAY(cuKernelGetParamInfo(k, 1, &offset, &size));
    printf("parameter at %zu, %zu bytes\n", offset, size);
    SAY(cuKernelGetParamInfo(k, 2, &offset, &size));
    SAY(cuLibraryUnload(l));
    Logs bad(false);
    SAY(cuLibraryLoadData(&l, wrong, bad.keys.data(), bad.values.data(), (unsigned)bad.keys.size(),
                          nullptr, nullptr, 0));
    SAY(cuLibraryLoadFromFile(&l, "/nowhere/at/all.cubin", nullptr, nullptr, 0, nullptr, nullptr,
                              0));
    CUlibraryOption keep = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *yes = (void *)1;
    SAY(cuLibraryLoadData(&l, good, nullptr, nullptr, 0, &keep, &yes, 1));
    SAY(cuLibraryGetKernel(&k, l, "count"));
    launch((CUfunction)k, 0, "count");
    SAY(cuLibraryUnload(l));
}

int main() {
    CHECK(cudaFree(nullptr));
    DRIVER(cuMemAlloc(&p, 4096));
    modules();
    linking();
    libraries();
    SAY(cuCtxSynchronize());
    printf("done\n");
}
