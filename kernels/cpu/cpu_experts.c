/*
 * Experts on the CPU: products of rows of A with the experts, then the rest of the formula.
 *
 * Both kernels compute a block of rows at a time. First the sums over k of all places of the block,
 * each a row of the accumulator's type, are computed by a kernel of products whose rows have the
 * same bits in any product. Then each row of C is computed from the sums of its places.
 *
 *   gathered   The places are sorted by expert, and the rows of A of an expert are gathered, so
 *              that an expert is one product of the kernel `tiled`, and is read once for a block.
 *   naive      Every place is a product of one row by the kernel `naive`.
 *
 * A block has so many rows that its sums take about SUMS_BYTES, so the workspace does not grow with
 * the number of rows beyond that.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "kernels/experts.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    SUMS_BYTES = 64 << 20,
    CHUNK = 128, /* columns of C that are computed at a time */
    ALIGNMENT = 64,
    PART_ELEMENTS = 1 << 16 /* elements of A or C that a part of the team has, about */
};

/* The workspace: the sums of the places of a block, and for `gathered` the rows of A of the places,
 * the number of the first place of each expert and of the place after its last, and the order. */
struct experts_plan {
    uint64_t rows;      /* of a block */
    uint64_t sum_bytes; /* of a place */
    uint64_t sums_bytes, a_bytes, firsts_bytes, order_bytes;
};

static bool cpu_experts_plan(const struct experts_problem *p, bool gathers,
                             struct experts_plan *plan)
{
    uint64_t row_bytes, places, firsts;
    const uint64_t size = dtype_size(dtype_accumulator(p->dtype));
    *plan = (struct experts_plan){.rows = p->m};
    if (!size_mul(experts_columns(p), size, &plan->sum_bytes) ||
        !size_mul(plan->sum_bytes, p->topk, &row_bytes))
        return false;
    const uint64_t most = SUMS_BYTES / row_bytes;
    plan->rows = most < 1 ? 1 : most < p->m ? most : p->m;
    if (!size_mul(plan->rows, row_bytes, &plan->sums_bytes) ||
        !size_align(plan->sums_bytes, ALIGNMENT, &plan->sums_bytes))
        return false;
    places = plan->rows * p->topk;
    return !gathers || (size_mul(places, p->k * dtype_size(p->dtype), &plan->a_bytes) &&
                        size_align(plan->a_bytes, ALIGNMENT, &plan->a_bytes) &&
                        size_add(p->count, 2, &firsts) &&
                        size_mul(firsts, sizeof(uint64_t), &plan->firsts_bytes) &&
                        size_mul(places, sizeof(uint64_t), &plan->order_bytes));
}

static bool plan_bytes(const struct experts_problem *p, bool gathers, uint64_t *out)
{
    struct experts_plan plan;
    return cpu_experts_plan(p, gathers, &plan) && size_add(plan.sums_bytes, plan.a_bytes, out) &&
           size_add(*out, plan.firsts_bytes, out) && size_add(*out, plan.order_bytes, out);
}

/* A block of rows, from `first` on. */
struct experts_block {
    struct team *team;
    const struct experts_problem *problem;
    uint64_t first, rows;
    uint64_t sum_bytes;
    char *sums; /* of each place, in the order of places */
    /* Of `gathered`: the places are sorted by expert, and order[place] is where the sums of a place
     * are. NULL: they are in the order of places. */
    uint64_t *order;
    char *a;            /* the rows of A in that order */
    uint64_t rows_each; /* of C, and of gathered rows, that a part of the team has */
};

static bool computes(const struct experts_problem *p, int32_t expert)
{
    return expert >= 0 && (uint64_t)expert < p->count;
}

/* Rows so that a part of the team has about PART_ELEMENTS elements. */
static uint64_t rows_of_part(uint64_t of_row)
{
    return of_row < PART_ELEMENTS ? PART_ELEMENTS / of_row : 1;
}

/* --- from the sums to C --- */

union chunk {
    double f64[CHUNK];
    float f32[CHUNK];
};

/* Sums `count` columns of an expert, from `column` on, with the bias, and activates them. */
static void finish_sums(const struct experts_problem *p, enum gemm_act act, uint64_t expert,
                        uint64_t column, uint64_t count, const char *sums, union chunk *x)
{
    const enum gemmd_dtype accumulator = dtype_accumulator(p->dtype);
    union chunk bias;
    const struct gemm_problem epilogue = {
        .dtype = accumulator,
        .out = accumulator,
        .act = act,
        .alpha = 1,
        .bias = p->bias == NULL ? NULL
                                : convert_widened(p->out,
                                                  (const char *)p->bias +
                                                      (expert * experts_columns(p) + column) *
                                                          dtype_size(p->out),
                                                  &bias, count),
        .c = x,
    };
    epilogue_row(&epilogue, 0, 0, 0, count, sums + column * dtype_size(accumulator));
}

