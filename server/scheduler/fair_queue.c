#include "server/scheduler/fair_queue.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Every work costs this many bytes in addition to its own, so that small works are not free. */
static const uint64_t WORK_BYTES = 4096;
static const double FLOPS_PER_BYTE = 64;
/* No work costs more: tags, which are sums of costs, then do not overflow in the life of a daemon.
 */
static const double COST_MAX = 1e15;

_Static_assert(sizeof(struct flow) == 5 * CACHE_LINE_BYTES, "a flow is five cache lines");
_Static_assert(offsetof(struct fair_queue, waiting) == CACHE_LINE_BYTES,
               "what every work changes is one cache line");

/* ---- the EDF queue ---- */

/* Deadlines count in steps of 2^STEP_BITS nanoseconds. */
enum { STEP_BITS = 20 };

static uint64_t deadline_step(const struct work *work)
{
    return work->deadline_ns == 0 ? UINT64_MAX : work->deadline_ns >> STEP_BITS;
}

bool edf_queue_before(const struct work *one, const struct work *other)
{
    uint64_t step_of_one = deadline_step(one), step_of_other = deadline_step(other);
    return step_of_one != step_of_other ? step_of_one < step_of_other : one->order < other->order;
}

static bool edf_node_before(const struct heap_node *one, const struct heap_node *other)
{
    return edf_queue_before(OWNER_OF(one, const struct work, node),
                            OWNER_OF(other, const struct work, node));
}

void edf_queue_add(struct edf_queue *edf, struct work *work)
{
    work->in_order = edf->last == NULL || !edf_queue_before(work, edf->last);
    if (!work->in_order) {
        heap_add(&edf->others, &work->node, edf_node_before);
        return;
    }
    work->next = NULL;
    work->previous = edf->last;
    if (edf->last != NULL)
        edf->last->next = work;
    else
        edf->first = work;
    edf->last = work;
}

void edf_queue_remove(struct edf_queue *edf, struct work *work)
{
    if (!work->in_order) {
        heap_remove(&edf->others, &work->node, edf_node_before);
        return;
    }
    if (work->previous != NULL)
        work->previous->next = work->next;
    else
        edf->first = work->next;
    if (work->next != NULL)
        work->next->previous = work->previous;
    else
        edf->last = work->previous;
}

struct work *edf_queue_first(const struct edf_queue *edf)
{
    if (edf->others == NULL)
        return edf->first;
    struct work *other = OWNER_OF(edf->others, struct work, node);
    return edf->first == NULL || edf_queue_before(other, edf->first) ? other : edf->first;
}

uint64_t edf_queue_earliest_ns(const struct edf_queue *edf)
{
    const struct work *first = edf_queue_first(edf);
    return first == NULL || first->deadline_ns == 0 ? UINT64_MAX
                                                    : deadline_step(first) << STEP_BITS;
}

/* ---- the join index ---- */

struct join_index {
    struct join_bucket *chains[JOIN_BUCKETS]; /* lists of the buckets in use, by join_index_hash */
    struct join_bucket *free;
    struct join_bucket all[JOIN_BUCKETS];
};

static bool bucket_node_before(const struct heap_node *one, const struct heap_node *other)
{
    const struct work *a = OWNER_OF(one, const struct work, bucket_node);
    const struct work *b = OWNER_OF(other, const struct work, bucket_node);
    return a->priority != b->priority ? a->priority > b->priority : edf_queue_before(a, b);
}

struct join_index *join_index_create(void)
{
    struct join_index *index = calloc(1, sizeof *index);
    for (uint32_t i = 0; index != NULL && i < JOIN_BUCKETS; i++) {
        index->all[i].next = index->free;
        index->free = &index->all[i];
    }
    return index;
}

void join_index_destroy(struct join_index *index)
{
    free(index);
}

/* The high bits of a join_key are spread more evenly than the low bits. */
static uint32_t join_index_hash(const struct work *work)
{
    return (uint32_t)(work->join_key >> 32) % JOIN_BUCKETS;
}

/* The first bucket from `bucket` on in a hash chain that holds works that can join `work`.
 */
static struct join_bucket *join_index_match(struct join_bucket *bucket, const struct work *work)
{
    for (; bucket != NULL; bucket = bucket->next) {
        const struct work *other = join_bucket_first(bucket);
        if (other->join_key == work->join_key && work_can_join(other, work))
            return bucket;
    }
    return NULL;
}

