#include "kernels/subproblem.h"

#include "proto/dtype.h"

static const void *moved(const void *pointer, uint64_t elements, enum gemmd_dtype dtype)
{
    return pointer != NULL ? (const char *)pointer + elements * dtype_size(dtype) : NULL;
}

struct gemm_problem gemm_subproblem(const struct gemm_problem *problem,
                                    const struct gemm_range *range)
{
    const struct gemm_problem *p = problem;
    const uint64_t first = range->first_problem, row = range->first_row;
    struct gemm_problem q = *problem;
    q.batch = range->problems;
    q.m = range->rows;
    q.a = moved(p->a, first * p->stride_a + row * (p->transa ? 1 : p->lda), p->dtype);
    q.b = moved(p->b, first * p->stride_b, p->dtype);
    q.c0 = moved(p->c0, first * p->stride_c0 + row * p->ldc0, p->out);
    if (p->c != NULL)
        q.c = (char *)p->c + (first * p->stride_c + row * p->ldc) * dtype_size(p->out);
    if (p->a_scale.data != NULL)
        q.a_scale.data += first * p->a_scale.stride + row * p->a_scale.step;
    if (p->b_scale.data != NULL)
        q.b_scale.data += first * p->b_scale.stride;
    return q;
}

bool gemm_subproblems_are_exact(const struct operation_kernel *kernel)
{
    return kernel->rows_independent || kernel->launch_flops > 0;
}

struct attention_problem attention_subproblem(const struct attention_problem *problem,
                                              const struct attention_range *range)
{
    const struct attention_problem *p = problem;
    const uint64_t group = p->heads / p->kv_heads, entry = range->first_entry;
    const uint64_t kv_head = range->first_kv_head, head = kv_head * group;
    struct attention_problem q = *problem;
    q.batch = range->entries;
    q.kv_heads = range->kv_heads;
    q.heads = range->kv_heads * group;
    q.whole_kv_heads = p->whole_kv_heads != 0 ? p->whole_kv_heads : p->kv_heads;
    q.q = moved(p->q, entry * p->q_strides.batch + head * p->q_strides.head, p->dtype);
    q.k = moved(p->k, entry * p->k_strides.batch + kv_head * p->k_strides.head, p->dtype);
    q.v = moved(p->v, entry * p->v_strides.batch + kv_head * p->v_strides.head, p->dtype);
    q.mask =
        moved(p->mask, entry * p->mask_strides.batch + head * p->mask_strides.head, p->mask_dtype);
    if (p->o != NULL)
        q.o = (char *)p->o +
              (entry * p->o_strides.batch + head * p->o_strides.head) * dtype_size(p->dtype);
    if (p->lse != NULL)
        q.lse = p->lse + (entry * p->heads + head) * p->sq;
    if (p->slopes != NULL)
        q.slopes = p->slopes + head;
    if (p->sinks != NULL)
        q.sinks = p->sinks + head;
    if (p->lens_q != NULL)
        q.lens_q = p->lens_q + entry;
    if (p->lens_kv != NULL)
        q.lens_kv = p->lens_kv + entry;
    return q;
}
