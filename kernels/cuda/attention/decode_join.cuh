/*
 * decode_join.cuh - the second kernel of decode.cuh: a block combines the KV splits of one row, in
 * a fixed order, and writes a row of O and its lse.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_JOIN_CUH
#define KERNELS_CUDA_ATTENTION_DECODE_JOIN_CUH

#include "kernels/cuda/attention/decode.cuh"

namespace attention_decode
{

/* A warp's share of a row of O: each lane has 4 columns out of every 128, PARTS times. */
template <int PARTS> struct shared_row {
    softmax_row state;
    float4 sum[PARTS];
};

/* Combines every JOIN_WARPS-th KV split from `split` on. JOIN_DEPTH of them are loaded before the
 * first is used. `line` is the position of the row in KV split 0. */
template <int PARTS>
static __device__ __forceinline__ void combine_kv_splits(const arguments &p, uint64_t line,
                                                         uint32_t split, uint32_t end,
                                                         shared_row<PARTS> &row)
{
    const uint32_t lane = threadIdx.x % 32;
    for (; split < end; split += JOIN_WARPS * JOIN_DEPTH) {
        float2 state[JOIN_DEPTH];
        float4 sum[JOIN_DEPTH][PARTS];
#pragma unroll
        for (uint32_t s = 0; s < JOIN_DEPTH; s++) {
            const uint32_t number = split + s * JOIN_WARPS;
            const uint64_t at = line + (uint64_t)number * p.rows;
            state[s] = number < end ? p.states[at] : make_float2(-INFINITE, 0);
#pragma unroll
            for (uint32_t c = 0; c < PARTS; c++) {
                const uint32_t column = 128 * c + 4 * lane;
                sum[s][c] =
                    number < end && column < p.columns
                        ? *reinterpret_cast<const float4 *>(p.sums + at * p.columns + column)
                        : make_float4(0, 0, 0, 0);
            }
        }
        float most = row.state.most;
#pragma unroll
        for (uint32_t s = 0; s < JOIN_DEPTH; s++)
            most = fmaxf(most, state[s].x);
        const float base = base_of(most), again = exp2_fast(row.state.most - base);
        row.state.most = most;
        row.state.total *= again;
#pragma unroll
        for (uint32_t c = 0; c < PARTS; c++)
            row.sum[c] = times(row.sum[c], again);
#pragma unroll
        for (uint32_t s = 0; s < JOIN_DEPTH; s++) {
            const float factor = exp2_fast(state[s].x - base);
            row.state.total = __fmaf_rn(state[s].y, factor, row.state.total);
#pragma unroll
            for (uint32_t c = 0; c < PARTS; c++)
                add_times(row.sum[c], sum[s][c], factor);
        }
    }
}

/* Computes row `number` of O, counted through all heads of K and V. Called by a block. Its warps
 * take the KV splits in turn, and are combined in the order of the warps. */
template <typename Element, int WIDTH>
static __device__ __forceinline__ void join(const arguments &p, uint32_t number)
{
    constexpr int PARTS = WIDTH > 128 ? 2 : 1;
    __shared__ float2 states[JOIN_WARPS];
    __shared__ float4 sums[JOIN_WARPS][32 * PARTS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t kv_heads = p.a.heads / p.a.group;
    const uint32_t row = number % p.rows, unit = number / p.rows;
    const uint32_t entry = unit / kv_heads;
    const query at = query_of(p, row, unit % kv_heads);
    later_kernels_allow();
    earlier_kernels_wait();
    const lengths n = lengths_of(p.a, entry);
    const span keys = span_of(p.a, n, at.i);
    const bool sees = keys.first < keys.end;
    const uint32_t split_keys = kv_split_keys_of(p, n);
    const uint32_t first = (uint32_t)keys.first / split_keys;
    const uint32_t end = sees ? ((uint32_t)keys.end + split_keys - 1) / split_keys : first;
    shared_row<PARTS> mine = {{-INFINITE, 0}, {}};
    combine_kv_splits(p, (uint64_t)unit * p.kv_splits * p.rows + row, first + warp, end, mine);
    if (lane == 0)
        states[warp] = make_float2(mine.state.most, mine.state.total);
#pragma unroll
    for (int c = 0; c < PARTS; c++)
        sums[warp][32 * c + lane] = mine.sum[c];
    __syncthreads();

    softmax_row state = {-INFINITE, 0};
    float factors[JOIN_WARPS];
#pragma unroll
    for (uint32_t w = 0; w < JOIN_WARPS; w++)
        state.most = fmaxf(state.most, states[w].x);
#pragma unroll
    for (uint32_t w = 0; w < JOIN_WARPS; w++) {
        factors[w] = exp2_fast(states[w].x - base_of(state.most));
        state.total = __fmaf_rn(states[w].y, factors[w], state.total);
    }
    float lse;
    const float factor = finish_row(state, state.total, sees, lse);
    Element *to = const_cast<Element *>(row_at<Element>(p.a.o, p.a.o_steps, entry, at.head, at.i));
    bool all_finite = true;
#pragma unroll
    for (int c = 0; c < PARTS; c++) {
        const uint32_t column = threadIdx.x + c * JOIN_THREADS;
        float sum = 0;
#pragma unroll
        for (uint32_t w = 0; w < JOIN_WARPS; w++)
            sum = __fmaf_rn(reinterpret_cast<const float *>(sums[w])[column], factors[w], sum);
        const float value = sees ? sum * factor : 0;
        if (column < p.a.dv) {
            narrow(value, to + column);
            all_finite = all_finite && is_finite(value);
        }
    }
    if (p.a.lse != nullptr && threadIdx.x == 0)
        p.a.lse[((uint64_t)entry * p.a.heads + at.head) * p.a.sq + at.i] = lse;
    const bool finite = !__syncthreads_or(!all_finite);
    const bool again = sees && (is_far(state, state.total) ||
                                (!finite && state.total > 0 && is_finite(state.total)));
    if (again && threadIdx.x < 32)
        exact_row<Element>(p.a, n, entry, at.head, at.i, keys);
}

} // namespace attention_decode

#endif