/* Adds `count` columns of a place, from `column` on, to the total of the row. */
static void add_place(const struct experts_problem *p, uint64_t expert, float weight,
                      uint64_t column, uint64_t count, const char *sums, union chunk *total)
{
    union chunk x, up;
    finish_sums(p, p->act, expert, column, count, sums, &x);
    if (p->glu)
        finish_sums(p, GEMM_ACT_NONE, expert, p->n + column, count, sums, &up);
    if (dtype_accumulator(p->dtype) == GEMMD_F64) {
        for (uint64_t i = 0; p->glu && i < count; i++)
            x.f64[i] *= up.f64[i];
        for (uint64_t i = 0; i < count; i++)
            total->f64[i] = fma((double)weight, x.f64[i], total->f64[i]);
    } else {
        for (uint64_t i = 0; p->glu && i < count; i++)
            x.f32[i] *= up.f32[i];
        for (uint64_t i = 0; i < count; i++)
            total->f32[i] = fmaf(weight, x.f32[i], total->f32[i]);
    }
}

static void finish_row(const struct experts_block *b, uint64_t row, uint64_t column, uint64_t count)
{
    const struct experts_problem *p = b->problem;
    const uint64_t at = (b->first + row) * p->topk;
    union chunk total;
    memset(&total, 0, sizeof total);
    for (uint64_t j = 0; j < p->topk; j++) {
        const int32_t expert = p->experts[at + j];
        const uint64_t place = row * p->topk + j;
        if (computes(p, expert))
            add_place(p, (uint64_t)expert, p->weights != NULL ? p->weights[at + j] : 1, column,
                      count, b->sums + (b->order != NULL ? b->order[place] : place) * b->sum_bytes,
                      &total);
    }
    convert_narrow(p->out, &total,
                   (char *)p->c + ((b->first + row) * p->ldc + column) * dtype_size(p->out), count);
}

static void finish_part(void *argument, uint64_t part, uint32_t member)
{
    const struct experts_block *b = argument;
    const struct experts_problem *p = b->problem;
    struct team_pace pace = {.team = b->team};
    (void)member;
    for (uint64_t row = part * b->rows_each; row < b->rows && row < (part + 1) * b->rows_each;
         row++)
        for (uint64_t column = 0; column < p->n; column += CHUNK) {
            const uint64_t count = p->n - column < CHUNK ? p->n - column : CHUNK;
            if (team_pace_stops(&pace, count * p->topk))
                return;
            finish_row(b, row, column, count);
        }
}

static void finish_block(struct experts_block *b)
{
    b->rows_each = rows_of_part(b->problem->n);
    team_run(b->team, finish_part, b, size_blocks(b->rows, b->rows_each));
}

/* The product of `rows` rows of A with an expert. */
static struct gemm_problem product_of(const struct experts_problem *p, uint64_t expert,
                                      uint64_t rows, const void *a, void *sums)
{
    struct gemm_problem product = {
        .dtype = p->dtype,
        .out = dtype_accumulator(p->dtype),
        .precision = p->precision,
        .transb = p->transb,
        .m = rows,
        .n = experts_columns(p),
        .k = p->k,
        .batch = 1,
        .alpha = 1,
        .a = a,
        .b = (const char *)p->w + expert * p->stride_w * dtype_size(p->dtype),
        .c = sums,
    };
    gemm_problem_contiguous(&product);
    product.ldb = p->ldw;
    return product;
}

/* --- gathered --- */

static void gather_part(void *argument, uint64_t part, uint32_t member)
{
    const struct experts_block *b = argument;
    const struct experts_problem *p = b->problem;
    const uint64_t size = dtype_size(p->dtype), row_bytes = p->k * size;
    const uint64_t places = b->rows * p->topk;
    struct team_pace pace = {.team = b->team};
    (void)member;
    for (uint64_t place = part * b->rows_each; place < places && place < (part + 1) * b->rows_each;
         place++) {
        const uint64_t row = b->first + place / p->topk;
        if (!computes(p, p->experts[b->first * p->topk + place]))
            continue;
        if (team_pace_stops(&pace, p->k))
            return;
        memcpy(b->a + b->order[place] * row_bytes, (const char *)p->a + row * p->lda * size,
               row_bytes);
    }
}

/* Sorts the places of a block by expert, and keeps their order otherwise. The places of expert e
 * are firsts[e] to firsts[e + 1] - 1. firsts: [count + 2]. */
