// Checks of what CUDA's documentation says: each is a sentence that a program can observe, and the
// code that observes it. `DOC(sentence) { .. }` is a check that shares a process with others;
// `APART(sentence) { .. }` has a process of its own, for what breaks a context or must come first.
// One line a check, `ok` or `FAILED`, and one for all. What a call is refused with is part of the
// line, so that native and remote runs are held against each other in that, too. They are written
// for CUDA 13's headers.
#pragma once
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Doc {
    const char *says;
    void (*run)();
    bool apart;
};
static std::vector<Doc> &docs() {
    static std::vector<Doc> all;
    return all;
}
struct Documented {
    Documented(const char *says, void (*run)(), bool apart) {
        docs().push_back({says, run, apart});
    }
};
#define DOC__(says, apart, n)                                                                     \
    static void run_##n();                                                                        \
    static Documented doc_##n(says, run_##n, apart);                                              \
    static void run_##n()
#define DOC_(says, apart, n) DOC__(says, apart, n)
#define DOC(says) DOC_(says, false, __LINE__)
#define APART(says) DOC_(says, true, __LINE__)

/// What the check that runs was wrong about, and what it was refused with.
static std::string wrong_, refusals_;

static inline const char *name_(cudaError_t rc) { return cudaGetErrorName(rc); }
static inline const char *name_(CUresult rc) {
    const char *name = nullptr;
    return cuGetErrorName(rc, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}
template <typename T> static bool is_(int line, const char *what, T got, T want) {
    if (got == want) return true;
    wrong_ += " [" + std::to_string(line) + ": " + what + " is " + name_(got) + "]";
    return false;
}
template <typename T> static bool ok_(int line, const char *what, T got) {
    return is_(line, what, got, (T)0);
}
template <typename T> static bool refused_(int line, const char *what, T got) {
    if (got != (T)0) {
        refusals_ += std::string(refusals_.empty() ? "" : ", ") + name_(got);
        return true;
    }
    wrong_ += " [" + std::to_string(line) + ": " + what + " is accepted]";
    return false;
}
static inline bool holds_(int line, const char *what, bool so) {
    if (!so) wrong_ += " [" + std::to_string(line) + ": not so: " + what + "]";
    return so;
}
static inline bool told_(const char *what) {
    refusals_ += std::string(refusals_.empty() ? "" : ", ") + what;
    return true;
}
/// What a call must return; `OK`: success; `REFUSED`: some error, which is printed; `TOLD`: what it
/// returns is printed, and right if it is so everywhere.
#define IS(call, want) is_(__LINE__, #call, (call), (want))
#define OK(call) ok_(__LINE__, #call, (call))
#define REFUSED(call) refused_(__LINE__, #call, (call))
#define TOLD(call) told_(name_(call))
#define HOLDS(so) holds_(__LINE__, #so, (so))

/// A stream that stands still behind a host function until it is let go, at the latest when this
/// ends.
struct Held {
    cudaStream_t stream;
    std::atomic<int> *go = new std::atomic<int>(0);
    explicit Held(cudaStream_t s) : stream(s) { OK(cudaLaunchHostFunc(s, wait, go)); }
    static void wait(void *go) {
        while (!((std::atomic<int> *)go)->load()) usleep(50);
    }
    void release() {
        *go = 1;
        OK(cudaStreamSynchronize(stream));
    }
    ~Held() {
        *go = 1;
        cudaStreamSynchronize(stream);
    }
};
struct Stream {
    cudaStream_t s = nullptr;
    explicit Stream(unsigned flags = cudaStreamNonBlocking) {
        OK(cudaStreamCreateWithFlags(&s, flags));
    }
    ~Stream() { cudaStreamDestroy(s); }
    operator cudaStream_t() const { return s; }
};
/// Device memory, which ends with the check.
struct Memory {
    void *p = nullptr;
    explicit Memory(size_t n) { OK(cudaMalloc(&p, n)); }
    ~Memory() { cudaFree(p); }
    int *ints() const { return (int *)p; }
    CUdeviceptr at() const { return (CUdeviceptr)p; }
};
static inline int value(const void *p) {
    int v = -1;
    OK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
    return v;
}
static inline void count_up(void *n) { ++*(std::atomic<int> *)n; }

__global__ void put(int *p, int v) { *p = v; }
__global__ void add(int *p, int v) { atomicAdd(p, v); }

/// Runs what shares a process from `at` on, or the one that is apart; ends the process.
static void run_from(size_t at, volatile size_t *reached) {
    bool apart = docs()[at].apart;
    if (!apart) {
        // Kernels are there before a check holds a stream: loading one may wait for the device.
        int *p;
        if (cudaMalloc(&p, 64) == cudaSuccess) {
            put<<<1, 1>>>(p, 0);
            add<<<1, 1>>>(p, 0);
            cudaDeviceSynchronize();
            cudaFree(p);
        }
    }
    for (; at < docs().size() && docs()[at].apart == apart; at++) {
        *reached = at;
        wrong_.clear(), refusals_.clear();
        alarm(20);
        docs()[at].run();
        bool broken = false;
        if (!apart) {
            cudaGetLastError();
            broken = cudaDeviceSynchronize() != cudaSuccess;
            if (broken) wrong_ += " [the device does not go on]";
        }
        printf("%s: %s%s%s%s%s\n", wrong_.empty() ? "ok" : "FAILED", docs()[at].says,
               wrong_.c_str(), refusals_.empty() ? "" : " (", refusals_.c_str(),
               refusals_.empty() ? "" : ")");
        fflush(stdout);
        reached[1] += !wrong_.empty();
        *reached = at + 1;
        if (apart || broken) break;
    }
    alarm(20);
    exit(0);
}

int main() {
    auto *reached = (volatile size_t *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t at = 0;
    while (at < docs().size()) {
        *reached = at;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) run_from(at, reached);
        int status = 0;
        waitpid(child, &status, 0);
        if (*reached < docs().size() && status != 0) {
            if (*reached == at || !docs()[at].apart) {
                printf("FAILED: %s [ended with %s %d]\n", docs()[*reached].says,
                       WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
                reached[1]++;
                ++*reached;
            }
        }
        at = *reached > at ? *reached : at + 1;
    }
    printf("%zu checks, %zu failed\n", docs().size(), reached[1]);
    return reached[1] ? 1 : 0;
}
