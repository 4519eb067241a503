/*
 * tile.cuh - the code of one block of a grouped kernel: finds the block's tile of 64 x 64 of one
 * product of the list, by a prefix sum over the tiles, and computes the tile.
 *
 * A warp whose part (32 x 32, or 16 x 64) lies outside of C only helps with the loads. Small
 * products are bound by latency, not by arithmetic: copies of as many slabs as fit are started at
 * once, and results are stored in full rows of a warp's part.
 */
#ifndef KERNELS_CUDA_GROUPED_TILE_CUH
#define KERNELS_CUDA_GROUPED_TILE_CUH

#include "kernels/cuda/grouped/chain.cuh"
#include "kernels/cuda/grouped/finish.cuh"
#include "kernels/cuda/grouped/grouped.h"
#include "kernels/cuda/grouped/load.cuh"
#include "kernels/cuda/grouped/tensor.cuh"
#include "kernels/cuda/grouped/wgmma.cuh"

namespace grouped
{

/* The tile of a product that a block computes. In shared memory. */
struct task {
    struct grouped_entry entry;
    struct source operands[2]; // A and B
    uint32_t row, column;      // the tile's first
};

/* The index of the last element of first[0] ... first[count - 1] that is not above `tile`; first[0]
 * is 0. Called by a whole warp, which looks at 32 elements in each round. */
static __device__ __forceinline__ uint32_t find(const uint32_t *first, uint32_t count,
                                                uint32_t tile)
{
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t step = (high - low + 31) / 32, i = low + threadIdx.x % 32 * step;
        const uint32_t below = __ballot_sync(~0u, i < high && first[i] <= tile);
        low += (uint32_t)(__popc(below) - 1) * step;
        high = low + step < high ? low + step : high;
    }
    return low;
}

static __device__ __forceinline__ void copy_entry(struct grouped_entry *to,
                                                  const struct grouped_entry *from)
{
    constexpr uint32_t words = sizeof *to / 4;
    static_assert(words <= 32 && sizeof *to % 4 == 0, "a word for each lane");
    if (threadIdx.x < words)
        ((uint32_t *)to)[threadIdx.x] = ((const uint32_t *)from)[threadIdx.x];
}

/* Describes an operand of `rows` rows of A or columns of B by `k`, for the tile that begins at row
 * or column `first`. `size`: bytes of an element. */
static __device__ __forceinline__ struct source source_of(const void *data, uint64_t ld,
                                                          uint32_t rows, uint32_t k, uint32_t first,
                                                          bool along_k, uint32_t size)
{
    const uint64_t lines = along_k ? rows : k, length = along_k ? k : rows;
    struct source s;
    s.begin = (const char *)data;
    s.end = s.begin + ((lines - 1) * ld + length) * size;
    s.start = s.begin + first * (along_k ? ld : 1) * size;
    s.ld = ld * size;
    s.extent = rows - first < TILE ? rows - first : TILE;
    s.along_k = along_k;
    return s;
}

/* Describes the operands of a tile. Called by two threads, one for each operand. */
static __device__ __forceinline__ void describe(struct task *task, uint32_t tile)
{
    const struct grouped_entry &e = task->entry;
    const uint32_t across = (e.n + TILE - 1) / TILE;
    const uint32_t size = e.dtype == GEMMD_F64                            ? 8
                          : e.dtype == GEMMD_F32                          ? 4
                          : e.dtype == GEMMD_F16 || e.dtype == GEMMD_BF16 ? 2
                                                                          : 1;
    const uint32_t row = tile / across * TILE, column = tile % across * TILE;
    if (threadIdx.x == 0) {
        task->row = row;
        task->operands[0] = source_of(e.a, e.lda, e.m, e.k, row, !(e.transposed & 1), size);
    } else {
        task->column = column;
        task->operands[1] = source_of(e.b, e.ldb, e.n, e.k, column, e.transposed & 2, size);
    }
}

/* Finds the task of this block. Called by all threads. The list is in constant memory (parameters)
 * or in device memory; in two branches, so that the compiler knows which. */
static __device__ __forceinline__ void find_task(struct task *task,
                                                 const struct grouped_parameters &p)
{
    if (threadIdx.x < 32) {
        const uint32_t tile = blockIdx.x;
        uint32_t i, first;
        if (p.table.entries != nullptr) {
            /* The parameters say in which 32nd of the list to look. */
            const uint32_t step = GROUPED_INDEX_STEP(p.count), lane = threadIdx.x;
            const bool below = lane * step < p.count && p.first[lane] <= tile;
            const uint32_t low = (uint32_t)(__popc(__ballot_sync(~0u, below)) - 1) * step;
            i = low + find(p.table.first + low, min(step, p.count - low), tile);
            copy_entry(&task->entry, &p.table.entries[i]);
            first = p.table.first[i];
        } else {
            i = find(p.first, p.count, tile);
            copy_entry(&task->entry, &p.entries[i]);
            first = p.first[i];
        }
        __syncwarp();
        if (threadIdx.x < 2)
            describe(task, tile - first);
    }
    __syncthreads();
}

/* Finds the tile in a list of f32. The list is read as memory, because constants are slow if lanes
 * read different ones; all of `first` is read at once. */
