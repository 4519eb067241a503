/*
 * decode_kv_split.cuh - the first kernel of decode.cuh: a block computes one tile of rows over one
 * KV split, and writes sums and states to the workspace.
 *
 * Registers have the shapes of mma.m16n8k16: keys are the 16 rows of S, queries are its 8 columns,
 * and columns of V are the 16 rows of the sums.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_KV_SPLIT_CUH
#define KERNELS_CUDA_ATTENTION_DECODE_KV_SPLIT_CUH

#include "kernels/cuda/attention/decode.cuh"

namespace attention_decode
{

/* Two neighbouring elements of a row of Q, zeros beyond the end of the row. */
static __device__ __forceinline__ uint32_t pair_of(const arguments &p, const uint16_t *row,
                                                   uint32_t column)
{
    if (p.q_pairs && column + 1 < p.a.d)
        return *reinterpret_cast<const uint32_t *>(row + column);
    const uint32_t low = column < p.a.d ? row[column] : 0;
    return low | (column + 1 < p.a.d ? (uint32_t)row[column + 1] << 16 : 0);
}

/* Q, transposed, as the right operand of the tensor core: in registers (HELD), or in shared memory
 * where the sums need the registers. */
template <class C> struct queries {
    static constexpr bool HELD = C::QUERIES * C::WIDTH < 4096;
    uint32_t held[HELD ? C::QUERIES / 8 : 1][HELD ? C::WIDTH / 16 : 1][2];
    uint32_t tile;

    /* Loads two operands of the rows from 8 * t on: columns from 16 * k on, and the next 16. */
    __device__ __forceinline__ void get(int t, int k, uint32_t (&to)[4]) const
    {
        if constexpr (HELD) {
            to[0] = held[t][k][0], to[1] = held[t][k][1];
            to[2] = held[t][k + 1][0], to[3] = held[t][k + 1][1];
        } else {
            const uint32_t lane = threadIdx.x % 32;
            ptx_sm80::load_matrices(
                to, tile + place<C::WIDTH>(8 * (uint32_t)t + lane % 8, 2 * (uint32_t)k + lane / 8));
        }
    }
};

/* Loads the rows from `first` to end - 1 of a tile, with zeros for the rest. Called by all threads
 * of a block. */
template <class C>
static __device__ __forceinline__ void load_queries(const arguments &p, uint32_t entry,
                                                    uint32_t kv_head, uint32_t first, uint32_t end,
                                                    queries<C> &q)
{
    if constexpr (queries<C>::HELD) {
        const uint32_t column = threadIdx.x % 4 * 2;
#pragma unroll
        for (int t = 0; t < C::QUERIES / 8; t++) {
            const uint32_t row = first + 8 * t + threadIdx.x % 32 / 4;
            const query at = query_of(p, row < end ? row : first, kv_head);
            const uint16_t *from = row_at<uint16_t>(p.a.q, p.a.q_steps, entry, at.head, at.i);
#pragma unroll
            for (int k = 0; k < C::WIDTH / 16; k++) {
                q.held[t][k][0] = row < end ? pair_of(p, from, 16 * k + column) : 0;
                q.held[t][k][1] = row < end ? pair_of(p, from, 16 * k + 8 + column) : 0;
            }
        }
    } else {
        __shared__ __align__(128) uint16_t shared[C::QUERIES * C::WIDTH];
        constexpr uint32_t LINE = C::WIDTH / PIECE_ELEMENTS;
        q.tile = ptx_sm80::shared_address(shared);
        for (uint32_t n = threadIdx.x; n < C::QUERIES * LINE; n += C::THREADS) {
            const uint32_t row = first + n / LINE, column = n % LINE * PIECE_ELEMENTS;
            const bool exists = row < end && column < p.a.d;
            const query at = query_of(p, row < end ? row : first, kv_head);
            const uint16_t *from = row_at<uint16_t>(p.a.q, p.a.q_steps, entry, at.head, at.i);
            uint32_t pairs[4];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                pairs[i] = exists ? pair_of(p, from, column + 2 * i) : 0;
            ptx_sm80::store_16(q.tile + place<C::WIDTH>(n / LINE, n % LINE),
                               make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
        }
        __syncthreads();
    }
}

/* The largest value, and below the sum, over the lanes that have the same columns of a fragment. */
static __device__ __forceinline__ float columns_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, 4));
    x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, 8));
    return fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, 16));
}

