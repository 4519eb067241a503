/*
 * gemm_widened.cuh - f8_e4m3 with precision full for few rows: the numbers are widened to f16 on
 * their way into the tensor core's registers.
 *
 * A product of few rows takes as long as B takes to be read. Widening B in memory first would read
 * it once, write it twice as long and read that; here it is read once, in 8 bits.
 *
 * A block computes 64 columns and ROWS rows of C, transposed: the left operand of the tensor core
 * is 64 columns of B, from registers, and the right operand is A. The copy engine fills a ring of
 * stages of 128 steps of k with the bytes of both. Three warps widen A into a second, shorter ring,
 * from which the tensor core reads it. The four warps of the consumer load their part of B, widen
 * it and multiply, half a stage at a time, while the tensor core works on the half before.
 *
 * Widening is exact, and the sums have the order and the chains of the f16 kernels of gemm.cuh, and
 * so their bits.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_WIDENED_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_WIDENED_CUH

#include "kernels/cuda/sm90/gemm/gemm.cuh"

namespace sm90
{

/* YK: whether the lines of B run along k. PROMOTED: chains of PROMOTE_K are added in f32, for
 * results of f32. BLOCKS: blocks that share a multiprocessor. */
template <int ROWS_, bool YK_, bool PROMOTED_, int BLOCKS_> struct widened {
    static constexpr int ROWS = ROWS_, COLUMNS = 64, BLOCKS = BLOCKS_;
    static constexpr bool YK = YK_, PROMOTED = PROMOTED_;
    static constexpr uint32_t STAGE_K = 128, HALF_STEPS = 4; /* instructions of half a stage */
    static constexpr uint32_t CHAIN_STAGES = PROMOTE_K / STAGE_K;
    static constexpr uint32_t Y_BYTES = COLUMNS * STAGE_K, X_BYTES = ROWS * STAGE_K;
    static constexpr uint32_t STAGE_BYTES = Y_BYTES + X_BYTES;
    static constexpr uint32_t WIDE_HALF_BYTES = ROWS * 128, WIDE_BYTES = 2 * WIDE_HALF_BYTES;
    static constexpr uint32_t WIDES = 2, WIDENERS = 3; /* warps */
    static constexpr uint32_t BARRIER_BYTES = 512;
    static constexpr uint32_t OTHER_BYTES = 1024 + BARRIER_BYTES + WIDES * WIDE_BYTES;
    static constexpr uint32_t ROOM = (SHARED_BYTES_MAX + 1024) / BLOCKS - 1024;
    static constexpr uint32_t FIT = (ROOM - OTHER_BYTES) / STAGE_BYTES;
    static constexpr uint32_t STAGES = FIT < 14 ? FIT : 14;
    static constexpr uint32_t SHARED_BYTES = STAGES * STAGE_BYTES + OTHER_BYTES;
    static constexpr int THREADS = 256;
    static_assert(STAGES >= 3, "too few stages fit to hide the copies");
    static_assert(STAGES * STAGE_BYTES >= ROWS * COLUMNS * 4, "sums are staged there");
};

