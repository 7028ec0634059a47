// Graphs that copy out and in again through the program's own memory (page-locked, registered and
// pageable), with functions between, rows, parts that overlap, children, changed nodes, and graphs
// that are destroyed while they run; and kernels that find page-locked memory through addresses in
// structures, in long parameters and in graphs' nodes.
#include "tell.h"
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

static const int N = 40000;
static const size_t BYTES = N * 4;
static unsigned *a, *b;
static cudaStream_t s, other;

__global__ void fill(unsigned *p, unsigned value, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = value;
}
__global__ void copy(unsigned *to, const unsigned *from, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

struct Node {
    long tag;
    unsigned *data;
    Node *next;
};
__global__ void walk(const Node *first, unsigned *sums, unsigned add) {
    int k = 0;
    for (const Node *n = first; n; n = n->next, k++) {
        unsigned sum = 0;
        for (int i = 0; i < 1000; i++) sum += n->data[i];
        sums[k] = sum;
        n->data[5] = add + k;
    }
}
struct Long {
    char room[2000];
    unsigned *data;
    char more[1000];
};
__global__ void reads_long(Long l, unsigned *sum) {
    unsigned all = 0;
    for (int i = 0; i < 1000; i++) all += l.data[i];
    *sum = all;
    l.data[7] = all;
}
__global__ void by_number(uint64_t address, unsigned *sum) {
    unsigned *p = (unsigned *)address;
    *sum = p[0] + p[999];
    p[1] = 4711;
}
__device__ unsigned *global_address;
__constant__ Node constant_node;
__global__ void through_global(unsigned *sum) {
    *sum = global_address[0] + constant_node.data[999];
    global_address[2] = 99;
}

static void show(const char *what, const unsigned *host) {
    CHECK(cudaStreamSynchronize(s));
    std::vector<unsigned> there(N);
    CHECK(cudaMemcpy(there.data(), b, BYTES, cudaMemcpyDeviceToHost));
    printf("%s:", what);
    for (int i : {0, 1, N / 2 - 1, N / 2, N / 2 + 1, N - 1}) printf(" %u/%u", host[i], there[i]);
    printf("\n");
}

struct Turn {
    unsigned *at;
    int n, us;
};
static void adds(void *data) {
    Turn *t = (Turn *)data;
    usleep(t->us);
    for (int i = 0; i < t->n; i++) t->at[i]++;
}

struct Both {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};
template <class F> static Both captured(F f) {
    Both g;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    f();
    CHECK(cudaStreamEndCapture(s, &g.graph));
    CHECK(cudaGraphInstantiate(&g.exec, g.graph, 0));
    return g;
}
static void end(Both g) {
    CHECK(cudaGraphExecDestroy(g.exec));
    CHECK(cudaGraphDestroy(g.graph));
}
static void set(unsigned value) { fill<<<1, 256, 0, s>>>(a, value, N); }
static void out(unsigned *host, size_t n) {
    CHECK(cudaMemcpyAsync(host, a, n, cudaMemcpyDeviceToHost, s));
}
static void in(unsigned *device, const unsigned *host, size_t n) {
    CHECK(cudaMemcpyAsync(device, host, n, cudaMemcpyHostToDevice, s));
}

static void graphs(unsigned *host, unsigned *second, bool pageable = false) {
    auto write = [&](unsigned value) { for (int i = 0; i < N; i++) host[i] = value; };
    Both g = captured([&] { out(host, BYTES); in(b, host, BYTES); });
    for (unsigned round = 1; round < 4; round++) {
        write(90 + round);
        set(round);
        CHECK(cudaGraphLaunch(g.exec, s));
        show("out and in", host);
    }
    for (unsigned round = 4; round < 8; round++) {
        set(round);
        CHECK(cudaGraphLaunch(g.exec, s));
    }
    show("again and again", host);
    end(g);

    Turn all = {host, N, 0}, slow = {host, N, 100000}, one = {second, 1, 50000};
    g = captured([&] {
        out(host, BYTES);
        CHECK(cudaLaunchHostFunc(s, adds, &all));
        in(a, host, BYTES);
        out(host, BYTES / 2);
        CHECK(cudaLaunchHostFunc(s, adds, &all));
        in(b, host, BYTES);
    });
    set(10);
    // Natively a copy from pageable memory may read before a function ahead of it has written: what
    // such a graph copies is not asked, here and below.
    for (int i = 0; i < 3 && !pageable; i++) {
        CHECK(cudaGraphLaunch(g.exec, s));
        show("functions", host);
    }
    end(g);

    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    write(1);
    set(77);
    g = captured([&] {
        CHECK(cudaEventRecord(fork, s));
        CHECK(cudaStreamWaitEvent(other, fork, 0));
        CHECK(cudaMemcpyAsync(host, a, BYTES / 2, cudaMemcpyDeviceToHost, other));
        CHECK(cudaEventRecord(join, other));
        CHECK(cudaLaunchHostFunc(s, adds, &one));
        CHECK(cudaStreamWaitEvent(s, join, 0));
        in(b, host, BYTES);
    });
    if (!pageable) {
        CHECK(cudaGraphLaunch(g.exec, s));
        show("beside a function", host);
    }
    end(g);

    for (size_t x : {0, 200, 400}) {
        g = captured([&] {
            CHECK(cudaMemcpy2DAsync(host, 800, a, 400, 400, 50, cudaMemcpyDeviceToHost, s));
            const char *from = (char *)host + x;
            CHECK(cudaMemcpy2DAsync(b, 400, from, 800, 400, 50, cudaMemcpyHostToDevice, s));
        });
        write(50);
        set(3);
        fill<<<1, 256, 0, s>>>(b, 0, N);
        CHECK(cudaGraphLaunch(g.exec, s));
        CHECK(cudaStreamSynchronize(s));
        unsigned back[5000], sum = 0, here = 0;
        CHECK(cudaMemcpy(back, b, sizeof back, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 5000; i++) sum += back[i];
        for (int i = 0; i < N; i++) here += host[i];
        printf("rows %zu: %u %u\n", x, sum, here);
        end(g);
    }

    g = captured([&] {
        out(host, BYTES / 2 + 400);
        in(b, host + N / 2, BYTES / 2);
        in(b + N / 2, host + 1, BYTES / 2);
    });
    for (unsigned round = 1; round < 3; round++) {
        write(70 + round);
        set(round);
        CHECK(cudaGraphLaunch(g.exec, s));
        show("parts", host);
    }
    end(g);
    Both first = captured([&] { out(host, BYTES / 2); });
    Both next = captured([&] { in(b, host, BYTES); });
    write(33);
    set(44);
    CHECK(cudaGraphLaunch(first.exec, s));
    CHECK(cudaGraphLaunch(next.exec, s));
    show("one after the other", host);
    end(next);

    cudaGraph_t outer;
    cudaGraphNode_t child, node;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, first.graph));
    const cudaMemcpyKind kind = cudaMemcpyHostToDevice;
    CHECK(cudaGraphAddMemcpyNode1D(&node, outer, &child, 1, b, host, BYTES, kind));
    CHECK(cudaGraphInstantiate(&exec, outer, 0));
    write(5);
    set(6);
    CHECK(cudaGraphLaunch(exec, s));
    show("a child", host);
    for (int i = 0; i < N; i++) second[i] = 8;
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, node, b, second, BYTES, kind));
    CHECK(cudaGraphLaunch(exec, s));
    show("another place", host);
    end({outer, exec});
    end(first);

    set(20);
    for (int i = 0; i < 2 && !pageable; i++) {
        g = captured([&] {
            out(host, BYTES);
            CHECK(cudaLaunchHostFunc(s, adds, &slow));
            in(b, host, BYTES);
            in(a, host, BYTES);
        });
        CHECK(cudaGraphLaunch(g.exec, s));
        end(g);
        show("destroyed while it runs", host);
    }
}

