#include "server/work/shelves.h"

#include <stdlib.h>

#include "server/work/agenda.h"

struct shelves {
    struct shelf *buckets[SHELVES];
    struct shelf *free;
    struct shelf all[SHELVES];
};

static bool node_before(const struct heap_node *one, const struct heap_node *other)
{
    return agenda_before(HEAP_OWNER(one, const struct work, shelf_node),
                         HEAP_OWNER(other, const struct work, shelf_node));
}

struct shelves *shelves_create(void)
{
    struct shelves *shelves = calloc(1, sizeof *shelves);
    for (uint32_t i = 0; shelves != NULL && i < SHELVES; i++) {
        shelves->all[i].next = shelves->free;
        shelves->free = &shelves->all[i];
    }
    return shelves;
}

void shelves_destroy(struct shelves *shelves)
{
    free(shelves);
}

/* The high bits of a key are the better ones. */
static uint32_t bucket_of(const struct work *work)
{
    return (uint32_t)(work->stack_key >> 32) % SHELVES;
}

/* The first from `shelf` on that holds works of the same stack. */
static struct shelf *match(struct shelf *shelf, const struct work *work)
{
    for (; shelf != NULL; shelf = shelf->next) {
        const struct work *other = shelf_first(shelf);
        if (other->stack_key == work->stack_key && work_same_stack(other, work))
            return shelf;
    }
    return NULL;
}

struct shelf *shelves_find(const struct shelves *shelves, const struct work *work)
{
    return match(shelves->buckets[bucket_of(work)], work);
}

struct shelf *shelves_find_next(const struct shelf *shelf, const struct work *work)
{
    return match(shelf->next, work);
}

void shelves_add(struct shelves *shelves, struct work *work, struct flow *flow)
{
    struct shelf *shelf = shelves_find(shelves, work);
    while (shelf != NULL && shelf->flow != flow)
        shelf = shelves_find_next(shelf, work);
    if (shelf == NULL && shelves->free != NULL) {
        struct shelf **bucket = &shelves->buckets[bucket_of(work)];
        shelf = shelves->free;
        shelves->free = shelf->next;
        *shelf = (struct shelf){.next = *bucket, .flow = flow};
        *bucket = shelf;
    }
    work->shelf = shelf;
    if (shelf != NULL)
        heap_add(&shelf->works, &work->shelf_node, node_before);
}

void shelves_remove(struct shelves *shelves, struct work *work)
{
    struct shelf *shelf = work->shelf, **link = &shelves->buckets[bucket_of(work)];
    heap_remove(&shelf->works, &work->shelf_node, node_before);
    work->shelf = NULL;
    if (shelf->works != NULL)
        return;
    while (*link != shelf)
        link = &(*link)->next;
    *link = shelf->next;
    shelf->next = shelves->free;
    shelves->free = shelf;
}

struct work *shelf_first(const struct shelf *shelf)
{
    return HEAP_OWNER(shelf->works, struct work, shelf_node);
}

bool shelf_has_one(const struct shelf *shelf)
{
    return shelf->works->left == NULL && shelf->works->right == NULL;
}
