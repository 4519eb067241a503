#include "server/scheduler/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/scheduler/fair_queue.h"

struct queue {
    /* Works that were pushed and are not in `works` yet, linked by `next`, the latest first;
     * &closed after queue_fail_all. */
    _Alignas(CACHE_LINE_BYTES) _Atomic(struct work *) arrived;

    _Alignas(CACHE_LINE_BYTES) pthread_mutex_t lock; /* of the fields up to `failure` */
    uint64_t earliest_ns; /* no waiting work has a deadline before this; UINT64_MAX: none has one */
    bool woken, failed;
    atomic_uint sleepers; /* threads that wait for `changed`; written under the lock */

    struct fair_queue works; /* works.waiting may be read without the lock */
    struct fault failure;    /* why the queue has failed; never changes once `failed` is set */

    pthread_cond_t changed;
    struct admission *admission; /* borrowed; thread-safe */
    atomic_bool refusing;        /* closed, or failed */
};

/* The value of `arrived` after queue_fail_all. Only its address is used. */
static struct work closed;

static bool has_arrived(struct queue *queue)
{
    const struct work *work = atomic_load(&queue->arrived);
    return work != NULL && work != &closed;
}

/* Adds the arrived works to the fair queue in the order of their arrival. `work` is the latest of
 * them. Under the lock. */
static void add_arrived(struct queue *queue, struct work *work)
{
    struct work *first = NULL;
    while (work != NULL) {
        struct work *before = work->next;
        work->next = first;
        first = work;
        work = before;
    }
    while (first != NULL) {
        work = first;
        first = work->next;
        fair_queue_add(&queue->works, work);
        if (work->deadline_ns != 0 && work->deadline_ns < queue->earliest_ns)
            queue->earliest_ns = work->deadline_ns;
    }
}

/* Moves the works that have arrived to `works`. Under the lock, so that other threads can only push
 * in the meantime. */
static void sort_in(struct queue *queue)
{
    if (has_arrived(queue))
        add_arrived(queue, atomic_exchange(&queue->arrived, NULL));
}

/* Whether the first work of one lane goes before that of the other lane. A tenant's priorities do
 * not pass the works of other tenants. */
static bool is_more_urgent(const struct work *one, const struct work *other)
{
    return one->tenant == other->tenant && one->priority != other->priority
               ? one->priority > other->priority
               : one->order < other->order;
}

/* A launch list that is being made. */
struct launch_list {
    struct work_list works;
    uint32_t count;
    uint64_t bytes, rows;
    bool is_verified; /* one of the works is */
};

/* Whether one more work fits in the list. The first work fits whatever its size. */
static bool launch_list_fits(const struct launch_list *list, struct queue_room room,
                             const struct work *work)
{
    const uint32_t most = work->shared_launch ? room.shared : room.exclusive;
    return list->count < most &&
           (list->count == 0 ||
            (list->bytes <= room.shared_bytes && work->bytes <= room.shared_bytes - list->bytes));
}

/* The bytes that the device moves for the next work of a list. A check reads the operands and the
 * result once more. The works of a stack have one B, which is charged to the first of them, and for
 * the check to the first that is verified. */
static uint64_t charged_bytes(struct launch_list *list, const struct work *work)
{
    const bool shares_b = work_is_stacked(work);
    uint64_t bytes = work->bytes;
    if (list->count == 0 || !shares_b)
        bytes += work->outside_bytes;
    if (work->verify == WORK_UNVERIFIED)
        return bytes;
    bytes += work->bytes;
    if (!list->is_verified || !shares_b)
        bytes += work->outside_bytes;
    list->is_verified = true;
    return bytes;
}

static void launch_list_add(struct launch_list *list, struct fair_queue *queue, struct work *work)
{
    const uint64_t bytes = charged_bytes(list, work);
    list->count++;
    list->bytes += work->bytes;
    if (work->join_key != 0)
        list->rows += work_join_rows(work);
    fair_queue_serve(queue, work, bytes);
    work_list_append(&list->works, work);
}

