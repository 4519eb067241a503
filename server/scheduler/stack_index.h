/*
 * stack_index.h - an index of the waiting works that can be stacked (work.h: stack_key), in which
 * the works of one stack are found together.
 *
 * A bucket holds works of one stack and one flow (one tenant and lane of the queue), so that a
 * stack has as many buckets as there are flows with works for it. The number of buckets is
 * fixed, and nothing is allocated while the daemon serves. A work that finds no free bucket waits
 * without one and is launched without others of its stack.
 *
 * Finding a bucket takes O(1) steps; adding and removing take O(log n) steps for n works in the
 * bucket. Works are borrowed. Not thread-safe: the queue's lock protects the index.
 */
#ifndef SERVER_SCHEDULER_STACK_INDEX_H
#define SERVER_SCHEDULER_STACK_INDEX_H

#include <stdbool.h>

#include "server/device/work.h"

enum { STACK_BUCKETS = 1024 };

struct flow; /* fair_queue.h */
struct stack_index;

struct stack_bucket {
    struct stack_bucket *next; /* in the index's hash chain, or in its list of free buckets */
    struct heap_node *works;   /* by priority, then edf_queue_before; not empty while in use */
    struct flow *flow;
    struct heap_node node; /* for the caller of stack_index_find, while it takes works */
};

/* NULL: out of memory. */
struct stack_index *stack_index_create(void);
/* NULL is allowed. */
void stack_index_destroy(struct stack_index *index);

/* Adds a work of `flow`, whose `order` is set, and sets work->bucket to the bucket of the work's
 * stack and flow, or to NULL if all buckets are in use. */
void stack_index_add(struct stack_index *index, struct work *work, struct flow *flow);
/* Removes a work whose bucket is not NULL, and sets work->bucket to NULL. A bucket that becomes
 * empty becomes free. */
void stack_index_remove(struct stack_index *index, struct work *work);

/* The first bucket with works of the same stack as `work`, and the next one after `bucket`, in no
 * particular order. NULL: there are no more such buckets. */
struct stack_bucket *stack_index_find(const struct stack_index *index, const struct work *work);
struct stack_bucket *stack_index_find_next(const struct stack_bucket *bucket,
                                           const struct work *work);

/* The work of a bucket that runs first. */
struct work *stack_bucket_first(const struct stack_bucket *bucket);
/* Whether a bucket holds exactly one work. */
bool stack_bucket_has_one(const struct stack_bucket *bucket);

#endif
