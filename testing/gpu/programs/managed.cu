// Managed memory: host and device take turns. Plain output, the same natively and through Busbar.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define OK(call)                                                                         \
    do {                                                                                 \
        cudaError_t e = (call);                                                          \
        if (e != cudaSuccess) {                                                          \
            printf("%s: %s\n", #call, cudaGetErrorName(e));                              \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

__managed__ int counter = 5;
__managed__ float table[3000] = {1.5f, 2.5f};

struct Node {
    int value;
    Node *next;
};

__global__ void add(int *p, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += gridDim.x * blockDim.x) p[i] += by;
}
__global__ void count() { atomicAdd(&counter, 1); }
__global__ void twice() {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 3000) table[i] = table[i] * 2 + i;
}
__global__ void walk(Node *n) {
    for (; n; n = n->next) n->value *= 3;
}

int main() {
    const int n = 4 << 20;
    int *p;
    OK(cudaMallocManaged(&p, n * sizeof(int)));
    for (int i = 0; i < n; i++) p[i] = i;
    for (int round = 0; round < 3; round++) {
        add<<<256, 256>>>(p, n, 10);
        OK(cudaDeviceSynchronize());
        long long sum = 0;
        for (int i = 0; i < n; i++) sum += p[i];
        printf("round %d sum %lld\n", round, sum);
        p[round] = -1;
    }
    // Without a call in between but the copy.
    OK(cudaMemset(p, 1, n * sizeof(int)));
    OK(cudaDeviceSynchronize());
    printf("memset %d %d\n", p[0], p[n - 1]);
    int *d;
    OK(cudaMalloc(&d, n * sizeof(int)));
    p[7] = 70;
    OK(cudaMemcpy(d, p, n * sizeof(int), cudaMemcpyDefault));
    add<<<256, 256>>>(d, n, 1);
    OK(cudaMemcpy(p, d, n * sizeof(int), cudaMemcpyDefault));
    OK(cudaDeviceSynchronize());
    printf("copied %d %d\n", p[6], p[7]);

    count<<<4, 32>>>();
    twice<<<12, 256>>>();
    OK(cudaDeviceSynchronize());
    printf("variables %d %g %g %g\n", counter, table[0], table[1], table[2999]);
    counter = 1000;
    count<<<1, 1>>>();
    OK(cudaDeviceSynchronize());
    printf("counter %d\n", counter);

    Node *list = nullptr;
    for (int i = 0; i < 200; i++) {
        Node *x;
        OK(cudaMallocManaged(&x, sizeof(Node)));
        x->value = i;
        x->next = list;
        list = x;
    }
    walk<<<1, 1>>>(list);
    OK(cudaDeviceSynchronize());
    int sum = 0;
    for (Node *x = list; x; x = x->next) sum += x->value;
    printf("list %d\n", sum);

    cudaStream_t s;
    cudaEvent_t done;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaEventCreate(&done));
    add<<<64, 256, 0, s>>>(p, n, 5);
    OK(cudaEventRecord(done, s));
    OK(cudaEventSynchronize(done));
    printf("after an event %d %d\n", p[7], p[n - 1]);

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    add<<<64, 256, 0, s>>>(p, n, 1);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        p[100] = 1000 * i;
        OK(cudaGraphLaunch(exec, s));
        OK(cudaStreamSynchronize(s));
        printf("graph %d %d\n", p[99], p[100]);
    }
    cudaPointerAttributes a;
    OK(cudaPointerGetAttributes(&a, p));
    printf("managed %d\n", a.type == cudaMemoryTypeManaged);
    OK(cudaFree(p));
    OK(cudaFree(d));
    printf("done\n");
}
