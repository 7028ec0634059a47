/* Random commands, whose trace is the same with every correct driver: `opencl_random SEED STEPS
 * [THREADS]`. Each thread has objects of its own. RANDOM_TRACE=1 prints every step.
 *
 * A command that touches an object waits for the last one that did, by the order of the queue or by
 * its event, so that what is computed does not depend on how commands overlap. Memory that a write
 * comes from is spoiled as soon as the program may. Where PoCL 3.1 falls over parts of buffers (as
 * the source or target of boxes and images), they are left out. */
#include "opencl_random.h"

static void write_or_read(struct thread *t, int reads) {
    struct object *o = pick(t, t->buffers, BUFFERS);
    if (!o)
        return;
    int q = below(t, QUEUES), blocking = one_in(t, 2);
    size_t at, n;
    stretch(t, o, 1, &at, &n);
    struct waits w = {0};
    wait_for(t, &w, q, o);
    if (blocking)
        open_gates(t);
    else
        gate(t, &w);
    cl_event e = NULL, *place = !blocking || wants_event(t, q) ? &e : NULL;
    unsigned char *bytes = malloc(n);
    trace(t, "%s of %zu at %zu of buffer %d, queue %d%s", reads ? "read" : "write", n, at,
          (int)(o - t->buffers), q, blocking ? ", blocking" : "");
    if (reads) {
        memset(bytes, 0x77, n);
        OK(clEnqueueReadBuffer(t->queues[q], o->memory, blocking, at, n, bytes, w.n, list(&w),
                               place));
    } else {
        scribble(t, bytes, n);
        OK(clEnqueueWriteBuffer(t->queues[q], o->memory, blocking, at, n, bytes, w.n, list(&w),
                                place));
    }
    if (e)
        OK(clRetainEvent(e));
    queued(t, q, e, o, NULL, reads ? CL_COMMAND_READ_BUFFER : CL_COMMAND_WRITE_BUFFER);
    if (!blocking) {
        hold(t, e, bytes, n, reads);
        return;
    }
    if (e)
        OK(clReleaseEvent(e));
    if (reads)
        note_bytes(t, bytes, n, "read");
    memset(bytes, 0x33, n);
    free(bytes);
}

/* A box in memory of rows and slices. */
struct box {
    size_t origin[3], row, slice;
};

static int box(struct thread *t, size_t size, const size_t *region, struct box *b) {
    b->row = region[0] + below(t, 40);
    b->slice = b->row * (region[1] + below(t, 3));
    size_t need = (region[2] - 1) * b->slice + (region[1] - 1) * b->row + region[0];
    if (need > size)
        return 0;
    size_t at = below(t, size - need + 1);
    /* The origin in whole slices and rows, as far as the box may begin there. */
    b->origin[2] = at / b->slice;
    b->origin[1] = at % b->slice / b->row;
    b->origin[0] = at % b->row;
    return 1;
}

