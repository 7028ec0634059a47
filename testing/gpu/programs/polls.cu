// Kernels and a program that look at host memory while the other one writes it: flags, progress,
// questions and answers, words that a stream waits for, and what is to be seen once work is over.
// With the argument "time" it says on stderr how long a question and its answer take.
#define PATIENCE 5
#include "tell.h"
#include "waiting.h"
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <vector>

__global__ void waits(const Word *flag, unsigned value, unsigned *seen) {
    *seen = wait_for(flag, value);
}

__global__ void counts(Word *progress, unsigned n) {
    for (unsigned i = 1; i <= n; i++) {
        for (int k = 0; k < 20; k++) __nanosleep(100000);
        __threadfence_system();
        *progress = i;
    }
}

__global__ void answers(const Word *question, Word *answer, unsigned n) {
    for (unsigned i = 1; i <= n && wait_for(question, i); i++) *answer = i;
}

/// Data first, then the flag; then it waits to be let go.
__global__ void fills(unsigned *data, int n, Word *flag, const Word *go, unsigned value) {
    for (int i = 0; i < n; i++) data[i] = value + i;
    __threadfence_system();
    *flag = value;
    wait_for(go, value);
}

__global__ void sets(unsigned *p, unsigned value) { *p = value; }
__global__ void doubles(unsigned *p, int n) {
    for (int i = 0; i < n; i++) p[i] *= 2;
}

static void talk(const char *where, Word *question, Word *answer, unsigned n, bool timed) {
    unsigned *q, *a;
    CHECK(cudaHostGetDevicePointer(&q, (void *)question, 0));
    CHECK(cudaHostGetDevicePointer(&a, (void *)answer, 0));
    answers<<<1, 1>>>(q, a, n);
    unsigned done = 0;
    auto begin = Clock::now();
    for (unsigned i = 1; i <= n; i++) {
        *question = i;
        if (!until(answer, i)) break;
        done = i;
    }
    double us = std::chrono::duration<double>(Clock::now() - begin).count() * 1e6 / n;
    if (timed) fprintf(stderr, "%s: %.0f us for a question and its answer\n", where, us);
    CHECK(cudaDeviceSynchronize());
    printf("%s: %u answers\n", where, done);
}

struct Seen {
    const unsigned *word;
    unsigned value;
};
static void look(void *p) {
    Seen *s = (Seen *)p;
    s->value = *s->word;
}

int main(int argc, char **argv) {
    bool timed = argc > 1 && !strcmp(argv[1], "time");
    unsigned *small, *large, *seen, host;
    const size_t bytes = 1 << 20;
    CHECK(cudaHostAlloc(&small, 64, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&large, bytes, cudaHostAllocMapped));
    CHECK(cudaMalloc(&seen, 4));
    memset(small, 0, 64);
    memset(large, 0, bytes);

    // A flag that the program sets while a kernel looks for it.
    waits<<<1, 1>>>(small, 5, seen);
    usleep(20000);
    *(Word *)small = 5;
    CHECK(cudaMemcpy(&host, seen, 4, cudaMemcpyDeviceToHost));
    printf("flag: %u\n", host);

    // How far a kernel is.
    counts<<<1, 1>>>((Word *)small + 1, 20);
    unsigned steps = 0, last = 0;
    auto limit = Clock::now() + std::chrono::seconds(5);
    while (last < 20 && Clock::now() < limit) {
        unsigned now = ((Word *)small)[1];
        if (now != last) steps++;
        last = now;
    }
    printf("progress: %u, %s\n", last, steps > 5 ? "in steps" : "at once");
    CHECK(cudaDeviceSynchronize());

    // Questions and answers.
    talk("small", small + 2, small + 3, 200, timed);
    talk("large", large + 70000, large + 150000, 200, timed);
    void *aligned;
    if (posix_memalign(&aligned, 4096, 4 * 4096)) return 1;
    unsigned *page = (unsigned *)aligned;
    memset(page, 0, 4 * 4096);
    CHECK(cudaHostRegister(page + 50, 64, cudaHostRegisterMapped));
    talk("registered", page + 50, page + 51, 200, timed);

    // Data is there when its flag is.
    int right = 0;
    unsigned *data = large + 1000;
    *(Word *)(small + 4) = 0;
    for (unsigned v = 1; v <= 20; v++) {
        fills<<<1, 1>>>(data, 200, (Word *)small + 4, (Word *)small + 5, v * 1000);
        if (!until((Word *)small + 4, v * 1000)) break;
        bool all = true;
        for (int i = 0; i < 200; i++) all = all && data[i] == v * 1000 + i;
        right += all;
        ((Word *)small)[5] = v * 1000;
        CHECK(cudaDeviceSynchronize());
    }
    printf("data behind a flag: %d of 20\n", right);

    // What is over is to be seen, however the program hears of it.
    unsigned *there;
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaHostGetDevicePointer(&there, page + 52, 0));
    sets<<<1, 1, 0, stream>>>(there, 100);
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {}
    printf("after a query: %u\n", page[52]);
    sets<<<1, 1, 0, stream>>>(there, 101);
    CHECK(cudaEventRecord(event, stream));
    while (cudaEventQuery(event) == cudaErrorNotReady) {}
    printf("after an event: %u\n", page[52]);
    sets<<<1, 1>>>(there, 102);
    CHECK(cudaMemcpy(&host, seen, 4, cudaMemcpyDeviceToHost));
    printf("after a copy: %u\n", page[52]);
    sets<<<1, 1, 0, stream>>>(there, 103);
    Seen s = {page + 52, 0};
    CHECK(cudaLaunchHostFunc(stream, look, &s));
    CHECK(cudaStreamSynchronize(stream));
    printf("in a function: %u\n", s.value);
    cudaStream_t other;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    counts<<<1, 1, 0, other>>>((Word *)there, 10);
    sets<<<1, 1, 0, stream>>>(there + 1, 7);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamSynchronize(other));
    printf("two streams: %u %u\n", page[52], page[53]);

    // A system call on what a kernel wrote.
    int ends[2];
    if (pipe(ends)) return 1;
    for (int i = 0; i < 8; i++) small[8 + i] = i + 1;
    doubles<<<1, 1>>>(small + 8, 8);
    CHECK(cudaDeviceSynchronize());
    unsigned through[8] = {};
    printf("write: %d", (int)write(ends[1], small + 8, 32));
    printf(" read: %d", (int)read(ends[0], through, 32));
    printf(" %u %u\n", through[0], through[7]);

    // A stream waits for a word that another thread writes meanwhile.
    CUstream raw = (CUstream)stream;
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)small;
    small[0] = 0;
    SAY(cuStreamWaitValue32(raw, word, 77, CU_STREAM_WAIT_VALUE_EQ));
    sets<<<1, 1, 0, stream>>>(small + 1, 88);
    std::thread writer([&] {
        usleep(50000);
        *(Word *)small = 77;
    });
    CHECK(cudaStreamSynchronize(stream));
    writer.join();
    printf("after the word: %u\n", small[1]);

    // All of it goes, and comes again.
    SAY(cudaHostUnregister(page + 50));
    SAY(cudaFreeHost(small));
    SAY(cudaFreeHost(large));
    CHECK(cudaHostAlloc(&small, 64, cudaHostAllocMapped));
    *small = 3;
    doubles<<<1, 1>>>(small, 1);
    CHECK(cudaDeviceSynchronize());
    printf("again: %u\n", *small);
    return 0;
}
