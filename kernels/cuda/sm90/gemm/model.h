/*
 * model.h - the model of the GPU that tiles are chosen by: how long a launch takes.
 *
 * A launch takes a constant time (launch_us), the time in which its blocks compute, and the time to
 * store the last tile. The tiles are computed in waves, a wave being one tile in each block that
 * runs at once. A tile takes its steps of k, and the time to store it until the next tile begins.
 * In a ping-pong block the other consumer multiplies meanwhile, so only a part of that time shows,
 * unless storing a tile takes longer than multiplying the next one. A step of k takes the longest
 * of four times: multiplying, shared memory, copies from the L2 into all multiprocessors, and
 * reading device memory. Of multiplying a part shows even if another is the longest. If the last
 * rows of C are computed in half tiles (sm90_tile_rows), the last wave is one of half tiles.
 *
 * tests/bench/fit_tiles.py fits the constants (rates.c) to the times of all tiles on lists of
 * shapes.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_MODEL_H
#define KERNELS_CUDA_SM90_GEMM_MODEL_H

#include "kernels/cuda/sm90/sm90.h"

/* The constants of the model, for one kind of products. All times are in microseconds on an H100
 * SXM. A constant that is 0 adds nothing. tests/bench/fit_tiles.py says which constants it fits. */
struct sm90_rates {
    double launch_us;  /* for every launch */
    double cluster_us; /* added to launch_us if blocks of a cluster share operands */
    double split_us;   /* for each tile whose chunks of k the blocks of a cluster share */
    double store_us;   /* to store the results, of 16 bits, of a tile of 128 x 256 */
    /* Added to store_us for an epilogue of more than alpha, if two consumers share the tile. One
     * consumer alone takes twice as long, and three take two thirds. */
    double epilogue_us;
    double tile_us;     /* from the end of storing a tile to the first product of the next one */
    double multiply_us; /* for the products of 128 bytes of k in a tile of 128 x 256 */
    /* The part of multiply_us that is added if one consumer computes a tile, because its wgmmas are
     * issued with gaps. */
    double gaps;
    /* The factor by which products take longer if the columns that are left over have products of
     * their own (HALF_BOX of gemm.cuh). 0: no longer. */
    double half_box;
    double shared_bytes_per_us; /* of shared memory, read by products and written by copies */
    double l2_bytes_per_us;     /* from the L2 into all multiprocessors together */
    double dram_bytes_per_us;   /* of device memory */
    /* The part by which reading device memory takes longer if one thread issues the copies of a
     * block, which it does for one consumer. */
    double one_producer;
    /* Blocks that share lines of operands do not keep in step, so some of what a tile reads has
     * left the L2 if both operands are much larger than the L2. The share of such reads. */
    double far_share;
    /* The part by which a step takes longer if two blocks share A, and the half of one of them lies
     * outside of A in all rows of tiles. */
    double empty_half;
    double patches; /* the factor by which copying A takes longer because A is patches of images */
    /* The factors by which reading A and B takes longer if rows do not start at multiples of 128
     * bytes. */
    double unaligned_a, unaligned_b;
};

extern const struct sm90_rates sm90_rates_16_bit, sm90_rates_16_bit_chunks, sm90_rates_f8,
    sm90_rates_i8, sm90_rates_tf32, sm90_rates_tf32_swapped, sm90_rates_f32,
    sm90_rates_16_bit_to_32, sm90_rates_conv_16_bit, sm90_rates_conv_i8, sm90_rates_conv_tf32;

/* The constants for a product, not for a convolution. Pure. */
const struct sm90_rates *sm90_rates_for(const struct gemm_problem *problem);

/* The time in microseconds of a kernel that computes tiles with wgmma, thus not of the kernels of
 * f32 with `fused`. `operands`: the elements of A and B that are read from device memory. For f32
 * in parts the time includes the decomposition. Pure; pointers are ignored. */
double sm90_model_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                     const struct sm90_rates *rates, const struct sm90_card *card, double operands);

/* The time in microseconds to decompose the operands of f32 in parts; 0 for other products. Pure;
 * pointers are ignored. */
double sm90_decompose_us(const struct gemm_problem *problem, double operands);

#endif
