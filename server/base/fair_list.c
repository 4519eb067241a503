#include "server/base/fair_list.h"

#include <stdlib.h>

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
