/* Which configuration computes a problem: the one that a model of the chip says is the fastest. */
#include "kernels/cuda/sm90/sm90.h"

#include <math.h>

/* Fitted to the first run on an H100 SXM (kernels/EXPERIMENTS.md), where what it chooses of the
 * kernels without clusters is as fast as the best of them on 24 shapes of 26, and 0.93 and 0.98 of
 * it on two. */
static const double LAUNCH_US = 3;
static const double TILE_US = 1.5; /* from a tile's last product to the next tile's first */
static const double AREA_PER_US = 128 * 256 / 0.575; /* elements of D by 64 of k, 16-bit types */
static const double BLOCK_BYTES_PER_US = 105e3;      /* into one multiprocessor */
static const double L2_BYTES_PER_US = 11.5e6;        /* into all of them */
static const double DRAM_BYTES_PER_US = 3.0e6;

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What one step of k brings into each block, and how much of it is read from L2: what a cluster
 * shares is read once. */
struct traffic {
    double received, read_x, read_y; /* bytes */
};

static struct traffic traffic_of(const struct sm90_kernel *kernel, uint64_t rows, uint64_t columns)
{
    const double x = 128.0 * (double)least(kernel->tile_m, rows);
    const double y = 128.0 * (double)least(kernel->tile_n, columns);
    return (struct traffic){x + y, x / kernel->cluster_n, y / kernel->cluster_m};
}

/* One step of k in `blocks` blocks at once. The longest of three, and something of the products
 * even if they are not the longest. */
static double step_us(const struct sm90_kernel *kernel, const struct traffic *traffic,
                      double blocks)
{
    const double multiply = kernel->tile_m * kernel->tile_n / AREA_PER_US;
    const double receive = traffic->received / BLOCK_BYTES_PER_US;
    const double read = blocks * (traffic->read_x + traffic->read_y) / L2_BYTES_PER_US;
    return fmax(multiply, fmax(receive, read)) + 0.1 * multiply;
}

double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        uint32_t multiprocessors)
{
    const struct gemm_problem *p = problem;
    const uint64_t rows = kernel->swapped ? p->n : p->m, columns = kernel->swapped ? p->m : p->n;
    const uint64_t cluster = kernel->cluster_m * kernel->cluster_n;
    const uint64_t tiles = ceil_div(rows, (uint64_t)kernel->tile_m * kernel->cluster_m) *
                           ceil_div(columns, (uint64_t)kernel->tile_n * kernel->cluster_n) *
                           p->batch * cluster;
    const uint64_t blocks = multiprocessors / cluster * cluster;
    const uint64_t waves = tiles / blocks, rest = tiles % blocks;
    const struct traffic traffic = traffic_of(kernel, rows, columns);
    const double steps = (double)ceil_div(p->k, kernel->tile_k);
    double busy = (double)waves * (steps * step_us(kernel, &traffic, (double)blocks) + TILE_US);
    if (rest > 0) {
        busy += steps * step_us(kernel, &traffic, (double)rest) + TILE_US;
    }
    const double bytes =
        (double)p->batch * ((double)p->k * (double)(p->m + p->n) * dtype_size(p->dtype) +
                            (double)p->m * (double)p->n * dtype_size(p->out));
    /* Of the two operands the larger one is less often found near by. */
    const double x_share = (double)rows / (double)(rows + columns);
    const double far = (double)tiles * steps *
                       (traffic.read_x * x_share + traffic.read_y * (1 - x_share)) /
                       L2_BYTES_PER_US;
    return LAUNCH_US + fmax(busy, bytes / DRAM_BYTES_PER_US) + 0.05 * busy + 0.25 * far;
}

const struct sm90_kernel *sm90_choose(const struct gemm_problem *problem, uint32_t multiprocessors)
{
    const struct sm90_kernel *best = NULL;
    double best_us = INFINITY;
    const struct sm90_kernel *kernel = sm90_kernels(problem->dtype, problem->precision);
    for (; kernel != NULL && kernel->name != NULL; kernel++) {
        if (!kernel->serves || !sm90_takes(kernel, problem)) {
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
