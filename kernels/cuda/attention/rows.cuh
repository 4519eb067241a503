/*
 * rows.cuh - functions that the fast attention kernels share: the keys that a row sees, the online
 * softmax of fragments of scores, and the output of rows of O.
 *
 * A fragment is the layout in which tensor cores hold 16 rows of a matrix in a warp. Of every 8
 * columns, lane l has columns 2 * (l % 4) and the next one, of row l / 4 (values 0 and 1) and of
 * row l / 4 + 8 (values 2 and 3). The four lanes of a row are a quad.
 *
 * Tensor cores multiply a complete tile of V, and 0 times a NaN or an infinity is NaN. Where V is
 * not finite, masked keys would change a row. A row whose sums are not finite although the total of
 * its weights is a number is therefore computed again, by one warp, with plain multiply-adds over
 * the keys that the row sees (exact_row). This is as slow as the naive kernel. It also happens to
 * rows whose largest score is so large that the rounding error of an exponent matters (is_far), and
 * in no other case.
 *
 * Functions are overloaded, or templates, for the arguments of plain problems (attention_arguments)
 * and of general ones (general_arguments). For plain problems nothing is computed that only general
 * ones need.
 *
 * The online softmax is from M. Milakov and N. Gimelshein, "Online normalizer calculation for
 * softmax" (2018), in the form of T. Dao, "FlashAttention-2" (2023): sums are divided by the total
 * once, at the end.
 */
#ifndef KERNELS_CUDA_ATTENTION_ROWS_CUH
#define KERNELS_CUDA_ATTENTION_ROWS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/cuda/attention/arguments.h"
#include "kernels/cuda/epilogue.cuh"