/* Takes the works at the front of the shared lane, up to the next work that others can join, which
 * starts a launch list of its own. */
static struct work *take_shared(struct fair_queue *queue, struct queue_room room, uint64_t now_ns,
                                struct work_list *expired)
{
    struct launch_list list = {.count = 0};
    struct work *work = fair_queue_front(queue, LANE_SHARED, now_ns, expired);
    while (work != NULL && work->join_key == 0 && launch_list_fits(&list, room, work)) {
        launch_list_add(&list, queue, work);
        work = fair_queue_front(queue, LANE_SHARED, now_ns, expired);
    }
    return list.works.first;
}

/* The order of the queue: by the tags of the flows. */
static bool bucket_before(const struct heap_node *one, const struct heap_node *other)
{
    return sfq_before(&OWNER_OF(one, const struct join_bucket, node)->flow->turn,
                      &OWNER_OF(other, const struct join_bucket, node)->flow->turn);
}

/* Takes `first` and the waiting works of its stack or group, in the queue's order. */
static struct work *take_joining(struct fair_queue *queue, struct queue_room room,
                                 struct work *first, uint64_t now_ns, struct work_list *expired)
{
    struct launch_list list = {.count = 0};
    struct heap_node *buckets = NULL;
    struct join_bucket *bucket = join_index_find(queue->joins, first);
    if (first->bucket == NULL)
        launch_list_add(&list, queue, first);
    for (; bucket != NULL; bucket = join_index_find_next(bucket, first))
        heap_add(&buckets, &bucket->node, bucket_before);
    while (buckets != NULL) {
        bucket = OWNER_OF(buckets, struct join_bucket, node);
        struct work *work = join_bucket_first(bucket);
        const bool last = join_bucket_has_one(bucket), is_late = work_has_expired(work, now_ns);
        if (!is_late && (!launch_list_fits(&list, room, work) ||
                         (list.count > 0 && list.rows + work_join_rows(work) > work->join_rows)))
            break;
        heap_remove(&buckets, &bucket->node, bucket_before);
        if (is_late) {
            fair_queue_drop(queue, work);
            work_list_append(expired, work);
        } else {
            launch_list_add(&list, queue, work);
        }
        if (!last)
            heap_add(&buckets, &bucket->node, bucket_before);
    }
    return list.works.first;
}

/* Removes the works of the next launch from the fair queue, and returns them (queue_pop). The clock
 * is read only if a waiting work has a deadline. Works whose deadline has passed are dropped and
 * appended to `expired`. Under the lock. */
static struct work *take_launch_list(struct queue *waiting, struct queue_room room,
                                     struct work_list *expired)
{
    const uint64_t now_ns = waiting->earliest_ns != UINT64_MAX ? clock_now_ns() : 0;
    struct fair_queue *queue = &waiting->works;
    struct work *exclusive = NULL, *shared = NULL;
    if (room.exclusive > 0 && room.cost_max == 0)
        exclusive = fair_queue_front(queue, LANE_EXCLUSIVE, now_ns, expired);
    else if (room.exclusive > 0)
        exclusive = fair_queue_short_front(queue, room.cost_max, now_ns, expired);
    if (room.shared > 0)
        shared = fair_queue_front(queue, LANE_SHARED, now_ns, expired);
    const bool from_shared =
        shared != NULL && (exclusive == NULL || is_more_urgent(shared, exclusive));
    struct work *first = from_shared ? shared : exclusive;
    if (first == NULL)
        return NULL;
    if (first->join_key != 0)
        return take_joining(queue, room, first, now_ns, expired);
    if (from_shared)
        return take_shared(queue, room, now_ns, expired);
    struct launch_list alone = {.count = 0};
    launch_list_add(&alone, queue, first);
    return first;
}

/* Ends a work that did not run. Not under the lock, because `done` may take long and may call the
 * queue's functions. */
static void end_work(struct work *work, enum gemmd_error code, const char *detail)
{
    work->status = fault_set(&work->fault, code, NULL, "%s", detail);
    work->started_ns = work->done_ns = clock_now_ns();
    work->done(work);
}

