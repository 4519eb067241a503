/*
 * gemm.cuh - the GEMM of sm_90a (Hopper): C = epilogue(X * Y) with X = op(A) [m, k] and Y = op(B)
 * [k, n]. The kernel copies by TMA (the copy engine), multiplies by wgmma (the tensor core
 * instruction of a warpgroup, which is four warps), and waits at mbarriers (barriers in shared
 * memory). kernels/LADDER.md introduces them.
 *
 * Roles: One block runs on each multiprocessor. Warpgroup 0 of the block is the producer: one of
 * its threads issues all copies, or two threads issue those of one operand each. The other
 * CONSUMERS warpgroups are the consumers, which multiply. Between producer and consumers is a ring
 * of STAGES buffers in shared memory. A stage holds TILE_M rows of X and TILE_N columns of Y for
 * one step of k, which is 128 bytes of each row and column (f32: three parts of 64 bytes). A stage
 * has two barriers: "full" (TMA has written the stage) and "empty" (all readers have finished).
 * Blocks compute tiles of C until none is left (persistent grid). The producer runs ahead across
 * tiles, so that the ring is full when a tile begins.
 *
 * Schedule: The consumers, one to three, share one tile, each with a part of its rows. With
 * PINGPONG each of two consumers has tiles of its own in turn, so that one stores its tile while
 * the other multiplies. A consumer waits for its turn before it waits for the stages of its tile.
 * A wait at a barrier names only the parity of a use of the stage, odd or even, so a consumer that
 * waited too early would mistake the use before the previous one for its own.
 *
 * Clusters: CLUSTER_M x CLUSTER_N blocks of a cluster compute neighbouring tiles. Data that two of
 * the blocks need is loaded once, half by each, into both (multicast). A stage is then empty when
 * the readers in all blocks of the cluster have finished.
 *
 * Order of sums: Every element of C is one chain of wgmmas over k in ascending order, in steps of
 * 128 bytes of k from 0, whatever the tile. A chain is a sum to which the tensor core adds product
 * after product. The tensor core truncates when it adds, and over long chains its error is larger
 * than that of a chain of FMAs. Therefore PROMOTED kernels make chains of PROMOTE_K steps of k and
 * add these in f32. PROMOTED kernels with small tiles also do so for each chunk of k separately if
 * a launch has several chunks (split_k.h). CHUNKED kernels make one chain for each chunk and add
 * the chains in f32.
 *
 * f32: An operand of f32 is three parts of bf16, whose sum is the number (move/parts.cu). Of the
 * nine products of two parts the six largest are computed; the others are less than 2^-25 of the
 * product. The largest, which is the product of the first parts, makes chains of PROMOTE_PARTS_K
 * steps of k, which are added in f32 ("large" sums). The other five, 2^-9 of the largest and less,
 * are a chain of their own ("small" sums), whose truncation is negligible. The two sums are added
 * at the end. While the CUDA cores add the large sums, the tensor core works on the small ones.
 *
 * Overlap: Kernels of one stream overlap. Everything that does not access global memory is done
 * while the previous kernel still runs (griddepcontrol), and so are the first reads of the kernel's
 * own arguments. Kernels of 16-bit types without a cluster also prefetch the first bytes of the
 * operands into the L2, each block a share.
 *
 * Edges: TMA fills elements outside an operand with zeros, more slowly than it copies. Where the
 * lines of an operand (its rows as stored) run along k, the last tile of rows or columns therefore
 * has boxes of its own, no higher than the lines that exist. Where lines run across k, the last 128
 * bytes of a line are copied completely, and boxes beyond them are left out. The remaining bytes of
 * a stage are undefined, and only affect sums that are not stored.
 *
 * The design follows NVIDIA, "CUTLASS: efficient GEMM in CUDA" (warp specialisation, ping-pong,
 * clusters); P. Shankhdhar, "Outperforming cuBLAS on H100"; DeepSeek, DeepGEMM (promotion).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_CUH

#include <stdint.h>
#include <string.h>

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/gemm/arguments.h"
#include "kernels/cuda/sm90/gemm/epilogue.cuh"
#include "kernels/cuda/sm90/gemm/load.cuh"
#include "kernels/cuda/sm90/gemm/scales.cuh"
#include "kernels/cuda/sm90/ring.cuh"
#include "kernels/cuda/sm90/wgmma.cuh"

namespace sm90
{

enum schedule { COOPERATIVE, PINGPONG };

/* How the products of a sum are added: in one chain; or in f32, the sums of chains of PROMOTE_K
 * steps of k (PROMOTED_CHAINS), of a chain for each chunk of k (CHUNK_CHAINS,
 * sm90_arguments.chunk_tiles), or of a chain for each 128 steps of k (STAGE_CHAINS, gemm_f8.cuh).
 */
enum order { ONE_CHAIN, PROMOTED_CHAINS, CHUNK_CHAINS, STAGE_CHAINS };

constexpr uint32_t SHARED_BYTES_MAX = 232448; /* a block's, on sm_90 */
constexpr uint32_t STAGES_MAX = 24;
constexpr int PROMOTE_K = 256; /* elements of k */
constexpr int PROMOTE_PARTS_K = 64;

/* `other_bytes`: shared memory that is not for stages. 16 bytes are the two barriers of a stage. */
constexpr uint32_t stages_that_fit(uint32_t stage_bytes, uint32_t other_bytes)
{
    const uint32_t stages = (SHARED_BYTES_MAX - other_bytes) / (stage_bytes + 16);
    return stages < STAGES_MAX ? stages : STAGES_MAX;
}

