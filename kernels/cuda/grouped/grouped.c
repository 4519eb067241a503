/*
 * The host code of the grouped kernels: lists of products.
 *
 * A short list is passed as the parameters of the launch, which takes the host least time. A longer
 * list
 * is written to pinned memory and copied to the device before the launch, or, if all products are
 * f32, passed as parameters of several launches. If a list has work for many blocks, the first part
 * is launched while the rest is written.
 */
#include "kernels/cuda/grouped/grouped.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/context.h"
#include "proto/dtype.h"

static uint64_t grouped_tiles_of(uint64_t m, uint64_t n)
{
    return (m + GROUPED_TILE - 1) / GROUPED_TILE * ((n + GROUPED_TILE - 1) / GROUPED_TILE);
}

static bool grouped_takes(const void *of)
{
    const struct gemm_problem *p = of;
    return gemm_problem_unscaled(p) && p->lda <= UINT32_MAX && p->ldb <= UINT32_MAX &&
           p->ldc0 <= UINT32_MAX && p->ldc <= UINT32_MAX &&
           grouped_tiles_of(p->m, p->n) <= INT32_MAX;
}

/* Written field by field, in place. A struct that is assembled first and then copied would wait for
 * its own stores. */
static void write_entry(struct grouped_entry *e, const struct gemm_problem *p, uint64_t index)
{
    /* Most problems have a batch of 1 and do not need the sizes. */
    const uint64_t in = index > 0 ? dtype_size(p->dtype) : 0;
    const uint64_t out = index > 0 ? dtype_size(p->out) : 0;
    e->a = (const char *)p->a + index * p->stride_a * in;
    e->b = (const char *)p->b + index * p->stride_b * in;
    e->bias = p->bias;
    e->c0 = p->beta != 0 ? (const char *)p->c0 + index * p->stride_c0 * out : NULL;
    e->c = (char *)p->c + index * p->stride_c * out;
    e->alpha = p->alpha;
    e->beta = p->beta;
    e->m = (uint32_t)p->m;
    e->n = (uint32_t)p->n;
    e->k = (uint32_t)p->k;
    e->lda = (uint32_t)p->lda;
    e->ldb = (uint32_t)p->ldb;
    e->ldc0 = (uint32_t)p->ldc0;
    e->ldc = (uint32_t)p->ldc;
    e->dtype = (uint8_t)p->dtype;
    e->out = (uint8_t)p->out;
    e->act = (uint8_t)p->act;
    e->transposed = (uint8_t)((p->transa ? 1 : 0) | (p->transb ? 2 : 0));
}

/* A position in the products of a list of problems. */
struct cursor {
    uint32_t problem;
    uint64_t index; /* in the problem's own batch */
};

/* The products of one launch. The list starts with the products whose tiles take longest, so that
 * no long tile runs alone at the end. */
struct plan {
    const struct operation_member *members;
    struct cursor begin, end;
    bool f32;                             /* all are f32, and the kernel for f32 computes them */
    uint32_t count;                       /* products */
    uint32_t tiles;                       /* of all of them */
    uint64_t slabs;                       /* of all tiles */
    uint32_t bytes;                       /* the most shared memory that one product needs */
    uint32_t places[GROUPED_CLASSES + 1]; /* the place in the list where each class begins */
};

/* The class of a product in the order of the list, from the longest k to the shortest. */
static uint32_t grouped_length_class(uint64_t k_bytes)
{
    const uint64_t length = k_bytes / GROUPED_CLASS_BYTES;
    return length < GROUPED_CLASSES ? GROUPED_CLASSES - 1 - (uint32_t)length : 0;
}

/* The size of an element. Most problems of a batch have the type of the one before, whose size is
 * not looked up again. */
struct element {
    enum gemmd_dtype dtype;
    uint64_t size; /* 0: of none yet */
};

static uint64_t element_size(struct element *element, enum gemmd_dtype dtype)
{
    if (element->size == 0 || element->dtype != dtype)
        *element = (struct element){dtype, dtype_size(dtype)};
    return element->size;
}

/* The shared memory of a block that computes a tile of a product. */
static uint32_t bytes_of(enum gemmd_dtype dtype, uint64_t k_bytes)
{
    const uint64_t long_k = (uint64_t)GROUPED_SLABS * GROUPED_SLAB_DEPTH;
    const uint32_t depth = (uint32_t)(k_bytes < long_k ? k_bytes : long_k);
    const uint32_t needed = dtype == GEMMD_F32
                                ? GROUPED_SLABS_NEEDED(sizeof(float))
                                : GROUPED_SLABS_NEEDED(dtype_size(dtype_accumulator(dtype)));
    uint32_t slabs = (depth + GROUPED_SLAB_DEPTH - 1) / GROUPED_SLAB_DEPTH;
    if (slabs < needed)
        slabs = needed;
    const uint32_t bytes = slabs * GROUPED_SLAB_BYTES;
    return dtype == GEMMD_F32 && bytes < GROUPED_F32_BYTES ? GROUPED_F32_BYTES : bytes;
}

