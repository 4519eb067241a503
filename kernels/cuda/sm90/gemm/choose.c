/*
 * The choice of a configuration (a tile and what belongs to it) for a problem: the one whose launch
 * takes the least time by a model of the GPU.
 *
 * The model: A launch takes a constant time (launch_us), the time to store the last tile, and the
 * longer of two: the time in which its blocks compute, and the time in which its operands and
 * results pass device memory. Of the shorter of the two a part shows (shorter_shows). The tiles are
 * computed in waves, a wave being one tile in each block that runs at once. A tile takes its steps
 * of k, and some time until the next tile begins. A step of k takes the longest of five times
 * (step_us): multiplying, shared memory, copies into one multiprocessor, copies from the L2 into
 * all of them, and, for some types, reading device memory. Of multiplying and of reading the L2 a
 * part shows even if another is the longest.
 */
#include "kernels/cuda/sm90/gemm/estimate.h"
#include "kernels/cuda/sm90/gemm/split_k.h"
#include "kernels/cuda/sm90/sm90.h"

#include <math.h>

/* The constants of the model. All times are in microseconds. Factors have no unit, and a part that
 * "shows" is the share of a time that adds to the total although something else takes longer. */
struct rates {
    double launch_us;  /* for every launch */
    double cluster_us; /* added to launch_us if the blocks run in clusters */
    /* For each tile whose chunks of k the blocks of a cluster share: a constant, and the time in
     * proportion to the tile's size, for a tile of 128 x 256. */
    double split_us, split_tile_us;
    double chunk_us; /* between two chunks that one block adds */
    /* For a tile of 128 x 256, from its last product until the tile is in memory: store_us to store
     * the tile, store_32_us more if results have 32 bits, and finish_us more for an epilogue of
     * more than alpha. */
    double store_us, store_32_us, finish_us;
    /* From the end of storing a tile to the first product of the block's next tile, if the
     * consumers share a tile. */
    double tile_us;
    /* The same for ping-pong; and the part of storing a tile that shows although the other consumer
     * multiplies meanwhile. */
    double tile_pingpong_us, finish_shows;
    /* For 128 bytes of k in a tile of 128 x 256: at full clock, and the time added when all
     * multiprocessors multiply and the limit of the card's power lowers the clock. */
    double multiply_us, multiply_loaded_us;
    /* The bytes of k at which half of multiply_loaded_us counts. With a shorter k the
     * multiprocessors spend more of their time without multiplying. 0: all of it counts, whatever k
     * is. */
    double loaded_k_bytes;
    /* The factors by which products take longer if three consumers share a tile, and if blocks of a
     * cluster share operands, because consumers or blocks wait for each other. 0: they don't. */
    double three_consumers, cluster_steps;
    /* If a block has one consumer, its wgmmas are issued with gaps. The part of the time that the
     * gaps add: for any tile, and in addition for a tile of 64 columns. Wider instructions have
     * fewer gaps. */
    double gaps, gaps_64;
    /* The factor by which the products of a tile take longer if the columns that are left over have
     * products of their own (HALF_BOX of gemm.cuh). */
    double half_box;
    double pingpong_alone; /* the factor for ping-pong blocks that have one tile only */
    /* The parts of multiplying and of reading the L2 that show in a step of k. */
    double multiply_shows, read_shows;
    double shared_bytes_per_us; /* of shared memory, read by products and written by copies */
    double block_bytes_per_us;  /* from the L2 into one multiprocessor */
    double l2_bytes_per_us;     /* from the L2 into all multiprocessors together */
    /* Of device memory; dram_once if B is read once and evicted from the L2 first. */
    double dram_bytes_per_us, dram_once_bytes_per_us;
    /* The part of that rate which would be missing if the waves of tiles were empty. A wave in
     * which some multiprocessors are idle misses some of that part. Nothing is missing if two
     * threads of each block issue copies (TWO_PRODUCERS of gemm.cuh). */
    double idle_reads;
    /* Of device memory, within a step of k, so that a last wave of few blocks, which compute longer
     * than they read, makes a launch longer that device memory bounds otherwise. 0: steps do not
     * wait for device memory. */
    double dram_step_bytes_per_us;
    /* Of device memory into one of two neighbouring multiprocessors, if the other has no block, and
     * into both together. A wave ends with its slowest block, so two blocks on one pair count even
     * if other pairs have one. 0: no limit. */
    double dram_alone_bytes_per_us, dram_pair_bytes_per_us;
    /* Blocks that share lines of operands do not keep in step. If both operands are much larger
     * than the L2, some of what a tile reads has therefore left the L2 before the tile reads it.
     * That share is 0 as long as the smaller operand has far_from_bytes at most, and far_share from
     * far_to_bytes on. */
    double far_from_bytes, far_to_bytes, far_share;
    double shorter_shows; /* of the shorter of computing and passing device memory */
    /* The share of the results that is not written to device memory within the launch if B is
     * evicted from the L2 first. */
    double results_stay;
    /* The factors by which reading A, reading B and storing C take longer if rows do not start at
     * multiples of 128 bytes. */
    double unaligned_a, unaligned_b, unaligned_c;
    double unaligned_a_pair;  /* unaligned_a in clusters that share B */
    double unaligned_tile_us; /* added to tile_us if rows of A do not start at such multiples */
    /* The factor by which reading A takes longer if A is the patches of images (convolutions). */
    double patches;
};

