/*
 * tiled - a tile of Q stays in scratch memory while tiles of K and V are streamed past it; the
 * running maximum and sum of each row make the softmax exact (T. Dao et al., "FlashAttention: Fast
 * and Memory-Efficient Exact Attention with IO-Awareness", 2022). Both products use the GEMM's
 * microkernel on packed panels.
 *
 * The rows of a tile of Q are those of all heads that share a head of K and V, one head after
 * another, so that K and V are packed once for all of them and a single query fills a tile. Tiles
 * of keys start at multiples of KEYS. The result of a row is one chain over the keys that the row
 * sees: it does not depend on the threads, on other rows, or on keys that the row does not see.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/attention_grouped.h"
#include "kernels/cpu/attention_bias.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_softmax.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/cpu/panels.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    ROWS = 96,                   /* of Q; a multiple of MICROKERNEL_ROWS */
    KEYS = 128,                  /* a multiple of MICROKERNEL_COLUMNS and SOFTMAX_LANES */
    WIDTH = ATTENTION_WIDTH_MAX, /* likewise */
};
_Static_assert(ROWS % MICROKERNEL_ROWS == 0 && KEYS % MICROKERNEL_COLUMNS == 0 &&
                   WIDTH % MICROKERNEL_COLUMNS == 0 && KEYS % SOFTMAX_LANES == 0,
               "tiles are whole panels");

/* One thread's share of the context's scratch. */
struct scratch {
    _Alignas(64) float q[ROWS * WIDTH];      /* panels of [d][microkernel rows] */
    _Alignas(64) float k[WIDTH * KEYS];      /* panels of [d][microkernel columns] */
    _Alignas(64) float v[KEYS * WIDTH];      /* panels of [KEYS][microkernel columns] */
    _Alignas(64) float scores[ROWS * KEYS];  /* [ROWS][KEYS], then the weights */
    _Alignas(64) float weights[ROWS * KEYS]; /* panels of [KEYS][microkernel rows] */
    _Alignas(64) float sums[ROWS * WIDTH];   /* [ROWS][WIDTH] */
    _Alignas(64) float line[WIDTH];
    _Alignas(64) float bias[KEYS];
    struct softmax_row softmax[ROWS];
    struct attention_span spans[ROWS];
    bool sees[ROWS]; /* whether the row has seen a key */
};

uint64_t attention_tiled_scratch_bytes(void)
{
    return (sizeof(struct scratch) + 63) / 64 * 64;
}

/* One attention of a group. */
struct member {
    const struct attention_problem *problem;
    uint64_t tiles; /* of Q, for each head of K and V; of a ragged problem in all entries */
    uint64_t first; /* number of its first part */
};

struct attention_job {
    const struct cpu_context *context;
    uint32_t count;
    struct member members[ATTENTION_GROUP_MAX]; /* by `first` */
};

/* The rows that one part computes: `rows` rows from `first` on, of the `group` heads of Q that
 * share a head of K and V. Each head has `queries` rows. */
struct tile {
    const struct attention_problem *problem;
    const struct microkernel *micro;
    struct scratch *scratch;
    uint64_t apart; /* the entry by which strides are multiplied; 0 in a ragged problem */
    uint64_t entry, kv_head, group;
    uint64_t first, rows, queries;
    struct attention_rows of_entry;
};

static const char *at(const struct attention_problem *p, const void *tensor,
                      const struct attention_strides *strides, uint64_t entry, uint64_t head,
                      uint64_t row)
{
    return (const char *)tensor +
           (entry * strides->batch + head * strides->head + row * strides->row) *
               dtype_size(p->dtype);
}

static uint64_t head_of(const struct tile *tile, uint64_t row)
{
    return tile->kv_head * tile->group + (tile->first + row) / tile->queries;
}

static uint64_t query_of(const struct tile *tile, uint64_t row)
{
    return (tile->first + row) % tile->queries;
}

/* Writes `count` lines of `depth` elements, which are `pitch` elements apart, to panels of `width`
 * lines. The lines that the last panel lacks are zeros. */