static __device__ __forceinline__ float columns_sum(float x)
{
    x += __shfl_xor_sync(WHOLE_WARP, x, 4);
    x += __shfl_xor_sync(WHOLE_WARP, x, 8);
    return x + __shfl_xor_sync(WHOLE_WARP, x, 16);
}

/* The fragment of a matrix's transpose. */
static __device__ __forceinline__ uint32_t transposed(uint32_t word)
{
    uint32_t result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
    return result;
}

/* The state of a warp for the rows of a tile. Of every 8 rows a lane has two, 2 * (lane % 4) and
 * the next. */
template <class C> struct partial {
    softmax_row state[C::QUERIES / 8][2];
    float o[C::QUERIES / 8][C::WIDTH / 4]; /* O transposed, by fragments of 16 columns of O */
};

/* How far a score may exceed the base of its row, in powers of 2, before the base is raised. */
constexpr float EXCESS_MAX = 12;

/* Raises the base of a row to its largest score if `raises` is true for a lane of the row. `top` is
 * the lane's largest product of the row. Returns the factor for the sums of earlier keys. Called by
 * all lanes of the warp. */
static __device__ __forceinline__ float raise_base(const arguments &p, float top, bool raises,
                                                   softmax_row &row)
{
    const uint32_t column = 0x11111111u << threadIdx.x % 4; /* the lanes of the row */
    const bool any = (__ballot_sync(WHOLE_WARP, raises) & column) != 0;
    const float most = fmaxf(row.most, columns_max(top) * p.a.exponent_of_score);
    if (!any)
        return 1;
    const float factor = exp2_fast(row.most - base_of(most));
    row.most = most;
    row.total *= factor;
    return factor;
}

/* The step of the softmax for 16 keys and all rows of the tile: turns the scores `s` into weights,
 * and multiplies the sums by the factor from the old base of their row to the new one. The base of
 * a row stays as it is until a score of this row exceeds it by EXCESS_MAX
 * (sm90/attention/scores.cuh says why a base can be kept). Other rows of the tile do not change the
 * bits of a row. */
template <class C>
static __device__ __forceinline__ void weigh(const arguments &p, float (&s)[C::QUERIES / 8][4],
                                             partial<C> &result)
{
    constexpr int TILES = C::QUERIES / 8;
    bool raises[TILES][2], any = false;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float top = fmaxf(s[t][e], s[t][2 + e]) * p.a.exponent_of_score;
            raises[t][e] = top > result.state[t][e].most + EXCESS_MAX;
            any = any || raises[t][e];
        }
    }
    if (__any_sync(WHOLE_WARP, any)) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float factor[2];
#pragma unroll
            for (int e = 0; e < 2; e++)
                factor[e] =
                    raise_base(p, fmaxf(s[t][e], s[t][2 + e]), raises[t][e], result.state[t][e]);
#pragma unroll
            for (int j = 0; j < C::WIDTH / 4; j++)
                result.o[t][j] *= factor[j % 2];
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float base = base_of(result.state[t][e].most);
            s[t][e] = exp2_fast(__fmaf_rn(s[t][e], p.a.exponent_of_score, -base));
            s[t][2 + e] = exp2_fast(__fmaf_rn(s[t][2 + e], p.a.exponent_of_score, -base));
            result.state[t][e].total += s[t][e] + s[t][2 + e];
        }
    }
}

/* One step of a warp: multiplies the 16 keys from `key` on, which are in `stage`, with all rows of
 * the tile. All rows see the keys in `inner`; other keys are masked. */
template <class C>
static __device__ __forceinline__ void step(const arguments &p, uint32_t stage, int32_t key,
                                            const lengths &n, uint32_t first_row, const span &inner,
                                            const queries<C> &q, partial<C> &result)
{
    using Element = typename C::Element;
    constexpr int TILES = C::QUERIES / 8;
    const uint32_t lane = threadIdx.x % 32;
    float s[TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++)
        s[t][0] = s[t][1] = s[t][2] = s[t][3] = 0;
#pragma unroll
    for (int k = 0; k < C::WIDTH / 16; k += 2) {
        uint32_t a[2][4];
        load_left<C::WIDTH>(a[0], stage, 0, 16 * k);
        load_left<C::WIDTH>(a[1], stage, 0, 16 * k + 16);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            uint32_t b[4];
            q.get(t, k, b);
            multiply_add_at<Element>(s[t], 0, a[0], b[0], b[1]);
            multiply_add_at<Element>(s[t], 0, a[1], b[2], b[3]);
        }
    }
    const bool whole = key >= inner.first && key + KEYS <= inner.end;
    uint32_t weights[TILES][2];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        if (p.a.general)
            score_all(p.a, s[t]);
        if (!whole) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t row = first_row + 8 * t + lane % 4 * 2 + e;
                const span keys = span_of(p.a, n, row / p.a.group);
                const int32_t mine = key + (int32_t)lane / 4;
                if (mine < keys.first || mine >= keys.end)
                    s[t][e] = -INFINITE;
                if (mine + 8 < keys.first || mine + 8 >= keys.end)
                    s[t][2 + e] = -INFINITE;
            }
        }
    }
    weigh<C>(p, s, result);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        weights[t][0] = transposed(pack<Element>(s[t][0], s[t][1]));
        weights[t][1] = transposed(pack<Element>(s[t][2], s[t][3]));
    }
