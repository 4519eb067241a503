#include "server/device/work.h"

#include <stddef.h>

#include "kernels/stacked.h"
#include "proto/dtype.h"

bool work_is_copy(const struct work *work)
{
    return work->kernel == NULL && !work_is_task(work) && work->copy_count > 0;
}

bool work_same_stack(const struct work *one, const struct work *other)
{
    const struct task *a = &one->task, *b = &other->task;
    if (work_is_task(one) || work_is_task(other))
        return work_is_task(one) && work_is_task(other) && a->operation == b->operation &&
               operation_same_group(a->operation, a->kernel, &a->problem, b->kernel, &b->problem);
    return gemm_same_stack(one->kernel, &one->problem, other->kernel, &other->problem);
}

uint32_t work_stack_rows(const struct work *work)
{
    return work_is_task(work) ? operation_group_units(work->task.operation, &work->task.problem)
                              : (uint32_t)work->problem.m;
}

const char *work_kernel_name(const struct work *work)
{
    if (work_is_task(work))
        return work->task.kernel->name;
    return work->kernel != NULL ? work->kernel->name : NULL;
}

enum gemmd_dtype work_dtype(const struct work *work)
{
    return work_is_task(work) ? work->task.operation->dtype(&work->task.problem)
                              : work->problem.dtype;
}

void work_lengths(const struct work *work, uint64_t lengths[OPERATION_LENGTHS])
{
    const struct gemm_problem *p = &work->problem;
    if (work_is_task(work)) {
        work->task.operation->lengths(&work->task.problem, lengths);
        return;
    }
    lengths[0] = p->m;
    lengths[1] = p->n;
    lengths[2] = p->k;
}

double work_flops(const struct work *work)
{
    const struct gemm_problem *p = &work->problem;
    if (work_is_task(work))
        return work->task.operation->flops(&work->task.problem);
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
}

double work_share_flops(const struct work *work)
{
    const struct gemm_problem *p = &work->problem;
    double flops;
    uint32_t factor;
    if (work_is_task(work)) {
        const struct operation *operation = work->task.operation;
        flops = operation->share_flops != NULL ? operation->share_flops(&work->task.problem)
                                               : work_flops(work);
        factor = work->task.kernel->share_factor;
    } else {
        flops = 2 * operation_length(p->m) * operation_length(p->n) * operation_length(p->k) *
                (double)p->batch;
        factor = work->kernel != NULL ? work->kernel->share_factor : 0;
    }
    return flops * (factor > 0 ? factor : 1);
}

/* Bytes of a matrix of each problem of a batch. A stride of 0: all problems have the same matrix.
 */
static double batch_bytes(uint64_t rows, uint64_t columns, enum gemmd_dtype dtype, uint64_t batch,
                          uint64_t stride)
{
    return (double)rows * (double)columns * dtype_size(dtype) *
           (batch > 1 && stride == 0 ? 1 : (double)batch);
}

double work_moved_bytes(const struct work *work)
{
    const struct gemm_problem *p = &work->problem;
    if (work_is_task(work))
        return work->task.operation->moved_bytes(&work->task.problem);
    double bytes = batch_bytes(p->m, p->k, p->dtype, p->batch, p->stride_a) +
                   batch_bytes(p->k, p->n, p->dtype, p->batch, p->stride_b) +
                   batch_bytes(p->m, p->n, p->out, p->batch, p->stride_c);
    if (p->beta != 0)
        bytes += batch_bytes(p->m, p->n, p->out, p->batch, p->stride_c0);
    return p->bias != NULL ? bytes + (double)p->n * dtype_size(p->out) : bytes;
}

bool work_is_useless(const struct work *work, uint64_t now_ns)
{
    return (work->deadline_ns != 0 && work->deadline_ns <= now_ns) ||
           atomic_load_explicit(&work->stop, memory_order_relaxed);
}

void work_set_stopped(struct work *work)
{
    if (atomic_load_explicit(&work->stop, memory_order_relaxed))
        work->status = fault_set(&work->fault, GEMMD_ERR_CANCELLED, NULL,
                                 "the request was withdrawn while the result was computed");
    else
        work->status = fault_set(&work->fault, GEMMD_ERR_DEADLINE, NULL,
                                 "the deadline passed while the device worked on the request");
}

void work_end(struct work *work)
{
    if (work->status == GEMMD_OK && work->deadline_ns != 0 && work->done_ns > work->deadline_ns)
        work->status = fault_set(&work->fault, GEMMD_ERR_DEADLINE, NULL,
                                 "the deadline passed while the result was computed");
    work->done(work);
}
