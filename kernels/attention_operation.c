/* operation_attention: attention as one of the operations (operations.h). */
#include <math.h>

#include "kernels/attention_grouped.h"
#include "kernels/known_attention.h"
#include "kernels/operations.h"
#include "kernels/subproblem.h"
#include "proto/dtype.h"
#include "proto/size.h"

/* A tensor spans from the first element of its first entry to the last element of its last. */
static bool tensor_bytes(const struct attention_problem *problem, enum gemmd_dtype dtype,
                         const struct attention_strides *strides, uint64_t heads, uint64_t length,
                         uint64_t width, uint64_t *out)
{
    uint64_t entries, within, rows, elements;
    return problem->batch > 0 && heads > 0 && length > 0 &&
           size_mul(problem->batch - 1, strides->batch, &entries) &&
           size_mul(heads - 1, strides->head, &within) &&
           size_mul(length - 1, strides->row, &rows) && size_add(entries, within, &elements) &&
           size_add(elements, rows, &elements) && size_add(elements, width, &elements) &&
           size_mul(elements, dtype_size(dtype), out);
}

/* Whether all units of a divided problem read the same rows of the mask. */
static bool mask_is_whole(const struct attention_problem *p)
{
    return (p->batch > 1 ? p->mask_strides.batch : p->mask_strides.head) == 0;
}

/* Whether a problem is divided by the entries of its batch, and not by heads. */
static bool divides_by_entries(const struct attention_problem *p)
{
    return p->batch > 1 && !p->ragged;
}

static bool attention_parts(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX])
{
    const struct attention_problem *p = problem;
    const uint64_t lse_dims[] = {attention_entries_apart(p), p->heads, p->sq};
    const uint64_t lens_dim = p->ragged ? p->batch + 1 : p->batch;
    uint64_t lens, lse, heads;
    if (!size_tensor_bytes(GEMMD_I32, &lens_dim, 1, &lens) ||
        !size_tensor_bytes(GEMMD_F32, lse_dims, 3, &lse) ||
        !size_tensor_bytes(GEMMD_F32, &p->heads, 1, &heads))
        return false;
    if (p->lens_q != NULL)
        parts[ATTENTION_PART_LENS_Q].bytes = parts[ATTENTION_PART_LENS_KV].bytes = lens;
    parts[ATTENTION_PART_LENS_Q].is_whole = parts[ATTENTION_PART_LENS_KV].is_whole = p->ragged;
    parts[ATTENTION_PART_SLOPES].bytes = p->slopes != NULL ? heads : 0;
    parts[ATTENTION_PART_SINKS].bytes = p->sinks != NULL ? heads : 0;
    parts[ATTENTION_PART_SLOPES].is_whole = parts[ATTENTION_PART_SINKS].is_whole =
        divides_by_entries(p);
    if (p->lse != NULL)
        parts[ATTENTION_PART_LSE].bytes = lse;
    parts[ATTENTION_PART_MASK].is_whole = mask_is_whole(p);
    return tensor_bytes(p, p->dtype, &p->q_strides, p->heads, p->sq, p->d,
                        &parts[ATTENTION_PART_Q].bytes) &&
           tensor_bytes(p, p->dtype, &p->k_strides, p->kv_heads, p->skv, p->d,
                        &parts[ATTENTION_PART_K].bytes) &&
           tensor_bytes(p, p->dtype, &p->v_strides, p->kv_heads, p->skv, p->dv,
                        &parts[ATTENTION_PART_V].bytes) &&
           (p->mask == NULL || tensor_bytes(p, p->mask_dtype, &p->mask_strides, p->heads, p->sq,
                                            p->skv, &parts[ATTENTION_PART_MASK].bytes)) &&
           tensor_bytes(p, p->dtype, &p->o_strides, p->heads, p->sq, p->dv,
                        &parts[ATTENTION_PART_O].bytes);
}

static enum gemmd_dtype attention_dtype(const void *problem)
{
    return ((const struct attention_problem *)problem)->dtype;
}

static void attention_lengths(const void *problem, uint64_t lengths[OPERATION_LENGTHS])
{
    const struct attention_problem *p = problem;
    lengths[0] = p->sq;
    lengths[1] = p->skv;
    lengths[2] = p->d;
}

