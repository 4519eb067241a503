/*
 * order.h - checks the order in which the queue of one device gives works to the device: the
 * promises of server/scheduler/queue.h, computed a second time in the plainest way. The linker
 * sends all calls of queue_push, queue_cancel, queue_pop, fair_queue_add and fair_queue_serve to
 * order.c first (-Wl,--wrap), and order.c puts a function of its own in the place of each work's
 * `done`.
 *
 * - A work that was pushed ends once, or is taken back.
 * - Tenants share fairly: the first work of a launch is of the tenant that has had least of the
 *   lane, of those whose next work does not cost more than the pop allows. A tenant that comes back
 * starts where the tenant stands whose turn was last, or, if nobody else waits, where the one
 * stands that has had most.
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
#include "server/scheduler/queue.h"

enum { ORDER_WORKS_MAX = 1024, ORDER_TENANTS_MAX = 8 };

struct order {
    struct order *next;        /* of another queue */
    const struct queue *queue; /* that is checked */
    struct order_item {
        const struct work *work;
        uint64_t pushed_ns;
        bool added, served; /* the queue has sorted the work in, and has given it to the device */
        void (*done)(struct work *work); /* of the work's owner */
    } items[ORDER_WORKS_MAX];            /* that were pushed and have not ended */
    uint32_t count;
    /* The cost of what a tenant was served, raised to that of the others on coming back. */
    uint64_t had[LANES][ORDER_TENANTS_MAX];
    uint64_t level[LANES];   /* what the tenant had had whose turn was last */
    uint64_t highest[LANES]; /* what any tenant has had */
    uint64_t costliest;      /* work so far */
    uint64_t launched_ns;    /* when the last launch began */
    uint64_t full_ns[LANES]; /* when the device last had no room, as far as was looked */
    bool is_next_first;      /* the next work that is served is the first of a launch */
    uint64_t cost_max;       /* queue_room.cost_max of that launch */
};

/* Begins and ends to check a queue. */
void order_open(struct order *order, const struct queue *queue);
void order_close(struct order *order);
/* The device begins a launch of works that are linked by `next`. */
void order_launched(struct order *order, const struct work *works);
/* Looks at the works that wait. `room` says for which lanes the device has room. */
void order_audit(struct order *order, const bool room[LANES]);

#endif
