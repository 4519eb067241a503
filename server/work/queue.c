#include "server/work/queue.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/size.h"
#include "server/clock.h"

enum { PRIORITIES = GEMM_PRIORITY_MAX + 1 };
enum lane { LANE_ALONE, LANE_SHARED, LANES };

struct list {
    struct work *first, *last;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t max_requests;
    uint64_t max_bytes;

    struct list lists[LANES][PRIORITIES];
    uint64_t pushed;          /* how many so far */
    struct queue_state state; /* but for what is reserved */
    uint64_t earliest_ns; /* no waiting work has a deadline before this; UINT64_MAX: none has one */
    uint32_t sleepers;
    bool woken;
    struct fault failure; /* code is GEMMD_OK until queue_fail_all */

    /* What a pop that does not wait looks at first, so that a thread polling a busy device keeps
     * its hands off the lock. */
    atomic_uint waiting[LANES];

    /* The places, which I/O threads take and give back without the lock; on a line of their own. */
    _Alignas(128) _Atomic uint64_t reserved;
    _Atomic uint64_t reserved_bytes;
    atomic_bool refusing; /* closed, or failed */
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

static struct list *list_of(struct queue *queue, const struct work *work)
{
    uint32_t priority = work->priority < PRIORITIES ? work->priority : PRIORITIES - 1;
    return &queue->lists[work->shares ? LANE_SHARED : LANE_ALONE][priority];
}

/* Under the lock. */
static void put(struct queue *queue, struct work *work)
{
    work->order = queue->pushed++;
    list_append(list_of(queue, work), work);
    work->waiting = true;
    queue->state.waiting++;
    queue->state.waiting_bytes += work->bytes;
    atomic_fetch_add_explicit(&queue->waiting[work->shares ? LANE_SHARED : LANE_ALONE], 1,
                              memory_order_relaxed);
}

/* Under the lock. */
static void take(struct queue *queue, struct work *work)
{
    list_remove(list_of(queue, work), work);
    work->waiting = false;
    queue->state.waiting--;
    queue->state.waiting_bytes -= work->bytes;
    atomic_fetch_sub_explicit(&queue->waiting[work->shares ? LANE_SHARED : LANE_ALONE], 1,
                              memory_order_relaxed);
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
    struct queue *queue = aligned_alloc(_Alignof(struct queue), sizeof *queue);
    if (queue == NULL)
        return NULL;
    memset(queue, 0, sizeof *queue);
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

static enum gemmd_error refuse(struct queue *queue, struct fault *fault)
{
    pthread_mutex_lock(&queue->lock);
    enum gemmd_error code =
        queue->failure.code != GEMMD_OK
            ? fault_set(fault, queue->failure.code, NULL, "%s", queue->failure.detail)
            : fault_set(fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    pthread_mutex_unlock(&queue->lock);
    return code;
}

/* Adds `amount` unless the sum would exceed the limit; `*sum` is then what it was. */
static bool add_within(_Atomic uint64_t *total, uint64_t amount, uint64_t limit, uint64_t *sum)
{
    *sum = atomic_load_explicit(total, memory_order_relaxed);
    do {
        if (amount > limit - *sum)
            return false;
    } while (!atomic_compare_exchange_weak(total, sum, *sum + amount));
    return true;
}

/* `bytes` of one request, of which `more` are still to be taken. */
static enum gemmd_error reserve_bytes(struct queue *queue, uint64_t bytes, uint64_t more,
                                      struct fault *fault)
{
    uint64_t taken;
    if (add_within(&queue->reserved_bytes, more, queue->max_bytes, &taken))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                     "the queue is full: %" PRIu64 " of %" PRIu64
                     " bytes are taken, this request needs %" PRIu64,
                     taken - (bytes - more), queue->max_bytes, bytes);
}

static enum gemmd_error check_fits(const struct queue *queue, uint64_t bytes, struct fault *fault)
{
    if (bytes <= queue->max_bytes)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                     "the request needs %" PRIu64 " bytes; the queue takes %" PRIu64 " at the most",
                     bytes, queue->max_bytes);
}

enum gemmd_error queue_reserve(struct queue *queue, uint64_t bytes, struct fault *fault)
{
    uint64_t taken;
    if (atomic_load(&queue->refusing))
        return refuse(queue, fault);
    enum gemmd_error code = check_fits(queue, bytes, fault);
    if (code != GEMMD_OK)
        return code;
    if (!add_within(&queue->reserved, 1, queue->max_requests, &taken))
        return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "the queue is full: %" PRIu64 " requests, which is the limit", taken);
    code = reserve_bytes(queue, bytes, bytes, fault);
    if (code != GEMMD_OK)
        atomic_fetch_sub(&queue->reserved, 1);
    return code;
}

enum gemmd_error queue_reserve_more(struct queue *queue, uint64_t bytes, uint64_t more,
                                    struct fault *fault)
{
    uint64_t total;
    if (!size_add(bytes, more, &total))
        total = UINT64_MAX;
    enum gemmd_error code = check_fits(queue, total, fault);
    return code != GEMMD_OK ? code : reserve_bytes(queue, total, more, fault);
}

void queue_release(struct queue *queue, uint64_t bytes)
{
    uint64_t reserved_bytes = atomic_fetch_sub(&queue->reserved_bytes, bytes);
    uint64_t reserved = atomic_fetch_sub(&queue->reserved, 1);
    assert(reserved > 0 && reserved_bytes >= bytes);
    (void)reserved;
    (void)reserved_bytes;
}

