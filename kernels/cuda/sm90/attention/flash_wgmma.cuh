/*
 * flash_wgmma.cuh - attention on sm_90a (Hopper), with the softmax overlapped with the products.
 * The kernel copies by TMA (the copy engine), multiplies by wgmma (the tensor core instruction of a
 * warpgroup, which is four warps), and waits at mbarriers (barriers in shared memory), as
 * sm90/gemm/gemm.cuh does. The formula of attention is in kernels/attention.h.
 *
 * A block has a producer warpgroup, of which one thread issues all copies, and CONSUMERS warpgroups
 * with 64 queries each. The block computes tiles of 64 * CONSUMERS queries of one head until none
 * is left. Q of a tile is copied to shared memory and stays there or goes to registers. Tiles of
 * TILE_N keys of K and V stream through a ring of SLOTS buffers, from the last keys that the tile
 * sees to the first, in the order in which they are used: K, then K and V alternately (V of the
 * keys whose K was used one step before), then V. Tiles of keys that no query of the tile sees are
 * not loaded, and only tiles at the edges are masked.
 *
 * A consumer holds the scores S (64 x TILE_N) and the sums O (64 x WIDTH) in registers. S = Q K^T
 * is computed from shared memory. The softmax turns S into the weights P. P is the register operand
 * of O += P V, because registers of sums have the layout of registers of operands. Three things
 * keep the tensor core busy and the other units idle:
 *   - The consumers take turns in issuing products (named barriers), so that the softmax of one
 *     overlaps with the products of the other.
 *   - In its turn a consumer issues two products without a gap: K of the next step and V of this
 *     step. The softmax begins after the first product. (The branch on the sums of weights keeps
 *     ptxas from waiting for both.)
 *   - In most kernels (KEEPS_BASE), a step whose keys all rows see keeps the base of the softmax
 *     (scores.cuh): it neither looks for the largest score nor scales O. Only the first step of a
 *     tile and steps with masks compute the online softmax (attention/rows.cuh).
 *
 * There is one block for each multiprocessor. With masks, the tiles that see the most keys come
 * first, and a block takes its next tile from a counter in memory; without masks the tiles are
 * assigned statically. Heads are processed in sections whose K and V fit in the L2. The producer
 * computes the properties of a tile while the consumers compute the previous one, and passes them
 * through shared memory.
 *
 * The bits of a row depend only on Q, K and V of its head, the lengths, and the kernel: the steps
 * over keys start at multiples of TILE_N, whatever else the launch computes, and a base depends on
 * the 16 rows of a warp at most. attention_wgmma_same_bits (flash_wgmma.h) says which kernels give
 * the same bits.
 *
 * After J. Shah, G. Bikshandi, Y. Zhang, V. Thakkar, P. Ramani, T. Dao, "FlashAttention-3" (2024):
 * warp specialisation, ping-pong, products overlapped with softmax.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_FLASH_WGMMA_CUH
#define KERNELS_CUDA_SM90_ATTENTION_FLASH_WGMMA_CUH

#include "kernels/cuda/attention/rows.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/ptx_sm80.cuh"
#include "kernels/cuda/sm90/attention/flash_wgmma.h"
#include "kernels/cuda/sm90/attention/scores.cuh"
#include "kernels/cuda/sm90/attention/tiles.cuh"
#include "kernels/cuda/sm90/ring.cuh"
#include "kernels/cuda/sm90/wgmma.cuh"

namespace sm90
{

template <element E> struct storage {
    using type = __nv_bfloat16;
};
template <> struct storage<F16> {
    using type = __half;
};

/* A configuration: E is the type of the operands, WIDTH the largest d and dv, TILE_N the keys of a
 * step, CONSUMERS the warpgroups that multiply, and KEEPS_BASE whether steps without masks keep the
 * base of the softmax. */
