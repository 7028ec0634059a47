/* Micro-benchmarks of the CUDA driver API, for the program's side of it.
 *
 * It opens libcuda.so.1 as every CUDA program does, so what it measures is whatever answers to that
 * name. It needs no CUDA headers. Each mode prints one JSON object.
 *
 *   driver launch THREADS BURSTS      cost of a queued launch, each one timed
 *   driver sustained SECONDS THREADS  launches a second, end to end
 *   driver sync COUNT                 launch + synchronize, and synchronize with nothing to do
 *   driver copies MAX_BYTES REPEATS   copies by size: pageable and pinned, both ways
 *   driver across MAX_BYTES REPEATS   copies by size from the first device to the last
 *   driver steps LAUNCHES STEPS       steps of that many launches, a synchronize at the end
 *   driver memory MIB LAUNCHES        what the library adds to this process's memory; then waits
 *                                     for the end of stdin, so that its server can be looked at
 *   driver context 1                  the same with a context and nothing else
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Result;
typedef uint64_t DevicePtr;
typedef void *Handle;

static struct {
    Result (*init)(unsigned);
    Result (*device_count)(int *);
    Result (*device_get)(int *, int);
    Result (*retain)(Handle *, int);
    Result (*set_current)(Handle);
    Result (*synchronize)(void);
    Result (*module_load)(Handle *, const void *);
    Result (*get_function)(Handle *, Handle, const char *);
    Result (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     Handle, void **, void **);
    Result (*stream_create)(Handle *, unsigned);
    Result (*stream_synchronize)(Handle);
    Result (*mem_alloc)(DevicePtr *, size_t);
    Result (*host_alloc)(void **, size_t, unsigned);
    Result (*copy_to_device)(DevicePtr, const void *, size_t);
    Result (*copy_to_host)(void *, DevicePtr, size_t);
    Result (*copy_peer)(DevicePtr, Handle, DevicePtr, Handle, size_t);
} cu;

/* An empty kernel with the parameters of a typical one. The second text is for GPUs and drivers
 * that do not take the first. */
#define KERNEL(version, target)                                              \
    ".version " version "\n.target " target "\n.address_size 64\n"           \
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u32 c, "  \
    ".param .f32 d)\n{\nret;\n}\n"
static const char *const kernels[] = {KERNEL("6.3", "sm_75"), KERNEL("6.0", "sm_52")};

static Handle context, function;

static void fail(const char *what, int code) {
    fprintf(stderr, "driver: %s: %d\n", what, code);
    exit(1);
}

#define CHECK(call)                                \
    do {                                           \
        Result result_ = (call);                   \
        if (result_ != 0) fail(#call, result_);    \
    } while (0)

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "driver: libcuda.so.1 lacks %s\n", name);
        exit(1);
    }
    return found;
}

/* Opens the library, and makes a context current. */
static void open_context(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "driver: %s\n", dlerror());
        exit(1);
    }
#define GET(field, name) *(void **)(&cu.field) = symbol(library, name)
    GET(init, "cuInit");
    GET(device_count, "cuDeviceGetCount");
    GET(device_get, "cuDeviceGet");
    GET(retain, "cuDevicePrimaryCtxRetain");
    GET(set_current, "cuCtxSetCurrent");
    GET(synchronize, "cuCtxSynchronize");
    GET(module_load, "cuModuleLoadData");
    GET(get_function, "cuModuleGetFunction");
    GET(launch, "cuLaunchKernel");
    GET(stream_create, "cuStreamCreate");
    GET(stream_synchronize, "cuStreamSynchronize");
    GET(mem_alloc, "cuMemAlloc_v2");
    GET(host_alloc, "cuMemHostAlloc");
    GET(copy_to_device, "cuMemcpyHtoD_v2");
    GET(copy_to_host, "cuMemcpyDtoH_v2");
    GET(copy_peer, "cuMemcpyPeer");
    int device;
    CHECK(cu.init(0));
    CHECK(cu.device_get(&device, 0));
    CHECK(cu.retain(&context, device));
    CHECK(cu.set_current(context));
}

static void start(void) {
    open_context();
    Handle module;
    Result result = cu.module_load(&module, kernels[0]);
    if (result != 0) result = cu.module_load(&module, kernels[1]);
    if (result != 0) fail("cuModuleLoadData", result);
    CHECK(cu.get_function(&function, module, "nothing"));
}

