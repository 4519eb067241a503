/*
 * register_tiled on sm_90a - some warps copy, the others multiply.
 *
 * A tile is 128 x 256. Eight warps of 64 x 64 have 8 x 16 sums for each thread; these warps only
 * read fragments and multiply. Four more warps copy slabs of 32 steps of k to a ring of 3 stages by
 * cp.async, whose completion arrives at the barrier of the stage. This is the warp specialisation
 * of CUTLASS's kernels for Hopper ("efficient GEMM", producers and consumers with setmaxnreg), with
 * cp.async in place of TMA, which cannot transpose an operand that lies along k. The multiplying
 * warps are relieved of the copy instructions and of a barrier of all warps every 8 steps of k.
 * Registers have to be reassigned from the copying to the multiplying warps: the three warps on a
 * quarter of a multiprocessor start with 168 each.
 *
 * Both operands lie in shared memory as [k][row] and [k][column], as in register_tiled.cu. The sums
 * are the same chains in the order of k, padded with zeros to the same multiple of 8.
 *
 * A prototype on an H100 has 51.2, 52.3 and 52.9 TFLOP/s for A * B at N = 2048, 4096 and 8192, 1.03
 * to 1.06 of cuBLAS; the tile of 256 x 128 has 46.4 at 4096
 * (kernels/experiments/register_tiled.md).
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/simt/register_tiled.cuh"
#include "kernels/cuda/simt/register_tiled.h"
#include "kernels/cuda/sm90/ring.cuh"

namespace register_tiled
{

using ptx_sm80::copy_16;
using ptx_sm80::copy_4;

struct specialised {
    static constexpr unsigned WARPS_N = 4, LANES_M = 8, LANES_N = 4, ROWS = 8, COLUMNS = 16;
    static constexpr unsigned CONSUMERS = 8, PRODUCERS = 4; // warps; the consumers come first
    static constexpr unsigned THREADS = 32 * (CONSUMERS + PRODUCERS);
    static constexpr unsigned WARP_M = LANES_M * ROWS, WARP_N = LANES_N * COLUMNS;
    static constexpr unsigned TILE_M = CONSUMERS / WARPS_N * WARP_M, TILE_N = WARPS_N * WARP_N;
    static constexpr unsigned SLAB = 32; // steps of k in a stage
    static constexpr unsigned STAGES = 3;
    static constexpr unsigned TURN = 2;    // steps of k that the compiler keeps in order
    static constexpr unsigned PADDING = 8; // k is filled up with zeros to a multiple of PADDING
    static constexpr unsigned PITCH_A = TILE_M + 4, PITCH_B = TILE_N + 4; // floats
    static constexpr unsigned A_BYTES = SLAB * PITCH_A * 4,
                              STAGE_BYTES = A_BYTES + SLAB * PITCH_B * 4;
    static constexpr unsigned SLICE_ROWS = 4 * LANES_M, SLICE_PITCH = WARP_N + 4;
    /* Offsets in shared memory: the barriers, of which a stage has a "full" and an "empty" one; the
     * stages; the slices by which sums go to C. */
    static constexpr unsigned FULL = 0, EMPTY = 64, RING = 128;
    static constexpr unsigned SLICES = RING + STAGES * STAGE_BYTES;
    static constexpr unsigned SHARED_BYTES = SLICES + CONSUMERS * SLICE_ROWS * SLICE_PITCH * 4;
    /* At the launch 384 threads have 168 registers each. The producers give away as many registers
     * as the consumers take. */
    static constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = 224;
};
using S = specialised;
using position = sm90::ring<S::STAGES>;

/* The copies of one operand's part of the tile to shared memory: [SLAB][EXTENT + 4]. A warp copies
 * full lines of an operand across k. Of an operand along k a warp copies 8 neighbouring elements of
 * 4 rows, which are in 32 different banks of shared memory. */
