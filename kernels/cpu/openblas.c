/*
 * openblas - cblas_sgemm and cblas_dgemm for the product; the epilogue follows.
 *
 * Types narrower than f32 are first widened into the workspace: all of B, and a block of rows of A
 * and of the sums at a time, so that tall problems need no more memory than square ones. The kernel
 * does not take i8, because f32 sums of its products are exact only below 2^24.
 *
 * A call of BLAS cannot be stopped. A product that takes longer than about 20 ms is therefore cut
 * into several calls, and can stop between two of them. OpenBLAS copies the operands of each call
 * into a layout of its own, which costs less the longer the sides of C are. The product is cut
 * along k first, by whole blocks of OpenBLAS: 4000 x 4000 x 4000 in f64 on one core of an AMD EPYC
 * takes 6 % longer than in one call, and would take 20 % longer if only C were cut. On many cores
 * the bits of an element depend on how far the element is from the edge of its call.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "kernels/cpu/microkernel.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    BLOCK_ROWS = 1024, /* of A widened at a time; many enough to keep every core of sgemm busy */
    PART_LINES = 16,   /* lines that a thread widens or finishes at a time, */
    PART_LENGTH = 1 << 16, /* in pieces of this many elements */
    STEPS = 1 << 20, /* multiplications between two calls of team_stops, or one call of BLAS */
    /* Calls of BLAS. */
    CALL_STEPS = 3 << 27, /* multiplications in f64 for each thread, at most; in f32 twice that */
    CALL_BYTES = 1 << 26, /* of A and B together, at most */
    CALL_DEPTH = 384,     /* k is cut at multiples of this many steps, */
    CALL_SIDE = 64,       /* and the sides of C at multiples of this many rows and columns */
};

/* The workspace of a problem. A size is 0 if the operand, or C, is used in place. */
struct plan {
    uint64_t rows; /* of C computed by one call */
    uint64_t a_bytes, b_bytes, sums_bytes;
};

static bool openblas_plan_make(const struct gemm_problem *p, struct plan *plan)
{
    const enum gemmd_dtype accumulator = dtype_accumulator(p->dtype);
    const bool widens = p->dtype != accumulator, keeps = p->out != accumulator;
    *plan = (struct plan){
        .rows = (widens || keeps) && p->m > BLOCK_ROWS ? BLOCK_ROWS : p->m,
    };
    if (widens) {
        const uint64_t a[] = {plan->rows, p->k}, b[] = {p->k, p->n};
        if (!size_tensor_bytes(accumulator, a, 2, &plan->a_bytes) ||
            !size_align(plan->a_bytes, 64, &plan->a_bytes) ||
            !size_tensor_bytes(accumulator, b, 2, &plan->b_bytes) ||
            !size_align(plan->b_bytes, 64, &plan->b_bytes))
            return false;
    }
    if (keeps) {
        const uint64_t sums[] = {plan->rows, p->n};
        if (!size_tensor_bytes(accumulator, sums, 2, &plan->sums_bytes))
            return false;
    }
    return true;
}

static bool openblas_takes(const void *of)
{
    const struct gemm_problem *p = of;
    return gemm_problem_offered(p) && p->dtype != GEMMD_I8 && p->scales != GEMM_SCALES_BLOCK &&
           p->lda <= INT32_MAX && p->ldb <= INT32_MAX && p->ldc <= INT32_MAX;
}