static void pack_lines(const float *lines, uint64_t pitch, uint64_t count, uint64_t depth,
                       uint64_t width, float *panels)
{
    for (uint64_t i = 0; i < count; i += width, panels += width * depth) {
        const uint64_t left = count - i < width ? count - i : width;
        for (uint64_t c = 0; c < depth && left < width; c++)
            memset(panels + c * width + left, 0, (width - left) * sizeof *panels);
        panels_transpose(lines + i * pitch, pitch * sizeof *lines, left, depth, panels,
                         width * sizeof *panels);
    }
}

/* The rows of a tile, filled up to whole panels. Rows of scratch memory beyond them are not used.
 */
static uint64_t rows_of(const struct tile *tile)
{
    return size_blocks(tile->rows, tile->micro->rows) * tile->micro->rows;
}

/* Packs the queries and finds the keys that at least one of them sees: from span.first to span.end
 * - 1. */
static struct attention_span load_queries(const struct tile *tile)
{
    const struct attention_problem *p = tile->problem;
    struct scratch *s = tile->scratch;
    const uint64_t width = tile->micro->rows;
    struct attention_span all = {UINT64_MAX, 0};
    float *lines = s->k; /* no keys are loaded yet */
    for (uint64_t i = 0; i < rows_of(tile); i++) {
        const uint64_t query = query_of(tile, i);
        s->spans[i] = (struct attention_span){0, 0};
        s->softmax[i] = (struct softmax_row){.scale = 1, .most = -INFINITY};
        s->sees[i] = false;
        if (i < tile->rows && query < tile->of_entry.sq) {
            s->spans[i] = attention_span(p, tile->of_entry.sq, tile->of_entry.skv, query);
            if (p->sinks != NULL) /* the weight of the sink is exp(0) so far */
                s->softmax[i] = (struct softmax_row){
                    .scale = 1, .most = p->sinks[head_of(tile, i)], .total = 1};
        }
        if (s->spans[i].first == s->spans[i].end) {
            memset(lines + i * p->d, 0, p->d * sizeof *lines);
            continue;
        }
        convert_widen(p->dtype,
                      at(p, p->q, &p->q_strides, tile->apart, head_of(tile, i),
                         tile->of_entry.first_q + query),
                      lines + i * p->d, p->d);
        all.first = s->spans[i].first < all.first ? s->spans[i].first : all.first;
        all.end = s->spans[i].end > all.end ? s->spans[i].end : all.end;
    }
    pack_lines(lines, p->d, rows_of(tile), p->d, width, s->q);
    const uint64_t columns = tile->micro->columns;
    for (uint64_t i = 0; i < rows_of(tile); i++)
        memset(s->sums + i * WIDTH, 0, size_blocks(p->dv, columns) * columns * sizeof *s->sums);
    return all;
}

static void load_keys(const struct tile *tile, uint64_t first, uint64_t keys)
{
    const struct attention_problem *p = tile->problem;
    struct scratch *s = tile->scratch;
    const char *k =
        at(p, p->k, &p->k_strides, tile->apart, tile->kv_head, tile->of_entry.first_kv + first);
    const float *lines = (const float *)(const void *)k;
    uint64_t pitch = p->k_strides.row;
    if (p->dtype != GEMMD_F32) {
        float *widened = s->v; /* the values are loaded after the keys */
        for (uint64_t j = 0; j < keys; j++)
            convert_widen(p->dtype, k + j * pitch * dtype_size(p->dtype), widened + j * p->d, p->d);
        lines = widened;
        pitch = p->d;
    }
    pack_lines(lines, pitch, keys, p->d, tile->micro->columns, s->k);
}