static __device__ __forceinline__ void find_task(struct task *task,
                                                 const struct grouped_f32_parameters &parameters)
{
    constexpr uint32_t rounds = GROUPED_F32_MAX / 32;
    if (threadIdx.x < 32) {
        const struct grouped_f32_parameters *p = &parameters;
        asm volatile("" : "+l"(p)); // the compiler no longer knows that they are constants
        uint32_t first[rounds], below = 0;
#pragma unroll
        for (uint32_t i = 0; i < rounds; i++)
            first[i] = p->first[i * 32 + threadIdx.x];
#pragma unroll
        for (uint32_t i = 0; i < rounds; i++)
            asm volatile("" : "+r"(first[i])); // all loads before their first use
#pragma unroll
        for (uint32_t i = 0; i < rounds; i++)
            below += (uint32_t)__popc(__ballot_sync(~0u, first[i] <= blockIdx.x));
        copy_entry(&task->entry, &p->entries[below - 1]);
        const uint32_t tile = blockIdx.x - p->first[below - 1];
        __syncwarp();
        if (threadIdx.x < 2)
            describe(task, tile);
    }
    __syncthreads();
}

template <typename T> constexpr int dtype_of = GEMMD_F32;
template <> constexpr int dtype_of<double> = GEMMD_F64;
template <> constexpr int dtype_of<__half> = GEMMD_F16;
template <> constexpr int dtype_of<__nv_bfloat16> = GEMMD_BF16;
template <> constexpr int dtype_of<int32_t> = GEMMD_I32;

/* The part of the calling warp. */
static __device__ __forceinline__ struct part part_of(const struct task &task)
{
    struct part part;
    part.row = thread() / 64 * WARP_TILE;
    part.column = thread() / 32 % 2 * WARP_TILE;
    part.rows = clip(task.operands[0].extent, part.row, WARP_TILE);
    part.columns = clip(task.operands[1].extent, part.column, WARP_TILE);
    part.a_along_k = task.operands[0].along_k;
    part.b_along_k = task.operands[1].along_k;
    return part;
}

template <uint32_t PENDING> static __device__ __forceinline__ void await_slab()
{
    copies_wait<PENDING>();
    __syncthreads(); // also: all have multiplied the slab before
}

/* Adds the products of all k to the sums of this warp. As many slabs are in flight as fit. */
template <typename In, typename Sums>
static __device__ __forceinline__ void multiply(const struct task &task, char *slabs, Sums &sums)
{
    constexpr uint32_t depth = DEPTH<In>, ring = Sums::SLABS;
    uint32_t count = 1;
#pragma unroll 1
    for (uint32_t step = 0; step < count + ring - 1; step++) {
        /* Values that are in shared memory need not stay in registers. */
        const uint32_t k = task.entry.k;
        count = (k + depth - 1) / depth;
        if (step >= ring)
            await_slab<ring - 2>();
        if (step < count) {
            const uint32_t first = step * depth, rest = k - first;
            const uint32_t to =
                (uint32_t)__cvta_generic_to_shared(slabs) + step % ring * SLAB_BYTES;
#pragma unroll 1
            for (uint32_t operand = 0; operand < 2; operand++)
                load_slab<In, Sums::FILL, Sums::SHIFTED>(to + operand * OPERAND_BYTES,
                                                         task.operands[operand], first,
                                                         rest < depth ? rest : depth);
        }
        copies_commit();
        if (step < ring - 1)
            continue;
        if (step == ring - 1)
            await_slab<ring - 1>();
        const uint32_t slab = step - (ring - 1), rest = task.entry.k - slab * depth;
        const char *from = slabs + slab % ring * SLAB_BYTES;
        const struct part part = part_of(task);
        if (part.rows > 0 && part.columns > 0)
            sums.add(from, task.operands, part, rest < depth ? rest : depth);
    }
    __syncthreads();
}

/* Computes and stores a tile. C has one of the types Outs. */
template <typename In, typename Sums, typename... Outs>
static __device__ __forceinline__ void compute(const struct task &task, char *slabs)
{
    Sums sums;
    multiply<In>(task, slabs, sums);
    const struct part part = part_of(task);
    const int out = task.entry.out;
    if (part.rows == 0 || part.columns == 0)
        return;
    (void)((out == dtype_of<Outs> && (finish<Outs>(task.entry, task.row + part.row,
                                                   task.column + part.column, slabs, sums, part),
                                      true)) ||
           ...);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <typename... Outs>
static __device__ __forceinline__ void compute_wide(const struct task &task, char *memory)
{
    struct wide_sums sums;
    sums.multiply(task.operands, task.entry.k, memory);
    const struct part part = wide_sums::part_of(task.operands);
    const int out = task.entry.out;
    if (part.rows == 0)
        return;
    (void)((out == dtype_of<Outs> &&
            (finish<Outs>(task.entry, task.row + part.row, task.column, memory, sums, part),
             true)) ||
           ...);
}
#endif

/* Computes and stores a tile on tensor cores, or by chains if the result is f32 and k is so short
 * that tensor cores would be less exact. */
template <typename In, typename... Outs>
static __device__ __forceinline__ void compute_floats(const struct task &task, char *slabs)
{
    if (task.entry.out == GEMMD_F32 && task.entry.k < TENSOR_K_MIN)
        compute<In, chain_sums<In, float>, float>(task, slabs);
    else
        compute<In, tensor_sums<In>, float, Outs...>(task, slabs);
}

/* Computes a tile of f32, for which Hopper has code of its own. */
template <typename... Outs>
static __device__ __forceinline__ void compute_f32(const struct task &task, char *memory)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (task.entry.out == GEMMD_F32 && task.entry.k < WIDE_K_MIN)
        compute<float, chain_sums<float, float>, float>(task, memory);
    else
        compute_wide<float, Outs...>(task, memory);
#else
    compute_floats<float, Outs...>(task, memory);
#endif
}

} // namespace grouped

#endif
