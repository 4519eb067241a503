/*
 * decode_wgmma.cuh - `decode` on sm_90a (Hopper) for 17 to 32 rows. attention/decode.cuh has the
 * idea: the rows of a tile are the queries of all heads that share a head of K and V, and the keys
 * of an entry are divided into KV splits whose size depends on the entry only.
 *
 * The kernel of decode.cuh multiplies by mma.sync, whose instructions limit it from 17 rows on.
 * Here K and V are copied by TMA and multiplied by wgmma, with the functions of flash_wgmma.cuh.
 * The tensor core computes 64 rows, of which half or fewer exist: each warp has 8 of its 16 rows,
 * so that all four warps share the softmax evenly. The other rows are zeros, whose products take
 * less time than it takes to read K and V.
 *
 * A block computes one KV split of a unit, which is a head of K and V of an entry. One warp of the
 * block issues all copies, and a warpgroup computes and writes sums and states to the workspace.
 * Two blocks share a multiprocessor, so that one of them reads while the other one begins or ends.
 * A second kernel combines the KV splits of a row in a warp, which reads many of them at once. It
 * has more rows and fewer KV splits than the kernel of decode_join.cuh is made for.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_DECODE_WGMMA_CUH
#define KERNELS_CUDA_SM90_ATTENTION_DECODE_WGMMA_CUH

#include <type_traits>

#include "kernels/cuda/sm90/attention/decode_wgmma.h"
#include "kernels/cuda/sm90/attention/flash_wgmma.cuh"

namespace sm90
{

template <element E_, int WIDTH_> struct decode_config {
    static constexpr element E = E_;
    static constexpr int WIDTH = WIDTH_, TILE_N = DECODE_WGMMA_KEYS, CONSUMERS = 1;
    using Element = typename storage<E>::type;
    static constexpr bool QUERIES_IN_REGISTERS = true;
    static constexpr int COMPUTING = 128, THREADS = COMPUTING + 32, BLOCKS = 2;
    static constexpr int BOXES = WIDTH / 64;
    static constexpr uint32_t BOX_BYTES = TILE_N * 128, SLOT_BYTES = BOXES * BOX_BYTES;
    static constexpr uint32_t SLOTS = 12 / BOXES;
    /* Shared memory starts at a multiple of 1024 bytes, for which up to 1024 bytes are skipped. */
    static constexpr uint32_t SHARED_BYTES = 1024 + SLOTS * (SLOT_BYTES + 16);
    /* The second kernel: columns of a row in a lane, and KV splits that a warp reads before it uses
     * the first. */
    static constexpr int LANE_COLUMNS = WIDTH / 32;
    static constexpr uint32_t JOIN_THREADS = 128, JOIN_DEPTH = 16;
};

/* Shared memory: the slots of the ring, then their barriers. */
template <class C> struct decode_shared {
    uint32_t base;

    __device__ __forceinline__ uint32_t slot(uint32_t i) const
    {
        return base + i * C::SLOT_BYTES;
    }
    __device__ __forceinline__ uint32_t full(uint32_t i) const
    {
        return slot(C::SLOTS) + 16 * i;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t i) const
    {
        return full(i) + 8;
    }
};

/* ---- items ---- */

/* The problem that KV split `item` of the launch belongs to, and the one that row `row` does. */
__device__ __forceinline__ const decode_wgmma_arguments &
problem_of_item(const decode_wgmma_single &work, uint32_t)
{
    return work.problem;
}
__device__ __forceinline__ const decode_wgmma_arguments &
problem_of_item(const decode_wgmma_group &work, uint32_t item)
{
    uint32_t i = 0;
    while (i + 1 < work.count && work.problems[i + 1].first_item <= item)
        i++;
    return work.problems[i];
}

