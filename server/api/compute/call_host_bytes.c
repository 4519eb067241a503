#include "server/api/compute/call_host_bytes.h"

#include "server/api/compute/compute_call.h"
#include "server/scheduler/executor.h"

struct call_host_bytes call_host_bytes(const struct compute_call *call)
{
    const struct task *task = &call->work.task;
    const struct device_span tensors = device_tensor_memory(call->executor->device);
    struct operation_part parts[OPERATION_PARTS_MAX];
    struct call_host_bytes bytes = {0, 0};
    if (call->client_memory.on_device)
        return bytes;
    const uint32_t count = task->operation->parts(&task->problem, parts);
    for (uint32_t i = 0; i < count; i++)
        if (!device_span_has(tensors, operation_part_pointer(&task->problem, &parts[i])))
            *(parts[i].is_whole ? &bytes.whole : &bytes.divided) += (double)parts[i].bytes;
    return bytes;
}
