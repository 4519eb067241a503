/* What a product's problem is, whichever kernel computes it. */
#include "kernels/backend.h"
#include "kernels/gemm.h"
#include "proto/dtype.h"

void gemm_problem_contiguous(struct gemm_problem *problem)
{
    problem->lda = problem->transa ? problem->m : problem->k;
    problem->ldb = problem->transb ? problem->k : problem->n;
    problem->ldc0 = problem->ldc = problem->n;
    problem->stride_a = problem->m * problem->k;
    problem->stride_b = problem->k * problem->n;
    problem->stride_c0 = problem->stride_c = problem->m * problem->n;
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

bool gemm_problem_offered(const struct gemm_problem *problem)
{
    if (!are_dims(problem) || !dtype_offers_out(problem->dtype, problem->out))
        return false;
    if (problem->out != GEMMD_I32)
        return true;
    return is_i32(problem->alpha) && is_i32(problem->beta) &&
           (problem->act == GEMM_ACT_NONE || problem->act == GEMM_ACT_RELU);
}

bool gemm_no_workspace(const struct gemm_problem *problem, uint64_t *out)
{
    (void)problem;
    *out = 0;
    return true;
}

/* SMALL_SIDE bounds how long a product delays the others of its launch. SMALL_BYTES bounds the time
 * of reading host memory from the device, compared with copies. SMALL_BATCH bounds the number of
 * products of one request. */
enum { SMALL_SIDE = 256, SMALL_BYTES = 256 << 10, SMALL_BATCH = 64 };

bool gemm_is_small(const struct gemm_problem *p)
{
    if (p->m > SMALL_SIDE || p->n > SMALL_SIDE || p->k > SMALL_SIDE || p->batch > SMALL_BATCH)
        return false;
    const uint64_t results = p->m * p->n * (p->beta != 0 ? 2 : 1);
    return p->batch *
               ((p->m + p->n) * p->k * dtype_size(p->dtype) + results * dtype_size(p->out)) <=
           SMALL_BYTES;
}
