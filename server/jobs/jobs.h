/*
 * jobs.h - jobs: requests whose clients do not wait for the answer (RFC 7240, respond-async).
 *
 * A job is opened at the headers of its request, has an id from job_accept on, and ends with
 * job_finish, whatever became of its work. Its answer is kept until the job is deleted or the
 * answer expires. After that the job's id is remembered for a while, so that a client that asks
 * late learns what happened.
 *
 *   receiving -> queued -> running -> done | failed -> expired -> forgotten
 *                  `---------`--> cancelled --------------------> forgotten
 *
 * Open and kept jobs count against the limit, exactly. Remembered ids do not count; there are at
 * most as many of them as the limit of jobs. The store of jobs does not know what a job computes:
 * that is known to the owner of the job's task.
 *
 * Any thread. One mutex, never held for long. The caller provides the time (clock_now_ns).
 */
#ifndef SERVER_JOBS_JOBS_H
#define SERVER_JOBS_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/jobs/job_answer.h"
#include "server/jobs/job_id.h"

struct job;
struct jobs;

enum job_state {
    JOB_RECEIVING, /* the body is being received; the job has no id yet */
    JOB_QUEUED,
    JOB_RUNNING,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_EXPIRED,
    JOB_STATES
};
const char *job_state_name(enum job_state state);

enum { JOB_TENANT_MAX = 63, JOB_REQUEST_ID_MAX = 128 };

struct jobs_limits {
    uint32_t max_jobs;
    uint64_t max_bytes;    /* of all answers together */
    uint64_t ttl_ns;       /* how long an answer is kept, and then how long its id is remembered */
    uint32_t tenants;      /* tenants have the numbers 0 ... tenants - 1; 0 counts as one tenant */
    uint32_t tenant_jobs;  /* open and kept jobs of each tenant; 0: only max_jobs limits */
    uint64_t tenant_bytes; /* answers of each tenant, unless it has only one; 0: only max_bytes */
};

/* NULL: out of memory. */
struct jobs *jobs_create(const struct jobs_limits *limits);
/* No job, answer or function of the store may be in use. NULL is allowed. */
void jobs_destroy(struct jobs *jobs);

/* What computes a job; part of its owner's own struct. */
struct job_task {
    /* Called when the job is cancelled, at most once, with the store locked. The work may be
     * dropped if it has not begun. Must not block nor call functions of this file. job_finish still
     * has to be called. */
    void (*cancel)(struct job_task *task);
};

/* --- For the request that makes a job. The job belongs to that request until job_accept, and to
 * the store afterwards. It exists at least until job_finish. */

/* Opens a job of the tenant with a name and a number. `op` is a static string.
 * GEMMD_ERR_QUEUE_FULL: there are as many jobs, of all tenants or of this one, as a limit allows.
 * GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error job_open(struct jobs *jobs, const char *tenant, uint32_t number, const char *op,
                          const char *request_id, struct job **job, struct fault *fault);
/* The job's answer. It is given memory (job_answer_reserve) before job_accept, and is written
 * before job_finish. Borrowed. */
struct job_answer *job_answer(struct job *job);
/* Discards a job that was not accepted. NULL is allowed. */
void job_discard(struct job *job);

/* The state of a job, for job_view_json. */
struct job_view {
    char id[JOB_ID_TEXT + 1];
    enum job_state state;
    const char *op;
    char request_id[JOB_REQUEST_ID_MAX + 1];
    int64_t created_ms, expires_ms; /* since the epoch; expires_ms is 0 until the job is done */
    uint64_t queued_ns, running_ns; /* durations so far */
    bool has_started;
    int status;     /* of the answer; 0: there is no answer */
    uint64_t bytes; /* of the answer */
};

/* Accepts a job, which can be found from now on and must be finished. Sets `view`, which may be
 * NULL. */
void job_accept(struct job *job, struct job_task *task, uint64_t now_ns, struct job_view *view);
/* Records that the job's work has begun. */
void job_start(struct job *job, uint64_t now_ns);
/* Finishes a job, whose work has ended and whose answer is written. The caller does not use the job
 * any more, and the store does not use the task. The answer of a cancelled job is dropped. */