template <element E_, int WIDTH_, int TILE_N_, int CONSUMERS_, bool KEEPS_BASE_>
struct attention_config {
    static constexpr element E = E_;
    static constexpr int WIDTH = WIDTH_, TILE_N = TILE_N_, CONSUMERS = CONSUMERS_;
    /* Whether Q stays in registers, where enough are left. The tensor core then reads a third less
     * from shared memory for S, and the next tile's Q can be copied at once. */
    static constexpr bool QUERIES_IN_REGISTERS = CONSUMERS == 2 && WIDTH <= 128;
    /* Whether a consumer that sees only the first half of the tile's last TILE_N keys leaves the
     * other half out, where enough registers are left. Under a causal mask that is every second
     * consumer. */
    static constexpr bool HALVES = QUERIES_IN_REGISTERS;
    static constexpr bool KEEPS_BASE = KEEPS_BASE_;
    /* Whether a step with a kept base releases its keys only when its weights are known not to have
     * overflowed. The products can then be computed again from shared memory, with fewer registers
     * than from global memory: three consumers have no more. Heads of 64 have slots enough. */
    static constexpr bool HOLDS_KEYS = KEEPS_BASE && WIDTH == 64 && !QUERIES_IN_REGISTERS;
    using Element = typename storage<E>::type;

    static constexpr int TILE_M = 64 * CONSUMERS, THREADS = 128 * (1 + CONSUMERS);
    /* Registers of a thread: at the launch, and after the producer has given some of its registers
     * to the consumers (setmaxnreg). The sum over all warpgroups must not exceed that at the
     * launch, or the last warps would wait for registers for ever. For a group of problems the
     * producer needs more. */
    static constexpr int LAUNCH_REGISTERS = CONSUMERS == 2 ? 168 : CONSUMERS == 3 ? 128 : 96;
    template <bool GROUP>
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 2 ? (GROUP ? 40 : 24) : 32;
    template <bool GROUP>
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 2   ? (GROUP ? 232 : 240)
                                              : CONSUMERS == 3 ? 160
                                                               : 112;
    template <bool GROUP>
    static constexpr bool REGISTERS_SUFFICE = PRODUCER_REGISTERS<GROUP> +
                                                  CONSUMERS *CONSUMER_REGISTERS<GROUP> <=
                                              (1 + CONSUMERS) * LAUNCH_REGISTERS;

    static constexpr int BOXES = (WIDTH + 63) / 64; /* of 128 bytes width */
    static constexpr uint32_t Q_BOX_BYTES = 64 * 128,
                              Q_BYTES = BOXES * Q_BOX_BYTES; /* consumer's */
    static constexpr uint32_t BOX_BYTES = TILE_N * 128, SLOT_BYTES = BOXES * BOX_BYTES;
    static constexpr uint32_t SCHEDULED = 4; /* tiles that are announced or computed at once */
    static constexpr uint32_t BARRIER_BYTES = 16 * (CONSUMERS + SCHEDULED) + 32 * SCHEDULED;
    /* Shared memory starts at a multiple of 1024 bytes, for which up to 1024 bytes are skipped. */
    static constexpr uint32_t OTHER_BYTES = 1024 + CONSUMERS * Q_BYTES + BARRIER_BYTES;
    static constexpr uint32_t SHARED_BYTES_MAX = 232448; /* a block's */
    static constexpr uint32_t SLOTS_THAT_FIT = (SHARED_BYTES_MAX - OTHER_BYTES) / (SLOT_BYTES + 16);
    static constexpr uint32_t SLOTS = SLOTS_THAT_FIT < 8 ? SLOTS_THAT_FIT : 8;
    static constexpr uint32_t SHARED_BYTES = SLOTS * (SLOT_BYTES + 16) + OTHER_BYTES;

    static_assert(REGISTERS_SUFFICE<false> && REGISTERS_SUFFICE<true>, "nobody waits for ever");
    static_assert(SLOTS >= 3, "two are read while one is loaded");
    static_assert(TILE_N % 16 == 0 && BOX_BYTES % 1024 == 0, "steps of k; swizzled boxes");
};