namespace flash
{

constexpr float INFINITE = __builtin_huge_valf();
constexpr uint32_t WHOLE_WARP = 0xffffffff;

/* From this score on, in powers of 2, neighbouring numbers of f32 differ by 8 or more. */
constexpr float FAR = 0x1p26f;

/* ---- lengths and masks ---- */

/* The lengths of a batch entry. */
struct lengths {
    uint32_t sq, skv;
};

__device__ __forceinline__ lengths lengths_of(const attention_arguments &a, uint32_t entry)
{
    if (a.lens_q == nullptr)
        return {a.sq, a.skv};
    return {(uint32_t)a.lens_q[entry], (uint32_t)a.lens_kv[entry]};
}

/* The keys first ... end - 1 that query i sees; first == end if none, and for rows beyond sq. */
struct span {
    int32_t first, end;
};

__device__ __forceinline__ span span_of(const attention_arguments &a, const lengths &n, uint32_t i)
{
    if (i >= n.sq)
        return {0, 0};
    const int32_t keys = (int32_t)n.skv, position = (int32_t)i + keys - (int32_t)n.sq;
    const int32_t end = a.causal ? max(min(position + 1, keys), 0) : keys;
    const uint32_t before = (uint32_t)max(position, 0); /* keys before the row's own */
    const int32_t first = (int32_t)(before - min(before, a.window));
    return {min(first, end), end};
}

/* Where the rows of an entry lie: so many strides between entries from the start, and from there at
 * this row of Q or of K and V. Ragged entries lie one after another. */
__device__ __forceinline__ uint32_t apart_of(const attention_arguments &, uint32_t entry)
{
    return entry;
}
__device__ __forceinline__ uint32_t first_q_of(const lengths &)
{
    return 0;
}
__device__ __forceinline__ uint32_t first_kv_of(const lengths &)
{
    return 0;
}

/* The number of rows of O that an entry has. */
__device__ __forceinline__ uint32_t rows_of_o(const attention_arguments &a, const lengths &)
{
    return a.sq;
}

/* ---- the same for general problems: ragged entries, an offset, a window to the right, slopes and
 * sinks ---- */

struct general_arguments : attention_arguments {
    const float *slopes, *sinks; /* [heads], or NULL */
    /* Keys that a query sees to the left and to the right of its position, at most. */
    int64_t left, right;
    int64_t offset; /* read only if has_offset */
    uint32_t has_offset, ragged;
};

struct general_lengths : lengths {
    uint32_t first_q, first_kv;
    int32_t shift; /* from the number of a query to its position */
};

__device__ __forceinline__ general_lengths lengths_of(const general_arguments &a, uint32_t entry)
{
    general_lengths n = {{a.sq, a.skv}, 0, 0, 0};
    if (a.lens_q != nullptr) {
        n.sq = (uint32_t)a.lens_q[entry];
        n.skv = (uint32_t)a.lens_kv[entry];
    }
    if (a.ragged) {
        n.first_q = n.sq;
        n.first_kv = n.skv;
        n.sq = (uint32_t)a.lens_q[entry + 1] - n.first_q;
        n.skv = (uint32_t)a.lens_kv[entry + 1] - n.first_kv;
    }
    n.shift = a.has_offset ? (int32_t)a.offset : (int32_t)n.skv - (int32_t)n.sq;
    return n;
}

__device__ __forceinline__ span span_of(const general_arguments &a, const general_lengths &n,
                                        uint32_t i)
{
    if (i >= n.sq)
        return {0, 0};
    const int64_t keys = (int64_t)n.skv, position = (int64_t)i + n.shift;
    const int64_t end = max(min(position + 1 + a.right, keys), (int64_t)0);
    const int64_t first = min(max(position - a.left, (int64_t)0), end);
    return {(int32_t)first, (int32_t)end};
}

__device__ __forceinline__ uint32_t apart_of(const general_arguments &a, uint32_t entry)
{
    return a.ragged ? 0 : entry;
}
__device__ __forceinline__ uint32_t first_q_of(const general_lengths &n)
{
    return n.first_q;
}
__device__ __forceinline__ uint32_t first_kv_of(const general_lengths &n)
{
    return n.first_kv;
}

__device__ __forceinline__ uint32_t rows_of_o(const general_arguments &a, const general_lengths &n)
{
    return a.ragged ? n.sq : a.sq;
}

/* ---- arithmetic ---- */

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float reciprocal_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* tanh(x) = 1 - 2 / (e^2x + 1). Near 0, where the difference would lose digits, the first terms of
 * the series of tanh. */
__device__ __forceinline__ float tanh_fast(float x)
{
    const float square = x * x;
    const float series =
        x + x * square * (-1.0f / 3 + square * (2.0f / 15 - square * (17.0f / 315)));
    const float whole = 1 - 2 * reciprocal_fast(exp2_fast(2.88539008f * x) + 1);
    return fabsf(x) < 0.25f ? series : whole;
}

/* A score, from the product of a row of Q and one of K. */
__device__ __forceinline__ float score_of(const attention_arguments &a, float product)
{
    return a.softcap > 0 ? a.softcap * tanh_fast(product * a.scale_of_cap) : product * a.scale;
}

/* The scores of a fragment, from its products. */
template <int COUNT>
__device__ __forceinline__ void score_all(const attention_arguments &a, float (&products)[COUNT])
{
    if (a.softcap > 0) {
#pragma unroll
        for (int j = 0; j < COUNT; j++)
            products[j] = a.softcap * tanh_fast(products[j] * a.scale_of_cap);
    } else {
#pragma unroll
        for (int j = 0; j < COUNT; j++)
            products[j] *= a.scale;
    }
}

/* What the slope of a head subtracts from the score of a key is slope * distance, where `distance`
 * is from the position of the query. */
__device__ __forceinline__ float biased(float score, float slope, int32_t distance)
{
    return __fmaf_rn(-slope, fabsf((float)distance), score);
}

/* Adds the bias of a slope to the scores of a row (H: 0 or 1 of this lane's two rows). `distance`
 * is that of this lane's first column. */
template <int H, int COUNT>
__device__ __forceinline__ void add_bias(float (&scores)[COUNT], float slope, int32_t distance)
{
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; e++) { /* 8 columns for every 4 values */
            float &score = scores[j + 2 * H + e];
            score = biased(score, slope, distance + 2 * j + e);
        }
    }
}

__device__ __forceinline__ bool is_finite(float x)
{
    return fabsf(x) < INFINITE;
}

/* Packs two neighbouring elements into a word, the first in the lower half. */
template <typename Element> __device__ __forceinline__ uint32_t pack(float first, float second);
template <> __device__ __forceinline__ uint32_t pack<__half>(float first, float second)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}
template <> __device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float first, float second)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

