#include "server/base/sfq.h"

bool sfq_before(const struct sfq_flow *a, const struct sfq_flow *b)
{
    return a->start != b->start ? a->start < b->start : a < b;
}

static bool sfq_node_before(const struct heap_node *one, const struct heap_node *other)
{
    return sfq_before(OWNER_OF(one, const struct sfq_flow, node),
                      OWNER_OF(other, const struct sfq_flow, node));
}

void sfq_enter(struct sfq *sfq, struct sfq_flow *flow)
{
    if (sfq->flows == NULL) /* all flows were served to the end, and start as equals */
        sfq->now = sfq->last_start;
    if (flow->start < sfq->now)
        flow->start = sfq->now;
    heap_add(&sfq->flows, &flow->node, sfq_node_before);
}

void sfq_leave(struct sfq *sfq, struct sfq_flow *flow)
{
    heap_remove(&sfq->flows, &flow->node, sfq_node_before);
}

void sfq_serve(struct sfq *sfq, struct sfq_flow *flow, uint64_t cost, bool stays)
{
    if (sfq->flows == &flow->node)
        sfq->now = flow->start;
    heap_remove(&sfq->flows, &flow->node, sfq_node_before);
    flow->start += cost;
    if (flow->start > sfq->last_start)
        sfq->last_start = flow->start;
    if (stays)
        heap_add(&sfq->flows, &flow->node, sfq_node_before);
}

struct sfq_flow *sfq_first(const struct sfq *sfq)
{
    return sfq->flows == NULL ? NULL : OWNER_OF(sfq->flows, struct sfq_flow, node);
}
