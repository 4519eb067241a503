/*
 * gemm_whole.cuh - f32 with precision full for few rows: operands are split on the way.
 *
 * The kernels of gemm.cuh want f32 in three parts of bf16 each in memory, which for few rows costs
 * more than the product: 10 bytes an element of B to make them, and 6 to read them, where 4 would
 * do. Here eight warps read the operands as they are, whatever their alignment and order, split
 * them (split.cuh) and write the parts into the stages of the ring, each warp a stage of its own in
 * turn, which keeps 32 KiB on their way into a multiprocessor. One warpgroup multiplies; all it
 * sees is gemm.cuh's, so the bits are too. A block computes one tile.
 *
 * Both operands lie along k in the stages, lines of 64 bytes with 64-byte swizzle: the 16-byte
 * piece c of line i lies at c ^ (i / 2 % 4) of its 64 * i.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_WHOLE_CUH
#define KERNELS_CUDA_SM90_GEMM_WHOLE_CUH

#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/split.cuh"

namespace sm90
{

constexpr uint32_t SPLITTERS = 8; /* warps */
constexpr uint32_t WHOLE_THREADS = 128 + 32 * SPLITTERS;
constexpr uint32_t PIECE = 8; /* numbers that make 16 bytes of a part */

/* The lines of an operand that are a tile's. */
struct lines_of {
    const float *first; /* at k = 0 */
    int64_t line_step, k_step;
    uint32_t count;   /* that there are */
    bool whole_reads; /* of 16 bytes are aligned, along k */

    __device__ __forceinline__ lines_of(const sm90_whole &operand, uint32_t batch, uint32_t line,
                                        uint32_t extent, uint32_t tile)
        : first(operand.data + batch * operand.batch_step + line * operand.line_step),
          line_step(operand.line_step), k_step(operand.k_step), count(min(extent - line, tile)),
          whole_reads(k_step == 1 && line_step % 4 == 0 &&
                      reinterpret_cast<uintptr_t>(first) % 16 == 0)
    {
    }

    /* A lane's line and piece of it, of the `index`-th 32 pieces of a stage: such that what a warp
     * reads at once is whole lines of memory. */
    __device__ __forceinline__ uint32_t line(uint32_t index, uint32_t lane) const
    {
        return k_step == 1 ? 8 * index + lane / 4 : index / 4 * 32 + lane;
    }
    __device__ __forceinline__ uint32_t piece(uint32_t index, uint32_t lane) const
    {
        return k_step == 1 ? lane % 4 : index % 4;
    }
    /* How many times 32 pieces the stage has. */
    __device__ __forceinline__ uint32_t indices() const
    {
        return k_step == 1 ? (count + 7) / 8 : (count + 31) / 32 * 4;
    }

    /* The numbers of the piece, zeros where there are none, in the stage that begins at `k`, of
     * which `left` remain. */
    __device__ __forceinline__ void load(uint32_t index, uint32_t lane, uint32_t k, uint32_t left,
                                         float (&v)[PIECE]) const
    {
        const uint32_t l = line(index, lane), ahead = PIECE * piece(index, lane);
        const uint32_t valid = l >= count || ahead >= left ? 0 : min(PIECE, left - ahead);
        const float *from = first + l * line_step + (k + ahead) * k_step;
        if (whole_reads && valid == PIECE) {
            const float4 low = __ldg(reinterpret_cast<const float4 *>(from));
            const float4 high = __ldg(reinterpret_cast<const float4 *>(from) + 1);
            memcpy(v, &low, sizeof low);
            memcpy(v + 4, &high, sizeof high);
        } else {
#pragma unroll
            for (uint32_t i = 0; i < PIECE; i++, from += k_step) {
                v[i] = i < valid ? __ldg(from) : 0;
            }
        }
    }