/* Shared memory: Q of each consumer, the slots of the ring, then barriers and scheduled tiles. */
template <class C> struct attention_shared {
    uint32_t base;

    __device__ __forceinline__ uint32_t q(uint32_t consumer) const
    {
        return base + consumer * C::Q_BYTES;
    }
    __device__ __forceinline__ uint32_t slot(uint32_t i) const
    {
        return base + C::CONSUMERS * C::Q_BYTES + i * C::SLOT_BYTES;
    }
    __device__ __forceinline__ uint32_t full(uint32_t i) const
    {
        return slot(C::SLOTS) + 16 * i;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t i) const
    {
        return full(i) + 8;
    }
    __device__ __forceinline__ uint32_t q_full(uint32_t consumer) const
    {
        return full(C::SLOTS) + 16 * consumer;
    }
    __device__ __forceinline__ uint32_t q_empty(uint32_t consumer) const
    {
        return q_full(consumer) + 8;
    }
    __device__ __forceinline__ uint32_t tile_full(uint32_t i) const
    {
        return q_full(C::CONSUMERS) + 16 * i;
    }
    __device__ __forceinline__ uint32_t tile_empty(uint32_t i) const
    {
        return tile_full(i) + 8;
    }
    __device__ __forceinline__ uint32_t tile(uint32_t i) const
    {
        return tile_full(C::SCHEDULED) + 32 * i;
    }
};

/* ptx::mbarrier_wait with a longer limit before the wait counts as a fault of the kernel: exact_row
 * (attention/rows.cuh) can keep a consumer for seconds. */
__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity)
{
    uint32_t tries = 0;
    while (!ptx::mbarrier_try_wait(barrier, parity)) {
        if (++tries == 32 * ptx::WAIT_TRIES_MAX)
            asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(tries) : "memory");
    }
}

/* Tells the compiler that a value is the same for all lanes of a warp. Ring positions, and the
 * descriptors that are computed from them, are then in uniform registers. Otherwise each product of
 * V would wait until its descriptor has been moved there from an ordinary register. */
template <class T> __device__ __forceinline__ T uniform(T value)
{
    return __shfl_sync(flash::WHOLE_WARP, value, 0);
}

template <class C>
__device__ __forceinline__ void load_tile(uint32_t to, uint32_t box_bytes, const CUtensorMap *map,
                                          uint32_t barrier, uint32_t row, uint32_t head,
                                          uint32_t entry)
{
#pragma unroll
    for (int b = 0; b < C::BOXES; b++)
        ptx::tensor_load(to + b * box_bytes, map, barrier, 64 * b, (int32_t)row, (int32_t)head,
                         (int32_t)entry);
}

/* Called by one thread, which announces the tiles and keeps the ring full. */
template <class C, class Work>
__device__ __forceinline__ void attention_produce(const Work &work, const attention_shared<C> &s)
{
    ring<C::SLOTS> at(0);
    ring<C::SCHEDULED> scheduled(0);
    uint32_t q_parity = 0;
    attention_ticket ticket = {0, 0};
    go_to(work, ticket, blockIdx.x);
    for (;;) {
        wait(s.tile_empty(scheduled.stage), scheduled.parity ^ 1);
        if (ticket.index >= work.tiles) {
            ptx::store_shared(s.tile(scheduled.stage), NO_ENTRY);
            ptx::mbarrier_arrive(s.tile_full(scheduled.stage));
            break;
        }
        const attention_tile t = tile_of<C>(work, ticket);
        store_tile(s.tile(scheduled.stage), t);
        ptx::mbarrier_arrive(s.tile_full(scheduled.stage));
        scheduled.advance();
        const attention_wgmma_arguments &p = problem_of(work, ticket);
        /* The counter wraps to 0 after as many steps as there are tiles, so that it is zero again
         * at the end of the launch. */
        go_to(work, ticket,
              work.next != nullptr ? gridDim.x + atomicInc(work.next, work.tiles - 1)
                                   : ticket.index + gridDim.x);
        if (t.first == t.end) {
            for (uint32_t c = 0; c < C::CONSUMERS; c++) {
                wait(s.q_empty(c), q_parity ^ 1);
                ptx::mbarrier_arrive(s.q_full(c));
            }
            q_parity ^= 1;
            continue;
        }

        const uint32_t kv_head = t.head / p.a.group;
        const auto load = [&](const CUtensorMap *map, int32_t tile) {
            wait(s.empty(at.stage), at.parity ^ 1);
            ptx::mbarrier_arrive_expect(s.full(at.stage), C::SLOT_BYTES);
            load_tile<C>(s.slot(at.stage), C::BOX_BYTES, map, s.full(at.stage),
                         (uint32_t)tile * C::TILE_N, kv_head, t.entry);
            at.advance();
        };
        load(&p.k, t.end - 1);
        for (uint32_t c = 0; c < C::CONSUMERS; c++) {
            wait(s.q_empty(c), q_parity ^ 1);
            ptx::mbarrier_arrive_expect(s.q_full(c), C::Q_BYTES);
            load_tile<C>(s.q(c), C::Q_BOX_BYTES, &p.q, s.q_full(c), t.row + 64 * c, t.head,
                         t.entry);
        }
        q_parity ^= 1;
        for (int32_t tile = t.end - 2; tile >= t.first; tile--) {
            load(&p.k, tile);
            load(&p.v, tile + 1);
        }
        load(&p.v, t.first);
    }
}

