// What CUDA's documentation says of memory and events that processes share: what one process has
// done when a call returns, another one finds done that is told so. See doc.h.
#include "doc.h"
#include <sys/socket.h>

__global__ void spin(long long clocks) {
    long long begun = clock64();
    while (clock64() - begun < clocks) {
    }
}
/// Some 5 ms of a device.
static const long long A_WHILE = 8000000;

static int tell(int fd, int v) { return write(fd, &v, sizeof v) == sizeof v; }
static int told(int fd) {
    int v = -1;
    return read(fd, &v, sizeof v) == sizeof v ? v : -1;
}
/// Passes a descriptor on.
static int hand(int to, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {}, byte = 0;
    iovec io = {&byte, 1};
    msghdr m = {};
    m.msg_iov = &io, m.msg_iovlen = 1, m.msg_control = room, m.msg_controllen = sizeof room;
    cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(to, &m, 0) == 1;
}
static int handed(int from) {
    char room[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
    iovec io = {&byte, 1};
    msghdr m = {};
    m.msg_iov = &io, m.msg_iovlen = 1, m.msg_control = room, m.msg_controllen = sizeof room;
    int fd = -1;
    if (recvmsg(from, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}
/// Runs the other half of a check in a process of its own, which has not used CUDA yet.
template <typename F> static void with_child(F f, int (*child)(int)) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        _exit(child(ends[1]));
    }
    close(ends[1]);
    f(ends[0]);
    close(ends[0]);
    int status = -1;
    waitpid(pid, &status, 0);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
APART("memory that another process opens by its handle is the same memory") {
    auto child = [](int fd) {
        cudaIpcMemHandle_t h;
        if (read(fd, &h, sizeof h) != sizeof h) return 1;
        int *p = nullptr, v = 0;
        if (cudaIpcOpenMemHandle((void **)&p, h, cudaIpcMemLazyEnablePeerAccess)) return 2;
        if (cudaMemcpy(&v, p, 4, cudaMemcpyDefault) || v != 17) return 3;
        put<<<1, 1>>>(p + 1, 18);
        if (cudaDeviceSynchronize() || cudaIpcCloseMemHandle(p)) return 4;
        return write(fd, "x", 1) == 1 ? 0 : 5;
    };
    with_child(
        [](int fd) {
            Memory m(1 << 20);
            put<<<1, 1>>>(m.ints(), 17);
            OK(cudaDeviceSynchronize());
            cudaIpcMemHandle_t h;
            OK(cudaIpcGetMemHandle(&h, m.p));
            char done;
            HOLDS(write(fd, &h, sizeof h) == sizeof h && read(fd, &done, 1) == 1);
            HOLDS(value(m.ints() + 1) == 18);
        },
        child);
}
APART("an event of another process tells when its work is done") {
    auto child = [](int fd) {
        cudaIpcEventHandle_t h;
        if (read(fd, &h, sizeof h) != sizeof h) return 1;
        cudaEvent_t e;
        if (cudaIpcOpenEventHandle(&e, h) || cudaEventSynchronize(e)) return 2;
        return cudaEventQuery(e) == cudaSuccess ? 0 : 3;
    };
    with_child(
        [](int fd) {
            Stream s;
            cudaEvent_t e;
            OK(cudaEventCreateWithFlags(&e, cudaEventInterprocess | cudaEventDisableTiming));
            Memory m(4);
            put<<<1, 1, 0, s>>>(m.ints(), 1);
            OK(cudaEventRecord(e, s));
            cudaIpcEventHandle_t h;
            OK(cudaIpcGetEventHandle(&h, e));
            HOLDS(write(fd, &h, sizeof h) == sizeof h);
            char end;
            HOLDS(read(fd, &end, 1) == 0);
            OK(cudaEventDestroy(e));
        },
        child);
}
DOC("an event that was not made for it has no handle for other processes") {
    cudaEvent_t e;
    cudaIpcEventHandle_t h;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    REFUSED(cudaIpcGetEventHandle(&h, e));
    OK(cudaEventDestroy(e));
    cudaGetLastError();
    REFUSED(cudaEventCreateWithFlags(&e, cudaEventInterprocess));
}

/// What a parent and its child need for the checks below: memory and an event of the parent's.
struct Both {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};
struct Given {
    Both both;
    Memory m{1 << 20};
    cudaEvent_t e = nullptr;
    /// Tells the child at the other end.
    explicit Given(int fd) {
        OK(cudaEventCreateWithFlags(&e, cudaEventInterprocess | cudaEventDisableTiming));
        OK(cudaIpcGetEventHandle(&both.event, e));
        OK(cudaIpcGetMemHandle(&both.memory, m.p));
        HOLDS(write(fd, &both, sizeof both) == sizeof both);
    }
    ~Given() { cudaEventDestroy(e); }
};
struct Taken {
    int *p = nullptr;
    cudaEvent_t e = nullptr;
    bool all;
    explicit Taken(int fd) {
        Both b;
        all = read(fd, &b, sizeof b) == sizeof b &&
              cudaIpcOpenMemHandle((void **)&p, b.memory, cudaIpcMemLazyEnablePeerAccess) == 0 &&
              cudaIpcOpenEventHandle(&e, b.event) == 0;
    }
    ~Taken() {
        cudaEventDestroy(e);
        cudaIpcCloseMemHandle(p);
    }
};
static const int ROUNDS = 20;
/// The child has closed what it had.
static void ends(int fd) {
    char end;
    HOLDS(read(fd, &end, 1) == 0);
}

APART("an event is recorded when the call returns, also for another process that is told so") {
    auto child = [](int fd) {
        Taken t(fd);
        if (!t.all) return 1;
        for (int i = 1; i <= ROUNDS; i++) {
            if (told(fd) != i || cudaEventSynchronize(t.e)) return 2;
            int v = 0;
            if (cudaMemcpy(&v, t.p, 4, cudaMemcpyDefault) || v != i || !tell(fd, i)) return 3;
        }
        return 0;
    };
    with_child(
        [](int fd) {
            Given g(fd);
            Stream s;
            for (int i = 1; i <= ROUNDS; i++) {
                spin<<<1, 1, 0, s>>>(A_WHILE);
                put<<<1, 1, 0, s>>>(g.m.ints(), i);
                OK(cudaEventRecord(g.e, s));
                HOLDS(tell(fd, i) && told(fd) == i);
                OK(cudaEventQuery(g.e));
            }
            ends(fd);
        },
        child);
}
APART("an event of another process that is recorded here has not happened there before its work") {
    auto child = [](int fd) {
        Taken t(fd);
        if (!t.all) return 1;
        Stream s;
        for (int i = 1; i <= ROUNDS; i++) {
            spin<<<1, 1, 0, s>>>(A_WHILE);
            put<<<1, 1, 0, s>>>(t.p, i);
            if (cudaEventRecord(t.e, s) || !tell(fd, i) || told(fd) != i) return 2;
        }
        return 0;
    };
    with_child(
        [](int fd) {
            Given g(fd);
            for (int i = 1; i <= ROUNDS; i++) {
                HOLDS(told(fd) == i);
                OK(cudaEventSynchronize(g.e));
                HOLDS(value(g.m.p) == i && tell(fd, i));
            }
            ends(fd);
        },
        child);
}
APART("a stream waits for another process's event as it was recorded at the call") {
    auto child = [](int fd) {
        Taken t(fd);
        if (!t.all) return 1;
        Stream s;
        for (int i = 1; i <= ROUNDS; i++) {
            if (told(fd) != i || cudaStreamWaitEvent(s, t.e, 0) || !tell(fd, i)) return 2;
            // By now it is recorded anew, behind what waits for this process.
            if (told(fd) != -i || cudaStreamSynchronize(s) || !tell(fd, i)) return 3;
        }
        return 0;
    };
    with_child(
        [](int fd) {
            Given g(fd);
            Stream s, held;
            for (int i = 1; i <= ROUNDS; i++) {
                put<<<1, 1, 0, s>>>(g.m.ints(), i);
                OK(cudaEventRecord(g.e, s));
                HOLDS(tell(fd, i) && told(fd) == i);
                Held h(held);
                OK(cudaEventRecord(g.e, held));
                HOLDS(tell(fd, -i) && told(fd) == i);
                h.release();
            }
            ends(fd);
        },
        child);
}

/// Both processes copy to the memory in turn, and find what the other has copied. What is copied
/// from memory that is not page-locked may still be on its way when the copy returns.
static bool in_turn(int fd, void *p, bool first) {
    const size_t MANY = 50000;
    int *block = nullptr;
    if (cudaMallocHost((void **)&block, MANY * 4)) return false;
    bool right = true;
    for (int i = 1; right && i <= 2 * ROUNDS; i++) {
        size_t n = i % 4 < 2 ? 1 : MANY;
        if ((i % 2 == 1) == first) {
            for (size_t k = 0; k < n; k++) block[k] = i;
            right = !cudaMemcpy(p, block, n * 4, cudaMemcpyDefault) && tell(fd, i);
        } else {
            right = told(fd) == i && !cudaMemcpy(block, p, n * 4, cudaMemcpyDefault) &&
                    block[0] == i && block[n - 1] == i;
        }
    }
    cudaFreeHost(block);
    return right;
}
APART("what is copied from page-locked memory to memory of both is there on return") {
    auto child = [](int fd) {
        Taken t(fd);
        return t.all && in_turn(fd, t.p, false) ? 0 : 1;
    };
    with_child(
        [](int fd) {
            Given g(fd);
            HOLDS(in_turn(fd, g.m.p, true));
            ends(fd);
        },
        child);
}
static CUmemAllocationProp passed_on() {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return p;
}
static CUdeviceptr mapped(CUmemGenericAllocationHandle h, size_t n) {
    CUdeviceptr at = 0;
    CUmemAccessDesc a = {};
    a.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemAddressReserve(&at, n, 0, 0, 0));
    OK(cuMemMap(at, n, 0, h, 0));
    OK(cuMemSetAccess(at, n, &a, 1));
    return at;
}
APART("the same of created memory that is passed on by a descriptor") {
    auto child = [](int fd) {
        cudaFree(nullptr);
        CUmemGenericAllocationHandle h;
        int memory = handed(fd);
        if (cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)memory,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
            return 1;
        return in_turn(fd, (void *)mapped(h, 2 << 20), false) ? 0 : 2;
    };
    with_child(
        [](int fd) {
            OK(cudaFree(nullptr));
            auto how = passed_on();
            CUmemGenericAllocationHandle h;
            OK(cuMemCreate(&h, 2 << 20, &how, 0));
            int memory = -1;
            OK(cuMemExportToShareableHandle(&memory, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                            0));
            HOLDS(hand(fd, memory));
            HOLDS(in_turn(fd, (void *)mapped(h, 2 << 20), true));
            ends(fd);
        },
        child);
}
APART("the same of memory of a pool that is passed on by a descriptor") {
    auto child = [](int fd) {
        cudaFree(nullptr);
        cudaMemPool_t pool;
        int memory = handed(fd);
        if (cudaMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)memory,
                                                 cudaMemHandleTypePosixFileDescriptor, 0))
            return 1;
        cudaMemPoolPtrExportData data;
        void *p;
        if (read(fd, &data, sizeof data) != sizeof data) return 2;
        if (cudaMemPoolImportPointer(&p, pool, &data)) return 3;
        return in_turn(fd, p, false) ? 0 : 4;
    };
    with_child(
        [](int fd) {
            OK(cudaFree(nullptr));
            cudaMemPoolProps how = {};
            how.allocType = cudaMemAllocationTypePinned;
            how.handleTypes = cudaMemHandleTypePosixFileDescriptor;
            how.location.type = cudaMemLocationTypeDevice;
            cudaMemPool_t pool;
            OK(cudaMemPoolCreate(&pool, &how));
            int memory = -1;
            OK(cudaMemPoolExportToShareableHandle(&memory, pool,
                                                  cudaMemHandleTypePosixFileDescriptor, 0));
            Stream s;
            void *p;
            OK(cudaMallocFromPoolAsync(&p, 1 << 20, pool, s));
            OK(cudaStreamSynchronize(s));
            cudaMemPoolPtrExportData data;
            OK(cudaMemPoolExportPointer(&data, p));
            HOLDS(hand(fd, memory) && write(fd, &data, sizeof data) == sizeof data);
            HOLDS(in_turn(fd, p, true));
            ends(fd);
            OK(cudaFreeAsync(p, s));
            OK(cudaStreamSynchronize(s));
        },
        child);
}
