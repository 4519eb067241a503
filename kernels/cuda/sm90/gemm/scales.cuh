/*
 * scales.cuh - the scales of operands, applied to sums in the registers of the tensor core's
 * results (wgmma.cuh says which element a register holds).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_SCALES_CUH
#define KERNELS_CUDA_SM90_GEMM_SCALES_CUH

#include <stdint.h>

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/gemm/arguments.h"

namespace sm90
{

__device__ __forceinline__ float load_scale(const float *from)
{
    return __uint_as_float(ptx::load_global(from));
}

/* The addresses of the factors of a thread's two rows, row0 + lane / 4 (low) and 8 further (high).
 * Rows that do not exist get the factor of the last row. */
struct row_scales {
    const float *low, *high;

    __device__ __forceinline__ row_scales(const sm90_arguments &p, uint32_t lane, uint32_t batch,
                                          uint32_t row0)
    {
        const float *first = p.a_scale.data + batch * p.a_scale.stride;
        const uint32_t row = row0 + lane / 4;
        low = first + min(row, p.m - 1) * p.a_scale.step;
        high = first + min(row + 8, p.m - 1) * p.a_scale.step;
    }
};

/* Scales of rows and columns: the factors of a thread's two rows in each of BLOCKS blocks of 64
 * rows, and the factors of the N columns of a tile, of which each lane holds a 32nd. The factors
 * are loaded before the products of a tile, so that they have arrived after the products. */
template <int N, int BLOCKS> struct rowcol_scales {
    float low[BLOCKS], high[BLOCKS], columns[N / 32];

    __device__ __forceinline__ rowcol_scales(const sm90_arguments &p, uint32_t lane, uint32_t batch,
                                             uint32_t row0, uint32_t column0)
    {
        const float *first = p.b_scale.data + batch * p.b_scale.stride;
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS; i++) {
            const row_scales rows(p, lane, batch, row0 + 64 * i);
            low[i] = load_scale(rows.low);
            high[i] = load_scale(rows.high);
        }
#pragma unroll
        for (uint32_t i = 0; i < N / 32; i++) {
            columns[i] = load_scale(first + min(column0 + 32 * i + lane, p.n - 1));
        }
    }
    /* scaled = d times the factors, for block number `block` of 64 rows. The arrays may be the
     * same.
     */
    template <class T>
    __device__ __forceinline__ void apply(int block, const T (&d)[N / 2], float (&scaled)[N / 2],
                                          uint32_t lane) const
    {
#pragma unroll
        for (uint32_t i = 0; i < N / 8; i++) {
            const uint32_t from = 8 * (i % 4) + 2 * (lane % 4);
            const float even = __shfl_sync(0xffffffff, columns[i / 4], from);
            const float odd = __shfl_sync(0xffffffff, columns[i / 4], from + 1);
            scaled[4 * i] = (float)d[4 * i] * low[block] * even;
            scaled[4 * i + 1] = (float)d[4 * i + 1] * low[block] * odd;
            scaled[4 * i + 2] = (float)d[4 * i + 2] * high[block] * even;
            scaled[4 * i + 3] = (float)d[4 * i + 3] * high[block] * odd;
        }
    }
};

/* Takes the place of scales for operands without scales of that kind. */
struct no_scales {
    __device__ __forceinline__ no_scales(const sm90_arguments &, uint32_t, uint32_t, uint32_t,
                                         uint32_t)
    {
    }
};

/* The factors of 128 steps of k: of a thread's two rows, and of the columns. */
struct chain_factors {
    float low, high, of_columns;
};

/* Scales of blocks: next() reads the factors of the next 128 steps of k. All columns of a tile have
 * the same factor. */
struct block_scales {
    const float *low, *high, *of_columns;
    int64_t rows_step, columns_step;

    __device__ __forceinline__ block_scales(const sm90_arguments &p, uint32_t lane, uint32_t batch,
                                            uint32_t row0, uint32_t column0)
    {
        const row_scales rows(p, lane, batch, row0);
        low = rows.low;
        high = rows.high;
        of_columns = p.b_scale.data + batch * p.b_scale.stride +
                     min(column0, p.n - 1) / GEMM_SCALE_BLOCK * p.b_scale.step;
        rows_step = p.a_scale.k_step;
        columns_step = p.b_scale.k_step;
    }
    __device__ __forceinline__ chain_factors next()
    {
        const chain_factors factors = {load_scale(low), load_scale(high), load_scale(of_columns)};
        low += rows_step;
        high += rows_step;
        of_columns += columns_step;
        return factors;
    }
};

} // namespace sm90

#endif
