// Host and device use managed memory at the same time, as devices with concurrent access let them:
// flags, answers, data behind a flag, different pages, variables; and more pages of page-locked
// memory than a handful. With the argument "time" it says on stderr how long some of that takes.
#define PATIENCE 40
#include "tell.h"
#include "waiting.h"
#include <cstring>
#include <numeric>
#include <thread>
#include <unistd.h>
#include <vector>

__managed__ unsigned asked, answered;

/// Answers in so many places, one after the other.
__global__ void answers(unsigned *words, unsigned n, size_t apart) {
    for (unsigned i = 1; i <= n; i++, words += apart) {
        if (!wait_for(words, i)) return;
        ((Word *)words)[1] = i;
    }
}
__global__ void asks() {
    for (unsigned i = 1; i <= 20 && wait_for(&asked, i); i++) *(Word *)&answered = i;
}
__global__ void waits(const Word *go, unsigned *seen) { *seen = wait_for(go, 1); }
__global__ void fill(unsigned *p, unsigned value, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] = value + i;
}
__global__ void set(Word *p, unsigned value) {
    __threadfence_system();
    *p = value;
}
/// Waits for a flag and sums what was written before it, round after round.
__global__ void sums(const Word *flag, const Word *p, size_t n, Word *sum, unsigned k) {
    for (unsigned round = 1; round <= k; round++) {
        if (!wait_for(flag, round)) return;
        unsigned all = 0;
        for (size_t i = 0; i < n; i++) all += p[i];
        sum[1] = all;
        __threadfence_system();
        sum[0] = round;
    }
}
__global__ void progress(Word *p, unsigned n) {
    for (unsigned i = 1; i <= n; i++) {
        for (int k = 0; k < 50; k++) __nanosleep(100000);
        *p = i;
    }
}

static void took(bool timed, const char *what, Clock::time_point since, unsigned n = 1) {
    double us = std::chrono::duration<double>(Clock::now() - since).count() * 1e6 / n;
    if (timed) fprintf(stderr, "%s: %.0f us\n", what, us);
}

static void talk(bool timed, const char *where, unsigned *words, unsigned n, size_t apart) {
    answers<<<1, 1>>>(words, n, apart);
    unsigned done = 0;
    auto begin = Clock::now();
    for (unsigned i = 1; i <= n; i++, words += apart) {
        *(Word *)words = i;
        if (!until(words + 1, i)) break;
        done = i;
    }
    took(timed, where, begin, n);
    CHECK(cudaDeviceSynchronize());
    printf("%s: %u answers\n", where, done);
}

