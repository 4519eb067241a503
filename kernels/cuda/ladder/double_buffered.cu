/*
 * double_buffered - tiled_padded with the tiles of later steps of k copied while one tile is
 * multiplied.
 *
 * Copies go from device to shared memory by cp.async, 16 bytes each where the alignment of the
 * operand's rows allows it, up to three tiles ahead and with one barrier for each step instead of
 * two. Tiles keep the order in which they are stored. Rows are padded by 4 elements, so that reads
 * of 128 bits down a column, for an operand that lies along k, use all banks.
 *
 * On an H100 the gain is largest where few blocks hide each other's latency: 2.77 TFLOP/s at N =
 * 256, where tiled_padded has 2.12. At N = 4096 shared memory bounds both, 8.8 and 7.9. If B is
 * transposed the kernel reads B by 128 bits, and the gain is larger: 9.7 and 8.0.
 */
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/ladder/dispatch.cuh"
#include "kernels/cuda/ladder/ladder.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx_sm80.cuh"

using namespace ptx_sm80;

enum { TILE = 32, PITCH = TILE + 4, STAGES = 4 };

/* A tile of an operand as it is stored, from (first_line, first_column) on; outside of the `lines`
 * by `columns` there are zeros. */
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
__global__ void __launch_bounds__(TILE *TILE, 2)
    double_buffered_kernel(const __grid_constant__ struct gemm_problem p,
                           const __grid_constant__ epilogue<Out> finish, bool a_wide, bool b_wide)
{
    __shared__ __align__(16) float a_tiles[STAGES][TILE][PITCH]; // [row][k], or [k][row] if transa
    __shared__ __align__(16) float b_tiles[STAGES][TILE][PITCH]; // [k][column], or [column][k]
    const unsigned x = threadIdx.x, y = threadIdx.y, thread = y * TILE + x;
    /* Wide copies of A are the first threads', those of B the second half's. */
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
                copies_commit();
            };
            for (uint64_t step = 0; step < STAGES - 1; step++)
                copy_step(step);
            float sum = 0;
            for (uint64_t step = 0; step < steps; step++) {
                copies_wait<STAGES - 2>();
                __syncthreads(); /* all have copied this step, and multiplied the one before */
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