template <class C> struct widened_memory {
    uint32_t base;

    __device__ __forceinline__ uint32_t y(uint32_t stage) const
    {
        return base + stage * C::STAGE_BYTES;
    }
    __device__ __forceinline__ uint32_t x(uint32_t stage) const
    {
        return y(stage) + C::Y_BYTES;
    }
    __device__ __forceinline__ uint32_t wide(uint32_t place) const
    {
        return base + C::STAGES * C::STAGE_BYTES + place * C::WIDE_BYTES;
    }
    __device__ __forceinline__ uint32_t full(uint32_t stage) const
    {
        return wide(C::WIDES) + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const
    {
        return full(C::STAGES) + 8 * stage;
    }
    __device__ __forceinline__ uint32_t wide_full(uint32_t place) const
    {
        return empty(C::STAGES) + 8 * place;
    }
    __device__ __forceinline__ uint32_t wide_empty(uint32_t place) const
    {
        return wide_full(C::WIDES) + 8 * place;
    }
};

/* Two numbers of f8 as two of f16. */
__device__ __forceinline__ uint32_t widen_pair(uint32_t pair)
{
    uint32_t wide;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"((uint16_t)pair));
    return wide;
}

/* Asks for a box to be in the L2. Nothing depends on it, so the box may still be written meanwhile
 * (PTX ISA 9.7.9.27). */
__device__ __forceinline__ void prefetch_box(const CUtensorMap *map, int32_t x, int32_t y,
                                             int32_t z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* Called by one thread: fills the ring, after a prefetch of the first stages of B. Rows of A that
 * do not exist are left as they are, and only affect sums that are not stored. */
template <class C>
__device__ __forceinline__ void copy_in(const sm90_arguments &p, const widened_memory<C> &s,
                                        int32_t column, int32_t batch)
{
    ring<C::STAGES> at(0);
    for (uint32_t i = 0; i * gridDim.x * C::Y_BYTES < p.y_ahead_bytes; i++) {
        const int32_t k = (int32_t)(i * C::STAGE_K);
        prefetch_box(&p.y, C::YK ? k : column, C::YK ? column : k, batch);
    }
    ptx::argument_fetch(p.k_tiles);
    ptx::earlier_kernels_wait();
    for (uint32_t i = 0; i < p.k_tiles; i++) {
        const int32_t k = (int32_t)(i * C::STAGE_K);
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect(s.full(at.stage), C::Y_BYTES + p.x_bytes);
        ptx::tensor_load_once(s.y(at.stage), &p.y, s.full(at.stage), C::YK ? k : column,
                              C::YK ? column : k, batch);
        ptx::tensor_load(s.x(at.stage), &p.x, s.full(at.stage), k, 0, batch);
        at.advance();
    }
}

/* Called by three warps: widens A. `thread`: the number among their threads. */
template <class C>
__device__ __forceinline__ void widen_rows(const sm90_arguments &p, const widened_memory<C> &s,
                                           uint32_t thread, uint32_t lane)
{
    ring<C::STAGES> at(0);
    ring<C::WIDES> to(0);
    for (uint32_t i = 0; i < p.k_tiles; i++) {
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
        ptx::mbarrier_wait(s.wide_empty(to.stage), to.parity ^ 1);
        for (uint32_t item = thread; item < C::ROWS * 8; item += 32 * C::WIDENERS) {
            const uint32_t line = item / 8, piece = item % 8;
            const uint4 v =
                ptx::load_shared_4(s.x(at.stage) + line * 128 + ((piece ^ (line % 8)) << 4));
            const uint32_t words[4] = {v.x, v.y, v.z, v.w};
            uint32_t pairs[8];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                pairs[2 * j] = widen_pair(words[j]);
                pairs[2 * j + 1] = widen_pair(words[j] >> 16);
            }
            const uint32_t row = s.wide(to.stage) + piece / 4 * C::WIDE_HALF_BYTES + line * 128;
            const uint32_t first = 2 * (piece % 4);
            const uint32_t low = row + ((first ^ (line % 8)) << 4);
            const uint32_t high = row + (((first + 1) ^ (line % 8)) << 4);
            ptx::store_shared_4(low, pairs[0], pairs[1], pairs[2], pairs[3]);
            ptx::store_shared_4(high, pairs[4], pairs[5], pairs[6], pairs[7]);
        }
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.wide_full(to.stage));
            ptx::mbarrier_arrive(s.empty(at.stage));
        }
        at.advance();
        to.advance();
    }
}

__device__ __forceinline__ uint32_t load_shared_16(uint32_t address)
{
    uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
    return v;
}

/* A thread's part of B in half a stage: x of wgmma_registers for each instruction. */
template <class C> using half_stage = uint32_t[C::HALF_STEPS][4];

