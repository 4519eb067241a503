#include "kernels/cuda/sm90/gemm/model.h"

#include "kernels/cuda/sm90/gemm/split_k.h"
#include "kernels/cuda/sm90/grid.h"
#include "proto/dtype.h"
#include "proto/size.h"

#include <math.h>

const struct sm90_card sm90_h100_sxm = {.multiprocessors = 132, .memory_rate = 1, .l2_size = 1};

/* One of IDLE_OF multiprocessors stays idle if a kernel has clusters of four or eight blocks: all
 * blocks of a cluster run within one group of 16 or 18 multiprocessors (on some cards, fewer), and
 * some of each group are left over. Of 132 multiprocessors of an H100 SXM, 120 were used. */
enum { IDLE_OF = 11 };

/* The rate at which f32 operands are decomposed into parts (move/parts.cu), in bytes read and
 * written. Measured at commit a813962. */
static const double PARTS_BYTES_PER_US = 2.5e6, PARTS_ELEMENT_BYTES = 3 * 2;
/* Added to store_us for results of 32 bits, for a tile of 128 x 256. */
static const double STORE_32_US = 1.43;
/* The part of multiplying that adds to the time of a step although something else takes longer. The
 * tables of all types are met best by 0.3 to 0.7. */
static const double MULTIPLY_SHOWS = 0.5;
/* The part of the time to store a tile that adds to the time of a ping-pong block at least. */
static const double PINGPONG_SHOWS = 0.3;
/* The bytes of the smaller operand from which on far_share is as large as it gets. */
static const double FAR_BYTES = 350e6;

/* `factor` if rows do not start at multiples of 128 bytes, else 1. */
static double if_unaligned(uint64_t ld, enum gemmd_dtype dtype, double factor)
{
    return ld * dtype_size(dtype) % 128 != 0 ? factor : 1;
}

/* The lines of an operand that a tile of `tile` lines copies, if the operand has `extent` lines:
 * those that exist, rounded up to a multiple of eight. */
static double lines(uint32_t tile, uint64_t extent)
{
    const uint64_t there = size_blocks(extent, 8) * 8;
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

/* The size of a tile, 1 for 128 x 256. */
static double area_of(const struct sm90_kernel *kernel)
{
    return kernel->tile_m * kernel->tile_n / (128.0 * 256);
}

/* The share of what tiles read that comes from device memory again (far_share of the rates). Blocks
 * that run at once have tiles of few problems of a batch, so the batch does not count. */
static double far_share(const struct gemm_problem *p, const struct sm90_rates *r,
                        const struct sm90_card *card)
{
    const double smaller = (double)(p->m < p->n ? p->m : p->n);
    const double bytes = smaller * (double)p->k * dtype_size(p->dtype);
    return r->far_share * fmin(1, bytes / (FAR_BYTES * card->l2_size));
}

/* The share of the rows of tiles in which one of two blocks that share A has a half that lies
 * outside of A. */
static double empty_halves(const struct sm90_kernel *kernel, const struct gemm_problem *p)
{
    const uint64_t rows = size_blocks(p->m, kernel->tile_m);
    const uint64_t last = p->m - (rows - 1) * kernel->tile_m; /* rows of C in the last tile */
    return kernel->cluster_n == 2 && 2 * last <= kernel->tile_m ? 1 / (double)rows : 0;
}

/* The time of one step of k in `blocks` blocks at once. `new_bytes`: what a block reads from device
 * memory in a step if each element is read once. */
static double step_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                      const struct sm90_rates *r, const struct sm90_card *card, double blocks,
                      double new_bytes)
{
    const double parts = in_parts(p) ? 1.5 : 1, products = in_parts(p) ? 3 : 1;
    const double x = parts * 128 * lines(kernel->tile_m, p->m) *
                     if_unaligned(p->lda, p->dtype, r->unaligned_a) *
                     (r->patches > 0 ? r->patches : 1);
    const double y = parts * 128 * lines(columns_copied(kernel, p), p->n) *
                     if_unaligned(p->ldb, p->dtype, r->unaligned_b);
    const double gaps = kernel->consumers == 1 ? 1 + r->gaps : 1;
    const double boxes = kernel->half_box && kernel->consumers > 1 && !p->transb && r->half_box > 0
                             ? r->half_box
                             : 1;
    const double multiply = products * area_of(kernel) * r->multiply_us * gaps * boxes;
    /* Each instruction reads 32 bytes of k of 64 lines of the left operand and of all lines of the
     * right one. */
    const uint32_t left = kernel->swapped ? kernel->tile_n : kernel->tile_m;
    const uint32_t right = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    const double instructions = products * left / 64 * 4;
    const double shared =
        (parts * 128 * (left + right) + instructions * 32 * (64 + right)) / r->shared_bytes_per_us;
    /* Data that a cluster shares is read once. */
    const double read = x / kernel->cluster_n + y / kernel->cluster_m;
    const double from_l2 = blocks * read / r->l2_bytes_per_us;
    /* One thread issues the copies of a block of one consumer unless at most half of the
     * multiprocessors have a block (TWO_PRODUCERS of gemm.cuh). */
    const bool one_producer = kernel->consumers == 1 && 2 * blocks > card->multiprocessors;
    const double slower = one_producer ? 1 + r->one_producer : 1;
    const double from_dram = slower * blocks * fmax(new_bytes, (x + y) * far_share(p, r, card)) /
                             (r->dram_bytes_per_us * card->memory_rate);
    const double longest = fmax(fmax(multiply, shared), fmax(from_l2, from_dram));
    return (longest + MULTIPLY_SHOWS * multiply) * (1 + r->empty_half * empty_halves(kernel, p));
}