static void boxes(struct thread *t) {
    struct object *o = pick(t, t->buffers, BUFFERS);
    if (!o)
        return;
    int q = below(t, QUEUES), what = below(t, 3), blocking = one_in(t, 2);
    size_t r[3] = {magnitude(t, 5000), 1 + below(t, 6), 1 + below(t, 4)};
    struct box a, h;
    if (!box(t, o->size, r, &a))
        return;
    size_t n = 40000 * 4 + MOST / 8;
    if (!box(t, n, r, &h))
        return;
    struct waits w = {0};
    wait_for(t, &w, q, o);
    cl_event e = NULL, *place = &e;
    trace(t, "box %d of %zux%zux%zu, buffer %d, queue %d%s", what, r[0], r[1], r[2],
          (int)(o - t->buffers), q, blocking ? ", blocking" : "");
    if (what == 2) {
        struct object *to = pick(t, t->buffers, BUFFERS);
        if (!to || o->whole || to->whole || to == o || !box(t, to->size, r, &h))
            return;
        wait_for(t, &w, q, to);
        gate(t, &w);
        OK(clEnqueueCopyBufferRect(t->queues[q], o->memory, to->memory, a.origin, h.origin, r,
                                   a.row, a.slice, h.row, h.slice, w.n, list(&w), place));
        queued(t, q, e, o, to, CL_COMMAND_COPY_BUFFER_RECT);
        return;
    }
    if (blocking)
        open_gates(t);
    unsigned char *bytes = malloc(n);
    memset(bytes, 0x11, n);
    if (what == 0) {
        OK(clEnqueueReadBufferRect(t->queues[q], o->memory, blocking, a.origin, h.origin, r, a.row,
                                   a.slice, h.row, h.slice, bytes, w.n, list(&w), place));
    } else {
        scribble(t, bytes, n);
        OK(clEnqueueWriteBufferRect(t->queues[q], o->memory, blocking, a.origin, h.origin, r,
                                    a.row, a.slice, h.row, h.slice, bytes, w.n, list(&w), place));
    }
    OK(clRetainEvent(e));
    queued(t, q, e, o, NULL,
           what ? CL_COMMAND_WRITE_BUFFER_RECT : CL_COMMAND_READ_BUFFER_RECT);
    if (blocking) {
        if (what == 0)
            note_bytes(t, bytes, n, "box");
        memset(bytes, 0x22, n);
    }
    hold(t, e, bytes, n, what == 0 && !blocking);
}

static void copy_or_fill(struct thread *t) {
    struct object *a = pick(t, t->buffers, BUFFERS), *b = pick(t, t->buffers, BUFFERS);
    if (!a || !b)
        return;
    int q = below(t, QUEUES);
    struct waits w = {0};
    wait_for(t, &w, q, a);
    cl_event e = NULL, *place = wants_event(t, q) ? &e : NULL;
    size_t at, n, to;
    if (one_in(t, 2)) {
        size_t unit = (size_t)1 << below(t, 6);
        unsigned char pattern[32];
        scribble(t, pattern, sizeof pattern);
        if (a->size < unit)
            return;
        stretch(t, a, unit, &at, &n);
        gate(t, &w);
        trace(t, "fill of %zu at %zu of buffer %d, queue %d", n, at, (int)(a - t->buffers), q);
        OK(clEnqueueFillBuffer(t->queues[q], a->memory, pattern, unit, at, n, w.n, list(&w),
                               place));
        queued(t, q, e, a, NULL, CL_COMMAND_FILL_BUFFER);
        return;
    }
    if (whole(a) == whole(b))
        return;
    stretch(t, a->size < b->size ? a : b, 1, &at, &n);
    to = below(t, b->size - n + 1);
    at = below(t, a->size - n + 1);
    wait_for(t, &w, q, b);
    gate(t, &w);
    trace(t, "copy of %zu, buffer %d to %d, queue %d", n, (int)(a - t->buffers),
          (int)(b - t->buffers), q);
    OK(clEnqueueCopyBuffer(t->queues[q], a->memory, b->memory, at, to, n, w.n, list(&w), place));
    queued(t, q, e, a, b, CL_COMMAND_COPY_BUFFER);
}

