#include "simulated_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/device/copy_in.h"

static struct simulated_device *simulated(struct device *device)
{
    return (struct simulated_device *)device;
}

static void fail(struct work *works)
{
    for (struct work *work = works; work != NULL; work = work->next)
        work->status = fault_set(&work->fault, GEMMD_ERR_INTERNAL, NULL, "a simulated failure");
}

/* What goes wrong with a launch already as it is made. */
static void fall_over(struct device *device, struct work *works)
{
    for (struct work *work = works; work != NULL; work = work->next) {
        enum simulated_event event = ((struct simulated_work *)work)->at_submit;
        if (event == SIMULATED_LOST)
            device_set_lost(device, "a simulated loss");
        if (event == SIMULATED_FAILED)
            fail(works);
    }
}

/* A scripted work's own look. */
static enum simulated_event look_at_script(const struct work *work)
{
    union {
        const struct work *in;
        struct simulated_work *out;
    } scripted = {.in = work};
    if (scripted.out->at_submit != SIMULATED_RUNNING)
        return scripted.out->at_submit;
    if (atomic_load(&scripted.out->held))
        return SIMULATED_RUNNING;
    if (atomic_load(&scripted.out->looks) == 0)
        return atomic_load(&scripted.out->at_end);
    atomic_fetch_sub(&scripted.out->looks, 1);
    return SIMULATED_RUNNING;
}

/* --- copies --- */

/* The piece's bytes, row by row where they have to be further apart. */
static void move(const struct copy_in_piece *piece)
{
    const struct copy_in_operand *o = piece->operand;
    const uint64_t row_bytes = o->row_bytes > 0 ? o->row_bytes : piece->bytes;
    unsigned char *to =
        o->to + (o->row_bytes > 0 ? piece->first / row_bytes * o->to_pitch : piece->first);
    for (uint64_t at = 0; at < piece->bytes; at += row_bytes, to += o->to_pitch)
        memcpy(to, o->from + piece->first + at, row_bytes);
}

static bool is_held(struct device *device)
{
    return atomic_load(&simulated(device)->copies) == SIMULATED_RUNNING;
}

static void finish_copy_stream(struct simulated_device *device, uint32_t copy_stream)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < device->under_way_count; i++)
        if (device->under_way[i].copy_stream == copy_stream)
            move(&device->under_way[i].piece);
        else
            device->under_way[left++] = device->under_way[i];
    device->under_way_count = left;
}

/* The linker sends the calls of gemm_leading here (-Wl,--wrap). */
uint64_t __real_gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype,
                             uint64_t width, bool stays);
uint64_t __wrap_gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype,
                             uint64_t width, bool stays);

uint64_t __wrap_gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype,
                             uint64_t width, bool stays)
{
    return stays ? __real_gemm_leading(device, dtype, width, stays) : SIMULATED_LEADING(width);
}

static bool copy_layout(const struct device *device, const struct task *task,
                        struct device_layout *layout)
{
    const struct gemm_device about = device_gemm(device);
    return device_layout_make(task, &about, (struct device_span){NULL, 0}, layout);
}

static bool simulated_plan_copies(const struct device *device, const struct work *work,
                                  struct device_span body, struct copy_in *copies)
{
    const struct simulated_device *simulated_device = (const struct simulated_device *)device;
    struct device_layout layout;
    if (!copy_layout(device, &work->task, &layout))
        return false;
    copy_in_plan(copies, &work->task, &layout, simulated_device->memory + work->device_offset,
                 body);
    return copies->count > 0;
}

static enum gemmd_error simulated_copy_in(struct device *device, uint32_t copy_stream,
                                          const struct copy_in_piece *piece)
{
    struct simulated_device *to = simulated(device);
    const enum simulated_event event = atomic_load(&to->copies);
    if (event == SIMULATED_LOST)
        device_set_lost(device, "a simulated loss");
    if (event == SIMULATED_LOST || event == SIMULATED_FAILED ||
        to->under_way_count == SIMULATED_COPIES_MAX)
        return event == SIMULATED_LOST ? GEMMD_ERR_DEVICE_LOST : GEMMD_ERR_INTERNAL;
    to->under_way[to->under_way_count++] = (struct simulated_copy){*piece, copy_stream};
    atomic_fetch_add(&to->early_bytes, piece->bytes);
    return GEMMD_OK;
}

static bool simulated_copied_in(struct device *device, uint32_t copy_stream)
{
    struct simulated_device *on = simulated(device);
    const unsigned asked = atomic_fetch_add(&on->asked, 1);
    if (is_held(device) || asked % (on->slowness + 1) < on->slowness)
        return false;
    finish_copy_stream(on, copy_stream);
    return true;
}

/* The work leaves the device: its copies have ended, those too that were left to it. */
static void end_copies(struct device *device, struct work *work, bool failed)
{
    struct copy_in all;
    struct copy_in_piece piece;
    if (work->copy_in == NULL)
        return;
    if (simulated_plan_copies(device, work, (struct device_span){NULL, 0}, &all))
        copy_in_settle(work->copy_in, &all);
    if (work->copy_in->copy_stream != COPY_IN_NO_STREAM)
        finish_copy_stream(simulated(device), (uint32_t)work->copy_in->copy_stream);
    while (!failed && copy_in_next(work->copy_in, UINT64_MAX, &piece)) {
        move(&piece);
        atomic_fetch_add(&simulated(device)->late_bytes, piece.bytes);
    }
}

