// What kernels print comes with whatever waits for them, all of it and in order; what a failed
// assertion says goes to stderr, whole lines, before the error is seen.
#include "check.h"
#include <algorithm>
#include <cassert>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

__global__ void say(const char *what, int n) {
    char letter = what ? what[0] : '-';
    for (int i = 0; i < n; i++) printf("device %c line %d of %d\n", letter, i, n);
}

__global__ void must(int limit) { assert((int)threadIdx.x < limit); }

/// Sends descriptor `fd` into a file until it is asked back; everything written so far is flushed.
struct Captured {
    int fd, saved;
    FILE *file;
    explicit Captured(int fd) : fd(fd), saved(dup(fd)), file(tmpfile()) {
        fflush(stdout);
        fflush(stderr);
        dup2(fileno(file), fd);
    }
    std::vector<std::string> lines() {
        fflush(stdout);
        fflush(stderr);
        dup2(saved, fd);
        close(saved);
        std::vector<std::string> all;
        std::string line;
        lseek(fileno(file), 0, SEEK_SET);
        char c;
        while (read(fileno(file), &c, 1) == 1) {
            if (c == '\n') {
                all.push_back(line);
                line.clear();
            } else {
                line += c;
            }
        }
        if (!line.empty()) all.push_back(line + " (no end)");
        fclose(file);
        return all;
    }
};

static void expect(const char *what, const std::vector<std::string> &lines, int n) {
    bool right = (int)lines.size() == n;
    for (int i = 0; right && i < n; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "device - line %d of %d", i, n);
        right = lines[i] == wanted;
    }
    printf("%s: %zu lines, %s\n", what, lines.size(), right ? "in order" : "not as printed");
}

int main() {
    int *p, host;
    cudaStream_t s;
    cudaEvent_t e;
    CHECK(cudaMalloc((void **)&p, 4));
    CHECK(cudaMemset(p, 0, 4));
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&e));
    {
        Captured c(1);
        say<<<1, 1>>>(nullptr, 3);
        CHECK(cudaDeviceSynchronize());
        expect("device", c.lines(), 3);
    }
    {
        Captured c(1);
        say<<<1, 1, 0, s>>>(nullptr, 4);
        CHECK(cudaStreamSynchronize(s));
        expect("stream", c.lines(), 4);
    }
    {
        Captured c(1);
        say<<<1, 1>>>(nullptr, 5);
        CHECK(cudaMemcpy(&host, p, 4, cudaMemcpyDeviceToHost));
        CHECK(cudaDeviceSynchronize());
        expect("copy", c.lines(), 5);
    }
    {
        Captured c(1);
        say<<<1, 1, 0, s>>>(nullptr, 6);
        CHECK(cudaEventRecord(e, s));
        CHECK(cudaEventSynchronize(e));
        CHECK(cudaDeviceSynchronize());
        expect("event", c.lines(), 6);
    }
    {
        Captured c(1);
        for (int i = 0; i < 64; i++) say<<<1, 1>>>(nullptr, 1);
        CHECK(cudaDeviceSynchronize());
        auto lines = c.lines();
        printf("many kernels: %zu lines\n", lines.size());
    }
    CHECK(cudaDeviceReset());
    // More than a pipe holds.
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 64 << 20));
    {
        Captured c(1);
        say<<<1, 1>>>(nullptr, 60000);
        CHECK(cudaDeviceSynchronize());
        expect("much", c.lines(), 60000);
    }
    {
        Captured c(2);
        must<<<1, 32>>>(28);
        cudaError_t rc = cudaDeviceSynchronize();
        auto lines = c.lines();
        std::sort(lines.begin(), lines.end());
        printf("assert: %s, %zu lines on stderr\n", cudaGetErrorName(rc), lines.size());
        for (auto &l : lines) {
            auto at = l.find(": void must");
            if (at == std::string::npos) at = l.find(": must");
            printf("%s\n", at == std::string::npos ? l.c_str() : l.c_str() + at);
        }
    }
    void *q;
    printf("afterwards: %s\n", cudaGetErrorName(cudaMalloc(&q, 16)));
}