#pragma unroll
    for (int c = 0; c < C::WIDTH / 16; c++) {
        uint32_t a[4]; /* V transposed: 16 columns by 16 keys */
        ptx_sm80::load_matrices_transposed(
            a, stage + C::TILE_BYTES +
                   place<C::WIDTH>(lane % 8 + lane / 16 * 8, 2 * c + lane / 8 % 2));
#pragma unroll
        for (int t = 0; t < TILES; t++)
            multiply_add_at<Element>(result.o[t], 4 * c, a, weights[t][0], weights[t][1]);
    }
}

/* Starts to copy KEYS whole rows of WIDTH elements to a tile, as copy_rows does, with as few
 * instructions as possible: a lane copies the same columns of every row that it copies. */
template <int WIDTH>
static __device__ __forceinline__ void copy_whole_rows(uint32_t tile, const uint16_t *rows,
                                                       int64_t step)
{
    constexpr uint32_t LINE = WIDTH / PIECE_ELEMENTS, AT_ONCE = 32 / LINE;
    const uint32_t row = threadIdx.x % 32 / LINE, piece = threadIdx.x % LINE;
    const uint16_t *from = rows + row * step + piece * PIECE_ELEMENTS;
    const uint32_t to = tile + place<WIDTH>(row, piece);
    /* place<WIDTH>(row + i, piece) is `to`, with the low bits of i in the number of the piece, and
     * i lines further. */
#pragma unroll
    for (uint32_t i = 0; i < KEYS; i += AT_ONCE)
        ptx_sm80::copy_16_once((to ^ i % 8 * 16) + i * LINE * 16, from + i * step);
}

/* Combines the results of the block's warps, in the order of the warps, and writes them to the
 * workspace: the rows from first_row to first_row + rows - 1 of KV split `number`, counted through
 * all KV splits. */
template <class C>
static __device__ __forceinline__ void combine_warps(const arguments &p, char *shared,
                                                     uint32_t number, uint32_t first_row,
                                                     uint32_t rows, const partial<C> &mine)
{
    __shared__ float2 states[C::WARPS][C::QUERIES];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads(); /* all steps are done */
    float *sums = reinterpret_cast<float *>(shared + warp * C::WARP_BYTES);
#pragma unroll
    for (int t = 0; t < C::QUERIES / 8; t++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float total = columns_sum(mine.state[t][e].total);
            const uint32_t row = 8 * t + lane % 4 * 2 + e;
            if (lane < 4)
                states[warp][row] = make_float2(mine.state[t][e].most, total);
            if (row < rows) {
#pragma unroll
                for (int j = 0; j < C::WIDTH / 8; j++)
                    sums[row * C::PITCH + 8 * j + lane / 4] = mine.o[t][2 * j + e];
            }
        }
    }
    __syncthreads();
    constexpr uint32_t LINE = C::WIDTH / 4;
    const uint64_t place = (uint64_t)number * p.rows + first_row; /* of this split */
    for (uint32_t piece = threadIdx.x; piece < rows * LINE; piece += C::THREADS) {
        const uint32_t row = piece / LINE, column = piece % LINE * 4;
        float most = -INFINITE, total = 0;
#pragma unroll
        for (int w = 0; w < C::WARPS; w++)
            most = fmaxf(most, states[w][row].x);
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int w = 0; w < C::WARPS; w++) {
            const float factor = exp2_fast(states[w][row].x - base_of(most));
            total += states[w][row].y * factor;
            add_times(sum,
                      *reinterpret_cast<const float4 *>(
                          reinterpret_cast<const float *>(shared + w * C::WARP_BYTES) +
                          row * C::PITCH + column),
                      factor);
        }
        if (column < p.columns)
            *reinterpret_cast<float4 *>(p.sums + (place + row) * p.columns + column) = sum;
        if (column == 0)
            p.states[place + row] = make_float2(most, total);
    }
}

