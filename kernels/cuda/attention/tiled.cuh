/*
 * tiled.cuh - attention with a tile of Q on chip, past which tiles of K and V are streamed. The
 * running maximum and sum of each row make the softmax exact (T. Dao et al., "FlashAttention: Fast
 * and Memory-Efficient Exact Attention with IO-Awareness", 2022). Plain CUDA, all arithmetic in
 * f32.
 *
 * Both products are register tiles, as in register_tiled (kernels/cuda/simt). A warp owns rows of
 * Q, 4 or 8 for each lane, so that the maximum, the sum and the weights of a row stay within the
 * warp. A quad is four neighbouring elements of f32, 16 bytes.
 *   - The 32 lanes are 4 x 8. A lane has 4 of the tile's 32 keys, and 4 neighbouring columns of O
 *     out of every 32, in registers from the first key to the last.
 *   - Q and K lie in shared memory as [d][row] and [d][key]; they are transposed as they are
 *     copied. The quads of a line are permuted (swizzled) by an exclusive or with the number of the
 *     quad of d, so that neither the transposition nor the reads of 128 bits have bank conflicts.
 *     The weights are swizzled too.
 *   - Two or more blocks on a multiprocessor hide each other's copies.
 *
 * The rows of a tile are, query by query, those of all heads that share a head of K and V, so that
 * neighbouring rows see nearly the same keys, which are read once for all of them. Tiles of keys
 * start at multiples of KEYS. A tile of keys that no row of the tile sees is not read, and one that
 * no row of a warp sees is not multiplied by that warp. The result of a row is one chain over its
 * own keys, whatever the other rows are.
 *
 * Problems with a mask, slopes, sinks, a window to the right or ragged entries have kernels of
 * their own (GENERAL), with the shapes of few rows. What is added to a score is computed where a
 * lane has the score, from an element of the mask in global memory. The weight of a hidden key is
 * marked as such (hidden_weight), so that values which are not finite are not multiplied with that
 * weight. A row starts with its sink as the largest score, whose weight is the total. An entry of a
 * ragged problem has a tile more than its rows fill at most, so that the number of its first tile
 * follows from where its rows begin; the last tile may be without rows.
 *
 * Columns of V and O beyond dv are not copied. The values in their places are multiplied but never
 * stored.
 */
#ifndef KERNELS_CUDA_ATTENTION_TILED_CUH
#define KERNELS_CUDA_ATTENTION_TILED_CUH

#include "kernels/cuda/attention/group.cuh"
#include "kernels/cuda/attention/tiled.h"
#include "kernels/cuda/attention/tiled_load.cuh"
#include "kernels/cuda/launch.cuh"

