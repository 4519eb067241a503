#include "server/work/queue.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/clock.h"

enum { PRIORITIES = GEMM_PRIORITY_MAX + 1 };

struct list {
    struct work *first, *last;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t max_requests;
    uint64_t max_bytes;

    struct list lists[PRIORITIES];
    struct queue_state state;
    uint64_t earliest_ns; /* no waiting work has a deadline before this; UINT64_MAX: none has one */
    uint32_t sleepers;
    bool woken, closed;
    struct fault failure; /* code is GEMMD_OK until queue_fail_all */

    /* What a pop that does not wait looks at first, so that a thread polling a busy device keeps
     * its hands off the lock. */
    atomic_uint waiting;
};

static void list_append(struct list *list, struct work *work)
{
    work->next = NULL;
    work->previous = list->last;
    if (list->last != NULL)
        list->last->next = work;
    else
        list->first = work;
    list->last = work;
}

static void list_remove(struct list *list, struct work *work)
{
    if (work->previous != NULL)
        work->previous->next = work->next;
    else
        list->first = work->next;
    if (work->next != NULL)
        work->next->previous = work->previous;
    else
        list->last = work->previous;
}

/* Under the lock. */
static void take(struct queue *queue, struct list *list, struct work *work)
{
    list_remove(list, work);
    queue->state.waiting--;
    queue->state.waiting_bytes -= work->bytes;
    atomic_store_explicit(&queue->waiting, queue->state.waiting, memory_order_relaxed);
}

static bool has_expired(const struct work *work, uint64_t now_ns)
{
    return work->deadline_ns != 0 && work->deadline_ns <= now_ns;
}

/* Not under the lock: `done` may take its time, and may call back. */
static void end(struct work *work, enum gemmd_error code, const char *detail)
{
    work->status = fault_set(&work->fault, code, NULL, "%s", detail);
    work->started_ns = work->done_ns = clock_now_ns();
    work->done(work);
}

static void end_all(const struct list *list, enum gemmd_error code, const char *detail)
{
    struct work *next;
    for (struct work *work = list->first; work != NULL; work = next) {
        next = work->next; /* the work is its owner's again once it is done */
        end(work, code, detail);
    }
}

static void end_expired(const struct list *list)
{
    end_all(list, GEMMD_ERR_DEADLINE, "the deadline passed while the request was queued");
}

static bool init_lock(struct queue *queue)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&queue->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (ok && pthread_mutex_init(&queue->lock, NULL) != 0) {
        pthread_cond_destroy(&queue->changed);
        ok = false;
    }
    return ok;
}

struct queue *queue_create(uint32_t max_requests, uint64_t max_bytes)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return NULL;
    queue->max_requests = max_requests;
    queue->max_bytes = max_bytes;
    queue->earliest_ns = UINT64_MAX;
    if (!init_lock(queue)) {
        free(queue);
        return NULL;
    }
    return queue;
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL)
        return;
    assert(queue->state.waiting == 0);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

enum gemmd_error queue_reserve(struct queue *queue, uint64_t bytes, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    pthread_mutex_lock(&queue->lock);
    struct queue_state *state = &queue->state;
    if (queue->failure.code != GEMMD_OK)
        code = fault_set(fault, queue->failure.code, NULL, "%s", queue->failure.detail);
    else if (queue->closed)
        code = fault_set(fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    else if (bytes > queue->max_bytes)
        code = fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the request needs %" PRIu64 " bytes; the queue takes %" PRIu64
                         " at the most",
                         bytes, queue->max_bytes);
    else if (state->reserved >= queue->max_requests)
        code = fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "the queue is full: %" PRIu32 " requests, which is the limit",
                         state->reserved);
    else if (bytes > queue->max_bytes - state->reserved_bytes)
        code = fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "the queue is full: %" PRIu64 " of %" PRIu64
                         " bytes are taken, this request needs %" PRIu64,
                         state->reserved_bytes, queue->max_bytes, bytes);
    if (code == GEMMD_OK) {
        state->reserved++;
        state->reserved_bytes += bytes;
    }
    pthread_mutex_unlock(&queue->lock);
    return code;
}

void queue_release(struct queue *queue, uint64_t bytes)
{
    pthread_mutex_lock(&queue->lock);
    assert(queue->state.reserved > 0 && queue->state.reserved_bytes >= bytes);
    queue->state.reserved--;
    queue->state.reserved_bytes -= bytes;
    pthread_mutex_unlock(&queue->lock);
}