struct join_bucket *join_index_find(const struct join_index *index, const struct work *work)
{
    return join_index_match(index->chains[join_index_hash(work)], work);
}

struct join_bucket *join_index_find_next(const struct join_bucket *bucket, const struct work *work)
{
    return join_index_match(bucket->next, work);
}

void join_index_add(struct join_index *index, struct work *work, struct flow *flow)
{
    struct join_bucket *bucket = join_index_find(index, work);
    while (bucket != NULL && bucket->flow != flow)
        bucket = join_index_find_next(bucket, work);
    if (bucket == NULL && index->free != NULL) {
        struct join_bucket **chain = &index->chains[join_index_hash(work)];
        bucket = index->free;
        index->free = bucket->next;
        *bucket = (struct join_bucket){.next = *chain, .flow = flow};
        *chain = bucket;
    }
    work->bucket = bucket;
    if (bucket != NULL)
        heap_add(&bucket->works, &work->bucket_node, bucket_node_before);
}

void join_index_remove(struct join_index *index, struct work *work)
{
    struct join_bucket *bucket = work->bucket, **link = &index->chains[join_index_hash(work)];
    heap_remove(&bucket->works, &work->bucket_node, bucket_node_before);
    work->bucket = NULL;
    if (bucket->works != NULL)
        return;
    while (*link != bucket)
        link = &(*link)->next;
    *link = bucket->next;
    bucket->next = index->free;
    index->free = bucket;
}

struct work *join_bucket_first(const struct join_bucket *bucket)
{
    return OWNER_OF(bucket->works, struct work, bucket_node);
}

bool join_bucket_has_one(const struct join_bucket *bucket)
{
    return bucket->works->left == NULL && bucket->works->right == NULL;
}

/* ---- the fair queue ---- */

void work_list_append(struct work_list *list, struct work *work)
{
    work->next = NULL;
    if (list->last != NULL)
        list->last->next = work;
    else
        list->first = work;
    list->last = work;
}

bool fair_queue_open(struct fair_queue *queue, uint32_t tenants)
{
    queue->flow_count = tenants * LANES;
    queue->flows = aligned_alloc(CACHE_LINE_BYTES, queue->flow_count * sizeof *queue->flows);
    if (queue->flows == NULL)
        return false;
    memset(queue->flows, 0, queue->flow_count * sizeof *queue->flows);
    queue->joins = join_index_create();
    if (queue->joins != NULL)
        return true;
    free(queue->flows);
    return false;
}

void fair_queue_close(struct fair_queue *queue)
{
    assert(sfq_first(&queue->lanes[LANE_EXCLUSIVE]) == NULL);
    assert(sfq_first(&queue->lanes[LANE_SHARED]) == NULL);
    join_index_destroy(queue->joins);
    free(queue->flows);
}

bool work_has_expired(const struct work *work, uint64_t now_ns)
{
    return work->deadline_ns != 0 && work->deadline_ns <= now_ns;
}

static enum lane lane_of(const struct work *work)
{
    return work->shared_launch ? LANE_SHARED : LANE_EXCLUSIVE;
}

static struct flow *flow_of(const struct fair_queue *queue, const struct work *work)
{
    return &queue->flows[work->tenant * LANES + lane_of(work)];
}

/* The work that runs first of a flow that has works. */
static struct work *flow_first(const struct flow *flow)
{
    return edf_queue_first(&flow->edf[31 - __builtin_clz(flow->occupied)]);
}

/* The counter is written under the owner's lock only, so that no read-modify-write is needed. */
static void count_waiting(struct fair_queue *queue, enum lane lane, int change)
{
    unsigned now = atomic_load_explicit(&queue->waiting[lane], memory_order_relaxed);
    atomic_store_explicit(&queue->waiting[lane], now + (unsigned)change, memory_order_relaxed);
}

void fair_queue_add(struct fair_queue *queue, struct work *work)
{
    const enum lane lane = lane_of(work);
    struct flow *flow = flow_of(queue, work);
    assert(work->priority < PRIORITIES);
    if (flow->occupied == 0)
        sfq_enter(&queue->lanes[lane], &flow->turn);
    flow->occupied |= 1u << work->priority;
    work->order = queue->added++;
    work->waiting = true;
    edf_queue_add(&flow->edf[work->priority], work);
    work->bucket = NULL;
    if (work->join_key != 0)
        join_index_add(queue->joins, work, flow);
    queue->waiting_bytes += work->bytes;
    count_waiting(queue, lane, 1);
}

