/* What a program of random commands has: its random numbers, the objects that the commands touch,
 * what each of them has to wait for, and memory that commands read and fill. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(x)                                                                                      \
    do {                                                                                           \
        cl_int code_ = (x);                                                                        \
        if (code_) {                                                                               \
            printf("line %d, seed %llu, step %d: %s gave %d\n", __LINE__,                          \
                   (unsigned long long)t->seed, t->step, #x, code_);                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
/* Records the code of a call that is wrong. */
#define WRONG(x) note(t, (uint32_t)(x), #x)

enum { QUEUES = 4, BUFFERS = 14, IMAGES = 4, SHARED = 3, HELD = 24, GATES = 4, MOST = 3 << 20 };

/* An object that commands touch one after another. */
struct object {
    cl_mem memory;
    char *svm;
    size_t size;
    /* A part's whole, and where it begins there; how many parts a whole has. */
    struct object *whole;
    size_t origin;
    int parts;
    /* The queue of the last command and its event, if it has one. */
    int queue;
    cl_event last;
    /* Where it is mapped. */
    void *mapped;
    int writes;
    size_t at, length, width, height, depth, pixel, row, slice;
    void *host;
};

/* Memory of the program's that a command reads or fills. */
struct held {
    cl_event event;
    unsigned char *bytes;
    size_t size;
    int filled;
};

struct thread {
    uint64_t seed, random, digest;
    int step, steps;
    cl_context context;
    cl_device_id device;
    cl_command_queue queues[QUEUES];
    cl_program program;
    cl_kernel scale, blend, pixels, place;
    struct object buffers[BUFFERS], images[IMAGES], shared[SHARED];
    struct held held[HELD];
    cl_event gates[GATES];
    int called, expected;
    char *out;
    size_t printed;
    pthread_t id;
};

static int tracing;
static cl_platform_id platform;
static cl_device_id device;

static const char *source =
    "kernel void scale(global uint *x, uint k) {\n"
    "  size_t i = get_global_id(0); x[i] = x[i] * k + (uint)i; }\n"
    "kernel void blend(global uint *x, global const uint *y, uint n, local uint *l) {\n"
    "  size_t i = get_global_id(0), j = get_local_id(0);\n"
    "  l[j] = y[i % n]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  x[i] ^= l[get_local_size(0) - 1 - j] + (uint)get_group_id(0); }\n"
    "constant sampler_t near = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE |"
    " CLK_FILTER_NEAREST;\n"
    "kernel void pixels(read_only image2d_t a, global uint *x, uint n) {\n"
    "  int2 p = (int2)(get_global_id(0), get_global_id(1));\n"
    "  uint4 v = read_imageui(a, near, p);\n"
    "  x[(p.y * get_image_width(a) + p.x) % n] = v.x + 3 * v.y + 5 * v.z + 7 * v.w; }\n"
    "kernel void place(write_only image2d_t a, uint k) {\n"
    "  int2 p = (int2)(get_global_id(0), get_global_id(1));\n"
    "  write_imageui(a, p, (uint4)(p.x, p.y, k, p.x * p.y) & 255u); }\n";