__device__ __forceinline__ const decode_wgmma_arguments &
problem_of_row(const decode_wgmma_single &work, uint32_t)
{
    return work.problem;
}
__device__ __forceinline__ const decode_wgmma_arguments &
problem_of_row(const decode_wgmma_group &work, uint32_t row)
{
    uint32_t i = 0;
    while (i + 1 < work.count && work.problems[i + 1].first_row <= row)
        i++;
    return work.problems[i];
}

/* The keys that the rows of a unit see, from those of the first row to those of the last: any row
 * sees only keys in `some`, and all rows see the keys in `all`. */
struct decode_keys {
    span some, all;
};

__device__ __forceinline__ decode_keys decode_keys_of(const attention_arguments &a,
                                                      const lengths &n)
{
    if (n.sq == 0)
        return {{0, 0}, {0, 0}};
    const span low = flash::span_of(a, n, 0), high = flash::span_of(a, n, n.sq - 1);
    return {{low.first, high.end}, {high.first, low.end}};
}

__device__ __forceinline__ uint32_t split_keys_of(const decode_wgmma_arguments &p, const lengths &n)
{
    return decode_wgmma_split_keys(n.skv, p.kv_heads, n.sq * p.a.group, max(p.a.d, p.a.dv));
}

/* A KV split of a unit: the keys first ... end - 1, none if first >= end. Steps begin at `start`.
 */
struct decode_item {
    uint32_t unit, split, entry, kv_head;
    lengths n;
    int32_t start, first, end;
    span all;
};

__device__ __forceinline__ decode_item decode_item_at(const decode_wgmma_arguments &p,
                                                      uint32_t item)
{
    const uint32_t number = item - p.first_item, kv_heads = p.a.heads / p.a.group;
    decode_item t;
    t.unit = number / p.kv_splits;
    t.split = number % p.kv_splits;
    t.entry = t.unit / kv_heads;
    t.kv_head = t.unit % kv_heads;
    t.n = flash::lengths_of(p.a, t.entry);
    const decode_keys keys = decode_keys_of(p.a, t.n);
    const int32_t split_keys = (int32_t)split_keys_of(p, t.n);
    const int32_t origin = (int32_t)t.split * split_keys;
    t.first = max(keys.some.first, origin);
    t.end = min(keys.some.end, origin + split_keys);
    t.start = t.first / DECODE_WGMMA_KEYS * DECODE_WGMMA_KEYS;
    t.all = keys.all;
    return t;
}

/* ---- copies ---- */

/* ptx::tensor_load of a box that no other block reads, which is evicted from the L2 first. */
__device__ __forceinline__ void load_once(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                          uint32_t column, int32_t key, uint32_t head,
                                          uint32_t entry)
{
    asm volatile("{\n"
                 ".reg .b64 first;\n"
                 "createpolicy.fractional.L2::evict_first.b64 first, 1.0;\n"
                 "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], first;\n"
                 "}" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(key), "r"(head), "r"(entry)
                 : "memory");
}

/* Called by one thread, which copies K and V of each step over the keys of an item. */
template <class C>
__device__ __forceinline__ void decode_produce(const decode_wgmma_arguments &p,
                                               const decode_item &t, const decode_shared<C> &s)
{
    ring<C::SLOTS> at(0);
#pragma unroll 1
    for (int32_t key = t.start; key < t.end; key += C::TILE_N) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            wait(s.empty(at.stage), at.parity ^ 1);
            ptx::mbarrier_arrive_expect(s.full(at.stage), C::SLOT_BYTES);
#pragma unroll
            for (uint32_t b = 0; b < C::BOXES; b++)
                load_once(s.slot(at.stage) + b * C::BOX_BYTES, i == 0 ? &p.k : &p.v,
                          s.full(at.stage), 64 * b, key, t.kv_head, t.entry);
            at.advance();
        }
    }
}

/* ---- the warpgroup that computes ---- */

