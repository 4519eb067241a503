/* The constants of each kind of products (model.h). tests/bench/fit_tiles.py replaces those that
 * it fits. kernels/experiments/choice.md says where the other constants are from. */
#include "kernels/cuda/sm90/gemm/model.h"

#include "kernels/cuda/sm90/gemm/split_k.h"
#include "proto/dtype.h"

const struct sm90_rates sm90_rates_16_bit = {
    .launch_us = 1.32,
    .cluster_us = 12.9,
    .store_us = 3.18,
    .epilogue_us = 1.79,
    .tile_us = 0.327,
    .multiply_us = 0.483,
    .gaps = 0.553,
    .half_box = 1.14,
    .shared_bytes_per_us = 295e3,
    .l2_bytes_per_us = 15e6,
    .dram_bytes_per_us = 5.01e6,
    .one_producer = 0.322,
    .unaligned_a = 1,
    .unaligned_b = 2.5,
};

/* For k that one launch computes in chunks. */
const struct sm90_rates sm90_rates_16_bit_chunks = {
    .launch_us = 1.15,
    .split_us = 3.38,
    .store_us = 7.68,
    .epilogue_us = 2.14,
    .tile_us = 4.93,
    .multiply_us = 0.133,
    .shared_bytes_per_us = 250e3,
    .l2_bytes_per_us = 13e6,
    .dram_bytes_per_us = 4.55e6,
    .unaligned_a = 1,
    .unaligned_b = 2.5,
};

/* For f8, and for f8 that was widened to f16 and has scales. */
const struct sm90_rates sm90_rates_f8 = {
    .launch_us = 2.14,
    .cluster_us = 6.2,
    .store_us = 2.14,
    .epilogue_us = 2.14,
    .tile_us = 0.156,
    .multiply_us = 0.458,
    .gaps = 0.272,
    .shared_bytes_per_us = 363e3,
    .l2_bytes_per_us = 13.5e6,
    .dram_bytes_per_us = 3.39e6,
    .unaligned_a = 1,
    .unaligned_b = 2.5,
};

const struct sm90_rates sm90_rates_i8 = {
    .launch_us = 1.61,
    .cluster_us = 1.71,
    .store_us = 4.14,
    .epilogue_us = 1,
    .multiply_us = 0.423,
    .shared_bytes_per_us = 325e3,
    .l2_bytes_per_us = 15.4e6,
    .dram_bytes_per_us = 3.37e6,
    .unaligned_a = 1.3,
    .unaligned_b = 1,
};

/* With B stored [n, k]. */
const struct sm90_rates sm90_rates_tf32 = {
    .launch_us = 0.362,
    .cluster_us = 10.4,
    .split_us = 3.81,
    .store_us = 5.63,
    .epilogue_us = 1,
    .tile_us = 0.578,
    .multiply_us = 0.203,
    .gaps = 2.44,
    .shared_bytes_per_us = 264e3,
    .l2_bytes_per_us = 13.2e6,
    .dram_bytes_per_us = 3.23e6,
    .far_share = 0.267,
    .unaligned_a = 1.3,
    .unaligned_b = 1.6,
};

/* With B stored [k, n], which is the left operand of the tensor core. */
const struct sm90_rates sm90_rates_tf32_swapped = {
    .launch_us = 2.02,
    .cluster_us = 3.2,
    .split_us = 3.48,
    .store_us = 2.74,
    .epilogue_us = 1,
    .multiply_us = 0.312,
    .shared_bytes_per_us = 282e3,
    .l2_bytes_per_us = 12.4e6,
    .dram_bytes_per_us = 3.4e6,
    .empty_half = 0.939,
    .unaligned_a = 1.3,
    .unaligned_b = 1.6,
};

/* For f32 in parts. */
const struct sm90_rates sm90_rates_f32 = {
    .launch_us = 2.5,
    .store_us = 2.55,
    .epilogue_us = 1,
    .multiply_us = 0.41,
    .gaps = 0.0715,
    .shared_bytes_per_us = 1.04e6,
    .l2_bytes_per_us = 9.72e6,
    .dram_bytes_per_us = 3.41e6,
    .unaligned_a = 1,
    .unaligned_b = 1,
};

/* For results of 32 bits of 16-bit types, whose kernels promote their sums (gemm.cuh). */
const struct sm90_rates sm90_rates_16_bit_to_32 = {
    .launch_us = 2.33,
    .store_us = 1.31,
    .epilogue_us = 1,
    .tile_us = 0.113,
    .multiply_us = 0.458,
    .gaps = 0.355,
    .shared_bytes_per_us = 521e3,
    .l2_bytes_per_us = 13.5e6,
    .dram_bytes_per_us = 4.27e6,
    .unaligned_a = 1,
    .unaligned_b = 1,
};

/* For convolutions (kernels/cuda/sm90/conv). */
const struct sm90_rates sm90_rates_conv_16_bit = {
    .launch_us = 2.48,
    .cluster_us = 1.64,
    .store_us = 2.79,
    .epilogue_us = 1,
    .tile_us = 3.35e-05,
    .multiply_us = 0.298,
    .shared_bytes_per_us = 491e3,
    .l2_bytes_per_us = 16e6,
    .dram_bytes_per_us = 1.84e6,
    .patches = 1.76,
    .unaligned_a = 1.57,
    .unaligned_b = 1,
};

const struct sm90_rates sm90_rates_conv_i8 = {
    .launch_us = 2.81,
    .cluster_us = 1.13,
    .store_us = 1.67,
    .epilogue_us = 1,
    .multiply_us = 0.531,
    .shared_bytes_per_us = 431e3,
    .l2_bytes_per_us = 13.1e6,
    .dram_bytes_per_us = 7.98e6,
    .unaligned_a = 3.12,
    .unaligned_b = 1,
};

const struct sm90_rates sm90_rates_conv_tf32 = {
    .launch_us = 2.5,
    .cluster_us = 3.05,
    .store_us = 7.92e-05,
    .epilogue_us = 1,
    .multiply_us = 0.456,
    .shared_bytes_per_us = 317e3,
    .l2_bytes_per_us = 22e6,
    .dram_bytes_per_us = 2.39e6,
    .patches = 2.57,
    .unaligned_a = 1.48,
    .unaligned_b = 1,
};

const struct sm90_rates *sm90_rates_for(const struct gemm_problem *p)
{
    if (p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_TF32)
        return p->transb ? &sm90_rates_tf32 : &sm90_rates_tf32_swapped;
    if (p->dtype == GEMMD_I8)
        return &sm90_rates_i8;
    if (p->dtype == GEMMD_F8_E4M3 || (p->dtype == GEMMD_F16 && p->scales != GEMM_SCALES_NONE))
        return &sm90_rates_f8;
    if (p->dtype == GEMMD_F32)
        return &sm90_rates_f32;
    if (dtype_size(p->out) != 2)
        return &sm90_rates_16_bit_to_32;
    return split_k_chunks(p) > 1 ? &sm90_rates_16_bit_chunks : &sm90_rates_16_bit;
}