static void launch(struct thread *t) {
    struct object *a = pick(t, t->buffers, BUFFERS), *b = pick(t, t->buffers, BUFFERS);
    if (!a || !b || a->size < 4 || b->size < 4)
        return;
    int q = below(t, QUEUES);
    struct waits w = {0};
    wait_for(t, &w, q, a);
    cl_event e = NULL, *place = wants_event(t, q) ? &e : NULL;
    size_t n = magnitude(t, a->size / 4), offset = below(t, a->size / 4 - n + 1);
    cl_uint k = (cl_uint)next(t), of = b->size / 4;
    if (one_in(t, 2) || whole(a) == whole(b)) {
        gate(t, &w);
        trace(t, "scale %zu of buffer %d, queue %d", n, (int)(a - t->buffers), q);
        OK(clSetKernelArg(t->scale, 0, sizeof a->memory, &a->memory));
        OK(clSetKernelArg(t->scale, 1, sizeof k, &k));
        OK(clEnqueueNDRangeKernel(t->queues[q], t->scale, 1, &offset, &n, NULL, w.n, list(&w),
                                  place));
        queued(t, q, e, a, NULL, CL_COMMAND_NDRANGE_KERNEL);
        return;
    }
    size_t local = (size_t)1 << below(t, 6);
    n -= n % local;
    if (!n)
        return;
    wait_for(t, &w, q, b);
    gate(t, &w);
    trace(t, "mix %zu of buffers %d and %d, queue %d", n, (int)(a - t->buffers),
          (int)(b - t->buffers), q);
    OK(clSetKernelArg(t->blend, 0, sizeof a->memory, &a->memory));
    OK(clSetKernelArg(t->blend, 1, sizeof b->memory, &b->memory));
    OK(clSetKernelArg(t->blend, 2, sizeof of, &of));
    OK(clSetKernelArg(t->blend, 3, local * 4, NULL));
    OK(clEnqueueNDRangeKernel(t->queues[q], t->blend, 1, NULL, &n, &local, w.n, list(&w), place));
    queued(t, q, e, a, b, CL_COMMAND_NDRANGE_KERNEL);
}

static void map(struct thread *t) {
    struct object *o = pick(t, t->buffers, BUFFERS);
    if (!o || o->parts || o->whole)
        return;
    int q = below(t, QUEUES), blocking = one_in(t, 2);
    size_t at, n;
    stretch(t, o, 1, &at, &n);
    cl_map_flags flags[] = {CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE,
                            CL_MAP_WRITE_INVALIDATE_REGION};
    cl_map_flags f = flags[below(t, 4)];
    struct waits w = {0};
    wait_for(t, &w, q, o);
    open_gates(t);
    cl_event e;
    cl_int code;
    trace(t, "map of %zu at %zu of buffer %d, flags %d, queue %d", n, at, (int)(o - t->buffers),
          (int)f, q);
    char *p = clEnqueueMapBuffer(t->queues[q], o->memory, blocking, f, at, n, w.n, list(&w), &e,
                                 &code);
    OK(code);
    if (o->host && p != (char *)o->host + at)
        printf("the program's own memory is mapped elsewhere\n");
    if (!blocking)
        OK(clWaitForEvents(1, &e));
    queued(t, q, e, o, NULL, CL_COMMAND_MAP_BUFFER);
    if (!(f & CL_MAP_WRITE_INVALIDATE_REGION))
        note_bytes(t, p, n, "mapped");
    o->mapped = p;
    o->writes = f != CL_MAP_READ;
    o->length = n;
    if (o->writes) {
        size_t from = f & CL_MAP_WRITE_INVALIDATE_REGION ? 0 : below(t, n);
        scribble(t, p + from, n - from);
    }
}

static void unmap(struct thread *t, struct object *list_, int n) {
    struct object *o = &list_[below(t, n)];
    if (!o->mapped)
        return;
    int q = below(t, QUEUES);
    struct waits w = {0};
    wait_for(t, &w, q, o);
    cl_event e = NULL, *place = wants_event(t, q) ? &e : NULL;
    trace(t, "unmap, queue %d", q);
    if (o->svm) {
        OK(clEnqueueSVMUnmap(t->queues[q], o->svm, w.n, list(&w), place));
    } else {
        OK(clEnqueueUnmapMemObject(t->queues[q], o->memory, o->mapped, w.n, list(&w), place));
    }
    o->mapped = NULL;
    queued(t, q, e, o, NULL, o->svm ? CL_COMMAND_SVM_UNMAP : CL_COMMAND_UNMAP_MEM_OBJECT);
}

static void part_of_image(struct thread *t, struct object *o, size_t *origin, size_t *region) {
    size_t whole_[3] = {o->width, o->height, o->depth};
    for (int i = 0; i < 3; i++) {
        region[i] = 1 + below(t, whole_[i]);
        origin[i] = below(t, whole_[i] - region[i] + 1);
    }
}

