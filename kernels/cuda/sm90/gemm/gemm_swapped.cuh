/*
 * gemm_swapped.cuh - products of tf32 with swapped operands, for B as it is stored, [k, n].
 *
 * The tensor core takes 32-bit operands from shared memory only if they lie along k. From registers
 * it takes any layout, but only for the left operand. These kernels therefore compute the transpose
 * of C, columns * rows: the left operand is Y, which threads read from the tile that TMA wrote, and
 * the right operand is X by descriptor. The ring, the order of tiles and the producer are those of
 * gemm.cuh. The steps of k and the chain of each sum are the same too, and so are the bits.
 *
 * A line of Y's tile is one k of 32 columns, which two warps share. Any column may be any row of
 * the left operand, as long as sums are stored in the same order. A lane takes two neighbouring
 * columns, 8 bytes at once. A warp takes columns such that 16 lanes use all banks (lane_columns),
 * both when it reads Y (4 lines, 4 pairs of columns) and when it writes sums (4 lines, every other
 * one, 4 pairs).
 *
 * A thread has the values of two stages in registers: those that the tensor core multiplies, which
 * it uses until its products have completed, and those that are read for the next products. Where
 * chunks of k are added and a tile has many sums, registers hold half a stage at a time.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_SWAPPED_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_SWAPPED_CUH

#include <stdint.h>

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/gemm/arguments.h"
#include "kernels/cuda/sm90/gemm/epilogue.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/ring.cuh"
#include "kernels/cuda/sm90/wgmma.cuh"

namespace sm90
{

constexpr uint32_t PAIR_COLUMNS = 32; /* columns of C that a pair of warps computes */
constexpr uint32_t PAIR_THREADS = 64;
constexpr int STEP_K = 8; /* steps of k of one wgmma of tf32 */

/* The two columns of a lane among the 32 of its pair of warps: the first is 4 * piece + half / 4,
 * where `half` is the offset in bytes within the 16-byte piece. The two columns are rows l/4 and
 * l/4 + 8 of the warp's 16 rows of the left operand, for lane l. Lanes that follow each other have
 * pieces that differ in bits 0 and 2, so that they use different banks: lines are swizzled by
 * k % 8, of which 4 neighbouring ones are read, and by row % 8, of which every other one is
 * written. */
struct lane_columns {
    uint32_t piece, half;

    __device__ __forceinline__ lane_columns(uint32_t warp, uint32_t lane)
    {
        const uint32_t order = 4 * (warp % 2) + lane / 8;
        piece = order / 2 ^ (order % 2 == 1 ? 5 : 0);
        half = 8 * (lane / 4 % 2);
    }
    /* The first of the two columns. */
    __device__ __forceinline__ uint32_t first() const
    {
        return 4 * piece + half / 4;
    }
    /* The offset of the two columns in line `line` of a panel or a box, in bytes. */
    __device__ __forceinline__ uint32_t in_line(uint32_t line) const
    {
        return ((piece ^ (line % 8)) << 4) + half;
    }
};

/* A thread's values of Y for STEPS instructions: the left operand `x` of wgmma_registers for each.
 */
template <int STEPS> using left_steps = uint32_t[STEPS][4];
/* The same for a whole stage. */
template <class C> using left_operand = left_steps<C::TILE_K / STEP_K>;

/* Reads a thread's values of Y. `box`: the address of the pair's columns in the stage, at the k of
 * the first instruction. */
template <int STEPS>
__device__ __forceinline__ void load_left(uint32_t box, const lane_columns &columns, uint32_t lane,
                                          left_steps<STEPS> &x)
{
    const uint32_t low = box + lane % 4 * 128 + columns.in_line(lane % 4);
    const uint32_t high = box + (lane % 4 + 4) * 128 + columns.in_line(lane % 4 + 4);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        const uint2 v = ptx::load_shared_2(low + i * STEP_K * 128);
        const uint2 w = ptx::load_shared_2(high + i * STEP_K * 128);
        x[i][0] = v.x;
        x[i][1] = v.y;
        x[i][2] = w.x;
        x[i][3] = w.y;
    }
}

/* Issues STEPS instructions of a stage, from number FIRST on; `fresh`: the first begins a sum. */
template <class C, int FIRST, int STEPS>
__device__ __forceinline__ void multiply_swapped(const shared<C> &s, uint32_t stage,
                                                 const left_steps<STEPS> &x,
                                                 float (&d)[C::TILE_M / 2], bool fresh)
{
    const uint64_t right = tile_descriptor<true, C::K_BYTES>(s.x(stage, 0));
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        wgmma_registers<C::E, true>(d, x[i], right + (FIRST + i) * descriptor_k_step<true>,
                                    fresh && i == 0 ? 0 : 1);
    }
    wgmma_commit();
}

/* Reads the values of the next stage into `x` and issues their products, while the tensor core
 * still multiplies the values of the stage before. On return the products of the stage before have
 * completed, so that `before` may be overwritten, and the stage is released. */
