/*
 * tiled - cache blocking: a block of C stays in scratch memory while panels of A and B, packed and
 * widened to the accumulator's type, pass through the cache below it (K. Goto and R. van de Geijn,
 * "Anatomy of high-performance matrix multiplication", 2008). Operands of i8 and bf16 stay narrow
 * where the processor has instructions that multiply several steps of k at once (microkernel.h).
 * For few rows, which would use a panel of B only once, B is read where it is instead.
 *
 * Packed weights are unpacked panel by panel, while they are multiplied. The sums of a group of k
 * are in memory of their own until they are multiplied by the scales. Weights of e2m1 are
 * multiplied by their scales when they are unpacked.
 *
 * The blocks of C are independent, and the sum of every element is one chain in the order of k
 * whatever the blocks are, so the number of threads changes the time but not the bits. Instructions
 * for bf16 take subnormal numbers for zero: a row of which they could change the sums is computed
 * in f32, which depends on the row and on B alone.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/bf16_range.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/cpu/panels.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    BLOCK_M = 264, /* at most; multiples of MICROKERNEL_ROWS and _COLUMNS each */
    BLOCK_N = 256,
    BLOCK_K = PANELS_DEPTH_MAX,
    ELEMENT_MAX = 8, /* bytes */
    FEW_ROWS = 12,   /* of a block, at most, for which B is not copied to panels */
};

/* One thread's share of the context's scratch, in the accumulator's type. */
struct scratch {
    char *sums; /* [BLOCK_M][BLOCK_N] */
    char *part; /* [BLOCK_M][BLOCK_N] of f32, for scales of blocks and groups */
    char *a;    /* panels of [BLOCK_K][microkernel rows] */
    char *b;    /* panels of [BLOCK_K][microkernel columns] */
};

uint64_t tiled_scratch_bytes(void)
{
    return ELEMENT_MAX * (BLOCK_M * BLOCK_N + BLOCK_M * BLOCK_K + BLOCK_K * BLOCK_N);
}

static struct scratch scratch_of(const struct cpu_context *context, uint32_t member)
{
    char *start = (char *)context->scratch + member * context->scratch_bytes;
    return (struct scratch){
        .sums = start,
        .part = start + sizeof(float) * BLOCK_M * BLOCK_N, /* sums of f32 take half the room */
        .a = start + ELEMENT_MAX * BLOCK_M * BLOCK_N,
        .b = start + ELEMENT_MAX * (BLOCK_M * BLOCK_N + BLOCK_M * BLOCK_K),
    };
}

/* op(A) seen as [m, k], or the transpose of op(B) as [n, k]: both are packed alike. */
struct operand {
    const char *data;
    uint64_t ld;
    enum gemmd_dtype dtype;
};

static const void *read_operand(const void *argument, uint64_t line, uint64_t first, uint64_t count,
                                void *to)
{
    const struct operand *x = argument;
    return convert_widened(x->dtype, x->data + (line * x->ld + first) * dtype_size(x->dtype), to,
                           count);
}

/* The same, as narrow as the operand is. */
static const void *read_narrow(const void *argument, uint64_t line, uint64_t first, uint64_t count,
                               void *to)
{
    const struct operand *x = argument;
    (void)count;
    (void)to;
    return x->data + (line * x->ld + first) * dtype_size(x->dtype);
}

/* Elements of i8, as i16. */
static const void *read_i16(const void *argument, uint64_t line, uint64_t first, uint64_t count,
                            void *to)
{
    const struct operand *x = argument;
    const int8_t *from = (const int8_t *)x->data + line * x->ld + first;
    int16_t *wide = to;
    for (uint64_t i = 0; i < count; i++)
        wide[i] = from[i];
    return wide;
}

