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
 * part shows even if another is the longest. If the last rows of C are computed in half tiles
 * (sm90_tile_rows), the last wave is one of half tiles.
 */
#include "kernels/cuda/sm90/gemm/estimate.h"
#include "kernels/cuda/sm90/gemm/rates.h"
#include "kernels/cuda/sm90/gemm/split_k.h"
#include "kernels/cuda/sm90/grid.h"
#include "kernels/cuda/sm90/sm90.h"

#include <math.h>

const struct sm90_card sm90_h100_sxm = {.multiprocessors = 132, .memory_rate = 1, .l2_size = 1};

/* The constants that were fitted for problems such as this one. */
static const struct sm90_rates *rates_for(const struct gemm_problem *p)
{
    if (p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_TF32) {
        if (!p->transb)
            return &sm90_rates_tf32;
        return split_k_chunks(p) > 1 ? &sm90_rates_tf32_chunks : &sm90_rates_tf32_along_k;
    }
    if (p->dtype == GEMMD_I8 && p->scales == GEMM_SCALES_NONE)
        return &sm90_rates_i8;
    if (split_k_chunks(p) > 1)
        return &sm90_rates_chunks_16_bit;
    /* f16 with scales is f8 that was widened, and its kernels finish tiles as those of f8 do. */
    if (p->dtype == GEMMD_F8_E4M3 || (p->dtype == GEMMD_F16 && p->scales != GEMM_SCALES_NONE))
        return &sm90_rates_f8;
    /* Kernels of 16-bit types with results of 32 bits promote their sums (gemm.cuh), which takes
     * time that sm90_rates_16_bit does not contain. */
    if (dtype_size(p->dtype) == 2 && dtype_size(p->out) == 2)
        return &sm90_rates_16_bit;
    return &sm90_rates_others;
}

/* The constants for a card: those of device memory and of what stays in the L2 are in proportion to
 * the card's. */
static struct sm90_rates rates_on(const struct sm90_card *card, const struct sm90_rates *fitted)
{
    struct sm90_rates rates = *fitted;
    rates.dram_bytes_per_us *= card->memory_rate;
    rates.dram_once_bytes_per_us *= card->memory_rate;
    rates.dram_step_bytes_per_us *= card->memory_rate;
    rates.far_from_bytes *= card->l2_size;
    rates.far_to_bytes *= card->l2_size;
    return rates;
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
static double issue_factor(const struct sm90_kernel *kernel, const struct sm90_rates *r,
                           bool one_tile, bool half_boxes)
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
static double far_share(const struct gemm_problem *p, const struct sm90_rates *r)
{
    const double lines = (double)(p->m < p->n ? p->m : p->n);
    const double bytes = lines * (double)p->k * dtype_size(p->dtype);
    if (bytes <= r->far_from_bytes)
        return 0;
    return r->far_share *
           fmin(1, (bytes - r->far_from_bytes) / (r->far_to_bytes - r->far_from_bytes));
}

/* The time of one step of k in `blocks` blocks at once. `load` is how much of the launch the
 * multiprocessors multiply, and `waves` the waves of tiles, of which the last may be a part of one.
 * `new_bytes`: what a block reads from device memory in a step if each
 * element is read once. */
static double step_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                      const struct sm90_rates *r, double blocks, double multiprocessors,
                      double load, double waves, double new_bytes)
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
                            issue_factor(kernel, r, waves <= 1, kernel->half_box && !p->transb);
    /* Each instruction reads 32 bytes of k of 64 lines of the left operand and of all lines of the
     * right one. */
    const uint32_t left = kernel->swapped ? kernel->tile_n : kernel->tile_m;
    const uint32_t right = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    const double instructions = products * left / 64 * 4;
    const double shared =
        (parts * 128 * (left + right) + instructions * 32 * (64 + right)) / r->shared_bytes_per_us;
    const double receive = (x + y) / r->block_bytes_per_us;
    /* Data that a cluster shares is read once. */
    const double read = blocks * (x / kernel->cluster_n + y / kernel->cluster_m) /
                        r->l2_bytes_per_us * (1 + r->l2_drift * (1 - 1 / fmax(1, waves)));
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
static double fused_step_us(const struct sm90_kernel *kernel, const struct sm90_rates *r,
                            double rows, double blocks)
{
    const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float) * blocks;
    double us = bytes / r->dram_bytes_per_us;
    for (size_t i = 0; i < sizeof FUSED_STEPS / sizeof *FUSED_STEPS; i++) {
        if (FUSED_STEPS[i].tile_m == kernel->tile_m && FUSED_STEPS[i].tile_n == kernel->tile_n) {
            const double row_us = FUSED_STEPS[i].row_us;
            us = fmax(us + row_us * (rows - 1),
                      fmax(FUSED_STEPS[i].min_us, FUSED_STEPS[i].us + row_us * rows));
        }
    }
    return us;
}

