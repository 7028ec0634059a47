/* What a call of each kind costs: programs queue far more than launches. It needs neither the
 * toolkit nor the driver to be built, as driver.c.
 *
 *   calls SECONDS [KIND...]     each kind for that long, or only these
 *
 * A kind is a call or a few that belong together, made over and over by one thread, which waits for
 * the device after each BURST of them. It prints one JSON object: of each kind how many were made,
 * `call_ns`, how long each took until it returned, and `done_ns`, with its part of the waits.
 * A driver that lacks or refuses a call gets `null`.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Result;
typedef uint64_t DevicePtr;
typedef void *Handle;

enum { BURST = 200, NODES = 50, SMALL = 8, PAGE = 4096, LARGE = 64 << 10, ROOM = 1 << 20 };

static struct {
    Result (*init)(unsigned);
    Result (*device_get)(int *, int);
    Result (*retain)(Handle *, int);
    Result (*set_current)(Handle);
    Result (*get_current)(Handle *);
    Result (*synchronize)(void);
    Result (*module_load)(Handle *, const void *);
    Result (*module_unload)(Handle);
    Result (*get_function)(Handle *, Handle, const char *);
    Result (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     Handle, void **, void **);
    Result (*occupancy)(int *, Handle, int, size_t);
    Result (*stream_create)(Handle *, unsigned);
    Result (*stream_destroy)(Handle);
    Result (*stream_synchronize)(Handle);
    Result (*stream_query)(Handle);
    Result (*stream_wait)(Handle, Handle, unsigned);
    Result (*write_value)(Handle, DevicePtr, uint32_t, unsigned);
    Result (*host_function)(Handle, void (*)(void *), void *);
    Result (*event_create)(Handle *, unsigned);
    Result (*event_destroy)(Handle);
    Result (*event_record)(Handle, Handle);
    Result (*event_query)(Handle);
    Result (*event_synchronize)(Handle);
    Result (*event_elapsed)(float *, Handle, Handle);
    Result (*mem_alloc)(DevicePtr *, size_t);
    Result (*mem_free)(DevicePtr);
    Result (*alloc_async)(DevicePtr *, size_t, Handle);
    Result (*free_async)(DevicePtr, Handle);
    Result (*host_alloc)(void **, size_t, unsigned);
    Result (*host_free)(void *);
    Result (*host_register)(void *, size_t, unsigned);
    Result (*host_unregister)(void *);
    Result (*mem_info)(size_t *, size_t *);
    Result (*pointer_attribute)(void *, int, DevicePtr);
    Result (*set_d8)(DevicePtr, unsigned char, size_t, Handle);
    Result (*copy_in)(DevicePtr, const void *, size_t, Handle);
    Result (*copy_out)(void *, DevicePtr, size_t, Handle);
    Result (*copy_on)(DevicePtr, DevicePtr, size_t, Handle);
    Result (*copy_in_now)(DevicePtr, const void *, size_t);
    Result (*copy_out_now)(void *, DevicePtr, size_t);
    Result (*begin_capture)(Handle, int);
    Result (*end_capture)(Handle, Handle *);
    Result (*instantiate)(Handle *, Handle, unsigned long long);
    Result (*graph_launch)(Handle, Handle);
    Result (*exec_destroy)(Handle);
    Result (*graph_destroy)(Handle);
} cu;

static const struct {
    void *field;
    const char *name;
} names[] = {
    {&cu.init, "cuInit"},
    {&cu.device_get, "cuDeviceGet"},
    {&cu.retain, "cuDevicePrimaryCtxRetain"},
    {&cu.set_current, "cuCtxSetCurrent"},
    {&cu.get_current, "cuCtxGetCurrent"},
    {&cu.synchronize, "cuCtxSynchronize"},
    {&cu.module_load, "cuModuleLoadData"},
    {&cu.module_unload, "cuModuleUnload"},
    {&cu.get_function, "cuModuleGetFunction"},
    {&cu.launch, "cuLaunchKernel"},
    {&cu.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor"},
    {&cu.stream_create, "cuStreamCreate"},
    {&cu.stream_destroy, "cuStreamDestroy_v2"},
    {&cu.stream_synchronize, "cuStreamSynchronize"},
    {&cu.stream_query, "cuStreamQuery"},
    {&cu.stream_wait, "cuStreamWaitEvent"},
    {&cu.write_value, "cuStreamWriteValue32_v2"},
    {&cu.host_function, "cuLaunchHostFunc"},
    {&cu.event_create, "cuEventCreate"},
    {&cu.event_destroy, "cuEventDestroy_v2"},
    {&cu.event_record, "cuEventRecord"},
    {&cu.event_query, "cuEventQuery"},
    {&cu.event_synchronize, "cuEventSynchronize"},
    {&cu.event_elapsed, "cuEventElapsedTime"},
    {&cu.mem_alloc, "cuMemAlloc_v2"},
    {&cu.mem_free, "cuMemFree_v2"},
    {&cu.alloc_async, "cuMemAllocAsync"},
    {&cu.free_async, "cuMemFreeAsync"},
    {&cu.host_alloc, "cuMemHostAlloc"},
    {&cu.host_free, "cuMemFreeHost"},
    {&cu.host_register, "cuMemHostRegister_v2"},
    {&cu.host_unregister, "cuMemHostUnregister"},
    {&cu.mem_info, "cuMemGetInfo_v2"},
    {&cu.pointer_attribute, "cuPointerGetAttribute"},
    {&cu.set_d8, "cuMemsetD8Async"},
    {&cu.copy_in, "cuMemcpyHtoDAsync_v2"},
    {&cu.copy_out, "cuMemcpyDtoHAsync_v2"},
    {&cu.copy_on, "cuMemcpyDtoDAsync_v2"},
    {&cu.copy_in_now, "cuMemcpyHtoD_v2"},
    {&cu.copy_out_now, "cuMemcpyDtoH_v2"},
    {&cu.begin_capture, "cuStreamBeginCapture_v2"},
    {&cu.end_capture, "cuStreamEndCapture"},
    {&cu.instantiate, "cuGraphInstantiateWithFlags"},
    {&cu.graph_launch, "cuGraphLaunch"},
    {&cu.exec_destroy, "cuGraphExecDestroy"},
    {&cu.graph_destroy, "cuGraphDestroy"},
};

/* An empty kernel with the parameters of a typical one. The second text is for GPUs and drivers
 * that do not take the first. */
