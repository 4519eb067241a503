#include "server/device/device_stack.h"

#include <math.h>

/* Enough for OPERATION_STACK_ROWS rows of a layer of any large language model, and for the parts of
 * B if the kernel decomposes B into parts. */
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

enum gemmd_error device_stack_run(struct gemm_context *context, const struct work *works,
                                  double *residuals, void *workspace)
{
    const struct task *first = &works->task;
    const struct operation_stack *stack = first->operation->stack;
    struct operation_check check = {.residuals = residuals};
    struct operation_member members[OPERATION_STACK_ROWS];
    bool is_verified = false;
    uint32_t count = 0;
    uint64_t rows = 0;
    for (const struct work *work = works; work != NULL; work = work->next) {
        if (count == OPERATION_STACK_ROWS)
            return GEMMD_ERR_INTERNAL;
        members[count++] = (struct operation_member){&work->task.problem, NULL};
        rows += stack->rows(&work->task.problem);
        if (work->verify != WORK_UNVERIFIED)
            check.seed = work->verify_seed;
        is_verified = is_verified || work->verify != WORK_UNVERIFIED;
    }
    if (rows > works->join_rows)
        return GEMMD_ERR_INTERNAL;
    return stack->run(context, first->kernel, members, count, is_verified ? &check : NULL,
                      workspace);
}

void device_stack_judge(struct work *works, const double *residuals)
{
    for (struct work *work = works; work != NULL; work = work->next) {
        const uint32_t rows = work->task.operation->stack->rows(&work->task.problem);
        work->residual = 0;
        for (uint32_t row = 0; row < rows && work->verify != WORK_UNVERIFIED; row++)
            work->residual = fmax(work->residual, residuals[row]);
        residuals += rows;
    }
}