namespace attention_tiled
{

using namespace attention;

constexpr unsigned KEYS = ATTENTION_TILED_KEYS, LANES_M = 4, LANES_N = 8;
static_assert(KEYS == 4 * LANES_N, "a lane has one quad of keys");

/* The shape of a block: WARPS warps, each of which has 4 x ROWS rows of Q (4 lanes with ROWS rows
 * each), and COLUMNS columns of O for a lane. */
template <unsigned WARPS_, unsigned ROWS_, unsigned COLUMNS_, unsigned BLOCKS_,
          bool WEIGHTS_OVER_KEYS_ = false>
struct shape {
    static constexpr unsigned WARPS = WARPS_, ROWS = ROWS_, COLUMNS = COLUMNS_;
    static constexpr unsigned BLOCKS = BLOCKS_; // that fit in a multiprocessor
    /* BLOCKS of the kernel for a group of problems. There the address of the problem takes
     * registers: its sizes stay in constant memory, because the tiles leave no shared memory for
     * them. */
    static constexpr unsigned GROUP_BLOCKS = ROWS_ == 8 ? 2 : BLOCKS_;
    static constexpr unsigned THREADS = 32 * WARPS, WARP_ROWS = LANES_M * ROWS;
    static constexpr unsigned TILE = WARPS * WARP_ROWS, WIDTH = LANES_N * COLUMNS;
    /* In quads: the weights of a warp, and a row of V. */
    static constexpr unsigned WEIGHTS = KEYS * WARP_ROWS / 4, LINE = WIDTH / 4;
    /* Whether the weights overwrite the keys, which saves shared memory and takes a barrier more.
     */
    static constexpr bool WEIGHTS_OVER_KEYS = WEIGHTS_OVER_KEYS_;
    static_assert(TILE / 4 % 8 == 0, "quads of rows are swapped about within 8");
    static_assert(ROWS % 4 == 0 && COLUMNS % 4 == 0, "reads of 128 bits");
};

/* Where everything is in a block's shared memory: quads of floats, then the keys that each row
 * sees. `steps` is the number of quads of d. */
template <class S> struct memory {
    float4 *q;       // [d][TILE / 4], swizzled
    float4 *k;       // [d][KEYS / 4], swizzled
    float4 *v;       // [KEYS][LINE]
    float4 *weights; // [WARPS][KEYS][WARP_ROWS / 4], swizzled
    uint2 *spans;    // [TILE]: the first key that a row sees, and the end

    __device__ __forceinline__ memory(float4 *shared, unsigned steps)
    {
        constexpr unsigned ALL = S::WARPS * S::WEIGHTS;
        const unsigned keys = steps * KEYS;
        q = shared;
        k = q + steps * S::TILE;
        weights = S::WEIGHTS_OVER_KEYS ? k : k + keys;
        v = S::WEIGHTS_OVER_KEYS ? k + (keys > ALL ? keys : ALL) : weights + ALL;
        spans = (uint2 *)(v + KEYS * S::LINE);
    }
};

struct arguments {
    struct attention_problem problem;
    uint64_t tiles;                      // of Q, for each head of K and V
    bool wide_q, wide_k, wide_v, wide_o; // rows are whole groups of 4 elements, aligned as such
};

/* The number of the first tile of entry `entry` of a ragged problem, within a head of K and V. */
template <class S>
static __device__ __forceinline__ uint64_t ragged_first_tile(const struct attention_problem &p,
                                                             uint64_t entry)
{
    return p.heads / p.kv_heads * (uint64_t)p.lens_q[entry] / S::TILE + entry;
}

/* The rows that a block computes: a tile of the rows of an entry that share a head of K and V. Of
 * these, row r is query r / group of head r % group, where `group` heads of Q share the head of K
 * and V. `number` is the number of the part (operation_kernel.tiles). */
template <class S, bool GENERAL> struct part {
    uint64_t entry, kv_head;
    uint64_t apart;       // the entry, or 0 if the entries are ragged
    uint64_t query;       // of the tile's first row, counted from the entry's first
    unsigned group, head; // heads in the group; the head of the tile's first row within the group
    unsigned rows;        // in this tile
    struct attention_rows of_entry;

    __device__ __forceinline__ part(const struct arguments &a, uint64_t number)
    {
        const struct attention_problem &p = a.problem;
        const bool ragged = GENERAL && p.ragged;
        const uint64_t pairs = (ragged ? 1 : p.batch) * p.kv_heads;
        /* With a causal mask the tiles that see the most keys come first, else the tiles of a head
         * follow each other. */
        uint64_t tile = p.causal ? a.tiles - 1 - number / pairs : number % a.tiles;
        const uint64_t pair = p.causal ? number % pairs : number / a.tiles;
        uint64_t queries = p.sq;
        group = (unsigned)(p.heads / p.kv_heads);
        entry = apart = pair / p.kv_heads;
        kv_head = pair % p.kv_heads;
        if (ragged) {
            entry =
                ragged_entry(p.batch, tile, [&](uint64_t e) { return ragged_first_tile<S>(p, e); });
            tile -= ragged_first_tile<S>(p, entry);
        }
        of_entry = rows_of<GENERAL>(p, entry);
        if (ragged)
            queries = of_entry.sq;
        const uint64_t first = tile * S::TILE, all = group * queries;
        query = first / group;
        head = (unsigned)(first % group);
        const uint64_t left = GENERAL && all < first ? 0 : all - first;
        rows = left < S::TILE ? (unsigned)left : S::TILE;
    }

    __device__ __forceinline__ uint64_t query_of(unsigned row) const
    {
        return query + (head + row) / group;
    }

    __device__ __forceinline__ uint64_t head_of(unsigned row) const
    {
        return kv_head * group + (head + row) % group;
    }
};

/* ---- what a thread computes ---- */

static __device__ __forceinline__ void unpack(const float4 &quad, float *to)
{
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

/* The keys that the rows of a warp see: some row sees the keys from `first` to end - 1, and every
 * row that sees any key sees those from all_first to all_end - 1. */
struct sight {
    unsigned first, end, all_first, all_end;

    /* The keys that `count` rows see. */
    __device__ __forceinline__ sight(const uint2 *spans, unsigned count)
    {
        first = all_end = UINT32_MAX;
        end = all_first = 0;
        for (unsigned i = threadIdx.x % 32; i < count; i += 32) {
            const uint2 span = spans[i];
            if (span.x == span.y)
                continue;
            first = min(first, span.x);
            end = max(end, span.y);
            all_first = max(all_first, span.x);
            all_end = min(all_end, span.y);
        }
        first = __reduce_min_sync(UINT32_MAX, first);
        end = __reduce_max_sync(UINT32_MAX, end);
        all_first = __reduce_max_sync(UINT32_MAX, all_first);
        all_end = __reduce_min_sync(UINT32_MAX, all_end);
    }
};

/* The state of a thread's rows after the keys so far. */
template <class S> struct rows {
    float sums[S::ROWS][S::COLUMNS];
    /* Of each row: the largest score so far, and the sum of the weights of this lane's keys. */
    float most[S::ROWS], total[S::ROWS];

    __device__ __forceinline__ rows()
    {
#pragma unroll
        for (unsigned i = 0; i < S::ROWS; i++) {
            most[i] = -CUDART_INF_F;
            total[i] = 0;
#pragma unroll
            for (unsigned c = 0; c < S::COLUMNS; c++)
                sums[i][c] = 0;
        }
    }

    /* Begins row i with a sink, whose weight counts for one of the lanes. */
    __device__ __forceinline__ void begin_with(unsigned i, float sink)
    {
        most[i] = sink;
        total[i] = threadIdx.x % LANES_N == 0 ? expf(sink - base_of(sink)) : 0;
    }
};

/* A thread's row i is row (lane / 8 + i / 4 * 4) * 4 + i % 4 of its warp's. */
static __device__ __forceinline__ unsigned row_of_warp(unsigned i)
{
    return (threadIdx.x % 32 / LANES_N + i / 4 * LANES_M) * 4 + i % 4;
}

/* scores = Q * K^T, in the order of d. */
template <class S>
static __device__ __forceinline__ void multiply_keys(float (&scores)[S::ROWS][4],
                                                     const struct memory<S> &memory, unsigned steps)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned q_quad = warp * S::ROWS + lane / LANES_N, k_quad = lane % LANES_N;
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            scores[i][j] = 0;
    const float4 *q = memory.q, *k = memory.k;
#pragma unroll 1
    for (unsigned step = 0; step < steps; step++, q += S::TILE, k += KEYS) {
        const unsigned turn = step % 8;
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            float x[S::ROWS], y[4];
#pragma unroll
            for (unsigned g = 0; g < S::ROWS / 4; g++)
                unpack(q[e * (S::TILE / 4) + ((q_quad + g * LANES_M) ^ turn)], x + 4 * g);
            unpack(k[e * (KEYS / 4) + (k_quad ^ turn)], y);
#pragma unroll
            for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
                for (unsigned j = 0; j < 4; j++)
                    scores[i][j] = fmaf(x[i], y[j], scores[i][j]);
        }
    }
}

