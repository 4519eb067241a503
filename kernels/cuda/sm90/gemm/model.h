/*
 * model.h - the model of the GPU that tiles are chosen by: how long a launch takes.
 *
 * A launch takes a constant time (launch_us), the time in which its blocks compute, and the time to
 * store the last tile. The tiles are computed in waves, a wave being one tile in each block that
 * runs at once. A tile takes its steps of k, and the time to store it until the next tile begins.
 * In a ping-pong block the other consumer multiplies meanwhile, so a tile is waited for only if
 * storing it takes longer than multiplying the next one. A step of k takes the longest of four
 * times: multiplying, shared memory, copies from the L2 into all multiprocessors, and reading
 * device memory. Of multiplying a part shows even if another is the longest. If the last rows of C
 * are computed in half tiles (sm90_tile_rows), the last wave is one of half tiles.
 *
 * tests/bench/fit_tiles.py fits the constants (rates.h) to the times of all tiles on lists of
 * shapes.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_MODEL_H
#define KERNELS_CUDA_SM90_GEMM_MODEL_H

#include "kernels/cuda/sm90/gemm/rates.h"
#include "kernels/cuda/sm90/sm90.h"

/* The time in microseconds of a kernel that computes tiles with wgmma, thus not of the kernels of
 * f32 with `fused`. `operands`: the elements of A and B that are read from device memory. For f32
 * in parts the time includes the decomposition. Pure; pointers are ignored. */
double sm90_model_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                     const struct sm90_rates *rates, const struct sm90_card *card, double operands);

#endif
