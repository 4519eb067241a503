/*
 * gemm_split.cuh - products with few tiles and a long k: the blocks of a cluster share a tile, and
 * each computes one chunk of k.
 *
 * Each block sums its chunk as a kernel with CHUNK_CHAINS sums it, and leaves the sums in its
 * shared memory. Then each block adds the sums of all chunks for its share of the columns, in the
 * order of the chunks, from the shared memory of the others, and computes the epilogue. So the bits
 * are those of a kernel with CHUNK_CHAINS, and no sum goes through global memory. The ring, the
 * order of tiles and the producer are those of gemm.cuh.
 *
 * A thread leaves its sums in the order in which it holds them (wgmma.cuh): 4 sums of each 8
 * columns, two neighbours in each of two rows. The 4 sums, 16 bytes, are a group. The block with
 * rank r in the cluster adds groups r, r + blocks, r + 2 * blocks and so on. Where operands are
 * swapped (gemm_swapped.cuh), the 8 columns of the tensor core are rows of C.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_GEMM_SPLIT_CUH
#define KERNELS_CUDA_SM90_GEMM_GEMM_SPLIT_CUH

#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/gemm/gemm_swapped.cuh"

namespace sm90
{

constexpr uint32_t SPLIT_MAX = 8; /* blocks of a cluster that every sm_90 device can run */
constexpr uint32_t GROUP_COLUMNS = 8, GROUP_SUMS = 4;

/* The address of a group of a thread's sums. `thread` counts the threads of all consumers. */
template <class C>
__device__ __forceinline__ uint32_t group_address(const shared<C> &s, uint32_t group,
                                                  uint32_t thread)
{
    return s.base + (group * 128 * C::CONSUMERS + thread) * 16;
}

/* Sums this block's chunk and leaves the sums where the ring was. */
template <class C>
__device__ __forceinline__ void leave_sums(const shared<C> &s, uint32_t k_tiles, uint32_t consumer)
{
    static_assert(C::TILE_M * C::TILE_N * 4 <= C::STAGES * C::STAGE_BYTES, "sums take the ring");
    const uint32_t thread = consumer * 128 + threadIdx.x % 128;
    const uint32_t lane = threadIdx.x % 32;
    ring<C::STAGES> at(0);
    float d[C::BLOCKS_64][C::SUM_REGISTERS / C::BLOCKS_64];
    if constexpr (C::SWAPPED) {
        const uint32_t warp = thread / 32;
        const lane_columns columns(warp, lane);
        sum_swapped<C>(s, k_tiles, warp / 2 * PAIR_COLUMNS * C::K_BYTES, columns, lane, at, d[0]);
    } else {
        sum_stages<C>(s, k_tiles, lane, consumer * C::CONSUMER_ROWS, 0, at, d);
    }
    ptx::barrier_sync(1, 128 * C::CONSUMERS); /* no consumer reads the ring any more */
    constexpr int GROUPS = C::SUM_REGISTERS / C::BLOCKS_64 / (int)GROUP_SUMS;
#pragma unroll
    for (int b = 0; b < C::BLOCKS_64; b++) {
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const float *sums = d[b] + g * GROUP_SUMS;
            ptx::store_shared_4(group_address(s, b * GROUPS + g, thread), __float_as_uint(sums[0]),
                                __float_as_uint(sums[1]), __float_as_uint(sums[2]),
                                __float_as_uint(sums[3]));
        }
    }
}

/* sums = the sums of one group, added over all chunks in ascending order of k. `address`: of the
 * group, which is the same in all blocks of the cluster. */
__device__ __forceinline__ void add_chunks(uint32_t address, uint32_t chunks,
                                           float (&sums)[GROUP_SUMS])
{
    constexpr uint32_t AHEAD = 4; /* chunks that a thread loads before it adds the first */
    static_assert(SPLIT_MAX % AHEAD == 0, "chunks are asked for in whole rounds");
#pragma unroll
    for (uint32_t first = 0; first < SPLIT_MAX; first += AHEAD) {
        uint4 chunk[AHEAD];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            if (first + i < chunks) {
                chunk[i] = ptx::load_cluster_4(address, first + i);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            const float4 next = {__uint_as_float(chunk[i].x), __uint_as_float(chunk[i].y),
                                 __uint_as_float(chunk[i].z), __uint_as_float(chunk[i].w)};
            if (first + i == 0) {
                memcpy(sums, &next, sizeof sums);
            } else if (first + i < chunks) {
                sums[0] += next.x;
                sums[1] += next.y;
                sums[2] += next.z;
                sums[3] += next.w;
            }
        }
    }
}

