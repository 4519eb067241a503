#include "tests/simulate/order.h"

#include <stddef.h>

#include "tests/simulate/threads.h"

/* The longest time that a work may wait for a device with room, or after its deadline. The timer of
 * the main loop ends works every 20 ms. */
static const uint64_t IDLE_MAX_NS = 25000000, LATE_MAX_NS = 45000000;
enum { STEP_BITS = 20 }; /* deadlines count in steps of 2^20 ns (fair_queue.h) */

static struct order *orders; /* of all queues */

void __real_fair_queue_add(struct fair_queue *queue, struct work *work);
void __real_fair_queue_serve(struct fair_queue *queue, struct work *work, uint64_t bytes);
struct work *__real_queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns);
void __real_queue_push(struct queue *queue, struct work *work);
bool __real_queue_cancel(struct queue *queue, struct work *work);

void order_open(struct order *order, const struct queue *queue)
{
    *order = (struct order){.next = orders, .queue = queue};
    orders = order;
}

void order_close(struct order *order)
{
    struct order **link = &orders;
    while (*link != order)
        link = &(*link)->next;
    *link = order->next;
}

static enum lane lane_of(const struct work *work)
{
    return work->shared_launch ? LANE_SHARED : LANE_EXCLUSIVE;
}

/* The order that a queue, or the fair queue inside of it, is checked against: of the queues that
 * begin before it, the last. */
static struct order *order_of(const void *queue)
{
    struct order *found = NULL;
    for (struct order *order = orders; order != NULL; order = order->next)
        if ((const char *)order->queue <= (const char *)queue &&
            (found == NULL || (const char *)order->queue > (const char *)found->queue))
            found = order;
    if (found == NULL)
        fail("a queue is used that is not checked");
    return found;
}

static struct order_item *find_item(struct order *order, const struct work *work)
{
    for (uint32_t i = 0; i < order->count; i++)
        if (order->items[i].work == work)
            return &order->items[i];
    return NULL;
}

static struct order_item *item_of(struct order *order, const struct work *work)
{
    struct order_item *item = find_item(order, work);
    if (item == NULL)
        fail("the queue has a work of tenant %u that was not pushed, or has ended", work->tenant);
    return item;
}

/* Whether a work is in the queue's lane: the queue may have dropped it and not ended it yet. */
static bool is_in(const struct order_item *item, enum lane lane)
{
    return item->added && !item->served && item->work->waiting && lane_of(item->work) == lane;
}

/* The works of each tenant in a lane. */
static void count_waiting(const struct order *order, enum lane lane,
                          uint32_t waiting[ORDER_TENANTS_MAX])
{
    for (uint32_t i = 0; i < ORDER_TENANTS_MAX; i++)
        waiting[i] = 0;
    for (uint32_t i = 0; i < order->count; i++)
        if (is_in(&order->items[i], lane))
            waiting[order->items[i].work->tenant]++;
}

/* Forgets a work, and gives the work its own `done` back. */
static void remove_item(struct order *order, struct order_item *item, struct work *work)
{
    work->done = item->done;
    order->count--;
    for (; item < order->items + order->count; item++)
        item[0] = item[1];
}

static void done(struct work *work)
{
    for (struct order *order = orders; order != NULL; order = order->next) {
        struct order_item *item = find_item(order, work);
        if (item == NULL)
            continue;
        remove_item(order, item, work);
        work->done(work);
        return;
    }
    fail("a work of tenant %u ends twice", work->tenant);
}

void __wrap_queue_push(struct queue *queue, struct work *work);
void __wrap_queue_push(struct queue *queue, struct work *work)
{
    struct order *order = order_of(queue);
    if (order->count == ORDER_WORKS_MAX)
        fail("more works wait than the simulation expects");
    order->items[order->count++] =
        (struct order_item){.work = work, .pushed_ns = now_ns(), .done = work->done};
    work->done = done;
    __real_queue_push(queue, work);
}

bool __wrap_queue_cancel(struct queue *queue, struct work *work);
bool __wrap_queue_cancel(struct queue *queue, struct work *work)
{
    struct order *order = order_of(queue);
    const bool taken = __real_queue_cancel(queue, work);
    if (taken)
        remove_item(order, item_of(order, work), work);
    return taken;
}

void __wrap_fair_queue_add(struct fair_queue *queue, struct work *work);
void __wrap_fair_queue_add(struct fair_queue *queue, struct work *work)
{
    struct order *order = order_of(queue);
    const enum lane lane = lane_of(work);
    uint32_t waiting[ORDER_TENANTS_MAX], all = 0;
    count_waiting(order, lane, waiting);
    for (uint32_t i = 0; i < ORDER_TENANTS_MAX; i++)
        all += waiting[i];
    if (all == 0)
        order->level[lane] = order->highest[lane];
    if (waiting[work->tenant] == 0 && order->had[lane][work->tenant] < order->level[lane])
        order->had[lane][work->tenant] = order->level[lane];
    item_of(order, work)->added = true;
    __real_fair_queue_add(queue, work);
}

static uint64_t deadline_step(const struct work *work)
{
    return work->deadline_ns == 0 ? UINT64_MAX : work->deadline_ns >> STEP_BITS;
}

