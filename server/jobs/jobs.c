#include "server/jobs/jobs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/drain_rate.h"
#include "server/jobs/job_table.h"

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* Most jobs that are counted ahead of one, so that the lock is never held for long. */
enum { RANK_MAX = 1024 };

/* What one tenant holds of the limits. */
struct job_tenant {
    uint32_t open;            /* under the lock of the jobs */
    uint64_t accepted;        /* number of jobs so far, under the lock */
    struct job *newest;       /* of the jobs that jobs_list lists, under the lock */
    struct job_budget budget; /* part of the budget of all */
};

struct jobs {
    pthread_mutex_t lock;
    struct jobs_limits limits;
    struct job_budget budget;
    struct job_tenant *tenants; /* [limits.tenants] */
    struct job_table table;
    uint32_t open, unfinished, remembered; /* open: jobs that count against the limit */
    uint64_t earliest_wait_ns; /* no waiter stops waiting before this; UINT64_MAX: none waits */
    bool closed;
    struct jobs_counts counts;
    uint64_t finished, freed;             /* numbers of jobs so far; freed: no longer open */
    struct drain_rate finishing, freeing; /* the rates of both */
    _Atomic uint64_t due_ns;
};

const char *job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATES] = {"receiving", "queued",    "running", "done",
                                                  "failed",    "cancelled", "expired"};
    return names[state];
}

struct jobs *jobs_create(const struct jobs_limits *limits)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs == NULL)
        return NULL;
    jobs->limits = *limits;
    jobs->budget.max_bytes = limits->max_bytes;
    if (limits->tenants == 0)
        jobs->limits.tenants = 1;
    jobs->tenants = calloc(jobs->limits.tenants, sizeof *jobs->tenants);
    if (jobs->tenants == NULL) {
        free(jobs);
        return NULL;
    }
    for (uint32_t i = 0; i < jobs->limits.tenants; i++) {
        jobs->tenants[i].budget.max_bytes = limits->tenant_bytes;
        jobs->tenants[i].budget.whole = &jobs->budget;
    }
    jobs->earliest_wait_ns = UINT64_MAX;
    atomic_init(&jobs->due_ns, UINT64_MAX);
    if (!job_table_open(&jobs->table, limits->max_jobs) ||
        pthread_mutex_init(&jobs->lock, NULL) != 0) {
        job_table_close(&jobs->table);
        free(jobs->tenants);
        free(jobs);
        return NULL;
    }
    return jobs;
}

/* --- States of jobs, and waiters. Under the lock. */

/* Sets the time at which jobs_expire next has something to do. */
static void set_due(struct jobs *jobs)
{
    uint64_t due_ns = jobs->earliest_wait_ns;
    for (int i = JOB_LIST_KEPT; i < JOB_LISTS; i++) {
        const struct job *first = jobs->table.lists[i].first;
        if (first != NULL && first->due_ns < due_ns)
            due_ns = first->due_ns;
    }
    atomic_store(&jobs->due_ns, due_ns);
}

static void set_state(struct job *job, enum job_state state)
{
    job->jobs->counts.states[job->state]--;
    job->jobs->counts.states[state]++;
    job->state = state;
}

/* Adds a job to those that jobs_list lists. */
static void enlist(struct job *job)
{
    struct job_tenant *own = &job->jobs->tenants[job->tenant_number];
    job->number = ++own->accepted;
    job->older = own->newest;
    if (job->older != NULL)
        job->older->newer = job;
    own->newest = job;
}

/* Does nothing to a job that is not listed. */
static void unlist(struct job *job)
{
    struct job_tenant *own = &job->jobs->tenants[job->tenant_number];
    if (job->newer != NULL)
        job->newer->older = job->older;
    else if (own->newest == job)
        own->newest = job->older;
    if (job->older != NULL)
        job->older->newer = job->newer;
    job->newer = job->older = NULL;
}

/* The job does not count against the limit any more, and is not listed. */
static void uncount(struct job *job)
{
    unlist(job);
    job->jobs->counts.states[job->state]--;
    job->jobs->open--;
    job->jobs->tenants[job->tenant_number].open--;
    job->jobs->freed++;
}

static void job_free(struct job *job)
{
    job_answer_release(job->answer);
    free(job);
}

