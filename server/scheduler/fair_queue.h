/*
 * fair_queue.h - the works that wait, in the order in which they run: fairly between tenants, then
 * by priority, then by deadline. The owner of a fair queue locks it (queue.h).
 *
 * A fair queue has two lanes: one for works that take a stream, alone, as a group or as a stack on
 * the CPU, and one for works that go in shared launches, which read operands in host memory
 * (work.shared_launch). A flow is the waiting works of one tenant and lane. The flows of a
 * lane share fairly by start-time fair queueing (sfq.h). Within a flow the highest priority comes
 * first, and within a priority the earliest deadline (struct edf_queue). A client chooses its own
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

/* --- the EDF queue: the waiting works of one tenant, lane and priority, earliest deadline first.
 * Works without a deadline come last. Works with equal deadlines run in the order of their arrival.
 *
 * Deadlines count in steps of 2^20 ns, about a millisecond. Requests with the same timeout arrive
 * nearly in the order of their deadlines, so that most works are added at the end of a list and
 * removed at its front. Only works that arrive out of order go through a heap. Adding and removing
 * therefore take O(1) steps for the usual load and O(log n) steps for any load. */

/* Zeroed: empty. */
struct edf_queue {
    struct work *first, *last; /* works that arrived in the order of their deadlines */
    struct heap_node *others;  /* works that arrived after one with a later deadline */
};

/* Whether work `one` runs before work `other` of the same tenant, lane and priority. `order` of
 * both is set. */
bool edf_queue_before(const struct work *one, const struct work *other);

/* Adds a work. `work->order`, the work's number in the order of arrival, is set. */
void edf_queue_add(struct edf_queue *edf, struct work *work);
/* Removes a work that is in the queue. */
void edf_queue_remove(struct edf_queue *edf, struct work *work);
/* The work to run next, which stays in the queue; NULL: the queue is empty. */
struct work *edf_queue_first(const struct edf_queue *edf);
/* A time before which no work in the queue has a deadline; UINT64_MAX: no work has one. */
uint64_t edf_queue_earliest_ns(const struct edf_queue *edf);

/* --- the join index: an index of the waiting works that can be in a stack or a group (work.h:
 * join_key), in which works that can join each other are found together.
 *
 * A bucket holds works that can join each other and are of one flow (one tenant and lane of the
 * queue), so that a stack has as many buckets as there are flows with works for it. The number of
 * buckets is fixed, and nothing is allocated while the daemon serves. A work that finds no free
 * bucket waits without one and is launched alone.
 *
 * Finding a bucket takes O(1) steps; adding and removing take O(log n) steps for n works in the
 * bucket. */

enum { JOIN_BUCKETS = 1024 };

struct flow;
struct join_index;

struct join_bucket {
    struct join_bucket *next; /* in the index's hash chain, or in its list of free buckets */
    struct heap_node *works;  /* by priority, then edf_queue_before; not empty while in use */
    struct flow *flow;
    struct heap_node node; /* for the caller of join_index_find, while it takes works */
};

/* NULL: out of memory. */
struct join_index *join_index_create(void);
/* NULL is allowed. */
void join_index_destroy(struct join_index *index);

/* Adds a work of `flow`, whose `order` is set, and sets work->bucket to the bucket of the
 * works of its flow that can join it, or to NULL if all buckets are in use. */
void join_index_add(struct join_index *index, struct work *work, struct flow *flow);
/* Removes a work whose bucket is not NULL, and sets work->bucket to NULL. A bucket that becomes
 * empty becomes free. */
void join_index_remove(struct join_index *index, struct work *work);

/* The first bucket with works that can join `work`, and the next one after `bucket`, in no
 * particular order. NULL: there are no more such buckets. */
struct join_bucket *join_index_find(const struct join_index *index, const struct work *work);
struct join_bucket *join_index_find_next(const struct join_bucket *bucket, const struct work *work);

/* The work of a bucket that runs first. */
struct work *join_bucket_first(const struct join_bucket *bucket);
/* Whether a bucket holds exactly one work. */
bool join_bucket_has_one(const struct join_bucket *bucket);

/* --- the fair queue */

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
    struct join_index *joins; /* the works that have a join_key */
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
 * results: these bytes, and one byte more for every 64 of the floating-point operations that
 * work_share_flops counts. The cost is proportional to the time of a device that moves a byte in
 * the time of 64 floating-point operations. On a device with another ratio, a tenant's share of the
 * device's time is off by at most the quotient of the two ratios. */
uint64_t work_cost(const struct work *work, uint64_t bytes);
/* Removes a work that will run, and charges the cost of the work and of `bytes` to its flow. */
void fair_queue_serve(struct fair_queue *queue, struct work *work, uint64_t bytes);

/* The next work of a lane, which stays in the queue; NULL if the lane is empty. Works whose
 * deadline has passed are dropped and appended to `expired`. */
struct work *fair_queue_front(struct fair_queue *queue, enum lane lane, uint64_t now_ns,
                              struct work_list *expired);
/* As fair_queue_front, of the first lane's flows whose next work costs at most `cost_max`. Takes
 * O(n) steps for n tenants. */
struct work *fair_queue_short_front(struct fair_queue *queue, uint64_t cost_max, uint64_t now_ns,
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
