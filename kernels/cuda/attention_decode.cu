/*
 * attention_decode - few queries and many keys: what it takes is reading K and V once, at the speed
 * of memory.
 *
 * The queries of all heads that share a head of K and V are the rows of one tile of 8, 16 or 32.
 * Both products are transposed, K Q^T and V^T P^T: the 16 rows that a tensor core's left operand
 * has are keys and columns of V then, of which there are many, and the 8 columns of the right one
 * are queries. The keys are split at multiples of a size that depends on their number only: a block
 * goes over one split, each of its warps over every WARPS-th group of 16 keys with a ring of copies
 * of its own, so that nothing in the loop waits for another warp. Largest score, total and sums of
 * the warps are combined in their order, and go to the workspace. A second kernel combines the
 * splits of each row, in an order of their own too. What a row gets depends on its own keys only:
 * splits don't follow the load or the batch, and the tile that a row is in changes no bits.
 *
 * After T. Dao et al., "Flash-Decoding for long-context inference" (2023), with splits of a fixed
 * size instead of a fixed number.
 */
#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_group.cuh"
#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/launch.cuh"

namespace attention_decode
{

using namespace flash;

constexpr int KEYS = 16;         /* of a step of a warp */
constexpr uint32_t ROWS_MIN = 8; /* of a tile */
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

struct arguments {
    attention_arguments a;
    uint32_t splits, rows; /* rows: queries of all heads that share one of K and V */
    uint32_t columns;      /* of a row of sums, a multiple of 4 */
    bool k_pieces, v_pieces, q_pairs;
    float *sums;    /* [entry, head of K and V, split, row, columns] */
    float2 *states; /* [entry, head of K and V, split, row]: largest, total */
};

/* QUERIES: the rows of a tile. */
template <typename Element_, int WIDTH_, int QUERIES_> struct config {
    using Element = Element_;
    static constexpr int WIDTH = WIDTH_, QUERIES = QUERIES_;
    static constexpr uint32_t TILE_BYTES = KEYS * WIDTH * 2, STAGE_BYTES = 2 * TILE_BYTES;
    static constexpr int WARPS = WIDTH == 256 ? 2 : 4;
    static constexpr int BLOCKS = WIDTH * QUERIES < 2048 ? 3 : 2; /* that fit a multiprocessor */
    static constexpr int STAGES = (WIDTH == 64 ? 4 : 2) + (BLOCKS == 2 && WIDTH != 64);
    static constexpr int THREADS = 32 * WARPS;
    static constexpr uint32_t WARP_BYTES = STAGES * STAGE_BYTES;
    static constexpr uint32_t SHARED_BYTES = WARPS * WARP_BYTES;
    static constexpr int PITCH = WIDTH + 4; /* of sums: rows are in different banks */
    static_assert(WARP_BYTES >= QUERIES * PITCH * sizeof(float),
                  "sums of a warp fit in its stages");
};

/* What a row of the tile is. */
struct query {
    uint32_t i, head;
};

static __device__ __forceinline__ query query_of(const arguments &p, uint32_t row, uint32_t kv_head)
{
    return {row / p.a.group, kv_head * p.a.group + row % p.a.group};
}

/* A pair of neighbours of Q, zero beyond its end. */
static __device__ __forceinline__ uint32_t pair_of(const arguments &p, const uint16_t *row,
                                                   uint32_t column)
{
    if (p.q_pairs && column + 1 < p.a.d)
        return *reinterpret_cast<const uint32_t *>(row + column);
    const uint32_t low = column < p.a.d ? row[column] : 0;
    return low | (column + 1 < p.a.d ? (uint32_t)row[column + 1] << 16 : 0);
}

/* Q, transposed, as right operands: in registers, or in shared memory where the sums take those. */
template <class C> struct queries {
    static constexpr bool HELD = C::QUERIES * C::WIDTH < 4096;
    uint32_t held[HELD ? C::QUERIES / 8 : 1][HELD ? C::WIDTH / 16 : 1][2];
    uint32_t tile;

    /* Of rows 8 * t on: two operands, columns 16 * k on and the next 16. */
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

/* Rows from `end` on are zeros. By a block. */
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
            ptx_sm80::store_16(q.tile + place<C::WIDTH>(n / LINE, n % LINE),
                               gather(from + column, exists ? p.a.d - column : 0));
        }
        __syncthreads();
    }
}

