/*
 * dispatch_stage.h - a dispatch thread over a simulated device, and works with results that a test
 * chooses.
 *
 * There is one stage, since each test runs in a process of its own. The functions are called by the
 * thread of the test, and fail the test if they cannot do what they are for. A work that is to be
 * verified has the residual that the test has set in the work.
 */
#ifndef UNIT_DISPATCH_STAGE_H
#define UNIT_DISPATCH_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/scheduler/dispatch.h"
#include "simulated_device.h"

enum { ITEMS_MAX = 64, PROBE_MS = 60000, MAX_LAUNCH_WORKS = 4, TENANTS = 3 };

/* A work, and the result that it gets. */
struct item {
    struct work work; /* the first member: callbacks cast it back */
    uint32_t number;
    _Atomic enum simulated_event event;
    atomic_uint begun; /* how often `started` was called */
    atomic_uint ended; /* how often `done` was called */
    uint32_t rank;     /* 1 for the first item to end, 2 for the second, and so on */
    atomic_uint *ranks;
};

/* Everything a test needs; made by start, taken down by stop. */
struct stage {
    struct simulated_device *device;
    struct queue *queue;
    struct metrics *metrics;
    struct dispatch *dispatch;
    struct item items[ITEMS_MAX];
    uint32_t count;
    atomic_uint ranks;
};
extern struct stage stage;
extern const struct operation_kernel simulated_kernel;
extern const struct task simulated_task; /* of every item */

/* Someone who waits for the answer of a probe. */
struct asker {
    struct probe_wait wait; /* first */
    atomic_bool answered;
};

void asker_told(struct probe_wait *wait); /* for wait.done */

/* The stage with `slots` streams and a queue for `requests` requests, or over a device that was
 * made before. */
void start(uint32_t slots, uint32_t requests);
void start_on(struct simulated_device *device, uint32_t requests);
void stop(void);

/* A new item, which nobody waits for yet, and pushing one. */
struct item *add(enum simulated_event event);
void push(struct item *item);
struct item *add_and_push(enum simulated_event event);
/* What the simulated device asks, and the items' `done`. */
enum simulated_event look(const struct work *work);
void item_done(struct work *work);
/* Lets a running item end so, and waits for it. */
void end_with(struct item *item, enum simulated_event event);

void wait_a_little(void);
void wait_until_ended(const struct item *item);
void wait_until_submitted(uint32_t count);
/* Asks, and waits for the answer as the daemon's timer does; `reason` may be NULL. */
bool probe(uint32_t timeout_ms, char reason[PROBE_REASON_MAX]);
/* Whether the metrics have this line. */
bool counts(const char *line);
/* Waits until they have it. */
void wait_until_counted(const char *line);

#endif
