// Registered memory: what is accepted and refused, ends of copies, a great number of it, what
// shares a page with it, and who else sees it. What each call says is printed.
#include "tell.h"
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

const size_t PAGE = 4096;

__global__ void fill(int *p, int n, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = first + i;
}
__global__ void copy(int *to, const int *from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}
__global__ void late(int *p, int value, long long cycles) {
    long long from = clock64();
    while (clock64() - from < cycles) {}
    *p = value;
}

static char *pages(size_t n, int rights = PROT_READ | PROT_WRITE) {
    void *p = mmap(nullptr, n * PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(p != MAP_FAILED);
    return (char *)p;
}

static void requests() {
    char *p = pages(8);
    for (unsigned flags : {0u, 1u, 2u, 3u, 8u, 11u, 0x10u, 0x80u, 0x80000000u}) {
        printf("flags %#x\n", flags);
        if (SAY(cuMemHostRegister(p, 2 * PAGE, flags)) == CUDA_SUCCESS)
            SAY(cuMemHostUnregister(p));
    }
    SAY(cuMemHostRegister(nullptr, 64, 0));
    SAY(cuMemHostRegister(p, 0, 0));
    SAY(cuMemHostRegister(p, PAGE, CU_MEMHOSTREGISTER_IOMEMORY));
    SAY(cuMemHostRegister(p + 100, 3000, 0));
    SAY(cuMemHostRegister(p + 100, 3000, 0));
    SAY(cuMemHostRegister(p + 200, 10, 0));
    SAY(cuMemHostRegister(p, PAGE, 0));
    // Neighbours in one page.
    SAY(cuMemHostRegister(p + 20, 40, 0));
    SAY(cuMemHostRegister(p + 3200, 100, 0));
    SAY(cuMemHostUnregister(p + 200));
    SAY(cuMemHostUnregister(p + 4 * PAGE));
    for (size_t at : {20, 100, 3200}) SAY(cuMemHostUnregister(p + at));
    void *host;
    DRIVER(cuMemHostAlloc(&host, PAGE, 0));
    SAY(cuMemHostRegister(host, 64, 0));
    SAY(cuMemHostUnregister(host));
    char *closed = pages(2, PROT_READ);
    SAY(cuMemHostRegister(closed, PAGE, 0));
    if (SAY(cuMemHostRegister(closed, PAGE, CU_MEMHOSTREGISTER_READ_ONLY)) == CUDA_SUCCESS)
        SAY(cuMemHostUnregister(closed));
    CUdeviceptr there;
    SAY(cuMemHostGetDevicePointer(&there, p, 0));
    SAY(cuMemHostGetDevicePointer(&there, host, 1));
    SAY(cuMemHostGetDevicePointer(&there, (char *)host + 9, 0));
    DRIVER(cuMemFreeHost(host));
}

static void ends() {
    char *p = pages(8), *d;
    cudaStream_t s;
    CHECK(cudaMalloc(&d, 8 * PAGE));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaHostRegister(p + PAGE, PAGE, 0));
    CHECK(cudaHostRegister(p + 2 * PAGE, PAGE, 0));
    CHECK(cudaHostRegister(p + 5 * PAGE + 64, 128, 0));
    struct {
        const char *what;
        size_t from, n;
    } all[] = {
        {"one", PAGE, PAGE},          {"none", 3 * PAGE, 2 * PAGE}, {"part", PAGE + 8, 16},
        {"two", PAGE, 2 * PAGE},      {"beyond", 2 * PAGE, PAGE + 1}, {"into", 0, PAGE + 1},
        {"around", 5 * PAGE, PAGE},
    };
    const auto in = cudaMemcpyHostToDevice, out = cudaMemcpyDeviceToHost;
    for (auto &e : all) {
        char *h = p + e.from;
        printf("%s\n", e.what);
        SAY(cudaMemcpy(d, h, e.n, in));
        SAY(cudaMemcpy(h, d, e.n, out));
        SAY(cudaMemcpyAsync(d, h, e.n, in, s));
        SAY(cudaMemcpyAsync(h, d, e.n, out, s));
        SAY(cudaMemcpy2D(d, e.n, h, e.n, e.n, 1, in));
        CHECK(cudaStreamSynchronize(s));
    }
}

static void note(void *arg) {
    int **both = (int **)arg;
    *both[0] = *both[1];
}

