/*
 * tiles.cuh - the tiles of queries of a launch of flash_wgmma.cuh: their order, and which problem
 * of a group a tile belongs to. The producer of a block computes them.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_TILES_CUH
#define KERNELS_CUDA_SM90_ATTENTION_TILES_CUH

#include "kernels/cuda/attention/rows.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/attention/flash_wgmma.h"

namespace sm90
{

using flash::lengths;
using flash::span;

/* A tile of queries, and the tiles of keys that they see: numbers first ... end - 1. */
struct attention_tile {
    uint32_t entry, head, row; /* row: the first query */
    uint32_t problem;          /* the number of the problem in a group */
    lengths n;                 /* of the batch entry */
    int32_t first, end;
};
constexpr uint32_t NO_ENTRY = UINT32_MAX; /* there are no more tiles */

/* The producer stores a tile in shared memory (32 bytes at `to`), and the consumers load it. */
__device__ __forceinline__ void store_tile(uint32_t to, const attention_tile &t)
{
    ptx::store_shared_4(to, t.entry, t.head, t.row, t.problem);
    ptx::store_shared_4(to + 16, t.n.sq, t.n.skv, (uint32_t)t.first, (uint32_t)t.end);
}
__device__ __forceinline__ attention_tile load_tile_of_queries(uint32_t from)
{
    const uint4 where = ptx::load_shared_4(from), what = ptx::load_shared_4(from + 16);
    return {where.x, where.y, where.z, where.w, {what.x, what.y}, (int32_t)what.z, (int32_t)what.w};
}

/* Tile number `index` in the order in which tiles are computed: section of heads by section. Within
 * a section, the tiles of the same rows of all heads follow each other; with a causal mask, the
 * last rows, which see the most keys, come first. The last section also has the heads that remain,
 * so that the launch ends with the short tiles of many heads. */
template <class C>
__device__ __forceinline__ attention_tile attention_tile_at(const attention_wgmma_arguments &p,
                                                            uint32_t index)
{
    const uint32_t heads = p.a.batch * p.a.heads, per_section = p.heads_at_once * p.tile_rows;
    const uint32_t section = min(index / per_section, p.sections - 1);
    const uint32_t in_section = index - section * per_section;
    const uint32_t first_head = section * p.heads_at_once;
    const uint32_t count = section + 1 < p.sections ? p.heads_at_once : heads - first_head;
    const uint32_t rank = in_section / count, number = first_head + in_section - rank * count;
    attention_tile t;
    t.entry = number / p.a.heads;
    t.head = number - t.entry * p.a.heads;
    t.row = (p.a.causal ? p.tile_rows - 1 - rank : rank) * C::TILE_M;
    t.problem = 0;
    t.n = flash::lengths_of(p.a, t.entry);
    t.first = t.end = 0;
    if (t.row < t.n.sq) {
        const span from = flash::span_of(p.a, t.n, t.row);
        const span to = flash::span_of(p.a, t.n, min(t.row + C::TILE_M, t.n.sq) - 1);
        if (to.end > from.first) {
            t.first = from.first / C::TILE_N;
            t.end = (to.end + C::TILE_N - 1) / C::TILE_N;
        }
    }
    return t;
}

/* ---- what a launch computes: tiles of one problem, or of several ---- */

/* The tile at which the producer is: its number, counted through all problems, and the problem. */
struct attention_ticket {
    uint32_t index, problem;
};

__device__ __forceinline__ const attention_wgmma_arguments &
problem_of(const attention_wgmma_arguments &p, const attention_ticket &)
{
    return p;
}
__device__ __forceinline__ const attention_wgmma_arguments &
problem_of(const attention_wgmma_group &group, const attention_ticket &ticket)
{
    return group.problems[ticket.problem];
}

template <class C>
__device__ __forceinline__ attention_tile tile_of(const attention_wgmma_arguments &p,
                                                  const attention_ticket &ticket)
{
    return attention_tile_at<C>(p, p.first_tile + ticket.index);
}
template <class C>
__device__ __forceinline__ attention_tile tile_of(const attention_wgmma_group &group,
                                                  const attention_ticket &ticket)
{
    attention_tile t = attention_tile_at<C>(group.problems[ticket.problem],
                                            ticket.index - group.first[ticket.problem]);
    t.problem = ticket.problem;
    return t;
}

__device__ __forceinline__ void prefetch(const attention_wgmma_arguments &p)
{
    ptx::tensor_map_prefetch(&p.q);
    ptx::tensor_map_prefetch(&p.k);
    ptx::tensor_map_prefetch(&p.v);
}

/* Moves the ticket to tile `index`, which is not before the ticket's tile. */
__device__ __forceinline__ void go_to(const attention_wgmma_arguments &, attention_ticket &ticket,
                                      uint32_t index)
{
    ticket.index = index;
}
__device__ __forceinline__ void go_to(const attention_wgmma_group &group, attention_ticket &ticket,
                                      uint32_t index)
{
    const uint32_t before = ticket.problem;
    ticket.index = index;
    while (ticket.problem + 1 < group.count && group.first[ticket.problem + 1] <= index)
        ticket.problem++;
    if (ticket.problem != before)
        prefetch(group.problems[ticket.problem]);
}

template <class Work> constexpr bool IS_GROUP = false;
template <> constexpr bool IS_GROUP<attention_wgmma_group> = true;

} // namespace sm90

#endif
