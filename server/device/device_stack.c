#include "server/device/device_stack.h"

#include <math.h>

/* Most rows of a work that is stacked: a product with more rows than a tile of the fast kernels
 * gains nothing in a stack. */
enum { WORK_ROWS = 128 };

/* Enough for DEVICE_STACK_ROWS rows of a layer of any large language model, and for the parts of B
 * if the kernel decomposes B into parts. */
static const uint64_t STACK_BYTES_MAX = 256 << 20;
static const uint64_t MEMORY_DIVISOR = 32; /* at most 1/32 of the device's memory */

uint64_t device_stack_bytes(uint64_t memory_bytes, uint64_t tensor_bytes)
{
    uint64_t bytes =
        memory_bytes / MEMORY_DIVISOR / DEVICE_LAYOUT_ALIGNMENT * DEVICE_LAYOUT_ALIGNMENT;
    if (tensor_bytes == 0)
        return 0;
    return bytes < STACK_BYTES_MAX ? bytes : STACK_BYTES_MAX;
}

static bool can_stack(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                      uint32_t rows, uint64_t stack_bytes)
{
    struct gemm_problem stack = *problem;
    uint64_t bytes;
    stack.m = rows;
    return gemm_can_stack(kernel, &stack) && gemm_stacked_bytes(kernel, &stack, &bytes) &&
           bytes <= stack_bytes;
}

uint32_t device_stack_rows(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                           struct device_span tensors, uint64_t stack_bytes)
{
    uint32_t rows = DEVICE_STACK_ROWS;
    if (stack_bytes == 0 || !device_span_has(tensors, problem->b) || problem->m > WORK_ROWS ||
        (problem->scales != GEMM_SCALES_NONE && !device_span_has(tensors, problem->b_scale.data)) ||
        problem->bias != NULL || problem->batch != 1 || problem->transa)
        return 0;
    while (rows > 0 && !can_stack(problem, kernel, rows, stack_bytes))
        rows /= 2;
    return problem->m <= rows ? rows : 0;
}

enum gemmd_error device_stack_run(struct gemm_context *context, const struct work *works,
                                  double *residuals, void *workspace)
{
    struct gemm_stack_check check = {.residuals = residuals};
    bool is_verified = false;
    struct gemm_stack_rows rows[DEVICE_STACK_ROWS];
    struct gemm_problem stack = works->problem;
    uint32_t count = 0;
    stack.m = 0;
    for (const struct work *work = works; work != NULL; work = work->next) {
        const struct gemm_problem *p = &work->problem;
        if (count == DEVICE_STACK_ROWS)
            return GEMMD_ERR_INTERNAL;
        rows[count++] = (struct gemm_stack_rows){
            .a = p->a, .c0 = p->c0, .c = p->c, .rows = p->m, .a_scale = p->a_scale.data};
        stack.m += p->m;
        if (work->verify != WORK_UNVERIFIED)
            check.seed = work->verify_seed;
        is_verified = is_verified || work->verify != WORK_UNVERIFIED;
    }
    if (stack.m > works->stack_rows)
        return GEMMD_ERR_INTERNAL;
    return gemm_stacked(context, works->kernel, &stack, rows, count, is_verified ? &check : NULL,
                        workspace);
}

void device_stack_judge(struct work *works, const double *residuals)
{
    for (struct work *work = works; work != NULL; residuals += work->problem.m, work = work->next) {
        if (work->verify == WORK_UNVERIFIED)
            continue;
        work->residual = 0;
        for (uint64_t row = 0; row < work->problem.m; row++)
            work->residual = fmax(work->residual, residuals[row]);
    }
}