static void end_all(const struct work_list *list, enum gemmd_error code, const char *detail)
{
    struct work *next;
    for (struct work *work = list->first; work != NULL; work = next) {
        next = work->next; /* once its `done` is called, the work belongs to its owner */
        end_work(work, code, detail);
    }
}

static void end_expired(const struct work_list *list)
{
    end_all(list, GEMMD_ERR_DEADLINE, "the deadline passed while the request was queued");
}

/* A thread that finds the lock taken spins for some microseconds before it sleeps: the lock is
 * never held for longer. */
static bool init_lock(struct queue *queue)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&queue->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (!ok)
        return false;
    pthread_mutexattr_t adaptive;
    ok = pthread_mutexattr_init(&adaptive) == 0;
    if (ok) {
        ok = pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP) == 0 &&
             pthread_mutex_init(&queue->lock, &adaptive) == 0;
        pthread_mutexattr_destroy(&adaptive);
    }
    if (!ok)
        pthread_cond_destroy(&queue->changed);
    return ok;
}

struct queue *queue_create(struct admission *admission, uint32_t tenants)
{
    struct queue *queue = aligned_alloc(CACHE_LINE_BYTES, sizeof *queue);
    if (queue == NULL)
        return NULL;
    memset(queue, 0, sizeof *queue);
    queue->earliest_ns = UINT64_MAX;
    queue->admission = admission;
    if (!fair_queue_open(&queue->works, tenants > 0 ? tenants : 1))
        goto no_works;
    if (!init_lock(queue))
        goto no_lock;
    return queue;

no_lock:
    fair_queue_close(&queue->works);
no_works:
    free(queue);
    return NULL;
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL)
        return;
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    fair_queue_close(&queue->works);
    free(queue);
}

static enum gemmd_error queue_refuse(struct queue *queue, struct fault *fault)
{
    pthread_mutex_lock(&queue->lock);
    enum gemmd_error code =
        queue->failed ? fault_set(fault, queue->failure.code, NULL, "%s", queue->failure.detail)
                      : fault_set(fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    pthread_mutex_unlock(&queue->lock);
    return code;
}

enum gemmd_error queue_admit(struct queue *queue, uint32_t tenant, uint64_t bytes,
                             struct reservation *reservation, struct fault *fault)
{
    if (atomic_load(&queue->refusing))
        return queue_refuse(queue, fault);
    return admission_take(queue->admission, tenant, bytes, reservation, fault);
}

struct admission *queue_admission(struct queue *queue)
{
    return queue->admission;
}

/* A push takes the lock only if a thread sleeps: all I/O threads push, and the dispatch thread
 * holds the lock for long while it sorts works in. */
void queue_push(struct queue *queue, struct work *work)
{
    struct work *head = atomic_load(&queue->arrived);
    do {
        if (head == &closed) { /* `failure` never changes again */
            work->waiting = false;
            end_work(work, queue->failure.code, queue->failure.detail);
            return;
        }
        work->next = head;
    } while (!atomic_compare_exchange_weak(&queue->arrived, &head, work));
    if (atomic_load(&queue->sleepers) == 0)
        return;
    /* A thread that is about to sleep holds the lock until it sleeps. */
    pthread_mutex_lock(&queue->lock);
    pthread_mutex_unlock(&queue->lock);
    pthread_cond_signal(&queue->changed);
}

bool queue_cancel(struct queue *queue, struct work *work)
{
    pthread_mutex_lock(&queue->lock);
    sort_in(queue);
    bool waiting = work->waiting;
    if (waiting) {
        fair_queue_drop(&queue->works, work);
        work->started_ns = work->done_ns = clock_now_ns();
    } else {
        atomic_store_explicit(&work->stop, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&queue->lock);
    return waiting;
}

/* Whether queue_pop may find a work. Without the lock: the works that have arrived are not sorted
 * in, so that they may belong to a lane without room. */
static bool has_some(struct queue *queue, struct queue_room room)
{
    return has_arrived(queue) ||
           (room.exclusive > 0 && atomic_load_explicit(&queue->works.waiting[LANE_EXCLUSIVE],
                                                       memory_order_relaxed) > 0) ||
           (room.shared > 0 &&
            atomic_load_explicit(&queue->works.waiting[LANE_SHARED], memory_order_relaxed) > 0);
}

/* Waits for a change until the time `until` (NULL: for any time). False: the time has come. Under
 * the lock. A push that happens at the same time sees the sleeper, or the sleeper sees the pushed
 * work, because each writes before it reads (`sleepers` and `arrived`). */
static bool sleep_until(struct queue *queue, const struct timespec *until)
{
    int error = 0;
    atomic_fetch_add(&queue->sleepers, 1);
    if (!has_arrived(queue))
        error = until == NULL ? pthread_cond_wait(&queue->changed, &queue->lock)
                              : pthread_cond_timedwait(&queue->changed, &queue->lock, until);
    atomic_fetch_sub(&queue->sleepers, 1);
    return error != ETIMEDOUT;
}

/* The time on the monotonic clock after `wait_ns`. */
static struct timespec time_after(uint64_t wait_ns)
{
    const uint64_t until_ns = clock_now_ns() + wait_ns;
    return (struct timespec){.tv_sec = (time_t)(until_ns / 1000000000u),
                             .tv_nsec = (long)(until_ns % 1000000000u)};
}

struct work *queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns)
{
    if (wait_ns == 0 && !has_some(queue, room))
        return NULL;

