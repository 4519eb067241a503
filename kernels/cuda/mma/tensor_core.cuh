/*
 * tensor_core - register_tiled (kernels/cuda/simt) with the multiply-adds on tensor cores, by the
 * instruction mma.sync: one warp multiplies 16 rows by 8 columns over 32 bytes of k. Operands are
 * of f16, bf16 or tf32 with sums in f32, or of i8 with sums in i32. kernels/LADDER.md introduces
 * the kernel.
 *
 * A warp computes 64 x 64 elements of a tile of 256 x 128, or 32 x 32 of a tile of 64 x 64 where
 * large tiles would leave multiprocessors idle. Operands lie in shared memory as they are stored.
 * 16-bit operands may lie along k or across k: ldmatrix reads both, one of them transposed. Other
 * operands lie along k. ldmatrix moves pieces of 4 bytes, whatever they hold: two elements of 16
 * bits, one of tf32 or four of i8. Each piece reaches the thread that mma.sync expects to have it.
 * Lines are not padded. Instead the 16-byte pieces of a line are permuted by the number of the line
 * (swizzled), so that the eight pieces that ldmatrix reads at once are in different banks. Slabs of
 * 64 or 128 bytes of k are copied by cp.async, with 384 bytes of k in flight. Between two barriers
 * the only branch is for a partial last slab, so that the compiler can schedule copies, reads of
 * the next step's operands and their rounding among the products.
 *
 * Tensor cores truncate sums instead of rounding them. The largest error of f32 results may be
 * twice that of a chain of multiply-adds: for them, 256 steps of k at a time are summed, and these
 * sums are added in f32. Operands of f32 are rounded to tf32, ties away from zero, in registers.
 * Sums of i8 are exact, modulo 2^32.
 *
 * On an H100, for m = n = k = 4096, in TFLOP/s: bf16 401 (with results of f32 352), tf32 180 (159),
 * i8 794. That is about half of what cuBLAS reaches with wgmma: on Hopper mma.sync can use only
 * about 0.62 of the tensor cores. Tiles of 64 x 64 have 275 in bf16.
 */
#ifndef KERNELS_CUDA_MMA_TENSOR_CORE_CUH
#define KERNELS_CUDA_MMA_TENSOR_CORE_CUH

#include "kernels/cuda/epilogue_column.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma/tensor_core.h"
#include "kernels/cuda/ptx_sm80.cuh"