/* A configuration: the constants of one kernel.
 *
 *   E                     type of the operands
 *   TILE_M, TILE_N        rows and columns of C in a tile
 *   CONSUMERS             warpgroups of a block that multiply
 *   SCHEDULE              whether consumers share a tile or take turns (PINGPONG)
 *   CLUSTER_M, CLUSTER_N  blocks of a cluster along m, which share Y, and along n, which share X
 *   ORDER                 how the products of a sum are added
 *   XK, YK                whether the lines of X and of Y run along k (K-major); if not, those of X
 *                         run along m and those of Y along n
 *   SCALES                the scales of the operands, which the kernel applies
 */
template <element E_, int TILE_M_, int TILE_N_, int CONSUMERS_, schedule SCHEDULE_, int CLUSTER_M_,
          int CLUSTER_N_, order ORDER_, bool XK_, bool YK_,
          enum gemm_scales SCALES_ = GEMM_SCALES_NONE>
struct config {
    static constexpr element E = E_;
    static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, CONSUMERS = CONSUMERS_;
    static constexpr bool PINGPONG = SCHEDULE_ == sm90::PINGPONG;
    static constexpr bool PROMOTED = ORDER_ == PROMOTED_CHAINS, CHUNKED = ORDER_ == CHUNK_CHAINS;
    /* Whether results can have 16 bits, so that the epilogue is computed in registers. */
    static constexpr bool IN_PLACE =
        !PROMOTED && (E == BF16 || E == F16 || E == F8 || SCALES_ != GEMM_SCALES_NONE);
    static constexpr enum gemm_scales SCALES = SCALES_;
    static constexpr int CLUSTER_M = CLUSTER_M_, CLUSTER_N = CLUSTER_N_;
    static constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
    static constexpr bool XK = XK_, YK = YK_;
    static constexpr int PARTS = E == F32 ? 3 : 1; /* of a number; each part has its own tiles */
    /* Whether the operands are swapped, so that the left operand of the tensor core is Y and the
     * sums are those of the transpose of C (gemm_swapped.cuh). Operands of 32 bits that do not lie
     * along k can only come from registers, and only the left operand can come from registers. */
    static constexpr bool SWAPPED = E == TF32 && !YK;

    /* Bytes of k in a stage. With more than 64 for f32 only two stages would fit, too few to hide
     * the copies. */
    static constexpr uint32_t K_BYTES = PARTS > 1 ? 64 : 128;
    /* Elements of k in a stage and in one wgmma, and elements of a line of a box whose lines run
     * across k. */
    static constexpr int TILE_K = K_BYTES / element_bytes<E>;
    static constexpr int INSTRUCTION_K = 32 / element_bytes<E>;
    static constexpr int ACROSS = 128 / element_bytes<E>;
    static constexpr int LEFT = SWAPPED ? TILE_N : TILE_M; /* rows of the left operand in a tile */
    static constexpr int CONSUMER_ROWS = PINGPONG ? LEFT : LEFT / CONSUMERS;
    static constexpr int BLOCKS_64 = CONSUMER_ROWS / 64; /* a wgmma takes 64 rows */
    static constexpr int THREADS = 128 * (1 + CONSUMERS);
    /* Registers of a thread that hold sums: 128 threads share 64 rows. */
    static constexpr int SUM_REGISTERS = BLOCKS_64 * (SWAPPED ? TILE_M : TILE_N) / 2;
    /* Whether a tile's sums leave so few registers that the kernel cannot read C0, and whether
     * consumers need more registers than usual. */
    static constexpr bool MANY_SUMS = SUM_REGISTERS > 128;
    static constexpr bool TAKES_C0 = !MANY_SUMS && TILE_N % CHUNK_COLUMNS == 0;
    static constexpr bool TAKES_MORE = MANY_SUMS || (SWAPPED && CHUNKED && SUM_REGISTERS > 64);

    /* Whether half of a box of Y is left over at the end of a tile, because the lines of Y run
     * across k (load_columns). The left-over columns have a box of their own size (HALF_BOX), and
     * products of their own, which read X once more. Tiles of 256 rows copy a whole box and use
     * half of it, which is faster for them (kernels/experiments/wgmma.md). */
    static constexpr bool LEFT_OVER = !YK && TILE_N % ACROSS != 0;
    static constexpr bool HALF_BOX = LEFT_OVER && TILE_M < 256;
    static constexpr int FULL_BOXES = TILE_N / ACROSS;
    static constexpr int Y_COLUMNS = LEFT_OVER && !HALF_BOX ? TILE_N + ACROSS / 2 : TILE_N;

    /* Whether the last rows of C can be computed in half tiles, of half as many rows, in which a
     * consumer has one block of 64 rows instead of two. A launch has half tiles if they end the
     * last wave earlier (sm90_tile_rows). */
    static constexpr bool HALVES = BLOCKS_64 == 2 && CLUSTER == 1 && PARTS == 1 && !SWAPPED &&
                                   ORDER_ == ONE_CHAIN && SCALES_ == GEMM_SCALES_NONE;

