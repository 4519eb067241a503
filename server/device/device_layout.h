/*
 * device_layout.h - the locations of a product's parts in its range of device memory.
 *
 * Every part starts at a multiple of DEVICE_LAYOUT_ALIGNMENT, whatever its alignment was on the
 * host. A library that chooses its kernel by alignment then makes the same choice every time, and
 * results do not depend on the layout of a request's body. Pure functions, any thread.
 */
#ifndef SERVER_DEVICE_DEVICE_LAYOUT_H
#define SERVER_DEVICE_DEVICE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

enum { DEVICE_LAYOUT_ALIGNMENT = 256 };

/* A part of the range; 0 bytes: the problem has no such part. */
struct device_part {
    uint64_t offset, bytes; /* the offset is from the start of the range */
};

struct device_layout {
    struct device_part a, b, bias, c0, a_scale, b_scale, c, workspace;
    /* The rows of A and B are copied to these parts, without gaps, before they are moved apart to
     * `a` and `b` (device_layout_padded). */
    struct device_part a_staging, b_staging;
    uint64_t total_bytes;
    /* The problem as it runs, with the leading dimensions and strides that its parts have in the
     * range. Its pointers are those of the problem that was given. */
    struct gemm_problem problem;
};

/* A span of the device's memory that may already hold operands and results. */
struct device_span {
    void *start; /* NULL: there is no such memory */
    uint64_t bytes;
};
bool device_span_has(struct device_span span, const void *address);

/* Computes the layout of a problem with a kernel. A matrix in the span `there` is used where it is
 * and has no part, unless the gaps between its rows would change what the kernel computes: the
 * matrix then has a part without gaps. The problem's other pointers are only tested for NULL.
 * False: the size overflows. */
bool device_layout(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                   struct device_span there, struct device_layout *layout);

/* As device_layout, but the rows of A and B that come from the host have the leading dimensions
 * `wanted`, if the kernel would otherwise move the rows apart in its workspace. The copies to the
 * device then move the rows apart while the body is still being received (copy_in.h), for which
 * they need a staging part. Kernels without any_leading get the rows as device_layout places them,
 * so that their results do not change. */
struct device_leading {
    uint64_t a, b; /* elements. A matrix with as many columns or more stays without gaps */
};
bool device_layout_padded(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                          struct device_leading wanted, struct device_span there,
                          struct device_layout *layout);

/* The problem as it runs, with pointers to its parts in the range that begins at `range`. */
struct gemm_problem device_layout_problem(const struct device_layout *layout, unsigned char *range);

#endif