/* Why a work should run before another one of the same tenant and lane; NULL: it should not. */
static const char *why_before(const struct work *work, const struct work *other)
{
    if (work->priority != other->priority)
        return work->priority > other->priority ? "of a higher priority" : NULL;
    if (deadline_step(work) != deadline_step(other))
        return deadline_step(work) < deadline_step(other) ? "with an earlier deadline" : NULL;
    return work->order < other->order ? "that arrived before" : NULL;
}

/* The work of a tenant that runs first of its waiting works of a lane; NULL: none waits. */
static const struct work *next_of(const struct order *order, enum lane lane, uint32_t tenant)
{
    const struct work *next = NULL;
    for (uint32_t i = 0; i < order->count; i++) {
        const struct work *work = order->items[i].work;
        if (is_in(&order->items[i], lane) && work->tenant == tenant &&
            (next == NULL || why_before(work, next) != NULL))
            next = work;
    }
    return next;
}

/* Whether a pop may leave out a tenant, whose next work costs more than queue_room.cost_max. */
static bool is_left_out(const struct order *order, enum lane lane, uint32_t tenant)
{
    if (order->cost_max == 0 || lane != LANE_EXCLUSIVE)
        return false;
    const struct work *work = next_of(order, lane, tenant);
    return work != NULL && work_cost(work, work->bytes + work->outside_bytes) > order->cost_max;
}

static void check_first(const struct order *order, const struct work *first)
{
    const enum lane lane = lane_of(first);
    const uint64_t *had = order->had[lane];
    uint32_t waiting[ORDER_TENANTS_MAX];
    count_waiting(order, lane, waiting);
    for (uint32_t i = 0; i < ORDER_TENANTS_MAX; i++)
        if (waiting[i] > 0 && had[first->tenant] > had[i] + order->costliest &&
            !is_left_out(order, lane, i))
            fail("tenant %u is served, which has had %llu of lane %d, while tenant %u waits, which "
                 "has had %llu; the costliest work is %llu",
                 first->tenant, (unsigned long long)had[first->tenant], (int)lane, i,
                 (unsigned long long)had[i], (unsigned long long)order->costliest);
    for (uint32_t i = 0; i < order->count; i++) {
        const struct work *work = order->items[i].work;
        if (work == first || !is_in(&order->items[i], lane) || work->tenant != first->tenant)
            continue;
        const char *why = why_before(work, first);
        if (why != NULL)
            fail("a work is launched before one %s of its tenant %u", why, work->tenant);
    }
}

static void charge(struct order *order, const struct work *work, uint64_t cost)
{
    const enum lane lane = lane_of(work);
    uint64_t *had = order->had[lane];
    uint32_t waiting[ORDER_TENANTS_MAX];
    bool in_turn = true;
    count_waiting(order, lane, waiting);
    for (uint32_t i = 0; i < ORDER_TENANTS_MAX; i++)
        in_turn &= waiting[i] == 0 || had[i] >= had[work->tenant];
    if (in_turn)
        order->level[lane] = had[work->tenant];
    had[work->tenant] += cost;
    if (had[work->tenant] > order->highest[lane])
        order->highest[lane] = had[work->tenant];
    if (cost > order->costliest)
        order->costliest = cost;
}

void __wrap_fair_queue_serve(struct fair_queue *queue, struct work *work, uint64_t bytes);
void __wrap_fair_queue_serve(struct fair_queue *queue, struct work *work, uint64_t bytes)
{
    struct order *order = order_of(queue);
    if (order->is_next_first)
        check_first(order, work);
    order->is_next_first = false;
    charge(order, work, work_cost(work, bytes));
    item_of(order, work)->served = true;
    __real_fair_queue_serve(queue, work, bytes);
}

struct work *__wrap_queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns);
struct work *__wrap_queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns)
{
    order_of(queue)->is_next_first = true;
    order_of(queue)->cost_max = room.cost_max;
    return __real_queue_pop(queue, room, wait_ns);
}

void order_launched(struct order *order, const struct work *works)
{
    uint32_t count = 1;
    for (const struct work *work = works->next; work != NULL; work = work->next)
        count++;
    trace("launch of %u works, first of tenant %u, lane %d", count, works->tenant,
          (int)lane_of(works));
    order->launched_ns = now_ns();
}

void order_audit(struct order *order, const bool room[LANES])
{
    for (int lane = 0; lane < LANES; lane++)
        if (!room[lane])
            order->full_ns[lane] = now_ns();
    for (uint32_t i = 0; i < order->count; i++) {
        const struct work *work = order->items[i].work;
        if (order->items[i].served)
            continue;
        const uint64_t waited_ns = now_ns() - order->items[i].pushed_ns;
        if (work->deadline_ns != 0 && now_ns() > work->deadline_ns + LATE_MAX_NS &&
            waited_ns > LATE_MAX_NS)
            fail("a work of tenant %u still waits %llu ms after its deadline", work->tenant,
                 (unsigned long long)(now_ns() - work->deadline_ns) / 1000000);
        if (waited_ns > IDLE_MAX_NS && now_ns() - order->launched_ns > IDLE_MAX_NS &&
            now_ns() - order->full_ns[lane_of(work)] > IDLE_MAX_NS)
            fail("a work of tenant %u has waited %llu ms, and the device has room and starts "
                 "nothing",
                 work->tenant, (unsigned long long)waited_ns / 1000000);
    }
}