static void image(struct thread *t) {
    struct object *o = pick(t, t->images, IMAGES), *b = pick(t, t->buffers, BUFFERS);
    if (!o || !b)
        return;
    int q = below(t, QUEUES), blocking = one_in(t, 2), what = below(t, 8);
    size_t from[3], r[3], bytes_;
    part_of_image(t, o, from, r);
    bytes_ = r[0] * r[1] * r[2] * o->pixel;
    struct waits w = {0};
    wait_for(t, &w, q, o);
    cl_event e = NULL;
    cl_int code;
    cl_uint k = (cl_uint)next(t), n = b->size / 4;
    size_t row = 0, slice = 0, at = 0, all[2] = {o->width, o->height};
    unsigned char *bytes;
    trace(t, "image %d: %d of %zux%zux%zu, queue %d", (int)(o - t->images), what, r[0], r[1], r[2],
          q);
    switch (what) {
    case 0:
    case 1:
        if (one_in(t, 2)) {
            row = (r[0] + below(t, 5)) * o->pixel;
            slice = o->depth > 1 ? row * (r[1] + below(t, 3)) : 0;
        }
        bytes_ = (slice ? slice : row ? row * r[1] : r[0] * r[1] * o->pixel) * r[2];
        bytes = malloc(bytes_);
        memset(bytes, 0x44, bytes_);
        if (blocking)
            open_gates(t);
        else
            gate(t, &w);
        if (what == 0) {
            OK(clEnqueueReadImage(t->queues[q], o->memory, blocking, from, r, row, slice, bytes,
                                  w.n, list(&w), &e));
        } else {
            scribble(t, bytes, bytes_);
            OK(clEnqueueWriteImage(t->queues[q], o->memory, blocking, from, r, row, slice, bytes,
                                   w.n, list(&w), &e));
        }
        OK(clRetainEvent(e));
        queued(t, q, e, o, NULL, what ? CL_COMMAND_WRITE_IMAGE : CL_COMMAND_READ_IMAGE);
        if (blocking) {
            if (what == 0)
                note_bytes(t, bytes, bytes_, "pixels");
            memset(bytes, 0x66, bytes_);
        }
        hold(t, e, bytes, bytes_, what == 0 && !blocking);
        return;
    case 2:
    case 3:
        if (b->size < bytes_ || b->whole)
            return;
        at = below(t, (b->size - bytes_) / 16 + 1) * 16;
        if (at + bytes_ > b->size)
            at = 0;
        wait_for(t, &w, q, b);
        gate(t, &w);
        if (what == 2)
            OK(clEnqueueCopyImageToBuffer(t->queues[q], o->memory, b->memory, from, r, at, w.n,
                                          list(&w), &e));
        else
            OK(clEnqueueCopyBufferToImage(t->queues[q], b->memory, o->memory, at, from, r, w.n,
                                          list(&w), &e));
        queued(t, q, e, o, b,
               what == 2 ? CL_COMMAND_COPY_IMAGE_TO_BUFFER : CL_COMMAND_COPY_BUFFER_TO_IMAGE);
        return;
    case 4: {
        cl_uint color[4] = {below(t, 256), below(t, 256), below(t, 256), below(t, 256)};
        gate(t, &w);
        OK(clEnqueueFillImage(t->queues[q], o->memory, color, from, r, w.n, list(&w), &e));
        queued(t, q, e, o, NULL, CL_COMMAND_FILL_IMAGE);
        return;
    }
    case 5:
        if (o->depth > 1 || !n)
            return;
        wait_for(t, &w, q, b);
        gate(t, &w);
        /* Places that several pixels share would be decided by a race. */
        if (n < o->width * o->height)
            return;
        OK(clSetKernelArg(t->pixels, 0, sizeof o->memory, &o->memory));
        OK(clSetKernelArg(t->pixels, 1, sizeof b->memory, &b->memory));
        OK(clSetKernelArg(t->pixels, 2, sizeof n, &n));
        OK(clEnqueueNDRangeKernel(t->queues[q], t->pixels, 2, NULL, all, NULL, w.n, list(&w), &e));
        queued(t, q, e, o, b, CL_COMMAND_NDRANGE_KERNEL);
        return;
    case 6:
        if (o->depth > 1)
            return;
        gate(t, &w);
        OK(clSetKernelArg(t->place, 0, sizeof o->memory, &o->memory));
        OK(clSetKernelArg(t->place, 1, sizeof k, &k));
        OK(clEnqueueNDRangeKernel(t->queues[q], t->place, 2, NULL, all, NULL, w.n, list(&w), &e));
        queued(t, q, e, o, NULL, CL_COMMAND_NDRANGE_KERNEL);
        return;
    default:
        open_gates(t);
        bytes = clEnqueueMapImage(t->queues[q], o->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                  from, r, &row, &slice, w.n, list(&w), &e, &code);
        OK(code);
        for (size_t z = 0; z < r[2]; z++)
            for (size_t y = 0; y < r[1]; y++) {
                unsigned char *line = bytes + z * slice + y * row;
                note_bytes(t, line, r[0] * o->pixel, "row");
                scribble(t, line, r[0] * o->pixel);
            }
        queued(t, q, e, o, NULL, CL_COMMAND_MAP_IMAGE);
        o->mapped = bytes;
    }
}

