/* Which configuration computes a problem: the one that a model of the chip says is the fastest. */
#include "kernels/cuda/sm90/sm90.h"

#include <math.h>

/* Fitted to what all configurations took on 26 shapes of bf16 on an H100 SXM (the table of
 * 2026-11-21 in tests/bench/results, measured at commit 6f1ed7c), where what it chooses is as fast
 * as the best of them within 1 % on 25 shapes and 4 % on one. */
static const double LAUNCH_US = 1.9;
static const double TILE_US = 0.59; /* from a tile's last product to the next tile's first */
static const double TILE_PINGPONG_US = 0.063;
static const double FINISH_US = 9;      /* of 128 x 256, where more than alpha follows the sum */
static const double FINISH_SHOWS = 0.7; /* of that while the other consumer multiplies */
/* 128 bytes of k in a tile of 128 x 256: at full clock, and what is added when all multiprocessors
 * multiply and the card's power pulls the clock down. */
static const double MULTIPLY_US = 0.55, MULTIPLY_LOADED_US = 0.18;
static const double MULTIPLY_ALONE = 1.2; /* one warpgroup issues its products with gaps */
static const double MULTIPLY_SHOWS = 0.054, READ_SHOWS = 0.046; /* even if another is the longest */
static const double BLOCK_BYTES_PER_US = 120e3;                 /* into one multiprocessor */
static const double L2_BYTES_PER_US = 11e6;                     /* into all of them */
static const double DRAM_BYTES_PER_US = 2.7e6;
static const double SHORTER_SHOWS = 0.0006; /* of computing and of reading device memory */

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Lines of an operand that a tile copies: no more than there are, eight at a time. */
static double lines(uint32_t tile, uint64_t extent)
{
    const uint64_t there = ceil_div(extent, 8) * 8;
    return there < tile ? (double)there : tile;
}

/* f32 operands are three parts, of which six products are made, in steps half as long. */
static bool in_parts(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_FULL;
}

/* One step of k in `blocks` of all multiprocessors at once; `load`: how much of the time that many
 * are at work. */
static double step_us(const struct sm90_kernel *kernel, const struct gemm_problem *p, double blocks,
                      double multiprocessors, double load)
{
    const double parts = in_parts(p) ? 1.5 : 1, products = in_parts(p) ? 3 : 1;
    const double x = parts * 128 * lines(kernel->tile_m, p->m);
    const double y = parts * 128 * lines(kernel->tile_n, p->n);
    const double clock = MULTIPLY_US + MULTIPLY_LOADED_US * load * blocks / multiprocessors;
    const double multiply = products * kernel->tile_m * kernel->tile_n / (128.0 * 256) * clock *
                            (kernel->consumers == 1 ? MULTIPLY_ALONE : 1);
    const double receive = (x + y) / BLOCK_BYTES_PER_US;
    /* What a cluster shares is read once. */
    const double read = blocks * (x / kernel->cluster_n + y / kernel->cluster_m) / L2_BYTES_PER_US;
    return fmax(multiply, fmax(receive, read)) + MULTIPLY_SHOWS * multiply + READ_SHOWS * read;
}

double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        uint32_t multiprocessors)
{
    const struct gemm_problem *p = problem;
    const uint64_t cluster = kernel->cluster_m * kernel->cluster_n;
    const uint64_t tiles = ceil_div(p->m, (uint64_t)kernel->tile_m * kernel->cluster_m) *
                           ceil_div(p->n, (uint64_t)kernel->tile_n * kernel->cluster_n) * p->batch *
                           cluster;
    const uint64_t blocks = multiprocessors / cluster * cluster;
    const uint64_t waves = tiles / blocks, rest = tiles % blocks;
    const double load = fmin(1, (double)tiles / (double)blocks);
    const double steps = (double)ceil_div(p->k, kernel->tile_k);
    const bool plain = p->beta == 0 && p->bias == NULL && p->act == GEMM_ACT_NONE;
    const double finish_us =
        plain ? 0 : FINISH_US * kernel->tile_m * kernel->tile_n / (128.0 * 256);
    const double between_us =
        kernel->pingpong ? TILE_PINGPONG_US + FINISH_SHOWS * finish_us : TILE_US + finish_us;
    double busy = TILE_US + finish_us + (double)(waves - (rest == 0)) * between_us +
                  (double)waves * steps * step_us(kernel, p, (double)blocks, multiprocessors, load);
    if (rest > 0) {
        busy += steps * step_us(kernel, p, (double)rest, multiprocessors, load);
    }
    const double element = in_parts(p) ? 6 : dtype_size(p->dtype);
    const double bytes = (double)p->batch * ((double)p->k * (double)(p->m + p->n) * element +
                                             (double)p->m * (double)p->n * dtype_size(p->out));
    const double reading = bytes / DRAM_BYTES_PER_US;
    return LAUNCH_US + fmax(busy, reading) + SHORTER_SHOWS * fmin(busy, reading);
}

const struct sm90_kernel *sm90_choose(const struct gemm_problem *problem, uint32_t multiprocessors)
{
    const struct sm90_kernel *best = NULL;
    double best_us = INFINITY;
    const struct sm90_kernel *kernel = sm90_kernels(problem->dtype, problem->precision);
    for (; kernel != NULL && kernel->name != NULL; kernel++) {
        if (kernel->trial || !sm90_takes(kernel, problem)) {
            continue;
        }
        const double us = sm90_estimate_us(kernel, problem, multiprocessors);
        if (us < best_us) {
            best = kernel;
            best_us = us;
        }
    }
    return best;
}