/* Sets masked scores to minus infinity. */
template <class S>
static __device__ __forceinline__ void mask(float (&scores)[S::ROWS][4], const uint2 *spans,
                                            unsigned key)
{
    const unsigned first = key + threadIdx.x % LANES_N * 4;
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++) {
        const uint2 span = spans[row_of_warp(i)];
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            if (first + j < span.x || first + j >= span.y)
                scores[i][j] = -CUDART_INF_F;
    }
}

/* Adds what the mask and the slopes add to the scores of one tile of keys, and hides keys. Returns
 * the hidden keys: bit 4 * i + j is key j of row i. Sets bit i of `sees` if row i sees a key. Keys
 * outside the rows' spans count as neither. */
template <class S, typename T>
static __device__ __forceinline__ uint32_t add_bias(const struct attention_problem &p,
                                                    const struct part<S, true> &part,
                                                    float (&scores)[S::ROWS][4], const uint2 *spans,
                                                    unsigned key, uint32_t &sees)
{
    static_assert(S::ROWS * 4 <= 32, "a bit for each score");
    const unsigned warp = threadIdx.x / 32, first = key + threadIdx.x % LANES_N * 4;
    uint32_t hidden = 0;
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++) {
        const uint2 span = spans[row_of_warp(i)];
        const unsigned row = warp * S::WARP_ROWS + row_of_warp(i);
        if (span.x == span.y)
            continue; /* the row may be beyond the last */
        const struct bias_row<T> bias(p, part.of_entry, part.entry, part.head_of(row),
                                      part.query_of(row));
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            if (first + j < span.x || first + j >= span.y)
                continue;
            const float added = bias.at(first + j);
            scores[i][j] = biased_score(scores[i][j], added);
            if (added == -CUDART_INF_F)
                hidden |= 1u << (4 * i + j);
            else
                sees |= 1u << i;
        }
    }
    return hidden;
}

