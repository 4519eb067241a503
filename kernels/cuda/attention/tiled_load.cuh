/*
 * tiled_load.cuh - loads of Q, K and V, of any type and alignment, into shared memory as f32. A
 * thread loads quads of neighbouring elements and has several loads in flight.
 */
#ifndef KERNELS_CUDA_ATTENTION_TILED_LOAD_CUH
#define KERNELS_CUDA_ATTENTION_TILED_LOAD_CUH

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/epilogue.cuh"

namespace attention_tiled
{

using namespace attention;

constexpr unsigned BATCH = 8; /* quads that a thread loads before it uses the first */

/* Four neighbouring elements. */
template <typename T> struct alignas(4 * sizeof(T)) quad {
    T at[4];

    __device__ __forceinline__ float4 widened() const
    {
        return make_float4(widen(at[0]), widen(at[1]), widen(at[2]), widen(at[3]));
    }
};

/* The first `left` elements of 4, zeros for the rest. */
template <typename T, bool WIDE>
static __device__ __forceinline__ quad<T> load_quad(const T *from, unsigned left)
{
    quad<T> quad = {};
    if (WIDE) {
        if (left > 0)
            quad = *(const attention_tiled::quad<T> *)from;
    } else {
#pragma unroll
        for (unsigned e = 0; e < 4; e++)
            if (e < left)
                quad.at[e] = from[e];
    }
    return quad;
}

/* Loads LINES lines of `width` elements each: a warp reads 8 neighbouring quads of 4 lines at once.
 * line(i) is the start of line i, or NULL for a line of zeros. put(i, number, elements) stores quad
 * `number` of line i. WIDE: lines are whole quads, aligned as such. */
template <typename T, bool WIDE, unsigned WARPS, unsigned LINES, class Line, class Put>
static __device__ __forceinline__ void load(unsigned width, const Line &line, const Put &put)
{
    constexpr unsigned FOURS = LINES / 4;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned turns = FOURS * ((width + 31) / 32);
#pragma unroll 1
    for (unsigned first = warp; first < turns; first += WARPS * BATCH) {
        quad<T> quads[BATCH];
#pragma unroll
        for (unsigned b = 0; b < BATCH; b++) {
            const unsigned turn = first + b * WARPS;
            const unsigned column = (turn / FOURS * 8 + lane % 8) * 4;
            const T *from = line(turn % FOURS * 4 + lane / 8);
            const unsigned left = from != nullptr && column < width ? width - column : 0;
            quads[b] = load_quad<T, WIDE>(from + column, left);
        }
#pragma unroll
        for (unsigned b = 0; b < BATCH; b++) {
            const unsigned turn = first + b * WARPS;
            const unsigned number = turn / FOURS * 8 + lane % 8;
            if (4 * number < width)
                put(turn % FOURS * 4 + lane / 8, number, quads[b].widened());
        }
    }
}

template <typename T, unsigned WARPS, unsigned LINES, class Line, class Put>
static __device__ __forceinline__ void load(bool wide, unsigned width, const Line &line,
                                            const Put &put)
{
    if (wide)
        load<T, true, WARPS, LINES>(width, line, put);
    else
        load<T, false, WARPS, LINES>(width, line, put);
}

/* Stores quad `number` of line `line` transposed and swizzled: in an array [d][LINES], elements of
 * the quad have neighbouring d. */
template <unsigned LINES>
static __device__ __forceinline__ void put_turned(float4 *to, unsigned line, unsigned number,
                                                  const float4 &quad)
{
    constexpr unsigned ROW = LINES; /* floats */
    float *at = (float *)to + number * 4 * ROW + (line / 4 ^ number % 8) * 4 + line % 4;
    at[0] = quad.x;
    at[ROW] = quad.y;
    at[2 * ROW] = quad.z;
    at[3 * ROW] = quad.w;
}

} // namespace attention_tiled

#endif
