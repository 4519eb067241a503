/*
 * The choice of a configuration for a problem: the one with the lowest time by a model of the GPU.
 */
#include "kernels/cuda/sm90/sm90.h"

#include <math.h>

/* Fitted to what all configurations took on an H100 SXM: 216 measurements in bf16 (with a bias and
 * an activation too), f16, tf32, i8 and f32, at commits 6f1ed7c and 9cc16bb. Of the 151 shapes
 * measured at c078e92 (kernels-2026-11-22-0633-* and -0653-* in tests/bench/results) what it
 * chooses is 0.3 % behind the best in the mean, and more than 2.1 % at seven. */
static const double LAUNCH_US = 1.42;
/* For a tile of 128 x 256, from its last product until it is in memory: STORE_US to store it,
 * STORE_32_US more if results have 32 bits, and FINISH_US for an epilogue of more than alpha. */
static const double STORE_US = 2.92, STORE_32_US = 1.43, FINISH_US = 0.999;
static const double TILE_US = 0.194; /* besides, until the next tile's first product */
static const double TILE_PINGPONG_US = 0.0624;
static const double FINISH_SHOWS = 0.254; /* of all that while the other consumer multiplies */
/* 128 bytes of k in a tile of 128 x 256: at full clock, and what is added when all multiprocessors
 * multiply and the card's power pulls the clock down. */
static const double MULTIPLY_US = 0.554, MULTIPLY_LOADED_US = 0.0823;
static const double MULTIPLY_ALONE = 1.5;    /* one warpgroup issues its products with gaps */
static const double MULTIPLY_SHOWS = 0.0684; /* though another is the longest */
static const double READ_SHOWS = 0.0321;
static const double SHARED_BYTES_PER_US = 267e3; /* read by products, written by copies */
static const double BLOCK_BYTES_PER_US = 95e3;   /* into one multiprocessor */
static const double L2_BYTES_PER_US = 11.9e6;    /* into all of them */
static const double DRAM_BYTES_PER_US = 2.78e6, DRAM_ONCE_BYTES_PER_US = 2.88e6; /* B read once */
static const double SHORTER_SHOWS = 0.0006; /* of computing and of reading device memory */
/* The share of the results that is not written to device memory within the launch if B is evicted
 * from the L2 first. Measured for 100x30000x513 in bf16. */
static const double RESULTS_STAY = 0.62;

/* The rate at which parts of f32 operands are made, in bytes read and written. Measured at a813962.
 */
static const double PARTS_BYTES_PER_US = 2.5e6;
/* For each fused kernel the time of a step of k: a constant, a minimum, and the time for each row.
 */
static const struct {
    uint32_t tile_m, tile_n;
    double us, min_us, row_us;
} FUSED_STEPS[] = {
    {64, 32, 0.265, 0.282, 0.0025},
    {16, 64, 0.327, 0.327, 0.0016},
    {64, 64, 0.472, 0.472, 0.0017},
};

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* The lines of an operand that a tile copies: those that exist, rounded up to a multiple of eight.
 */
static double lines(uint32_t tile, uint64_t extent)
{
    const uint64_t there = ceil_div(extent, 8) * 8;
    return there < tile ? (double)there : tile;
}

/* An f32 operand has three parts. A step computes six products of parts and has half the length in
 * k. */
static bool in_parts(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_FULL;
}

/* The time of one step of k in `blocks` blocks at once. `load` is the share of the time in which
 * that many blocks run. */
static double step_us(const struct sm90_kernel *kernel, const struct gemm_problem *p, double blocks,
                      double multiprocessors, double load)
{
    const double parts = in_parts(p) ? 1.5 : 1, products = in_parts(p) ? 3 : 1;
    const double x = parts * 128 * lines(kernel->tile_m, p->m);
    const double y = parts * 128 * lines(kernel->tile_n, p->n);
    const double clock = MULTIPLY_US + MULTIPLY_LOADED_US * load * blocks / multiprocessors;
    const double multiply = products * kernel->tile_m * kernel->tile_n / (128.0 * 256) * clock *
                            (kernel->consumers == 1 ? MULTIPLY_ALONE : 1);
    /* Each instruction reads 32 bytes of k of 64 lines of the left operand and of all lines of the
     * right one. */
    const uint32_t left = kernel->swapped ? kernel->tile_n : kernel->tile_m;
    const uint32_t right = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    const double instructions = products * left / 64 * 4;
    const double shared =
        (parts * 128 * (left + right) + instructions * 32 * (64 + right)) / SHARED_BYTES_PER_US;
    const double receive = (x + y) / BLOCK_BYTES_PER_US;
    /* Data that a cluster shares is read once. */
    const double read = blocks * (x / kernel->cluster_n + y / kernel->cluster_m) / L2_BYTES_PER_US;
    return fmax(fmax(multiply, shared), fmax(receive, read)) + MULTIPLY_SHOWS * multiply +
           READ_SHOWS * read;
}