    /* Shared memory (struct shared); X_BYTES and Y_BYTES are of one part. */
    static constexpr uint32_t X_BYTES = TILE_M * K_BYTES, Y_BYTES = Y_COLUMNS * K_BYTES;
    static constexpr uint32_t STAGE_BYTES = PARTS * (X_BYTES + Y_BYTES);
    static constexpr uint32_t STAGING_ALL_BYTES = CONSUMERS * 4 * STAGING_BYTES;
    static constexpr uint32_t TURN_BYTES = 8 * CONSUMERS;
    /* The stages start at a multiple of 1024 bytes, for which up to 1024 bytes are skipped. */
    static constexpr uint32_t OTHER_BYTES = 1024 + STAGING_ALL_BYTES + TURN_BYTES;
    static constexpr uint32_t STAGES = stages_that_fit(STAGE_BYTES, OTHER_BYTES);
    static constexpr uint32_t SHARED_BYTES = STAGES * (STAGE_BYTES + 16) + OTHER_BYTES;

    /* Whether loads of Y are marked to be evicted first if no other tile reads them. Not for small
     * tiles: 64x64 was slower with it (kernels/experiments/wgmma.md). Not for tiles with
     * columns that are left over, because two tiles read the line of 128 bytes between them. */
    static constexpr bool SAYS_ONCE = element_bytes<E> == 2 && PARTS == 1 && CLUSTER_M == 1 &&
                                      !LEFT_OVER && TILE_M * TILE_N >= 128 * 128;

    /* Whether the last tile of rows or columns has boxes of its own (x_end, y_end of
     * arguments.h). Tiles of f32 use full boxes (launch.c). */
    static constexpr bool X_ENDS = XK && CLUSTER_N == 1 && PARTS == 1;
    static constexpr bool Y_ENDS = YK && CLUSTER_M == 1 && PARTS == 1;
    /* Whether the last tile of rows or columns has fewer boxes. Not in clusters, where a block can
     * have a tile of which nothing exists. */
    static constexpr bool FEWER_X = !XK && (TILE_M > ACROSS) && CLUSTER == 1 && PARTS == 1;
    static constexpr bool FEWER_Y = !YK && (TILE_N > ACROSS) && CLUSTER == 1 && PARTS == 1;

    /* Whether two threads can issue the copies, one those of X and one those of Y, because a stage
     * takes the tensor core less time than one thread takes for both. */
    static constexpr bool TWO_PRODUCERS = CONSUMERS == 1 && CLUSTER == 1 && PARTS == 1;

    /* Whether operands are prefetched into the L2. */
    static constexpr bool ASKS_AHEAD = element_bytes<E> == 2 && PARTS == 1 && CLUSTER == 1;

    /* Whether there are registers for a third sum, of chunks of k. */
    static constexpr bool ADDS_CHUNKS = PROMOTED && BLOCKS_64 * TILE_N <= 64;

    /* Warps that arrive at the barrier of a stage that they have read: the consumers of a tile, in
     * every block of the cluster. */
    static constexpr uint32_t READERS = 4 * (PINGPONG ? 1 : CONSUMERS) * CLUSTER;

    static_assert(CONSUMER_ROWS % 64 == 0, "wgmma takes 64 rows");
    static_assert(!PINGPONG || CONSUMERS == 2, "two take turns");
    static_assert((E == F8 || SCALES == GEMM_SCALES_BLOCK) == (ORDER_ == STAGE_CHAINS),
                  "f8 and scales of blocks are added so, and nothing else");
    static_assert(ORDER_ == ONE_CHAIN || !PINGPONG, "a turn ends with a tile's last product");
    static_assert(ORDER_ == ONE_CHAIN || SUM_REGISTERS <= 96, "two sums must fit in the registers");
    static_assert(PARTS == 1 || (!PINGPONG && BLOCKS_64 * TILE_N <= 128), "three sums must fit");
    static_assert(STAGES >= 3, "too few stages fit to hide the copies");
    static_assert(CLUSTER <= 2, "the empty barriers count every block of the cluster");
    static_assert(XK || (TILE_M / CLUSTER_N) % ACROSS == 0, "MN-major boxes are 128 bytes wide");
    static_assert(YK || LEFT_OVER || (TILE_N / CLUSTER_M) % ACROSS == 0,
                  "MN-major boxes are 128 bytes wide");
    static_assert(!LEFT_OVER || (TILE_N % ACROSS == ACROSS / 2 && CLUSTER == 1 && PARTS == 1),
                  "what load_columns does");
    static_assert(!SWAPPED || (XK && !PINGPONG && BLOCKS_64 == 1), "what gemm_swapped.cuh does");
    static_assert((STAGE_BYTES % 1024) == 0, "tiles start at multiples of 1024 bytes");
};

/* The place of a tile: the problem of the batch, and the row and column, counted in tiles of a
 * whole cluster. */
struct tile {
    uint32_t batch, row, column;
};

/* Tile number `index`, in the order in which tiles are computed (sm90_arguments.band). */
__device__ __forceinline__ tile tile_at(const sm90_arguments &p, uint32_t index)
{
    const uint32_t per_problem = p.tile_rows * p.tile_columns;
    const uint32_t batch = index / per_problem;
    const uint32_t i = index - batch * per_problem;
    const uint32_t per_band = p.band * p.tile_columns;
    const uint32_t band = i / per_band;
    const uint32_t first = band * p.band;
    const uint32_t rows = min(p.band, p.tile_rows - first);
    const uint32_t in_band = i - band * per_band;
    return {batch, first + in_band % rows, in_band / rows};
}

/* Half tile number `index`, whose row is counted in half tiles behind the last whole tile. Only
 * single problems have half tiles. */
__device__ __forceinline__ tile half_tile_at(const sm90_arguments &p, uint32_t index)
{
    return {0, index % p.half_rows, index / p.half_rows};
}

