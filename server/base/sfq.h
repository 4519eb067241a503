/*
 * sfq.h - start-time fair queueing: whose turn it is among flows that share a server.
 *
 * A flow is what one tenant has waiting. Each flow has a tag, which grows by the cost of what was
 * served for the flow, and the flow with the lowest tag is next (P. Goyal, H. Vin, H. Cheng,
 * "Start-time Fair Queueing", SIGCOMM 1996). Two flows that wait all the time are never further
 * apart than the largest cost of each. Deficit round robin would give the same fair shares, but its
 * quantum would have to be as large as the largest cost, or the scheduler would go round many times
 * before a large one's turn came. A flow that was empty for a while starts at the tag of the flow
 * that was served last, so that a flow saves nothing up by waiting.
 *
 * The flows are borrowed, and their owner keeps what waits in them. Each function takes O(1)
 * steps for one flow and O(log n) steps for n flows. Not thread-safe: the owner locks.
 */
#ifndef SERVER_BASE_SFQ_H
#define SERVER_BASE_SFQ_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/heap.h"
#include "server/base/list.h"

/* A flow's part in the order. Zeroed: nothing was served for the flow yet. */
struct sfq_flow {
    struct heap_node node; /* in `flows`, while the flow has something that waits */
    uint64_t start;        /* the flow's tag */
};

/* The flows that share one server. Zeroed: no flow has entered. */
struct sfq {
    struct heap_node *flows; /* those that have entered, by their tags */
    uint64_t now;            /* the tag of the flow that was served last */
    uint64_t last_start;     /* the highest tag so far */
};

/* Enters a flow in which something has begun to wait. */
void sfq_enter(struct sfq *sfq, struct sfq_flow *flow);
/* Removes a flow in which nothing waits any more. Leaving costs nothing. */
void sfq_leave(struct sfq *sfq, struct sfq_flow *flow);
/* Charges a flow that has entered the cost of what is served for the flow. A flow is served in its
 * turn, or out of turn together with another flow, for example in a launch that both share. The
 * flow leaves unless it `stays`. */
void sfq_serve(struct sfq *sfq, struct sfq_flow *flow, uint64_t cost, bool stays);
/* The flow whose turn it is; NULL: no flow has entered. */
struct sfq_flow *sfq_first(const struct sfq *sfq);
/* Whether flow `a` is served before flow `b`. Flows with equal tags are ordered by their addresses.
 */
bool sfq_before(const struct sfq_flow *a, const struct sfq_flow *b);

/*
 * A fair list: the items that wait for one thread, with a flow for each tenant, so that tenants
 * share the thread fairly. A tenant's items take turns in the order in which they were added.
 *
 * A thread that works piece by piece charges the first item for a piece (fair_list_charge), which
 * moves the item behind the other items of its tenant. A large item therefore holds up neither
 * another tenant nor a small item of its own tenant for longer than a piece takes. A thread that
 * finishes an item at once removes the item after it has charged it.
 *
 * The items are parts of the structs that they are about, and are borrowed.
 */

/* Zeroed: in no list. */
struct fair_item {
    struct list_item in_line; /* its tenant's other items */
    uint32_t tenant;
};

struct fair_line;
struct fair_list {
    struct sfq turns;
    struct fair_line *lines; /* [tenants] */
};

/* Opens a zeroed list for tenants 0 ... tenants - 1. False: out of memory. */
bool fair_list_open(struct fair_list *list, uint32_t tenants);
/* Frees what fair_list_open allocated. */
void fair_list_close(struct fair_list *list);

/* Whether an item is in a list. */
static inline bool fair_item_is_listed(const struct fair_item *item)
{
    return item->in_line.list != NULL;
}
/* Adds an item of a tenant, behind the tenant's other items. */
void fair_list_add(struct fair_list *list, struct fair_item *item, uint32_t tenant);
/* The item whose turn it is, which stays in the list; NULL: the list is empty. */
struct fair_item *fair_list_first(const struct fair_list *list);
/* Charges the item's tenant the cost of what is done for the item, and moves the item behind the
 * tenant's other items. */
void fair_list_charge(struct fair_list *list, struct fair_item *item, uint64_t cost);
/* Removes an item that is in the list. */
void fair_list_remove(struct fair_list *list, struct fair_item *item);

#endif
