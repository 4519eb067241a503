/* The properties of an attention's problem, which do not depend on the kernel. */
#include <math.h>

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

struct attention_rows attention_rows(const struct attention_problem *problem, uint64_t entry)
{
    const struct attention_problem *p = problem;
    if (p->lens_q == NULL)
        return (struct attention_rows){.sq = p->sq, .skv = p->skv};
    const uint64_t q = (uint64_t)p->lens_q[entry], kv = (uint64_t)p->lens_kv[entry];
    if (!p->ragged)
        return (struct attention_rows){.sq = q, .skv = kv};
    return (struct attention_rows){.first_q = q,
                                   .first_kv = kv,
                                   .sq = (uint64_t)p->lens_q[entry + 1] - q,
                                   .skv = (uint64_t)p->lens_kv[entry + 1] - kv};
}

int64_t attention_position(const struct attention_problem *problem, uint64_t sq, uint64_t skv,
                           uint64_t i)
{
    return (int64_t)i +
           (problem->has_offset ? (int64_t)problem->offset : (int64_t)skv - (int64_t)sq);
}

struct attention_span attention_span(const struct attention_problem *problem, uint64_t sq,
                                     uint64_t skv, uint64_t i)
{
    const int64_t position = attention_position(problem, sq, skv, i);
    struct attention_span span = {0, skv};
    if (problem->causal || problem->right_windowed)
        span.end = attention_clamp(
            position + 1 + (problem->causal ? 0 : (int64_t)problem->window_right), skv);
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

/* The pairs of an entry of sq queries and skv keys. */
static double pairs_seen(const struct attention_problem *p, double sq, double skv)
{
    const double shift = p->has_offset ? (double)p->offset : skv - sq;
    double pairs = sq * skv;
    if (p->causal || p->right_windowed)
        pairs = pairs_left_of(sq, skv, shift + 1 + (p->causal ? 0 : (double)p->window_right));
    if (p->windowed)
        pairs -= pairs_left_of(sq, skv, shift - (double)p->window);
    return pairs;
}

/* The most pairs that any division of sq queries and skv keys into entries gives. Causal entries
 * have no more pairs than one causal entry with the rows of all. */
static double ragged_pairs(const struct attention_problem *p, double sq, double skv)
{
    const struct attention_problem only_causal = {
        .causal = p->causal, .has_offset = p->has_offset, .offset = p->offset};
    const double right = p->causal ? 0 : (double)p->window_right;
    const double pairs = pairs_seen(&only_causal, sq, skv);
    return p->windowed && (p->causal || p->right_windowed)
               ? fmin(pairs, sq * ((double)p->window + 1 + right))
               : pairs;
}

double attention_flops(const void *of)
{
    const struct attention_problem *p = of;
    const double sq = (double)p->sq, skv = (double)p->skv;
    const double pairs = p->ragged ? ragged_pairs(p, sq, skv) : pairs_seen(p, sq, skv);
    return 2 * pairs * (double)(p->d + p->dv) * (double)attention_entries_apart(p) *
           (double)p->heads;
}

bool attention_problem_offered(const void *of)
{
    const struct attention_problem *p = of;
    uint64_t rows;
    return (p->dtype == GEMMD_F32 || p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) &&
           p->d >= 1 && p->d <= ATTENTION_WIDTH_MAX && p->dv >= 1 && p->dv <= ATTENTION_WIDTH_MAX &&
           (p->mask == NULL || p->mask_dtype == p->dtype || p->mask_dtype == GEMMD_I8) &&
           (!p->ragged || (p->mask == NULL && p->lens_q != NULL)) && p->kv_heads >= 1 &&
           p->heads % p->kv_heads == 0 && size_mul(p->batch, p->heads, &rows) &&
           size_mul(rows, p->sq, &rows);
}

bool attention_problem_is_plain(const void *of)
{
    const struct attention_problem *p = of;
    return p->mask == NULL && !p->has_offset && !p->right_windowed && !p->ragged &&
           p->slopes == NULL && p->sinks == NULL && attention_problem_offered(p);
}