/* A consumer's Q, in shared memory or in registers. */
template <class C, bool IN_REGISTERS = C::QUERIES_IN_REGISTERS> struct attention_queries {
    uint32_t base;

    __device__ __forceinline__ void load(uint32_t q)
    {
        base = q;
    }
    template <int COUNT>
    __device__ __forceinline__ void multiply(int k, uint64_t y, float (&s)[COUNT]) const
    {
        const uint64_t x = tile_descriptor<true, 128>(base) + k % 4 * descriptor_k_step<true>;
        wgmma<C::E, true, true>(s, x + (k / 4 * C::Q_BOX_BYTES >> 4), y, k > 0);
    }
};

template <class C> struct attention_queries<C, true> {
    uint32_t x[C::WIDTH / 16][4];

    __device__ __forceinline__ void load(uint32_t q)
    {
#pragma unroll
        for (uint32_t k = 0; k < C::WIDTH / 16; k++)
            load_queries<C>(q, k, x[k]);
    }
    template <int COUNT>
    __device__ __forceinline__ void multiply(int k, uint64_t y, float (&s)[COUNT]) const
    {
        wgmma_registers<C::E, true>(s, x[k], y, k > 0);
    }
};

/* Issues S = Q K^T of the slot's first 2 * COUNT keys. */
template <class C, int COUNT>
__device__ __forceinline__ void multiply_keys(const attention_queries<C> &q, uint32_t slot,
                                              float (&s)[COUNT])
{
    const uint64_t y = tile_descriptor<true, 128>(slot);
#pragma unroll
    for (int k = 0; k < C::WIDTH / 16; k++)
        q.multiply(k, y + k % 4 * descriptor_k_step<true> + (k / 4 * C::BOX_BYTES >> 4), s);
    wgmma_commit();
}

/* Tells the compiler that the weights are not needed any more, so that their registers are free in
 * the code before. */
template <int COUNT> __device__ __forceinline__ void clear(uint32_t (&weights)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < 4 * COUNT; i++)
        weights[i / 4][i % 4] = 0;
}

/* Issues O += P V of the slot's first KEYS keys. */
template <class C, int KEYS = C::TILE_N>
__device__ __forceinline__ void multiply_values(const uint32_t (&p)[C::TILE_N / 16][4],
                                                uint32_t slot, float (&o)[C::WIDTH / 2])
{
    const uint64_t y = tile_descriptor<false, 2 * C::TILE_N>(slot);
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
        wgmma_registers<C::E, false>(o, p[k], y + k * descriptor_k_step<false>, 1);
    wgmma_commit();
}

/* Rounds the weights `s` to the operands' type. Keys beyond those of `s` get the weight 0. */
template <class C, int COUNT>
__device__ __forceinline__ void narrow_weights(const float (&s)[COUNT],
                                               uint32_t (&p)[C::TILE_N / 16][4])
{
#pragma unroll
    for (int j = 0; j < C::TILE_N / 2; j += 2)
        p[j / 8][j / 2 % 4] =
            j < COUNT ? flash::pack<typename C::Element>(s[j % COUNT], s[j % COUNT + 1]) : 0;
}