    /* Splits them into the stage's tile, whose parts lie `part_bytes` apart. */
    __device__ __forceinline__ void put(uint32_t index, uint32_t lane, uint32_t tile,
                                        uint32_t part_bytes, const float (&v)[PIECE]) const
    {
        const uint32_t l = line(index, lane);
        const uint32_t at = tile + 64 * l + ((piece(index, lane) ^ (l / 2 % 4)) << 4);
        uint32_t parts[PIECE / 2][split_parts::PARTS];
#pragma unroll
        for (uint32_t i = 0; i < PIECE / 2; i++) {
            split_parts::split(v[2 * i], v[2 * i + 1], parts[i]);
        }
#pragma unroll
        for (uint32_t part = 0; part < split_parts::PARTS; part++) {
            ptx::store_shared_4(at + part * part_bytes, parts[0][part], parts[1][part],
                                parts[2][part], parts[3][part]);
        }
    }
};

/* One warp: fills its stages. Y's numbers of the next one are asked for before X's are split. */
template <class C>
__device__ __forceinline__ void split_stages(const sm90_arguments &p, const shared<C> &s,
                                             uint32_t warp, uint32_t lane, const lines_of &x,
                                             const lines_of &y)
{
    constexpr uint32_t Y_INDICES = C::TILE_N / 8, TILE_K = C::TILE_K;
    static_assert(C::TILE_N == 32 && C::K_BYTES == 64, "32 lines of four pieces");
    /* A warp that is a whole turn ahead has seen the stage's use before the last one end. */
    static_assert(C::STAGES >= SPLITTERS, "a parity tells a use only from the ones next to it");
    float v[Y_INDICES][PIECE];
#pragma unroll
    for (uint32_t i = 0; i < Y_INDICES; i++) {
        if (warp < p.k_tiles) {
            y.load(i, lane, warp * TILE_K, p.k - warp * TILE_K, v[i]);
        }
    }
    for (uint32_t step = warp; step < p.k_tiles; step += SPLITTERS) {
        const ring<C::STAGES> at(step);
        const uint32_t k = step * TILE_K;
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
#pragma unroll
        for (uint32_t i = 0; i < Y_INDICES; i++) {
            y.put(i, lane, s.y(at.stage, 0), C::Y_BYTES, v[i]);
        }
        const uint32_t next = step + SPLITTERS;
#pragma unroll
        for (uint32_t i = 0; i < Y_INDICES; i++) {
            if (next < p.k_tiles) {
                y.load(i, lane, next * TILE_K, p.k - next * TILE_K, v[i]);
            }
        }
        const uint32_t indices = x.indices();
#pragma unroll 2
        for (uint32_t i = 0; i < indices; i++) {
            float w[PIECE];
            x.load(i, lane, k, p.k - k, w);
            x.put(i, lane, s.x(at.stage, 0), C::X_BYTES, w);
        }
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            ptx::mbarrier_arrive(s.full(at.stage));
        }
    }
}

template <class C>
__device__ __forceinline__ void consume_whole(const sm90_arguments &p, const shared<C> &s,
                                              const tile &t, uint32_t warp, uint32_t lane)
{
    static_assert(C::TILE_N == 32 && C::BLOCKS_64 == 1, "a chunk of one panel");
    ring<C::STAGES> at(0);
    float d[1][C::TILE_N / 2];
    (void)sum_split<C>(s, p.k_tiles, lane, 0, at, d);
    uint32_t v[C::TILE_N / 2];
    memcpy(v, d, sizeof v);
    stage_32(v, s.staging(warp), lane);
    __syncwarp();
    finish_chunk<F32, C::TILE_N>(p, s.staging(warp), lane, t.batch, t.row * C::TILE_M + warp * 16,
                                 t.column * C::TILE_N);
}

template <class C>
__global__ void __launch_bounds__(WHOLE_THREADS, 1)
    sm90_gemm_whole(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const shared<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const tile t = tile_at(p, blockIdx.x);
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), C::READERS);
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    ptx::later_kernels_allow();
    ptx::earlier_kernels_wait();
    if (warp < 4) {
        consume_whole<C>(p, s, t, warp, lane);
    } else {
        const uint32_t row = t.row * C::TILE_M, column = t.column * C::TILE_N;
        split_stages<C>(p, s, warp - 4, lane, lines_of(p.a, t.batch, row, p.m, C::TILE_M),
                        lines_of(p.b, t.batch, column, p.n, C::TILE_N));
    }
}

} // namespace sm90

#endif
