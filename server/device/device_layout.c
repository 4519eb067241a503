#include "server/device/device_layout.h"

#include "proto/size.h"

bool device_span_has(struct device_span span, const void *address)
{
    return span.start != NULL && (uintptr_t)address >= (uintptr_t)span.start &&
           (uintptr_t)address - (uintptr_t)span.start < span.bytes;
}

static bool layout_add(struct device_layout *layout, uint64_t bytes, struct device_location *part)
{
    uint64_t aligned;
    *part = (struct device_location){layout->total_bytes, bytes};
    return size_align(bytes, DEVICE_LAYOUT_ALIGNMENT, &aligned) &&
           size_add(layout->total_bytes, aligned, &layout->total_bytes);
}

/* Lists the parts of the problem that was given. */
static bool layout_begin(const struct task *task, struct device_span tensors,
                         struct device_layout *layout)
{
    const struct operation *operation = task->operation;
    *layout = (struct device_layout){.operation = operation,
                                     .count = operation->operands + operation->results,
                                     .problem = task->problem};
    if (!operation_parts(operation, &task->problem, layout->list))
        return false;
    for (uint32_t i = 0; i < layout->count; i++) {
        layout->pitches[i] = layout->list[i].pitch;
        if (device_span_has(tensors, operation_pointer(operation, &task->problem, i)))
            layout->resident |= 1u << i;
    }
    return true;
}

bool device_layout_make(const struct task *task, const struct gemm_device *device,
                        struct device_span tensors, struct device_layout *layout)
{
    const struct operation *operation = task->operation;
    struct operation_arrangement arranged = {0, 0};
    uint64_t workspace_bytes;
    if (!layout_begin(task, tensors, layout))
        return false;
    if (operation->arrange != NULL &&
        (!operation->arrange(task->kernel, device, layout->resident, &layout->problem, &arranged) ||
         !operation_parts(operation, &layout->problem, layout->list)))
        return false;
    for (uint32_t i = 0; i < layout->count; i++)
        if ((layout->resident & ~arranged.packed & 1u << i) == 0 &&
            !layout_add(layout, layout->list[i].bytes, &layout->locations[i]))
            return false;
    if (!task->kernel->workspace_bytes(&layout->problem, &workspace_bytes) ||
        !layout_add(layout, workspace_bytes, &layout->workspace))
        return false;
    for (uint32_t i = 0; i < layout->count; i++)
        if ((arranged.apart & 1u << i) != 0 &&
            !layout_add(layout, layout->list[i].rows * layout->list[i].row_bytes,
                        &layout->staging[i]))
            return false;
    return true;
}

void device_layout_problem(const struct device_layout *layout, unsigned char *range,
                           union operation_problem *there)
{
    *there = layout->problem;
    for (uint32_t i = 0; i < layout->count; i++)
        if (layout->locations[i].bytes > 0)
            operation_point(layout->operation, there, i, range + layout->locations[i].offset);
}

void *device_layout_workspace(const struct device_layout *layout, unsigned char *range)
{
    return layout->workspace.bytes > 0 ? range + layout->workspace.offset : NULL;
}
