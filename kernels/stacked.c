#include "kernels/stacked.h"

#include <string.h>

#include "kernels/backend.h"
#include "kernels/freivalds.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ALIGNMENT = 256, ROW_ALIGNMENT = 128 };

/* The layout of the workspace: A, C0, scales of A and C of the stack, then the kernel's own
 * workspace and that of the check. */
struct plan {
    struct gemm_problem problem; /* as the kernel gets it, without pointers */
    uint64_t a_bytes, c0_bytes, scale_bytes, c_bytes, kernel_bytes, check_bytes;
};

/* The leading dimension and the bytes of m rows of `width` elements, each row aligned as the
 * fastest kernels require. False: a size overflows. */
static bool stack_place(uint64_t m, uint64_t width, enum gemmd_dtype dtype, uint64_t *ld,
                        uint64_t *bytes)
{
    const uint64_t size = dtype_size(dtype);
    uint64_t row_bytes;
    if (!size_mul(width, size, &row_bytes) || !size_align(row_bytes, ROW_ALIGNMENT, &row_bytes))
        return false;
    *ld = row_bytes / size;
    return size_mul(m, row_bytes, bytes) && size_align(*bytes, ALIGNMENT, bytes);
}

/* The scales of a row of A. */
static uint64_t scales_of_row(const struct gemm_problem *p)
{
    return p->scales == GEMM_SCALES_NONE    ? 0
           : p->scales == GEMM_SCALES_BLOCK ? gemm_scale_blocks(p->k)
                                            : 1;
}

static bool stack_plan_make(const struct operation_kernel *kernel,
                            const struct gemm_problem *problem, struct plan *plan)
{
    struct gemm_problem *p = &plan->problem;
    *plan = (struct plan){.problem = *problem};
    if (!stack_place(p->m, p->k, p->dtype, &p->lda, &plan->a_bytes) ||
        !stack_place(p->m, p->n, p->out, &p->ldc, &plan->c_bytes))
        return false;
    p->ldc0 = p->ldc;
    plan->c0_bytes = p->beta != 0 ? plan->c_bytes : 0;
    p->a_scale.step = scales_of_row(p);
    if (!size_mul(p->m, p->a_scale.step * sizeof(float), &plan->scale_bytes) ||
        !size_align(plan->scale_bytes, ALIGNMENT, &plan->scale_bytes))
        return false;
    return kernel->workspace_bytes(p, &plan->kernel_bytes) &&
           size_align(plan->kernel_bytes, ALIGNMENT, &plan->kernel_bytes) &&
           freivalds_bytes(p, &plan->check_bytes);
}

/* Everything that the products of a stack must have in common, for comparing and hashing. Factors
 * are compared by their bits, since a factor of -0 can give another result than 0. */
struct traits {
    uint64_t words[16];
};

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static struct traits stack_traits_of(const struct operation_kernel *kernel,
                                     const struct gemm_problem *p)
{
    const bool scaled = p->scales != GEMM_SCALES_NONE;
    const uint64_t choices = (uint64_t)p->scales << 48 | (uint64_t)p->dtype << 40 |
                             (uint64_t)p->out << 32 | (uint64_t)p->precision << 24 |
                             (uint64_t)p->act << 16 | (uint64_t)p->transb << 8 | p->transa;
    return (struct traits){{(uintptr_t)kernel, (uintptr_t)p->b, (uintptr_t)p->bias, choices, p->n,
                            p->k, p->lda, p->ldb, p->beta != 0 ? p->ldc0 : 0, p->ldc,
                            bits_of(p->alpha), bits_of(p->beta),
                            scaled ? (uintptr_t)p->b_scale.data : 0, scaled ? p->b_scale.step : 0,
                            scaled ? p->b_scale.k_step : 0, scaled ? p->a_scale.step : 0}};
}

static bool gemm_same_stack(const struct operation_kernel *kernel, const void *problem,
                            const struct operation_kernel *other_kernel, const void *other)
{
    const struct traits one = stack_traits_of(kernel, problem),
                        two = stack_traits_of(other_kernel, other);
    return memcmp(&one, &two, sizeof one) == 0;
}

static uint64_t gemm_stack_key(const struct operation_kernel *kernel, const void *problem)
{
    const struct traits traits = stack_traits_of(kernel, problem);
    return operation_hash(traits.words, sizeof traits.words / sizeof traits.words[0]);
}

bool gemm_can_stack(const struct operation_kernel *kernel, const struct gemm_problem *problem)
{
    struct plan plan;
    return kernel->rows_independent && kernel->any_leading && problem->batch == 1 &&
           !problem->transa &&
           (problem->scales != GEMM_SCALES_BLOCK || problem->a_scale.k_step == 1) &&
           stack_plan_make(kernel, problem, &plan) && kernel->takes(&plan.problem);
}

bool gemm_stacked_bytes(const struct operation_kernel *kernel, const struct gemm_problem *problem,
                        uint64_t *out)
{
    struct plan plan;
    return stack_plan_make(kernel, problem, &plan) && size_add(plan.a_bytes, plan.c0_bytes, out) &&
           size_add(*out, plan.scale_bytes, out) && size_add(*out, plan.c_bytes, out) &&
           size_add(*out, plan.kernel_bytes, out) && size_add(*out, plan.check_bytes, out);
}

/* Which rows of a stack are copied, and whether from or to the requests. */
enum direction { A_IN, C0_IN, SCALES_IN, C_OUT };

