/*
 * order.h - checks the order in which one device is given works: the promises of server/scheduler/
 * queue.h, computed a second time in the plainest way from what was pushed and what was launched.
 *
 * - Tenants share fairly: the first work of a launch is of the tenant that has had least of the
 *   lane, within what a few works cost. A tenant that comes back starts where the others are.
 * - Within a tenant and a lane a higher priority, then an earlier deadline, then an earlier arrival
 *   comes first.
 * - No work waits while the device has room for the work and starts nothing.
 * - A work whose deadline has passed does not wait on.
 */
#ifndef TESTS_SIMULATE_ORDER_H
#define TESTS_SIMULATE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/work.h"
#include "server/scheduler/fair_queue.h"

enum { ORDER_WORKS_MAX = 512, ORDER_TENANTS_MAX = 8 };

struct order_flow {
    uint64_t had; /* the cost of what was launched, raised to that of the others on coming back */
    uint32_t waiting;
};

struct order {
    struct order_item {
        const struct work *work;
        uint64_t pushed_ns;
    } items[ORDER_WORKS_MAX]; /* that wait, in the order in which they were pushed */
    uint32_t count;
    struct order_flow flows[LANES][ORDER_TENANTS_MAX];
    uint64_t level[LANES];   /* what the tenant had whose turn was last */
    uint64_t highest[LANES]; /* what any tenant has had */
    uint64_t costliest;      /* work so far */
    uint64_t launched_ns;    /* when the last launch began */
};

/* A work is about to be pushed. */
void order_pushed(struct order *order, const struct work *work);
/* The works of a launch list, linked by `next`. */
void order_launched(struct order *order, const struct work *works);
/* A work that was pushed has ended, whether it was launched or not. */
void order_ended(struct order *order, const struct work *work);
/* Looks at the works that wait. `room` says for which lanes the device has room. */
void order_audit(const struct order *order, const bool room[LANES]);

#endif