/* Fitted to what the configurations took in bf16 on an H100 SXM: 200 layers of models and random
 * shapes, and the shapes that gemmd-bench has built in (kernels/experiments/tiles.md). half_box and
 * idle_reads were added later, and fitted with all others as they were. */
static const struct rates RATES_16_BIT = {
    .launch_us = 1.966,
    .cluster_us = 1.699,
    .store_us = 1.787,
    .store_32_us = 1.43,
    .finish_us = 0.999,
    .tile_us = 0.7388,
    .tile_pingpong_us = 0.9263,
    .finish_shows = 0,
    .multiply_us = 0.4871,
    .multiply_loaded_us = 0.1267,
    .gaps = -0.1015,
    .gaps_64 = 0.8233,
    .half_box = 1.105,
    .pingpong_alone = 1.065,
    .multiply_shows = 0.04862,
    .read_shows = 0.1824,
    .shared_bytes_per_us = 345.9e3,
    .block_bytes_per_us = 151.6e3,
    .l2_bytes_per_us = 17.46e6,
    .dram_bytes_per_us = 3.143e6,
    .dram_once_bytes_per_us = 3.379e6,
    .idle_reads = 0.35,
    .shorter_shows = 0.09189,
    .results_stay = 0.1528,
    .unaligned_a = 1,
    .unaligned_b = 2.514,
    .unaligned_c = 1,
    .unaligned_a_pair = 1,
    .patches = 1,
};

/* Fitted to what the configurations took in tf32, with both layouts of B, on an H100 SXM: 195
 * layers of models and random shapes (kernels/experiments/tf32_i8.md). */
static const struct rates RATES_TF32 = {
    .launch_us = 1.178,
    .cluster_us = 1.25,
    .split_us = 4.883,
    .chunk_us = 0.297,
    .store_us = 4.892,
    .store_32_us = 1.43,
    .finish_us = 0.999,
    .tile_us = 0.1737,
    .tile_pingpong_us = 0.06233,
    .finish_shows = 0.2602,
    .multiply_us = 0.4887,
    .multiply_loaded_us = 0.04075,
    .gaps = 0.2518,
    .gaps_64 = 0.6517,
    .pingpong_alone = 1.028,
    .multiply_shows = 0.117,
    .read_shows = 0.04049,
    .shared_bytes_per_us = 281.9e3,
    .block_bytes_per_us = 140e3,
    .l2_bytes_per_us = 12.79e6,
    .dram_bytes_per_us = 3.813e6,
    .dram_once_bytes_per_us = 2.88e6,
    .shorter_shows = 0.0006985,
    .results_stay = 0.62,
    .unaligned_a = 1.285,
    .unaligned_b = 1.609,
    .unaligned_c = 1.108,
    .unaligned_a_pair = 2.701,
    .unaligned_tile_us = 0.08782,
    .patches = 1,
};

