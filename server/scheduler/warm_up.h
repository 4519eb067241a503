/*
 * warm_up.h - small products that go from the queue through the dispatch thread to the device and
 * back before a request does. The self-test has run the kernels by then; here the thread launches
 * for the first time, and the device meets the pool's memory.
 */
#ifndef SERVER_SCHEDULER_WARM_UP_H
#define SERVER_SCHEDULER_WARM_UP_H

#include "server/device/memory/pool.h"
#include "server/scheduler/queue.h"

struct device;

/* To be called once, by the thread that starts the daemon, when the queue's dispatch thread runs.
 * One product that shares launches and one that does not, where the device has such; metrics do not
 * count them. GEMMD_ERR_DEVICE_LOST if one does not end within some seconds, or wrong: its memory
 * may still be in use then, and stays taken. */
enum gemmd_error warm_up(struct device *device, struct queue *queue, struct pool *pool,
                         struct fault *fault);

#endif
