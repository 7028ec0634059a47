/* The system's OpenCL, as a library that says less than it takes: of each kernel, groups of at most
 * 64. Built as a shared library. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <string.h>

typedef cl_int (*of_kernel)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *,
                            size_t *);

cl_int clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what,
                                size_t size, void *value, size_t *full) {
    of_kernel real = (of_kernel)dlsym(RTLD_NEXT, "clGetKernelWorkGroupInfo");
    cl_int e = real(k, d, what, size, value, full);
    size_t most = 64;
    if (e == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE && value && size >= sizeof most)
        memcpy(value, &most, sizeof most);
    return e;
}
