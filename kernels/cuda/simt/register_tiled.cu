/*
 * register_tiled - each thread computes up to 16 x 8 elements of C in registers.
 *
 * The kernels before this one in the ladder are bound by shared memory, from which they read two
 * elements for each multiply-add. Here a thread reads 16 + 8 elements, 128 bits at a time, for 128
 * multiply-adds, and the kernel is bound by the issue of multiply-adds. The other instructions are
 * kept few:
 *   - The 32 lanes of a warp are 4 x 8 and its part of the tile is 64 x 64, so that 8 lanes share
 *     each element of A and 4 lanes each of B, and reads have no bank conflicts.
 *   - Both operands lie in shared memory as [k][row] and [k][column]. An operand that is stored
 *     along k is transposed by the copies, of 4 bytes each, into rows that are padded by 4
 * elements, which spreads the copies of a warp over all banks.
 *   - Slabs of 8 steps of k are copied by cp.async, up to 3 ahead, with one barrier for each slab.
 *     The first fragments of a slab are read before the last products of the previous slab.
 *   - Tiles that run at the same time are neighbours in both directions, so that they share their
 *     operands in the L2.
 *
 * Rows and columns outside of the operands are not copied. The values in their places are
 * multiplied but never stored.
 *
 * On an H100, for m = n = k = 4096, the kernel has 46.7 TFLOP/s; double_buffered has 8.8 and cuBLAS
 * 50.4. 86 % of its instructions are multiply-adds, and an instruction is issued in 83 % of the
 * cycles. kernels/LADDER.md introduces the kernel.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/simt/register_tiled.cuh"
#include "kernels/cuda/simt/register_tiled.h"

namespace register_tiled
{

using namespace ptx_sm80;

constexpr unsigned DEPTH = 8; // steps of k in a slab
/* A tile, and how its elements are divided: WARPS_M x WARPS_N warps of LANES_M x 32/LANES_M lanes
 * of ROWS x COLUMNS elements. A thread reads the fragments of STEPS steps of k before it multiplies
 * the fragments that it read before: the multiply-adds take as long as the reads. STAGES: slabs in
 * shared memory. BLOCKS: the blocks that fit on a multiprocessor. */
template <unsigned WARPS_M_, unsigned WARPS_N_, unsigned LANES_M_, unsigned ROWS_,
          unsigned COLUMNS_, unsigned STEPS_, unsigned STAGES_, unsigned BLOCKS_>
struct shape {
    static constexpr unsigned WARPS_N = WARPS_N_, LANES_M = LANES_M_, LANES_N = 32 / LANES_M;
    static constexpr unsigned ROWS = ROWS_, COLUMNS = COLUMNS_, STEPS = STEPS_, STAGES = STAGES_;
    static constexpr unsigned BLOCKS = BLOCKS_;
    static constexpr unsigned WARPS = WARPS_M_ * WARPS_N, THREADS = 32 * WARPS;
    static constexpr unsigned WARP_M = LANES_M * ROWS, WARP_N = LANES_N * COLUMNS;
    static constexpr unsigned TILE_M = WARPS_M_ * WARP_M, TILE_N = WARPS_N * WARP_N;
    static constexpr unsigned PITCH_A = TILE_M + 4, PITCH_B = TILE_N + 4;
    static constexpr unsigned STAGE_BYTES = DEPTH * (PITCH_A + PITCH_B) * 4;
    /* The sums go to C by way of shared memory, 4 rows of each lane at a time. */
    static constexpr unsigned SLICE_ROWS = 4 * LANES_M, SLICE_PITCH = WARP_N + 4;
    static constexpr unsigned SLICES_BYTES = WARPS * SLICE_ROWS * SLICE_PITCH * 4;
    static constexpr unsigned SHARED_BYTES =
        STAGES * STAGE_BYTES > SLICES_BYTES ? STAGES *STAGE_BYTES : SLICES_BYTES;
    static_assert(ROWS % 4 == 0 && (COLUMNS == 1 || COLUMNS % 4 == 0), "reads of 128 bits");
    static_assert(DEPTH % (2 * STEPS) == 0, "fragments take turns within a slab");
    static_assert(THREADS % TILE_M == 0 && THREADS % TILE_N == 0, "a thread keeps its column");
};

