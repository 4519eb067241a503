/*
 * jobs_parts.h - the struct of the store of jobs, and the functions that the files of the store
 * share. A file calls only files after it in this list:
 *
 *   jobs.c         the store, and requests about jobs
 *   job.c          the request that makes a job
 *   jobs_expire.c  the job thread
 *   job_state.c    the states of a job
 *   job_waiters.c  the requests that wait for a job's end
 *   job_table.c    the table of the jobs that have an id
 *
 * Internal to these files. All functions are called under the store's lock.
 */
#ifndef SERVER_JOBS_JOBS_PARTS_H
#define SERVER_JOBS_JOBS_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/base/drain_rate.h"
#include "server/jobs/job_table.h"
#include "server/jobs/jobs.h"

/* The jobs and answers of one tenant, for its limits. */
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

/* --- job_state.c --- */

/* Whether the job's work has not ended. */
bool job_is_unfinished(const struct job *job);
/* Whether the job's answer is kept for its client. */
bool job_is_kept(const struct job *job);
void job_set_state(struct job *job, enum job_state state);
void job_describe(const struct job *job, uint64_t now_ns, struct job_view *view);
/* Adds a job to the jobs that jobs_list lists. */
void job_enlist(struct job *job);
/* Ends a job's part in the limits, and takes the job off the list. */
void job_uncount(struct job *job);
/* Frees a job that is in no list, with its answer. No lock is needed. */
void job_free(struct job *job);
/* Remembers the id of a job that is in no list and has no answer. The oldest id is forgotten if
 * there would be more than the limit of jobs. */
void jobs_remember_id(struct jobs *jobs, struct job *job, uint64_t now_ns);
/* Forgets the oldest remembered id, if its time has come. Returns whether it was forgotten. */
bool jobs_forget_oldest(struct jobs *jobs, uint64_t now_ns);
/* Sets the time at which jobs_expire next has something to do. */
void jobs_set_due(struct jobs *jobs);

#endif
