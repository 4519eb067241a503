/* Packs operands along k, and converts f8 to f16 (move.h). */
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/move.h"

enum {
    THREADS = 256,
    VECTOR = 16, /* bytes that a thread writes at once */
    /* The tile that a block transposes at once: rows of 32 words along k. */
    TILE_ROWS = 128,
    TILE_WORDS = 32,
};

union vector {
    uint8_t bytes[VECTOR];
    uint32_t words[4];
    uint4 whole;
};

__global__ void __launch_bounds__(THREADS) pad_kernel(const __grid_constant__ struct pack_job job)
{
    const uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    if (first >= job.padded_k)
        return;
    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z)
        for (uint64_t row = blockIdx.y; row < job.padded_rows; row += gridDim.y) {
            const uint8_t *from = (const uint8_t *)job.from + index * job.stride + row * job.ld;
            uint8_t *to =
                (uint8_t *)job.to + (index * job.padded_rows + row) * job.padded_k + first;
            union vector v;
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++)
                v.bytes[i] = row < job.rows && first + i < job.k ? from[first + i] : 0;
            *(uint4 *)to = v.whole;
        }
}

/* Four neighbouring elements of a line that lies across k: one k of four rows. */
template <typename Unit, typename Whole> union four {
    Unit units[4];
    Whole whole;
};

template <typename Unit, typename Whole>
static __device__ union four<Unit, Whole> load_four(const struct pack_job &job, const Unit *from,
                                                    uint64_t k, uint64_t row, bool aligned) {
    union four<Unit, Whole> v;
    const Unit *line = from + k * job.ld + row;
    if (aligned && k < job.k && row + 4 <= job.rows) {
        v.whole = *(const Whole *)line;
        return v;
    }
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        v.units[i] = k < job.k && row + i < job.rows ? line[i] : (Unit)0;
    return v;
}

/* Loads, for four rows, the word whose first element is element `k`. */
static __device__ void
load_words(const struct pack_job &job, const uint32_t *from, uint64_t k, uint64_t row, bool aligned,
           uint32_t (&words)[4])
{
    const auto v = load_four<uint32_t, uint4>(job, from, k, row, aligned);
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        words[i] = v.units[i];
}

static __device__ void load_words(const struct pack_job &job, const uint8_t *from, uint64_t k,
                                  uint64_t row, bool aligned, uint32_t (&words)[4])
{
    uint32_t lines[4];
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        lines[i] = load_four<uint8_t, uint32_t>(job, from, k + i, row, aligned).whole;
    const uint32_t low01 = __byte_perm(lines[0], lines[1], 0x5140); /* rows 0 and 1 of k 0, 1 */
    const uint32_t low23 = __byte_perm(lines[2], lines[3], 0x5140);
    const uint32_t high01 = __byte_perm(lines[0], lines[1], 0x7362);
    const uint32_t high23 = __byte_perm(lines[2], lines[3], 0x7362);
    words[0] = __byte_perm(low01, low23, 0x5410);
    words[1] = __byte_perm(low01, low23, 0x7632);
    words[2] = __byte_perm(high01, high23, 0x5410);
    words[3] = __byte_perm(high01, high23, 0x7632);
}

template <typename Unit>
__global__ void __launch_bounds__(THREADS, 4)
    transpose_kernel(const __grid_constant__ struct pack_job job, bool aligned)
{
    constexpr unsigned PER_WORD = 4 / sizeof(Unit), TILE_K = TILE_WORDS * PER_WORD;
    constexpr unsigned PER_VECTOR = VECTOR / sizeof(Unit), VECTORS = TILE_K / PER_VECTOR;
    __shared__ uint32_t tile[TILE_ROWS][TILE_WORDS + 1];
    const uint64_t first_k = (uint64_t)blockIdx.x * TILE_K;
    const unsigned rows_at = threadIdx.x % 32 * 4, warp = threadIdx.x / 32;

    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z) {
        const Unit *from = (const Unit *)job.from + index * job.stride; // [k, rows]
        Unit *to = (Unit *)job.to + index * job.padded_rows * job.padded_k;
        for (uint64_t first_row = (uint64_t)blockIdx.y * TILE_ROWS; first_row < job.padded_rows;
             first_row += (uint64_t)gridDim.y * TILE_ROWS) {
#pragma unroll(sizeof(Unit)) /* bytes need no unrolling: load_words loads four lines at once */
            for (unsigned i = 0; i < TILE_WORDS; i += THREADS / 32) {
                uint32_t words[4];
                load_words(job, from, first_k + (i + warp) * PER_WORD, first_row + rows_at, aligned,
                           words);
#pragma unroll
                for (unsigned row = 0; row < 4; row++)
                    tile[rows_at + row][i + warp] = words[row];
            }
            __syncthreads();
#pragma unroll
            for (unsigned i = threadIdx.x; i < TILE_ROWS * VECTORS; i += THREADS) {
                const unsigned row = i / VECTORS, vector = i % VECTORS;
                const uint64_t k = first_k + vector * PER_VECTOR;
                union vector v;
#pragma unroll
                for (unsigned word = 0; word < 4; word++)
                    v.words[word] = tile[row][vector * 4 + word];
                if (first_row + row < job.padded_rows && k < job.padded_k)
                    *(uint4 *)(to + (first_row + row) * job.padded_k + k) = v.whole;
            }
            __syncthreads();
        }
    }
}

