/*
 * gemm_f8.cuh - products whose sums are added in f32 after each 128 steps of k: of f8_e4m3 on the
 * tensor core's own f8 instructions, and of operands with scales of blocks.
 *
 * The tensor core keeps about 13 bits of a sum of f8 products. Each 128 steps of k are therefore a
 * chain of their own, and its sums are added to those of the chains before in f32. The ring, the
 * order of tiles and the producer are those of gemm.cuh. A chain is one stage of f8, and two of f8
 * that was widened to f16.
 *
 * While a consumer adds a chain's sums, the tensor core multiplies something else: the consumer's
 * next chain where there are registers for two chains, and the other consumers' rows where there
 * are not.
 *
 * With scales of blocks, the sums of a chain are multiplied by the product of its factors as they
 * are added, which takes the same instruction. The factors are loaded when the chain begins.
 * Scales of rows and columns are applied at the end.
 *
 * The design follows DeepSeek, DeepGEMM (promotion, and scales with it).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_F8_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_F8_CUH

#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/gemm/scales.cuh"

namespace sm90
{

/* A thread's share of the sums of 64 rows of a tile. */
template <class C> using sums_64 = float[C::TILE_N / 2];

/* The stages of a chain. */
template <class C> constexpr int CHAIN_STAGES = GEMM_SCALE_BLOCK / C::TILE_K;

/* Loads the factors of the next chain, if operands have scales of blocks. */
template <class C> __device__ __forceinline__ chain_factors next_factors_of(block_scales &scales)
{
    return scales.next();
}
template <class C> __device__ __forceinline__ chain_factors next_factors_of(no_scales &)
{
    return {};
}
template <class C>
using blocks_of = std::conditional_t<C::SCALES == GEMM_SCALES_BLOCK, block_scales, no_scales>;

/* Issues all products of the chain whose first stage is `at`. */
template <class C>
__device__ __forceinline__ void multiply_chain(const shared<C> &s, ring<C::STAGES> at,
                                               uint32_t row_in_tile, sums_64<C> &chain)
{
    uint32_t stages[CHAIN_STAGES<C>];
#pragma unroll
    for (int i = 0; i < CHAIN_STAGES<C>; i++) {
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
        stages[i] = at.stage;
        at.advance();
    }
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < CHAIN_STAGES<C>; j++) {
        const uint64_t x =
            tile_descriptor<C::XK, C::K_BYTES>(s.x(stages[j], 0) + row_in_tile * C::K_BYTES);
        const uint64_t y = tile_descriptor<C::YK, C::K_BYTES>(s.y(stages[j], 0));
#pragma unroll
        for (int i = 0; i < C::TILE_K / C::INSTRUCTION_K; i++) {
            wgmma<C::E, C::XK, C::YK>(chain, x + i * descriptor_k_step<C::XK>,
                                      y + i * descriptor_k_step<C::YK>, i + j == 0 ? 0 : 1);
        }
    }
    wgmma_commit();
}

/* Releases the stages of the chain that begins at `at`, and moves `at` past them. */
template <class C>
__device__ __forceinline__ void release_chain(const shared<C> &s, uint32_t lane,
                                              ring<C::STAGES> &at)
{
#pragma unroll
    for (int i = 0; i < CHAIN_STAGES<C>; i++) {
        release<C>(s, at.stage, lane);
        at.advance();
    }
}

/* Moves `at` past the stages of a chain. */
template <class C> __device__ __forceinline__ void pass_chain(ring<C::STAGES> &at)
{
#pragma unroll
    for (int i = 0; i < CHAIN_STAGES<C>; i++) {
        at.advance();
    }
}

/* d += the sums of a chain, times their factors if there are scales. The pin keeps the additions
 * here: if the compiler moved them among the products of the next chain, it would also make the
 * tensor core wait after each of these products. */
