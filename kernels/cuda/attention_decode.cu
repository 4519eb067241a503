/*
 * attention_decode - few queries and many keys: what it takes is reading K and V once, at the speed
 * of memory.
 *
 * The queries of all heads that share a head of K and V are the rows of one tile of 16. The keys
 * are split at multiples of SPLIT_KEYS: a block goes over one split, each of its warps over every
 * WARPS-th group of 16 keys with a ring of copies of its own, so that nothing in the loop waits for
 * another warp. Largest score, total and sums of the warps are combined in their order, and go to
 * the workspace. A second kernel combines the splits of each row, in their order too. What a row
 * gets depends on its own request only: splits don't follow the load or the batch.
 *
 * After T. Dao et al., "Flash-Decoding for long-context inference" (2023), with splits of a fixed
 * size instead of a fixed number. To be expected: the bandwidth of a copy.
 */
#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_group.cuh"
#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/launch.cuh"

namespace attention_decode
{

using namespace flash;

constexpr int ROWS = 16, KEYS = 16; /* of a step of a warp */
constexpr int SPLIT_KEYS = ATTENTION_DECODE_SPLIT_KEYS;
constexpr int JOIN_THREADS = 128;

struct arguments {
    attention_arguments a;
    uint32_t splits, rows; /* rows: queries of all heads that share one of K and V */
    bool k_pieces, v_pieces, q_pairs;
    float *sums;    /* [entry, head of K and V, split, row, dv] */
    float2 *states; /* [entry, head of K and V, split, row]: largest, total */
};

template <typename Element_, int WIDTH_> struct config {
    using Element = Element_;
    static constexpr int WIDTH = WIDTH_;
    static constexpr uint32_t TILE_BYTES = KEYS * WIDTH * 2, STAGE_BYTES = 2 * TILE_BYTES;
    static constexpr int STAGES = WIDTH == 64 ? 4 : 3;
    static constexpr int WARPS = WIDTH == 256 ? 2 : 4; /* two blocks fit in a multiprocessor */
    static constexpr int THREADS = 32 * WARPS;
    static constexpr uint32_t WARP_BYTES = STAGES * STAGE_BYTES;
    static constexpr uint32_t SHARED_BYTES = WARPS * WARP_BYTES;
    static_assert(WARP_BYTES >= ROWS * WIDTH * sizeof(float), "sums of a warp fit in its stages");
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

/* Q of 16 rows as left operands. */
template <class C>
static __device__ __forceinline__ void
load_queries(const arguments &p, uint32_t entry, uint32_t kv_head, const uint32_t (&row)[2],
             const span (&keys)[2], uint32_t (&q)[C::WIDTH / 16][4])
{
    const uint32_t column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const bool sees = keys[h].first < keys[h].end;
        const query at = query_of(p, sees ? row[h] : 0, kv_head);
        const uint16_t *from = row_at<uint16_t>(p.a.q, p.a.q_steps, entry, at.head, at.i);
#pragma unroll
        for (int k = 0; k < C::WIDTH / 16; k++) {
            q[k][h] = sees ? pair_of(p, from, 16 * k + column) : 0;
            q[k][2 + h] = sees ? pair_of(p, from, 16 * k + 8 + column) : 0;
        }
    }
}

/* Everything that a warp finds out about its rows. */
template <class C> struct partial {
    softmax_row state[2];
    float o[C::WIDTH / 2];
};

/* One step: 16 keys, from `key` on. */
template <class C>
static __device__ __forceinline__ void
step(const arguments &p, uint32_t stage, int32_t key, const span (&keys)[2],
     const uint32_t (&q)[C::WIDTH / 16][4], partial<C> &result)
{
    using Element = typename C::Element;
    float s[KEYS / 2] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < C::WIDTH / 16; k++) {
        uint32_t b[4];
        load_keys<C::WIDTH>(b, stage, 0, 16 * k);
        multiply_add_at<Element>(s, 0, q[k], b[0], b[1]);
        multiply_add_at<Element>(s, 4, q[k], b[2], b[3]);
    }
    if (p.a.general)
        score_all(p.a, s);
    const int32_t origin = key + 2 * (int32_t)(threadIdx.x % 4);
    mask<0>(s, keys[0].first - origin, keys[0].end - origin);
    mask<1>(s, keys[1].first - origin, keys[1].end - origin);
    const float factor[2] = {softmax_step<0>(s, result.state[0], p.a.exponent_of_score),
                             softmax_step<1>(s, result.state[1], p.a.exponent_of_score)};
    uint32_t weights[4];
    weights_of<Element>(s, 0, weights);
#pragma unroll
    for (int j = 0; j < C::WIDTH / 2; j++)
        result.o[j] *= factor[j / 2 % 2];
#pragma unroll
    for (int c = 0; c < C::WIDTH / 16; c++) {
        uint32_t b[4];
        load_values<C::WIDTH>(b, stage + C::TILE_BYTES, 0, 16 * c);
        multiply_add_at<Element>(result.o, 8 * c, weights, b[0], b[1]);
        multiply_add_at<Element>(result.o, 8 * c + 4, weights, b[2], b[3]);
    }
}

