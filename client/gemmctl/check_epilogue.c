#include "client/gemmctl/check_epilogue.h"

#include <float.h>
#include <math.h>

void check_epilogue_settle(struct check_epilogue *epilogue)
{
    struct check_epilogue *e = epilogue;
    const double k = (double)e->k;
    const double least = (k + 4) * (e->dtype == GEMMD_F64 ? DBL_MIN : FLT_MIN);
    e->unit = e->dtype == GEMMD_F64 ? 0x1p-53 : 0x1p-24;
    e->relative = (e->dtype == GEMMD_F64 ? 2 : 1) * (k + 8) * e->unit;
    if (e->dtype == GEMMD_I8)
        e->relative = (e->scaled ? 8 : 4) * e->unit;
    else if (e->precision == GEMM_PRECISION_TF32)
        e->relative += 2.1 * 0x1p-10;
    else if (e->precision == GEMM_PRECISION_F8)
        e->relative += 0x1p-6;
    e->rounding = check_rounding_of(e->out);
    e->rounding.least = e->out == GEMMD_F16 ? least + e->rounding.least : least;
}

static double activate(enum gemm_act act, double x)
{
    switch (act) {
    case GEMM_ACT_RELU:
        return x > 0 ? x : 0;
    case GEMM_ACT_GELU:
        return x * 0.5 * erfc(-x * M_SQRT1_2);
    case GEMM_ACT_GELU_TANH: /* 1 + tanh z = 2 / (1 + exp(-2 z)) */
        return x / (1 + exp(-2 * sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
    case GEMM_ACT_SILU:
        return x / (1 + exp(-x));
    case GEMM_ACT_NONE:
        break;
    }
    return x;
}

/* The element before the activation, of an accumulator of i32, which wraps. All numbers are whole.
 */
static int32_t wrapped(const struct check_epilogue *e, const struct check_terms *terms)
{
    const uint64_t value = (uint64_t)(int64_t)e->alpha * (uint64_t)(int64_t)terms->sum +
                           (uint64_t)(int64_t)e->beta * (uint64_t)(int64_t)terms->c0 +
                           (uint64_t)(int64_t)terms->bias;
    return (int32_t)(uint32_t)value;
}

void check_epilogue_compare(const struct check_epilogue *epilogue, struct check *check, uint64_t at,
                            double found, const struct check_terms *terms)
{
    const struct check_epilogue *e = epilogue;
    double sum = terms->sum;
    if (e->out == GEMMD_I32) {
        check_element(check, at, found, activate(e->act, wrapped(e, terms)), 0, e->rounding.limit);
        return;
    }
    if (e->dtype == GEMMD_I8)
        sum = (double)(int32_t)(uint32_t)(int64_t)sum; /* the accumulator is i32 */
    const double x = e->alpha * sum * terms->factor + e->beta * terms->c0 + terms->bias;
    const double scale =
        fabs(e->alpha) * terms->magnitude + fabs(e->beta * terms->c0) + fabs(terms->bias);
    if (!isfinite(scale)) {
        check->skipped++;
        return;
    }
    double error = e->relative * scale;
    if (!gemm_act_is_exact(e->act))
        error = 1.13 * error + 16 * e->unit * (fabs(x) + error);
    const double expected = activate(e->act, x);
    const double allowed = error + e->rounding.last * (fabs(expected) + error) + e->rounding.least;
    check_element(check, at, found, expected, allowed, e->rounding.limit);
}
