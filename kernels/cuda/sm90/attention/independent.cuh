/*
 * independent.cuh - attention on sm_90a (Hopper) for few keys: the consumers of a block compute
 * tiles of their own. The products and the softmax are those of flash_wgmma.cuh.
 *
 * In flash_wgmma.cuh all consumers of a block go from one tile to the next at the same time, and
 * while they do, the tensor cores are idle. With few keys that is half of the time. Here a block
 * computes an item, which is several row blocks (64 queries) of one head, often all of them. K and V
 * that the item sees are copied to shared memory once and stay there until no consumer needs them.
 * The consumers take the row blocks of all items in turn. Each consumer goes through its row blocks
 * at its own pace, so that the end of one consumer's row block and the beginning of its next overlap
 * with the products of the other consumers.
 *
 * Tiles of TILE_N keys of K and V lie in a ring of SLOTS buffers: K and V alternately, from the last
 * keys that the item sees to the first. A consumer releases a tile of keys when none of its later
 * row blocks of the item sees these keys. With a causal mask, row blocks are computed from the last
 * to the first. If K and V of an item do not fit in the ring, the item has at most one row block for
 * each consumer.
 *
 * Warp 0 of the producer warpgroup copies K and V, and warp 1 + i copies Q for consumer i. No copy
 * waits for copies that another consumer needs. All warps count items and row blocks for themselves.
 *
 * The bits are those of flash_wgmma.cuh in tiles of `alike_rows` queries: a row block multiplies
 * the keys that any row of such a tile sees.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_INDEPENDENT_CUH
#define KERNELS_CUDA_SM90_ATTENTION_INDEPENDENT_CUH

#include "kernels/cuda/sm90/attention/flash_wgmma.cuh"

namespace sm90
{

/* Shared memory: Q of each consumer, the slots of the ring, then barriers. C is an
 * attention_config. */
template <class C> struct independent_shared {
    static constexpr uint32_t Q_STAGES = C::QUERIES_IN_REGISTERS ? 1 : 2;
    static constexpr uint32_t QUERIES = C::CONSUMERS * Q_STAGES;
    static constexpr uint32_t OTHER_BYTES = 1024 + QUERIES * (C::Q_BYTES + 16);
    static constexpr uint32_t SLOTS = (C::SHARED_BYTES_MAX - OTHER_BYTES) / (C::SLOT_BYTES + 16);
    static constexpr uint32_t BYTES = SLOTS * (C::SLOT_BYTES + 16) + OTHER_BYTES;
    using ring_of_keys = ring<SLOTS>;
    using ring_of_queries = ring<Q_STAGES>;

    uint32_t base;

    __device__ __forceinline__ uint32_t q(uint32_t consumer, uint32_t stage) const
    {
        return base + (consumer * Q_STAGES + stage) * C::Q_BYTES;
    }
    __device__ __forceinline__ uint32_t slot(uint32_t i) const
    {
        return base + QUERIES * C::Q_BYTES + i * C::SLOT_BYTES;
    }
    __device__ __forceinline__ uint32_t full(uint32_t i) const
    {
        return slot(SLOTS) + 16 * i;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t i) const
    {
        return full(i) + 8;
    }
    __device__ __forceinline__ uint32_t q_full(uint32_t consumer, uint32_t stage) const
    {
        return full(SLOTS) + 16 * (consumer * Q_STAGES + stage);
    }
    __device__ __forceinline__ uint32_t q_empty(uint32_t consumer, uint32_t stage) const
    {
        return q_full(consumer, stage) + 8;
    }
};

/* Row blocks first ... first + count - 1 of a head. `end`: the number of tiles of keys that the
 * item sees. */
struct attention_item {
    uint32_t entry, head, first, count;
    int32_t end;
};

/* The number of tiles of keys that a row block multiplies. */
template <class C>
__device__ __forceinline__ int32_t keys_end(const attention_wgmma_arguments &p, uint32_t block)
{
    uint32_t last = p.a.sq - 1;
    if (p.a.causal)
        last = min((block * 64 / p.alike_rows + 1) * p.alike_rows - 1, last);
    const span keys = flash::span_of(p.a, {p.a.sq, p.a.skv}, last);
    return (keys.end + C::TILE_N - 1) / C::TILE_N;
}

