#include "server/device/copy_in.h"

/* Copies start at a multiple of this offset in an operand that has no rows to keep whole. */
enum { STEP_ALIGNMENT = 4096 };

/* The offset in `body` of an operand's `bytes`; COPY_IN_NEVER: the operand is not in the body. */
static uint64_t begin_of(struct device_span body, const void *from, uint64_t bytes)
{
    if (body.start == NULL)
        return 0;
    const uint64_t begin = (uint64_t)((uintptr_t)from - (uintptr_t)body.start);
    return device_span_has(body, from) && bytes <= body.bytes - begin ? begin : COPY_IN_NEVER;
}

void copy_in_plan(struct copy_in *plan, const struct task *task, const struct device_layout *layout,
                  unsigned char *range, struct device_span body)
{
    *plan = (struct copy_in){.copy_stream = COPY_IN_NO_STREAM};
    for (uint32_t i = 0; i < task->operation->operands; i++) {
        const struct operation_part *part = &layout->list[i];
        const struct device_location location = layout->locations[i], staging = layout->staging[i];
        if (location.bytes == 0 || (layout->resident & 1u << i) != 0)
            continue;
        const void *from = operation_pointer(task->operation, &task->problem, i);
        const uint64_t bytes = staging.bytes > 0 ? staging.bytes : location.bytes;
        struct copy_in_operand *operand = &plan->operands[plan->count++];
        *operand = (struct copy_in_operand){.from = from,
                                            .to = range + location.offset,
                                            .bytes = bytes,
                                            .begin = begin_of(body, from, bytes)};
        if (staging.bytes == 0)
            continue;
        operand->staging = range + staging.offset;
        operand->element_bytes = part->element_bytes;
        operand->row_bytes = part->row_bytes;
        operand->to_pitch = part->pitch;
    }
}

bool copy_in_has_early(const struct copy_in *plan)
{
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->operands[i].begin != COPY_IN_NEVER)
            return true;
    return false;
}

static bool is_same(const struct copy_in_operand *one, const struct copy_in_operand *other)
{
    return one->from == other->from && one->to == other->to && one->bytes == other->bytes &&
           one->row_bytes == other->row_bytes && one->to_pitch == other->to_pitch &&
           one->staging == other->staging;
}

void copy_in_settle(struct copy_in *plan, const struct copy_in *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const uint64_t taken = i < plan->count && is_same(&plan->operands[i], &all->operands[i])
                                   ? plan->operands[i].taken
                                   : 0;
        plan->operands[i] = all->operands[i];
        plan->operands[i].taken = taken;
    }
    plan->count = all->count;
}

/* Number of the operand's bytes that may have been handed out by now. */
static uint64_t ready_bytes(const struct copy_in_operand *operand, uint64_t received)
{
    const uint64_t there = received > operand->begin ? received - operand->begin : 0;
    const uint64_t unit = operand->row_bytes > 0 ? operand->row_bytes : STEP_ALIGNMENT;
    return there >= operand->bytes ? operand->bytes : there / unit * unit;
}

bool copy_in_next(struct copy_in *plan, uint64_t received, struct copy_in_piece *piece)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        struct copy_in_operand *operand = &plan->operands[i];
        const uint64_t ready = ready_bytes(operand, received);
        if (ready <= operand->taken)
            continue;
        *piece = (struct copy_in_piece){operand, operand->taken, ready - operand->taken};
        operand->taken = ready;
        return true;
    }
    return false;
}

void copy_in_restart(struct copy_in *plan)
{
    for (uint32_t i = 0; i < plan->count; i++)
        plan->operands[i].taken = 0;
}
