#include "server/scheduler/stack_index.h"

#include <stdlib.h>

#include "server/scheduler/edf_queue.h"

struct stack_index {
    struct stack_bucket *buckets[SHELVES];
    struct stack_bucket *free;
    struct stack_bucket all[SHELVES];
};

static bool node_before(const struct heap_node *one, const struct heap_node *other)
{
    return edf_queue_before(HEAP_OWNER(one, const struct work, shelf_node),
                            HEAP_OWNER(other, const struct work, shelf_node));
}

struct stack_index *stack_index_create(void)
{
    struct stack_index *shelves = calloc(1, sizeof *shelves);
    for (uint32_t i = 0; shelves != NULL && i < SHELVES; i++) {
        shelves->all[i].next = shelves->free;
        shelves->free = &shelves->all[i];
    }
    return shelves;
}

void stack_index_destroy(struct stack_index *shelves)
{
    free(shelves);
}

/* The high bits of a key are the better ones. */
static uint32_t bucket_of(const struct work *work)
{
    return (uint32_t)(work->stack_key >> 32) % SHELVES;
}

/* The first from `shelf` on that holds works of the same stack. */
static struct stack_bucket *match(struct stack_bucket *shelf, const struct work *work)
{
    for (; shelf != NULL; shelf = shelf->next) {
        const struct work *other = stack_bucket_first(shelf);
        if (other->stack_key == work->stack_key && work_same_stack(other, work))
            return shelf;
    }
    return NULL;
}

struct stack_bucket *stack_index_find(const struct stack_index *shelves, const struct work *work)
{
    return match(shelves->buckets[bucket_of(work)], work);
}

struct stack_bucket *stack_index_find_next(const struct stack_bucket *shelf,
                                           const struct work *work)
{
    return match(shelf->next, work);
}

void stack_index_add(struct stack_index *shelves, struct work *work, struct flow *flow)
{
    struct stack_bucket *shelf = stack_index_find(shelves, work);
    while (shelf != NULL && shelf->flow != flow)
        shelf = stack_index_find_next(shelf, work);
    if (shelf == NULL && shelves->free != NULL) {
        struct stack_bucket **bucket = &shelves->buckets[bucket_of(work)];
        shelf = shelves->free;
        shelves->free = shelf->next;
        *shelf = (struct stack_bucket){.next = *bucket, .flow = flow};
        *bucket = shelf;
    }
    work->shelf = shelf;
    if (shelf != NULL)
        heap_add(&shelf->works, &work->shelf_node, node_before);
}

void stack_index_remove(struct stack_index *shelves, struct work *work)
{
    struct stack_bucket *shelf = work->shelf, **link = &shelves->buckets[bucket_of(work)];
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

struct work *stack_bucket_first(const struct stack_bucket *shelf)
{
    return HEAP_OWNER(shelf->works, struct work, shelf_node);
}

bool stack_bucket_has_one(const struct stack_bucket *shelf)
{
    return shelf->works->left == NULL && shelf->works->right == NULL;
}
