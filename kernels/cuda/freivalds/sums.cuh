/*
 * sums.cuh - matrices times vectors, and the sums over a block, for the check of a product.
 *
 * A step says which sums are made of the elements of a matrix and one or two vectors. The kernel
 * along_kernel makes the sums over the elements of each stored line, across_kernel the sums over
 * the lines for each column. Every element is read once. Each thread reads VECTOR elements at a
 * time; along_kernel uses the elements of the vectors for LINES lines, so that the matrix, and not
 * the vectors, decides how much is read.
 */
#ifndef KERNELS_CUDA_FREIVALDS_SUMS_CUH
#define KERNELS_CUDA_FREIVALDS_SUMS_CUH

#include <cuda_fp8.h>
#include <type_traits>

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/freivalds_parts.h"

namespace freivalds
{

enum { THREADS = 256, LINES = 8, VECTOR = 4, CHUNK = 128 /* lines of a block across */ };

static __device__ __forceinline__ double to_f64(double x)
{
    return x;
}
static __device__ __forceinline__ double to_f64(float x)
{
    return x;
}
static __device__ __forceinline__ double to_f64(__half x)
{
    return __half2float(x);
}
static __device__ __forceinline__ double to_f64(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ double to_f64(__nv_fp8_e4m3 x)
{
    return (float)x;
}
static __device__ __forceinline__ double to_f64(int8_t x)
{
    return x;
}

/* An element, with NaN in place of infinity for f64. The sums of smaller types cannot overflow, so
 * that an infinity shows in them. */
template <typename T> static __device__ __forceinline__ double to_finite(T element)
{
    const double x = to_f64(element);
    return std::is_same<T, double>::value && !isfinite(x) ? (double)NAN : x;
}

/* VECTOR elements that follow one another. */
template <typename T> struct alignas(sizeof(T) * VECTOR > 16 ? 16 : sizeof(T) * VECTOR) piece {
    T at[VECTOR];
};

/* Reads elements `start` ... `start + VECTOR - 1` of a line of `length` elements. Elements beyond
 * the end are `outside`. `aligned`: pieces of the line are aligned. */
template <typename T>
static __device__ __forceinline__ piece<T> read_piece(const T *line, uint64_t start,
                                                      uint64_t length, bool aligned, T outside)
{
    piece<T> p;
    if (aligned && start + VECTOR <= length)
        return *(const piece<T> *)(line + start);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        p.at[i] = start + i < length ? line[start + i] : outside;
    return p;
}

/* One matrix for each problem of the batch, as stored. */
template <typename T> struct matrix {
    const T *start;
    uint64_t ld, stride, lines, length, batch;
    bool aligned; /* so are the pieces of every line */
};

template <typename T>
static matrix<T> matrix_of(const void *start, uint64_t ld, uint64_t stride, uint64_t lines,
                           uint64_t length, uint64_t batch)
{
    const uint64_t unit = alignof(piece<T>);
    const bool aligned = (uintptr_t)start % unit == 0 && ld * sizeof(T) % unit == 0 &&
                         (batch == 1 || stride * sizeof(T) % unit == 0);
    return {(const T *)start, ld, stride, lines, length, batch, aligned};
}

/* The vectors and sums of a step, `strides` elements from problem to problem. */
template <typename Step> struct operands {
    const typename Step::sum *vectors[Step::VECTORS];
    typename Step::sum *sums[Step::SUMS];
    uint64_t vector_stride, sum_stride;
};

/* op(B) * r: the sum, the sum of squares and the sum of magnitudes. */
struct step_b {
    using sum = double;
    enum { VECTORS = 1, SUMS = 3 };
    template <typename T>
    static __device__ __forceinline__ void add(T element, const double v[1], double sums[3])
    {
        const double product = to_finite(element) * v[0];
        sums[0] += product;
        sums[1] += product * product;
        sums[2] += fabs(product);
    }
};

/* op(A) * (op(B) * r), and its bound: magnitudes times weights. */
struct step_a {
    using sum = double;
    enum { VECTORS = 2, SUMS = 2 };
    template <typename T>
    static __device__ __forceinline__ void add(T element, const double v[2], double sums[2])
    {
        const double x = to_finite(element);
        sums[0] += x * v[0];
        sums[1] += fabs(x) * v[1];
    }
};

/* Either, modulo 2^32. */
struct step_i32 {
    using sum = uint32_t;
    enum { VECTORS = 1, SUMS = 1 };
    static __device__ __forceinline__ void add(int8_t x, const uint32_t v[1], uint32_t sums[1])
    {
        sums[0] += (uint32_t)x * v[0];
    }
};

/* The sum of one value of each thread of the block, in every thread. `room` holds one value for
 * each warp. To be called by all threads. */
template <typename Sum> static __device__ Sum block_sum(Sum value, Sum *room)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = value;
    __syncthreads();
    Sum all = 0;
    for (int warp = 0; warp < THREADS / 32; warp++)
        all += room[warp];
    return all;
}

template <typename T, typename Step>
__global__ void __launch_bounds__(THREADS)
    along_kernel(const __grid_constant__ matrix<T> x, const __grid_constant__ operands<Step> o)
{
    using Sum = typename Step::sum;
    __shared__ Sum room[THREADS / 32];
    const uint64_t first = (uint64_t)blockIdx.x * LINES;
    for (uint64_t index = blockIdx.z; index < x.batch; index += gridDim.z) {
        Sum sums[LINES][Step::SUMS] = {};
        const T *start = x.start + index * x.stride + first * x.ld;
        for (uint64_t i = (uint64_t)threadIdx.x * VECTOR; i < x.length; i += THREADS * VECTOR) {
            piece<T> read[LINES];
#pragma unroll
            for (int line = 0; line < LINES; line++)
                if (first + line < x.lines)
                    read[line] = read_piece(start + line * x.ld, i, x.length, x.aligned, T(0));
#pragma unroll
            for (int e = 0; e < VECTOR; e++) {
                Sum v[Step::VECTORS];
#pragma unroll
                for (int k = 0; k < Step::VECTORS; k++)
                    v[k] = i + e < x.length ? o.vectors[k][index * o.vector_stride + i + e] : 0;
#pragma unroll
                for (int line = 0; line < LINES; line++)
                    if (first + line < x.lines && i + e < x.length)
                        Step::add(read[line].at[e], v, sums[line]);
            }
        }
#pragma unroll
        for (int line = 0; line < LINES; line++)
#pragma unroll
            for (int s = 0; s < Step::SUMS; s++) {
                const Sum all = block_sum(sums[line][s], room);
                if (threadIdx.x == 0 && first + line < x.lines)
                    o.sums[s][index * o.sum_stride + first + line] = all;
            }
    }
}

/* Adds to sums that were zero. */
template <typename T, typename Step>
__global__ void __launch_bounds__(THREADS)
    across_kernel(const __grid_constant__ matrix<T> x, const __grid_constant__ operands<Step> o)
{
    using Sum = typename Step::sum;
    const uint64_t column = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    if (column >= x.length)
        return;
    for (uint64_t index = blockIdx.z; index < x.batch; index += gridDim.z)
        for (uint64_t first = (uint64_t)blockIdx.y * CHUNK; first < x.lines;
             first += (uint64_t)gridDim.y * CHUNK) {
            const uint64_t end = first + CHUNK < x.lines ? first + CHUNK : x.lines;
            const T *start = x.start + index * x.stride;
            Sum sums[VECTOR][Step::SUMS] = {};
#pragma unroll 4
            for (uint64_t line = first; line < end; line++) {
                const piece<T> read =
                    read_piece(start + line * x.ld, column, x.length, x.aligned, T(0));
                Sum v[Step::VECTORS];
#pragma unroll
                for (int k = 0; k < Step::VECTORS; k++)
                    v[k] = o.vectors[k][index * o.vector_stride + line];
#pragma unroll
                for (int e = 0; e < VECTOR; e++)
                    Step::add(read.at[e], v, sums[e]);
            }
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
#pragma unroll
                for (int s = 0; s < Step::SUMS; s++)
                    if (column + e < x.length)
                        atomicAdd(&o.sums[s][index * o.sum_stride + column + e], sums[e][s]);
        }
}

/* The sums of a matrix: along its lines if they lie in the direction of the sums, else across. */
template <typename T, typename Step>
static enum gemmd_error sums_launch(cudaStream_t stream, const matrix<T> &x,
                                    const operands<Step> &o, bool along)
{
    const unsigned depth = grid_blocks(x.batch, 1);
    if (along)
        return launch(along_kernel<T, Step>, dim3(grid_blocks_x(x.lines, LINES), 1, depth),
                      dim3(THREADS), stream, x, o);
    return launch(
        across_kernel<T, Step>,
        dim3(grid_blocks_x(x.length, THREADS * VECTOR), grid_blocks(x.lines, CHUNK), depth),
        dim3(THREADS), stream, x, o);
}

} // namespace freivalds

#endif