/* Fitted to what the configurations took in tf32 with B stored [n, k], k not cut, on an H100 SXM:
 * 317 layers of models and random shapes (kernels/experiments/tf32_i8.md). The constants that
 * differ from those of RATES_TF32 are about a long k and large operands. */
static const struct rates RATES_TF32_ALONG_K = {
    .launch_us = 1.178,
    .cluster_us = 1.25,
    .store_us = 4.892,
    .store_32_us = 1.43,
    .finish_us = 0.999,
    .tile_us = 0.1737,
    .tile_pingpong_us = 0.06233,
    .finish_shows = 0.2602,
    .multiply_us = 0.4887,
    .multiply_loaded_us = 0.04075,
    .loaded_k_bytes = 1000,
    .three_consumers = 1.139,
    .cluster_steps = 1.103,
    .gaps = 0.2518,
    .gaps_64 = 0.6517,
    .pingpong_alone = 1.028,
    .multiply_shows = 0.117,
    .read_shows = 0.04049,
    .shared_bytes_per_us = 281.9e3,
    .block_bytes_per_us = 140e3,
    .l2_bytes_per_us = 12.79e6,
    .dram_bytes_per_us = 3.813e6,
    .dram_once_bytes_per_us = 2.88e6,
    .dram_step_bytes_per_us = 2.95e6,
    .dram_alone_bytes_per_us = 48e3,
    .dram_pair_bytes_per_us = 60e3,
    .far_from_bytes = 122.2e6,
    .far_to_bytes = 352.3e6,
    .far_share = 0.5584,
    .shorter_shows = 0.0006985,
    .results_stay = 0.62,
    .unaligned_a = 1.285,
    .unaligned_b = 1.609,
    .unaligned_c = 1.108,
    .unaligned_a_pair = 2.701,
    .unaligned_tile_us = 0.08782,
    .patches = 1,
};

/* The same where k is cut into chunks: 187 shapes. */
static const struct rates RATES_TF32_CHUNKS = {
    .launch_us = 0.5,
    .split_us = 2.737,
    .split_tile_us = 3.405,
    .store_us = 5.116,
    .store_32_us = 1.057,
    .finish_us = 0.999,
    .tile_us = 3,
    .tile_pingpong_us = 0.409,
    .finish_shows = 0.08751,
    .multiply_us = 0.3132,
    .multiply_loaded_us = 0.08854,
    .loaded_k_bytes = 2198,
    .three_consumers = 1.3,
    .cluster_steps = 1.103,
    .gaps = 0.6502,
    .gaps_64 = 0.6529,
    .pingpong_alone = 1.159,
    .multiply_shows = 0.08285,
    .read_shows = 0.02703,
    .shared_bytes_per_us = 268.9e3,
    .block_bytes_per_us = 103.6e3,
    .l2_bytes_per_us = 31.12e6,
    .dram_bytes_per_us = 3.512e6,
    .dram_once_bytes_per_us = 2.88e6,
    .dram_step_bytes_per_us = 3.3e6,
    .far_from_bytes = 270.6e6,
    .far_to_bytes = 376.7e6,
    .far_share = 0.4612,
    .results_stay = 0.62,
    .unaligned_a = 1.265,
    .unaligned_b = 1.114,
    .unaligned_c = 2.325,
    .unaligned_a_pair = 1.863,
    .unaligned_tile_us = 0.08639,
    .patches = 1,
};

/* Fitted to what the configurations took in i8 without scales on an H100 SXM: 307 layers of models
 * and random shapes (kernels/experiments/tf32_i8.md). */