/* The first row of a tile, for the block of rank `rank_m` along m. `half`: it is a half tile. */
template <class C>
__device__ __forceinline__ uint32_t first_row(const sm90_arguments &p, const tile &t, bool half,
                                              uint32_t rank_m)
{
    if (half) {
        return p.tile_rows * C::TILE_M + t.row * (C::TILE_M / 2);
    }
    return (t.row * C::CLUSTER_M + rank_m) * C::TILE_M;
}

/* Shared memory: stages (the parts of X, then those of Y, in each), then a staging of 4 KiB for
 * each consumer warp, then the full and the empty barriers, then a barrier for each consumer's
 * turn. */
template <class C> struct shared {
    uint32_t base;

    __device__ __forceinline__ uint32_t x(uint32_t stage, uint32_t part) const
    {
        return base + stage * C::STAGE_BYTES + part * C::X_BYTES;
    }
    __device__ __forceinline__ uint32_t y(uint32_t stage, uint32_t part) const
    {
        return x(stage, C::PARTS) + part * C::Y_BYTES;
    }
    __device__ __forceinline__ uint32_t staging(uint32_t warp) const
    {
        return base + C::STAGES * C::STAGE_BYTES + warp * STAGING_BYTES;
    }
    __device__ __forceinline__ uint32_t full(uint32_t stage) const
    {
        return base + C::STAGES * C::STAGE_BYTES + C::STAGING_ALL_BYTES + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const
    {
        return full(stage) + 8 * C::STAGES;
    }
    __device__ __forceinline__ uint32_t turn(uint32_t consumer) const
    {
        return full(0) + 16 * C::STAGES + 8 * consumer;
    }
};

/* Called by one thread: prefetches this block's share of an operand's first bytes. */
__device__ __forceinline__ void ask_ahead(const void *data, uint32_t bytes)
{
    const uint32_t line = 128, share = (bytes / gridDim.x + line) / line * line;
    const uint32_t from = blockIdx.x * share;
    if (from < bytes) {
        ptx::prefetch_bytes(static_cast<const char *>(data) + from, min(share, bytes - from));
    }
}

/* Called by one thread, which keeps the ring full: for each tile of this cluster the thread loads
 * `k_tiles` stages, from step `k_first` of k on. `cluster` of `clusters` is the number of this
 * cluster in the grid, and `rank` that of this block in the cluster. LOADS_X, LOADS_Y: the operands
 * that the thread loads. The thread that loads X tells the barrier how many bytes a stage gets.
 * Bytes of Y may arrive earlier, because the stage is not full before the barrier has that number.
 */
template <class C, bool LOADS_X = true, bool LOADS_Y = true>
__device__ __forceinline__ void produce(const sm90_arguments &p, const shared<C> &s,
                                        uint32_t cluster, uint32_t clusters, uint32_t rank,
                                        uint32_t k_first, uint32_t k_tiles)
{
    const uint32_t rank_m = rank / C::CLUSTER_N, rank_n = rank % C::CLUSTER_N;
    constexpr uint16_t ALL_BLOCKS = (1 << C::CLUSTER) - 1;
    ring<C::STAGES> at(0);
    for (uint32_t index = cluster; index < p.tiles; index += clusters) {
        const bool half = C::HALVES && index >= p.whole_tiles;
        const tile t = half ? half_tile_at(p, index - p.whole_tiles) : tile_at(p, index);
        const uint32_t row = first_row<C>(p, t, half, rank_m);
        const uint32_t column = (t.column * C::CLUSTER_N + rank_n) * C::TILE_N;
        const uint32_t row_end = row + (half ? C::TILE_M / 2 : C::TILE_M);
        const bool x_end = (C::X_ENDS || C::FEWER_X) && row_end > p.m;
        const bool y_end = (C::Y_ENDS || C::FEWER_Y) && column + C::TILE_N > p.n;
        const CUtensorMap *x = !C::X_ENDS ? &p.x : x_end ? &p.x_end : half ? &p.x_half : &p.x;
        const CUtensorMap *y = C::Y_ENDS && y_end ? &p.y_end : &p.y;
        const uint32_t bytes = (x_end  ? p.x_end_bytes
                                : half ? p.x_half_bytes
                                       : p.x_bytes) +
                               (y_end ? p.y_end_bytes : p.y_bytes);
        const uint32_t x_extent = half ? min(p.m, row_end) : p.m;
        if (index == cluster) {
            ptx::argument_fetch(bytes);
            ptx::argument_fetch(k_tiles);
            ptx::earlier_kernels_wait();
        }
        for (uint32_t i = k_first; i < k_first + k_tiles; i++) {
            ptx::mbarrier_wait(s.empty(at.stage), at.parity ^ 1);
            const uint32_t full = s.full(at.stage);
            if constexpr (LOADS_X) {
                ptx::mbarrier_arrive_expect(full, bytes);
            }
#pragma unroll
            for (uint32_t part = 0; part < C::PARTS; part++) {
                const uint32_t batch = t.batch * C::PARTS + part;
                if constexpr (LOADS_X) {
                    load_operand<C::XK, C::TILE_M, C::CLUSTER_N, C::K_BYTES, C::ACROSS, false>(
                        s.x(at.stage, part), x, full, i * C::TILE_K, row, batch, rank_n, ALL_BLOCKS,
                        false, C::FEWER_X ? x_extent : UINT32_MAX);
                }
                if constexpr (LOADS_Y && C::LEFT_OVER) {
                    load_columns<C>(s.y(at.stage, part), y, &p.y_end, full, i * C::TILE_K, column,
                                    batch, p.y_once != 0, p.n);
                } else if constexpr (LOADS_Y) {
                    load_operand<C::YK, C::TILE_N, C::CLUSTER_M, C::K_BYTES, C::ACROSS,
                                 C::SAYS_ONCE>(s.y(at.stage, part), y, full, i * C::TILE_K, column,
                                               batch, rank_m, ALL_BLOCKS, p.y_once != 0,
                                               C::FEWER_Y ? p.n : UINT32_MAX);
                }
            }
            at.advance();
        }
    }
}

/* Called by all threads of the producer's warpgroup. */
template <class C>
__device__ __forceinline__ void
produce_by_threads(const sm90_arguments &p, const shared<C> &s, uint32_t cluster, uint32_t clusters,
                   uint32_t rank, uint32_t k_first, uint32_t k_tiles)
{
    if constexpr (C::TWO_PRODUCERS) {
        if (p.two_producers) {
            if (threadIdx.x == 0) {
                produce<C, true, false>(p, s, cluster, clusters, rank, k_first, k_tiles);
            } else if (threadIdx.x == 32) {
                produce<C, false, true>(p, s, cluster, clusters, rank, k_first, k_tiles);
            }
            return;
        }
    }
    if (threadIdx.x == 0) {
        produce<C>(p, s, cluster, clusters, rank, k_first, k_tiles);
    }
}

/* Called by each warp of a consumer: signals that the warp has read the stage, to every block that
 * loads into it. */
template <class C>
__device__ __forceinline__ void release(const shared<C> &s, uint32_t stage, uint32_t lane)
{
    if constexpr (C::CLUSTER == 1) {
        if (lane == 0) {
            ptx::mbarrier_arrive(s.empty(stage));
        }
    } else {
        if (lane < C::CLUSTER) {
            ptx::mbarrier_arrive_remote(s.empty(stage), lane);
        }
    }
}

/* In the functions of consumers, d[b][j] is a thread's share of the sums of the consumer's rows: b
 * is the block of 64 rows (half tiles have one in place of two), and wgmma decides which element j
 * is (the accumulator layout of wgmma.cuh). row_in_tile is the first of the consumer's rows in the
 * tile, and `at` is the next stage of the ring. */

/* Issues the wgmmas FIRST to FIRST + COUNT - 1 of a stage, each over INSTRUCTION_K steps of k, for
 * one part of X and one of Y; `fresh`: the first of them begins a sum. Addresses in descriptors are
 * in units of 16 bytes. */
template <class C, int FIRST, int COUNT, class T, int BLOCKS>
__device__ __forceinline__ void multiply(const shared<C> &s, uint32_t stage, uint32_t x_part,
                                         uint32_t y_part, uint32_t row_in_tile,
                                         T (&d)[BLOCKS][C::TILE_N / 2], bool fresh)
{
    const uint64_t x =
        tile_descriptor<C::XK, C::K_BYTES>(s.x(stage, x_part) + row_in_tile * C::K_BYTES);
    const uint64_t y = tile_descriptor<C::YK, C::K_BYTES>(s.y(stage, y_part));
#pragma unroll
    for (int i = FIRST; i < FIRST + COUNT; i++) {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            const uint64_t rows = x + (b * 64 * C::K_BYTES >> 4) + i * descriptor_k_step<C::XK>;
            const uint64_t columns = y + i * descriptor_k_step<C::YK>;
            const uint32_t accumulate = fresh && i == FIRST ? 0 : 1;
            if constexpr (C::HALF_BOX) {
                constexpr int FULL = C::FULL_BOXES * C::ACROSS, LEFT = C::TILE_N - FULL;
                const uint64_t half =
                    half_descriptor(s.y(stage, y_part) + FULL * C::K_BYTES) + i * half_k_step;
                wgmma<C::E, C::XK, C::YK>(reinterpret_cast<T(&)[FULL / 2]>(d[b][0]), rows, columns,
                                          accumulate);
                wgmma<C::E, C::XK, C::YK>(reinterpret_cast<T(&)[LEFT / 2]>(d[b][FULL / 2]), rows,
                                          half, accumulate);
            } else {
                wgmma<C::E, C::XK, C::YK>(d[b], rows, columns, accumulate);
            }
        }
    }
}