/* Forgets the oldest remembered id, if its time has come. Returns whether it was forgotten. */
static bool forget_oldest(struct jobs *jobs, uint64_t now_ns)
{
    struct job *job = job_list_pop(&jobs->table, JOB_LIST_REMEMBERED, now_ns);
    if (job == NULL)
        return false;
    job_table_remove(&jobs->table, job);
    jobs->remembered--;
    free(job);
    return true;
}

/* Remembers the id of a job that is in no list and has no answer. The oldest id is forgotten if
 * there would be too many. */
static void remember_id(struct jobs *jobs, struct job *job, uint64_t now_ns)
{
    if (jobs->remembered == jobs->limits.max_jobs)
        forget_oldest(jobs, UINT64_MAX);
    job->due_ns = now_ns + jobs->limits.ttl_ns;
    job_list_append(&jobs->table, JOB_LIST_REMEMBERED, job);
    jobs->remembered++;
}

static void wake_all(struct job *job)
{
    struct job_waiter *next;
    for (struct job_waiter *waiter = job->waiters; waiter != NULL; waiter = next) {
        next = waiter->next;
        waiter->link = NULL;
        waiter->wake(waiter);
    }
    job->waiters = NULL;
}

static void add_waiter(struct job *job, struct job_waiter *waiter)
{
    waiter->next = job->waiters;
    waiter->link = &job->waiters;
    if (waiter->next != NULL)
        waiter->next->link = &waiter->next;
    job->waiters = waiter;
}

static void remove_waiter(struct job_waiter *waiter)
{
    *waiter->link = waiter->next;
    if (waiter->next != NULL)
        waiter->next->link = waiter->link;
    waiter->link = NULL;
}

/* --- Making jobs. */

/* Counts a new job, unless a limit is reached. Under the lock. */
static enum gemmd_error count_job(struct jobs *jobs, uint32_t tenant, struct fault *fault)
{
    const struct jobs_limits *limits = &jobs->limits;
    struct job_tenant *own = &jobs->tenants[tenant];
    if (limits->tenant_jobs > 0 && own->open >= limits->tenant_jobs) {
        jobs->counts.refused_tenants++;
        return fault_set(
            fault, GEMMD_ERR_QUEUE_FULL, NULL,
            "this tenant has %" PRIu32 " jobs, which is its share of the limit "
            "(--tenant-share of --max-jobs); delete jobs whose results you have fetched",
            own->open);
    }
    if (jobs->open >= limits->max_jobs)
        return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "there are %" PRIu32
                         " jobs, which is the limit (--max-jobs); delete jobs whose results you "
                         "have fetched",
                         limits->max_jobs);
    own->open++;
    jobs->open++;
    jobs->counts.states[JOB_RECEIVING]++;
    return GEMMD_OK;
}

enum gemmd_error job_open(struct jobs *jobs, const char *tenant, uint32_t number, const char *op,
                          const char *request_id, struct job **out, struct fault *fault)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL || (job->answer = job_answer_create(&jobs->tenants[number].budget)) == NULL) {
        free(job);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a job");
    }
    job->jobs = jobs;
    job->tenant_number = number;
    job->op = op;
    job->state = JOB_RECEIVING;
    snprintf(job->tenant, sizeof job->tenant, "%s", tenant);
    snprintf(job->request_id, sizeof job->request_id, "%s", request_id);

    enum gemmd_error code = GEMMD_OK;
    if (!job_id_random(&job->id))
        code = fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the system has no random numbers");
    if (code == GEMMD_OK) {
        pthread_mutex_lock(&jobs->lock);
        code = count_job(jobs, number, fault);
        pthread_mutex_unlock(&jobs->lock);
    }
    if (code == GEMMD_OK)
        *out = job;
    else
        job_free(job);
    return code;
}

struct job_answer *job_answer(struct job *job)
{
    return job->answer;
}

void job_discard(struct job *job)
{
    if (job == NULL)
        return;
    pthread_mutex_lock(&job->jobs->lock);
    uncount(job);
    pthread_mutex_unlock(&job->jobs->lock);
    job_free(job);
}

static int64_t epoch_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

static bool is_kept(const struct job *job)
{
    return job->state == JOB_DONE || job->state == JOB_FAILED;
}