// A word in a page with others, in each way to know that its kernel is done.
static void neighbours() {
    char *page = pages(2);
    int *word = (int *)(page + 200), *there, *d, sink[64];
    CHECK(cudaHostRegister(word, 64, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer((void **)&there, word, 0));
    CHECK(cudaMalloc(&d, PAGE));
    CHECK(cudaMemset(d, 0, PAGE));
    cudaStream_t s;
    cudaEvent_t e;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int way = 0; way < 9; way++) {
        cudaStream_t on = way >= 5 && way <= 7 ? 0 : s;
        word[1] = way;
        word[-1] = -way;
        late<<<1, 1, 0, on>>>(there, 100 + way, 20000000);
        int seen = 0;
        int *both[2] = {&seen, word};
        switch (way) {
        case 0: CHECK(cudaStreamSynchronize(s)); break;
        case 1: CHECK(cudaDeviceSynchronize()); break;
        case 2:
            while (cudaStreamQuery(s) == cudaErrorNotReady) {}
            break;
        case 3:
            CHECK(cudaEventRecord(e, s));
            CHECK(cudaEventSynchronize(e));
            break;
        case 4:
            CHECK(cudaEventRecord(e, s));
            while (cudaEventQuery(e) == cudaErrorNotReady) {}
            break;
        case 5: CHECK(cudaMemcpy(sink, d, 64, cudaMemcpyDeviceToHost)); break;
        case 6: CHECK(cudaMemcpyAsync(sink, d, 64, cudaMemcpyDeviceToHost, 0)); break;
        case 7: CHECK(cudaMemcpy2D(sink, 64, d, 64, 64, 2, cudaMemcpyDeviceToHost)); break;
        default:
            CHECK(cudaLaunchHostFunc(s, note, both));
            CHECK(cudaStreamSynchronize(s));
        }
        if (way == 6) CHECK(cudaStreamSynchronize(0));
        printf("way %d: %d %d %d, in a function %d\n", way, word[-1], word[0], word[1], seen);
    }
    CHECK(cudaHostUnregister(word));
}

// Memory with another mapping, a file, another process.
static void shared(int n) {
    size_t bytes = n * PAGE;
    int count = bytes / 4, file = memfd_create("shared", 0);
    EXPECT(ftruncate(file, bytes) == 0);
    int rw = PROT_READ | PROT_WRITE;
    int *a = (int *)mmap(nullptr, bytes, rw, MAP_SHARED, file, 0);
    int *b = (int *)mmap(nullptr, bytes, rw, MAP_SHARED, file, 0);
    int *both = (int *)mmap(nullptr, bytes, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *d;
    CHECK(cudaMalloc(&d, bytes));
    std::vector<int> back(count);
    for (int *p : {a, both}) {
        int *there;
        CHECK(cudaHostRegister(p, bytes, cudaHostRegisterMapped));
        CHECK(cudaHostGetDevicePointer((void **)&there, p, 0));
        for (int round = 0; round < 3; round++) {
            fill<<<(count + 255) / 256, 256>>>(there, count, 1000 * round);
            CHECK(cudaDeviceSynchronize());
            if (p == a) {
                int last = -1, wrong = 0, put = 77 + round;
                EXPECT(pread(file, &last, 4, bytes - 4) == 4);
                for (int i = 0; i < count; i++) wrong += b[i] != 1000 * round + i;
                printf("%d pages, a file: last %d, wrong %d\n", n, last, wrong);
                b[5] = put;
                EXPECT(pwrite(file, &put, 4, bytes - 4) == 4);
            } else {
                pid_t child = fork();
                if (child == 0) {
                    int wrong = 0;
                    for (int i = 0; i < count; i++) wrong += p[i] != 1000 * round + i;
                    p[5] = p[count - 1] = 88 + round;
                    _exit(wrong ? 1 : 0);
                }
                int status = -1;
                waitpid(child, &status, 0);
                printf("%d pages, a child: %d\n", n, status);
            }
            copy<<<(count + 255) / 256, 256>>>(d, there, count);
            CHECK(cudaMemcpy(back.data(), d, bytes, cudaMemcpyDeviceToHost));
            printf("on the device: %d %d %d\n", back[4], back[5], back[count - 1]);
        }
        CHECK(cudaHostUnregister(p));
    }
}

static void many() {
    const int MANY = 3000;
    char *p = pages(3 * MANY);
    int right = 0, changed = 0, *d;
    CHECK(cudaMalloc(&d, 4 * MANY));
    auto cell = [&](int i) { return (int *)(p + 3 * PAGE * i) + i % 2000; };
    for (int i = 0; i < MANY; i++) {
        int *there;
        CHECK(cudaHostRegister(p + 3 * PAGE * i, 2 * PAGE, cudaHostRegisterMapped));
        CHECK(cudaHostGetDevicePointer((void **)&there, cell(i), 0));
        fill<<<1, 1>>>(there, 1, 7 + i);
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < MANY; i++) right += *cell(i) == 7 + i;
    for (int i = 0; i < MANY; i++) *cell(i) += 5;
    for (int i = 0; i < MANY; i++)
        CHECK(cudaMemcpyAsync(d + i, cell(i), 4, cudaMemcpyDefault));
    std::vector<int> back(MANY);
    CHECK(cudaMemcpy(back.data(), d, 4 * MANY, cudaMemcpyDeviceToHost));
    for (int i = 0; i < MANY; i++) changed += back[i] == 12 + i;
    for (int i = 0; i < MANY; i++) CHECK(cudaHostUnregister(p + 3 * PAGE * i));
    printf("many: %d right, %d changed\n", right, changed);
}

int main() {
    CHECK(cudaFree(nullptr));
    requests();
    ends();
    neighbours();
    for (int n : {1, 40, 1000}) shared(n);
    many();
    printf("done\n");
}
