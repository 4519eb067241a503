#include "server/jobs/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/jobs/jobs_parts.h"

enum { NS_PER_MS = 1000000 };

/* Counts a new job, unless a limit is reached. `*expired`: the answer of a job that gave way, which
 * the caller releases without the lock, or NULL. Under the lock. */
static enum gemmd_error count_job(struct jobs *jobs, uint32_t tenant, uint64_t now_ns,
                                  struct job_answer **expired, struct fault *fault)
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
    if (jobs->open >= limits->max_jobs && !jobs_make_room(jobs, JOB_ROOM_COUNT, now_ns, expired))
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
                          const char *request_id, uint64_t now_ns, struct job **out,
                          struct fault *fault)
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
        struct job_answer *expired = NULL;
        pthread_mutex_lock(&jobs->lock);
        code = count_job(jobs, number, now_ns, &expired, fault);
        pthread_mutex_unlock(&jobs->lock);
        job_answer_release(expired);
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

enum gemmd_error job_reserve(struct job *job, uint64_t bytes, uint64_t now_ns, struct fault *fault)
{
    struct jobs *jobs = job->jobs;
    for (;;) {
        bool whole_is_full = false;
        enum gemmd_error code = job_answer_reserve(job->answer, bytes, &whole_is_full, fault);
        if (!whole_is_full)
            return code;
        struct job_answer *expired = NULL;
        pthread_mutex_lock(&jobs->lock);
        const bool has_room = jobs_make_room(jobs, JOB_ROOM_BYTES, now_ns, &expired);
        pthread_mutex_unlock(&jobs->lock);
        job_answer_release(expired);
        if (!has_room)
            return code;
    }
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
