/*
 * job_answer.h - what a job answers, in ordinary memory: pinned memory is for requests on their
 * way, and results may lie here for minutes.
 *
 * Made with the memory of its payload before the work is accepted, written by whoever ends the work
 * and read-only from then on. Held by references: an answer that is being sent lives on when its
 * job is deleted. Its payload counts in a budget from job_answer_reserve until its memory is freed.
 */
#ifndef SERVER_JOBS_JOB_ANSWER_H
#define SERVER_JOBS_JOB_ANSWER_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/headers.h"

/* Bytes that answers take together; outlives them. */
struct job_budget {
    uint64_t max_bytes;
    _Atomic uint64_t bytes;
};

struct job_answer {
    struct job_budget *budget; /* borrowed */
    atomic_uint references;
    struct fault fault; /* a code but GEMMD_OK: a problem document, and none of what follows */
    int status;
    struct headers headers;
    unsigned char *payload;
    uint64_t bytes;
};

/* With no payload yet and one reference, the caller's. NULL: out of memory. */
struct job_answer *job_answer_create(struct job_budget *budget);
/* Takes memory for the payload, once. GEMMD_ERR_QUEUE_FULL if the budget has no room now,
 * GEMMD_ERR_TOO_LARGE if it never has, GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error job_answer_reserve(struct job_answer *answer, uint64_t bytes, struct fault *fault);
/* There is no result: gives the payload back. */
void job_answer_fail(struct job_answer *answer, const struct fault *fault);

/* Any thread that has a reference, or is kept from losing it. */
void job_answer_hold(struct job_answer *answer);
void job_answer_release(struct job_answer *answer); /* NULL is allowed */

#endif
