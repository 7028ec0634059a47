// What a profiler hears of a program: CUPTI's records of calls, kernels, copies and fills, in the
// order of the calls that caused them. What differs from run to run (times, numbers of streams) is
// left out, or is checked here: work begins after its call does and ends after it begins.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cupti.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#define MUST(call)                                                                     \
    do {                                                                               \
        int rc_ = static_cast<int>(call);                                              \
        if (rc_ != 0) {                                                                \
            printf("%s: %d\n", #call, rc_);                                            \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

namespace {

struct Line {
    uint32_t correlation;
    int order;
    std::string text;
};

struct Span {
    uint64_t start, end;
};

std::vector<Line> lines;
std::map<uint32_t, Span> calls, work;
std::map<uint32_t, int> streams;
size_t completed;

void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *records) {
    *size = 1 << 20;
    *buffer = static_cast<uint8_t *>(aligned_alloc(8, *size));
    *records = 0;
}

int stream(uint32_t id) {
    return streams.try_emplace(id, static_cast<int>(streams.size())).first->second;
}

void say(uint32_t correlation, int order, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lines.push_back({correlation, order, text});
}

void worked(uint32_t correlation, uint64_t start, uint64_t end) {
    if (start == 0 || end < start) say(correlation, 9, "  ends before it begins");
    auto [it, fresh] = work.try_emplace(correlation, Span{start, end});
    it->second.start = std::min(it->second.start, start);
}

void call(const char *of, CUpti_CallbackDomain domain, const CUpti_ActivityAPI *a) {
    const char *name = "?";
    MUST(cuptiGetCallbackName(domain, a->cbid, &name));
    say(a->correlationId, of[0] == 'r' ? 0 : 1, "%s %s (%u) -> %u", of, name, a->cbid,
        a->returnValue);
    if (a->end < a->start) say(a->correlationId, 9, "  ends before it begins");
    auto [it, fresh] = calls.try_emplace(a->correlationId, Span{a->start, a->end});
    it->second.start = std::min(it->second.start, a->start);
}

void CUPTIAPI complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
    ++completed;
    CUpti_Activity *r = nullptr;
    while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_SUCCESS) {
        switch (r->kind) {
        case CUPTI_ACTIVITY_KIND_RUNTIME:
            call("runtime", CUPTI_CB_DOMAIN_RUNTIME_API,
                 reinterpret_cast<CUpti_ActivityAPI *>(r));
            break;
        case CUPTI_ACTIVITY_KIND_DRIVER:
            call("driver", CUPTI_CB_DOMAIN_DRIVER_API,
                 reinterpret_cast<CUpti_ActivityAPI *>(r));
            break;
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
            auto *k = reinterpret_cast<CUpti_ActivityKernel9 *>(r);
            say(k->correlationId, 2,
                "  kernel %s grid %d %d %d block %d %d %d shared %d+%d registers %s device %u "
                "stream %d cluster %u %u %u graph %d",
                k->name, k->gridX, k->gridY, k->gridZ, k->blockX, k->blockY, k->blockZ,
                k->staticSharedMemory, k->dynamicSharedMemory,
                k->registersPerThread ? "some" : "none", k->deviceId, stream(k->streamId),
                k->clusterX, k->clusterY, k->clusterZ, k->graphNodeId != 0);
            worked(k->correlationId, k->start, k->end);
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            auto *m = reinterpret_cast<CUpti_ActivityMemcpy6 *>(r);
            say(m->correlationId, 2,
                "  copy %u (%u to %u) of %llu bytes, flags %u, device %u stream %d graph %d",
                m->copyKind, m->srcKind, m->dstKind, (unsigned long long)m->bytes, m->flags,
                m->deviceId, stream(m->streamId), m->graphNodeId != 0);
            worked(m->correlationId, m->start, m->end);
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            auto *m = reinterpret_cast<CUpti_ActivityMemset4 *>(r);
            // Natively a graph's fill has some other fill's value.
            if (m->graphNodeId) m->value = 0;
            say(m->correlationId, 2, "  fill with %u of %llu bytes, kind %u, stream %d graph %d",
                m->value, (unsigned long long)m->bytes, m->memoryKind, stream(m->streamId),
                m->graphNodeId != 0);
            worked(m->correlationId, m->start, m->end);
            break;
        }
        case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
            auto *e = reinterpret_cast<CUpti_ActivityExternalCorrelation *>(r);
            say(e->correlationId, 3, "  of %u:%llu", e->externalKind,
                (unsigned long long)e->externalId);
            break;
        }
        default:
            say(0, 9, "kind %d", r->kind);
        }
    }
    size_t dropped = 0;
    MUST(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
    if (dropped) say(0, 9, "%zu dropped", dropped);
    free(buffer);
}

