#include "tests/unit/queue_stage.h"
#include "tests/unit/reservations.h"

#include <check.h>
#include <string.h>

void item_done(struct work *work)
{
    struct item *item = (struct item *)work;
    atomic_fetch_add(&item->ended, 1);
}

void item_init(struct item *item, uint32_t number, uint32_t priority, uint64_t deadline_ns)
{
    memset(item, 0, sizeof *item);
    item->number = number;
    item->work.priority = priority;
    item->work.bytes = 10;
    item->work.deadline_ns = deadline_ns;
    item->work.done = item_done;
}

struct queue *queue_of_one(uint32_t requests, uint64_t bytes)
{
    const struct admission_limits limits = {.requests = requests, .bytes = bytes, .tenants = 1};
    struct queue *queue = queue_with_limits(&limits);
    ck_assert_ptr_nonnull(queue);
    return queue;
}

struct work *pop_any(struct queue *queue, uint64_t wait_ns)
{
    struct queue_room room = {.exclusive = true, .shared = 1};
    return queue_pop(queue, room, wait_ns);
}

void push_item(struct queue *queue, struct item *item)
{
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, item->work.bytes, NULL), GEMMD_OK);
    queue_push(queue, &item->work);
}
