/*
 * one_step.cuh - attention on sm_90a (Hopper) for at most ATTENTION_ONE_STEP_KEYS keys: the
 * consumers of a block compute tiles of their own. The products and the softmax are those of
 * flash_wgmma.cuh.
 *
 * With so few keys a tile has one step over keys. In flash_wgmma.cuh all consumers of a block begin
 * and end a tile at the same time, so that the tensor cores are idle for most of it. Here a
 * consumer computes row blocks of 64 queries, and each consumer at its own pace: the beginning and
 * the end of one consumer's row block overlap with the products of the other consumers. Sums and
 * weights are never needed at the same time as scores, so that registers suffice for four
 * consumers.
 *
 * A block computes items. An item is several row blocks of one head, often all of them. K and V of
 * the head are copied to shared memory once for each item, in a ring of SLOTS buffers, and Q of
 * each row block to one of two buffers of its consumer. The row blocks of all items are dealt to
 * the consumers in turn. A consumer releases K and V after its last row block of the item. One
 * thread copies K and V, and another one copies Q, so that no copy of K and V waits for a buffer of
 * Q. All warps count items and row blocks for themselves.
 *
 * The bits are those of the kernels of flash_wgmma.cuh with the same width and TILE_N.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_ONE_STEP_CUH
#define KERNELS_CUDA_SM90_ATTENTION_ONE_STEP_CUH

#include "kernels/cuda/sm90/attention/flash_wgmma.cuh"

namespace sm90
{

/* Shared memory: Q of each consumer, the slots of the ring, then barriers. C is an
 * attention_config. */
