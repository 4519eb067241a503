/*
 * gemm_streamed.cuh - f32 with precision full for up to 16 rows: the numbers of B are decomposed
 * and multiplied in registers.
 *
 * A block computes 32 columns and all rows of C. The copy engine fills a ring of stages of 32 steps
 * of k with the numbers of both operands. One warp decomposes the numbers of A into parts
 * (parts.cuh), in shared memory. Each of four warps computes 8 columns by itself: it decomposes the
 * numbers of B in registers and multiplies them by mma.sync. A warp decomposes a stage while it
 * adds the products of the stage before, because each product of a sum waits for the one before.
 *
 * The order of the products, and where sums begin, are those of sum_parts (gemm.cuh). mma.sync adds
 * 16 products as wgmma does (kernels/experiments/bits.md), and so the bits are the same. The order
 * of the 16 steps of k within an instruction does not matter to the result.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_CUH

#include "kernels/cuda/move/parts.cuh"
#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"

namespace sm90
{

/* A configuration. ROWS: the most rows of A. STAGES: of the ring. YK: whether the lines of B run
 * along k. */
template <int ROWS_, uint32_t STAGES_, bool YK_> struct streamed {
    static constexpr int ROWS = ROWS_;
    static constexpr uint32_t STAGES = STAGES_;
    static constexpr bool YK = YK_;
    static constexpr uint32_t WARPS = 4, WARP_COLUMNS = 8, COLUMNS = WARPS * WARP_COLUMNS;
    static constexpr uint32_t STAGE_K = 32, STEPS = 2; /* STEPS: instructions of 16 steps of k */
    static constexpr uint32_t B_BYTES = COLUMNS * STAGE_K * 4, A_BYTES = ROWS * STAGE_K * 4;
    /* The parts of A are stored as mma.sync takes them, 16 bytes for each lane of a quad of lanes:
     * those of rows r and r + 8, or of the only row twice. */
    static constexpr uint32_t QUADS = ROWS == 1 ? 1 : 8, PART_BYTES = QUADS * 4 * 16;
    static constexpr uint32_t PARTS_BYTES = STEPS * f32_parts::PARTS * PART_BYTES;
    static constexpr uint32_t SHARED_BYTES =
        1024 + PANEL_BYTES + STAGES * (A_BYTES + B_BYTES + PARTS_BYTES + 24);
    static constexpr int THREADS = 32 * (WARPS + 2);
    static_assert(PANEL_BYTES % 1024 == 0, "stages start at multiples of 1024 bytes");
};

/* Shared memory: the panel of the results, the stages of B, those of A, the parts of A, and the
 * barriers. */
