// Host memory that two processes have: of a pool whose memory is passed on by descriptors, and of
// cuMemCreate. Both the processes and their kernels use it. Plain output, of the parent first.
#include "tell.h"
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(unsigned *p, size_t n, unsigned by) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] += by;
}

static const int FD = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
static const size_t LONG = 3 << 20;
static int talk;

static void give(int fd, const void *data, size_t n) {
    char room[CMSG_SPACE(sizeof(int))] = {};
    iovec io = {(void *)data, n};
    msghdr m = {};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    if (fd >= 0) {
        m.msg_control = room;
        m.msg_controllen = sizeof room;
        cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    if (sendmsg(talk, &m, 0) != (ssize_t)n) exit(3);
}

static int take(void *data, size_t n) {
    char room[CMSG_SPACE(sizeof(int))] = {};
    iovec io = {data, n};
    msghdr m = {};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    if (recvmsg(talk, &m, MSG_WAITALL) != (ssize_t)n) exit(4);
    int fd = -1;
    cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c) memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static void hand_over() { give(-1, "", 1); }

static void my_turn() {
    char c;
    take(&c, 1);
}

static void look(const char *what, const unsigned *p, size_t n, unsigned first) {
    size_t right = 0;
    for (size_t i = 0; i < n; i++) right += p[i] == first + i;
    printf("%s: %zu of %zu\n", what, right, n);
}

static void fill(unsigned *p, size_t n, unsigned first) {
    for (size_t i = 0; i < n; i++) p[i] = first + i;
}

static CUmemPoolProps asked(int handle) {
    CUmemPoolProps p = {};
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.handleTypes = (CUmemAllocationHandleType)handle;
    p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    return p;
}

static CUmemAllocationProp asked_of_memory(int handle) {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.requestedHandleTypes = (CUmemAllocationHandleType)handle;
    p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    return p;
}

static void tell_pool(CUmemoryPool pool) {
    for (int a = 1; a <= 8; a++) {
        unsigned long long v = 0;
        CUresult rc = cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a, &v);
        // What a pool keeps is its driver's business.
        printf("  attribute %d: %d %llu\n", a, (int)rc, a < 5 ? v : v > 0);
    }
    for (int type : {CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
        CUmemAccess_flags flags = (CUmemAccess_flags)77;
        CUmemLocation l = {};
        l.type = (CUmemLocationType)type;
        CUresult rc = cuMemPoolGetAccess(&flags, pool, &l);
        printf("  access: %d %d\n", (int)rc, (int)flags);
    }
}

static void tell_pointer(CUdeviceptr d, CUmemoryPool pool) {
    unsigned type = 7, mapped = 7, managed = 7;
    CUmemoryPool of = nullptr;
    size_t size = 0;
    void *host = nullptr;
    CUresult rcs[] = {cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d),
                      cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, d),
                      cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, d),
                      cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, d),
                      cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, d),
                      cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, d)};
    printf("  type %u mapped %u managed %u host %d pool %d size %zu:", type, mapped, managed,
           host == (void *)d, of == pool, size);
    for (CUresult r : rcs) printf(" %d", (int)r);
    printf("\n");
}

static void let(CUmemoryPool pool) {
    CUmemAccessDesc d = {};
    d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    tell_("access of the device", cuMemPoolSetAccess(pool, &d, 1));
}

