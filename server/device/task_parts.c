#include "server/device/task_parts.h"

#include "proto/size.h"

static bool parts_add(struct task_parts *parts, uint64_t bytes, struct device_part *part)
{
    uint64_t aligned;
    *part = (struct device_part){parts->total_bytes, bytes};
    return size_align(bytes, DEVICE_LAYOUT_ALIGNMENT, &aligned) &&
           size_add(parts->total_bytes, aligned, &parts->total_bytes);
}

bool task_parts_place(const struct task *task, struct device_span there, struct task_parts *parts)
{
    const void *problem = &task->problem;
    uint64_t workspace_bytes;
    *parts = (struct task_parts){.total_bytes = 0};
    parts->count = task->operation->parts(problem, parts->list);
    if (parts->count == 0)
        return false;
    for (uint32_t i = 0; i < parts->count; i++)
        if (!device_span_has(there, operation_part_pointer(problem, &parts->list[i])) &&
            !parts_add(parts, parts->list[i].bytes, &parts->places[i]))
            return false;
    return task->kernel->workspace_bytes(problem, &workspace_bytes) &&
           parts_add(parts, workspace_bytes, &parts->workspace);
}

void task_parts_problem(const struct task_parts *parts, const struct task *task,
                        unsigned char *range, union operation_problem *there)
{
    *there = task->problem;
    for (uint32_t i = 0; i < parts->count; i++)
        if (parts->places[i].bytes > 0)
            operation_part_point(there, &parts->list[i], range + parts->places[i].offset);
}

void *task_parts_workspace(const struct task_parts *parts, unsigned char *range)
{
    return parts->workspace.bytes > 0 ? range + parts->workspace.offset : NULL;
}