static struct panels_operand panels_of(const struct operand *x, bool along_k,
                                       const struct microkernel *micro, uint32_t flip)
{
    const bool is_narrow = micro->steps * dtype_size(x->dtype) == sizeof(uint32_t);
    return (struct panels_operand){
        .read = micro->steps == 1 ? read_operand
                : is_narrow       ? read_narrow
                                  : read_i16,
        .argument = x,
        .along_k = along_k,
        .size = dtype_size(dtype_accumulator(x->dtype)),
        .steps = micro->steps,
        .flip = flip,
    };
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

struct tiled_job {
    const struct cpu_context *context;
    const struct gemm_problem *problem;
    uint64_t block_m; /* rows of a block */
    uint64_t blocks_m, blocks_n;
};

/* Adds the sums of up to 128 steps of k from `first_k` on, times the product of their factors. */
static void add_scaled(const struct gemm_problem *p, uint64_t index, uint64_t row, uint64_t rows,
                       uint64_t column, uint64_t columns, uint64_t first_k, const float *part,
                       float *sums)
{
    const struct gemm_scale *a = &p->a_scale, *b = &p->b_scale;
    const uint64_t block = first_k / GEMM_SCALE_BLOCK;
    const float *a_scale = a->data + index * a->stride + block * a->k_step;
    const float *b_scale = b->data + index * b->stride + block * b->k_step;
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++) {
            const uint64_t at = i * BLOCK_N + j;
            const float factor =
                a_scale[(row + i) * a->step] * b_scale[(column + j) / GEMM_SCALE_BLOCK * b->step];
            sums[at] = fmaf(part[at], factor, sums[at]);
        }
}

/* Clears the sums of a block's rows and columns, up to whole panels. A block of a small problem is
 * then not cleared as a whole, which would take a thousand times as long as its sums. */
static void clear_sums(char *sums, uint64_t rows, uint64_t columns, const struct microkernel *micro,
                       uint64_t size)
{
    const uint64_t whole_rows = size_blocks(rows, micro->rows) * micro->rows;
    const uint64_t whole_columns = size_blocks(columns, micro->columns) * micro->columns;
    for (uint64_t i = 0; i < whole_rows; i++)
        memset(sums + i * BLOCK_N * size, 0, whole_columns * size);
}

/* Packed weights are unpacked to f32, with which products of one step are exact. */
static const struct microkernel *microkernel_of(const struct gemm_problem *p)
{
    const struct microkernel *narrow = p->packed.bits == 0 ? microkernel_narrow(p->dtype, 0) : NULL;
    return narrow != NULL ? narrow : microkernel_for(dtype_accumulator(p->dtype), 0);
}

/* The steps of k after which the sums of a part are multiplied by scales and added up; 0: sums have
 * no scales. */
static uint64_t steps_of_scale(const struct gemm_problem *p)
{
    return p->packed.bits != 0              ? packed_sum_steps(&p->packed)
           : p->scales == GEMM_SCALES_BLOCK ? GEMM_SCALE_BLOCK
                                            : 0;
}

/* The rows of a block whose products of bf16 may have subnormal numbers. A row stays one of them up
 * to the last step of k, because its sums may be subnormal. */
struct tiny_rows {
    uint64_t count;
    bool is_tiny[BLOCK_M];
};

static const uint16_t *operand_at(const struct operand *x, bool along_k, uint64_t line, uint64_t k)
{
    return (const uint16_t *)(const void *)x->data +
           (along_k ? line * x->ld + k : k * x->ld + line);
}

static void tiny_rows_find(struct tiny_rows *tiny, const struct gemm_problem *p,
                           const struct operand *a, uint64_t row, uint64_t rows,
                           const struct operand *b, uint64_t column, uint64_t columns,
                           uint64_t first_k, uint64_t depth)
{
    const uint64_t lines = p->transb ? columns : depth, length = p->transb ? depth : columns;
    const uint16_t least =
        bf16_least_of_all(operand_at(b, p->transb, column, first_k), b->ld, lines, length);
    uint16_t of_rows[BLOCK_M];
    if (first_k == 0)
        memset(tiny->is_tiny, 0, sizeof tiny->is_tiny);
    bf16_least(operand_at(a, !p->transa, row, first_k), a->ld, !p->transa, rows, depth, of_rows);
    for (uint64_t i = 0; i < rows; i++)
        if (!tiny->is_tiny[i] && !bf16_products_are_normal(of_rows[i], least)) {
            tiny->is_tiny[i] = true;
            tiny->count++;
        }
}

