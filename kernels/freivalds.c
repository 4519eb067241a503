#include "kernels/freivalds.h"

#include "kernels/backend.h"
#include "kernels/freivalds_parts.h"
#include "proto/dtype.h"
#include "proto/size.h"

_Static_assert((int)FREIVALDS_ROWS_OFFSET == sizeof(struct freivalds_header),
               "the residuals of the rows follow the header");

bool freivalds_bytes(const void *of, uint64_t *out)
{
    const struct gemm_problem *p = of;
    const bool integers = p->out == GEMMD_I32;
    const uint64_t of_row = integers ? sizeof(uint32_t) : 2 * sizeof(double);
    const uint64_t of_k = integers ? sizeof(uint32_t) : 3 * sizeof(double);
    uint64_t rows, sums, r, expected;
    return size_mul(p->m, p->batch, &rows) && size_mul(rows, of_row, &expected) &&
           size_mul(rows, sizeof(double), &rows) && size_mul(p->k, p->batch, &sums) &&
           size_mul(sums, of_k, &sums) &&
           size_mul(p->n, integers ? sizeof(uint32_t) : sizeof(double), &r) &&
           size_add(rows, expected, out) && size_add(*out, sums, out) && size_add(*out, r, out) &&
           size_add(*out, FREIVALDS_ROWS_OFFSET, out);
}

enum gemmd_error freivalds_check(struct gemm_context *context, const void *problem, uint64_t seed,
                                 void *workspace)
{
    return context->backend->check(context, problem, seed, NULL, workspace);
}

enum gemmd_error freivalds_check_small(struct gemm_context *context,
                                       struct operation_small_check *checks, uint32_t count)
{
    return context->backend->check_small(context, checks, count);
}