/* Of the lanes that hold the same columns of a fragment. */
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

/* What a warp finds out about the rows of a tile: of every 8, this lane has two, rows
 * 2 * (lane % 4) and the next. */
template <class C> struct partial {
    softmax_row state[C::QUERIES / 8][2];
    float o[C::QUERIES / 8][C::WIDTH / 4]; /* O transposed, by fragments of 16 columns of O */
};

/* Scores of 16 keys from `key` on and 8 rows become weights, and `row`'s sums theirs. */
template <class C>
static __device__ __forceinline__ void weigh(const arguments &p, float (&s)[4],
                                             softmax_row (&row)[2], float (&o)[C::WIDTH / 4])
{
    float factor[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        /* NaN only if all of this lane's are; it is no largest. */
        const float top = columns_max(fmaxf(s[e], s[2 + e]));
        const float most = fmaxf(row[e].most, top * p.a.exponent_of_score);
        const float base = base_of(most);
        factor[e] = exp2_fast(row[e].most - base);
        s[e] = exp2_fast(__fmaf_rn(s[e], p.a.exponent_of_score, -base));
        s[2 + e] = exp2_fast(__fmaf_rn(s[2 + e], p.a.exponent_of_score, -base));
        row[e].most = most;
        row[e].total = row[e].total * factor[e] + (s[e] + s[2 + e]);
    }
    if (__any_sync(WHOLE_WARP, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
        for (int j = 0; j < C::WIDTH / 4; j++)
            o[j] *= factor[j % 2];
    }
}

/* One step: 16 keys, from `key` on. `inner` are the keys that all rows see. */
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
        weigh<C>(p, s[t], result.state[t], result.o[t]);
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

/* The warps' results to the workspace, as one: rows first_row ... first_row + rows - 1. `number` is
 * the split's, counted through all. */
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

/* One split of a head of K and V, `number` counted through all of them, for one tile of rows. By a
 * block. */
template <class C>
static __device__ __forceinline__ void compute_split(const arguments &p, uint32_t number,
                                                     uint32_t tile)
{
    extern __shared__ __align__(128) char shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t kv_heads = p.a.heads / p.a.group;
    const uint32_t unit = number / p.splits, split = number % p.splits;
    const uint32_t entry = unit / kv_heads, kv_head = unit % kv_heads;
    const uint32_t first_row = tile * C::QUERIES;
    later_kernels_allow();
    earlier_kernels_wait();
    const lengths n = lengths_of(p.a, entry);

    /* The rows that exist, the keys of this split that any of them sees, and those that all see. */
    const uint32_t end_row = min(min(first_row + C::QUERIES, p.rows), n.sq * p.a.group);
    if (first_row >= end_row)
        return;
    const span low = span_of(p.a, n, first_row / p.a.group);
    const span high = span_of(p.a, n, (end_row - 1) / p.a.group);
    const uint32_t split_keys = attention_decode_split_keys(n.skv);
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
            copy_rows<C::WIDTH, KEYS, 32, true>(stage, k + key * p.a.k_steps.row, p.a.k_steps.row,
                                                p.a.d, first - key, end - key, p.k_pieces, lane);
            copy_rows<C::WIDTH, KEYS, 32, true>(stage + C::TILE_BYTES, v + key * p.a.v_steps.row,
                                                p.a.v_steps.row, p.a.dv, first - key, end - key,
                                                p.v_pieces, lane);
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

/* Grid: splits of heads of K and V of all entries; tiles of rows. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    split_kernel(const __grid_constant__ arguments p)
{
    compute_split<C>(p, blockIdx.x, blockIdx.y);
}

/* Grid: the same of all problems, those of a tile of rows together. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    split_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    __shared__ arguments p;
    const uint32_t number = group.fetch<C::THREADS>(blockIdx.x, p);
    const uint32_t all = p.a.batch * (p.a.heads / p.a.group) * p.splits;
    compute_split<C>(p, number % all, number / all);
}

/* A warp's share of a row of O: 4 columns a lane, `PARTS` times. */
template <int PARTS> struct shared_row {
    softmax_row state;
    float4 sum[PARTS];
};

/* Takes in every JOIN_WARPS-th split from `split` on, JOIN_DEPTH at a time, all of which are asked
 * for before the first is used. `line` is the place of the row in split 0. */
template <int PARTS>
static __device__ __forceinline__ void
take_splits(const arguments &p, uint64_t line, uint32_t split, uint32_t end, shared_row<PARTS> &row)
{
    const uint32_t lane = threadIdx.x % 32;
    for (; split < end; split += JOIN_WARPS * JOIN_DEPTH) {
        float2 state[JOIN_DEPTH];
        float4 sum[JOIN_DEPTH][PARTS];
#pragma unroll
        for (uint32_t s = 0; s < JOIN_DEPTH; s++) {
            const uint32_t number = split + s * JOIN_WARPS;
            const uint64_t at = line + (uint64_t)number * p.rows;
            state[s] = number < end ? p.states[at] : make_float2(-INFINITE, 0);
#pragma unroll
            for (uint32_t c = 0; c < PARTS; c++) {
                const uint32_t column = 128 * c + 4 * lane;
                sum[s][c] =
                    number < end && column < p.columns
                        ? *reinterpret_cast<const float4 *>(p.sums + at * p.columns + column)
                        : make_float4(0, 0, 0, 0);
            }
        }
        float most = row.state.most;
#pragma unroll
        for (uint32_t s = 0; s < JOIN_DEPTH; s++)
            most = fmaxf(most, state[s].x);
        const float base = base_of(most), again = exp2_fast(row.state.most - base);
        row.state.most = most;
        row.state.total *= again;
#pragma unroll
        for (uint32_t c = 0; c < PARTS; c++)
            row.sum[c] = times(row.sum[c], again);
#pragma unroll
        for (uint32_t s = 0; s < JOIN_DEPTH; s++) {
            const float factor = exp2_fast(state[s].x - base);
            row.state.total = __fmaf_rn(state[s].y, factor, row.state.total);
#pragma unroll
            for (uint32_t c = 0; c < PARTS; c++)
                add_times(row.sum[c], sum[s][c], factor);
        }
    }
}

/* One row of O, `number` counted through all heads of K and V. By a block, whose warps take the
 * splits in turns and are combined in their order. */
template <typename Element, int WIDTH>
static __device__ __forceinline__ void join(const arguments &p, uint32_t number)
{
    constexpr int PARTS = WIDTH > 128 ? 2 : 1;
    __shared__ float2 states[JOIN_WARPS];
    __shared__ float4 sums[JOIN_WARPS][32 * PARTS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t kv_heads = p.a.heads / p.a.group;
    const uint32_t row = number % p.rows, unit = number / p.rows;
    const uint32_t entry = unit / kv_heads;
    const query at = query_of(p, row, unit % kv_heads);
    later_kernels_allow();
    earlier_kernels_wait();
    const lengths n = lengths_of(p.a, entry);
    const span keys = span_of(p.a, n, at.i);
    const bool sees = keys.first < keys.end;
    const uint32_t split_keys = attention_decode_split_keys(n.skv);
    const uint32_t first = (uint32_t)keys.first / split_keys;
    const uint32_t end = sees ? ((uint32_t)keys.end + split_keys - 1) / split_keys : first;
    shared_row<PARTS> mine = {{-INFINITE, 0}, {}};
    take_splits(p, (uint64_t)unit * p.splits * p.rows + row, first + warp, end, mine);
    if (lane == 0)
        states[warp] = make_float2(mine.state.most, mine.state.total);
#pragma unroll
    for (int c = 0; c < PARTS; c++)
        sums[warp][32 * c + lane] = mine.sum[c];
    __syncthreads();

    softmax_row state = {-INFINITE, 0};
    float factors[JOIN_WARPS];
#pragma unroll
    for (uint32_t w = 0; w < JOIN_WARPS; w++)
        state.most = fmaxf(state.most, states[w].x);
#pragma unroll
    for (uint32_t w = 0; w < JOIN_WARPS; w++) {
        factors[w] = exp2_fast(states[w].x - base_of(state.most));
        state.total = __fmaf_rn(states[w].y, factors[w], state.total);
    }
    float lse;
    const float factor = finish_row(state, state.total, sees, lse);
    Element *to = const_cast<Element *>(row_at<Element>(p.a.o, p.a.o_steps, entry, at.head, at.i));
    bool all_finite = true;
#pragma unroll
    for (int c = 0; c < PARTS; c++) {
        const uint32_t column = threadIdx.x + c * JOIN_THREADS;
        float sum = 0;
#pragma unroll
        for (uint32_t w = 0; w < JOIN_WARPS; w++)
            sum = __fmaf_rn(reinterpret_cast<const float *>(sums[w])[column], factors[w], sum);
        const float value = sees ? sum * factor : 0;
        if (column < p.a.dv) {
            narrow(value, to + column);
            all_finite = all_finite && is_finite(value);
        }
    }
    if (p.a.lse != nullptr && threadIdx.x == 0)
        p.a.lse[((uint64_t)entry * p.a.heads + at.head) * p.a.sq + at.i] = lse;
    const bool again =
        __syncthreads_or(!all_finite) && sees && state.total > 0 && is_finite(state.total);
    if (again && threadIdx.x < 32)
        exact_row<Element>(p.a, entry, at.head, at.i, keys);
}

/* A block a row. */
template <typename Element, int WIDTH>
__global__ void __launch_bounds__(JOIN_THREADS) join_kernel(const __grid_constant__ arguments p)
{
    join<Element, WIDTH>(p, blockIdx.x);
}

template <typename Element, int WIDTH>
__global__ void __launch_bounds__(JOIN_THREADS)
    join_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    __shared__ arguments p;
    const uint32_t number = group.fetch<JOIN_THREADS>(blockIdx.x, p);
    join<Element, WIDTH>(p, number);
}

template <class C> static cudaError_t prepare()
{
    const void *const kernels[] = {(const void *)split_kernel<C>,
                                   (const void *)split_group_kernel<C>};
    cudaError_t error = cudaSuccess;
    for (unsigned i = 0; i < 2 && error == cudaSuccess; i++)
        error = cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)C::SHARED_BYTES);
    return error;
}