/* Whether all of `count` numbers are finite. */
static bool are_finite(const float *line, uint64_t count)
{
    uint32_t strange = 0;
    for (uint64_t c = 0; c < count; c++)
        strange |= (convert_f32_to_bits(line[c]) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
    return strange == 0;
}

/* Packs values. Returns whether all of them are finite. */
static bool load_values(const struct tile *tile, uint64_t first, uint64_t keys)
{
    const struct attention_problem *p = tile->problem;
    struct scratch *s = tile->scratch;
    const uint64_t width = tile->micro->columns;
    const uint64_t columns = size_blocks(p->dv, width) * width;
    bool finite = true;
    memset(s->line, 0, sizeof s->line);
    for (uint64_t j = 0; j < keys; j++) {
        convert_widen(p->dtype,
                      at(p, p->v, &p->v_strides, tile->apart, tile->kv_head,
                         tile->of_entry.first_kv + first + j),
                      s->line, p->dv);
        finite &= are_finite(s->line, p->dv);
        for (uint64_t c = 0; c < columns; c += width)
            memcpy(s->v + c * keys + j * width, s->line + c, width * sizeof(float));
    }
    return finite;
}

/* scores = Q * K^T, whole panels of both. */
static void multiply_keys(const struct tile *tile, uint64_t keys)
{
    const struct microkernel *micro = tile->micro;
    const uint64_t d = tile->problem->d;
    struct scratch *s = tile->scratch;
    memset(s->scores, 0, rows_of(tile) * KEYS * sizeof *s->scores);
    for (uint64_t j = 0; j < keys; j += micro->columns)
        for (uint64_t i = 0; i < tile->rows; i += micro->rows)
            micro->run(d, s->q + i * d, s->k + j * d, s->scores + i * KEYS + j, KEYS,
                       tile->rows - i);
}

/* The part of a tile of keys that a row sees, counted from the tile's first. */
static struct attention_span seen(struct attention_span span, uint64_t first, uint64_t keys)
{
    const uint64_t from = span.first > first ? span.first - first : 0;
    uint64_t to = span.end > first ? span.end - first : 0;
    to = to < keys ? to : keys;
    return (struct attention_span){from < to ? from : to, to};
}

static void cap_scores(const struct attention_problem *p, float *scores, struct attention_span span)
{
    for (uint64_t j = span.first; j < span.end; j++)
        scores[j] *= p->scale;
    for (uint64_t j = span.first; j < span.end && p->softcap > 0; j++)
        scores[j] = p->softcap * tanhf(scores[j] / p->softcap);
}

/* What the mask and the slopes add to the scores of row `i` for a tile of keys that starts at
 * `first`, of which the row sees those of `span` but for hidden ones. Zeros if there are neither.
 */
static const float *bias_of(const struct tile *tile, uint64_t i, uint64_t first,
                            struct attention_span span)
{
    const struct attention_problem *p = tile->problem;
    const struct attention_rows *rows = &tile->of_entry;
    const uint64_t query = query_of(tile, i);
    float *bias = tile->scratch->bias;
    attention_bias(p, tile->entry, head_of(tile, i), query,
                   attention_position(p, rows->sq, rows->skv, query), first + span.first,
                   span.end - span.first, bias + span.first);
    return bias;
}

/* Adds the bias to the scores of row `i`. Returns whether the bias hides none of the keys. */
static bool add_bias(const struct tile *tile, uint64_t i, uint64_t first,
                     struct attention_span span, float *scores)
{
    const float *bias = bias_of(tile, i, first, span);
    bool all = true;
    for (uint64_t j = span.first; j < span.end; j++) {
        const bool hidden = bias[j] == -INFINITY;
        scores[j] = hidden ? -INFINITY : scores[j] + bias[j];
        tile->scratch->sees[i] |= !hidden;
        all &= !hidden;
    }
    return all;
}

/* Scores become weights, and the sums so far are brought to the new maximum. Returns whether all
 * rows see all keys. */
static bool cpu_attention_tiled_weigh(const struct tile *tile, uint64_t first, uint64_t keys)
{
    const struct attention_problem *p = tile->problem;
    struct scratch *s = tile->scratch;
    const uint64_t count = size_blocks(keys, SOFTMAX_LANES) * SOFTMAX_LANES;
    bool all = true;
    for (uint64_t i = 0; i < tile->rows; i++) {
        float *scores = s->scores + i * KEYS;
        const struct attention_span span = seen(s->spans[i], first, keys);
        all &= span.end - span.first == keys;
        if (span.first == span.end) {
            memset(scores, 0, KEYS * sizeof *scores);
            continue;
        }
        cap_scores(p, scores, span);
        if (attention_has_bias(p))
            all &= add_bias(tile, i, first, span, scores);
        else
            s->sees[i] = true;
        for (uint64_t j = 0; j < span.first; j++)
            scores[j] = -INFINITY;
        for (uint64_t j = span.end; j < count; j++)
            scores[j] = -INFINITY;
        const float factor = softmax_step(scores, 1, scores, count, &s->softmax[i]);
        for (uint64_t c = 0; c < p->dv && factor != 1; c++)
            s->sums[i * WIDTH + c] *= factor;
    }
    return all;
}

/* sums += weights * V. The weight 0 of a key that a row does not see must not be multiplied with a
 * value that is not finite; multiplied with a finite value, it changes nothing. */
static void add_values(const struct tile *tile, uint64_t keys)
{
    const struct microkernel *micro = tile->micro;
    struct scratch *s = tile->scratch;
    pack_lines(s->scores, KEYS, rows_of(tile), keys, micro->rows, s->weights);
    for (uint64_t c = 0; c < tile->problem->dv; c += micro->columns)
        for (uint64_t i = 0; i < tile->rows; i += micro->rows)
            micro->run(keys, s->weights + i * keys, s->v + c * keys, s->sums + i * WIDTH + c, WIDTH,
                       tile->rows - i);
}

/* The same for a tile with values that are not finite: each row alone, and only the keys that the
 * row sees, from one hidden key to the next. The chains of multiply-adds are those of add_values,
 * so that a row has the same bits whichever of both functions adds the values. */
static void add_seen_values(const struct tile *tile, uint64_t first, uint64_t keys)
{
    const struct microkernel *micro = tile->micro;
    const uint64_t width = micro->columns;
    struct scratch *s = tile->scratch;
    float *block = s->k; /* the keys have been used; its first row has the sums of the row */
    for (uint64_t i = 0; i < tile->rows; i++) {
        const struct attention_span span = seen(s->spans[i], first, keys);
        const float *bias = bias_of(tile, i, first, span);
        for (uint64_t from = span.first, end; from < span.end; from = end + 1) {
            for (end = from; end < span.end && bias[end] != -INFINITY; end++)
                ;
            pack_lines(s->scores + i * KEYS + from, KEYS, 1, end - from, micro->rows, s->weights);
            for (uint64_t c = 0; c < tile->problem->dv && from < end; c += width) {
                float *sums = s->sums + i * WIDTH + c;
                memcpy(block, sums, width * sizeof *sums);
                micro->run(end - from, s->weights, s->v + c * keys + from * width, block, width, 1);
                memcpy(sums, block, width * sizeof *sums);
            }
        }
    }
}

static void cpu_attention_tiled_store(const struct tile *tile)
{
    const struct attention_problem *p = tile->problem;
    struct scratch *s = tile->scratch;
    for (uint64_t i = 0; i < tile->rows; i++) {
        const struct softmax_row *row = &s->softmax[i];
        const uint64_t head = head_of(tile, i), query = tile->of_entry.first_q + query_of(tile, i);
        const bool sees = s->sees[i];
        float *sums = s->sums + i * WIDTH, lse = row->most; /* minus infinity, or the sink */
        /* All weights are 0 only if all scores are minus infinity. 0 / 0 then gives NaN. A sum of
         * -0 becomes +0, as it does if a key that the row does not see was added with the weight 0.
         */
        for (uint64_t c = 0; c < p->dv; c++)
            sums[c] = sees ? (sums[c] + 0.0f) / row->total : 0;
        if (sees)
            lse = row->total == 0 ? NAN : row->most + logf(row->total);
        convert_narrow(p->dtype, sums, (char *)at(p, p->o, &p->o_strides, tile->apart, head, query),
                       p->dv);
        if (p->lse != NULL)
            p->lse[(tile->apart * p->heads + head) * p->sq + query] = lse;
    }
}

/* The member that a part belongs to. */
static const struct member *find_member(const struct attention_job *job, uint64_t part)
{
    uint32_t low = 0, high = job->count - 1;
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        if (job->members[middle].first <= part)
            low = middle;
        else
            high = middle - 1;
    }
    return &job->members[low];
}