static double mask_bytes(const struct attention_problem *p)
{
    uint64_t bytes = 0;
    return p->mask != NULL &&
                   tensor_bytes(p, p->mask_dtype, &p->mask_strides, p->heads, p->sq, p->skv, &bytes)
               ? (double)bytes
               : 0;
}

static double attention_moved_bytes(const void *problem)
{
    const struct attention_problem *a = problem;
    const double entries = (double)attention_entries_apart(a);
    const double queries = entries * (double)a->heads * (double)a->sq;
    const double keys = entries * (double)a->kv_heads * (double)a->skv;
    const double widths = (double)(a->d + a->dv);
    return (queries + keys) * widths * dtype_size(a->dtype) + mask_bytes(a) +
           (a->lse != NULL ? queries * (double)sizeof *a->lse : 0);
}

static double attention_share_flops(const void *problem)
{
    const struct attention_problem *p = problem;
    const double queries = operation_length(p->sq) / (double)p->sq;
    const double keys = operation_length(p->skv) / (double)p->skv;
    const double widths =
        (operation_length(p->d) + operation_length(p->dv)) / (double)(p->d + p->dv);
    return attention_flops(p) * queries * keys * widths;
}

/* The operations of an attention as the kernels compute it: the products of narrow heads take as
 * long as those of heads with 64 columns. */
static double attention_launch_cost(const void *problem)
{
    const struct attention_problem *p = problem;
    const double d = (double)p->d, dv = (double)p->dv, least = 64;
    return attention_flops(p) * (fmax(d, least) + fmax(dv, least)) / (d + dv);
}

/* Whether the rows of a head lie together in Q, K, V and O, with no other head between them. */
static bool heads_are_whole(const struct attention_problem *q)
{
    return q->q_strides.head >= q->sq * q->d && q->k_strides.head >= q->skv * q->d &&
           q->v_strides.head >= q->skv * q->dv && q->o_strides.head >= q->sq * q->dv;
}

/* The entries of the batch, or the heads of K and V of a single entry. */
static uint64_t attention_units(const struct operation_kernel *kernel, const void *problem)
{
    const struct attention_problem *p = problem;
    (void)kernel;
    if (divides_by_entries(p))
        return p->batch;
    return heads_are_whole(p) ? p->kv_heads : 0;
}

static void attention_divide(const void *problem, struct operation_range units, void *some)
{
    const struct attention_problem *p = problem;
    const bool by_entries = divides_by_entries(p);
    const struct attention_range range = {
        .first_entry = by_entries ? units.first : 0,
        .entries = by_entries ? units.count : p->batch,
        .first_kv_head = by_entries ? 0 : units.first,
        .kv_heads = by_entries ? p->kv_heads : units.count,
    };
    *(struct attention_problem *)some = attention_subproblem(p, &range);
}

static void attention_contiguous(struct attention_problem *p)
{
    p->q_strides = p->o_strides = attention_strides(ATTENTION_BHSD, p->heads, p->sq, p->d);
    p->k_strides = p->v_strides = attention_strides(ATTENTION_BHSD, p->kv_heads, p->skv, p->d);
}

static bool attention_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    struct attention_problem *p = problem;
    *p = (struct attention_problem){
        .dtype = dtype,
        .batch = 1,
        .heads = 1,
        .kv_heads = 1,
        .sq = 1, /* decode kernels take few queries */
        .skv = 64,
        .d = 64,
        .dv = 64,
    };
    attention_contiguous(p);
    return dtype == out;
}

static bool attention_warm(uint32_t index, void *problem)
{
    static const uint64_t widths[] = {64, 96, 128, 192, 256};
    /* One query on many keys, few queries, and enough queries for every multiprocessor. */
    static const struct {
        uint64_t batch, sq, skv;
    } shapes[] = {{1, 1, 4096}, {1, 100, 100}, {64, 256, 256}};
    enum { VARIANTS = 2 * 3 * 5 };
    const uint32_t dtype = index / VARIANTS, i = index % VARIANTS;
    if (dtype >= GEMMD_DTYPE_COUNT)
        return false;
    struct attention_problem *p = problem;
    *p = (struct attention_problem){
        .dtype = (enum gemmd_dtype)dtype,
        .batch = shapes[i / 2 % 3].batch,
        .heads = 4,
        .kv_heads = 4,
        .sq = shapes[i / 2 % 3].sq,
        .skv = shapes[i / 2 % 3].skv,
        .d = widths[i / 6],
        .dv = widths[i / 6],
        .causal = i % 2,
        .scale = 0.125f,
    };
    attention_contiguous(p);
    return true;
}