static const struct rates RATES_I8 = {
    .launch_us = 1.22,
    .cluster_us = 1.656,
    .store_us = 3.712,
    .store_32_us = 1.718,
    .finish_us = 0.999,
    .tile_us = 0.06741,
    .tile_pingpong_us = 0.2617,
    .finish_shows = 0.2972,
    .multiply_us = 0.4978,
    .multiply_loaded_us = 0.07102,
    .gaps = 0.4282,
    .pingpong_alone = 1.2,
    .multiply_shows = 0.07407,
    .shared_bytes_per_us = 266.1e3,
    .block_bytes_per_us = 103.5e3,
    .l2_bytes_per_us = 12.53e6,
    .dram_bytes_per_us = 3.355e6,
    .dram_once_bytes_per_us = 2.88e6,
    .dram_step_bytes_per_us = 3.3e6,
    .dram_alone_bytes_per_us = 48e3,
    .dram_pair_bytes_per_us = 60e3,
    .results_stay = 0.62,
    .unaligned_a = 1.319,
    .unaligned_b = 1.046,
    .unaligned_c = 1.001,
    .unaligned_a_pair = 1.001,
    .unaligned_tile_us = 0.231,
    .patches = 1,
};

/* Fitted to what the configurations that add or share chunks of k took in bf16 on an H100 SXM, for
 * few columns (kernels/experiments/long_k.md). */
static const struct rates RATES_CHUNKS_16_BIT = {
    .launch_us = 0.7163,
    .split_us = 3.154,
    .split_tile_us = 5.536,
    .chunk_us = 0.1781,
    .store_us = 2.945,
    .finish_us = 0.999,
    .tile_us = 1.329,
    .multiply_us = 0.3713,
    .multiply_loaded_us = 0.05288,
    .gaps = -0.1838,
    .gaps_64 = 1.197,
    .pingpong_alone = 1,
    .multiply_shows = 0.02066,
    .read_shows = 0.6296,
    .shared_bytes_per_us = 339.7e3,
    .block_bytes_per_us = 176.1e3,
    .l2_bytes_per_us = 22.67e6,
    .dram_bytes_per_us = 3.4e6,
    .dram_once_bytes_per_us = 3.415e6,
    .shorter_shows = 0.303,
    .results_stay = 0.1528,
    .unaligned_a = 1,
    .unaligned_b = 2.62,
    .unaligned_c = 1,
    .unaligned_a_pair = 1,
    .patches = 1,
};

/* Fitted to what all configurations took on an H100 SXM: 216 measurements in bf16 (with a bias and
 * an activation too), f16, tf32, i8 and f32, at commits 6f1ed7c and 9cc16bb. */
static const struct rates RATES_OTHERS = {
    .launch_us = 1.42,
    .store_us = 2.92,
    .store_32_us = 1.43,
    .finish_us = 0.999,
    .tile_us = 0.194,
    .tile_pingpong_us = 0.0624,
    .finish_shows = 0.254,
    .multiply_us = 0.554,
    .multiply_loaded_us = 0.0823,
    .gaps = 0.5,
    .pingpong_alone = 1,
    .multiply_shows = 0.0684,
    .read_shows = 0.0321,
    .shared_bytes_per_us = 267e3,
    .block_bytes_per_us = 95e3,
    .l2_bytes_per_us = 11.9e6,
    .dram_bytes_per_us = 2.78e6,
    .dram_once_bytes_per_us = 2.88e6,
    .shorter_shows = 0.0006,
    .results_stay = 0.62, /* measured for 100x30000x513 in bf16 */
    .unaligned_a = 1,
    .unaligned_b = 1,
    .unaligned_c = 1,
    .unaligned_a_pair = 1,
    .patches = 1,
};

/* Fitted to what the configurations took for convolutions in bf16 and f16 on an H100 SXM: 14
 * layers, of which two have pixels that do not start at multiples of 128 bytes
 * (kernels/experiments/conv.md). */
