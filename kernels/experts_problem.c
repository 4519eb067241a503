/* The properties of an experts' problem, which do not depend on the kernel. */
#include "kernels/backend.h"
#include "kernels/experts.h"
#include "proto/dtype.h"
#include "proto/size.h"

void experts_problem_contiguous(struct experts_problem *problem)
{
    problem->lda = problem->k;
    problem->ldw = problem->transb ? problem->k : experts_columns(problem);
    problem->ldc = problem->n;
    problem->stride_w = problem->k * experts_columns(problem);
}

double experts_flops(const void *of)
{
    const struct experts_problem *p = of;
    return 2.0 * (double)p->m * (double)p->topk * (double)experts_columns(p) * (double)p->k;
}

struct experts_problem experts_subproblem(const struct experts_problem *problem, uint64_t first,
                                          uint64_t rows)
{
    struct experts_problem part = *problem;
    part.m = rows;
    if (part.a != NULL)
        part.a = (const char *)problem->a + first * problem->lda * dtype_size(problem->dtype);
    if (part.experts != NULL)
        part.experts += first * problem->topk;
    if (part.weights != NULL)
        part.weights += first * problem->topk;
    if (part.c != NULL)
        part.c = (char *)problem->c + first * problem->ldc * dtype_size(problem->out);
    return part;
}

bool experts_problem_offered(const void *of)
{
    const struct experts_problem *p = of;
    const uint64_t dims[] = {p->m, p->n, p->k, p->count, p->topk, experts_columns(p)};
    const uint64_t places[] = {p->m, p->topk}, w[] = {p->count, p->k, experts_columns(p)};
    uint64_t bytes;
    for (uint32_t i = 0; i < sizeof dims / sizeof *dims; i++)
        if (dims[i] < 1 || dims[i] > GEMM_DIM_MAX)
            return false;
    if (!size_tensor_bytes(GEMMD_F32, places, 2, &bytes) ||
        !size_tensor_bytes(p->dtype, w, 3, &bytes))
        return false;
    if (p->precision == GEMM_PRECISION_F8 ||
        (p->precision == GEMM_PRECISION_TF32 && p->dtype != GEMMD_F32))
        return false;
    switch (p->dtype) {
    case GEMMD_F64:
    case GEMMD_F32:
    case GEMMD_F16:
    case GEMMD_BF16:
        return dtype_offers_out(p->dtype, p->out);
    default:
        return false;
    }
}
