/*
 * epilogue.cuh - from the sums d in registers to C = act(alpha * d + beta * C0 + bias), rounded
 * once.
 *
 * Each warp stores its own 16 rows of a tile, a chunk of 64 columns at a time, through 4 KiB of
 * shared memory of its own, the staging, so that no barrier is wider than a warp. There are three
 * ways (store_rows):
 *
 *   plain      Nothing but alpha follows the sums. The warp multiplies in registers, writes the
 *              results to the staging, and TMA stores them while the warp goes on.
 *   in place   The results have 16 bits and there is no C0. The whole epilogue is computed in the
 *              registers in which the tensor core left the sums. The results go to the staging and
 *              to C as in a plain epilogue.
 *   otherwise  The warp writes the sums to the staging, reads them back line by line, computes the
 *              epilogue and stores C itself, so that C0 is read and C is written in full lines.
 *
 * The staging of a warp has two panels of 16 lines of 128 bytes, swizzled as TMA swizzles them: the
 * 16-byte piece c of line r is at c ^ (r % 8). A chunk is one panel of 16-bit values or two panels
 * of 32-bit values.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_EPILOGUE_CUH
#define KERNELS_CUDA_SM90_GEMM_EPILOGUE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/gemm/arguments.h"
#include "kernels/cuda/sm90/wgmma.cuh"

namespace sm90
{

template <class T> constexpr bool is_integer = false;
template <> constexpr bool is_integer<int32_t> = true;

constexpr uint32_t PANEL_BYTES = 16 * 128;
constexpr uint32_t STAGING_BYTES = 2 * PANEL_BYTES; /* of one warp */
constexpr int CHUNK_COLUMNS = 64;

/* The columns that a warp stores at once of tiles of N columns. If they are 32, the staging has
 * four panels of 16 lines of 64 bytes, swizzled as TMA swizzles them: the 16-byte piece c of line r
 * is at c ^ (r / 2 % 4). */
template <int N> constexpr int chunk_columns = N % CHUNK_COLUMNS == 0 ? CHUNK_COLUMNS : 32;

__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<const uint32_t *>(&v);
}

__device__ __forceinline__ uint32_t pack_f16(float lo, float hi)
{
    const __half2 v = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const uint32_t *>(&v);
}

template <element E> __device__ __forceinline__ uint32_t pack_16(float lo, float hi, uint32_t out)
{
    if constexpr (E == BF16) {
        return pack_bf16(lo, hi);
    } else { /* f16 too: widened f8 can become bf16 */
        return out == SM90_OUT_BF16 ? pack_bf16(lo, hi) : pack_f16(lo, hi);
    }
}

/* One element of C0 or the bias, in the accumulator's arithmetic. */
__device__ __forceinline__ float load_float(const void *base, int64_t i, uint32_t out)
{
    switch (out) {
    case SM90_OUT_F16:
        return __half2float(static_cast<const __half *>(base)[i]);
    case SM90_OUT_BF16:
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(base)[i]);
    default:
        return static_cast<const float *>(base)[i];
    }
}

/* Neighbouring columns of a line that a lane finishes together. */
constexpr uint32_t LANE_COLUMNS = 8;

/* LANE_COLUMNS elements of C0 or the bias from element i on, as floats. The first `valid` exist;
 * the others are set to 0. `aligned`: all exist and start at a multiple of 16 bytes. */
__device__ __forceinline__ void load_floats(const void *base, int64_t i, uint32_t out, bool aligned,
                                            uint32_t valid, float (&v)[LANE_COLUMNS])
{
    if (aligned && out == SM90_OUT_F32) {
        const float4 *from = reinterpret_cast<const float4 *>(static_cast<const float *>(base) + i);
        const float4 lo = from[0], hi = from[1];
        memcpy(v, &lo, sizeof lo);
        memcpy(v + 4, &hi, sizeof hi);
    } else if (aligned) {
        const uint4 whole =
            *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(base) + i);
        uint16_t halves[LANE_COLUMNS];
        memcpy(halves, &whole, sizeof whole);
#pragma unroll
        for (uint32_t j = 0; j < LANE_COLUMNS; j++) {
            v[j] = out == SM90_OUT_BF16 ? __uint_as_float((uint32_t)halves[j] << 16)
                                        : __half2float(__ushort_as_half(halves[j]));
        }
    } else {
#pragma unroll
        for (uint32_t j = 0; j < LANE_COLUMNS; j++) {
            v[j] = j < valid ? load_float(base, i + j, out) : 0;
        }
    }
}