template <class C>
__device__ __forceinline__ void add_chain(const sums_64<C> &chain, const chain_factors &factors,
                                          sums_64<C> &d)
{
    if constexpr (C::SCALES == GEMM_SCALES_BLOCK) {
        const float low = factors.low * factors.of_columns;
        const float high = factors.high * factors.of_columns;
#pragma unroll
        for (int i = 0; i < C::TILE_N / 2; i++) {
            d[i] = fmaf(chain[i], i / 2 % 2 == 0 ? low : high, d[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < C::TILE_N / 2; i++) {
            d[i] += chain[i];
        }
    }
    pin(d);
}

/* Adds the sums of all chains to d, one chain at a time. */
template <class C>
__device__ __forceinline__ void sum_one_chain(const shared<C> &s, uint32_t chains, uint32_t lane,
                                              uint32_t row_in_tile, ring<C::STAGES> &at,
                                              blocks_of<C> &scales, sums_64<C> &d)
{
    for (uint32_t i = 0; i < chains; i++) {
        sums_64<C> chain;
        multiply_chain<C>(s, at, row_in_tile, chain);
        const chain_factors factors = next_factors_of<C>(scales);
        wgmma_wait<0>();
        pin(chain);
        release_chain<C>(s, lane, at);
        add_chain<C>(chain, factors, d);
    }
}

/* Begins the chain `next` after the one at `at`, waits for the chain `now` at `at`, and adds its
 * sums to d. */
template <class C>
__device__ __forceinline__ void
next_chain(const shared<C> &s, uint32_t lane, uint32_t row_in_tile, ring<C::STAGES> &at,
           blocks_of<C> &scales, sums_64<C> &now, const chain_factors &now_factors,
           sums_64<C> &next, chain_factors &next_factors, sums_64<C> &d)
{
    ring<C::STAGES> then = at;
    pass_chain<C>(then);
    multiply_chain<C>(s, then, row_in_tile, next);
    next_factors = next_factors_of<C>(scales);
    wgmma_wait<1>();
    pin(now);
    release_chain<C>(s, lane, at);
    add_chain<C>(now, now_factors, d);
}

/* Waits for the chain `now` at `at`, the last one, and adds its sums to d. */
template <class C>
__device__ __forceinline__ void last_chain(const shared<C> &s, uint32_t lane, ring<C::STAGES> &at,
                                           sums_64<C> &now, const chain_factors &factors,
                                           sums_64<C> &d)
{
    wgmma_wait<0>();
    pin(now);
    release_chain<C>(s, lane, at);
    add_chain<C>(now, factors, d);
}

/* Adds the sums of all chains to d. The next chain is multiplied while a chain's sums are added. */
template <class C>
__device__ __forceinline__ void sum_two_chains(const shared<C> &s, uint32_t chains, uint32_t lane,
                                               uint32_t row_in_tile, ring<C::STAGES> &at,
                                               blocks_of<C> &scales, sums_64<C> &d)
{
    sums_64<C> even, odd;
    chain_factors even_factors, odd_factors;
    uint32_t left = chains - 1; /* chains that have not begun */
    multiply_chain<C>(s, at, row_in_tile, even);
    even_factors = next_factors_of<C>(scales);
#pragma unroll 1
    for (; left > 1; left -= 2) {
        next_chain<C>(s, lane, row_in_tile, at, scales, even, even_factors, odd, odd_factors, d);
        next_chain<C>(s, lane, row_in_tile, at, scales, odd, odd_factors, even, even_factors, d);
    }
    if (left > 0) {
        next_chain<C>(s, lane, row_in_tile, at, scales, even, even_factors, odd, odd_factors, d);
        last_chain<C>(s, lane, at, odd, odd_factors, d);
    } else {
        last_chain<C>(s, lane, at, even, even_factors, d);
    }
}

/* The code of a consumer, as consume of gemm.cuh. */
template <class C>
__device__ __forceinline__ void consume_f8(const sm90_arguments &p, const shared<C> &s,
                                           uint32_t cluster, uint32_t clusters, uint32_t rank,
                                           uint32_t consumer)
{
    const uint32_t rank_m = rank / C::CLUSTER_N, rank_n = rank % C::CLUSTER_N;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const uint32_t row_in_tile = consumer * C::CONSUMER_ROWS;
    const uint32_t staging = s.staging(consumer * 4 + warp);
    const uint32_t chains = p.k_tiles / CHAIN_STAGES<C>;
    uint32_t uses = 0; /* stages of the tiles before */
    for (uint32_t index = cluster; index < p.tiles; index += clusters, uses += p.k_tiles) {
        const tile t = tile_at(p, index);
        const uint32_t row = (t.row * C::CLUSTER_M + rank_m) * C::TILE_M + row_in_tile + warp * 16;
        const uint32_t column = (t.column * C::CLUSTER_N + rank_n) * C::TILE_N;
        const bias_of<C> bias(p, lane, column, 0);
        blocks_of<C> scales(p, lane, t.batch, row, column);
        const rowcol_of<C> rowcol(p, lane, t.batch, row, column);
        ring<C::STAGES> at(uses);
        sums_64<C> d = {};
        if constexpr (C::CONSUMERS < 3) {
            sum_two_chains<C>(s, chains, lane, row_in_tile, at, scales, d);
        } else {
            sum_one_chain<C>(s, chains, lane, row_in_tile, at, scales, d);
        }
        if constexpr (C::SCALES == GEMM_SCALES_ROWCOL) {
            rowcol.apply(0, d, d, lane);
        }
        store_rows<F8, C::TILE_N, C::IN_PLACE, C::TAKES_C0>(p, d, bias, p.plain, staging, lane,
                                                            t.batch, row, column);
    }
    if (lane == 0) {
        ptx::bulk_wait_read<0>();
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    sm90_gemm_f8(const __grid_constant__ sm90_arguments p)
{
    static_assert(C::BLOCKS_64 == 1 && !C::PINGPONG && GEMM_SCALE_BLOCK % C::TILE_K == 0 &&
                      GEMM_SCALE_BLOCK % C::TILE_N == 0,
                  "what the functions above do");
    produce_and_consume<C>(
        p, [&](const shared<C> &s, uint32_t cluster, uint32_t clusters, uint32_t rank,
               uint32_t consumer) { consume_f8<C>(p, s, cluster, clusters, rank, consumer); });
}

} // namespace sm90

#endif
