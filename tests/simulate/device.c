#include "tests/simulate/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulate/order.h"
#include "tests/simulate/reference.h"
#include "tests/simulate/threads.h"

static struct simulated_device *simulated(struct device *device)
{
    return (struct simulated_device *)device;
}

/* ---- early copies ---- */

static void finish_copy(const struct copy_in_piece *piece)
{
    const struct copy_in_operand *o = piece->operand;
    const uint64_t row_bytes = o->row_bytes > 0 ? o->row_bytes : piece->bytes;
    unsigned char *to =
        o->to + (o->row_bytes > 0 ? piece->first / row_bytes * o->to_pitch : piece->first);
    for (uint64_t at = 0; at < piece->bytes; at += row_bytes, to += o->to_pitch)
        memcpy(to, o->from + piece->first + at, row_bytes);
}

/* Moves the bytes of copies whose time has come; only then, so that memory that is given away
 * before is found out. Returns whether the stream has no further copies. */
static bool finish_copies(struct simulated_device *device, uint32_t copy_stream, bool at_once)
{
    uint32_t left = 0;
    bool over = true;
    for (uint32_t i = 0; i < device->copy_count; i++) {
        struct simulated_copy *copy = &device->copies[i];
        if (copy->copy_stream == copy_stream && (at_once || copy->end_ns <= now_ns())) {
            finish_copy(&copy->piece);
            continue;
        }
        over &= copy->copy_stream != copy_stream;
        device->copies[left++] = *copy;
    }
    device->copy_count = left;
    return over;
}

static bool layout_of(const struct device *device, const struct task *task,
                      struct device_layout *layout)
{
    const struct gemm_device about = device_gemm(device);
    return device_layout_make(task, &about, device->tensors, layout);
}

static bool simulated_plan_copies(const struct device *device, const struct work *work,
                                  struct device_span body, struct copy_in *copies)
{
    const struct simulated_device *own = (const struct simulated_device *)device;
    struct device_layout layout;
    if (!layout_of(device, &work->task, &layout))
        return false;
    copy_in_plan(copies, &work->task, &layout, own->memory + work->device_offset, body);
    return copies->count > 0;
}

static enum gemmd_error simulated_copy_in(struct device *device, uint32_t copy_stream,
                                          const struct copy_in_piece *piece)
{
    struct simulated_device *own = simulated(device);
    if (own->copy_count == SIMULATED_COPIES_MAX || draw_one_in(own->traits.fails))
        return GEMMD_ERR_INTERNAL;
    own->copies[own->copy_count++] = (struct simulated_copy){
        .piece = *piece, .copy_stream = copy_stream, .end_ns = now_ns() + piece->bytes / 20};
    own->early_bytes += piece->bytes;
    return GEMMD_OK;
}

static bool simulated_copied_in(struct device *device, uint32_t copy_stream)
{
    return finish_copies(simulated(device), copy_stream, false);
}

static void check_copied(const struct copy_in *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct copy_in_operand *o = &all->operands[i];
        const uint64_t rows = o->row_bytes > 0 ? o->bytes / o->row_bytes : 1;
        const uint64_t row_bytes = o->row_bytes > 0 ? o->row_bytes : o->bytes;
        for (uint64_t row = 0; row < rows; row++)
            if (memcmp(o->to + row * o->to_pitch, o->from + row * row_bytes, row_bytes) != 0)
                fail("row %llu of an operand on the device has other bytes than in the body",
                     (unsigned long long)row);
    }
}

/* Ends the copies of a work that leaves the device, those too that were left to its launch. */
static void end_copies(struct simulated_device *device, struct work *work, bool fails)
{
    struct copy_in all;
    struct copy_in_piece piece;
    if (work->copy_in == NULL)
        return;
    const bool planned =
        simulated_plan_copies(&device->base, work, (struct device_span){NULL, 0}, &all);
    if (planned)
        copy_in_settle(work->copy_in, &all);
    if (work->copy_in->copy_stream != COPY_IN_NO_STREAM)
        (void)finish_copies(device, (uint32_t)work->copy_in->copy_stream, true);
    while (!fails && copy_in_next(work->copy_in, UINT64_MAX, &piece))
        finish_copy(&piece);
    if (planned && !fails)
        check_copied(&all);
}

/* ---- launches ---- */

static void copy_rows(const struct work_copy *copy)
{
    for (uint64_t row = 0; row < copy->rows; row++)
        memcpy((char *)copy->to + row * copy->to_pitch,
               (const char *)copy->from + row * copy->from_pitch, copy->row_bytes);
}

/* Makes a result wrong now and then. The check, if the work is verified, notices that. */
static void draw_wrong(struct simulated_device *device, struct work *work)
{
    const struct task *task = &work->task;
    work->residual = 0.5;
    if (task->kernel == NULL || task->operation->number != OPERATION_GEMM ||
        !draw_one_in(device->traits.wrong))
        return;
    trace("device %d computes a wrong product", (int)device->base.info.index);
    *(float *)task->problem.gemm.c += 1;
    work->residual = 1.5;
    device->wrong_results++;
}