template <class C> struct streamed_memory {
    uint32_t panel;

    __device__ __forceinline__ uint32_t b(uint32_t stage) const
    {
        return panel + PANEL_BYTES + stage * C::B_BYTES;
    }
    __device__ __forceinline__ uint32_t a(uint32_t stage) const
    {
        return b(C::STAGES) + stage * C::A_BYTES;
    }
    __device__ __forceinline__ uint32_t parts(uint32_t stage) const
    {
        return a(C::STAGES) + stage * C::PARTS_BYTES;
    }
    /* A has arrived; B has arrived and the parts of A are there; all warps have read both. */
    __device__ __forceinline__ uint32_t a_full(uint32_t stage) const
    {
        return parts(C::STAGES) + 8 * stage;
    }
    __device__ __forceinline__ uint32_t full(uint32_t stage) const
    {
        return a_full(C::STAGES) + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const
    {
        return full(C::STAGES) + 8 * stage;
    }
};

/* Called by one thread: fills the ring, after a prefetch of the first stages of B. */
template <class C>
__device__ __forceinline__ void copy_streams(const sm90_arguments &p, const streamed_memory<C> &s,
                                             int32_t column, int32_t batch)
{
    ring<C::STAGES> at(0);
    /* Nothing depends on the prefetch, so B may still be written meanwhile. */
    for (uint32_t i = 0; i < C::STAGES && i < p.k_tiles; i++) {
        const int32_t k = (int32_t)(i * C::STAGE_K);
        ptx::tensor_prefetch(&p.y, C::YK ? k : column, C::YK ? column : k, batch);
    }
    ptx::earlier_kernels_wait();
    for (uint32_t i = 0; i < p.k_tiles; i++) {
        const int32_t k = (int32_t)(i * C::STAGE_K);
        const uint32_t full = s.full(at.stage), a_full = s.a_full(at.stage);
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect(a_full, p.x_bytes);
        ptx::tensor_load(s.a(at.stage), &p.x, a_full, k, 0, batch);
        ptx::mbarrier_arrive_expect(full, C::B_BYTES);
        ptx::tensor_load_once(s.b(at.stage), &p.y, full, C::YK ? k : column, C::YK ? column : k,
                              batch);
        at.advance();
    }
    ptx::later_kernels_allow();
}

/* The first of two neighbouring steps of k, of 16, that half `half` of an instruction has in lane
 * 4r + q. If the lines of B run along columns, the lines that the lanes of a warp load then use
 * different banks. */
template <class C> __device__ __forceinline__ uint32_t first_k(uint32_t q, uint32_t half)
{
    return C::YK ? 4 * q + 2 * half : 2 * q + 8 * half;
}

/* Called by all threads of a warp: decomposes the numbers of A. Rows that do not exist are
 * whatever was there, and only affect sums that are not stored. */
template <class C>
__device__ __forceinline__ void decompose_rows(const sm90_arguments &p, const streamed_memory<C> &s,
                                               uint32_t lane)
{
    const uint32_t q = lane % 4;
    ring<C::STAGES> at(0);
    for (uint32_t i = 0; i < p.k_tiles; i++) {
        ptx::mbarrier_wait(s.a_full(at.stage), at.parity);
        const uint32_t a = s.a(at.stage), to = s.parts(at.stage);
        if constexpr (C::ROWS == 1) { /* lane: instruction lane / 4 */
            if (lane < 4 * C::STEPS) {
                const uint32_t step = lane / 4;
                uint32_t v[2][f32_parts::PARTS];
#pragma unroll
                for (uint32_t half = 0; half < 2; half++) {
                    const uint2 u = ptx::load_shared_2(a + step * 64 + first_k<C>(q, half) * 4);
                    f32_parts::decompose(__uint_as_float(u.x), __uint_as_float(u.y), v[half]);
                }
#pragma unroll
                for (uint32_t part = 0; part < f32_parts::PARTS; part++) {
                    ptx::store_shared_4(to + (step * f32_parts::PARTS + part) * C::PART_BYTES +
                                            16 * q,
                                        v[0][part], v[0][part], v[1][part], v[1][part]);
                }
            }
        } else {
            const uint32_t row = lane / 4;
#pragma unroll
            for (uint32_t step = 0; step < C::STEPS; step++) {
                uint32_t v[2][2][f32_parts::PARTS];
#pragma unroll
                for (uint32_t half = 0; half < 2; half++) {
                    const uint32_t k = step * 16 + first_k<C>(q, half);
                    const uint32_t from = a + row * 128 + ((k / 4 ^ row) << 4) + k % 4 * 4;
                    const uint2 low = ptx::load_shared_2(from);
                    const uint2 high = C::ROWS > 8 ? ptx::load_shared_2(from + 8 * 128) : low;
                    f32_parts::decompose(__uint_as_float(low.x), __uint_as_float(low.y),
                                         v[half][0]);
                    f32_parts::decompose(__uint_as_float(high.x), __uint_as_float(high.y),
                                         v[half][1]);
                }
#pragma unroll
                for (uint32_t part = 0; part < f32_parts::PARTS; part++) {
                    ptx::store_shared_4(to + (step * f32_parts::PARTS + part) * C::PART_BYTES +
                                            16 * lane,
                                        v[0][0][part], v[0][1][part], v[1][0][part], v[1][1][part]);
                }
            }
        }
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.full(at.stage));
        }
        at.advance();
    }
}

/* Whether the use of a buffer has ended that mbarrier_wait would wait for; does not wait. */
__device__ __forceinline__ bool has_completed(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

/* A lane's numbers of B in a stage: for each instruction two pairs of neighbouring steps of k. */
template <class C> struct stage_numbers {
    float b[C::STEPS][4];
};

/* A lane's operands of mma.sync in a stage. */
template <class C> struct stage_parts {
    uint32_t a[C::STEPS][f32_parts::PARTS][4], b[C::STEPS][2][f32_parts::PARTS];
};

/* Where a lane's operands are in a stage of B and in one of the parts of A. */
template <class C> struct lane_places {
    uint32_t b[2], a;

    __device__ __forceinline__ lane_places(uint32_t warp, uint32_t lane)
    {
        const uint32_t column = lane / 4, q = lane % 4;
        a = C::QUADS == 1 ? 16 * q : 16 * lane;
        if constexpr (C::YK) {
            b[0] = (warp * 8 + column) * 128 + ((q ^ column) << 4);
            b[1] = b[0] ^ 64;
        } else { /* lines 2q and 2q + 1 */
            const uint32_t piece = 2 * warp + column / 4, in_piece = column % 4 * 4;
            b[0] = 2 * q * 128 + ((piece ^ 2 * q) << 4) + in_piece;
            b[1] = (2 * q + 1) * 128 + ((piece ^ (2 * q + 1)) << 4) + in_piece;
        }
    }
};

template <class C>
__device__ __forceinline__ void load_stage(const streamed_memory<C> &s, uint32_t stage,
                                           const lane_places<C> &places, stage_numbers<C> &v,
                                           stage_parts<C> &parts)
{
    const uint32_t b = s.b(stage), a = s.parts(stage) + places.a;
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        if constexpr (C::YK) {
            const uint4 u = ptx::load_shared_4(b + places.b[i]);
            memcpy(v.b[i], &u, sizeof v.b[i]);
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                v.b[i][j] = __uint_as_float(
                    ptx::load_shared(b + places.b[j % 2] + i * 2048 + j / 2 * 1024));
            }
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
#pragma unroll
        for (uint32_t part = 0; part < f32_parts::PARTS; part++) {
            const uint4 u = ptx::load_shared_4(a + (i * f32_parts::PARTS + part) * C::PART_BYTES);
            memcpy(parts.a[i][part], &u, sizeof u);
        }
    }
}