static void shared(struct thread *t) {
    struct object *o = empty(t->shared, SHARED);
    if (o && one_in(t, 2)) {
        o->size = magnitude(t, MOST / 8) * 4;
        o->svm = clSVMAlloc(t->context, CL_MEM_READ_WRITE, o->size, 0);
        if (!o->svm) {
            printf("no memory that host and device share\n");
            exit(1);
        }
        cl_uint pattern = (cl_uint)next(t);
        OK(clEnqueueSVMMemFill(t->queues[0], o->svm, &pattern, 4, o->size, 0, NULL, NULL));
        o->queue = 0;
        trace(t, "shared %d of %zu", (int)(o - t->shared), o->size);
        return;
    }
    o = pick(t, t->shared, SHARED);
    if (!o)
        return;
    int q = below(t, QUEUES), what = below(t, 4);
    size_t at, n;
    stretch(t, o, 4, &at, &n);
    struct waits w = {0};
    wait_for(t, &w, q, o);
    cl_event e = NULL;
    trace(t, "shared %d: %d of %zu at %zu, queue %d", (int)(o - t->shared), what, n, at, q);
    if (what == 0) {
        open_gates(t);
        OK(clEnqueueSVMMap(t->queues[q], CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, o->svm, o->size, w.n,
                           list(&w), &e));
        note_bytes(t, o->svm, o->size, "shared");
        scribble(t, o->svm + at, n);
        queued(t, q, e, o, NULL, CL_COMMAND_SVM_MAP);
        o->mapped = o->svm;
        return;
    }
    if (what == 1) {
        struct object *to = pick(t, t->shared, SHARED);
        if (!to || to == o || to->size < n)
            return;
        wait_for(t, &w, q, to);
        OK(clEnqueueSVMMemcpy(t->queues[q], CL_FALSE, to->svm, o->svm + at, n, w.n, list(&w), &e));
        queued(t, q, e, o, to, CL_COMMAND_SVM_MEMCPY);
        return;
    }
    if (what == 2) {
        cl_uint pattern = (cl_uint)next(t);
        OK(clEnqueueSVMMemFill(t->queues[q], o->svm + at, &pattern, 4, n, w.n, list(&w), &e));
        queued(t, q, e, o, NULL, CL_COMMAND_SVM_MEMFILL);
        return;
    }
    cl_uint k = (cl_uint)next(t);
    n /= 4;
    gate(t, &w);
    OK(clSetKernelArgSVMPointer(t->scale, 0, o->svm + at));
    OK(clSetKernelArg(t->scale, 1, sizeof k, &k));
    OK(clEnqueueNDRangeKernel(t->queues[q], t->scale, 1, NULL, &n, NULL, w.n, list(&w), &e));
    queued(t, q, e, o, NULL, CL_COMMAND_NDRANGE_KERNEL);
}