/* Issues all products of one stage; `fresh`: the first of them begins a sum. */
template <class C, class T, int BLOCKS>
__device__ __forceinline__ void multiply_stage(const shared<C> &s, uint32_t stage,
                                               uint32_t row_in_tile, T (&d)[BLOCKS][C::TILE_N / 2],
                                               bool fresh)
{
    wgmma_fence();
    multiply<C, 0, C::TILE_K / C::INSTRUCTION_K>(s, stage, 0, 0, row_in_tile, d, fresh);
    wgmma_commit();
}

/* d = the sum over the next `k_tiles` stages, in one chain. The products of one stage are computed
 * while the consumer waits for the next stage, so that the tensor core does not run dry.
 * `next_turn`: the barrier of the consumer that may go on once all products are issued (ping-pong).
 */
template <class C, class T, int BLOCKS>
__device__ __forceinline__ void sum_stages(const shared<C> &s, uint32_t k_tiles, uint32_t lane,
                                           uint32_t row_in_tile, uint32_t next_turn,
                                           ring<C::STAGES> &at, T (&d)[BLOCKS][C::TILE_N / 2])
{
    ptx::mbarrier_wait(s.full(at.stage), at.parity);
    multiply_stage<C>(s, at.stage, row_in_tile, d, true);
    uint32_t previous = at.stage;
    at.advance();
    for (uint32_t i = 1; i < k_tiles; i++) {
        ptx::mbarrier_wait(s.full(at.stage), at.parity);
        multiply_stage<C>(s, at.stage, row_in_tile, d, false);
        wgmma_wait<1>();
        release<C>(s, previous, lane);
        previous = at.stage;
        at.advance();
    }
    if (C::PINGPONG && lane == 0) {
        ptx::mbarrier_arrive(next_turn);
    }
    wgmma_wait<0>();
    pin(d);
    release<C>(s, previous, lane);
}