static void sort_places(const struct experts_block *b, uint64_t *firsts)
{
    const struct experts_problem *p = b->problem;
    const int32_t *experts = p->experts + b->first * p->topk;
    const uint64_t places = b->rows * p->topk;
    memset(firsts, 0, (p->count + 2) * sizeof *firsts);
    for (uint64_t i = 0; i < places; i++)
        if (computes(p, experts[i]))
            firsts[experts[i] + 2]++;
    for (uint64_t e = 0; e < p->count; e++)
        firsts[e + 2] += firsts[e + 1];
    for (uint64_t i = 0; i < places; i++)
        if (computes(p, experts[i]))
            b->order[i] = firsts[experts[i] + 1]++;
}

static enum gemmd_error multiply_gathered(struct gemm_context *context, struct experts_block *b,
                                          uint64_t *firsts)
{
    const struct experts_problem *p = b->problem;
    const uint64_t row_bytes = p->k * dtype_size(p->dtype);
    sort_places(b, firsts);
    b->rows_each = rows_of_part(p->k);
    team_run(b->team, gather_part, b, size_blocks(b->rows * p->topk, b->rows_each));
    for (uint64_t e = 0; e < p->count; e++) {
        if (firsts[e + 1] == firsts[e])
            continue;
        if (team_stops(b->team))
            return GEMMD_OK;
        const struct gemm_problem product =
            product_of(p, e, firsts[e + 1] - firsts[e], b->a + firsts[e] * row_bytes,
                       b->sums + firsts[e] * b->sum_bytes);
        const enum gemmd_error code = operation_run(&gemm_cpu_tiled, context, &product, NULL);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

static enum gemmd_error experts_gathered_run(struct gemm_context *context, const void *of,
                                             void *workspace)
{
    const struct experts_problem *p = of;
    struct team *team = cpu_context_of(context)->team;
    struct experts_plan plan;
    if (!cpu_experts_plan(p, true, &plan))
        return GEMMD_ERR_INTERNAL;
    char *firsts = (char *)workspace + plan.sums_bytes + plan.a_bytes;
    struct experts_block b = {.team = team,
                              .problem = p,
                              .sum_bytes = plan.sum_bytes,
                              .sums = workspace,
                              .a = (char *)workspace + plan.sums_bytes,
                              .order = (void *)(firsts + plan.firsts_bytes)};
    for (; b.first < p->m && !team_has_stopped(team); b.first += plan.rows) {
        b.rows = p->m - b.first < plan.rows ? p->m - b.first : plan.rows;
        const enum gemmd_error code = multiply_gathered(context, &b, (void *)firsts);
        if (code != GEMMD_OK)
            return code;
        if (!team_stops(team))
            finish_block(&b);
    }
    return GEMMD_OK;
}

static bool experts_gathered_bytes(const void *problem, uint64_t *out)
{
    return plan_bytes(problem, true, out);
}

const struct operation_kernel experts_cpu_gathered = {
    .name = "gathered",
    .description = "rows gathered by expert, multiplied in cache blocks",
    .takes = experts_problem_offered,
    .workspace_bytes = experts_gathered_bytes,
    .run = experts_gathered_run,
};

/* --- naive --- */

static enum gemmd_error multiply_naive(struct gemm_context *context, const struct experts_block *b)
{
    const struct experts_problem *p = b->problem;
    for (uint64_t place = 0; place < b->rows * p->topk; place++) {
        const uint64_t row = b->first + place / p->topk;
        const int32_t expert = p->experts[b->first * p->topk + place];
        if (!computes(p, expert))
            continue;
        if (team_stops(b->team))
            return GEMMD_OK;
        const struct gemm_problem product = product_of(
            p, (uint64_t)expert, 1, (const char *)p->a + row * p->lda * dtype_size(p->dtype),
            b->sums + place * b->sum_bytes);
        const enum gemmd_error code = operation_run(&gemm_cpu_naive, context, &product, NULL);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

static enum gemmd_error experts_naive_run(struct gemm_context *context, const void *of,
                                          void *workspace)
{
    const struct experts_problem *p = of;
    struct team *team = cpu_context_of(context)->team;
    struct experts_plan plan;
    if (!cpu_experts_plan(p, false, &plan))
        return GEMMD_ERR_INTERNAL;
    struct experts_block b = {
        .team = team, .problem = p, .sum_bytes = plan.sum_bytes, .sums = workspace};
    for (; b.first < p->m && !team_has_stopped(team); b.first += plan.rows) {
        b.rows = p->m - b.first < plan.rows ? p->m - b.first : plan.rows;
        const enum gemmd_error code = multiply_naive(context, &b);
        if (code != GEMMD_OK)
            return code;
        if (!team_stops(team))
            finish_block(&b);
    }
    return GEMMD_OK;
}

static bool experts_naive_bytes(const void *problem, uint64_t *out)
{
    return plan_bytes(problem, false, out);
}

const struct operation_kernel experts_cpu_naive = {
    .name = "naive",
    .description = "one chain of fused multiply-adds for each element of a place",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = experts_problem_offered,
    .workspace_bytes = experts_naive_bytes,
    .run = experts_naive_run,
};
