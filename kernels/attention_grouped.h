/*
 * attention_grouped.h - attentions of many requests in one launch.
 *
 * A launch costs the same for one short attention as for a hundred, and one alone often has too few
 * tiles for all of the machine. So attentions of any lengths, numbers of heads, batches, layouts,
 * scales and windows go together, each with lengths of entries or not, with lse or not; what a
 * kernel is compiled for is the same for all: type, head sizes and which masks there are. Each gets
 * the bytes that it has alone.
 *
 * How a batcher uses it:
 *   - attention_can_group says whether the kernel that attention_select gave may.
 *   - Attentions may share a launch if attention_same_group says so, whose answer is hardly ever no
 *     where attention_group_key is the same, up to ATTENTION_GROUP_MAX of them and as much work as
 *     the kernel says (attention_group_units, attention_kernel.group_units).
 *   - kernel->run_group enqueues (CUDA) or makes (CPU) the launch, or a few where the list is
 * longer than a launch's parameters.
 *
 * Pure functions, any thread. Pointers of the problems are not looked at.
 */
#ifndef KERNELS_ATTENTION_GROUPED_H
#define KERNELS_ATTENTION_GROUPED_H

#include "kernels/attention.h"

enum { ATTENTION_GROUP_MAX = 1024 };

/* Whether `kernel`, which takes the problem, may compute it in a group: it has run_group, and it is
 * no more work than a group may be. */
bool attention_can_group(const struct attention_kernel *kernel,
                         const struct attention_problem *problem);

/* Whether two attentions that attention_can_group allows may be in one group, and a number that is
 * the same for those that may and hardly ever for others; never 0. */
bool attention_same_group(const struct attention_kernel *kernel,
                          const struct attention_problem *problem,
                          const struct attention_kernel *other_kernel,
                          const struct attention_problem *other);
uint64_t attention_group_key(const struct attention_kernel *kernel,
                             const struct attention_problem *problem);

/* The work of an attention in units of a million floating-point operations, at least 1. */
uint32_t attention_group_units(const struct attention_problem *problem);

/* Writes the members in the order in which a launch should begin them: those first whose rows see
 * most keys, to a factor of two, and equals as they were; so that no long tile is alone at the end.
 * At most ATTENTION_GROUP_MAX; the two lists are apart. */
void attention_group_order(const struct attention_member members[], uint32_t count,
                           struct attention_member ordered[]);

#endif