/* Adds the products of a tile, of which `rows` rows are needed, and computes those rows one by one
 * that may have subnormal numbers. */
static void run_with_tiny(const struct microkernel *micro, uint64_t elements, const char *a,
                          const char *b, char *sums, uint64_t rows, const bool *is_tiny)
{
    enum { ROW_BYTES = BLOCK_N * sizeof(float) };
    float tiny[MICROKERNEL_ROWS][MICROKERNEL_COLUMNS];
    const uint64_t needed = at_most(rows, micro->rows);
    for (uint64_t i = 0; i < needed; i++) {
        memcpy(tiny[i], sums + i * ROW_BYTES, sizeof tiny[i]);
        if (is_tiny[i])
            micro->run_tiny(elements, a + i * sizeof(float), b, tiny[i], MICROKERNEL_COLUMNS, 1);
    }
    micro->run(elements, a, b, sums, BLOCK_N, rows);
    for (uint64_t i = 0; i < needed; i++)
        if (is_tiny[i])
            memcpy(sums + i * ROW_BYTES, tiny[i], micro->columns * sizeof(float));
}

/* The function that reads B where it is, if that is faster for `rows` rows than to copy B to
 * panels; otherwise NULL. */
typedef uint64_t few_function(uint64_t depth, const void *a, const void *b, uint64_t b_ld, void *c,
                              uint64_t ld, uint64_t rows, uint64_t columns);
static few_function *few_of(const struct gemm_problem *p, const struct microkernel *micro,
                            uint64_t rows)
{
    if (rows > FEW_ROWS || p->transb || p->packed.bits != 0)
        return NULL;
    if (p->dtype == GEMMD_F16)
        return micro->run_few_f16;
    return micro->steps > 1 || p->dtype == dtype_accumulator(p->dtype) ? micro->run_few : NULL;
}

bool tiled_reads_b(const struct gemm_problem *p)
{
    return few_of(p, microkernel_of(p), p->m) != NULL;
}

/* A part of a block: up to BLOCK_K elements of k. */
struct slab {
    const struct microkernel *micro;
    const struct operand *b;
    const struct panels_operand *b_panels;
    const char *a; /* panels */
    char *sums;
    uint64_t rows, column, columns, first_k, depth, size;
};

/* Adds columns `from` to `to` of elements `first` to `end` of a slab, with B in panels. */
static void add_in_panels(const struct slab *s, uint64_t from, uint64_t to, uint64_t first,
                          uint64_t end, char *panels)
{
    const struct microkernel *micro = s->micro;
    const uint64_t skipped = first * micro->steps, elements = size_blocks(s->depth, micro->steps);
    if (from == to || first == end)
        return;
    panels_pack(s->b_panels, s->column + from, to - from, s->first_k + skipped,
                at_most(s->depth, end * micro->steps) - skipped, micro->columns, panels);
    for (uint64_t j = 0; j < to - from; j += micro->columns)
        for (uint64_t i = 0; i < s->rows; i += micro->rows)
            micro->run(end - first, s->a + (i * elements + first * micro->rows) * s->size,
                       panels + j * (end - first) * s->size,
                       s->sums + (i * BLOCK_N + from + j) * s->size, BLOCK_N, s->rows - i);
}

/* Adds a slab of few rows: reads B where it is, except for the last columns, and for a last element
 * of k whose steps B does not have. */