/* Under the lock. */
static void job_describe(const struct job *job, uint64_t now_ns, struct job_view *view)
{
    bool ended = job->finished_ns != 0;
    uint64_t end_ns = ended ? job->finished_ns : now_ns;
    uint64_t queue_end_ns = job->started_ns != 0 ? job->started_ns : end_ns;
    *view = (struct job_view){
        .state = job->state,
        .op = job->op,
        .created_ms = job->created_ms,
        .has_started = job->started_ns != 0,
        .queued_ns = queue_end_ns > job->accepted_ns ? queue_end_ns - job->accepted_ns : 0,
    };
    job_id_write(&job->id, view->id);
    memcpy(view->request_id, job->request_id, sizeof view->request_id);
    if (view->has_started && end_ns > job->started_ns)
        view->running_ns = end_ns - job->started_ns;
    if (is_kept(job)) {
        view->expires_ms =
            job->created_ms + (int64_t)((job->due_ns - job->accepted_ns) / NS_PER_MS);
        view->status = job->answer->status;
        view->bytes = job->answer->bytes;
    }
}

void job_accept(struct job *job, struct job_task *task, uint64_t now_ns, struct job_view *view)
{
    struct jobs *jobs = job->jobs;
    job->task = task;
    job->accepted_ns = now_ns;
    job->created_ms = epoch_ms();
    pthread_mutex_lock(&jobs->lock);
    job_table_add(&jobs->table, job);
    job_list_append(&jobs->table, JOB_LIST_UNFINISHED, job);
    set_state(job, JOB_QUEUED);
    enlist(job);
    jobs->unfinished++;
    jobs->counts.created++;
    if (view != NULL)
        job_describe(job, now_ns, view);
    pthread_mutex_unlock(&jobs->lock);
}

void job_start(struct job *job, uint64_t now_ns)
{
    pthread_mutex_lock(&job->jobs->lock);
    job->started_ns = now_ns;
    if (job->state == JOB_QUEUED)
        set_state(job, JOB_RUNNING);
    pthread_mutex_unlock(&job->jobs->lock);
}

void job_finish(struct job *job, uint64_t now_ns)
{
    struct jobs *jobs = job->jobs;
    struct job_answer *unwanted = NULL;
    pthread_mutex_lock(&jobs->lock);
    job->task = NULL;
    job->finished_ns = now_ns;
    job_list_remove(&jobs->table, JOB_LIST_UNFINISHED, job);
    jobs->unfinished--;
    jobs->finished++;
    if (job->state == JOB_CANCELLED) {
        unwanted = job->answer;
        job->answer = NULL;
        uncount(job);
        remember_id(jobs, job, now_ns);
    } else {
        set_state(job, job->answer->fault.code == GEMMD_OK ? JOB_DONE : JOB_FAILED);
        job->due_ns = now_ns + jobs->limits.ttl_ns;
        job_list_append(&jobs->table, JOB_LIST_KEPT, job);
        wake_all(job);
    }
    set_due(jobs);
    pthread_mutex_unlock(&jobs->lock);
    job_answer_release(unwanted);
}

bool job_is_cancelled(struct job *job)
{
    pthread_mutex_lock(&job->jobs->lock);
    bool cancelled = job->state == JOB_CANCELLED;
    pthread_mutex_unlock(&job->jobs->lock);
    return cancelled;
}

/* --- Asking. */

/* Finds a job by its id for a tenant. NULL: `*code` is the error. Under the lock. */
static struct job *find_job(struct jobs *jobs, const char *id, const char *tenant,
                            enum gemmd_error *code, struct fault *fault)
{
    struct job *job = job_table_find(&jobs->table, id);
    if (job == NULL)
        *code = fault_set(fault, GEMMD_ERR_NOT_FOUND, NULL, "there is no job with that id");
    else if (strcmp(job->tenant, tenant) != 0)
        *code = fault_set(fault, GEMMD_ERR_FORBIDDEN, NULL, "the job belongs to another tenant");
    else if (job->state == JOB_EXPIRED)
        *code = fault_set(fault, GEMMD_ERR_GONE, NULL,
                          "the job's result has expired; it was kept for %" PRIu64 " ms",
                          jobs->limits.ttl_ns / NS_PER_MS);
    else
        return job;
    return NULL;
}