template <class C>
__device__ __forceinline__ void add(float (&d)[C::BLOCKS_64][C::TILE_N / 2],
                                    const float (&part)[C::BLOCKS_64][C::TILE_N / 2])
{
#pragma unroll
    for (int b = 0; b < C::BLOCKS_64; b++) {
#pragma unroll
        for (int j = 0; j < C::TILE_N / 2; j++) {
            d[b][j] += part[b][j];
        }
    }
}

/* d = the sum over all k of one tile, in chains of `step` stages. */
template <class C>
__device__ __forceinline__ void sum_chains(const shared<C> &s, uint32_t k_tiles, uint32_t step,
                                           uint32_t lane, uint32_t row_in_tile, ring<C::STAGES> &at,
                                           float (&d)[C::BLOCKS_64][C::TILE_N / 2])
{
    sum_stages<C>(s, min(step, k_tiles), lane, row_in_tile, 0, at, d);
    for (uint32_t first = step; first < k_tiles; first += step) {
        float part[C::BLOCKS_64][C::TILE_N / 2];
        sum_stages<C>(s, min(step, k_tiles - first), lane, row_in_tile, 0, at, part);
        add<C>(d, part);
    }
}

/* The same in chains of PROMOTE_K. */
template <class C>
__device__ __forceinline__ void sum_promoted(const shared<C> &s, uint32_t k_tiles, uint32_t lane,
                                             uint32_t row_in_tile, ring<C::STAGES> &at,
                                             float (&d)[C::BLOCKS_64][C::TILE_N / 2])
{
    sum_chains<C>(s, k_tiles, PROMOTE_K / C::TILE_K, lane, row_in_tile, at, d);
}

/* d = the sums of chunks of `chunk_tiles` stages, added in order. Each chunk is summed as if it
 * were a product of its own (sum_promoted). These are the bits of split-k (split_k.h), for products
 * that have enough tiles to fill the device without being cut. */
template <class C>
__device__ __forceinline__ void
sum_chunks(const shared<C> &s, uint32_t k_tiles, uint32_t chunk_tiles, uint32_t lane,
           uint32_t row_in_tile, ring<C::STAGES> &at, float (&d)[C::BLOCKS_64][C::TILE_N / 2])
{
    for (uint32_t first = 0; first < k_tiles; first += chunk_tiles) {
        float chunk[C::BLOCKS_64][C::TILE_N / 2];
        sum_promoted<C>(s, min(chunk_tiles, k_tiles - first), lane, row_in_tile, at, chunk);
#pragma unroll
        for (int b = 0; b < C::BLOCKS_64; b++) {
#pragma unroll
            for (int j = 0; j < C::TILE_N / 2; j++) {
                d[b][j] = first == 0 ? chunk[b][j] : d[b][j] + chunk[b][j];
            }
        }
    }
}

/* Issues the products of parts of one stage in two groups, the large ones first. Once the tensor
 * core has begun with the large ones, the products of the stage before are complete, and that stage
 * (`previous`) is released. `first`: there is no stage before. `fresh`: the large sums begin. */
template <class C, bool SWAPPED = false>
__device__ __forceinline__ void
multiply_parts(const shared<C> &s, uint32_t lane, uint32_t row_in_tile, bool first, bool fresh,
               uint32_t &previous, ring<C::STAGES> &at, float (&large)[C::BLOCKS_64][C::TILE_N / 2],
               float (&small)[C::BLOCKS_64][C::TILE_N / 2])
{
    constexpr int COUNT = C::TILE_K / C::INSTRUCTION_K;
    ptx::mbarrier_wait(s.full(at.stage), at.parity);
    wgmma_fence();
    multiply<C, 0, COUNT>(s, at.stage, 0, 0, row_in_tile, large, fresh);
    wgmma_commit();
    wgmma_wait<1>();
    if (!first) {
        release<C>(s, previous, lane);
    }
    constexpr uint32_t PAIRS[][2] = {{0, 2}, {2, 0}, {1, 1}, {0, 1}, {1, 0}}; /* of A, of B */
#pragma unroll
    for (int i = 0; i < 5; i++) {
        multiply<C, 0, COUNT>(s, at.stage, PAIRS[i][SWAPPED], PAIRS[i][!SWAPPED], row_in_tile,
                              small, first && i == 0);
    }
    wgmma_commit();
    previous = at.stage;
    at.advance();
}

/* d = the sum over all k of one tile, of operands in parts. Returns whether all sums of this thread
 * are ordinary (is_ordinary of epilogue.cuh); the others are computed again, without tensor cores.
 */
