// Kernels and a program that wait for words which the other one writes. They give up after PATIENCE
// seconds, which who includes this defines, so that a failure is not a hang.
#pragma once
#include <chrono>

using Clock = std::chrono::steady_clock;
typedef volatile unsigned Word;

__device__ bool wait_for(const Word *word, unsigned value) {
    long long until = clock64() + PATIENCE * 2000000000ll;
    while (*word != value)
        if (clock64() > until) return false;
    __threadfence_system();
    return true;
}

static bool until(const Word *word, unsigned value) {
    auto limit = Clock::now() + std::chrono::seconds(PATIENCE);
    while (*word != value)
        if (Clock::now() > limit) return false;
    return true;
}
