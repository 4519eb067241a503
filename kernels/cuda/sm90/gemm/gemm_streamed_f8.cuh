/*
 * gemm_streamed_f8.cuh - f8_e4m3 with precision full for few rows: the numbers are widened to f16
 * in registers and multiplied there, by mma.sync.
 *
 * A product of few rows takes as long as reading B. To widen B in memory first would read 1 byte,
 * write 2 and read 2 for each element; here 1 byte is read once.
 *
 * A block computes 32 or 64 columns and up to 32 rows of C. Blocks for the same columns and other
 * rows are neighbours. The copy engine fills a ring of stages of 256 steps of k, in two boxes, with
 * the bytes of both operands. With PAIR, two blocks for the same columns are a cluster, and each
 * copies one of the two boxes of B to both. Each warp computes 16 columns of 8, 16 or 32 rows by
 * itself: it loads the bytes as mma.sync takes 16-bit numbers, two bytes in place of a number, and
 * widens them. Bytes are loaded half a box ahead, so that mma.sync, whose products of a sum wait
 * for each other, is busy all the time.
 *
 * An instruction multiplies 16 steps of k, whose order within the instruction does not matter to
 * the result. In both operands, steps 4q and 4q + 1 take places 2q and 2q + 1, and steps 4q + 2 and
 * 4q + 3 places 8 + 2q and 9 + 2q. The numbers of a lane then lie in four neighbouring bytes of A.
 *
 * Widening is exact, mma.sync adds 16 products as wgmma does (kernels/experiments/hardware.md), and
 * the sums have the order and the chains of the f16 kernels of gemm.cuh, and so their bits.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_F8_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_STREAMED_F8_CUH

#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/gemm/widen.cuh"

namespace sm90
{

/* A configuration. ROWS: the rows of a block, and WARP_ROWS: those of a warp. COLUMNS: of a block.
 * PAIR: whether clusters of two blocks share B. YK: whether the lines of B run along k. PROMOTED:
 * chains of PROMOTE_K, which is a stage, are added in f32, for results of f32. */
template <int ROWS_, int WARP_ROWS_, int COLUMNS_, bool PAIR_, bool YK_, bool PROMOTED_>
struct streamed_f8 {
    static constexpr int ROWS = ROWS_, WARP_ROWS = WARP_ROWS_, COLUMNS = COLUMNS_;
    static constexpr int BLOCKS = 2; /* blocks that share a multiprocessor */
    static constexpr bool PAIR = PAIR_, YK = YK_, PROMOTED = PROMOTED_;
    static constexpr uint32_t TILES = WARP_ROWS > 16 ? WARP_ROWS / 16 : 1; /* of a warp's rows */
    static constexpr bool HIGH = WARP_ROWS > 8; /* whether a tile has rows 8 to 15 */
    static constexpr uint32_t ROW_WARPS = ROWS / WARP_ROWS, WARP_COLUMNS = 16;
    static constexpr uint32_t WARPS = ROW_WARPS * (COLUMNS / WARP_COLUMNS); /* that multiply */
    static constexpr uint32_t BOX_K = 128, BOXES = PROMOTE_K / BOX_K;       /* BOXES: of a stage */
    static constexpr uint32_t HALF_STEPS = 4; /* instructions of 16 steps of k in half a box */
    static constexpr uint32_t HALVES = 2 * BOXES;
    static constexpr uint32_t Y_BOX = COLUMNS * BOX_K, X_BOX = ROWS * BOX_K; /* bytes */
    static constexpr uint32_t STAGE_BYTES = BOXES * (Y_BOX + X_BOX);
    static constexpr uint32_t PANEL_LINE = 4 * WARP_COLUMNS, WARP_PANEL = 16 * PANEL_LINE;
    /* ROOM is the shared memory of a block. */
    static constexpr uint32_t OTHER_BYTES = 1024 + WARPS * WARP_PANEL;
    static constexpr uint32_t ROOM = (SHARED_BYTES_MAX + 1024) / BLOCKS - 1024;
    static constexpr uint32_t STAGES = (ROOM - OTHER_BYTES) / (STAGE_BYTES + 16);
    static constexpr uint32_t SHARED_BYTES = OTHER_BYTES + STAGES * (STAGE_BYTES + 16);
    static constexpr int THREADS = 32 * (WARPS + 1);
    static_assert(COLUMNS == 32 || COLUMNS == 64, "lines of B fill a swizzle");
    static_assert(!PAIR || BOXES == 2, "a box of B for each block of a pair");
    static_assert(ROWS % WARP_ROWS == 0 && HALVES % 2 == 0 && STAGES >= 2, "a ring of stages");
};

/* Shared memory: the stages, each of boxes of B and boxes of A, the panels of the warps and the
 * barriers. */