static const struct rates RATES_PATCHES_16_BIT = {
    .launch_us = 0.845,
    .cluster_us = 1.4,
    .store_us = 1.347,
    .tile_us = 0.1026,
    .tile_pingpong_us = 0.1172,
    .finish_us = 0.999,
    .finish_shows = 0.06614,
    .multiply_us = 0.3922,
    .multiply_loaded_us = 0.09944,
    .gaps = 0.09736,
    .gaps_64 = 0.6796,
    .pingpong_alone = 1.065,
    .multiply_shows = 0.06127,
    .read_shows = 0.4802,
    .shared_bytes_per_us = 379.9e3,
    .block_bytes_per_us = 217.5e3,
    .l2_bytes_per_us = 28.75e6,
    .dram_bytes_per_us = 5.91e6,
    .dram_once_bytes_per_us = 5.91e6,
    .shorter_shows = 1,
    .results_stay = 0.1528,
    .unaligned_a = 1.886,
    .unaligned_b = 1,
    .unaligned_c = 1,
    .unaligned_a_pair = 1.457,
    .unaligned_tile_us = 1.2,
    .patches = 1.938,
};

/* The constants for a problem. */
static const struct rates *rates_for(const struct gemm_problem *p)
{
    if (p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_TF32) {
        if (!p->transb)
            return &RATES_TF32;
        return split_k_chunks(p) > 1 ? &RATES_TF32_CHUNKS : &RATES_TF32_ALONG_K;
    }
    if (p->dtype == GEMMD_I8 && p->scales == GEMM_SCALES_NONE)
        return &RATES_I8;
    if (split_k_chunks(p) > 1)
        return &RATES_CHUNKS_16_BIT;
    /* Kernels of f8 take as long for 128 bytes of k as those of 16-bit types. */
    if (p->dtype == GEMMD_F8_E4M3)
        return &RATES_16_BIT;
    /* Kernels of 16-bit types with results of 32 bits promote their sums (gemm.cuh), which takes
     * time that RATES_16_BIT does not contain. */
    if (dtype_size(p->dtype) == 2 && dtype_size(p->out) == 2)
        return &RATES_16_BIT;
    return &RATES_OTHERS;
}

/* The rate at which f32 operands are decomposed into parts (move/parts.cu), in bytes read and
 * written. Measured at commit a813962. */
static const double PARTS_BYTES_PER_US = 2.5e6;
/* For each fused kernel (gemm_fused.cuh) the time of a step of k: us + row_us for each row of the
 * tile that exists, and min_us at least. */
static const struct {
    uint32_t tile_m, tile_n;
    double us, min_us, row_us;
} FUSED_STEPS[] = {
    {64, 32, 0.265, 0.282, 0.0025},
    {16, 64, 0.327, 0.327, 0.0016},
    {64, 64, 0.472, 0.472, 0.0017},
};

/* One of IDLE_OF multiprocessors stays idle if a kernel has clusters of four or eight blocks: all
 * blocks of a cluster run within one group of 16 or 18 multiprocessors (on some cards, fewer), and
 * some of each group are left over. Of 132 multiprocessors of an H100 SXM, 120 were used. */
enum { IDLE_OF = 11 };

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Whether rows do not start at multiples of 128 bytes. */
static bool is_unaligned(uint64_t ld, enum gemmd_dtype dtype)
{
    return ld * dtype_size(dtype) % 128 != 0;
}

/* `factor` if rows do not start at multiples of 128 bytes, else 1. */
static double if_unaligned(uint64_t ld, enum gemmd_dtype dtype, double factor)
{
    return is_unaligned(ld, dtype) ? factor : 1;
}

/* The lines of an operand that a tile of `tile` lines copies, if the operand has `extent` lines:
 * those that exist, rounded up to a multiple of eight. */
static double lines(uint32_t tile, uint64_t extent)
{
    const uint64_t there = ceil_div(extent, 8) * 8;
    return there < tile ? (double)there : tile;
}

/* The columns of B that are copied for a tile. If the columns of B run across k, B is copied in
 * boxes of 64 columns of 16 bits (HALF_BOX of gemm.cuh). */
