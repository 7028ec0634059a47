// What CUDA's documentation says of the capture of streams. See doc.h.
#include "doc.h"

static const cudaStreamCaptureMode GLOBAL = cudaStreamCaptureModeGlobal,
                                   LOCAL = cudaStreamCaptureModeThreadLocal,
                                   RELAXED = cudaStreamCaptureModeRelaxed;

static cudaStreamCaptureStatus status(cudaStream_t s) {
    cudaStreamCaptureStatus got = (cudaStreamCaptureStatus)9;
    OK(cudaStreamIsCapturing(s, &got));
    return got;
}
static bool active(cudaStream_t s) { return status(s) == cudaStreamCaptureStatusActive; }
static bool invalid(cudaStream_t s) { return status(s) == cudaStreamCaptureStatusInvalidated; }
/// Ends a capture that was invalidated: there is no graph.
static void ends_invalid(cudaStream_t s) {
    cudaGraph_t g = (cudaGraph_t)8;
    IS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    HOLDS(g == nullptr);
    HOLDS(status(s) == cudaStreamCaptureStatusNone);
    cudaGetLastError();
}
static size_t nodes(cudaGraph_t g) {
    size_t n = 99;
    OK(cudaGraphGetNodes(g, nullptr, &n));
    return n;
}

DOC("work in a stream that captures is not done, it becomes a graph") {
    Stream s;
    Memory m(4);
    OK(cudaMemset(m.p, 0, 4));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(s, GLOBAL));
    put<<<1, 1, 0, s>>>(m.ints(), 5);
    add<<<1, 1, 0, s>>>(m.ints(), 2);
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    HOLDS(nodes(g) == 2 && value(m.p) == 0);
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 7);
    OK(cudaGraphExecDestroy(x));
    OK(cudaGraphDestroy(g));
}
DOC("a stream's status says whether it captures") {
    Stream s;
    HOLDS(status(s) == cudaStreamCaptureStatusNone);
    OK(cudaStreamBeginCapture(s, LOCAL));
    HOLDS(active(s));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    HOLDS(status(s) == cudaStreamCaptureStatusNone);
    HOLDS(nodes(g) == 0);
    OK(cudaGraphDestroy(g));
}
DOC("capture may not begin in the legacy stream") {
    IS(cudaStreamBeginCapture(nullptr, GLOBAL), cudaErrorStreamCaptureUnsupported);
    IS(cudaStreamBeginCapture(cudaStreamLegacy, RELAXED), cudaErrorStreamCaptureUnsupported);
}
DOC("capture may begin in the default stream of a thread") {
    OK(cudaStreamBeginCapture(cudaStreamPerThread, LOCAL));
    HOLDS(active(cudaStreamPerThread));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(cudaStreamPerThread, &g));
    OK(cudaGraphDestroy(g));
}
DOC("capture may not begin twice, and no mode but the three is taken") {
    Stream s;
    IS(cudaStreamBeginCapture(s, (cudaStreamCaptureMode)7), cudaErrorInvalidValue);
    OK(cudaStreamBeginCapture(s, LOCAL));
    REFUSED(cudaStreamBeginCapture(s, LOCAL));
    cudaGraph_t g = nullptr;
    cudaStreamEndCapture(s, &g);
    if (g) cudaGraphDestroy(g);
}
DOC("ending a capture that did not begin is an illegal state") {
    Stream s;
    cudaGraph_t g;
    IS(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);
    IS(cuStreamEndCapture(s, &g), CUDA_ERROR_ILLEGAL_STATE);
}
DOC("synchronizing a stream that captures is unsupported and invalidates the capture") {
    Stream s;
    OK(cudaStreamBeginCapture(s, RELAXED));
    IS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    HOLDS(invalid(s));
    ends_invalid(s);
}
DOC("querying a stream that captures is unsupported and invalidates the capture") {
    Stream s;
    OK(cudaStreamBeginCapture(s, RELAXED));
    IS(cudaStreamQuery(s), cudaErrorStreamCaptureUnsupported);
    ends_invalid(s);
}
DOC("synchronizing the device while a stream captures is unsupported") {
    Stream s;
    OK(cudaStreamBeginCapture(s, RELAXED));
    IS(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    ends_invalid(s);
}
DOC("work in a capture that was invalidated is refused") {
    Stream s;
    Memory m(4);
    OK(cudaStreamBeginCapture(s, RELAXED));
    IS(cudaStreamQuery(s), cudaErrorStreamCaptureUnsupported);
    cudaGetLastError();
    IS(cudaMemsetAsync(m.p, 0, 4, s), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    put<<<1, 1, 0, s>>>(m.ints(), 1);
    IS(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    ends_invalid(s);
}
DOC("work in the legacy stream while a blocking stream captures is an implicit dependency") {
    Stream s(cudaStreamDefault);
    Memory m(4);
    OK(cudaStreamBeginCapture(s, RELAXED));
    IS(cudaMemsetAsync(m.p, 0, 4, nullptr), cudaErrorStreamCaptureImplicit);
    HOLDS(invalid(s));
    ends_invalid(s);
}
DOC("work in the legacy stream while a non-blocking stream captures in relaxed mode is done") {
    Stream s;
    Memory m(4);
    OK(cudaStreamBeginCapture(s, RELAXED));
    OK(cudaMemsetAsync(m.p, 1, 4, nullptr));
    OK(cudaStreamSynchronize(nullptr));
    HOLDS(active(s));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
}
DOC("the status of the legacy stream while a blocking stream captures is an implicit dependency") {
    Stream s(cudaStreamDefault);
    OK(cudaStreamBeginCapture(s, RELAXED));
    cudaStreamCaptureStatus got;
    IS(cudaStreamIsCapturing(nullptr, &got), cudaErrorStreamCaptureImplicit);
    cudaGetLastError();
    HOLDS(active(s));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
}
DOC("a call that may be unsafe is refused in a thread that captures in global mode") {
    Stream s;
    OK(cudaStreamBeginCapture(s, GLOBAL));
    void *p;
    IS(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
    HOLDS(invalid(s));
    ends_invalid(s);
}
DOC("a call that may be unsafe is refused in other threads, too, in global mode") {
    Stream s;
    OK(cudaStreamBeginCapture(s, GLOBAL));
    cudaError_t said = cudaSuccess;
    std::thread([&] {
        void *p;
        said = cudaMalloc(&p, 4);
    }).join();
    IS(said, cudaErrorStreamCaptureUnsupported);
    ends_invalid(s);
}
DOC("a call that may be unsafe is allowed in other threads in thread-local mode") {
    Stream s;
    OK(cudaStreamBeginCapture(s, LOCAL));
    std::thread([&] {
        void *p;
        OK(cudaMalloc(&p, 4));
        OK(cudaFree(p));
    }).join();
    HOLDS(active(s));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
}
DOC("a call that may be unsafe is allowed in relaxed mode") {
    Stream s;
    OK(cudaStreamBeginCapture(s, RELAXED));
    void *p;
    OK(cudaMalloc(&p, 4));
    HOLDS(active(s));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
    OK(cudaFree(p));
}
DOC("a thread may exchange its mode, and gets the one that it had") {
    Stream s;
    cudaStreamCaptureMode mode = RELAXED;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == GLOBAL);
    OK(cudaStreamBeginCapture(s, GLOBAL));
    void *p;
    OK(cudaMalloc(&p, 4));
    HOLDS(active(s));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == RELAXED);
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
    OK(cudaFree(p));
}
DOC("a capture that is not relaxed must be ended by the thread that began it") {
    Stream s;
    OK(cudaStreamBeginCapture(s, LOCAL));
    cudaError_t said = cudaSuccess;
    cudaGraph_t g = nullptr;
    std::thread([&] { said = cudaStreamEndCapture(s, &g); }).join();
    IS(said, cudaErrorStreamCaptureWrongThread);
    cudaStreamEndCapture(s, &g);
    if (g) cudaGraphDestroy(g);
}
DOC("a relaxed capture may be ended by any thread") {
    Stream s;
    OK(cudaStreamBeginCapture(s, RELAXED));
    cudaGraph_t g = nullptr;
    std::thread([&] { OK(cudaStreamEndCapture(s, &g)); }).join();
    HOLDS(g != nullptr);
    OK(cudaGraphDestroy(g));
}
struct Fork {
    Stream a, b;
    cudaEvent_t e = nullptr, f = nullptr;
    Fork() {
        OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        OK(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));
    }
    ~Fork() {
        cudaEventDestroy(e);
        cudaEventDestroy(f);
    }
    void fork() {
        OK(cudaEventRecord(e, a));
        OK(cudaStreamWaitEvent(b, e, 0));
    }
    void join() {
        OK(cudaEventRecord(f, b));
        OK(cudaStreamWaitEvent(a, f, 0));
    }
};
DOC("a stream that waits for an event of a capture joins it") {
    Fork k;
    Memory m(8);
    OK(cudaStreamBeginCapture(k.a, LOCAL));
    k.fork();
    HOLDS(active(k.b));
    put<<<1, 1, 0, k.a>>>(m.ints(), 1);
    put<<<1, 1, 0, k.b>>>(m.ints() + 1, 2);
    k.join();
    cudaGraph_t g;
    OK(cudaStreamEndCapture(k.a, &g));
    HOLDS(status(k.b) == cudaStreamCaptureStatusNone);
    size_t roots = 0, edges = 9;
    OK(cudaGraphGetRootNodes(g, nullptr, &roots));
    OK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
    HOLDS(nodes(g) == 2 && roots == 2 && edges == 0);
    OK(cudaGraphDestroy(g));
}
DOC("a capture must be ended in the stream in which it began") {
    Fork k;
    Memory m(8);
    OK(cudaStreamBeginCapture(k.a, LOCAL));
    k.fork();
    cudaGraph_t g = nullptr;
    IS(cudaStreamEndCapture(k.b, &g), cudaErrorStreamCaptureUnmatched);
    cudaStreamEndCapture(k.a, &g);
    if (g) cudaGraphDestroy(g);
}
DOC("a capture with work that was forked and not joined cannot end: unjoined") {
    Fork k;
    Memory m(8);
    OK(cudaStreamBeginCapture(k.a, LOCAL));
    k.fork();
    put<<<1, 1, 0, k.b>>>(m.ints() + 1, 2);
    cudaGraph_t g = (cudaGraph_t)8;
    IS(cudaStreamEndCapture(k.a, &g), cudaErrorStreamCaptureUnjoined);
    HOLDS(g == nullptr);
    HOLDS(status(k.a) == cudaStreamCaptureStatusNone);
    HOLDS(status(k.b) == cudaStreamCaptureStatusNone);
}
DOC("joining two captures would merge them") {
    Stream a, b;
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaStreamBeginCapture(a, RELAXED));
    OK(cudaStreamBeginCapture(b, RELAXED));
    OK(cudaEventRecord(e, a));
    IS(cudaStreamWaitEvent(b, e, 0), cudaErrorStreamCaptureMerge);
    cudaGraph_t g = nullptr;
    for (cudaStream_t s : {a.s, b.s}) {
        cudaStreamEndCapture(s, &g);
        if (g) cudaGraphDestroy(g);
        g = nullptr;
    }
    OK(cudaEventDestroy(e));
}
DOC("a capture may not depend on an event that was recorded outside: isolation") {
    Stream a, b;
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaEventRecord(e, b));
    OK(cudaStreamBeginCapture(a, RELAXED));
    IS(cudaStreamWaitEvent(a, e, 0), cudaErrorStreamCaptureIsolation);
    ends_invalid(a);
    OK(cudaEventDestroy(e));
}
DOC("an event that a capture recorded can be neither queried nor waited for") {
    Stream s;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    OK(cudaStreamBeginCapture(s, RELAXED));
    OK(cudaEventRecord(e, s));
    IS(cudaEventQuery(e), cudaErrorCapturedEvent);
    cudaGetLastError();
    cudaGraph_t g = nullptr;
    cudaStreamEndCapture(s, &g);
    if (g) cudaGraphDestroy(g);
    REFUSED(cudaEventSynchronize(e));
    cudaGetLastError();
    OK(cudaEventRecord(e, s));
    OK(cudaEventSynchronize(e));
    OK(cudaEventDestroy(e));
}
DOC("external flags make nodes of events in a capture") {
    Stream s;
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaStreamBeginCapture(s, RELAXED));
    OK(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal));
    OK(cudaStreamWaitEvent(s, e, cudaEventWaitExternal));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    cudaGraphNode_t n[4];
    size_t count = 4;
    OK(cudaGraphGetNodes(g, n, &count));
    HOLDS(count == 2);
    cudaGraphNodeType first, second;
    OK(cudaGraphNodeGetType(n[0], &first));
    OK(cudaGraphNodeGetType(n[1], &second));
    HOLDS(first == cudaGraphNodeTypeEventRecord && second == cudaGraphNodeTypeWaitEvent);
    OK(cudaGraphDestroy(g));
    OK(cudaEventDestroy(e));
}
DOC("external flags outside a capture are refused") {
    Stream s;
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    REFUSED(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal));
    cudaGetLastError();
    REFUSED(cudaStreamWaitEvent(s, e, cudaEventWaitExternal));
    OK(cudaEventDestroy(e));
}
DOC("captures have different ids; what captures tells its graph and its last nodes") {
    Stream a, b;
    Memory m(4);
    unsigned long long ia = 0, ib = 0, again = 0;
    cudaStreamCaptureStatus st;
    cudaGraph_t g = nullptr, now = nullptr;
    const cudaGraphNode_t *last = nullptr;
    size_t n = 9;
    OK(cudaStreamBeginCapture(a, RELAXED));
    OK(cudaStreamBeginCapture(b, RELAXED));
    OK(cudaStreamGetCaptureInfo(a, &st, &ia, &now, &last, nullptr, &n));
    HOLDS(st == cudaStreamCaptureStatusActive && n == 0 && now);
    put<<<1, 1, 0, a>>>(m.ints(), 1);
    put<<<1, 1, 0, a>>>(m.ints(), 2);
    OK(cudaStreamGetCaptureInfo(a, &st, &again, &now, &last, nullptr, &n));
    OK(cudaStreamGetCaptureInfo(b, &st, &ib));
    HOLDS(ia == again && ia != ib && n == 1);
    cudaGraphNodeType type;
    OK(cudaGraphNodeGetType(last[0], &type));
    HOLDS(type == cudaGraphNodeTypeKernel);
    OK(cudaStreamEndCapture(a, &g));
    HOLDS(g == now);
    OK(cudaGraphDestroy(g));
    OK(cudaStreamEndCapture(b, &g));
    OK(cudaGraphDestroy(g));
    OK(cudaStreamGetCaptureInfo(a, &st));
    HOLDS(st == cudaStreamCaptureStatusNone);
}
DOC("a capture's dependencies can be set and added to") {
    Stream s;
    Memory m(4);
    OK(cudaStreamBeginCapture(s, RELAXED));
    put<<<1, 1, 0, s>>>(m.ints(), 1);
    OK(cudaStreamUpdateCaptureDependencies(s, nullptr, nullptr, 0,
                                           cudaStreamSetCaptureDependencies));
    put<<<1, 1, 0, s>>>(m.ints(), 2);
    cudaGraph_t g, now;
    cudaStreamCaptureStatus st;
    unsigned long long id;
    cudaGraphNode_t mine;
    OK(cudaStreamGetCaptureInfo(s, &st, &id, &now));
    OK(cudaGraphAddEmptyNode(&mine, now, nullptr, 0));
    OK(cudaStreamUpdateCaptureDependencies(s, &mine, nullptr, 1,
                                           cudaStreamAddCaptureDependencies));
    put<<<1, 1, 0, s>>>(m.ints(), 3);
    OK(cudaStreamEndCapture(s, &g));
    size_t roots = 0, edges = 0;
    OK(cudaGraphGetRootNodes(g, nullptr, &roots));
    OK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
    HOLDS(nodes(g) == 4 && roots == 3 && edges == 2);
    OK(cudaGraphDestroy(g));
}
DOC("a capture may go into a graph that there is") {
    Stream s;
    Memory m(4);
    cudaGraph_t g, back;
    cudaGraphNode_t mine;
    OK(cudaGraphCreate(&g, 0));
    OK(cudaGraphAddEmptyNode(&mine, g, nullptr, 0));
    OK(cudaStreamBeginCaptureToGraph(s, g, &mine, nullptr, 1, RELAXED));
    put<<<1, 1, 0, s>>>(m.ints(), 3);
    OK(cudaStreamEndCapture(s, &back));
    size_t edges = 0;
    OK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
    HOLDS(back == g && nodes(g) == 2 && edges == 1);
    OK(cudaGraphDestroy(g));
}
DOC("a host function in a capture is called at each launch of the graph") {
    Stream s;
    std::atomic<int> ran{0};
    OK(cudaStreamBeginCapture(s, LOCAL));
    OK(cudaLaunchHostFunc(s, count_up, &ran));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    HOLDS(ran == 0);
    for (int i = 0; i < 5; i++) OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(ran == 5);
    OK(cudaGraphExecDestroy(x));
    OK(cudaGraphDestroy(g));
}
DOC("a callback cannot be captured") {
    Stream s;
    OK(cudaStreamBeginCapture(s, LOCAL));
    REFUSED(cudaStreamAddCallback(
        s, [](cudaStream_t, cudaError_t, void *) {}, nullptr, 0));
    HOLDS(invalid(s));
    ends_invalid(s);
}
DOC("memory allocated and freed in a capture makes nodes of the graph") {
    Stream s;
    void *p = nullptr;
    OK(cudaStreamBeginCapture(s, LOCAL));
    OK(cudaMallocAsync(&p, 1 << 16, s));
    OK(cudaMemsetAsync(p, 1, 1 << 16, s));
    OK(cudaFreeAsync(p, s));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    cudaGraphNode_t n[4];
    size_t count = 4;
    OK(cudaGraphGetNodes(g, n, &count));
    cudaGraphNodeType type[3] = {};
    for (int i = 0; i < 3; i++) OK(cudaGraphNodeGetType(n[i], &type[i]));
    HOLDS(count == 3 && type[0] == cudaGraphNodeTypeMemAlloc);
    HOLDS(type[1] == cudaGraphNodeTypeMemset && type[2] == cudaGraphNodeTypeMemFree);
    OK(cudaGraphDestroy(g));
}
DOC("a synchronous copy while a blocking stream captures is refused") {
    Stream s(cudaStreamDefault);
    Memory m(4);
    int v = 0;
    OK(cudaStreamBeginCapture(s, LOCAL));
    REFUSED(cudaMemcpy(m.p, &v, 4, cudaMemcpyHostToDevice));
    ends_invalid(s);
}
DOC("destroying a stream that captures ends its capture") {
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamBeginCapture(s, GLOBAL));
    cudaStreamDestroy(s);
    cudaGetLastError();
    void *p;
    OK(cudaMalloc(&p, 4));
    OK(cudaFree(p));
}
DOC("waiting for another stream may be unsafe, too") {
    Stream a, b;
    OK(cudaStreamBeginCapture(a, LOCAL));
    IS(cudaStreamSynchronize(b), cudaErrorStreamCaptureUnsupported);
    HOLDS(invalid(a));
    ends_invalid(a);
}
DOC("asking another stream, or another event, while one captures") {
    Stream a, b;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    OK(cudaEventRecord(e, b));
    OK(cudaStreamSynchronize(b));
    OK(cudaStreamBeginCapture(a, LOCAL));
    TOLD(cudaStreamQuery(b));
    TOLD(cudaEventQuery(e));
    TOLD(cudaEventSynchronize(e));
    cudaGraph_t g = nullptr;
    TOLD(cudaStreamEndCapture(a, &g));
    if (g) OK(cudaGraphDestroy(g));
    OK(cudaEventDestroy(e));
}
DOC("another stream works on while one captures in relaxed mode") {
    Stream a, b;
    Memory m(4);
    OK(cudaStreamBeginCapture(a, RELAXED));
    put<<<1, 1, 0, b>>>(m.ints(), 21);
    OK(cudaStreamSynchronize(b));
    HOLDS(active(a));
    cudaGraph_t g;
    OK(cudaStreamEndCapture(a, &g));
    OK(cudaGraphDestroy(g));
    HOLDS(value(m.p) == 21);
}
DOC("launches in a capture keep the values that their parameters had") {
    Stream s;
    Memory m(40);
    OK(cudaStreamBeginCapture(s, LOCAL));
    for (int i = 0; i < 10; i++) put<<<1, 1, 0, s>>>(m.ints() + i, i * i);
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    OK(cudaGraphDestroy(g));
    OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < 10; i++) HOLDS(value(m.ints() + i) == i * i);
    OK(cudaGraphExecDestroy(x));
}
DOC("a capture makes nodes of fills, whatever their memory; what is wrong shows elsewhere") {
    Stream s;
    Memory m(64);
    cudaGraph_t g = nullptr;
    size_t nodes = 0;
    OK(cudaStreamBeginCapture(s, LOCAL));
    TOLD(cuMemsetD8Async(4096, 0, 64, (CUstream)(cudaStream_t)s));
    TOLD(cuMemsetD8Async(0, 0, 64, (CUstream)(cudaStream_t)s));
    TOLD(cuMemsetD32Async((CUdeviceptr)m.p, 0, (size_t)1 << 40, (CUstream)(cudaStream_t)s));
    TOLD(cuMemsetD2D8Async(4096, 64, 0, 8, 8, (CUstream)(cudaStream_t)s));
    TOLD(cudaStreamEndCapture(s, &g));
    if (g && cudaGraphGetNodes(g, nullptr, &nodes) == cudaSuccess) TOLD((cudaError_t)nodes);
    if (g) OK(cudaGraphDestroy(g));
    cudaGetLastError();
}