/* Item number `index`, in the order of attention_tile_at. */
template <class C>
__device__ __forceinline__ attention_item item_at(const attention_wgmma_arguments &p,
                                                  uint32_t index)
{
    uint32_t number = index, rank = 0;
    if (p.tile_rows > 1) {
        const uint32_t heads = p.a.batch * p.a.heads, per_section = p.heads_at_once * p.tile_rows;
        const uint32_t section = index / per_section, in_section = index - section * per_section;
        const uint32_t first_head = section * p.heads_at_once;
        const uint32_t count = min(p.heads_at_once, heads - first_head);
        rank = in_section / count;
        number = first_head + in_section - rank * count;
    }
    attention_item item;
    item.entry = number / p.a.heads;
    item.head = number - item.entry * p.a.heads;
    item.first = (p.a.causal ? p.tile_rows - 1 - rank : rank) * p.item_blocks;
    item.count = min(p.item_blocks, (p.a.sq + 63) / 64 - item.first);
    item.end = keys_end<C>(p, item.first + item.count - 1);
    return item;
}

/* Row block number `i` of an item, in the order in which they are computed. */
__device__ __forceinline__ uint32_t block_of(const attention_wgmma_arguments &p,
                                             const attention_item &item, uint32_t i)
{
    return item.first + (p.a.causal ? item.count - 1 - i : i);
}

/* The row blocks of all items are dealt to the consumers in turn. Returns the number of the first
 * row block of an item that a consumer has, if consumer `turn` has the first of all. */
template <class C> __device__ __forceinline__ uint32_t first_of(uint32_t consumer, uint32_t turn)
{
    return consumer >= turn ? consumer - turn : consumer + C::CONSUMERS - turn;
}
template <class C> __device__ __forceinline__ uint32_t turn_after(uint32_t turn, uint32_t count)
{
    return (turn + count) % C::CONSUMERS;
}

/* Called by one thread, which keeps the ring of K and V full. */
template <class C>
__device__ __forceinline__ void independent_copy_keys(const attention_wgmma_arguments &p,
                                                      const independent_shared<C> &s)
{
    typename independent_shared<C>::ring_of_keys at(0);
#pragma unroll 1
    for (uint32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
        const attention_item item = item_at<C>(p, p.first_tile + index);
        const uint32_t kv_head = item.head / p.a.group;
#pragma unroll 1
        for (int32_t i = 2 * item.end - 1; i >= 0; i--) {
            wait(s.empty(at.stage), at.parity ^ 1);
            ptx::mbarrier_arrive_expect(s.full(at.stage), C::SLOT_BYTES);
            load_tile<C>(s.slot(at.stage), C::BOX_BYTES, i % 2 ? &p.k : &p.v, s.full(at.stage),
                         (uint32_t)i / 2 * C::TILE_N, kv_head, item.entry);
            at.advance();
        }
    }
}

/* Called by one thread, which copies Q for one consumer. */
template <class C>
__device__ __forceinline__ void independent_copy_queries(const attention_wgmma_arguments &p,
                                                         const independent_shared<C> &s,
                                                         uint32_t consumer)
{
    typename independent_shared<C>::ring_of_queries at(0);
    uint32_t turn = 0;
#pragma unroll 1
    for (uint32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
        const attention_item item = item_at<C>(p, p.first_tile + index);
#pragma unroll 1
        for (uint32_t i = first_of<C>(consumer, turn); i < item.count; i += C::CONSUMERS) {
            const uint32_t block = block_of(p, item, i);
            if (keys_end<C>(p, block) == 0)
                continue;
            const uint32_t full = s.q_full(consumer, at.stage);
            wait(s.q_empty(consumer, at.stage), at.parity ^ 1);
            ptx::mbarrier_arrive_expect(full, C::Q_BYTES);
            load_tile<C>(s.q(consumer, at.stage), C::Q_BOX_BYTES, &p.q, full, 64 * block, item.head,
                         item.entry);
            at.advance();
        }
        turn = turn_after<C>(turn, item.count);
    }
}