/* Waits of every kind, which change no data. */
static void order(struct thread *t) {
    int q = below(t, QUEUES), what = below(t, 6);
    cl_event e;
    trace(t, "order %d, queue %d", what, q);
    switch (what) {
    case 0:
        open_gates(t);
        OK(clFinish(t->queues[q]));
        return;
    case 1:
        OK(clFlush(t->queues[q]));
        return;
    case 2:
        OK(clEnqueueBarrierWithWaitList(t->queues[q], 0, NULL, NULL));
        return;
    case 3:
        open_gates(t);
        OK(clEnqueueMarkerWithWaitList(t->queues[q], 0, NULL, &e));
        OK(clWaitForEvents(1, &e));
        OK(clReleaseEvent(e));
        return;
    case 4:
        wait_held(t);
        return;
    default:
        open_gates(t);
    }
}

/* What is asked of an object, and calls that are refused. */
static void ask(struct thread *t) {
    struct object *o = pick(t, t->buffers, BUFFERS);
    if (!o)
        return;
    size_t n = 0;
    cl_uint count = 0;
    OK(clGetMemObjectInfo(o->memory, CL_MEM_SIZE, sizeof n, &n, NULL));
    note(t, n, "size");
    OK(clGetMemObjectInfo(o->memory, CL_MEM_OFFSET, sizeof n, &n, NULL));
    note(t, n, "offset");
    char byte = 0;
    cl_command_queue q = t->queues[below(t, QUEUES)];
    WRONG(clEnqueueReadBuffer(q, o->memory, CL_TRUE, o->size, 1, &byte, 0, NULL, NULL));
    WRONG(clEnqueueWriteBuffer(q, o->memory, CL_FALSE, 0, o->size + 1, &byte, 0, NULL, NULL));
    WRONG(clEnqueueWriteBuffer(q, o->memory, CL_FALSE, 0, 1, NULL, 0, NULL, NULL));
    WRONG(clEnqueueCopyBuffer(q, o->memory, o->memory, 0, 0, o->size, 0, NULL, NULL));
    WRONG(clEnqueueFillBuffer(q, o->memory, &byte, 3, 0, 3, 0, NULL, NULL));
    WRONG(clEnqueueReadBuffer(q, NULL, CL_TRUE, 0, 1, &byte, 0, NULL, NULL));
    WRONG(clSetKernelArg(t->scale, 7, 4, &count));
    WRONG(clSetKernelArg(t->scale, 1, 8, &n));
}

/* ---- the whole ---- */