template <class C, bool SWAPPED = false>
__device__ __forceinline__ bool sum_parts(const shared<C> &s, uint32_t k_tiles, uint32_t lane,
                                          uint32_t row_in_tile, ring<C::STAGES> &at,
                                          float (&d)[C::BLOCKS_64][C::TILE_N / 2])
{
    static_assert(PROMOTE_PARTS_K == 2 * C::TILE_K, "sums of two stages are added up");
    float large[C::BLOCKS_64][C::TILE_N / 2], small[C::BLOCKS_64][C::TILE_N / 2];
    uint32_t previous = 0;
#pragma unroll
    for (int b = 0; b < C::BLOCKS_64; b++) {
#pragma unroll
        for (int j = 0; j < C::TILE_N / 2; j++) {
            d[b][j] = 0;
        }
    }
    for (uint32_t i = 0; i + 1 < k_tiles; i += 2) {
        multiply_parts<C, SWAPPED>(s, lane, row_in_tile, i == 0, true, previous, at, large, small);
        multiply_parts<C, SWAPPED>(s, lane, row_in_tile, false, false, previous, at, large, small);
        wgmma_wait<1>();
        pin(large);
        add<C>(d, large);
    }
    if (k_tiles % 2 == 1) {
        multiply_parts<C, SWAPPED>(s, lane, row_in_tile, k_tiles == 1, true, previous, at, large,
                                   small);
        wgmma_wait<1>();
        pin(large);
        add<C>(d, large);
    }
    wgmma_wait<0>();
    pin(small);
    release<C>(s, previous, lane);
    add<C>(d, small);
    bool ordinary = true;
#pragma unroll
    for (int b = 0; b < C::BLOCKS_64; b++) {
#pragma unroll
        for (int j = 0; j < C::TILE_N / 2; j++) {
            d[b][j] *= PARTS_SCALE;
            ordinary = ordinary && is_ordinary(d[b][j]);
        }
    }
    return ordinary;
}

/* The scales of rows and columns of a configuration, if it has any. */
template <class C>
using rowcol_of = std::conditional_t<C::SCALES == GEMM_SCALES_ROWCOL,
                                     rowcol_scales<C::TILE_N, C::BLOCKS_64>, no_scales>;

/* The bias of a tile, if the configuration computes epilogues in registers. */
template <class C> using bias_of = std::conditional_t<C::IN_PLACE, tile_bias<C::TILE_N>, no_bias>;

/* The code of a consumer: computes and stores its part of each tile of this cluster (cluster,
 * clusters and rank as for produce). HALVES: there may be half tiles. */
template <class C, bool HALVES = C::HALVES>
__device__ __forceinline__ void consume(const sm90_arguments &p, const shared<C> &s,
                                        uint32_t cluster, uint32_t clusters, uint32_t rank,
                                        uint32_t consumer)
{
    using T = accumulator_t<C::E>;
    const uint32_t rank_m = rank / C::CLUSTER_N, rank_n = rank % C::CLUSTER_N;
    const uint32_t lane = threadIdx.x % 32;
    /* The same for all lanes; the shuffle tells the compiler so. */
    const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32 % 4, 0);
    const uint32_t staging = s.staging(consumer * 4 + warp);
    uint32_t uses = 0; /* stages of the tiles before, also of those of the other consumer */
    uint32_t turn = 0; /* tiles so far, of both consumers */
    for (uint32_t index = cluster; index < p.tiles; index += clusters, uses += p.k_tiles) {
        const uint32_t round = turn / 2;
        if (C::PINGPONG && turn++ % 2 != consumer) {
            continue;
        }
        const bool half = HALVES && index >= p.whole_tiles;
        const tile t = half ? half_tile_at(p, index - p.whole_tiles) : tile_at(p, index);
        const uint32_t consumer_rows = half ? C::CONSUMER_ROWS / 2 : C::CONSUMER_ROWS;
        const uint32_t row_in_tile = C::PINGPONG ? 0 : consumer * consumer_rows;
        const uint32_t row = first_row<C>(p, t, half, rank_m) + row_in_tile + warp * 16;
        const uint32_t column = (t.column * C::CLUSTER_N + rank_n) * C::TILE_N;
        const uint32_t shift = y_shift<C>(column);
        const bias_of<C> bias(p, lane, column, shift);
        if (C::PINGPONG) {
            /* Each turn of a consumer is given by the other one, except the first of consumer 0,
             * which does not wait. */
            ptx::mbarrier_wait(s.turn(consumer), (round + 1 - consumer) & 1);
        }
        /* The barrier of the consumer whose turn it is once this tile's products are issued. */
        const uint32_t next_turn = C::PINGPONG ? s.turn(1 - consumer) : 0;
        const rowcol_of<C> scales(p, lane, t.batch, row, column);
        ring<C::STAGES> at(uses);
        T d[C::BLOCKS_64][C::TILE_N / 2];
        bool plain = p.plain;
        if constexpr (C::PARTS > 1) {
            plain = __all_sync(0xffffffff, sum_parts<C>(s, p.k_tiles, lane, row_in_tile, at, d)) &&
                    plain;
        } else if constexpr (C::PROMOTED) {
            bool chunks = false;
            if constexpr (C::ADDS_CHUNKS) {
                chunks = p.chunk_tiles < p.k_tiles;
                if (chunks) {
                    sum_chunks<C>(s, p.k_tiles, p.chunk_tiles, lane, row_in_tile, at, d);
                }
            }
            if (!chunks) {
                sum_promoted<C>(s, p.k_tiles, lane, row_in_tile, at, d);
            }
        } else if constexpr (C::CHUNKED) {
            sum_chains<C>(s, p.k_tiles, p.chunk_tiles, lane, row_in_tile, at, d);
        } else if (half) {
            sum_stages<C>(s, p.k_tiles, lane, row_in_tile, next_turn, at,
                          reinterpret_cast<T(&)[1][C::TILE_N / 2]>(d));
        } else {
            sum_stages<C>(s, p.k_tiles, lane, row_in_tile, next_turn, at, d);
        }
#pragma unroll
        for (int b = 0; b < C::BLOCKS_64; b++) {
            if (half && b > 0) {
                break;
            }
            if constexpr (C::SCALES == GEMM_SCALES_ROWCOL) {
                /* Scaled sums are stored as sums of f8 are. */
                float scaled[C::TILE_N / 2];
                scales.apply(b, d[b], scaled, lane);
                store_rows<F8, C::TILE_N, C::IN_PLACE, C::TAKES_C0>(
                    p, scaled, bias, plain, staging, lane, t.batch, row + 64 * b, column);
            } else {
                store_rows<C::E, C::TILE_N, C::IN_PLACE, C::TAKES_C0>(
                    p, d[b], bias, plain, staging, lane, t.batch, row + 64 * b, column, shift);
            }
        }
    }
    if (lane == 0) {
        ptx::bulk_wait_read<0>();
    }
}

