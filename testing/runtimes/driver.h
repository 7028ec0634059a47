/* What programs of other runtimes take of CUDA's driver, found as such programs find it: by name,
 * at run time. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

static int (*drv_set_current)(void *), (*drv_managed)(uintptr_t *, size_t, unsigned);
static int (*drv_alloc)(uintptr_t *, size_t), (*drv_fill)(uintptr_t, unsigned, size_t);
static int (*drv_to_device)(uintptr_t, const void *, size_t);
static int (*drv_to_host)(void *, uintptr_t, size_t), (*drv_synchronize)(void);
static void *drv_context;

/* Initializes the driver for the calling thread; 0, or the error. */
static int driver_init(void) {
    int (*init)(unsigned), (*device)(int *, int), (*retain)(void **, int), which, rc;
    void *lib = dlopen("libcuda.so", RTLD_NOW);
    if (!lib) lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) return -1;
    init = (int (*)(unsigned))dlsym(lib, "cuInit");
    device = (int (*)(int *, int))dlsym(lib, "cuDeviceGet");
    retain = (int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain");
    drv_set_current = (int (*)(void *))dlsym(lib, "cuCtxSetCurrent");
    drv_managed = (int (*)(uintptr_t *, size_t, unsigned))dlsym(lib, "cuMemAllocManaged");
    drv_alloc = (int (*)(uintptr_t *, size_t))dlsym(lib, "cuMemAlloc_v2");
    drv_fill = (int (*)(uintptr_t, unsigned, size_t))dlsym(lib, "cuMemsetD32_v2");
    drv_to_device = (int (*)(uintptr_t, const void *, size_t))dlsym(lib, "cuMemcpyHtoD_v2");
    drv_to_host = (int (*)(void *, uintptr_t, size_t))dlsym(lib, "cuMemcpyDtoH_v2");
    drv_synchronize = (int (*)(void))dlsym(lib, "cuCtxSynchronize");
    if ((rc = init(0)) || (rc = device(&which, 0)) || (rc = retain(&drv_context, which))) return rc;
    return drv_set_current(drv_context);
}

/* Another thread of the program. */
static int driver_enter(void) { return drv_set_current(drv_context); }

static uintptr_t driver_managed(size_t bytes) {
    uintptr_t p = 0;
    return drv_managed(&p, bytes, 1) ? 0 : p;
}

/* The device fills memory; returns when it has. */
static int driver_fill(uintptr_t p, unsigned value, size_t words) {
    int rc = drv_fill(p, value, words);
    return rc ? rc : drv_synchronize();
}
