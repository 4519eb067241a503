/*
 * decode.cuh - attention of few queries to many keys, which is bound by reading K and V once.
 *
 * The queries of all heads that share a head of K and V are the rows of one tile of 8, 16 or 32.
 * Both products are computed transposed, K Q^T and V^T P^T. The 16 rows of the tensor core's left
 * operand are then keys and columns of V, of which there are many, and the 8 columns of the right
 * operand are queries.
 *
 * The keys of an entry are divided into KV splits. The size of a KV split depends on the numbers of
 * keys, heads and queries of the entry. A block computes one KV split. Each warp of the block takes
 * every WARPS-th group of 16 keys, with a ring of copies of its own, so that no warp waits for
 * another one in the loop. The maximum, the total and the sums of the warps are combined in the
 * order of the warps and written to the workspace. A second kernel combines the KV splits of each
 * row, in a fixed order. The bits of a row depend on its own entry only: KV splits do not depend on
 * the load or the batch, and the tile of a row does not change its bits.
 *
 * After T. Dao et al., "Flash-Decoding for long-context inference" (2023), with splits of a fixed
 * size instead of a fixed number.
 *
 * This file has what both kernels need: the arguments and the configurations. decode_kv_split.cuh
 * has the first kernel's code, decode_join.cuh the second's, and decode.cu launches them.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_CUH
#define KERNELS_CUDA_ATTENTION_DECODE_CUH

#include "kernels/cuda/attention/decode.h"
#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/launch.cuh"

namespace attention_decode
{

using namespace flash;

constexpr int KEYS = 16;         /* that a warp multiplies in one step */
constexpr uint32_t ROWS_MIN = 8; /* of the smallest tile */
/* The second kernel: warps of a block, and KV splits that a warp loads before it uses the first. */
constexpr uint32_t JOIN_WARPS = 4, JOIN_DEPTH = 4;
constexpr int JOIN_THREADS = 32 * JOIN_WARPS;

static __device__ __forceinline__ float4 times(const float4 &v, float factor)
{
    return make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
}

static __device__ __forceinline__ void add_times(float4 &sum, const float4 &v, float factor)
{
    sum = make_float4(__fmaf_rn(v.x, factor, sum.x), __fmaf_rn(v.y, factor, sum.y),
                      __fmaf_rn(v.z, factor, sum.z), __fmaf_rn(v.w, factor, sum.w));
}

/* The parameters of a launch, for one problem. */
struct arguments {
    attention_arguments a;
    /* The most KV splits of an entry; the queries of all heads that share a head of K and V. */
    uint32_t kv_splits, rows;
    uint32_t kv_heads; /* attention_decode_kv_heads */
    uint32_t columns;  /* of a row of sums, a multiple of 4 */
    /* Whether rows of K and of V start at multiples of 16 bytes, and rows of Q at multiples of 4.
     */
    bool k_pieces, v_pieces, q_pairs;
    bool whole_rows; /* k_pieces, v_pieces, and d and dv are equal */
    float *sums;     /* [entry, head of K and V, KV split, row, columns] */
    float2 *states;  /* [entry, head of K and V, KV split, row]: maximum, total */
};

/* A configuration of the first kernel. WIDTH: the largest d and dv. QUERIES: the rows of a tile.
 * BLOCKS: the blocks that fit on a multiprocessor; the more blocks, the fewer stages each of them
 * has. The bits of a result do not depend on QUERIES and BLOCKS. */
template <typename Element_, int WIDTH_, int QUERIES_,
          int BLOCKS_ = WIDTH_ *QUERIES_<2048 ? 3 : 2> struct config {
    using Element = Element_;
    static constexpr int WIDTH = WIDTH_, QUERIES = QUERIES_;
    static constexpr uint32_t TILE_BYTES = KEYS * WIDTH * 2, STAGE_BYTES = 2 * TILE_BYTES;
    static constexpr int WARPS = WIDTH == 256 ? 2 : 4;
    static constexpr int BLOCKS = BLOCKS_;
    static constexpr int STAGES = (WIDTH == 64 ? 4 : 2) + (BLOCKS == 2 && WIDTH != 64);
    static constexpr int THREADS = 32 * WARPS;
    static constexpr uint32_t WARP_BYTES = STAGES * STAGE_BYTES;
    static constexpr uint32_t SHARED_BYTES = WARPS * WARP_BYTES;
    static constexpr int PITCH = WIDTH + 4; /* of sums: rows are in different banks */
    static_assert(WARP_BYTES >= QUERIES * PITCH * sizeof(float),
                  "sums of a warp fit in its stages");
};

/* The number of keys in a KV split of an entry with these lengths. */
static __device__ __forceinline__ uint32_t kv_split_keys_of(const arguments &p, const lengths &n)
{
    return attention_decode_kv_split_keys(n.skv, p.kv_heads, n.sq * p.a.group, max(p.a.d, p.a.dv));
}

/* The query and head of a row of the tile. */
struct query {
    uint32_t i, head;
};

static __device__ __forceinline__ query query_of(const arguments &p, uint32_t row, uint32_t kv_head)
{
    return {row / p.a.group, kv_head * p.a.group + row % p.a.group};
}

} // namespace attention_decode

#endif