namespace tensor_core
{

using namespace ptx_sm80;

constexpr unsigned STEP_BYTES = 32;    // of k in an instruction
constexpr unsigned STAGES_BYTES = 384; // of k in shared memory, in slabs
constexpr unsigned EXACT_STEPS = 256;  // of k that tensor cores sum on their own, if EXACT
constexpr unsigned GROUP_TILES = 8;    // rows of tiles that are computed together, column by column
constexpr unsigned PIECE = 16;         // bytes
constexpr unsigned STEP_PIECES = STEP_BYTES / PIECE;

struct arguments {
    struct gemm_problem problem;
    unsigned tiles_m, tiles_n;
};

/* The shape of a block: WARPS_M x WARPS_N warps, each of which computes BLOCKS_M times 16 rows and
 * BLOCKS_N times 8 columns. EXACT: sums of EXACT_STEPS steps of k are added in f32. RESIDENT: the
 * blocks that fit on a multiprocessor. DEPTH_BYTES: the bytes of k of a slab. */
template <unsigned WARPS_M_, unsigned WARPS_N_, unsigned BLOCKS_M_, unsigned BLOCKS_N_, bool EXACT_,
          unsigned RESIDENT_, unsigned DEPTH_BYTES_>
struct shape {
    static constexpr unsigned WARPS_N = WARPS_N_, BLOCKS_M = BLOCKS_M_, BLOCKS_N = BLOCKS_N_;
    static constexpr bool EXACT = EXACT_;
    static constexpr unsigned RESIDENT = RESIDENT_;       // blocks that fit in a multiprocessor
    static constexpr unsigned DEPTH_BYTES = DEPTH_BYTES_; // of k in a slab
    static constexpr unsigned STEPS = DEPTH_BYTES / STEP_BYTES, STAGES = STAGES_BYTES / DEPTH_BYTES;
    static constexpr unsigned WARPS = WARPS_M_ * WARPS_N, THREADS = 32 * WARPS;
    static constexpr unsigned WARP_M = 16 * BLOCKS_M, WARP_N = 8 * BLOCKS_N;
    static constexpr unsigned TILE_M = WARPS_M_ * WARP_M, TILE_N = WARPS_N * WARP_N;
    static constexpr unsigned A_BYTES = TILE_M * DEPTH_BYTES, B_BYTES = TILE_N * DEPTH_BYTES;
    static constexpr unsigned STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr unsigned SLICE_PITCH = WARP_N + 8; // of 16 rows of sums on their way to C
    static constexpr unsigned SLICES_BYTES = WARPS * 16 * SLICE_PITCH * 4;
    static constexpr unsigned SHARED_BYTES =
        STAGES * STAGE_BYTES > SLICES_BYTES ? STAGES *STAGE_BYTES : SLICES_BYTES;
    static_assert(BLOCKS_N % 2 == 0 && WARP_N % 32 == 0, "pairs of columns, whole warps");
    static_assert(BLOCKS_N <= 2 * BLOCKS_M, "operands are rounded after rows of products");
};

/* How a slab of an operand lies in shared memory. ALONG: the operand is stored along k, and the
 * slab is EXTENT lines of DEPTH_BYTES; otherwise the slab is lines of EXTENT elements of 16 bits.
 */
template <unsigned EXTENT, unsigned DEPTH_BYTES, bool ALONG_> struct layout {
    static constexpr bool ALONG = ALONG_;
    static constexpr unsigned LINES = ALONG ? EXTENT : DEPTH_BYTES / 2;
    static constexpr unsigned LINE_PIECES = (ALONG ? DEPTH_BYTES : EXTENT * 2) / PIECE;

    /* The offset of a piece of a line, in bytes. */
    static __device__ __forceinline__ uint32_t place(unsigned line, unsigned piece)
    {
        /* Two neighbouring lines of 64 bytes share 128 bytes, a row of all banks. */
        const unsigned turn = LINE_PIECES == 4 ? line / 2 % 4 : line % 8;
        return (line * LINE_PIECES + (piece ^ turn)) * PIECE;
    }
};

/* A thread's copies of one operand to slabs: in each slab the thread copies ROUNDS pieces, which
 * are ROUND_LINES lines apart. */
template <class S, unsigned EXTENT, bool ALONG, typename Element> struct source {
    using order = layout<EXTENT, S::DEPTH_BYTES, ALONG>;
    static_assert(ALONG || sizeof(Element) == 2, "ldmatrix turns elements of 16 bits");
    static constexpr unsigned BYTES = sizeof(Element), PIECE_ELEMENTS = PIECE / BYTES;
    static constexpr unsigned ROUND_LINES = S::THREADS / order::LINE_PIECES;
    static constexpr unsigned ROUNDS = order::LINES / ROUND_LINES;
    static_assert(ROUND_LINES % 8 == 0, "a thread's pieces change places alike");

    const char *from; // this thread's next piece
    uint64_t hop;     // bytes from a piece to the thread's next piece of the slab
    uint64_t advance; // bytes from the last piece in a slab to the first in the next slab
    uint32_t to;      // offset of the thread's first piece in a slab
    unsigned inside;  // lines from the thread's first line on that exist

    /* `extent` rows (or columns) are in the operand, of which `first` is the tile's first. */
    __device__ __forceinline__ source(const Element *data, uint64_t ld, uint64_t first,
                                      uint64_t extent)
    {
        const unsigned line = threadIdx.x / order::LINE_PIECES;
        const unsigned piece = threadIdx.x % order::LINE_PIECES;
        const uint64_t at = first + (ALONG ? line : piece * PIECE_ELEMENTS);
        const uint64_t rest = at < extent ? extent - at : 0;
        from =
            (const char *)(ALONG ? data + at * ld + piece * PIECE_ELEMENTS : data + line * ld + at);
        hop = ROUND_LINES * ld * BYTES;
        advance = (ALONG ? S::DEPTH_BYTES : S::DEPTH_BYTES * ld) - (ROUNDS - 1) * hop;
        to = order::place(line, piece);
        inside = rest == 0 ? 0 : ALONG && rest < order::LINES ? (unsigned)rest : order::LINES;
    }

    /* Copies the thread's piece number `i`, if it is in the first `lines` lines. Rows and columns
     * outside the operand are not copied, or the bytes that follow in memory are: their products
     * are never stored. */
    __device__ __forceinline__ void copy(uint32_t slab, unsigned i, unsigned lines)
    {
        if (i * ROUND_LINES < lines)
            copy_16(slab + to + i * ROUND_LINES * order::LINE_PIECES * PIECE, from);
        from += i + 1 < ROUNDS ? hop : advance;
    }

    /* Copies the thread's pieces of a last slab that has only `left` steps of k, with zeros for the
     * rest. */
    __device__ __forceinline__ void copy_last(uint32_t slab, unsigned left)
    {
        const unsigned line = threadIdx.x / order::LINE_PIECES;
        const unsigned k = threadIdx.x % order::LINE_PIECES * PIECE_ELEMENTS;
        const unsigned rest = k < left ? left - k : 0;
#pragma unroll
        for (unsigned i = 0; i < ROUNDS; i++, from += hop) {
            const unsigned bytes = ALONG ? (rest < PIECE_ELEMENTS ? rest * BYTES : PIECE)
                                         : (line + i * ROUND_LINES < left ? PIECE : 0);
            if (i * ROUND_LINES < inside)
                copy_16(slab + to + i * ROUND_LINES * order::LINE_PIECES * PIECE, from, bytes);
        }
    }
};

/* Loads 16 rows of A, from `row` on, by STEP_BYTES of k: pieces `piece` and piece + 1 of the rows,
 * as four matrices of 8 x 8. A lane gives ldmatrix the address of one row of a matrix. */
template <class Order>
static __device__ __forceinline__ void load_a(uint32_t (&to)[4], uint32_t slab, unsigned row,
                                              unsigned piece)
{
    const unsigned lane = threadIdx.x % 32;
    if constexpr (Order::ALONG)
        load_matrices(to, slab + Order::place(row + lane % 16, piece + lane / 16));
    else
        load_matrices_transposed(
            to, slab + Order::place(piece * 8 + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2));
}

/* Loads 16 columns of B, from `column` on, by STEP_BYTES of k. Values 0 and 1 are of the first 8
 * columns. */
template <class Order>
static __device__ __forceinline__ void load_b(uint32_t (&to)[4], uint32_t slab, unsigned column,
                                              unsigned piece)
{
    const unsigned lane = threadIdx.x % 32;
    if constexpr (Order::ALONG)
        load_matrices(to,
                      slab + Order::place(column + lane % 8 + lane / 16 * 8, piece + lane / 8 % 2));
    else
        load_matrices_transposed(
            to, slab + Order::place(piece * 8 + lane % 16, column / 8 + lane / 16));
}

/* Rounds four registers of an operand to the type that mma.sync multiplies; only f32 is rounded. */
template <typename Element> static __device__ __forceinline__ void round_operands(uint32_t (&x)[4])
{
    if constexpr (std::is_same<Element, float>::value) {
#pragma unroll
        for (unsigned v = 0; v < 4; v++)
            x[v] = round_to_tf32(x[v]);
    }
}

template <typename Element>
using sum_type = std::conditional_t<std::is_same<Element, int8_t>::value, int32_t, float>;

template <class S, typename Sum> using sums = Sum[S::BLOCKS_M][S::BLOCKS_N][4];

template <class S, typename Sum> static __device__ __forceinline__ void clear(sums<S, Sum> &sums)
{
#pragma unroll
    for (unsigned i = 0; i < S::BLOCKS_M; i++)
#pragma unroll
        for (unsigned j = 0; j < S::BLOCKS_N; j++)
#pragma unroll
            for (unsigned v = 0; v < 4; v++)
                sums[i][j][v] = 0;
}

template <class S, typename Sum>
static __device__ __forceinline__ void add(sums<S, Sum> &to, const sums<S, Sum> &from)
{
#pragma unroll
    for (unsigned i = 0; i < S::BLOCKS_M; i++)
#pragma unroll
        for (unsigned j = 0; j < S::BLOCKS_N; j++)
#pragma unroll
            for (unsigned v = 0; v < 4; v++)
                to[i][j][v] += from[i][j][v];
}

/* total = the sums of a warp's part of the tile over all k. */
template <class S, typename Element, bool transa, bool transb>
static __device__ __forceinline__ void multiply(sums<S, sum_type<Element>> &total, char *shared,
                                                const struct gemm_problem &p, uint64_t index,
                                                uint64_t first_row, uint64_t first_column)
{
    using source_a = source<S, S::TILE_M, !transa, Element>;
    using source_b = source<S, S::TILE_N, transb, Element>;
    constexpr unsigned STAGES = S::STAGES, STEPS = S::STEPS;
    constexpr unsigned DEPTH = S::DEPTH_BYTES / sizeof(Element), CHAIN_SLABS = EXACT_STEPS / DEPTH;
    const unsigned warp = threadIdx.x / 32;
    const unsigned row = warp / S::WARPS_N * S::WARP_M, column = warp % S::WARPS_N * S::WARP_N;
    source_a a((const Element *)p.a + index * p.stride_a, p.lda, first_row, p.m);
    source_b b((const Element *)p.b + index * p.stride_b, p.ldb, first_column, p.n);
    const unsigned whole = (unsigned)(p.k / DEPTH), rest = (unsigned)(p.k % DEPTH);
    const unsigned slabs = whole + (rest != 0);
    const uint32_t base = shared_address(shared);
    unsigned next = 0; // the next slab to copy

    /* Copies part number `part` of `parts` of the next slab, if that slab is whole. The parts are
     * copied between products, without a branch, which would separate the products. */
    const auto copy_part = [&](unsigned stage, unsigned part, unsigned parts) {
        constexpr unsigned ROUNDS = source_a::ROUNDS + source_b::ROUNDS;
        const uint32_t slab = base + stage * S::STAGE_BYTES;
        const unsigned a_lines = next < whole ? a.inside : 0, b_lines = next < whole ? b.inside : 0;
#pragma unroll
        for (unsigned i = 0; i < ROUNDS; i++) {
            if (i < ROUNDS * part / parts || i >= ROUNDS * (part + 1) / parts)
                continue;
            if (i < source_a::ROUNDS)
                a.copy(slab, i, a_lines);
            else
                b.copy(slab + S::A_BYTES, i - source_a::ROUNDS, b_lines);
        }
        if (part + 1 == parts) {
            copies_commit();
            next++;
        }
    };
    const auto copy_last = [&](unsigned stage) {
        const uint32_t slab = base + stage * S::STAGE_BYTES;
        if (next == whole && rest != 0) {
            a.copy_last(slab, rest);
            b.copy_last(slab + S::A_BYTES, rest);
        }
    };
    uint32_t x[2][S::BLOCKS_M][4], y[2][S::BLOCKS_N / 2][4];
    const auto load = [&](unsigned to, unsigned stage, unsigned piece) {
        const uint32_t slab = base + stage * S::STAGE_BYTES;
#pragma unroll
        for (unsigned i = 0; i < S::BLOCKS_M; i++)
            load_a<typename source_a::order>(x[to][i], slab, row + 16 * i, piece);
#pragma unroll
        for (unsigned j = 0; j < S::BLOCKS_N / 2; j++)
            load_b<typename source_b::order>(y[to][j], slab + S::A_BYTES, column + 16 * j, piece);
    };
    const auto round = [&](unsigned which, unsigned i) {
        round_operands<Element>(x[which][i]);
        if (i < S::BLOCKS_N / 2)
            round_operands<Element>(y[which][i]);
    };

    clear<S>(total);
#pragma unroll 1
    for (unsigned i = 0; i < STAGES - 1; i++) {
        copy_last(i);
        copy_part(i, 0, 1);
    }
    copies_wait<STAGES - 2>();
    __syncthreads();

    unsigned stage = 0;
    load(0, 0, 0);
#pragma unroll
    for (unsigned i = 0; i < S::BLOCKS_M; i++)
        round(0, i);
    const auto multiply_slab = [&](sums<S, sum_type<Element>> &to) {
        const unsigned read = (stage + STAGES - 1) % STAGES; // the stage that all warps have read
        copy_last(read);
#pragma unroll
        for (unsigned step = 0; step < STEPS; step++) {
            const unsigned now = step % 2, later = 1 - now;
            if (step + 1 < STEPS) {
                load(later, stage, (step + 1) * STEP_PIECES);
                copy_part(read, step, STEPS - 1);
            } else {
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                copies_wait<STAGES - 2>();
                __syncthreads();
                load(later, stage, 0);
            }
#pragma unroll
            for (unsigned i = 0; i < S::BLOCKS_M; i++) {
#pragma unroll
                for (unsigned j = 0; j < S::BLOCKS_N; j++)
                    multiply_add<Element>(to[i][j], x[now][i], y[now][j / 2][j % 2 * 2],
                                          y[now][j / 2][j % 2 * 2 + 1]);
                round(later, i);
            }
        }
    };
    if constexpr (S::EXACT) {
#pragma unroll 1
        for (unsigned slab = 0; slab < slabs;) {
            const unsigned end = slab + CHAIN_SLABS < slabs ? slab + CHAIN_SLABS : slabs;
            sums<S, sum_type<Element>> chain;
            clear<S>(chain);
#pragma unroll 1
            for (; slab < end; slab++)
                multiply_slab(chain);
            add<S>(total, chain);
        }
    } else {
#pragma unroll 1
        for (unsigned slab = 0; slab < slabs; slab++)
            multiply_slab(total);
    }
    copies_wait<0>();
    __syncthreads();
}

template <typename Value> struct alignas(2 * sizeof(Value)) pair {
    Value first, second;
};

/* Finishes and stores a warp's sums, 16 rows at a time, by way of the warp's own shared memory. */
template <class S, typename Out, typename Sum>
static __device__ __forceinline__ void store(const sums<S, Sum> &sums, char *shared,
                                             const struct gemm_problem &p, uint64_t index,
                                             uint64_t first_row, uint64_t first_column)
{
    using compute = typename epilogue<Out>::compute; // of 4 bytes
    const epilogue<Out> finish(p.alpha, p.beta, p.act, p.bias,
                               p.beta != 0 ? (const Out *)p.c0 + index * p.stride_c0 : nullptr,
                               (Out *)p.c + index * p.stride_c, p.ldc0, p.ldc);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    compute *slice = (compute *)shared + warp * 16 * S::SLICE_PITCH;
    compute *mine = slice + lane / 4 * S::SLICE_PITCH + lane % 4 * 2;
    first_row += warp / S::WARPS_N * S::WARP_M;
    first_column += warp % S::WARPS_N * S::WARP_N + lane;
#pragma unroll
    for (unsigned i = 0; i < S::BLOCKS_M; i++) {
#pragma unroll
        for (unsigned j = 0; j < S::BLOCKS_N; j++) {
            const Sum(&v)[4] = sums[i][j];
            *(pair<compute> *)(mine + 8 * j) = {(compute)v[0], (compute)v[1]};
            *(pair<compute> *)(mine + 8 * S::SLICE_PITCH + 8 * j) = {(compute)v[2], (compute)v[3]};
        }
        __syncwarp();
#pragma unroll 1
        for (unsigned c = 0; c < S::WARP_N; c += 32)
            if (first_column + c < p.n)
                finish_column<16, S::SLICE_PITCH>(finish, slice + lane + c, first_row + 16 * i, p.m,
                                                  first_column + c);
        __syncwarp();
    }
}

template <class S, typename Element, typename Out, bool transa, bool transb>
__global__ void __launch_bounds__(S::THREADS, S::RESIDENT)
    tensor_core_kernel(const __grid_constant__ struct arguments arguments)
{
    extern __shared__ __align__(128) char shared[];
    const struct gemm_problem &p = arguments.problem;
    const unsigned group = blockIdx.x / (GROUP_TILES * arguments.tiles_n);
    const unsigned within = blockIdx.x % (GROUP_TILES * arguments.tiles_n);
    const unsigned rows_left = arguments.tiles_m - group * GROUP_TILES;
    const unsigned rows = rows_left < GROUP_TILES ? rows_left : GROUP_TILES;
    const uint64_t first_row = (uint64_t)(group * GROUP_TILES + within % rows) * S::TILE_M;
    const uint64_t first_column = (uint64_t)(within / rows) * S::TILE_N;

    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
        sums<S, sum_type<Element>> sums;
        multiply<S, Element, transa, transb>(sums, shared, p, index, first_row, first_column);
        store<S, Out>(sums, shared, p, index, first_row, first_column);
        __syncthreads(); /* before the next problem's copies */
    }
}