/* The time of a kernel for one row, which computes one tile in each block. */
static double one_row_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                         const struct sm90_card *card)
{
    const struct sm90_rates rates = rates_on(card, &sm90_rates_others);
    size_t i = 0;
    while (ONE_ROW_STEPS[i].tile_n != kernel->tile_n)
        i++;
    const uint64_t tiles = ceil_div(p->n, kernel->tile_n) * p->batch;
    const uint64_t rounds = tiles / card->multiprocessors, rest = tiles % card->multiprocessors;
    const uint64_t later_rounds = (tiles - 1) / card->multiprocessors;
    const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float);
    const double each_us = bytes / (ONE_ROW_READS * rates.dram_bytes_per_us);
    const double round_us = fmax(ONE_ROW_STEPS[i].us, each_us * card->multiprocessors);
    const double rest_us = rest > 0 ? fmax(ONE_ROW_STEPS[i].us, each_us * (double)rest) : 0;
    return rates.launch_us + ONE_ROW_NEXT_US * (double)later_rounds +
           (double)ceil_div(p->k, kernel->tile_k) * ((double)rounds * round_us + rest_us);
}

/* The time of a streamed kernel, which computes one tile in each block. */
static double streamed_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                          const struct sm90_card *card)
{
    const struct sm90_rates rates = rates_on(card, &sm90_rates_others);
    size_t i = 0;
    while (STREAMED_STEPS[i].tile_m != kernel->tile_m)
        i++;
    const uint64_t at_once = (uint64_t)card->multiprocessors * STREAMED_STEPS[i].blocks;
    const double steps = (double)ceil_div(p->k, kernel->tile_k);
    double us = rates.launch_us;
    for (uint64_t tiles = ceil_div(p->n, kernel->tile_n) * p->batch; tiles > 0;) {
        /* All whole rounds of blocks take the same time. */
        const uint64_t rounds = tiles < at_once ? 1 : tiles / at_once;
        const uint64_t blocks = tiles < at_once ? tiles : at_once;
        const double each = (double)ceil_div(blocks, card->multiprocessors);
        const double bytes = (double)kernel->tile_n * kernel->tile_k * sizeof(float);
        const double reading = bytes * (double)blocks / rates.dram_bytes_per_us;
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
    const struct sm90_rates rates = rates_on(card, &sm90_rates_others);
    const uint32_t multiprocessors = card->multiprocessors;
    const uint64_t tiles =
        ceil_div(p->m, kernel->tile_m) * ceil_div(p->n, kernel->tile_n) * p->batch;
    const uint64_t waves = tiles / multiprocessors, rest = tiles % multiprocessors;
    const double rows = (double)(p->m < kernel->tile_m ? p->m : kernel->tile_m);
    const double steps = (double)ceil_div(p->k, kernel->tile_k);
    double us = rates.launch_us +
                (double)waves * steps * fused_step_us(kernel, &rates, rows, multiprocessors);
    if (rest > 0) {
        us += steps * fused_step_us(kernel, &rates, rows, (double)rest);
    }
    return us;
}

/* The time to store a tile of 128 x 256. */
static double store_us(const struct gemm_problem *p, const struct sm90_rates *r)
{
    if (dtype_size(p->out) == 4)
        return r->store_us + r->store_32_us;
    /* The kernels of i8 with scales compute the epilogue of 16-bit results in registers, as those
     * of f8 do. */
    if (p->dtype == GEMMD_I8 && p->scales != GEMM_SCALES_NONE)
        return sm90_rates_f8.store_us;
    return r->store_us;
}

/* The time that an epilogue of more than alpha adds to storing a tile. `area`: the size of the
 * tile, 1 for 128 x 256. */
static double epilogue_us(const struct sm90_kernel *kernel, const struct sm90_rates *r, double area)
{
    const bool alone = kernel->pingpong || kernel->consumers == 1;
    return area * (alone && r->finish_alone_us > 0 ? r->finish_alone_us : r->finish_us);
}

/* The time from the last product of a tile to the first product of the block's next tile.
 * `finish_us`: the time to finish and store the tile. */
static double between_tiles_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                               const struct sm90_rates *r, double finish_us)
{
    const double unaligned_us = is_unaligned(p->lda, p->dtype) ? r->unaligned_tile_us : 0;
    if (kernel->pingpong)
        return r->tile_pingpong_us + r->finish_shows * finish_us + unaligned_us;
    return r->tile_us + finish_us + unaligned_us;
}