    const bool is_limited = wait_ns != 0 && wait_ns != UINT64_MAX;
    const struct timespec until = is_limited ? time_after(wait_ns) : (struct timespec){0};
    struct work_list expired = {NULL, NULL};
    bool waiting = wait_ns != 0;
    struct work *work;

    pthread_mutex_lock(&queue->lock);
    for (;;) {
        sort_in(queue);
        work = take_launch_list(queue, room, &expired);
        if (work != NULL)
            break;
        if (expired.first != NULL) { /* expired works must not wait until more works arrive */
            pthread_mutex_unlock(&queue->lock);
            end_expired(&expired);
            expired = (struct work_list){NULL, NULL};
            pthread_mutex_lock(&queue->lock);
            continue;
        }
        if (!waiting || queue->woken)
            break;
        waiting = sleep_until(queue, is_limited ? &until : NULL);
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
    struct work_list expired = {NULL, NULL};
    pthread_mutex_lock(&queue->lock);
    sort_in(queue);
    if (queue->earliest_ns <= now_ns)
        queue->earliest_ns = fair_queue_drop_expired(&queue->works, now_ns, &expired);
    pthread_mutex_unlock(&queue->lock);
    end_expired(&expired);
}

void queue_fail_all(struct queue *queue, enum gemmd_error code, const char *detail)
{
    struct work_list failed = {NULL, NULL};
    pthread_mutex_lock(&queue->lock);
    if (!queue->failed)
        fault_set(&queue->failure, code, NULL, "%s", detail);
    queue->failed = true;
    atomic_store(&queue->refusing, true);
    struct work *work = atomic_exchange(&queue->arrived, &closed);
    if (work != &closed)
        add_arrived(queue, work);
    fair_queue_drop_all(&queue->works, &failed);
    pthread_mutex_unlock(&queue->lock);
    end_all(&failed, code, detail);
}

void queue_close(struct queue *queue)
{
    atomic_store(&queue->refusing, true);
}

bool queue_has_tenants(const struct queue *queue)
{
    return queue->works.flow_count > LANES;
}

struct queue_state queue_state(struct queue *queue)
{
    struct admission_held held = admission_held(queue->admission);
    struct queue_state state = {.reserved = (uint32_t)held.requests, .reserved_bytes = held.bytes};
    pthread_mutex_lock(&queue->lock);
    sort_in(queue);
    for (int lane = 0; lane < LANES; lane++)
        state.waiting += atomic_load_explicit(&queue->works.waiting[lane], memory_order_relaxed);
    state.waiting_bytes = queue->works.waiting_bytes;
    pthread_mutex_unlock(&queue->lock);
    return state;
}
