/*
 * gemm_streamed.cuh - f32 with precision full for 2 to 16 rows: the numbers of B are decomposed and
 * multiplied in registers.
 *
 * A block computes 32 columns and all rows of C. The copy engine fills a ring of stages of 64 steps
 * of k, in two boxes, with the numbers of both operands. Each of four warps computes 8 columns by
 * itself: it decomposes the numbers into parts (parts.cuh) in registers and multiplies them by
 * mma.sync. A warp decomposes a box while it adds the products of the box before, because each
 * product of a sum waits for the one before.
 *
 * The order of the products, and where sums begin, are those of sum_parts (gemm.cuh). mma.sync adds
 * 16 products as wgmma does (kernels/experiments/hardware.md), and so the bits are the same. The
 * order of the 16 steps of k within an instruction does not matter to the result.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_CUH

#include "kernels/cuda/move/parts.cuh"
#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"

namespace sm90
{

/* A configuration. ROWS: the most rows of A. YK: whether the lines of B run along k. */
template <int ROWS_, bool YK_> struct streamed {
    static constexpr int ROWS = ROWS_;
    static constexpr uint32_t STAGES = 4;
    /* Blocks that share a multiprocessor. */
    static constexpr uint32_t BLOCKS = ROWS > 8 ? 3 : 4;
    static constexpr bool YK = YK_;
    static constexpr uint32_t WARPS = 4, WARP_COLUMNS = 8, COLUMNS = WARPS * WARP_COLUMNS;
    static constexpr uint32_t BOX_K = 32, STEPS = 2; /* STEPS: instructions of 16 steps of k */
    static constexpr uint32_t BOXES = PROMOTE_PARTS_K / BOX_K; /* of a stage */
    static constexpr uint32_t B_BOX = COLUMNS * BOX_K * 4, A_BOX = ROWS * BOX_K * 4; /* bytes */
    static constexpr uint32_t B_BYTES = BOXES * B_BOX, A_BYTES = BOXES * A_BOX;
    static constexpr uint32_t SHARED_BYTES =
        1024 + PANEL_BYTES + STAGES * (A_BYTES + B_BYTES) + 16 * STAGES;
    static constexpr int THREADS = 32 * (WARPS + 1);
    static constexpr int HIGH = ROWS > 8 ? 2 : 1; /* rows l/4 and l/4 + 8 of lane l, or l/4 twice */
    static_assert(BLOCKS * (SHARED_BYTES + 1024) <= SHARED_BYTES_MAX + 1024, "they fit");
    static_assert(BOXES == 2, "sum_columns multiplies an even and an odd box in turn");
    static_assert(PANEL_BYTES % 1024 == 0, "stages start at multiples of 1024 bytes");
};

/* Shared memory: the panel of the results, the stages of B, those of A, and the barriers. */
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
    __device__ __forceinline__ uint32_t full(uint32_t stage) const
    {
        return a(C::STAGES) + 8 * stage;
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
    const uint32_t boxes = p.k_tiles;
    /* Nothing depends on the prefetch, so B may still be written meanwhile. */
    for (uint32_t i = 0; i < C::STAGES * C::BOXES && i < boxes; i++) {
        const int32_t k = (int32_t)(i * C::BOX_K);
        ptx::tensor_prefetch(&p.y, C::YK ? k : column, C::YK ? column : k, batch);
    }
    ptx::earlier_kernels_wait();
    for (uint32_t i = 0; i < boxes; i += C::BOXES) {
        const uint32_t full = s.full(at.stage);
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect(full, C::BOXES * (C::B_BOX + p.x_bytes));
#pragma unroll
        for (uint32_t box = 0; box < C::BOXES; box++) { /* behind the end of k, zeros */
            const int32_t k = (int32_t)((i + box) * C::BOX_K);
            ptx::tensor_load_once(s.b(at.stage) + box * C::B_BOX, &p.y, full, C::YK ? k : column,
                                  C::YK ? column : k, batch);
            ptx::tensor_load(s.a(at.stage) + box * C::A_BOX, &p.x, full, k, 0, batch);
        }
        at.advance();
    }
    ptx::later_kernels_allow();
}

/* A lane's numbers of a box: four steps of k for each instruction, two of each half of its
 * operands. */
template <class C> struct stage_numbers {
    float b[C::STEPS][4], a[C::STEPS][C::HIGH][4];
};

/* The parts of these numbers, as mma.sync takes them: two pairs for each instruction. */
template <class C> struct stage_parts {
    uint32_t b[C::STEPS][2][f32_parts::PARTS], a[C::STEPS][C::HIGH][2][f32_parts::PARTS];
};

