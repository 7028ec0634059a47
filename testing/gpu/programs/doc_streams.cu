// What CUDA's documentation says of streams. See doc.h.
#include "doc.h"

DOC("a stream is not ready while work is pending in it, and ready when the work is done") {
    Stream s;
    OK(cudaStreamQuery(s));
    Held h(s);
    IS(cudaStreamQuery(s), cudaErrorNotReady);
    IS(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    h.release();
    OK(cudaStreamQuery(s));
    OK(cuStreamQuery(s));
}
DOC("not ready is the only thing an unfinished stream says, however often it is asked") {
    Stream s;
    Held h(s);
    for (int i = 0; i < 100; i++) IS(cudaStreamQuery(s), cudaErrorNotReady);
}
DOC("creating a stream with flags that do not exist is an invalid value") {
    cudaStream_t s;
    IS(cudaStreamCreateWithFlags(&s, 2), cudaErrorInvalidValue);
    IS(cudaStreamCreateWithFlags(&s, 0x80), cudaErrorInvalidValue);
    CUstream t;
    IS(cuStreamCreate(&t, 4), CUDA_ERROR_INVALID_VALUE);
    IS(cuStreamCreateWithPriority(&t, 4, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("creating a stream into NULL is an invalid value") {
    IS(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
    IS(cudaStreamCreateWithFlags(nullptr, 0), cudaErrorInvalidValue);
    IS(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("a stream's flags are those it was created with") {
    unsigned flags = 77;
    Stream blocking(cudaStreamDefault), free_(cudaStreamNonBlocking);
    OK(cudaStreamGetFlags(blocking, &flags));
    HOLDS(flags == cudaStreamDefault);
    OK(cudaStreamGetFlags(free_, &flags));
    HOLDS(flags == cudaStreamNonBlocking);
    OK(cuStreamGetFlags(free_, &flags));
    HOLDS(flags == CU_STREAM_NON_BLOCKING);
    IS(cudaStreamGetFlags(free_, nullptr), cudaErrorInvalidValue);
}
DOC("the range of priorities goes from the least, 0, down to the greatest") {
    int least = 7, greatest = 7;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    HOLDS(least == 0 && greatest <= least);
    int again = 7;
    OK(cudaDeviceGetStreamPriorityRange(nullptr, &again));
    HOLDS(again == greatest);
    OK(cudaDeviceGetStreamPriorityRange(&again, nullptr));
    HOLDS(again == least);
}
DOC("a priority outside the range is clamped to it") {
    int least, greatest, got = 9;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int want : {-1000, 1000, least, greatest}) {
        cudaStream_t s;
        OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, want));
        OK(cudaStreamGetPriority(s, &got));
        HOLDS(got == (want < greatest ? greatest : want > least ? least : want));
        OK(cudaStreamDestroy(s));
    }
}
DOC("a stream that was created without a priority has the default one, 0") {
    Stream s;
    int got = 9;
    OK(cudaStreamGetPriority(s, &got));
    HOLDS(got == 0);
    OK(cudaStreamGetPriority(nullptr, &got));
    HOLDS(got == 0);
}
DOC("streams have different ids, and a stream keeps its id") {
    Stream a, b;
    unsigned long long ia = 0, ib = 0, again = 0;
    OK(cudaStreamGetId(a, &ia));
    OK(cudaStreamGetId(b, &ib));
    OK(cuStreamGetId(a, &again));
    HOLDS(ia != ib && ia == again);
}
DOC("the NULL stream's id is that of the legacy stream, not that of the thread's") {
    unsigned long long none = 0, legacy = 0, thread = 0;
    OK(cudaStreamGetId(nullptr, &none));
    OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
    OK(cudaStreamGetId(cudaStreamPerThread, &thread));
    HOLDS(none == legacy);
    HOLDS(thread != legacy);
}
DOC("each thread's default stream has an id of its own") {
    unsigned long long here = 0, there = 0;
    OK(cudaStreamGetId(cudaStreamPerThread, &here));
    std::thread([&] { OK(cudaStreamGetId(cudaStreamPerThread, &there)); }).join();
    HOLDS(here != there);
}
DOC("a stream's device is the one it was created on") {
    Stream s;
    int device = 9;
    OK(cudaStreamGetDevice(s, &device));
    HOLDS(device == 0);
}
DOC("a stream's context is the one it was created in") {
    Stream s;
    CUcontext now, of = nullptr;
    OK(cuCtxGetCurrent(&now));
    OK(cuStreamGetCtx(s, &of));
    HOLDS(of == now);
    of = nullptr;
    OK(cuStreamGetCtx(CU_STREAM_LEGACY, &of));
    HOLDS(of == now);
}
DOC("the default streams cannot be destroyed") {
    REFUSED(cudaStreamDestroy(nullptr));
    cudaGetLastError();
    REFUSED(cudaStreamDestroy(cudaStreamLegacy));
    cudaGetLastError();
    REFUSED(cudaStreamDestroy(cudaStreamPerThread));
    REFUSED(cuStreamDestroy(nullptr));
}
DOC("destroying a stream with work pending returns at once, and the work is done") {
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    static std::atomic<int> ran;
    ran = 0;
    auto *go = new std::atomic<int>(0);
    OK(cudaLaunchHostFunc(s, Held::wait, go));
    OK(cudaLaunchHostFunc(s, count_up, &ran));
    OK(cudaStreamDestroy(s));
    HOLDS(ran == 0);
    *go = 1;
    for (int i = 0; i < 5000 && !ran; i++) usleep(1000);
    HOLDS(ran == 1);
}
DOC("waiting for an event that was never recorded does nothing") {
    Stream s;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    OK(cudaStreamWaitEvent(s, e, 0));
    OK(cudaStreamQuery(s));
    OK(cudaEventDestroy(e));
}
DOC("waiting for an event with wrong flags, or for none, is refused") {
    Stream s;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    IS(cudaStreamWaitEvent(s, e, 0x40), cudaErrorInvalidValue);
    REFUSED(cudaStreamWaitEvent(s, nullptr, 0));
    REFUSED(cuStreamWaitEvent(s, nullptr, 0));
    OK(cudaEventDestroy(e));
}
DOC("a stream waits for an event of another") {
    Stream a, b;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    Held h(a);
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    IS(cudaStreamQuery(b), cudaErrorNotReady);
    h.release();
    OK(cudaStreamSynchronize(b));
    OK(cudaEventDestroy(e));
}
DOC("an event may be destroyed once streams wait for it, and they still do") {
    Stream a, b;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    Held h(a);
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    OK(cudaEventDestroy(e));
    IS(cudaStreamQuery(b), cudaErrorNotReady);
    h.release();
    OK(cudaStreamSynchronize(b));
}
DOC("a wait is for the record that was the last when the wait was called") {
    Stream a, b, c;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    Held h(c);
    OK(cudaEventRecord(e, c));
    OK(cudaStreamSynchronize(b));
    IS(cudaEventQuery(e), cudaErrorNotReady);
    h.release();
    OK(cudaEventDestroy(e));
}
DOC("work of a stream runs in the order in which it was queued") {
    Stream s;
    Memory m(4);
    for (int i = 0; i < 50; i++) {
        put<<<1, 1, 0, s>>>(m.ints(), i);
        OK(cudaMemsetAsync(m.p, i, 4, s));
        add<<<1, 1, 0, s>>>(m.ints(), 1);
    }
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 49 * 0x01010101 + 1);
}
DOC("two streams do not wait for each other") {
    Stream a, b;
    Memory m(4);
    Held h(a);
    put<<<1, 1, 0, b>>>(m.ints(), 5);
    OK(cudaStreamSynchronize(b));
    IS(cudaStreamQuery(a), cudaErrorNotReady);
}
DOC("the legacy stream waits for blocking streams") {
    Stream s(cudaStreamDefault);
    Memory m(4);
    Held h(s);
    put<<<1, 1>>>(m.ints(), 5);
    IS(cudaStreamQuery(nullptr), cudaErrorNotReady);
    h.release();
    OK(cudaStreamSynchronize(nullptr));
}
DOC("blocking streams wait for the legacy stream") {
    Stream s(cudaStreamDefault);
    Memory m(4);
    Held h(cudaStreamLegacy);
    put<<<1, 1, 0, s>>>(m.ints(), 5);
    IS(cudaStreamQuery(s), cudaErrorNotReady);
    h.release();
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 5);
}
DOC("a non-blocking stream does not wait for the legacy stream, nor that for it") {
    Stream s;
    Memory m(4);
    {
        Held h(cudaStreamLegacy);
        put<<<1, 1, 0, s>>>(m.ints(), 5);
        OK(cudaStreamSynchronize(s));
    }
    Held h(s);
    put<<<1, 1>>>(m.ints(), 6);
    OK(cudaStreamSynchronize(nullptr));
}
DOC("two blocking streams are ordered by work in the legacy stream between them") {
    Stream a(cudaStreamDefault), b(cudaStreamDefault);
    Memory m(4);
    Held h(a);
    put<<<1, 1>>>(m.ints(), 1);
    put<<<1, 1, 0, b>>>(m.ints(), 2);
    IS(cudaStreamQuery(b), cudaErrorNotReady);
    h.release();
    OK(cudaStreamSynchronize(b));
    HOLDS(value(m.p) == 2);
}
DOC("the default stream of a thread waits for the legacy stream") {
    Memory m(4);
    Held h(cudaStreamLegacy);
    put<<<1, 1, 0, cudaStreamPerThread>>>(m.ints(), 3);
    IS(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    h.release();
    OK(cudaStreamSynchronize(cudaStreamPerThread));
}
DOC("the default streams of two threads do not wait for each other") {
    Memory m(4);
    Held h(cudaStreamPerThread);
    std::thread([&] {
        put<<<1, 1, 0, cudaStreamPerThread>>>(m.ints(), 3);
        OK(cudaStreamSynchronize(cudaStreamPerThread));
    }).join();
    IS(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
}
DOC("synchronizing the device waits for all streams") {
    Stream a, b;
    std::atomic<int> ran{0};
    for (int i = 0; i < 20; i++) {
        OK(cudaLaunchHostFunc(a, count_up, &ran));
        OK(cudaLaunchHostFunc(b, count_up, &ran));
    }
    OK(cudaDeviceSynchronize());
    HOLDS(ran == 40);
    OK(cudaLaunchHostFunc(a, count_up, &ran));
    OK(cuCtxSynchronize());
    HOLDS(ran == 41);
}
DOC("synchronizing a stream does not wait for another") {
    Stream a, b;
    Held h(a);
    OK(cudaStreamSynchronize(b));
    IS(cudaStreamQuery(a), cudaErrorNotReady);
}
DOC("host functions run after the work before them and before the work behind them") {
    Stream s;
    static int seen[3];
    int *pinned;
    Memory m(4);
    OK(cudaMallocHost(&pinned, 4));
    static int *there;
    there = pinned;
    for (int i = 0; i < 3; i++) {
        put<<<1, 1, 0, s>>>(m.ints(), i + 10);
        OK(cudaMemcpyAsync(pinned, m.p, 4, cudaMemcpyDeviceToHost, s));
        OK(cudaLaunchHostFunc(
            s, [](void *at) { *(int *)at = *there, *there = 0; }, &seen[i]));
    }
    OK(cudaStreamSynchronize(s));
    HOLDS(seen[0] == 10 && seen[1] == 11 && seen[2] == 12);
    OK(cudaFreeHost(pinned));
}
DOC("CUDA calls in a host function are not permitted") {
    Stream s;
    static cudaError_t said;
    static CUresult driver;
    OK(cudaLaunchHostFunc(
        s,
        [](void *) {
            void *p;
            said = cudaMalloc(&p, 4);
            CUdeviceptr q;
            driver = cuMemAlloc(&q, 4);
        },
        nullptr));
    OK(cudaStreamSynchronize(s));
    IS(said, cudaErrorNotPermitted);
    IS(driver, CUDA_ERROR_NOT_PERMITTED);
}
DOC("questions in a host function are not permitted, either") {
    // libgomp frees later what it is told to free where this is the answer.
    Stream s;
    static void *memory;
    static CUresult said[4];
    OK(cudaMalloc(&memory, 64));
    OK(cudaLaunchHostFunc(
        s,
        [](void *) {
            CUdeviceptr base;
            size_t size;
            said[0] = cuMemGetAddressRange(&base, &size, (CUdeviceptr)memory);
            said[1] = cuMemFree((CUdeviceptr)memory);
            said[2] = cuCtxSynchronize();
            said[3] = cuStreamQuery(0);
        },
        nullptr));
    OK(cudaStreamSynchronize(s));
    IS(said[0], CUDA_ERROR_NOT_PERMITTED);
    IS(said[1], CUDA_ERROR_NOT_PERMITTED);
    IS(said[2], CUDA_ERROR_NOT_PERMITTED);
    IS(said[3], CUDA_ERROR_NOT_PERMITTED);
    OK(cudaFree(memory));
}
DOC("a host function that is NULL is an invalid value") {
    Stream s;
    IS(cudaLaunchHostFunc(s, nullptr, nullptr), cudaErrorInvalidValue);
    IS(cuLaunchHostFunc(s, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}
DOC("a callback is told its stream, success and its own data, and blocks the work behind it") {
    Stream s;
    static cudaStream_t got;
    static cudaError_t status;
    static std::atomic<int> ran;
    ran = 0;
    status = cudaErrorUnknown;
    OK(cudaStreamAddCallback(
        s,
        [](cudaStream_t of, cudaError_t rc, void *data) {
            usleep(20000);
            got = of, status = rc;
            ++*(std::atomic<int> *)data;
        },
        &ran, 0));
    static int at_next;
    OK(cudaLaunchHostFunc(
        s, [](void *) { at_next = ran; }, nullptr));
    OK(cudaStreamSynchronize(s));
    HOLDS(ran == 1 && at_next == 1 && got == s.s);
    IS(status, cudaSuccess);
}
DOC("a callback's flags must be 0, and a callback must not be NULL") {
    Stream s;
    auto nothing = [](cudaStream_t, cudaError_t, void *) {};
    IS(cudaStreamAddCallback(s, nothing, nullptr, 1), cudaErrorInvalidValue);
    IS(cudaStreamAddCallback(s, nullptr, nullptr, 0), cudaErrorInvalidValue);
}
DOC("work behind a callback of the legacy stream waits for it in blocking streams, too") {
    Stream s(cudaStreamDefault);
    std::atomic<int> ran{0};
    OK(cudaStreamAddCallback(
        nullptr,
        [](cudaStream_t, cudaError_t, void *n) {
            usleep(20000);
            count_up(n);
        },
        &ran, 0));
    Memory m(4);
    OK(cudaMemsetAsync(m.p, 0, 4, s));
    OK(cudaStreamSynchronize(s));
    HOLDS(ran == 1);
}
DOC("a stream's policy of waiting is what was set, and is copied") {
    Stream s, t;
    cudaStreamAttrValue v;
    memset(&v, 0, sizeof v);
    v.syncPolicy = cudaSyncPolicyBlockingSync;
    OK(cudaStreamSetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
    memset(&v, 0, sizeof v);
    OK(cudaStreamGetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
    HOLDS(v.syncPolicy == cudaSyncPolicyBlockingSync);
    OK(cudaStreamCopyAttributes(t, s));
    memset(&v, 0, sizeof v);
    OK(cudaStreamGetAttribute(t, cudaStreamAttributeSynchronizationPolicy, &v));
    HOLDS(v.syncPolicy == cudaSyncPolicyBlockingSync);
}
DOC("a stream's priority is one of its attributes") {
    int least, greatest;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t s;
    OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
    cudaStreamAttrValue v;
    memset(&v, 0, sizeof v);
    OK(cudaStreamGetAttribute(s, cudaStreamAttributePriority, &v));
    HOLDS(v.priority == greatest);
    OK(cudaStreamDestroy(s));
}
DOC("a stream's window of persisting accesses is what was set") {
    Stream s;
    Memory m(1 << 16);
    cudaStreamAttrValue v, w;
    memset(&v, 0, sizeof v);
    v.accessPolicyWindow.base_ptr = m.p;
    v.accessPolicyWindow.num_bytes = 4096;
    v.accessPolicyWindow.hitRatio = 0.5f;
    v.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    v.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    OK(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v));
    memset(&w, 0, sizeof w);
    OK(cudaStreamGetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &w));
    HOLDS(w.accessPolicyWindow.base_ptr == m.p && w.accessPolicyWindow.num_bytes == 4096);
    HOLDS(w.accessPolicyWindow.hitProp == cudaAccessPropertyPersisting);
    v.accessPolicyWindow.hitRatio = 2.0f;
    IS(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v),
       cudaErrorInvalidValue);
}
DOC("a pageable buffer may be changed once an asynchronous copy from it has returned") {
    Stream s;
    Memory m(1 << 16);
    std::vector<int> from(1 << 14, 7);
    OK(cudaMemcpyAsync(m.p, from.data(), 1 << 16, cudaMemcpyHostToDevice, s));
    from.assign(from.size(), 9);
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 7);
    HOLDS(value(m.ints() + from.size() - 1) == 7);
}
DOC("an asynchronous copy to pageable memory has arrived when it returns") {
    Stream s;
    Memory m(1 << 16);
    OK(cudaMemsetAsync(m.p, 3, 1 << 16, s));
    std::vector<char> to(1 << 16, 0);
    OK(cudaMemcpyAsync(to.data(), m.p, to.size(), cudaMemcpyDeviceToHost, s));
    HOLDS(to[0] == 3 && to[to.size() - 1] == 3);
    OK(cudaStreamSynchronize(s));
}
DOC("a value is written to memory in the order of the stream") {
    Stream s;
    Memory m(64);
    OK(cudaMemsetAsync(m.p, 0, 64, s));
    OK(cuStreamWriteValue32(s, m.at(), 0x1234, 0));
    OK(cuStreamWriteValue64(s, m.at() + 8, 0x123456789abcull, 0));
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 0x1234);
    HOLDS(value(m.ints() + 2) == 0x56789abc && value(m.ints() + 3) == 0x1234);
}
DOC("a wait for a value ends when the value is there: equal, at least, and, nor") {
    Stream a, b;
    Memory m(64);
    OK(cudaMemset(m.p, 0, 64));
    OK(cudaDeviceSynchronize());
    OK(cuStreamWaitValue32(a, m.at(), 5, CU_STREAM_WAIT_VALUE_EQ));
    IS(cudaStreamQuery(a), cudaErrorNotReady);
    OK(cuStreamWriteValue32(b, m.at(), 5, 0));
    OK(cudaStreamSynchronize(a));
    OK(cuStreamWaitValue32(a, m.at(), 6, CU_STREAM_WAIT_VALUE_GEQ));
    IS(cudaStreamQuery(a), cudaErrorNotReady);
    OK(cuStreamWriteValue32(b, m.at(), 9, 0));
    OK(cudaStreamSynchronize(a));
    OK(cuStreamWaitValue32(a, m.at(), 16, CU_STREAM_WAIT_VALUE_AND));
    OK(cuStreamWriteValue32(b, m.at(), 24, 0));
    OK(cudaStreamSynchronize(a));
    OK(cuStreamWaitValue32(a, m.at(), ~3u, CU_STREAM_WAIT_VALUE_NOR));
    OK(cudaStreamSynchronize(a));
}
DOC("the address of a value must be aligned to its size") {
    Stream s;
    Memory m(64);
    IS(cuStreamWriteValue32(s, m.at() + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuStreamWriteValue64(s, m.at() + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuStreamWaitValue32(s, m.at() + 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
}
DOC("operations on values in a batch are done in order; an unknown one is an invalid value") {
    Stream s;
    Memory m(64);
    CUstreamBatchMemOpParams ops[3];
    memset(ops, 0, sizeof ops);
    for (int i = 0; i < 3; i++) {
        ops[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[i].writeValue.address = m.at();
        ops[i].writeValue.value = 40 + i;
    }
    OK(cuStreamBatchMemOp(s, 3, ops, 0));
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 42);
    ops[1].operation = (CUstreamBatchMemOpType)99;
    IS(cuStreamBatchMemOp(s, 3, ops, 0), CUDA_ERROR_INVALID_VALUE);
    TOLD(cuStreamBatchMemOp(s, 1, ops, 5));
}
DOC("attaching memory with a wrong flag is an invalid value") {
    Stream s;
    int *p;
    OK(cudaMallocManaged(&p, 4096));
    IS(cudaStreamAttachMemAsync(s, p, 0, 0x40), cudaErrorInvalidValue);
    OK(cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachSingle));
    OK(cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachGlobal));
    OK(cudaStreamSynchronize(s));
    OK(cudaFree(p));
}
DOC("the set of persisting lines of the L2 cache can be reset") {
    OK(cudaCtxResetPersistingL2Cache());
    OK(cuCtxResetPersistingL2Cache());
}
DOC("a launch into a stream that the driver made is seen by the runtime, and the other way") {
    CUstream s;
    Memory m(4);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    put<<<1, 1, 0, s>>>(m.ints(), 11);
    OK(cudaGetLastError());
    OK(cuStreamSynchronize(s));
    HOLDS(value(m.p) == 11);
    OK(cudaStreamDestroy(s));
}
DOC("hundreds of streams can be there at once") {
    std::vector<cudaStream_t> many(300);
    Memory m(4);
    OK(cudaMemset(m.p, 0, 4));
    OK(cudaDeviceSynchronize());
    for (auto &s : many) OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (auto s : many) add<<<1, 1, 0, s>>>(m.ints(), 1);
    for (auto s : many) OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 300);
    for (auto s : many) OK(cudaStreamDestroy(s));
}
DOC("streams may be used by any thread") {
    Stream s;
    Memory m(4);
    OK(cudaMemset(m.p, 0, 4));
    OK(cudaDeviceSynchronize());
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++)
        all.emplace_back([&] {
            for (int i = 0; i < 50; i++) add<<<1, 1, 0, s>>>(m.ints(), 1);
        });
    for (auto &t : all) t.join();
    OK(cudaStreamSynchronize(s));
    HOLDS(value(m.p) == 200);
}
APART("a host function behind an error of its context is not called") {
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    static std::atomic<int> ran;
    put<<<1, 1, 0, s>>>((int *)64, 1);
    cudaLaunchHostFunc(s, count_up, &ran);
    IS(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    usleep(50000);
    HOLDS(ran == 0);
}
