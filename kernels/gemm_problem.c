/* The properties of a product's problem, which do not depend on the kernel. */
#include "kernels/backend.h"
#include "kernels/gemm.h"
#include "proto/dtype.h"
#include "proto/size.h"

void gemm_problem_contiguous(struct gemm_problem *problem)
{
    problem->lda = problem->transa ? problem->m : problem->k;
    problem->ldb = problem->transb ? problem->k : problem->n;
    problem->ldc0 = problem->ldc = problem->n;
    problem->stride_a = problem->m * problem->k;
    problem->stride_b = problem->k * problem->n;
    problem->stride_c0 = problem->stride_c = problem->m * problem->n;
}

void gemm_problem_scales_contiguous(struct gemm_problem *problem, bool transa, bool transb)
{
    struct gemm_problem *p = problem;
    const uint64_t k = gemm_scale_blocks(p->k), n = gemm_scale_blocks(p->n);
    if (p->scales == GEMM_SCALES_ROWCOL) {
        p->a_scale.step = p->b_scale.step = 1;
        p->a_scale.k_step = p->b_scale.k_step = 0;
        p->a_scale.stride = p->m;
        p->b_scale.stride = p->n;
    } else if (p->scales == GEMM_SCALES_BLOCK) {
        p->a_scale.step = transa ? 1 : k;
        p->a_scale.k_step = transa ? p->m : 1;
        p->a_scale.stride = p->m * k;
        p->b_scale.step = transb ? k : 1;
        p->b_scale.k_step = transb ? 1 : n;
        p->b_scale.stride = n * k;
    }
}

bool gemm_scale_span(const struct gemm_problem *problem, bool of_b, uint64_t *out)
{
    const struct gemm_problem *p = problem;
    const struct gemm_scale *scale = of_b ? &p->b_scale : &p->a_scale;
    const bool block = p->scales == GEMM_SCALES_BLOCK;
    const uint64_t lines = !of_b ? p->m : block ? gemm_scale_blocks(p->n) : p->n;
    uint64_t last_line, last_k, last_problem;
    return size_mul(lines - 1, scale->step, &last_line) &&
           size_mul(block ? gemm_scale_blocks(p->k) - 1 : 0, scale->k_step, &last_k) &&
           size_mul(p->batch - 1, scale->stride, &last_problem) &&
           size_add(last_line, last_k, out) && size_add(*out, last_problem, out) &&
           size_add(*out, 1, out);
}

/* Whether all dimensions are from 1 to GEMM_DIM_MAX. */
static bool are_dims(const struct gemm_problem *problem)
{
    const uint64_t dims[] = {problem->m, problem->n, problem->k, problem->batch};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        if (dims[i] < 1 || dims[i] > GEMM_DIM_MAX)
            return false;
    return true;
}

static bool is_i32(double value)
{
    return value >= INT32_MIN && value <= INT32_MAX && value == (int32_t)value;
}

bool gemm_problem_offered(const void *of)
{
    const struct gemm_problem *problem = of;
    if (problem->packed.bits != 0 || !are_dims(problem) ||
        !gemm_scales_offer(problem->scales, problem->dtype, problem->out))
        return false;
    if (problem->out != GEMMD_I32)
        return true;
    return is_i32(problem->alpha) && is_i32(problem->beta) && gemm_act_is_exact(problem->act);
}

bool gemm_problem_unscaled(const void *of)
{
    const struct gemm_problem *problem = of;
    return problem->scales == GEMM_SCALES_NONE && gemm_problem_offered(problem);
}

bool gemm_problem_packed(const void *of)
{
    const struct gemm_problem *p = of;
    return p->packed.bits != 0 && p->packed.k == p->k && p->packed.n == p->n && are_dims(p) &&
           p->batch == 1 && !p->transb && (p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) &&
           p->scales == GEMM_SCALES_NONE && dtype_offers_out(p->dtype, p->out);
}
