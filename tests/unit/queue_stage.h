/*
 * queue_stage.h - what tests of server/scheduler/queue.c push and pop: works that count how often
 * they ended.
 */
#ifndef TESTS_UNIT_QUEUE_STAGE_H
#define TESTS_UNIT_QUEUE_STAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/scheduler/queue.h"

/* What became of a work, as its `done` saw it. */
struct item {
    struct work work; /* first */
    uint32_t number;
    atomic_uint ended;
};

/* The `done` of every item. */
void item_done(struct work *work);
/* Of 10 bytes. */
void item_init(struct item *item, uint32_t number, uint32_t priority, uint64_t deadline_ns);

/* Of one tenant, without limits of his own. */
struct queue *queue_of_one(uint32_t requests, uint64_t bytes);
/* Reserves a place first, for which there must be room. */
void push_item(struct queue *queue, struct item *item);
/* Whatever comes, one at a time. */
struct work *pop_any(struct queue *queue, uint64_t wait_ns);

#endif
