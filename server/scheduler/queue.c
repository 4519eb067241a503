#include "server/scheduler/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/scheduler/edf_queue.h"
#include "server/scheduler/stack_index.h"

enum { PRIORITIES = GEMM_PRIORITY_MAX + 1 };
enum lane { LANE_EXCLUSIVE, LANE_SHARED, LANES };

/* What a work counts besides its bytes, so that small ones are not free. */
static const uint64_t WORK_BYTES = 4096;

struct list {
    struct work *first, *last;
};

/* I/O threads push what the dispatch thread pops, so that each line that both write travels between
 * their cores with every work. So what goes together lies together, on as few lines as may be. */
enum { LINE_BYTES = 64 };

/* What waits of one tenant, lane and priority. */
struct flow {
    _Alignas(LINE_BYTES) struct edf_queue edf;
    struct heap_node node; /* in its level, while something waits */
    uint64_t start;        /* its tag: bytes of work */
};
_Static_assert(sizeof(struct flow) == LINE_BYTES, "one line");

/* One lane and priority. */
struct level {
    struct heap_node *flows;  /* with something waiting, by their tags */
    uint64_t now, last_start; /* the tag of what was taken last; the highest tag given so far */
};

struct queue {
    /* Works that were pushed and not sorted in yet, the latest first; &closed after queue_fail_all.
     */
    _Alignas(LINE_BYTES) _Atomic(struct work *) arrived;

    _Alignas(LINE_BYTES) pthread_mutex_t lock;
    uint32_t occupied[LANES]; /* bit i: something waits with priority i */
    uint64_t pushed;          /* how many so far */
    uint64_t waiting_bytes;
    uint64_t earliest_ns; /* no waiting work has a deadline before this; UINT64_MAX: none has one */
    bool woken, failed;
    atomic_uint sleepers; /* written under the lock */

    /* What a pop that does not wait looks at first, so that a thread polling a busy device keeps
     * its hands off the lock. */
    _Alignas(LINE_BYTES) atomic_uint waiting[LANES];

    _Alignas(LINE_BYTES) struct level levels[LANES][PRIORITIES];
    struct flow *flows; /* [tenants][LANES][PRIORITIES] */
    uint32_t flow_count;
    struct stack_index *stacks;
    pthread_cond_t changed;
    struct fault failure; /* once it has failed */
    struct admission *admission;
    atomic_bool refusing; /* closed, or failed */
};

/* Stands for no work at all. */
static struct work closed;

static bool has_arrived(struct queue *queue)
{
    const struct work *work = atomic_load(&queue->arrived);
    return work != NULL && work != &closed;
}

static void list_append(struct list *list, struct work *work)
{
    work->next = NULL;
    if (list->last != NULL)
        list->last->next = work;
    else
        list->first = work;
    list->last = work;
}

/* Where tags are equal, by the tenants' numbers. */
static bool flow_before(const struct heap_node *one, const struct heap_node *other)
{
    const struct flow *a = HEAP_OWNER(one, const struct flow, node);
    const struct flow *b = HEAP_OWNER(other, const struct flow, node);
    return a->start != b->start ? a->start < b->start : a < b;
}

/* Where a work belongs. */
struct spot {
    enum lane lane;
    uint32_t priority;
    struct level *level;
    struct flow *flow;
};

static struct spot spot_of(struct queue *queue, const struct work *work)
{
    uint32_t priority = work->priority < PRIORITIES ? work->priority : PRIORITIES - 1;
    enum lane lane = work->shared_launch ? LANE_SHARED : LANE_EXCLUSIVE;
    return (struct spot){lane, priority, &queue->levels[lane][priority],
                         &queue->flows[(work->tenant * LANES + lane) * PRIORITIES + priority]};
}

/* The functions from here to next_alive are called under the lock. */

static void activate(struct queue *queue, const struct spot *spot)
{
    struct level *level = spot->level;
    if (level->flows == NULL) { /* all were served: they start equal */
        level->now = level->last_start;
        queue->occupied[spot->lane] |= 1u << spot->priority;
    }
    if (spot->flow->start < level->now)
        spot->flow->start = level->now;
    heap_add(&level->flows, &spot->flow->node, flow_before);
}

/* It is out of the heap. */
static void deactivate(struct queue *queue, const struct spot *spot)
{
    if (spot->level->flows == NULL)
        queue->occupied[spot->lane] &= ~(1u << spot->priority);
}

/* Written under the lock only, so that no read-modify-write is needed. */
static void count_waiting(struct queue *queue, enum lane lane, int change)
{
    unsigned now = atomic_load_explicit(&queue->waiting[lane], memory_order_relaxed);
    atomic_store_explicit(&queue->waiting[lane], now + (unsigned)change, memory_order_relaxed);
}