/* The copies of one operand's part of the tile to shared memory: [DEPTH][EXTENT + 4]. The cost of a
 * copy is the number of lines that the 32 lanes of a warp access at once. For an operand along k
 * they access 8 neighbouring elements of 4 rows, which are in 32 different banks of shared memory.
 */
template <unsigned EXTENT, unsigned THREADS> struct source {
    static constexpr unsigned PITCH = EXTENT + 4, QUADS = EXTENT / 4;
    static constexpr unsigned ROUND_ROWS = THREADS / DEPTH; // of an operand along k
    static constexpr unsigned ROUNDS = DEPTH * EXTENT / THREADS;
    static constexpr unsigned QUAD_ROUNDS = (DEPTH * QUADS + THREADS - 1) / THREADS;

    const char *from; // this thread's first element of the slab
    uint64_t hop;     // bytes from a copy to the thread's next copy of the slab
    uint64_t advance; // bytes from slab to slab
    unsigned inside;  // rows from the thread's first row on, or bytes of its columns, that exist
    enum way way;

    /* `extent` rows (or columns) are in the operand, of which `first` is the tile's first. */
    __device__ __forceinline__ source(const float *data, uint64_t ld, enum way how, uint64_t first,
                                      uint64_t extent)
        : way(how)
    {
        if (way == ALONG_K) {
            const uint64_t row = first + threadIdx.x / DEPTH;
            from = (const char *)(data + row * ld + threadIdx.x % DEPTH);
            hop = ROUND_ROWS * ld * 4;
            advance = DEPTH * 4;
            inside = row >= extent ? 0 : extent - row < EXTENT ? (unsigned)(extent - row) : EXTENT;
        } else {
            const unsigned width = way == ACROSS_K_16_BYTES ? 4 : 1, line = EXTENT / width;
            const uint64_t column = first + threadIdx.x % line * width;
            from = (const char *)(data + threadIdx.x / line * ld + column);
            hop = THREADS / line * ld * 4;
            advance = DEPTH * ld * 4;
            inside = column >= extent          ? 0
                     : extent - column < width ? (unsigned)(extent - column) * 4
                                               : width * 4;
        }
    }

    /* Starts the thread's copies of the next slab. PARTIAL: the slab has only `left` steps of k. */
    template <bool PARTIAL> __device__ __forceinline__ void copy(uint32_t slab, unsigned left)
    {
        const char *at = from;
        if (way == ALONG_K) {
            const unsigned k = threadIdx.x % DEPTH;
            slab += (k * PITCH + threadIdx.x / DEPTH) * 4;
#pragma unroll
            for (unsigned i = 0; i < ROUNDS; i++, at += hop)
                if (i * ROUND_ROWS < inside) {
                    if (PARTIAL)
                        copy_4(slab + i * ROUND_ROWS * 4, at, k < left ? 4 : 0);
                    else
                        copy_4(slab + i * ROUND_ROWS * 4, at);
                }
        } else if (way == ACROSS_K_16_BYTES) {
            slab += (threadIdx.x / QUADS * PITCH + threadIdx.x % QUADS * 4) * 4;
#pragma unroll
            for (unsigned i = 0; i < QUAD_ROUNDS; i++, at += hop) {
                const unsigned k = threadIdx.x / QUADS + i * (THREADS / QUADS);
                const uint32_t to = slab + i * (THREADS / QUADS) * PITCH * 4;
                if (DEPTH * QUADS < THREADS && k >= DEPTH)
                    break;
                if (!PARTIAL && inside == 16)
                    copy_16(to, at);
                else if (inside > 0)
                    copy_16(to, at, PARTIAL && k >= left ? 0 : inside);
            }
        } else if (inside > 0) {
            slab += (threadIdx.x / EXTENT * PITCH + threadIdx.x % EXTENT) * 4;
#pragma unroll
            for (unsigned i = 0; i < ROUNDS; i++, at += hop) {
                const unsigned k = threadIdx.x / EXTENT + i * (THREADS / EXTENT);
                const uint32_t to = slab + i * (THREADS / EXTENT) * PITCH * 4;
                if (PARTIAL)
                    copy_4(to, at, k < left ? 4 : 0);
                else
                    copy_4(to, at);
            }
        }
        from += advance;
    }
};