/* The warps' results to the workspace, as one. `number` is the split's, counted through all. */
template <class C>
static __device__ __forceinline__ void combine_warps(const arguments &p, char *shared,
                                                     uint32_t number, uint32_t first_row,
                                                     partial<C> &mine)
{
    __shared__ float2 states[C::WARPS][ROWS];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads(); /* all steps are done */
    float *sums = reinterpret_cast<float *>(shared + warp * C::WARP_BYTES);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float total = quad_sum(mine.state[h].total);
        const uint32_t row = lane / 4 + 8 * h;
        if (lane % 4 == 0)
            states[warp][row] = make_float2(mine.state[h].most, total);
#pragma unroll
        for (int j = 0; j < C::WIDTH / 8; j++) {
            float *to = sums + row * C::WIDTH + 8 * j + lane % 4 * 2;
            to[0] = mine.o[4 * j + 2 * h];
            to[1] = mine.o[4 * j + 2 * h + 1];
        }
    }
    __syncthreads();
    const uint32_t rows = min(p.rows - first_row, (uint32_t)ROWS);
    const uint64_t place = (uint64_t)number * p.rows + first_row; /* of this split */
    for (uint32_t row = 0; row < rows; row++) {
        float most = -INFINITE, total = 0, factor[C::WARPS];
#pragma unroll
        for (int w = 0; w < C::WARPS; w++)
            most = fmaxf(most, states[w][row].x);
#pragma unroll
        for (int w = 0; w < C::WARPS; w++) {
            factor[w] = exp2_fast(states[w][row].x - base_of(most));
            total += states[w][row].y * factor[w];
        }
        for (uint32_t column = threadIdx.x; column < p.a.dv; column += C::THREADS) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < C::WARPS; w++)
                sum = __fmaf_rn(reinterpret_cast<const float *>(
                                    shared + w * C::WARP_BYTES)[row * C::WIDTH + column],
                                factor[w], sum);
            p.sums[(place + row) * p.a.dv + column] = sum;
        }
        if (threadIdx.x == 0)
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
    const uint32_t first_row = tile * ROWS;
    later_kernels_allow();
    earlier_kernels_wait();
    const lengths n = lengths_of(p.a, entry);
    const uint32_t row[2] = {first_row + lane / 4, first_row + lane / 4 + 8};
    const span keys[2] = {
        row[0] < p.rows ? span_of(p.a, n, query_of(p, row[0], kv_head).i) : span{0, 0},
        row[1] < p.rows ? span_of(p.a, n, query_of(p, row[1], kv_head).i) : span{0, 0}};

    /* The keys of this split that any of the rows sees. */
    const uint32_t low = first_row / p.a.group;
    const uint32_t high = (min(first_row + ROWS, p.rows) - 1) / p.a.group;
    if (low >= n.sq)
        return;
    const int32_t origin = (int32_t)(split * SPLIT_KEYS);
    const int32_t first = max(span_of(p.a, n, low).first, origin);
    const int32_t end = min(span_of(p.a, n, min(high, n.sq - 1)).end, origin + SPLIT_KEYS);
    if (first >= end)
        return;

    const uint32_t ring = ptx_sm80::shared_address(shared) + warp * C::WARP_BYTES;
    const uint16_t *k = row_at<uint16_t>(p.a.k, p.a.k_steps, entry, kv_head, 0);
    const uint16_t *v = row_at<uint16_t>(p.a.v, p.a.v_steps, entry, kv_head, 0);
    const auto copy = [&](int32_t turn) {
        const int32_t key = origin + (turn * C::WARPS + (int32_t)warp) * KEYS;
        if (key < end && key + KEYS > first) {
            const uint32_t stage = ring + (uint32_t)(turn % C::STAGES) * C::STAGE_BYTES;
            copy_rows<C::WIDTH, KEYS, 32>(stage, k + key * p.a.k_steps.row, p.a.k_steps.row, p.a.d,
                                          first - key, end - key, p.k_pieces, lane);
            copy_rows<C::WIDTH, KEYS, 32>(stage + C::TILE_BYTES, v + key * p.a.v_steps.row,
                                          p.a.v_steps.row, p.a.dv, first - key, end - key,
                                          p.v_pieces, lane);
        }
        ptx_sm80::copies_commit();
    };
    constexpr int32_t STEPS = SPLIT_KEYS / KEYS / C::WARPS;
    for (int32_t turn = 0; turn < C::STAGES - 1; turn++)
        copy(turn);

    uint32_t q[C::WIDTH / 16][4];
    load_queries<C>(p, entry, kv_head, row, keys, q);
    partial<C> result;
    result.state[0] = result.state[1] = {-INFINITE, 0};
