/*
 * register_tiled.cuh - functions that the kernels of register_tiled share: the tile of a block, the
 * layout of its operands, and the way from its sums to C.
 *
 * S is a shape: a tile of TILE_M x TILE_N elements with WARPS_N warps side by side. A warp computes
 * WARP_M x WARP_N elements; its lanes are LANES_M x LANES_N, and each lane computes ROWS x COLUMNS.
 */
#ifndef KERNELS_CUDA_SIMT_REGISTER_TILED_CUH
#define KERNELS_CUDA_SIMT_REGISTER_TILED_CUH

#include "kernels/cuda/epilogue_column.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/gemm.h"

namespace register_tiled
{

constexpr unsigned GROUP_TILES = 8; // rows of tiles that are computed together, column by column

/* How an operand is copied: ALONG_K element by element and transposed, ACROSS_K in pieces of 16 or
 * 4 bytes. */
enum way : unsigned { ALONG_K, ACROSS_K_16_BYTES, ACROSS_K_4_BYTES };

struct arguments {
    struct gemm_problem problem;
    unsigned tiles_m, tiles_n;
    enum way a_way, b_way;
};

static enum way way_of(bool along_k, const void *data, uint64_t ld, uint64_t stride, uint64_t batch)
{
    if (along_k)
        return ALONG_K;
    const bool aligned =
        (uintptr_t)data % 16 == 0 && ld % 4 == 0 && (batch == 1 || stride % 4 == 0);
    return aligned ? ACROSS_K_16_BYTES : ACROSS_K_4_BYTES;
}

/* The parameters of a launch, and its grid. */
template <class S> static dim3 fill_in(const struct gemm_problem &p, struct arguments *out)
{
    out->problem = p;
    out->tiles_m = grid_blocks_x(p.m, S::TILE_M);
    out->tiles_n = grid_blocks_x(p.n, S::TILE_N);
    out->a_way = way_of(!p.transa, p.a, p.lda, p.stride_a, p.batch);
    out->b_way = way_of(p.transb, p.b, p.ldb, p.stride_b, p.batch);
    return dim3(out->tiles_m * out->tiles_n, 1, grid_blocks(p.batch, 1));
}

/* The first row and column of this block's tile. */
template <class S>
static __device__ __forceinline__ void place_tile(const struct arguments &arguments,
                                                  uint64_t *first_row, uint64_t *first_column)
{
    const unsigned group = blockIdx.x / (GROUP_TILES * arguments.tiles_n);
    const unsigned within = blockIdx.x % (GROUP_TILES * arguments.tiles_n);
    const unsigned rows_left = arguments.tiles_m - group * GROUP_TILES;
    const unsigned rows = rows_left < GROUP_TILES ? rows_left : GROUP_TILES;
    *first_row = (uint64_t)(group * GROUP_TILES + within % rows) * S::TILE_M;
    *first_column = (uint64_t)(within / rows) * S::TILE_N;
}

/* Loads a lane's COUNT elements of a row of a slab, its fragment: groups of 4, which are 4 * LANES
 * apart. */
template <unsigned COUNT, unsigned LANES>
static __device__ __forceinline__ void load_fragment(float (&to)[COUNT], const float *from)
{
    if constexpr (COUNT == 1) {
        to[0] = *from;
    } else {
#pragma unroll
        for (unsigned i = 0; i < COUNT; i += 4) {
            const float4 v = *(const float4 *)(from + i * LANES);
            to[i] = v.x;
            to[i + 1] = v.y;
            to[i + 2] = v.z;
            to[i + 3] = v.w;
        }
    }
}

template <class S> struct sums {
    float values[S::ROWS][S::COLUMNS];
};

/* Finishes and stores a warp's sums, a slice of SLICE_ROWS rows at a time, by way of the warp's own
 * shared memory, so that a warp loads and stores 32 neighbouring elements whatever C's alignment
 * is. The four columns of a quad are written to shared memory in reverse. The compiler therefore
 * keeps the sums of a quad in registers in reverse, and no sum is in the register bank of the
 * element of B that is multiplied for it. */
template <class S, typename Out>
static __device__ __forceinline__ void store_as(const sums<S> &sums, float *slices,
                                                const struct gemm_problem &p, uint64_t index,
                                                uint64_t first_row, uint64_t first_column)
{
    const epilogue<Out> finish(p.alpha, p.beta, p.act, p.bias,
                               p.beta != 0 ? (const Out *)p.c0 + index * p.stride_c0 : nullptr,
                               (Out *)p.c + index * p.stride_c, p.ldc0, p.ldc);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float *slice = slices + warp * S::SLICE_ROWS * S::SLICE_PITCH;
    const unsigned place = S::COLUMNS < 4 ? lane : lane ^ 3; // of the lane's column in the slice
    float *mine = slice + lane / S::LANES_N * 4 * S::SLICE_PITCH +
                  lane % S::LANES_N * (S::COLUMNS < 4 ? 1 : 4);
    first_row += warp / S::WARPS_N * S::WARP_M;
    first_column += warp % S::WARPS_N * S::WARP_N + lane;
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i += 4) {
#pragma unroll
        for (unsigned row = 0; row < 4; row++) {
            if constexpr (S::COLUMNS < 4) {
                mine[row * S::SLICE_PITCH] = sums.values[i + row][0];
            } else {
#pragma unroll
                for (unsigned j = 0; j < S::COLUMNS; j += 4) {
                    const float(&v)[S::COLUMNS] = sums.values[i + row];
                    *(float4 *)(mine + row * S::SLICE_PITCH + j * S::LANES_N) =
                        make_float4(v[j + 3], v[j + 2], v[j + 1], v[j]);
                }
            }
        }
        __syncwarp();
        const uint64_t row = first_row + i * S::LANES_M;
#pragma unroll 1
        for (unsigned c = 0; c < S::WARP_N; c += 32)
            if (first_column + c < p.n)
                finish_column<S::SLICE_ROWS, S::SLICE_PITCH>(finish, slice + place + c, row, p.m,
                                                             first_column + c);
        __syncwarp();
    }
}

template <class S>
static __device__ __forceinline__ void store(const sums<S> &sums, float *slices,
                                             const struct gemm_problem &p, uint64_t index,
                                             uint64_t first_row, uint64_t first_column)
{
    if (p.out == GEMMD_F32)
        store_as<S, float>(sums, slices, p, index, first_row, first_column);
    else if (p.out == GEMMD_F16)
        store_as<S, __half>(sums, slices, p, index, first_row, first_column);
    else
        store_as<S, __nv_bfloat16>(sums, slices, p, index, first_row, first_column);
}

} // namespace register_tiled

#endif