template <class C> struct independent_consumer {
    using shared_memory = independent_shared<C>;
    using position = typename shared_memory::ring_of_keys;

    const attention_wgmma_arguments &p;
    const shared_memory &shared;
    const uint32_t consumer, lane, warp;
    typename shared_memory::ring_of_queries q_at;

    __device__ __forceinline__ independent_consumer(const attention_wgmma_arguments &arguments,
                                                    const shared_memory &memory, uint32_t number)
        : p(arguments), shared(memory), consumer(number), lane(threadIdx.x % 32),
          warp(threadIdx.x / 32 % 4), q_at(0)
    {
    }

    __device__ __forceinline__ void arrive(uint32_t barrier) const
    {
        if (lane == 0)
            ptx::mbarrier_arrive(barrier);
    }

    __device__ __forceinline__ void release_queries()
    {
        __syncwarp();
        arrive(shared.q_empty(consumer, q_at.stage));
        q_at.advance();
    }

    /* The first step over keys, as attention_consumer::weigh. */
    template <int KEYS>
    __device__ __forceinline__ void weigh(const attention_queries<C> &q, uint32_t slot,
                                          int32_t tile, uint32_t row, const span &all,
                                          softmax_row (&state)[2],
                                          uint32_t (&weights)[C::TILE_N / 16][4]) const
    {
        float s[KEYS / 2];
        wgmma_fence();
        multiply_keys<C>(q, slot, s);
        wgmma_wait<0>();
        pin(s);
        adjust_scores<C>(p.a, s, tile, {p.a.sq, p.a.skv}, row, all);
        flash::softmax_step<0>(s, state[0], p.a.exponent_of_score);
        flash::softmax_step<1>(s, state[1], p.a.exponent_of_score);
        narrow_weights<C>(s, weights);
    }

    /* Computes and stores row block `block`, whose queries see keys of tiles 0 ... end - 1. K of
     * tile end - 1 is at position `at`. `last`: whether the consumer's later row blocks need none
     * of these tiles. */
    __device__ __forceinline__ void compute(const attention_item &item, uint32_t block, int32_t end,
                                            position at, bool last)
    {
        const lengths n = {p.a.sq, p.a.skv};
        const uint32_t first_row = 64 * block, row = first_row + 16 * warp + lane / 4;
        softmax_row state[2] = {{-flash::INFINITE, 0}, {-flash::INFINITE, 0}};
        float o[C::WIDTH / 2];
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j++)
            o[j] = 0;
        if (end == 0) {
            flash::finish<typename C::Element>(p.a, n, item.entry, item.head, row, state, o);
            return;
        }

        /* The keys that all rows of the row block see that exist. */
        const span low = flash::span_of(p.a, n, first_row);
        const span high = flash::span_of(p.a, n, min(first_row + 63, n.sq - 1));
        const span all = {high.first, low.end};
        const int32_t seen = high.end - (end - 1) * C::TILE_N; /* of the last tile's keys */
        attention_queries<C> q;
        uint32_t weights[C::TILE_N / 16][4];

        wait(shared.q_full(consumer, q_at.stage), q_at.parity);
        q.load(shared.q(consumer, q_at.stage));
        if constexpr (C::QUERIES_IN_REGISTERS)
            release_queries();
        wait(shared.full(at.stage), at.parity);
        const uint32_t first_keys = shared.slot(at.stage);
        if (seen <= C::TILE_N / 2)
            weigh<C::TILE_N / 2>(q, first_keys, end - 1, row, all, state, weights);
        else if (seen <= 80)
            weigh<80>(q, first_keys, end - 1, row, all, state, weights);
        else
            weigh<C::TILE_N>(q, first_keys, end - 1, row, all, state, weights);
        if (last)
            arrive(shared.empty(at.stage));
        at.advance();

#pragma unroll 1
        for (int32_t tile = end - 2; tile >= 0; tile--) {
            float s[C::TILE_N / 2];
            const position values = at;
            at.advance();
            wait(shared.full(at.stage), at.parity);
            wgmma_fence();
            multiply_keys<C>(q, shared.slot(at.stage), s);
            wait(shared.full(values.stage), values.parity);
            wgmma_fence();
            multiply_values<C>(weights, shared.slot(values.stage), o);
            wgmma_wait<1>();
            pin(s);
            if (last)
                arrive(shared.empty(at.stage));
            at.advance();
            adjust_scores<C>(p.a, s, tile, n, row, all);
            const float factor[2] = {
                flash::softmax_step<0>(s, state[0], p.a.exponent_of_score),
                flash::softmax_step<1>(s, state[1], p.a.exponent_of_score)};
            wgmma_wait<0>();
            pin(o);
            pin(weights);
            if (last)
                arrive(shared.empty(values.stage));
#pragma unroll
            for (int j = 0; j < C::WIDTH / 2; j++)
                o[j] *= factor[j / 2 % 2];
            narrow_weights<C>(s, weights);
        }
        if constexpr (!C::QUERIES_IN_REGISTERS)
            release_queries();

        wait(shared.full(at.stage), at.parity);
        wgmma_fence();
        multiply_values<C>(weights, shared.slot(at.stage), o);
        wgmma_wait<0>();
        pin(o);
        if (last)
            arrive(shared.empty(at.stage));
        flash::finish<typename C::Element>(p.a, n, item.entry, item.head, row, state, o);
    }

    /* Tells the producer that this consumer needs K and V at a position and the next no more. The
     * consumer waits for the copies first: it must not arrive twice in one phase of a barrier. */
    __device__ __forceinline__ void release_keys(position at) const
    {
        wait(shared.full(at.stage), at.parity);
        arrive(shared.empty(at.stage));
        at.advance();
        wait(shared.full(at.stage), at.parity);
        arrive(shared.empty(at.stage));
    }

    __device__ __forceinline__ void run()
    {
        uint32_t turn = 0, uses = 0; /* uses: of the ring, before the item */
#pragma unroll 1
        for (uint32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
            const attention_item item = item_at<C>(p, p.first_tile + index);
            int32_t held = item.end; /* tiles of keys that this consumer has not released */
            const auto position_of = [&](int32_t end) {
                return position(uses + 2 * (uint32_t)(item.end - end));
            };
#pragma unroll 1
            for (uint32_t i = first_of<C>(consumer, turn); i < item.count; i += C::CONSUMERS) {
                const uint32_t block = block_of(p, item, i);
                const int32_t end = keys_end<C>(p, block);
#pragma unroll 1
                for (; held > end; held--)
                    release_keys(position_of(held));
                const bool last = i + C::CONSUMERS >= item.count;
                compute(item, block, end, position_of(end), last);
                held = last ? 0 : held;
            }
#pragma unroll 1
            for (; held > 0; held--)
                release_keys(position_of(held));
            uses += 2 * (uint32_t)item.end;
            turn = turn_after<C>(turn, item.count);
        }
    }
};

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    attention_independent(const __grid_constant__ attention_wgmma_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    using shared = independent_shared<C>;
    const shared s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    const uint32_t warpgroup = uniform(threadIdx.x / 128);
    if (threadIdx.x == 0) {
        prefetch(p);
        for (uint32_t i = 0; i < shared::SLOTS; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), 4 * C::CONSUMERS); /* every warp arrives */
        }
        for (uint32_t c = 0; c < C::CONSUMERS; c++) {
            for (uint32_t i = 0; i < shared::Q_STAGES; i++) {
                ptx::mbarrier_init(s.q_full(c, i), 1);
                ptx::mbarrier_init(s.q_empty(c, i), 4);
            }
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    ptx::later_kernels_allow();
    ptx::earlier_kernels_wait();
    /* The registers of a kernel for groups: the producer computes more than that of a kernel for
     * one problem. */
    if (warpgroup == 0) {
        ptx::registers_give<C::template PRODUCER_REGISTERS<true>>();
        const uint32_t warp = threadIdx.x / 32;
        if (threadIdx.x == 0)
            independent_copy_keys<C>(p, s);
        else if (threadIdx.x % 32 == 0 && warp <= C::CONSUMERS)
            independent_copy_queries<C>(p, s, warp - 1);
        __syncwarp();
    } else {
        ptx::registers_take<C::template CONSUMER_REGISTERS<true>>();
        independent_consumer<C>(p, s, warpgroup - 1).run();
    }
}

} // namespace sm90

#endif
