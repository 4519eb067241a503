/*
 * gemm_fused.cuh - f32 with precision full for few rows: the kernel decomposes operands into parts
 * itself.
 *
 * The kernels of gemm.cuh read f32 operands as three parts of bf16 each from device memory. For few
 * rows, the decomposition takes longer than the product: for each element of B a kernel of its own
 * reads 4 bytes and writes 6, and the product reads 6 bytes again. A fused kernel reads 4 bytes
 * once.
 *
 * Here PRODUCERS warps read the operands as they are, with any alignment and order, decompose them
 * (parts.cuh), and write the parts into the stages of the ring. A GROUP of warps fills one stage,
 * and the groups take the stages in turn, which keeps 32 to 64 KiB of loads in flight to each
 * multiprocessor. One warpgroup multiplies in the same way as gemm.cuh, so the bits are the same. A
 * block computes one tile.
 *
 * The left operand of the tensor core always has 64 lines. In tiles of 64 columns the left operand
 * is B, so that a product of few rows is short; the sums are those of the transpose of C. In tiles
 * of 32 columns the left operand is A; for n = 4096 there are enough of these tiles for all
 * multiprocessors.
 *
 * In the stages both operands lie along k, in lines of 64 bytes with 64-byte swizzle: the 16-byte
 * piece c of line i is at offset 64 * i + 16 * (c ^ (i / 2 % 4)).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_FUSED_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_FUSED_CUH

#include "kernels/cuda/move/parts.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"

namespace sm90
{

constexpr uint32_t PIECE = 8; /* f32 numbers, of which each part has 16 bytes */

/* The lines of an operand that belong to one tile. */
struct lines_of {
    const float *first; /* at k = 0 */
    int64_t line_step, k_step;
    uint32_t count;    /* lines that exist */
    bool vector_reads; /* reads of 16 bytes along k are aligned */

    __device__ __forceinline__ lines_of(const sm90_f32_operand &operand, uint32_t batch,
                                        uint32_t line, uint32_t extent, uint32_t tile)
        : first(operand.data + batch * operand.batch_step + line * operand.line_step),
          line_step(operand.line_step), k_step(operand.k_step), count(min(extent - line, tile)),
          vector_reads(k_step == 1 && line_step % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(first) % 16 == 0)
    {
    }

    /* The line of a lane, and below its piece of the line. A warp loads 32 pieces of a stage at
     * once; `index` counts these loads. Lines and pieces are assigned so that a warp reads
     * neighbouring memory. */
    __device__ __forceinline__ uint32_t line(uint32_t index, uint32_t lane) const
    {
        return k_step == 1 ? 8 * index + lane / 4 : index / 4 * 32 + lane;
    }
    __device__ __forceinline__ uint32_t piece(uint32_t index, uint32_t lane) const
    {
        return k_step == 1 ? lane % 4 : index % 4;
    }
    /* The number of loads of 32 pieces in a stage. */
    __device__ __forceinline__ uint32_t indices() const
    {
        return k_step == 1 ? (count + 7) / 8 : (count + 31) / 32 * 4;
    }

    /* Loads a lane's piece of the stage that begins at `k`, where the operand has `left` more steps
     * of k. Elements that do not exist are zeros. */
    __device__ __forceinline__ void load(uint32_t index, uint32_t lane, uint32_t k, uint32_t left,
                                         float (&v)[PIECE]) const
    {
        const uint32_t l = line(index, lane), ahead = PIECE * piece(index, lane);
        const uint32_t valid = l >= count || ahead >= left ? 0 : min(PIECE, left - ahead);
        const float *from = first + l * line_step + (k + ahead) * k_step;
        if (vector_reads && valid == PIECE) {
            const float4 low = __ldg(reinterpret_cast<const float4 *>(from));
            const float4 high = __ldg(reinterpret_cast<const float4 *>(from) + 1);
            memcpy(v, &low, sizeof low);
            memcpy(v + 4, &high, sizeof high);
        } else if (valid == PIECE) {
#pragma unroll
            for (uint32_t i = 0; i < PIECE; i++, from += k_step) {
                v[i] = __ldg(from);
            }
        } else {
#pragma unroll
            for (uint32_t i = 0; i < PIECE; i++, from += k_step) {
                v[i] = i < valid ? __ldg(from) : 0;
            }
        }
    }