template <class C> struct decode_consumer {
    using Element = typename C::Element;

    const decode_shared<C> &shared;
    const uint32_t lane, warp;
    ring<C::SLOTS> at;

    __device__ __forceinline__ explicit decode_consumer(const decode_shared<C> &memory)
        : shared(memory), lane(threadIdx.x % 32), warp(threadIdx.x / 32), at(0)
    {
    }

    /* This lane's row of a tile. */
    __device__ __forceinline__ uint32_t row() const
    {
        return 8 * warp + lane / 4;
    }

    __device__ __forceinline__ void release()
    {
        __syncwarp();
        if (lane == 0)
            ptx::mbarrier_arrive(shared.empty(at.stage));
        at.advance();
    }

    /* Loads this lane's row of Q, or zeros for a row that does not exist. */
    __device__ __forceinline__ void load(const attention_arguments &a, const decode_item &t,
                                         attention_queries<C> &q) const
    {
        const uint32_t i = row() / a.group;
        const bool exists = i < t.n.sq;
        const Element *from =
            flash::row_at<Element>(a.q, a.q_steps, t.entry, t.kv_head * a.group + row() % a.group,
                                   exists ? i : 0) +
            2 * (lane % 4);
        /* Without branches where the row is as wide as the tile, so that no load waits for another.
         */
        const bool whole = a.d == C::WIDTH;
#pragma unroll
        for (uint32_t k = 0; k < C::WIDTH / 8; k++) {
            uint32_t &x = q.x[k / 2][k % 2 * 2];
            if (whole)
                x = reinterpret_cast<const uint32_t *>(from)[4 * k];
            else
                x = pair_at(from - 2 * (lane % 4), 8 * k + 2 * (lane % 4), a.d);
            x = exists ? x : 0;
            q.x[k / 2][k % 2 * 2 + 1] = 0;
        }
    }

    /* One step over keys: the scores and weights of the keys from `key` on, and their products with
     * V. `keys`: those that this lane's row sees. */
    __device__ __forceinline__ void step(const attention_arguments &a, const decode_item &t,
                                         int32_t key, const span &keys,
                                         const attention_queries<C> &q, softmax_row &state,
                                         float (&o)[C::WIDTH / 2])
    {
        float s[C::TILE_N / 2];
        uint32_t weights[C::TILE_N / 16][4];
        wait(shared.full(at.stage), at.parity);
        wgmma_fence();
        multiply_keys<C>(q, shared.slot(at.stage), s);
        wgmma_wait<0>();
        pin(s);
        release();
        if (a.general)
            flash::score_all(a, s);
        if (key < t.all.first || key + C::TILE_N > t.all.end) {
            const int32_t origin = key + 2 * (int32_t)(lane % 4);
            flash::mask<0>(s, keys.first - origin, keys.end - origin);
        }
        const float factor = flash::softmax_step<0>(s, state, a.exponent_of_score);
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j += 4) {
            o[j] *= factor;
            o[j + 1] *= factor;
        }
        narrow_weights<C>(s, weights);
#pragma unroll
        for (int k = 0; k < C::TILE_N / 16; k++)
            weights[k][1] = weights[k][3] = 0;
        wait(shared.full(at.stage), at.parity);
        /* Values after the last key that a row sees may be anything, and 0 times NaN is NaN. */
        if (t.end - key < C::TILE_N && (uint32_t)t.end < a.skv)
            clear_values<C>(shared.slot(at.stage), (uint32_t)(t.end - key), 0);
        wgmma_fence();
        multiply_values<C>(weights, shared.slot(at.stage), o);
        wgmma_wait<0>();
        pin(o);
        release();
    }

    /* Computes an item and writes its sums and states to the workspace. */
    __device__ __forceinline__ void compute(const decode_wgmma_arguments &p, const decode_item &t)
    {
        attention_queries<C> q;
        softmax_row state = {-flash::INFINITE, 0};
        float o[C::WIDTH / 2];
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j++)
            o[j] = 0;
        load(p.a, t, q);
        const span keys = flash::span_of(p.a, t.n, row() / p.a.group);
        at.stage = uniform(at.stage);
        const int32_t end = uniform(t.end);
