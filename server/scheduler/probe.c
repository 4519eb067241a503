#include "server/scheduler/probe.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/known_answer.h"
#include "server/base/clock.h"

/* How long a correct answer counts for callers that ask later. */
static const uint64_t FRESH_NS = 1000000000u;

struct probe {
    struct device *device; /* borrowed */
    void *memory;
    bool has_device_memory;
    struct work work;
    bool running; /* used by the dispatch thread */

    atomic_bool wanted;
    pthread_mutex_t lock; /* of the next two */
    struct probe_wait *waits;
    uint64_t right_ns; /* when the last right answer came; 0: none yet */
};

static bool alloc_memory(struct probe *probe)
{
    struct device *device = probe->device;
    struct work *work = &probe->work;
    struct fault fault;
    enum gemm_backend backend = device_info(device)->backend;
    probe->memory = device_host_alloc(backend, KNOWN_ANSWER_BYTES, &fault);
    if (probe->memory == NULL)
        return false;
    work->task.operation = &operation_gemm;
    known_answer_init(&work->task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false, probe->memory);
    const struct gemm_device target = device_gemm(device);
    if (operation_select(&operation_gemm, &target, "auto", &work->task.problem.gemm,
                         &work->task.kernel, &fault) != GEMMD_OK ||
        !device_plan(device, work))
        return false;
    if (work->device_bytes > 0)
        probe->has_device_memory =
            arena_alloc(device_arena(device), work->device_bytes, &work->device_offset);
    return work->device_bytes == 0 || probe->has_device_memory;
}

static void free_memory(struct probe *probe)
{
    if (probe->has_device_memory)
        arena_free(device_arena(probe->device), probe->work.device_offset);
    device_host_free(device_info(probe->device)->backend, probe->memory, KNOWN_ANSWER_BYTES);
}

struct probe *probe_create(struct device *device)
{
    struct probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL)
        return NULL;
    probe->device = device;
    if (!alloc_memory(probe) || pthread_mutex_init(&probe->lock, NULL) != 0) {
        free_memory(probe);
        free(probe);
        return NULL;
    }
    return probe;
}

void probe_destroy(struct probe *probe)
{
    if (probe == NULL)
        return;
    free_memory(probe);
    pthread_mutex_destroy(&probe->lock);
    free(probe);
}

static bool is_fresh(const struct probe *probe)
{
    return probe->right_ns != 0 && clock_now_ns() - probe->right_ns < FRESH_NS;
}

bool probe_ask(struct probe *probe, struct probe_wait *wait, uint32_t timeout_ms,
               void (*wake)(void *argument), void *argument)
{
    wait->right = true;
    wait->reason[0] = '\0';
    pthread_mutex_lock(&probe->lock);
    bool fresh = is_fresh(probe);
    if (!fresh) {
        wait->timeout_ms = timeout_ms;
        wait->until_ns = clock_now_ns() + timeout_ms * UINT64_C(1000000);
        wait->next = probe->waits;
        probe->waits = wait;
        atomic_store(&probe->wanted, true);
    }
    pthread_mutex_unlock(&probe->lock);
    if (!fresh)
        wake(argument); /* the dispatch thread may have answered already, and freed `wait` */
    return fresh;
}

void probe_expire(struct probe *probe, uint64_t now_ns, bool right)
{
    struct probe_wait *expired = NULL;
    pthread_mutex_lock(&probe->lock);
    for (struct probe_wait **link = &probe->waits; *link != NULL;) {
        struct probe_wait *wait = *link;
        if (wait->until_ns > now_ns) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        wait->next = expired;
        expired = wait;
    }
    pthread_mutex_unlock(&probe->lock);
    while (expired != NULL) {
        struct probe_wait *wait = expired;
        expired = wait->next;
        wait->right = right;
        if (!right)
            snprintf(wait->reason, sizeof wait->reason,
                     "the device did not answer within %" PRIu32 " ms", wait->timeout_ms);
        wait->done(wait);
    }
}

bool probe_due(const struct probe *probe)
{
    return !probe->running && atomic_load_explicit(&probe->wanted, memory_order_relaxed);
}

struct work *probe_begin(struct probe *probe)
{
    struct work *work = &probe->work;
    atomic_store(&probe->wanted, false);
    probe->running = true;
    /* Writes the operands and poisons the result, so that no answer is left over from last time. */
    known_answer_init(&work->task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false, probe->memory);
    work->queued_ns = clock_now_ns();
    return work;
}

bool probe_running(const struct probe *probe)
{
    return probe->running;
}

/* Writes why the answer of a work is not right, or "". */
static void check_answer(const struct work *work, char reason[PROBE_REASON_MAX])
{
    uint64_t row, column;
    reason[0] = '\0';
    if (work->status != GEMMD_OK)
        snprintf(reason, PROBE_REASON_MAX, "%.*s", PROBE_REASON_MAX - 1, work->fault.detail);
    else if (!known_answer_check(&work->task.problem.gemm, &row, &column))
        snprintf(reason, PROBE_REASON_MAX,
                 "the device computed a wrong element at row %" PRIu64 ", column %" PRIu64, row,
                 column);
}

bool probe_end(struct probe *probe, const struct work *work)
{
    if (work != &probe->work)
        return false;
    char reason[PROBE_REASON_MAX];
    check_answer(work, reason);
    probe->running = false;
    pthread_mutex_lock(&probe->lock);
    if (reason[0] == '\0')
        probe->right_ns = work->done_ns;
    struct probe_wait *waits = probe->waits;
    probe->waits = NULL;
    pthread_mutex_unlock(&probe->lock);
    while (waits != NULL) {
        struct probe_wait *wait = waits;
        waits = wait->next;
        wait->right = reason[0] == '\0';
        memcpy(wait->reason, reason, sizeof reason);
        wait->done(wait);
    }
    return true;
}