/* Removes a work from its flow. Returns whether the flow has more works. */
static bool take_out(struct fair_queue *queue, struct flow *flow, struct work *work)
{
    struct edf_queue *edf = &flow->edf[work->priority];
    edf_queue_remove(edf, work);
    if (work->bucket != NULL)
        join_index_remove(queue->joins, work);
    work->waiting = false;
    queue->waiting_bytes -= work->bytes;
    count_waiting(queue, lane_of(work), -1);
    if (edf_queue_first(edf) == NULL)
        flow->occupied &= ~(1u << work->priority);
    return flow->occupied != 0;
}

void fair_queue_drop(struct fair_queue *queue, struct work *work)
{
    struct flow *flow = flow_of(queue, work);
    if (!take_out(queue, flow, work))
        sfq_leave(&queue->lanes[lane_of(work)], &flow->turn);
}

uint64_t work_cost(const struct work *work, uint64_t bytes)
{
    const double operations = work->share_flops / FLOPS_PER_BYTE;
    return bytes + WORK_BYTES + (uint64_t)(operations < COST_MAX ? operations : COST_MAX);
}

void fair_queue_serve(struct fair_queue *queue, struct work *work, uint64_t bytes)
{
    struct flow *flow = flow_of(queue, work);
    const bool stays = take_out(queue, flow, work);
    sfq_serve(&queue->lanes[lane_of(work)], &flow->turn, work_cost(work, bytes), stays);
}

struct work *fair_queue_front(struct fair_queue *queue, enum lane lane, uint64_t now_ns,
                              struct work_list *expired)
{
    struct sfq_flow *turn;
    while ((turn = sfq_first(&queue->lanes[lane])) != NULL) {
        struct work *work = flow_first(OWNER_OF(turn, struct flow, turn));
        if (!work_has_expired(work, now_ns))
            return work;
        fair_queue_drop(queue, work);
        work_list_append(expired, work);
    }
    return NULL;
}

struct work *fair_queue_short_front(struct fair_queue *queue, uint64_t cost_max, uint64_t now_ns,
                                    struct work_list *expired)
{
    const struct flow *next = NULL;
    for (uint32_t i = LANE_EXCLUSIVE; i < queue->flow_count; i += LANES) {
        const struct flow *flow = &queue->flows[i];
        while (flow->occupied != 0 && work_has_expired(flow_first(flow), now_ns)) {
            struct work *late = flow_first(flow);
            fair_queue_drop(queue, late);
            work_list_append(expired, late);
        }
        if (flow->occupied == 0)
            continue;
        const struct work *work = flow_first(flow);
        if (work_cost(work, work->bytes + work->outside_bytes) <= cost_max &&
            (next == NULL || sfq_before(&flow->turn, &next->turn)))
            next = flow;
    }
    return next != NULL ? flow_first(next) : NULL;
}

/* Drops the works of an EDF queue whose deadline has passed. Returns edf_queue_earliest_ns. */
static uint64_t drop_expired(struct fair_queue *queue, struct edf_queue *edf, uint64_t now_ns,
                             struct work_list *expired)
{
    struct work *work;
    while ((work = edf_queue_first(edf)) != NULL && work_has_expired(work, now_ns)) {
        fair_queue_drop(queue, work);
        work_list_append(expired, work);
    }
    return edf_queue_earliest_ns(edf);
}

uint64_t fair_queue_drop_expired(struct fair_queue *queue, uint64_t now_ns,
                                 struct work_list *expired)
{
    uint64_t earliest_ns = UINT64_MAX;
    for (uint32_t i = 0; i < queue->flow_count; i++) {
        struct flow *flow = &queue->flows[i];
        for (uint32_t left = flow->occupied; left != 0; left &= left - 1) {
            struct edf_queue *edf = &flow->edf[__builtin_ctz(left)];
            const uint64_t queue_ns = drop_expired(queue, edf, now_ns, expired);
            if (queue_ns < earliest_ns)
                earliest_ns = queue_ns;
        }
    }
    return earliest_ns;
}

void fair_queue_drop_all(struct fair_queue *queue, struct work_list *dropped)
{
    for (uint32_t i = 0; i < queue->flow_count; i++)
        while (queue->flows[i].occupied != 0) {
            struct work *work = flow_first(&queue->flows[i]);
            fair_queue_drop(queue, work);
            work_list_append(dropped, work);
        }
}