/* `warp`: of the consumer's. */
template <class C>
__device__ __forceinline__ void load_half(uint32_t y, uint32_t half, uint32_t warp, uint32_t lane,
                                          half_stage<C> &x)
{
    const uint32_t row = lane / 4, quarter = lane % 4;
    if constexpr (C::YK) {
        const uint32_t line = y + (warp * 16 + row) * 128 + 2 * quarter;
#pragma unroll
        for (uint32_t i = 0; i < C::HALF_STEPS; i++) {
            const uint32_t at = line + (((half * C::HALF_STEPS + i) ^ row) << 4);
            x[i][0] = widen_pair(load_shared_16(at));
            x[i][1] = widen_pair(load_shared_16(at + 8 * 128));
            x[i][2] = widen_pair(load_shared_16(at + 8));
            x[i][3] = widen_pair(load_shared_16(at + 8 * 128 + 8));
        }
    } else { /* lines of 64 columns, whose 16-byte pieces c lie at c ^ (k / 2 % 4) */
        const uint32_t first = y + 2 * quarter * 64 + ((warp ^ quarter) << 4) + 2 * row;
#pragma unroll
        for (uint32_t i = 0; i < C::HALF_STEPS; i++) {
            const uint32_t at = first + (half * C::HALF_STEPS + i) * 16 * 64;
            const uint32_t k0 = load_shared_16(at), k1 = load_shared_16(at + 64);
            const uint32_t k8 = load_shared_16(at + 8 * 64), k9 = load_shared_16(at + 9 * 64);
            x[i][0] = widen_pair(__byte_perm(k0, k1, 0x0040));
            x[i][1] = widen_pair(__byte_perm(k0, k1, 0x0051));
            x[i][2] = widen_pair(__byte_perm(k8, k9, 0x0040));
            x[i][3] = widen_pair(__byte_perm(k8, k9, 0x0051));
        }
    }
}

/* Issues the products of half a stage; `fresh`: they begin a sum. */
template <class C>
__device__ __forceinline__ void multiply_half(uint32_t wide, uint32_t half, const half_stage<C> &x,
                                              float (&d)[C::ROWS / 2], bool fresh)
{
    const uint64_t right = tile_descriptor<true, 128>(wide + half * C::WIDE_HALF_BYTES);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < (int)C::HALF_STEPS; i++) {
        wgmma_registers<F16, true>(d, x[i], right + i * descriptor_k_step<true>,
                                   fresh && i == 0 ? 0 : 1);
    }
    wgmma_commit();
}

/* d = the sum over `stages` stages, one chain. */
template <class C>
__device__ __forceinline__ void sum_widened(const widened_memory<C> &s, uint32_t stages,
                                            uint32_t warp, uint32_t lane, ring<C::STAGES> &at,
                                            ring<C::WIDES> &from, float (&d)[C::ROWS / 2])
{
    half_stage<C> even, odd = {};
    uint32_t previous = 0;
    for (uint32_t i = 0; i < stages; i++) {
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
        load_half<C>(s.y(at.stage), 0, warp, lane, even);
        ptx::mbarrier_wait(s.wide_full(from.stage), from.parity);
        multiply_half<C>(s.wide(from.stage), 0, even, d, i == 0);
        wgmma_wait<1>();
        pin(odd);
        if (i > 0 && lane == 0) {
            ptx::mbarrier_arrive(s.wide_empty(previous));
        }
        load_half<C>(s.y(at.stage), 1, warp, lane, odd);
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.empty(at.stage));
        }
        multiply_half<C>(s.wide(from.stage), 1, odd, d, false);
        wgmma_wait<1>();
        pin(even);
        previous = from.stage;
        at.advance();
        from.advance();
    }
    wgmma_wait<0>();
    pin(d);
    pin(odd);
    if (lane == 0) {
        ptx::mbarrier_arrive(s.wide_empty(previous));
    }
}

/* Writes a thread's sums to panels of 16 rows and 32 columns of C (epilogue.cuh). */
template <class C>
__device__ __forceinline__ void stage_sums(uint32_t panels, uint32_t warp, uint32_t lane,
                                           const float (&d)[C::ROWS / 2])
{
#pragma unroll
    for (uint32_t i = 0; i < C::ROWS / 2; i++) {
        const uint32_t high = i / 2 % 2;
        const uint32_t row = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        const uint32_t column = warp * 16 + (C::YK ? lane / 4 + 8 * high : 2 * (lane / 4) + high);
        const uint32_t panel = panels + (row / 16 * 2 + column / 32) * PANEL_BYTES;
        const uint32_t piece = column % 32 / 4;
        ptx::store_shared(panel + row % 16 * 128 + ((piece ^ (row % 8)) << 4) + column % 4 * 4,
                          __float_as_uint(d[i]));
    }
}

/* The epilogue of 16 rows and 64 columns from their panels. The formulas are those that the f16
 * kernels use for the same problem. */
