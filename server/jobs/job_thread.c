#include "server/jobs/job_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/base/clock.h"

struct job_thread {
    struct jobs *jobs;         /* borrowed */
    struct pool_cache *memory; /* its blocks */
    struct inbox inbox;
    struct inbox_message check, stop;
    atomic_bool checking; /* `check` is in the inbox */
    bool stopping;
    pthread_t thread;
};

static void check(struct inbox_message *message)
{
    struct job_thread *keeper = INBOX_OWNER(message, struct job_thread, check);
    atomic_store(&keeper->checking, false);
    jobs_expire(keeper->jobs, clock_now_ns());
}

static void stop(struct inbox_message *message)
{
    INBOX_OWNER(message, struct job_thread, stop)->stopping = true;
}

static void *run(void *argument)
{
    struct job_thread *keeper = argument;
    pthread_setname_np(pthread_self(), "keeper");
    while (!keeper->stopping) {
        inbox_wait(&keeper->inbox, NULL, 0, -1);
        inbox_act(&keeper->inbox);
    }
    return NULL;
}

struct job_thread *job_thread_start(struct jobs *jobs, struct pool *pool)
{
    struct job_thread *keeper = calloc(1, sizeof *keeper);
    if (keeper == NULL)
        return NULL;
    keeper->jobs = jobs;
    keeper->check.act = check;
    keeper->stop.act = stop;
    if (!inbox_open(&keeper->inbox))
        goto no_inbox;
    keeper->memory = pool_cache_create(pool);
    if (keeper->memory == NULL)
        goto no_memory;
    if (pthread_create(&keeper->thread, NULL, run, keeper) != 0)
        goto no_thread;
    return keeper;

no_thread:
    pool_cache_destroy(keeper->memory);
no_memory:
    inbox_close(&keeper->inbox);
no_inbox:
    free(keeper);
    return NULL;
}

void job_thread_stop(struct job_thread *keeper)
{
    if (keeper == NULL)
        return;
    inbox_post(&keeper->inbox, &keeper->stop);
    pthread_join(keeper->thread, NULL);
}

void job_thread_destroy(struct job_thread *keeper)
{
    if (keeper == NULL)
        return;
    inbox_act(&keeper->inbox);
    pool_cache_destroy(keeper->memory);
    inbox_close(&keeper->inbox);
    free(keeper);
}

void job_thread_post(struct job_thread *keeper, struct inbox_message *message)
{
    inbox_post(&keeper->inbox, message);
}

struct pool_cache *job_thread_memory(struct job_thread *keeper)
{
    return keeper->memory;
}

void job_thread_check(struct job_thread *keeper, uint64_t now_ns)
{
    if (jobs_due_ns(keeper->jobs) <= now_ns && !atomic_exchange(&keeper->checking, true))
        inbox_post(&keeper->inbox, &keeper->check);
}
