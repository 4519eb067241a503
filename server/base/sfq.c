#include "server/base/sfq.h"

#include <stdlib.h>

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

/* ---- lists of items ---- */

/* The items of one tenant. */
struct fair_line {
    struct sfq_flow turn; /* entered while the line has items */
    struct list items;
};

bool fair_list_open(struct fair_list *list, uint32_t tenants)
{
    list->lines = calloc(tenants, sizeof *list->lines);
    return list->lines != NULL;
}

void fair_list_close(struct fair_list *list)
{
    free(list->lines);
    list->lines = NULL;
}

void fair_list_add(struct fair_list *list, struct fair_item *item, uint32_t tenant)
{
    struct fair_line *line = &list->lines[tenant];
    item->tenant = tenant;
    if (line->items.first == NULL)
        sfq_enter(&list->turns, &line->turn);
    list_append(&line->items, &item->in_line);
}

struct fair_item *fair_list_first(const struct fair_list *list)
{
    struct sfq_flow *turn = sfq_first(&list->turns);
    if (turn == NULL)
        return NULL;
    const struct fair_line *line = OWNER_OF(turn, struct fair_line, turn);
    return OWNER_OF(line->items.first, struct fair_item, in_line);
}

void fair_list_charge(struct fair_list *list, struct fair_item *item, uint64_t cost)
{
    struct fair_line *line = &list->lines[item->tenant];
    sfq_serve(&list->turns, &line->turn, cost, true);
    list_remove(&item->in_line);
    list_append(&line->items, &item->in_line);
}

void fair_list_remove(struct fair_list *list, struct fair_item *item)
{
    struct fair_line *line = &list->lines[item->tenant];
    list_remove(&item->in_line);
    if (line->items.first == NULL)
        sfq_leave(&list->turns, &line->turn);
}