/* The start of every block: its shared memory, with barriers that all threads see. */
template <class C> __device__ __forceinline__ shared<C> begin_block(const sm90_arguments &p)
{
    extern __shared__ unsigned char shared_memory[];
    uint32_t base = ptx::shared_address(shared_memory) + 1023;
    if constexpr (C::CONSUMERS == 1) {
        /* The producer is bound by its loop, in which the compiler would otherwise compute the base
         * again. */
        base = __shfl_sync(0xffffffff, base, 0);
    }
    const shared<C> s = {base & ~1023u};
    if (threadIdx.x == 0) {
        ptx::tensor_map_prefetch(&p.x);
        ptx::tensor_map_prefetch(&p.y);
        if constexpr (C::X_ENDS) {
            ptx::tensor_map_prefetch(&p.x_end);
        }
        if constexpr (C::Y_ENDS || C::HALF_BOX) {
            ptx::tensor_map_prefetch(&p.y_end);
        }
        if (p.plain || (C::IN_PLACE && p.in_place)) {
            ptx::tensor_map_prefetch(&p.c);
        }
        for (uint32_t i = 0; i < C::STAGES; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), C::READERS);
        }
        for (uint32_t i = 0; i < C::CONSUMERS; i++) {
            ptx::mbarrier_init(s.turn(i), 4); /* the four warps of the other consumer arrive */
        }
        ptx::mbarrier_init_fence();
    }
    if constexpr (C::CLUSTER == 1) {
        __syncthreads();
    } else {
        ptx::cluster_sync();
    }
    ptx::later_kernels_allow();
    return s;
}

/* Moves registers from the producer, which needs few, to the consumers, which hold the sums. The
 * numbers are registers of a thread; together they are at most the 64 Ki of a multiprocessor. */
template <class C> __device__ __forceinline__ void give_registers()
{
    if constexpr (C::CONSUMERS == 3) {
        ptx::registers_give<32>();
    } else if constexpr (C::CONSUMERS == 2) {
        ptx::registers_give<C::TAKES_MORE ? 24 : 40>();
    }
}
template <class C> __device__ __forceinline__ void take_registers()
{
    if constexpr (C::CONSUMERS == 3) {
        ptx::registers_take<160>();
    } else if constexpr (C::CONSUMERS == 2) {
        ptx::registers_take<C::TAKES_MORE ? 240 : 232>();
    }
}

/* The code of a block. consume(s, cluster, clusters, rank, consumer) is the code of a consumer. */
template <class C, class CONSUME>
__device__ __forceinline__ void produce_and_consume(const sm90_arguments &p, const CONSUME &consume)
{
    const shared<C> s = begin_block<C>(p);
    /* The same for all threads of a warpgroup; the shuffle tells the compiler so. */
    const uint32_t warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
    const uint32_t rank = C::CLUSTER == 1 ? 0 : ptx::cluster_block_rank();
    const uint32_t cluster = blockIdx.x / C::CLUSTER, clusters = gridDim.x / C::CLUSTER;

    if (warpgroup == 0) {
        give_registers<C>();
        if (C::ASKS_AHEAD && threadIdx.x == 64) {
            ask_ahead(p.x_data, p.x_ahead_bytes);
            ask_ahead(p.y_data, p.y_ahead_bytes);
        }
        produce_by_threads<C>(p, s, cluster, clusters, rank, 0, p.k_tiles);
        __syncwarp();
    } else {
        take_registers<C>();
        ptx::argument_fetch(p.k_tiles);
        ptx::argument_fetch(p.out);
        ptx::earlier_kernels_wait(); /* they may write C0, a bias, operands of f32 */
        consume(s, cluster, clusters, rank, warpgroup - 1);
    }
    if constexpr (C::CLUSTER > 1) {
        ptx::cluster_sync(); /* no block leaves while another can still reach its shared memory */
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1) sm90_gemm(const __grid_constant__ sm90_arguments p)
{
    produce_and_consume<C>(
        p, [&](const shared<C> &s, uint32_t cluster, uint32_t clusters, uint32_t rank,
               uint32_t consumer) { consume<C>(p, s, cluster, clusters, rank, consumer); });
}

} // namespace sm90

#endif
