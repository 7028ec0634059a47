// Which copies an executable graph takes in the place of others: of other memory, of another shape,
// between memory of other kinds. By a node's parameters, and by an update with a graph captured
// anew. Each line has what the call said, and whether the right bytes arrived then.
#include "tell.h"
#include <cstring>
#include <cuda_runtime.h>
#include <string>

namespace {

constexpr size_t SIZE = 16 << 10;
enum Place { DEVICE, OTHER, PINNED, OTHER_PINNED, PAGEABLE, OTHER_PAGEABLE, MANAGED };
const char *const PLACES[] = {"device",  "other",          "pinned", "other pinned",
                              "pageable", "other pageable", "managed"};
constexpr int COUNT = 7;

struct Shape {
    const char *name;
    size_t width, height, depth, pitch;
};
const Shape SHAPES[] = {
    {"a line", 256, 1, 1, 256},        {"a longer line", 512, 1, 1, 512},
    {"whole rows", 64, 4, 1, 64},      {"rows", 64, 4, 1, 96},
    {"wider rows", 80, 4, 1, 96},      {"rows further apart", 64, 4, 1, 128},
    {"a whole box", 32, 2, 4, 32},     {"a box", 32, 2, 4, 48},
};

char *memory[COUNT];
cudaStream_t stream;

CUDA_MEMCPY3D copy(Place to, Place from, const Shape &s) {
    CUDA_MEMCPY3D c{};
    c.dstMemoryType = c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    c.dstDevice = (CUdeviceptr)memory[to];
    c.srcDevice = (CUdeviceptr)memory[from] + SIZE / 2;
    c.dstPitch = c.srcPitch = s.pitch;
    c.dstHeight = c.srcHeight = s.height;
    c.WidthInBytes = s.width;
    c.Height = s.height;
    c.Depth = s.depth;
    return c;
}

void write(char *to, const char *bytes) { CHECK(cudaMemcpy(to, bytes, SIZE, cudaMemcpyDefault)); }

/// Whether a launch moves the bytes of a copy, and no others.
const char *arrives(CUgraphExec exec, Place to, Place from, const Shape &s) {
    static char before[SIZE], after[SIZE], want[SIZE];
    for (size_t i = 0; i < SIZE; i++) before[i] = (char)(i * 7 + i / 256);
    for (char *p : memory) write(p, before);
    memcpy(want, before, SIZE);
    for (size_t z = 0; z < s.depth; z++)
        for (size_t y = 0; y < s.height; y++) {
            size_t at = (z * s.height + y) * s.pitch;
            memcpy(want + at, before + SIZE / 2 + at, s.width);
        }
    CUresult rc = cuGraphLaunch(exec, stream);
    CHECK(cudaStreamSynchronize(stream));
    if (rc != CUDA_SUCCESS) return "not launched";
    CHECK(cudaMemcpy(after, memory[to], SIZE, cudaMemcpyDefault));
    return memcmp(after, want, SIZE) ? "WRONG" : "right";
}

CUgraph captured(Place to, Place from, const Shape &s) {
    CUgraph graph = nullptr;
    DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    auto c = copy(to, from, s);
    CUresult rc = cuMemcpy3DAsync(&c, stream);
    DRIVER(cuStreamEndCapture(stream, &graph));
    if (rc != CUDA_SUCCESS) printf("not captured: %d\n", rc);
    return graph;
}

/// One copy in the place of another one.
void change(Place to, Place from, const Shape &was, Place to2, Place from2, const Shape &is) {
    CUcontext context;
    DRIVER(cuCtxGetCurrent(&context));
    std::string line = std::string(PLACES[to]) + " from " + PLACES[from] + ", " + was.name + ": " +
                       PLACES[to2] + " from " + PLACES[from2] + ", " + is.name;
    for (int update = 0; update < 2; update++) {
        CUgraph graph = captured(to, from, was);
        CUgraphExec exec;
        DRIVER(cuGraphInstantiate(&exec, graph, 0));
        CUgraphNode node;
        size_t one = 1;
        DRIVER(cuGraphGetNodes(graph, &node, &one));
        CUresult rc;
        CUgraphExecUpdateResultInfo info{};
        if (update) {
            CUgraph other = captured(to2, from2, is);
            rc = cuGraphExecUpdate(exec, other, &info);
            DRIVER(cuGraphDestroy(other));
        } else {
            auto c = copy(to2, from2, is);
            rc = cuGraphExecMemcpyNodeSetParams(exec, node, &c, context);
        }
        bool took = rc == CUDA_SUCCESS;
        const char *then = took ? arrives(exec, to2, from2, is) : arrives(exec, to, from, was);
        printf("%s%s: %d %d, %s\n", line.c_str(), update ? ", updated" : "", rc, info.result, then);
        DRIVER(cuGraphExecDestroy(exec));
        DRIVER(cuGraphDestroy(graph));
    }
}

} // namespace

int main() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (Place p : {DEVICE, OTHER}) CHECK(cudaMalloc((void **)&memory[p], SIZE));
    for (Place p : {PINNED, OTHER_PINNED}) CHECK(cudaMallocHost((void **)&memory[p], SIZE));
    for (Place p : {PAGEABLE, OTHER_PAGEABLE}) memory[p] = (char *)malloc(SIZE);
    CHECK(cudaMallocManaged((void **)&memory[MANAGED], SIZE));
    const struct {
        Place to, from;
    } ENDS[] = {{DEVICE, OTHER}, {PINNED, DEVICE}, {DEVICE, PINNED}, {PAGEABLE, DEVICE},
                {DEVICE, PAGEABLE}, {PINNED, OTHER_PINNED}, {DEVICE, MANAGED}};
    const Place TO[] = {OTHER, PINNED, OTHER_PINNED, OTHER_PAGEABLE, MANAGED};
    for (auto &e : ENDS)
        for (auto &s : SHAPES) {
            // The same once more, other shapes, and the same shape elsewhere.
            for (auto &other : SHAPES) change(e.to, e.from, s, e.to, e.from, other);
            // Of memory that the driver does not know it takes any, and writes where it must not.
            bool known = e.to != PAGEABLE && e.from != PAGEABLE;
            for (Place to : TO)
                if (to != e.to && to != e.from && (to == OTHER_PAGEABLE) != known)
                    change(e.to, e.from, s, to, e.from, s);
            if (e.from == PINNED) change(e.to, e.from, s, e.to, OTHER_PINNED, s);
            if (e.from == PAGEABLE) change(e.to, e.from, s, e.to, OTHER_PAGEABLE, s);
        }
}
