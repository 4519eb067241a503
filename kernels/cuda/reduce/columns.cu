/*
 * reduce_columns - sums over an axis before the last, with the bits of reduce_shuffle, and with
 * more bytes in flight. A candidate: the daemon does not have it until it has been measured.
 *
 * The threads of a multiprocessor need 700 ns * 3.35 TB/s / 132 = 18 KiB in flight. The column
 * kernels of reduce_shuffle take 100 registers, most of them for trees of which each has a count of
 * its own, so that two blocks fit on a multiprocessor: 16 KiB in flight in 16 bits, with 32 bytes a
 * thread. Here the trees of a thread's columns share one count, and a thread has 64 bytes in flight
 * in any type.
 *
 * A warp reads TILE neighbouring elements of a row, 8 warps of a block read every eighth row, and
 * shared memory joins the warps. The order of a sum is that of reduce_shuffle: four rows, the steps
 * of a warp as a pairwise tree, the warps, and then the chunks of COLUMN_CHUNK rows.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/chunks.cuh"
#include "kernels/cuda/reduce/reduce.h"
#include "kernels/cuda/reduce/state.cuh"

namespace reduce_columns
{

using namespace reduce;

constexpr unsigned THREADS = 256, WARPS = THREADS / 32, ROWS = 4, TILE = REDUCE_COLUMNS_TILE,
                   COUNT = TILE / 32; /* columns of a thread */
constexpr uint64_t COLUMN_CHUNK = 512;

struct arguments {
    struct reduce_problem problem;
    bool aligned; /* COUNT elements can be loaded at once */
    float *partial;
    uint32_t *arrived; /* chunks that have ended, for each tile; zero at first */
};

/* The sums of COUNT neighbouring columns, as one state. */
struct sums {
    struct state {
        float of[COUNT];
    };
    static __device__ __forceinline__ state none()
    {
        return {};
    }
    static __device__ __forceinline__ state both(const state &a, const state &b)
    {
        state s;
#pragma unroll
        for (unsigned c = 0; c < COUNT; c++)
            s.of[c] = a.of[c] + b.of[c];
        return s;
    }
};

template <typename T> struct __align__(COUNT * sizeof(T)) group
{
    T elements[COUNT];
};

/* The elements of a row from `column` on; those beyond the width are not read. */
template <typename T>
static __device__ __forceinline__ void load_row(const T *row, uint64_t column, uint64_t width,
                                                bool aligned, group<T> &to)
{
    if (aligned && column + COUNT <= width) {
        to = *(const group<T> *)(row + column);
        return;
    }
#pragma unroll
    for (unsigned c = 0; c < COUNT; c++)
        if (column + c < width)
            to.elements[c] = row[column + c];
}

/* Joins what the warps have stored of each column, in the first warp's place. */
static __device__ void join_warps(float (*shared)[TILE])
{
    for (unsigned half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
        for (unsigned i = threadIdx.x; i < half * TILE; i += THREADS)
            shared[i / TILE][i % TILE] += shared[i / TILE + half][i % TILE];
    }
    __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 3)
    reduce_columns_kernel(const __grid_constant__ struct arguments all)
{
    constexpr unsigned STEPS = 4 / sizeof(T); /* at once */
    __shared__ float shared[WARPS][TILE];
    const struct reduce_problem &p = all.problem;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint64_t chunks = (p.length + COLUMN_CHUNK - 1) / COLUMN_CHUNK;
    const uint64_t tiles = (p.width + TILE - 1) / TILE;
    const uint64_t place = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
    const uint64_t tile = place % tiles, row = place / tiles, column = tile * TILE + lane * COUNT;
    const T *x = (const T *)p.x + row / p.mid * p.outer_stride + row % p.mid * p.mid_stride;
    const uint64_t first = chunk * COLUMN_CHUNK,
                   end = first + COLUMN_CHUNK < p.length ? first + COLUMN_CHUNK : p.length;
    counter<sums, 5> states; /* 16 steps of 8 warps and 4 rows are a chunk */
    for (uint64_t l = first + warp; l < end; l += WARPS * ROWS * STEPS) {
        group<T> loaded[STEPS * ROWS];
#pragma unroll
        for (unsigned r = 0; r < STEPS * ROWS; r++)
            if (l + r * WARPS < end)
                load_row<T>(x + (l + r * WARPS) * p.length_stride, column, p.width, all.aligned,
                            loaded[r]);
#pragma unroll
        for (unsigned step = 0; step < STEPS; step++) {
            sums::state s[ROWS];
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++)
#pragma unroll
                for (unsigned c = 0; c < COUNT; c++)
                    s[r].of[c] = l + (step * ROWS + r) * WARPS < end
                                     ? widen(loaded[step * ROWS + r].elements[c])
                                     : 0;
            if (l + step * ROWS * WARPS < end)
                states.add(sums::both(sums::both(s[0], s[1]), sums::both(s[2], s[3])));
        }
    }
    const sums::state total = states.total();
