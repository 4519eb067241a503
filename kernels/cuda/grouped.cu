/*
 * grouped - many products of any shapes and types in one launch, straight on operands in device
 * memory or in mapped host memory.
 *
 * A block computes one tile of 64 x 64 of one product; a prefix sum over the tiles says of which. A
 * warp whose 32 x 32 part lies outside of C only helps with loading. What bounds small products is
 * not arithmetic but the way there and back: copies of four slabs are started at once, and results
 * leave by whole rows of a warp's part.
 */
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/grouped.h"
#include "kernels/cuda/grouped_load.cuh"
#include "kernels/cuda/grouped_multiply.cuh"
#include "kernels/cuda/launch.cuh"

namespace grouped
{

static_assert(sizeof(struct grouped_parameters) <= 4096, "a launch's parameters");
static_assert(WARP_TILE * 2 == TILE && THREADS == 4 * 32, "four warps, one a quarter of a tile");

/* What a block computes: a tile of a product. In shared memory. */
struct task {
    struct grouped_entry entry;
    struct source operands[2]; // A and B
    uint32_t row, column;      // the tile's first
};

/* The last of first[0 ... count) that is not above `tile`; first[0] is 0. By a whole warp: each
 * round looks at 32 of them. */
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

/* `first` is the tile's first row or column, of `rows`; k is the other side. */
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

static __device__ __forceinline__ void describe(struct task *task, uint32_t tile)
{
    const struct grouped_entry &e = task->entry;
    const uint32_t across = (e.n + TILE - 1) / TILE;
    const uint32_t size = e.dtype == GEMMD_F64                            ? 8
                          : e.dtype == GEMMD_F32                          ? 4
                          : e.dtype == GEMMD_F16 || e.dtype == GEMMD_BF16 ? 2
                                                                          : 1;
    task->row = tile / across * TILE;
    task->column = tile % across * TILE;
    task->operands[0] = source_of(e.a, e.lda, e.m, e.k, task->row, !(e.transposed & 1), size);
    task->operands[1] = source_of(e.b, e.ldb, e.n, e.k, task->column, e.transposed & 2, size);
}

/* The parameters are constant memory and addressed as such; hence the two branches. */
static __device__ __forceinline__ void find_task(struct task *task,
                                                 const struct grouped_parameters &p)
{
    if (threadIdx.x < 32) {
        const uint32_t tile = blockIdx.x;
        uint32_t i, first;
        if (p.table.entries != nullptr) {
            i = find(p.table.first, p.count, tile);
            copy_entry(&task->entry, &p.table.entries[i]);
            first = p.table.first[i];
        } else {
            i = find(p.first, p.count, tile);
            copy_entry(&task->entry, &p.entries[i]);
            first = p.first[i];
        }
        __syncwarp();
        if (threadIdx.x == 0)
            describe(task, tile - first);
    }
    __syncthreads();
}

template <typename In, typename Sum>
static __device__ __forceinline__ void multiply(const struct task &task, char *slabs,
                                                Sum (&sums)[ROWS][COLUMNS])
{
    constexpr uint32_t depth = DEPTH<In>;
    const uint32_t k = task.entry.k, count = (k + depth - 1) / depth;
    const uint32_t row = threadIdx.x / 64 * WARP_TILE, column = threadIdx.x / 32 % 2 * WARP_TILE;
    const bool computes = row < task.operands[0].extent && column < task.operands[1].extent;
    const uint32_t to = (uint32_t)__cvta_generic_to_shared(slabs);
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
        for (uint32_t j = 0; j < COLUMNS; j++)
            sums[i][j] = 0;

            /* Slab `step` is loaded and slab step - (SLABS - 1) multiplied, as far as there are
             * such. */
#pragma unroll 1
    for (uint32_t step = 0; step < count + SLABS - 1; step++) {
        if (step < count) {
            const uint32_t rest = k - step * depth;
#pragma unroll 1
            for (uint32_t operand = 0; operand < 2; operand++)
                load_slab<In>(to + step % SLABS * SLAB_BYTES + operand * OPERAND_BYTES,
                              task.operands[operand], step * depth, rest < depth ? rest : depth);
        }
        copies_commit();
        if (step < SLABS - 1)
            continue;
        const uint32_t slab = step - (SLABS - 1), rest = k - slab * depth;
        copies_wait<SLABS - 1>();
        __syncthreads();
        if (computes)
            multiply_slab<In, Sum>(sums, slabs + slab % SLABS * SLAB_BYTES, row, column,
                                   rest < depth ? rest : depth, task.operands[0].along_k,
                                   task.operands[1].along_k);
        __syncthreads();
    }
}

/* From sums to C, turned round in the warp's own part of shared memory such that a lane has a
 * column, and loads and stores are of whole rows. */
template <typename Sum, typename Out>
static __device__ __forceinline__ void finish(const struct task &task, char *slabs,
                                              const Sum (&sums)[ROWS][COLUMNS])
{
    using compute = typename epilogue<Out>::compute;
    constexpr uint32_t pitch = WARP_TILE + 16 / sizeof(compute), batch = 8;
    constexpr uint32_t slabs_needed = GROUPED_SLABS_NEEDED(sizeof(compute));
    static_assert(WARP_TILE * pitch * sizeof(compute) <= slabs_needed * SLAB_BYTES / 4,
                  "a warp's part of the slabs holds its sums");
    const struct grouped_entry &e = task.entry;
    const epilogue<Out> finish(e.alpha, e.beta, (enum gemm_act)e.act, e.bias, e.c0, e.c, e.ldc0,
                               e.ldc);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t first_row = task.row + warp / 2 * WARP_TILE;
    const uint32_t column = task.column + warp % 2 * WARP_TILE + lane;
    const bool inside = column < e.n;
    const compute bias =
        finish.bias != nullptr && inside ? (compute)widen(finish.bias[column]) : (compute)0;
    compute *values = (compute *)(slabs + warp * (slabs_needed * SLAB_BYTES / 4)); // [32][pitch]

#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
        for (uint32_t j = 0; j < COLUMNS; j++)
            values[place<ROW_LANES>(lane / COLUMN_LANES, i, task.operands[0].along_k) * pitch +
                   place<COLUMN_LANES>(lane % COLUMN_LANES, j, task.operands[1].along_k)] =
                (compute)sums[i][j];
    __syncwarp();
    if (!inside)
        return;
#pragma unroll 1
    for (uint32_t i = 0; i < WARP_TILE && first_row + i < e.m; i += batch) {
        const uint32_t row = first_row + i, rows = e.m - row < batch ? e.m - row : batch;
        compute c0[batch]; // all loads before their first use
#pragma unroll
        for (uint32_t j = 0; j < batch; j++)
            c0[j] = finish.c0 != nullptr && j < rows
                        ? (compute)widen(finish.c0[(uint64_t)(row + j) * finish.ldc0 + column])
                        : (compute)0;
#pragma unroll
        for (uint32_t j = 0; j < batch; j++)
            values[(i + j) * pitch + lane] =
                finish.before_act(values[(i + j) * pitch + lane], c0[j], bias);
        if (finish.act != GEMM_ACT_NONE)
#pragma unroll 1
            for (uint32_t j = 0; j < rows; j++)
                values[(i + j) * pitch + lane] =
                    activate<compute>(finish.act, values[(i + j) * pitch + lane]);
        Out *c = finish.c + (uint64_t)row * finish.ldc + column;
#pragma unroll
        for (uint32_t j = 0; j < batch; j++)
            if (j < rows)
                narrow(values[(i + j) * pitch + lane], &c[j * finish.ldc]);
    }
}

/* At most 3 blocks a multiprocessor fit with all their slabs. */
__global__ void __launch_bounds__(THREADS, 3)
    grouped_kernel(const __grid_constant__ struct grouped_parameters parameters)
{
    extern __shared__ __align__(128) char slabs[];
    __shared__ struct task task;
    find_task(&task, parameters);
    const uint8_t dtype = task.entry.dtype, out = task.entry.out;

    if (dtype == GEMMD_F64) {
        double sums[ROWS][COLUMNS];
        multiply<double>(task, slabs, sums);
        finish<double, double>(task, slabs, sums);
    } else if (dtype == GEMMD_I8) {
        int32_t sums[ROWS][COLUMNS];
        multiply<int8_t>(task, slabs, sums);
        if (out == GEMMD_I32)
            finish<int32_t, int32_t>(task, slabs, sums);
        else
            finish<int32_t, float>(task, slabs, sums);
    } else {
        float sums[ROWS][COLUMNS];
        if (dtype == GEMMD_F32)
            multiply<float>(task, slabs, sums);
        else if (dtype == GEMMD_F16)
            multiply<__half>(task, slabs, sums);
        else if (dtype == GEMMD_BF16)
            multiply<__nv_bfloat16>(task, slabs, sums);
        else
            multiply<__nv_fp8_e4m3>(task, slabs, sums);
        if (out == GEMMD_F32)
            finish<float, float>(task, slabs, sums);
        else if (out == GEMMD_F16)
            finish<float, __half>(task, slabs, sums);
        else
            finish<float, __nv_bfloat16>(task, slabs, sums);
    }
}

} // namespace grouped

enum gemmd_error grouped_prepare(void)
{
    return cuda_error_code(cudaFuncSetAttribute(grouped::grouped_kernel,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                (int)(grouped::SLABS * grouped::SLAB_BYTES)));
}

enum gemmd_error grouped_start(cudaStream_t stream, const struct grouped_parameters *parameters,
                               uint32_t tiles, uint32_t slabs)
{
    return launch_with_memory(grouped::grouped_kernel, dim3(tiles), dim3(grouped::THREADS),
                              slabs * grouped::SLAB_BYTES, stream, *parameters);
}