static bool openblas_workspace_bytes(const void *of, uint64_t *out)
{
    const struct gemm_problem *problem = of;
    struct plan plan;
    uint64_t bytes;
    if (!openblas_plan_make(problem, &plan) || !size_add(plan.a_bytes, plan.b_bytes, &bytes))
        return false;
    return size_add(bytes, plan.sums_bytes, out);
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct widening {
    struct team *team;
    enum gemmd_dtype dtype;
    const char *from; /* `lines` of `length` elements, `ld` elements apart */
    char *to;         /* contiguous */
    uint64_t lines, length, ld;
};

static void widen_lines(void *argument, uint64_t part, uint32_t member)
{
    (void)member;
    const struct widening *w = argument;
    const uint64_t from_size = dtype_size(w->dtype);
    const uint64_t to_size = dtype_size(dtype_accumulator(w->dtype));
    struct team_pace pace = {.team = w->team};
    for (uint64_t i = part * PART_LINES; i < w->lines && i < (part + 1) * PART_LINES; i++)
        for (uint64_t at = 0; at < w->length; at += PART_LENGTH) {
            const uint64_t count = least_of(w->length - at, PART_LENGTH);
            if (team_pace_stops(&pace, count))
                return;
            convert_widen(w->dtype, w->from + (i * w->ld + at) * from_size,
                          w->to + (i * w->length + at) * to_size, count);
        }
}

struct finishing {
    struct team *team;
    const struct gemm_problem *problem;
    uint64_t index, first, rows;
    const char *sums;
    uint64_t row_bytes;
};

static void finish_rows(void *argument, uint64_t part, uint32_t member)
{
    (void)member;
    const struct finishing *f = argument;
    const uint64_t n = f->problem->n, size = dtype_size(dtype_accumulator(f->problem->dtype));
    struct team_pace pace = {.team = f->team};
    for (uint64_t i = part * PART_LINES; i < f->rows && i < (part + 1) * PART_LINES; i++)
        for (uint64_t at = 0; at < n; at += PART_LENGTH) {
            const uint64_t count = least_of(n - at, PART_LENGTH);
            if (team_pace_stops(&pace, count))
                return;
            epilogue_row(f->problem, f->index, f->first + i, at, count,
                         f->sums + i * f->row_bytes + at * size);
        }
}

/* Runs the task for all lines: on the team if there is enough to do, and otherwise in this thread.
 */
static void run_lines(struct team *team, team_task *task, void *argument, uint64_t lines,
                      uint64_t length)
{
    const uint64_t parts = size_blocks(lines, PART_LINES);
    if (cpu_is_small(lines, length, 16))
        for (uint64_t part = 0; part < parts; part++)
            task(argument, part, 0);
    else
        team_run(team, task, argument, parts);
}

/* An operand as BLAS sees it. */
struct blas_operand {
    const char *data;
    uint64_t ld;
    CBLAS_TRANSPOSE transpose;
};

/* One call of BLAS: adds to C if `adds`. */
static void openblas_call(enum gemmd_dtype accumulator, uint64_t m, uint64_t n, uint64_t k,
                          struct blas_operand a, struct blas_operand b, void *c, uint64_t ldc,
                          bool adds)
{
    if (accumulator == GEMMD_F64)
        cblas_dgemm(CblasRowMajor, a.transpose, b.transpose, (int)m, (int)n, (int)k, 1,
                    (const double *)(const void *)a.data, (int)a.ld,
                    (const double *)(const void *)b.data, (int)b.ld, adds, c, (int)ldc);
    else
        cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, (int)m, (int)n, (int)k, 1,
                    (const float *)(const void *)a.data, (int)a.ld,
                    (const float *)(const void *)b.data, (int)b.ld, adds, c, (int)ldc);
}

/* The operand from one of its rows and columns on, as BLAS sees them. */
static struct blas_operand operand_from(struct blas_operand x, uint64_t row, uint64_t column,
                                        uint64_t size)
{
    x.data += (x.transpose == CblasTrans ? column * x.ld + row : row * x.ld + column) * size;
    return x;
}

/* The lengths of one call of BLAS. */
struct call {
    uint64_t m, n, k;
};

/* A length of the calls that a side of C is cut into, at most `most` >= CALL_SIDE. */
static uint64_t side_of_call(uint64_t side, uint64_t most)
{
    if (side <= most)
        return side;
    const uint64_t calls = size_blocks(side, most / CALL_SIDE * CALL_SIDE);
    return size_blocks(size_blocks(side, calls), CALL_SIDE) * CALL_SIDE;
}

/* The largest calls that keep the limits: whole sides of C if possible, otherwise sides that are
 * about as long as each other. */
static struct call call_of(enum gemmd_dtype accumulator, uint32_t threads, uint64_t m, uint64_t n,
                           uint64_t k)
{
    const uint64_t size = dtype_size(accumulator), elements = CALL_BYTES / size;
    const uint64_t steps = CALL_STEPS * (sizeof(double) / size) * threads;
    const double sides = (double)m + (double)n;
    const double depth = fmin((double)steps / ((double)m * (double)n), (double)elements / sides);
    struct call call = {m, n, k};
    if (depth >= (double)k)
        return call;
    call.k = CALL_DEPTH * (uint64_t)fmax(depth / CALL_DEPTH, 1);
    const uint64_t area = steps / call.k, both = elements / call.k;
    const uint64_t side = least_of((uint64_t)sqrt((double)area), both / 2);
    if (n < m) {
        call.n = side_of_call(n, side);
        call.m = side_of_call(m, least_of(area / call.n, both - call.n));
    } else {
        call.m = side_of_call(m, side);
        call.n = side_of_call(n, least_of(area / call.m, both - call.m));
    }
    return call;
}

/* C = A * B in calls of BLAS. `steps`: multiplications since the last call of team_stops. Returns
 * false if the computation has to stop. */
static bool openblas_multiply(struct team *team, enum gemmd_dtype accumulator, uint64_t m,
                              uint64_t n, uint64_t k, struct blas_operand a, struct blas_operand b,
                              char *c, uint64_t ldc, double *steps)
{
    const struct call call = call_of(accumulator, team_size(team), m, n, k);
    const uint64_t size = dtype_size(accumulator);
    for (uint64_t i = 0; i < m; i += call.m)
        for (uint64_t j = 0; j < n; j += call.n)
            for (uint64_t p = 0; p < k; p += call.k) {
                const uint64_t rows = least_of(m - i, call.m), columns = least_of(n - j, call.n);
                const uint64_t depth = least_of(k - p, call.k);
                if (*steps >= STEPS) {
                    *steps = 0;
                    if (team_stops(team))
                        return false;
                }
                *steps += (double)rows * (double)columns * (double)depth;
                openblas_call(accumulator, rows, columns, depth, operand_from(a, i, p, size),
                              operand_from(b, p, j, size), c + (i * ldc + j) * size, ldc, p > 0);
            }
    return true;
}

