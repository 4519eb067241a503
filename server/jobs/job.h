/*
 * job.h - one job, for the request that makes it: its states, its owner, and its answer.
 *
 * The request opens a job at the headers, and accepts the job when its work is queued. The job
 * belongs to the request until job_accept, and to the store (jobs.h) afterwards. The job exists at
 * least until job_finish. The caller provides the time (clock_now_ns).
 *
 * Any thread. The functions hold the store's lock for a short time.
 */
#ifndef SERVER_JOBS_JOB_H
#define SERVER_JOBS_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/headers.h"
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

/* The owner of a job, which computes the answer; part of the owner's own struct. */
struct job_owner {
    /* Called when the job is cancelled, at most once, with the store locked. The owner may drop the
     * work if the work has not begun, and still has to call job_finish. The function must
     * neither block nor call functions of the store. */
    void (*cancel)(struct job_owner *owner);
};

/* ---- the answer of a job, in ordinary memory: pinned memory is for requests in flight, and the
 * result of a job may be kept for minutes.
 *
 * An answer gets the memory for its payload before the job's work is accepted. The thread that ends
 * the work writes the answer, which is read-only from then on. Answers have references, so that an
 * answer that is being sent stays when its job is deleted. The payload counts in a budget from
 * job_reserve until its memory is freed. ---- */

/* The bytes of all answers together, or of one tenant's answers. The budget outlives the answers. A
 * single answer may exceed a tenant's budget while the tenant has no other. */
struct job_budget {
    struct job_budget *whole;   /* of a tenant's budget: that of all tenants; else NULL */
    _Atomic uint64_t max_bytes; /* 0: no limit of its own */
    _Atomic uint64_t bytes;
    _Atomic uint64_t refused; /* answers that did not fit in this budget so far */
};

struct job_answer {
    struct job_budget *budget; /* of the answer's tenant; borrowed */
    atomic_uint references;
    /* A code other than GEMMD_OK: the answer is a problem document, and the fields below are not
     * used. */
    struct fault fault;
    int status;
    struct headers headers;
    unsigned char *payload;
    uint64_t bytes;
};

/* Creates an answer without a payload, with one reference, which is the caller's. NULL: out of
 * memory. */
struct job_answer *job_answer_create(struct job_budget *budget);
/* Makes the answer a problem document, and frees the payload. */
void job_answer_fail(struct job_answer *answer, const struct fault *fault);

/* Adds a reference. Called by a thread that has a reference, or under a lock that keeps the last
 * reference from being released. */
void job_answer_hold(struct job_answer *answer);
/* Releases a reference. Any thread. NULL is allowed. */
void job_answer_release(struct job_answer *answer);

/* ---- the job ---- */

/* Opens a job of the tenant with a name and a number. `op` is a static string. Where job_open and
 * job_reserve find a limit of all tenants used up, kept answers of tenants that hold more than
 * their shares expire early (jobs_set_tenant_limits).
 * GEMMD_ERR_QUEUE_FULL: there are as many jobs, of all tenants or of this one, as a limit allows.
 * GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error job_open(struct jobs *jobs, const char *tenant, uint32_t number, const char *op,
                          const char *request_id, uint64_t now_ns, struct job **job,
                          struct fault *fault);
/* Returns the job's answer, borrowed. The caller gives the answer memory (job_reserve) before
 * job_accept, and writes it before job_finish. */
struct job_answer *job_answer(struct job *job);
/* Allocates memory for the payload of a job's answer, once. GEMMD_ERR_QUEUE_FULL: the budget of all
 * answers or of the tenant's has no room now. GEMMD_ERR_TOO_LARGE: the payload is larger than the
 * whole budget. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error job_reserve(struct job *job, uint64_t bytes, uint64_t now_ns, struct fault *fault);
/* Discards a job that was not accepted. NULL is allowed. */
void job_discard(struct job *job);

/* Accepts a job, which can be found by its id from now on and must be finished. Sets `view`, which
 * may be NULL. */
void job_accept(struct job *job, struct job_owner *owner, uint64_t now_ns, struct job_view *view);
/* Records that the job's work has begun. */
void job_start(struct job *job, uint64_t now_ns);
/* Finishes a job, whose work has ended and whose answer is written. Afterwards the caller does not
 * use the job, and the store does not use the owner. The answer of a cancelled job is dropped. */
void job_finish(struct job *job, uint64_t now_ns);
/* Whether the job has been cancelled, so that its answer will be dropped. */
bool job_is_cancelled(struct job *job);

#endif
