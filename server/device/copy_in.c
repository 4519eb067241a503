#include "server/device/copy_in.h"

#include "proto/dtype.h"

/* Copies start at a multiple of this offset in an operand that has no rows to keep whole. */
enum { STEP_ALIGNMENT = 4096 };

/* The memory that a plan's addresses are in. */
struct frame {
    struct device_span there;
    unsigned char *range;
    struct device_span body;
};

static uint64_t begin_of(struct device_span body, const void *from, uint64_t bytes)
{
    if (body.start == NULL)
        return 0;
    const uint64_t begin = (uint64_t)((uintptr_t)from - (uintptr_t)body.start);
    return device_span_has(body, from) && bytes <= body.bytes - begin ? begin : COPY_IN_NEVER;
}

static struct copy_in_operand *add_operand(struct copy_in *plan, const struct frame *frame,
                                           struct device_part part, const void *from)
{
    if (part.bytes == 0 || device_span_has(frame->there, from))
        return NULL;
    struct copy_in_operand *operand = &plan->operands[plan->count++];
    *operand = (struct copy_in_operand){
        .from = from,
        .to = frame->range + part.offset,
        .bytes = part.bytes,
        .begin = begin_of(frame->body, from, part.bytes),
    };
    return operand;
}

/* Adds A or B. If the matrix has a staging part, its rows of `width` elements come without gaps and
 * have to be `leading` elements apart. The sizes were checked when the layout was made. */
static void add_matrix(struct copy_in *plan, const struct frame *frame, struct device_part part,
                       struct device_part staging, const void *from, uint64_t width,
                       uint64_t leading, uint32_t element_bytes)
{
    struct copy_in_operand *operand = add_operand(plan, frame, part, from);
    if (operand == NULL || staging.bytes == 0)
        return;
    operand->bytes = staging.bytes;
    operand->begin = begin_of(frame->body, from, staging.bytes);
    operand->staging = frame->range + staging.offset;
    operand->element_bytes = element_bytes;
    operand->row_bytes = width * element_bytes;
    operand->to_pitch = leading * element_bytes;
}

void copy_in_plan(struct copy_in *plan, const struct gemm_problem *problem,
                  const struct device_layout *layout, struct device_span there,
                  unsigned char *range, struct device_span body)
{
    const struct gemm_problem *p = problem;
    const struct frame frame = {there, range, body};
    const uint32_t element_bytes = (uint32_t)dtype_size(p->dtype);
    *plan = (struct copy_in){.copy_stream = COPY_IN_NO_STREAM};
    add_matrix(plan, &frame, layout->a, layout->a_staging, p->a, p->transa ? p->m : p->k,
               layout->problem.lda, element_bytes);
    add_matrix(plan, &frame, layout->b, layout->b_staging, p->b, p->transb ? p->k : p->n,
               layout->problem.ldb, element_bytes);
    (void)add_operand(plan, &frame, layout->bias, p->bias);
    (void)add_operand(plan, &frame, layout->c0, p->c0);
    (void)add_operand(plan, &frame, layout->a_scale, p->a_scale.data);
    (void)add_operand(plan, &frame, layout->b_scale, p->b_scale.data);
}

void copy_in_plan_task(struct copy_in *plan, const struct task *task,
                       const struct task_parts *parts, unsigned char *range,
                       struct device_span body)
{
    const struct frame frame = {{.start = NULL}, range, body};
    *plan = (struct copy_in){.copy_stream = COPY_IN_NO_STREAM};
    /* Operands in tensor memory have no place. */
    for (uint32_t i = 0; i < parts->count; i++)
        if (!parts->list[i].is_result)
            (void)add_operand(plan, &frame, parts->places[i],
                              operation_part_pointer(&task->problem, &parts->list[i]));
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
