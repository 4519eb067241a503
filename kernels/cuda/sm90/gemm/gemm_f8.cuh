/*
 * gemm_f8.cuh - products of f8_e4m3 on the tensor core's own f8 instructions.
 *
 * The tensor core keeps about 13 bits of a sum of f8 products. Each stage, 128 steps of k, is
 * therefore a chain of its own, and its sums are added to those of the stages before in f32. The
 * ring, the order of tiles and the producer are those of gemm.cuh.
 *
 * While a consumer adds a chain's sums, the tensor core multiplies something else: the consumer's
 * next stage where there are registers for two chains, and the other consumers' rows where there
 * are not.
 *
 * The design follows DeepSeek, DeepGEMM (promotion).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_F8_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_F8_CUH

#include "kernels/cuda/sm90/gemm/gemm.cuh"

namespace sm90
{

/* The sums of 64 rows of a tile, as a thread has them. */
template <class C> using sums_64 = float[C::TILE_N / 2];

/* Issues all products of one stage. */
template <class C>
__device__ __forceinline__ void multiply_chain(const shared<C> &s, uint32_t stage,
                                               uint32_t row_in_tile, sums_64<C> &chain)
{
    const uint64_t x = tile_descriptor<true, C::K_BYTES>(s.x(stage, 0) + row_in_tile * C::K_BYTES);
    const uint64_t y = tile_descriptor<true, C::K_BYTES>(s.y(stage, 0));
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < C::TILE_K / C::INSTRUCTION_K; i++) {
        wgmma<F8, true, true>(chain, x + i * descriptor_k_step<true>,
                              y + i * descriptor_k_step<true>, i == 0 ? 0 : 1);
    }
    wgmma_commit();
}

/* The pin keeps the additions here. If the compiler moves them among the next chain's products, it
 * makes the tensor core wait for these. */
template <class C> __device__ __forceinline__ void add_chain(const sums_64<C> &chain, sums_64<C> &d)
{
#pragma unroll
    for (int i = 0; i < C::TILE_N / 2; i++) {
        d[i] += chain[i];
    }
    pin(d);
}

/* Adds the sums of all stages to d, one chain at a time. */
template <class C>
__device__ __forceinline__ void sum_one_chain(const shared<C> &s, uint32_t k_tiles, uint32_t lane,
                                              uint32_t row_in_tile, ring<C::STAGES> &at,
                                              sums_64<C> &d)
{
    for (uint32_t i = 0; i < k_tiles; i++) {
        sums_64<C> chain;
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
        multiply_chain<C>(s, at.stage, row_in_tile, chain);
        wgmma_wait<0>();
        pin(chain);
        release<C>(s, at.stage, lane);
        add_chain<C>(chain, d);
        at.advance();
    }
}

/* Begins the chain `next` of the stage after `at`, waits for the chain `now` of the stage `at`, and
 * adds its sums to d. */
template <class C>
__device__ __forceinline__ void next_chain(const shared<C> &s, uint32_t lane, uint32_t row_in_tile,
                                           ring<C::STAGES> &at, sums_64<C> &now, sums_64<C> &next,
                                           sums_64<C> &d)
{
    const uint32_t stage = at.stage;
    at.advance();
    ptx::mbarrier_wait(s.full(at.stage), at.parity);
    multiply_chain<C>(s, at.stage, row_in_tile, next);
    wgmma_wait<1>();
    pin(now);
    release<C>(s, stage, lane);
    add_chain<C>(now, d);
}

/* Waits for the chain `now` of the stage `at`, the last one, and adds its sums to d. */
template <class C>
__device__ __forceinline__ void last_chain(const shared<C> &s, uint32_t lane,
                                           const ring<C::STAGES> &at, sums_64<C> &now,
                                           sums_64<C> &d)
{
    wgmma_wait<0>();
    pin(now);
    release<C>(s, at.stage, lane);
    add_chain<C>(now, d);
}

/* Adds the sums of all stages to d. The next stage is multiplied while a chain's sums are added. */
template <class C>
__device__ __forceinline__ void sum_two_chains(const shared<C> &s, uint32_t k_tiles, uint32_t lane,
                                               uint32_t row_in_tile, ring<C::STAGES> &at,
                                               sums_64<C> &d)
{
    sums_64<C> even, odd;
    uint32_t left = k_tiles - 1; /* stages to be begun */
    ptx::mbarrier_wait(s.full(at.stage), at.parity);
    multiply_chain<C>(s, at.stage, row_in_tile, even);
#pragma unroll 1
    for (; left > 1; left -= 2) {
        next_chain<C>(s, lane, row_in_tile, at, even, odd, d);
        next_chain<C>(s, lane, row_in_tile, at, odd, even, d);
    }
    if (left > 0) {
        next_chain<C>(s, lane, row_in_tile, at, even, odd, d);
        last_chain<C>(s, lane, at, odd, d);
    } else {
        last_chain<C>(s, lane, at, even, d);
    }
}

/* consume of gemm.cuh. */
template <class C>
__device__ __forceinline__ void consume_f8(const sm90_arguments &p, const shared<C> &s,
                                           uint32_t cluster, uint32_t clusters, uint32_t rank,
                                           uint32_t consumer)
{
    const uint32_t rank_m = rank / C::CLUSTER_N, rank_n = rank % C::CLUSTER_N;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const uint32_t row_in_tile = consumer * C::CONSUMER_ROWS;
    const uint32_t staging = s.staging(consumer * 4 + warp);
    uint32_t uses = 0; /* of the ring, by the tiles before */
    for (uint32_t index = cluster; index < p.tiles; index += clusters, uses += p.k_tiles) {
        const tile t = tile_at(p, index);
        const uint32_t row = (t.row * C::CLUSTER_M + rank_m) * C::TILE_M + row_in_tile + warp * 16;
        const uint32_t column = (t.column * C::CLUSTER_N + rank_n) * C::TILE_N;
        const bias_pairs<0> bias(p, lane, column);
        ring<C::STAGES> at(uses);
        sums_64<C> d = {};
        if constexpr (C::CONSUMERS < 3) {
            sum_two_chains<C>(s, p.k_tiles, lane, row_in_tile, at, d);
        } else {
            sum_one_chain<C>(s, p.k_tiles, lane, row_in_tile, at, d);
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
    static_assert(C::BLOCKS_64 == 1 && C::XK && C::YK && !C::PINGPONG,
                  "what the functions above do");
    produce_and_consume<C>(
        p, [&](const shared<C> &s, uint32_t cluster, uint32_t clusters, uint32_t rank,
               uint32_t consumer) { consume_f8<C>(p, s, cluster, clusters, rank, consumer); });
}

} // namespace sm90

#endif
