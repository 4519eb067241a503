/*
 * device_layout.h - the locations of a task's operands and results in its range of device memory.
 *
 * Each operand and result starts at a multiple of DEVICE_LAYOUT_ALIGNMENT, whatever its alignment
 * was on the host. A library that chooses its kernel by alignment then makes the same choice every
 * time, and results do not depend on the layout of a request's body. Operands and results in the
 * device's tensor memory are used where they are, unless the operation wants them elsewhere
 * (operation->arrange). Pure functions, any thread.
 */
#ifndef SERVER_DEVICE_DEVICE_LAYOUT_H
#define SERVER_DEVICE_DEVICE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/operations.h"

enum { DEVICE_LAYOUT_ALIGNMENT = 256 };

/* Where something lies in the range; 0 bytes: it is not in the range. */
struct device_location {
    uint64_t offset, bytes; /* the offset is from the start of the range */
};

/* A span of the device's memory that may already hold operands and results. */
struct device_span {
    void *start; /* NULL: there is no such memory */
    uint64_t bytes;
};
bool device_span_has(struct device_span span, const void *address);

struct device_layout {
    const struct operation *operation; /* of the task */
    /* The operands and results of `problem` (operation->parts). */
    struct operation_part list[OPERATION_PARTS_MAX];
    struct device_location locations[OPERATION_PARTS_MAX]; /* 0 bytes: not in the range */
    /* The rows of these operands are copied here, without gaps, before they are moved apart to
     * their locations. 0 bytes: the operand is copied to its location. */
    struct device_location staging[OPERATION_PARTS_MAX];
    /* Distances of rows where the operands and results are now, in bytes. */
    uint64_t pitches[OPERATION_PARTS_MAX];
    uint32_t resident; /* bit i: part i of the problem is in the span of tensor memory */
    uint32_t count;    /* of the operation's operands and results */
    struct device_location workspace;
    uint64_t total_bytes;
    /* The problem as it runs, with the leading dimensions and strides that its operands and results
     * have in the range. Its pointers are those of the problem that was given. */
    union operation_problem problem;
};

/* Computes the layout of a task. The problem's pointers are only tested for NULL and for being in
 * the span `tensors`. `device`: the device, for whose kernels the rows of operands from the host
 * may be moved apart; NULL: all rows keep their distances. False: the size overflows. */
bool device_layout_make(const struct task *task, const struct gemm_device *device,
                        struct device_span tensors, struct device_layout *layout);

/* Sets `there` to the problem as it runs, with pointers to its parts in the range of device memory
 * that begins at `range`. */
void device_layout_problem(const struct device_layout *layout, unsigned char *range,
                           union operation_problem *there);

/* The workspace in the range that begins at `range`; NULL: the kernel needs none. */
void *device_layout_workspace(const struct device_layout *layout, unsigned char *range);

#endif
