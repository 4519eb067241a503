/*
 * The choice of a configuration (a tile and what belongs to it) for a problem: the one whose launch
 * takes the least time by a model of the GPU. model.h has the model of kernels that compute tiles
 * with wgmma. The kernels of f32 for few rows, which read B from device memory once, have measured
 * times of a step of k instead.
 */
#include "kernels/cuda/sm90/gemm/model.h"
#include "proto/size.h"

#include <math.h>

/* Of the kernels for few rows: the time of a launch, and the rate at which they read device
 * memory. */
static const double FEW_ROWS_LAUNCH_US = 1.42, FEW_ROWS_BYTES_PER_US = 2.78e6;
/* A kernel for few rows whose tile is in none of the lines below counts as that of the last line;
 * tests/bench/fit_tiles.py fits none of these times. For each fused kernel (gemm_fused.cuh) the
 * time of a step of k: us + row_us for each row of the tile that exists, and min_us at least; and
 * the time to store the last tile, and for each block that another one follows
 * (kernels/experiments/f32.md). */
static const struct fused_times {
    uint32_t tile_m, tile_n;
    double us, min_us, row_us, store_us, next_us;
} FUSED_TIMES[] = {
    {64, 32, 0.265, 0.282, 0.0025, 1.75, 2.55},
    {16, 64, 0.327, 0.327, 0.0016, 1.99, 1.75},
    {64, 64, 0.472, 0.472, 0.0017, 2.57, 2.97},
};
/* For each streamed kernel (gemm_streamed.cuh) the blocks that share a multiprocessor, and the time
 * of a step of k for one block alone, at least, and for each of several. */
static const struct {
    uint32_t tile_m, blocks;
    double alone_us, shared_us;
} STREAMED_STEPS[] = {
    {8, 4, 0.217, 0.16},
    {16, 3, 0.237, 0.16},
};

/* For each kernel for one row (gemm_one_row.cuh), which has a multiprocessor for each block, the
 * time of a step of k that does not wait for device memory. */
static const struct {
    uint32_t tile_n;
    double us;
} ONE_ROW_STEPS[] = {{16, 0.143}, {32, 0.18}, {48, 0.22}, {64, 0.254}, {112, 0.408}};
/* These kernels read device memory faster than others, by this factor. */
static const double ONE_ROW_READS = 1.06;
/* The time until a block that follows another one multiplies. */
static const double ONE_ROW_NEXT_US = 2;

/* The rate at which kernels for few rows read the device memory of a card. */
static double few_rows_rate(const struct sm90_card *card)
{
    return FEW_ROWS_BYTES_PER_US * card->memory_rate;
}

/* The time of one step of k of a fused kernel in `blocks` blocks at once, for tiles of which `rows`
 * rows exist. */
static double fused_step_us(const struct sm90_kernel *kernel, const struct fused_times *times,
                            const struct sm90_card *card, double rows, double blocks)
{
    const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float) * blocks;
    return fmax(bytes / few_rows_rate(card) + times->row_us * (rows - 1),
                fmax(times->min_us, times->us + times->row_us * rows));
}

/* The time of a kernel for one row, which computes one tile in each block. */
static double one_row_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                         const struct sm90_card *card)
{
    size_t i = 0;
    while (i + 1 < sizeof ONE_ROW_STEPS / sizeof *ONE_ROW_STEPS &&
           ONE_ROW_STEPS[i].tile_n != kernel->tile_n)
        i++;
    const uint64_t tiles = size_blocks(p->n, kernel->tile_n) * p->batch;
    const uint64_t rounds = tiles / card->multiprocessors, rest = tiles % card->multiprocessors;
    const uint64_t later_rounds = (tiles - 1) / card->multiprocessors;
    const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float);
    const double each_us = bytes / (ONE_ROW_READS * few_rows_rate(card));
    const double round_us = fmax(ONE_ROW_STEPS[i].us, each_us * card->multiprocessors);
    const double rest_us = rest > 0 ? fmax(ONE_ROW_STEPS[i].us, each_us * (double)rest) : 0;
    return FEW_ROWS_LAUNCH_US + ONE_ROW_NEXT_US * (double)later_rounds +
           (double)size_blocks(p->k, kernel->tile_k) * ((double)rounds * round_us + rest_us);
}