/* Overwrites the values of the slot's keys from `first` on with zeros, by each consumer for itself.
 * Keys beyond an entry's length have the weight 0, but 0 times a NaN there would reach the sums. */
template <class C>
__device__ __forceinline__ void clear_values(uint32_t slot, uint32_t first, uint32_t consumer)
{
    const uint32_t pieces = (C::TILE_N - first) * 8; /* of 16 bytes, in a box */
#pragma unroll 1
    for (uint32_t i = threadIdx.x % 128; i < C::BOXES * pieces; i += 128) {
        const uint32_t box = i / pieces;
        const uint32_t to = slot + box * C::BOX_BYTES + first * 128 + (i - box * pieces) * 16;
        ptx::store_shared_2(to, 0, 0);
        ptx::store_shared_2(to + 8, 0, 0);
    }
    ptx::fence_async_proxy();
    ptx::barrier_sync(1 + C::CONSUMERS + consumer, 128);
}

/* A consumer's copy of the parameters of its tile's problem, for a group of problems; in shared
 * memory, so that the parameters take no registers. Initially of no problem. */
struct attention_copy {
    attention_arguments a;
    uint32_t problem;
};
constexpr uint32_t NO_PROBLEM = UINT32_MAX;

/* One consumer's loop over the keys of a tile. */
template <class C> struct attention_consumer {
    const attention_shared<C> &shared;
    const uint32_t consumer, lane, warp;
    ring<C::SLOTS> at;
    uint32_t tiles; /* that this consumer has finished */

    __device__ __forceinline__ attention_consumer(const attention_shared<C> &memory,
                                                  uint32_t number)
        : shared(memory), consumer(number), lane(threadIdx.x % 32), warp(threadIdx.x / 32 % 4),
          at(0), tiles(0)
    {
    }

    __device__ __forceinline__ void arrive(uint32_t barrier) const
    {
        if (lane == 0)
            ptx::mbarrier_arrive(barrier);
    }

    /* Tells the producer that this warp does not read Q in shared memory any more. */
    __device__ __forceinline__ void release_queries() const
    {
        __syncwarp();
        arrive(shared.q_empty(consumer));
    }

    /* Consumers take turns in issuing products: named barrier 1 + i is the turn of consumer i. */
    __device__ __forceinline__ void take_turn() const
    {
        ptx::barrier_sync(1 + consumer, 256);
    }
    __device__ __forceinline__ void give_turn() const
    {
        ptx::barrier_arrive(consumer + 1 < C::CONSUMERS ? 2 + consumer : 1, 256);
    }

    /* The tile that this consumer computes, loaded from shared memory, so that it takes no
     * registers between two uses. */
    __device__ __forceinline__ attention_tile current() const
    {
        return load_tile_of_queries(shared.tile(tiles % C::SCHEDULED));
    }
    __device__ __forceinline__ uint32_t row_of(const attention_tile &t) const
    {
        return t.row + 64 * consumer + 16 * warp + lane / 4;
    }

    /* Called before a product of V, `left` steps before the last product of V in the tile: clears
     * the values beyond the entry's length, which the first product of the tile may read. */
    __device__ __forceinline__ void clear_beyond(const attention_arguments &a, int32_t left) const
    {
        if (a.lens_q == nullptr)
            return;
        const attention_tile t = current();
        const uint32_t length = t.n.skv - (uint32_t)(t.end - 1) * C::TILE_N;
        if (left == t.end - t.first - 1 && length < C::TILE_N)
            clear_values<C>(shared.slot(at.stage), length, consumer);
    }

    __device__ __forceinline__ void store(const attention_arguments &a,
                                          const softmax_row (&state)[2],
                                          const float (&o)[C::WIDTH / 2]) const
    {
        const attention_tile t = current();
        flash::finish<typename C::Element>(a, t.n, t.entry, t.head, row_of(t), state, o);
    }

    /* Waits for the product of `weights` and V, and multiplies the sums by the factors of their
     * rows. Called in the branches that have factors, so that no other step keeps registers for
     * them. */
    static __device__ __forceinline__ void scale(const float (&factor)[2],
                                                 uint32_t (&weights)[C::TILE_N / 16][4],
                                                 float (&o)[C::WIDTH / 2])
    {
        wgmma_wait<0>();
        pin(o);
        pin(weights);
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j++)
            o[j] *= factor[j / 2 % 2];
    }

    /* Whether a lane of the warp has a sum that exceeds the limit. A NaN exceeds none. */
    static __device__ __forceinline__ bool any_exceeds(const float (&sums)[2], float limit)
    {
        return __any_sync(flash::WHOLE_WARP, sums[0] > limit || sums[1] > limit);
    }

    /* Whether all rows of the warp have a base that can be kept. */
    __device__ __forceinline__ bool have_base(const softmax_row (&state)[2]) const
    {
        return __all_sync(flash::WHOLE_WARP, has_base(state[0]) && has_base(state[1]));
    }

    /* The first step over keys: scores and weights of the first KEYS of the tile's last TILE_N
     * keys. No row of this consumer sees the keys after them. */
    template <int KEYS>
    __device__ __forceinline__ void
    weigh(const attention_arguments &a, const attention_queries<C> &q, const span &all,
          softmax_row (&state)[2], uint32_t (&weights)[C::TILE_N / 16][4])
    {
        float s[KEYS / 2];
        wgmma_fence();
        multiply_keys<C>(q, shared.slot(at.stage), s);
        wgmma_wait<0>();
        pin(s);
        arrive(shared.empty(at.stage));
        at.advance();
        const attention_tile t = current();
        adjust_scores<C>(a, s, (t.end - 1) * C::TILE_N, t.n, row_of(t), all);
        flash::softmax_step<0>(s, state[0], a.exponent_of_score);
        flash::softmax_step<1>(s, state[1], a.exponent_of_score);
        narrow_weights<C>(s, weights);
    }

    /* Computes and stores this consumer's 64 rows of tile `t`, which is current(). */
    __device__ __forceinline__ void compute(const attention_arguments &a, const attention_tile &t)
    {
        softmax_row state[2] = {{-flash::INFINITE, 0}, {-flash::INFINITE, 0}};
        float o[C::WIDTH / 2];
#pragma unroll
        for (int j = 0; j < C::WIDTH / 2; j++)
            o[j] = 0;
        wait(shared.q_full(consumer), tiles & 1);
        if (t.first == t.end) {
            release_queries();
            store(a, state, o);
            return;
        }

        /* The keys that all rows of this consumer see that exist. */
        const uint32_t first_row = uniform(t.row + 64 * consumer), row = row_of(t);
        const span low = flash::span_of(a, t.n, min(first_row, t.n.sq - 1));
        const span high = flash::span_of(a, t.n, min(first_row + 63, t.n.sq - 1));
        const span all = {high.first, low.end};
        /* The tiles of these keys, counted from the first that this tile of queries sees. Fewer
         * where a base cannot be kept. */
        const int32_t plain_first = (all.first + C::TILE_N - 1) / C::TILE_N - t.first;
        int32_t plain_end = all.end / C::TILE_N - t.first, left = uniform(t.end - t.first - 1);
        attention_queries<C> q;
        uint32_t weights[C::TILE_N / 16][4];

        q.load(uniform(shared.q(consumer)));
        at.stage = uniform(at.stage);
        if constexpr (C::QUERIES_IN_REGISTERS)
            release_queries();
        wait(shared.full(at.stage), at.parity);
        if (C::HALVES && uniform((int32_t)(high.end <= t.end * C::TILE_N - C::TILE_N / 2)))
            weigh<C::HALVES ? C::TILE_N / 2 : C::TILE_N>(a, q, all, state, weights);
        else
            weigh<C::TILE_N>(a, q, all, state, weights);

        /* Rows that do not exist get weights of 0, and their base is kept. */
        if (C::KEEPS_BASE && row >= t.n.sq)
            state[0].most = flash::INFINITE;
        if (C::KEEPS_BASE && row + 8 >= t.n.sq)
            state[1].most = flash::INFINITE;
        if (C::KEEPS_BASE && !have_base(state))
            plain_end = min(plain_end, left - 1);

#pragma unroll 1
        for (left = uniform(left); left > 0; left--) { /* uniform, as ring positions in it are */
            float s[C::TILE_N / 2];
            wait(shared.full(at.stage), at.parity);
            const uint32_t keys = at.stage;
            at.advance();
            take_turn();
            wgmma_fence();
            multiply_keys<C>(q, shared.slot(keys), s);
            wait(shared.full(at.stage), at.parity);
            clear_beyond(a, left);
            wgmma_fence();
            multiply_values<C>(weights, shared.slot(at.stage), o);
            give_turn();
            wgmma_wait<1>();
            pin(s);
            if constexpr (!C::HOLDS_KEYS)
                arrive(shared.empty(keys));
            bool online = true;
            const bool plain = left > plain_first && left <= plain_end;
            if (C::KEEPS_BASE && plain && !a.general) {
                const float sums[2] = {weigh_kept<0>(s, state[0].most, a.exponent_of_score),
                                       weigh_kept<1>(s, state[1].most, a.exponent_of_score)};
                const bool scales = any_exceeds(sums, KEPT_SUM_MAX);
                online = scales && any_exceeds(sums, SHIFTED_SUM_MAX);
                if (online) {
                    /* Frees the registers of the weights. */
                    wgmma_wait<0>();
                    pin(o);
                    pin(weights);
                    if constexpr (C::HOLDS_KEYS) {
                        multiply_again<C>(shared.q(consumer), shared.slot(keys), s);
                    } else {
                        const attention_tile again = current();
                        multiply_again<C>(a, again.entry, again.head, row_of(again),
                                          again.first + left - 1, s);
                    }
                    clear(weights);
                    plain_end = 0; /* no base is kept in this tile again */
                } else {
                    state[0].total += sums[0];
                    state[1].total += sums[1];
                    if (scales) {
                        const float factor[2] = {shift_base<0>(s, state[0]),
                                                 shift_base<1>(s, state[1])};
                        scale(factor, weights, o);
                    }
                }
            } else {
                if (a.general)
                    flash::score_all(a, s);
                if (!plain) {
                    const attention_tile masked = current();
                    mask_scores<C>(a, s, (masked.first + left - 1) * C::TILE_N, masked.n,
                                   row_of(masked), {0, 0});
                }
            }
            if constexpr (C::HOLDS_KEYS)
                arrive(shared.empty(keys));
            if (online) {
                const float factor[2] = {flash::softmax_step<0>(s, state[0], a.exponent_of_score),
                                         flash::softmax_step<1>(s, state[1], a.exponent_of_score)};
                scale(factor, weights, o);
                if (C::KEEPS_BASE && !have_base(state))
                    plain_end = min(plain_end, left - 2);
            }
            wgmma_wait<0>();
            pin(o);
            pin(weights);
            arrive(shared.empty(at.stage));
            at.advance();
            narrow_weights<C>(s, weights);
        }
        if constexpr (!C::QUERIES_IN_REGISTERS)
            release_queries();

        wait(shared.full(at.stage), at.parity);
        clear_beyond(a, 0);
        wgmma_fence();
        multiply_values<C>(weights, shared.slot(at.stage), o);
        wgmma_wait<0>();
        pin(o);
        arrive(shared.empty(at.stage));
        at.advance();
        store(a, state, o);
    }

    __device__ __forceinline__ const attention_arguments &
    arguments_of(const attention_wgmma_arguments &p, uint32_t, attention_copy *) const
    {
        return p.a;
    }

    /* The parameters of the tile's problem in a group. Called by all threads of the consumer, which
     * have the same tile. The copy is replaced once no thread reads it any more. */
    __device__ __forceinline__ const attention_arguments &
    arguments_of(const attention_wgmma_group &group, uint32_t problem, attention_copy *copies) const
    {
        attention_copy &copy = copies[consumer];
        constexpr uint32_t WORDS = sizeof copy.a / sizeof(uint32_t);
        static_assert(sizeof copy.a % sizeof(uint32_t) == 0 && WORDS < 128, "a word a thread");
        if (copy.problem != problem) {
            const uint32_t thread = threadIdx.x % 128;
            const attention_arguments &from = group.problems[problem].a;
            ptx::barrier_sync(1 + C::CONSUMERS + consumer, 128);
            if (thread < WORDS)
                reinterpret_cast<uint32_t *>(&copy.a)[thread] =
                    reinterpret_cast<const uint32_t *>(&from)[thread];
            else if (thread == WORDS)
                copy.problem = problem;
            ptx::barrier_sync(1 + C::CONSUMERS + consumer, 128);
        }
        return copy.a;
    }

    /* Computes tiles until the producer announces that none is left. `copies`: one for each
     * consumer, in shared memory; not used for a single problem. */
    template <class Work>
    __device__ __forceinline__ void run(const Work &work, attention_copy *copies)
    {
        if (consumer + 1 == C::CONSUMERS)
            give_turn(); /* the first turn, to consumer 0 */
        for (;; tiles++) {
            const ring<C::SCHEDULED> scheduled(tiles);
            wait(shared.tile_full(scheduled.stage), scheduled.parity);
            attention_tile t = current();
            t.entry = uniform(t.entry);
            t.problem = uniform(t.problem);
            t.first = uniform(t.first);
            t.end = uniform(t.end);
            if (t.entry == NO_ENTRY)
                break;
            compute(arguments_of(work, t.problem, copies), t);
            __syncwarp();
            arrive(shared.tile_empty(scheduled.stage));
        }
        if (consumer == 0)
            take_turn(); /* the last turn, so that no arrival at a barrier is left */
    }
};

