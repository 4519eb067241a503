/*
 * attention_parts.h - where the parts of an attention lie within its range of device memory.
 *
 * As device_layout.h: every part starts at a multiple of DEVICE_LAYOUT_ALIGNMENT, and what lies in
 * tensor memory is used there, with the strides that it has. Pure functions, any thread.
 */
#ifndef SERVER_DEVICE_ATTENTION_PARTS_H
#define SERVER_DEVICE_ATTENTION_PARTS_H

#include "kernels/attention.h"
#include "server/device/device_layout.h"

/* Parts as they lie on the host, gaps between rows included. */
struct attention_parts {
    struct device_part lens_q, lens_kv, q, k, v, o, lse, workspace;
    uint64_t total_bytes;
};

/* False on overflow. Pointers of the problem are looked at only for being NULL (lengths, lse) or in
 * `there` (K, V). */
bool attention_parts_place(const struct attention_problem *problem,
                           const struct attention_kernel *kernel, struct device_span there,
                           struct attention_parts *parts);

/* The problem as the device sees it: with its parts in the range that begins at `range`. */
struct attention_problem attention_parts_problem(const struct attention_parts *parts,
                                                 const struct attention_problem *problem,
                                                 unsigned char *range);

#endif
