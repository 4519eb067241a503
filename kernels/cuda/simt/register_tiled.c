/* The choice of a tile of register_tiled: the tile with the lowest time by a model of the GPU. */
#include "kernels/cuda/simt/register_tiled.h"

#include <math.h>
#include <stdio.h>

#include "kernels/cuda/context.h"
#include "proto/dtype.h"

const struct register_tile_shape register_tile_shapes[REGISTER_TILES] = {
    [REGISTER_TILE_256X128] = {"256x128", 256, 128},
    [REGISTER_TILE_128X128] = {"128x128", 128, 128},
    [REGISTER_TILE_128X64] = {"128x64", 128, 64},
    [REGISTER_TILE_64X64] = {"64x64", 64, 64},
    [REGISTER_TILE_32X32] = {"32x32", 32, 32},
    [REGISTER_TILE_16X32] = {"16x32", 16, 32},
    [REGISTER_TILE_128X256] = {"128x256", 128, 256},
};

/* Fitted to measurements on an H100 SXM (kernels/experiments/register_tiled.md). For each tile: the
 * blocks that fit on a multiprocessor, the multiply-adds for each cycle that they reach together,
 * and the fewest cycles that a block needs for a step of k. */
static const struct {
    double resident, rate, step_cycles;
} figures[REGISTER_TILES] = {
    [REGISTER_TILE_256X128] = {1, 90, 364},  [REGISTER_TILE_128X128] = {2, 87.7, 210},
    [REGISTER_TILE_128X64] = {2, 75.4, 136}, [REGISTER_TILE_64X64] = {3, 72.4, 84},
    [REGISTER_TILE_32X32] = {4, 51, 52},     [REGISTER_TILE_16X32] = {4, 27.7, 34},
    [REGISTER_TILE_128X256] = {1, 102, 321},
};
static const double CYCLES_PER_US = 1965; /* the clock */
static const double LAUNCH_US = 3;        /* for every launch */
static const double BLOCK_US = 1.5;       /* a block's first loads and its stores */
static const double DRAM_BYTES_PER_US = 3.0e6;

static uint64_t register_tiled_tiles_of(enum register_tile tile, const struct gemm_problem *p)
{
    const struct register_tile_shape *shape = &register_tile_shapes[tile];
    return (p->m + shape->rows - 1) / shape->rows * ((p->n + shape->columns - 1) / shape->columns);
}

/* The time of `blocks` blocks that run at once on a multiprocessor. */
static double round_us(enum register_tile tile, double blocks, uint64_t k)
{
    const struct register_tile_shape *shape = &register_tile_shapes[tile];
    const double busy = blocks * shape->rows * shape->columns / figures[tile].rate;
    return fmax(busy, figures[tile].step_cycles) * (double)k / CYCLES_PER_US + BLOCK_US;
}

static double register_tile_estimate_us(enum register_tile tile, const struct gemm_problem *p,
                                        uint32_t multiprocessors)
{
    const double blocks =
        ceil((double)(register_tiled_tiles_of(tile, p) * p->batch) / multiprocessors);
    const double rounds = floor(blocks / figures[tile].resident);
    const double rest = blocks - rounds * figures[tile].resident;
    double us = rounds * round_us(tile, figures[tile].resident, p->k);
    if (rest > 0)
        us += round_us(tile, rest, p->k);
    const double bytes = (double)p->batch * ((double)p->k * (double)(p->m + p->n) * 4 +
                                             (double)p->m * (double)p->n * dtype_size(p->out));
    return LAUNCH_US + fmax(us, bytes / DRAM_BYTES_PER_US);
}

enum register_tile register_tile_choose(const struct gemm_problem *problem,
                                        uint32_t multiprocessors, bool sm90)
{
    enum register_tile best = 0;
    double best_us = INFINITY;
    for (unsigned tile = 0; tile < REGISTER_TILES; tile++) {
        const double us = register_tile_estimate_us(tile, problem, multiprocessors);
        if (us < best_us && (sm90 || tile != REGISTER_TILE_128X256)) {
            best = tile;
            best_us = us;
        }
    }
    return best;
}

static bool register_tiled_takes(const void *of)
{
    const struct gemm_problem *p = of;
    return gemm_problem_unscaled(p) && p->dtype == GEMMD_F32 &&
           register_tiled_tiles_of(REGISTER_TILE_16X32, p) <= INT32_MAX;
}

static enum gemmd_error register_tiled_run(struct gemm_context *base, const void *of,
                                           void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    const struct cuda_context *context = cuda_context_of(base);
    const bool sm90 = context->sm90.encode != NULL;
    return register_tiled_launch(
        context->stream, register_tile_choose(problem, context->multiprocessors, sm90), problem);
}

static void register_tiled_tile(struct gemm_context *base, const void *problem,
                                struct operation_tile *out)
{
    const struct cuda_context *context = cuda_context_of(base);
    const enum register_tile tile =
        register_tile_choose(problem, context->multiprocessors, context->sm90.encode != NULL);
    snprintf(out->name, sizeof out->name, "%s", register_tile_shapes[tile].name);
    out->us = register_tile_estimate_us(tile, problem, context->multiprocessors);
}

const struct operation_kernel gemm_cuda_register_tiled = {
    .name = "register_tiled",
    .description = "CUDA cores, up to 16 x 8 sums a thread in registers, tiles chosen by shape",
    .takes = register_tiled_takes,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 5e12,
    .run = register_tiled_run,
    .tile = register_tiled_tile,
};