/* The activations for results of 16 bits, with 16 correct bits or more. Each is x times a weight
 * between 0 and 1. The functions raise minus infinity to LOWEST first, because its weight is 0 and
 * 0 times infinity is NaN. */

__device__ __forceinline__ float exp2_short(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float reciprocal_short(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The larger; NaN if either is. */
__device__ __forceinline__ float larger(float x, float y)
{
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

constexpr float LOWEST = -3.402823466e38f; /* the lowest finite float */
constexpr float LOG2_E = 1.44269504f;

__device__ __forceinline__ float silu_short(float x)
{
    x = larger(x, LOWEST);
    return x * reciprocal_short(1 + exp2_short(-LOG2_E * x));
}

__device__ __forceinline__ float gelu_tanh_short(float x)
{
    constexpr float linear = -LOG2_E * 1.59576912160573071f, cubic = linear * 0.044715f;
    x = larger(x, LOWEST);
    return x * reciprocal_short(1 + exp2_short(x * fmaf(cubic * x, x, linear)));
}

/* gelu(x) is x * P(x), where P is the normal distribution function. For t = |x|, the tail P(-t) is
 * erfc(t / sqrt(2)) / 2 = exp(-t^2 / 2) * f(t). Here f is a polynomial of q = 1 / (1 + 0.31 t) that
 * was fitted for the smallest relative error: 2^-17.6 for all t at which exp(-t^2 / 2) is not 0. */
__device__ __forceinline__ float gelu_short(float x)
{
    x = larger(x, LOWEST);
    const float t = fabsf(x), q = reciprocal_short(fmaf(0.31f, t, 1));
    float sum = fmaf(-0.0739266143f, q, 0.180442951f);
    sum = fmaf(sum, q, 0.0157531434f);
    sum = fmaf(sum, q, 0.133425094f);
    sum = fmaf(sum, q, 0.120442548f);
    sum = fmaf(sum, q, 0.123860569f);
    const float tail = sum * q * exp2_short(-0.5f * LOG2_E * t * t);
    return x * (x < 0 ? tail : 1 - tail);
}

/* Applies activation ACT to COUNT values. */
template <enum gemm_act ACT, int COUNT>
__device__ __forceinline__ void activate_all(float (&v)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if constexpr (ACT == GEMM_ACT_RELU) {
            v[i] = activate<float>(GEMM_ACT_RELU, v[i]);
        } else if constexpr (ACT == GEMM_ACT_GELU) {
            v[i] = gelu_short(v[i]);
        } else if constexpr (ACT == GEMM_ACT_GELU_TANH) {
            v[i] = gelu_tanh_short(v[i]);
        } else if constexpr (ACT == GEMM_ACT_SILU) {
            v[i] = silu_short(v[i]);
        } else {
            static_assert(ACT == GEMM_ACT_NONE, "each activation has a function here");
        }
    }
}

/* Applies the activation to COUNT values, with one `switch` for all of them. */
template <int COUNT>
__device__ __forceinline__ void activate_short(enum gemm_act act, float (&v)[COUNT])
{
    switch (act) {
#define X(NAME, name)                                                                              \
    case GEMM_ACT_##NAME:                                                                          \
        activate_all<GEMM_ACT_##NAME>(v);                                                          \
        break;
        GEMM_ACT_FUNCTION_MAP(X)
#undef X
    default:
        break;
    }
}

/* The epilogue for LANE_COLUMNS sums of a line, in f32. at0: the index of the first element in C0.
 */
__device__ __forceinline__ void finish_floats(const sm90_arguments &p, int64_t at0, uint32_t valid,
                                              const float (&bias)[LANE_COLUMNS],
                                              float (&v)[LANE_COLUMNS])
{
    float c0[LANE_COLUMNS] = {};
    const enum gemm_act act = (enum gemm_act)p.act;
    if (p.c0) {
        load_floats(p.c0, at0, p.out, p.c0_aligned && valid == LANE_COLUMNS, valid, c0);
    }
#pragma unroll
    for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
        v[i] *= p.alpha;
        v[i] = p.c0 ? fmaf(p.beta, c0[i], v[i]) : v[i];
        v[i] = p.bias ? v[i] + bias[i] : v[i];
    }
    if (p.out != SM90_OUT_F32 || act == GEMM_ACT_RELU) {
        activate_short(act, v);
    } else if (act != GEMM_ACT_NONE) {
#pragma unroll 1 /* long code, and rare */
        for (uint32_t round = 0; round < LANE_COLUMNS; round++) {
            const float first = activate<float>(act, v[0]);
#pragma unroll
            for (uint32_t i = 0; i + 1 < LANE_COLUMNS; i++) {
                v[i] = v[i + 1]; /* registers have no run-time index, so the values move */
            }
            v[LANE_COLUMNS - 1] = first;
        }
    }
}

/* The bias, of a 16-bit type, for the N columns of a tile. Word i of lane l has the elements for
 * sums 64 * i + 2 * l and the next one of a row of the tile, so that a warp holds the whole bias in
 * few registers. The bias is loaded before the products of a tile, so that the elements have
 * arrived after the products. `shift` as for chunk_column. Without a bias the elements are -0,
 * which changes no sum. */
template <int N> struct tile_bias {
    uint32_t words[(N + 63) / 64];

    __device__ __forceinline__ tile_bias(const sm90_arguments &p, uint32_t lane, uint32_t column0,
                                         uint32_t shift)
    {
        const uint16_t *bias = static_cast<const uint16_t *>(p.bias);
        const uint32_t end = p.in_place && bias != nullptr ? p.n : 0;
#pragma unroll
        for (uint32_t i = 0; i < (N + 63) / 64; i++) {
            const uint32_t place = 64 * i + 2 * lane + shift;
            const uint32_t column = column0 + (place < N ? place : place - N);
            words[i] =
                ptx::load_global_pair(bias + column, column < end ? end - column : 0, 0x80008000);
        }
    }
    /* The pair of elements for the thread's sums in columns `column` to `column` + 7, counted in
     * the order of the sums. Called by all lanes of a warp. */
    __device__ __forceinline__ uint32_t pair(int column) const
    {
        return ptx::shuffle_from_quad(words[column / 64], column % 64 / 2);
    }
};

/* Takes the place of the bias in kernels whose results never have 16 bits. */
struct no_bias {
    __device__ __forceinline__ no_bias(const sm90_arguments &, uint32_t, uint32_t, uint32_t)
    {
    }
};

/* Element `which` (0 or 1) of a pair of 16-bit values of the type of the results. */
__device__ __forceinline__ float element_of(uint32_t pair, int which, uint32_t out)
{
    if (out == SM90_OUT_BF16) {
        return __uint_as_float(which == 0 ? pair << 16 : pair & 0xffff0000);
    }
    return __half2float(__ushort_as_half((unsigned short)(which == 0 ? pair : pair >> 16)));
}

/* The epilogue for 32-bit integers, modulo 2^32. */
__device__ __forceinline__ int32_t finish(const sm90_arguments &p, int32_t d, int64_t at,
                                          uint32_t column)
{
    uint32_t v = (uint32_t)d * (uint32_t)p.alpha_int;
    if (p.c0) {
        v += (uint32_t)p.beta_int * static_cast<const uint32_t *>(p.c0)[at];
    }
    if (p.bias) {
        v += static_cast<const uint32_t *>(p.bias)[column];
    }
    return p.act == GEMM_ACT_RELU && (int32_t)v < 0 ? 0 : (int32_t)v;
}

/* Stores one element of C: the value of a float, rounded to a 16-bit type, or 32 bits as they are.
 */
__device__ __forceinline__ void store_bits(const sm90_arguments &p, int64_t at, uint32_t bits)
{
    switch (p.out) {
    case SM90_OUT_F16:
        static_cast<__half *>(p.c_data)[at] = __float2half_rn(__uint_as_float(bits));
        break;
    case SM90_OUT_BF16:
        static_cast<__nv_bfloat16 *>(p.c_data)[at] = __float2bfloat16_rn(__uint_as_float(bits));
        break;
    default:
        static_cast<uint32_t *>(p.c_data)[at] = bits;
    }
}

/* Writes a thread's sums of a chunk of COLUMNS columns, times alpha and rounded to 16 bits, to a
 * panel. */
template <element E, int COLUMNS>
__device__ __forceinline__ void stage_16(const accumulator_t<E> *d, uint32_t panel, uint32_t lane,
                                         float alpha, uint32_t out)
{
    const uint32_t row = lane % 16; /* of the piece whose address this lane gives (stmatrix) */
    const uint32_t line = panel + row * COLUMNS * 2;
    const uint32_t swizzle = COLUMNS == CHUNK_COLUMNS ? row % 8 : row / 2 % 4;
#pragma unroll
    for (int j = 0; j < COLUMNS / 16; j++) {
        uint32_t v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = pack_16<E>(alpha * (float)d[8 * j + 2 * i], alpha * (float)d[8 * j + 2 * i + 1],
                              out);
        }
        const uint32_t piece = 2 * j + lane / 16;
        ptx::store_matrices(line + ((piece ^ swizzle) << 4), v[0], v[1], v[2], v[3]);
    }
}

