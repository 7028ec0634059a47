// Events: flags, times, order, what a query says when, and other processes.
#include "tell.h"
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

__global__ void write(int *p, int v) { *p = v; }
__device__ long long now() {
    long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
__global__ void nap(long long ms) {
    long long end = now() + ms * 1000000;
    while (now() < end) {}
}

static int *p;

static void queries(cudaStream_t s) {
    puts("-- queries");
    int host = 1, *pinned;
    CHECK(cudaMallocHost((void **)&pinned, 1 << 20));
    cudaEvent_t e;
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    SAY(cudaEventQuery(e));
    SAY(cudaEventSynchronize(e));
    // After a copy that waits, nothing is left to do.
    for (int i = 0; i < 4; i++) {
        write<<<1, 1>>>(p, i);
        CHECK(cudaEventRecord(e));
        CHECK(cudaMemcpy(&host, p, 4, cudaMemcpyDeviceToHost));
        printf("copied %d: event %d stream %d\n", host, (int)cudaEventQuery(e),
               (int)cudaStreamQuery(0));
    }
    for (int i = 0; i < 4; i++) {
        write<<<1, 1, 0, s>>>(p, 10 + i);
        CHECK(cudaEventRecord(e, s));
        CHECK(cudaStreamSynchronize(s));
        printf("waited: event %d stream %d\n", (int)cudaEventQuery(e), (int)cudaStreamQuery(s));
        write<<<1, 1, 0, s>>>(p, 20 + i);
        CHECK(cudaEventRecord(e, s));
        CHECK(cudaEventSynchronize(e));
        printf("event waited: event %d\n", (int)cudaEventQuery(e));
        write<<<1, 1, 0, s>>>(p, 30 + i);
        CHECK(cudaEventRecord(e, s));
        CHECK(cudaDeviceSynchronize());
        printf("all waited: event %d stream %d\n", (int)cudaEventQuery(e), (int)cudaStreamQuery(s));
    }
    CHECK(cudaMemcpy(p, &host, 4, cudaMemcpyHostToDevice));
    CHECK(cudaEventRecord(e));
    CHECK(cudaStreamSynchronize(0));
    printf("copied in: event %d stream %d\n", (int)cudaEventQuery(e), (int)cudaStreamQuery(0));
    CHECK(cudaMemset(p, 0, 4));
    CHECK(cudaMemcpy(pinned, p, 4, cudaMemcpyDeviceToHost));
    printf("pinned: stream %d\n", (int)cudaStreamQuery(0));
    // While something runs.
    nap<<<1, 1, 0, s>>>(200);
    CHECK(cudaEventRecord(e, s));
    printf("running: event %d stream %d other %d\n", (int)cudaEventQuery(e),
           (int)cudaStreamQuery(s), (int)cudaStreamQuery(0));
    cudaGetLastError();
    CHECK(cudaMemcpyAsync(pinned, p, 4, cudaMemcpyDeviceToHost, s));
    printf("running still: stream %d\n", (int)cudaStreamQuery(s));
    cudaGetLastError();
    // Recorded again behind it: what was asked before holds no more.
    CHECK(cudaEventSynchronize(e));
    CHECK(cudaStreamSynchronize(s));
    printf("done: event %d stream %d\n", (int)cudaEventQuery(e), (int)cudaStreamQuery(s));
    nap<<<1, 1, 0, s>>>(200);
    CHECK(cudaEventRecord(e, s));
    CHECK(cudaEventDestroy(e));
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaFreeHost(pinned));
}

