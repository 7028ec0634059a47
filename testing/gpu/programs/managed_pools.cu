// Pools of managed memory: which there are, what they say of themselves, and memory of them that
// the program and kernels use. Plain output.
#include "tell.h"
#include <cstring>

__global__ void fill(unsigned *p, unsigned value, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] = value + i;
}
__global__ void add(unsigned *p, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] += 1;
}

static const char *const places[] = {"none", "device", "host", "node", "node here"};

static cudaMemLocation at(int type, int id = 0) {
    cudaMemLocation l = {};
    l.type = (cudaMemLocationType)type;
    l.id = id;
    return l;
}

static void tell_pool(cudaMemPool_t pool, bool freed = false) {
    for (int a = 1; a <= 8; a++) {
        unsigned long long v = 0;
        cudaError_t rc = cudaMemPoolGetAttribute(pool, (cudaMemPoolAttr)a, &v);
        // What a pool keeps is its driver's business.
        if (a == 5 || a == 6) v = v > 0;
        // What is freed at once stays in use, to a driver.
        const char *for_people = freed && a >= 5 ? "#" : "";
        printf("%s  attribute %d: %s %llu\n", for_people, a, cudaGetErrorName(rc), v);
    }
    for (int type : {1, 2}) {
        cudaMemAccessFlags flags = (cudaMemAccessFlags)77;
        cudaMemLocation l = at(type);
        cudaError_t rc = cudaMemPoolGetAccess(&flags, pool, &l);
        printf("  access of a %s: %s %d\n", places[type], cudaGetErrorName(rc), (int)flags);
    }
    cudaGetLastError();
}

static void tell_memory(void *p, cudaMemPool_t pool) {
    cudaPointerAttributes a = {};
    cudaError_t rc = cudaPointerGetAttributes(&a, p);
    printf("  it is %d of device %d, %s; %d %d, %s\n", (int)a.type, a.device, cudaGetErrorName(rc),
           a.devicePointer == p, a.hostPointer == p, cudaGetErrorName(cudaGetLastError()));
    unsigned managed = 7, capable = 7, mapped = 7, type = 7;
    CUmemoryPool of = nullptr;
    CUdeviceptr d = (CUdeviceptr)p, start = 0;
    size_t size = 0;
    CUresult rcs[] = {cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, d),
                      cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d),
                      cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, d),
                      cuPointerGetAttribute(&capable,
                                            CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, d),
                      cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, d),
                      cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, d),
                      cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, d)};
    printf("  managed %u type %u mapped %u capable %u, its pool %d, starts %d, size %zu:", managed,
           type, mapped, capable, of == (CUmemoryPool)pool, start == d, size);
    for (CUresult r : rcs) printf(" %d", (int)r);
    puts("");
    int v = 77;
    for (int which : {1, 2, 3, 4}) {
        v = 77;
        rc = cudaMemRangeGetAttribute(&v, 4, (cudaMemRangeAttribute)which, p, 4096);
        printf("  range %d: %s %d\n", which, cudaGetErrorName(rc), v);
    }
    cudaGetLastError();
}

static void use(const char *what, cudaMemPool_t pool) {
    printf("-- memory of %s\n", what);
    const size_t n = 100000;
    unsigned *p = nullptr, *q = nullptr;
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    if (SAY(cudaMallocFromPoolAsync((void **)&p, n * 4, pool, s))) return;
    fill<<<1, 256, 0, s>>>(p, 5, n);
    CHECK(cudaStreamSynchronize(s));
    size_t right = 0;
    for (size_t i = 0; i < n; i++) right += p[i] == 5 + i;
    printf("  read: %zu of %zu\n", right, n);
    tell_memory(p, pool);
    for (size_t i = 0; i < n; i++) p[i] = i * 3;
    add<<<1, 256, 0, s>>>(p, n);
    CHECK(cudaMallocFromPoolAsync((void **)&q, n * 4, pool, s));
    CHECK(cudaMemcpyAsync(q, p, n * 4, cudaMemcpyDefault, s));
    CHECK(cudaStreamSynchronize(s));
    right = 0;
    for (size_t i = 0; i < n; i++) right += q[i] == i * 3 + 1;
    printf("  copied: %zu of %zu\n", right, n);
    tell_pool(pool);
    SAY(cudaMemAdvise(p, n * 4, cudaMemAdviseSetReadMostly, at(1)));
    SAY(cudaMemPrefetchAsync(p, n * 4, at(1), 0, s));
    SAY(cudaFreeAsync(p, s));
    CHECK(cudaStreamSynchronize(s));
    tell_pool(pool);
    SAY(cudaFree(q));
    SAY(cudaFree(q));
    // In stream order: what is freed is had again.
    unsigned sum = 0;
    for (unsigned i = 0; i < 20; i++) {
        CHECK(cudaMallocFromPoolAsync((void **)&p, 5000, pool, s));
        fill<<<1, 256, 0, s>>>(p, i, 1250);
        CHECK(cudaMallocFromPoolAsync((void **)&q, 5000, pool, s));
        CHECK(cudaMemcpyAsync(q, p, 5000, cudaMemcpyDefault, s));
        CHECK(cudaFreeAsync(p, s));
        CHECK(cudaStreamSynchronize(s));
        sum += q[1249];
        CHECK(cudaFreeAsync(q, s));
    }
    // Of a pool without a place a driver reads otherwise.
    printf("%s  in order: %u\n", !strcmp(what, "none") ? "#" : "", sum);
    CHECK(cudaDeviceSynchronize());
    SAY(cudaMemPoolTrimTo(pool, 0));
    tell_pool(pool, true);
    // Some of these can become nodes.
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    cudaError_t rc = cudaMallocFromPoolAsync((void **)&p, 4096, pool, s);
    printf("#  captured: %s\n", cudaGetErrorName(rc));
    cudaGetLastError();
    cudaStreamEndCapture(s, &graph);
    cudaGetLastError();
    if (graph) CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(s));
}

