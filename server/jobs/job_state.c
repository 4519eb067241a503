/* The states of a job, and what changes with them: counts, lists, and what is due next. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/jobs_parts.h"

enum { NS_PER_MS = 1000000 };

const char *job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATES] = {"receiving", "queued",    "running", "done",
                                                  "failed",    "cancelled", "expired"};
    return names[state];
}

bool job_is_unfinished(const struct job *job)
{
    return job->state == JOB_QUEUED || job->state == JOB_RUNNING;
}

bool job_is_kept(const struct job *job)
{
    return job->state == JOB_DONE || job->state == JOB_FAILED;
}

void job_describe(const struct job *job, uint64_t now_ns, struct job_view *view)
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
    if (job_is_kept(job)) {
        view->expires_ms =
            job->created_ms + (int64_t)((job->due_ns - job->accepted_ns) / NS_PER_MS);
        view->status = job->answer->status;
        view->bytes = job->answer->bytes;
    }
}

void jobs_set_due(struct jobs *jobs)
{
    uint64_t due_ns = jobs->earliest_wait_ns;
    for (int i = JOB_LIST_KEPT; i < JOB_LISTS; i++) {
        const struct job *first = jobs->table.lists[i].first;
        if (first != NULL && first->due_ns < due_ns)
            due_ns = first->due_ns;
    }
    atomic_store(&jobs->due_ns, due_ns);
}

void job_set_state(struct job *job, enum job_state state)
{
    job->jobs->counts.states[job->state]--;
    job->jobs->counts.states[state]++;
    job->state = state;
}

void job_enlist(struct job *job)
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

void job_uncount(struct job *job)
{
    unlist(job);
    job->jobs->counts.states[job->state]--;
    job->jobs->open--;
    job->jobs->tenants[job->tenant_number].open--;
    job->jobs->freed++;
}

void job_free(struct job *job)
{
    job_answer_release(job->answer);
    free(job);
}

bool jobs_forget_oldest(struct jobs *jobs, uint64_t now_ns)
{
    struct job *job = job_list_pop(&jobs->table, JOB_LIST_REMEMBERED, now_ns);
    if (job == NULL)
        return false;
    job_table_remove(&jobs->table, job);
    jobs->remembered--;
    free(job);
    return true;
}

void jobs_remember_id(struct jobs *jobs, struct job *job, uint64_t now_ns)
{
    if (jobs->remembered == jobs->limits.max_jobs)
        jobs_forget_oldest(jobs, UINT64_MAX);
    job->due_ns = now_ns + jobs->limits.ttl_ns;
    job_list_append(&jobs->table, JOB_LIST_REMEMBERED, job);
    jobs->remembered++;
}
