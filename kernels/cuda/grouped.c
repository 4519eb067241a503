/*
 * The lists of the grouped kernel. Short ones travel as the launch's parameters, which costs the
 * host least; longer ones are written to pinned memory and copied before it.
 */
#include "kernels/cuda/grouped.h"

#include <stdlib.h>

#include "kernels/cuda/context.h"
#include "proto/dtype.h"

static uint64_t tiles_of(uint64_t m, uint64_t n)
{
    return (m + GROUPED_TILE - 1) / GROUPED_TILE * ((n + GROUPED_TILE - 1) / GROUPED_TILE);
}

static bool takes(const struct gemm_problem *p)
{
    return gemm_problem_offered(p) && p->lda <= UINT32_MAX && p->ldb <= UINT32_MAX &&
           p->ldc0 <= UINT32_MAX && p->ldc <= UINT32_MAX && tiles_of(p->m, p->n) <= INT32_MAX;
}

static bool no_workspace(const struct gemm_problem *problem, uint64_t *out)
{
    (void)problem;
    *out = 0;
    return true;
}

static struct grouped_entry entry_of(const struct gemm_problem *p, uint64_t index)
{
    /* Most are alone, and sizes are not looked up for nothing. */
    const uint64_t in = index > 0 ? dtype_size(p->dtype) : 0;
    const uint64_t out = index > 0 ? dtype_size(p->out) : 0;
    return (struct grouped_entry){
        .a = (const char *)p->a + index * p->stride_a * in,
        .b = (const char *)p->b + index * p->stride_b * in,
        .bias = p->bias,
        .c0 = p->beta != 0 ? (const char *)p->c0 + index * p->stride_c0 * out : NULL,
        .c = (char *)p->c + index * p->stride_c * out,
        .alpha = p->alpha,
        .beta = p->beta,
        .m = (uint32_t)p->m,
        .n = (uint32_t)p->n,
        .k = (uint32_t)p->k,
        .lda = (uint32_t)p->lda,
        .ldb = (uint32_t)p->ldb,
        .ldc0 = (uint32_t)p->ldc0,
        .ldc = (uint32_t)p->ldc,
        .dtype = (uint8_t)p->dtype,
        .out = (uint8_t)p->out,
        .act = (uint8_t)p->act,
        .transposed = (uint8_t)((p->transa ? 1 : 0) | (p->transb ? 2 : 0)),
    };
}

/* From the longest k to the shortest. */
static uint32_t length_class(uint64_t k_bytes)
{
    const uint64_t length = k_bytes / GROUPED_CLASS_BYTES;
    return length < GROUPED_CLASSES ? GROUPED_CLASSES - 1 - (uint32_t)length : 0;
}

/* Puts those first whose tiles take longest, so that none of them is alone at the end. */
static void sort(struct grouped_space *space, uint32_t count)
{
    uint32_t places[GROUPED_CLASSES + 1] = {0};
    for (uint32_t i = 0; i < count; i++)
        places[space->items[i].length_class + 1]++;
    for (uint32_t i = 0; i < GROUPED_CLASSES; i++)
        places[i + 1] += places[i];
    for (uint32_t i = 0; i < count; i++)
        space->order[places[space->items[i].length_class]++] = (uint16_t)i;
}

/* Writes the entries in their order; first[i] becomes the number of tiles before entry i. Returns
 * that of all. */
static uint32_t write_list(const struct grouped_space *space, uint32_t count,
                           struct grouped_entry *entries, uint32_t *first)
{
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct grouped_item *item = &space->items[space->order[i]];
        entries[i] = entry_of(item->problem, item->index);
        first[i] = (uint32_t)tiles;
        tiles += tiles_of(item->problem->m, item->problem->n);
    }
    return (uint32_t)tiles;
}

/* Puts the list into device memory, in stream order. */
static cudaError_t send_table(struct cuda_context *context, struct grouped_parameters *parameters,
                              uint32_t *tiles)
{
    struct grouped_space *space = context->grouped;
    const uint32_t count = parameters->count;
    const uint64_t entries_bytes = count * sizeof(struct grouped_entry);
    struct grouped_table *table = &space->tables[space->next++ % GROUPED_TABLES];
    cudaError_t error = cudaEventSynchronize(table->copied); /* what it held before is copied */
    if (error != cudaSuccess)
        return error;
    *tiles = write_list(space, count, (struct grouped_entry *)(void *)table->pinned,
                        (uint32_t *)(void *)(table->pinned + entries_bytes));
    parameters->table = (struct grouped_list){
        .first = (const uint32_t *)(const void *)(space->device + entries_bytes),
        .entries = (const struct grouped_entry *)(const void *)space->device,
    };
    error = cudaMemcpyAsync(space->device, table->pinned, entries_bytes + count * sizeof(uint32_t),
                            cudaMemcpyHostToDevice, context->stream);
    if (error == cudaSuccess)
        error = cudaEventRecord(table->copied, context->stream);
    return error;
}

