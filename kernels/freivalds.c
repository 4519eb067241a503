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

struct freivalds_rounding freivalds_rounding_of(const struct gemm_problem *p)
{
    const double n = (double)p->n, k = (double)p->k;
    struct freivalds_rounding r = {
        .after = 4 * 0x1p-24, .least = (k + 4) * 0x1p-126, .largest = FLT_MAX};
    switch (p->dtype) {
    case GEMMD_F64:
        r.relative = (k + 8) * 0x1p-53;
        r.after = 4 * 0x1p-53;
        /* Times r, whose elements are about 2^-64, this is what the check's own sums round where
         * they are subnormal. */
        r.least = (n + k + 4) * DBL_TRUE_MIN * 0x1p64;
        r.largest = DBL_MAX;
        break;
    case GEMMD_I8:
        r.relative = 4 * 0x1p-24; /* the sum is exact */
        break;
    default:
        r.relative = (k + 8) * 0x1p-24;
        if (p->precision == GEMM_PRECISION_TF32)
            r.relative += 2.1 * 0x1p-10; /* both operands cut to 11 bits */
        if (p->precision == GEMM_PRECISION_F8)
            r.relative += 0x1p-8; /* sums of 128 products keep 13 bits */
        break;
    }
    if (p->out == GEMMD_F16) {
        r.last = 0x1p-11;
        r.least += 0x1p-24;
        r.largest = 65504;
    } else if (p->out == GEMMD_BF16) {
        r.last = 0x1p-8;
    } else {
        r.last = p->out == GEMMD_F64 ? 0x1p-53 : 0x1p-24;
    }
    return r;
}
