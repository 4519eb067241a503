#include "server/scheduler/edf_queue.h"

/* Deadlines count in steps of 2^STEP_BITS nanoseconds (edf_queue.h). */
enum { STEP_BITS = 20 };

static uint64_t deadline_step(const struct work *work)
{
    return work->deadline_ns == 0 ? UINT64_MAX : work->deadline_ns >> STEP_BITS;
}

bool edf_queue_before(const struct work *one, const struct work *other)
{
    uint64_t step_of_one = deadline_step(one), step_of_other = deadline_step(other);
    return step_of_one != step_of_other ? step_of_one < step_of_other : one->order < other->order;
}

static bool node_before(const struct heap_node *one, const struct heap_node *other)
{
    return edf_queue_before(OWNER_OF(one, const struct work, node),
                            OWNER_OF(other, const struct work, node));
}

void edf_queue_add(struct edf_queue *edf, struct work *work)
{
    work->in_order = edf->last == NULL || !edf_queue_before(work, edf->last);
    if (!work->in_order) {
        heap_add(&edf->others, &work->node, node_before);
        return;
    }
    work->next = NULL;
    work->previous = edf->last;
    if (edf->last != NULL)
        edf->last->next = work;
    else
        edf->first = work;
    edf->last = work;
}

void edf_queue_remove(struct edf_queue *edf, struct work *work)
{
    if (!work->in_order) {
        heap_remove(&edf->others, &work->node, node_before);
        return;
    }
    if (work->previous != NULL)
        work->previous->next = work->next;
    else
        edf->first = work->next;
    if (work->next != NULL)
        work->next->previous = work->previous;
    else
        edf->last = work->previous;
}

struct work *edf_queue_first(const struct edf_queue *edf)
{
    if (edf->others == NULL)
        return edf->first;
    struct work *other = OWNER_OF(edf->others, struct work, node);
    return edf->first == NULL || edf_queue_before(other, edf->first) ? other : edf->first;
}

uint64_t edf_queue_earliest_ns(const struct edf_queue *edf)
{
    const struct work *first = edf_queue_first(edf);
    return first == NULL || first->deadline_ns == 0 ? UINT64_MAX
                                                    : deadline_step(first) << STEP_BITS;
}
