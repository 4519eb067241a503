/*
 * scores.cuh - from the products of a step over keys to weights, for flash_wgmma.cuh and
 * one_step.cuh: masks, and a softmax step that keeps the base of a row.
 *
 * The weight of a key is 2^(score - base), where `base` is a number of the row. Any base gives the
 * same result after the division by the total, as long as no weight overflows and not all of them
 * underflow. The online softmax (attention/rows.cuh) takes the largest score so far. To find it and
 * to scale the sums by the change of the base is more than a third of the instructions of a step.
 * weigh_kept leaves the base as it is: the largest score of the keys before, or less. Weights are
 * then greater than 1 if later scores are larger. Floating-point numbers keep their precision up to
 * the limit KEPT_SUM_MAX. Beyond this limit the weights are divided by a power of 2 (shift_base),
 * and beyond SHIFTED_SUM_MAX, where weights may have overflowed, the products are computed again
 * (multiply_again), and the online softmax gets them.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_SCORES_CUH
#define KERNELS_CUDA_SM90_ATTENTION_SCORES_CUH

#include "kernels/cuda/attention/rows.cuh"
#include "kernels/cuda/ptx_sm80.cuh"

namespace sm90
{

using flash::lengths;
using flash::softmax_row;
using flash::span;

/* The number of values of one row that a lane has in a fragment (rows.cuh) in the columns before
 * `end`, counted from the lane's first column. */
__device__ __forceinline__ uint32_t values_before(int32_t end)
{
    const uint32_t columns = (uint32_t)max(end, 0);
    return columns / 8 * 2 + min(columns % 8, 2u);
}

/* The numbers 0 ... count - 1 as bits. */
__device__ __forceinline__ uint32_t bits_before(uint32_t count)
{
    return count < 32 ? (1u << count) - 1 : UINT32_MAX;
}

/* As flash::mask, with a bit for each value: bits become predicates by several at once, where
 * comparisons of columns give one predicate each. The first BEGIN values of the row are seen. */
template <int H, int BEGIN = 0, int COUNT>
__device__ __forceinline__ void mask_row(float (&scores)[COUNT], int32_t first, int32_t end)
{
    static_assert(COUNT <= 64, "a bit for each value of a row");
    const uint32_t seen = bits_before(values_before(end)) & ~bits_before(values_before(first));
#pragma unroll
    for (int i = BEGIN; i < COUNT / 2; i++) {
        float &score = scores[i / 2 * 4 + 2 * H + i % 2];
        score = seen & 1u << i ? score : -flash::INFINITE;
    }
}

/* Masks the keys that rows `row` and `row` + 8 do not see, out of scores of the keys from `from`
 * on. `all` are the keys that all rows of the consumer see. */
template <class C, int COUNT>
__device__ __forceinline__ void mask_scores(const attention_arguments &a, float (&s)[COUNT],
                                            int32_t from, const lengths &n, uint32_t row,
                                            const span &all)
{
    const int32_t origin = from + 2 * (int32_t)(threadIdx.x % 4);
    const span keys[2] = {flash::span_of(a, n, row), flash::span_of(a, n, row + 8)};
    /* In the kernels of three consumers, bits cost the loop 2 % (kernels/experiments/attention.md).
     */
    if constexpr (C::CONSUMERS == 3) {
        flash::mask<0>(s, keys[0].first - origin, keys[0].end - origin);
        flash::mask<1>(s, keys[1].first - origin, keys[1].end - origin);
    } else if (C::HALVES && COUNT == C::TILE_N / 2 && from >= all.first &&
               from + COUNT <= all.end) {
        /* All rows see the first half of the keys. */
        mask_row<0, COUNT / 4>(s, keys[0].first - origin, keys[0].end - origin);
        mask_row<1, COUNT / 4>(s, keys[1].first - origin, keys[1].end - origin);
    } else {
        mask_row<0>(s, keys[0].first - origin, keys[0].end - origin);
        mask_row<1>(s, keys[1].first - origin, keys[1].end - origin);
    }
}

/* Turns the products of a consumer with the keys from `from` on into scores where that is not left
 * to the softmax (arguments.h, `general`), and then masks the keys that a row does not see. */
template <class C, int COUNT>
__device__ __forceinline__ void adjust_scores(const attention_arguments &a, float (&s)[COUNT],
                                              int32_t from, const lengths &n, uint32_t row,
                                              const span &all)
{
    if (a.general)
        flash::score_all(a, s);
    if (from < all.first || from + 2 * COUNT > all.end)
        mask_scores<C>(a, s, from, n, row, all);
}

/* The largest sum of a lane's weights in a step with a kept base. Weights of f16 are less than the
 * largest number of their type, and sums of weights times values of V stay in the range of f32 for
 * values below 2^96, as proto/PROTOCOL.md promises. */
constexpr float KEPT_SUM_MAX = 0x1p15f;

/* The largest such sum with which no weight has overflowed and shift_base has a factor. */
constexpr float SHIFTED_SUM_MAX = 0x1p100f;

/* Replaces the scores of row H (0 or 1 of this lane's two rows) by weights relative to `base`, and
 * returns the sum of this lane's weights. */
