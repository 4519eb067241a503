/*
 * arguments.h - the parameters of the GEMM kernels of sm_90a. launch.c fills the struct in, and
 * gemm.cuh reads it.
 *
 * The kernels compute C = X * Y with X = op(A) [m, k] and Y = op(B) [k, n].
 */
#ifndef KERNELS_CUDA_SM90_GEMM_ARGUMENTS_H
#define KERNELS_CUDA_SM90_GEMM_ARGUMENTS_H

#include <cuda.h>
#include <stdint.h>

enum sm90_out { SM90_OUT_F32, SM90_OUT_F16, SM90_OUT_BF16, SM90_OUT_I32 };

/* An operand of f32 as the caller has it, for sums that its parts cannot give. Steps in elements,
 * from row of C (column, for B) to the next, from k to the next, from problem to problem. */
struct sm90_f32_operand {
    const float *data;
    int64_t line_step, k_step, batch_step;
};

struct sm90_arguments {
    /* x_end, y_end: for tiles of which rows or columns are missing, in boxes no higher than what is
     * there. The same as x, y where boxes are not along k or a cluster shares them. */
    CUtensorMap x, y, x_end, y_end, c;
    uint32_t x_bytes, y_bytes, x_end_bytes, y_end_bytes; /* that arrive for one stage */
    /* What all blocks together ask for into the L2 while kernels before still run: so many bytes
     * from the start of each operand. */
    const void *x_data, *y_data;
    uint32_t x_ahead_bytes, y_ahead_bytes;
    uint32_t y_once;     /* whether one tile alone reads each piece of Y */
    const void *bias;    /* [n] of type out, or NULL */
    const void *c0;      /* NULL if beta is 0 */
    uint32_t c0_aligned; /* whether 8 elements from a column that is a multiple of 8 are */
    void *c_data;
    int64_t ldc, ldc0, stride_c, stride_c0; /* elements */
    uint32_t m, n;                          /* of C */
    uint32_t k, k_tiles;
    uint32_t chunk_tiles; /* of k, that are summed before they are added to those before */
    /* The walk over tiles, in tiles of a whole cluster: `band` rows of tiles are walked together,
     * column by column, so that what runs at once shares its operands in L2. */
    uint32_t tile_rows, tile_columns, tiles, band;
    float alpha, beta;
    int32_t alpha_int, beta_int;
    uint32_t out; /* enum sm90_out */
    uint32_t act; /* as enum gemm_act of proto/gemm_request.h */
    /* Whether nothing but alpha follows the sum, so that tiles can leave by TMA. */
    uint32_t plain;
    /* Whether all that follows needs no C0 and results have 16 bits, so that sums can be finished
     * in the registers they are in. */
    uint32_t in_place;
    struct sm90_f32_operand a, b; /* f32 only */
};

#endif
