#include "server/jobs/job.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proto/size_text.h"
#include "server/jobs/jobs_parts.h"

enum { NS_PER_MS = 1000000 };

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
    if (job != NULL)
        job->answer = job_answer_create(&jobs->tenants[number].budget);
    if (job == NULL || job->answer == NULL) {
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
    job_uncount(job);
    pthread_mutex_unlock(&job->jobs->lock);
    job_free(job);
}

static int64_t epoch_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

void job_accept(struct job *job, struct job_owner *owner, uint64_t now_ns, struct job_view *view)
{
    struct jobs *jobs = job->jobs;
    job->owner = owner;
    job->accepted_ns = now_ns;
    job->created_ms = epoch_ms();
    pthread_mutex_lock(&jobs->lock);
    job_table_add(&jobs->table, job);
    list_append(&jobs->table.lists[JOB_LIST_UNFINISHED], &job->in_list);
    job_set_state(job, JOB_QUEUED);
    job_enlist(job);
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
        job_set_state(job, JOB_RUNNING);
    pthread_mutex_unlock(&job->jobs->lock);
}

void job_finish(struct job *job, uint64_t now_ns)
{
    struct jobs *jobs = job->jobs;
    struct job_answer *unwanted = NULL;
    pthread_mutex_lock(&jobs->lock);
    job->owner = NULL;
    job->finished_ns = now_ns;
    list_remove(&job->in_list);
    jobs->unfinished--;
    jobs->finished++;
    if (job->state == JOB_CANCELLED) {
        unwanted = job->answer;
        job->answer = NULL;
        job_uncount(job);
        jobs_remember_id(jobs, job, now_ns);
    } else {
        job_set_state(job, job->answer->fault.code == GEMMD_OK ? JOB_DONE : JOB_FAILED);
        job->due_ns = now_ns + jobs->limits.ttl_ns;
        list_append(&jobs->table.lists[JOB_LIST_KEPT], &job->in_list);
        job_wake_all(job);
    }
    jobs_set_due(jobs);
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

/* ---- the answer ---- */

struct job_answer *job_answer_create(struct job_budget *budget)
{
    struct job_answer *answer = calloc(1, sizeof *answer);
    if (answer == NULL)
        return NULL;
    answer->budget = budget;
    atomic_init(&answer->references, 1);
    return answer;
}

static bool budget_take(struct job_budget *budget, uint64_t bytes, uint64_t most, uint64_t *taken)
{
    *taken = atomic_load(&budget->bytes);
    do {
        if (*taken > most || bytes > most - *taken) {
            atomic_fetch_add(&budget->refused, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&budget->bytes, taken, *taken + bytes));
    return true;
}

static void budget_give(struct job_budget *budget, uint64_t bytes)
{
    atomic_fetch_sub(&budget->whole->bytes, bytes);
    atomic_fetch_sub(&budget->bytes, bytes);
}

/* The most bytes that a tenant's answers may have, with a new one of `bytes`, if the tenant's
 * budget has `limit`. An answer that is larger than the budget fits while the tenant has no other.
 */
static uint64_t tenant_most(uint64_t limit, uint64_t bytes)
{
    if (limit == 0)
        return UINT64_MAX;
    return bytes > limit ? bytes : limit;
}

enum gemmd_error job_answer_reserve(struct job_answer *answer, uint64_t bytes, struct fault *fault)
{
    struct job_budget *own = answer->budget, *budget = own->whole;
    const uint64_t limit = atomic_load(&budget->max_bytes),
                   own_limit = atomic_load(&own->max_bytes);
    uint64_t taken;
    if (bytes > limit)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the result would be %s; those of all jobs together can have %s "
                         "(--job-bytes)",
                         size_text(bytes).text, size_text(limit).text);
    if (!budget_take(own, bytes, tenant_most(own_limit, bytes), &taken))
        return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "the results of this tenant's jobs take %s of %s (--tenant-share of "
                         "--job-bytes), this one needs %s; delete jobs whose results you have "
                         "fetched",
                         size_text(taken).text, size_text(own_limit).text, size_text(bytes).text);
    if (!budget_take(budget, bytes, limit, &taken)) {
        atomic_fetch_sub(&own->bytes, bytes);
        return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "the results of jobs take %s of %s (--job-bytes), this one needs %s; "
                         "delete jobs whose results you have fetched",
                         size_text(taken).text, size_text(limit).text, size_text(bytes).text);
    }
    answer->payload = malloc(bytes > 0 ? bytes : 1);
    if (answer->payload == NULL) {
        budget_give(own, bytes);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a result of %s",
                         size_text(bytes).text);
    }
    answer->bytes = bytes;
    return GEMMD_OK;
}

static void free_payload(struct job_answer *answer)
{
    free(answer->payload);
    budget_give(answer->budget, answer->bytes);
    answer->payload = NULL;
    answer->bytes = 0;
}

void job_answer_fail(struct job_answer *answer, const struct fault *fault)
{
    free_payload(answer);
    answer->fault = *fault;
    answer->status = error_status(fault->code);
}

void job_answer_hold(struct job_answer *answer)
{
    atomic_fetch_add(&answer->references, 1);
}

void job_answer_release(struct job_answer *answer)
{
    if (answer == NULL || atomic_fetch_sub(&answer->references, 1) > 1)
        return;
    free_payload(answer);
    free(answer);
}