#define KERNEL(version, target)                                              \
    ".version " version "\n.target " target "\n.address_size 64\n"           \
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u32 c, "  \
    ".param .f32 d)\n{\nret;\n}\n"
static const char *const kernels[] = {KERNEL("6.3", "sm_75"), KERNEL("6.0", "sm_52")};

/* What the calls of every kind work on. */
static Handle context, module, function, one, two, event, timed[2], graph_exec, long_exec;
static DevicePtr here, there;
static char *pinned, *pageable, *registered;

#define CHECK(call)                                                          \
    do {                                                                     \
        Result result_ = (call);                                             \
        if (result_ != 0) {                                                  \
            fprintf(stderr, "calls: %s: %d\n", #call, result_);              \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

/* The first error of a kind ends it. */
#define DO(call)                                                             \
    do {                                                                     \
        Result result_ = (call);                                             \
        if (result_ != 0) return result_;                                    \
    } while (0)

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static Result launch_on(Handle stream) {
    static uint64_t a = 1, b = 2;
    static uint32_t c = 3;
    static float d = 4;
    void *parameters[] = {&a, &b, &c, &d};
    return cu.launch(function, 64, 1, 1, 256, 1, 1, 0, stream, parameters, NULL);
}

static void nothing(void *argument) {
    (void)argument;
}

static Result launch(void) { return launch_on(one); }
static Result launch_legacy(void) { return launch_on(NULL); }
static Result launch_turns(void) {
    DO(launch_on(one));
    return launch_on(two);
}
static Result memset_small(void) { return cu.set_d8(here, 1, SMALL, one); }
static Result memset_legacy(void) { return cu.set_d8(here, 1, SMALL, NULL); }
static Result device_copy(void) { return cu.copy_on(there, here, PAGE, one); }
static Result device_copy_legacy(void) { return cu.copy_on(there, here, PAGE, NULL); }
static Result in_8(void) { return cu.copy_in(here, pageable, SMALL, one); }
static Result in_4k(void) { return cu.copy_in(here, pageable, PAGE, one); }
static Result in_64k(void) { return cu.copy_in(here, pageable, LARGE, one); }
static Result in_8_pinned(void) { return cu.copy_in(here, pinned, SMALL, one); }
static Result in_4k_pinned(void) { return cu.copy_in(here, pinned, PAGE, one); }
static Result in_64k_pinned(void) { return cu.copy_in(here, pinned, LARGE, one); }
static Result in_4k_now(void) { return cu.copy_in_now(here, pageable, PAGE); }
static Result out_8(void) { return cu.copy_out(pageable, here, SMALL, one); }
static Result out_4k(void) { return cu.copy_out(pageable, here, PAGE, one); }
static Result out_4k_pinned(void) { return cu.copy_out(pinned, here, PAGE, one); }
static Result out_8_now(void) { return cu.copy_out_now(pageable, here, SMALL); }
static Result out_pinned_wait(void) {
    DO(cu.copy_out(pinned, here, SMALL, one));
    return cu.stream_synchronize(one);
}
static Result record(void) { return cu.event_record(event, one); }
static Result record_legacy(void) { return cu.event_record(event, NULL); }
static Result record_timed(void) { return cu.event_record(timed[0], one); }
static Result record_wait(void) {
    DO(cu.event_record(event, one));
    return cu.stream_wait(two, event, 0);
}
static Result fork_join(void) {
    DO(cu.event_record(event, one));
    DO(cu.stream_wait(two, event, 0));
    DO(launch_on(two));
    DO(cu.event_record(event, two));
    DO(cu.stream_wait(one, event, 0));
    return launch_on(one);
}
static Result launch_record(void) {
    DO(launch_on(one));
    return cu.event_record(event, one);
}
static Result launch_memset_copy(void) {
    DO(launch_on(one));
    DO(cu.set_d8(here, 1, SMALL, one));
    return cu.copy_on(there, here, PAGE, one);
}
static Result launch_in(void) {
    DO(launch_on(one));
    return cu.copy_in(here, pageable, PAGE, one);
}
static Result launch_out(void) {
    DO(launch_on(one));
    return cu.copy_out(pageable, here, SMALL, one);
}
static Result launch_wait(void) {
    DO(launch_on(one));
    return cu.stream_synchronize(one);
}
static Result event_time(void) {
    float ms;
    DO(cu.event_record(timed[0], one));
    DO(launch_on(one));
    DO(cu.event_record(timed[1], one));
    DO(cu.event_synchronize(timed[1]));
    return cu.event_elapsed(&ms, timed[0], timed[1]);
}
static Result event_life(void) {
    Handle made;
    DO(cu.event_create(&made, 2));
    DO(cu.event_record(made, one));
    return cu.event_destroy(made);
}
static Result stream_life(void) {
    Handle made;
    DO(cu.stream_create(&made, 1));
    DO(launch_on(made));
    return cu.stream_destroy(made);
}
static Result query_stream(void) {
    Result result = cu.stream_query(one);
    return result == 600 ? 0 : result;
}
static Result query_event(void) {
    Result result = cu.event_query(event);
    return result == 600 ? 0 : result;
}
static Result launch_query(void) {
    DO(launch_on(one));
    DO(cu.event_record(event, one));
    return query_event();
}
static Result write_value(void) { return cu.write_value(one, here, 1, 0); }
static Result call_host(void) { return cu.host_function(one, nothing, NULL); }
static Result memory_life(void) {
    DevicePtr made;
    DO(cu.mem_alloc(&made, ROOM));
    return cu.mem_free(made);
}
static Result memory_life_async(void) {
    DevicePtr made;
    DO(cu.alloc_async(&made, ROOM, one));
    DO(launch_on(one));
    return cu.free_async(made, one);
}
static Result pinned_life(void) {
    void *made;
    DO(cu.host_alloc(&made, LARGE, 0));
    return cu.host_free(made);
}
static Result registered_life(void) {
    DO(cu.host_register(registered, LARGE, 0));
    return cu.host_unregister(registered);
}
static Result room(void) {
    size_t left, all;
    return cu.mem_info(&left, &all);
}
static Result kind_of_pointer(void) {
    unsigned kind;
    return cu.pointer_attribute(&kind, 2, here);
}
static Result current(void) {
    Handle found;
    DO(cu.set_current(context));
    return cu.get_current(&found);
}
static Result occupancy(void) {
    int blocks;
    return cu.occupancy(&blocks, function, 256, 0);
}
static Result module_life(void) {
    Handle made, found;
    DO(cu.module_load(&made, kernels[1]));
    DO(cu.get_function(&found, made, "nothing"));
    return cu.module_unload(made);
}
static Result graph_one(void) { return cu.graph_launch(graph_exec, one); }
static Result graph_many(void) { return cu.graph_launch(long_exec, one); }

static Result capture(Handle *exec, int nodes) {
    Handle graph;
    DO(cu.begin_capture(one, 0));
    for (int i = 0; i < nodes; i++) DO(launch_on(one));
    DO(cu.end_capture(one, &graph));
    DO(cu.instantiate(exec, graph, 0));
    return cu.graph_destroy(graph);
}
static Result graph_life(void) {
    Handle made;
    DO(capture(&made, NODES));
    DO(cu.graph_launch(made, one));
    return cu.exec_destroy(made);
}

static const struct {
    const char *name;
    Result (*once)(void);
} kinds[] = {
    {"launch", launch},
    {"launch, legacy stream", launch_legacy},
    {"launch on two streams in turn", launch_turns},
    {"memset 8 B", memset_small},
    {"memset 8 B, legacy stream", memset_legacy},
    {"copy on the device, 4 KiB", device_copy},
    {"copy on the device, legacy stream", device_copy_legacy},
    {"copy in, 8 B", in_8},
    {"copy in, 4 KiB", in_4k},
    {"copy in, 64 KiB", in_64k},
    {"copy in, 4 KiB, synchronous", in_4k_now},
    {"copy in, page-locked, 8 B", in_8_pinned},
    {"copy in, page-locked, 4 KiB", in_4k_pinned},
    {"copy in, page-locked, 64 KiB", in_64k_pinned},
    {"copy out, 8 B", out_8},
    {"copy out, 4 KiB", out_4k},
    {"copy out, 8 B, synchronous", out_8_now},
    {"copy out, page-locked, 4 KiB", out_4k_pinned},
    {"copy out, page-locked, and wait", out_pinned_wait},
    {"record", record},
    {"record, legacy stream", record_legacy},
    {"record with a time", record_timed},
    {"record, other stream waits", record_wait},
    {"fork to a stream and join", fork_join},
    {"launch, record", launch_record},
    {"launch, memset, copy on the device", launch_memset_copy},
    {"launch, copy in 4 KiB", launch_in},
    {"launch, copy out 8 B", launch_out},
    {"launch, synchronize stream", launch_wait},
    {"launch, record, query", launch_query},
    {"time a launch by events", event_time},
    {"query a stream", query_stream},
    {"query an event", query_event},
    {"write a value", write_value},
    {"call a host function", call_host},
    {"event made, recorded, destroyed", event_life},
    {"stream made, used, destroyed", stream_life},
    {"memory allocated, freed, 1 MiB", memory_life},
    {"the same in stream order", memory_life_async},
    {"page-locked allocated, freed, 64 KiB", pinned_life},
    {"memory registered, unregistered", registered_life},
    {"memory left", room},
    {"kind of a pointer", kind_of_pointer},
    {"context set, asked", current},
    {"occupancy", occupancy},
    {"module loaded, unloaded", module_life},
    {"graph of 1 launched", graph_one},
    {"graph of 50 launched", graph_many},
    {"graph of 50 captured, launched", graph_life},
};

static void start(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "calls: %s\n", dlerror());
        exit(1);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = dlsym(library, names[i].name);
        if (found == NULL) {
            fprintf(stderr, "calls: libcuda.so.1 lacks %s\n", names[i].name);
            exit(1);
        }
        *(void **)names[i].field = found;
    }
    int device;
    void *locked;
    CHECK(cu.init(0));
    CHECK(cu.device_get(&device, 0));
    CHECK(cu.retain(&context, device));
    CHECK(cu.set_current(context));
    if (cu.module_load(&module, kernels[0]) != 0) CHECK(cu.module_load(&module, kernels[1]));
    CHECK(cu.get_function(&function, module, "nothing"));
    CHECK(cu.stream_create(&one, 1));
    CHECK(cu.stream_create(&two, 1));
    CHECK(cu.event_create(&event, 2));
    CHECK(cu.event_create(&timed[0], 0));
    CHECK(cu.event_create(&timed[1], 0));
    CHECK(cu.event_record(event, one));
    CHECK(cu.mem_alloc(&here, ROOM));
    CHECK(cu.mem_alloc(&there, ROOM));
    CHECK(cu.host_alloc(&locked, ROOM, 0));
    pinned = locked;
    pageable = calloc(1, ROOM);
    registered = aligned_alloc(PAGE, LARGE);
    memset(registered, 0, LARGE);
    CHECK(capture(&graph_exec, 1));
    CHECK(capture(&long_exec, NODES));
    CHECK(cu.synchronize());
}

/* Makes calls of a kind for some seconds, and prints what they cost. */
static void measure(const char *name, Result (*once)(void), double seconds) {
    double calling = 0, all = 0;
    long count = 0;
    Result result = 0;
    /* The first ones find everything ready for those that count. */
    for (int i = 0; i < 20 && result == 0; i++) result = once();
    CHECK(cu.synchronize());
    while (all < seconds * 1e9 && result == 0) {
        double begin = now_ns(), late = begin + seconds * 1e9;
        int made = 0;
        do {
            result = once();
            made++;
        } while (made < BURST && result == 0 && now_ns() < late);
        calling += now_ns() - begin;
        CHECK(cu.synchronize());
        all += now_ns() - begin;
        count += made;
    }
    printf("{\"name\": \"%s\", \"count\": %ld, ", name, count);
    if (result != 0) {
        printf("\"refused\": %d, \"call_ns\": null, \"done_ns\": null}", result);
    } else {
        calling /= (double)count;
        all /= (double)count;
        printf("\"call_ns\": %.0f, \"done_ns\": %.0f}", calling, all);
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    if (seconds <= 0) {
        fprintf(stderr, "calls: SECONDS [KIND...]\n");
        return 2;
    }
    start();
    printf("{\"mode\": \"calls\", \"calls\": [");
    const char *comma = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int wanted = argc < 3;
        for (int j = 2; j < argc; j++) wanted |= strcmp(argv[j], kinds[i].name) == 0;
        if (!wanted) continue;
        printf("%s", comma);
        comma = ", ";
        measure(kinds[i].name, kinds[i].once, seconds);
    }
    printf("]}\n");
    return 0;
}