/* Loads four numbers of line `line`, of 128 bytes along k, for instruction `i`: steps 4q to 4q + 3
 * of 16, for q = `quarter`. `swizzle`: as the copy engine swizzles the line. */
__device__ __forceinline__ void load_along_k(uint32_t tile, uint32_t line, uint32_t i,
                                             uint32_t quarter, uint32_t swizzle, float (&v)[4])
{
    const uint4 u = ptx::load_shared_4(tile + line * 128 + ((4 * i + quarter ^ swizzle) << 4));
    memcpy(v, &u, sizeof v);
}

/* The same where the lines of B run along columns: B has the steps 2q, 2q + 1, 2q + 8 and 2q + 9,
 * which lie in lines whose pieces use different banks, and A the same ones. Rows of A that do not
 * exist are whatever was there, and only affect sums that are not stored. */
template <class C>
__device__ __forceinline__ void load_numbers(uint32_t b, uint32_t a, uint32_t warp, uint32_t lane,
                                             stage_numbers<C> &v)
{
    const uint32_t line = lane / 4, q = lane % 4;
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        if constexpr (C::YK) {
            load_along_k(b, warp * 8 + line, i, q, line, v.b[i]);
        } else {
            const uint32_t piece = 2 * warp + line / 4;
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                const uint32_t k = 2 * q + j % 2; /* of 8 */
                v.b[i][j] = __uint_as_float(ptx::load_shared(b + i * 2048 + j / 2 * 1024 + k * 128 +
                                                             ((piece ^ k) << 4) + line % 4 * 4));
            }
        }
#pragma unroll
        for (uint32_t high = 0; high < C::HIGH; high++) {
            const uint32_t row = line + 8 * high, swizzle = row % 8;
            if constexpr (C::YK) {
                load_along_k(a, row, i, q, swizzle, v.a[i][high]);
            } else {
#pragma unroll
                for (uint32_t j = 0; j < 2; j++) {
                    const uint32_t piece = 4 * i + 2 * j + q / 2;
                    const uint2 u =
                        ptx::load_shared_2(a + row * 128 + ((piece ^ swizzle) << 4) + q % 2 * 8);
                    v.a[i][high][2 * j] = __uint_as_float(u.x);
                    v.a[i][high][2 * j + 1] = __uint_as_float(u.y);
                }
            }
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
#pragma unroll
            for (uint32_t high = 0; high < C::HIGH; high++) {
                f32_parts::decompose(v.a[i][high][2 * j], v.a[i][high][2 * j + 1],
                                     parts.a[i][high][j]);
            }
        }
    }
}

/* sums += one part of A times one part of B, over a box. */
template <class C>
__device__ __forceinline__ void multiply_pair(const stage_parts<C> &parts, int a_part, int b_part,
                                              float (&sums)[4])
{
#pragma unroll
    for (uint32_t i = 0; i < C::STEPS; i++) {
        uint32_t x[4];
        x[0] = parts.a[i][0][0][a_part];
        x[2] = parts.a[i][0][1][a_part];
        x[1] = parts.a[i][C::HIGH - 1][0][a_part];
        x[3] = parts.a[i][C::HIGH - 1][1][a_part];
        ptx_sm80::multiply_add<__nv_bfloat16>(sums, x, parts.b[i][0][b_part],
                                              parts.b[i][1][b_part]);
    }
}

/* The products of a box, in the order of multiply_parts (gemm.cuh). */
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
    ring<C::STAGES> at(0);
    float small[4] = {};
    stage_numbers<C> v;
    stage_parts<C> even, odd;
    const uint32_t stages = (p.k_tiles + C::BOXES - 1) / C::BOXES;
    ptx::mbarrier_wait(s.full(0), 0);
    load_numbers<C>(s.b(0), s.a(0), warp, lane, v);
    decompose<C>(v, even);
    for (uint32_t i = 1; i <= stages; i++) {
        float large[4] = {};
        load_numbers<C>(s.b(at.stage) + C::B_BOX, s.a(at.stage) + C::A_BOX, warp, lane, v);
        multiply_parts_of<C>(even, large, small);
        decompose<C>(v, odd);
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.empty(at.stage));
        }
        at.advance();
        if (i < stages) {
            ptx::mbarrier_wait(s.full(at.stage), at.parity);
        }
        /* Behind the last stage, numbers that are not used. */
        load_numbers<C>(s.b(at.stage), s.a(at.stage), warp, lane, v);
        multiply_parts_of<C>(odd, large, small);
        decompose<C>(v, even);
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
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
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
            ptx::mbarrier_init(s.full(i), 1);
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