static uint32_t columns_copied(const struct sm90_kernel *kernel, const struct gemm_problem *p)
{
    const uint32_t box = 64;
    return p->transb || kernel->half_box ? kernel->tile_n : (kernel->tile_n + box - 1) / box * box;
}

/* Whether f32 operands are decomposed into three parts of bf16. A step of k then computes six
 * products of parts and has half the length in k, 64 bytes of each part. */
static bool in_parts(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_FULL;
}

/* The factor by which the products of a step take longer than the tensor core needs for them.
 * `one_tile`: no block has more than one tile. `half_boxes`: B is copied in half boxes, too. */
static double issue_factor(const struct sm90_kernel *kernel, const struct rates *r, bool one_tile,
                           bool half_boxes)
{
    const double half_box = half_boxes ? r->half_box : 1;
    if (kernel->consumers == 1) {
        return half_box * (1 + r->gaps + r->gaps_64 * 64 / kernel->tile_n);
    }
    if (kernel->consumers == 3 && r->three_consumers > 0)
        return half_box * r->three_consumers;
    const bool shares = kernel->cluster_m * kernel->cluster_n > 1 && r->cluster_steps > 0;
    const double alone = kernel->pingpong && one_tile ? r->pingpong_alone : 1;
    return half_box * alone * (shares ? r->cluster_steps : 1);
}

/* The share of what tiles read that comes from device memory again (far_share of the rates). Blocks
 * that run at once have tiles of few problems of a batch, so the batch does not count. */
static double far_share(const struct gemm_problem *p, const struct rates *r)
{
    const double lines = (double)(p->m < p->n ? p->m : p->n);
    const double bytes = lines * (double)p->k * dtype_size(p->dtype);
    if (bytes <= r->far_from_bytes)
        return 0;
    return r->far_share *
           fmin(1, (bytes - r->far_from_bytes) / (r->far_to_bytes - r->far_from_bytes));
}

/* The time of one step of k in `blocks` blocks at once. `load` is how much of the launch the
 * multiprocessors multiply. `new_bytes`: what a block reads from device memory in a step if each
 * element is read once. */
static double step_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                      const struct rates *r, double blocks, double multiprocessors, double load,
                      bool one_tile, double new_bytes)
{
    const double unaligned_a = kernel->cluster_m > 1 ? r->unaligned_a_pair : r->unaligned_a;
    const double parts = in_parts(p) ? 1.5 : 1, products = in_parts(p) ? 3 : 1;
    const double x = parts * 128 * lines(kernel->tile_m, p->m) * r->patches *
                     if_unaligned(p->lda, p->dtype, unaligned_a);
    const double y = parts * 128 * lines(columns_copied(kernel, p), p->n) *
                     if_unaligned(p->ldb, p->dtype, r->unaligned_b);
    const double k_bytes = (double)p->k * dtype_size(p->dtype);
    const double loaded = r->loaded_k_bytes > 0 ? load * k_bytes / (k_bytes + r->loaded_k_bytes)
                                                : load * blocks / multiprocessors;
    const double clock = r->multiply_us + r->multiply_loaded_us * loaded;
    const double multiply = products * kernel->tile_m * kernel->tile_n / (128.0 * 256) * clock *
                            issue_factor(kernel, r, one_tile, kernel->half_box && !p->transb);
    /* Each instruction reads 32 bytes of k of 64 lines of the left operand and of all lines of the
     * right one. */
    const uint32_t left = kernel->swapped ? kernel->tile_n : kernel->tile_m;
    const uint32_t right = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    const double instructions = products * left / 64 * 4;
    const double shared =
        (parts * 128 * (left + right) + instructions * 32 * (64 + right)) / r->shared_bytes_per_us;
    const double receive = (x + y) / r->block_bytes_per_us;
    /* Data that a cluster shares is read once. */
    const double read =
        blocks * (x / kernel->cluster_n + y / kernel->cluster_m) / r->l2_bytes_per_us;
    double longest = fmax(fmax(multiply, shared), fmax(receive, read));
    if (r->dram_step_bytes_per_us > 0) {
        const double bytes = fmax(new_bytes, (x + y) * far_share(p, r));
        const double one = blocks <= multiprocessors / 2 ? r->dram_alone_bytes_per_us
                                                         : r->dram_pair_bytes_per_us / 2;
        const double share = r->dram_step_bytes_per_us / blocks;
        longest = fmax(longest, bytes / (one > 0 ? fmin(share, one) : share));
    }
    return longest + r->multiply_shows * multiply + r->read_shows * read;
}

