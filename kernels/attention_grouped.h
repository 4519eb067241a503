/*
 * attention_grouped.h - attentions of many requests in one launch.
 *
 * One short attention has too few tiles for all multiprocessors, and a launch costs the same for
 * one attention as for a hundred. A group computes many attentions in one launch. Its members may
 * have different sequence lengths, numbers of heads, batches, layouts, scales and windows, with or
 * without lengths of entries and lse. The properties that a kernel is compiled for must be the
 * same: type, head sizes, and which masks there are. Each member gets the same bytes as alone.
 *
 * How a batcher uses this module:
 *   - attention_can_group says whether the kernel that attention_select chose can compute groups.
 *   - Attentions can share a group if attention_same_group is true for them. Those for which it is
 *     true have the same attention_group_key, and others almost never have.
 *   - A group has at most ATTENTION_GROUP_MAX members, and at most the work that the kernel allows
 *     (attention_group_units, attention_kernel.group_units).
 *   - kernel->run_group enqueues (CUDA) or computes (CPU) the group. A group that is too long for
 *     the parameters of one launch takes several launches.
 *
 * All functions are pure and may be called by any thread. They ignore the problems' pointers.
 */
#ifndef KERNELS_ATTENTION_GROUPED_H
#define KERNELS_ATTENTION_GROUPED_H

#include "kernels/attention.h"

enum { ATTENTION_GROUP_MAX = 1024 };

/* Whether `kernel`, which takes the problem, can compute the problem in a group: the kernel has
 * run_group, and the problem is no more work than a group may have. */
bool attention_can_group(const struct attention_kernel *kernel,
                         const struct attention_problem *problem);

/* Whether two attentions, each of which attention_can_group allows, can share a group; and a hash
 * that is equal for attentions that can, never 0. */
bool attention_same_group(const struct attention_kernel *kernel,
                          const struct attention_problem *problem,
                          const struct attention_kernel *other_kernel,
                          const struct attention_problem *other);
uint64_t attention_group_key(const struct attention_kernel *kernel,
                             const struct attention_problem *problem);

/* The work of an attention in units of a million floating-point operations, at least 1. */
uint32_t attention_group_units(const struct attention_problem *problem);

/* Sorts the members into the order in which a launch should start them: by the number of keys that
 * a row sees, descending, rounded to powers of two. The sort is stable. With the longest tiles
 * first, no long tile runs alone at the end of the launch. `count` is at most ATTENTION_GROUP_MAX;
 * the two arrays must not overlap. */
void attention_group_order(const struct attention_member members[], uint32_t count,
                           struct attention_member ordered[]);

#endif
