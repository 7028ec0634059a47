// cuBLAS, cuFFT, cuSOLVER, cuSPARSE and cuRAND, each once, with results that can be known
// beforehand.
#include "check.h"
#include <cmath>
#include <cublas_v2.h>
#include <cufft.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusparse.h>
#include <vector>

template <typename T> static T *device(const std::vector<T> &v) {
    T *p;
    CHECK(cudaMalloc((void **)&p, v.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

template <typename T> static std::vector<T> host(const T *p, size_t n) {
    std::vector<T> v(n);
    CHECK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

static void blas() {
    const int n = 256;
    std::vector<float> ones(n * n, 1.0f);
    float *a = device(ones), *c = device(ones), one = 1, two = 2;
    cublasHandle_t h;
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    EXPECT(cublasCreate(&h) == CUBLAS_STATUS_SUCCESS);
    EXPECT(cublasSetStream(h, s) == CUBLAS_STATUS_SUCCESS);
    EXPECT(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &two, a, n, a, n, &one, c, n) ==
           CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(s));
    for (float x : host(c, n * n)) EXPECT(x == 2.0f * n + 1);
    float dot = 0;
    EXPECT(cublasSdot(h, n * n, a, 1, a, 1, &dot) == CUBLAS_STATUS_SUCCESS);
    EXPECT(cublasDestroy(h) == CUBLAS_STATUS_SUCCESS);
    printf("cublas: dot %.0f\n", dot);
}

static void fft() {
    const int n = 1024;
    std::vector<cufftComplex> v(n);
    for (int i = 0; i < n; i++) v[i] = {std::cos(2 * float(M_PI) * 5 * i / n), 0};
    cufftComplex *d = device(v);
    cufftHandle plan;
    EXPECT(cufftPlan1d(&plan, n, CUFFT_C2C, 1) == CUFFT_SUCCESS);
    EXPECT(cufftExecC2C(plan, d, d, CUFFT_FORWARD) == CUFFT_SUCCESS);
    auto f = host(d, n);
    for (int i = 0; i < n; i++)
        EXPECT(std::fabs(std::hypot(f[i].x, f[i].y) - (i == 5 || i == n - 5 ? n / 2 : 0)) < 0.1);
    EXPECT(cufftDestroy(plan) == CUFFT_SUCCESS);
    printf("cufft\n");
}

static void solver() {
    const int n = 64;
    std::vector<double> a(n * n, 1.0), b(n, n + 1.0);
    for (int i = 0; i < n; i++) a[i * n + i] = 2.0;
    double *da = device(a), *db = device(b), *work;
    int *info = device(std::vector<int>(1)), *pivots = device(std::vector<int>(n)), size;
    cusolverDnHandle_t h;
    EXPECT(cusolverDnCreate(&h) == CUSOLVER_STATUS_SUCCESS);
    EXPECT(cusolverDnDgetrf_bufferSize(h, n, n, da, n, &size) == CUSOLVER_STATUS_SUCCESS);
    CHECK(cudaMalloc((void **)&work, size * sizeof(double)));
    EXPECT(cusolverDnDgetrf(h, n, n, da, n, work, pivots, info) == CUSOLVER_STATUS_SUCCESS);
    EXPECT(cusolverDnDgetrs(h, CUBLAS_OP_N, n, 1, da, n, pivots, db, n, info) ==
           CUSOLVER_STATUS_SUCCESS);
    for (double x : host(db, n)) EXPECT(std::fabs(x - 1.0) < 1e-10);
    EXPECT(host(info, 1)[0] == 0);
    EXPECT(cusolverDnDestroy(h) == CUSOLVER_STATUS_SUCCESS);
    printf("cusolver\n");
}

static void sparse() {
    const int n = 100;
    std::vector<int> rows(n + 1), columns(n);
    std::vector<float> values(n), x(n, 2.0f);
    for (int i = 0; i < n; i++) rows[i + 1] = i + 1, columns[i] = n - 1 - i, values[i] = i;
    int *dr = device(rows), *dc = device(columns);
    float *dv = device(values), *dx = device(x), *dy = device(x), one = 1, zero = 0;
    cusparseHandle_t h;
    cusparseSpMatDescr_t m;
    cusparseDnVecDescr_t vx, vy;
    size_t size;
    void *buffer;
    EXPECT(cusparseCreate(&h) == CUSPARSE_STATUS_SUCCESS);
    EXPECT(cusparseCreateCsr(&m, n, n, n, dr, dc, dv, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F) == CUSPARSE_STATUS_SUCCESS);
    EXPECT(cusparseCreateDnVec(&vx, n, dx, CUDA_R_32F) == CUSPARSE_STATUS_SUCCESS);
    EXPECT(cusparseCreateDnVec(&vy, n, dy, CUDA_R_32F) == CUSPARSE_STATUS_SUCCESS);
    EXPECT(cusparseSpMV_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, m, vx, &zero, vy,
                                   CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT,
                                   &size) == CUSPARSE_STATUS_SUCCESS);
    CHECK(cudaMalloc(&buffer, size + 16));
    EXPECT(cusparseSpMV(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, m, vx, &zero, vy, CUDA_R_32F,
                        CUSPARSE_SPMV_ALG_DEFAULT, buffer) == CUSPARSE_STATUS_SUCCESS);
    auto y = host(dy, n);
    for (int i = 0; i < n; i++) EXPECT(y[i] == 2.0f * i);
    EXPECT(cusparseDestroy(h) == CUSPARSE_STATUS_SUCCESS);
    printf("cusparse\n");
}

static void numbers() {
    const int n = 1 << 16;
    std::vector<float> v(n);
    float *d = device(v);
    curandGenerator_t g;
    EXPECT(curandCreateGenerator(&g, CURAND_RNG_PSEUDO_PHILOX4_32_10) == CURAND_STATUS_SUCCESS);
    EXPECT(curandSetPseudoRandomGeneratorSeed(g, 1234) == CURAND_STATUS_SUCCESS);
    EXPECT(curandGenerateUniform(g, d, n) == CURAND_STATUS_SUCCESS);
    double sum = 0;
    for (float x : host(d, n)) sum += x;
    EXPECT(curandDestroyGenerator(g) == CURAND_STATUS_SUCCESS);
    printf("curand: %a\n", sum);
}

int main() {
    blas();
    fft();
    solver();
    sparse();
    numbers();
    printf("done\n");
}