template <int H, int COUNT>
__device__ __forceinline__ float weigh_kept(float (&scores)[COUNT], float base,
                                            float exponent_of_score)
{
    float sum[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float &score = scores[j + 2 * H + e];
            score = flash::exp2_fast(__fmaf_rn(score, exponent_of_score, -base));
            sum[e] += score;
        }
    }
    return sum[0] + sum[1];
}

/* Divides the weights of row H and its total by the power of 2 that makes the largest weight less
 * than 2, if any is greater, and raises the base accordingly. Returns the factor for the sums over
 * earlier tiles. */
template <int H, int COUNT>
__device__ __forceinline__ float shift_base(float (&weights)[COUNT], softmax_row &row)
{
    constexpr int32_t EXPONENT_BITS_OF_1 = 127, SHIFT_MAX = 100;
    float top[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
        top[0] = fmaxf(top[0], weights[j + 2 * H]);
        top[1] = fmaxf(top[1], weights[j + 2 * H + 1]);
    }
    const float largest = flash::quad_max(fmaxf(top[0], top[1]));
    const int32_t shift =
        min(max((__float_as_int(largest) >> 23) - EXPONENT_BITS_OF_1, 0), SHIFT_MAX);
    const float factor = __int_as_float((EXPONENT_BITS_OF_1 - shift) << 23);
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
        weights[j + 2 * H] *= factor;
        weights[j + 2 * H + 1] *= factor;
    }
    row.most += (float)shift;
    row.total *= factor;
    return factor;
}

/* Whether the base of a row can be kept. It cannot before the first score that is more than minus
 * infinity, unless the result is NaN anyway. */
__device__ __forceinline__ bool has_base(const softmax_row &row)
{
    return !(row.most == -flash::INFINITE && row.total == 0);
}

/* The elements `column`, which is even, and column + 1 of a row of `width`; zeros beyond its end.
 */
template <class Element>
__device__ __forceinline__ uint32_t pair_at(const Element *row, uint32_t column, uint32_t width)
{
    const Element *from = row + column;
    return column + 1 < width ? *reinterpret_cast<const uint32_t *>(from)
           : column < width   ? *reinterpret_cast<const uint16_t *>(from)
                              : 0;
}

/* Loads columns 16 * k ... 16 * k + 15 of this warp's 16 queries, as an operand in registers, from
 * a consumer's Q in shared memory. */
template <class C>
__device__ __forceinline__ void load_queries(uint32_t q, uint32_t k, uint32_t (&x)[4])
{
    const uint32_t lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    const uint32_t piece = (2 * (k % 4) + lane / 16) ^ row % 8;
    ptx_sm80::load_matrices(x, q + k / 4 * C::Q_BOX_BYTES + row * 128 + piece * 16);
}

/* Computes the products of the warp's 16 queries with the keys of tile `tile` again, from global
 * memory, by mma.sync, which a warp can issue without the other warps of its warpgroup. `row` is
 * the first of this lane's two rows. All keys of the tile exist. The loop over
 * columns is not unrolled, so that the code needs few registers. */
template <class C, int COUNT>
__device__ __forceinline__ void multiply_again(const attention_arguments &a, uint32_t entry,
                                               uint32_t head, uint32_t row, int32_t tile,
                                               float (&s)[COUNT])
{
    using Element = typename C::Element;
    const uint32_t lane = threadIdx.x % 32;
    const Element *q = flash::row_at<Element>(a.q, a.q_steps, entry, head, min(row, a.sq - 1));
    const int64_t below = min(row + 8, a.sq - 1) - min(row, a.sq - 1);
    const Element *key = flash::row_at<Element>(a.k, a.k_steps, entry, head / a.group,
                                                (uint32_t)tile * C::TILE_N + lane / 4);
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
        float sums[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (uint32_t first = 0; first < a.d; first += 16) {
            const uint32_t column = first + 2 * (lane % 4);
            const Element *row_below = q + below * a.q_steps.row;
            const uint32_t x[4] = {pair_at(q, column, a.d), pair_at(row_below, column, a.d),
                                   pair_at(q, column + 8, a.d),
                                   pair_at(row_below, column + 8, a.d)};
            ptx_sm80::multiply_add<Element>(sums, x, pair_at(key, column, a.d),
                                            pair_at(key, column + 8, a.d));
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[j + i] = sums[i];
        key += 8 * a.k_steps.row;
    }
}

/* The same from shared memory, where K is still held: from a consumer's Q and a slot of K, whose
 * rows have 128 bytes. */
template <class C, int COUNT>
__device__ __forceinline__ void multiply_again(uint32_t q, uint32_t keys, float (&s)[COUNT])
{
    static_assert(C::WIDTH == 64, "one box");
    using Element = typename C::Element;
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
        float sums[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (uint32_t k = 0; k < 4; k += 2) {
            uint32_t x[4], y[4];
            const uint32_t piece = (2 * k + lane / 8) ^ lane % 8;
            ptx_sm80::load_matrices(y, keys + (2 * (uint32_t)j + lane % 8) * 128 + piece * 16);
            load_queries<C>(q, k, x);
            ptx_sm80::multiply_add<Element>(sums, x, y[0], y[1]);
            load_queries<C>(q, k + 1, x);
            ptx_sm80::multiply_add<Element>(sums, x, y[2], y[3]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[j + i] = sums[i];
    }
}

} // namespace sm90

#endif