template <class C>
__device__ __forceinline__ void decompose(const stage_numbers<C> &v, stage_parts<C> &parts)
{
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) {
            f32_parts::decompose(v.b[i][2 * j], v.b[i][2 * j + 1], parts.b[i][j]);
        }
    }
}

/* sums += one part of A times one part of B, over a stage. */
template <class C>
__device__ __forceinline__ void multiply_pair(const stage_parts<C> &parts, int a_part, int b_part,
                                              float (&sums)[4])
{
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        ptx_sm80::multiply_add<__nv_bfloat16>(sums, parts.a[i][a_part], parts.b[i][0][b_part],
                                              parts.b[i][1][b_part]);
    }
}

/* The products of a stage, in the order of multiply_parts (gemm.cuh). */
template <class C>
__device__ __forceinline__ void multiply_parts_of(const stage_parts<C> &parts, float (&large)[4],
                                                  float (&small)[4])
{
    multiply_pair<C>(parts, 0, 2, small);
    multiply_pair<C>(parts, 0, 0, large);
    multiply_pair<C>(parts, 2, 0, small);
    multiply_pair<C>(parts, 1, 1, small);
    multiply_pair<C>(parts, 0, 1, small);
    multiply_pair<C>(parts, 1, 0, small);
}

/* The code of a warp: the sums of its 8 columns, as mma.sync leaves them. */
template <class C>
__device__ __forceinline__ void sum_columns(const sm90_arguments &p, const streamed_memory<C> &s,
                                            uint32_t warp, uint32_t lane, float (&d)[4])
{
    const lane_places<C> places(warp, lane);
    ring<C::STAGES> at(0);
    float small[4] = {};
    stage_numbers<C> v;
    stage_parts<C> even, odd;
    const auto release = [&]() {
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.empty(at.stage));
        }
        at.advance();
    };
    ptx::mbarrier_wait(s.full(0), 0);
    load_stage<C>(s, 0, places, v, even);
    decompose<C>(v, even);
    release();
    bool is_there = p.k_tiles > 1 && has_completed(s.full(at.stage), at.parity);
    /* Multiplies one stage while the next one, if there is one, is loaded and decomposed. */
    const auto step = [&](const stage_parts<C> &now, stage_parts<C> &next, uint32_t left,
                          float(&large)[4]) {
        if (left > 0 && !is_there) {
            ptx::mbarrier_wait(s.full(at.stage), at.parity);
        }
        load_stage<C>(s, at.stage, places, v, next);
        ring<C::STAGES> ahead = at;
        ahead.advance();
        is_there = left > 1 && has_completed(s.full(ahead.stage), ahead.parity);
        multiply_parts_of<C>(now, large, small);
        decompose<C>(v, next);
        if (left > 0) {
            release();
        }
    };
    uint32_t i = 0;
    for (; i + 1 < p.k_tiles; i += 2) {
        float large[4] = {};
        step(even, odd, p.k_tiles - i - 1, large);
        step(odd, even, p.k_tiles - i - 2, large);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            d[j] += large[j];
        }
    }
    if (i < p.k_tiles) {
        float large[4] = {};
        multiply_parts_of<C>(even, large, small);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            d[j] += large[j];
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        d[j] = (d[j] + small[j]) * PARTS_SCALE;
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS)
    sm90_gemm_streamed(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const streamed_memory<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const tile t = tile_at(p, blockIdx.x);
    const uint32_t column = t.column * C::COLUMNS;
    if (threadIdx.x == 0) {
        ptx::tensor_map_prefetch(&p.x);
        ptx::tensor_map_prefetch(&p.y);
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.a_full(i), 1);
            ptx::mbarrier_init(s.full(i), 2);
            ptx::mbarrier_init(s.empty(i), C::WARPS);
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    if (warp == C::WARPS) {
        if (lane == 0) {
            copy_streams<C>(p, s, (int32_t)column, (int32_t)t.batch);
        }
        __syncwarp();
    } else if (warp > C::WARPS) {
        decompose_rows<C>(p, s, lane);
    } else {
        ptx::earlier_kernels_wait();
        float d[4] = {};
        sum_columns<C>(p, s, warp, lane, d);
        const uint32_t piece = 2 * warp + lane % 4 / 2;
#pragma unroll
        for (uint32_t high = 0; high < 2; high++) {
            const uint32_t line = lane / 4 + 8 * high;
            ptx::store_shared_2(s.panel + line * 128 + ((piece ^ line % 8) << 4) + lane % 2 * 8,
                                __float_as_uint(d[2 * high]), __float_as_uint(d[2 * high + 1]));
        }
    }
    __syncthreads();
    if (warp == 0) {
        finish_chunk<F32, C::COLUMNS>(p, s.panel, lane, t.batch, t.row * C::ROWS, column);
    }
}

} // namespace sm90

#endif
