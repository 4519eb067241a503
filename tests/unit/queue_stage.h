/*
 * queue_stage.h - for tests of server/scheduler/queue.c: works that count how often they end, and
 * functions that push and pop them.
 */
#ifndef TESTS_UNIT_QUEUE_STAGE_H
#define TESTS_UNIT_QUEUE_STAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "tests/unit/admitted_queue.h"

/* A work that records its end. */
struct item {
    struct work work; /* the first member: `done` casts it back */
    uint32_t number;
    atomic_uint ended;
};

/* The `done` of every item. */
void item_done(struct work *work);
/* Makes a work of 10 bytes. */
void item_init(struct item *item, uint32_t number, uint32_t priority, uint64_t deadline_ns);

/* A queue for one tenant, which has no limits of its own. */
struct queue *queue_of_one(uint32_t requests, uint64_t bytes);
/* Makes a reservation, for which there must be room, and pushes the item. */
void push_item(struct queue *queue, struct item *item);
/* Pops the next work of either lane, one at a time. */
struct work *pop_any(struct queue *queue, uint64_t wait_ns);

#endif