/* `rows` rows of op(A) from `first` on, widened into `to` if the plan says so. */
static struct blas_operand rows_of_a(struct team *team, const struct gemm_problem *p,
                                     uint64_t index, uint64_t first, uint64_t rows, char *to)
{
    const uint64_t size = dtype_size(p->dtype);
    struct blas_operand a = {
        .data = (const char *)p->a +
                (index * p->stride_a + (p->transa ? first : first * p->lda)) * size,
        .ld = p->lda,
        .transpose = p->transa ? CblasTrans : CblasNoTrans,
    };
    if (p->dtype != dtype_accumulator(p->dtype)) {
        struct widening w = {
            .team = team,
            .dtype = p->dtype,
            .from = a.data,
            .to = to,
            .lines = p->transa ? p->k : rows,
            .length = p->transa ? rows : p->k,
            .ld = p->lda,
        };
        run_lines(team, widen_lines, &w, w.lines, w.length);
        a.data = to;
        a.ld = w.length;
    }
    return a;
}

static struct blas_operand whole_b(struct team *team, const struct gemm_problem *p, uint64_t index,
                                   char *to)
{
    struct blas_operand b = {
        .data = (const char *)p->b + index * p->stride_b * dtype_size(p->dtype),
        .ld = p->ldb,
        .transpose = p->transb ? CblasTrans : CblasNoTrans,
    };
    if (p->dtype != dtype_accumulator(p->dtype)) {
        struct widening w = {
            .team = team,
            .dtype = p->dtype,
            .from = b.data,
            .to = to,
            .lines = p->transb ? p->n : p->k,
            .length = p->transb ? p->k : p->n,
            .ld = p->ldb,
        };
        run_lines(team, widen_lines, &w, w.lines, w.length);
        b.data = to;
        b.ld = w.length;
    }
    return b;
}

static enum gemmd_error openblas_run(struct gemm_context *base, const void *of, void *workspace)
{
    const struct gemm_problem *p = of;
    struct team *team = cpu_context_of(base)->team;
    const enum gemmd_dtype accumulator = dtype_accumulator(p->dtype);
    const uint64_t size = dtype_size(accumulator);
    struct plan plan;
    if (!openblas_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    char *wide_b = workspace, *wide_a = wide_b + plan.b_bytes, *kept = wide_a + plan.a_bytes;

    double steps = 0; /* since the last call of team_stops */
    for (uint64_t index = 0; index < p->batch; index++) {
        const struct blas_operand b = whole_b(team, p, index, wide_b);
        for (uint64_t first = 0; first < p->m; first += plan.rows) {
            const uint64_t rows = p->m - first < plan.rows ? p->m - first : plan.rows;
            const struct blas_operand a = rows_of_a(team, p, index, first, rows, wide_a);
            if (team_has_stopped(team)) /* the operands are incomplete */
                return GEMMD_OK;
            char *sums = kept;
            uint64_t ld = p->n;
            if (plan.sums_bytes == 0) {
                sums = (char *)p->c + (index * p->stride_c + first * p->ldc) * size;
                ld = p->ldc;
            }
            if (!openblas_multiply(team, accumulator, rows, p->n, p->k, a, b, sums, ld, &steps))
                return GEMMD_OK;
            if (epilogue_is_identity(p))
                continue;
            struct finishing f = {.team = team,
                                  .problem = p,
                                  .index = index,
                                  .first = first,
                                  .rows = rows,
                                  .sums = sums,
                                  .row_bytes = ld * size};
            run_lines(team, finish_rows, &f, rows, p->n);
        }
    }
    return GEMMD_OK;
}

/* With the processor's instructions for bf16, `tiled` takes half the time of products that are
 * widened to f32. Other products with sums in f32 take about as long in `tiled` if they have middle
 * size and fill its tiles. OpenBLAS gives them to all of its threads, which spin where connections
 * or other programs need the cores. It computes products of up to ONE_THREAD multiplications on the
 * calling thread. For few rows OpenBLAS copies B, which `tiled` reads where it is. */
static const struct operation_kernel *openblas_preferred(const void *of)
{
    const double ONE_THREAD = 1 << 18, MIDDLE = 1 << 26;
    const struct gemm_problem *p = of;
    const double steps = (double)p->m * (double)p->n * (double)p->k;
    const bool is_middle = steps <= MIDDLE && dtype_accumulator(p->dtype) == GEMMD_F32;
    const bool is_faster =
        steps > ONE_THREAD && p->n >= MICROKERNEL_COLUMNS && (is_middle || tiled_reads_b(p));
    return is_faster || microkernel_narrow(p->dtype, 0) != NULL ? &gemm_cpu_tiled : NULL;
}

const struct operation_kernel gemm_cpu_openblas = {
    .name = "openblas",
    .description = "OpenBLAS sgemm and dgemm; narrower types are widened to f32",
    .takes = openblas_takes,
    .preferred_kernel = openblas_preferred,
    .workspace_bytes = openblas_workspace_bytes,
    .run = openblas_run,
};
