// For programs that print what each call says, right or wrong, and go on: a difference then shows
// everywhere it is, not only where it is first.
#pragma once
#include "check.h"
#include <cuda.h>

/// What was printed is there even if the next call ends the program.
static const int lines_ = setvbuf(stdout, nullptr, _IOLBF, 0);

static inline CUresult tell_(const char *what, CUresult rc) {
    const char *name = "?";
    cuGetErrorName(rc, &name);
    printf("%s: %s\n", what, name);
    return rc;
}

static inline cudaError_t tell_(const char *what, cudaError_t rc) {
    printf("%s: %s\n", what, cudaGetErrorName(rc));
    cudaGetLastError();
    return rc;
}

/// Prints a call, and what it says.
#define SAY(call) tell_(#call, call)

/// A driver call without which nothing that follows makes sense.
#define DRIVER(call)                                                                              \
    do {                                                                                          \
        CUresult rc_ = (call);                                                                    \
        if (rc_ != CUDA_SUCCESS) {                                                                \
            printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)rc_);                       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)