/* Marks the weights of hidden keys. */
template <class S>
static __device__ __forceinline__ void mark_hidden(float (&weights)[S::ROWS][4], uint32_t hidden)
{
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            if (hidden >> (4 * i + j) & 1)
                weights[i][j] = hidden_weight();
}

/* The step of the online softmax: turns the scores of one tile of keys into weights, relative to
 * the new maximum, and multiplies the sums so far by the factor from the old maximum to the new
 * one. */
template <class S>
static __device__ __forceinline__ void weigh(float (&scores)[S::ROWS][4], struct rows<S> &rows)
{
    float factors[S::ROWS];
    bool moved = false;
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++) {
        float most = rows.most[i];
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            most = fmaxf(most, scores[i][j]);
#pragma unroll
        for (unsigned lanes = LANES_N / 2; lanes > 0; lanes /= 2)
            most = fmaxf(most, __shfl_xor_sync(UINT32_MAX, most, lanes));
        const float base = base_of(most);
        factors[i] = expf(rows.most[i] - base);
        moved |= factors[i] != 1;
        rows.most[i] = most;
        float total = 0;
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            scores[i][j] = expf(scores[i][j] - base);
            total += scores[i][j];
        }
        rows.total[i] = fmaf(rows.total[i], factors[i], total);
    }
    if (!__any_sync(UINT32_MAX, moved)) /* most often, after the first tiles */
        return;
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
        for (unsigned c = 0; c < S::COLUMNS; c++)
            rows.sums[i][c] *= factors[i];
}

/* The place, among its warp's weights, of this thread's weights of `key` for rows 4 * g to 4 * g
 * + 3.
 */
template <class S> static __device__ __forceinline__ unsigned weights_at(unsigned key, unsigned g)
{
    return (key * (S::WARP_ROWS / 4) + threadIdx.x % 32 / LANES_N + g * LANES_M) ^ key / 4 % 8;
}