static void compute(struct simulated_device *device, struct work *work, bool fails)
{
    end_copies(device, work, fails);
    work->h2d_ns = work->kernel_ns = work->d2h_ns = device->traits.launch_ns;
    if (fails) {
        work->status = fault_set(&work->fault, GEMMD_ERR_INTERNAL, NULL, "a simulated failure");
        return;
    }
    for (uint32_t i = 0; i < work->first_copy_count; i++)
        copy_rows(&work->first_copies[i]);
    for (uint32_t i = 0; i < work->sequence_copy_count; i++)
        copy_rows(&work->sequence_copies[i]);
    if (work->task.kernel != NULL)
        reference_compute(&work->task);
    for (uint32_t i = 0; i < work->copy_count; i++)
        copy_rows(&work->copies[i]);
}

static void draw_accidents(struct simulated_device *device, uint32_t slot)
{
    const struct device_traits *traits = &device->traits;
    device->fails[slot] = draw_one_in(traits->fails);
    if (draw_one_in(traits->stalls)) {
        device->stalled_until_ns = now_ns() + traits->stall_ns;
        trace("device %d stalls", (int)device->base.info.index);
    }
    if (draw_one_in(traits->is_lost)) {
        trace("device %d is lost", (int)device->base.info.index);
        device_set_lost(&device->base, "a simulated loss");
    }
}

static void simulated_submit(struct device *base, uint32_t slot, struct work *works)
{
    struct simulated_device *device = simulated(base);
    double flops = 0;
    for (const struct work *work = works; work != NULL; work = work->next)
        flops += work->task.kernel != NULL ? work_flops(work) : 1e4;
    device->end_ns[slot] = now_ns() + device->traits.launch_ns / 2 +
                           draw(device->traits.launch_ns) +
                           (uint64_t)(flops * device->traits.flop_ns);
    if (slot == base->slots) { /* the probe's */
        device->fails[slot] = false;
        return;
    }
    device->launches++;
    order_launched(device->order, works);
    draw_accidents(device, slot);
    if (!device->traits.computes_in_submit)
        return;
    uint64_t until_ns = device->end_ns[slot];
    if (device->stalled_until_ns > until_ns)
        until_ns = device->stalled_until_ns;
    struct device_pauses pauses = {.resumed_ns = now_ns()};
    while (now_ns() < until_ns + pauses.paused_ns && !work_is_useless(works, now_ns())) {
        const uint64_t left_ns = until_ns + pauses.paused_ns - now_ns();
        sleep_ns(left_ns < 100000 ? left_ns : 100000);
        if (!device_slot_is_between(base, slot))
            device_pause(base, works, &pauses, now_ns());
    }
    device->end_ns[slot] = 0;
    device->stalled_until_ns = 0;
}

static bool simulated_poll(struct device *base, uint32_t slot, struct work *works)
{
    struct simulated_device *device = simulated(base);
    const bool alone = works->next == NULL && slot != base->slots;
    if (now_ns() < device->stalled_until_ns ||
        (now_ns() < device->end_ns[slot] && !(alone && work_is_useless(works, now_ns()))))
        return false;
    if (alone && work_is_useless(works, now_ns())) {
        end_copies(device, works, true);
        work_set_stopped(works);
        return true;
    }
    for (struct work *work = works; work != NULL; work = work->next) {
        compute(device, work, device->fails[slot]);
        if (!device->fails[slot] && slot != base->slots) /* which is the probe's */
            draw_wrong(device, work);
    }
    return true;
}

static void simulated_close(struct device *device)
{
    arena_destroy(device->arena);
    free(device);
}

static bool simulated_task_bytes(const struct device *device, const struct task *task,
                                 uint64_t *out)
{
    struct device_layout layout;
    const bool known = layout_of(device, task, &layout);
    *out = known ? layout.total_bytes : 0;
    return known;
}

static const struct device_ops ops = {
    .submit = simulated_submit,
    .poll = simulated_poll,
    .close = simulated_close,
    .task_bytes = simulated_task_bytes,
    .shares_launches = true,
    .groups = true,
};
static const struct device_ops copying_ops = {
    .submit = simulated_submit,
    .poll = simulated_poll,
    .close = simulated_close,
    .task_bytes = simulated_task_bytes,
    .plan_copies = simulated_plan_copies,
    .copy_in = simulated_copy_in,
    .copied_in = simulated_copied_in,
    .shares_launches = true,
    .groups = true,
};
static const struct device_ops computing_ops = {
    .submit = simulated_submit,
    .poll = simulated_poll,
    .close = simulated_close,
    .task_bytes = simulated_task_bytes,
    .computes_in_submit = true,
};

struct simulated_device *simulated_device_open(const struct device_traits *traits, int32_t index,
                                               void *memory, void *tensors, struct order *order)
{
    struct simulated_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    device_init(&device->base,
                traits->computes_in_submit ? &computing_ops
                : traits->copies_early     ? &copying_ops
                                           : &ops,
                traits->computes_in_submit ? 1 : traits->streams);
    device->base.info.backend = GEMM_BACKEND_CPU;
    device->base.info.index = index;
    /* Devices of different models do not compute one call together. */
    snprintf(device->base.info.name, sizeof device->base.info.name, "simulated %d",
             traits->one_model ? 0 : (int)index);
    device->base.info.peak_flops[GEMMD_F32] = 1e9 / traits->flop_ns;
    device->base.arena = arena_create(traits->memory_bytes);
    device->base.tensors = (struct device_span){tensors, traits->tensor_bytes};
    device->base.stack_bytes = traits->computes_in_submit ? 0 : 1 << 20;
    device->traits = *traits;
    device->order = order;
    device->memory = memory;
    if (device->base.arena != NULL)
        return device;
    free(device);
    return NULL;
}
