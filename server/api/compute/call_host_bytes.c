#include "server/api/compute/call_host_bytes.h"

#include "proto/dtype.h"
#include "server/api/compute/compute_call.h"
#include "server/scheduler/executor.h"

static struct call_host_bytes of_task(const struct compute_call *call)
{
    const struct task *task = &call->work.task;
    const struct device_span tensors = device_tensor_memory(call->executor->device);
    struct operation_part parts[OPERATION_PARTS_MAX];
    struct call_host_bytes bytes = {0, 0};
    const uint32_t count = task->operation->parts(&task->problem, parts);
    for (uint32_t i = 0; i < count; i++)
        if (!device_span_has(tensors, operation_part_pointer(&task->problem, &parts[i])))
            *(parts[i].is_whole ? &bytes.whole : &bytes.divided) += (double)parts[i].bytes;
    return bytes;
}

static struct call_host_bytes of_product(const struct compute_call *call)
{
    const struct gemm_problem *p = &call->work.problem;
    const double in = (double)dtype_size(p->dtype), out = (double)dtype_size(p->out);
    const double problems = (double)p->batch, m = (double)p->m, n = (double)p->n, k = (double)p->k;
    struct call_host_bytes bytes = {0, 0};
    if (call->residents.stored == NULL)
        bytes.divided += problems * out * m * n;
    if (p->beta != 0)
        bytes.divided += problems * out * m * n;
    if (call->residents.a == NULL)
        bytes.divided += problems * in * m * k;
    if (call->residents.b == NULL)
        *(p->batch > 1 ? &bytes.divided : &bytes.whole) += problems * in * n * k;
    return bytes;
}

struct call_host_bytes call_host_bytes(const struct compute_call *call)
{
    if (call->client_memory.on_device)
        return (struct call_host_bytes){0, 0};
    return work_is_task(&call->work) ? of_task(call) : of_product(call);
}