template <class S>
static __device__ __forceinline__ void put_weights(const float (&scores)[S::ROWS][4],
                                                   float4 *weights)
{
    const unsigned first = threadIdx.x % LANES_N * 4;
#pragma unroll
    for (unsigned j = 0; j < 4; j++)
#pragma unroll
        for (unsigned g = 0; g < S::ROWS / 4; g++)
            weights[weights_at<S>(first + j, g)] = make_float4(
                scores[4 * g][j], scores[4 * g + 1][j], scores[4 * g + 2][j], scores[4 * g + 3][j]);
}

/* sums += weights * V, in the order of the keys. `key` is the first key of the tile. A key that a
 * row does not see has the weight 0. That changes nothing if V is finite, but 0 times an infinity
 * is NaN: with SEEN, keys that a row does not see are left out, and with GENERAL those that are
 * hidden. */
template <class S, bool SEEN, bool GENERAL>
static __device__ __forceinline__ void add_values(struct rows<S> &rows, const float4 *weights,
                                                  const float4 *v, const uint2 *spans, unsigned key)
{
    v += threadIdx.x % LANES_N;
#pragma unroll 1
    for (unsigned four = 0; four < KEYS; four += 4) {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            float x[S::ROWS], y[S::COLUMNS];
#pragma unroll
            for (unsigned g = 0; g < S::ROWS / 4; g++)
                unpack(weights[weights_at<S>(four + e, g)], x + 4 * g);
#pragma unroll
            for (unsigned c = 0; c < S::COLUMNS / 4; c++)
                unpack(v[(four + e) * S::LINE + c * LANES_N], y + 4 * c);
#pragma unroll
            for (unsigned i = 0; i < S::ROWS; i++) {
                if (SEEN) {
                    const uint2 span = spans[row_of_warp(i)];
                    if (key + four + e < span.x || key + four + e >= span.y)
                        continue;
                }
                if (SEEN && GENERAL && is_hidden(x[i]))
                    continue;
#pragma unroll
                for (unsigned c = 0; c < S::COLUMNS; c++)
                    rows.sums[i][c] = fmaf(x[i], y[c], rows.sums[i][c]);
            }
        }
    }
}

/* `seen`, which is read only if GENERAL: bit i is set if this lane has seen a key of row i. */
template <class S, typename T, bool GENERAL>
static __device__ __forceinline__ void
store(const struct arguments &a, const struct part<S, GENERAL> &part, const struct rows<S> &rows,
      const uint2 *spans, uint32_t seen)
{
    const struct attention_problem &p = a.problem;
    const unsigned warp = threadIdx.x / 32, lane_n = threadIdx.x % LANES_N;
    if (GENERAL) {
#pragma unroll
        for (unsigned lanes = LANES_N / 2; lanes > 0; lanes /= 2)
            seen |= __shfl_xor_sync(UINT32_MAX, seen, lanes);
    }
#pragma unroll
    for (unsigned i = 0; i < S::ROWS; i++) {
        const unsigned in_warp = row_of_warp(i), row = warp * S::WARP_ROWS + in_warp;
        const uint2 span = spans[in_warp];
        const bool sees = GENERAL ? (seen >> i & 1) != 0 : span.x != span.y;
        float total = rows.total[i];
#pragma unroll
        for (unsigned lanes = LANES_N / 2; lanes > 0; lanes /= 2)
            total += __shfl_xor_sync(UINT32_MAX, total, lanes);
        if (row >= part.rows)
            continue;
        /* All weights are 0 only if all scores are minus infinity. 0 / 0 then gives NaN. */
        const uint64_t query = part.query_of(row), head = part.head_of(row);
        const uint64_t line = part.of_entry.first_q + query;
        T *to = row_of((T *)p.o, p.o_strides, part.apart, head, line);
#pragma unroll
        for (unsigned c = 0; c < S::COLUMNS; c += 4) {
            const unsigned column = c * LANES_N + lane_n * 4;
            quad<T> quad;
#pragma unroll
            for (unsigned e = 0; e < 4; e++)
                narrow(sees ? rows.sums[i][c + e] / total : 0.0f, &quad.at[e]);
            if (a.wide_o) {
                if (column < p.dv)
                    *(attention_tiled::quad<T> *)(to + column) = quad;
            } else {
#pragma unroll
                for (unsigned e = 0; e < 4; e++)
                    if (column + e < p.dv)
                        to[column + e] = quad.at[e];
            }
        }
        if (lane_n == 0 && p.lse != nullptr) {
            float none = -CUDART_INF_F; /* lse of a row that sees no key */
            if (GENERAL && p.sinks != nullptr && query < part.of_entry.sq)
                none = p.sinks[head];
            p.lse[(part.apart * p.heads + head) * p.sq + line] = !sees ? none
                                                                 : total == 0
                                                                     ? CUDART_NAN_F
                                                                     : rows.most[i] + logf(total);
        }
    }
}