#pragma unroll 1
        for (int32_t key = uniform(t.start); key < end; key += C::TILE_N)
            step(p.a, t, key, keys, q, state, o);

        const float total = flash::quad_sum(state.total);
        if (row() >= t.n.sq * p.a.group)
            return;
        const uint64_t line = ((uint64_t)t.unit * p.kv_splits + t.split) * p.rows + row();
        float *to = p.sums + line * p.columns;
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j += 4) {
            const uint32_t column = 2 * (uint32_t)j + 2 * (lane % 4);
            if (column < p.columns)
                *reinterpret_cast<float2 *>(to + column) = make_float2(o[j], o[j + 1]);
        }
        if (lane % 4 == 0)
            p.states[line] = make_float2(state.most, total);
    }
};

/* ---- the second kernel ---- */

/* Combines the KV splits of row `row` of a unit, in their order, and stores the row of O and its
 * lse. Called by a warp. */
template <class C>
__device__ __forceinline__ void decode_join_row(const decode_wgmma_arguments &p, uint32_t unit,
                                                uint32_t row)
{
    using Element = typename C::Element;
    constexpr int COLUMNS = C::LANE_COLUMNS;
    constexpr uint32_t DEPTH = C::JOIN_DEPTH;
    using vector = typename std::conditional<COLUMNS == 4, float4, float2>::type;
    const uint32_t kv_heads = p.a.heads / p.a.group, entry = unit / kv_heads;
    const uint32_t i = row / p.a.group;
    const uint32_t head = unit % kv_heads * p.a.group + row % p.a.group;
    const uint32_t lane = threadIdx.x % 32, column = COLUMNS * lane;
    const lengths n = flash::lengths_of(p.a, entry);
    const span keys = flash::span_of(p.a, n, i);
    const bool sees = keys.first < keys.end;
    const uint32_t split_keys = split_keys_of(p, n);
    const uint32_t first = (uint32_t)keys.first / split_keys;
    const uint32_t end = sees ? ((uint32_t)keys.end + split_keys - 1) / split_keys : first;
    const uint64_t line = (uint64_t)unit * p.kv_splits * p.rows + row; /* of KV split 0 */
    softmax_row state = {-flash::INFINITE, 0};
    float sum[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
        sum[c] = 0;
#pragma unroll 1
    for (uint32_t from = first; from < end; from += DEPTH) {
        vector pieces[DEPTH];
#pragma unroll
        for (uint32_t s = 0; s < DEPTH; s++) {
            const float *at = p.sums + (line + (uint64_t)(from + s) * p.rows) * p.columns + column;
            pieces[s] = from + s < end && column < p.columns ? *reinterpret_cast<const vector *>(at)
                                                             : vector{};
        }
        /* A lane has the state of one KV split. */
        const uint32_t mine = from + lane;
        const float2 of = lane < DEPTH && mine < end ? p.states[line + (uint64_t)mine * p.rows]
                                                     : make_float2(-flash::INFINITE, 0);
        float most = of.x, total;
#pragma unroll
        for (uint32_t step = 16; step > 0; step /= 2)
            most = fmaxf(most, __shfl_xor_sync(flash::WHOLE_WARP, most, step));
        most = fmaxf(most, state.most);
        const float base = flash::base_of(most), again = flash::exp2_fast(state.most - base);
        const float factor = flash::exp2_fast(of.x - base);
        total = of.y * factor;
#pragma unroll
        for (uint32_t step = 16; step > 0; step /= 2)
            total += __shfl_xor_sync(flash::WHOLE_WARP, total, step);
        state = {most, __fmaf_rn(state.total, again, total)};
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            sum[c] *= again;
#pragma unroll
        for (uint32_t s = 0; s < DEPTH; s++) {
            const float times = __shfl_sync(flash::WHOLE_WARP, factor, s);
            const float *values = reinterpret_cast<const float *>(&pieces[s]);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                sum[c] = __fmaf_rn(values[c], times, sum[c]);
        }
    }

    float lse, values[COLUMNS];
    const float factor = flash::finish_row(state, state.total, sees, lse);
    bool finite = true;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        values[c] = sees ? sum[c] * factor : 0;
        finite = finite && (column + c >= p.a.dv || flash::is_finite(values[c]));
    }
    Element *to =
        const_cast<Element *>(flash::row_at<Element>(p.a.o, p.a.o_steps, entry, head, i)) + column;
    if (p.a.o_pieces && column + COLUMNS <= p.a.dv) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c += 2)
            reinterpret_cast<uint32_t *>(to)[c / 2] =
                flash::pack<Element>(values[c], values[c + 1]);
    } else {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (column + c < p.a.dv)
                narrow(values[c], to + c);
    }
    if (p.a.lse != nullptr && lane == 0)
        p.a.lse[((uint64_t)entry * p.a.heads + head) * p.a.sq + i] = lse;
    const bool all_finite = __all_sync(flash::WHOLE_WARP, finite);
    if (sees && (flash::is_far(state, state.total) ||
                 (!all_finite && state.total > 0 && flash::is_finite(state.total)))) {
        __syncwarp();
        flash::exact_row<Element>(p.a, n, entry, head, i, keys);
    }
}

