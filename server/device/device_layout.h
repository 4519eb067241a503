/*
 * device_layout.h - where the parts of a problem lie within its range of device memory.
 *
 * Every part starts at a multiple of DEVICE_LAYOUT_ALIGNMENT, whatever the alignment it had on the
 * host: a library that chooses its kernel by alignment makes the same choice every time, and
 * results don't depend on how a body was laid out. Pure functions, any thread.
 */
#ifndef SERVER_DEVICE_DEVICE_LAYOUT_H
#define SERVER_DEVICE_DEVICE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

enum { DEVICE_LAYOUT_ALIGNMENT = 256 };

/* Bytes from the range's start; a part of 0 bytes is not there. */
struct device_part {
    uint64_t offset, bytes;
};

struct device_layout {
    struct device_part a, b, bias, c0, c, workspace;
    struct device_part a_staging, b_staging; /* where rows come to that are moved apart from there:
                                                contiguous. Of device_layout_padded */
    uint64_t total_bytes;
    struct gemm_problem problem; /* as it is run: with the leading dimensions and strides that the
                                    parts have there. Pointers as they were */
};

/* Memory of the device in which operands and results may lie already. */
struct device_span {
    void *start; /* NULL: there is none */
    uint64_t bytes;
};
bool device_span_has(struct device_span span, const void *address);

/* What lies in `there` is used where it is and has no part, unless it has gaps between its rows
 * that would change what the kernel computes: then it has one, without gaps. False on overflow.
 * Other pointers of the problem are looked at only for being NULL. */
bool device_layout(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                   struct device_span there, struct device_layout *layout);

/* As device_layout, but the rows of A and B that come from the host are as far apart as `wanted`
 * says, if the kernel would else move them apart in its workspace first: the copies in can do that
 * while a body is still being received (copy_in.h). They have a staging then. Kernels that do not
 * take any_leading get what they always get, so that no result changes. */
struct device_leading {
    uint64_t a, b; /* elements; not more than the matrix has columns: as it came */
};
bool device_layout_padded(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                          struct device_leading wanted, struct device_span there,
                          struct device_layout *layout);

/* The problem as it is run, with the parts that it has in `range`, where they lie there. */
struct gemm_problem device_layout_problem(const struct device_layout *layout, unsigned char *range);

#endif
