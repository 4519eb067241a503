#include "server/work/probe.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/clock.h"
#include "server/device/known_answer.h"

static const uint64_t FRESH_NS = 1000000000u;

struct probe {
    struct device *device; /* borrowed */
    void *memory;
    bool has_device_memory;
    struct work work;
    bool running; /* the dispatch thread's */

    atomic_bool wanted;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t answered;
    uint64_t answers;  /* how many there were */
    uint64_t right_ns; /* when the last right one came; 0: none yet */
    char failure[160]; /* why the last one was not right, or "" */
};

static bool take_memory(struct probe *probe)
{
    struct device *device = probe->device;
    struct work *work = &probe->work;
    struct fault fault;
    enum gemm_backend backend = device_info(device)->backend;
    probe->memory = device_host_alloc(backend, KNOWN_ANSWER_BYTES, &fault);
    if (probe->memory == NULL)
        return false;
    known_answer_init(&work->problem, GEMMD_F32, GEMMD_F32, false, false, probe->memory);
    const struct gemm_device target = device_gemm(device);
    if (gemm_select(&target, "auto", &work->problem, &work->kernel, &fault) != GEMMD_OK ||
        !device_work_bytes(device, &work->problem, work->kernel, &work->device_bytes))
        return false;
    if (work->device_bytes > 0)
        probe->has_device_memory =
            arena_alloc(device_arena(device), work->device_bytes, &work->device_offset);
    return work->device_bytes == 0 || probe->has_device_memory;
}

static void give_back_memory(struct probe *probe)
{
    if (probe->has_device_memory)
        arena_free(device_arena(probe->device), probe->work.device_offset);
    device_host_free(device_info(probe->device)->backend, probe->memory, KNOWN_ANSWER_BYTES);
}

static bool init_lock(struct probe *probe)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&probe->answered, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (ok && pthread_mutex_init(&probe->lock, NULL) != 0) {
        pthread_cond_destroy(&probe->answered);
        ok = false;
    }
    return ok;
}

struct probe *probe_create(struct device *device)
{
    struct probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL)
        return NULL;
    probe->device = device;
    if (!take_memory(probe) || !init_lock(probe)) {
        give_back_memory(probe);
        free(probe);
        return NULL;
    }
    return probe;
}

void probe_destroy(struct probe *probe)
{
    if (probe == NULL)
        return;
    give_back_memory(probe);
    pthread_cond_destroy(&probe->answered);
    pthread_mutex_destroy(&probe->lock);
    free(probe);
}

static bool is_fresh(const struct probe *probe)
{
    return probe->right_ns != 0 && clock_now_ns() - probe->right_ns < FRESH_NS;
}

/* Waits for the answer after `answers`; false if none came in time. Under the lock. */
static bool wait_for_answer(struct probe *probe, uint64_t answers, uint32_t timeout_ms)
{
    uint64_t until_ns = clock_now_ns() + timeout_ms * UINT64_C(1000000);
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                             .tv_nsec = (long)(until_ns % 1000000000u)};
    int error = 0;
    while (probe->answers == answers && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&probe->answered, &probe->lock, &until);
    return probe->answers != answers;
}

enum probe_answer probe_ask(struct probe *probe, uint32_t timeout_ms, void (*wake)(void *argument),
                            void *argument, char *reason, uint32_t capacity)
{
    enum probe_answer answer = PROBE_RIGHT;
    char text[sizeof probe->failure] = "";
    pthread_mutex_lock(&probe->lock);
    if (!is_fresh(probe)) {
        uint64_t answers = probe->answers;
        atomic_store(&probe->wanted, true);
        pthread_mutex_unlock(&probe->lock);
        wake(argument);
        pthread_mutex_lock(&probe->lock);
        if (!wait_for_answer(probe, answers, timeout_ms)) {
            answer = PROBE_LATE;
            snprintf(text, sizeof text, "the device did not answer within %" PRIu32 " ms",
                     timeout_ms);
        } else if (probe->failure[0] != '\0') {
            answer = PROBE_WRONG;
            snprintf(text, sizeof text, "%s", probe->failure);
        }
    }
    pthread_mutex_unlock(&probe->lock);
    if (reason != NULL && capacity > 0)
        snprintf(reason, capacity, "%s", text);
    return answer;
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
    /* Operands and poison anew: an answer is never left over from the last time. */
    known_answer_init(&work->problem, GEMMD_F32, GEMMD_F32, false, false, probe->memory);
    work->queued_ns = clock_now_ns();
    return work;
}

bool probe_running(const struct probe *probe)
{
    return probe->running;
}

bool probe_end(struct probe *probe, const struct work *work)
{
    if (work != &probe->work)
        return false;
    uint64_t row, column;
    probe->running = false;
    pthread_mutex_lock(&probe->lock);
    if (work->status != GEMMD_OK)
        snprintf(probe->failure, sizeof probe->failure, "%.*s", (int)sizeof probe->failure - 1,
                 work->fault.detail);
    else if (!known_answer_check(&work->problem, &row, &column))
        snprintf(probe->failure, sizeof probe->failure,
                 "the device computed a wrong element at row %" PRIu64 ", column %" PRIu64, row,
                 column);
    else
        probe->failure[0] = '\0';
    if (probe->failure[0] == '\0')
        probe->right_ns = work->done_ns;
    probe->answers++;
    pthread_cond_broadcast(&probe->answered);
    pthread_mutex_unlock(&probe->lock);
    return true;
}
