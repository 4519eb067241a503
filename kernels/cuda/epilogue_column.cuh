/*
 * epilogue_column.cuh - the epilogue for sums in shared memory: each thread computes some rows of
 * one column.
 *
 * The 32 threads of a warp take neighbouring columns, so that loads and stores are of full lines
 * whatever the alignment of C.
 */
#ifndef KERNELS_CUDA_EPILOGUE_COLUMN_CUH
#define KERNELS_CUDA_EPILOGUE_COLUMN_CUH

#include "kernels/cuda/epilogue.cuh"

/* Finishes and stores one column of ROWS rows from `row` on, whose sums are sums[0], sums[PITCH]
 * and so on. Rows from m on do not exist. Four rows are finished at a time, so that loads of C0
 * overlap. Activations are long code and therefore called in a loop, in which the values pass
 * through the places of the sums. */
template <unsigned ROWS, unsigned PITCH, typename Out>
static __device__ __forceinline__ void finish_column(const epilogue<Out> &finish,
                                                     typename epilogue<Out>::compute *sums,
                                                     uint64_t row, uint64_t m, uint64_t column)
{
    using compute = typename epilogue<Out>::compute;
    constexpr unsigned BATCH = 4;
    static_assert(ROWS % BATCH == 0, "whole batches");
    const compute bias = finish.bias != nullptr ? widen(finish.bias[column]) : 0;
#pragma unroll 1
    for (unsigned r = 0; r < ROWS && row + r < m; r += BATCH, sums += BATCH * PITCH) {
        const unsigned rows = m - row - r < BATCH ? (unsigned)(m - row - r) : BATCH;
        Out *c = finish.c + (row + r) * finish.ldc + column;
        compute values[BATCH];
#pragma unroll
        for (unsigned j = 0; j < BATCH; j++) {
            const compute c0 = finish.c0 != nullptr && j < rows
                                   ? widen(finish.c0[(row + r + j) * finish.ldc0 + column])
                                   : 0;
            values[j] = finish.before_act(sums[j * PITCH], c0, bias);
        }
        if (finish.act != GEMM_ACT_NONE) {
#pragma unroll
            for (unsigned j = 0; j < BATCH; j++)
                sums[j * PITCH] = values[j];
#pragma unroll 1
            for (unsigned j = 0; j < rows; j++)
                sums[j * PITCH] = activate<compute>(finish.act, sums[j * PITCH]);
#pragma unroll
            for (unsigned j = 0; j < BATCH; j++)
                values[j] = sums[j * PITCH];
        }
#pragma unroll
        for (unsigned j = 0; j < BATCH; j++, c += finish.ldc)
            if (j < rows)
                narrow(values[j], c);
    }
}

#endif
