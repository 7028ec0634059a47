// What the system does with memory that kernels have written: files, pipes, sockets; handlers that
// the program installs later, and threads that block signals.
#include "tell.h"
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <vector>

const int N = 300000;
const size_t BYTES = 4 * N;

__global__ void iota(int *p, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) p[i] = first + i;
}

static void kernel(int *p, int first) {
    iota<<<(N + 255) / 256, 256>>>(p, first);
    CHECK(cudaDeviceSynchronize());
}

static int wrong(const int *p, int first) {
    int n = 0;
    for (int i = 0; i < N; i++) n += p[i] != first + i;
    return n;
}

static void told(const char *what, long n, int wrong) {
    printf("  %s: %ld%s, wrong %d\n", what, n, n < 0 ? strerror(errno) : "", wrong);
}

static void files(int *p) {
    FILE *f = tmpfile();
    int fd = fileno(f);
    std::vector<int> back(N);
    auto check = [&](const char *what, long n) {
        EXPECT(pread(fd, back.data(), BYTES, 0) >= 0);
        told(what, n, wrong(back.data(), 10));
        EXPECT(ftruncate(fd, 0) == 0);
        lseek(fd, 0, SEEK_SET);
    };
    kernel(p, 10);
    check("write", write(fd, p, BYTES));
    kernel(p, 10);
    check("pwrite", pwrite(fd, p, BYTES, 0));
    kernel(p, 10);
    iovec parts[2] = {{p, 1000}, {(char *)p + 1000, BYTES - 1000}};
    check("writev", writev(fd, parts, 2));
    kernel(p, 10);
    long n = fwrite(p, 4, N, f);
    fflush(f);
    check("fwrite", n);
    for (int i = 0; i < N; i++) back[i] = 5000000 - i;
    EXPECT(pwrite(fd, back.data(), BYTES, 0) == (ssize_t)BYTES);
    int *d;
    std::vector<int> there(N);
    CHECK(cudaMalloc(&d, BYTES));
    auto same = [&](const char *what, long n) {
        CHECK(cudaMemcpy(d, p, BYTES, cudaMemcpyDefault));
        CHECK(cudaMemcpy(there.data(), d, BYTES, cudaMemcpyDeviceToHost));
        bool here = !memcmp(p, back.data(), BYTES), far = there == back;
        printf("  %s: %ld, here %d, on the device %d\n", what, n, here, far);
        lseek(fd, 0, SEEK_SET);
    };
    lseek(fd, 0, SEEK_SET);
    kernel(p, 10);
    same("read", read(fd, p, BYTES));
    kernel(p, 10);
    same("pread", pread(fd, p, BYTES, 0));
    kernel(p, 10);
    same("readv", readv(fd, parts, 2));
    kernel(p, 10);
    rewind(f);
    n = fread(p, 4, N, f);
    same("fread", n);
    CHECK(cudaFree(d));
    fclose(f);
}

static void streams(int *p) {
    for (bool socket : {false, true}) {
        int ends[2];
        EXPECT((socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
        std::vector<int> back(N);
        kernel(p, 20);
        std::thread reader([&] {
            size_t n = 0;
            while (n < BYTES) {
                ssize_t got = read(ends[0], (char *)back.data() + n, BYTES - n);
                if (got <= 0) break;
                n += got;
            }
        });
        long n = socket ? send(ends[1], p, BYTES, 0) : write(ends[1], p, BYTES);
        close(ends[1]);
        reader.join();
        told(socket ? "socket" : "pipe", n, wrong(back.data(), 20));
        close(ends[0]);
    }
}

static int caught;
static sigjmp_buf out;
static void handler(int, siginfo_t *, void *) {
    caught++;
    siglongjmp(out, 1);
}

static void handlers(int *p) {
    struct sigaction mine {}, before {}, now {};
    mine.sa_sigaction = handler;
    mine.sa_flags = SA_SIGINFO;
    EXPECT(sigaction(SIGSEGV, &mine, &before) == 0);
    EXPECT(sigaction(SIGSEGV, nullptr, &now) == 0);
    printf("  mine: %d\n", now.sa_sigaction == handler);
    kernel(p, 30);
    told("touched behind a handler", caught, wrong(p, 30));
    for (int i = 0; i < 2; i++)
        if (!sigsetjmp(out, 1)) *(volatile int *)16 = 1;
    printf("  caught %d\n", caught);
    kernel(p, 31);
    told("touched after that", caught, wrong(p, 31));
    caught = 0;
    EXPECT(sigaction(SIGSEGV, &before, nullptr) == 0);
}

static void blocked(int *p) {
    kernel(p, 40);
    int bad = -1, member = -1;
    std::thread t([&] {
        sigset_t all, now;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        bad = wrong(p, 40);
        pthread_sigmask(SIG_BLOCK, nullptr, &now);
        member = sigismember(&now, SIGSEGV);
    });
    t.join();
    printf("  a thread that blocks all: wrong %d, blocked %d\n", bad, member);
}

int main() {
    int *managed, *mapped, *registered = (int *)aligned_alloc(4096, (BYTES + 4095) / 4096 * 4096);
    CHECK(cudaMallocManaged(&managed, BYTES));
    CHECK(cudaHostAlloc(&mapped, BYTES, cudaHostAllocMapped));
    CHECK(cudaHostRegister(registered, BYTES, cudaHostRegisterMapped));
    struct {
        const char *what;
        int *p;
    } all[] = {{"managed", managed}, {"mapped", mapped}, {"registered", registered}};
    for (auto &a : all) {
        printf("%s\n", a.what);
        files(a.p);
        streams(a.p);
        handlers(a.p);
        blocked(a.p);
    }
    printf("done\n");
}