template <class C>
__device__ __forceinline__ void
multiply_next(const shared<C> &s, uint32_t box, const lane_columns &columns, uint32_t lane,
              uint32_t &previous, ring<C::STAGES> &at, left_operand<C> &x, left_operand<C> &before,
              float (&d)[C::TILE_M / 2])
{
    ptx::mbarrier_wait(s.full(at.stage), at.parity);
    load_left(s.y(at.stage, 0) + box, columns, lane, x);
    multiply_swapped<C, 0>(s, at.stage, x, d, false);
    wgmma_wait<1>();
    pin(before);
    release<C>(s, previous, lane);
    previous = at.stage;
    at.advance();
}

/* d = the sum over `k_tiles` stages. */
template <class C>
__device__ __forceinline__ void sum_swapped(const shared<C> &s, uint32_t k_tiles, uint32_t box,
                                            const lane_columns &columns, uint32_t lane,
                                            ring<C::STAGES> &at, float (&d)[C::TILE_M / 2])
{
    left_operand<C> even, odd = {};
    ptx::mbarrier_wait(s.full(at.stage), at.parity);
    load_left(s.y(at.stage, 0) + box, columns, lane, even);
    multiply_swapped<C, 0>(s, at.stage, even, d, true);
    uint32_t previous = at.stage, i = 1;
    at.advance();
    for (; i + 1 < k_tiles; i += 2) {
        multiply_next<C>(s, box, columns, lane, previous, at, odd, even, d);
        multiply_next<C>(s, box, columns, lane, previous, at, even, odd, d);
    }
    if (i < k_tiles) {
        multiply_next<C>(s, box, columns, lane, previous, at, odd, even, d);
    }
    wgmma_wait<0>();
    pin(d);
    pin(even);
    pin(odd);
    release<C>(s, previous, lane);
}

/* The same for half a stage, of STEPS instructions from number FIRST on: reads `x` and issues its
 * products. On return the products of the half before have completed, so that `before` may be
 * overwritten. */
template <class C, int FIRST, int STEPS>
__device__ __forceinline__ void multiply_half(const shared<C> &s, uint32_t stage, uint32_t box,
                                              const lane_columns &columns, uint32_t lane,
                                              left_steps<STEPS> &x, left_steps<STEPS> &before,
                                              float (&d)[C::TILE_M / 2], bool fresh)
{
    load_left(s.y(stage, 0) + box + FIRST * STEP_K * 128, columns, lane, x);
    multiply_swapped<C, FIRST>(s, stage, x, d, fresh);
    wgmma_wait<1>();
    pin(before);
}

/* sum_swapped with half the registers for Y. */
template <class C>
__device__ __forceinline__ void sum_halves(const shared<C> &s, uint32_t k_tiles, uint32_t box,
                                           const lane_columns &columns, uint32_t lane,
                                           ring<C::STAGES> &at, float (&d)[C::TILE_M / 2])
{
    constexpr int STEPS = C::TILE_K / STEP_K / 2;
    left_steps<STEPS> first, second = {};
    uint32_t previous = at.stage;
    ptx::mbarrier_wait(s.full(at.stage), at.parity);
    multiply_half<C, 0>(s, at.stage, box, columns, lane, first, second, d, true);
    multiply_half<C, STEPS>(s, at.stage, box, columns, lane, second, first, d, false);
    at.advance();
    for (uint32_t i = 1; i < k_tiles; i++) {
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
        multiply_half<C, 0>(s, at.stage, box, columns, lane, first, second, d, false);
        release<C>(s, previous, lane);
        multiply_half<C, STEPS>(s, at.stage, box, columns, lane, second, first, d, false);
        previous = at.stage;
        at.advance();
    }
    wgmma_wait<0>();
    pin(d);
    pin(first);
    pin(second);
    release<C>(s, previous, lane);
}

/* The sum over `k_tiles` stages in chains of `step` stages, which are added in f32. */
template <class C>
__device__ __forceinline__ void sum_chunks_swapped(const shared<C> &s, uint32_t k_tiles,
                                                   uint32_t step, uint32_t box,
                                                   const lane_columns &columns, uint32_t lane,
                                                   ring<C::STAGES> &at, float (&d)[C::TILE_M / 2])
{
    for (uint32_t first = 0; first < k_tiles; first += step) {
        float chunk[C::TILE_M / 2];
        if constexpr (C::TAKES_MORE) {
            sum_halves<C>(s, min(step, k_tiles - first), box, columns, lane, at, chunk);
        } else {
            sum_swapped<C>(s, min(step, k_tiles - first), box, columns, lane, at, chunk);
        }
#pragma unroll
        for (int i = 0; i < C::TILE_M / 2; i++) {
            d[i] = first == 0 ? chunk[i] : d[i] + chunk[i];
        }
    }
}

