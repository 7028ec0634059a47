// What CUDA's documentation says of events. See doc.h.
#include "doc.h"

struct Event {
    cudaEvent_t e = nullptr;
    explicit Event(unsigned flags = 0) { OK(cudaEventCreateWithFlags(&e, flags)); }
    ~Event() { cudaEventDestroy(e); }
    operator cudaEvent_t() const { return e; }
};

DOC("an event that was never recorded is complete, and waiting for it returns at once") {
    Event e;
    OK(cudaEventQuery(e));
    OK(cudaEventSynchronize(e));
    OK(cuEventQuery(e));
    OK(cuEventSynchronize(e));
}
DOC("an event is not ready while work before it is pending") {
    Stream s;
    Event e;
    Held h(s);
    OK(cudaEventRecord(e, s));
    IS(cudaEventQuery(e), cudaErrorNotReady);
    IS(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    h.release();
    OK(cudaEventSynchronize(e));
    OK(cudaEventQuery(e));
}
DOC("an event does not wait for work behind it") {
    Stream s;
    Event e;
    OK(cudaEventRecord(e, s));
    Held h(s);
    OK(cudaEventSynchronize(e));
    IS(cudaStreamQuery(s), cudaErrorNotReady);
}
DOC("recording an event again forgets the record before") {
    Stream a, b;
    Event e;
    OK(cudaEventRecord(e, a));
    OK(cudaEventSynchronize(e));
    Held h(b);
    OK(cudaEventRecord(e, b));
    IS(cudaEventQuery(e), cudaErrorNotReady);
    OK(cudaEventRecord(e, a));
    OK(cudaEventSynchronize(e));
    OK(cudaEventQuery(e));
}
DOC("creating an event with flags that do not exist is an invalid value") {
    cudaEvent_t e;
    IS(cudaEventCreateWithFlags(&e, 0x80), cudaErrorInvalidValue);
    CUevent d;
    IS(cuEventCreate(&d, 0x100), CUDA_ERROR_INVALID_VALUE);
}
DOC("an event for other processes must have no timing") {
    cudaEvent_t e;
    IS(cudaEventCreateWithFlags(&e, cudaEventInterprocess), cudaErrorInvalidValue);
    OK(cudaEventCreateWithFlags(&e, cudaEventInterprocess | cudaEventDisableTiming));
    OK(cudaEventDestroy(e));
}
DOC("creating an event into NULL is an invalid value") {
    IS(cudaEventCreate(nullptr), cudaErrorInvalidValue);
    IS(cuEventCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("the time between events of which one was not recorded is an invalid handle") {
    Event a, b;
    float ms = -7;
    IS(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    OK(cudaEventRecord(a, nullptr));
    OK(cudaEventSynchronize(a));
    IS(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    IS(cudaEventElapsedTime(&ms, b, a), cudaErrorInvalidResourceHandle);
    IS(cuEventElapsedTime(&ms, b, a), CUDA_ERROR_INVALID_HANDLE);
}
DOC("the time to an event without timing is an invalid handle") {
    Event a, b(cudaEventDisableTiming);
    float ms = -7;
    OK(cudaEventRecord(a, nullptr));
    OK(cudaEventRecord(b, nullptr));
    OK(cudaDeviceSynchronize());
    IS(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    IS(cudaEventElapsedTime(&ms, b, a), cudaErrorInvalidResourceHandle);
}
DOC("the time to an event that is not complete is not ready") {
    Stream s;
    Event a, b;
    float ms = -7;
    OK(cudaEventRecord(a, s));
    Held h(s);
    OK(cudaEventRecord(b, s));
    IS(cudaEventElapsedTime(&ms, a, b), cudaErrorNotReady);
    IS(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    h.release();
    OK(cudaEventElapsedTime(&ms, a, b));
    HOLDS(ms >= 0);
}
DOC("the time of an event to itself is 0") {
    Event a;
    float ms = -7;
    OK(cudaEventRecord(a, nullptr));
    OK(cudaEventSynchronize(a));
    OK(cudaEventElapsedTime(&ms, a, a));
    HOLDS(ms == 0);
}
DOC("the time into NULL is an invalid value") {
    Event a;
    OK(cudaEventRecord(a, nullptr));
    OK(cudaEventSynchronize(a));
    IS(cudaEventElapsedTime(nullptr, a, a), cudaErrorInvalidValue);
}
DOC("time is what passed on the device, and the other way it is negative") {
    Stream s;
    Event a, b;
    float ms = 0, back = 0;
    OK(cudaEventRecord(a, s));
    OK(cudaLaunchHostFunc(s, [](void *) { usleep(30000); }, nullptr));
    OK(cudaEventRecord(b, s));
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&ms, a, b));
    OK(cudaEventElapsedTime(&back, b, a));
    HOLDS(ms >= 29 && ms < 20000);
    HOLDS(back <= -29);
}
DOC("times add up") {
    Stream s;
    Event e[3];
    float first, second, whole;
    for (auto &x : e) {
        OK(cudaEventRecord(x, s));
        OK(cudaLaunchHostFunc(s, [](void *) { usleep(3000); }, nullptr));
    }
    OK(cudaStreamSynchronize(s));
    OK(cudaEventElapsedTime(&first, e[0], e[1]));
    OK(cudaEventElapsedTime(&second, e[1], e[2]));
    OK(cudaEventElapsedTime(&whole, e[0], e[2]));
    float d = first + second - whole;
    HOLDS(d < 0.01 && d > -0.01);
}
DOC("an event is recorded in the order of the stream, whatever becomes of the handle") {
    Stream a, b;
    Memory m(4);
    Held h(a);
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    put<<<1, 1, 0, a>>>(m.ints(), 7);
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    OK(cudaEventDestroy(e));
    add<<<1, 1, 0, b>>>(m.ints(), 1);
    IS(cudaStreamQuery(b), cudaErrorNotReady);
    h.release();
    OK(cudaStreamSynchronize(b));
    HOLDS(value(m.p) == 8);
}
DOC("destroying an event that is not complete returns at once") {
    Stream s;
    Held h(s);
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    OK(cudaEventRecord(e, s));
    OK(cudaEventDestroy(e));
    IS(cudaStreamQuery(s), cudaErrorNotReady);
}
DOC("an event in the legacy stream waits for blocking streams") {
    Stream s(cudaStreamDefault);
    Event e;
    Held h(s);
    OK(cudaEventRecord(e, nullptr));
    IS(cudaEventQuery(e), cudaErrorNotReady);
    h.release();
    OK(cudaEventSynchronize(e));
}
DOC("an event in the legacy stream does not wait for non-blocking streams") {
    Stream s;
    Event e;
    Held h(s);
    OK(cudaEventRecord(e, nullptr));
    OK(cudaEventSynchronize(e));
    IS(cudaStreamQuery(s), cudaErrorNotReady);
}
DOC("recording with flags: none, or external, and nothing else") {
    Stream s;
    Event e;
    OK(cudaEventRecordWithFlags(e, s, cudaEventRecordDefault));
    IS(cudaEventRecordWithFlags(e, s, 8), cudaErrorInvalidValue);
    OK(cudaStreamSynchronize(s));
}
DOC("recording no event is refused") {
    REFUSED(cudaEventRecord(nullptr, nullptr));
    cudaGetLastError();
    REFUSED(cudaEventQuery(nullptr));
    cudaGetLastError();
    REFUSED(cudaEventSynchronize(nullptr));
    cudaGetLastError();
    REFUSED(cudaEventDestroy(nullptr));
    REFUSED(cuEventRecord(nullptr, nullptr));
    REFUSED(cuEventDestroy(nullptr));
}
DOC("an event must be of the same context as the stream it is recorded in") {
    CUcontext mine, other;
    OK(cuCtxGetCurrent(&mine));
    OK(cuCtxCreate(&other, nullptr, 0, 0));
    CUevent e;
    OK(cuEventCreate(&e, 0));
    OK(cuCtxSetCurrent(mine));
    Stream s;
    IS(cuEventRecord(e, s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxDestroy(other));
}
DOC("a stream may wait for an event of another context") {
    CUcontext mine, other;
    OK(cuCtxGetCurrent(&mine));
    OK(cuCtxCreate(&other, nullptr, 0, 0));
    CUevent e;
    CUstream t;
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(e, t));
    OK(cuCtxSetCurrent(mine));
    {
        Stream s;
        OK(cuStreamWaitEvent(s, e, 0));
        OK(cuStreamSynchronize(s));
    }
    OK(cuCtxDestroy(other));
}
DOC("a context's event: record of all its work, wait of all its streams") {
    CUcontext now;
    OK(cuCtxGetCurrent(&now));
    Stream s;
    Event e(cudaEventDisableTiming);
    Held h(s);
    OK(cuCtxRecordEvent(now, e));
    IS(cudaEventQuery(e), cudaErrorNotReady);
    h.release();
    OK(cudaEventSynchronize(e));
    OK(cuCtxWaitEvent(now, e));
}
DOC("only an event for other processes has a handle for them") {
    Event plain(cudaEventDisableTiming), shared(cudaEventInterprocess | cudaEventDisableTiming);
    cudaIpcEventHandle_t h;
    REFUSED(cudaIpcGetEventHandle(&h, plain));
    cudaGetLastError();
    OK(cudaIpcGetEventHandle(&h, shared));
}
DOC("a blocking event is waited for as any other") {
    Stream s;
    Event e(cudaEventBlockingSync);
    std::atomic<int> ran{0};
    OK(cudaLaunchHostFunc(s, [](void *n) { usleep(5000), count_up(n); }, &ran));
    OK(cudaEventRecord(e, s));
    OK(cudaEventSynchronize(e));
    HOLDS(ran == 1);
}
DOC("ten thousand events can be there at once") {
    std::vector<cudaEvent_t> many(10000);
    Stream s;
    int wrong = 0;
    for (auto &e : many) wrong += cudaEventCreateWithFlags(&e, cudaEventDisableTiming) != 0;
    for (auto e : many) wrong += cudaEventRecord(e, s) != 0;
    OK(cudaStreamSynchronize(s));
    for (auto e : many) wrong += cudaEventQuery(e) != 0;
    for (auto e : many) wrong += cudaEventDestroy(e) != 0;
    HOLDS(wrong == 0);
}
DOC("an event that a thread records is seen by another") {
    Stream s;
    Event e;
    Memory m(4);
    std::thread([&] {
        put<<<1, 1, 0, s>>>(m.ints(), 17);
        OK(cudaEventRecord(e, s));
    }).join();
    OK(cudaEventSynchronize(e));
    HOLDS(value(m.p) == 17);
}
DOC("a kernel's completion is seen by who queries its event only") {
    Stream s;
    Event e(cudaEventDisableTiming);
    Memory m(4);
    put<<<1, 1, 0, s>>>(m.ints(), 1);
    OK(cudaEventRecord(e, s));
    while (cudaEventQuery(e) == cudaErrorNotReady) usleep(100);
    cudaGetLastError();
    OK(cudaStreamQuery(s));
}
APART("after a context's error an event of it says the error") {
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    put<<<1, 1>>>((int *)64, 1);
    cudaEventRecord(e, nullptr);
    IS(cudaEventSynchronize(e), cudaErrorIllegalAddress);
    IS(cudaEventQuery(e), cudaErrorIllegalAddress);
}
