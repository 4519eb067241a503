/*
 * chain.cuh - a warp's 32 x 32 part of a tile by chains of multiply-adds, from slabs in shared
 * memory.
 *
 * The lanes are 4 x 8, and each computes 8 rows x 4 columns. Every element is one chain of fused
 * multiply-adds in the order of k, whatever the tile, its neighbours and the slabs. The rows and
 * columns of a lane depend on the layout of the operands, such that loads have 16 bytes (4 elements
 * where those are shorter) and no bank conflicts.
 */
#ifndef KERNELS_CUDA_GROUPED_CHAIN_CUH
#define KERNELS_CUDA_GROUPED_CHAIN_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/cuda/grouped/load.cuh"

namespace grouped
{

constexpr uint32_t ROW_LANES = 4, COLUMN_LANES = 8;
constexpr uint32_t ROWS = WARP_TILE / ROW_LANES, COLUMNS = WARP_TILE / COLUMN_LANES; // of a lane

/* Elements of k that are multiplied at a time. */
template <typename In> constexpr uint32_t CHUNK = sizeof(In) == 8 ? 2 : 4;

/* The place in the warp's part of a lane's row number `i` (LANES = ROW_LANES) or column number `i`
 * (LANES = COLUMN_LANES). */
template <uint32_t LANES>
static __device__ __forceinline__ uint32_t place(uint32_t lane, uint32_t i, bool along_k)
{
    return along_k ? lane + LANES * i : i / 4 * 4 * LANES + lane * 4 + i % 4;
}

/* CHUNK neighbouring elements, widened. */

static __device__ __forceinline__ void load_packet(const double *from, double (&to)[2])
{
    const double2 v = *(const double2 *)from;
    to[0] = v.x;
    to[1] = v.y;
}

static __device__ __forceinline__ void load_packet(const float *from, float (&to)[4])
{
    const float4 v = *(const float4 *)from;
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
}

static __device__ __forceinline__ void put_pair(__half2 pair, float *to)
{
    const float2 v = __half22float2(pair);
    to[0] = v.x;
    to[1] = v.y;
}

static __device__ __forceinline__ __half2 as_half2(uint32_t word)
{
    __half2_raw raw;
    raw.x = (unsigned short)word;
    raw.y = (unsigned short)(word >> 16);
    return __half2(raw);
}

static __device__ __forceinline__ void load_packet(const __half *from, float (&to)[4])
{
    const uint2 v = *(const uint2 *)from;
    put_pair(as_half2(v.x), to);
    put_pair(as_half2(v.y), to + 2);
}

static __device__ __forceinline__ void load_packet(const __nv_bfloat16 *from, float (&to)[4])
{
    const uint2 v = *(const uint2 *)from;
    to[0] = __uint_as_float(v.x << 16);
    to[1] = __uint_as_float(v.x & 0xffff0000u);
    to[2] = __uint_as_float(v.y << 16);
    to[3] = __uint_as_float(v.y & 0xffff0000u);
}

static __device__ __forceinline__ void load_packet(const __nv_fp8_e4m3 *from, float (&to)[4])
{
    const uint32_t v = *(const uint32_t *)from;
    put_pair(__half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)v, __NV_E4M3)), to);
    put_pair(__half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(v >> 16), __NV_E4M3)),
             to + 2);
}

/* The operand of one step: an element of the accumulator's type, or four elements of i8. */

static __device__ __forceinline__ double multiply_add(double a, double b, double c)
{
    return fma(a, b, c);
}

static __device__ __forceinline__ float multiply_add(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static __device__ __forceinline__ int32_t multiply_add(int32_t a, int32_t b, int32_t c)
{
    return __dp4a(a, b, c);
}

template <typename In> constexpr uint32_t STEPS = sizeof(In) == 8 ? 2 : 4; // of a chunk
template <> constexpr uint32_t STEPS<int8_t> = 1;

/* Loads a chunk of k of the lane's COUNT rows or columns. `first` is the warp's first row or
 * column. */
template <typename In, typename Sum, uint32_t COUNT, uint32_t LANES, bool along_k>
static __device__ __forceinline__ void load_chunk(const char *slab, uint32_t first, uint32_t lane,
                                                  uint32_t chunk, Sum (&to)[STEPS<In>][COUNT])
{
    constexpr uint32_t size = sizeof(In);
    if constexpr (along_k) {
        const char *from = slab + (first + lane) * PITCH + chunk * CHUNK<In> * size;
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            Sum packet[CHUNK<In>];
            load_packet((const In *)(from + LANES * i * PITCH), packet);
#pragma unroll
            for (uint32_t k = 0; k < CHUNK<In>; k++)
                to[k][i] = packet[k];
        }
    } else {
        const In *from = (const In *)(slab + chunk * CHUNK<In> * LINE_PITCH<In>)+first + lane * 4;
#pragma unroll
        for (uint32_t k = 0; k < CHUNK<In>; k++)
#pragma unroll
            for (uint32_t i = 0; i < COUNT; i += CHUNK<In>) {
                Sum packet[CHUNK<In>];
                load_packet(from + k * (LINE_PITCH<In> / size) + i / 4 * 4 * LANES + i % 4, packet);
#pragma unroll
                for (uint32_t j = 0; j < CHUNK<In>; j++)
                    to[k][i + j] = packet[j];
            }
    }
}