/* ---- a block's work ---- */

/* Loads the rows of the tile and the keys that they see. A row that sees no key is zeros. */
template <class S, typename T, bool GENERAL>
static __device__ __forceinline__ void load_queries(const struct arguments &a,
                                                    const struct part<S, GENERAL> &part,
                                                    const struct memory<S> &memory)
{
    const struct attention_problem &p = a.problem;
    for (unsigned row = threadIdx.x; row < S::TILE; row += S::THREADS) {
        struct attention_span span = {0, 0};
        if (row < part.rows)
            span = span_of<GENERAL>(p, part.of_entry, part.query_of(row));
        memory.spans[row] = make_uint2((unsigned)span.first, (unsigned)span.end);
    }
    __syncthreads();
    load<T, S::WARPS, S::TILE>(
        a.wide_q, (unsigned)p.d,
        [&](unsigned row) -> const T * {
            if (memory.spans[row].x == memory.spans[row].y)
                return nullptr;
            return row_of((const T *)p.q, p.q_strides, part.apart, part.head_of(row),
                          part.of_entry.first_q + part.query_of(row));
        },
        [&](unsigned row, unsigned number, const float4 &quad) {
            put_turned<S::TILE>(memory.q, row, number, quad);
        });
}

/* Loads a tile of keys and values from `key` on, with zeros from `end` on. Returns whether all
 * values that this thread has loaded are finite. */
template <class S, typename T>
static __device__ __forceinline__ bool load_keys(const struct arguments &a, const T *k, const T *v,
                                                 unsigned key, unsigned end,
                                                 const struct memory<S> &memory)
{
    const struct attention_problem &p = a.problem;
    float zero = 0; /* NaN once a value is not finite */
    load<T, S::WARPS, KEYS>(
        a.wide_k, (unsigned)p.d,
        [&](unsigned j) -> const T * {
            return key + j < end ? k + (uint64_t)(key + j) * p.k_strides.row : nullptr;
        },
        [&](unsigned j, unsigned number, const float4 &quad) {
            put_turned<KEYS>(memory.k, j, number, quad);
        });
    load<T, S::WARPS, KEYS>(
        a.wide_v, (unsigned)p.dv,
        [&](unsigned j) -> const T * {
            return key + j < end ? v + (uint64_t)(key + j) * p.v_strides.row : nullptr;
        },
        [&](unsigned j, unsigned number, const float4 &quad) {
            zero = fmaf(quad.x, 0.0f, fmaf(quad.y, 0.0f, fmaf(quad.z, 0.0f, quad.w * 0.0f + zero)));
            memory.v[j * S::LINE + number] = quad;
        });
    return zero == 0;
}

