#include "server/jobs/job_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "server/base/heartbeat.h"

struct job_thread {
    struct jobs *jobs;         /* borrowed */
    struct pool_cache *memory; /* for what runs on the job thread */
    struct inbox inbox;
    struct inbox_message check, stop;
    atomic_bool checking; /* `check` has been posted and not handled */
    struct heartbeat heartbeat;
    bool stopping;
    pthread_t thread;
};

static void job_thread_expire(struct inbox_message *message)
{
    struct job_thread *job_thread = INBOX_OWNER(message, struct job_thread, check);
    atomic_store(&job_thread->checking, false);
    jobs_expire(job_thread->jobs, clock_now_ns());
}

static void job_thread_end(struct inbox_message *message)
{
    INBOX_OWNER(message, struct job_thread, stop)->stopping = true;
}

static void *job_thread_run(void *argument)
{
    struct job_thread *job_thread = argument;
    pthread_setname_np(pthread_self(), "jobs");
    while (!job_thread->stopping) {
        inbox_wait(&job_thread->inbox, NULL, 0, -1);
        inbox_act(&job_thread->inbox);
        heartbeat_beat(&job_thread->heartbeat);
    }
    return NULL;
}

struct job_thread *job_thread_start(struct jobs *jobs, struct pool *pool)
{
    struct job_thread *job_thread = calloc(1, sizeof *job_thread);
    if (job_thread == NULL)
        return NULL;
    job_thread->jobs = jobs;
    job_thread->check.act = job_thread_expire;
    job_thread->stop.act = job_thread_end;
    if (!inbox_open(&job_thread->inbox))
        goto no_inbox;
    job_thread->memory = pool_cache_create(pool);
    if (job_thread->memory == NULL)
        goto no_memory;
    if (pthread_create(&job_thread->thread, NULL, job_thread_run, job_thread) != 0)
        goto no_thread;
    return job_thread;

no_thread:
    pool_cache_destroy(job_thread->memory);
no_memory:
    inbox_close(&job_thread->inbox);
no_inbox:
    free(job_thread);
    return NULL;
}

void job_thread_stop(struct job_thread *job_thread)
{
    if (job_thread == NULL)
        return;
    inbox_post(&job_thread->inbox, &job_thread->stop);
    pthread_join(job_thread->thread, NULL);
}

void job_thread_destroy(struct job_thread *job_thread)
{
    if (job_thread == NULL)
        return;
    inbox_act(&job_thread->inbox);
    pool_cache_destroy(job_thread->memory);
    inbox_close(&job_thread->inbox);
    free(job_thread);
}

void job_thread_post(struct job_thread *job_thread, struct inbox_message *message)
{
    inbox_post(&job_thread->inbox, message);
}

struct pool_cache *job_thread_memory(struct job_thread *job_thread)
{
    return job_thread->memory;
}

void job_thread_check(struct job_thread *job_thread, uint64_t now_ns)
{
    if (jobs_due_ns(job_thread->jobs) <= now_ns && !atomic_exchange(&job_thread->checking, true))
        inbox_post(&job_thread->inbox, &job_thread->check);
}

bool job_thread_alive(struct job_thread *job_thread)
{
    const bool alive = heartbeat_look(&job_thread->heartbeat);
    if (!atomic_exchange(&job_thread->checking, true))
        inbox_post(&job_thread->inbox, &job_thread->check);
    return alive;
}
