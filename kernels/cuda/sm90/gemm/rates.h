/*
 * rates.h - the constants of the model that sm90_estimate_us chooses tiles by (model.h).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_RATES_H
#define KERNELS_CUDA_SM90_GEMM_RATES_H

#include "kernels/gemm.h"

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
    /* The factors by which reading A and B takes longer if rows do not start at multiples of 128
     * bytes. */
    double unaligned_a, unaligned_b;
};

extern const struct sm90_rates sm90_rates_16_bit, sm90_rates_16_bit_chunks, sm90_rates_f8,
    sm90_rates_i8, sm90_rates_tf32, sm90_rates_tf32_swapped, sm90_rates_others;

/* The constants for a product. Pure. */
const struct sm90_rates *sm90_rates_for(const struct gemm_problem *problem);

#endif