/* Writes a thread's sums of 32 rows of C to two panels of 16 lines, one for each warp of the pair,
 * which lie STAGING_BYTES apart. */
__device__ __forceinline__ void stage_swapped(const uint32_t (&v)[16], uint32_t panels,
                                              const lane_columns &columns, uint32_t lane)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t line = i / 2 % 2 * 8 + lane % 4 * 2 + i % 2;
        const int at = i / 2 * 4 + i % 2;
        ptx::store_shared_2(panels + i / 4 * STAGING_BYTES + line * 128 + columns.in_line(line),
                            v[at], v[at + 2]);
    }
}

/* Stores the 32 columns of a pair of warps in a tile, from `column0` on, for the rows from `row0`
 * on. Of 32 rows at a time, each warp stages its own columns, and then stores 16 rows of all 32
 * columns. TMA stores results of 32 bits if nothing but alpha follows the sums. */
template <class C>
__device__ __forceinline__ void
store_swapped(const sm90_arguments &p, const shared<C> &s, const float (&d)[C::TILE_M / 2],
              const lane_columns &columns, uint32_t warp, uint32_t lane, uint32_t batch,
              uint32_t row0, uint32_t column0)
{
    constexpr int ROUNDS = C::TILE_M / 32;
    const uint32_t panels = s.staging(warp / 2 * 2), own = s.staging(warp);
    const uint32_t barrier = 1 + warp / 2; /* barrier 0 is __syncthreads */
    const uint32_t row = row0 + warp % 2 * 16;
    if (p.plain && p.out == SM90_OUT_F32) {
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            const uint32_t panel = i % 2 * PANEL_BYTES;
            uint32_t v[16];
#pragma unroll
            for (int j = 0; j < 16; j++) {
                v[j] = scaled_bits(p, d[16 * i + j]);
            }
            panel_begin<1>();
            ptx::barrier_sync(barrier, PAIR_THREADS);
            stage_swapped(v, panels + panel, columns, lane);
            ptx::fence_async_proxy();
            ptx::barrier_sync(barrier, PAIR_THREADS);
            panel_send(p, own + panel, lane, column0, row + 32 * i, batch);
        }
    } else {
#pragma unroll 1
        for (int round = 0; round < ROUNDS; round++) {
#pragma unroll
            for (int i = 0; i < ROUNDS; i++) { /* registers have no run-time index */
                if (i == round) {
                    uint32_t v[16];
#pragma unroll
                    for (int j = 0; j < 16; j++) {
                        v[j] = bits_of(d[16 * i + j]);
                    }
                    stage_swapped(v, panels, columns, lane);
                }
            }
            ptx::barrier_sync(barrier, PAIR_THREADS);
            finish_chunk<C::E, PAIR_COLUMNS>(p, own, lane, batch, row + 32 * round, column0);
            __syncwarp();
            ptx::barrier_sync(barrier, PAIR_THREADS);
        }
    }
}

/* The code of a consumer, as consume of gemm.cuh, except that consumers share the tile's columns.
 */
template <class C>
__device__ __forceinline__ void consume_swapped(const sm90_arguments &p, const shared<C> &s,
                                                uint32_t cluster, uint32_t clusters, uint32_t rank,
                                                uint32_t consumer)
{
    const uint32_t rank_m = rank / C::CLUSTER_N, rank_n = rank % C::CLUSTER_N;
    const uint32_t lane = threadIdx.x % 32, warp = consumer * 4 + threadIdx.x / 32 % 4;
    const lane_columns columns(warp, lane);
    const uint32_t column_in_tile = warp / 2 * PAIR_COLUMNS;
    uint32_t uses = 0; /* stages of the tiles before */
    for (uint32_t index = cluster; index < p.tiles; index += clusters, uses += p.k_tiles) {
        const tile t = tile_at(p, index);
        const uint32_t row = (t.row * C::CLUSTER_M + rank_m) * C::TILE_M;
        const uint32_t column = (t.column * C::CLUSTER_N + rank_n) * C::TILE_N + column_in_tile;
        ring<C::STAGES> at(uses);
        float d[C::TILE_M / 2];
        if constexpr (C::CHUNKED) {
            sum_chunks_swapped<C>(s, p.k_tiles, p.chunk_tiles, column_in_tile * C::K_BYTES, columns,
                                  lane, at, d);
        } else {
            sum_swapped<C>(s, p.k_tiles, column_in_tile * C::K_BYTES, columns, lane, at, d);
        }
        store_swapped<C>(p, s, d, columns, warp, lane, t.batch, row, column);
    }
    if (lane == 0) {
        ptx::bulk_wait_read<0>();
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    sm90_gemm_swapped(const __grid_constant__ sm90_arguments p)
{
    produce_and_consume<C>(
        p, [&](const shared<C> &s, uint32_t cluster, uint32_t clusters, uint32_t rank,
               uint32_t consumer) { consume_swapped<C>(p, s, cluster, clusters, rank, consumer); });
}

} // namespace sm90

#endif
