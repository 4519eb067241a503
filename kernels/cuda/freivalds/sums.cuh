/*
 * sums.cuh - matrices times vectors, and the sums over a block, for the check of a product
 * (kernels/freivalds.h).
 *
 * A struct step_* says which sums are computed from the elements of a matrix and one or two
 * vectors. line_sums computes the sums over the elements of each stored line, and across_kernel the
 * sums over the lines for each column. Every element is read once, 16 bytes at a time.
 *
 * The check is bound by memory if enough loads are in flight. Several lines therefore use the same
 * loaded elements of the vectors, and a block copies the vectors' elements for a part of the lines
 * into shared memory, in the order in which its threads need them.
 */
#ifndef KERNELS_CUDA_FREIVALDS_SUMS_CUH
#define KERNELS_CUDA_FREIVALDS_SUMS_CUH

#include <cuda_fp8.h>
#include <string.h>
#include <type_traits>

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda_error.h"
#include "kernels/freivalds.h"
#include "kernels/freivalds_parts.h"

namespace freivalds
{

enum { THREADS = 256, CHUNK = 128 /* lines that a block of across_kernel adds */ };
/* For line_sums: the threads of a block, and the blocks that fit on a multiprocessor at least, so
 * that some compute while others wait for memory. */
enum { LINE_THREADS = 128, LINE_BLOCKS = 3 };

/* Elements that a thread reads at a time. */
template <typename T> constexpr int VECTOR = 16 / sizeof(T);

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
template <typename T> struct alignas(16) piece {
    T at[VECTOR<T>];
};

/* A piece of a line that has all its elements, and is aligned. */
template <typename T>
static __device__ __forceinline__ uint4 read_whole(const T *line, uint64_t start)
{
    return __ldcs((const uint4 *)(line + start)); /* leaves L1 to the vectors */
}

/* Reads elements `start` ... of a line of `length` elements. Elements beyond the end are 0. */
template <typename T>
static __device__ __forceinline__ uint4 read_end(const T *line, uint64_t start, uint64_t length)
{
    piece<T> p;
    uint4 bits;
#pragma unroll
    for (int i = 0; i < VECTOR<T>; i++)
        p.at[i] = start + i < length ? line[start + i] : T(0);
    memcpy(&bits, &p, sizeof p);
    return bits;
}

/* The elements of a piece. The compiler must not take the piece apart where it is read: each read
 * would have to arrive before the next one is issued. */
template <typename T> static __device__ __forceinline__ piece<T> elements_of(uint4 bits)
{
    piece<T> p;
    asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* One matrix for each problem of the batch, as stored. */
template <typename T> struct matrix {
    const T *start;
    uint64_t ld, stride, lines, length, batch;
    bool aligned; /* whether the pieces of every line are aligned to 16 bytes */
};

template <typename T>
static matrix<T> matrix_of(const void *start, uint64_t ld, uint64_t stride, uint64_t lines,
                           uint64_t length, uint64_t batch)
{
    const uint64_t unit = sizeof(piece<T>);
    const bool aligned = (uintptr_t)start % unit == 0 && ld * sizeof(T) % unit == 0 &&
                         (batch == 1 || stride * sizeof(T) % unit == 0);
    return {(const T *)start, ld, stride, lines, length, batch, aligned};
}

/* The vectors and sums of a step, `strides` elements from problem to problem, and what becomes of
 * the sums of a line before they are stored. */
template <typename Step> struct operands {
    const typename Step::sum *vectors[Step::VECTORS];
    typename Step::sum *sums[Step::SUMS];
    uint64_t vector_stride, sum_stride;
    typename Step::finish finish;
};

#define LEAST 4.9406564584124654e-324 /* DBL_TRUE_MIN, which C++ has not */

static __device__ double root_of(double square, double absolute)
{
    return isfinite(square) ? sqrt(square) : absolute;
}

/* Replaces the sum of squares of a row of op(B) by its weight in the bound. A row with an element
 * that is not finite has the sum and the weight NaN. */
struct weighing {
    double relative, own; /* of the bound: of the root, and of the sum of magnitudes */
    bool is_f64;
    __device__ void operator()(double sums[3]) const
    {
        if (!isfinite(sums[2]) && !is_f64)
            sums[0] = sums[1] = NAN;
        else
            sums[1] = relative * root_of(sums[1], sums[2]) +
                      own * (FREIVALDS_OWN_ROUNDING * sums[2] + LEAST);
    }
};

struct nothing {
    template <typename Sum> __device__ void operator()(Sum *) const
    {
    }
};

/* op(B) * r: the sum, the sum of squares and the sum of magnitudes. LINES: the lines that use the
 * same loaded elements of the vectors. */
struct step_b {
    using sum = double;
    using finish = weighing;
    enum { VECTORS = 1, SUMS = 3 };
    template <typename T> static constexpr int LINES = sizeof(T) == 1 ? 4 : 8;
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
    using finish = nothing;
    enum { VECTORS = 2, SUMS = 2 };
    template <typename T> static constexpr int LINES = sizeof(T) == 1 ? 4 : 8;
    template <typename T>
    static __device__ __forceinline__ void add(T element, const double v[2], double sums[2])
    {
        const double x = to_finite(element);
        sums[0] += x * v[0];
        sums[1] += fabs(x) * v[1];
    }
};

/* op(B) * r and op(A) * (op(B) * r) for i8, modulo 2^32. */
struct step_i32 {
    using sum = uint32_t;
    using finish = nothing;
    enum { VECTORS = 1, SUMS = 1 };
    template <typename T> static constexpr int LINES = 8;
    template <typename T>
    static __device__ __forceinline__ void add(T x, const uint32_t v[1], uint32_t sums[1])
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
    for (uint32_t warp = 0; warp < blockDim.x / 32; warp++)
        all += room[warp];
    return all;
}

/* The vectors' elements for LINE_THREADS * VECTOR elements of a line: element e of thread t at
 * [e][t]. */
template <typename T, typename Step> struct line_room {
    typename Step::sum vectors[Step::VECTORS][VECTOR<T>][LINE_THREADS + 1];
    typename Step::sum sums[Step::template LINES<T>][Step::SUMS][LINE_THREADS / 32];
};

/* Reads each thread's piece of the part of LINES lines that begins at element `first`. Pieces of
 * lines beyond the last are undefined. */
template <typename T, int LINES>
static __device__ __forceinline__ void read_part(const T *start, uint64_t ld, uint64_t lines,
                                                 uint64_t length, uint64_t first, bool aligned,
                                                 uint4 (&bits)[LINES])
{
    const uint64_t i = first + threadIdx.x * VECTOR<T>;
    if (aligned && first + LINE_THREADS * VECTOR<T> <= length) { /* the same for the whole block */
#pragma unroll
        for (int line = 0; line < LINES; line++)
            bits[line] = read_whole(start + ((uint64_t)line < lines ? line : 0) * ld, i);
    } else {
#pragma unroll
        for (int line = 0; line < LINES; line++)
            bits[line] = read_end(start + line * ld, i, (uint64_t)line < lines ? length : 0);
    }
}

/* Makes the sums of the first LINES of `lines` lines at `start`. Those of line l are in
 * sums[l] for thread l, and other threads' are undefined. To be called by LINE_THREADS threads. */
template <typename T, typename Step>
static __device__ void line_sums(const T *start, uint64_t ld, uint64_t lines, uint64_t length,
                                 bool aligned,
                                 const typename Step::sum *const (&vectors)[Step::VECTORS],
                                 line_room<T, Step> &room, typename Step::sum (&all)[Step::SUMS])
{
    using Sum = typename Step::sum;
    constexpr int LINES = Step::template LINES<T>, PART = LINE_THREADS * VECTOR<T>;
    Sum sums[LINES][Step::SUMS] = {};
    for (uint64_t first = 0; first < length; first += PART) {
        uint4 bits[LINES];
        read_part<T, LINES>(start, ld, lines, length, first, aligned, bits);
        __syncthreads(); /* the part before has been used */
#pragma unroll
        for (int k = 0; k < Step::VECTORS; k++)
#pragma unroll
            for (int e = 0; e < VECTOR<T>; e++) {
                const uint32_t at = e * LINE_THREADS + threadIdx.x;
                room.vectors[k][at % VECTOR<T>][at / VECTOR<T>] =
                    first + at < length ? vectors[k][first + at] : 0;
            }
        __syncthreads();
        piece<T> read[LINES];
#pragma unroll
        for (int line = 0; line < LINES; line++)
            read[line] = elements_of<T>(bits[line]);
#pragma unroll
        for (int e = 0; e < VECTOR<T>; e++) {
            Sum v[Step::VECTORS];
#pragma unroll
            for (int k = 0; k < Step::VECTORS; k++)
                v[k] = room.vectors[k][e][threadIdx.x];
#pragma unroll
            for (int line = 0; line < LINES; line++)
                Step::add(read[line].at[e], v, sums[line]);
        }
    }
#pragma unroll
    for (int line = 0; line < LINES; line++)
#pragma unroll
        for (int s = 0; s < Step::SUMS; s++) {
            for (int offset = 16; offset > 0; offset /= 2)
                sums[line][s] += __shfl_down_sync(0xffffffffu, sums[line][s], offset);
            if (threadIdx.x % 32 == 0)
                room.sums[line][s][threadIdx.x / 32] = sums[line][s];
        }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < Step::SUMS; s++) {
        all[s] = 0;
        for (int warp = 0; warp < LINE_THREADS / 32 && threadIdx.x < LINES; warp++)
            all[s] += room.sums[threadIdx.x][s][warp];
    }
}

template <typename T, typename Step>
__global__ void __launch_bounds__(LINE_THREADS, LINE_BLOCKS)
    along_kernel(const __grid_constant__ matrix<T> x, const __grid_constant__ operands<Step> o)
{
    using Sum = typename Step::sum;
    __shared__ line_room<T, Step> room;
    constexpr int LINES = Step::template LINES<T>;
    const uint64_t first = (uint64_t)blockIdx.x * LINES;
    later_kernels_allow();
    earlier_kernels_wait();
    for (uint64_t index = blockIdx.z; index < x.batch; index += gridDim.z) {
        const Sum *vectors[Step::VECTORS];
        Sum sums[Step::SUMS];
#pragma unroll
        for (int k = 0; k < Step::VECTORS; k++)
            vectors[k] = o.vectors[k] + index * o.vector_stride;
        line_sums<T, Step>(x.start + index * x.stride + first * x.ld, x.ld, x.lines - first,
                           x.length, x.aligned, vectors, room, sums);
        if (threadIdx.x >= LINES || first + threadIdx.x >= x.lines)
            continue;
        o.finish(sums);
#pragma unroll
        for (int s = 0; s < Step::SUMS; s++)
            o.sums[s][index * o.sum_stride + first + threadIdx.x] = sums[s];
    }
}

/* Adds to sums that were zero, and leaves them unfinished. */
template <typename T, typename Step>
__global__ void __launch_bounds__(THREADS)
    across_kernel(const __grid_constant__ matrix<T> x, const __grid_constant__ operands<Step> o)
{
    using Sum = typename Step::sum;
    const uint64_t column = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR<T>;
    later_kernels_allow();
    earlier_kernels_wait();
    if (column >= x.length)
        return;
    for (uint64_t index = blockIdx.z; index < x.batch; index += gridDim.z)
        for (uint64_t first = (uint64_t)blockIdx.y * CHUNK; first < x.lines;
             first += (uint64_t)gridDim.y * CHUNK) {
            const uint64_t end = first + CHUNK < x.lines ? first + CHUNK : x.lines;
            const T *start = x.start + index * x.stride;
            Sum sums[VECTOR<T>][Step::SUMS] = {};
            const bool whole = x.aligned && column + VECTOR<T> <= x.length;
            constexpr int LINES = 4; /* read at once */
            for (uint64_t line = first; line < end; line += LINES) {
                uint4 bits[LINES];
                if (whole) {
#pragma unroll
                    for (int i = 0; i < LINES; i++)
                        bits[i] = read_whole(start + min(line + i, end - 1) * x.ld, column);
                } else {
#pragma unroll
                    for (int i = 0; i < LINES; i++)
                        bits[i] = read_end(start + min(line + i, end - 1) * x.ld, column, x.length);
                }
#pragma unroll
                for (int i = 0; i < LINES; i++) {
                    const piece<T> read = elements_of<T>(bits[i]);
                    Sum v[Step::VECTORS];
#pragma unroll
                    for (int k = 0; k < Step::VECTORS; k++)
                        v[k] = o.vectors[k][index * o.vector_stride + min(line + i, end - 1)];
                    if (line + i < end) {
#pragma unroll
                        for (int e = 0; e < VECTOR<T>; e++)
                            Step::add(read.at[e], v, sums[e]);
                    }
                }
            }
#pragma unroll
            for (int e = 0; e < VECTOR<T>; e++)
#pragma unroll
                for (int s = 0; s < Step::SUMS; s++)
                    if (column + e < x.length)
                        atomicAdd(&o.sums[s][index * o.sum_stride + column + e], sums[e][s]);
        }
}

/* Fills the workspace of a check with zeros, to which the blocks of across_kernel add. */
static enum gemmd_error clear(cudaStream_t stream, const struct gemm_problem &p, void *workspace)
{
    uint64_t bytes;
    if (!freivalds_bytes(&p, &bytes))
        return GEMMD_ERR_TOO_LARGE;
    return cuda_error_code((int)cudaMemsetAsync(workspace, 0, bytes, stream));
}

/* The sums of a matrix: along its lines if they lie in the direction of the sums, else across. */
template <typename T, typename Step>
static enum gemmd_error sums_launch(cudaStream_t stream, const matrix<T> &x,
                                    const operands<Step> &o, bool along)
{
    const unsigned depth = grid_blocks(x.batch, 1);
    if (along)
        return launch_overlapped(along_kernel<T, Step>,
                                 dim3(grid_blocks_x(x.lines, Step::template LINES<T>), 1, depth),
                                 dim3(LINE_THREADS), 0, stream, x, o);
    return launch_overlapped(
        across_kernel<T, Step>,
        dim3(grid_blocks_x(x.length, THREADS * VECTOR<T>), grid_blocks(x.lines, CHUNK), depth),
        dim3(THREADS), 0, stream, x, o);
}

} // namespace freivalds

#endif