/* Writes a thread's 16 values of 32 columns, of 32 bits each, to a panel. Lanes of odd rows write
 * their pieces in another order, so that 16 lanes that store at once reach all banks. */
__device__ __forceinline__ void stage_32(const uint32_t (&v)[16], uint32_t panel, uint32_t lane)
{
    const bool odd = lane / 4 % 2 == 1;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint32_t piece = 2 * (odd ? j ^ 2 : j) + (lane % 4) / 2;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t row = lane / 4 + 8 * h;
            const int even_at = 4 * j + 2 * h, odd_at = 4 * (j ^ 2) + 2 * h;
            ptx::store_shared_2(panel + row * 128 + ((piece ^ (row % 8)) << 4) + (lane % 2) * 8,
                                odd ? v[odd_at] : v[even_at], odd ? v[odd_at + 1] : v[even_at + 1]);
        }
    }
}

__device__ __forceinline__ uint32_t bits_of(float v)
{
    return __float_as_uint(v);
}
__device__ __forceinline__ uint32_t bits_of(int32_t v)
{
    return (uint32_t)v;
}

/* alpha * d as it is stored, where nothing else follows the sum and `out` has 32 bits. */
__device__ __forceinline__ uint32_t scaled_bits(const sm90_arguments &p, float d)
{
    return __float_as_uint(p.alpha * d);
}
__device__ __forceinline__ uint32_t scaled_bits(const sm90_arguments &p, int32_t d)
{
    return p.out == SM90_OUT_I32 ? (uint32_t)p.alpha_int * (uint32_t)d
                                 : __float_as_uint(p.alpha * (float)d);
}