    /* Decomposes the numbers and stores their parts in the stage's tile. Each part has
     * `part_bytes`, and the parts follow one another. */
    __device__ __forceinline__ void put(uint32_t index, uint32_t lane, uint32_t tile,
                                        uint32_t part_bytes, const float (&v)[PIECE]) const
    {
        const uint32_t l = line(index, lane);
        if (64 * l >= part_bytes) {
            return;
        }
        const uint32_t at = tile + 64 * l + ((piece(index, lane) ^ (l / 2 % 4)) << 4);
        uint32_t parts[PIECE / 2][f32_parts::PARTS];
#pragma unroll
        for (uint32_t i = 0; i < PIECE / 2; i++) {
            f32_parts::decompose(v[2 * i], v[2 * i + 1], parts[i]);
        }
#pragma unroll
        for (uint32_t part = 0; part < f32_parts::PARTS; part++) {
            ptx::store_shared_4(at + part * part_bytes, parts[0][part], parts[1][part],
                                parts[2][part], parts[3][part]);
        }
    }
};

/* A configuration: ROWS x COLUMNS is the tile of C, PRODUCERS the warps that load and decompose,
 * and GROUP the warps that fill one stage. */
template <int ROWS, int COLUMNS, uint32_t PRODUCERS_, uint32_t GROUP_>
struct fused_config
    : config<F32, 64, ROWS == 64 ? COLUMNS : ROWS, 1, COOPERATIVE, 1, 1, ONE_CHAIN, true, true> {
    static constexpr bool SWAPPED = COLUMNS == 64; /* B is the tensor core's left operand */
    static constexpr int A_LINES = ROWS, B_LINES = COLUMNS;
    static constexpr uint32_t PRODUCERS = PRODUCERS_, GROUP = GROUP_, GROUPS = PRODUCERS / GROUP;
    static constexpr uint32_t FUSED_THREADS = 128 + 32 * PRODUCERS;
    /* A warp's share of a stage, in loads of 32 pieces. */
    static constexpr uint32_t A_SHARE = ((ROWS + 31) / 32 * 4 + GROUP - 1) / GROUP;
    static constexpr uint32_t B_SHARE = COLUMNS / 8 / GROUP;

    static_assert(ROWS == 64 || COLUMNS == 64, "lines of the left operand");
    static_assert(fused_config::K_BYTES == 64, "a line of a stage is four pieces");
    /* A group fills every GROUPS-th stage of the sum. Before it waits for a use of a buffer to end,
     * it must know that the use before that one has ended (the parity of a barrier, gemm.cuh). */
    static_assert(fused_config::STAGES >= GROUPS,
                  "a parity tells a use only from those next to it");
};

/* One producer warp: decomposes its share of its group's stages. The loads of B for the group's
 * next stage are issued before A is decomposed. */