template <typename Unit>
static enum gemmd_error transpose_launch(cudaStream_t stream, const struct pack_job *job)
{
    const uint64_t vector = 4 * sizeof(Unit);
    const bool aligned = (uintptr_t)job->from % vector == 0 && job->ld % 4 == 0 &&
                         (job->batch == 1 || job->stride % 4 == 0);
    const dim3 grid(grid_blocks_x(job->padded_k, TILE_WORDS * (4 / sizeof(Unit))),
                    grid_blocks(job->padded_rows, TILE_ROWS), grid_blocks(job->batch, 1));
    return launch(transpose_kernel<Unit>, grid, dim3(THREADS), stream, *job, aligned);
}

enum gemmd_error pack_launch(cudaStream_t stream, const struct pack_job *job)
{
    if (!job->along_k)
        return job->element_bytes == 1 ? transpose_launch<uint8_t>(stream, job)
                                       : transpose_launch<uint32_t>(stream, job);
    const dim3 grid(grid_blocks_x(job->padded_k, THREADS * VECTOR),
                    grid_blocks(job->padded_rows, 1), grid_blocks(job->batch, 1));
    return launch(pad_kernel, grid, dim3(THREADS), stream, *job);
}

union widened {
    __half2_raw pairs[4];
    uint4 whole;
};

/* A thread widens 8 numbers. Lines begin at multiples of 16 bytes of the destination, whose padding
 * is zeros; `aligned`: at multiples of 8 bytes of the source too. */
__global__ void __launch_bounds__(THREADS)
    widen_kernel(const __grid_constant__ struct widen_job job, bool aligned)
{
    constexpr unsigned COUNT = 8;
    const uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * COUNT;
    if (first >= job.length)
        return;
    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z)
        for (uint64_t line = blockIdx.y; line < job.lines; line += gridDim.y) {
            const uint8_t *from =
                (const uint8_t *)job.from + index * job.stride + line * job.ld + first;
            __half *to = (__half *)job.to + (index * job.lines + line) * job.ld_to + first;
            union {
                uint8_t numbers[COUNT];
                __nv_fp8x2_storage_t pairs[COUNT / 2];
                uint2 whole;
            } narrow;
            union widened wide;
            if (aligned && first + COUNT <= job.length) {
                narrow.whole = *(const uint2 *)from;
            } else {
#pragma unroll
                for (unsigned i = 0; i < COUNT; i++)
                    narrow.numbers[i] = first + i < job.length ? from[i] : (uint8_t)0;
            }
#pragma unroll
            for (unsigned i = 0; i < COUNT / 2; i++)
                wide.pairs[i] = __nv_cvt_fp8x2_to_halfraw2(narrow.pairs[i], __NV_E4M3);
            *(uint4 *)to = wide.whole;
        }
}

enum gemmd_error widen_launch(cudaStream_t stream, const struct widen_job *job)
{
    const bool aligned = (uintptr_t)job->from % 8 == 0 && job->ld % 8 == 0 &&
                         (job->batch == 1 || job->stride % 8 == 0);
    const dim3 grid(grid_blocks_x(job->length, THREADS * 8), grid_blocks(job->lines, 1),
                    grid_blocks(job->batch, 1));
    return launch(widen_kernel, grid, dim3(THREADS), stream, *job, aligned);
}
