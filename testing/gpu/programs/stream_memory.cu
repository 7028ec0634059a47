// Words in memory that streams write and wait for, and functions of the program's in streams.
//
// A driver follows the pointers that it is given: a handle of something that could not be made, a
// function that is none or a list that is not there may end the program instead of being refused.
// So none of those is passed on here, and what could not be made ends its part of the program. Nor
// do the functions call CUDA, which it may refuse and need not.
#include "tell.h"
#include <atomic>
#include <cstring>
#include <unistd.h>
#include <vector>

__global__ void write(int *p, int v) { *p = v; }

static CUdeviceptr d;
static CUstream s, t;

static unsigned long long word(int i) {
    unsigned long long v = 0;
    DRIVER(cuMemcpyDtoH(&v, d + 8 * i, 8));
    return v;
}

// A fill is under way yet when its call returns, and the streams here do not wait for it: a word
// that it wiped out after it was written would be waited for without end.
static void clear() {
    DRIVER(cuMemsetD8(d, 0, 4096));
    DRIVER(cuCtxSynchronize());
}

static CUstreamBatchMemOpParams op(CUstreamBatchMemOpType what, int at, unsigned long long v,
                                   unsigned flags) {
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.operation = what;
    if (what == CU_STREAM_MEM_OP_WAIT_VALUE_32 || what == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
        p.waitValue.address = d + 8 * at;
        p.waitValue.value64 = v;
        p.waitValue.flags = flags;
    } else if (what == CU_STREAM_MEM_OP_BARRIER) {
        p.memoryBarrier.flags = flags;
    } else if (what != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES) {
        p.writeValue.address = d + 8 * at;
        p.writeValue.value64 = v;
        p.writeValue.flags = flags;
    }
    return p;
}