static void launch_on(Handle stream) {
    static uint64_t a = 1, b = 2;
    static uint32_t c = 3;
    static float d = 4;
    void *parameters[] = {&a, &b, &c, &d};
    CHECK(cu.launch(function, 64, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *sorted, size_t count, double q) {
    return sorted[(size_t)((double)(count - 1) * q)];
}

/* What reading the clock twice costs, to be taken off each measurement. */
static double clock_cost(void) {
    double best = 1e9;
    for (int i = 0; i < 10000; i++) {
        double begin = now_ns(), cost = now_ns() - begin;
        if (cost < best) best = cost;
    }
    return best;
}

/* Fewer than a driver queues before it makes the program wait. */
enum { BURST = 400 };

struct thread {
    pthread_t id;
    pthread_barrier_t *barrier;
    int bursts;
    double seconds;
    double *times;
    double busy_ns;
    uint64_t launched;
};

static void *launch_thread(void *argument) {
    struct thread *self = argument;
    Handle stream;
    double cost = clock_cost();
    CHECK(cu.set_current(context));
    CHECK(cu.stream_create(&stream, 1));
    for (int i = 0; i < BURST; i++) launch_on(stream);
    CHECK(cu.stream_synchronize(stream));
    size_t next = 0;
    for (int burst = 0; burst < self->bursts; burst++) {
        pthread_barrier_wait(self->barrier);
        double begin = now_ns(), before = begin;
        for (int i = 0; i < BURST; i++) {
            launch_on(stream);
            double after = now_ns();
            self->times[next++] = after - before > cost ? after - before - cost : 0;
            before = after;
        }
        self->busy_ns += now_ns() - begin;
        CHECK(cu.stream_synchronize(stream));
    }
    return NULL;
}

static void launch_mode(int count, int bursts) {
    struct thread *threads = calloc((size_t)count, sizeof *threads);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    size_t each = (size_t)bursts * BURST, total = each * (size_t)count;
    double *times = malloc(total * sizeof *times), busy = 0, sum = 0;
    for (int i = 0; i < count; i++) {
        threads[i].barrier = &barrier;
        threads[i].bursts = bursts;
        threads[i].times = times + each * (size_t)i;
        pthread_create(&threads[i].id, NULL, launch_thread, &threads[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        busy += threads[i].busy_ns;
    }
    for (size_t i = 0; i < total; i++) sum += times[i];
    qsort(times, total, sizeof *times, by_value);
    printf("{\"mode\": \"launch\", \"threads\": %d, \"count\": %zu, \"p50_ns\": %.1f, "
           "\"p90_ns\": %.1f, \"p99_ns\": %.1f, \"mean_ns\": %.1f, \"busy_ns\": %.1f}\n",
           count, total, at(times, total, 0.5), at(times, total, 0.9), at(times, total, 0.99),
           sum / (double)total, busy / (double)total);
}

static void *sustained_thread(void *argument) {
    struct thread *self = argument;
    Handle stream;
    CHECK(cu.set_current(context));
    CHECK(cu.stream_create(&stream, 1));
    for (int i = 0; i < BURST; i++) launch_on(stream);
    CHECK(cu.stream_synchronize(stream));
    pthread_barrier_wait(self->barrier);
    double begin = now_ns();
    while (now_ns() - begin < self->seconds * 1e9) {
        for (int i = 0; i < 100; i++) launch_on(stream);
        self->launched += 100;
    }
    CHECK(cu.stream_synchronize(stream));
    self->busy_ns = now_ns() - begin;
    return NULL;
}

static void sustained_mode(double seconds, int count) {
    struct thread *threads = calloc((size_t)count, sizeof *threads);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    uint64_t launched = 0;
    double longest = 0;
    for (int i = 0; i < count; i++) {
        threads[i].barrier = &barrier;
        threads[i].seconds = seconds;
        pthread_create(&threads[i].id, NULL, sustained_thread, &threads[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        launched += threads[i].launched;
        if (threads[i].busy_ns > longest) longest = threads[i].busy_ns;
    }
    printf("{\"mode\": \"sustained\", \"threads\": %d, \"launches\": %llu, \"per_s\": %.0f}\n",
           count, (unsigned long long)launched, (double)launched / (longest / 1e9));
}

static void sync_mode(int count) {
    double *idle = malloc((size_t)count * sizeof *idle);
    double *busy = malloc((size_t)count * sizeof *busy);
    for (int i = 0; i < 20; i++) launch_on(NULL);
    CHECK(cu.synchronize());
    for (int i = 0; i < count; i++) {
        double begin = now_ns();
        launch_on(NULL);
        CHECK(cu.synchronize());
        double middle = now_ns();
        CHECK(cu.synchronize());
        busy[i] = middle - begin;
        idle[i] = now_ns() - middle;
    }
    size_t n = (size_t)count;
    qsort(idle, n, sizeof *idle, by_value);
    qsort(busy, n, sizeof *busy, by_value);
    printf("{\"mode\": \"sync\", \"count\": %d, \"launch_sync_p50_ns\": %.0f, "
           "\"launch_sync_p99_ns\": %.0f, \"idle_sync_p50_ns\": %.0f, "
           "\"idle_sync_p99_ns\": %.0f}\n",
           count, at(busy, n, 0.5), at(busy, n, 0.99), at(idle, n, 0.5), at(idle, n, 0.99));
}

static double time_copy(int to_device, DevicePtr device, char *host, size_t bytes, int repeats) {
    double *times = malloc((size_t)repeats * sizeof *times);
    for (int i = -1; i < repeats; i++) {
        double begin = now_ns();
        if (to_device) CHECK(cu.copy_to_device(device, host, bytes));
        else CHECK(cu.copy_to_host(host, device, bytes));
        /* A small copy to the device may return before it has arrived. */
        CHECK(cu.synchronize());
        if (i >= 0) times[i] = now_ns() - begin;
    }
    qsort(times, (size_t)repeats, sizeof *times, by_value);
    double middle = at(times, (size_t)repeats, 0.5);
    free(times);
    return middle;
}

/* Bytes that depend on their place and the round, and that do not compress. */
static void scramble(char *bytes, size_t count, uint64_t seed) {
    uint64_t x = seed * 2654435769u + 1;
    for (size_t i = 0; i + 8 <= count; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(bytes + i, &x, 8);
    }
}

static void copies_mode(size_t most, int repeats) {
    DevicePtr device;
    void *pinned;
    char *pageable = malloc(most);
    CHECK(cu.mem_alloc(&device, most));
    CHECK(cu.host_alloc(&pinned, most, 0));
    scramble(pageable, most, 1);
    scramble(pinned, most, 2);
    printf("{\"mode\": \"copies\", \"sizes\": [");
    const char *comma = "";
    for (size_t bytes = 4096; bytes <= most; bytes *= 4) {
        int n = bytes >= (64u << 20) ? (repeats + 3) / 4 : repeats;
        printf("%s{\"bytes\": %zu", comma, bytes);
        comma = ", ";
        for (int is_pinned = 0; is_pinned < 2; is_pinned++) {
            char *host = is_pinned ? pinned : pageable;
            const char *name = is_pinned ? "pinned" : "pageable";
            printf(", \"%s_h2d_ns\": %.0f", name, time_copy(1, device, host, bytes, n));
            printf(", \"%s_d2h_ns\": %.0f", name, time_copy(0, device, host, bytes, n));
        }
        printf("}");
        fflush(stdout);
    }
    /* What came back must be what went out. */
    char *check = malloc(most);
    CHECK(cu.copy_to_device(device, pageable, most));
    CHECK(cu.copy_to_host(check, device, most));
    printf("], \"intact\": %s}\n", memcmp(check, pageable, most) == 0 ? "true" : "false");
}

/* The last device may be another server's. */
static void across_mode(size_t most, int repeats) {
    int count;
    Handle there;
    DevicePtr from, to;
    char *sent = malloc(most), *came = calloc(1, most);
    CHECK(cu.mem_alloc(&from, most));
    CHECK(cu.device_count(&count));
    CHECK(cu.retain(&there, count - 1));
    CHECK(cu.set_current(there));
    CHECK(cu.mem_alloc(&to, most));
    scramble(sent, most, 3);
    CHECK(cu.set_current(context));
    CHECK(cu.copy_to_device(from, sent, most));
    CHECK(cu.synchronize());
    printf("{\"mode\": \"across\", \"repeats\": %d, \"sizes\": [", repeats);
    const char *comma = "";
    for (size_t bytes = 64 << 10; bytes <= most; bytes *= 4) {
        double begin = 0;
        /* The first one is not counted. */
        for (int i = 0; i <= repeats; i++) {
            if (i == 1) begin = now_ns();
            CHECK(cu.copy_peer(to, there, from, context, bytes));
            CHECK(cu.synchronize());
        }
        printf("%s{\"bytes\": %zu, \"ns\": %.0f}", comma, bytes, (now_ns() - begin) / repeats);
        fflush(stdout);
        comma = ", ";
    }
    CHECK(cu.copy_peer(to, there, from, context, most));
    CHECK(cu.set_current(there));
    CHECK(cu.synchronize());
    CHECK(cu.copy_to_host(came, to, most));
    printf("], \"intact\": %s}\n", memcmp(came, sent, most) == 0 ? "true" : "false");
}

static void steps_mode(int launches, int steps) {
    double begin = now_ns();
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < launches; i++) launch_on(NULL);
        CHECK(cu.synchronize());
    }
    printf("{\"mode\": \"steps\", \"launches\": %d, \"steps\": %d, \"step_ns\": %.0f}\n", launches,
           steps, (now_ns() - begin) / steps);
}

/* A line of a file of /proc in KiB, 0 where it is missing. */
static long kib_of(const char *path, const char *name) {
    FILE *file = fopen(path, "r");
    char line[256];
    long value = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0) value = atol(line + strlen(name));
    if (file != NULL) fclose(file);
    return value;
}

static long resident_kib(void) {
    return kib_of("/proc/self/status", "VmRSS:");
}

/* Makes the peak start again from what is resident now, where the kernel can. */
static void reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL) return;
    fputs("5", file);
    fclose(file);
}

static void hold(void) {
    fflush(stdout);
    while (getchar() != EOF) {}
}

static void memory_mode(size_t bytes, int launches) {
    /* The program's own memory is there, and counted, before the library is. */
    char *out = malloc(bytes), *in = malloc(bytes);
    scramble(out, bytes, 3);
    scramble(in, bytes, 4);
    long before = resident_kib();
    reset_peak();
    start();
    long started = resident_kib();
    DevicePtr device;
    CHECK(cu.mem_alloc(&device, bytes));
    for (int i = 0; i < 4; i++) {
        CHECK(cu.copy_to_device(device, out, bytes));
        for (int j = 0; j < launches; j++) launch_on(NULL);
        CHECK(cu.copy_to_host(in, device, bytes));
    }
    CHECK(cu.synchronize());
    long peak = kib_of("/proc/self/status", "VmHWM:");
    printf("{\"mode\": \"memory\", \"before_kib\": %ld, \"started_kib\": %ld, \"after_kib\": %ld, "
           "\"peak_kib\": %ld, \"intact\": %s}\n",
           before, started - before, resident_kib() - before, peak - before,
           memcmp(in, out, bytes) == 0 ? "true" : "false");
    hold();
}

static void context_mode(void) {
    long before = resident_kib();
    open_context();
    long after = resident_kib();
    printf("{\"mode\": \"context\", \"before_kib\": %ld, \"after_kib\": %ld, \"rss_kib\": %ld}\n",
           before, after - before, after);
    hold();
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    double first = argc > 2 ? atof(argv[2]) : 0;
    int second = argc > 3 ? atoi(argv[3]) : 1;
    if (first <= 0 || second <= 0) {
        fprintf(stderr, "driver: MODE NUMBER NUMBER; "
                        "modes: launch, sustained, sync, copies, across, steps, "
                        "memory, context\n");
        return 2;
    }
    if (strcmp(mode, "memory") == 0) {
        memory_mode((size_t)first << 20, second);
        return 0;
    }
    if (strcmp(mode, "context") == 0) {
        context_mode();
        return 0;
    }
    start();
    if (strcmp(mode, "launch") == 0) launch_mode((int)first, second);
    else if (strcmp(mode, "sustained") == 0) sustained_mode(first, second);
    else if (strcmp(mode, "sync") == 0) sync_mode((int)first);
    else if (strcmp(mode, "copies") == 0) copies_mode((size_t)first, second);
    else if (strcmp(mode, "across") == 0) across_mode((size_t)first, second);
    else if (strcmp(mode, "steps") == 0) steps_mode((int)first, second);
    else {
        fprintf(stderr, "driver: no mode %s\n", mode);
        return 2;
    }
    return 0;
}