/* The epilogue for two neighbouring columns of one row of sums of tf32, as finish_chunk computes
 * it. */
__device__ __forceinline__ void store_pair_tf32(const sm90_arguments &p, float first, float second,
                                                uint32_t batch, uint32_t row, uint32_t column)
{
    const uint32_t columns = column + 1 < p.n ? 2 : 1;
    const int64_t at0 = (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column;
    const int64_t at = (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column;
    float v[2] = {p.alpha * first, p.alpha * second};
    if (!p.plain) {
        const enum gemm_act act = (enum gemm_act)p.act;
#pragma unroll 1
        for (uint32_t i = 0; i < columns;
             i++) { /* registers have no run-time index, so v[1] moves */
            float x[1] = {v[0]};
            if (p.c0) {
                x[0] = fmaf(p.beta, load_float(p.c0, at0 + i, p.out), x[0]);
            }
            if (p.bias) {
                x[0] += load_float(p.bias, column + i, p.out);
            }
            if (p.out != SM90_OUT_F32 || act == GEMM_ACT_RELU) {
                activate_short(act, x);
            } else {
                x[0] = activate<float>(act, x[0]);
            }
            v[0] = v[1];
            v[1] = x[0];
        }
        if (columns == 1) {
            v[0] = v[1];
        }
    }
    if (columns == 2 && p.out == SM90_OUT_F32) {
        *reinterpret_cast<float2 *>(static_cast<float *>(p.c_data) + at) = make_float2(v[0], v[1]);
    } else {
        store_bits(p, at, __float_as_uint(v[0]));
        if (columns == 2) {
            store_bits(p, at + 1, __float_as_uint(v[1]));
        }
    }
}

/* The epilogue for two neighbouring columns of one row, as store_rows computes it. */
template <element E>
__device__ __forceinline__ void store_pair(const sm90_arguments &p, float first, float second,
                                           uint32_t batch, uint32_t row, uint32_t column)
{
    if (row >= p.m || column >= p.n) {
        return;
    }
    if constexpr (E == TF32) {
        store_pair_tf32(p, first, second, batch, row, column);
        return;
    }
    const bool both = column + 1 < p.n;
    float v[2] = {first, second};
    if (p.plain) {
        v[0] *= p.alpha;
        v[1] *= p.alpha;
    } else {
        const int64_t at0 = (int64_t)batch * p.stride_c0 + (int64_t)row * p.ldc0 + column;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (i == 1 && !both) {
                break;
            }
            const float bias = p.bias ? load_float(p.bias, column + i, p.out) : -0.0f;
            if (p.in_place) {
                v[i] = fmaf(p.alpha, v[i], bias);
            } else {
                v[i] = fmaf(p.beta, load_float(p.c0, at0 + i, p.out), v[i] * p.alpha) + bias;
            }
        }
        activate_short((enum gemm_act)p.act, v);
    }
    const int64_t at = (int64_t)batch * p.stride_c + (int64_t)row * p.ldc + column;
    uint16_t *c = static_cast<uint16_t *>(p.c_data) + at;
    const uint32_t pair = pack_16<E>(v[0], v[1], p.out);
    if (both) {
        *reinterpret_cast<uint32_t *>(c) = pair;
    } else {
        *c = (uint16_t)pair;
    }
}

/* finish_share (below) where operands are swapped: a thread's group is of two columns of C. */
template <class C>
__device__ __forceinline__ void finish_share_swapped(const sm90_arguments &p, const shared<C> &s,
                                                     uint32_t rank, uint32_t blocks,
                                                     uint32_t consumer, uint32_t index)
{
    const uint32_t thread = consumer * 128 + threadIdx.x % 128;
    const uint32_t lane = threadIdx.x % 32, warp = thread / 32;
    const lane_columns columns(warp, lane);
    const tile t = tile_at(p, index);
    const uint32_t row0 = t.row * C::TILE_M + 2 * (lane % 4);
    const uint32_t column = t.column * C::TILE_N + warp / 2 * PAIR_COLUMNS + columns.first();
#pragma unroll 1
    for (uint32_t i = rank; i < C::TILE_M / GROUP_COLUMNS; i += blocks) {
        const uint32_t row = row0 + i * GROUP_COLUMNS;
        float sums[GROUP_SUMS];
        add_chunks(group_address(s, i, thread), blocks, sums);
        store_pair<C::E>(p, sums[0], sums[2], t.batch, row, column);
        store_pair<C::E>(p, sums[1], sums[3], t.batch, row + 1, column);
    }
}

/* Adds and finishes this block's share of the groups of tile `index`. */
template <class C>
__device__ __forceinline__ void finish_share(const sm90_arguments &p, const shared<C> &s,
                                             uint32_t rank, uint32_t blocks, uint32_t consumer,
                                             uint32_t index)
{
    const uint32_t thread = consumer * 128 + threadIdx.x % 128;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const tile t = tile_at(p, index);
    const uint32_t row0 = t.row * C::TILE_M + consumer * C::CONSUMER_ROWS + warp * 16 + lane / 4;
    const uint32_t column0 = t.column * C::TILE_N + 2 * (lane % 4);
#pragma unroll 1
    for (uint32_t i = rank; i < C::BLOCKS_64 * C::TILE_N / GROUP_COLUMNS; i += blocks) {
        const uint32_t group = i % (C::TILE_N / GROUP_COLUMNS);
        const uint32_t row = row0 + i / (C::TILE_N / GROUP_COLUMNS) * 64;
        const uint32_t column = column0 + group * GROUP_COLUMNS;
        float sums[GROUP_SUMS];
        add_chunks(group_address(s, i, thread), blocks, sums);
        store_pair<C::E>(p, sums[0], sums[1], t.batch, row, column);
        store_pair<C::E>(p, sums[2], sums[3], t.batch, row + 8, column);
    }
}

/* A cluster of one block for each chunk computes one tile. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    sm90_gemm_split(const __grid_constant__ sm90_arguments p)
{
    static_assert(C::CHUNKED && C::CLUSTER == 1 && (C::IN_PLACE || C::E == TF32) &&
                      (!C::SWAPPED || C::CONSUMERS <= 2),
                  "what the functions above do");
    const shared<C> s = begin_block<C>(p);
    const uint32_t warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
    const uint32_t blocks = ptx::cluster_blocks(), rank = ptx::cluster_block_rank();
    const uint32_t index = blockIdx.x / blocks;
    const uint32_t k_first = rank * p.chunk_tiles;
    const uint32_t k_tiles = min(p.chunk_tiles, p.k_tiles - k_first);
    if (warpgroup == 0) {
        if constexpr (C::CONSUMERS >
                      1) { /* this producer needs more registers than that of gemm.cuh */
            ptx::registers_give<56>();
        }
        produce_by_threads<C>(p, s, index, p.tiles, 0, k_first, k_tiles);
        __syncwarp();
    } else {
        if constexpr (C::CONSUMERS > 1) {
            ptx::registers_take<C::CONSUMERS == 2 ? 224 : 152>();
        }
        ptx::argument_fetch(p.out);
        ptx::earlier_kernels_wait();
        leave_sums<C>(s, k_tiles, warpgroup - 1);
    }
    ptx::cluster_sync();
    if (warpgroup > 0) {
        if constexpr (C::SWAPPED) {
            finish_share_swapped<C>(p, s, rank, blocks, warpgroup - 1, index);
        } else {
            finish_share<C>(p, s, rank, blocks, warpgroup - 1, index);
        }
    }
    ptx::cluster_sync(); /* no block leaves while another reads its sums */
}

} // namespace sm90

#endif