static arguments arguments_of(const struct attention_problem *problem, void *workspace)
{
    arguments p = {};
    attention_arguments_fill(problem, &p.a);
    p.splits = attention_decode_splits(p.a.skv);
    p.rows = p.a.sq * p.a.group;
    p.columns = (p.a.dv + 3) / 4 * 4;
    p.k_pieces = attention_aligned(&problem->k_strides, 8) && (uintptr_t)p.a.k % 16 == 0;
    p.v_pieces = attention_aligned(&problem->v_strides, 8) && (uintptr_t)p.a.v % 16 == 0;
    p.q_pairs = attention_aligned(&problem->q_strides, 2) && (uintptr_t)p.a.q % 4 == 0;
    p.sums = static_cast<float *>(workspace);
    p.states = reinterpret_cast<float2 *>(p.sums + (uint64_t)p.a.batch * p.a.heads * p.a.sq *
                                                       p.splits * p.columns);
    return p;
}

static uint32_t units_of(const arguments &p)
{
    return p.a.batch * (p.a.heads / p.a.group);
}

template <class C> static uint32_t tiles_of(const arguments &p)
{
    return (p.rows + C::QUERIES - 1) / C::QUERIES;
}

template <class C> static enum gemmd_error run(cudaStream_t stream, const arguments &p)
{
    const unsigned units = units_of(p);
    const enum gemmd_error code =
        launch_overlapped(split_kernel<C>, dim3(units * p.splits, tiles_of<C>(p)), dim3(C::THREADS),
                          C::SHARED_BYTES, stream, p);
    return code != GEMMD_OK
               ? code
               : launch_overlapped(join_kernel<typename C::Element, C::WIDTH>, dim3(units * p.rows),
                                   dim3(JOIN_THREADS), 0, stream, p);
}

