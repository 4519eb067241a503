#include "server/scheduler/fair_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Every work costs this many bytes besides its own, so that small works are not free. */
static const uint64_t WORK_BYTES = 4096;
static const double FLOPS_PER_BYTE = 64;
/* No work costs more: tags, which are sums of costs, then do not overflow in the life of a daemon.
 */
static const double COST_MAX = 1e15;

_Static_assert(sizeof(struct flow) == CACHE_LINE_BYTES, "a flow is one cache line");

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
    queue->flow_count = tenants * LANES * PRIORITIES;
    queue->flows = aligned_alloc(CACHE_LINE_BYTES, queue->flow_count * sizeof *queue->flows);
    if (queue->flows == NULL)
        return false;
    memset(queue->flows, 0, queue->flow_count * sizeof *queue->flows);
    queue->stacks = stack_index_create();
    if (queue->stacks != NULL)
        return true;
    free(queue->flows);
    return false;
}

void fair_queue_close(struct fair_queue *queue)
{
    assert(queue->occupied[LANE_EXCLUSIVE] == 0 && queue->occupied[LANE_SHARED] == 0);
    stack_index_destroy(queue->stacks);
    free(queue->flows);
}

/* Flows with equal tags are ordered by the numbers of their tenants. */
bool flow_before(const struct flow *a, const struct flow *b)
{
    return a->start != b->start ? a->start < b->start : a < b;
}

static bool flow_node_before(const struct heap_node *one, const struct heap_node *other)
{
    return flow_before(HEAP_OWNER(one, const struct flow, node),
                       HEAP_OWNER(other, const struct flow, node));
}

bool work_has_expired(const struct work *work, uint64_t now_ns)
{
    return work->deadline_ns != 0 && work->deadline_ns <= now_ns;
}

/* The position of a work in the fair queue. */
struct position {
    enum lane lane;
    uint32_t priority;
    struct level *level;
    struct flow *flow;
};

static struct position position_of(struct fair_queue *queue, const struct work *work)
{
    uint32_t priority = work->priority < PRIORITIES ? work->priority : PRIORITIES - 1;
    enum lane lane = work->shared_launch ? LANE_SHARED : LANE_EXCLUSIVE;
    return (struct position){lane, priority, &queue->levels[lane][priority],
                             &queue->flows[(work->tenant * LANES + lane) * PRIORITIES + priority]};
}

/* Adds the flow of a position, which is about to get its first work, to its level. */
static void flow_activate(struct fair_queue *queue, const struct position *at)
{
    struct level *level = at->level;
    if (level->flows == NULL) { /* all flows were served to the end, and start as equals */
        level->now = level->last_start;
        queue->occupied[at->lane] |= 1u << at->priority;
    }
    if (at->flow->start < level->now)
        at->flow->start = level->now;
    heap_add(&level->flows, &at->flow->node, flow_node_before);
}

/* Notes that the flow of a position has no works left. The flow is out of its level's heap. */
static void flow_deactivate(struct fair_queue *queue, const struct position *at)
{
    if (at->level->flows == NULL)
        queue->occupied[at->lane] &= ~(1u << at->priority);
}

/* The counter is written under the owner's lock only, so that no read-modify-write is needed. */
static void count_waiting(struct fair_queue *queue, enum lane lane, int change)
{
    unsigned now = atomic_load_explicit(&queue->waiting[lane], memory_order_relaxed);
    atomic_store_explicit(&queue->waiting[lane], now + (unsigned)change, memory_order_relaxed);
}

void fair_queue_add(struct fair_queue *queue, struct work *work)
{
    const struct position at = position_of(queue, work);
    if (edf_queue_first(&at.flow->edf) == NULL)
        flow_activate(queue, &at);
    work->order = queue->added++;
    work->waiting = true;
    edf_queue_add(&at.flow->edf, work);
    work->bucket = NULL;
    if (work->stack_key != 0)
        stack_index_add(queue->stacks, work, at.flow);
    queue->waiting_bytes += work->bytes;
    count_waiting(queue, at.lane, 1);
}

static void take_out(struct fair_queue *queue, const struct position *at, struct work *work)
{
    edf_queue_remove(&at->flow->edf, work);
    if (work->bucket != NULL)
        stack_index_remove(queue->stacks, work);
    work->waiting = false;
    queue->waiting_bytes -= work->bytes;
    count_waiting(queue, at->lane, -1);
}

void fair_queue_drop(struct fair_queue *queue, struct work *work)
{
    const struct position at = position_of(queue, work);
    take_out(queue, &at, work);
    if (edf_queue_first(&at.flow->edf) != NULL)
        return;
    heap_remove(&at.level->flows, &at.flow->node, flow_node_before);
    flow_deactivate(queue, &at);
}

uint64_t work_cost(const struct work *work, uint64_t bytes)
{
    const double operations = work->share_flops / FLOPS_PER_BYTE;
    return bytes + WORK_BYTES + (uint64_t)(operations < COST_MAX ? operations : COST_MAX);
}

/* If the flow is the next of its level, the level's `now` advances to the flow's tag. If the work
 * is served out of turn, because another flow's stack takes the work along, the flow is only
 * charged. */
void fair_queue_serve(struct fair_queue *queue, struct work *work, uint64_t bytes)
{
    const struct position at = position_of(queue, work);
    take_out(queue, &at, work);
    if (at.level->flows == &at.flow->node)
        at.level->now = at.flow->start;
    heap_remove(&at.level->flows, &at.flow->node, flow_node_before);
    at.flow->start += work_cost(work, bytes);
    if (at.flow->start > at.level->last_start)
        at.level->last_start = at.flow->start;
    if (edf_queue_first(&at.flow->edf) != NULL)
        heap_add(&at.level->flows, &at.flow->node, flow_node_before);
    else
        flow_deactivate(queue, &at);
}

struct work *fair_queue_front(struct fair_queue *queue, enum lane lane, uint64_t now_ns,
                              struct work_list *expired)
{
    while (queue->occupied[lane] != 0) {
        int priority = 31 - __builtin_clz(queue->occupied[lane]);
        struct heap_node *first = queue->levels[lane][priority].flows;
        struct work *work = edf_queue_first(&HEAP_OWNER(first, struct flow, node)->edf);
        if (!work_has_expired(work, now_ns))
            return work;
        fair_queue_drop(queue, work);
        work_list_append(expired, work);
    }
    return NULL;
}

uint64_t fair_queue_drop_expired(struct fair_queue *queue, uint64_t now_ns,
                                 struct work_list *expired)
{
    uint64_t earliest_ns = UINT64_MAX;
    for (uint32_t i = 0; i < queue->flow_count; i++) {
        struct edf_queue *edf = &queue->flows[i].edf;
        struct work *work;
        while ((work = edf_queue_first(edf)) != NULL && work_has_expired(work, now_ns)) {
            fair_queue_drop(queue, work);
            work_list_append(expired, work);
        }
        const uint64_t flow_ns = edf_queue_earliest_ns(edf);
        if (flow_ns < earliest_ns)
            earliest_ns = flow_ns;
    }
    return earliest_ns;
}

void fair_queue_drop_all(struct fair_queue *queue, struct work_list *dropped)
{
    struct work *work;
    for (uint32_t i = 0; i < queue->flow_count; i++)
        while ((work = edf_queue_first(&queue->flows[i].edf)) != NULL) {
            fair_queue_drop(queue, work);
            work_list_append(dropped, work);
        }
}
