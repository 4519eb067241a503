/*
 * attention_grouped.h - attentions of many requests in one launch.
 *
 * One short attention has too few tiles for all multiprocessors, and a launch costs the same for
 * one attention as for a hundred. A group computes many attentions in one launch. Its members may
 * have different sequence lengths, numbers of heads, batches, layouts, scales and windows, with or
 * without lengths of entries and lse. The properties that a kernel is compiled for must be the
 * same: type, head sizes, and kinds of masks. Each member gets the same bytes as alone.
 *
 * All functions are pure and may be called by any thread. They ignore the problems' pointers.
 */
#ifndef KERNELS_ATTENTION_GROUPED_H
#define KERNELS_ATTENTION_GROUPED_H

#include "kernels/attention.h"
#include "kernels/operation.h"

enum { ATTENTION_GROUP_MAX = OPERATION_GROUP_MAX };

/* The properties that all attentions of a group must share, besides the kernel. */
struct operation_traits attention_group_traits(const void *problem);

/* The work of an attention in units of a million floating-point operations, at least 1. */
uint32_t attention_group_units(const void *problem);

/* Sorts the members into the order in which a launch should start them: by the number of keys that
 * a row sees, descending, rounded to powers of two. The sort is stable. With the longest tiles
 * first, no long tile runs alone at the end of the launch. `count` is at most ATTENTION_GROUP_MAX;
 * the two arrays must not overlap. */
void attention_group_order(const struct operation_member members[], uint32_t count,
                           struct attention_member ordered[]);

#endif
