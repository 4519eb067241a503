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

/* An f32 operand as stored, for fused kernels and for sums that cannot be computed from parts. The
 * steps are distances in elements: from one row of A or column of B to the next, from one k to the
 * next, and from one problem to the next. */
struct sm90_f32_operand {
    const float *data;
    int64_t line_step, k_step, batch_step;
};

/* The scales of an operand, as struct gemm_scale of kernels/gemm.h. */
struct sm90_scale {
    const float *data;
    int64_t step, k_step, stride;
};

struct sm90_arguments {
    /* The operands as the copy engine sees them. x_end and y_end are for the last tile of rows or
     * columns: their boxes are no higher than the lines of the operand that exist. x_end equals x,
     * and y_end equals y, if the operand's lines are not along k, or if a cluster shares the boxes.
     * Where lines are not along k and no cluster shares the boxes, those boxes of the last tile
     * that hold no existing line are not copied. y_end may also be the boxes of the columns that
     * are left over at the end of each tile (HALF_BOX of gemm.cuh). x_half is for half tiles, if
     * there are any and the lines of X are along k; x_end is then for the last of their rows. */
    CUtensorMap x, y, x_end, y_end, x_half, c;
    uint32_t x_bytes, y_bytes, x_end_bytes, y_end_bytes, x_half_bytes; /* that a stage receives */
    /* The starts of the operands, and how many bytes from there on all blocks together prefetch
     * into the L2 while the previous kernel runs. */
    const void *x_data, *y_data;
    uint32_t x_ahead_bytes, y_ahead_bytes;
    uint32_t y_once;        /* whether each element of Y is read by one tile only */
    uint32_t two_producers; /* whether two threads issue copies, if the kernel can */
    const void *bias;       /* [n] of type out, or NULL */
    const void *c0;         /* NULL if beta is 0 */
    uint32_t c0_aligned;    /* whether each 8 elements of a row of C0 are aligned to 16 bytes */
    void *c_data;
    int64_t ldc, ldc0, stride_c, stride_c0; /* in elements */
    uint32_t m, n;                          /* of C */
    uint32_t k, k_tiles;  /* k in elements, and in stages of the ring (tile_k elements each) */
    uint32_t chunk_tiles; /* stages in a chunk of k; the sums of chunks are added in order */
    /* The order of tiles, counted in tiles of a complete cluster. `band` rows of tiles are
     * processed together, column by column, so that tiles that run at the same time share their
     * operands in the L2. Behind the tile_rows rows of whole tiles are half_rows rows of half tiles
     * (sm90_tile_rows), which are computed last; tile number whole_tiles is the first of them. */
    uint32_t tile_rows, tile_columns, tiles, band;
    uint32_t half_rows, whole_tiles;
    float alpha, beta;
    int32_t alpha_int, beta_int;
    uint32_t out; /* enum sm90_out */
    uint32_t act; /* as enum gemm_act of proto/gemm_request.h */
    /* Whether the epilogue is alpha alone, so that TMA can store the tiles. */
    uint32_t plain;
    /* Whether the epilogue needs no C0 and results have 16 bits, so that the epilogue is computed
     * in registers. */
    uint32_t in_place;
    struct sm90_f32_operand a, b;       /* f32 only */
    struct sm90_scale a_scale, b_scale; /* of kernels for scales only */
};

#endif