/* Blocks of the split's kernel or of the join's, whichever are more. */
static uint64_t parts_of(const struct attention_problem &p)
{
    const uint64_t rows = p.sq * (p.heads / p.kv_heads);
    const uint64_t splits =
        (uint64_t)attention_decode_splits((uint32_t)p.skv) * ((rows + ROWS_MIN - 1) / ROWS_MIN);
    return p.batch * p.kv_heads * (splits > rows ? splits : rows);
}

/* Numbers the parts of a list anew. */
template <class Count>
static void number_parts(attention_group::list<arguments> &group, const Count &count)
{
    group.parts = 0;
    for (uint32_t i = 0; i < group.count; i++) {
        group.first[i] = group.parts;
        group.parts += count(group.problems[i]);
    }
}

template <class C>
static enum gemmd_error run_list(cudaStream_t stream, attention_group::list<arguments> &group)
{
    number_parts(group, [](const arguments &p) { return units_of(p) * p.splits * tiles_of<C>(p); });
    enum gemmd_error code = launch_overlapped(split_group_kernel<C>, dim3(group.parts),
                                              dim3(C::THREADS), C::SHARED_BYTES, stream, group);
    if (code != GEMMD_OK)
        return code;
    number_parts(group, [](const arguments &p) { return units_of(p) * p.rows; });
    return launch_overlapped(join_group_kernel<typename C::Element, C::WIDTH>, dim3(group.parts),
                             dim3(JOIN_THREADS), 0, stream, group);
}

