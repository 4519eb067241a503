#include "dispatch_stage.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "tests/unit/admitted_queue.h"
#include "tests/unit/reservations.h"

struct stage stage;

void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

void item_done(struct work *work)
{
    struct item *item = (struct item *)work;
    item->rank = atomic_fetch_add(item->ranks, 1) + 1;
    atomic_fetch_add(&item->ended, 1);
}

enum simulated_event look(const struct work *work)
{
    return atomic_load(&((const struct item *)work)->event);
}

const struct operation_kernel simulated_kernel = {.name = "simulated"};
const struct task simulated_task = {.operation = &operation_gemm,
                                    .kernel = &simulated_kernel,
                                    .problem.gemm = {.m = 1, .n = 1, .k = 1, .batch = 1}};

struct item *add(enum simulated_event event)
{
    struct item *item = &stage.items[stage.count];
    ck_assert_uint_lt(stage.count, ITEMS_MAX);
    memset(item, 0, sizeof *item);
    item->number = stage.count++;
    item->ranks = &stage.ranks;
    atomic_store(&item->event, event);
    item->work.task = simulated_task;
    item->work.priority = 4;
    item->work.done = item_done;
    return item;
}

void push(struct item *item)
{
    ck_assert_int_eq(take_reservation_in_queue(stage.queue, 0, 0, NULL), GEMMD_OK);
    item->work.queued_ns = clock_now_ns();
    queue_push(stage.queue, &item->work);
}

struct item *add_and_push(enum simulated_event event)
{
    struct item *item = add(event);
    push(item);
    return item;
}

void wait_until_ended(const struct item *item)
{
    while (atomic_load(&item->ended) == 0)
        wait_a_little();
}

void asker_told(struct probe_wait *wait)
{
    atomic_store(&((struct asker *)wait)->answered, true);
}

bool probe(uint32_t timeout_ms, char reason[PROBE_REASON_MAX])
{
    struct asker asker = {.wait.done = asker_told};
    if (!dispatch_probe(stage.dispatch, &asker.wait, timeout_ms))
        while (!atomic_load(&asker.answered)) {
            dispatch_expire_probes(stage.dispatch, clock_now_ns());
            wait_a_little();
        }
    if (reason != NULL)
        memcpy(reason, asker.wait.reason, PROBE_REASON_MAX);
    return asker.wait.right;
}

void wait_until_submitted(uint32_t count)
{
    while (atomic_load(&stage.device->submitted) < count)
        wait_a_little();
}

void end_with(struct item *item, enum simulated_event event)
{
    atomic_store(&item->event, event);
    wait_until_ended(item);
}

void start_on(struct simulated_device *device, uint32_t requests)
{
    struct metrics_identity identity = {"0", "0", "cpu", "", "", ""};
    stage.device = device;
    const struct admission_limits limits = {.requests = requests, .tenants = TENANTS};
    stage.queue = queue_with_limits(&limits);
    stage.metrics = metrics_create(1, &identity);
    stage.dispatch = dispatch_start(&stage.device->base, stage.queue, NULL,
                                    metrics_shard(stage.metrics, 0), MAX_LAUNCH_WORKS, 0);
    ck_assert_ptr_nonnull(stage.dispatch);
}

void start(uint32_t slots, uint32_t requests)
{
    start_on(simulated_device_open(slots, look), requests);
}

void stop(void)
{
    queue_close(stage.queue);
    ck_assert(dispatch_stop(stage.dispatch, UINT64_MAX));
    queue_free(stage.queue);
    metrics_destroy(stage.metrics);
    device_close(&stage.device->base);
}

void wait_until_counted(const char *line)
{
    while (!counts(line))
        wait_a_little();
}

bool counts(const char *line)
{
    struct metrics_gauges gauges = {0};
    char *text;
    uint64_t length;
    ck_assert(metrics_expose(stage.metrics, &gauges, METRICS_TEXT, &text, &length));
    bool found = memmem(text, length, line, strlen(line)) != NULL;
    free(text);
    return found;
}
