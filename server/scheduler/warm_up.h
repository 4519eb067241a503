/*
 * warm_up.h - runs small products from the queue through the dispatch thread to the device and
 * back, before the daemon serves. The self-test has run every kernel before. The warm-up makes the
 * dispatch thread launch for the first time, and the device use the pool's memory for the first
 * time.
 */
#ifndef SERVER_SCHEDULER_WARM_UP_H
#define SERVER_SCHEDULER_WARM_UP_H

#include "server/device/memory/pinned_pool.h"
#include "server/scheduler/queue.h"

struct device;

/* Runs one product in a shared launch and one in a launch of its own, as far as the device has such
 * launches. Metrics do not count the products. Called once, by the thread that starts the daemon,
 * while the queue's dispatch thread runs. GEMMD_ERR_DEVICE_LOST: a product did not end within 20
 * seconds, or its result is wrong. The memory of a product that did not end may still be in use,
 * and is never freed. */
enum gemmd_error warm_up(struct device *device, struct queue *queue, struct pool *pool,
                         struct fault *fault);

#endif
