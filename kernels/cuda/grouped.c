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

/* Writes the list, those first whose tiles take longest, so that none of them is alone at the end;
 * first[i] becomes the number of tiles before entry i. */
static void write_list(const struct grouped_item *items, uint32_t count,
                       struct grouped_entry *entries, uint32_t *first)
{
    uint32_t places[GROUPED_CLASSES + 1] = {0};
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < count; i++)
        places[items[i].length_class + 1]++;
    for (uint32_t i = 0; i < GROUPED_CLASSES; i++)
        places[i + 1] += places[i];
    for (uint32_t i = 0; i < count; i++)
        entries[places[items[i].length_class]++] = entry_of(items[i].problem, items[i].index);
    for (uint32_t i = 0; i < count; i++) {
        first[i] = (uint32_t)tiles;
        tiles += tiles_of(entries[i].m, entries[i].n);
    }
}

/* Puts the list into device memory, in stream order. */
static cudaError_t send_table(struct cuda_context *context, struct grouped_parameters *parameters)
{
    struct grouped_space *space = context->grouped;
    const uint32_t count = parameters->count;
    const uint64_t entries_bytes = count * sizeof(struct grouped_entry);
    struct grouped_table *table = &space->tables[space->next++ % GROUPED_TABLES];
    cudaError_t error = cudaEventSynchronize(table->copied); /* what it held before is copied */
    if (error != cudaSuccess)
        return error;
    write_list(space->items, count, (struct grouped_entry *)(void *)table->pinned,
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
    uint32_t slabs; /* the most that a product needs */
};

static uint32_t slabs_of(const struct gemm_problem *p, uint64_t k_bytes)
{
    const uint64_t slabs = (k_bytes + GROUPED_SLAB_DEPTH - 1) / GROUPED_SLAB_DEPTH;
    if (slabs >= GROUPED_SLABS)
        return GROUPED_SLABS;
    const uint32_t needed = GROUPED_SLABS_NEEDED(dtype_size(dtype_accumulator(p->dtype)));
    return slabs > needed ? (uint32_t)slabs : needed;
}

static enum gemmd_error launch(struct cuda_context *context, struct pending *pending)
{
    struct grouped_parameters parameters;
    parameters.table = (struct grouped_list){NULL, NULL};
    parameters.count = pending->count;
    if (pending->count <= GROUPED_INLINE) {
        write_list(context->grouped->items, pending->count, parameters.entries, parameters.first);
    } else {
        const cudaError_t error = send_table(context, &parameters);
        if (error != cudaSuccess)
            return cuda_error_code((int)error);
    }
    const enum gemmd_error code =
        grouped_start(context->stream, &parameters, (uint32_t)pending->tiles, pending->slabs);
    *pending = (struct pending){0, 0, 0};
    return code;
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
        const uint32_t slabs = slabs_of(p, k_bytes), class = length_class(k_bytes);
        for (uint64_t index = 0; index < p->batch; index++) {
            if (pending.count == GROUPED_MAX || pending.tiles + tiles > INT32_MAX)
                code = launch(context, &pending);
            if (code != GEMMD_OK)
                return code;
            context->grouped->items[pending.count++] = (struct grouped_item){p, index, class};
            pending.tiles += tiles;
            if (pending.slabs < slabs)
                pending.slabs = slabs;
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