/* Called by a block, whose warps take the rows of all units one after another. */
template <class C, class Work> __device__ __forceinline__ void decode_join(const Work &work)
{
    constexpr uint32_t WARPS = C::JOIN_THREADS / 32;
    uint32_t row = blockIdx.x * WARPS + threadIdx.x / 32;
    ptx::later_kernels_allow();
    ptx::earlier_kernels_wait();
    if (row >= work.rows)
        return;
    const decode_wgmma_arguments &p = problem_of_row(work, row);
    row -= p.first_row;
    decode_join_row<C>(p, row / p.rows, row % p.rows);
}

template <class C, class Work> __device__ __forceinline__ void decode_block(const Work &work)
{
    extern __shared__ unsigned char shared_memory[];
    const decode_shared<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const decode_wgmma_arguments &p = problem_of_item(work, blockIdx.x);
    /* The same for all threads of a warp; the shuffle tells the compiler so. */
    const uint32_t warp = uniform(threadIdx.x / 32);
    if (threadIdx.x == 0) {
        ptx::tensor_map_prefetch(&p.k);
        ptx::tensor_map_prefetch(&p.v);
        for (uint32_t i = 0; i < C::SLOTS; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), C::COMPUTING / 32); /* every warp arrives */
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    ptx::later_kernels_allow();
    ptx::earlier_kernels_wait();
    const decode_item t = decode_item_at(p, blockIdx.x);
    if (t.first >= t.end)
        return;
    if (warp < C::COMPUTING / 32)
        decode_consumer<C>(s).compute(p, t);
    else if (threadIdx.x == C::COMPUTING)
        decode_produce<C>(p, t, s);
}

template <class C, class Work>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    attention_wgmma_decode(const __grid_constant__ Work work)
{
    static_assert(sizeof work <= ATTENTION_GROUP_PARAMETER_BYTES, "a launch's parameters");
    decode_block<C>(work);
}

template <class C, class Work>
__global__ void __launch_bounds__(C::JOIN_THREADS)
    attention_join_kernel(const __grid_constant__ Work work)
{
    decode_join<C>(work);
}

template <class C> static decode_wgmma_kernel decode_wgmma_entry()
{
    return {C::WIDTH,
            C::SHARED_BYTES,
            {(const void *)attention_wgmma_decode<C, decode_wgmma_single>,
             (const void *)attention_wgmma_decode<C, decode_wgmma_group>},
            {(const void *)attention_join_kernel<C, decode_wgmma_single>,
             (const void *)attention_join_kernel<C, decode_wgmma_group>}};
}

} // namespace sm90

#endif