/* The bytes of a row, and the distances of rows in the request and in the stack. */
static struct gemm_moves moves_of(const struct gemm_problem *problem,
                                  const struct gemm_problem *stacked, enum direction direction)
{
    const uint64_t in = dtype_size(problem->dtype), out = dtype_size(problem->out);
    switch (direction) {
    case A_IN:
        return (struct gemm_moves){.row_bytes = problem->k * in,
                                   .from_pitch = problem->lda * in,
                                   .to_pitch = stacked->lda * in};
    case C0_IN:
        return (struct gemm_moves){.row_bytes = problem->n * out,
                                   .from_pitch = problem->ldc0 * out,
                                   .to_pitch = stacked->ldc0 * out};
    case SCALES_IN:
        return (struct gemm_moves){.row_bytes = stacked->a_scale.step * sizeof(float),
                                   .from_pitch = problem->a_scale.step * sizeof(float),
                                   .to_pitch = stacked->a_scale.step * sizeof(float)};
    case C_OUT:
        break;
    }
    return (struct gemm_moves){.row_bytes = problem->n * out,
                               .from_pitch = stacked->ldc * out,
                               .to_pitch = problem->ldc * out};
}

static const void *stack_rows_in(const struct gemm_problem *problem, enum direction direction)
{
    return direction == A_IN    ? problem->a
           : direction == C0_IN ? problem->c0
                                : (const void *)problem->a_scale.data;
}

static enum gemmd_error stack_move(struct gemm_context *context, const struct gemm_problem *stacked,
                                   enum direction direction, char *place,
                                   const struct operation_member members[], uint32_t count)
{
    struct gemm_moves moves = moves_of(members[0].problem, stacked, direction);
    const uint64_t pitch = direction == C_OUT ? moves.from_pitch : moves.to_pitch;
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        const struct gemm_problem *of = members[i].problem;
        moves.list[moves.count++] = (struct gemm_move){
            .from = direction == C_OUT ? place : stack_rows_in(of, direction),
            .to = direction == C_OUT ? of->c : place,
            .rows = of->m,
        };
        place += of->m * pitch;
        if (moves.count < GEMM_MOVES && i + 1 < count)
            continue;
        code = context->backend->move_rows(context, &moves);
        moves.count = 0;
    }
    return code;
}

enum gemmd_error gemm_stacked(struct gemm_context *context, const struct operation_kernel *kernel,
                              const struct operation_member members[], uint32_t count,
                              const struct operation_check *check, void *workspace)
{
    struct gemm_problem all = *(const struct gemm_problem *)members[0].problem;
    struct plan plan;
    for (uint32_t i = 1; i < count; i++)
        all.m += ((const struct gemm_problem *)members[i].problem)->m;
    if (!stack_plan_make(kernel, &all, &plan))
        return GEMMD_ERR_INTERNAL;
    char *a = workspace, *c0 = a + plan.a_bytes, *scales = c0 + plan.c0_bytes;
    char *c = scales + plan.scale_bytes;
    struct gemm_problem *p = &plan.problem;
    p->a = a;
    p->c0 = p->beta != 0 ? c0 : NULL;
    p->c = c;
    if (p->scales != GEMM_SCALES_NONE)
        p->a_scale.data = (const float *)(const void *)scales;
    enum gemmd_error code = stack_move(context, p, A_IN, a, members, count);
    if (code == GEMMD_OK && p->beta != 0)
        code = stack_move(context, p, C0_IN, c0, members, count);
    if (code == GEMMD_OK && p->scales != GEMM_SCALES_NONE)
        code = stack_move(context, p, SCALES_IN, scales, members, count);
    if (code == GEMMD_OK)
        code = operation_run(kernel, context, p, c + plan.c_bytes);
    if (code == GEMMD_OK && check != NULL)
        code = context->backend->check(context, p, check->seed, check->residuals,
                                       c + plan.c_bytes + plan.kernel_bytes);
    if (code == GEMMD_OK)
        code = stack_move(context, p, C_OUT, c, members, count);
    return code;
}

static bool stack_has(const void *resident, uint64_t resident_bytes, const void *address)
{
    return resident != NULL && (uintptr_t)address >= (uintptr_t)resident &&
           (uintptr_t)address - (uintptr_t)resident < resident_bytes;
}

static bool stack_fits(const struct operation_kernel *kernel, const struct gemm_problem *problem,
                       uint32_t rows, uint64_t workspace_bytes)
{
    struct gemm_problem stack = *problem;
    uint64_t bytes;
    stack.m = rows;
    return gemm_can_stack(kernel, &stack) && gemm_stacked_bytes(kernel, &stack, &bytes) &&
           bytes <= workspace_bytes;
}

/* The bias of a request belongs to that request alone, so that products with a bias are not
 * stacked.
 */
static uint32_t gemm_stack_rows_max(const struct operation_kernel *kernel, const void *of,
                                    const void *resident, uint64_t resident_bytes,
                                    uint64_t workspace_bytes)
{
    /* A product with more rows than a tile of the fast kernels gains nothing in a stack. */
    enum { ROWS_OF_ONE = 128 };
    const struct gemm_problem *p = of;
    uint32_t rows = OPERATION_STACK_ROWS;
    if (workspace_bytes == 0 || !stack_has(resident, resident_bytes, p->b) || p->m > ROWS_OF_ONE ||
        (p->scales != GEMM_SCALES_NONE && !stack_has(resident, resident_bytes, p->b_scale.data)) ||
        p->bias != NULL || p->batch != 1 || p->transa)
        return 0;
    while (rows > 0 && !stack_fits(kernel, p, rows, workspace_bytes))
        rows /= 2;
    return p->m <= rows ? rows : 0;
}

static uint32_t gemm_stack_rows(const void *problem)
{
    return (uint32_t)((const struct gemm_problem *)problem)->m;
}

const struct operation_stack gemm_stack = {
    .rows_max = gemm_stack_rows_max,
    .rows = gemm_stack_rows,
    .same = gemm_same_stack,
    .key = gemm_stack_key,
    .run = gemm_stacked,
};
