/* admitted_queue.h - a queue with an admission of its own. */
#ifndef TESTS_UNIT_ADMITTED_QUEUE_H
#define TESTS_UNIT_ADMITTED_QUEUE_H

#include "server/scheduler/queue.h"

/* Fails the test if there is no memory. */
struct queue *queue_with_limits(const struct admission_limits *limits);
/* Frees both. NULL is allowed. */
void queue_free(struct queue *queue);

#endif
