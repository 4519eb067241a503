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

#endif