int main(int argc, char **argv) {
    bool timed = argc > 1 && !strcmp(argv[1], "time");
    int concurrent = -1;
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    printf("concurrent: %d\n", concurrent);
    const size_t bytes = 1 << 20, n = bytes / 4;
    unsigned *small, *large, *data, *copy, *pinned, *seen, host;
    CHECK(cudaMallocManaged(&small, 256));
    CHECK(cudaMallocManaged(&large, bytes));
    CHECK(cudaMallocManaged(&data, bytes));
    CHECK(cudaMallocManaged(&copy, bytes));
    CHECK(cudaHostAlloc(&pinned, bytes, cudaHostAllocMapped));
    CHECK(cudaMalloc(&seen, 4));
    for (unsigned *p : {large, pinned}) memset(p, 0, bytes);
    memset(small, 0, 256);

    // Questions and answers: in one word, in one of a variable, in many pages.
    talk(timed, "small", small, 30, 0);
    talk(timed, "large", large + 70000, 30, 0);
    talk(timed, "pages", large, 50, 5000);
    talk(timed, "page-locked", pinned, 50, 5000);
    asks<<<1, 1>>>();
    unsigned done = 0;
    for (unsigned i = 1; i <= 20; i++) {
        *(Word *)&asked = i;
        if (!until(&answered, i)) break;
        done = i;
    }
    CHECK(cudaDeviceSynchronize());
    printf("variables: %u answers\n", done);

    // How far a kernel is.
    progress<<<1, 1>>>(small + 8, 20);
    unsigned steps = 0, last = 0;
    auto limit = Clock::now() + std::chrono::seconds(40);
    while (last < 20 && Clock::now() < limit) {
        unsigned now = ((Word *)small)[8];
        if (now != last) steps++;
        last = now;
    }
    CHECK(cudaDeviceSynchronize());
    printf("progress: %u, %s\n", last, steps > 3 ? "in steps" : "at once");

    // Code is loaded when it is launched first, which waits for kernels.
    fill<<<1, 1>>>(data, 0, 0);
    set<<<1, 1>>>(data, 0);
    waits<<<1, 1>>>(pinned, seen);
    CHECK(cudaDeviceSynchronize());
    memset(small, 0, 256);
    // While a kernel waits for the program, other work and the program go on in other memory.
    cudaStream_t one, two;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    waits<<<1, 1, 0, one>>>(small + 16, seen);
    for (unsigned round = 1; round <= 3; round++) {
        auto begin = Clock::now();
        fill<<<1, 1024, 0, two>>>(data, round, n);
        set<<<1, 1, 0, two>>>(small + 32, round);
        bool heard = until(small + 32, round);
        memcpy(copy, data, bytes);
        size_t right = 0;
        for (size_t i = 0; i < n; i++) right += copy[i] == round + i;
        took(timed, "copied", begin);
        printf("round %u: heard %d, %zu of %zu\n", round, heard, right, n);
        begin = Clock::now();
        for (size_t i = 0; i < n; i++) data[i] = round * i;
        took(timed, "written", begin);
        CHECK(cudaMemcpyAsync(large, data, bytes, cudaMemcpyDefault, two));
        CHECK(cudaStreamSynchronize(two));
        right = 0;
        for (size_t i = 0; i < n; i++) right += large[i] == round * (unsigned)i;
        took(timed, "written, copied, read", begin);
        printf("there: %zu of %zu\n", right, n);
    }
    *(Word *)(small + 16) = 1;
    CHECK(cudaStreamSynchronize(one));
    CHECK(cudaMemcpy(&host, seen, 4, cudaMemcpyDefault));
    printf("let go: %u\n", host);

    // The program writes data and then its flag, for a kernel that runs.
    const unsigned rounds = 5;
    const size_t part = 100000;
    memset(small, 0, 256);
    sums<<<1, 1>>>(small, data, part, small + 40, rounds);
    unsigned right = 0;
    auto begin = Clock::now();
    for (unsigned round = 1; round <= rounds; round++) {
        for (size_t i = 0; i < part; i++) data[i] = i * round;
        __sync_synchronize();
        *(Word *)small = round;
        if (!until(small + 40, round)) break;
        unsigned want = 0;
        for (size_t i = 0; i < part; i++) want += i * round;
        right += small[41] == want;
    }
    took(timed, "summed", begin, rounds);
    CHECK(cudaDeviceSynchronize());
    printf("sums: %u of %u\n", right, rounds);

    // Threads, each with its own pages.
    memset(small, 0, 256);
    CHECK(cudaDeviceSynchronize());
    waits<<<1, 1, 0, one>>>(small, seen);
    std::vector<std::thread> threads;
    std::vector<size_t> got(4);
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            size_t from = t * (n / 4), to = from + n / 4;
            for (size_t i = from; i < to; i++) copy[i] = i ^ t;
            for (size_t i = from; i < to; i++) got[t] += copy[i] == (i ^ t);
        });
    for (auto &t : threads) t.join();
    printf("threads: %zu of %zu\n", std::accumulate(got.begin(), got.end(), (size_t)0), n);
    // A system call in such memory.
    int ends[2];
    if (pipe(ends)) return 1;
    printf("written: %d", (int)write(ends[1], copy + 5, 8000));
    printf(" read: %d", (int)read(ends[0], large + 77, 8000));
    printf(" same: %d\n", !memcmp(copy + 5, large + 77, 8000));
    *(Word *)small = 1;
    CHECK(cudaStreamSynchronize(one));
    for (unsigned *p : {small, large, data, copy}) SAY(cudaFree(p));
    return 0;
}
