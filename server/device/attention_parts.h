/*
 * attention_parts.h - the locations of an attention's parts in its range of device memory.
 *
 * As in device_layout.h, every part starts at a multiple of DEVICE_LAYOUT_ALIGNMENT. Operands in
 * tensor memory are used where they are, with the strides that they have. Pure functions, any
 * thread.
 */
#ifndef SERVER_DEVICE_ATTENTION_PARTS_H
#define SERVER_DEVICE_ATTENTION_PARTS_H

#include "kernels/attention.h"
#include "server/device/device_layout.h"

/* The parts have the layout that they have on the host, with gaps between rows. */
struct attention_parts {
    struct device_part lens_q, lens_kv, q, k, v, o, lse, workspace;
    uint64_t total_bytes;
};

/* Computes the parts of a problem with a kernel. The problem's lengths and lse are only tested for
 * NULL, and K and V for being in the span `there`. False: the size overflows. */
bool attention_parts_place(const struct attention_problem *problem,
                           const struct attention_kernel *kernel, struct device_span there,
                           struct attention_parts *parts);

/* The problem with pointers to its parts in the range of device memory that begins at `range`. */
struct attention_problem attention_parts_problem(const struct attention_parts *parts,
                                                 const struct attention_problem *problem,
                                                 unsigned char *range);

#endif