/* The time of a streamed kernel, which computes one tile in each block. */
static double streamed_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                          const struct sm90_card *card)
{
    size_t i = 0;
    while (i + 1 < sizeof STREAMED_STEPS / sizeof *STREAMED_STEPS &&
           STREAMED_STEPS[i].tile_m != kernel->tile_m)
        i++;
    const uint64_t at_once = (uint64_t)card->multiprocessors * STREAMED_STEPS[i].blocks;
    const double steps = (double)size_blocks(p->k, kernel->tile_k);
    double us = FEW_ROWS_LAUNCH_US;
    for (uint64_t tiles = size_blocks(p->n, kernel->tile_n) * p->batch; tiles > 0;) {
        /* All whole rounds of blocks take the same time. */
        const uint64_t rounds = tiles < at_once ? 1 : tiles / at_once;
        const uint64_t blocks = tiles < at_once ? tiles : at_once;
        const double each = (double)size_blocks(blocks, card->multiprocessors);
        const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float);
        const double reading = bytes * (double)blocks / few_rows_rate(card);
        us += (double)rounds * steps *
              fmax(reading, fmax(STREAMED_STEPS[i].alone_us, STREAMED_STEPS[i].shared_us * each));
        tiles -= rounds * blocks;
    }
    return us;
}

/* The time of a fused kernel, which computes one tile in each block. */
static double fused_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                       const struct sm90_card *card)
{
    const struct fused_times *times = FUSED_TIMES;
    while (times != &FUSED_TIMES[sizeof FUSED_TIMES / sizeof *FUSED_TIMES - 1] &&
           (times->tile_m != kernel->tile_m || times->tile_n != kernel->tile_n))
        times++;
    const uint32_t multiprocessors = card->multiprocessors;
    const uint64_t tiles =
        size_blocks(p->m, kernel->tile_m) * size_blocks(p->n, kernel->tile_n) * p->batch;
    const uint64_t waves = tiles / multiprocessors, rest = tiles % multiprocessors;
    const uint64_t later_waves = (tiles - 1) / multiprocessors;
    const double rows = (double)(p->m < kernel->tile_m ? p->m : kernel->tile_m);
    const double steps = (double)size_blocks(p->k, kernel->tile_k);
    double us = FEW_ROWS_LAUNCH_US + times->store_us + (double)later_waves * times->next_us +
                (double)waves * steps * fused_step_us(kernel, times, card, rows, multiprocessors);
    if (rest > 0)
        us += steps * fused_step_us(kernel, times, card, rows, (double)rest);
    return us;
}

double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        const struct sm90_card *card)
{
    const struct gemm_problem *p = problem;
    const double operands = (double)p->batch * (double)p->k * (double)(p->m + p->n);
    if (!kernel->fused)
        return sm90_model_us(kernel, p, sm90_rates_for(p), card, operands);
    if (kernel->consumers > 0)
        return fused_us(kernel, p, card);
    return kernel->tile_m == 1 ? one_row_us(kernel, p, card) : streamed_us(kernel, p, card);
}

bool sm90_any_takes(const struct gemm_problem *problem)
{
    const struct sm90_kernel *kernel =
        sm90_kernels(problem->dtype, problem->precision, problem->scales);
    while (kernel != NULL && kernel->name != NULL && !sm90_takes(kernel, problem))
        kernel++;
    return kernel != NULL && kernel->name != NULL;
}

/* The kernel with the lowest estimate among those that take the problem; `adding`: among those that
 * add chunks of k themselves (sm90_kernel.adds_chunks). NULL: there is none. */
static const struct sm90_kernel *choose(const struct gemm_problem *problem,
                                        const struct sm90_card *card, bool adding)
{
    const struct sm90_kernel *best = NULL;
    double best_us = INFINITY;
    const struct sm90_kernel *kernel =
        sm90_kernels(problem->dtype, problem->precision, problem->scales);
    for (; kernel != NULL && kernel->name != NULL; kernel++) {
        if ((adding && !kernel->adds_chunks) || !sm90_takes(kernel, problem)) {
            continue;
        }
        const double us = sm90_estimate_us(kernel, problem, card);
        if (us < best_us) {
            best = kernel;
            best_us = us;
        }
    }
    return best;
}

const struct sm90_kernel *sm90_choose(const struct gemm_problem *problem,
                                      const struct sm90_card *card)
{
    return choose(problem, card, false);
}

const struct sm90_kernel *sm90_choose_adding(const struct gemm_problem *problem,
                                             const struct sm90_card *card)
{
    return choose(problem, card, true);
}