/* Problems lie anywhere in memory. A later problem is prefetched while earlier ones are processed.
 */
static void expect_problem(const struct operation_member members[], uint32_t count, uint32_t i)
{
    enum { AHEAD = 8, LINE = 64 };
    if (i + AHEAD >= count)
        return;
    const char *problem = members[i + AHEAD].problem;
    for (uint32_t at = 0; at < sizeof(struct gemm_problem); at += LINE)
        __builtin_prefetch(problem + at);
}

/* Counts as many products from `begin` on as fit into one launch; at least one. Returns where it
 * stopped. */
static struct cursor count_products(struct plan *plan, const struct operation_member members[],
                                    uint32_t count, struct cursor begin)
{
    struct element element = {GEMMD_F32, 0};
    struct cursor at = begin;
    for (; at.problem < count; at = (struct cursor){at.problem + 1, 0}) {
        const struct gemm_problem *p = members[at.problem].problem;
        expect_problem(members, count, at.problem);
        plan->f32 = plan->f32 && p->dtype == GEMMD_F32;
        const uint32_t most = plan->f32 ? GROUPED_F32_MAX : GROUPED_MAX;
        const uint64_t tiles = grouped_tiles_of(p->m, p->n);
        const uint64_t k_bytes = p->k * element_size(&element, p->dtype);
        const uint64_t slabs = tiles * ((k_bytes + GROUPED_SLAB_DEPTH - 1) / GROUPED_SLAB_DEPTH);
        const uint32_t bytes = bytes_of(p->dtype, k_bytes), class = grouped_length_class(k_bytes);
        for (; at.index < p->batch; at.index++) {
            if (plan->count >= most || plan->tiles + tiles > INT32_MAX)
                return at;
            plan->count++;
            plan->places[class + 1]++;
            plan->tiles += (uint32_t)tiles;
            plan->slabs += slabs;
            if (plan->bytes < bytes)
                plan->bytes = bytes;
        }
    }
    return at;
}

/* A list of LONG_LIST problems or more is computed in two launches if its head, the first
 * 1/HEAD_PART of the problems, has HEAD_TILES tiles: the head then keeps the device busy while the
 * rest of the list is written and copied. Lists of f32 are computed in several launches, unless a
 * part of the list has fewer than PART_SLABS slabs, which the device computes sooner than the host
 * launches the next part. */
enum { LONG_LIST = 256, HEAD_PART = 4, HEAD_TILES = 512, PART_SLABS = 1024 };

static struct plan grouped_make_plan(const struct operation_member members[], uint32_t count,
                                     struct cursor begin, bool f32)
{
    struct plan plan = {.members = members, .begin = begin, .end = begin, .f32 = f32};
    if (begin.problem == 0 && count >= LONG_LIST)
        plan.end = count_products(&plan, members, count / HEAD_PART, begin);
    if (plan.tiles < HEAD_TILES)
        plan.end = count_products(&plan, members, count, plan.end);
    if (plan.f32 && plan.end.problem < count && plan.slabs < PART_SLABS) {
        plan.f32 = false;
        plan.end = count_products(&plan, members, count, plan.end);
    }
    for (uint32_t i = 0; i < GROUPED_CLASSES; i++)
        plan.places[i + 1] += plan.places[i];
    return plan;
}

/* Writes the entries in their order; first[i] becomes the number of tiles before entry i. Once for
 * each plan. */
static void write_list(struct plan *plan, struct grouped_entry *entries, uint32_t *first)
{
    struct element element = {GEMMD_F32, 0};
    struct cursor at = plan->begin;
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < plan->count; at = (struct cursor){at.problem + 1, 0}) {
        const struct gemm_problem *p = plan->members[at.problem].problem;
        expect_problem(plan->members, plan->end.problem, at.problem);
        const uint32_t own_tiles = (uint32_t)grouped_tiles_of(p->m, p->n);
        const uint32_t class = grouped_length_class(p->k * element_size(&element, p->dtype));
        for (; at.index < p->batch && i < plan->count; at.index++, i++) {
            const uint32_t place = plan->places[class]++;
            write_entry(&entries[place], p, at.index);
            first[place] = own_tiles;
        }
    }
    for (uint32_t i = 0; i < plan->count; i++) {
        const uint32_t own_tiles = first[i];
        first[i] = tiles;
        tiles += own_tiles;
    }
}

/* Puts the list into device memory, in stream order. */
static cudaError_t send_table(struct grouped_space *space, cudaStream_t stream, struct plan *plan,
                              struct grouped_parameters *parameters)
{
    const uint64_t entries_bytes = plan->count * sizeof(struct grouped_entry);
    struct grouped_table *table = &space->tables[space->next++ % GROUPED_TABLES];
    cudaError_t error = cudaEventSynchronize(table->copied); /* what it held before is copied */
    if (error != cudaSuccess)
        return error;
    uint32_t *first = (uint32_t *)(void *)(table->pinned + entries_bytes);
    write_list(plan, (struct grouped_entry *)(void *)table->pinned, first);
    parameters->table = (struct grouped_list){
        .first = (const uint32_t *)(const void *)(table->device + entries_bytes),
        .entries = (const struct grouped_entry *)(const void *)table->device,
    };
    const uint32_t step = GROUPED_INDEX_STEP(plan->count);
    for (uint32_t i = 0; i * step < plan->count; i++)
        parameters->first[i] = first[i * step];
    error = cudaMemcpyAsync(table->device, table->pinned,
                            entries_bytes + plan->count * sizeof(uint32_t), cudaMemcpyHostToDevice,
                            stream);
    if (error == cudaSuccess)
        error = cudaEventRecord(table->copied, stream);
    return error;
}