static bool has_mask(const void *problem)
{
    return ((const struct attention_problem *)problem)->mask != NULL;
}

static void give_mask(void *problem)
{
    static const char mask;
    struct attention_problem *p = problem;
    p->mask = &mask;
    p->mask_dtype = p->dtype;
}

static bool has_offset(const void *problem)
{
    return ((const struct attention_problem *)problem)->has_offset;
}

static void give_offset(void *problem)
{
    ((struct attention_problem *)problem)->has_offset = true;
}

static bool has_window_right(const void *problem)
{
    return ((const struct attention_problem *)problem)->right_windowed;
}

static void give_window_right(void *problem)
{
    ((struct attention_problem *)problem)->right_windowed = true;
}

static bool is_ragged(const void *problem)
{
    return ((const struct attention_problem *)problem)->ragged;
}

static void give_ragged(void *problem)
{
    static const int32_t lengths[2];
    struct attention_problem *p = problem;
    p->ragged = true;
    p->lens_q = p->lens_kv = lengths;
}

static bool has_slopes(const void *problem)
{
    return ((const struct attention_problem *)problem)->slopes != NULL;
}

static void give_slopes(void *problem)
{
    static const float slopes;
    ((struct attention_problem *)problem)->slopes = &slopes;
}

static bool has_sinks(const void *problem)
{
    return ((const struct attention_problem *)problem)->sinks != NULL;
}

static void give_sinks(void *problem)
{
    static const float sinks;
    ((struct attention_problem *)problem)->sinks = &sinks;
}

static const struct operation_property attention_properties[] = {
    {"mask", "mask", has_mask, give_mask},
    {"offset", "offset", has_offset, give_offset},
    {"window_right", "window_right", has_window_right, give_window_right},
    {"lens=ragged", "lens", is_ragged, give_ragged},
    {"alibi", "alibi", has_slopes, give_slopes},
    {"sinks", "sinks", has_sinks, give_sinks},
    {NULL, NULL, NULL, NULL},
};

static void attention_known_init(uint32_t index, void *memory, void *problem)
{
    known_attention_init(problem, (enum gemmd_dtype)(index / 2), index % 2, memory);
}

const struct operation operation_attention = {
    .name = "attention",
    .number = OPERATION_ATTENTION,
    .operands = ATTENTION_PART_O,
    .results = 2,
    .fields = {[ATTENTION_PART_LENS_Q] = offsetof(struct attention_problem, lens_q),
               [ATTENTION_PART_LENS_KV] = offsetof(struct attention_problem, lens_kv),
               [ATTENTION_PART_SLOPES] = offsetof(struct attention_problem, slopes),
               [ATTENTION_PART_SINKS] = offsetof(struct attention_problem, sinks),
               [ATTENTION_PART_Q] = offsetof(struct attention_problem, q),
               [ATTENTION_PART_K] = offsetof(struct attention_problem, k),
               [ATTENTION_PART_V] = offsetof(struct attention_problem, v),
               [ATTENTION_PART_MASK] = offsetof(struct attention_problem, mask),
               [ATTENTION_PART_O] = offsetof(struct attention_problem, o),
               [ATTENTION_PART_LSE] = offsetof(struct attention_problem, lse)},
    .parts = attention_parts,
    .dtype = attention_dtype,
    .length_names = {"sq", "skv", "d"},
    .lengths = attention_lengths,
    .flops = attention_flops,
    .share_flops = attention_share_flops,
    .moved_bytes = attention_moved_bytes,
    .launch_cost = attention_launch_cost,
    .group_traits = attention_group_traits,
    .group_units = attention_group_units,
    .units = attention_units,
    .divide = attention_divide,
    .example = attention_example,
    .properties = attention_properties,
    .warm = attention_warm,
    .known = {.bytes = KNOWN_ATTENTION_BYTES,
              .cases = 2 * GEMMD_DTYPE_COUNT,
              .init = attention_known_init,
              .check = known_attention_check},
};
