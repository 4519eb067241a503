#include "tests/simulate/order.h"

#include "tests/simulate/threads.h"

/* A work that was pushed less than SETTLED_NS ago may not be known to the dispatch thread yet. */
static const uint64_t SETTLED_NS = 1000000;
/* The longest time that a work may wait for a device with room, or after its deadline. The timer of
 * the main loop ends works every 20 ms. */
static const uint64_t IDLE_MAX_NS = 25000000, LATE_MAX_NS = 45000000;
/* How far the first work's tenant may be ahead of another, in works of the largest cost so far. */
enum { WORKS_AHEAD = 4 };
enum { STEP_BITS = 20 }; /* deadlines count in steps of 2^20 ns (edf_queue_before) */

static enum lane lane_of(const struct work *work)
{
    return work->shared_launch ? LANE_SHARED : LANE_EXCLUSIVE;
}

static struct order_flow *flow_of(struct order *order, const struct work *work)
{
    return &order->flows[lane_of(work)][work->tenant];
}

void order_pushed(struct order *order, const struct work *work)
{
    const enum lane lane = lane_of(work);
    bool idle = true;
    if (order->count == ORDER_WORKS_MAX)
        fail("more works wait than the simulation expects");
    order->items[order->count++] = (struct order_item){work, now_ns()};
    for (uint32_t i = 0; i < ORDER_TENANTS_MAX; i++)
        idle &= order->flows[lane][i].waiting == 0;
    if (idle)
        order->level[lane] = order->highest[lane];
    struct order_flow *flow = flow_of(order, work);
    if (flow->waiting++ == 0 && flow->had < order->level[lane])
        flow->had = order->level[lane];
}

static bool take_item(struct order *order, const struct work *work, struct order_item *taken)
{
    for (uint32_t i = 0; i < order->count; i++) {
        if (order->items[i].work != work)
            continue;
        *taken = order->items[i];
        order->count--;
        for (uint32_t j = i; j < order->count; j++)
            order->items[j] = order->items[j + 1];
        flow_of(order, work)->waiting--;
        return true;
    }
    return false;
}

void order_ended(struct order *order, const struct work *work)
{
    struct order_item item;
    (void)take_item(order, work, &item);
}

static uint64_t deadline_step(const struct work *work)
{
    return work->deadline_ns == 0 ? UINT64_MAX : work->deadline_ns >> STEP_BITS;
}

static bool is_settled(const struct order_item *item)
{
    return now_ns() - item->pushed_ns > SETTLED_NS &&
           (item->work->deadline_ns == 0 || item->work->deadline_ns > now_ns());
}

/* Whether a work that waits should have run before the first work of a launch, of the same tenant
 * and lane. */
static const char *why_before(const struct order_item *item, const struct order_item *first)
{
    const struct work *work = item->work, *other = first->work;
    if (work->priority != other->priority)
        return work->priority > other->priority ? "of a higher priority" : NULL;
    if (deadline_step(work) != deadline_step(other))
        return deadline_step(work) < deadline_step(other) ? "with an earlier deadline" : NULL;
    return item->pushed_ns + SETTLED_NS < first->pushed_ns ? "that was pushed before" : NULL;
}

static void check_first(const struct order *order, const struct order_item *first)
{
    const enum lane lane = lane_of(first->work);
    const struct order_flow *flows = order->flows[lane];
    const uint64_t slack = WORKS_AHEAD * order->costliest;
    uint32_t settled[ORDER_TENANTS_MAX] = {0};
    for (uint32_t i = 0; i < order->count; i++) {
        const struct order_item *item = &order->items[i];
        if (lane_of(item->work) != lane || !is_settled(item))
            continue;
        settled[item->work->tenant]++;
        const char *why =
            item->work->tenant == first->work->tenant ? why_before(item, first) : NULL;
        if (why != NULL)
            fail("a work is launched before one %s of its tenant %u", why, item->work->tenant);
    }
    for (uint32_t i = 0; i < ORDER_TENANTS_MAX; i++)
        if (settled[i] > 1 && flows[first->work->tenant].had > flows[i].had + slack)
            fail("tenant %u is served, which has had %llu of lane %d, while tenant %u waits, which "
                 "has had %llu; the costliest work is %llu",
                 first->work->tenant, (unsigned long long)flows[first->work->tenant].had, (int)lane,
                 i, (unsigned long long)flows[i].had, (unsigned long long)order->costliest);
}

/* Charges a tenant for a work of a launch: what works of a stack share is charged to the first. */
static void charge(struct order *order, const struct work *work, bool is_first)
{
    const enum lane lane = lane_of(work);
    struct order_flow *flow = flow_of(order, work);
    const uint64_t bytes =
        work->bytes + (is_first || !work_is_stacked(work) ? work->outside_bytes : 0);
    const uint64_t cost = work_cost(work, bytes);
    bool in_turn = true;
    for (uint32_t i = 0; i < ORDER_TENANTS_MAX; i++)
        in_turn &= order->flows[lane][i].waiting == 0 || order->flows[lane][i].had >= flow->had;
    if (in_turn)
        order->level[lane] = flow->had;
    flow->had += cost;
    if (flow->had > order->highest[lane])
        order->highest[lane] = flow->had;
    if (cost > order->costliest)
        order->costliest = cost;
}

void order_launched(struct order *order, const struct work *works)
{
    struct order_item item;
    order->launched_ns = now_ns();
    for (const struct work *work = works; work != NULL; work = work->next) {
        if (!take_item(order, work, &item))
            continue; /* the daemon's own */
        if (work == works)
            check_first(order, &item);
        charge(order, work, work == works);
    }
}

void order_audit(const struct order *order, const bool room[LANES])
{
    for (uint32_t i = 0; i < order->count; i++) {
        const struct order_item *item = &order->items[i];
        const uint64_t waited_ns = now_ns() - item->pushed_ns;
        if (item->work->deadline_ns != 0 && now_ns() > item->work->deadline_ns + LATE_MAX_NS &&
            waited_ns > LATE_MAX_NS)
            fail("a work of tenant %u still waits %llu ms after its deadline", item->work->tenant,
                 (unsigned long long)(now_ns() - item->work->deadline_ns) / 1000000);
        if (room[lane_of(item->work)] && waited_ns > IDLE_MAX_NS &&
            now_ns() - order->launched_ns > IDLE_MAX_NS)
            fail("a work of tenant %u has waited %llu ms, and the device has room and starts "
                 "nothing",
                 item->work->tenant, (unsigned long long)waited_ns / 1000000);
    }
}
