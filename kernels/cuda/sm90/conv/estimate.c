#include "kernels/cuda/sm90/conv/estimate.h"
#include "proto/size.h"

#include <math.h>

/* Times are in microseconds, and rates in bytes a microsecond. */
struct rates {
    double launch_us, cluster_us;  /* for every launch, and more for clusters */
    double store_us, store_32_us;  /* to store a tile of 128 x 256; more for results of 32 bits */
    double finish_us;              /* more for an epilogue of more than alpha */
    double tile_us, pingpong_us;   /* between two tiles of a block; the same for ping-pong */
    double finish_shows;           /* the part of storing a tile that ping-pong does not hide */
    double multiply_us, loaded_us; /* 128 bytes of k; more when all multiprocessors multiply */
    double gaps, gaps_64;  /* with one consumer: for any tile, and more for one of 64 columns */
    double pingpong_alone; /* the factor for ping-pong blocks with one tile */
    double multiply_shows, read_shows; /* the parts that show although a step takes longer */
    double shared_bytes, block_bytes, l2_bytes, dram_bytes;
    double shorter_shows; /* of the shorter of computing and passing device memory */
    double results_stay;  /* of the results, where B is evicted from the L2 first */
    /* The factors by which reading X takes longer, if pixels do not start at multiples of 128
     * bytes, in clusters that share W too; and added to tile_us then. */
    double unaligned, unaligned_pair, unaligned_us;
    double patches; /* the factor by which reading X takes longer because it is patches */
};

/* Fitted to what the configurations took in bf16 and f16 on an H100 SXM: 14 layers, of which two
 * have pixels that do not start at multiples of 128 bytes (kernels/experiments/conv.md). */
static const struct rates RATES_16_BIT = {
    .launch_us = 0.845,
    .cluster_us = 1.4,
    .store_us = 1.347,
    .finish_us = 0.999,
    .tile_us = 0.1026,
    .pingpong_us = 0.1172,
    .finish_shows = 0.06614,
    .multiply_us = 0.3922,
    .loaded_us = 0.09944,
    .gaps = 0.09736,
    .gaps_64 = 0.6796,
    .pingpong_alone = 1.065,
    .multiply_shows = 0.06127,
    .read_shows = 0.4802,
    .shared_bytes = 379.9e3,
    .block_bytes = 217.5e3,
    .l2_bytes = 28.75e6,
    .dram_bytes = 5.91e6,
    .shorter_shows = 1,
    .results_stay = 0.1528,
    .unaligned = 1.886,
    .unaligned_pair = 1.457,
    .unaligned_us = 1.2,
    .patches = 1.938,
};

/* Fitted to products of all types; for i8 and tf32. */
static const struct rates RATES_OTHERS = {
    .launch_us = 1.42,
    .store_us = 2.92,
    .store_32_us = 1.43,
    .finish_us = 0.999,
    .tile_us = 0.194,
    .pingpong_us = 0.0624,
    .finish_shows = 0.254,
    .multiply_us = 0.554,
    .loaded_us = 0.0823,
    .gaps = 0.5,
    .pingpong_alone = 1,
    .multiply_shows = 0.0684,
    .read_shows = 0.0321,
    .shared_bytes = 267e3,
    .block_bytes = 95e3,
    .l2_bytes = 11.9e6,
    .dram_bytes = 2.78e6,
    .shorter_shows = 0.0006,
    .unaligned = 1,
    .unaligned_pair = 1,
    .patches = 1,
};

/* The lines that a tile of `tile` lines copies: those that exist, in multiples of eight. */
static double lines(uint32_t tile, uint64_t extent)
{
    const uint64_t there = size_blocks(extent, 8) * 8;
    return there < tile ? (double)there : tile;
}

static bool is_unaligned(const struct gemm_problem *p)
{
    return p->lda * dtype_size(p->dtype) % 128 != 0;
}

