/*
 * list.h - doubly linked lists whose items are parts of the elements (owner.h).
 *
 * A list allocates nothing, and an item knows its list, so that the item is removed in O(1) steps
 * wherever it stands. A loop over a list may remove the item that it is at if it reads the next
 * item before. Not thread-safe: the owner of the list locks it.
 */
#ifndef SERVER_BASE_LIST_H
#define SERVER_BASE_LIST_H

#include <stddef.h>

#include "server/base/owner.h"

/* Zeroed: in no list. */
struct list_item {
    struct list_item *next, *previous; /* NULL at the ends */
    struct list *list;                 /* NULL: the item is in no list */
};

/* Zeroed: empty. */
struct list {
    struct list_item *first, *last;
};

/* Adds an item that is in no list behind the last item. */
static inline void list_append(struct list *list, struct list_item *item)
{
    item->next = NULL;
    item->previous = list->last;
    item->list = list;
    if (list->last != NULL)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
}

/* Removes an item from its list. Does nothing to an item that is in no list. */
static inline void list_remove(struct list_item *item)
{
    struct list *list = item->list;
    if (list == NULL)
        return;
    if (item->previous != NULL)
        item->previous->next = item->next;
    else
        list->first = item->next;
    if (item->next != NULL)
        item->next->previous = item->previous;
    else
        list->last = item->previous;
    item->next = item->previous = NULL;
    item->list = NULL;
}

/* Removes and returns the first item; NULL: the list is empty. */
static inline struct list_item *list_take_first(struct list *list)
{
    struct list_item *item = list->first;
    if (item == NULL)
        return NULL;
    list->first = item->next;
    if (list->first != NULL)
        list->first->previous = NULL;
    else
        list->last = NULL;
    item->next = item->previous = NULL;
    item->list = NULL;
    return item;
}

#endif