template <class C> struct one_step_shared {
    static constexpr uint32_t Q_STAGES = 2, QUERIES = C::CONSUMERS * Q_STAGES;
    static constexpr uint32_t OTHER_BYTES = 1024 + QUERIES * (C::Q_BYTES + 16);
    /* An even number: K and V of an item are in neighbouring slots. */
    static constexpr uint32_t SLOTS =
        (C::SHARED_BYTES_MAX - OTHER_BYTES) / (C::SLOT_BYTES + 16) / 2 * 2;
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

/* Row blocks first ... end - 1 of a head. `sees`: whether any of their queries sees a key. */
struct one_step_item {
    uint32_t entry, head, first, end;
    bool sees;
};

/* Whether any query of a row block sees a key. With a causal mask, the last query sees the most. */
__device__ __forceinline__ bool block_sees(const attention_wgmma_arguments &p, uint32_t block)
{
    return flash::span_of(p.a, {p.a.sq, p.a.skv}, min(64 * block + 63, p.a.sq - 1)).end > 0;
}

__device__ __forceinline__ one_step_item item_at(const attention_wgmma_arguments &p, uint32_t index)
{
    const uint32_t number = index / p.tile_rows, rank = index - number * p.tile_rows;
    one_step_item item;
    item.entry = number / p.a.heads;
    item.head = number - item.entry * p.a.heads;
    item.first = rank * p.item_blocks;
    item.end = min(item.first + p.item_blocks, (p.a.sq + 63) / 64);
    item.sees = block_sees(p, item.end - 1);
    return item;
}

/* Called by one thread, which keeps the ring of K and V full. */
template <class C>
__device__ __forceinline__ void one_step_copy_keys(const attention_wgmma_arguments &p,
                                                   const one_step_shared<C> &s)
{
    typename one_step_shared<C>::ring_of_keys at(0);
#pragma unroll 1
    for (uint32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
        const one_step_item item = item_at(p, p.first_tile + index);
        if (!item.sees)
            continue;
#pragma unroll 1
        for (uint32_t i = 0; i < 2; i++) {
            wait(s.empty(at.stage), at.parity ^ 1);
            ptx::mbarrier_arrive_expect(s.full(at.stage), C::SLOT_BYTES);
            load_tile<C>(s.slot(at.stage), C::BOX_BYTES, i == 0 ? &p.k : &p.v, s.full(at.stage), 0,
                         item.head / p.a.group, item.entry);
            at.advance();
        }
    }
}

/* Called by one thread, which copies Q of the row blocks in the order in which they are dealt. */
template <class C>
__device__ __forceinline__ void one_step_copy_queries(const attention_wgmma_arguments &p,
                                                      const one_step_shared<C> &s)
{
    uint32_t consumer = 0, uses[C::CONSUMERS] = {};
#pragma unroll 1
    for (uint32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
        const one_step_item item = item_at(p, p.first_tile + index);
#pragma unroll 1
        for (uint32_t block = item.first; block < item.end; block++) {
            if (block_sees(p, block)) {
                uint32_t use = 0;
#pragma unroll
                for (uint32_t c = 0; c < C::CONSUMERS; c++)
                    if (c == consumer)
                        use = uses[c]++;
                const typename one_step_shared<C>::ring_of_queries at(use);
                const uint32_t full = s.q_full(consumer, at.stage);
                wait(s.q_empty(consumer, at.stage), at.parity ^ 1);
                ptx::mbarrier_arrive_expect(full, C::Q_BYTES);
                load_tile<C>(s.q(consumer, at.stage), C::Q_BOX_BYTES, &p.q, full, 64 * block,
                             item.head, item.entry);
            }
            consumer = consumer + 1 == C::CONSUMERS ? 0 : consumer + 1;
        }
    }
}

template <class C> struct one_step_consumer {
    using shared_memory = one_step_shared<C>;
    using position = typename shared_memory::ring_of_keys;

    static constexpr int KEYS = ATTENTION_ONE_STEP_KEYS;
    static_assert(KEYS <= C::TILE_N && KEYS % 16 == 0,
                  "one step, in steps of k of the tensor core");

    const attention_wgmma_arguments &p;
    const shared_memory &shared;
    const uint32_t consumer, lane, warp;
    typename shared_memory::ring_of_queries q_at;

    __device__ __forceinline__ one_step_consumer(const attention_wgmma_arguments &arguments,
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

    /* Scores and weights of the first COUNT keys. No row of the row block sees the keys after them.
     * Warps without rows do not compute weights: nobody reads their sums. */
    template <int COUNT>
    __device__ __forceinline__ void
    weigh(const attention_queries<C> &q, uint32_t slot, uint32_t row, const span &all, bool exists,
          softmax_row (&state)[2], uint32_t (&weights)[C::TILE_N / 16][4]) const
    {
        float s[COUNT / 2];
        wgmma_fence();
        multiply_keys<C>(q, slot, s);
        wgmma_wait<0>();
        pin(s);
        if (exists) {
            adjust_scores<C>(p.a, s, 0, {p.a.sq, p.a.skv}, row, all);
            flash::softmax_step<0>(s, state[0], p.a.exponent_of_score);
            flash::softmax_step<1>(s, state[1], p.a.exponent_of_score);
        }
        narrow_weights<C>(s, weights);
    }

    /* Computes and stores a row block that sees keys. K is at position `at`, V at the next. `last`:
     * whether the consumer releases K and V. */
    __device__ __forceinline__ void compute(const one_step_item &item, uint32_t block, position at,
                                            bool last)
    {
        const lengths n = {p.a.sq, p.a.skv};
        const uint32_t first_row = 64 * block, row = first_row + 16 * warp + lane / 4;
        const bool exists = uniform(first_row + 16 * warp) < n.sq;
        softmax_row state[2] = {{-flash::INFINITE, 0}, {-flash::INFINITE, 0}};
        float o[C::WIDTH / 2];
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j++)
            o[j] = 0;
        /* The keys that all rows of the row block see that exist, and those that any of them sees.
         */
        const span all = flash::span_of(p.a, n, first_row);
        const int32_t seen = flash::span_of(p.a, n, min(first_row + 63, n.sq - 1)).end;
        attention_queries<C> q;
        uint32_t weights[C::TILE_N / 16][4];
        at.stage = uniform(at.stage);
        q_at.stage = uniform(q_at.stage);

        wait(shared.q_full(consumer, q_at.stage), q_at.parity);
        q.load(shared.q(consumer, q_at.stage));
        wait(shared.full(at.stage), at.parity);
        if (seen <= 64)
            weigh<64>(q, shared.slot(at.stage), row, all, exists, state, weights);
        else
            weigh<KEYS>(q, shared.slot(at.stage), row, all, exists, state, weights);
        if (last)
            arrive(shared.empty(at.stage));
        at.advance();
        __syncwarp();
        arrive(shared.q_empty(consumer, q_at.stage));
        q_at.advance();

        wait(shared.full(at.stage), at.parity);
        wgmma_fence();
        multiply_values<C, KEYS>(weights, shared.slot(at.stage), o);
        wgmma_wait<0>();
        pin(o);
        if (last)
            arrive(shared.empty(at.stage));
        if (exists)
            flash::finish<typename C::Element>(p.a, n, item.entry, item.head, row, state, o);
    }

    /* Stores zeros, for a row block that sees no key. */
    __device__ __forceinline__ void store_zeros(const one_step_item &item, uint32_t block) const
    {
        const softmax_row state[2] = {{-flash::INFINITE, 0}, {-flash::INFINITE, 0}};
        const float o[C::WIDTH / 2] = {};
        const lengths n = {p.a.sq, p.a.skv};
        flash::finish<typename C::Element>(p.a, n, item.entry, item.head,
                                           64 * block + 16 * warp + lane / 4, state, o);
    }

    /* Releases K and V of an item of which this consumer computes nothing. It waits for the copies
     * first, because it must not arrive twice in one phase of a barrier. */
    __device__ __forceinline__ void release(position at) const
    {
#pragma unroll 1
        for (uint32_t i = 0; i < 2; i++) {
            wait(shared.full(at.stage), at.parity);
            arrive(shared.empty(at.stage));
            at.advance();
        }
    }

    __device__ __forceinline__ void run()
    {
        uint32_t next = consumer; /* row blocks of other consumers before this consumer's next */
        position at(0);
#pragma unroll 1
        for (uint32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
            const one_step_item item = item_at(p, p.first_tile + index);
            uint32_t block = item.first + next;
            bool held = item.sees;
#pragma unroll 1
            for (; block < item.end; block += C::CONSUMERS) {
                if (!block_sees(p, block)) {
                    store_zeros(item, block);
                    continue;
                }
                const bool last = block + C::CONSUMERS >= item.end;
                compute(item, block, at, last);
                held = held && !last;
            }
            next = block - item.end;
            if (held)
                release(at);
            if (item.sees) {
                at.advance();
                at.advance();
            }
        }
    }
};

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    attention_one_step(const __grid_constant__ attention_wgmma_arguments p)
{
    extern __shared__ unsigned char shared_memory[];
    using shared = one_step_shared<C>;
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
    if (warpgroup == 0) {
        ptx::registers_give<C::template PRODUCER_REGISTERS<false>>();
        if (threadIdx.x == 0)
            one_step_copy_keys<C>(p, s);
        else if (threadIdx.x == 32)
            one_step_copy_queries<C>(p, s);
        __syncwarp();
    } else {
        ptx::registers_take<C::template CONSUMER_REGISTERS<false>>();
        one_step_consumer<C>(p, s, warpgroup - 1).run();
    }
}

/* The table entry of a kernel. */
template <class C> static attention_wgmma_kernel one_step_entry(const char *name)
{
    static_assert(!C::QUERIES_IN_REGISTERS, "Q stays in shared memory until it is multiplied");
    attention_wgmma_kernel kernel = {};
    kernel.name = name;
    kernel.function = (const void *)attention_one_step<C>;
    kernel.width = C::WIDTH;
    kernel.tile_m = C::TILE_M;
    kernel.tile_n = C::TILE_N;
    kernel.keeps_base = C::KEEPS_BASE;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = one_step_shared<C>::BYTES;
    return kernel;
}

} // namespace sm90

#endif
