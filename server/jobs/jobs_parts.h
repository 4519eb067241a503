/*
 * jobs_parts.h - the struct of the store of jobs, and the functions that the files of the store
 * share. A file calls only files after it in this list:
 *
 *   jobs.c        the store, requests about jobs, and the job thread
 *   job.c         the request that makes a job
 *   job_state.c   the states of a job, its waiters, and the table of the jobs that have an id
 *   job_answer.c  the answers of jobs
 *
 * Internal to these files. All functions are called under the store's lock, but for those that say
 * otherwise.
 */
#ifndef SERVER_JOBS_JOBS_PARTS_H
#define SERVER_JOBS_JOBS_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/base/drain_rate.h"
#include "server/base/list.h"
#include "server/jobs/jobs.h"

/* What happens to a job next. */
enum job_list {
    JOB_LIST_UNFINISHED, /* jobs whose work has not ended */
    JOB_LIST_KEPT,       /* jobs whose answer is kept until it expires */
    JOB_LIST_REMEMBERED, /* jobs of which only the id is kept, until it is forgotten */
    JOB_LISTS
};

struct job {
    struct jobs *jobs;
    struct job *next_in_bucket;
    struct list_item in_list;   /* of the table */
    struct list_item of_tenant; /* in the list of the tenant's jobs */
    uint64_t number;            /* of the tenant's accepted jobs, from 1 on */
    struct job_id id;
    uint32_t tenant_number;
    char tenant[JOB_TENANT_MAX + 1], request_id[JOB_REQUEST_ID_MAX + 1];
    const char *op;
    enum job_state state;
    bool gave_way;             /* expired before its time, because of another tenant's job */
    struct job_owner *owner;   /* from job_accept to job_finish */
    struct job_answer *answer; /* NULL once nothing needs the answer and nothing writes it */
    struct list waiters;
    int64_t created_ms; /* since the epoch */
    uint64_t accepted_ns, started_ns, finished_ns;
    uint64_t due_ns; /* when the answer expires (kept), or the id is forgotten (remembered) */
};

/* The jobs that have an id. A job is found by its id, and is in one of the lists. Every answer is
 * kept for the same time, so that each list is in the order of the jobs' times. The table owns no
 * job. */
struct job_table {
    struct job **buckets;
    uint64_t bucket_mask;
    struct list lists[JOB_LISTS];
};

/* The jobs and answers of one tenant, for its limits. */
struct job_tenant {
    uint32_t open;            /* under the lock of the jobs */
    uint64_t accepted;        /* number of jobs so far, under the lock */
    struct list jobs;         /* that jobs_list lists, the newest last; under the lock */
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

static inline struct job *job_in_list(struct list_item *item)
{
    return OWNER_OF(item, struct job, in_list);
}

/* --- job_state.c --- */

/* Opens a table for `max_jobs` open jobs and as many remembered ones. False: out of memory. */
bool job_table_open(struct job_table *table, uint32_t max_jobs);
void job_table_close(struct job_table *table);

/* Finds a job by the text of its id. NULL: there is no such job, or `text` is not an id. */
struct job *job_table_find(const struct job_table *table, const char *text);
/* Adds a job, which is found by its id from now on. */
void job_table_add(struct job_table *table, struct job *job);
/* Removes a job, which is not found any more. The job stays in its list. */
void job_table_remove(struct job_table *table, struct job *job);

/* Removes and returns the first job of a list, if its due_ns has come; NULL otherwise. */
struct job *job_list_pop(struct job_table *table, enum job_list list, uint64_t now_ns);

/* Removes and wakes all waiters of a job. */
void job_wake_all(struct job *job);
/* Removes and wakes the waiters of a job that wait until `now_ns` or less. Lowers
 * jobs->earliest_wait_ns to the time of each waiter that goes on waiting. */
void job_wake_due(struct job *job, uint64_t now_ns);

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
/* Ends a kept job, which has been removed from its list, and remembers its id. Returns the job's
 * answer, which the caller releases without the lock, because freeing much memory takes long. */
struct job_answer *job_expire(struct job *job, uint64_t now_ns);
/* Sets the time at which jobs_expire next has something to do. */
void jobs_set_due(struct jobs *jobs);

/* What a new job lacks: a place among the jobs, or bytes for its answer. */
enum job_room { JOB_ROOM_COUNT, JOB_ROOM_BYTES };
/* Expires one kept job, of the tenants that hold more than their shares of `room` the one that
 * would expire first. False: there is none. `*expired` is its answer, as job_expire returns it. */
bool jobs_make_room(struct jobs *jobs, enum job_room room, uint64_t now_ns,
                    struct job_answer **expired);

/* --- job_answer.c --- */

/* As job_reserve. Sets `*whole_is_full` if the budget of all tenants has no room, and the tenant's
 * has. No lock is needed. */
enum gemmd_error job_answer_reserve(struct job_answer *answer, uint64_t bytes, bool *whole_is_full,
                                    struct fault *fault);

#endif
