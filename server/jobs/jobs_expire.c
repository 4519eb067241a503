/* The job thread's part: expiring answers, forgetting ids and waking waiters. */
#include <stdatomic.h>

#include "server/jobs/job_waiters.h"
#include "server/jobs/jobs_parts.h"

/* Expires the next job whose time has come, and returns its answer; NULL: there is none. Under the
 * lock. */
static struct job_answer *expire_next(struct jobs *jobs, uint64_t now_ns)
{
    struct job *job = job_list_pop(&jobs->table, JOB_LIST_KEPT, now_ns);
    if (job == NULL)
        return NULL;
    struct job_answer *answer = job->answer;
    job->answer = NULL;
    job_uncount(job);
    job->state = JOB_EXPIRED;
    jobs->counts.expired++;
    jobs_remember_id(jobs, job, now_ns);
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
    while (jobs_forget_oldest(jobs, now_ns))
        ;
    if (jobs->earliest_wait_ns <= now_ns) {
        jobs->earliest_wait_ns = UINT64_MAX;
        for (struct job *job = jobs->table.lists[JOB_LIST_UNFINISHED].first; job != NULL;
             job = job->next)
            job_waiters_wake_due(job, now_ns);
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
    for (struct job *job = jobs->table.lists[JOB_LIST_UNFINISHED].first; job != NULL;
         job = job->next)
        job_waiters_wake_all(job);
    pthread_mutex_unlock(&jobs->lock);
}