/* The time of one step of k in `blocks` blocks at once, of a launch of `waves` waves. */
static double step_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                      const struct rates *r, double blocks, double multiprocessors, double waves)
{
    const double unaligned = kernel->cluster_m > 1 ? r->unaligned_pair : r->unaligned;
    const double x =
        128 * lines(kernel->tile_m, p->m) * r->patches * (is_unaligned(p) ? unaligned : 1);
    const double y = 128 * lines(kernel->tile_n, p->n);
    const double clock = r->multiply_us + r->loaded_us * fmin(1, waves) * blocks / multiprocessors;
    const double gaps = kernel->consumers == 1 ? 1 + r->gaps + r->gaps_64 * 64 / kernel->tile_n : 1;
    const double alone = kernel->pingpong && waves <= 1 ? r->pingpong_alone : 1;
    const double multiply = kernel->tile_m * kernel->tile_n / (128.0 * 256) * clock * gaps * alone;
    const double instructions = (double)kernel->tile_m / 64 * 4;
    const double shared =
        (128 * (kernel->tile_m + kernel->tile_n) + instructions * 32 * (64 + kernel->tile_n)) /
        r->shared_bytes;
    const double receive = (x + y) / r->block_bytes;
    /* Data that a cluster shares is read once. */
    const double read = blocks * (x / kernel->cluster_n + y / kernel->cluster_m) / r->l2_bytes;
    return fmax(fmax(multiply, shared), fmax(receive, read)) + r->multiply_shows * multiply +
           r->read_shows * read;
}

double sm90_conv_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *product,
                             const struct sm90_card *card, double operands)
{
    const struct gemm_problem *p = product;
    const uint64_t size = dtype_size(p->dtype), out_size = dtype_size(p->out);
    const struct rates *r = size == 2 ? &RATES_16_BIT : &RATES_OTHERS;
    const uint64_t cluster = kernel->cluster_m * kernel->cluster_n;
    const uint64_t rows = size_blocks(p->m, (uint64_t)kernel->tile_m * kernel->cluster_m);
    const uint64_t columns = size_blocks(p->n, (uint64_t)kernel->tile_n * kernel->cluster_n);
    const uint64_t tiles = rows * columns * cluster;
    const uint64_t blocks = card->multiprocessors / cluster * cluster; /* that run at once */
    const uint64_t waves = tiles / blocks, rest = tiles % blocks;
    const double all_waves = (double)tiles / (double)blocks;
    const double steps = (double)size_blocks(p->k, kernel->tile_k);
    const double area = kernel->tile_m * kernel->tile_n / (128.0 * 256);
    const bool plain = p->bias == NULL && p->act == GEMM_ACT_NONE;
    const double finish_us =
        area * (r->store_us + (out_size == 4 ? r->store_32_us : 0) + (plain ? 0 : r->finish_us));
    const double between_us =
        (kernel->pingpong ? r->pingpong_us + r->finish_shows * finish_us : r->tile_us + finish_us) +
        (is_unaligned(p) ? r->unaligned_us : 0);
    double busy = (double)waves * steps *
                      step_us(kernel, p, r, (double)blocks, card->multiprocessors, all_waves) +
                  (double)(waves - (rest == 0)) * between_us;
    if (rest > 0)
        busy += steps * step_us(kernel, p, r, (double)rest, card->multiprocessors, all_waves);
    /* One row of tiles reads each element of W once (SAYS_ONCE of gemm.cuh). */
    const bool once = rows == 1 && size == 2 && kernel->cluster_m == 1 &&
                      kernel->tile_m * kernel->tile_n >= 128 * 128;
    const double results = (double)p->m * (double)p->n * (double)out_size;
    const double reading = (operands * (double)size + (once ? 1 - r->results_stay : 1) * results) /
                           (r->dram_bytes * card->memory_rate);
    return r->launch_us + (cluster > 1 ? r->cluster_us : 0) + finish_us + fmax(busy, reading) +
           r->shorter_shows * fmin(busy, reading);
}