template <class C>
__device__ __forceinline__ void produce_stages(const sm90_arguments &p, const shared<C> &s,
                                               uint32_t warp, uint32_t lane, const lines_of &a,
                                               const lines_of &b)
{
    const uint32_t group = warp / C::GROUP, member = warp % C::GROUP;
    const uint32_t a_indices = a.indices();
    float v[C::B_SHARE][PIECE];
    const auto load_b = [&](uint32_t step) {
        const uint32_t k = step * C::TILE_K;
#pragma unroll
        for (uint32_t i = 0; i < C::B_SHARE; i++) {
            if (step < p.k_tiles) {
                b.load(member * C::B_SHARE + i, lane, k, p.k - k, v[i]);
            }
        }
    };
    load_b(group);
    for (uint32_t step = group; step < p.k_tiles; step += C::GROUPS) {
        const ring<C::STAGES> at(step);
        const uint32_t k = step * C::TILE_K;
        const uint32_t left = s.x(at.stage, 0), right = s.y(at.stage, 0);
        float w[C::A_SHARE][PIECE];
#pragma unroll
        for (uint32_t i = 0; i < C::A_SHARE; i++) {
            if (member + i * C::GROUP < a_indices) {
                a.load(member + i * C::GROUP, lane, k, p.k - k, w[i]);
            }
        }
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
#pragma unroll
        for (uint32_t i = 0; i < C::B_SHARE; i++) {
            b.put(member * C::B_SHARE + i, lane, C::SWAPPED ? left : right, 64 * C::B_LINES, v[i]);
        }
        load_b(step + C::GROUPS);
#pragma unroll
        for (uint32_t i = 0; i < C::A_SHARE; i++) {
            if (member + i * C::GROUP < a_indices) {
                a.put(member + i * C::GROUP, lane, C::SWAPPED ? right : left, 64 * C::A_LINES,
                      w[i]);
            }
        }
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.full(at.stage));
        }
    }
}

/* Writes a thread's sums of the transpose of C, of 64 columns and ROWS rows of C, to panels of 16
 * rows by 32 columns. */
template <class C>
__device__ __forceinline__ void stage_columns(const shared<C> &s, uint32_t warp, uint32_t lane,
                                              const float (&d)[C::TILE_N / 2])
{
    const uint32_t column = 16 * (warp % 2) + lane / 4; /* in the panel */
#pragma unroll
    for (int i = 0; i < C::TILE_N / 2; i++) {
        const uint32_t line = i / 4 % 2 * 8 + lane % 4 * 2 + i % 2;
        const uint32_t at = column + 8 * (i / 2 % 2);
        const uint32_t panel = s.staging(0) + (i / 8 * 2 + warp / 2) * PANEL_BYTES;
        ptx::store_shared(panel + line * 128 + ((at / 4 ^ (line % 8)) << 4) + at % 4 * 4,
                          bits_of(d[i]));
    }
}

template <class C>
__device__ __forceinline__ void consume_fused(const sm90_arguments &p, const shared<C> &s,
                                              const tile &t, uint32_t warp, uint32_t lane)
{
    ring<C::STAGES> at(0);
    float d[1][C::TILE_N / 2];
    (void)sum_parts<C, C::SWAPPED>(s, p.k_tiles, lane, 0, at, d);
    if constexpr (C::SWAPPED) {
        stage_columns<C>(s, warp, lane, d[0]);
        ptx::barrier_sync(1, 128);
        for (uint32_t panel = warp; panel < C::TILE_N / 8; panel += 4) {
            finish_chunk<F32, 32>(p, s.staging(0) + panel * PANEL_BYTES, lane, t.batch,
                                  t.row * C::A_LINES + panel / 2 * 16,
                                  t.column * C::B_LINES + panel % 2 * 32);
        }
    } else {
        uint32_t v[C::TILE_N / 2];
        memcpy(v, d, sizeof v);
        stage_32(v, s.staging(warp), lane);
        __syncwarp();
        finish_chunk<F32, C::TILE_N>(p, s.staging(warp), lane, t.batch,
                                     t.row * C::TILE_M + warp * 16, t.column * C::TILE_N);
    }
}

template <class C>
__global__ void __launch_bounds__(C::FUSED_THREADS, 1)
    sm90_gemm_fused(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const shared<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const tile t = tile_at(p, blockIdx.x);
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.full(i), C::GROUP);
            ptx::mbarrier_init(s.empty(i), C::READERS);
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    ptx::later_kernels_allow();
    ptx::earlier_kernels_wait();
    if (warp < 4) {
        consume_fused<C>(p, s, t, warp, lane);
    } else {
        const uint32_t row = t.row * C::A_LINES, column = t.column * C::B_LINES;
        produce_stages<C>(p, s, warp - 4, lane, lines_of(p.a, t.batch, row, p.m, C::A_LINES),
                          lines_of(p.b, t.batch, column, p.n, C::B_LINES));
    }
}

} // namespace sm90

#endif