/* load_chunk for i8, whose chunk is a word of four elements along k. If the operand lies across k,
 * four words are loaded and transposed. */
template <uint32_t COUNT, uint32_t LANES, bool along_k>
static __device__ __forceinline__ void load_words(const char *slab, uint32_t first, uint32_t lane,
                                                  uint32_t chunk, int32_t (&to)[1][COUNT])
{
    if constexpr (along_k) {
        const char *from = slab + (first + lane) * PITCH + chunk * 4;
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++)
            to[0][i] = *(const int32_t *)(from + LANES * i * PITCH);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i += 4) {
            const char *from = slab + chunk * 4 * TILE + first + lane * 4 + i * LANES;
            const uint32_t k0 = *(const uint32_t *)from, k1 = *(const uint32_t *)(from + TILE);
            const uint32_t k2 = *(const uint32_t *)(from + 2 * TILE);
            const uint32_t k3 = *(const uint32_t *)(from + 3 * TILE);
            const uint32_t low01 = __byte_perm(k0, k1, 0x5140), low23 = __byte_perm(k2, k3, 0x5140);
            const uint32_t high01 = __byte_perm(k0, k1, 0x7362);
            const uint32_t high23 = __byte_perm(k2, k3, 0x7362);
            to[0][i] = (int32_t)__byte_perm(low01, low23, 0x5410);
            to[0][i + 1] = (int32_t)__byte_perm(low01, low23, 0x7632);
            to[0][i + 2] = (int32_t)__byte_perm(high01, high23, 0x5410);
            to[0][i + 3] = (int32_t)__byte_perm(high01, high23, 0x7632);
        }
    }
}

template <typename In, typename Sum, bool a_along_k, bool b_along_k>
static __device__ __forceinline__ void multiply_as(Sum (&sums)[ROWS][COLUMNS], const char *slab,
                                                   uint32_t first_row, uint32_t first_column,
                                                   uint32_t chunks)
{
    const uint32_t row_lane = thread() % 32 / COLUMN_LANES;
    const uint32_t column_lane = thread() % COLUMN_LANES;
    const char *a = slab, *b = slab + OPERAND_BYTES;
#pragma unroll 1
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        Sum x[STEPS<In>][ROWS], y[STEPS<In>][COLUMNS];
        if constexpr (sizeof(Sum) == 4 && STEPS<In> == 1) {
            load_words<ROWS, ROW_LANES, a_along_k>(a, first_row, row_lane, chunk, x);
            load_words<COLUMNS, COLUMN_LANES, b_along_k>(b, first_column, column_lane, chunk, y);
        } else {
            load_chunk<In, Sum, ROWS, ROW_LANES, a_along_k>(a, first_row, row_lane, chunk, x);
            load_chunk<In, Sum, COLUMNS, COLUMN_LANES, b_along_k>(b, first_column, column_lane,
                                                                  chunk, y);
        }
#pragma unroll
        for (uint32_t k = 0; k < STEPS<In>; k++)
#pragma unroll
            for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
                for (uint32_t j = 0; j < COLUMNS; j++)
                    sums[i][j] = multiply_add(x[k][i], y[k][j], sums[i][j]);
    }
}

/* A warp's sums, in the interface of tile.cuh: `add` multiplies a slab, `put` writes the sums. */
template <typename In, typename Sum> struct chain_sums {
    static constexpr uint32_t FILL = CHUNK<In>;
    static constexpr uint32_t SLABS = grouped::SLABS;
    static constexpr bool EXACT_RANGE = true, SHIFTED = false;
    static constexpr uint32_t PART_ROWS = WARP_TILE, PART_COLUMNS = WARP_TILE;
    Sum sums[ROWS][COLUMNS];

    __device__ __forceinline__ chain_sums()
    {
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j++)
                sums[i][j] = 0;
    }

    /* Adds the first `depth` elements of k of a slab. */
    __device__ __forceinline__ void add(const char *slab, const struct source (&operands)[2],
                                        const struct part &part, uint32_t depth)
    {
        (void)operands;
        const uint32_t chunks = (depth + FILL - 1) / FILL;
        if (part.a_along_k && part.b_along_k)
            multiply_as<In, Sum, true, true>(sums, slab, part.row, part.column, chunks);
        else if (part.a_along_k)
            multiply_as<In, Sum, true, false>(sums, slab, part.row, part.column, chunks);
        else if (part.b_along_k)
            multiply_as<In, Sum, false, true>(sums, slab, part.row, part.column, chunks);
        else
            multiply_as<In, Sum, false, false>(sums, slab, part.row, part.column, chunks);
    }

    /* Into [32][pitch]. */
    template <typename Value>
    __device__ __forceinline__ void put(Value *values, uint32_t pitch,
                                        const struct part &part) const
    {
        const uint32_t lane = thread() % 32;
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j++)
                values[place<ROW_LANES>(lane / COLUMN_LANES, i, part.a_along_k) * pitch +
                       place<COLUMN_LANES>(lane % COLUMN_LANES, j, part.b_along_k)] =
                    (Value)sums[i][j];
    }
};

} // namespace grouped

#endif