static void put(struct queue *queue, struct work *work)
{
    const struct spot spot = spot_of(queue, work);
    if (edf_queue_first(&spot.flow->edf) == NULL)
        activate(queue, &spot);
    work->order = queue->pushed++;
    work->waiting = true;
    edf_queue_add(&spot.flow->edf, work);
    work->bucket = NULL;
    if (work->stack_key != 0)
        stack_index_add(queue->stacks, work, spot.flow);
    queue->waiting_bytes += work->bytes;
    count_waiting(queue, spot.lane, 1);
}

/* Puts what has arrived where it belongs; `work` is the latest of it. */
static void put_arrived(struct queue *queue, struct work *work)
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
        put(queue, work);
        if (work->deadline_ns != 0 && work->deadline_ns < queue->earliest_ns)
            queue->earliest_ns = work->deadline_ns;
    }
}

static void sort_in(struct queue *queue)
{
    if (has_arrived(queue))
        put_arrived(queue, atomic_exchange(&queue->arrived, NULL)); /* others only push */
}

static void take_out(struct queue *queue, const struct spot *spot, struct work *work)
{
    edf_queue_remove(&spot->flow->edf, work);
    if (work->bucket != NULL)
        stack_index_remove(queue->stacks, work);
    work->waiting = false;
    queue->waiting_bytes -= work->bytes;
    count_waiting(queue, spot->lane, -1);
}

/* Without having it run, so that its tenant's share stays as it was. */
static void drop(struct queue *queue, struct work *work)
{
    const struct spot spot = spot_of(queue, work);
    take_out(queue, &spot, work);
    if (edf_queue_first(&spot.flow->edf) != NULL)
        return;
    heap_remove(&spot.level->flows, &spot.flow->node, flow_before);
    deactivate(queue, &spot);
}

/* To have it run. Time goes on with what was next; what comes along in its stack only pays. */
static void serve(struct queue *queue, struct work *work, uint64_t bytes)
{
    const struct spot spot = spot_of(queue, work);
    take_out(queue, &spot, work);
    if (spot.level->flows == &spot.flow->node)
        spot.level->now = spot.flow->start;
    heap_remove(&spot.level->flows, &spot.flow->node, flow_before);
    spot.flow->start += bytes + WORK_BYTES;
    if (spot.flow->start > spot.level->last_start)
        spot.level->last_start = spot.flow->start;
    if (edf_queue_first(&spot.flow->edf) != NULL)
        heap_add(&spot.level->flows, &spot.flow->node, flow_before);
    else
        deactivate(queue, &spot);
}

static bool has_expired(const struct work *work, uint64_t now_ns)
{
    return work->deadline_ns != 0 && work->deadline_ns <= now_ns;
}

/* The next work of a lane, which stays where it is; what has expired is moved to `expired`. */
static struct work *front(struct queue *queue, enum lane lane, uint64_t now_ns,
                          struct list *expired)
{
    while (queue->occupied[lane] != 0) {
        int priority = 31 - __builtin_clz(queue->occupied[lane]);
        struct heap_node *first = queue->levels[lane][priority].flows;
        struct work *work = edf_queue_first(&HEAP_OWNER(first, struct flow, node)->edf);
        if (!has_expired(work, now_ns))
            return work;
        drop(queue, work);
        list_append(expired, work);
    }
    return NULL;
}

static bool is_before(const struct work *one, const struct work *other)
{
    return one->priority != other->priority ? one->priority > other->priority
                                            : one->order < other->order;
}

/* What a launch holds so far. */
struct launch {
    struct list works;
    uint32_t count;
    uint64_t bytes, rows;
};

/* Whether one more fits. A first one always does. */
static bool fits(const struct launch *launch, struct queue_room room, const struct work *work)
{
    const uint32_t most = work->shared_launch ? room.shared : room.exclusive;
    return launch->count < most &&
           (launch->count == 0 || (launch->bytes <= room.shared_bytes &&
                                   work->bytes <= room.shared_bytes - launch->bytes));
}

/* Rows on one B have it from the first of their stack. */
static bool brings_its_own(const struct launch *launch, const struct work *work)
{
    return launch->count == 0 || work->stack_key == 0 || work->attention_kernel != NULL;
}

static void take(struct queue *queue, struct launch *launch, struct work *work)
{
    const uint64_t outside_bytes = brings_its_own(launch, work) ? work->outside_bytes : 0;
    launch->count++;
    launch->bytes += work->bytes;
    launch->rows += work_stack_rows(work);
    serve(queue, work, work->bytes + outside_bytes);
    list_append(&launch->works, work);
}