__device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, 1));
    return fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, 2));
}

__device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(WHOLE_WARP, x, 1);
    return x + __shfl_xor_sync(WHOLE_WARP, x, 2);
}

/* ---- the softmax of one row's share of a fragment ---- */

/* The state of a row after the tiles that were processed so far: the largest score in powers of 2
 * (initially minus infinity), and this lane's share of the sum of weights. A NaN is never the
 * largest score, but makes the sum NaN. */
struct softmax_row {
    float most, total;
};

/* The number that is subtracted from exponents. Before the first score any finite number is right.
 */
__device__ __forceinline__ float base_of(float most)
{
    return most == -INFINITE ? 0 : most;
}

/* The sink of a head; minus infinity, which has no weight, if the problem has none. */
__device__ __forceinline__ float sink_of(const general_arguments &a, uint32_t head)
{
    return a.sinks != nullptr ? a.sinks[head] : -INFINITE;
}

/* A row before the first tile. The weight of a sink counts for the first lane of the quad. */
__device__ __forceinline__ softmax_row first_state(const attention_arguments &, uint32_t)
{
    return {-INFINITE, 0};
}
__device__ __forceinline__ softmax_row first_state(const general_arguments &a, uint32_t head)
{
    const float log2_e = 1.44269504f, sink = sink_of(a, head), most = sink * log2_e;
    /* Not 1, because `most` is rounded. */
    const float weight = exp2_fast(__fmaf_rn(sink, log2_e, -base_of(most)));
    return {most, threadIdx.x % 4 == 0 ? weight : 0};
}

/* Replaces the scores of row H (0 or 1 of this lane's two rows) by weights: the lane has two of
 * them in each 8 columns, values 2 * H and 2 * H + 1 of 4. Returns the factor by which the sums
 * over earlier tiles have to be multiplied. */
template <int H, int COUNT>
__device__ __forceinline__ float softmax_step(float (&scores)[COUNT], softmax_row &row,
                                              float exponent_of_score)
{
    static_assert(COUNT % 8 == 0, "four chains, so that the largest is not long in coming");
    float top[4] = {scores[2 * H], scores[2 * H + 1], scores[4 + 2 * H], scores[4 + 2 * H + 1]};
#pragma unroll
    for (int j = 8; j < COUNT; j += 8) {
        top[0] = fmaxf(top[0], scores[j + 2 * H]);
        top[1] = fmaxf(top[1], scores[j + 2 * H + 1]);
        top[2] = fmaxf(top[2], scores[j + 4 + 2 * H]);
        top[3] = fmaxf(top[3], scores[j + 4 + 2 * H + 1]);
    }
    /* fmaxf ignores a NaN, which therefore never becomes the maximum. */
    const float largest = quad_max(fmaxf(fmaxf(top[0], top[1]), fmaxf(top[2], top[3])));
    const float most = fmaxf(row.most, largest * exponent_of_score);
    const float base = base_of(most);
    const float factor = exp2_fast(row.most - base);
    float sum[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float &score = scores[j + 2 * H + e];
            score = exp2_fast(__fmaf_rn(score, exponent_of_score, -base));
            sum[e] += score;
        }
    }
    row.most = most;
    row.total = row.total * factor + (sum[0] + sum[1]);
    return factor;
}

/* Sets the scores outside the columns from `first` to end - 1 to minus infinity. Columns are
 * counted from this lane's first column. */
template <int H, int COUNT>
__device__ __forceinline__ void mask(float (&scores)[COUNT], int32_t first, int32_t end)
{
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int32_t column = 2 * j + e; /* 8 columns for every 4 values */
            if (column >= end || column < first)
                scores[j + 2 * H + e] = -INFINITE;
        }
    }
}

/* Whether the largest score of a row, in powers of 2, is so large that its rounding error, of which
 * all weights have a power as a factor, could take the weights out of the range of their type, or
 * is out of range itself although no score is. Rows of NaN only are not far: their largest score is
 * minus infinity, and `total`, the sum over all lanes of the row, is NaN. */
__device__ __forceinline__ bool is_far(const softmax_row &row, float total)
{
    return row.most >= FAR || (row.most <= -FAR && (is_finite(row.most) || total == 0));
}