template <class C> struct streamed_f8_memory {
    uint32_t base;

    __device__ __forceinline__ uint32_t y(uint32_t stage) const
    {
        return base + stage * C::STAGE_BYTES;
    }
    __device__ __forceinline__ uint32_t x(uint32_t stage) const
    {
        return y(stage) + C::BOXES * C::Y_BOX;
    }
    __device__ __forceinline__ uint32_t panel(uint32_t warp) const
    {
        return y(C::STAGES) + warp * C::WARP_PANEL;
    }
    __device__ __forceinline__ uint32_t full(uint32_t stage) const
    {
        return panel(C::WARPS) + 16 * stage;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const
    {
        return full(stage) + 8;
    }
};

/* Called by one thread: fills the ring, after a prefetch of the first boxes of B. Rows of A that do
 * not exist are whatever was there, and only affect sums that are not stored. */
template <class C>
__device__ __forceinline__ void copy_streams(const sm90_arguments &p,
                                             const streamed_f8_memory<C> &s, uint32_t row_block,
                                             int32_t column, int32_t batch)
{
    const uint32_t rank = C::PAIR ? ptx::cluster_block_rank() : 0;
    ring<C::STAGES> at(0);
    /* Nothing depends on the prefetch, so B may still be written meanwhile. Blocks for the same
     * columns take turns. */
    for (uint32_t i = row_block;
         i < p.k_tiles * C::BOXES && i * p.tiles * C::Y_BOX < p.y_ahead_bytes; i += p.tile_rows) {
        const int32_t k = (int32_t)(i * C::BOX_K);
        ptx::tensor_prefetch(&p.y, C::YK ? k : column, C::YK ? column : k, batch);
    }
    ptx::argument_fetch(p.k_tiles);
    ptx::earlier_kernels_wait();
    for (uint32_t i = 0; i < p.k_tiles; i++) {
        const uint32_t full = s.full(at.stage);
        ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect(full, C::BOXES * (p.x_bytes + C::Y_BOX));
#pragma unroll
        for (uint32_t box = 0; box < C::BOXES; box++) {
            const int32_t k = (int32_t)((i * C::BOXES + box) * C::BOX_K);
            const uint32_t to = s.y(at.stage) + box * C::Y_BOX;
            const int32_t x = C::YK ? k : column, y = C::YK ? column : k;
            if constexpr (!C::PAIR) {
                ptx::tensor_load_once(to, &p.y, full, x, y, batch);
            } else if (box == rank) {
                ptx::tensor_load_multicast_once(to, &p.y, full, x, y, batch, 3);
            }
            ptx::tensor_load(s.x(at.stage) + box * C::X_BOX, &p.x, full, k,
                             (int32_t)(row_block * C::ROWS), batch);
        }
        at.advance();
    }
}

/* A warp's bytes of half a box, as ldmatrix loads them. Of A, words by tile; for each pair of
 * instructions, of rows l/4 and l/4 + 8 for the first, then for the second; without HIGH, of row
 * l/4 for each of four instructions. Of B, for each pair of instructions, two words for the first,
 * then two for the second: of columns l/4 and l/4 + 8, or, where the lines of B run along n, of
 * columns 2(l/4) and 2(l/4) + 1 and two steps of k each. */
template <class C> struct half_bytes {
    uint32_t a[C::TILES][C::HIGH ? 2 : 1][4], b[2][4];
};

/* The addresses that a lane gives to ldmatrix, as offsets in a box. */
template <class C> struct lane_places {
    uint32_t a, b;

    __device__ __forceinline__ lane_places(uint32_t lane, uint32_t row, uint32_t column)
    {
        const uint32_t in_8 = lane % 8, odd = lane / 8 % 2, high = lane / 16;
        const uint32_t along_k = (odd * 8 + in_8) * 128 + ((high ^ in_8) << 4);
        a = row * 128 + (C::HIGH ? along_k : in_8 * 128 + ((lane / 8 ^ in_8) << 4));
        if constexpr (C::YK) {
            b = column * 128 + along_k;
        } else { /* a line is one k, swizzled */
            const uint32_t k = high * 16 + in_8 / 2 * 4 + odd * 2 + in_8 % 2;
            const uint32_t swizzle = C::COLUMNS == 64 ? k / 2 % 4 : k / 4 % 2;
            b = k * C::COLUMNS + ((column / 16 ^ swizzle) << 4);
        }
    }
};

/* Loads half a box: `half` counts the halves of the stage. */
template <class C>
__device__ __forceinline__ void load_half(uint32_t x, uint32_t y, uint32_t half,
                                          const lane_places<C> &lane, half_bytes<C> &v)
{
    const uint32_t box = half / 2, step = half % 2 * C::HALF_STEPS;
    const uint32_t from_b = y + box * C::Y_BOX + lane.b;
#pragma unroll
    for (uint32_t j = 0; j < 2; j++) {
        if constexpr (C::YK) {
            ptx_sm80::load_matrices(v.b[j], from_b ^ (step + 2 * j) << 4);
        } else {
            ptx_sm80::load_matrices_transposed(v.b[j], from_b + (step + 2 * j) * 16 * C::COLUMNS);
        }
    }
#pragma unroll
    for (uint32_t t = 0; t < C::TILES; t++) {
        const uint32_t from = x + box * C::X_BOX + t * 16 * 128 + lane.a;
#pragma unroll
        for (uint32_t j = 0; j < (C::HIGH ? 2 : 1); j++) {
            ptx_sm80::load_matrices(v.a[t][j], from ^ (step + 2 * j) << 4);
        }
    }
}

/* The sums of tiles of 16 rows: two times 8 columns. */
template <class C> using tile_sums = float[C::TILES][2][4];

template <class C>
__device__ __forceinline__ void multiply_half(const half_bytes<C> &v, tile_sums<C> &d)
{
#pragma unroll
    for (uint32_t i = 0; i < C::HALF_STEPS; i++) {
        uint32_t b[2][2]; /* by 8 columns and halves of the operand */
        const uint32_t w0 = v.b[i / 2][i % 2 * 2], w1 = v.b[i / 2][i % 2 * 2 + 1];
        if constexpr (C::YK) {
            widen_four(w0, b[0][0], b[0][1]);
            widen_four(w1, b[1][0], b[1][1]);
        } else { /* even columns and odd ones */
            widen_four(__byte_perm(w0, 0, 0x3120), b[0][0], b[1][0]);
            widen_four(__byte_perm(w1, 0, 0x3120), b[0][1], b[1][1]);
        }
#pragma unroll
        for (uint32_t t = 0; t < C::TILES; t++) {
            uint32_t a[4];
            if constexpr (!C::HIGH) {
                widen_four(v.a[t][0][i], a[0], a[2]);
                a[1] = a[0];
                a[3] = a[2];
            } else {
                widen_four(v.a[t][i / 2][i % 2 * 2], a[0], a[2]);
                widen_four(v.a[t][i / 2][i % 2 * 2 + 1], a[1], a[3]);
            }
            ptx_sm80::multiply_add<__half>(d[t][0], a, b[0][0], b[0][1]);
            ptx_sm80::multiply_add<__half>(d[t][1], a, b[1][0], b[1][1]);
        }
    }
}

/* The code of a warp: the sums of its rows and columns. */
template <class C>
__device__ __forceinline__ void sum_all(const sm90_arguments &p, const streamed_f8_memory<C> &s,
                                        const lane_places<C> &places, uint32_t lane,
                                        tile_sums<C> &d)
{
    const uint32_t other = C::PAIR ? ptx::cluster_block_rank() ^ 1 : 0;
    ring<C::STAGES> at(0);
    half_bytes<C> v[2];
    ptx::mbarrier_wait(s.full(0), 0);
    load_half<C>(s.x(0), s.y(0), 0, places, v[0]);
    for (uint32_t i = 1; i <= p.k_tiles; i++) {
        tile_sums<C> part = {};
#pragma unroll
        for (uint32_t half = 0; half < C::HALVES; half++) {
            if (half + 1 < C::HALVES) {
                load_half<C>(s.x(at.stage), s.y(at.stage), half + 1, places, v[(half + 1) % 2]);
            } else {
                __syncwarp();
                if (lane == 0) {
                    ptx::mbarrier_arrive(s.empty(at.stage));
                    if constexpr (C::PAIR) { /* ldmatrix before it has read the stage */
                        ptx::mbarrier_arrive_remote(s.empty(at.stage), other);
                    }
                }
                at.advance();
                if (i < p.k_tiles) {
                    ptx::mbarrier_wait(s.full(at.stage), at.parity);
                }
                /* Behind the last stage, numbers that are not used. */
                load_half<C>(s.x(at.stage), s.y(at.stage), 0, places, v[0]);
            }
            multiply_half<C>(v[half % 2], C::PROMOTED ? part : d);
        }
        if constexpr (C::PROMOTED) {
#pragma unroll
            for (uint32_t t = 0; t < C::TILES; t++) {
#pragma unroll
                for (uint32_t j = 0; j < 8; j++) {
                    d[t][j / 4][j % 4] += part[t][j / 4][j % 4];
                }
            }
        }
    }
}

/* Writes the sums of 16 rows and 16 columns to a panel of 16 lines of 64 bytes. */
template <class C>
__device__ __forceinline__ void stage_tile(uint32_t panel, uint32_t lane, const float (&d)[2][4])
{
    const uint32_t q = lane % 4;
#pragma unroll
    for (uint32_t high = 0; high < (C::HIGH ? 2 : 1); high++) {
        const uint32_t line = panel + (lane / 4 + 8 * high) * C::PANEL_LINE;
        const uint32_t v[4] = {__float_as_uint(d[0][2 * high]), __float_as_uint(d[0][2 * high + 1]),
                               __float_as_uint(d[1][2 * high]),
                               __float_as_uint(d[1][2 * high + 1])};
        if constexpr (C::YK) {
            ptx::store_shared_2(line + 8 * q, v[0], v[1]);
            ptx::store_shared_2(line + 32 + 8 * q, v[2], v[3]);
        } else { /* even columns and odd ones */
            ptx::store_shared_4(line + 16 * q, v[0], v[2], v[1], v[3]);
        }
    }
}

/* The epilogue of the panel: of 8 columns of a row in each lane. The formulas are those that the
 * f16 kernels use for the same problem. */
template <class C>
__device__ __forceinline__ void finish_tile(const sm90_arguments &p, uint32_t panel, uint32_t lane,
                                            uint32_t batch, uint32_t row0, uint32_t column0)
{
    const uint32_t row = row0 + lane / 2, column = column0 + LANE_COLUMNS * (lane % 2);
    const uint32_t valid = column < p.n ? min(LANE_COLUMNS, p.n - column) : 0;
    if (row >= p.m || valid == 0) {
        return;
    }
    float bias[LANE_COLUMNS] = {}, v[LANE_COLUMNS];
    uint32_t bits[LANE_COLUMNS];
    if (p.bias) {
        load_floats(p.bias, column, p.out, valid == LANE_COLUMNS, valid, bias);
    }
    const uint4 d0 = ptx::load_shared_4(panel + 32 * lane);
    const uint4 d1 = ptx::load_shared_4(panel + 32 * lane + 16);
    memcpy(v, &d0, sizeof d0);
    memcpy(v + 4, &d1, sizeof d1);
    if (!C::PROMOTED && p.in_place && !p.plain) {
#pragma unroll
        for (uint32_t i = 0; i < LANE_COLUMNS; i++) {
            v[i] = fmaf(p.alpha, v[i], p.bias ? bias[i] : -0.0f);
        }
        activate_short((enum gemm_act)p.act, v);
    } else {
        finish_floats(p, (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column, valid, bias,
                      v);
    }
    memcpy(bits, v, sizeof v);
    store_columns(p, (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column, valid, bits);
}

/* The code of the warps that multiply. */
template <class C>
__device__ __forceinline__ void
multiply_all(const sm90_arguments &p, const streamed_f8_memory<C> &s, uint32_t warp, uint32_t lane,
             uint32_t row0, uint32_t column0, uint32_t batch)
{
    const uint32_t row = warp % C::ROW_WARPS * C::WARP_ROWS;
    const uint32_t column = warp / C::ROW_WARPS * C::WARP_COLUMNS;
    tile_sums<C> d = {};
    sum_all<C>(p, s, lane_places<C>(lane, row, column), lane, d);
    ptx::earlier_kernels_wait(); /* they may write C0 and a bias */
#pragma unroll
    for (uint32_t t = 0; t < C::TILES; t++) {
        __syncwarp();
        stage_tile<C>(s.panel(warp), lane, d[t]);
        __syncwarp();
        finish_tile<C>(p, s.panel(warp), lane, batch, row0 + row + 16 * t, column0 + column);
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    sm90_gemm_streamed_f8(const __grid_constant__ sm90_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    const streamed_f8_memory<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const uint32_t tile = blockIdx.x / p.tile_rows, row_block = blockIdx.x - tile * p.tile_rows;
    const uint32_t batch = tile / p.tile_columns;
    const uint32_t column = (tile - batch * p.tile_columns) * C::COLUMNS;
    if (threadIdx.x == 0) {
        ptx::tensor_map_prefetch(&p.x);
        ptx::tensor_map_prefetch(&p.y);
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), C::WARPS * (C::PAIR ? 2 : 1));
        }
        ptx::mbarrier_init_fence();
    }
    if constexpr (C::PAIR) {
        ptx::cluster_sync();
    } else {
        __syncthreads();
    }
    if (p.y_ahead_bytes == 0) {
        ptx::later_kernels_allow();
    }
    if (warp < C::WARPS) {
        multiply_all<C>(p, s, warp, lane, row_block * C::ROWS, column, batch);
    } else if (lane == 0) {
        copy_streams<C>(p, s, row_block, (int32_t)column, (int32_t)batch);
        /* The next kernel's blocks prefetch B while the last stages of this one are multiplied. */
        ptx::later_kernels_allow();
    }
    if constexpr (C::PAIR) {
        ptx::cluster_sync(); /* the other block arrives at barriers of this one */
    }
}

} // namespace sm90

#endif
