#include "server/jobs/jobs.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/jobs_parts.h"

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* The most jobs that jobs_result_wait_s counts, so that the lock is never held for long. */
enum { RANK_MAX = 1024 };

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

void jobs_set_tenant_limits(struct jobs *jobs, uint32_t tenant_jobs, uint64_t tenant_bytes)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->limits.tenant_jobs = tenant_jobs;
    pthread_mutex_unlock(&jobs->lock);
    for (uint32_t i = 0; i < jobs->limits.tenants; i++)
        atomic_store(&jobs->tenants[i].budget.max_bytes, tenant_bytes);
}

void jobs_destroy(struct jobs *jobs)
{
    if (jobs == NULL)
        return;
    for (int i = 0; i < JOB_LISTS; i++) {
        struct list_item *item;
        while ((item = list_take_first(&jobs->table.lists[i])) != NULL)
            job_free(job_in_list(item));
    }
    pthread_mutex_destroy(&jobs->lock);
    job_table_close(&jobs->table);
    free(jobs->tenants);
    free(jobs);
}

/* Finds a job by its id for a tenant. NULL: `*code` is the error. Under the lock. */
static struct job *find_job(struct jobs *jobs, const char *id, const char *tenant,
                            enum gemmd_error *code, struct fault *fault)
{
    struct job *job = job_table_find(&jobs->table, id);
    if (job == NULL)
        *code = fault_set(fault, GEMMD_ERR_NOT_FOUND, NULL, "there is no job '%.64s'", id);
    else if (strcmp(job->tenant, tenant) != 0)
        *code = fault_set(fault, GEMMD_ERR_FORBIDDEN, NULL, "the job belongs to another tenant");
    else if (job->gave_way)
        *code = fault_set(fault, GEMMD_ERR_GONE, NULL,
                          "the job's result has expired early: another tenant's job needed its "
                          "place, and this tenant had more than its share (--tenant-share)");
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
            *answer = job_is_kept(job) ? job->answer : NULL;
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
    struct list_item *item = jobs->tenants[number].jobs.last;
    for (; item != NULL; item = item->previous) {
        const struct job *job = OWNER_OF(item, struct job, of_tenant);
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

enum gemmd_error jobs_delete(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                             struct job_view *view, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    struct job *removed = NULL;
    pthread_mutex_lock(&jobs->lock);
    struct job *job = find_job(jobs, id, tenant, &code, fault);
    if (job != NULL) {
        if (job_is_unfinished(job)) {
            job_set_state(job, JOB_CANCELLED);
            jobs->counts.cancelled++;
            job_wake_all(job);
            job->owner->cancel(job->owner);
        }
        job_describe(job, now_ns, view);
        if (job_is_kept(job)) {
            job_uncount(job);
            job_table_remove(&jobs->table, job);
            list_remove(&job->in_list);
            jobs_set_due(jobs);
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
    bool waits = job != NULL && job_is_unfinished(job);
    waiter->of_job = (struct list_item){.list = NULL};
    if (waits) {
        list_append(&job->waiters, &waiter->of_job);
        if (waiter->until_ns < jobs->earliest_wait_ns) {
            jobs->earliest_wait_ns = waiter->until_ns;
            jobs_set_due(jobs);
        }
    }
    pthread_mutex_unlock(&jobs->lock);
    return waits;
}

bool jobs_unwait(struct jobs *jobs, struct job_waiter *waiter)
{
    pthread_mutex_lock(&jobs->lock);
    const bool waits = waiter->of_job.list != NULL;
    list_remove(&waiter->of_job);
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
    if (job != NULL && job_is_unfinished(job))
        for (struct list_item *item = &job->in_list; item != NULL && before < RANK_MAX; before++)
            item = item->previous;
    uint32_t seconds = drain_rate_seconds(&jobs->finishing, before);
    pthread_mutex_unlock(&jobs->lock);
    return seconds;
}

uint32_t jobs_open_wait_s(struct jobs *jobs, uint64_t now_ns)
{
    pthread_mutex_lock(&jobs->lock);
    uint32_t seconds = drain_rate_seconds(&jobs->freeing, 1);
    struct list_item *oldest = jobs->table.lists[JOB_LIST_KEPT].first;
    if (oldest != NULL) { /* a job may be opened when this one expires, at the latest */
        const uint64_t due_ns = job_in_list(oldest)->due_ns;
        uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
        uint64_t left_s = (left_ns + NS_PER_S - 1) / NS_PER_S;
        if (left_s < seconds)
            seconds = left_s > DRAIN_SECONDS_MIN ? (uint32_t)left_s : DRAIN_SECONDS_MIN;
    }
    pthread_mutex_unlock(&jobs->lock);
    return seconds;
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

/* ---- for the job thread: expiring answers, forgetting ids and waking waiters ---- */

/* Expires the next job whose time has come, and returns its answer; NULL: there is none. Under the
 * lock. */
static struct job_answer *expire_next(struct jobs *jobs, uint64_t now_ns)
{
    struct job *job = job_list_pop(&jobs->table, JOB_LIST_KEPT, now_ns);
    return job != NULL ? job_expire(job, now_ns) : NULL;
}

void jobs_expire(struct jobs *jobs, uint64_t now_ns)
{
    struct job_answer *answer;
    pthread_mutex_lock(&jobs->lock);
    while ((answer = expire_next(jobs, now_ns)) != NULL) {
        pthread_mutex_unlock(&jobs->lock);
        job_answer_release(answer);
        pthread_mutex_lock(&jobs->lock);
    }
    while (jobs_forget_oldest(jobs, now_ns))
        ;
    if (jobs->earliest_wait_ns <= now_ns) {
        jobs->earliest_wait_ns = UINT64_MAX;
        for (struct list_item *item = jobs->table.lists[JOB_LIST_UNFINISHED].first; item != NULL;
             item = item->next)
            job_wake_due(job_in_list(item), now_ns);
    }
    jobs_set_due(jobs);
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
    for (struct list_item *item = jobs->table.lists[JOB_LIST_UNFINISHED].first; item != NULL;
         item = item->next)
        job_wake_all(job_in_list(item));
    pthread_mutex_unlock(&jobs->lock);
}