void job_finish(struct job *job, uint64_t now_ns);
/* Whether the job has been cancelled, so that its answer will be dropped. */
bool job_is_cancelled(struct job *job);

/* --- For requests about jobs. `id` is any text. GEMMD_ERR_NOT_FOUND: there is no such job.
 * GEMMD_ERR_FORBIDDEN: the job belongs to another tenant. GEMMD_ERR_GONE: the answer has expired.
 */

/* Sets `view`. `*answer` (`answer` may be NULL) becomes a new reference to the answer, or NULL if
 * the job is not done. */
enum gemmd_error jobs_find(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                           struct job_view *view, struct job_answer **answer, struct fault *fault);
/* Describes the jobs of the tenant with a name and a number that were accepted before the tenant's
 * job number `before` (UINT64_MAX: all), the newest first, at most `limit` (at least 1) of them.
 * These are the jobs that count against the limit and have an id. Sets `*next` to the value of
 * `before` that continues the list, or to 0 at the list's end. Returns the number of `views`. */
uint32_t jobs_list(struct jobs *jobs, const char *tenant, uint32_t number, uint64_t before,
                   uint64_t now_ns, struct job_view views[], uint32_t limit, uint64_t *next);
/* Cancels a job that is not done, or removes a job that is. Nothing more happens to a job that is
 * cancelled already. A job that was removed is not found again. */
enum gemmd_error jobs_delete(struct jobs *jobs, const char *id, const char *tenant, uint64_t now_ns,
                             struct job_view *view, struct fault *fault);

/* A request that waits for the end of a job; part of the request's own struct. */
struct job_waiter {
    struct job_waiter *next, **link; /* used by the store; link is NULL: the waiter does not wait */
    uint64_t until_ns;               /* when the waiter stops waiting */
    /* Called once, with the store locked: must not block nor call functions of this file. The store
     * does not use the waiter afterwards. */
    void (*wake)(struct job_waiter *waiter);
};
/* Starts to wait. False: there is nothing to wait for, since the tenant has no such job or the job
 * has ended. */
bool jobs_wait(struct jobs *jobs, const char *id, const char *tenant, struct job_waiter *waiter);
/* Stops waiting, for a waiter that jobs_wait was called with. True: `wake` will not be called.
 * False: `wake` was called, or the waiter never waited. */
bool jobs_unwait(struct jobs *jobs, struct job_waiter *waiter);

/* Records how many jobs have finished, for Retry-After. Called by a timer several times a second.
 */
void jobs_sample(struct jobs *jobs, uint64_t now_ns);
/* Seconds, for Retry-After (drain_rate.h), at the rate at which jobs finished and were removed
 * lately: until a job may have its result, and until another job may be opened. */
uint32_t jobs_result_wait_s(struct jobs *jobs, const char *id);
uint32_t jobs_open_wait_s(struct jobs *jobs, uint64_t now_ns);

/* --- For the job thread. */

/* Expires answers, forgets ids and wakes waiters whose time has come. */
void jobs_expire(struct jobs *jobs, uint64_t now_ns);
/* When jobs_expire next has something to do; UINT64_MAX: nothing so far. Takes no lock. */
uint64_t jobs_due_ns(const struct jobs *jobs);
/* Wakes all waiters. From now on jobs_wait returns false. */
void jobs_close(struct jobs *jobs);

struct jobs_counts {
    /* Jobs that count against the limit, by state. A cancelled job counts until its work ends. */
    uint32_t states[JOB_STATES];
    uint64_t bytes;                       /* of answers */
    uint64_t created, cancelled, expired; /* since the start */
    uint64_t refused_tenants; /* jobs refused because of a limit of their tenant, since the start */
};
struct jobs_counts jobs_counts(struct jobs *jobs);
/* What one tenant holds: jobs that count against the limit, and bytes of answers. */
struct jobs_held {
    uint64_t jobs, bytes;
};
struct jobs_held jobs_held_by(struct jobs *jobs, uint32_t tenant);
/* Number of jobs that were accepted and not finished. */
uint32_t jobs_unfinished(struct jobs *jobs);

#endif