/* The kernels of a shape, for each layout of the operands. */
template <class S, typename Element, typename Out> struct family {
    using kernel = void (*)(struct arguments);

    /* Types of other than 16 bits lie along k. */
    static kernel of(bool transa, bool transb)
    {
        if constexpr (sizeof(Element) != 2)
            return tensor_core_kernel<S, Element, Out, false, true>;
        else
            return transa ? (transb ? tensor_core_kernel<S, Element, Out, true, true>
                                    : tensor_core_kernel<S, Element, Out, true, false>)
                          : (transb ? tensor_core_kernel<S, Element, Out, false, true>
                                    : tensor_core_kernel<S, Element, Out, false, false>);
    }

    static cudaError_t prepare()
    {
        cudaError_t error = cudaSuccess;
        for (unsigned i = 0; i < 4 && error == cudaSuccess; i++)
            error = cudaFuncSetAttribute((const void *)of(i & 1, i & 2),
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         (int)S::SHARED_BYTES);
        return error;
    }

    static enum gemmd_error run(cudaStream_t stream, const struct gemm_problem &p)
    {
        struct arguments arguments;
        arguments.problem = p;
        arguments.tiles_m = grid_blocks_x(p.m, S::TILE_M);
        arguments.tiles_n = grid_blocks_x(p.n, S::TILE_N);
        const dim3 grid(arguments.tiles_m * arguments.tiles_n, 1, grid_blocks(p.batch, 1));
        return launch_with_memory(of(p.transa, p.transb), grid, dim3(S::THREADS), S::SHARED_BYTES,
                                  stream, arguments);
    }
};

/* The large and the small tile for a type of operands and a type of results. EXACT sums take twice
 * the registers, so a thread has half as many of them. */
template <typename Element, typename Out, bool EXACT> struct tiles {
    using large_shape =
        std::conditional_t<EXACT, shape<2, 4, 4, 4, true, 1, 128>, shape<4, 2, 4, 8, false, 1, 64>>;
    using small_shape = shape<2, 2, 2, 4, EXACT, 3, 128>;
    static_assert(small_shape::SHARED_BYTES <= 48 << 10, "which needs no leave");

    using large = family<large_shape, Element, Out>;
    using small = family<small_shape, Element, Out>;

    static enum gemmd_error prepare()
    {
        return cuda_error_code((int)large::prepare());
    }

    static enum gemmd_error run(cudaStream_t stream, enum tensor_core_tile tile,
                                const struct gemm_problem &p)
    {
        return tile == TENSOR_CORE_256X128 ? large::run(stream, p) : small::run(stream, p);
    }
};

template <class... Tiles> static enum gemmd_error prepare_all()
{
    enum gemmd_error code = GEMMD_OK;
    ((code = code == GEMMD_OK ? Tiles::prepare() : code), ...);
    return code;
}

} // namespace tensor_core

#endif
