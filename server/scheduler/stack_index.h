/*
 * stack_index.h - the works that wait to be stacked (work.h: stack_key), where those of one stack
 * are found together.
 *
 * A bucket holds works of one stack and one flow: one tenant, lane and priority of the queue. A
 * stack has as many stacks as flows have works for it. Their number is fixed, so that nothing is
 * allocated while serving; what finds none free waits without one, and is launched without company.
 * Finding takes O(1) steps, adding and removing O(log n) for n works on the bucket. Not
 * thread-safe: the queue locks it. Works are borrowed.
 */
#ifndef SERVER_SCHEDULER_STACK_INDEX_H
#define SERVER_SCHEDULER_STACK_INDEX_H

#include <stdbool.h>

#include "server/device/work.h"

enum { STACK_BUCKETS = 1024 };

struct flow; /* the queue's */
struct stack_index;

struct stack_bucket {
    struct stack_bucket *next; /* in its bucket, or among the free ones */
    struct heap_node *works;   /* as they run (edf_queue_before); never empty */
    struct flow *flow;
    struct heap_node node; /* the taker's, while it takes */
};

struct stack_index *stack_index_create(void); /* NULL: out of memory */
void stack_index_destroy(struct stack_index *index);

/* Sets work->bucket: one of its stack and flow, or NULL if there is none left. `order` is set. */
void stack_index_add(struct stack_index *index, struct work *work, struct flow *flow);
/* Its bucket is not NULL; it is after this. A bucket that gets empty is gone. */
void stack_index_remove(struct stack_index *index, struct work *work);

/* The stacks with works of the same stack as `work`, one after another, in no order; NULL: there
 * are no more. */
struct stack_bucket *stack_index_find(const struct stack_index *index, const struct work *work);
struct stack_bucket *stack_index_find_next(const struct stack_bucket *bucket,
                                           const struct work *work);

/* The one that runs first, and whether it is the only one. */
struct work *stack_bucket_first(const struct stack_bucket *bucket);
bool stack_bucket_has_one(const struct stack_bucket *bucket);

#endif