void queue_push(struct queue *queue, struct work *work)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->failure.code != GEMMD_OK) {
        pthread_mutex_unlock(&queue->lock); /* the failure never changes again */
        end(work, queue->failure.code, queue->failure.detail);
        return;
    }
    put(queue, work);
    if (work->deadline_ns != 0 && work->deadline_ns < queue->earliest_ns)
        queue->earliest_ns = work->deadline_ns;
    bool wake = queue->sleepers > 0;
    pthread_mutex_unlock(&queue->lock);
    if (wake)
        pthread_cond_signal(&queue->changed);
}

bool queue_cancel(struct queue *queue, struct work *work)
{
    pthread_mutex_lock(&queue->lock);
    bool waited = work->waiting;
    if (waited) {
        take(queue, work);
        work->started_ns = work->done_ns = clock_now_ns();
    }
    pthread_mutex_unlock(&queue->lock);
    return waited;
}

/* The most urgent work of a lane, which stays where it is; what has expired is moved to `expired`.
 * Under the lock. */
static struct work *front(struct queue *queue, enum lane lane, uint64_t now_ns,
                          struct list *expired)
{
    for (int priority = PRIORITIES - 1; priority >= 0; priority--) {
        struct work *work;
        while ((work = queue->lists[lane][priority].first) != NULL) {
            if (!has_expired(work, now_ns))
                return work;
            take(queue, work);
            list_append(expired, work);
        }
    }
    return NULL;
}

static bool is_before(const struct work *one, const struct work *other)
{
    return one->priority != other->priority ? one->priority > other->priority
                                            : one->order < other->order;
}

/* Under the lock. */
static struct work *take_sharing(struct queue *queue, struct queue_room room, uint64_t now_ns,
                                 struct list *expired)
{
    struct list taken = {NULL, NULL};
    uint64_t bytes = 0;
    for (uint32_t count = 0; count < room.shared; count++) {
        struct work *work = front(queue, LANE_SHARED, now_ns, expired);
        if (work == NULL ||
            (count > 0 && (bytes > room.shared_bytes || work->bytes > room.shared_bytes - bytes)))
            break;
        bytes += work->bytes;
        take(queue, work);
        list_append(&taken, work);
    }
    return taken.first;
}

/* What queue_pop hands out, if it is there. Under the lock. */
static struct work *next_alive(struct queue *queue, struct queue_room room, struct list *expired)
{
    uint64_t now_ns = queue->earliest_ns != UINT64_MAX ? clock_now_ns() : 0;
    struct work *alone = room.alone ? front(queue, LANE_ALONE, now_ns, expired) : NULL;
    struct work *shared = room.shared > 0 ? front(queue, LANE_SHARED, now_ns, expired) : NULL;
    if (shared != NULL && (alone == NULL || is_before(shared, alone)))
        return take_sharing(queue, room, now_ns, expired);
    if (alone != NULL) {
        take(queue, alone);
        alone->next = NULL;
    }
    return alone;
}

/* Without the lock. */
static bool has_some(struct queue *queue, struct queue_room room)
{
    return (room.alone &&
            atomic_load_explicit(&queue->waiting[LANE_ALONE], memory_order_relaxed) > 0) ||
           (room.shared > 0 &&
            atomic_load_explicit(&queue->waiting[LANE_SHARED], memory_order_relaxed) > 0);
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

struct work *queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns)
{
    if (wait_ns == 0 && !has_some(queue, room))
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
    while ((work = next_alive(queue, room, &expired)) == NULL) {
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

/* Under the lock. */
static void expire_list(struct queue *queue, struct list *list, uint64_t now_ns,
                        struct list *expired)
{
    struct work *next;
    for (struct work *work = list->first; work != NULL; work = next) {
        next = work->next;
        if (has_expired(work, now_ns)) {
            take(queue, work);
            list_append(expired, work);
        } else if (work->deadline_ns != 0 && work->deadline_ns < queue->earliest_ns) {
            queue->earliest_ns = work->deadline_ns;
        }
    }
}

void queue_expire(struct queue *queue, uint64_t now_ns)
{
    struct list expired = {NULL, NULL};
    pthread_mutex_lock(&queue->lock);
    if (queue->earliest_ns <= now_ns) {
        queue->earliest_ns = UINT64_MAX;
        for (int i = LANES * PRIORITIES - 1; i >= 0; i--)
            expire_list(queue, &queue->lists[i / PRIORITIES][i % PRIORITIES], now_ns, &expired);
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
    atomic_store(&queue->refusing, true);
    struct work *work;
    for (int i = LANES * PRIORITIES - 1; i >= 0; i--)
        while ((work = queue->lists[i / PRIORITIES][i % PRIORITIES].first) != NULL) {
            take(queue, work);
            list_append(&failed, work);
        }
    pthread_mutex_unlock(&queue->lock);
    end_all(&failed, code, detail);
}

void queue_close(struct queue *queue)
{
    atomic_store(&queue->refusing, true);
}

struct queue_state queue_state(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    struct queue_state state = queue->state;
    pthread_mutex_unlock(&queue->lock);
    state.reserved = (uint32_t)atomic_load(&queue->reserved);
    state.reserved_bytes = atomic_load(&queue->reserved_bytes);
    return state;
}