/* The code of a block. */
template <class C, class Work> __device__ __forceinline__ void attention_block(const Work &work)
{
    extern __shared__ unsigned char shared_memory[];
    const attention_shared<C> s = {(ptx::shared_address(shared_memory) + 1023) & ~1023u};
    /* The same for all threads of a warpgroup; the shuffle tells the compiler so. */
    const uint32_t warpgroup = uniform(threadIdx.x / 128);
    if (threadIdx.x == 0) {
        prefetch(problem_of(work, {0, 0}));
        for (uint32_t i = 0; i < C::SLOTS; i++) {
            ptx::mbarrier_init(s.full(i), 1);
            ptx::mbarrier_init(s.empty(i), 4 * C::CONSUMERS); /* every warp that reads arrives */
        }
        for (uint32_t i = 0; i < C::CONSUMERS; i++) {
            ptx::mbarrier_init(s.q_full(i), 1);
            ptx::mbarrier_init(s.q_empty(i), 4);
        }
        for (uint32_t i = 0; i < C::SCHEDULED; i++) {
            ptx::mbarrier_init(s.tile_full(i), 1);
            ptx::mbarrier_init(s.tile_empty(i), 4 * C::CONSUMERS);
        }
        ptx::mbarrier_init_fence();
    }
    attention_copy *copies = nullptr;
    if constexpr (IS_GROUP<Work>) {
        __shared__ attention_copy of_consumers[C::CONSUMERS];
        static_assert(C::SHARED_BYTES + sizeof of_consumers <= C::SHARED_BYTES_MAX, "they fit");
        copies = of_consumers;
        if (threadIdx.x < C::CONSUMERS)
            copies[threadIdx.x].problem = NO_PROBLEM;
    }
    __syncthreads();
    ptx::later_kernels_allow();
    ptx::earlier_kernels_wait();
    if (warpgroup == 0) {
        ptx::registers_give<C::template PRODUCER_REGISTERS<IS_GROUP<Work>>>();
        if (threadIdx.x == 0)
            attention_produce<C>(work, s);
        __syncwarp();
    } else {
        ptx::registers_take<C::template CONSUMER_REGISTERS<IS_GROUP<Work>>>();
        attention_consumer<C>(s, warpgroup - 1).run(work, copies);
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    attention_wgmma(const __grid_constant__ attention_wgmma_arguments p)
{
    attention_block<C>(p);
}

/* The kernel for several problems of the same width and masks. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    attention_wgmma_several(const __grid_constant__ attention_wgmma_group group)
{
    static_assert(sizeof group <= ATTENTION_GROUP_PARAMETER_BYTES, "a launch's parameters");
    attention_block<C>(group);
}

} // namespace sm90

#endif