template <class C>
static enum gemmd_error run_group(cudaStream_t stream, const struct attention_member members[],
                                  uint32_t count)
{
    return attention_group::launch_all<arguments>(
        members, count, [](const struct attention_member &m) { return parts_of(*m.problem); },
        [](const struct attention_member &m) { return arguments_of(m.problem, m.workspace); },
        [=](attention_group::list<arguments> &group) { return run_list<C>(stream, group); });
}

/* Calls `act` with the configuration for heads of `width` and so many rows. Which it is changes no
 * bits: a row's sums are its own. */
template <typename Element, class Act>
static auto with_config(uint64_t width, uint64_t rows, const Act &act)
{
    if (width <= 64)
        return rows <= 8    ? act(config<Element, 64, 8>())
               : rows <= 16 ? act(config<Element, 64, 16>())
                            : act(config<Element, 64, 32>());
    if (width <= 128)
        return rows <= 8    ? act(config<Element, 128, 8>())
               : rows <= 16 ? act(config<Element, 128, 16>())
                            : act(config<Element, 128, 32>());
    return rows <= 8 ? act(config<Element, 256, 8>()) : act(config<Element, 256, 16>());
}

template <typename Element>
static enum gemmd_error launch_alone(cudaStream_t stream, const arguments &p)
{
    return with_config<Element>(max(p.a.d, p.a.dv), p.rows,
                                [&](auto config) { return run<decltype(config)>(stream, p); });
}

template <typename Element>
static enum gemmd_error launch_group(cudaStream_t stream, const struct attention_member members[],
                                     uint32_t count)
{
    const struct attention_problem &any = *members[0].problem;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct attention_problem &p = *members[i].problem;
        rows = max(rows, p.sq * (p.heads / p.kv_heads));
    }
    return with_config<Element>(max(any.d, any.dv), rows, [=](auto config) {
        return run_group<decltype(config)>(stream, members, count);
    });
}

template <typename Element> static cudaError_t prepare_type()
{
    cudaError_t error = cudaSuccess;
    for (const uint64_t width : {64, 128, 256})
        for (const uint64_t rows : {8, 16, 32})
            if (error == cudaSuccess)
                error = with_config<Element>(
                    width, rows, [](auto config) { return prepare<decltype(config)>(); });
    return error;
}

} // namespace attention_decode

enum gemmd_error attention_decode_prepare(void)
{
    cudaError_t error = attention_decode::prepare_type<__half>();
    if (error == cudaSuccess)
        error = attention_decode::prepare_type<__nv_bfloat16>();
    return cuda_error_code((int)error);
}

enum gemmd_error attention_decode_launch(cudaStream_t stream,
                                         const struct attention_problem *problem, void *workspace)
{
    using namespace attention_decode;
    const arguments p = arguments_of(problem, workspace);
    return problem->dtype == GEMMD_F16 ? launch_alone<__half>(stream, p)
                                       : launch_alone<__nv_bfloat16>(stream, p);
}

enum gemmd_error attention_decode_launch_group(cudaStream_t stream,
                                               const struct attention_member members[],
                                               uint32_t count)
{
    using namespace attention_decode;
    return members[0].problem->dtype == GEMMD_F16
               ? launch_group<__half>(stream, members, count)
               : launch_group<__nv_bfloat16>(stream, members, count);
}