void queue_push(struct queue *queue, struct work *work)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->failure.code != GEMMD_OK) {
        pthread_mutex_unlock(&queue->lock); /* the failure never changes again */
        end(work, queue->failure.code, queue->failure.detail);
        return;
    }
    uint32_t priority = work->priority < PRIORITIES ? work->priority : PRIORITIES - 1;
    list_append(&queue->lists[priority], work);
    queue->state.waiting++;
    queue->state.waiting_bytes += work->bytes;
    atomic_store_explicit(&queue->waiting, queue->state.waiting, memory_order_relaxed);
    if (work->deadline_ns != 0 && work->deadline_ns < queue->earliest_ns)
        queue->earliest_ns = work->deadline_ns;
    bool wake = queue->sleepers > 0;
    pthread_mutex_unlock(&queue->lock);
    if (wake)
        pthread_cond_signal(&queue->changed);
}

/* The first work that has not expired; what has is moved to `expired`. Under the lock. */
static struct work *next_alive(struct queue *queue, struct list *expired)
{
    uint64_t now_ns = queue->earliest_ns != UINT64_MAX ? clock_now_ns() : 0;
    for (int priority = PRIORITIES - 1; priority >= 0; priority--) {
        struct list *list = &queue->lists[priority];
        while (list->first != NULL) {
            struct work *work = list->first;
            take(queue, list, work);
            if (!has_expired(work, now_ns))
                return work;
            list_append(expired, work);
        }
    }
    return NULL;
}

/* Waits for a change; false once `until` is over. Under the lock. */
static bool sleep_until(struct queue *queue, const struct timespec *until)
{
    queue->sleepers++;
    int error = until == NULL ? pthread_cond_wait(&queue->changed, &queue->lock)
                              : pthread_cond_timedwait(&queue->changed, &queue->lock, until);
    queue->sleepers--;
    return error != ETIMEDOUT;
}

struct work *queue_pop(struct queue *queue, uint64_t wait_ns)
{
    if (wait_ns == 0 && atomic_load_explicit(&queue->waiting, memory_order_relaxed) == 0)
        return NULL;

    struct timespec until = {0};
    if (wait_ns != 0 && wait_ns != UINT64_MAX) {
        uint64_t until_ns = clock_now_ns() + wait_ns;
        until.tv_sec = (time_t)(until_ns / 1000000000u);
        until.tv_nsec = (long)(until_ns % 1000000000u);
    }
    struct work *work;
    struct list expired = {NULL, NULL};
    bool waiting = wait_ns != 0;

    pthread_mutex_lock(&queue->lock);
    while ((work = next_alive(queue, &expired)) == NULL) {
        if (expired.first != NULL) { /* nobody should wait for their end until more arrives */
            pthread_mutex_unlock(&queue->lock);
            end_expired(&expired);
            expired = (struct list){NULL, NULL};
            pthread_mutex_lock(&queue->lock);
            continue;
        }
        if (!waiting || queue->woken)
            break;
        waiting = sleep_until(queue, wait_ns == UINT64_MAX ? NULL : &until);
    }
    if (work == NULL && wait_ns != 0)
        queue->woken = false;
    pthread_mutex_unlock(&queue->lock);
    end_expired(&expired);
    return work;
}

void queue_wake(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->woken = true;
    pthread_mutex_unlock(&queue->lock);
    pthread_cond_broadcast(&queue->changed);
}

void queue_expire(struct queue *queue, uint64_t now_ns)
{
    struct list expired = {NULL, NULL};
    pthread_mutex_lock(&queue->lock);
    if (queue->earliest_ns <= now_ns) {
        queue->earliest_ns = UINT64_MAX;
        for (int priority = PRIORITIES - 1; priority >= 0; priority--) {
            struct work *next;
            for (struct work *work = queue->lists[priority].first; work != NULL; work = next) {
                next = work->next;
                if (has_expired(work, now_ns)) {
                    take(queue, &queue->lists[priority], work);
                    list_append(&expired, work);
                } else if (work->deadline_ns != 0 && work->deadline_ns < queue->earliest_ns) {
                    queue->earliest_ns = work->deadline_ns;
                }
            }
        }
    }
    pthread_mutex_unlock(&queue->lock);
    end_expired(&expired);
}

void queue_fail_all(struct queue *queue, enum gemmd_error code, const char *detail)
{
    struct list failed = {NULL, NULL};
    pthread_mutex_lock(&queue->lock);
    if (queue->failure.code == GEMMD_OK)
        fault_set(&queue->failure, code, NULL, "%s", detail);
    for (int priority = PRIORITIES - 1; priority >= 0; priority--) {
        struct list *list = &queue->lists[priority];
        while (list->first != NULL) {
            struct work *work = list->first;
            take(queue, list, work);
            list_append(&failed, work);
        }
    }
    pthread_mutex_unlock(&queue->lock);
    end_all(&failed, code, detail);
}

void queue_close(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_mutex_unlock(&queue->lock);
}

struct queue_state queue_state(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    struct queue_state state = queue->state;
    pthread_mutex_unlock(&queue->lock);
    return state;
}
