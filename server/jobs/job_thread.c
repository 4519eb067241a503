#include "server/jobs/job_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "server/base/heartbeat.h"

/* An errand costs this many bytes in addition to those that it copies, so that small ones are not
 * free. */
enum { ERRAND_BYTES = 4096 };

struct job_thread {
    struct jobs *jobs;         /* borrowed */
    struct pool_cache *memory; /* for what runs on the job thread */
    struct fair_list errands;  /* used by the job thread */
    struct inbox inbox;
    struct inbox_message check, stop;
    atomic_bool checking; /* `check` has been posted and not handled */
    struct heartbeat heartbeat;
    bool stopping;
    pthread_t thread;
};

static void job_thread_expire(struct inbox_message *message)
{
    struct job_thread *job_thread = OWNER_OF(message, struct job_thread, check);
    atomic_store(&job_thread->checking, false);
    jobs_expire(job_thread->jobs, clock_now_ns());
}

static void job_thread_end(struct inbox_message *message)
{
    OWNER_OF(message, struct job_thread, stop)->stopping = true;
}

static void job_thread_take(struct inbox_message *message)
{
    struct job_errand *errand = OWNER_OF(message, struct job_errand, message);
    fair_list_add(&errand->job_thread->errands, &errand->item, errand->tenant);
}

/* Does a piece of the errand whose turn it is. Returns false if there is no errand. The errand is
 * in no list meanwhile, because its owner frees it at its end. */
static bool job_thread_advance(struct job_thread *job_thread)
{
    struct fair_item *item = fair_list_first(&job_thread->errands);
    if (item == NULL)
        return false;
    struct job_errand *errand = OWNER_OF(item, struct job_errand, item);
    const uint64_t bytes = errand->bytes < JOB_PIECE_BYTES ? errand->bytes : JOB_PIECE_BYTES;
    fair_list_charge(&job_thread->errands, item, bytes + ERRAND_BYTES);
    fair_list_remove(&job_thread->errands, item);
    if (errand->advance(errand))
        fair_list_add(&job_thread->errands, item, errand->tenant);
    return true;
}

static void *job_thread_run(void *argument)
{
    struct job_thread *job_thread = argument;
    bool moved = false;
    pthread_setname_np(pthread_self(), "jobs");
    while (moved || !job_thread->stopping) {
        if (!moved)
            inbox_wait(&job_thread->inbox, NULL, 0, -1);
        inbox_act(&job_thread->inbox);
        moved = job_thread_advance(job_thread);
        heartbeat_beat(&job_thread->heartbeat);
    }
    return NULL;
}

struct job_thread *job_thread_start(struct jobs *jobs, struct pool *pool, uint32_t tenants)
{
    struct job_thread *job_thread = calloc(1, sizeof *job_thread);
    if (job_thread == NULL)
        return NULL;
    job_thread->jobs = jobs;
    job_thread->check.act = job_thread_expire;
    job_thread->stop.act = job_thread_end;
    if (!fair_list_open(&job_thread->errands, tenants))
        goto no_errands;
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
    fair_list_close(&job_thread->errands);
no_errands:
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
    while (job_thread_advance(job_thread))
        ;
    pool_cache_destroy(job_thread->memory);
    inbox_close(&job_thread->inbox);
    fair_list_close(&job_thread->errands);
    free(job_thread);
}

void job_thread_post(struct job_thread *job_thread, struct job_errand *errand)
{
    errand->job_thread = job_thread;
    errand->message.act = job_thread_take;
    inbox_post(&job_thread->inbox, &errand->message);
}

bool job_thread_is_stopping(const struct job_thread *job_thread)
{
    return job_thread->stopping;
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