enum gemmd_error jobs_find(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                           struct job_view *view, struct job_answer **answer, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    pthread_mutex_lock(&jobs->lock);
    struct job *job = find_job(jobs, id, tenant, &code, fault);
    if (job != NULL) {
        job_describe(job, now_ns, view);
        if (answer != NULL) {
            *answer = is_kept(job) ? job->answer : NULL;
            if (*answer != NULL)
                job_answer_hold(*answer);
        }
    }
    pthread_mutex_unlock(&jobs->lock);
    return code;
}

uint32_t jobs_list(struct jobs *jobs, const char *tenant, uint32_t number, uint64_t before,
                   uint64_t now_ns, struct job_view views[], uint32_t limit, uint64_t *next)
{
    uint32_t count = 0;
    *next = 0;
    pthread_mutex_lock(&jobs->lock);
    const struct job *job = jobs->tenants[number].newest;
    for (; job != NULL; job = job->older) {
        if (job->number >= before || strcmp(job->tenant, tenant) != 0)
            continue;
        if (count == limit) {
            *next = before;
            break;
        }
        job_describe(job, now_ns, &views[count++]);
        before = job->number;
    }
    pthread_mutex_unlock(&jobs->lock);
    return count;
}

static bool is_unfinished(const struct job *job)
{
    return job->state == JOB_QUEUED || job->state == JOB_RUNNING;
}

enum gemmd_error jobs_delete(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                             struct job_view *view, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    struct job *removed = NULL;
    pthread_mutex_lock(&jobs->lock);
    struct job *job = find_job(jobs, id, tenant, &code, fault);
    if (job != NULL) {
        if (is_unfinished(job)) {
            set_state(job, JOB_CANCELLED);
            jobs->counts.cancelled++;
            wake_all(job);
            job->task->cancel(job->task);
        }
        job_describe(job, now_ns, view);
        if (is_kept(job)) {
            uncount(job);
            job_table_remove(&jobs->table, job);
            job_list_remove(&jobs->table, JOB_LIST_KEPT, job);
            set_due(jobs);
            removed = job;
        }
    }
    pthread_mutex_unlock(&jobs->lock);
    if (removed != NULL)
        job_free(removed);
    return code;
}

bool jobs_wait(struct jobs *jobs, const char *id, const char *tenant, struct job_waiter *waiter)
{
    enum gemmd_error code;
    pthread_mutex_lock(&jobs->lock);
    struct job *job = jobs->closed ? NULL : find_job(jobs, id, tenant, &code, NULL);
    bool waits = job != NULL && is_unfinished(job);
    waiter->link = NULL;
    if (waits) {
        add_waiter(job, waiter);
        if (waiter->until_ns < jobs->earliest_wait_ns) {
            jobs->earliest_wait_ns = waiter->until_ns;
            set_due(jobs);
        }
    }
    pthread_mutex_unlock(&jobs->lock);
    return waits;
}

bool jobs_unwait(struct jobs *jobs, struct job_waiter *waiter)
{
    pthread_mutex_lock(&jobs->lock);
    bool waits = waiter->link != NULL;
    if (waits)
        remove_waiter(waiter);
    pthread_mutex_unlock(&jobs->lock);
    return waits;
}

void jobs_sample(struct jobs *jobs, uint64_t now_ns)
{
    pthread_mutex_lock(&jobs->lock);
    drain_rate_sample(&jobs->finishing, now_ns, jobs->finished, 0, jobs->unfinished > 0);
    drain_rate_sample(&jobs->freeing, now_ns, jobs->freed, 0, jobs->open > 0);
    pthread_mutex_unlock(&jobs->lock);
}

uint32_t jobs_result_wait_s(struct jobs *jobs, const char *id)
{
    uint64_t before = 0;
    pthread_mutex_lock(&jobs->lock);
    /* Jobs are assumed to finish in the order in which they were accepted. */
    struct job *job = job_table_find(&jobs->table, id);
    if (job != NULL && is_unfinished(job))
        for (before = 1; job->previous != NULL && before < RANK_MAX; before++)
            job = job->previous;
    uint32_t seconds = drain_rate_seconds(&jobs->finishing, before);
    pthread_mutex_unlock(&jobs->lock);
    return seconds;
}

