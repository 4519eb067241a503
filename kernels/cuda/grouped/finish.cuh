/*
 * finish.cuh - from a warp's sums to C.
 *
 * The sums are transposed in the warp's own part of shared memory such that a lane has a column,
 * and loads and stores are of full rows.
 */
#ifndef KERNELS_CUDA_GROUPED_FINISH_CUH
#define KERNELS_CUDA_GROUPED_FINISH_CUH

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/grouped/load.cuh"

namespace grouped
{

/* Computes one element of op(A) * op(B) of f32 as a chain. */
static __device__ __forceinline__ float chain(const struct grouped_entry &e, uint32_t row,
                                              uint32_t column)
{
    const uint64_t step_a = e.transposed & 1 ? e.lda : 1, step_b = e.transposed & 2 ? 1 : e.ldb;
    const float *a = (const float *)e.a + (e.transposed & 1 ? row : (uint64_t)row * e.lda);
    const float *b = (const float *)e.b + (e.transposed & 2 ? (uint64_t)column * e.ldb : column);
    float sum = 0;
#pragma unroll 1
    for (uint32_t k = 0; k < e.k; k++) {
        sum = fmaf(*a, *b, sum);
        a += step_a;
        b += step_b;
    }
    return sum;
}

/* Sums times alpha; `column` and `value` are the lane's. */
template <uint32_t WIDTH, uint32_t PITCH, typename Out, typename Value>
static __device__ __forceinline__ void finish_plain(const epilogue<Out> &finish, uint32_t row,
                                                    uint32_t column, const Value *value,
                                                    const struct part &part)
{
    constexpr uint32_t batch = 8;
    const uint32_t lane = thread() % 32;
    const bool here = lane < part.columns;
    const bool beyond = WIDTH == 64 && lane + 32 < part.columns;
    Out *c = finish.c + (uint64_t)row * finish.ldc + column;
    const uint64_t ldc = (uint64_t)finish.ldc * part.row_step;
#pragma unroll 1
    for (uint32_t i = 0; i < part.rows; i += batch) {
#pragma unroll
        for (uint32_t j = 0; j < batch; j++) {
            if (here && i + j < part.rows)
                narrow(finish.alpha * value[j * PITCH], c);
            if (beyond && i + j < part.rows)
                narrow(finish.alpha * value[j * PITCH + 32], c + 32);
            c += ldc;
        }
        value += batch * PITCH;
    }
}

/* `row` and `column` are the part's first in C. */
template <typename Out, typename Sums>
static __device__ __forceinline__ void finish(const struct grouped_entry &e, uint32_t row,
                                              uint32_t column, char *slabs, const Sums &sums,
                                              const struct part &part)
{
    using compute = typename epilogue<Out>::compute;
    constexpr uint32_t width = Sums::PART_COLUMNS, batch = 8;
    constexpr uint32_t pitch = width + width / 2 / sizeof(compute);
    constexpr uint32_t slabs_needed = GROUPED_SLABS_NEEDED(sizeof(compute));
    static_assert(Sums::PART_ROWS * pitch * sizeof(compute) <= slabs_needed * SLAB_BYTES / 4,
                  "a warp's part of the slabs holds its sums");
    const epilogue<Out> finish(e.alpha, e.beta, (enum gemm_act)e.act, e.bias, e.c0, e.c, e.ldc0,
                               e.ldc);
    const uint32_t warp = thread() / 32, lane = thread() % 32;
    compute *values = (compute *)(slabs + warp * (slabs_needed * SLAB_BYTES / 4)); // [rows][pitch]

    sums.put(values, pitch, part);
    bool recompute = false;
    if constexpr (!Sums::EXACT_RANGE)
        recompute = __any_sync(~0u, !sums.all_finite());
    __syncwarp();
    if (!recompute && finish.c0 == nullptr && finish.bias == nullptr &&
        finish.act == GEMM_ACT_NONE) {
        finish_plain<width, pitch>(finish, row, column + lane, values + lane, part);
        return;
    }
#pragma unroll 1
    for (uint32_t at = lane; at < part.columns; at += 32) {
        if constexpr (!Sums::EXACT_RANGE)
            if (recompute)
#pragma unroll 1
                for (uint32_t i = 0; i < part.rows; i++)
                    if (!isfinite(values[i * pitch + at]))
                        values[i * pitch + at] = chain(e, row + i * part.row_step, column + at);
        const compute bias =
            finish.bias != nullptr ? (compute)widen(finish.bias[column + at]) : (compute)0;
#pragma unroll 1
        for (uint32_t i = 0; i < part.rows; i += batch) {
            const uint32_t rows = part.rows - i < batch ? part.rows - i : batch;
            const uint64_t first = row + i * part.row_step;
            compute c0[batch]; // all loads before their first use
#pragma unroll
            for (uint32_t j = 0; j < batch; j++)
                c0[j] =
                    finish.c0 != nullptr && j < rows
                        ? (compute)widen(
                              finish.c0[(first + j * part.row_step) * finish.ldc0 + column + at])
                        : (compute)0;
#pragma unroll
            for (uint32_t j = 0; j < batch; j++)
                values[(i + j) * pitch + at] =
                    finish.before_act(values[(i + j) * pitch + at], c0[j], bias);
            if (finish.act != GEMM_ACT_NONE)
#pragma unroll 1
                for (uint32_t j = 0; j < rows; j++)
                    values[(i + j) * pitch + at] =
                        activate<compute>(finish.act, values[(i + j) * pitch + at]);
            Out *c = finish.c + first * finish.ldc + column + at;
#pragma unroll
            for (uint32_t j = 0; j < batch; j++)
                if (j < rows)
                    narrow(values[(i + j) * pitch + at], &c[j * part.row_step * finish.ldc]);
        }
    }
}

} // namespace grouped

#endif