/* f32 operands are multiplied by 2^16 before they are decomposed into parts, so that no part of the
 * smallest number is lost. The sums of products of parts are therefore 2^32 times too large. */
constexpr float PARTS_SCALE = 0x1p-32f;
constexpr float PARTS_SUM_MAX = 0x1p94f;

/* Whether a sum of products of parts can be used. If not, an operand may be infinite or NaN, or one
 * of its parts or a partial sum may be too large, and the sum is computed again from the operands
 * themselves (chains). */
__device__ __forceinline__ bool is_ordinary(float sum)
{
    return fabsf(sum) < PARTS_SUM_MAX;
}

/* The sums of a lane's columns, of which the first `valid` exist, as chains of f32 multiply-adds.
 * All of them are computed side by side, so that a step of k waits for memory once. */
__device__ __forceinline__ void chains(const sm90_arguments &p, uint32_t batch, uint32_t row,
                                       uint32_t column, uint32_t valid, float (&sums)[LANE_COLUMNS])
{
    const float *a = p.a.data + batch * p.a.batch_step + row * p.a.line_step;
    const float *b = p.b.data + batch * p.b.batch_step + column * p.b.line_step;
#pragma unroll
    for (uint32_t j = 0; j < LANE_COLUMNS; j++) {
        sums[j] = 0;
    }
#pragma unroll 2
    for (uint32_t i = 0; i < p.k; i++, a += p.a.k_step, b += p.b.k_step) {
        const float left = *a;
        const float *right = b;
#pragma unroll
        for (uint32_t j = 0; j < LANE_COLUMNS; j++) {
            sums[j] = fmaf(left, *right, sums[j]);
            right += j + 1 < valid ? p.b.line_step : 0;
        }
    }
}

