#include "server/api/compute/call_device.h"

#include "server/api/compute/call_state.h"
#include "server/api/services.h"

struct executor *call_device_choose(const struct compute_call *call, struct services *services,
                                    uint32_t full)
{
    struct executors *executors = &services->executors;
    const struct device *shared = client_memory_device(&call->client_memory);
    uint64_t missing[DEVICES_MAX];
    if (executors->count == 1)
        return &executors->list[0];
    for (uint32_t i = 0; i < executors->count; i++) {
        if (executors->list[i].device == shared && full == 0)
            return &executors->list[i];
        missing[i] =
            (full & 1u << i) != 0 ? UINT64_MAX : call_residents_missing(&call->residents, i);
    }
    return executor_place(executors, missing);
}

void call_device_discharge(struct compute_call *call)
{
    if (call->charged_ns > 0)
        executor_discharge(call->executor, call->charged_ns);
    call->charged_ns = 0;
}

void call_device_charge(struct compute_call *call, const struct services *services, double flops,
                        uint64_t bytes)
{
    const struct task *task = &call->work.task;
    const struct executor_load load = {
        .dtype = flops > 0 ? task->operation->dtype(&task->problem) : GEMMD_F32,
        .flops = flops,
        .host_bytes = bytes,
    };
    uint64_t ns = 0;
    if (services->executors.count == 1)
        return;
    if (flops > 0 || bytes > 0)
        ns = executor_estimate_ns(call->executor, &load);
    executor_charge(call->executor, ns);
    call_device_discharge(call);
    call->charged_ns = ns;
}
