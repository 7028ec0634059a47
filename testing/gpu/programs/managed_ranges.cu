// Advice about parts of managed memory, and what is said of each range. Plain output. Devices that
// say that host and device cannot touch managed memory at once refuse advice that names them, so
// what depends on that is not printed. Of pages of which only the first is mostly read the driver
// says that all are, and of pages that became alike that they differ; neither is asked.
#include "check.h"
#include <cuda.h>

static const size_t PAGE = 64 << 10;
static CUdeviceptr p;

static void ask(size_t from, size_t pages) {
    printf("%zu+%zu:", from, pages);
    int mostly = 99, preferred = 99, last = 99, who[2] = {99, 99};
    CUdeviceptr at = p + from * PAGE;
    size_t n = pages * PAGE;
    CUresult a = cuMemRangeGetAttribute(&mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, n);
    CUresult b =
        cuMemRangeGetAttribute(&preferred, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, n);
    CUresult c =
        cuMemRangeGetAttribute(&last, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, n);
    CUresult d = cuMemRangeGetAttribute(who, 8, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, n);
    printf(" %d/%d %d/%d %d/%d %d/%d,%d", a, mostly, b, preferred, c, last, d, who[0], who[1]);
    void *data[] = {&mostly, who};
    size_t sizes[] = {4, 8};
    CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                     CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
    printf(" %d/%d\n", cuMemRangeGetAttributes(data, sizes, which, 2, at, n), mostly);
}

static void look(bool whole = true) {
    if (whole) ask(0, 16);
    ask(2, 2), ask(4, 4), ask(6, 4), ask(15, 1);
}

static void advise(size_t from, size_t n, CUmem_advise what, int device) {
    CUmemLocation at = {device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                        device < 0 ? 0 : device};
#if CUDART_VERSION >= 13000
    printf("advise: %d\n", cuMemAdvise(p + from, n, what, at));
#else
    printf("advise: %d\n", cuMemAdvise(p + from, n, what, device));
    (void)at;
#endif
}

static void order(int on) {
    unsigned is = 7;
    CUpointer_attribute a = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    CUresult set = on < 0 ? CUDA_SUCCESS : cuPointerSetAttribute(&on, a, p);
    CUresult got = cuPointerGetAttribute(&is, a, p);
    printf("copies are synchronous: %d %d %u\n", set, got, is);
}

int main() {
    CHECK(cudaFree(0));
    EXPECT(cuMemAllocManaged(&p, 16 * PAGE, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    for (int on : {-1, 1, 0, 1}) order(on);
    look();
    advise(2 * PAGE, 2 * PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
    advise(6 * PAGE, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
    advise(4 * PAGE, 4 * PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
    advise(2 * PAGE, 3 * PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, -1);
    look();
    advise(3 * PAGE, PAGE, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0);
    advise(0, 16 * PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, -1);
    advise(4 * PAGE, PAGE, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0);
    look(false);
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
}