/* The first tile of an entry of a ragged problem. An entry has a tile more than its rows fill at
 * most, so that the number follows from where the entry begins: the last may be without rows. */
static uint64_t ragged_first_tile(const struct attention_problem *p, uint64_t entry)
{
    return p->heads / p->kv_heads * (uint64_t)p->lens_q[entry] / ROWS + entry;
}

static uint64_t ragged_entry(const struct attention_problem *p, uint64_t tile)
{
    uint64_t low = 0, high = p->batch - 1;
    while (low < high) {
        const uint64_t middle = (low + high + 1) / 2;
        if (ragged_first_tile(p, middle) <= tile)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static uint64_t tiles_of(const struct attention_problem *p)
{
    return p->ragged ? p->heads / p->kv_heads * p->sq / ROWS + p->batch
                     : size_blocks(p->heads / p->kv_heads * p->sq, ROWS);
}

static void compute_tile(void *argument, uint64_t part, uint32_t thread)
{
    const struct attention_job *job = argument;
    const struct member *member = find_member(job, part);
    const struct attention_problem *p = member->problem;
    const uint64_t number = (part - member->first) / member->tiles, group = p->heads / p->kv_heads;
    /* Under a causal mask the last rows see the most. */
    const uint64_t tile_number = member->tiles - 1 - (part - member->first) % member->tiles;
    const uint64_t apart = number / p->kv_heads;
    const uint64_t entry = p->ragged ? ragged_entry(p, tile_number) : apart;
    const struct attention_rows rows = attention_rows(p, entry);
    const uint64_t queries = p->ragged ? rows.sq : p->sq;
    const uint64_t first =
        (p->ragged ? tile_number - ragged_first_tile(p, entry) : tile_number) * ROWS;
    if (first >= group * queries)
        return;
    const struct tile tile = {
        .problem = p,
        .micro = microkernel_for(GEMMD_F32, 0),
        .scratch = (struct scratch *)(void *)((char *)job->context->scratch +
                                              thread * job->context->scratch_bytes),
        .apart = apart,
        .entry = entry,
        .kv_head = number % p->kv_heads,
        .group = group,
        .first = first,
        .rows = group * queries - first < ROWS ? group * queries - first : ROWS,
        .queries = queries,
        .of_entry = rows,
    };
    const struct attention_span all = load_queries(&tile);
    for (uint64_t key = all.first / KEYS * KEYS; key < all.end; key += KEYS) {
        const uint64_t keys = all.end - key < KEYS ? all.end - key : KEYS;
        if (key > all.first && team_stops(job->context->team))
            return;
        load_keys(&tile, key, keys);
        const bool finite = load_values(&tile, key, keys);
        multiply_keys(&tile, keys);
        if (cpu_attention_tiled_weigh(&tile, key, keys) || finite)
            add_values(&tile, keys);
        else
            add_seen_values(&tile, key, keys);
    }
    cpu_attention_tiled_store(&tile);
}

static int by_keys_then_queries(const void *one, const void *other)
{
    const struct attention_problem *a = ((const struct member *)one)->problem;
    const struct attention_problem *b = ((const struct member *)other)->problem;
    if (a->skv != b->skv)
        return a->skv > b->skv ? -1 : 1;
    return a->sq > b->sq ? -1 : a->sq < b->sq;
}

static enum gemmd_error cpu_attention_tiled_run_group(struct gemm_context *base,
                                                      const struct operation_member members[],
                                                      uint32_t count)
{
    struct attention_job job = {.context = cpu_context_of(base), .count = count};
    uint64_t parts = 0;
    for (uint32_t i = 0; i < count; i++)
        job.members[i].problem = members[i].problem;
    qsort(job.members, count, sizeof job.members[0], by_keys_then_queries);
    for (uint32_t i = 0; i < count; i++) {
        const struct attention_problem *p = job.members[i].problem;
        job.members[i].tiles = tiles_of(p);
        job.members[i].first = parts;
        parts += attention_entries_apart(p) * p->kv_heads * job.members[i].tiles;
    }
    team_run(job.context->team, compute_tile, &job, parts);
    return GEMMD_OK;
}

/* The rows of Q that one part computes, of all heads that share a head of K and V, and the keys
 * that these rows take at once. */
static void cpu_attention_tiled_tile(struct gemm_context *base, const void *of,
                                     struct operation_tile *out)
{
    (void)base;
    const struct attention_problem *p = of;
    const uint64_t rows = p->heads / p->kv_heads * p->sq;
    snprintf(out->name, sizeof out->name, "%dx%d", rows < ROWS ? (int)rows : ROWS, KEYS);
}

const struct operation_kernel attention_cpu_tiled = {
    .name = "tiled",
    .description = "tiles of keys stream past tiles of queries; online softmax in vectors",
    .takes = attention_problem_offered,
    .workspace_bytes = operation_no_workspace, /* the context has the scratch */
    .tile = cpu_attention_tiled_tile,
    .run_group = cpu_attention_tiled_run_group,
    .group_units = 250, /* some 10 ms on two cores */
};
