/*
 * The lists of the grouped kernel. Short ones travel as the launch's parameters, which costs the
 * host least; longer ones are copied before it.
 */
#include "kernels/cuda/grouped.h"

#include <string.h>

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
    const uint64_t in = dtype_size(p->dtype), out = dtype_size(p->out);
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

static void count_tiles(const struct grouped_entry *entries, uint32_t count, uint32_t *first)
{
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < count; i++) {
        first[i] = (uint32_t)tiles;
        tiles += tiles_of(entries[i].m, entries[i].n);
    }
}

enum { LENGTH_CLASSES = 64, LENGTH_CLASS_BYTES = 64 };

/* From the longest k to the shortest. */
static uint32_t length_class(const struct grouped_entry *e)
{
    const uint64_t length = e->k * dtype_size((enum gemmd_dtype)e->dtype) / LENGTH_CLASS_BYTES;
    return length < LENGTH_CLASSES ? LENGTH_CLASSES - 1 - (uint32_t)length : 0;
}

/* Those whose tiles take longest first, so that none of them is alone at the end. */
static void copy_longest_first(const struct grouped_entry *from, uint32_t count,
                               struct grouped_entry *to)
{
    uint32_t places[LENGTH_CLASSES + 1] = {0};
    for (uint32_t i = 0; i < count; i++)
        places[length_class(&from[i]) + 1]++;
    for (uint32_t i = 0; i < LENGTH_CLASSES; i++)
        places[i + 1] += places[i];
    for (uint32_t i = 0; i < count; i++)
        to[places[length_class(&from[i])]++] = from[i];
}

/* Puts the list into device memory, in stream order. */
static cudaError_t send_table(struct cuda_context *context, struct grouped_parameters *parameters)
{
    struct grouped_space *space = context->grouped;
    const uint32_t count = parameters->count;
    const uint64_t entries_bytes = count * sizeof(struct grouped_entry);
    struct grouped_entry *entries = (struct grouped_entry *)(void *)space->packed;
    uint32_t *first = (uint32_t *)(void *)(space->packed + entries_bytes);
    copy_longest_first(space->entries, count, entries);
    count_tiles(entries, count, first);
    parameters->table = (struct grouped_list){
        .first = (const uint32_t *)(const void *)(space->device + entries_bytes),
        .entries = (const struct grouped_entry *)(const void *)space->device,
    };
    /* `packed` is pageable: it has been read when this returns. */
    return cudaMemcpyAsync(space->device, space->packed, entries_bytes + count * sizeof *first,
                           cudaMemcpyHostToDevice, context->stream);
}

/* What is in space->entries and not launched yet. */
struct pending {
    uint32_t count;
    uint64_t tiles;
    uint32_t slabs; /* the most that a product needs */
};

static uint32_t slabs_of(const struct gemm_problem *p)
{
    const uint64_t bytes = p->k * dtype_size(p->dtype);
    const uint64_t slabs = (bytes + GROUPED_SLAB_DEPTH - 1) / GROUPED_SLAB_DEPTH;
    const uint32_t needed = GROUPED_SLABS_NEEDED(dtype_size(dtype_accumulator(p->dtype)));
    if (slabs > GROUPED_SLABS)
        return GROUPED_SLABS;
    return slabs > needed ? (uint32_t)slabs : needed;
}

static enum gemmd_error launch(struct cuda_context *context, struct pending *pending)
{
    struct grouped_parameters parameters;
    parameters.table = (struct grouped_list){NULL, NULL};
    parameters.count = pending->count;
    if (pending->count <= GROUPED_INLINE) {
        memcpy(parameters.entries, context->grouped->entries,
               pending->count * sizeof(struct grouped_entry));
        count_tiles(parameters.entries, pending->count, parameters.first);
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
        const uint64_t tiles = tiles_of(p->m, p->n);
        const uint32_t slabs = slabs_of(p);
        for (uint64_t index = 0; index < p->batch; index++) {
            if (pending.count == GROUPED_MAX || pending.tiles + tiles > INT32_MAX)
                code = launch(context, &pending);
            if (code != GEMMD_OK)
                return code;
            context->grouped->entries[pending.count++] = entry_of(p, index);
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
    .any_leading = true,
    .takes = takes,
    .workspace_bytes = no_workspace,
    .run = run,
    .run_group = run_group,
};
