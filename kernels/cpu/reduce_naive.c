/*
 * reduce_naive.c - the reductions as their formulas say, one result after the other: the reference.
 *
 * Sums are computed in f64 with compensation, those of integers in 64-bit integers, in the order of
 * the elements.
 */
#include <float.h>
#include <math.h>

#include "kernels/cpu/compensated_sum.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_reduce.h"
#include "kernels/reduce.h"
#include "proto/dtype.h"

enum {
    SLICE = 1024,
    EXP_STEPS = 8 /* steps of struct team_pace that an exponential takes */
};

struct naive_reduction {
    double scale; /* of the elements in `sum` and `squares`, a power of two */
    double most;
    struct compensated_sum sum, squares, exponentials;
    int64_t integer;
    uint64_t place; /* of the first greatest element, or of the first NaN */
    bool has_nan;
};

static double element(const struct reduce_problem *p, const char *x, uint64_t l)
{
    double value;
    convert_to_f64(p->dtype, x + l * p->length_stride * dtype_size(p->dtype), &value, 1);
    return value;
}

/* Adds elements `first` to `end` - 1 to a reduction. */
static void add_elements(const struct reduce_problem *p, const char *x, uint64_t first,
                         uint64_t end, struct naive_reduction *r)
{
    const double sign = p->op == REDUCE_MIN ? -1 : 1;
    for (uint64_t l = first; l < end; l++) {
        const double value = element(p, x, l);
        if (!r->has_nan && (isnan(value) || sign * value > r->most || l == 0)) {
            r->has_nan = isnan(value);
            r->most = sign * value;
            r->place = l;
        }
        const double scaled = r->scale * value;
        compensated_sum_add(&r->sum, scaled);
        compensated_sum_add(&r->squares, scaled * scaled);
        if (p->dtype == GEMMD_I8 || p->dtype == GEMMD_I32)
            r->integer += (int64_t)value;
    }
}

/* A reduction that is ended early is incomplete. */
static struct naive_reduction reduce_naive_elements(const struct reduce_problem *p, const char *x,
                                                    double scale, struct team_pace *pace)
{
    struct naive_reduction r = {.scale = scale, .most = -INFINITY};
    for (uint64_t first = 0, end; first < p->length; first = end) {
        end = p->length - first < SLICE ? p->length : first + SLICE;
        if (team_pace_stops(pace, end - first))
            return r;
        add_elements(p, x, first, end, &r);
    }
    for (uint64_t l = 0;
         p->op == REDUCE_LOGSUMEXP && l < p->length && !team_pace_stops(pace, EXP_STEPS); l++)
        compensated_sum_add(&r.exponentials, exp(element(p, x, l) - r.most));
    return r;
}

/* The scale with which the sum of a reduction that was computed with a scale of 1 is in the range
 * of f64. At most 2^31 elements are summed. */
static double scale_for(enum reduce_op op, const struct naive_reduction *r)
{
    const double squares = compensated_sum_value(&r->squares);
    if (op == REDUCE_NORM2) /* where subnormal squares could be missed, all elements are small */
        return squares > DBL_MAX ? 0x1p-600 : squares < 0x1p-900 ? 0x1p600 : 1;
    const bool sums = op == REDUCE_SUM || op == REDUCE_MEAN;
    return sums && !isfinite(compensated_sum_value(&r->sum)) ? 0x1p-32 : 1;
}

struct reduce_naive_job {
    const struct reduce_problem *p;
    struct team *team;
};

static void reduce_naive_result(void *argument, uint64_t part, uint32_t member)
{
    const struct reduce_naive_job *job = argument;
    const struct reduce_problem *p = job->p;
    const struct reduce_place place = reduce_place_of(p, part);
    struct team_pace pace = {.team = job->team};
    struct naive_reduction r = reduce_naive_elements(p, place.x, 1, &pace);
    const double n = (double)p->length, scale = scale_for(p->op, &r);
    const bool is_integer = p->dtype == GEMMD_I8 || p->dtype == GEMMD_I32;
    (void)member;
    if (scale != 1)
        r = reduce_naive_elements(p, place.x, scale, &pace);
    switch (p->op) {
    case REDUCE_SUM:
        if (is_integer)
            reduce_store_integer(p->out, r.integer, place.y);
        else
            reduce_store(p->out, compensated_sum_value(&r.sum) / scale, place.y);
        break;
    case REDUCE_MEAN:
        reduce_store(p->out,
                     (is_integer ? (double)r.integer : compensated_sum_value(&r.sum)) / n / scale,
                     place.y);
        break;
    case REDUCE_MAX:
    case REDUCE_MIN:
        if (is_integer)
            reduce_store_integer(p->out, (int64_t)(p->op == REDUCE_MIN ? -r.most : r.most),
                                 place.y);
        else
            reduce_store(p->out, p->op == REDUCE_MIN ? -r.most : r.most, place.y);
        break;
    case REDUCE_NORM2:
        reduce_store(p->out, sqrt(compensated_sum_value(&r.squares)) / scale, place.y);
        break;
    case REDUCE_LOGSUMEXP:
        reduce_store(p->out,
                     isinf(r.most) ? r.most : r.most + log(compensated_sum_value(&r.exponentials)),
                     place.y);
        break;
    default:
        reduce_store_integer(p->out, (int64_t)r.place, place.y);
    }
}

static enum gemmd_error reduce_naive_run(struct gemm_context *base, const void *problem,
                                         void *workspace)
{
    struct reduce_naive_job job = {.p = problem, .team = cpu_context_of(base)->team};
    (void)workspace;
    team_run(job.team, reduce_naive_result, &job, reduce_results(job.p));
    return GEMMD_OK;
}

const struct operation_kernel reduce_cpu_naive = {
    .name = "naive",
    .description = "one result after the other, summed in f64; the reference",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = reduce_problem_offered,
    .workspace_bytes = operation_no_workspace,
    .run = reduce_naive_run,
};