static void kernels(unsigned *host) {
    Both g = captured([&] {
        out(host, BYTES);
        copy<<<1, 256, 0, s>>>(b, host, N);
        fill<<<1, 256, 0, s>>>(host + N / 2, 3, 10);
        in(b, host + N / 2, BYTES / 4);
    });
    for (unsigned round = 1; round < 4; round++) {
        for (int i = 0; i < N; i++) host[i] = 60;
        set(round);
        CHECK(cudaGraphLaunch(g.exec, s));
        show("kernels", host);
    }
    end(g);
}

static unsigned *taken(bool registered) {
    unsigned *p;
    if (registered) {
        p = (unsigned *)malloc(20000) + 7;
        CHECK(cudaHostRegister(p, 16000, 0));
    } else {
        CHECK(cudaHostAlloc(&p, 16000, 0));
    }
    for (int i = 0; i < 4000; i++) p[i] = 1;
    return p;
}
static void given(unsigned *p, bool registered) {
    if (registered) {
        CHECK(cudaHostUnregister(p));
        free(p - 7);
    } else {
        CHECK(cudaFreeHost(p));
    }
}

static void addresses(bool registered) {
    unsigned sums[3], *there;
    CHECK(cudaMalloc(&there, sizeof sums));
    auto tell = [&](const char *what, unsigned *p) {
        SAY(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(sums, there, sizeof sums, cudaMemcpyDeviceToHost));
        printf("%s: %u, %u %u %u %u\n", what, sums[0], p[1], p[2], p[5], p[7]);
    };
    unsigned *p = taken(registered), *q = taken(registered);
    q[0] = 100;
    Node *list, here[2];
    CHECK(cudaMalloc(&list, sizeof here));
    here[0] = {1, p, list + 1};
    here[1] = {2, q, nullptr};
    CHECK(cudaMemcpy(list, here, sizeof here, cudaMemcpyHostToDevice));
    walk<<<1, 1>>>(list, there, 200);
    tell("a list", p);
    printf("%u %u\n", sums[1], q[5]);
    p[0] = 50;
    walk<<<1, 1>>>(list, there, 300);
    tell("the list again", p);
    given(q, registered);
    given(p, registered);

    p = taken(registered);
    Long l = {};
    l.data = p;
    reads_long<<<1, 1>>>(l, there);
    tell("a long parameter", p);
    given(p, registered);

    unsigned *device;
    CHECK(cudaMalloc(&device, 16000));
    CHECK(cudaMemset(device, 0, 16000));
    p = taken(registered);
    for (int i = 0; i < 8; i++) {
        l.data = i < 6 ? device : p;
        reads_long<<<1, 1>>>(l, there);
    }
    tell("from the seventh launch on", p);
    given(p, registered);

    p = taken(registered);
    by_number<<<1, 1>>>((uint64_t)p, there);
    tell("a number", p);
    given(p, registered);

    p = taken(registered);
    cudaPointerAttributes known;
    CHECK(cudaPointerGetAttributes(&known, p));
    printf("%d %d\n", known.devicePointer == p, (int)known.type);
    here[0] = {1, (unsigned *)known.devicePointer, nullptr};
    CHECK(cudaMemcpy(list, here, sizeof here[0], cudaMemcpyHostToDevice));
    walk<<<1, 1>>>(list, there, 400);
    tell("by its attributes", p);
    given(p, registered);

    p = taken(registered);
    Node constant = {1, p, nullptr};
    CHECK(cudaMemcpyToSymbol(global_address, &p, sizeof p));
    CHECK(cudaMemcpyToSymbol(constant_node, &constant, sizeof constant));
    through_global<<<1, 1>>>(there);
    tell("module variables", p);
    given(p, registered);

    Node *managed;
    CHECK(cudaMallocManaged(&managed, sizeof(Node)));
    p = taken(registered);
    *managed = {1, p, nullptr};
    walk<<<1, 1>>>(managed, there, 500);
    tell("managed memory", p);
    CHECK(cudaFree(managed));
    given(p, registered);

    p = taken(registered);
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    unsigned value = 9;
    int n = 3;
    unsigned *at = p + 5;
    void *args[] = {&at, &value, &n};
    cudaKernelNodeParams k = {};
    k.func = (void *)fill;
    k.gridDim = k.blockDim = dim3(1);
    k.kernelParams = args;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &k));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, s));
    tell("a node", p);
    end({graph, exec});
    given(p, registered);
    CHECK(cudaFree(device));
    CHECK(cudaFree(list));
    CHECK(cudaFree(there));
}

int main() {
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&a, BYTES));
    CHECK(cudaMalloc(&b, BYTES));
    for (const char *kind : {"page-locked", "registered", "pageable"}) {
        printf("%s\n", kind);
        unsigned *host;
        bool pinned = !strcmp(kind, "page-locked");
        if (pinned) CHECK(cudaHostAlloc(&host, 2 * BYTES + 64, 0));
        else host = (unsigned *)malloc(2 * BYTES + 80) + 3;
        if (!strcmp(kind, "registered")) CHECK(cudaHostRegister(host, 2 * BYTES + 64, 0));
        graphs(host, host + N + 3, !strcmp(kind, "pageable"));
        if (strcmp(kind, "pageable")) {
            kernels(host);
            graphs(host, host + N + 3);
        }
        if (pinned) CHECK(cudaFreeHost(host));
        else if (!strcmp(kind, "registered")) CHECK(cudaHostUnregister(host));
        if (!pinned) free(host - 3);
    }
    for (bool registered : {false, true}) {
        printf("addresses, registered: %d\n", registered);
        addresses(registered);
    }
    printf("done\n");
    return 0;
}