static void *run(void *user) {
    struct thread *t = user;
    cl_int code;
    t->random = t->seed;
    t->device = device;
    t->out = calloc(1, 64 * (t->steps / 16 + 2));
    t->context = clCreateContext(NULL, 1, &t->device, NULL, NULL, &code);
    OK(code);
    for (int q = 0; q < QUEUES; q++) {
        cl_queue_properties flags = (q & 2 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0) |
                                    (q & 1 ? CL_QUEUE_PROFILING_ENABLE : 0);
        cl_queue_properties list_[] = {CL_QUEUE_PROPERTIES, flags, 0};
        t->queues[q] = clCreateCommandQueueWithProperties(t->context, t->device, list_, &code);
        OK(code);
    }
    t->program = clCreateProgramWithSource(t->context, 1, &source, NULL, &code);
    OK(code);
    OK(clBuildProgram(t->program, 1, &t->device, "", NULL, NULL));
    cl_kernel *kernels[] = {&t->scale, &t->blend, &t->pixels, &t->place};
    const char *names[] = {"scale", "blend", "pixels", "place"};
    for (int i = 0; i < 4; i++) {
        *kernels[i] = clCreateKernel(t->program, names[i], &code);
        OK(code);
    }
    for (t->step = 0; t->step < t->steps; t->step++) {
        switch (below(t, 24)) {
        case 0:
        case 1:
            make_buffer(t);
            break;
        case 2:
            make_image(t);
            break;
        case 3:
            drop(t, one_in(t, 4)   ? pick(t, t->images, IMAGES)
                    : one_in(t, 4) ? pick(t, t->shared, SHARED)
                                   : pick(t, t->buffers, BUFFERS));
            break;
        case 4:
        case 5:
        case 6:
            write_or_read(t, 0);
            break;
        case 7:
        case 8:
            write_or_read(t, 1);
            break;
        case 9:
            boxes(t);
            break;
        case 10:
        case 11:
            copy_or_fill(t);
            break;
        case 12:
        case 13:
        case 14:
            launch(t);
            break;
        case 15:
            map(t);
            break;
        case 16:
        case 17:
            unmap(t, t->buffers, BUFFERS);
            unmap(t, t->images, IMAGES);
            unmap(t, t->shared, SHARED);
            break;
        case 18:
        case 19:
            image(t);
            break;
        case 20:
        case 21:
            shared(t);
            break;
        case 22:
            order(t);
            break;
        default:
            ask(t);
        }
        if (t->step % 16 == 15)
            t->printed += sprintf(t->out + t->printed, "%d %016llx\n", t->step,
                                  (unsigned long long)t->digest);
    }
    wait_held(t);
    for (int i = 0; i < BUFFERS; i++) {
        struct object *o = &t->buffers[i];
        if (!o->memory || whole(o)->mapped)
            continue;
        struct waits w = {0};
        wait_for(t, &w, 0, o);
        char *bytes = malloc(o->size);
        OK(clEnqueueReadBuffer(t->queues[0], o->memory, CL_TRUE, 0, o->size, bytes, w.n, list(&w),
                               NULL));
        note_bytes(t, bytes, o->size, "at the end");
        free(bytes);
    }
    for (int q = 0; q < QUEUES; q++)
        OK(clFinish(t->queues[q]));
    /* A callback may come a little after its command has ended. */
    for (int i = 0; i < 10000 && __atomic_load_n(&t->called, __ATOMIC_SEQ_CST) < t->expected; i++) {
        struct timespec ms = {0, 1000000};
        nanosleep(&ms, NULL);
    }
    t->printed += sprintf(t->out + t->printed, "end %016llx, %d of %d callbacks\n",
                          (unsigned long long)t->digest, t->called, t->expected);
    /* Parts first. */
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < BUFFERS; i++)
            if (t->buffers[i].memory)
                drop(t, &t->buffers[i]);
    for (int i = 0; i < IMAGES; i++)
        if (t->images[i].memory)
            drop(t, &t->images[i]);
    for (int i = 0; i < SHARED; i++)
        if (t->shared[i].svm)
            drop(t, &t->shared[i]);
    for (int i = 0; i < 4; i++)
        OK(clReleaseKernel(*kernels[i]));
    OK(clReleaseProgram(t->program));
    for (int q = 0; q < QUEUES; q++)
        OK(clReleaseCommandQueue(t->queues[q]));
    OK(clReleaseContext(t->context));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: opencl_random SEED STEPS [THREADS]\n");
        return 2;
    }
    tracing = getenv("RANDOM_TRACE") != NULL;
    int n = argc > 3 ? atoi(argv[3]) : 1;
    if (clGetPlatformIDs(1, &platform, NULL) ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) {
        printf("no device\n");
        return 1;
    }
    struct thread *list_ = calloc(n, sizeof *list_);
    for (int i = 0; i < n; i++) {
        list_[i].seed = strtoull(argv[1], NULL, 10) * 1000 + i;
        list_[i].steps = atoi(argv[2]);
        pthread_create(&list_[i].id, NULL, run, &list_[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(list_[i].id, NULL);
        fputs(list_[i].out, stdout);
    }
    return 0;
}