/// Prints what has come, by the calls in their order.
void print(const char *title) {
    MUST(cuptiActivityFlushAll(1));
    std::stable_sort(lines.begin(), lines.end(), [](const Line &a, const Line &b) {
        return std::tie(a.correlation, a.order) < std::tie(b.correlation, b.order);
    });
    printf("%s: %s\n", title, completed ? "records came" : "none came");
    for (auto &l : lines) printf("%s\n", l.text.c_str());
    for (auto &[id, w] : work) {
        auto c = calls.find(id);
        if (c == calls.end()) continue;
        if (w.start < c->second.start) printf("work begins before its call\n");
    }
    lines.clear();
    calls.clear();
    work.clear();
    completed = 0;
}

__global__ void fill(int *p, int n, int with) {
    __shared__ int s[32];
    s[threadIdx.x % 32] = with;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = s[threadIdx.x % 32];
}

void turn(bool on, std::vector<CUpti_ActivityKind> kinds) {
    for (auto k : kinds) MUST(on ? cuptiActivityEnable(k) : cuptiActivityDisable(k));
}

}  // namespace

int main() {
    const std::vector<CUpti_ActivityKind> of_work = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                     CUPTI_ACTIVITY_KIND_MEMCPY,
                                                     CUPTI_ACTIVITY_KIND_MEMSET};
    const std::vector<CUpti_ActivityKind> of_calls = {CUPTI_ACTIVITY_KIND_RUNTIME,
                                                      CUPTI_ACTIVITY_KIND_DRIVER};
    uint32_t version = 0;
    MUST(cuptiGetVersion(&version));
    uint64_t t0 = 0, t1 = 0;
    MUST(cuptiGetTimestamp(&t0));
    MUST(cuptiGetTimestamp(&t1));
    printf("version %s, times %s\n", version ? "some" : "none", t0 && t1 >= t0 ? "go on" : "?");
    MUST(cuptiActivityRegisterCallbacks(request, complete));

    const int n = 1 << 20;
    int *d, *h;
    std::vector<int> pageable(n);
    MUST(cudaMalloc(&d, n * sizeof(int)));
    MUST(cudaMallocHost(&h, n * sizeof(int)));
    cudaStream_t s;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    fill<<<1, 32>>>(d, 1, 0);
    MUST(cudaDeviceSynchronize());

    turn(true, of_work);
    turn(true, of_calls);
    turn(true, {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
    fill<<<n / 256, 256>>>(d, n, 7);
    MUST(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 4711));
    MUST(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 12));
    fill<<<dim3(2, 3, 4), dim3(8, 4, 2), 1024, s>>>(d, n, 8);
    MUST(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 4712));
    MUST(cudaMemsetAsync(d, 3, 4096, s));
    uint64_t last = 0;
    MUST(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
    printf("popped %llu\n", (unsigned long long)last);
    MUST(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
    MUST(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, &last));
    printf("and then: %d\n",
           cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, &last));
    MUST(cudaMemcpyAsync(h, d, n * sizeof(int), cudaMemcpyDeviceToHost, s));
    MUST(cudaMemcpyAsync(d, h, n * sizeof(int), cudaMemcpyHostToDevice, s));
    MUST(cudaMemcpyAsync(d, d + n / 2, 4 << 10, cudaMemcpyDeviceToDevice, s));
    MUST(cudaStreamSynchronize(s));
    MUST(cudaMemcpy(pageable.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(d, pageable.data(), 4096, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(d, pageable.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    MUST(cuMemsetD32((CUdeviceptr)d, 5, 1024));
    MUST(cudaDeviceSynchronize());
    print("calls and work");

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    fill<<<4, 64, 0, s>>>(d, n, 1);
    MUST(cudaMemsetAsync(d, 0, 128, s));
    fill<<<5, 64, 0, s>>>(d, n, 2);
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaStreamSynchronize(s));
    MUST(cuptiActivityFlushAll(1));
    lines.clear();
    for (int i = 0; i < 2; ++i) MUST(cudaGraphLaunch(exec, s));
    MUST(cudaStreamSynchronize(s));
    print("a graph, twice");

    turn(false, of_calls);
    fill<<<6, 64, 0, s>>>(d, n, 1);
    MUST(cudaStreamSynchronize(s));
    print("work alone");
    turn(false, of_work);
    fill<<<7, 64, 0, s>>>(d, n, 1);
    MUST(cudaStreamSynchronize(s));
    print("nothing");
    turn(true, of_work);
    fill<<<8, 64, 0, s>>>(d, n, 1);
    MUST(cudaStreamSynchronize(s));
    print("again");
    MUST(cudaFree(d));
    return 0;
}
