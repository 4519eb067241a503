/*
 * double_buffered - tiled_padded (tiled_padded.cu) with the tiles of later steps of k copied while
 * one tile is multiplied.
 *
 * Each operand has STAGES tiles in shared memory, which take turns: step s of k uses tile s %
 * STAGES. The instruction cp.async copies from device to shared memory while the thread goes on,
 * up to three tiles ahead of the multiplication. A copy is wide (16 bytes) where the alignment of
 * the operand's rows allows it, and has 4 bytes otherwise. A step has one barrier instead of two.
 *
 * The tiles of both operands keep the order that the operand has in memory. Rows of tiles are
 * padded by 4 elements. An operand that is stored along k (A, or B transposed) is read in pieces of
 * 128 bits, four steps of k at once, and down a column of the tile these pieces use all banks.
 *
 * On an H100, for f32 and m = n = k, the gain is largest where few blocks hide each other's
 * latency: 2.77 TFLOP/s for 256, where tiled_padded has 2.12. For 4096, shared memory bounds both
 * kernels, at 8.8 and 7.9 TFLOP/s. With B transposed, fewer instructions read B, and the gain is
 * larger: 9.7 and 8.0 TFLOP/s.
 */
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/ladder/dispatch.cuh"
#include "kernels/cuda/ladder/ladder.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx_sm80.cuh"

using namespace ptx_sm80;

enum {
    TILE = 32,
    PITCH = TILE + 4, /* elements from one row of a tile to the next */
    STAGES = 4,       /* tiles of each operand in shared memory */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 1200
    BLOCKS = 1 /* at a time on a multiprocessor, which has 1536 threads there */
#else
    BLOCKS = 2
#endif
};

/* Starts the copy of one tile of an operand, as the operand is stored: TILE lines of TILE elements
 * from (first_line, first_column) on. Elements outside the operand, which has `lines` lines of
 * `columns` elements, become zeros. `wide`: the first 256 threads copy 16 bytes each; otherwise all
 * 1024 threads copy 4 bytes each. `thread` is the number of the calling thread. */
static __device__ __forceinline__ void copy_tile(float (&tile)[TILE][PITCH], const float *from,
                                                 uint64_t ld, uint64_t first_line, uint64_t lines,
                                                 uint64_t first_column, uint64_t columns, bool wide,
                                                 unsigned thread)
{
    if (wide && thread >= TILE * TILE / 4)
        return;
    const unsigned width = wide ? 4 : 1, per_line = TILE / width;
    const unsigned y = thread / per_line, x = thread % per_line * width;
    const uint64_t line = first_line + y, column = first_column + x;
    const bool inside = line < lines && column < columns;
    const float *source = inside ? from + line * ld + column : from;
    const uint32_t to = shared_address(&tile[y][x]);
    if (wide)
        copy_16(to, source,
                !inside                ? 0
                : columns - column < 4 ? (unsigned)(columns - column) * 4
                                       : 16);
    else
        copy_4(to, source, inside ? 4 : 0);
}

template <typename Out, bool transa, bool transb>
__global__ void __launch_bounds__(TILE *TILE, BLOCKS)
    double_buffered_kernel(const __grid_constant__ struct gemm_problem p,
                           const __grid_constant__ epilogue<Out> finish, bool a_wide, bool b_wide)
{
    __shared__ __align__(16) float a_tiles[STAGES][TILE][PITCH]; // [row][k], or [k][row] if transa
    __shared__ __align__(16) float b_tiles[STAGES][TILE][PITCH]; // [k][column], or [column][k]
    const unsigned x = threadIdx.x, y = threadIdx.y, thread = y * TILE + x;
    /* Threads 0 to 255 make the wide copies of A, and threads 512 to 767 those of B. */
    const unsigned b_thread = b_wide ? thread ^ (TILE * TILE / 2) : thread;
    const uint64_t first_column = (uint64_t)blockIdx.x * TILE, steps = (p.k + TILE - 1) / TILE;

    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
        const float *a = (const float *)p.a + index * p.stride_a; // [m, k], or [k, m] if transa
        const float *b = (const float *)p.b + index * p.stride_b; // [k, n], or [n, k] if transb
        for (uint64_t first_row = (uint64_t)blockIdx.y * TILE; first_row < p.m;
             first_row += (uint64_t)gridDim.y * TILE) {
            const auto copy_step = [&](uint64_t step) {
                const uint64_t k = step * TILE;
                const unsigned stage = (unsigned)(step % STAGES);
                if (step < steps) {
                    copy_tile(a_tiles[stage], a, p.lda, transa ? k : first_row, transa ? p.k : p.m,
                              transa ? first_row : k, transa ? p.m : p.k, a_wide, thread);
                    copy_tile(b_tiles[stage], b, p.ldb, transb ? first_column : k,
                              transb ? p.n : p.k, transb ? k : first_column, transb ? p.k : p.n,
                              b_wide, b_thread);
                }
                copies_commit(); /* ends this thread's group of copies, empty after the last step */
            };
            for (uint64_t step = 0; step < STAGES - 1; step++)
                copy_step(step);
            float sum = 0;
            for (uint64_t step = 0; step < steps; step++) {
                /* Of the groups that this thread has committed, all but the last STAGES - 2 are
                 * complete: its copies for this step are there. After the barrier those of all
                 * threads are, and all threads have multiplied the step before, whose tiles the
                 * next copies overwrite. */
                copies_wait<STAGES - 2>();
                __syncthreads();
                copy_step(step + STAGES - 1);
                const float(&a_tile)[TILE][PITCH] = a_tiles[step % STAGES];
                const float(&b_tile)[TILE][PITCH] = b_tiles[step % STAGES];
#pragma unroll
                for (unsigned i = 0; i < TILE; i++)
                    sum += (transa ? a_tile[i][y] : a_tile[y][i]) *
                           (transb ? b_tile[x][i] : b_tile[i][x]);
            }
            copies_wait<0>();
            __syncthreads();
            if (first_row + y < p.m && first_column + x < p.n)
                finish.store(index, first_row + y, first_column + x, sum);
        }
    }
}

/* Whether all rows of an operand start at multiples of 16 bytes. */
static bool is_wide(const void *data, uint64_t ld, uint64_t stride, uint64_t batch)
{
    return (uintptr_t)data % 16 == 0 && ld % 4 == 0 && (batch == 1 || stride % 4 == 0);
}

enum gemmd_error double_buffered_launch(cudaStream_t stream, const struct gemm_problem *problem)
{
    const struct gemm_problem &p = *problem;
    const dim3 grid(grid_blocks_x(p.n, TILE), grid_blocks(p.m, TILE), grid_blocks(p.batch, 1));
    const bool a_wide = is_wide(p.a, p.lda, p.stride_a, p.batch);
    const bool b_wide = is_wide(p.b, p.ldb, p.stride_b, p.batch);
    return ladder::with_out_of_f32(p, [&](auto out) {
        using Out = typename decltype(out)::type;
        return ladder::with_transposes(p, [&](auto transa, auto transb) {
            return launch(double_buffered_kernel<Out, transa, transb>, grid, dim3(TILE, TILE),
                          stream, p, epilogue<Out>(p), a_wide, b_wide);
        });
    });
}