static void add_few(const struct slab *s, few_function *few, char *panels)
{
    const struct microkernel *micro = s->micro;
    const uint64_t elements = size_blocks(s->depth, micro->steps), whole = s->depth / micro->steps;
    const char *b = s->b->data + (s->first_k * s->b->ld + s->column) * dtype_size(s->b->dtype);
    uint64_t done = 0;
    for (uint64_t i = 0; i < s->rows; i += micro->rows)
        done =
            few(whole, s->a + i * elements * s->size, b, s->b->ld, s->sums + i * BLOCK_N * s->size,
                BLOCK_N, at_most(s->rows - i, micro->rows), s->columns);
    add_in_panels(s, 0, done, whole, elements, panels);
    add_in_panels(s, done, s->columns, 0, elements, panels);
}

/* Computes one block of C of one problem of the batch. */
static void compute_block(void *argument, uint64_t part, uint32_t member)
{
    const struct tiled_job *job = argument;
    const struct gemm_problem *p = job->problem;
    const struct scratch scratch = scratch_of(job->context, member);
    const enum gemmd_dtype accumulator = dtype_accumulator(p->dtype);
    const struct microkernel *micro = microkernel_of(p);
    const uint64_t size = dtype_size(accumulator), element = dtype_size(p->dtype);

    const uint64_t index = part / (job->blocks_m * job->blocks_n);
    const uint64_t block = part % (job->blocks_m * job->blocks_n);
    const uint64_t row = block / job->blocks_n * job->block_m;
    const uint64_t rows = at_most(p->m - row, job->block_m);
    const uint64_t column = block % job->blocks_n * BLOCK_N;
    const uint64_t columns = at_most(p->n - column, BLOCK_N);
    const struct operand a = {.data = (const char *)p->a + index * p->stride_a * element,
                              .ld = p->lda,
                              .dtype = p->dtype};
    const struct operand b = {.data = (const char *)p->b + index * p->stride_b * element,
                              .ld = p->ldb,
                              .dtype = p->dtype};
    const struct panels_operand a_panels = panels_of(&a, !p->transa, micro, 0);
    const struct panels_operand b_panels = panels_of(&b, p->transb, micro, micro->flip);

    few_function *few = few_of(p, micro, rows);
    const bool packed = p->packed.bits != 0;
    const uint64_t scaled = steps_of_scale(p), most = BLOCK_K * micro->steps;
    struct tiny_rows tiny = {.count = 0};
    char *sums = scaled != 0 ? scratch.part : scratch.sums;

    clear_sums(scratch.sums, rows, columns, micro, size);
    for (uint64_t first_k = 0, depth; first_k < p->k; first_k += depth) {
        const uint64_t of_scale = scaled != 0 ? first_k % scaled : 0;
        depth = at_most(p->k - first_k, scaled != 0 ? at_most(scaled - of_scale, most) : most);
        if (first_k > 0 && team_stops(job->context->team))
            return;
        if (scaled != 0 && of_scale == 0)
            clear_sums(sums, rows, columns, micro, size);
        panels_pack(&a_panels, row, rows, first_k, depth, micro->rows, scratch.a);
        const uint64_t elements = size_blocks(depth, micro->steps);
        if (micro->run_tiny != NULL)
            tiny_rows_find(&tiny, p, &a, row, rows, &b, column, columns, first_k, depth);
        if (few != NULL && tiny.count == 0) {
            const struct slab slab = {.micro = micro,
                                      .b = &b,
                                      .b_panels = &b_panels,
                                      .a = scratch.a,
                                      .sums = sums,
                                      .rows = rows,
                                      .column = column,
                                      .columns = columns,
                                      .first_k = first_k,
                                      .depth = depth,
                                      .size = size};
            add_few(&slab, few, scratch.b);
            continue;
        }
        if (!packed)
            panels_pack(&b_panels, column, columns, first_k, depth, micro->columns, scratch.b);
        for (uint64_t j = 0; j < columns; j += micro->columns) {
            const char *b_panel = packed ? scratch.b : scratch.b + j * elements * size;
            if (packed)
                panels_unpack(&p->packed, p->b, column + j, first_k, depth, micro->columns,
                              (float *)(void *)scratch.b);
            for (uint64_t i = 0; i < rows; i += micro->rows) {
                const char *a_panel = scratch.a + i * elements * size;
                char *tile = sums + (i * BLOCK_N + j) * size;
                if (tiny.count == 0)
                    micro->run(elements, a_panel, b_panel, tile, BLOCK_N, rows - i);
                else
                    run_with_tiny(micro, elements, a_panel, b_panel, tile, rows - i,
                                  tiny.is_tiny + i);
            }
        }
        if (packed && scaled != 0 && of_scale + depth == scaled)
            panels_add_group(&p->packed, p->b, first_k / scaled, column, columns, rows,
                             (const float *)(const void *)sums, (float *)(void *)scratch.sums,
                             BLOCK_N);
        else if (p->scales == GEMM_SCALES_BLOCK)
            add_scaled(p, index, row, rows, column, columns, first_k,
                       (const float *)(const void *)sums, (float *)(void *)scratch.sums);
    }
    for (uint64_t i = 0; i < rows; i++) {
        const char *from = scratch.sums + i * BLOCK_N * size;
        const uint64_t at = index * p->stride_c + (row + i) * p->ldc + column;
        if (epilogue_is_identity(p))
            memcpy((char *)p->c + at * size, from, columns * size);
        else
            epilogue_row(p, index, row + i, column, columns, from);
    }
}