static void times(cudaStream_t s) {
    puts("-- times");
    cudaEvent_t a, b, none, off;
    float ms = -1;
    SAY(cudaEventCreate(&a));
    SAY(cudaEventCreateWithFlags(&b, cudaEventBlockingSync));
    SAY(cudaEventCreate(&none));
    SAY(cudaEventCreateWithFlags(&off, cudaEventDisableTiming));
    SAY(cudaEventElapsedTime(&ms, a, b));
    SAY(cudaEventRecord(a, s));
    SAY(cudaEventElapsedTime(&ms, a, b));
    nap<<<1, 1, 0, s>>>(100);
    SAY(cudaEventRecord(b, s));
    SAY(cudaEventElapsedTime(&ms, a, b));
    SAY(cudaEventSynchronize(b));
    SAY(cudaEventElapsedTime(&ms, a, b));
    // Others may use the device, too.
    printf("at least 0.1 s: %d\n", ms > 99 && ms < 60000);
    SAY(cudaEventElapsedTime(&ms, b, a));
    printf("the other way: %d\n", ms < -50);
    SAY(cudaEventElapsedTime(&ms, a, none));
    SAY(cudaEventRecord(off, s));
    SAY(cudaEventSynchronize(off));
    SAY(cudaEventElapsedTime(&ms, a, off));
    SAY(cudaEventElapsedTime(&ms, a, a));
    printf("to itself: %g\n", ms);
    cudaEvent_t bad;
    SAY(cudaEventCreateWithFlags(&bad, 0x80));
    SAY(cudaEventCreateWithFlags(&bad, cudaEventInterprocess));
    SAY(cudaEventRecordWithFlags(a, s, 9));
    SAY(cudaEventRecordWithFlags(a, s, cudaEventRecordExternal));
    SAY(cudaStreamWaitEvent(s, a, 9));
    SAY(cudaStreamWaitEvent(s, none, 0));
    SAY(cudaStreamWaitEvent(s, nullptr, 0));
    SAY(cudaStreamSynchronize(s));
    for (cudaEvent_t e : {a, b, none, off}) CHECK(cudaEventDestroy(e));
    // Many: made, used, gone.
    int wrong = 0;
    for (int i = 0; i < 2000; i++) {
        cudaEvent_t e;
        wrong += cudaEventCreateWithFlags(&e, i & 1 ? cudaEventDisableTiming : 0) != cudaSuccess;
        wrong += cudaEventRecord(e, s) != cudaSuccess;
        wrong += cudaEventDestroy(e) != cudaSuccess;
    }
    printf("wrong %d\n", wrong);
}

/// The child is a process of its own from the beginning: it execs before any CUDA.
static int child() {
    struct {
        cudaIpcMemHandle_t m;
        cudaIpcEventHandle_t e;
    } h;
    if (read(0, &h, sizeof h) != (ssize_t)sizeof h) return 9;
    int *q, v = 0;
    cudaEvent_t e;
    SAY(cudaIpcOpenMemHandle((void **)&q, h.m, cudaIpcMemLazyEnablePeerAccess));
    SAY(cudaIpcOpenEventHandle(&e, h.e));
    SAY(cudaStreamWaitEvent(0, e, 0));
    SAY(cudaMemcpy(&v, q, 4, cudaMemcpyDeviceToHost));
    printf("the child sees %d\n", v);
    write<<<1, 1>>>(q + 1, v + 1);
    SAY(cudaDeviceSynchronize());
    SAY(cudaEventQuery(e));
    float ms;
    SAY(cudaEventElapsedTime(&ms, e, e));
    SAY(cudaEventDestroy(e));
    SAY(cudaIpcCloseMemHandle(q));
    SAY(cudaIpcCloseMemHandle(q));
    fflush(stdout);
    return 0;
}

static void processes(const char *self, cudaStream_t s) {
    puts("-- another process");
    fflush(stdout);
    int to[2];
    if (pipe(to)) return;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], 0);
        close(to[0]);
        close(to[1]);
        execl("/proc/self/exe", self, "child", (char *)nullptr);
        _exit(127);
    }
    close(to[0]);
    struct {
        cudaIpcMemHandle_t m;
        cudaIpcEventHandle_t e;
    } h;
    memset(&h, 0, sizeof h);
    int *q;
    cudaEvent_t e, plain;
    CHECK(cudaMalloc((void **)&q, 4096));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventInterprocess | cudaEventDisableTiming));
    CHECK(cudaEventCreate(&plain));
    cudaIpcEventHandle_t none;
    cudaError_t refused = cudaIpcGetEventHandle(&none, plain);
    cudaGetLastError();
    cudaError_t rm = cudaIpcGetMemHandle(&h.m, q), re = cudaIpcGetEventHandle(&h.e, e);
    nap<<<1, 1, 0, s>>>(150);
    write<<<1, 1, 0, s>>>(q, 77);
    cudaError_t rr = cudaEventRecord(e, s);
    bool sent = write(to[1], &h, sizeof h) == (ssize_t)sizeof h;
    close(to[1]);
    int status = -1;
    waitpid(pid, &status, 0);
    int v[2] = {0, 0};
    cudaError_t rc = cudaMemcpy(v, q, 8, cudaMemcpyDeviceToHost);
    printf("handles %d %d, refused %d, recorded %d, sent %d, child %d, copied %d: %d %d\n", (int)rm,
           (int)re, (int)refused, (int)rr, sent, status, (int)rc, v[0], v[1]);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "child")) return child();
    // The child of a fork is made before CUDA is used, as it must be.
    CHECK(cudaMalloc((void **)&p, 4096));
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    queries(s);
    times(s);
    processes(argv[0], s);
    SAY(cudaDeviceSynchronize());
    printf("done\n");
}