/* The factor by which finishing a tile takes longer (half_box_finish). */
static double finish_factor(const struct sm90_kernel *kernel, const struct sm90_rates *r)
{
    return kernel->tile_n % 64 != 0 && r->half_box_finish > 0 ? r->half_box_finish : 1;
}

/* The time for which a ping-pong block computes no products, for each tile. A consumer finishes a
 * tile while the other one multiplies. If finishing takes longer, two tiles take the time to
 * multiply one and to finish it. `multiply_us`: the time of the products of a tile. */
static double waits_us(const struct sm90_kernel *kernel, const struct sm90_rates *r,
                       double finish_us, double multiply_us)
{
    if (!kernel->pingpong)
        return 0;
    return fmax(0, r->pingpong_finish * finish_us - multiply_us - r->tile_pingpong_us) / 2;
}

/* The part of the rate of device memory that `tiles` tiles reach (idle_reads, one_producer). Blocks
 * of one consumer have two producers if at most half of the multiprocessors have a block. */
static double reading_rate(const struct sm90_kernel *kernel, const struct sm90_rates *r,
                           double tiles, double waves, uint32_t multiprocessors)
{
    if (kernel->consumers == 1 && 2 * tiles <= multiprocessors)
        return 1;
    const double rate = kernel->consumers == 1 ? 1 - r->one_producer : 1;
    return rate - r->idle_reads * (1 - tiles / (waves * multiprocessors));
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

/* The time of a launch. `operands`: elements of A and B that are read from device memory. */
static double estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *p,
                          const struct sm90_rates *fitted, const struct sm90_card *card,
                          double operands)
{
    if (kernel->fused && kernel->consumers == 0 && kernel->tile_m == 1) {
        return one_row_us(kernel, p, card);
    }
    if (kernel->fused && kernel->consumers == 0) {
        return streamed_us(kernel, p, card);
    }
    if (kernel->fused) {
        return fused_us(kernel, p, card);
    }
    const struct sm90_rates rates = rates_on(card, fitted), *r = &rates;
    const uint32_t multiprocessors = card->multiprocessors;
    const uint64_t chunks = kernel->chunks ? split_k_chunks(p) : 1;
    const uint64_t sharing = kernel->split ? chunks : 1; /* blocks that share a tile */
    const uint64_t cluster = kernel->cluster_m * kernel->cluster_n * sharing;
    const struct sm90_tile_rows rows = sm90_tile_rows(kernel, p, card);
    const uint64_t columns = ceil_div(p->n, (uint64_t)kernel->tile_n * kernel->cluster_n);
    const uint64_t tiles = rows.whole * columns * p->batch * cluster;
    const uint64_t halves = rows.half * columns;
    const double work = (double)tiles + (double)halves / 2; /* in whole tiles */
    const uint64_t usable =
        cluster > 2 ? multiprocessors - multiprocessors / IDLE_OF : multiprocessors;
    const uint64_t blocks = usable / cluster * cluster; /* that run at once */
    const uint64_t waves = halves > 0 ? ceil_div(tiles, blocks) : tiles / blocks;
    const uint64_t rest = halves > 0 ? 0 : tiles % blocks;
    const double length = (double)(waves + (rest > 0)) + (halves > 0 ? 0.5 : 0); /* in waves */
    const double all_waves = work / (double)blocks;
    /* How much of the launch the multiprocessors multiply: the power that lowers the clock is that
     * of the whole launch. The older constants were fitted to the first wave alone. */
    const double load =
        r->loaded_k_bytes > 0 ? work / (length * multiprocessors) : fmin(1, all_waves);
    const double steps = (double)ceil_div(ceil_div(p->k, kernel->tile_k), sharing);
    const bool plain = p->beta == 0 && p->bias == NULL && p->act == GEMM_ACT_NONE;
    const double area = kernel->tile_m * kernel->tile_n / (128.0 * 256);
    const double unaligned_c = if_unaligned(p->ldc, p->out, r->unaligned_c);
    const double finish_us = finish_factor(kernel, r) * unaligned_c *
                             (store_us(p, r) * area + (plain ? 0 : epilogue_us(kernel, r, area)));
    const double between_us = between_tiles_us(kernel, p, r, finish_us);
    const double chunks_us = /* for each tile */
        kernel->split ? r->split_us + r->split_tile_us * area : r->chunk_us * (double)(chunks - 1);
    const double element_bytes = in_parts(p) ? 3 * 2 : dtype_size(p->dtype);
    const double new_bytes = operands * element_bytes / (work * steps);
    const double tile_us = /* of a whole wave */
        steps * step_us(kernel, p, r, (double)blocks, multiprocessors, load, all_waves, new_bytes);
    const uint64_t changes = waves - (rest == 0 && halves == 0); /* of tiles, in a block */
    double busy = (double)(waves + (rest > 0)) * chunks_us + (double)waves * tile_us +
                  (double)changes * (between_us + waits_us(kernel, r, finish_us, tile_us));
    if (rest > 0) {
        busy += steps *
                step_us(kernel, p, r, (double)rest, multiprocessors, load, all_waves, new_bytes);
    }
    if (halves > 0) {
        const struct sm90_kernel half = for_halves(kernel);
        const double at_once = (double)(halves < blocks ? halves : blocks);
        busy += steps * step_us(&half, p, r, at_once, multiprocessors, load, all_waves, new_bytes);
    }
    const double results =
        (double)p->batch * (double)p->m * (double)p->n * dtype_size(p->out) * unaligned_c;
    const bool once = reads_b_once(kernel, p, rows.whole + rows.half);
    const double places = halves > 0 ? length : (double)ceil_div(tiles, multiprocessors);
    const double rate = (once ? r->dram_once_bytes_per_us : r->dram_bytes_per_us) *
                        reading_rate(kernel, r, work, places, multiprocessors);
    const double reading =
        (operands * element_bytes + (once ? 1 - r->results_stay : 1) * results) / rate;
    const double parts_us =
        in_parts(p) ? operands * (sizeof(float) + element_bytes) / PARTS_BYTES_PER_US : 0;
    return parts_us + r->launch_us + (cluster > 1 ? r->cluster_us : 0) +
           (halves > 0 ? finish_us / 2 : finish_us) + fmax(busy, reading) +
           r->shorter_shows * fmin(busy, reading);
}

double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        const struct sm90_card *card)
{
    const struct gemm_problem *p = problem;
    const double operands = (double)p->batch * (double)p->k * (double)(p->m + p->n);
    return estimate_us(kernel, p, rates_for(p), card, operands);
}

double sm90_estimate_patches_us(const struct sm90_kernel *kernel,
                                const struct gemm_problem *problem, const struct sm90_card *card,
                                double operands)
{
    const bool bits_16 = dtype_size(problem->dtype) == 2;
    return estimate_us(kernel, problem, bits_16 ? &sm90_rates_patches_16_bit : &sm90_rates_others,
                       card, operands);
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
