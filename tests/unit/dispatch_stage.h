/*
 * dispatch_stage.h - a dispatch thread over a simulated device, and works that do what a test says.
 *
 * There is one stage, since each test runs in a process of its own. Functions are called by the
 * test's thread and fail the test where something cannot be. The host's check of results is the
 * stage's, in place of the kernels room's.
 */
#ifndef UNIT_DISPATCH_STAGE_H
#define UNIT_DISPATCH_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/scheduler/dispatch.h"
#include "simulated_device.h"

enum { ITEMS_MAX = 64, PROBE_MS = 60000, MAX_BATCH = 4, TENANTS = 3 };

/* What the host's check says, and whether it takes its time. In place of the kernels room's. */
struct check {
    enum gemmd_error code;
    bool pass;
    atomic_bool *held; /* NULL: not held */
};

/* A work and what is to become of it. */
struct item {
    struct work work; /* first */
    uint32_t number;
    _Atomic enum simulated_event event;
    struct check check;
    atomic_uint begun; /* how often `started` was called */
    atomic_uint ended; /* how often `done` was called */
    uint32_t place;    /* the how-manieth of all to end, from 1 */
    atomic_uint *places;
};

/* Everything a test needs; made by start, taken down by stop. */
struct stage {
    struct simulated_device *device;
    struct queue *queue;
    struct metrics *metrics;
    struct dispatch *dispatch;
    struct item items[ITEMS_MAX];
    uint32_t count;
    atomic_uint places;
};
extern struct stage stage;
extern const struct gemm_kernel simulated_kernel; /* of every item */

/* Someone who waits for the answer of a probe. */
struct asker {
    struct probe_wait wait; /* first */
    atomic_bool answered;
};

void asker_told(struct probe_wait *wait); /* for wait.done */

/* The stage with so many streams and places in its queue, or over a device that was made before. */
void start(uint32_t slots, uint32_t places);
void start_on(struct simulated_device *device, uint32_t places);
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

#endif