static void words() {
    puts("-- words");
    clear();
    SAY(cuStreamWriteValue32(s, d, 7, CU_STREAM_WRITE_VALUE_DEFAULT));
    SAY(cuStreamWriteValue32(s, d + 4, 8, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    SAY(cuStreamWriteValue64(s, d + 8, 0x123456789abcull, 0));
    SAY(cuStreamSynchronize(s));
    printf("%llx %llx\n", word(0), word(1));
    // One stream waits for what another writes.
    SAY(cuStreamWaitValue32(t, d + 16, 5, CU_STREAM_WAIT_VALUE_GEQ));
    SAY(cuStreamWriteValue32(t, d + 20, 1, 0));
    usleep(20000);
    printf("%llx\n", word(2));
    SAY(cuStreamQuery(t));
    SAY(cuStreamWriteValue32(s, d + 16, 4, 0));
    SAY(cuStreamSynchronize(s));
    usleep(20000);
    SAY(cuStreamQuery(t));
    SAY(cuStreamWriteValue32(s, d + 16, 6, 0));
    SAY(cuStreamSynchronize(t));
    printf("%llx\n", word(2));
    SAY(cuStreamWaitValue64(t, d + 24, 0xf0, CU_STREAM_WAIT_VALUE_AND));
    SAY(cuStreamWaitValue32(t, d + 32, 3, CU_STREAM_WAIT_VALUE_EQ));
    // Until a bit is 0 both there and here, which is the last one.
    SAY(cuStreamWriteValue32(s, d + 40, 1, 0));
    SAY(cuStreamSynchronize(s));
    SAY(cuStreamWaitValue32(t, d + 40, 0xfffffffe, CU_STREAM_WAIT_VALUE_NOR));
    write<<<1, 1, 0, s>>>((int *)(d + 24), 0x10);
    write<<<1, 1, 0, s>>>((int *)(d + 32), 3);
    SAY(cuStreamSynchronize(s));
    usleep(20000);
    SAY(cuStreamQuery(t));
    SAY(cuStreamWriteValue32(s, d + 40, 2, 0));
    SAY(cuStreamSynchronize(s));
    SAY(cuStreamSynchronize(t));
    int nor = 0;
    SAY(cuDeviceGetAttribute(&nor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0));
    printf("nor %d\n", nor);
    puts("-- mistakes");
    SAY(cuStreamWriteValue32(s, d + 2, 1, 0));
    SAY(cuStreamWriteValue64(s, d + 4, 1, 0));
    SAY(cuStreamWriteValue32(s, d, 1, 0xff00));
    SAY(cuStreamWaitValue32(s, d, 1, 0xff));
    CUstreamBatchMemOpParams bad = op((CUstreamBatchMemOpType)77, 0, 0, 0);
    SAY(cuStreamBatchMemOp(s, 0, &bad, 0));
    SAY(cuStreamBatchMemOp(s, 1, &bad, 0));
    bad = op(CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, 0, 0);
    SAY(cuStreamBatchMemOp(s, 1, &bad, 5));
    bad = op(CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
    SAY(cuStreamBatchMemOp(s, 1, &bad, 0));
    SAY(cuStreamSynchronize(s));
    // A mistake that was taken for work may have broken the context: nothing after it makes sense.
    DRIVER(cuCtxSynchronize());
}

static std::vector<CUstreamBatchMemOpParams> several() {
    return {
        op(CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, 11, 0),
        op(CU_STREAM_MEM_OP_BARRIER, 0, 0, CU_STREAM_MEMORY_BARRIER_TYPE_GPU),
        op(CU_STREAM_MEM_OP_WAIT_VALUE_32, 0, 11, CU_STREAM_WAIT_VALUE_EQ),
        op(CU_STREAM_MEM_OP_WRITE_VALUE_64, 1, 0x1122334455667788ull, 0),
        op(CU_STREAM_MEM_OP_WAIT_VALUE_64, 1, 1, CU_STREAM_WAIT_VALUE_GEQ),
        op(CU_STREAM_MEM_OP_BARRIER, 0, 0, CU_STREAM_MEMORY_BARRIER_TYPE_SYS),
        op(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2, 13, 0),
    };
}

static void lists() {
    puts("-- lists");
    clear();
    auto ops = several();
    SAY(cuStreamBatchMemOp(s, (unsigned)ops.size(), ops.data(), 0));
    SAY(cuStreamSynchronize(s));
    printf("%llx %llx %llx\n", word(0), word(1), word(2));
}

static void nodes() {
    puts("-- lists in a graph");
    auto ops = several();
    CUcontext ctx;
    DRIVER(cuCtxGetCurrent(&ctx));
    CUgraph g = nullptr;
    CUgraphNode n = nullptr;
    CUgraphExec x = nullptr;
    DRIVER(cuGraphCreate(&g, 0));
    CUDA_BATCH_MEM_OP_NODE_PARAMS p{}, told{};
    p.ctx = ctx;
    p.count = (unsigned)ops.size();
    p.paramArray = ops.data();
    if (SAY(cuGraphAddBatchMemOpNode(&n, g, nullptr, 0, &p))) return;
    if (!SAY(cuGraphBatchMemOpNodeGetParams(n, &told)))
        printf("%u operations, context %d, the third waits for %u\n", told.count, told.ctx == ctx,
               told.count > 2 && told.paramArray ? told.paramArray[2].waitValue.value : 0);
    if (SAY(cuGraphInstantiate(&x, g, 0))) return;
    clear();
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    printf("%llx %llx %llx\n", word(0), word(1), word(2));
    ops[6].writeValue.value = 99;
    SAY(cuGraphExecBatchMemOpNodeSetParams(x, n, &p));
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    printf("%llx\n", word(2));
    SAY(cuGraphBatchMemOpNodeSetParams(n, &p));
    DRIVER(cuGraphExecDestroy(x));
    DRIVER(cuGraphDestroy(g));
}

static void captured() {
    puts("-- captured");
    auto ops = several();
    CUgraph g = nullptr;
    CUgraphExec x = nullptr;
    clear();
    DRIVER(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamWriteValue32(s, d, 21, 0));
    SAY(cuStreamWaitValue32(s, d, 21, CU_STREAM_WAIT_VALUE_EQ));
    SAY(cuStreamBatchMemOp(s, 2, ops.data(), 0));
    if (SAY(cuStreamEndCapture(s, &g)) || !g) return;
    size_t count = 0;
    SAY(cuGraphGetNodes(g, nullptr, &count));
    printf("%zu nodes\n", count);
    if (SAY(cuGraphInstantiate(&x, g, 0))) return;
    SAY(cuGraphLaunch(x, s));
    SAY(cuStreamSynchronize(s));
    printf("%llx\n", word(0));
    DRIVER(cuGraphExecDestroy(x));
    DRIVER(cuGraphDestroy(g));
}

static std::atomic<int> order{0};
static int seen[64];
static void note(void *p) { seen[order++] = (int)(long)p; }
static void CUDA_CB noted(CUstream, CUresult rc, void *p) {
    seen[order++] = (int)(long)p + 1000 * (int)rc;
}
static void functions() {
    puts("-- functions");
    for (long i = 0; i < 8; i++) {
        if (i % 3 == 0)
            SAY(cuLaunchHostFunc(s, note, (void *)i));
        else if (i % 3 == 1)
            SAY(cuStreamAddCallback(s, noted, (void *)i, 0));
        else
            write<<<1, 1, 0, s>>>((int *)d, (int)i);
    }
    SAY(cuStreamSynchronize(s));
    printf("in order:");
    for (int i = 0; i < order; i++) printf(" %d", seen[i]);
    printf("\n");
    SAY(cuStreamAddCallback(s, noted, nullptr, 1));
    SAY(cuStreamSynchronize(s));
    // Behind another stream's work, by an event. All that is needed is there before a stream waits:
    // to make a stream, too, may wait for those that there are.
    order = 0;
    CUevent e;
    CUstream u;
    DRIVER(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    DRIVER(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
    clear();
    SAY(cuStreamWaitValue32(s, d + 64, 1, CU_STREAM_WAIT_VALUE_EQ));
    SAY(cuLaunchHostFunc(s, note, (void *)1));
    SAY(cuEventRecord(e, s));
    SAY(cuStreamWaitEvent(t, e, 0));
    SAY(cuLaunchHostFunc(t, note, (void *)2));
    usleep(20000);
    printf("so far %d\n", order.load());
    SAY(cuEventQuery(e));
    SAY(cuStreamWriteValue32(u, d + 64, 1, 0));
    SAY(cuStreamSynchronize(t));
    printf("then %d: %d %d\n", order.load(), seen[0], seen[1]);
    SAY(cuStreamSynchronize(u));
    DRIVER(cuStreamDestroy(u));
    DRIVER(cuEventDestroy(e));
}

// Words in the program's own memory.
static void mapped() {
    puts("-- words of the program's");
    volatile unsigned *host;
    CUdeviceptr at;
    DRIVER(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    memset((void *)host, 0, 4096);
    DRIVER(cuMemHostGetDevicePointer(&at, (void *)host, 0));
    SAY(cuStreamWriteValue32(s, at, 17, 0));
    SAY(cuStreamSynchronize(s));
    printf("%u\n", host[0]);
    host[1] = 3;
    SAY(cuStreamWaitValue32(s, at + 4, 3, CU_STREAM_WAIT_VALUE_EQ));
    SAY(cuStreamWriteValue32(s, at + 8, 18, 0));
    SAY(cuStreamSynchronize(s));
    printf("%u\n", host[2]);
    // Set after the stream has begun to wait.
    SAY(cuStreamWaitValue32(s, at + 12, 4, CU_STREAM_WAIT_VALUE_EQ));
    SAY(cuStreamWriteValue32(s, at + 16, 19, 0));
    SAY(cuStreamQuery(s));
    host[3] = 4;
    SAY(cuStreamSynchronize(s));
    printf("%u\n", host[4]);
}

int main() {
    CHECK(cudaFree(nullptr));
    DRIVER(cuMemAlloc(&d, 4096));
    // Loading a kernel may wait for all streams: it must not happen first while one of them waits
    // for what a later launch of that kernel writes.
    write<<<1, 1>>>((int *)d, 0);
    CHECK(cudaDeviceSynchronize());
    DRIVER(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    words();
    lists();
    nodes();
    captured();
    functions();
    mapped();
    printf("done\n");
}