/* Whether B is evicted from the L2 first, because each element is read by one tile only (SAYS_ONCE
 * of gemm.cuh). `rows` is the number of rows of tiles. */
static bool reads_b_once(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                         uint64_t rows)
{
    return rows == 1 && dtype_size(p->dtype) == 2 && kernel->cluster_m == 1 &&
           kernel->tile_m * kernel->tile_n >= 128 * 128 && (p->transb || kernel->tile_n % 64 == 0);
}

/* The time of one step of k of a fused kernel in `blocks` blocks at once, for tiles of which `rows`
 * rows exist. */
static double fused_step_us(const struct sm90_kernel *kernel, double rows, double blocks)
{
    const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float) * blocks;
    double us = bytes / RATES_OTHERS.dram_bytes_per_us;
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
    double us = RATES_OTHERS.launch_us +
                (double)waves * steps * fused_step_us(kernel, rows, multiprocessors);
    if (rest > 0) {
        us += steps * fused_step_us(kernel, rows, (double)rest);
    }
    return us;
}

/* The time to store a tile of 128 x 256. */
static double store_us(const struct gemm_problem *p, const struct rates *r)
{
    if (dtype_size(p->out) == 4)
        return r->store_us + r->store_32_us;
    /* The kernels of i8 with scales compute the epilogue of 16-bit results in registers, as those
     * of 16-bit types do. */
    if (p->dtype == GEMMD_I8 && p->scales != GEMM_SCALES_NONE)
        return RATES_16_BIT.store_us;
    return r->store_us;
}

/* The time from the last product of a tile to the first product of the block's next tile.
 * `finish_us`: the time to finish and store the tile. */
static double between_tiles_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                               const struct rates *r, double finish_us)
{
    const double unaligned_us = is_unaligned(p->lda, p->dtype) ? r->unaligned_tile_us : 0;
    if (kernel->pingpong)
        return r->tile_pingpong_us + r->finish_shows * finish_us + unaligned_us;
    return r->tile_us + finish_us + unaligned_us;
}

/* The part of the rate of device memory that `tiles` tiles reach (idle_reads). */
static double reading_rate(const struct sm90_kernel *kernel, const struct rates *r, uint64_t tiles,
                           uint32_t multiprocessors)
{
    if (kernel->consumers == 1 && tiles <= multiprocessors / 2)
        return 1;
    const uint64_t places = ceil_div(tiles, multiprocessors) * multiprocessors;
    return 1 - r->idle_reads * (1 - (double)tiles / (double)places);
}