static uint64_t next(struct thread *t) {
    uint64_t z = (t->random += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static size_t below(struct thread *t, size_t n) { return next(t) % n; }
static int one_in(struct thread *t, int n) { return below(t, n) == 0; }

/* Mostly small, up to `most`. */
static size_t magnitude(struct thread *t, size_t most) {
    size_t bits = 1;
    while (most >> bits)
        bits++;
    size_t n = next(t) & ((1ull << (1 + below(t, bits))) - 1);
    return n < 1 ? 1 : n > most ? most : n;
}

static void trace(struct thread *t, const char *format, ...) {
    if (!tracing)
        return;
    va_list list;
    va_start(list, format);
    printf("%d: ", t->step);
    vprintf(format, list);
    putchar('\n');
    fflush(stdout);
    va_end(list);
}

static void note(struct thread *t, uint64_t v, const char *what) {
    trace(t, "  %s: %016llx", what, (unsigned long long)v);
    t->digest = ((t->digest << 7 | t->digest >> 57) ^ v) * 0x100000001b3;
}

static void note_bytes(struct thread *t, const void *bytes, size_t n, const char *what) {
    const unsigned char *p = bytes;
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3;
    note(t, h, what);
}

static void scribble(struct thread *t, void *bytes, size_t n) {
    uint64_t z = next(t);
    unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        p[i] = (z = z * 6364136223846793005 + 1) >> 56;
}

/* ---- order ---- */

static int in_order(int q) { return q < 2; }

static struct object *whole(struct object *o) { return o->whole ? o->whole : o; }

static void open_gates(struct thread *t) {
    for (int i = 0; i < GATES; i++)
        if (t->gates[i]) {
            OK(clSetUserEventStatus(t->gates[i], CL_COMPLETE));
            OK(clReleaseEvent(t->gates[i]));
            t->gates[i] = NULL;
        }
}

/* The wait list of a command of queue `q` that touches these objects. */
struct waits {
    cl_event list[8];
    cl_uint n;
    int owned;
};

static void wait_for(struct thread *t, struct waits *w, int q, struct object *o) {
    o = whole(o);
    if (o->queue == q && in_order(q) && !one_in(t, 8))
        return;
    if (!o->last) {
        /* What an ordered queue has done so far. */
        OK(clEnqueueMarkerWithWaitList(t->queues[o->queue], 0, NULL, &o->last));
        if (o->queue != q)
            OK(clFlush(t->queues[o->queue]));
    }
    /* Some drivers take an event only once. */
    for (cl_uint i = 0; i < w->n; i++)
        if (w->list[i] == o->last)
            return;
    w->list[w->n++] = o->last;
}

static const cl_event *list(struct waits *w) { return w->n ? w->list : NULL; }

static void touched(struct thread *t, int q, struct object *o, cl_event e) {
    o = whole(o);
    if (e)
        OK(clRetainEvent(e));
    if (o->last)
        OK(clReleaseEvent(o->last));
    o->last = e;
    o->queue = q;
}

/* Whether a command of this queue is to have an event. */
static int wants_event(struct thread *t, int q) { return !in_order(q) || one_in(t, 2); }

static void CL_CALLBACK called(cl_event e, cl_int status, void *user) {
    (void)e;
    if (status == CL_COMPLETE)
        __atomic_fetch_add((int *)user, 1, __ATOMIC_SEQ_CST);
}

/* A command has been queued that touches these objects. */
static void queued(struct thread *t, int q, cl_event e, struct object *a, struct object *b,
                   cl_command_type type) {
    touched(t, q, a, e);
    if (b)
        touched(t, q, b, e);
    if (!e)
        return;
    if (one_in(t, 6)) {
        cl_command_type is;
        OK(clGetEventInfo(e, CL_EVENT_COMMAND_TYPE, sizeof is, &is, NULL));
        if (is != type)
            printf("a command of type %x is called %x\n", type, is);
    }
    if (one_in(t, 10)) {
        OK(clSetEventCallback(e, CL_COMPLETE, called, &t->called));
        t->expected++;
    }
    OK(clReleaseEvent(e));
}

/* Sometimes lets a command wait for something that the program will do later. */
static void gate(struct thread *t, struct waits *w) {
    if (!one_in(t, 12))
        return;
    int i = below(t, GATES);
    cl_int code;
    if (!t->gates[i]) {
        t->gates[i] = clCreateUserEvent(t->context, &code);
        OK(code);
    }
    w->list[w->n++] = t->gates[i];
}

/* ---- memory of the program's ---- */

static void settle(struct thread *t, struct held *h) {
    if (h->filled)
        note_bytes(t, h->bytes, h->size, "read later");
    scribble(t, h->bytes, h->size < 64 ? h->size : 64);
    free(h->bytes);
    OK(clReleaseEvent(h->event));
    h->event = NULL;
}

static void wait_held(struct thread *t) {
    open_gates(t);
    for (int i = 0; i < HELD; i++)
        if (t->held[i].event) {
            cl_int status;
            OK(clWaitForEvents(1, &t->held[i].event));
            OK(clGetEventInfo(t->held[i].event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                              &status, NULL));
            note(t, status, "status");
            settle(t, &t->held[i]);
        }
}

static void hold(struct thread *t, cl_event e, unsigned char *bytes, size_t size, int filled) {
    for (;;) {
        for (int i = 0; i < HELD; i++)
            if (!t->held[i].event) {
                t->held[i] = (struct held){e, bytes, size, filled};
                return;
            }
        wait_held(t);
    }
}

/* ---- objects ---- */

static struct object *pick(struct thread *t, struct object *list, int n) {
    for (int i = 0; i < 8; i++) {
        struct object *o = &list[below(t, n)];
        if ((o->memory || o->svm) && !whole(o)->mapped)
            return o;
    }
    return NULL;
}

static struct object *empty(struct object *list, int n) {
    for (int i = 0; i < n; i++)
        if (!list[i].memory && !list[i].svm)
            return &list[i];
    return NULL;
}

static void stretch(struct thread *t, struct object *o, size_t unit, size_t *at, size_t *n) {
    size_t units = o->size / unit, m = magnitude(t, units);
    *at = below(t, units - m + 1) * unit;
    *n = m * unit;
}

static void fill_now(struct thread *t, struct object *o) {
    cl_uint pattern = (cl_uint)next(t);
    OK(clEnqueueFillBuffer(t->queues[0], o->memory, &pattern, 4, 0, o->size, 0, NULL, NULL));
    o->queue = 0;
}

static void make_buffer(struct thread *t) {
    struct object *o = empty(t->buffers, BUFFERS);
    if (!o)
        return;
    cl_int code;
    struct object *of = one_in(t, 4) ? pick(t, t->buffers, BUFFERS) : NULL;
    if (of && !of->whole && of->size >= 4096) {
        cl_buffer_region r = {below(t, of->size / 4096) * 1024, 0};
        r.size = magnitude(t, (of->size - r.origin) / 4) * 4;
        o->memory = clCreateSubBuffer(of->memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &code);
        OK(code);
        o->size = r.size;
        o->whole = of;
        o->origin = r.origin;
        of->parts++;
        trace(t, "part of %d: %zu at %zu", (int)(of - t->buffers), r.size, r.origin);
        return;
    }
    o->size = magnitude(t, MOST / 4) * 4;
    int how = below(t, 4);
    cl_mem_flags flags = how == 1   ? CL_MEM_COPY_HOST_PTR
                         : how == 2 ? CL_MEM_USE_HOST_PTR
                         : how == 3 ? CL_MEM_ALLOC_HOST_PTR
                                    : 0;
    unsigned char *bytes = NULL;
    if (how == 1 || how == 2) {
        bytes = aligned_alloc(4096, (o->size + 4095) / 4096 * 4096);
        scribble(t, bytes, o->size);
    }
    o->memory = clCreateBuffer(t->context, CL_MEM_READ_WRITE | flags, o->size, bytes, &code);
    OK(code);
    trace(t, "buffer %d of %zu, kind %d", (int)(o - t->buffers), o->size, how);
    if (how == 1) {
        memset(bytes, 0x55, o->size);
        free(bytes);
    } else if (how == 2) {
        o->host = bytes;
    } else {
        fill_now(t, o);
    }
}

static void make_image(struct thread *t) {
    struct object *o = empty(t->images, IMAGES);
    if (!o)
        return;
    cl_image_format format = {CL_RGBA, one_in(t, 2) ? CL_UNSIGNED_INT8 : CL_UNSIGNED_INT32};
    cl_image_desc d = {0};
    d.image_type = one_in(t, 3) ? CL_MEM_OBJECT_IMAGE3D : CL_MEM_OBJECT_IMAGE2D;
    o->width = d.image_width = 1 + below(t, 90);
    o->height = d.image_height = 1 + below(t, 70);
    o->depth = 1;
    if (d.image_type == CL_MEM_OBJECT_IMAGE3D)
        o->depth = d.image_depth = 2 + below(t, 6);
    o->pixel = format.image_channel_data_type == CL_UNSIGNED_INT8 ? 4 : 16;
    o->size = o->width * o->height * o->depth * o->pixel;
    cl_int code;
    o->memory = clCreateImage(t->context, CL_MEM_READ_WRITE, &format, &d, NULL, &code);
    OK(code);
    trace(t, "image %d of %zux%zux%zu", (int)(o - t->images), o->width, o->height, o->depth);
    cl_uint color[4] = {below(t, 256), below(t, 256), below(t, 256), below(t, 256)};
    size_t zero[3] = {0}, all[3] = {o->width, o->height, o->depth};
    OK(clEnqueueFillImage(t->queues[0], o->memory, color, zero, all, 0, NULL, NULL));
    o->queue = 0;
}

static void drop(struct thread *t, struct object *o) {
    if (!o || o->parts)
        return;
    trace(t, "release of %zu bytes", o->size);
    if (o->whole)
        o->whole->parts--;
    else if (o->last)
        OK(clReleaseEvent(o->last));
    if (o->host || o->svm) {
        /* Its memory is the device's until all that uses it is over. */
        open_gates(t);
        for (int q = 0; q < QUEUES; q++)
            OK(clFinish(t->queues[q]));
    }
    if (o->memory)
        OK(clReleaseMemObject(o->memory));
    if (o->svm)
        clSVMFree(t->context, o->svm);
    free(o->host);
    memset(o, 0, sizeof *o);
}
