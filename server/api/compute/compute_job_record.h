/* compute_job_record.h - records a job that has ended, in the log and as a span. */
#ifndef SERVER_API_COMPUTE_COMPUTE_JOB_RECORD_H
#define SERVER_API_COMPUTE_COMPUTE_JOB_RECORD_H

#include <stdint.h>

#include "server/api/compute/compute_answer.h"
#include "server/api/compute/compute_call.h"
#include "server/base/trace_context.h"
#include "server/http/request.h"
#include "server/jobs/job_id.h"

struct request;
struct services;

/* The request that a job came from. */
struct compute_job_origin {
    char job_id[JOB_ID_TEXT + 1], request_id[REQUEST_ID_MAX + 1];
    const char *tenant; /* "" without tokens. Borrowed from the tokens */
    struct trace_context trace;
    bool is_logged; /* by the options that were in force when the request began */
};

/* Notes the origin of a job that is being accepted. */
void compute_job_note_origin(struct compute_job_origin *origin, const struct request *request);
/* Records a job whose work has ended and whose call still has its memory. `fault` is the reason why
 * the job has no result; its code is GEMMD_OK if there is a result, of `bytes` bytes. Job thread.
 */
void compute_job_record(const struct compute_job_origin *origin, const struct compute_call *call,
                        const struct compute_times *times, const struct services *services,
                        const struct fault *fault, uint64_t bytes);

#endif
