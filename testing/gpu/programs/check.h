// What the programs here share: every call that must succeed goes through CHECK, every result that
// must be right through EXPECT. Lines on stdout are the same on every run and every machine.
#pragma once
#include <cuda_runtime_api.h>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t rc_ = (call);                                                                 \
        if (rc_ != cudaSuccess) {                                                                 \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(rc_));          \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define EXPECT(condition)                                                                         \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)
