/*
 * task_parts.h - the locations of a task's operands and results in its range of device memory.
 *
 * As in device_layout.h, every part starts at a multiple of DEVICE_LAYOUT_ALIGNMENT. Operands and
 * results in tensor memory are used where they are. The other parts have the layout that they have
 * on the host, including any gaps between rows. Pure functions, any thread.
 */
#ifndef SERVER_DEVICE_TASK_PARTS_H
#define SERVER_DEVICE_TASK_PARTS_H

#include "kernels/operations.h"
#include "server/device/device_layout.h"

struct task_parts {
    struct operation_part list[OPERATION_PARTS_MAX]; /* operation->parts, by number */
    struct device_part places[OPERATION_PARTS_MAX];  /* 0 bytes: not in the range */
    uint32_t count;
    struct device_part workspace;
    uint64_t total_bytes;
};

/* Computes the parts of a task. The problem's pointers are only tested for NULL and for being in
 * the span `there`. False: the size overflows. */
bool task_parts_place(const struct task *task, struct device_span there, struct task_parts *parts);

/* Sets `there` to the problem of `task` with pointers to its parts in the range of device memory
 * that begins at `range`. */
void task_parts_problem(const struct task_parts *parts, const struct task *task,
                        unsigned char *range, union operation_problem *there);

/* The workspace in the range that begins at `range`; NULL: the kernel needs none. */
void *task_parts_workspace(const struct task_parts *parts, unsigned char *range);

#endif