static bool waits_for_copies(struct device *device, const struct work *work)
{
    return work->copy_in != NULL && is_held(device);
}

/* --- works --- */

static void simulated_submit(struct device *device, uint32_t slot, struct work *works)
{
    if (slot == device->slots) {
        atomic_fetch_add(&simulated(device)->probes, 1);
        return;
    }
    atomic_fetch_add(&simulated(device)->launches, 1);
    for (const struct work *work = works; work != NULL; work = work->next)
        atomic_fetch_add(&simulated(device)->submitted, 1);
    if (simulated(device)->scripted)
        fall_over(device, works);
}

static void simulated_compute(struct device *device, uint32_t slot, struct work *work)
{
    simulated_submit(device, slot, work);
    while (slot != device->slots && simulated(device)->look(work) == SIMULATED_RUNNING)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Row by row, in f32. */
static void compute(const struct gemm_problem *problem)
{
    const float *a = problem->a, *b = problem->b;
    float *c = problem->c;
    for (uint64_t i = 0; i < problem->m; i++)
        for (uint64_t j = 0; j < problem->n; j++) {
            float sum = 0;
            for (uint64_t l = 0; l < problem->k; l++)
                sum += a[i * problem->lda + l] * b[l * problem->ldb + j];
            c[i * problem->ldc + j] = sum;
        }
}

static bool poll_probe(struct device *device, const struct work *work)
{
    enum simulated_probe probe = atomic_load(&simulated(device)->probe);
    if (probe == SIMULATED_PROBE_RIGHT)
        compute(&work->task.problem.gemm);
    return probe != SIMULATED_PROBE_SILENT;
}

/* A launch runs as long as one of its works does, and fails as a whole. */
static enum simulated_event look_at_all(struct device *device, const struct work *works)
{
    enum simulated_event all = SIMULATED_DONE;
    for (; works != NULL; works = works->next) {
        enum simulated_event one = simulated(device)->look(works);
        if (one == SIMULATED_RUNNING)
            return one;
        if (one > all)
            all = one;
    }
    return all;
}

static bool simulated_poll(struct device *device, uint32_t slot, struct work *works)
{
    if (slot == device->slots)
        return poll_probe(device, works);
    if (waits_for_copies(device, works))
        return false;
    enum simulated_event event = look_at_all(device, works);
    if (event != SIMULATED_RUNNING)
        end_copies(device, works, event != SIMULATED_DONE);
    if (event == SIMULATED_LOST)
        device_set_lost(device, "a simulated loss");
    if (event == SIMULATED_FAILED)
        fail(works);
    for (struct work *work = works; work != NULL; work = work->next) {
        work->h2d_ns = 1000;
        work->kernel_ns = 2000;
        work->d2h_ns = 3000;
    }
    return event != SIMULATED_RUNNING;
}

static void simulated_close(struct device *device)
{
    arena_destroy(device->arena);
    free(simulated(device)->memory);
    free(device);
}

static bool simulated_task_bytes(const struct device *device, const struct task *task,
                                 uint64_t *out)
{
    (void)device;
    (void)task;
    *out = 4096;
    return true;
}

static const struct device_ops simulated_ops = {
    .submit = simulated_submit,
    .poll = simulated_poll,
    .close = simulated_close,
    .task_bytes = simulated_task_bytes,
    .shares_launches = true,
};

static bool copying_task_bytes(const struct device *device, const struct task *task, uint64_t *out)
{
    struct device_layout layout;
    const bool known = copy_layout(device, task, &layout);
    *out = known ? layout.total_bytes : 0;
    return known;
}

static const struct device_ops copying_ops = {
    .submit = simulated_submit,
    .poll = simulated_poll,
    .close = simulated_close,
    .task_bytes = copying_task_bytes,
    .plan_copies = simulated_plan_copies,
    .copy_in = simulated_copy_in,
    .copied_in = simulated_copied_in,
};

static const struct device_ops computing_ops = {
    .submit = simulated_compute,
    .poll = simulated_poll,
    .close = simulated_close,
    .computes_in_submit = true,
    .task_bytes = simulated_task_bytes,
};

static struct simulated_device *make(const struct device_ops *ops, uint32_t slots,
                                     enum simulated_event (*look)(const struct work *))
{
    struct simulated_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    device_init(&device->base, ops, slots);
    device->base.info.backend = GEMM_BACKEND_CPU;
    device->base.arena = arena_create(1 << 20);
    device->look = look;
    return device;
}

struct simulated_device *simulated_device_open(uint32_t slots,
                                               enum simulated_event (*look)(const struct work *))
{
    return make(&simulated_ops, slots, look);
}

struct simulated_device *simulated_device_open_scripted(uint32_t slots)
{
    struct simulated_device *device = make(&simulated_ops, slots, look_at_script);
    if (device != NULL)
        device->scripted = true;
    return device;
}

struct simulated_device *
simulated_device_open_copying(uint32_t slots, uint64_t memory_bytes,
                              enum simulated_event (*look)(const struct work *))
{
    struct simulated_device *device =
        make(&copying_ops, slots, look != NULL ? look : look_at_script);
    if (device == NULL)
        return NULL;
    device->scripted = look == NULL;
    atomic_store(&device->copies, SIMULATED_DONE);
    arena_destroy(device->base.arena);
    device->base.arena = arena_create(memory_bytes);
    device->memory = malloc(memory_bytes);
    return device;
}

struct simulated_device *
    simulated_device_open_computing(enum simulated_event (*look)(const struct work *))
{
    return make(&computing_ops, 1, look);
}