uint32_t jobs_open_wait_s(struct jobs *jobs, uint64_t now_ns)
{
    pthread_mutex_lock(&jobs->lock);
    uint32_t seconds = drain_rate_seconds(&jobs->freeing, 1);
    const struct job *oldest = jobs->table.lists[JOB_LIST_KEPT].first;
    if (oldest != NULL) { /* a job may be opened when this one expires, at the latest */
        uint64_t left_ns = oldest->due_ns > now_ns ? oldest->due_ns - now_ns : 0;
        uint64_t left_s = (left_ns + NS_PER_S - 1) / NS_PER_S;
        if (left_s < seconds)
            seconds = left_s > DRAIN_SECONDS_MIN ? (uint32_t)left_s : DRAIN_SECONDS_MIN;
    }
    pthread_mutex_unlock(&jobs->lock);
    return seconds;
}

/* --- Expiring. */

/* Wakes the waiters of a job whose time has come. Under the lock. */
static void wake_due(struct job *job, uint64_t now_ns)
{
    struct job_waiter **link = &job->waiters;
    while (*link != NULL) {
        struct job_waiter *waiter = *link;
        if (waiter->until_ns <= now_ns) {
            remove_waiter(waiter);
            waiter->wake(waiter);
            continue;
        }
        if (waiter->until_ns < job->jobs->earliest_wait_ns)
            job->jobs->earliest_wait_ns = waiter->until_ns;
        link = &waiter->next;
    }
}

/* Expires the next job whose time has come, and returns its answer; NULL: there is none. Under the
 * lock. */
static struct job_answer *expire_next(struct jobs *jobs, uint64_t now_ns)
{
    struct job *job = job_list_pop(&jobs->table, JOB_LIST_KEPT, now_ns);
    if (job == NULL)
        return NULL;
    struct job_answer *answer = job->answer;
    job->answer = NULL;
    uncount(job);
    job->state = JOB_EXPIRED;
    jobs->counts.expired++;
    remember_id(jobs, job, now_ns);
    return answer;
}

void jobs_expire(struct jobs *jobs, uint64_t now_ns)
{
    struct job_answer *answer;
    pthread_mutex_lock(&jobs->lock);
    while ((answer = expire_next(jobs, now_ns)) != NULL) {
        pthread_mutex_unlock(&jobs->lock); /* freeing much memory takes long */
        job_answer_release(answer);
        pthread_mutex_lock(&jobs->lock);
    }
    while (forget_oldest(jobs, now_ns))
        ;
    if (jobs->earliest_wait_ns <= now_ns) {
        jobs->earliest_wait_ns = UINT64_MAX;
        for (struct job *job = jobs->table.lists[JOB_LIST_UNFINISHED].first; job != NULL;
             job = job->next)
            wake_due(job, now_ns);
    }
    set_due(jobs);
    pthread_mutex_unlock(&jobs->lock);
}

uint64_t jobs_due_ns(const struct jobs *jobs)
{
    return atomic_load(&jobs->due_ns);
}

void jobs_close(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->closed = true;
    for (struct job *job = jobs->table.lists[JOB_LIST_UNFINISHED].first; job != NULL;
         job = job->next)
        wake_all(job);
    pthread_mutex_unlock(&jobs->lock);
}

struct jobs_counts jobs_counts(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    struct jobs_counts counts = jobs->counts;
    pthread_mutex_unlock(&jobs->lock);
    counts.bytes = atomic_load(&jobs->budget.bytes);
    for (uint32_t i = 0; i < jobs->limits.tenants; i++)
        counts.refused_tenants += atomic_load(&jobs->tenants[i].budget.refused);
    return counts;
}

struct jobs_held jobs_held_by(struct jobs *jobs, uint32_t tenant)
{
    struct job_tenant *own = &jobs->tenants[tenant];
    pthread_mutex_lock(&jobs->lock);
    const uint64_t open = own->open;
    pthread_mutex_unlock(&jobs->lock);
    return (struct jobs_held){open, atomic_load(&own->budget.bytes)};
}

uint32_t jobs_unfinished(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    uint32_t unfinished = jobs->unfinished;
    pthread_mutex_unlock(&jobs->lock);
    return unfinished;
}

void jobs_destroy(struct jobs *jobs)
{
    if (jobs == NULL)
        return;
    for (int i = 0; i < JOB_LISTS; i++) {
        struct job *next;
        for (struct job *job = jobs->table.lists[i].first; job != NULL; job = next) {
            next = job->next;
            job_free(job);
        }
    }
    pthread_mutex_destroy(&jobs->lock);
    job_table_close(&jobs->table);
    free(jobs->tenants);
    free(jobs);
}