/* Whether B is evicted from the L2 first, as config.SAYS_ONCE of gemm.cuh. `rows` is the number of
 * rows of tiles. */
static bool reads_b_once(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                         uint64_t rows)
{
    return rows == 1 && dtype_size(p->dtype) == 2 && kernel->cluster_m == 1 &&
           kernel->tile_m * kernel->tile_n >= 128 * 128;
}

/* The time of one step of k of a fused kernel in `blocks` blocks. */
static double fused_step_us(const struct sm90_kernel *kernel, double rows, double blocks)
{
    const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float) * blocks;
    double us = bytes / DRAM_BYTES_PER_US;
    for (size_t i = 0; i < sizeof FUSED_STEPS / sizeof *FUSED_STEPS; i++) {
        if (FUSED_STEPS[i].tile_m == kernel->tile_m && FUSED_STEPS[i].tile_n == kernel->tile_n) {
            us = fmax(
                us, fmax(FUSED_STEPS[i].min_us, FUSED_STEPS[i].us + FUSED_STEPS[i].row_us * rows));
        }
    }
    return us;
}

/* The time of a fused kernel, which computes one tile in each block. */
static double fused_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                       uint32_t multiprocessors)
{
    const uint64_t tiles =
        ceil_div(p->m, kernel->tile_m) * ceil_div(p->n, kernel->tile_n) * p->batch;
    const uint64_t waves = tiles / multiprocessors, rest = tiles % multiprocessors;
    const double rows = (double)(p->m < kernel->tile_m ? p->m : kernel->tile_m);
    const double steps = (double)ceil_div(p->k, kernel->tile_k);
    double us = LAUNCH_US + (double)waves * steps * fused_step_us(kernel, rows, multiprocessors);
    if (rest > 0) {
        us += steps * fused_step_us(kernel, rows, (double)rest);
    }
    return us;
}

double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        uint32_t multiprocessors)
{
    const struct gemm_problem *p = problem;
    if (kernel->fused) {
        return fused_us(kernel, p, multiprocessors);
    }
    const uint64_t cluster = kernel->cluster_m * kernel->cluster_n;
    const uint64_t rows = ceil_div(p->m, (uint64_t)kernel->tile_m * kernel->cluster_m);
    const uint64_t tiles =
        rows * ceil_div(p->n, (uint64_t)kernel->tile_n * kernel->cluster_n) * p->batch * cluster;
    const uint64_t blocks = multiprocessors / cluster * cluster;
    const uint64_t waves = tiles / blocks, rest = tiles % blocks;
    const double load = fmin(1, (double)tiles / (double)blocks);
    const double steps = (double)ceil_div(p->k, kernel->tile_k);
    const bool plain = p->beta == 0 && p->bias == NULL && p->act == GEMM_ACT_NONE;
    const double finish_us =
        (STORE_US + (dtype_size(p->out) == 4 ? STORE_32_US : 0) + (plain ? 0 : FINISH_US)) *
        kernel->tile_m * kernel->tile_n / (128.0 * 256);
    const double between_us =
        kernel->pingpong ? TILE_PINGPONG_US + FINISH_SHOWS * finish_us : TILE_US + finish_us;
    double busy = (double)(waves - (rest == 0)) * between_us +
                  (double)waves * steps * step_us(kernel, p, (double)blocks, multiprocessors, load);
    if (rest > 0) {
        busy += steps * step_us(kernel, p, (double)rest, multiprocessors, load);
    }
    const double operands = (double)p->batch * (double)p->k * (double)(p->m + p->n);
    const double element = in_parts(p) ? 6 : dtype_size(p->dtype);
    const double results = (double)p->batch * (double)p->m * (double)p->n * dtype_size(p->out);
    const bool once = reads_b_once(kernel, p, rows);
    const double reading = (operands * element + (once ? 1 - RESULTS_STAY : 1) * results) /
                           (once ? DRAM_ONCE_BYTES_PER_US : DRAM_BYTES_PER_US);
    const double parts_us = in_parts(p) ? operands * (4 + 6) / PARTS_BYTES_PER_US : 0;
    return parts_us + LAUNCH_US + finish_us + fmax(busy, reading) +
           SHORTER_SHOWS * fmin(busy, reading);
}

static const struct sm90_kernel *choose(const struct gemm_problem *problem,
                                        uint32_t multiprocessors, bool adding)
{
    const struct sm90_kernel *best = NULL;
    double best_us = INFINITY;
    const struct sm90_kernel *kernel = sm90_kernels(problem->dtype, problem->precision);
    for (; kernel != NULL && kernel->name != NULL; kernel++) {
        if ((adding && !kernel->adds_chunks) || !sm90_takes(kernel, problem)) {
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

const struct sm90_kernel *sm90_choose(const struct gemm_problem *problem, uint32_t multiprocessors)
{
    return choose(problem, multiprocessors, false);
}

const struct sm90_kernel *sm90_choose_adding(const struct gemm_problem *problem,
                                             uint32_t multiprocessors)
{
    return choose(problem, multiprocessors, true);
}