/* The lse of a row. `total` is the sum over all lanes of the row. If a row sees keys and the total
 * is 0, all its scores are minus infinity. */
__device__ __forceinline__ float lse_of(const softmax_row &row, float total, bool sees)
{
    const float ln_2 = 0.693147181f;
    return !sees        ? -INFINITE
           : total == 0 ? __int_as_float(0x7fffffff)
                        : (row.most + log2f(total)) * ln_2;
}

/* The factor by which the sums of a row are multiplied at the end, and the row's lse. */
__device__ __forceinline__ float finish_row(const softmax_row &row, float total, bool sees,
                                            float &lse)
{
    lse = lse_of(row, total, sees);
    return 1 / total;
}

/* ---- rows of O ---- */

template <typename Element>
__device__ __forceinline__ const Element *row_at(const void *tensor, const attention_steps &steps,
                                                 uint32_t entry, uint32_t head, uint32_t row)
{
    return static_cast<const Element *>(tensor) + entry * steps.batch + head * steps.head +
           row * steps.row;
}

/* Exchanges words among the four lanes of a quad. Before, word[b] of lane q is the lane's pair of
 * columns out of block b of 8 columns. After, word[p] of lane q is pair p of block q, so that a
 * lane has 8 neighbouring columns. */
__device__ __forceinline__ void quad_transpose(uint32_t (&word)[4], uint32_t quad_lane)
{
    const bool odd = quad_lane & 1, upper = quad_lane & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(WHOLE_WARP, odd ? word[i] : word[i + 1], 1);
        word[i] = odd ? got : word[i];
        word[i + 1] = odd ? word[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t got = __shfl_xor_sync(WHOLE_WARP, upper ? word[i] : word[i + 2], 2);
        word[i] = upper ? got : word[i];
        word[i + 2] = upper ? word[i + 2] : got;
    }
}

/* Stores 8 elements of a row of O from `column` on, as far as the row goes. */
template <typename Element>
__device__ __forceinline__ void store_piece(const attention_arguments &a, Element *row,
                                            uint32_t column, const uint32_t (&word)[4])
{
    if (a.o_pieces && column + 8 <= a.dv) {
        *reinterpret_cast<uint4 *>(row + column) = make_uint4(word[0], word[1], word[2], word[3]);
        return;
    }
#pragma unroll
    for (uint32_t e = 0; e < 8; e++) {
        const uint16_t half = (uint16_t)(word[e / 2] >> e % 2 * 16);
        if (column + e < a.dv)
            reinterpret_cast<uint16_t *>(row)[column + e] = half;
    }
}

/* Stores one row of sums (row H of this lane's two), times `factor`, in O. Returns true if all sums
 * are finite. Called by all lanes of the warp; rows that do not exist are not stored. */
template <typename Element, int H, int COUNT>
__device__ __forceinline__ bool store_row(const attention_arguments &a, const float (&sums)[COUNT],
                                          float factor, Element *row, bool exists)
{
    static_assert(COUNT % 16 == 0, "pieces of 32 columns");
    constexpr uint32_t COLUMNS = 2 * COUNT; /* those of both rows are `sums` of all four lanes */
    const uint32_t quad_lane = threadIdx.x % 4;
    uint32_t words[COUNT / 16][4];
    float zero = 0; /* NaN if any is not finite */
#pragma unroll
    for (int j = 0; j < COUNT; j += 16) {
#pragma unroll
        for (int b = 0; b < 4; b++) {
            const float first = sums[j + 4 * b + 2 * H] * factor;
            const float second = sums[j + 4 * b + 2 * H + 1] * factor;
            zero = __fmaf_rn(first, 0, __fmaf_rn(second, 0, zero));
            words[j / 16][b] = pack<Element>(first, second);
        }
        quad_transpose(words[j / 16], quad_lane);
    }
    /* Rows of full width in code of their own: branches between pieces would separate the stores.
     */
    if (a.o_pieces && a.dv == COLUMNS) {
        uint4 *to = reinterpret_cast<uint4 *>(row) + quad_lane;
#pragma unroll
        for (int i = 0; i < COUNT / 16; i++)
            if (exists)
                to[4 * i] = make_uint4(words[i][0], words[i][1], words[i][2], words[i][3]);
    } else if (exists) {
#pragma unroll
        for (int i = 0; i < COUNT / 16; i++)
            store_piece(a, row, 32 * i + 8 * quad_lane, words[i]);
    }
    return zero == 0;
}

