#include "server/scheduler/edf_queue.h"

enum { STEP_BITS = 20 };

static uint64_t step(const struct work *work)
{
    return work->deadline_ns == 0 ? UINT64_MAX : work->deadline_ns >> STEP_BITS;
}

bool edf_queue_before(const struct work *one, const struct work *other)
{
    uint64_t step_of_one = step(one), step_of_other = step(other);
    return step_of_one != step_of_other ? step_of_one < step_of_other : one->order < other->order;
}

static bool node_before(const struct heap_node *one, const struct heap_node *other)
{
    return edf_queue_before(HEAP_OWNER(one, const struct work, node),
                            HEAP_OWNER(other, const struct work, node));
}

void edf_queue_add(struct edf_queue *agenda, struct work *work)
{
    work->in_order = agenda->last == NULL || !edf_queue_before(work, agenda->last);
    if (!work->in_order) {
        heap_add(&agenda->others, &work->node, node_before);
        return;
    }
    work->next = NULL;
    work->previous = agenda->last;
    if (agenda->last != NULL)
        agenda->last->next = work;
    else
        agenda->first = work;
    agenda->last = work;
}

void edf_queue_remove(struct edf_queue *agenda, struct work *work)
{
    if (!work->in_order) {
        heap_remove(&agenda->others, &work->node, node_before);
        return;
    }
    if (work->previous != NULL)
        work->previous->next = work->next;
    else
        agenda->first = work->next;
    if (work->next != NULL)
        work->next->previous = work->previous;
    else
        agenda->last = work->previous;
}

struct work *edf_queue_first(const struct edf_queue *agenda)
{
    if (agenda->others == NULL)
        return agenda->first;
    struct work *other = HEAP_OWNER(agenda->others, struct work, node);
    return agenda->first == NULL || edf_queue_before(other, agenda->first) ? other : agenda->first;
}

uint64_t edf_queue_earliest_ns(const struct edf_queue *agenda)
{
    const struct work *first = edf_queue_first(agenda);
    return first == NULL || first->deadline_ns == 0 ? UINT64_MAX : step(first) << STEP_BITS;
}