#pragma unroll
    for (int j = 0; j < C::WIDTH / 2; j++)
        result.o[j] = 0;
#pragma unroll 1
    for (int32_t turn = 0; turn < STEPS; turn++) {
        if (turn + C::STAGES - 1 < STEPS)
            copy(turn + C::STAGES - 1);
        else
            ptx_sm80::copies_commit();
        ptx_sm80::copies_wait<C::STAGES - 1>();
        __syncwarp();
        const int32_t key = origin + (turn * C::WARPS + (int32_t)warp) * KEYS;
        if (key < end && key + KEYS > first)
            step<C>(p, ring + (uint32_t)(turn % C::STAGES) * C::STAGE_BYTES, key, keys, q, result);
        __syncwarp();
    }
    combine_warps<C>(p, shared, number, first_row, result);
}

/* Grid: splits of heads of K and V of all entries; tiles of rows. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, 2) split_kernel(const __grid_constant__ arguments p)
{
    compute_split<C>(p, blockIdx.x, blockIdx.y);
}

/* Grid: the same of all problems, those of a tile of rows together. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, 2)
    split_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    __shared__ arguments p;
    const uint32_t number = group.fetch<C::THREADS>(blockIdx.x, p);
    const uint32_t all = p.a.batch * (p.a.heads / p.a.group) * p.splits;
    compute_split<C>(p, number % all, number / all);
}

/* One row of O, `number` counted through all heads of K and V. By a block. */
template <typename Element>
static __device__ __forceinline__ void join(const arguments &p, uint32_t number)
{
    __shared__ float2 states[JOIN_THREADS];
    const uint32_t kv_heads = p.a.heads / p.a.group;
    const uint32_t row = number % p.rows, unit = number / p.rows;
    const uint32_t entry = unit / kv_heads;
    const query at = query_of(p, row, unit % kv_heads);
    earlier_kernels_wait();
    const lengths n = lengths_of(p.a, entry);
    const span keys = span_of(p.a, n, at.i);
    const bool sees = keys.first < keys.end;
    const uint32_t first = (uint32_t)keys.first / SPLIT_KEYS;
    const uint32_t end = sees ? ((uint32_t)keys.end + SPLIT_KEYS - 1) / SPLIT_KEYS : first;
    const uint64_t place = (uint64_t)unit * p.splits * p.rows + row; /* of split 0 */
    softmax_row state = {-INFINITE, 0};
    constexpr int COLUMNS = ATTENTION_WIDTH_MAX / JOIN_THREADS;
    float sum[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
        sum[c] = 0;
    for (uint32_t from = first; from < end; from += JOIN_THREADS) {
        const uint32_t count = min(end - from, (uint32_t)JOIN_THREADS);
        __syncthreads();
        if (threadIdx.x < count)
            states[threadIdx.x] = p.states[place + (uint64_t)(from + threadIdx.x) * p.rows];
        __syncthreads();
        float most = state.most;
        for (uint32_t s = 0; s < count; s++)
            most = fmaxf(most, states[s].x);
        const float base = base_of(most), again = exp2_fast(state.most - base);
        state.most = most;
        state.total *= again;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            sum[c] *= again;
#pragma unroll 4
        for (uint32_t s = 0; s < count; s++) {
            const float factor = exp2_fast(states[s].x - base);
            const float *sums = p.sums + (place + (uint64_t)(from + s) * p.rows) * p.a.dv;
            state.total = __fmaf_rn(states[s].y, factor, state.total);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                if (threadIdx.x + c * JOIN_THREADS < p.a.dv)
                    sum[c] = __fmaf_rn(sums[threadIdx.x + c * JOIN_THREADS], factor, sum[c]);
        }
    }
    float lse;
    const float factor = finish_row(state, state.total, sees, lse);
    Element *to = const_cast<Element *>(row_at<Element>(p.a.o, p.a.o_steps, entry, at.head, at.i));
    bool all_finite = true;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const uint32_t column = threadIdx.x + c * JOIN_THREADS;
        const float value = sees ? sum[c] * factor : 0;
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
template <typename Element>
__global__ void __launch_bounds__(JOIN_THREADS) join_kernel(const __grid_constant__ arguments p)
{
    join<Element>(p, blockIdx.x);
}

template <typename Element>
__global__ void __launch_bounds__(JOIN_THREADS)
    join_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    __shared__ arguments p;
    const uint32_t number = group.fetch<JOIN_THREADS>(blockIdx.x, p);
    join<Element>(p, number);
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
    const uint64_t splits = (problem->skv + SPLIT_KEYS - 1) / SPLIT_KEYS;
    arguments p = {};
    attention_arguments_fill(problem, &p.a);
    p.splits = (uint32_t)splits;
    p.rows = p.a.sq * p.a.group;
    p.k_pieces = attention_aligned(&problem->k_strides, 8) && (uintptr_t)p.a.k % 16 == 0;
    p.v_pieces = attention_aligned(&problem->v_strides, 8) && (uintptr_t)p.a.v % 16 == 0;
    p.q_pairs = attention_aligned(&problem->q_strides, 2) && (uintptr_t)p.a.q % 4 == 0;
    p.states = static_cast<float2 *>(workspace);
    p.sums =
        reinterpret_cast<float *>(p.states + (uint64_t)p.a.batch * p.a.heads * p.a.sq * splits);
    return p;
}

static uint32_t units_of(const arguments &p)
{
    return p.a.batch * (p.a.heads / p.a.group);
}

template <class C> static enum gemmd_error run(cudaStream_t stream, const arguments &p)
{
    const unsigned units = units_of(p);
    const dim3 grid(units * p.splits, (p.rows + ROWS - 1) / ROWS);
    enum gemmd_error code =
        launch_overlapped(split_kernel<C>, grid, dim3(C::THREADS), C::SHARED_BYTES, stream, p);
    if (code == GEMMD_OK)
        code = launch_overlapped(join_kernel<typename C::Element>, dim3(units * p.rows),
                                 dim3(JOIN_THREADS), 0, stream, p);
    return code;
}

/* Blocks of the split's kernel or of the join's, whichever are more. */
static uint64_t parts_of(const struct attention_problem &p)
{
    const uint64_t rows = p.sq * (p.heads / p.kv_heads);
    const uint64_t splits = (p.skv + SPLIT_KEYS - 1) / SPLIT_KEYS * ((rows + ROWS - 1) / ROWS);
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
    number_parts(group, [](const arguments &p) {
        return units_of(p) * p.splits * ((p.rows + ROWS - 1) / ROWS);
    });
    enum gemmd_error code = launch_overlapped(split_group_kernel<C>, dim3(group.parts),
                                              dim3(C::THREADS), C::SHARED_BYTES, stream, group);
    if (code != GEMMD_OK)
        return code;
    number_parts(group, [](const arguments &p) { return units_of(p) * p.rows; });
    return launch_overlapped(join_group_kernel<typename C::Element>, dim3(group.parts),
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

template <typename Element>
static enum gemmd_error run_group_width(cudaStream_t stream,
                                        const struct attention_member members[], uint32_t count)
{
    const struct attention_problem &any = *members[0].problem;
    const uint64_t width = any.d > any.dv ? any.d : any.dv;
    return width <= 64    ? run_group<config<Element, 64>>(stream, members, count)
           : width <= 128 ? run_group<config<Element, 128>>(stream, members, count)
                          : run_group<config<Element, 256>>(stream, members, count);
}

template <typename Element>
static enum gemmd_error run_width(cudaStream_t stream, const arguments &p)
{
    const uint32_t width = p.a.d > p.a.dv ? p.a.d : p.a.dv;
    return width <= 64    ? run<config<Element, 64>>(stream, p)
           : width <= 128 ? run<config<Element, 128>>(stream, p)
                          : run<config<Element, 256>>(stream, p);
}

template <typename Element> static cudaError_t prepare_type()
{
    cudaError_t error = prepare<config<Element, 64>>();
    if (error == cudaSuccess)
        error = prepare<config<Element, 128>>();
    return error == cudaSuccess ? prepare<config<Element, 256>>() : error;
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
    return problem->dtype == GEMMD_F16 ? run_width<__half>(stream, p)
                                       : run_width<__nv_bfloat16>(stream, p);
}

enum gemmd_error attention_decode_launch_group(cudaStream_t stream,
                                               const struct attention_member members[],
                                               uint32_t count)
{
    using namespace attention_decode;
    return members[0].problem->dtype == GEMMD_F16
               ? run_group_width<__half>(stream, members, count)
               : run_group_width<__nv_bfloat16>(stream, members, count);
}
