#include "kernels/cuda/move/operand.h"

#include "kernels/cuda/sm90/sm90.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ALIGNMENT = 256, PARTS = 3 };

bool operand_is_aligned(uint64_t ld, uint64_t stride, uint64_t batch, enum gemmd_dtype dtype)
{
    const uint64_t bytes = dtype_size(dtype);
    return ld * bytes % 16 == 0 && (batch == 1 || stride * bytes % 16 == 0);
}

bool operand_place(uint64_t lines, uint64_t width, uint64_t count, enum gemmd_dtype dtype,
                   uint64_t *ld, uint64_t *stride, uint64_t *bytes)
{
    *ld = sm90_leading(width, dtype);
    return size_mul(lines, *ld, stride) && size_mul(*stride, count, bytes) &&
           size_mul(*bytes, dtype_size(dtype), bytes) && size_align(*bytes, ALIGNMENT, bytes);
}

static enum gemmd_dtype type_after(enum operand_form form, enum gemmd_dtype dtype)
{
    return form == OPERAND_WIDENED ? GEMMD_F16 : form == OPERAND_IN_PARTS ? GEMMD_BF16 : dtype;
}

/* Plans an operand of `lines` lines of `width` elements, as stored, whose form is set. *ld, *stride
 * and *along_k describe the operand as stored; they become those of the converted operand. */
static bool plan_one(const struct gemm_problem *p, const void *data, uint64_t lines, uint64_t width,
                     bool *along_k, uint64_t *ld, uint64_t *stride, struct operand *o)
{
    if (o->form == OPERAND_IN_PLACE)
        return true;
    o->job = (struct realign_job){.from = data,
                                  .rows = lines,
                                  .width = width,
                                  .batch = p->batch,
                                  .ld_from = *ld,
                                  .stride_from = *stride,
                                  .element_bytes = dtype_size(p->dtype)};
    const bool transposed = o->form == OPERAND_TRANSPOSED;
    uint64_t count = p->batch;
    if (!size_mul(count, o->form == OPERAND_IN_PARTS ? PARTS : 1, &count) ||
        !operand_place(transposed ? width : lines, transposed ? lines : width, count,
                       type_after(o->form, p->dtype), ld, stride, &o->bytes))
        return false;
    o->job.ld_to = *ld;
    o->job.stride_to = *stride;
    *along_k |= transposed;
    return true;
}

bool operands_plan(const struct gemm_problem *p, struct gemm_problem *planned, struct operand *a,
                   struct operand *b)
{
    struct gemm_problem *q = planned;
    bool a_along_k = !p->transa, b_along_k = p->transb;
    if (!plan_one(p, p->a, p->transa ? p->k : p->m, p->transa ? p->m : p->k, &a_along_k, &q->lda,
                  &q->stride_a, a) ||
        !plan_one(p, p->b, p->transb ? p->n : p->k, p->transb ? p->k : p->n, &b_along_k, &q->ldb,
                  &q->stride_b, b))
        return false;
    q->transa = !a_along_k;
    q->transb = b_along_k;
    return true;
}

char *operand_settle(struct operand *operand, char *workspace, const void **data)
{
    if (operand->form != OPERAND_IN_PLACE)
        *data = operand->job.to = workspace;
    return workspace + operand->bytes;
}

enum gemmd_error operand_move(cudaStream_t stream, const struct operand *operand)
{
    const struct realign_job *job = &operand->job;
    const struct widen_job widen = {.from = job->from,
                                    .to = job->to,
                                    .lines = job->rows,
                                    .length = job->width,
                                    .ld = job->ld_from,
                                    .stride = job->stride_from,
                                    .batch = job->batch,
                                    .ld_to = job->ld_to};
    const struct pack_job pack = {.from = job->from,
                                  .to = job->to,
                                  .rows = job->width,
                                  .k = job->rows,
                                  .ld = job->ld_from,
                                  .stride = job->stride_from,
                                  .batch = job->batch,
                                  .padded_rows = job->width,
                                  .padded_k = job->ld_to,
                                  .element_bytes = job->element_bytes};
    switch (operand->form) {
    case OPERAND_IN_PLACE:
        return GEMMD_OK;
    case OPERAND_REALIGNED:
        return realign_launch(stream, job);
    case OPERAND_WIDENED:
        return widen_launch(stream, &widen);
    case OPERAND_TRANSPOSED:
        return pack_launch(stream, &pack);
    case OPERAND_IN_PARTS:
        return parts_launch(stream, job);
    }
    return GEMMD_ERR_INTERNAL;
}
