// What a graph's copies find in the program's memory, and leave there: when a source is read, when
// a destination is there, and what a launch waits for, by kind of memory.
#include "check.h"
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unistd.h>

namespace {

const char *const NAMES[] = {"pageable", "page-locked", "registered"};

struct Write {
    unsigned char *p;
    size_t n;
    int value;
};

void CUDART_CB write_late(void *data) {
    auto w = (Write *)data;
    usleep(50000);
    memset(w->p, w->value, w->n);
}

/// 0 until the program lets the stream go, which is too late after some seconds.
std::atomic<int> go;

void CUDART_CB stand_still(void *) {
    for (int i = 0; i < 4000 && go == 0; i++) usleep(1000);
    if (go == 0) go = 2;
}

void each(cudaStream_t s, size_t n, int kind) {
    unsigned char *host, *device, *seen;
    CHECK(cudaMalloc(&device, n));
    CHECK(cudaMallocHost(&seen, n));
    host = (unsigned char *)malloc(n);
    if (kind == 1) CHECK(cudaMallocHost(&host, n));
    if (kind == 2) CHECK(cudaHostRegister(host, n, 0));
    auto graph = [&](const std::function<void()> &put) {
        cudaGraph_t g;
        cudaGraphExec_t e;
        CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
        put();
        CHECK(cudaStreamEndCapture(s, &g));
        CHECK(cudaGraphInstantiate(&e, g, 0));
        CHECK(cudaGraphDestroy(g));
        return e;
    };
    auto tell = [&](const char *what) {
        CHECK(cudaMemcpyAsync(seen, device, n, cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        bool same = true;
        for (size_t i = 0; i < n; i++) same &= seen[i] == seen[0];
        printf("%zu bytes, %s, %s: %d%s\n", n, NAMES[kind], what, seen[0], same ? "" : ", mixed");
    };
    auto in = graph([&] { CHECK(cudaMemcpyAsync(device, host, n, cudaMemcpyHostToDevice, s)); });
    auto out = graph([&] { CHECK(cudaMemcpyAsync(host, device, n, cudaMemcpyDeviceToHost, s)); });
    auto both = graph([&] {
        CHECK(cudaMemcpyAsync(host, device, n, cudaMemcpyDeviceToHost, s));
        CHECK(cudaMemsetAsync(device, 3, n, s));
        CHECK(cudaMemcpyAsync(device, host, n, cudaMemcpyHostToDevice, s));
    });
    memset(host, 1, n);
    CHECK(cudaGraphLaunch(in, s));
    tell("in");
    // What is not page-locked is read by the launch, whatever is queued before it.
    Write w{host, n, 2};
    CHECK(cudaLaunchHostFunc(s, write_late, &w));
    CHECK(cudaGraphLaunch(in, s));
    tell("in behind a function that writes");
    // No launch of it waits for its stream.
    memset(host, 4, n);
    go = 0;
    CHECK(cudaLaunchHostFunc(s, stand_still, nullptr));
    CHECK(cudaGraphLaunch(in, s));
    int before = 0;
    printf("in behind what waits: goes on %d\n", go.compare_exchange_strong(before, 1));
    tell("in behind what waited");
    // One that is not page-locked has the bytes when the launch returns.
    CHECK(cudaMemset(device, 5, n));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaLaunchHostFunc(s, write_late, &w));
    CHECK(cudaGraphLaunch(out, s));
    if (kind != 0) CHECK(cudaStreamSynchronize(s));
    printf("%zu bytes, %s, out: %d %d\n", n, NAMES[kind], host[0], host[n - 1]);
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaMemset(device, 6, n));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphLaunch(both, s));
    tell("out and in");
    for (auto e : {in, out, both}) CHECK(cudaGraphExecDestroy(e));
    if (kind == 1) CHECK(cudaFreeHost(host));
    if (kind == 2) CHECK(cudaHostUnregister(host));
    if (kind != 1) free(host);
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(seen));
}

} // namespace

int main() {
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (size_t n : {64ul, 3179ul, 100000ul, 1ul << 20})
        for (int kind = 0; kind < 3; kind++) each(s, n, kind);
    CHECK(cudaStreamDestroy(s));
    puts("done");
}
