// What CUDA's documentation says of modules, libraries, functions, links and occupancy. See doc.h.
#include "doc.h"
#include <fstream>
#include <iterator>

static const char *PTX = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 number = 5;
.visible .global .align 4 .b8 room[400];
.visible .entry store(.param .u64 at, .param .u32 v) {
  .reg .u64 %p<3>;
  .reg .u32 %v;
  ld.param.u64 %p1, [at];
  cvta.to.global.u64 %p2, %p1;
  ld.param.u32 %v, [v];
  st.global.u32 [%p2], %v;
  ret;
}
.visible .entry nothing()
.maxntid 64, 1, 1
{
  ret;
}
)";
static const char *PTX_NOTHING = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry other() {
  ret;
}
)";
static const char *PTX_OPEN = R"(.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 r) outside(.param .b32 a);
.visible .entry calls(.param .u64 at) {
  .reg .u64 %p<3>;
  .reg .b32 %v;
  .param .b32 a;
  .param .b32 r;
  ld.param.u64 %p1, [at];
  cvta.to.global.u64 %p2, %p1;
  st.param.b32 [a], 4;
  call (r), outside, (a);
  ld.param.b32 %v, [r];
  st.global.b32 [%p2], %v;
  ret;
}
)";
static const char *PTX_OUTSIDE = R"(.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b32 r) outside(.param .b32 a) {
  .reg .b32 %v<3>;
  ld.param.b32 %v1, [a];
  add.s32 %v2, %v1, 38;
  st.param.b32 [r], %v2;
  ret;
}
)";
struct Module {
    CUmodule m = nullptr;
    explicit Module(const char *text = PTX) { OK(cuModuleLoadData(&m, text)); }
    ~Module() {
        if (m) cuModuleUnload(m);
    }
    CUfunction f(const char *name) {
        CUfunction f = nullptr;
        OK(cuModuleGetFunction(&f, m, name));
        return f;
    }
};
__global__ void shares(int *p) {
    extern __shared__ int s[];
    s[threadIdx.x] = 1;
    if (p) *p = s[0];
}
__global__ void fixed(int *p) {
    __shared__ int s[256];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    *p = s[255 - threadIdx.x];
}
__global__ void __launch_bounds__(128, 2) bounded(int *p) { *p = 1; }