/* Writes a lane's columns of a line to C, of which the first `valid` exist. `v` has the bits of
 * 32-bit results, or for 16-bit results those of the floats that are rounded here. `at`: the index
 * of the first element in C. */
__device__ __forceinline__ void store_columns(const sm90_arguments &p, int64_t at, uint32_t valid,
                                              const uint32_t (&v)[LANE_COLUMNS])
{
    if (valid < LANE_COLUMNS) {
#pragma unroll
        for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
            if (i < valid) {
                store_bits(p, at + i, v[i]);
            }
        }
    } else if (p.out == SM90_OUT_BF16 || p.out == SM90_OUT_F16) {
        uint32_t packed[LANE_COLUMNS / 2];
#pragma unroll
        for (uint32_t i = 0; i < LANE_COLUMNS / 2; i++) {
            const float lo = __uint_as_float(v[2 * i]), hi = __uint_as_float(v[2 * i + 1]);
            packed[i] = p.out == SM90_OUT_BF16 ? pack_bf16(lo, hi) : pack_f16(lo, hi);
        }
        *reinterpret_cast<uint4 *>(static_cast<uint16_t *>(p.c_data) + at) =
            make_uint4(packed[0], packed[1], packed[2], packed[3]);
    } else {
        uint4 *c = reinterpret_cast<uint4 *>(static_cast<uint32_t *>(p.c_data) + at);
        c[0] = make_uint4(v[0], v[1], v[2], v[3]);
        c[1] = make_uint4(v[4], v[5], v[6], v[7]);
    }
}

/* Reads a chunk of sums of 32 bits back from the staging by lines, computes its epilogue and writes
 * the results to C. The chunk has COLUMNS columns: 64 in two panels, or 32 or 16 in one. row0 and
 * column0 are the place of the chunk in C. */
template <element E, int COLUMNS>
__device__ __forceinline__ void finish_chunk(const sm90_arguments &p, uint32_t panels,
                                             uint32_t lane, uint32_t batch, uint32_t row0,
                                             uint32_t column0)
{
    using T = accumulator_t<E>;
    constexpr uint32_t LANES = COLUMNS / LANE_COLUMNS; /* that share a line */
    const uint32_t column = column0 + LANE_COLUMNS * (lane % LANES);
    const uint32_t valid = column < p.n ? min(LANE_COLUMNS, p.n - column) : 0;
    const uint32_t piece = 2 * (lane % LANES % 4);
    const uint32_t panel = panels + (lane % LANES) / 4 * PANEL_BYTES;
    const bool integers = is_integer<T> && p.out == SM90_OUT_I32;
    float bias[LANE_COLUMNS] = {};
    if (p.bias && !integers) {
        load_floats(p.bias, column, p.out, valid == LANE_COLUMNS, valid, bias);
    }
#pragma unroll 2
    for (uint32_t r = lane / LANES; r < 16; r += 32 / LANES) {
        const uint32_t row = row0 + r;
        if (row >= p.m || valid == 0) {
            continue;
        }
        const uint32_t line = panel + r * 128;
        T d[LANE_COLUMNS];
        uint32_t bits[LANE_COLUMNS];
        const uint4 d0 = ptx::load_shared_4(line + ((piece ^ (r % 8)) << 4));
        const uint4 d1 = ptx::load_shared_4(line + (((piece + 1) ^ (r % 8)) << 4));
        memcpy(d, &d0, sizeof d0);
        memcpy(d + 4, &d1, sizeof d1);
        if constexpr (E == F32) {
            bool ordinary = true;
#pragma unroll
            for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
                ordinary = ordinary && (i >= valid || is_ordinary(d[i]));
            }
            if (!ordinary) {
                float sums[LANE_COLUMNS];
                chains(p, batch, row, column, valid, sums);
#pragma unroll
                for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
                    d[i] = is_ordinary(d[i]) ? d[i] : sums[i];
                }
            }
        }
        const int64_t at0 = (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column;
        const int64_t at = (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column;
        if (integers) {
#pragma unroll
            for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
                bits[i] = i < valid ? (uint32_t)finish(p, (int32_t)d[i], at0 + i, column + i) : 0;
            }
        } else {
            float v[LANE_COLUMNS];
#pragma unroll
            for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
                v[i] = (float)d[i];
            }
            finish_floats(p, at0, valid, bias, v);
            memcpy(bits, v, sizeof v);
        }
        store_columns(p, at, valid, bits);
    }
}