/* Computes one part. `steps` is the number of quads of d. */
template <class S, typename T, bool GENERAL>
static __device__ __forceinline__ void compute(const struct arguments &a,
                                               const struct part<S, GENERAL> &part,
                                               const struct memory<S> &memory, unsigned steps)
{
    const struct attention_problem &p = a.problem;
    if (GENERAL && part.rows == 0)
        return;
    load_queries<S, T, GENERAL>(a, part, memory);

    const unsigned warp = threadIdx.x / 32;
    const uint2 *spans = memory.spans + warp * S::WARP_ROWS;
    const struct sight block(memory.spans, S::TILE), mine(spans, S::WARP_ROWS);
    float4 *weights = memory.weights + warp * S::WEIGHTS;
    const uint64_t first_kv = part.of_entry.first_kv;
    const T *k = row_of((const T *)p.k, p.k_strides, part.apart, part.kv_head, first_kv);
    const T *v = row_of((const T *)p.v, p.v_strides, part.apart, part.kv_head, first_kv);
    struct rows<S> rows;
    uint32_t sees = 0;
    if (GENERAL && p.sinks != nullptr) {
#pragma unroll
        for (unsigned i = 0; i < S::ROWS; i++)
            rows.begin_with(i, p.sinks[part.head_of(warp * S::WARP_ROWS + row_of_warp(i))]);
    }
#pragma unroll 1
    for (unsigned key = block.first / KEYS * KEYS; key < block.end; key += KEYS) {
        __syncthreads(); /* the tile before has been read */
        const bool finite = load_keys<S, T>(a, k, v, key, block.end, memory);
        const bool strange = __syncthreads_or(!finite); /* some value is infinite or NaN */
        const bool seen = key < mine.end && key + KEYS > mine.first;
        const bool all = key >= mine.all_first && key + KEYS <= mine.all_end;
        float scores[S::ROWS][4];
        uint32_t hidden = 0;
        if (seen) {
            multiply_keys<S>(scores, memory, steps);
#pragma unroll
            for (unsigned i = 0; i < S::ROWS; i++)
#pragma unroll
                for (unsigned j = 0; j < 4; j++)
                    scores[i][j] = score_of(scores[i][j], p.scale, p.softcap);
            if constexpr (GENERAL)
                hidden = add_bias<S, T>(p, part, scores, spans, key, sees);
            if (!all)
                mask<S>(scores, spans, key);
            weigh<S>(scores, rows);
            if (GENERAL)
                mark_hidden<S>(scores, hidden);
        }
        if (S::WEIGHTS_OVER_KEYS)
            __syncthreads(); /* the keys have been read */
        if (!seen)
            continue;
        put_weights<S>(scores, weights);
        __syncwarp();
        if ((all && !GENERAL) || !strange)
            add_values<S, false, GENERAL>(rows, weights, memory.v, spans, key);
        else
            add_values<S, true, GENERAL>(rows, weights, memory.v, spans, key);
    }
    store<S, T, GENERAL>(a, part, rows, spans, sees);
}

template <class S, typename T, bool GENERAL>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_tiled_kernel(const __grid_constant__ struct arguments a, struct operation_range range)
{
    extern __shared__ __align__(16) float4 shared[];
    const unsigned steps = ((unsigned)a.problem.d + 3) / 4;
    const struct memory<S> memory(shared, steps);
    const uint64_t end = range.first + range.count;
#pragma unroll 1
    for (uint64_t number = range.first + blockIdx.x; number < end; number += gridDim.x) {
        compute<S, T, GENERAL>(a, part<S, GENERAL>(a, number), memory, steps);
        __syncthreads(); /* the spans have been read */
    }
}

/* Grid: the parts of all problems, whose head sizes are the same. */
template <class S, typename T>
__global__ void __launch_bounds__(S::THREADS, S::GROUP_BLOCKS)
    attention_tiled_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    extern __shared__ __align__(16) float4 shared[];
    const unsigned steps = ((unsigned)group.problems[0].problem.d + 3) / 4;
    const uint32_t i = group.find(blockIdx.x);
    const struct arguments &a = group.problems[i];
    compute<S, T, false>(a, part<S, false>(a, blockIdx.x - group.first[i]),
                         memory<S>(shared, steps), steps);
}

} // namespace attention_tiled

#endif
