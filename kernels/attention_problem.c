/* The properties of an attention's problem, which do not depend on the kernel. */
#include "kernels/attention.h"
#include "kernels/backend.h"
#include "proto/dtype.h"
#include "proto/size.h"

struct attention_strides attention_strides(enum attention_layout layout, uint64_t heads,
                                           uint64_t length, uint64_t leading)
{
    const bool heads_first = layout == ATTENTION_BHSD;
    return (struct attention_strides){
        .batch = heads * length * leading,
        .head = heads_first ? length * leading : leading,
        .row = heads_first ? leading : heads * leading,
    };
}

static uint64_t attention_clamp(int64_t value, uint64_t limit)
{
    return value < 0 ? 0 : (uint64_t)value < limit ? (uint64_t)value : limit;
}

struct attention_span attention_span(const struct attention_problem *problem, uint64_t sq,
                                     uint64_t skv, uint64_t i)
{
    const int64_t shift =
        problem->has_offset ? (int64_t)problem->offset : (int64_t)skv - (int64_t)sq;
    const int64_t position = (int64_t)i + shift;
    struct attention_span span = {0, skv};
    if (problem->causal)
        span.end = attention_clamp(position + 1, skv);
    if (problem->windowed)
        span.first = attention_clamp(position - (int64_t)problem->window, span.end);
    return span;
}

/* The number of pairs of a query i and a key j with j < i + shift. */
static double pairs_left_of(double sq, double skv, double shift)
{
    /* Queries below `none` have no such key, those from `all` on have all. */
    double none = -shift + 1, all = skv - shift;
    none = none < 0 ? 0 : none > sq ? sq : none;
    all = all < none ? none : all > sq ? sq : all;
    return (all - none) * (none + all - 1 + 2 * shift) / 2 + (sq - all) * skv;
}

double attention_flops(const void *of)
{
    const struct attention_problem *problem = of;
    const double sq = (double)problem->sq, skv = (double)problem->skv;
    const double shift = problem->has_offset ? (double)problem->offset : skv - sq;
    double pairs = problem->causal ? pairs_left_of(sq, skv, shift + 1) : sq * skv;
    if (problem->windowed)
        pairs -= pairs_left_of(sq, skv, shift - (double)problem->window);
    return 2 * pairs * (double)(problem->d + problem->dv) * (double)problem->batch *
           (double)problem->heads;
}

bool attention_problem_offered(const void *of)
{
    const struct attention_problem *p = of;
    uint64_t rows;
    return (p->dtype == GEMMD_F32 || p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) &&
           p->d >= 1 && p->d <= ATTENTION_WIDTH_MAX && p->dv >= 1 && p->dv <= ATTENTION_WIDTH_MAX &&
           (p->mask == NULL || p->mask_dtype == p->dtype || p->mask_dtype == GEMMD_I8) &&
           p->kv_heads >= 1 && p->heads % p->kv_heads == 0 && size_mul(p->batch, p->heads, &rows) &&
           size_mul(rows, p->sq, &rows);
}

bool attention_problem_is_plain(const void *of)
{
    const struct attention_problem *p = of;
    return p->mask == NULL && !p->has_offset && attention_problem_offered(p);
}
