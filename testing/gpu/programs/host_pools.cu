// Pools of host memory, and pools that processes share. Plain output.
#include "check.h"
#include <cstring>
#include <cuda.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void fill(int *p, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}
static const int N = 300000;

// The child has a driver of its own: it begins before this process has touched CUDA.
static int child(int s) {
    char room[CMSG_SPACE(sizeof(int))];
    cudaMemPoolPtrExportData share;
    iovec v = {&share, sizeof share};
    msghdr m = {};
    m.msg_iov = &v, m.msg_iovlen = 1, m.msg_control = room, m.msg_controllen = sizeof room;
    EXPECT(recvmsg(s, &m, 0) == sizeof share);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    cudaMemPool_t pool;
    CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(long)fd,
                                               cudaMemHandleTypePosixFileDescriptor, 0));
    int *p, back = 0;
    CHECK(cudaMemPoolImportPointer((void **)&p, pool, &share));
    CHECK(cudaMemcpy(&back, p + N - 1, sizeof back, cudaMemcpyDeviceToHost));
    void *more = nullptr;
    printf("child sees %d\n", back);
    printf("child allocates: %s\n", cudaGetErrorName(cudaMallocFromPoolAsync(&more, 64, pool, 0)));
    fflush(stdout);
    fill<<<(N + 255) / 256, 256>>>(p, N, 88);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeAsync(p, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolDestroy(pool));
    return 0;
}

int main() {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t other = fork();
    if (other == 0) return child(ends[1]);
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &props));
    int *p, fd = -1, back = 0;
    CHECK(cudaMallocFromPoolAsync((void **)&p, N * sizeof(int), pool, 0));
    fill<<<(N + 255) / 256, 256>>>(p, N, 77);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    cudaMemPoolPtrExportData share;
    CHECK(cudaMemPoolExportPointer(&share, p));
    char room[CMSG_SPACE(sizeof(int))] = {};
    iovec v = {&share, sizeof share};
    msghdr m = {};
    m.msg_iov = &v, m.msg_iovlen = 1, m.msg_control = room, m.msg_controllen = sizeof room;
    cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    EXPECT(sendmsg(ends[0], &m, 0) == sizeof share);
    int status = 0;
    waitpid(other, &status, 0);
    CHECK(cudaMemcpy(&back, p, sizeof back, cudaMemcpyDeviceToHost));
    printf("child ended %d, memory has %d\n", status, back);
    CHECK(cudaFreeAsync(p, 0));
    CHECK(cudaMemPoolDestroy(pool));
#if CUDART_VERSION >= 13000
    int device_pools = 0;
    // CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, which not every header of CUDA 13 has.
    cuDeviceGetAttribute(&device_pools, (CUdevice_attribute)144, 0);
    printf("host pools: %d\n", device_pools);
    if (!device_pools) return 0;
    props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeHost;
    printf("create: %s\n", cudaGetErrorName(cudaMemPoolCreate(&pool, &props)));
    cudaMemLocation here = {};
    here.type = cudaMemLocationTypeDevice;
    cudaMemAccessFlags flags;
    printf("access: %s", cudaGetErrorName(cudaMemPoolGetAccess(&flags, pool, &here)));
    printf(" %d\n", (int)flags);
    cudaMemAccessDesc let_in = {here, cudaMemAccessFlagsProtReadWrite};
    CHECK(cudaMemPoolSetAccess(pool, &let_in, 1));
    for (int round = 0; round < 3; round++) {
        CHECK(cudaMallocFromPoolAsync((void **)&p, N * sizeof(int), pool, 0));
        fill<<<(N + 255) / 256, 256>>>(p, N, round);
        CHECK(cudaDeviceSynchronize());
        bool same = true;
        for (int i = 0; i < N; i++) same &= p[i] == round;
        cudaPointerAttributes about;
        CHECK(cudaPointerGetAttributes(&about, p));
        printf("round %d: %d, type %d\n", round, same, (int)about.type);
        CHECK(cudaFreeAsync(p, 0));
    }
    CHECK(cudaDeviceSynchronize());
    size_t used = 9;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    printf("used %zu\n", used);
    CHECK(cudaMemPoolDestroy(pool));
#endif
    printf("done\n");
}