/* The time to finish and store a tile. */
static double finish_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                        const struct sm90_rates *r)
{
    const bool plain = p->beta == 0 && p->bias == NULL && p->act == GEMM_ACT_NONE;
    const uint32_t consumers = kernel->pingpong ? 1 : kernel->consumers;
    return area_of(kernel) * (r->store_us + (dtype_size(p->out) == 4 ? STORE_32_US : 0) +
                              (plain ? 0 : r->epilogue_us * 2 / consumers));
}

/* The kernel as it computes half tiles. In a ping-pong block one consumer computes the half tile,
 * and nothing follows it. */
static struct sm90_kernel for_halves(const struct sm90_kernel *kernel)
{
    struct sm90_kernel half = *kernel;
    half.tile_m /= 2;
    half.consumers = kernel->pingpong ? 1 : kernel->consumers;
    half.pingpong = false;
    return half;
}

double sm90_decompose_us(const struct gemm_problem *p, double operands)
{
    return in_parts(p) ? operands * (sizeof(float) + PARTS_ELEMENT_BYTES) / PARTS_BYTES_PER_US : 0;
}

double sm90_model_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                     const struct sm90_rates *r, const struct sm90_card *card, double operands)
{
    const uint64_t sharing = kernel->split ? split_k_chunks(p) : 1; /* blocks that share a tile */
    const uint64_t cluster = kernel->cluster_m * kernel->cluster_n * sharing;
    const struct sm90_tile_rows rows = sm90_tile_rows(kernel, p, card);
    const uint64_t columns = size_blocks(p->n, (uint64_t)kernel->tile_n * kernel->cluster_n);
    const uint64_t tiles = rows.whole * columns * p->batch * cluster;
    const uint64_t halves = rows.half * columns;
    const double work = (double)tiles + (double)halves / 2; /* in whole tiles */
    const uint64_t usable = cluster > 2 ? card->multiprocessors - card->multiprocessors / IDLE_OF
                                        : card->multiprocessors;
    const uint64_t blocks = usable / cluster * cluster; /* that run at once */
    const uint64_t waves = halves > 0 ? size_blocks(tiles, blocks) : tiles / blocks;
    const uint64_t rest = halves > 0 ? 0 : tiles % blocks;
    const double steps = (double)size_blocks(size_blocks(p->k, kernel->tile_k), sharing);
    const double element_bytes = in_parts(p) ? PARTS_ELEMENT_BYTES : dtype_size(p->dtype);
    const double new_bytes = operands * element_bytes / (work * steps);
    const double tile_us = steps * step_us(kernel, p, r, card, (double)blocks, new_bytes);
    const double stored_us = finish_us(kernel, p, r);
    /* If finishing takes longer than multiplying, two tiles of a ping-pong block take the time to
     * multiply one and to finish it. */
    const double waits_us =
        kernel->pingpong ? fmax(PINGPONG_SHOWS * stored_us, (stored_us - tile_us) / 2) : stored_us;
    const uint64_t changes = waves - (rest == 0 && halves == 0); /* of tiles, in a block */
    double us = r->launch_us + (double)waves * tile_us + (double)changes * (waits_us + r->tile_us) +
                (halves > 0 ? stored_us / 2 : stored_us);
    if (rest > 0)
        us += steps * step_us(kernel, p, r, card, (double)rest, new_bytes);
    if (halves > 0) {
        const struct sm90_kernel half = for_halves(kernel);
        const double at_once = (double)(halves < blocks ? halves : blocks);
        us += steps * step_us(&half, p, r, card, at_once, new_bytes);
    }
    if (kernel->cluster_m * kernel->cluster_n > 1)
        us += r->cluster_us;
    if (kernel->split)
        us += (double)(waves + (rest > 0)) * r->split_us;
    return us + sm90_decompose_us(p, operands);
}