/* Up to the next that is to be stacked: it is as urgent. */
static struct work *take_group(struct queue *queue, struct queue_room room, uint64_t now_ns,
                               struct list *expired)
{
    struct launch launch = {.count = 0};
    struct work *work = front(queue, LANE_SHARED, now_ns, expired);
    while (work != NULL && work->stack_key == 0 && fits(&launch, room, work)) {
        take(queue, &launch, work);
        work = front(queue, LANE_SHARED, now_ns, expired);
    }
    return launch.works.first;
}

/* As the queue's order has it: priority, then the tenants' tags. */
static bool bucket_before(const struct heap_node *one, const struct heap_node *other)
{
    const struct stack_bucket *a = HEAP_OWNER(one, const struct stack_bucket, node);
    const struct stack_bucket *b = HEAP_OWNER(other, const struct stack_bucket, node);
    const uint32_t priority_a = stack_bucket_first(a)->priority,
                   priority_b = stack_bucket_first(b)->priority;
    return priority_a != priority_b ? priority_a > priority_b
                                    : flow_before(&a->flow->node, &b->flow->node);
}

/* `first` and what waits for the same stack, in the queue's order, as far as there is room. */
static struct work *take_stack(struct queue *queue, struct queue_room room, struct work *first,
                               uint64_t now_ns, struct list *expired)
{
    struct launch launch = {.count = 0};
    struct heap_node *waiting = NULL; /* stacks */
    struct stack_bucket *bucket = stack_index_find(queue->stacks, first);
    if (first->bucket == NULL)
        take(queue, &launch, first);
    for (; bucket != NULL; bucket = stack_index_find_next(bucket, first))
        heap_add(&waiting, &bucket->node, bucket_before);
    while (waiting != NULL) {
        bucket = HEAP_OWNER(waiting, struct stack_bucket, node);
        struct work *work = stack_bucket_first(bucket);
        const bool last = stack_bucket_has_one(bucket), is_late = has_expired(work, now_ns);
        if (!is_late &&
            (!fits(&launch, room, work) ||
             (launch.count > 0 && launch.rows + work_stack_rows(work) > work->stack_rows)))
            break;
        heap_remove(&waiting, &bucket->node, bucket_before);
        if (is_late) {
            drop(queue, work);
            list_append(expired, work);
        } else {
            take(queue, &launch, work);
        }
        if (!last)
            heap_add(&waiting, &bucket->node, bucket_before);
    }
    return launch.works.first;
}