cudaError_t grouped_space_create(struct grouped_space **out)
{
    struct grouped_space *space = calloc(1, sizeof *space);
    *out = space;
    if (space == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t error = cudaStreamCreateWithFlags(&space->beside, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&space->begun, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&space->ended, cudaEventDisableTiming);
    for (uint32_t i = 0; i < GROUPED_TABLES && error == cudaSuccess; i++) {
        error = cudaMalloc((void **)&space->tables[i].device, GROUPED_TABLE_BYTES);
        if (error == cudaSuccess)
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
    if (space->beside != NULL)
        (void)cudaStreamDestroy(space->beside);
    if (space->begun != NULL)
        (void)cudaEventDestroy(space->begun);
    if (space->ended != NULL)
        (void)cudaEventDestroy(space->ended);
    for (uint32_t i = 0; i < GROUPED_TABLES; i++) {
        (void)cudaFree(space->tables[i].device);
        (void)cudaFreeHost(space->tables[i].pinned);
        if (space->tables[i].copied != NULL)
            (void)cudaEventDestroy(space->tables[i].copied);
    }
    free(space);
}

/* Launches a list of any types. */
static enum gemmd_error grouped_launch(struct grouped_space *space, cudaStream_t stream,
                                       struct plan *plan)
{
    struct grouped_parameters parameters;
    parameters.table = (struct grouped_list){NULL, NULL};
    parameters.count = plan->count;
    if (plan->count <= GROUPED_INLINE) {
        write_list(plan, parameters.entries, parameters.first);
    } else {
        const cudaError_t error = send_table(space, stream, plan, &parameters);
        if (error != cudaSuccess)
            return cuda_error_code((int)error);
    }
    return grouped_start(stream, &parameters, plan->tiles, plan->bytes);
}

/* Launches on the second stream, so that the launch runs at the same time as the one that the
 * context's stream has just been given. Later work on the context's stream waits for both. */
static enum gemmd_error launch_beside(struct cuda_context *context, struct plan *plan)
{
    struct grouped_space *space = context->grouped;
    cudaError_t error = cudaStreamWaitEvent(space->beside, space->begun, 0);
    if (error != cudaSuccess)
        return cuda_error_code((int)error);
    const enum gemmd_error code = grouped_launch(space, space->beside, plan);
    error = cudaEventRecord(space->ended, space->beside);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(context->stream, space->ended, 0);
    return code != GEMMD_OK ? code : cuda_error_code((int)error);
}

/* Launches a list of f32 products, on compute capability 9.0. */
static enum gemmd_error launch_f32(cudaStream_t stream, struct plan *plan, bool overlapped)
{
    struct grouped_f32_parameters parameters;
    memset(parameters.first, 0xff, sizeof parameters.first);
    write_list(plan, parameters.entries, parameters.first);
    return grouped_f32_start(stream, &parameters, plan->tiles, overlapped);
}

/* If one launch does not take all products, the second launch runs concurrently with the first: its
 * blocks start where the first leaves room. Launches of f32 overlap one after the other. */
static enum gemmd_error grouped_run_group(struct gemm_context *base,
                                          const struct operation_member members[], uint32_t count)
{
    struct cuda_context *context = cuda_context_of(base);
    struct grouped_space *space = context->grouped;
    const bool f32 = count > GROUPED_INLINE && context->sm90.encode != NULL;
    struct plan plan = grouped_make_plan(members, count, (struct cursor){0, 0}, f32);
    const bool beside = plan.end.problem < count && !plan.f32;
    if (beside) {
        const cudaError_t error = cudaEventRecord(space->begun, context->stream);
        if (error != cudaSuccess)
            return cuda_error_code((int)error);
    }
    enum gemmd_error code = GEMMD_OK;
    bool overlapped = false; /* the launch before was of f32 alone */
    for (uint32_t i = 0; plan.count > 0 && code == GEMMD_OK; i++) {
        if (plan.f32)
            code = launch_f32(context->stream, &plan, overlapped);
        else if (beside && i == 1)
            code = launch_beside(context, &plan);
        else
            code = grouped_launch(space, context->stream, &plan);
        overlapped = plan.f32;
        plan = grouped_make_plan(members, count, plan.end, f32);
    }
    return code;
}

const struct operation_kernel gemm_cuda_grouped = {
    .name = "grouped",
    .description = "many products of any shapes and types in one launch, operands where they lie",
    .rows_independent = true,
    .any_leading = true,
    .takes = grouped_takes,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 2e12,
    .run_group = grouped_run_group,
};