cudaError_t grouped_space_create(struct grouped_space **out)
{
    struct grouped_space *space = calloc(1, sizeof *space);
    *out = space;
    if (space == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t error = cudaMalloc((void **)&space->device, GROUPED_TABLE_BYTES);
    for (uint32_t i = 0; i < GROUPED_TABLES && error == cudaSuccess; i++) {
        error = cudaHostAlloc((void **)&space->tables[i].pinned, GROUPED_TABLE_BYTES,
                              cudaHostAllocDefault);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&space->tables[i].copied, cudaEventDisableTiming);
    }
    return error;
}

void grouped_space_destroy(struct grouped_space *space)
{
    if (space == NULL)
        return;
    (void)cudaFree(space->device);
    for (uint32_t i = 0; i < GROUPED_TABLES; i++) {
        (void)cudaFreeHost(space->tables[i].pinned);
        if (space->tables[i].copied != NULL)
            (void)cudaEventDestroy(space->tables[i].copied);
    }
    free(space);
}

/* What is in space->items and not launched yet. */
struct pending {
    uint32_t count;
    uint64_t tiles;
    uint32_t bytes; /* the most shared memory that a product needs */
};

static uint32_t bytes_of(const struct gemm_problem *p, uint64_t k_bytes)
{
    const uint64_t long_k = (uint64_t)GROUPED_SLABS * GROUPED_SLAB_DEPTH;
    const uint32_t depth = (uint32_t)(k_bytes < long_k ? k_bytes : long_k);
    const uint32_t needed = GROUPED_SLABS_NEEDED(dtype_size(dtype_accumulator(p->dtype)));
    uint32_t slabs = (depth + GROUPED_SLAB_DEPTH - 1) / GROUPED_SLAB_DEPTH;
    if (slabs < needed)
        slabs = needed;
    if (p->dtype != GEMMD_F32 || slabs > GROUPED_SPLIT_SLABS)
        return slabs * GROUPED_SLAB_BYTES;
    return slabs * GROUPED_SLAB_BYTES + GROUPED_SPLIT_BYTES;
}

static enum gemmd_error launch(struct cuda_context *context, struct pending *pending)
{
    struct grouped_parameters parameters;
    const uint32_t count = pending->count, bytes = pending->bytes;
    uint32_t tiles;
    *pending = (struct pending){0, 0, 0};
    sort(context->grouped, count);
    parameters.table = (struct grouped_list){NULL, NULL};
    parameters.count = count;
    if (count <= GROUPED_INLINE) {
        tiles = write_list(context->grouped, count, parameters.entries, parameters.first);
    } else {
        const cudaError_t error = send_table(context, &parameters, &tiles);
        if (error != cudaSuccess)
            return cuda_error_code((int)error);
    }
    return grouped_start(context->stream, &parameters, tiles, bytes);
}

static enum gemmd_error run_group(struct gemm_context *base,
                                  const struct gemm_problem *const problems[], uint32_t count)
{
    struct cuda_context *context = cuda_context_of(base);
    struct pending pending = {0, 0, 0};
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < count; i++) {
        const struct gemm_problem *p = problems[i];
        const uint64_t tiles = tiles_of(p->m, p->n), k_bytes = p->k * dtype_size(p->dtype);
        const uint32_t bytes = bytes_of(p, k_bytes), class = length_class(k_bytes);
        for (uint64_t index = 0; index < p->batch; index++) {
            if (pending.count == GROUPED_MAX || pending.tiles + tiles > INT32_MAX)
                code = launch(context, &pending);
            if (code != GEMMD_OK)
                return code;
            context->grouped->items[pending.count++] = (struct grouped_item){p, index, class};
            pending.tiles += tiles;
            if (pending.bytes < bytes)
                pending.bytes = bytes;
        }
    }
    return pending.count > 0 ? launch(context, &pending) : code;
}

static enum gemmd_error run(struct gemm_context *context, const struct gemm_problem *problem,
                            void *workspace)
{
    (void)workspace;
    return run_group(context, &problem, 1);
}

const struct gemm_kernel gemm_cuda_grouped = {
    .name = "grouped",
    .description = "many products of any shapes and types in one launch, operands where they lie",
    .rows_independent = true,
    .any_leading = true,
    .takes = takes,
    .workspace_bytes = no_workspace,
    .run = run,
    .run_group = run_group,
};