static CUdeviceptr map(CUmemGenericAllocationHandle h, size_t size) {
    CUdeviceptr at = 0;
    CUmemAccessDesc d[2] = {};
    d[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    d[1].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    d[0].flags = d[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemAddressReserve(&at, size, 0, 0, 0));
    tell_("map", cuMemMap(at, size, 0, h, 0));
    tell_("access", cuMemSetAccess(at, size, d, 2));
    return at;
}

static void unmap(CUdeviceptr at, size_t size) {
    tell_("unmap", cuMemUnmap(at, size));
    tell_("free the addresses", cuMemAddressFree(at, size));
}

static void run(CUdeviceptr p, size_t n, unsigned by) {
    add<<<1, 256>>>((unsigned *)p, n, by);
    tell_("a kernel", cudaDeviceSynchronize());
}

static void parent() {
    CUmemoryPool pool, plain;
    CUmemPoolProps asks = asked(FD), no = asked(0);
    SAY(cuMemPoolCreate(&pool, &asks));
    SAY(cuMemPoolCreate(&plain, &no));
    tell_pool(pool);
    let(pool);
    CUdeviceptr small = 0, large = 0, other = 0;
    SAY(cuMemAllocFromPoolAsync(&small, 64, pool, 0));
    SAY(cuMemAllocFromPoolAsync(&large, LONG, pool, 0));
    SAY(cuMemAllocFromPoolAsync(&other, 64, plain, 0));
    SAY(cuStreamSynchronize(0));
    tell_pointer(small, pool);
    int fd = -1, again = -1, bad = -1;
    SAY(cuMemPoolExportToShareableHandle(&fd, pool, (CUmemAllocationHandleType)FD, 0));
    SAY(cuMemPoolExportToShareableHandle(&again, pool, (CUmemAllocationHandleType)FD, 0));
    SAY(cuMemPoolExportToShareableHandle(&bad, plain, (CUmemAllocationHandleType)FD, 0));
    CUmemPoolPtrExportData data[2] = {}, none = {};
    SAY(cuMemPoolExportPointer(&data[0], small));
    SAY(cuMemPoolExportPointer(&data[1], large));
    SAY(cuMemPoolExportPointer(&none, other));
    fill((unsigned *)small, 16, 100);
    fill((unsigned *)large, LONG / 4, 1000);
    run(large, LONG / 4, 1);
    give(fd, data, sizeof data);
    give(again, "", 1);
    close(fd);
    close(again);
    my_turn();
    look("small, from the child", (unsigned *)small, 16, 205);
    look("large, from the child", (unsigned *)large, LONG / 4, 1003);
    run(small, 16, 1);
    fill((unsigned *)large + 1000, 500, 7000);
    hand_over();
    my_turn();
    look("small, again", (unsigned *)small, 16, 216);
    look("large, a piece", (unsigned *)large + 1000, 500, 7007);
    look("large, its end", (unsigned *)large + 1500, LONG / 4 - 1500, 1003 + 1500 + 7);
    SAY(cuMemFreeAsync(small, 0));
    SAY(cuMemFreeAsync(large, 0));
    SAY(cuMemFreeAsync(other, 0));
    SAY(cuMemPoolDestroy(pool));
    SAY(cuMemPoolDestroy(plain));

    CUmemAllocationProp of_memory = asked_of_memory(FD);
    size_t size = 0;
    DRIVER(cuMemGetAllocationGranularity(&size, &of_memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle h = 0;
    SAY(cuMemCreate(&h, size, &of_memory, 0));
    CUdeviceptr at = map(h, size);
    fill((unsigned *)at, size / 4, 5);
    SAY(cuMemExportToShareableHandle(&fd, h, (CUmemAllocationHandleType)FD, 0));
    give(fd, "", 1);
    close(fd);
    run(at, size / 4, 1);
    hand_over();
    my_turn();
    look("created, from the child", (unsigned *)at, size / 4, 19);
    run(at, size / 4, 1);
    hand_over();
    my_turn();
    unmap(at, size);
    SAY(cuMemRelease(h));
}

static void child() {
    CUmemPoolPtrExportData data[2] = {};
    char c;
    int fd = take(data, sizeof data), again = take(&c, 1);
    CUmemoryPool pool = nullptr, twin = nullptr;
    void *handle = (void *)(size_t)fd;
    SAY(cuMemPoolImportFromShareableHandle(&pool, handle, (CUmemAllocationHandleType)FD, 0));
    handle = (void *)(size_t)again;
    SAY(cuMemPoolImportFromShareableHandle(&twin, handle, (CUmemAllocationHandleType)FD, 0));
    int junk = open("/dev/null", O_RDWR);
    handle = (void *)(size_t)junk;
    CUmemoryPool none = nullptr;
    SAY(cuMemPoolImportFromShareableHandle(&none, handle, (CUmemAllocationHandleType)FD, 0));
    close(fd);
    close(again);
    tell_pool(pool);
    CUdeviceptr small = 0, large = 0, more = 0;
    SAY(cuMemAllocFromPoolAsync(&more, 64, pool, 0));
    int out = -1;
    SAY(cuMemPoolExportToShareableHandle(&out, pool, (CUmemAllocationHandleType)FD, 0));
    let(pool);
    SAY(cuMemPoolImportPointer(&small, pool, &data[0]));
    SAY(cuMemPoolImportPointer(&large, twin, &data[1]));
    tell_pointer(small, pool);
    look("small", (unsigned *)small, 16, 100);
    look("large", (unsigned *)large, LONG / 4, 1001);
    CUmemPoolPtrExportData on = {};
    SAY(cuMemPoolExportPointer(&on, small));
    let(twin);
    run(large, LONG / 4, 2);
    fill((unsigned *)small, 16, 200);
    run(small, 16, 5);
    hand_over();
    my_turn();
    look("small, from the parent", (unsigned *)small, 16, 206);
    look("large, from the parent", (unsigned *)large + 1000, 500, 7000);
    unsigned from[16];
    fill(from, 16, 216);
    SAY(cuMemcpyAsync(small, (CUdeviceptr)from, sizeof from, 0));
    run(large, LONG / 4, 7);
    SAY(cuMemFreeAsync(small, 0));
    SAY(cuMemFree(large));
    SAY(cuStreamSynchronize(0));
    SAY(cuMemPoolDestroy(pool));
    SAY(cuMemPoolDestroy(twin));
    hand_over();

    int of_memory = take(&c, 1);
    CUmemGenericAllocationHandle h = 0;
    handle = (void *)(size_t)of_memory;
    SAY(cuMemImportFromShareableHandle(&h, handle, (CUmemAllocationHandleType)FD));
    close(of_memory);
    CUmemAllocationProp p = {};
    SAY(cuMemGetAllocationPropertiesFromHandle(&p, h));
    printf("  type %d, of %d %d, handles %d\n", (int)p.type, (int)p.location.type, p.location.id,
           (int)p.requestedHandleTypes);
    size_t size = 0;
    DRIVER(cuMemGetAllocationGranularity(&size, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUdeviceptr at = map(h, size);
    my_turn();
    look("created", (unsigned *)at, size / 4, 6);
    run(at, size / 4, 3);
    CUdeviceptr second = map(h, size);
    run(second, size / 4, 10);
    hand_over();
    my_turn();
    look("created, from the parent", (unsigned *)second, size / 4, 20);
    unmap(second, size);
    unmap(at, size);
    SAY(cuMemRelease(h));
    hand_over();
}

int main() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 2;
    int told[2];
    if (pipe(told)) return 2;
    pid_t other = fork();
    talk = ends[other != 0];
    if (!other) dup2(told[1], 1);
    close(told[1]);
    DRIVER(cuInit(0));
    CHECK(cudaFree(nullptr));
    if (!other) {
        child();
        fflush(stdout);
        return 0;
    }
    parent();
    int status = 0;
    printf("the child:\n");
    fflush(stdout);
    char text[4096];
    for (ssize_t n; (n = read(told[0], text, sizeof text)) > 0;) fwrite(text, 1, n, stdout);
    waitpid(other, &status, 0);
    printf("ended with %d\n", status);
    return 0;
}