/* The time of a launch. `operands`: elements of A and B that are read from device memory. */
static double estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                          const struct rates *r, uint32_t multiprocessors, double operands)
{
    if (kernel->fused) {
        return fused_us(kernel, p, multiprocessors);
    }
    const uint64_t chunks = kernel->chunks ? split_k_chunks(p) : 1;
    const uint64_t sharing = kernel->split ? chunks : 1; /* blocks that share a tile */
    const uint64_t cluster = kernel->cluster_m * kernel->cluster_n * sharing;
    const uint64_t rows = ceil_div(p->m, (uint64_t)kernel->tile_m * kernel->cluster_m);
    const uint64_t tiles =
        rows * ceil_div(p->n, (uint64_t)kernel->tile_n * kernel->cluster_n) * p->batch * cluster;
    const uint64_t usable =
        cluster > 2 ? multiprocessors - multiprocessors / IDLE_OF : multiprocessors;
    const uint64_t blocks = usable / cluster * cluster; /* that run at once */
    const uint64_t waves = tiles / blocks, rest = tiles % blocks;
    const bool one_tile = tiles <= blocks;
    /* How much of the launch the multiprocessors multiply: the power that lowers the clock is that
     * of the whole launch. The older constants were fitted to the first wave alone. */
    const double load = r->loaded_k_bytes > 0
                            ? (double)tiles / ((double)(waves + (rest > 0)) * multiprocessors)
                            : fmin(1, (double)tiles / (double)blocks);
    const double steps = (double)ceil_div(ceil_div(p->k, kernel->tile_k), sharing);
    const bool plain = p->beta == 0 && p->bias == NULL && p->act == GEMM_ACT_NONE;
    const double area = kernel->tile_m * kernel->tile_n / (128.0 * 256);
    const double unaligned_c = if_unaligned(p->ldc, p->out, r->unaligned_c);
    const double finish_us = unaligned_c * (store_us(p, r) + (plain ? 0 : r->finish_us)) * area;
    const double between_us = between_tiles_us(kernel, p, r, finish_us);
    const double chunks_us = /* for each tile */
        kernel->split ? r->split_us + r->split_tile_us * area : r->chunk_us * (double)(chunks - 1);
    const double element_bytes = in_parts(p) ? 3 * 2 : dtype_size(p->dtype);
    const double new_bytes = operands * element_bytes / ((double)tiles * steps);
    double busy =
        (double)(waves + (rest > 0)) * chunks_us + (double)(waves - (rest == 0)) * between_us +
        (double)waves * steps *
            step_us(kernel, p, r, (double)blocks, multiprocessors, load, one_tile, new_bytes);
    if (rest > 0) {
        busy +=
            steps * step_us(kernel, p, r, (double)rest, multiprocessors, load, one_tile, new_bytes);
    }
    const double results =
        (double)p->batch * (double)p->m * (double)p->n * dtype_size(p->out) * unaligned_c;
    const bool once = reads_b_once(kernel, p, rows);
    const double rate = (once ? r->dram_once_bytes_per_us : r->dram_bytes_per_us) *
                        reading_rate(kernel, r, tiles, multiprocessors);
    const double reading =
        (operands * element_bytes + (once ? 1 - r->results_stay : 1) * results) / rate;
    const double parts_us =
        in_parts(p) ? operands * (sizeof(float) + element_bytes) / PARTS_BYTES_PER_US : 0;
    return parts_us + r->launch_us + (cluster > 1 ? r->cluster_us : 0) + finish_us +
           fmax(busy, reading) + r->shorter_shows * fmin(busy, reading);
}

double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        uint32_t multiprocessors)
{
    const struct gemm_problem *p = problem;
    const double operands = (double)p->batch * (double)p->k * (double)(p->m + p->n);
    return estimate_us(kernel, p, rates_for(p), multiprocessors, operands);
}

double sm90_estimate_patches_us(const struct sm90_kernel *kernel,
                                const struct gemm_problem *problem, uint32_t multiprocessors,
                                double operands)
{
    const bool bits_16 = dtype_size(problem->dtype) == 2;
    return estimate_us(kernel, problem, bits_16 ? &RATES_PATCHES_16_BIT : &RATES_OTHERS,
                       multiprocessors, operands);
}

/* The kernel with the lowest estimate among those that take the problem; `adding`: among those that
 * add chunks of k themselves (sm90_kernel.adds_chunks). NULL: there is none. */
static const struct sm90_kernel *choose(const struct gemm_problem *problem,
                                        uint32_t multiprocessors, bool adding)
{
    const struct sm90_kernel *best = NULL;
    double best_us = INFINITY;
    const struct sm90_kernel *kernel =
        sm90_kernels(problem->dtype, problem->precision, problem->scales);
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