/* A thread's elements of A (x) and of B (y) for STEPS steps of k. */
template <class S> struct fragments {
    float x[S::STEPS][S::ROWS], y[S::STEPS][S::COLUMNS];

    __device__ __forceinline__ void load(const float *a, const float *b)
    {
#pragma unroll
        for (unsigned k = 0; k < S::STEPS; k++) {
            load_fragment<S::ROWS, S::LANES_M>(x[k], a + k * S::PITCH_A);
            load_fragment<S::COLUMNS, S::LANES_N>(y[k], b + k * S::PITCH_B);
        }
    }

    /* Goes along a row of sums and back along the next row, so that each multiply-add has an
     * operand in common with the one before. It then reads only two operands from the registers,
     * which deliver two in the time of a multiply-add. */
    __device__ __forceinline__ void multiply(sums<S> &sums) const
    {
#pragma unroll
        for (unsigned k = 0; k < S::STEPS; k++)
#pragma unroll
            for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
                for (unsigned c = 0; c < S::COLUMNS; c++) {
                    const unsigned j = i % 2 == 0 ? c : S::COLUMNS - 1 - c;
                    sums.values[i][j] = fmaf(x[k][i], y[k][j], sums.values[i][j]);
                }
    }
};

template <class S>
static __device__ __forceinline__ void multiply(sums<S> &sums, float *shared,
                                                const struct arguments &arguments, uint64_t index,
                                                uint64_t first_row, uint64_t first_column)
{
    const struct gemm_problem &p = arguments.problem;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr unsigned B_UNIT = S::COLUMNS < 4 ? 1 : 4;
    constexpr unsigned STAGE = S::STAGE_BYTES / 4, B = DEPTH * S::PITCH_A;
    const float *a_part =
        shared + warp / S::WARPS_N * S::WARP_M + lane / S::LANES_N * 4; // of stage 0
    const float *b_part = shared + B + warp % S::WARPS_N * S::WARP_N + lane % S::LANES_N * B_UNIT;
    source<S::TILE_M, S::THREADS> a((const float *)p.a + index * p.stride_a, p.lda, arguments.a_way,
                                    first_row, p.m);
    source<S::TILE_N, S::THREADS> b((const float *)p.b + index * p.stride_b, p.ldb, arguments.b_way,
                                    first_column, p.n);
    const unsigned slabs = (unsigned)((p.k + DEPTH - 1) / DEPTH), rest = (unsigned)(p.k % DEPTH);
    const uint32_t base = shared_address(shared);
    unsigned next = 0; // the next slab to copy

    const auto copy_next = [&](uint32_t stage_address) {
        if (next + 1 < slabs || (next < slabs && rest == 0)) {
            a.template copy<false>(stage_address, DEPTH);
            b.template copy<false>(stage_address + B * 4, DEPTH);
        } else if (next < slabs) {
            a.template copy<true>(stage_address, rest);
            b.template copy<true>(stage_address + B * 4, rest);
        }
        copies_commit();
        next++;
    };

#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
        for (unsigned j = 0; j < S::COLUMNS; j++)
            sums.values[i][j] = 0;
#pragma unroll 1
    for (unsigned i = 0; i < S::STAGES - 1; i++)
        copy_next(base + i * S::STAGE_BYTES);
    copies_wait<S::STAGES - 2>();
    __syncthreads();

    fragments<S> fragments[2];
    unsigned stage = 0, free_stage = S::STAGES - 1;
    fragments[0].load(a_part, b_part);
#pragma unroll 1
    for (unsigned slab = 0; slab < slabs; slab++) {
        const float *a_now = a_part + stage * STAGE, *b_now = b_part + stage * STAGE;
        stage = stage + 1 == S::STAGES ? 0 : stage + 1;
#pragma unroll
        for (unsigned k = 0; k < DEPTH; k += S::STEPS) {
            const unsigned now = k / S::STEPS % 2;
            if (k + S::STEPS < DEPTH) {
                fragments[1 - now].load(a_now + (k + S::STEPS) * S::PITCH_A,
                                        b_now + (k + S::STEPS) * S::PITCH_B);
            } else {
                copies_wait<S::STAGES - 2>();
                __syncthreads();
                fragments[1 - now].load(a_part + stage * STAGE, b_part + stage * STAGE);
            }
            if (k == 0) { /* all warps have read the stage that is overwritten */
                copy_next(base + free_stage * S::STAGE_BYTES);
                free_stage = free_stage + 1 == S::STAGES ? 0 : free_stage + 1;
            }
            fragments[now].multiply(sums);
        }
    }
    copies_wait<0>();
    __syncthreads();
}

