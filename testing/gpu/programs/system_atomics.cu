// Host and device change the same words of managed memory at the same time: counters, locks, words
// of all lengths, a barrier of both. Plain output; with `time` also how long an operation takes.
#define PATIENCE 20
#include "check.h"
#include "waiting.h"
#include <atomic>
#include <cstdint>
#include <cstring>
#include <cuda/barrier>
#include <thread>

struct Words {
    unsigned counter, stop, told, begun;
    unsigned lock, under_lock;
    uint64_t large;
    uint16_t half[4];
    uint8_t bytes[8];
};

__managed__ Words variable;

__global__ void count(Words *w) {
    unsigned n = 0;
    atomicExch_system(&w->begun, 1);
    while (!atomicAdd_system(&w->stop, 0)) {
        atomicAdd_system(&w->counter, 1);
        atomicAdd_system((unsigned long long *)&w->large, 3ull);
        n++;
        __nanosleep(2000);
    }
    atomicExch_system(&w->told, n);
}

__global__ void with_lock(Words *w, unsigned *far, int times) {
    atomicExch_system(&w->begun, 1);
    for (int i = 0; i < times; i++) {
        while (atomicCAS_system(&w->lock, 0u, 1u)) __nanosleep(20000);
        __threadfence_system();
        *(volatile unsigned *)&w->under_lock += 1;
        *(volatile unsigned *)far += 1;
        __threadfence_system();
        atomicExch_system(&w->lock, 0u);
        __nanosleep(200000);
    }
}

using Barrier = cuda::barrier<cuda::thread_scope_system>;

__global__ void meet(Barrier *b, unsigned *seen, const unsigned *from_host, int rounds) {
    for (int i = 0; i < rounds; i++) {
        b->arrive_and_wait();
        seen[i] = *(volatile const unsigned *)from_host;
        b->arrive_and_wait();
    }
}

template <class T> static std::atomic<T> *as(T *p) { return reinterpret_cast<std::atomic<T> *>(p); }

static void counted(const char *what, Words *w, bool timed) {
    const unsigned times = 200;
    memset(w, 0, sizeof *w);
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    count<<<1, 1, 0, s>>>(w);
    bool begun = until(&w->begun, 1);
    bool rises = true;
    unsigned last = 0;
    auto from = Clock::now();
    for (unsigned i = 0; i < times; i++) {
        unsigned had = as(&w->counter)->fetch_add(1);
        rises &= had >= last;
        last = had;
    }
    std::chrono::duration<double, std::micro> took = Clock::now() - from;
    for (unsigned i = 0; i < 20; i++) as(&w->large)->fetch_sub(1);
    as(&w->half[1])->fetch_add(0xffff);
    uint16_t half = as(&w->half[1])->fetch_xor(0x0ff0);
    uint8_t was = as(&w->bytes[3])->exchange(0x81);
    was += as(&w->bytes[3])->fetch_or(0x18) + as(&w->bytes[3])->fetch_and(0x11);
    unsigned expected = 7;
    bool swapped = as(&w->under_lock)->compare_exchange_strong(expected, 9);
    as(&w->stop)->store(1);
    CHECK(cudaStreamSynchronize(s));
    bool all = w->counter == w->told + times && w->large == 3ull * w->told - 20;
    printf("%s: %d, rises %d, none is lost %d\n", what, begun, rises, all);
    printf("  %x %x %x %x %d %u\n", half, w->half[1], was, w->bytes[3], swapped, expected);
    if (timed) printf("# one takes %.0f us\n", took.count() / times);
    CHECK(cudaStreamDestroy(s));
}

static void locked(Words *w, unsigned *far) {
    const int times = 40;
    memset(w, 0, sizeof *w);
    *far = 0;
    with_lock<<<1, 1>>>(w, far, times);
    bool begun = until(&w->begun, 1);
    for (int i = 0; i < times; i++) {
        unsigned free = 0;
        while (!as(&w->lock)->compare_exchange_strong(free, 1)) free = 0;
        *(volatile unsigned *)&w->under_lock += 1;
        *(volatile unsigned *)far += 1;
        as(&w->lock)->store(0);
    }
    CHECK(cudaDeviceSynchronize());
    printf("lock: %d, %u %u\n", begun, w->under_lock, *far);
}

static void met() {
    const int rounds = 10;
    Barrier *b;
    unsigned *seen;
    CHECK(cudaMallocManaged(&b, 1 << 16));
    CHECK(cudaMallocManaged(&seen, 1 << 16));
    unsigned *from_host = seen + 8192;
    new (b) Barrier(2);
    meet<<<1, 1>>>(b, seen, from_host, rounds);
    for (int i = 0; i < rounds; i++) {
        *(volatile unsigned *)from_host = 100 + i;
        b->arrive_and_wait();
        b->arrive_and_wait();
    }
    CHECK(cudaDeviceSynchronize());
    int right = 0;
    for (int i = 0; i < rounds; i++) right += seen[i] == 100u + i;
    printf("barrier: %d of %d\n", right, rounds);
    CHECK(cudaFree(b));
    CHECK(cudaFree(seen));
}

int main(int argc, char **argv) {
    bool timed = argc > 1 && !strcmp(argv[1], "time");
    Words *w;
    unsigned *far;
    CHECK(cudaMallocManaged(&w, 1 << 20));
    CHECK(cudaMallocManaged(&far, 1 << 20));
    counted("allocated", w, timed);
    counted("at the end", (Words *)((char *)w + (1 << 20) - sizeof(Words)), timed);
    counted("a variable", &variable, timed);
    locked(w, far);
    locked(w, (unsigned *)w + 512);
    met();
    // Two threads of the host's, too.
    memset(w, 0, sizeof *w);
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    count<<<1, 1, 0, s>>>(w);
    until(&w->begun, 1);
    auto adds = [&] {
        for (int i = 0; i < 50; i++) as(&w->counter)->fetch_add(1);
    };
    std::thread other(adds);
    adds();
    other.join();
    as(&w->stop)->store(1);
    CHECK(cudaStreamSynchronize(s));
    printf("threads: %d\n", w->counter == w->told + 100);
    CHECK(cudaFree(w));
    CHECK(cudaFree(far));
    return 0;
}
