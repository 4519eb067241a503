/*
 * fair_list.h - the items that wait for one thread. Start-time fair queueing (sfq.h) decides which
 * tenant's turn it is, so that tenants share the thread fairly. A tenant's items take turns in the
 * order in which they were added.
 *
 * A thread that works piece by piece charges the first item for a piece (fair_list_charge), which
 * moves the item behind the other items of its tenant. A large item therefore holds up neither
 * another tenant nor a small item of its own tenant for longer than a piece takes. A thread that
 * finishes an item at once removes the item after it has charged it.
 *
 * The items are parts of the structs that they are about, and are borrowed. Each function takes
 * O(1) steps for one tenant and O(log n) steps for n tenants. Not thread-safe: the owner locks.
 */
#ifndef SERVER_BASE_FAIR_LIST_H
#define SERVER_BASE_FAIR_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/list.h"
#include "server/base/sfq.h"

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