/* Stores a row of zeros in O. Called by the four lanes of a quad. */
template <typename Element>
__device__ __forceinline__ void store_zeros(const attention_arguments &a, Element *row)
{
    const uint32_t zeros[4] = {0, 0, 0, 0};
    for (uint32_t column = threadIdx.x % 4 * 8; column < a.dv; column += 32)
        store_piece(a, row, column, zeros);
}

/* ---- rows whose sums on tensor cores are not finite, or whose scores are far from 0 ---- */

template <typename Element>
__device__ __forceinline__ float exact_score(const attention_arguments &a, const Element *q,
                                             const Element *k)
{
    float sum = 0;
#pragma unroll 1
    for (uint32_t c = 0; c < a.d; c++)
        sum = __fmaf_rn(widen(q[c]), widen(k[c]), sum);
    return score_of(a, sum);
}

/* What exact_row needs to know of row i: the score of key j from exact_score's, and a sink. */
struct plain_terms {
    __device__ __forceinline__ plain_terms(const attention_arguments &, const lengths &, uint32_t,
                                           uint32_t)
    {
    }
    __device__ __forceinline__ float score(float score, int32_t) const
    {
        return score;
    }
    __device__ __forceinline__ float first_most() const
    {
        return -INFINITE;
    }
    __device__ __forceinline__ float first_total(float) const
    {
        return 0;
    }
};

struct general_terms {
    float slope, sink;
    int32_t position;
    bool has_slope, has_sink;

    __device__ __forceinline__ general_terms(const general_arguments &a, const general_lengths &n,
                                             uint32_t head, uint32_t i)
        : slope(a.slopes != nullptr ? a.slopes[head] : 0), sink(sink_of(a, head)),
          position((int32_t)i + n.shift), has_slope(a.slopes != nullptr),
          has_sink(a.sinks != nullptr)
    {
    }
    __device__ __forceinline__ float score(float score, int32_t j) const
    {
        return has_slope ? biased(score, slope, j - position) : score;
    }
    __device__ __forceinline__ float first_most() const
    {
        return sink;
    }
    __device__ __forceinline__ float first_total(float most) const
    {
        const float log2_e = 1.44269504f;
        return has_sink ? exp2_fast(__fsub_rn(sink, most) * log2_e) : 0;
    }
};

__device__ __forceinline__ plain_terms terms_of(const attention_arguments &a, const lengths &n,
                                                uint32_t head, uint32_t i)
{
    return plain_terms(a, n, head, i);
}
__device__ __forceinline__ general_terms terms_of(const general_arguments &a,
                                                  const general_lengths &n, uint32_t head,
                                                  uint32_t i)
{
    return general_terms(a, n, head, i);
}

/* Computes and stores row i of O from the keys that the row sees, of which there is at least one,
 * with plain multiply-adds. Where the scores are far from 0, lse is stored too. Called by a whole
 * warp, after a __syncwarp that follows the stores of the row that exact_row overwrites. */
template <typename Element, class Arguments, class Lengths>
__device__ __forceinline__ void exact_row(const Arguments &a, const Lengths &n, uint32_t entry,
                                          uint32_t head, uint32_t i, const span &keys)
{
    constexpr uint32_t LANES = 32;
    const float log2_e = 1.44269504f;
    const uint32_t lane = threadIdx.x % LANES, apart = apart_of(a, entry);
    const uint32_t line = first_q_of(n) + i;
    const Element *q = row_at<Element>(a.q, a.q_steps, apart, head, line);
    const Element *k = row_at<Element>(a.k, a.k_steps, apart, head / a.group, first_kv_of(n));
    const Element *v = row_at<Element>(a.v, a.v_steps, apart, head / a.group, first_kv_of(n));
    Element *o = const_cast<Element *>(row_at<Element>(a.o, a.o_steps, apart, head, line));
    const auto terms = terms_of(a, n, head, i);
    const auto score = [&](int32_t j) {
        return terms.score(exact_score(a, q, k + j * a.k_steps.row), j);
    };
    float most = terms.first_most();
#pragma unroll 1
    for (int32_t j = keys.first + (int32_t)lane; j < keys.end; j += LANES)
        most = fmaxf(most, score(j));
#pragma unroll
    for (uint32_t step = LANES / 2; step > 0; step /= 2)
        most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, step));

    float total = 0;