DOC("a module of PTX is compiled and loaded, and its function runs") {
    Module m;
    Memory d(64);
    CUdeviceptr at = d.at();
    unsigned v = 65;
    void *list[] = {&at, &v};
    OK(cuLaunchKernel(m.f("store"), 1, 1, 1, 1, 1, 1, 0, nullptr, list, nullptr));
    OK(cuCtxSynchronize());
    HOLDS(value(d.p) == 65);
}
DOC("parameters may be given as one packed buffer") {
    Module m;
    Memory d(64);
    struct {
        CUdeviceptr at;
        unsigned v;
    } args = {d.at(), 66};
    size_t size = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(m.f("store"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    OK(cuCtxSynchronize());
    HOLDS(value(d.p) == 66);
    void *list[] = {&args.at, &args.v};
    IS(cuLaunchKernel(m.f("store"), 1, 1, 1, 1, 1, 1, 0, nullptr, list, extra),
       CUDA_ERROR_INVALID_VALUE);
}
DOC("a function or a global that a module does not have is not found") {
    Module m;
    CUfunction f;
    IS(cuModuleGetFunction(&f, m.m, "absent"), CUDA_ERROR_NOT_FOUND);
    CUdeviceptr p;
    size_t n;
    IS(cuModuleGetGlobal(&p, &n, m.m, "absent"), CUDA_ERROR_NOT_FOUND);
    IS(cuModuleGetFunction(nullptr, m.m, "store"), CUDA_ERROR_INVALID_VALUE);
    IS(cuModuleGetFunction(&f, m.m, nullptr), CUDA_ERROR_INVALID_VALUE);
}
DOC("a module's global has an address, a size and its first value, each module its own") {
    Module m, other;
    CUdeviceptr p = 0, q = 0;
    size_t n = 0;
    OK(cuModuleGetGlobal(&p, &n, m.m, "number"));
    HOLDS(n == 4 && value((void *)p) == 5);
    OK(cuModuleGetGlobal(&q, nullptr, other.m, "number"));
    HOLDS(p != q);
    OK(cuMemsetD32(p, 9, 1));
    HOLDS(value((void *)p) == 9 && value((void *)q) == 5);
    OK(cuModuleGetGlobal(nullptr, &n, m.m, "room"));
    HOLDS(n == 400);
}
DOC("text that is no PTX is invalid PTX") {
    CUmodule m;
    IS(cuModuleLoadData(&m, ".version 7.0\n.target sm_70\n.address_size 64\nnonsense\n"),
       CUDA_ERROR_INVALID_PTX);
}
DOC("bytes that are no image are refused, nothing is an invalid value") {
    CUmodule m;
    REFUSED(cuModuleLoadData(&m, "this is no image"));
    IS(cuModuleLoadData(&m, nullptr), CUDA_ERROR_INVALID_VALUE);
    IS(cuModuleLoadData(nullptr, PTX), CUDA_ERROR_INVALID_VALUE);
}
DOC("a file that there is not is not found") {
    CUmodule m;
    IS(cuModuleLoad(&m, "/nonexistent/module.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    CUlibrary l;
    REFUSED(cuLibraryLoadFromFile(&l, "/nonexistent/module.ptx", nullptr, nullptr, 0, nullptr,
                                  nullptr, 0));
}
DOC("a module is loaded from a file") {
    char path[64];
    snprintf(path, sizeof path, "/tmp/doc_modules.%d.ptx", (int)getpid());
    FILE *f = fopen(path, "w");
    HOLDS(f && fputs(PTX, f) >= 0);
    if (f) fclose(f);
    CUmodule m;
    OK(cuModuleLoad(&m, path));
    OK(cuModuleUnload(m));
    unlink(path);
}
DOC("the compiler's errors are in the log that was given, its size says how long it is") {
    char log[4096] = "";
    CUjit_option what[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *with[] = {log, (void *)sizeof log};
    CUmodule m;
    IS(cuModuleLoadDataEx(&m, ".version 7.0\n.target sm_70\n.address_size 64\nnonsense\n", 2, what,
                          with),
       CUDA_ERROR_INVALID_PTX);
    HOLDS(strstr(log, "error") != nullptr);
    HOLDS((size_t)with[1] > 0 && (size_t)with[1] <= sizeof log);
}
DOC("a log that is too short is cut and ends with 0") {
    char log[32];
    memset(log, 'x', sizeof log);
    CUjit_option what[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *with[] = {log, (void *)16};
    CUmodule m;
    IS(cuModuleLoadDataEx(&m, ".version 7.0\n.target sm_70\n.address_size 64\nnonsense\n", 2, what,
                          with),
       CUDA_ERROR_INVALID_PTX);
    HOLDS(memchr(log, 0, 16) != nullptr && log[16] == 'x');
}
DOC("the compiler's information is in its log, and its time is told") {
    char log[4096] = "";
    CUjit_option what[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                           CU_JIT_LOG_VERBOSE, CU_JIT_WALL_TIME, CU_JIT_OPTIMIZATION_LEVEL};
    void *with[] = {log, (void *)sizeof log, (void *)1, nullptr, (void *)2};
    CUmodule m;
    OK(cuModuleLoadDataEx(&m, PTX, 5, what, with));
    OK(cuModuleUnload(m));
}
DOC("a limit of registers is kept") {
    CUjit_option what[] = {CU_JIT_MAX_REGISTERS};
    void *with[] = {(void *)32};
    CUmodule m;
    OK(cuModuleLoadDataEx(&m, PTX, 1, what, with));
    CUfunction f;
    int n = 99;
    OK(cuModuleGetFunction(&f, m, "store"));
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    HOLDS(n <= 32);
    OK(cuModuleUnload(m));
}
DOC("options that are wrong are refused") {
    CUmodule m;
    CUjit_option what[] = {(CUjit_option)999};
    void *with[] = {nullptr};
    REFUSED(cuModuleLoadDataEx(&m, PTX, 1, what, with));
    CUjit_option level[] = {CU_JIT_OPTIMIZATION_LEVEL};
    void *nine[] = {(void *)9};
    TOLD(cuModuleLoadDataEx(&m, PTX, 1, level, nine));
}
DOC("a module's functions are counted and listed") {
    Module m;
    unsigned n = 0;
    OK(cuModuleGetFunctionCount(&n, m.m));
    HOLDS(n == 2);
    CUfunction f[2] = {};
    OK(cuModuleEnumerateFunctions(f, 2, m.m));
    bool both = false;
    if (f[0] && f[1]) {
        const char *a = "", *b = "";
        OK(cuFuncGetName(&a, f[0]));
        OK(cuFuncGetName(&b, f[1]));
        both = (!strcmp(a, "store") && !strcmp(b, "nothing")) ||
               (!strcmp(b, "store") && !strcmp(a, "nothing"));
    }
    HOLDS(both);
}
DOC("a function knows its name, its module, and its parameters") {
    Module m;
    CUfunction f = m.f("store");
    const char *name = nullptr;
    CUmodule of = nullptr;
    OK(cuFuncGetName(&name, f));
    HOLDS(name && !strcmp(name, "store"));
    OK(cuFuncGetModule(&of, f));
    HOLDS(of == m.m);
    size_t at = 99, size = 99;
    OK(cuFuncGetParamInfo(f, 0, &at, &size));
    HOLDS(at == 0 && size == 8);
    OK(cuFuncGetParamInfo(f, 1, &at, &size));
    HOLDS(at == 8 && size == 4);
    IS(cuFuncGetParamInfo(f, 2, &at, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncGetParamInfo(f, 1, &at, nullptr));
}
DOC("a function's attributes: threads, shared, constant and local memory, registers, versions") {
    Module m;
    CUfunction f = m.f("nothing");
    int n = 0;
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    HOLDS(n == 64);
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    HOLDS(n == 0);
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f));
    HOLDS(n == 0);
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_PTX_VERSION, f));
    HOLDS(n == 70);
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f));
    HOLDS(n >= 70);
    IS(cuFuncGetAttribute(&n, (CUfunction_attribute)99, f), CUDA_ERROR_INVALID_VALUE);
    IS(cuFuncGetAttribute(nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, f), CUDA_ERROR_INVALID_VALUE);
}
DOC("a launch with more threads than a module's function may have is refused") {
    Module m;
    REFUSED(cuLaunchKernel(m.f("nothing"), 1, 1, 1, 65, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(cuLaunchKernel(m.f("nothing"), 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(cuCtxSynchronize());
}
DOC("attributes that can be set are read back, others cannot be set") {
    Module m;
    CUfunction f = m.f("store");
    int n = 0;
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 70000));
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    HOLDS(n == 70000);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, f));
    HOLDS(n == 50);
    REFUSED(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 5));
    REFUSED(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 24));
    REFUSED(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
}
DOC("a library has kernels and globals, whatever the context") {
    CUlibrary l = nullptr;
    OK(cuLibraryLoadData(&l, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel k = nullptr;
    OK(cuLibraryGetKernel(&k, l, "store"));
    IS(cuLibraryGetKernel(&k, l, "absent"), CUDA_ERROR_NOT_FOUND);
    OK(cuLibraryGetKernel(&k, l, "store"));
    unsigned n = 0;
    OK(cuLibraryGetKernelCount(&n, l));
    HOLDS(n == 2);
    CUdeviceptr p = 0;
    size_t bytes = 0;
    OK(cuLibraryGetGlobal(&p, &bytes, l, "number"));
    HOLDS(bytes == 4 && value((void *)p) == 5);
    IS(cuLibraryGetGlobal(&p, &bytes, l, "absent"), CUDA_ERROR_NOT_FOUND);
    CUlibrary of = nullptr;
    OK(cuKernelGetLibrary(&of, k));
    HOLDS(of == l);
    const char *name = nullptr;
    OK(cuKernelGetName(&name, k));
    HOLDS(name && !strcmp(name, "store"));
    size_t at = 9, size = 9;
    OK(cuKernelGetParamInfo(k, 1, &at, &size));
    HOLDS(at == 8 && size == 4);
    Memory d(64);
    CUdeviceptr to = d.at();
    unsigned v = 67;
    void *list[] = {&to, &v};
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, nullptr, list, nullptr));
    HOLDS(value(d.p) == 67);
    CUfunction f = nullptr;
    OK(cuKernelGetFunction(&f, k));
    HOLDS(f != nullptr);
    CUmodule m = nullptr;
    OK(cuLibraryGetModule(&m, l));
    HOLDS(m != nullptr);
    OK(cuLibraryUnload(l));
}
DOC("a kernel's attributes are set for a device, and read back") {
    CUlibrary l;
    OK(cuLibraryLoadData(&l, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel k;
    int n = 0;
    OK(cuLibraryGetKernel(&k, l, "store"));
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 70000, k, 0));
    OK(cuKernelGetAttribute(&n, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k, 0));
    HOLDS(n == 70000);
    REFUSED(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 5, k, 0));
    REFUSED(cuKernelGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, k, 99));
    OK(cuLibraryUnload(l));
}
DOC("pieces are linked to an image, which calls from one into the other") {
    CUlinkState s;
    OK(cuLinkCreate(0, nullptr, nullptr, &s));
    OK(cuLinkAddData(s, CU_JIT_INPUT_PTX, (void *)PTX_OPEN, strlen(PTX_OPEN) + 1, "open", 0,
                     nullptr, nullptr));
    OK(cuLinkAddData(s, CU_JIT_INPUT_PTX, (void *)PTX_OUTSIDE, strlen(PTX_OUTSIDE) + 1, "outside",
                     0, nullptr, nullptr));
    void *image = nullptr;
    size_t n = 0;
    OK(cuLinkComplete(s, &image, &n));
    HOLDS(image && n > 0);
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoadData(&m, image));
    OK(cuLinkDestroy(s));
    OK(cuModuleGetFunction(&f, m, "calls"));
    Memory d(64);
    CUdeviceptr to = d.at();
    void *list[] = {&to};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, list, nullptr));
    HOLDS(value(d.p) == 42);
    OK(cuModuleUnload(m));
}
DOC("pieces come from files: text that ends where its file does, and a library") {
    char folder[] = "/tmp/pieces.XXXXXX";
    HOLDS(mkdtemp(folder) != nullptr);
    CUlinkState s;
    OK(cuLinkCreate(0, nullptr, nullptr, &s));
    for (const char *text : {PTX_OPEN, PTX_OUTSIDE}) {
        std::string file = std::string(folder) + "/a.ptx";
        FILE *f = fopen(file.c_str(), "w");
        fputs(text, f);
        fclose(f);
        OK(cuLinkAddFile(s, CU_JIT_INPUT_PTX, file.c_str(), 0, nullptr, nullptr));
        unlink(file.c_str());
    }
    rmdir(folder);
    // The library that comes with the compiler, where it is.
    char library[4096] = "";
    FILE *ls = popen("d=$(dirname \"$(readlink -f \"$(command -v nvcc)\")\")/.. n=libcudadevrt.a; "
                     "ls $d/lib64/$n $d/lib/$n /usr/local/cuda/lib64/$n 2>/dev/null", "r");
    if (fgets(library, sizeof library, ls)) {
        library[strcspn(library, "\n")] = 0;
        OK(cuLinkAddFile(s, CU_JIT_INPUT_LIBRARY, library, 0, nullptr, nullptr));
        std::ifstream in(library, std::ios::binary);
        std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
        CUlinkState other;
        OK(cuLinkCreate(0, nullptr, nullptr, &other));
        OK(cuLinkAddData(other, CU_JIT_INPUT_LIBRARY, &bytes[0], bytes.size(), "devrt", 0, nullptr,
                         nullptr));
        OK(cuLinkDestroy(other));
    }
    while (fgets(library, sizeof library, ls)) {
    }
    pclose(ls);
    void *image = nullptr;
    size_t n = 0;
    OK(cuLinkComplete(s, &image, &n));
    HOLDS(image && n > 0);
    OK(cuLinkDestroy(s));
}
DOC("a link with what is missing fails and says in its log what") {
    char log[4096] = "";
    CUjit_option what[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *with[] = {log, (void *)sizeof log};
    CUlinkState s;
    OK(cuLinkCreate(2, what, with, &s));
    OK(cuLinkAddData(s, CU_JIT_INPUT_PTX, (void *)PTX_OPEN, strlen(PTX_OPEN) + 1, "open", 0,
                     nullptr, nullptr));
    void *image;
    size_t n;
    REFUSED(cuLinkComplete(s, &image, &n));
    HOLDS(strstr(log, "outside") != nullptr);
    OK(cuLinkDestroy(s));
}
DOC("a piece of a wrong kind, of nothing or of a file that there is not is refused") {
    CUlinkState s;
    OK(cuLinkCreate(0, nullptr, nullptr, &s));
    REFUSED(cuLinkAddData(s, (CUjitInputType)99, (void *)PTX, strlen(PTX) + 1, "a", 0, nullptr,
                          nullptr));
    REFUSED(cuLinkAddData(s, CU_JIT_INPUT_PTX, nullptr, 10, "a", 0, nullptr, nullptr));
    REFUSED(cuLinkAddFile(s, CU_JIT_INPUT_PTX, "/nonexistent/a.ptx", 0, nullptr, nullptr));
    OK(cuLinkDestroy(s));
}
DOC("modules are loaded lazily or eagerly, which is told") {
    CUmoduleLoadingMode mode = (CUmoduleLoadingMode)9;
    OK(cuModuleGetLoadingMode(&mode));
    HOLDS(mode == CU_MODULE_LAZY_LOADING || mode == CU_MODULE_EAGER_LOADING);
}
DOC("a function is loaded when it is asked to be") {
    Module m;
    CUfunction f = m.f("store");
    CUfunctionLoadingState st = (CUfunctionLoadingState)9;
    OK(cuFuncLoad(f));
    OK(cuFuncIsLoaded(&st, f));
    HOLDS(st == CU_FUNCTION_LOADING_STATE_LOADED);
}
DOC("unloading a module takes its globals along, and loading again starts anew") {
    CUdeviceptr p;
    size_t n;
    {
        Module m;
        OK(cuModuleGetGlobal(&p, &n, m.m, "number"));
        OK(cuMemsetD32(p, 77, 1));
    }
    Module m;
    OK(cuModuleGetGlobal(&p, &n, m.m, "number"));
    HOLDS(value((void *)p) == 5);
}
DOC("two modules are loaded at a time, each with its own functions") {
    Module a, b(PTX_NOTHING);
    CUfunction f;
    IS(cuModuleGetFunction(&f, b.m, "store"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunction(&f, b.m, "other"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(cuCtxSynchronize());
}
DOC("a kernel's function of the runtime is a function of the driver") {
    cudaFunction_t f = nullptr;
    OK(cudaGetFuncBySymbol(&f, (void *)put));
    int n = 0;
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    HOLDS(n == 1024);
    Memory d(64);
    CUdeviceptr to = d.at();
    int v = 19;
    void *list[] = {&to, &v};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, list, nullptr));
    HOLDS(value(d.p) == 19);
    REFUSED(cudaGetFuncBySymbol(&f, (void *)&count_up));
}
DOC("the runtime tells of a kernel: static shared memory, threads, registers") {
    cudaFuncAttributes a = {};
    OK(cudaFuncGetAttributes(&a, (void *)fixed));
    HOLDS(a.sharedSizeBytes == 1024 && a.maxThreadsPerBlock == 1024 && a.numRegs > 0);
    OK(cudaFuncGetAttributes(&a, (void *)bounded));
    HOLDS(a.maxThreadsPerBlock == 128);
    REFUSED(cudaFuncGetAttributes(&a, (void *)&count_up));
    const char *name = nullptr;
    OK(cudaFuncGetName(&name, (void *)fixed));
    HOLDS(name && strstr(name, "fixed"));
}
DOC("a preference for shared memory or cache is taken, one that does not exist is not") {
    OK(cudaFuncSetCacheConfig((void *)fixed, cudaFuncCachePreferShared));
    REFUSED(cudaFuncSetAttribute((void *)fixed, cudaFuncAttributeMax, 5));
    OK(cudaFuncSetAttribute((void *)fixed, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    REFUSED(cudaFuncSetAttribute((void *)fixed, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 101));
}
DOC("as many blocks are resident as threads and shared memory leave room for") {
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    int n = 0, less = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, put, 1024, 0));
    HOLDS(n == p.maxThreadsPerMultiProcessor / 1024);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, shares, 32, 0));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&less, shares, 32, 40 << 10));
    HOLDS(less < n && less == (int)(p.sharedMemPerMultiprocessor / ((40 << 10) + 1024)));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, shares, 32, 1 << 20));
    HOLDS(n == 0);
    REFUSED(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, put, 0, 0));
}
DOC("the block size that fills a multiprocessor, and how many blocks fill the device") {
    int blocks = 0, threads = 0;
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    OK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, put, 0, 0));
    HOLDS(threads > 0 && threads <= 1024 && blocks % p.multiProcessorCount == 0);
    cudaFunction_t f;
    OK(cudaGetFuncBySymbol(&f, (void *)put));
    int b = 0, t = 0;
    OK(cuOccupancyMaxPotentialBlockSize(&b, &t, f, [](int) { return (size_t)256; }, 0, 128));
    HOLDS(t > 0 && t <= 128 && b > 0);
}
DOC("how much shared memory is left for each of so many blocks") {
    size_t n = 0, more = 0;
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&n, (void *)shares, 2, 128));
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&more, (void *)shares, 1, 128));
    HOLDS(n > 0 && n <= more);
}
DOC("clusters: as many as are asked for at most, if they may be launched") {
    cudaLaunchAttribute a[1];
    a[0].id = cudaLaunchAttributeClusterDimension;
    a[0].val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t how = {4, 64, 0, nullptr, a, 1};
    int n = 0, size = 0;
    OK(cudaOccupancyMaxActiveClusters(&n, put, &how));
    HOLDS(n > 0);
    OK(cudaOccupancyMaxPotentialClusterSize(&size, put, &how));
    HOLDS(size == 8);
}
DOC("a grid that is no multiple of its cluster is refused") {
    Memory m(64);
    cudaLaunchAttribute a[1];
    a[0].id = cudaLaunchAttributeClusterDimension;
    a[0].val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t how = {3, 1, 0, nullptr, a, 1};
    REFUSED(cudaLaunchKernelEx(&how, put, m.ints(), 5));
    cudaGetLastError();
    how.gridDim = 4;
    OK(cudaLaunchKernelEx(&how, put, m.ints(), 6));
    HOLDS(value(m.p) == 6);
}
DOC("a cooperative launch of more blocks than are resident is too large") {
    Memory m(64);
    int *p = m.ints(), v = 1;
    void *list[] = {&p, &v};
    OK(cudaLaunchCooperativeKernel((void *)put, 4, 32, list, 0, nullptr));
    IS(cudaLaunchCooperativeKernel((void *)put, 1 << 20, 1024, list, 0, nullptr),
       cudaErrorCooperativeLaunchTooLarge);
    OK(cudaDeviceSynchronize());
}
