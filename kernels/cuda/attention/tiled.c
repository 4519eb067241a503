#include "kernels/cuda/attention/tiled.h"

#include <stdio.h>

#include "kernels/backend.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/group.h"

static const uint32_t row_counts[ATTENTION_TILED_ROWS] = {32, 128};

/* The columns of O of the narrowest kernel for values of width dv. */
static uint64_t attention_tiled_columns(enum attention_tiled_rows rows, uint64_t dv)
{
    static const uint64_t widths[ATTENTION_TILED_ROWS][5] = {{64, 128, 256},
                                                             {64, 96, 128, 192, 256}};
    const uint64_t *width = widths[rows];
    while (*width < dv)
        width++;
    return *width;
}

uint64_t attention_tiled_bytes(enum attention_tiled_rows rows, uint64_t d, uint64_t dv)
{
    const uint64_t tile = rows == ATTENTION_TILED_MANY ? 128 : 32, depth = (d + 3) / 4 * 4;
    const uint64_t q = tile * depth, k = ATTENTION_TILED_KEYS * depth;
    const uint64_t v = ATTENTION_TILED_KEYS * attention_tiled_columns(rows, dv);
    const uint64_t weights = ATTENTION_TILED_KEYS * tile, spans = tile * 2;
    uint64_t keys_and_weights = k + weights;
    if (rows == ATTENTION_TILED_FEW) /* the weights overwrite the keys */
        keys_and_weights = k > weights ? k : weights;
    return (q + keys_and_weights + v + spans) * 4;
}

uint64_t attention_tiled_tiles(enum attention_tiled_rows rows, const struct attention_problem *p)
{
    return attention_tiled_tiles_of_head(row_counts[rows], p) * attention_entries_apart(p) *
           p->kv_heads;
}

/* Many rows if they fit in shared memory, there is a block for every multiprocessor, and the
 * problem is not general. */
static enum attention_tiled_rows attention_tiled_choose(const struct attention_problem *p,
                                                        uint32_t multiprocessors,
                                                        uint64_t shared_bytes)
{
    const uint64_t rows = p->heads / p->kv_heads * p->sq;
    const uint64_t blocks = attention_tiled_tiles(ATTENTION_TILED_MANY, p);
    return !attention_tiled_is_general(p) && rows > row_counts[ATTENTION_TILED_FEW] &&
                   blocks >= multiprocessors &&
                   attention_tiled_bytes(ATTENTION_TILED_MANY, p->d, p->dv) <= shared_bytes
               ? ATTENTION_TILED_MANY
               : ATTENTION_TILED_FEW;
}

/* The choice for a group: many rows if they fit in shared memory, the tiles of all attentions give
 * every multiprocessor a block, and the tiles are at least half full on average. */
static enum attention_tiled_rows
attention_tiled_choose_group(const struct attention_member members[], uint32_t count,
                             uint32_t multiprocessors, uint64_t shared_bytes)
{
    const uint64_t tile = row_counts[ATTENTION_TILED_MANY];
    const struct attention_problem *any = members[0].problem;
    double rows = 0, blocks = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct attention_problem *p = members[i].problem;
        const uint64_t in_head = p->heads / p->kv_heads * p->sq;
        const uint64_t tiles = (in_head + tile - 1) / tile;
        rows += (double)in_head * (double)(p->batch * p->kv_heads);
        blocks += (double)(tiles * p->batch * p->kv_heads);
    }
    return blocks >= multiprocessors && 2 * rows >= blocks * (double)tile &&
                   attention_tiled_bytes(ATTENTION_TILED_MANY, any->d, any->dv) <= shared_bytes
               ? ATTENTION_TILED_MANY
               : ATTENTION_TILED_FEW;
}

enum gemmd_error attention_tiled_launch(cudaStream_t stream, enum attention_tiled_rows rows,
                                        const struct attention_problem *problem,
                                        struct operation_range tiles)
{
    switch (problem->dtype) {
    case GEMMD_F32:
        return attention_tiled_launch_f32(stream, rows, problem, tiles);
    case GEMMD_F16:
        return attention_tiled_launch_f16(stream, rows, problem, tiles);
    case GEMMD_BF16:
        return attention_tiled_launch_bf16(stream, rows, problem, tiles);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}

static enum attention_tiled_rows attention_tiled_rows_of(const struct cuda_context *context,
                                                         const struct attention_problem *problem)
{
    return attention_tiled_choose(problem, context->multiprocessors, context->shared_bytes);
}

static uint64_t attention_tiled_count_tiles(struct gemm_context *base, const void *of)
{
    const struct attention_problem *problem = of;
    return attention_tiled_tiles(attention_tiled_rows_of(cuda_context_of(base), problem), problem);
}

static enum gemmd_error attention_tiled_run_tiles(struct gemm_context *base, const void *of,
                                                  struct operation_range tiles)
{
    const struct attention_problem *problem = of;
    const struct cuda_context *context = cuda_context_of(base);
    return attention_tiled_launch(context->stream, attention_tiled_rows_of(context, problem),
                                  problem, tiles);
}

static enum gemmd_error attention_tiled_run(struct gemm_context *base, const void *problem,
                                            void *workspace)
{
    (void)workspace;
    const struct operation_range all = {0, attention_tiled_count_tiles(base, problem)};
    return attention_tiled_run_tiles(base, problem, all);
}

/* One launch for the members of f32 that are not general, and one for each of the others. */
static enum gemmd_error attention_tiled_run_group(struct gemm_context *base,
                                                  const struct operation_member members[],
                                                  uint32_t count)
{
    const struct cuda_context *context = cuda_context_of(base);
    struct attention_member ordered[ATTENTION_GROUP_MAX];
    enum gemmd_error code = GEMMD_OK;
    uint32_t together = 0;
    attention_group_order(members, count, ordered);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        const struct attention_member member = ordered[i];
        if (member.problem->dtype == GEMMD_F32 && !attention_tiled_is_general(member.problem))
            ordered[together++] = member;
        else
            code = attention_tiled_run(base, member.problem, NULL);
    }
    if (together == 0 || code != GEMMD_OK)
        return code;
    return attention_tiled_launch_group_f32(context->stream,
                                            attention_tiled_choose_group(ordered, together,
                                                                         context->multiprocessors,
                                                                         context->shared_bytes),
                                            ordered, together);
}

static void attention_tiled_tile(struct gemm_context *base, const void *problem,
                                 struct operation_tile *out)
{
    const enum attention_tiled_rows rows = attention_tiled_rows_of(cuda_context_of(base), problem);
    snprintf(out->name, sizeof out->name, "%ux%d", row_counts[rows], ATTENTION_TILED_KEYS);
}

const struct operation_kernel attention_cuda_tiled = {
    .name = "tiled",
    .description = "tiles of keys stream past tiles of queries; online softmax, sums in registers",
    .takes = attention_problem_offered,
    .workspace_bytes = operation_no_workspace,
    .run = attention_tiled_run,
    .tiles = attention_tiled_count_tiles,
    .run_tiles = attention_tiled_run_tiles,
    .tile = attention_tiled_tile,
    .launch_flops = 2e12,
    .run_group = attention_tiled_run_group,
    .group_units = ATTENTION_GROUP_UNITS_PLAIN,
};