static bool cpu_tiled_takes(const void *of)
{
    const struct gemm_problem *problem = of;
    uint64_t parts;
    return (gemm_problem_offered(problem) || gemm_problem_packed(problem)) &&
           size_mul(size_blocks(problem->m, MICROKERNEL_ROWS) * size_blocks(problem->n, BLOCK_N),
                    problem->batch, &parts);
}

/* The rows of a block. Blocks have about as many rows each, and there are as many as the team has
 * members, if the problem is not small. */
static uint64_t block_rows(const struct gemm_problem *p, uint64_t members)
{
    const uint64_t others = size_blocks(p->n, BLOCK_N) * p->batch;
    const uint64_t least = cpu_is_small(p->m, p->n, p->k) ? 1 : size_blocks(members, others);
    const uint64_t most = size_blocks(p->m, BLOCK_M);
    const uint64_t rows = size_blocks(p->m, most > least ? most : least);
    return size_blocks(rows, MICROKERNEL_ROWS) * MICROKERNEL_ROWS;
}

static enum gemmd_error cpu_tiled_run(struct gemm_context *base, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    struct cpu_context *context = cpu_context_of(base);
    const uint64_t rows = block_rows(problem, team_size(context->team));
    struct tiled_job job = {
        .context = context,
        .problem = problem,
        .block_m = rows,
        .blocks_m = size_blocks(problem->m, rows),
        .blocks_n = size_blocks(problem->n, BLOCK_N),
    };
    team_run(context->team, compute_block, &job, job.blocks_m * job.blocks_n * problem->batch);
    return GEMMD_OK;
}

/* The rows and columns of C that one core computes at once. */
static void cpu_tiled_tile(struct gemm_context *base, const void *problem,
                           struct operation_tile *out)
{
    snprintf(out->name, sizeof out->name, "%llux%d",
             (unsigned long long)block_rows(problem, team_size(cpu_context_of(base)->team)),
             BLOCK_N);
}

const struct operation_kernel gemm_cpu_tiled = {
    .name = "tiled",
    .description = "cache-blocked, packed panels, vector registers",
    .rows_independent = true,
    .any_leading = true,
    .takes = cpu_tiled_takes,
    .workspace_bytes = operation_no_workspace, /* the context has the scratch */
    .run = cpu_tiled_run,
    .tile = cpu_tiled_tile,
};
