/*
 * fair_queue.h - the works that wait, in the order in which they run: fairly between tenants, then
 * by priority, then by deadline. The owner of a fair queue locks it (queue.h).
 *
 * A fair queue has two lanes: one for works that have a launch of their own, and one for works that
 * may go in a shared launch. A flow is the waiting works of one tenant and lane. The flows of a
 * lane share fairly by start-time fair queueing (sfq.h). Within a flow the highest priority comes
 * first, and within a priority the earliest deadline (edf_queue.h). A client chooses its own
 * priorities and deadlines, so that neither passes the works of another tenant.
 *
 * Each lane has tags of its own, because each lane has streams of its own: a lane whose streams are
 * busy does not move while the other does. One tag for both lanes would drift apart between tenants
 * that use different lanes. A tenant that began to use the other lane would then wait, or make the
 * others wait, until the tags were equal again. A tenant with works in both lanes gets its share of
 * each.
 *
 * Adding, dropping and serving take O(1) steps for one tenant whose deadlines come in order, and
 * O(log n) steps otherwise. Works are borrowed. Not thread-safe, except for `waiting`.
 */
#ifndef SERVER_SCHEDULER_FAIR_QUEUE_H
#define SERVER_SCHEDULER_FAIR_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/base/sfq.h"
#include "server/device/work.h"
#include "server/scheduler/edf_queue.h"
#include "server/scheduler/stack_index.h"

enum lane { LANE_EXCLUSIVE, LANE_SHARED, LANES };
enum { PRIORITIES = GEMM_PRIORITY_MAX + 1 };

/* I/O threads push the works that the dispatch thread pops, so that a cache line that both write
 * travels between their cores with every work. Fields that are used together are therefore kept on
 * as few cache lines as possible. */
enum { CACHE_LINE_BYTES = 64 };

/* Works linked by `next`, in order. Zeroed: empty. */
struct work_list {
    struct work *first, *last;
};
void work_list_append(struct work_list *list, struct work *work);

/* The waiting works of one tenant and lane. Nearly all works have the default priority, so that
 * two of the cache lines of a flow are used. */
struct flow {
    _Alignas(CACHE_LINE_BYTES) struct sfq_flow turn; /* entered while the flow has works */
    uint32_t occupied;                               /* bit i: a work of priority i waits */
    struct edf_queue edf[PRIORITIES];
};

struct fair_queue {
    _Alignas(CACHE_LINE_BYTES) struct sfq lanes[LANES]; /* of the flows that have works */
    uint64_t added;         /* number of works so far: gives each work its `order` */
    uint64_t waiting_bytes; /* of all works that wait */

    /* Number of works that wait in each lane. Any thread may read the numbers. They have a cache
     * line of their own, because the dispatch thread polls them without the lock while its device
     * is busy. */
    _Alignas(CACHE_LINE_BYTES) atomic_uint waiting[LANES];

    _Alignas(CACHE_LINE_BYTES) struct flow *flows; /* [tenants][LANES] */
    uint32_t flow_count;
    struct stack_index *stacks; /* the works that have a stack_key */
};

/* Opens a zeroed fair queue for tenants 0 ... tenants - 1. False: out of memory. */
bool fair_queue_open(struct fair_queue *queue, uint32_t tenants);
/* Frees what fair_queue_open allocated. No work may wait. */
void fair_queue_close(struct fair_queue *queue);

/* Adds a work. */
void fair_queue_add(struct fair_queue *queue, struct work *work);
/* Removes a work that will not run. The work's tenant is not charged. */
void fair_queue_drop(struct fair_queue *queue, struct work *work);
/* The cost of a work for its flow, if the device moves `bytes` bytes of the work's operands and
 * results: these bytes, and one byte more for every 64 of the operations that
 * work_share_flops counts. The cost is proportional to the time of a device that moves a byte in
 * the time of 64 operations. On a device with another ratio, a tenant's share of the device's time
 * is off by at most the quotient of the two ratios. */
uint64_t work_cost(const struct work *work, uint64_t bytes);
/* Removes a work that will run, and charges the cost of the work and of `bytes` to its flow. */
void fair_queue_serve(struct fair_queue *queue, struct work *work, uint64_t bytes);

/* The next work of a lane, which stays in the queue; NULL if the lane is empty. Works whose
 * deadline has passed are dropped and appended to `expired`. */
struct work *fair_queue_front(struct fair_queue *queue, enum lane lane, uint64_t now_ns,
                              struct work_list *expired);

/* Drops every work whose deadline has passed and appends it to `expired`. Returns a time before
 * which no other work expires, UINT64_MAX if no other work has a deadline. */
uint64_t fair_queue_drop_expired(struct fair_queue *queue, uint64_t now_ns,
                                 struct work_list *expired);
/* Drops all works and appends them to `dropped`. */
void fair_queue_drop_all(struct fair_queue *queue, struct work_list *dropped);

/* Whether the deadline of a work has passed. */
bool work_has_expired(const struct work *work, uint64_t now_ns);

#endif