#pragma unroll
    for (unsigned c = 0; c < COUNT; c++)
        shared[warp][lane * COUNT + c] = total.of[c];
    join_warps(shared);
    if (chunks > 1) {
        float *partial = all.partial + place * chunks * TILE;
        for (unsigned i = threadIdx.x; i < TILE; i += THREADS)
            partial[chunk * TILE + i] = shared[0][i];
        if (!arrives_last(all.arrived + place, (uint32_t)chunks))
            return;
#pragma unroll 1
        for (unsigned c = lane; c < TILE; c += 32) {
            counter<sum<float>, 10> joined;
            for (uint64_t i = warp; i < chunks; i += WARPS)
                joined.add({__ldcg(&partial[i * TILE + c])});
            shared[warp][c] = joined.total().value;
        }
        join_warps(shared);
    }
    for (unsigned c = threadIdx.x; c < TILE && tile * TILE + c < p.width; c += THREADS) {
        const uint64_t i = row * p.width + tile * TILE + c;
        finish<float>(p, sum<float>::state{shared[0][c]}, p.y,
                      i / p.y_width * p.y_leading + i % p.y_width);
    }
}

template <typename T> static enum gemmd_error run(cudaStream_t stream, const struct arguments &all)
{
    const struct reduce_problem &p = all.problem;
    const dim3 blocks(
        (unsigned)(reduce_columns_places(&p) * reduce_shuffle_chunks(p.length, false)));
    return launch(reduce_columns_kernel<T>, blocks, dim3(THREADS), stream, all);
}

} // namespace reduce_columns

enum gemmd_error reduce_columns_launch(cudaStream_t stream, const struct reduce_problem *problem,
                                       void *workspace)
{
    const struct reduce_problem &p = *problem;
    const uint64_t size = p.dtype == GEMMD_F32 ? 4 : 2, together = reduce_columns::COUNT;
    const uint64_t places = reduce_columns_places(problem);
    const uint64_t chunks = reduce_shuffle_chunks(p.length, false);
    struct reduce_columns::arguments all = {};
    all.problem = p;
    all.aligned = (uintptr_t)p.x % (together * size) == 0 && p.outer_stride % together == 0 &&
                  p.mid_stride % together == 0 && p.length_stride % together == 0;
    if (chunks > 1) {
        all.partial = (float *)workspace;
        all.arrived = (uint32_t *)(all.partial + places * chunks * REDUCE_COLUMNS_TILE);
        const cudaError_t error =
            cudaMemsetAsync(all.arrived, 0, places * sizeof *all.arrived, stream);
        if (error != cudaSuccess)
            return cuda_error_code((int)error);
    }
    switch (p.dtype) {
    case GEMMD_F32:
        return reduce_columns::run<float>(stream, all);
    case GEMMD_F16:
        return reduce_columns::run<__half>(stream, all);
    case GEMMD_BF16:
        return reduce_columns::run<__nv_bfloat16>(stream, all);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}
