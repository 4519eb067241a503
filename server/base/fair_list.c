#include "server/base/fair_list.h"

#include <stdlib.h>

/* The items of one tenant. */
struct fair_line {
    struct sfq_flow turn; /* entered while the line has items */
    struct fair_item *first, *last;
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

static void line_append(struct fair_line *line, struct fair_item *item)
{
    item->next = NULL;
    item->previous = line->last;
    if (line->last != NULL)
        line->last->next = item;
    else
        line->first = item;
    line->last = item;
}

static void line_remove(struct fair_line *line, const struct fair_item *item)
{
    *(item->previous != NULL ? &item->previous->next : &line->first) = item->next;
    *(item->next != NULL ? &item->next->previous : &line->last) = item->previous;
}

void fair_list_add(struct fair_list *list, struct fair_item *item, uint32_t tenant)
{
    struct fair_line *line = &list->lines[tenant];
    item->tenant = tenant;
    item->listed = true;
    if (line->first == NULL)
        sfq_enter(&list->turns, &line->turn);
    line_append(line, item);
}

struct fair_item *fair_list_first(const struct fair_list *list)
{
    struct sfq_flow *turn = sfq_first(&list->turns);
    return turn == NULL ? NULL : HEAP_OWNER(turn, struct fair_line, turn)->first;
}

void fair_list_charge(struct fair_list *list, struct fair_item *item, uint64_t cost)
{
    struct fair_line *line = &list->lines[item->tenant];
    sfq_serve(&list->turns, &line->turn, cost, true);
    line_remove(line, item);
    line_append(line, item);
}

void fair_list_remove(struct fair_list *list, struct fair_item *item)
{
    struct fair_line *line = &list->lines[item->tenant];
    line_remove(line, item);
    item->listed = false;
    if (line->first == NULL)
        sfq_leave(&list->turns, &line->turn);
}