template <class S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    register_tiled_kernel(const __grid_constant__ struct arguments arguments)
{
    extern __shared__ __align__(16) float shared[];
    const struct gemm_problem &p = arguments.problem;
    uint64_t first_row, first_column;
    place_tile<S>(arguments, &first_row, &first_column);

    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
        sums<S> sums;
        multiply(sums, shared, arguments, index, first_row, first_column);
        store(sums, shared, p, index, first_row, first_column);
        __syncthreads(); /* before the next problem's copies */
    }
}

template <class S> static enum gemmd_error run(cudaStream_t stream, const struct gemm_problem &p)
{
    struct arguments arguments;
    const dim3 grid = fill_in<S>(p, &arguments);
    return launch_with_memory(register_tiled_kernel<S>, grid, dim3(S::THREADS), S::SHARED_BYTES,
                              stream, arguments);
}

template <class S> static cudaError_t allow_memory()
{
    return cudaFuncSetAttribute(register_tiled_kernel<S>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, (int)S::SHARED_BYTES);
}

using tile_256x128 = shape<4, 2, 4, 16, 8, 1, 4, 1>;
using tile_128x128 = shape<2, 2, 4, 16, 8, 1, 4, 2>;
using tile_128x64 = shape<4, 1, 4, 8, 8, 2, 4, 2>;
using tile_64x64 = shape<2, 2, 4, 8, 4, 2, 4, 3>;
using tile_32x32 = shape<2, 1, 4, 4, 4, 1, 6, 4>;
using tile_16x32 = shape<4, 1, 1, 4, 1, 1, 8, 4>;

} // namespace register_tiled

enum gemmd_error register_tiled_prepare(void)
{
    using namespace register_tiled;
    cudaError_t error = allow_memory<tile_256x128>();
    if (error == cudaSuccess)
        error = allow_memory<tile_128x128>();
    return cuda_error_code((int)error);
}

enum gemmd_error register_tiled_launch(cudaStream_t stream, enum register_tile tile,
                                       const struct gemm_problem *problem)
{
    using namespace register_tiled;
    switch (tile) {
    case REGISTER_TILE_256X128:
        return run<tile_256x128>(stream, *problem);
    case REGISTER_TILE_128X128:
        return run<tile_128x128>(stream, *problem);
    case REGISTER_TILE_128X64:
        return run<tile_128x64>(stream, *problem);
    case REGISTER_TILE_64X64:
        return run<tile_64x64>(stream, *problem);
    case REGISTER_TILE_32X32:
        return run<tile_32x32>(stream, *problem);
    case REGISTER_TILE_128X256:
        return sm90_register_tiled_launch(stream, problem);
    default:
        return run<tile_16x32>(stream, *problem);
    }
}