/* Waits until a panel may be written: until all but the last PENDING of this warp's stores by TMA
 * have read their panels. Panels are used in turn, so PENDING is their number less 1, or 0 where
 * the panel is the one of the last store. */
template <int PENDING> __device__ __forceinline__ void panel_begin()
{
    /* All lanes wait, which takes no branch. For lanes that issue no stores there is no wait. */
    ptx::bulk_wait_read<PENDING>();
    __syncwarp();
}

/* The panel of chunk `i` of a tile of N columns, which may be written when this returns. */
template <int N> __device__ __forceinline__ uint32_t panel_of(uint32_t staging, int i)
{
    constexpr int PANELS = CHUNK_COLUMNS == chunk_columns<N> ? 2 : 4;
    /* Where a tile has no whole rounds of panels, its first chunk can have the panel of the last
     * store before, and so waits for all stores. */
    if (N / chunk_columns<N> % PANELS != 0 && i == 0) {
        panel_begin<0>();
    } else {
        panel_begin<PANELS - 1>();
    }
    return staging + i % PANELS * (STAGING_BYTES / PANELS);
}

/* The first of the columns of C that chunk `i` of a tile of N columns has. The tile's first `shift`
 * columns are the last in the sums (y_shift of gemm.cuh). */
template <int N>
__device__ __forceinline__ uint32_t chunk_column(uint32_t column0, int i, uint32_t shift)
{
    const uint32_t column = i * chunk_columns<N>;
    if constexpr (chunk_columns<N> < CHUNK_COLUMNS) {
        return column0 + (column + shift < N ? column + shift : 0);
    }
    return column0 + column;
}

/* Has TMA store a panel to C, at (row, column) of problem `batch`, and does not wait. STRAIGHT: the
 * code has no branch, so that the compiler can mix it with other code. All lanes then commit a
 * group of stores, of which only that of lane 0 is not empty. */
template <bool STRAIGHT = false>
__device__ __forceinline__ void panel_send(const sm90_arguments &p, uint32_t panel, uint32_t lane,
                                           uint32_t column, uint32_t row, uint32_t batch)
{
    ptx::fence_async_proxy();
    __syncwarp();
    ptx::tensor_store_if(lane == 0, &p.c, panel, (int32_t)column, (int32_t)row, (int32_t)batch);
    if (STRAIGHT || lane == 0) {
        ptx::bulk_commit();
    }
}

/* store_finished for activation ACT. */
template <element E, int N, enum gemm_act ACT>
__device__ __forceinline__ void store_activated(const sm90_arguments &p, const float (&d)[N / 2],
                                                const tile_bias<N> &bias, uint32_t staging,
                                                uint32_t lane, uint32_t batch, uint32_t row0,
                                                uint32_t column0, uint32_t shift)
{
    constexpr int COLUMNS = chunk_columns<N>;
    /* Products of bf16 have results of bf16; those of f16 also of bf16 (pack_16). */
    const uint32_t out = E == BF16 ? (uint32_t)SM90_OUT_BF16 : p.out;
#pragma unroll
    for (int i = 0; i < N / COLUMNS; i++) {
        float v[COLUMNS / 2];
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; j += 4) {
            const uint32_t pair = bias.pair(i * COLUMNS + 2 * j);
#pragma unroll
            for (int s = j; s < j + 4; s++) {
                v[s] = fmaf(p.alpha, d[i * COLUMNS / 2 + s], element_of(pair, s % 2, out));
            }
        }
        activate_all<ACT>(v);
        const uint32_t panel = panel_of<N>(staging, i);
        stage_16<E, COLUMNS>(v, panel, lane, 1, p.out);
        const uint32_t column = chunk_column<N>(column0, i, shift);
        /* Small chunks are faster if their code is mixed, as far as there are registers. */
        if (COLUMNS < CHUNK_COLUMNS && (N < 128 || i % 2 == 0)) {
            panel_send<true>(p, panel, lane, column, row0, batch);
        } else {
            panel_send(p, panel, lane, column, row0, batch);
        }
    }
}

