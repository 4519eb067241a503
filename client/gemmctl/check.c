#include "client/gemmctl/check.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/gemmctl/check_parts.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/progress.h"
#include "proto/dtype.h"

/* The value of a float of `exponent` and `mantissa` bits. A format that `has_infinity` gives the
 * largest exponent to infinities and NaNs, as IEEE 754 does; f8_e4m3 has NaN where all bits below
 * the sign are set, and no infinity. */
static double widen_small(uint32_t bits, int exponent, int mantissa, bool has_infinity)
{
    const uint32_t largest = (1u << exponent) - 1;
    const uint32_t fraction = bits & ((1u << mantissa) - 1), power = bits >> mantissa & largest;
    const int bias = (1 << (exponent - 1)) - 1;
    double value;
    if (power == largest && has_infinity)
        value = fraction == 0 ? INFINITY : NAN;
    else if (power == largest && fraction == (1u << mantissa) - 1)
        value = NAN;
    else if (power == 0)
        value = ldexp(fraction, 1 - bias - mantissa);
    else
        value = ldexp(fraction | 1u << mantissa, (int)power - bias - mantissa);
    return bits >> (exponent + mantissa) != 0 ? -value : value;
}

static double widen_one(enum gemmd_dtype dtype, const unsigned char *at)
{
    double f64;
    float f32;
    int32_t i32;
    uint16_t bits;
    switch (dtype) {
    case GEMMD_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case GEMMD_F32:
        memcpy(&f32, at, sizeof f32);
        return f32;
    case GEMMD_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case GEMMD_F16:
        memcpy(&bits, at, sizeof bits);
        return widen_small(bits, 5, 10, true);
    case GEMMD_BF16:
        memcpy(&bits, at, sizeof bits);
        return widen_small(bits, 8, 7, true);
    case GEMMD_F8_E4M3:
        return widen_small(*at, 4, 3, false);
    case GEMMD_I8:
        return *(const signed char *)at;
    default:
        return NAN;
    }
}

void widen(enum gemmd_dtype dtype, const void *from, uint64_t stride, uint64_t count, double *out)
{
    const unsigned char *at = from;
    const uint64_t step = stride * dtype_size(dtype);
    for (uint64_t i = 0; i < count; i++, at += step)
        out[i] = widen_one(dtype, at);
}

struct check_rounding check_rounding_of(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_F64:
        return (struct check_rounding){0x1p-53, DBL_MIN, DBL_MAX};
    case GEMMD_F32:
        return (struct check_rounding){0x1p-24, FLT_MIN, FLT_MAX};
    case GEMMD_F16:
        return (struct check_rounding){0x1p-11, 0x1p-25, 65504};
    case GEMMD_BF16:
        return (struct check_rounding){0x1p-8, FLT_MIN, FLT_MAX};
    default:
        return (struct check_rounding){0, 0, DBL_MAX};
    }
}

void check_element(struct check *check, uint64_t at, double found, double expected, double allowed,
                   double limit)
{
    const double error = found == expected ? 0 : fabs(found - expected);
    check->elements++;
    if (error <= allowed) {
        if (allowed > 0)
            check->largest = fmax(check->largest, error / allowed);
        return;
    }
    const bool overflows =
        isinf(found) && fabs(expected) + allowed >= limit && signbit(found) == signbit(expected);
    if (overflows || check->wrong++ > 0)
        return;
    check->at = at;
    check->found = found;
    check->expected = expected;
    check->allowed = allowed;
}

uint64_t check_stride(double work)
{
    return work > CHECK_WORK_MAX ? (uint64_t)ceil(work / CHECK_WORK_MAX) : 1;
}

/* ---- products and convolutions ---- */

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

/* ---- the option ---- */

int check_run_allows(const struct context *context, const struct destination *destination)
{
    const struct arguments *arguments = context->arguments;
    if (!option_flag(arguments, OPTION_CHECK))
        return EXIT_OK;
    if (destination->path == NULL && !destination->dropped)
        return fail_usage(context, "--check needs the result; leave out --async and --store");
    for (uint32_t i = 0; i < arguments->operand_count; i++)
        if (resident_name(arguments->operands[i]) != NULL)
            return fail_usage(context, "--check needs the operands; name files in place of tensors "
                                       "on the daemon");
    return EXIT_OK;
}

int check_run(const struct context *context, const char *name, check_run_compare *compare,
              check_run_where *where, const void *argument, struct check *check)
{
    struct gemmd_error_info error = {.code = GEMMD_OK};
    struct progress_line line;
    char place[128];
    progress_start(&line, &context->terminal, option_flag(context->arguments, OPTION_QUIET));
    error.code = compare(argument, &line, check);
    progress_end(&line);
    if (error.code == GEMMD_ERR_CANCELLED)
        return EXIT_INTERRUPTED;
    if (error.code == GEMMD_ERR_OUT_OF_MEMORY)
        snprintf(error.message, sizeof error.message, "there is no memory for --check");
    if (error.code == GEMMD_OK && check->wrong > 0) {
        error.code = GEMMD_ERR_VERIFICATION;
        where(argument, check->at, place, sizeof place);
        snprintf(error.message, sizeof error.message,
                 "%llu of %llu elements of %s are wrong; the first, %s, is %.9g and should be "
                 "%.9g, with an error of at most %.2g",
                 (unsigned long long)check->wrong, (unsigned long long)check->elements, name, place,
                 check->found, check->expected, check->allowed);
    }
    return error.code == GEMMD_OK ? EXIT_OK : fail_request(context, &error);
}