template <unsigned EXTENT> struct lines {
    static constexpr unsigned PITCH = EXTENT + 4;
    static constexpr unsigned DEPTH = 8; // elements of a row along k that are copied at once
    static constexpr unsigned ROUND_ROWS = 32 * S::PRODUCERS / DEPTH;

    const char *from; // this thread's first element of the slab
    uint64_t hop;     // bytes from a copy to the thread's next copy of the slab
    uint64_t advance; // bytes from slab to slab
    unsigned thread;  // number among the threads that copy
    unsigned inside;  // rows or columns from the thread's first one on that exist
    enum way way;
    bool whole; // the tile is within the operand

    /* `extent` rows (or columns) are in the operand, of which `first` is the tile's first. */
    __device__ __forceinline__ lines(const float *data, uint64_t ld, enum way how, uint64_t first,
                                     uint64_t extent, unsigned thread)
        : thread(thread), way(how), whole(first + EXTENT <= extent)
    {
        uint64_t mine;
        if (way == ALONG_K) {
            mine = first + thread / DEPTH;
            from = (const char *)(data + mine * ld + thread % DEPTH);
            hop = ROUND_ROWS * ld * 4;
            advance = S::SLAB * 4;
        } else {
            mine = first + thread % 32 * (way == ACROSS_K_16_BYTES ? 4 : 1);
            from = (const char *)(data + thread / 32 * ld + mine);
            hop = S::PRODUCERS * ld * 4;
            advance = S::SLAB * ld * 4;
        }
        inside = mine >= extent ? 0 : extent - mine < EXTENT ? (unsigned)(extent - mine) : EXTENT;
    }

    /* Starts the thread's copies of the next slab. PARTIAL: the slab has only `left` steps of k. */
    template <bool PARTIAL> __device__ __forceinline__ void copy(uint32_t slab, unsigned left)
    {
        const char *at = from;
        const unsigned line = thread / 32, lane = thread % 32;
        if (way == ACROSS_K_16_BYTES) {
            slab += (line * PITCH + lane * 4) * 4;
#pragma unroll
            for (unsigned k = 0; k < S::SLAB; k += S::PRODUCERS) {
#pragma unroll
                for (unsigned c = 0; c < EXTENT; c += 128) {
                    if (!PARTIAL && whole)
                        copy_16(slab + c * 4, at + c * 4);
                    else if (c < inside)
                        copy_16(slab + c * 4, at + c * 4,
                                PARTIAL && line + k >= left ? 0
                                : inside - c < 4            ? (inside - c) * 4
                                                            : 16);
                }
                at += hop;
                slab += S::PRODUCERS * PITCH * 4;
            }
        } else if (way == ACROSS_K_4_BYTES) {
            slab += (line * PITCH + lane) * 4;
#pragma unroll 2
            for (unsigned k = 0; k < S::SLAB; k += S::PRODUCERS) {
#pragma unroll
                for (unsigned c = 0; c < EXTENT; c += 32)
                    if (c < inside)
                        copy_4(slab + c * 4, at + c * 4, !PARTIAL || line + k < left ? 4 : 0);
                at += hop;
                slab += S::PRODUCERS * PITCH * 4;
            }
        } else {
            const unsigned k = thread % DEPTH;
            slab += (k * PITCH + thread / DEPTH) * 4;
#pragma unroll 4
            for (unsigned i = 0; i < EXTENT / ROUND_ROWS; i++) {
                if (i * ROUND_ROWS < inside)
#pragma unroll
                    for (unsigned h = 0; h < S::SLAB; h += DEPTH)
                        copy_4(slab + h * PITCH * 4, at + h * 4, !PARTIAL || k + h < left ? 4 : 0);
                at += hop;
                slab += ROUND_ROWS * 4;
            }
        }
        from += advance;
    }
};

/* Arrives at the barrier once all copies that this thread has begun are complete; does not wait. */
static __device__ __forceinline__ void copies_arrive(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

static __device__ __forceinline__ void produce(uint32_t shared, position &at,
                                               const struct arguments &arguments, uint64_t index,
                                               uint64_t first_row, uint64_t first_column)
{
    const struct gemm_problem &p = arguments.problem;
    const unsigned thread = threadIdx.x - 32 * S::CONSUMERS;
    lines<S::TILE_M> a((const float *)p.a + index * p.stride_a, p.lda, arguments.a_way, first_row,
                       p.m, thread);
    lines<S::TILE_N> b((const float *)p.b + index * p.stride_b, p.ldb, arguments.b_way,
                       first_column, p.n, thread);
    for (uint64_t left = p.k; left > 0;) {
        const uint32_t stage = shared + S::RING + at.stage * S::STAGE_BYTES;
        ptx::mbarrier_wait(shared + S::EMPTY + at.stage * 8, at.parity ^ 1);
        if (left >= S::SLAB) {
            a.copy<false>(stage, S::SLAB);
            b.copy<false>(stage + S::A_BYTES, S::SLAB);
            left -= S::SLAB;
        } else {
            a.copy<true>(stage, (unsigned)left);
            b.copy<true>(stage + S::A_BYTES, (unsigned)left);
            left = 0;
        }
        copies_arrive(shared + S::FULL + at.stage * 8);
        at.advance();
    }
}

/* load_fragment of register_tiled.cuh, by address: pointers would take registers that are not left.
 */
template <unsigned COUNT, unsigned LANES>
static __device__ __forceinline__ void load_line(float (&to)[COUNT], uint32_t from)
{
#pragma unroll
    for (unsigned i = 0; i < COUNT; i += 4)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[i]), "=f"(to[i + 1]), "=f"(to[i + 2]), "=f"(to[i + 3])
                     : "r"(from + i * LANES * 4));
}

struct operands {
    float x[2][S::ROWS], y[2][S::COLUMNS];
    uint32_t a, b; // addresses of what is in x[0] and y[0]
};

/* Multiplies TURN steps of k. On entry o.x[0] and o.y[0] have the fragments of the first step; on
 * return they have those at `a_next` and `b_next`. The order of multiply-adds is that of
 * register_tiled.cu. */