/* What queue_pop hands out, if it is there. */
static struct work *next_alive(struct queue *queue, struct queue_room room, struct list *expired)
{
    uint64_t now_ns = queue->earliest_ns != UINT64_MAX ? clock_now_ns() : 0;
    struct work *exclusive =
        room.exclusive > 0 ? front(queue, LANE_EXCLUSIVE, now_ns, expired) : NULL;
    struct work *shared = room.shared > 0 ? front(queue, LANE_SHARED, now_ns, expired) : NULL;
    const bool shares = shared != NULL && (exclusive == NULL || is_before(shared, exclusive));
    struct work *first = shares ? shared : exclusive;
    if (first == NULL)
        return NULL;
    if (first->stack_key != 0)
        return take_stack(queue, room, first, now_ns, expired);
    if (shares)
        return take_group(queue, room, now_ns, expired);
    serve(queue, first, first->bytes + first->outside_bytes);
    first->next = NULL;
    return first;
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

static void *alloc_lines(size_t bytes)
{
    void *memory = aligned_alloc(LINE_BYTES, bytes);
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

/* The lock is looked at for some microseconds before a thread sleeps for it: it is never held for
 * longer. */
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

struct queue *queue_create(const struct admission_limits *limits)
{
    uint32_t tenants = limits->tenants > 0 ? limits->tenants : 1;
    struct queue *queue = alloc_lines(sizeof *queue);
    if (queue == NULL)
        return NULL;
    queue->earliest_ns = UINT64_MAX;
    queue->flow_count = tenants * LANES * PRIORITIES;
    queue->flows = alloc_lines(queue->flow_count * sizeof *queue->flows);
    if (queue->flows == NULL)
        goto no_flows;
    queue->stacks = stack_index_create();
    if (queue->stacks == NULL)
        goto no_stacks;
    queue->admission = admission_create(limits);
    if (queue->admission == NULL)
        goto no_admission;
    if (!init_lock(queue))
        goto no_lock;
    return queue;

no_lock:
    admission_destroy(queue->admission);
no_admission:
    stack_index_destroy(queue->stacks);
no_stacks:
    free(queue->flows);
no_flows:
    free(queue);
    return NULL;
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL)
        return;
    assert(queue->occupied[LANE_EXCLUSIVE] == 0 && queue->occupied[LANE_SHARED] == 0);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    admission_destroy(queue->admission);
    stack_index_destroy(queue->stacks);
    free(queue->flows);
    free(queue);
}

static enum gemmd_error refuse(struct queue *queue, struct fault *fault)
{
    pthread_mutex_lock(&queue->lock);
    enum gemmd_error code =
        queue->failed ? fault_set(fault, queue->failure.code, NULL, "%s", queue->failure.detail)
                      : fault_set(fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    pthread_mutex_unlock(&queue->lock);
    return code;
}

enum gemmd_error queue_reserve(struct queue *queue, uint32_t tenant, uint64_t bytes,
                               struct fault *fault)
{
    if (atomic_load(&queue->refusing))
        return refuse(queue, fault);
    return admission_reserve(queue->admission, tenant, bytes, fault);
}

enum gemmd_error queue_reserve_more(struct queue *queue, uint32_t tenant, uint64_t bytes,
                                    uint64_t more, struct fault *fault)
{
    return admission_grow(queue->admission, tenant, bytes, more, fault);
}

void queue_release(struct queue *queue, uint32_t tenant, uint64_t bytes)
{
    admission_release(queue->admission, tenant, bytes);
}

struct admission *queue_admission(struct queue *queue)
{
    return queue->admission;
}

/* Takes no lock unless somebody sleeps: all I/O threads push, and the dispatch thread, which sorts
 * works in, holds it long. */
void queue_push(struct queue *queue, struct work *work)
{
    struct work *head = atomic_load(&queue->arrived);
    do {
        if (head == &closed) { /* the failure never changes again */
            work->waiting = false;
            end(work, queue->failure.code, queue->failure.detail);
            return;
        }
        work->next = head;
    } while (!atomic_compare_exchange_weak(&queue->arrived, &head, work));
    if (atomic_load(&queue->sleepers) == 0)
        return;
    /* Whoever is about to sleep has the lock until it does. */
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
        drop(queue, work);
        work->started_ns = work->done_ns = clock_now_ns();
    }
    pthread_mutex_unlock(&queue->lock);
    return waiting;
}

/* Without the lock. What has arrived may be of a lane that has no room. */
static bool has_some(struct queue *queue, struct queue_room room)
{
    return has_arrived(queue) ||
           (room.exclusive > 0 &&
            atomic_load_explicit(&queue->waiting[LANE_EXCLUSIVE], memory_order_relaxed) > 0) ||
           (room.shared > 0 &&
            atomic_load_explicit(&queue->waiting[LANE_SHARED], memory_order_relaxed) > 0);
}

/* Waits for a change; false once `until` is over. Under the lock. A push sees the sleeper, or the
 * sleeper sees what was pushed. */
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
    while (sort_in(queue), (work = next_alive(queue, room, &expired)) == NULL) {
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
    struct work *work;
    pthread_mutex_lock(&queue->lock);
    sort_in(queue);
    bool due = queue->earliest_ns <= now_ns;
    if (due)
        queue->earliest_ns = UINT64_MAX;
    for (uint32_t i = 0; due && i < queue->flow_count; i++) {
        struct edf_queue *edf = &queue->flows[i].edf;
        while ((work = edf_queue_first(edf)) != NULL && has_expired(work, now_ns)) {
            drop(queue, work);
            list_append(&expired, work);
        }
        uint64_t earliest_ns = edf_queue_earliest_ns(edf);
        if (earliest_ns < queue->earliest_ns)
            queue->earliest_ns = earliest_ns;
    }
    pthread_mutex_unlock(&queue->lock);
    end_expired(&expired);
}

void queue_fail_all(struct queue *queue, enum gemmd_error code, const char *detail)
{
    struct list failed = {NULL, NULL};
    struct work *work;
    pthread_mutex_lock(&queue->lock);
    if (!queue->failed)
        fault_set(&queue->failure, code, NULL, "%s", detail);
    queue->failed = true;
    atomic_store(&queue->refusing, true);
    work = atomic_exchange(&queue->arrived, &closed);
    if (work != &closed)
        put_arrived(queue, work);
    for (uint32_t i = 0; i < queue->flow_count; i++)
        while ((work = edf_queue_first(&queue->flows[i].edf)) != NULL) {
            drop(queue, work);
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
    struct admission_held held = admission_held(queue->admission);
    struct queue_state state = {.reserved = (uint32_t)held.requests, .reserved_bytes = held.bytes};
    pthread_mutex_lock(&queue->lock);
    sort_in(queue);
    state.waiting = atomic_load_explicit(&queue->waiting[LANE_EXCLUSIVE], memory_order_relaxed) +
                    atomic_load_explicit(&queue->waiting[LANE_SHARED], memory_order_relaxed);
    state.waiting_bytes = queue->waiting_bytes;
    pthread_mutex_unlock(&queue->lock);
    return state;
}