#pragma unroll 1
    for (uint32_t c = 0; c < a.dv; c += LANES) {
        const bool exists = c + lane < a.dv;
        float sum = 0;
        total = terms.first_total(most);
#pragma unroll 1
        for (int32_t from = keys.first; from < keys.end; from += LANES) {
            const int32_t count = min(keys.end - from, (int32_t)LANES);
            float weight = 0;
            if ((int32_t)lane < count)
                /* The difference of two rounded scores: the multiplication is not fused with it. */
                weight = exp2_fast(__fsub_rn(score(from + (int32_t)lane), most) * log2_e);
#pragma unroll 1
            for (int32_t t = 0; t < count; t++) {
                const float w = __shfl_sync(WHOLE_WARP, weight, t);
                total += w;
                if (exists)
                    sum = __fmaf_rn(w, widen(v[(from + t) * a.v_steps.row + c + lane]), sum);
            }
        }
        if (exists)
            narrow(sum / total, o + c + lane);
    }
    if (a.lse != nullptr && lane == 0 && fabsf(most) * log2_e >= FAR)
        a.lse[((uint64_t)apart * a.heads + head) * a.sq + line] = most + logf(total);
}

/* ---- the end of a tile ---- */

/* The lse of row i if the row sees no key. */
__device__ __forceinline__ float unseen_lse(const attention_arguments &, const lengths &, uint32_t,
                                            uint32_t)
{
    return -INFINITE;
}
__device__ __forceinline__ float unseen_lse(const general_arguments &a, const general_lengths &n,
                                            uint32_t head, uint32_t i)
{
    return i < n.sq ? sink_of(a, head) : -INFINITE;
}

/* Finishes and stores this lane's two rows, `row` of the head and row + 8: the sums divided by the
 * total of the weights, or zeros for a row that sees no key, and lse. Called by all lanes of the
 * warp. */
template <typename Element, int COUNT, class Arguments, class Lengths>
__device__ __forceinline__ void finish(const Arguments &a, const Lengths &n, uint32_t entry,
                                       uint32_t head, uint32_t row, const softmax_row (&state)[2],
                                       const float (&sums)[COUNT])
{
    const uint32_t lane = threadIdx.x % 32, apart = apart_of(a, entry);
    const uint32_t first_line = first_q_of(n) + row;
    float total[2];
    Element *to[2];
    bool exists[2], sees[2], finite[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        const uint32_t i = row + 8 * h;
        const span keys = span_of(a, n, i);
        exists[h] = i < rows_of_o(a, n);
        sees[h] = keys.first < keys.end;
        total[h] = quad_sum(state[h].total);
        to[h] =
            const_cast<Element *>(row_at<Element>(a.o, a.o_steps, apart, head, first_line + 8 * h));
    }
    finite[0] = store_row<Element, 0>(a, sums, 1 / total[0], to[0], exists[0] && sees[0]);
    finite[1] = store_row<Element, 1>(a, sums, 1 / total[1], to[1], exists[1] && sees[1]);
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        if (exists[h] && !sees[h])
            store_zeros(a, to[h]);
        if (a.lse != nullptr && exists[h] && lane % 4 == 0)
            a.lse[((uint64_t)apart * a.heads + head) * a.sq + first_line + 8 * h] =
                sees[h] ? lse_of(state[h], total[h], true) : unseen_lse(a, n, head, row + 8 * h);
        uint32_t again =
            __ballot_sync(WHOLE_WARP, exists[h] && sees[h] &&
                                          (is_far(state[h], total[h]) ||
                                           (!finite[h] && total[h] > 0 && is_finite(total[h]))));
        while (again != 0) {
            const uint32_t quad = (uint32_t)(__ffs((int)again) - 1) / 4;
            const uint32_t i = row + 8 * h - lane / 4 + quad;
            again &= ~(0xfu << 4 * quad);
            __syncwarp();
            exact_row<Element>(a, n, entry, head, i, span_of(a, n, i));
        }
    }
}

} // namespace flash

#endif
