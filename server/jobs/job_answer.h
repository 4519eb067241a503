/*
 * job_answer.h - the answer of a job, in ordinary memory. Pinned memory is for requests in flight,
 * and the result of a job may be kept for minutes.
 *
 * An answer gets the memory for its payload before the job's work is accepted. The thread that ends
 * the work writes the answer, which is read-only from then on. Answers have references, so that an
 * answer that is being sent stays when its job is deleted. The payload counts in a budget from
 * job_answer_reserve until its memory is freed.
 */
#ifndef SERVER_JOBS_JOB_ANSWER_H
#define SERVER_JOBS_JOB_ANSWER_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/headers.h"

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
/* Allocates memory for the payload, once. GEMMD_ERR_QUEUE_FULL: the budget has no room now.
 * GEMMD_ERR_TOO_LARGE: the payload is larger than the whole budget. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error job_answer_reserve(struct job_answer *answer, uint64_t bytes, struct fault *fault);
/* Makes the answer a problem document, and frees the payload. */
void job_answer_fail(struct job_answer *answer, const struct fault *fault);

/* Adds a reference. Called by a thread that has a reference, or under a lock that keeps the last
 * reference from being released. */
void job_answer_hold(struct job_answer *answer);
/* Releases a reference. Any thread. NULL is allowed. */
void job_answer_release(struct job_answer *answer);

#endif