static __device__ __forceinline__ void turn(sums<S> &sums, operands &o, uint32_t a_next,
                                            uint32_t b_next)
{
#pragma unroll
    for (unsigned k = 0; k < S::TURN; k++) {
        const unsigned now = k % 2;
        const bool last = k + 1 == S::TURN;
        load_line<S::COLUMNS, S::LANES_N>(o.y[1 - now],
                                          last ? b_next : o.b + (k + 1) * S::PITCH_B * 4);
        load_line<S::ROWS, S::LANES_M>(o.x[1 - now],
                                       last ? a_next : o.a + (k + 1) * S::PITCH_A * 4);
#pragma unroll
        for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
            for (unsigned c = 0; c < S::COLUMNS; c++) {
                const unsigned j = i % 2 == 0 ? c : S::COLUMNS - 1 - c;
                sums.values[i][j] = fmaf(o.x[now][i], o.y[now][j], sums.values[i][j]);
            }
    }
    o.a = a_next;
    o.b = b_next;
}

static __device__ __forceinline__ void consume(sums<S> &sums, uint32_t shared, position &at,
                                               uint64_t k)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t a_part =
        shared + S::RING + (warp / S::WARPS_N * S::WARP_M + lane / S::LANES_N * 4) * 4;
    const uint32_t b_part =
        shared + S::RING + S::A_BYTES + (warp % S::WARPS_N * S::WARP_N + lane % S::LANES_N * 4) * 4;
    const unsigned slabs = (unsigned)((k + S::SLAB - 1) / S::SLAB);
    const unsigned rest = (unsigned)(k - (uint64_t)(slabs - 1) * S::SLAB); // in the last slab
    const unsigned last_turns = (rest + S::PADDING - 1) / S::PADDING * (S::PADDING / S::TURN);
    operands o;
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
        for (unsigned j = 0; j < S::COLUMNS; j++)
            sums.values[i][j] = 0;
    ptx::mbarrier_wait(shared + S::FULL + at.stage * 8, at.parity);
    o.a = a_part + at.stage * S::STAGE_BYTES;
    o.b = b_part + at.stage * S::STAGE_BYTES;
    load_line<S::ROWS, S::LANES_M>(o.x[0], o.a);
    load_line<S::COLUMNS, S::LANES_N>(o.y[0], o.b);
#pragma unroll 1
    for (unsigned slab = 0; slab < slabs; slab++) {
        const uint32_t empty = shared + S::EMPTY + at.stage * 8;
        const unsigned turns = slab + 1 < slabs ? S::SLAB / S::TURN : last_turns;
#pragma unroll 1
        for (unsigned i = 1; i < turns; i++)
            turn(sums, o, o.a + S::TURN * S::PITCH_A * 4, o.b + S::TURN * S::PITCH_B * 4);
        at.advance();
        if (slab + 1 < slabs)
            ptx::mbarrier_wait(shared + S::FULL + at.stage * 8, at.parity);
        /* After the last slab the fragments that are read are not used. */
        turn(sums, o, a_part + at.stage * S::STAGE_BYTES, b_part + at.stage * S::STAGE_BYTES);
        __syncwarp();
        if (lane == 0)
            ptx::mbarrier_arrive(empty);
    }
}

__global__ void __launch_bounds__(S::THREADS, 1)
    register_tiled_kernel_specialised(const __grid_constant__ struct arguments arguments)
{
    extern __shared__ __align__(128) float memory[];
    const struct gemm_problem &p = arguments.problem;
    const uint32_t shared = ptx::shared_address(memory);
    uint64_t first_row, first_column;
    place_tile<S>(arguments, &first_row, &first_column);
    if (threadIdx.x == 0)
        for (unsigned i = 0; i < S::STAGES; i++) {
            ptx::mbarrier_init(shared + S::FULL + i * 8, 32 * S::PRODUCERS);
            ptx::mbarrier_init(shared + S::EMPTY + i * 8, S::CONSUMERS);
        }
    __syncthreads();

    position at(0);
    if (threadIdx.x >= 32 * S::CONSUMERS) {
        ptx::registers_give<S::PRODUCER_REGISTERS>();
        for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z)
            produce(shared, at, arguments, index, first_row, first_column);
        asm volatile("cp.async.wait_all;" ::: "memory");
    } else {
        ptx::registers_take<S::CONSUMER_REGISTERS>();
        for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
            sums<S> sums;
            consume(sums, shared, at, p.k);
            store(sums, memory + S::SLICES / 4, p, index, first_row, first_column);
        }
    }
}

} // namespace register_tiled

cudaError_t sm90_register_tiled_prepare(void)
{
    using namespace register_tiled;
    return cudaFuncSetAttribute(register_tiled_kernel_specialised,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, (int)S::SHARED_BYTES);
}

enum gemmd_error sm90_register_tiled_launch(cudaStream_t stream, const struct gemm_problem *problem)
{
    using namespace register_tiled;
    struct arguments arguments;
    const dim3 grid = fill_in<S>(*problem, &arguments);
    return launch_with_memory(register_tiled_kernel_specialised, grid, dim3(S::THREADS),
                              S::SHARED_BYTES, stream, arguments);
}