/* Stores a warp's 16 rows of a tile of N columns, with the epilogue computed in place, as
 * act(alpha * d + bias). Parameters as for store_rows. The activation is chosen once for all
 * columns, so that the compiler can compute a chunk while the one before is stored. */
template <element E, int N>
__device__ __forceinline__ void store_finished(const sm90_arguments &p, const float (&d)[N / 2],
                                               const tile_bias<N> &bias, uint32_t staging,
                                               uint32_t lane, uint32_t batch, uint32_t row0,
                                               uint32_t column0, uint32_t shift)
{
    switch ((enum gemm_act)p.act) {
#define X(NAME, name)                                                                              \
    case GEMM_ACT_##NAME:                                                                          \
        store_activated<E, N, GEMM_ACT_##NAME>(p, d, bias, staging, lane, batch, row0, column0,    \
                                               shift);                                             \
        break;
        GEMM_ACT_FUNCTION_MAP(X)
#undef X
    default:
        store_activated<E, N, GEMM_ACT_NONE>(p, d, bias, staging, lane, batch, row0, column0,
                                             shift);
    }
}

/* Stores a warp's 16 rows of a tile of N columns. `d` has the thread's sums, in the accumulator
 * layout of wgmma.cuh. `staging` is the warp's shared memory, row0 the first of the warp's rows and
 * column0 the tile's first column, and `shift` as for chunk_column. `plain`: nothing but alpha
 * follows the sums. IN_PLACE: the results can have 16 bits. TAKES_C0: the kernel has the registers
 * for the third way. */
template <element E, int N, bool IN_PLACE, bool TAKES_C0, class BIAS>
__device__ __forceinline__ void
store_rows(const sm90_arguments &p, const accumulator_t<E> (&d)[N / 2], const BIAS &bias,
           bool plain, uint32_t staging, uint32_t lane, uint32_t batch, uint32_t row0,
           uint32_t column0, uint32_t shift = 0)
{
    if constexpr (IN_PLACE) {
        if (!plain && p.in_place) {
            store_finished<E, N>(p, d, bias, staging, lane, batch, row0, column0, shift);
            return;
        }
    }
    constexpr int COLUMNS = chunk_columns<N>, CHUNKS = N / COLUMNS;
    static_assert(N % COLUMNS == 0, "tiles are made of whole chunks");
    static_assert(COLUMNS == CHUNK_COLUMNS || (IN_PLACE && E != F8 && !TAKES_C0), "16 bits only");

    if (plain && ((IN_PLACE && E != F8) || p.out == SM90_OUT_F16 || p.out == SM90_OUT_BF16)) {
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const uint32_t panel = panel_of<N>(staging, i);
            stage_16<E, COLUMNS>(d + i * COLUMNS / 2, panel, lane, p.alpha, p.out);
            panel_send(p, panel, lane, chunk_column<N>(column0, i, shift), row0, batch);
        }
    } else if (plain && (!IN_PLACE || E == F8)) {
#pragma unroll
        for (int i = 0; i < N / 32; i++) {
            const uint32_t panel = staging + i % 2 * PANEL_BYTES;
            uint32_t v[16];
#pragma unroll
            for (int j = 0; j < 16; j++) {
                v[j] = scaled_bits(p, d[16 * i + j]);
            }
            panel_begin<1>();
            stage_32(v, panel, lane);
            panel_send(p, panel, lane, column0 + i * 32, row0, batch);
        }
    } else if constexpr (TAKES_C0) {
        if constexpr (E == F32) {
            /* TMA may still read the panels of a plain tile before this one. */
            panel_begin<0>();
        }
#pragma unroll 1
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
#pragma unroll
            for (int i = 0; i < 2 * CHUNKS; i++) { /* registers have no run-time index */
                if (i / 2 == chunk) {
                    uint32_t v[16];
#pragma unroll
                    for (int j = 0; j < 16; j++) {
                        v[j] = bits_of(d[16 * i + j]);
                    }
                    stage_32(v, staging + i % 2 * PANEL_BYTES, lane);
                }
            }
            __syncwarp();
            finish_chunk<E, CHUNK_COLUMNS>(p, staging, lane, batch, row0,
                                           column0 + chunk * CHUNK_COLUMNS);
            __syncwarp();
        }
    }
}

} // namespace sm90

#endif