int main() {
    cudaFree(0);
    cudaMemPool_t pool = nullptr, again = nullptr;
    for (int type = 0; type <= 4; type++)
        for (int id : {0, 1, -1, 100}) {
            cudaMemLocation l = at(type, id);
            for (int kind : {0, 1, 2}) {
                pool = again = nullptr;
                cudaError_t a = cudaMemGetDefaultMemPool(&pool, &l, (cudaMemAllocationType)kind);
                cudaError_t b = cudaMemGetMemPool(&again, &l, (cudaMemAllocationType)kind);
                if (type == 1 && id == 1) continue;  // another device, perhaps
                printf("# %s %d of kind %d: %s, %s, %d\n", places[type], id, kind,
                       cudaGetErrorName(a), cudaGetErrorName(b), pool && pool == again);
            }
        }
    cudaGetLastError();
    cudaMemLocation here = at(1);
    if (!SAY(cudaMemGetDefaultMemPool(&pool, &here, cudaMemAllocationTypeManaged))) {
        cudaMemPool_t pinned = nullptr;
        CHECK(cudaDeviceGetDefaultMemPool(&pinned, 0));
        CHECK(cudaMemGetDefaultMemPool(&again, &here, cudaMemAllocationTypeManaged));
        printf("the same: %d, the device's: %d\n", again == pool, pool == pinned);
        use("the default pool", pool);
        SAY(cudaMemPoolDestroy(pool));
        cudaMemLocation host = at(2);
        if (!SAY(cudaMemGetDefaultMemPool(&again, &host, cudaMemAllocationTypeManaged)))
            printf("the same: %d\n", again == pool);
    }
    for (int type = 0; type <= 4; type++)
        for (int handles : {0, 1}) {
            cudaMemPoolProps props = {};
            props.allocType = cudaMemAllocationTypeManaged;
            props.location = at(type);
            props.handleTypes = (cudaMemAllocationHandleType)handles;
            printf("made at %s, handles %d: ", places[type], handles);
            if (SAY(cudaMemPoolCreate(&pool, &props))) continue;
            cudaMemAccessDesc access = {at(1), cudaMemAccessFlagsProtReadWrite};
            SAY(cudaMemPoolSetAccess(pool, &access, 1));
            access.flags = cudaMemAccessFlagsProtNone;
            SAY(cudaMemPoolSetAccess(pool, &access, 1));
            if (!handles) use(places[type], pool);
            cudaMemLocation l = at(type);
            cudaError_t rc = cudaMemSetMemPool(&l, cudaMemAllocationTypeManaged, pool);
            again = nullptr;
            cudaError_t got = cudaMemGetMemPool(&again, &l, cudaMemAllocationTypeManaged);
            printf("set: %s, got: %s %d\n", cudaGetErrorName(rc), cudaGetErrorName(got),
                   again == pool);
            cudaGetLastError();
            SAY(cudaMemPoolDestroy(pool));
        }
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypeManaged;
    props.location = at(1);
    props.maxSize = 1 << 22;
    if (!SAY(cudaMemPoolCreate(&pool, &props))) {
        void *p = nullptr;
        SAY(cudaMallocFromPoolAsync(&p, 1 << 30, pool, 0));
        SAY(cudaMemPoolDestroy(pool));
    }
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    printf("pools %d\n", prop.memoryPoolsSupported);
    return 0;
}