/* Computes one tile of rows over KV split `number`, counted through the KV splits of all heads of K
 * and V. Called by a block. */
template <class C>
static __device__ __forceinline__ void compute_kv_split(const arguments &p, uint32_t number,
                                                        uint32_t tile)
{
    extern __shared__ __align__(128) char shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t kv_heads = p.a.heads / p.a.group;
    const uint32_t unit = number / p.kv_splits, split = number % p.kv_splits;
    const uint32_t entry = unit / kv_heads, kv_head = unit % kv_heads;
    const uint32_t first_row = tile * C::QUERIES;
    later_kernels_allow();
    earlier_kernels_wait();
    const lengths n = lengths_of(p.a, entry);

    /* The rows that exist, the keys of this KV split that any of them sees, and the keys that all
     * of them see. */
    const uint32_t end_row = min(min(first_row + C::QUERIES, p.rows), n.sq * p.a.group);
    if (first_row >= end_row)
        return;
    const span low = span_of(p.a, n, first_row / p.a.group);
    const span high = span_of(p.a, n, (end_row - 1) / p.a.group);
    const uint32_t split_keys = kv_split_keys_of(p, n);
    const int32_t origin = (int32_t)(split * split_keys);
    const int32_t first = max(low.first, origin);
    const int32_t end = min(high.end, origin + (int32_t)split_keys);
    const span inner = {high.first, low.end};
    if (first >= end)
        return;

    const uint32_t ring = ptx_sm80::shared_address(shared) + warp * C::WARP_BYTES;
    const uint16_t *k = row_at<uint16_t>(p.a.k, p.a.k_steps, entry, kv_head, 0);
    const uint16_t *v = row_at<uint16_t>(p.a.v, p.a.v_steps, entry, kv_head, 0);
    const auto copy = [&](int32_t turn) {
        const int32_t key = origin + (turn * C::WARPS + (int32_t)warp) * KEYS;
        if (key < end && key + KEYS > first) {
            const uint32_t stage = ring + (uint32_t)(turn % C::STAGES) * C::STAGE_BYTES;
            const uint16_t *from_k = k + key * p.a.k_steps.row;
            const uint16_t *from_v = v + key * p.a.v_steps.row;
            if (p.whole_rows && p.a.d == C::WIDTH && key >= first && key + KEYS <= end) {
                copy_whole_rows<C::WIDTH>(stage, from_k, p.a.k_steps.row);
                copy_whole_rows<C::WIDTH>(stage + C::TILE_BYTES, from_v, p.a.v_steps.row);
            } else {
                copy_rows<C::WIDTH, KEYS, 32, true>(stage, from_k, p.a.k_steps.row, p.a.d,
                                                    first - key, end - key, p.k_pieces, lane);
                copy_rows<C::WIDTH, KEYS, 32, true>(stage + C::TILE_BYTES, from_v, p.a.v_steps.row,
                                                    p.a.dv, first - key, end - key, p.v_pieces,
                                                    lane);
            }
        }
        ptx_sm80::copies_commit();
    };
    for (int32_t turn = 0; turn < C::STAGES - 1; turn++)
        copy(turn);

    queries<C> q;
    load_queries<C>(p, entry, kv_head, first_row, end_row, q);
    partial<C> result;
#pragma unroll
    for (int t = 0; t < C::QUERIES / 8; t++) {
        result.state[t][0] = result.state[t][1] = {-INFINITE, 0};
#pragma unroll
        for (int j = 0; j < C::WIDTH / 4; j++)
            result.o[t][j] = 0;
    }
    const int32_t steps = (end - origin + C::WARPS * KEYS - 1) / (C::WARPS * KEYS);
#pragma unroll 1
    for (int32_t turn = 0; turn < steps; turn++) {
        copy(turn + C::STAGES - 1);
        ptx_sm80::copies_wait<C::STAGES - 1>();
        __syncwarp();
        const int32_t key = origin + (turn * C::WARPS + (int32_t)warp) * KEYS;
        if (key < end && key + KEYS > first)
            step<C>(p, ring + (uint32_t)(turn % C::STAGES) * C::STAGE_BYTES, key, n, first_row,
                    inner, q, result);
        __syncwarp();
    }
    combine_warps<C>(p, shared, number, first_row, end_row - first_row, result);
}

} // namespace attention_decode

#endif
