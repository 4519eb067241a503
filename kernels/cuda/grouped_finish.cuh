/*
 * grouped_finish.cuh - from a warp's sums to C.
 *
 * Sums are turned round in the warp's own part of shared memory such that a lane has a column, and
 * loads and stores are of whole rows.
 */
#ifndef KERNELS_CUDA_GROUPED_FINISH_CUH
#define KERNELS_CUDA_GROUPED_FINISH_CUH

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/grouped_load.cuh"

namespace grouped
{

/* One element of op(A) * op(B) of f32 as a chain. */
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

/* `row` and `column` are the part's first in C. */
template <typename Out, typename Sums>
static __device__ __forceinline__ void finish(const struct grouped_entry &e, uint32_t row,
                                              uint32_t column, char *slabs, const Sums &sums,
                                              const struct part &part)
{
    using compute = typename epilogue<Out>::compute;
    constexpr uint32_t pitch = WARP_TILE + 16 / sizeof(compute), batch = 8;
    constexpr uint32_t slabs_needed = GROUPED_SLABS_NEEDED(sizeof(compute));
    static_assert(WARP_TILE * pitch * sizeof(compute) <= slabs_needed * SLAB_BYTES / 4,
                  "a warp's part of the slabs holds its sums");
    const epilogue<Out> finish(e.alpha, e.beta, (enum gemm_act)e.act, e.bias, e.c0, e.c, e.ldc0,
                               e.ldc);
    const uint32_t warp = thread() / 32, lane = thread() % 32;
    compute *values = (compute *)(slabs + warp * (slabs_needed * SLAB_BYTES / 4)); // [32][pitch]

    sums.put(values, pitch, part);
    bool recompute = false;
    if constexpr (!Sums::EXACT_RANGE)
        recompute = __any_sync(~0u, !sums.all_finite());
    __syncwarp();
    if (lane >= part.columns)
        return;
    column += lane;
    if constexpr (!Sums::EXACT_RANGE)
        if (recompute)
#pragma unroll 1
            for (uint32_t i = 0; i < part.rows; i++)
                if (!isfinite(values[i * pitch + lane]))
                    values[i * pitch + lane] = chain(e, row + i, column);
    if (finish.c0 == nullptr && finish.bias == nullptr && finish.act == GEMM_ACT_NONE) {
        Out *c = finish.c + (uint64_t)row * finish.ldc + column;
        const compute *value = values + lane;
#pragma unroll 1
        for (uint32_t i = 0; i < part.rows; i += batch)
#pragma unroll
            for (uint32_t j = 0; j < batch; j++) {
                if (i + j < part.rows)
                    narrow(finish.alpha * *value, c);
                value += pitch;
                c += finish.ldc;
            }
        return;
    }
    const compute bias = finish.bias != nullptr ? (compute)widen(finish.bias[column]) : (compute)0;
#pragma unroll 1
    for (uint32_t i = 0; i < part.rows; i += batch) {
        const uint32_t rows = part.rows - i < batch ? part.rows - i : batch;
        compute c0[batch]; // all loads before their first use
#pragma unroll
        for (uint32_t j = 0; j < batch; j++)
            c0[j] = finish.c0 != nullptr && j < rows
                        ? (compute)widen(finish.c0[(uint64_t)(row + i + j) * finish.ldc0 + column])
                        : (compute)0;
#pragma unroll
        for (uint32_t j = 0; j < batch; j++)
            values[(i + j) * pitch + lane] =
                finish.before_act(values[(i + j) * pitch + lane], c0[j], bias);
        if (finish.act != GEMM_ACT_NONE)
#pragma unroll 1
            for (uint32_t j = 0; j < rows; j++)
                values[(i + j) * pitch + lane] =
                    activate<compute>(finish.act, values[(i + j) * pitch + lane]);
        Out *c = finish.c + (uint64_t)(row + i) * finish.ldc + column;
#pragma unroll
        for (uint32_t j = 0; j < batch; j++)
            if (j < rows)
                narrow(values[(i + j) * pitch + lane], &c[j * finish.ldc]);
    }
}

} // namespace grouped

#endif
