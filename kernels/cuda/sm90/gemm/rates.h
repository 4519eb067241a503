/*
 * rates.h - the constants of the model behind sm90_estimate_us (choose.c).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_RATES_H
#define KERNELS_CUDA_SM90_GEMM_RATES_H

/* The constants of the model. All times are in microseconds. Factors have no unit, and a part that
 * "shows" is the share of a time that adds to the total although something else takes longer. */
struct sm90_rates {
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
    /* In place of finish_us where one consumer computes the tile. Consumers that share a tile keep
     * the special functions of the multiprocessor busy; one consumer alone does not. 0: finish_us
     * is used. */
    double finish_alone_us;
    /* From the end of storing a tile to the first product of the block's next tile, if the
     * consumers share a tile. */
    double tile_us;
    /* The same for ping-pong; and the part of storing a tile that shows although the other consumer
     * multiplies meanwhile. */
    double tile_pingpong_us, finish_shows;
    /* The factor by which a ping-pong block takes longer to finish a tile than finish_us and
     * store_us say, because the other consumer multiplies meanwhile. 0: finishing is hidden,
     * however long it takes. */
    double pingpong_finish;
    /* The factor by which finishing a tile takes longer if its columns are no multiple of 64: its
     * results are stored in pieces of 32 columns. 0: it takes no longer. */
    double half_box_finish;
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
    /* The part by which copies from the L2 take longer after many waves than in the first one, in
     * which blocks that share lines of operands copy them at the same time. */
    double l2_drift;
    /* The rate of device memory; dram_once if B is read once and evicted from the L2 first. */
    double dram_bytes_per_us, dram_once_bytes_per_us;
    /* How much of the rate of device memory a launch loses to idle multiprocessors: the product of
     * idle_reads and the share of places in the waves of tiles that have no tile. A launch loses
     * nothing if two threads of each block issue copies (TWO_PRODUCERS of gemm.cuh). */
    double idle_reads;
    /* The part of the rate of device memory that a launch loses if its blocks have one consumer and
     * one thread that issues copies. */
    double one_producer;
    /* The rate of device memory within a step of k. With this rate, the last wave of a launch that
     * device memory bounds takes longer if it has few blocks, which compute longer than they read.
     * 0: steps do not wait for device memory. */
    double dram_step_bytes_per_us;
    /* The rate of device memory into one of two neighbouring multiprocessors if the other has no
     * block, and into both together. A wave ends with its slowest block, so the rate into both
     * counts even if only one pair has two blocks. 0: no limit. */
    double dram_alone_bytes_per_us, dram_pair_bytes_per_us;
    /* Blocks that share lines of operands do not keep in step. If both operands are much larger
     * than the L2, some of what a tile reads has therefore left the L2 before the tile reads it.
     * That share is 0 as long as the smaller operand has far_from_bytes at most, and far_share from
     * far_to_bytes on. */
    double far_from_bytes, far_to_bytes, far_share;
    /* The part of the shorter of two times, computing and passing device memory, that shows. */
    double shorter_shows;
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

/* Each was fitted to measurements of one kind of products on an H100 SXM (rates.c). */
extern const struct sm90_rates sm90_rates_16_bit, sm90_rates_f8, sm90_rates_tf32,
    sm90_rates_tf32_along_k, sm90_rates_tf32_chunks, sm90_rates_i8, sm90_rates_chunks_16_bit,
    sm90_rates_others, sm90_rates_patches_16_bit;

#endif