template <class C>
__device__ __forceinline__ void finish_rows(const sm90_arguments &p, uint32_t panels, uint32_t lane,
                                            uint32_t batch, uint32_t row0, uint32_t column0)
{
    constexpr uint32_t LANES = C::COLUMNS / LANE_COLUMNS;
    const uint32_t column = column0 + LANE_COLUMNS * (lane % LANES);
    const uint32_t valid = column < p.n ? min(LANE_COLUMNS, p.n - column) : 0;
    const uint32_t piece = 2 * (lane % 4);
    const uint32_t panel = panels + lane % LANES / 4 * PANEL_BYTES;
    const bool in_place = !C::PROMOTED && p.in_place && !p.plain;
    float bias[LANE_COLUMNS] = {};
    if (p.bias) {
        load_floats(p.bias, column, p.out, valid == LANE_COLUMNS, valid, bias);
    }
#pragma unroll 1
    for (uint32_t r = lane / LANES; r < 16; r += 32 / LANES) {
        const uint32_t row = row0 + r;
        if (row >= p.m || valid == 0) {
            continue;
        }
        const uint32_t line = panel + r * 128;
        const uint4 d0 = ptx::load_shared_4(line + ((piece ^ (r % 8)) << 4));
        const uint4 d1 = ptx::load_shared_4(line + (((piece + 1) ^ (r % 8)) << 4));
        float v[LANE_COLUMNS];
        uint32_t bits[LANE_COLUMNS];
        memcpy(v, &d0, sizeof d0);
        memcpy(v + 4, &d1, sizeof d1);
        if (in_place) {
#pragma unroll
            for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
                v[i] = fmaf(p.alpha, v[i], p.bias ? bias[i] : -0.0f);
            }
            activate_short((enum gemm_act)p.act, v);
        } else {
            finish_floats(p, (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column, valid,
                          bias, v);
        }
        memcpy(bits, v, sizeof v);
        store_columns(p, (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column, valid, bits);
    }
}

/* Called by the four warps of the consumer. */
template <class C>
__device__ __forceinline__ void multiply_columns(const sm90_arguments &p,
                                                 const widened_memory<C> &s, uint32_t warp,
                                                 uint32_t lane, uint32_t column, uint32_t batch)
{
    constexpr uint32_t BARRIER = 1, CONSUMERS = 128;
    ring<C::STAGES> at(0);
    ring<C::WIDES> from(0);
    float d[C::ROWS / 2];
    if constexpr (C::PROMOTED) {
        sum_widened<C>(s, min(C::CHAIN_STAGES, p.k_tiles), warp, lane, at, from, d);
        for (uint32_t first = C::CHAIN_STAGES; first < p.k_tiles; first += C::CHAIN_STAGES) {
            float part[C::ROWS / 2];
            sum_widened<C>(s, min(C::CHAIN_STAGES, p.k_tiles - first), warp, lane, at, from, part);
#pragma unroll
            for (int i = 0; i < C::ROWS / 2; i++) {
                d[i] += part[i];
            }
        }
    } else {
        sum_widened<C>(s, p.k_tiles, warp, lane, at, from, d);
    }
    ptx::barrier_sync(BARRIER, CONSUMERS); /* all have read the ring's last stages */
    stage_sums<C>(s.base, warp, lane, d);
    ptx::earlier_kernels_wait(); /* they may write C0 and a bias */
    ptx::barrier_sync(BARRIER, CONSUMERS);
    if (warp * 16 < C::ROWS) {
        finish_rows<C>(p, s.base + warp * 2 * PANEL_BYTES, lane, batch, warp * 16, column);
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    sm90_gemm_widened(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const widened_memory<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const uint32_t batch = blockIdx.x / p.tile_columns;
    const uint32_t column = (blockIdx.x - batch * p.tile_columns) * C::COLUMNS;
    if (threadIdx.x == 0) {
        ptx::tensor_map_prefetch(&p.x);
        ptx::tensor_map_prefetch(&p.y);
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), 4 + C::WIDENERS);
        }
        for (uint32_t i = 0; i < C::WIDES; i++) {
            ptx::mbarrier_init(s.wide_full(i), C::WIDENERS);
            ptx::mbarrier_init(s.wide_empty(i), 4);
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    ptx::later_kernels_allow();
    if (warp >= 4) {
        multiply_columns<C>(p, s, warp - 4, lane, column, batch);
    } else if (warp > 0) {
        widen_rows<C>(p, s, threadIdx.x - 32, lane);
    } else if (lane == 0) {
        copy_in<C>(p, s, (int32_t)column, (int32_t)batch);
    }
}

} // namespace sm90

#endif
