/* Requests to compute that become jobs (compute_call.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/compute/call_sequence.h"
#include "server/api/compute/compute_call.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/base/trace_context.h"
#include "server/http/request.h"
#include "server/http/respond.h"
#include "server/jobs/job_id.h"
#include "server/jobs/job_thread.h"
#include "server/jobs/job_view.h"
#include "server/observe/otlp.h"
#include "server/tensors/tensor_describe.h"

/* The request that a job came from. */
struct compute_job_origin {
    char job_id[JOB_ID_TEXT + 1], request_id[REQUEST_ID_MAX + 1];
    const char *tenant; /* "" without tokens. Borrowed from the tokens */
    struct trace_context trace;
    bool is_logged; /* by the options that were in force when the request began */
};

/* The call of a job. While the work is queued or running, the queue and the dispatch thread own the
 * struct; then the job thread owns the struct, and frees it. */
struct compute_job {
    struct services *services; /* borrowed */
    struct job *job;
    struct job_owner owner;
    struct compute_call call;
    struct compute_times times;
    struct compute_job_origin origin;
    struct job_errand errand; /* for the job thread, when the work is done */
};

#define JOB_OF(pointer, member)                                                                    \
    ((struct compute_job *)(void *)((char *)(pointer)-offsetof(struct compute_job, member)))

/* Notes the origin of a job that is being accepted. */
static void note_origin(struct compute_job_origin *origin, const struct request *request)
{
    memcpy(origin->request_id, request->id, sizeof origin->request_id);
    origin->tenant = request->tenant;
    origin->trace = request->trace;
    origin->is_logged = request->config->access_log;
}

/* Records a job whose work has ended and whose call still has its memory, in the log and as a span.
 * `fault` is the reason why the job has no result; its code is GEMMD_OK if there is a result, of
 * `bytes` bytes. */
static void record_job(const struct compute_job_origin *origin, const struct compute_call *call,
                       const struct compute_times *times, const struct services *services,
                       const struct fault *fault, uint64_t bytes)
{
    struct log_access entry = {
        .message = "job",
        .request_id = origin->request_id,
        .job = origin->job_id,
        .tenant = origin->tenant[0] == '\0' ? NULL : origin->tenant,
        .trace_id = origin->trace.trace_id,
        .span_id = origin->trace.span_id,
        .op = call->operation->operation->name,
        .error = fault->code == GEMMD_OK ? NULL : error_slug(fault->code),
        .reason = fault->code == GEMMD_OK ? NULL : fault->detail,
        .status = error_status(fault->code),
        .request_bytes = call->body_bytes,
        .response_bytes = bytes,
        .started_ns = times->started_ns,
        .receive_ns = times->received_ns - times->started_ns,
        .total_ns = clock_now_ns() - times->started_ns,
    };
    (void)compute_call_describe(call, call->operation, true, &entry);
    if (origin->is_logged)
        log_access(services->log, NULL, &entry, 0);
    if (services->http->otlp != NULL && origin->trace.sampled)
        otlp_job(services->http->otlp, &origin->trace, &entry);
}

static struct compute_request *state_of(const struct request *request)
{
    return request->call;
}

static bool has_shapes(const struct compute_call *call)
{
    return call->result != NULL || call->residents.stored != NULL;
}

/* Sets Retry-After for a request that was refused because of the limits on jobs: the time until
 * another job ends. */
static void note_full(struct request *request, enum gemmd_error code)
{
    if (code == GEMMD_ERR_QUEUE_FULL)
        request->retry_after_s = jobs_open_wait_s(services_of(request)->jobs, clock_now_ns());
}

static enum gemmd_error compute_job_reserve_bytes(struct request *request)
{
    const struct compute_call *call = &state_of(request)->call;
    struct job *job = state_of(request)->job;
    /* The sum was checked when the result's block was taken. */
    if (call->residents.stored == NULL)
        return job_reserve(job, call->header_bytes + call->result_bytes, clock_now_ns(),
                           &request->fault);
    char *text = tensor_describe(call->residents.stored);
    if (text == NULL)
        return fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a job");
    enum gemmd_error code = job_reserve(job, strlen(text), clock_now_ns(), &request->fault);
    free(text);
    return code;
}

static enum gemmd_error compute_job_reserve(struct request *request)
{
    enum gemmd_error code = compute_job_reserve_bytes(request);
    note_full(request, code);
    return code;
}

enum gemmd_error compute_job_open(struct request *request)
{
    enum gemmd_error code =
        job_open(services_of(request)->jobs, request->tenant, request->tenant_number,
                 state_of(request)->call.operation->operation->name, request->id, clock_now_ns(),
                 &state_of(request)->job, &request->fault);
    if (code == GEMMD_OK && has_shapes(&state_of(request)->call))
        return compute_job_reserve(request);
    note_full(request, code);
    return code;
}

/* Publishes a stored result. The answer is the result's description, whose length has not changed
 * since compute_job_reserve. */
static void compute_job_publish(struct compute_job *job, struct job_answer *answer)
{
    struct fault fault;
    char *text;
    if (call_residents_publish(&job->call.residents, job->services->tensors, &text, &fault) !=
        GEMMD_OK) {
        job_answer_fail(answer, &fault);
        return;
    }
    memcpy(answer->payload, text, answer->bytes);
    free(text);
    answer->status = 201;
}

/* Why a job ends without a result; the code is GEMMD_OK if it has one. `cancelled` is memory for
 * the fault of a job that was cancelled after its work had ended. */
static const struct fault *job_end_fault(const struct compute_job *job, struct fault *cancelled)
{
    if (job->call.work.status != GEMMD_OK)
        return &job->call.work.fault;
    if (job_is_cancelled(job->job)) {
        fault_set(cancelled, GEMMD_ERR_CANCELLED, NULL, "the job was cancelled");
        return cancelled;
    }
    return &job_answer(job->job)->fault;
}

/* Ends a job whose result, if it has one, has been copied. */
static void compute_job_finish(struct compute_job *job)
{
    struct compute_call *call = &job->call;
    struct job_answer *answer = job_answer(job->job);
    struct fault cancelled;
    if (!job_is_cancelled(job->job))
        call_sequence_commit(call, job->services);
    if (call->work.status != GEMMD_OK) {
        job_answer_fail(answer, &call->work.fault);
    } else if (!job_is_cancelled(job->job)) {
        answer->status = 200;
        if (call->residents.stored != NULL)
            compute_job_publish(job, answer);
        job->times.answered_ns = clock_now_ns();
        compute_call_headers(call, &job->times, &answer->headers);
    }
    record_job(&job->origin, call, &job->times, job->services, job_end_fault(job, &cancelled),
               answer->bytes);
    /* The call is closed first, so that its memory is free when a client sees the job as done. */
    compute_call_close(call, job->services);
    job_finish(job->job, clock_now_ns());
    free(job);
}

/* Copies the next piece of the result. A result that nobody will fetch is not copied. */
static void compute_job_copy(struct compute_job *job)
{
    struct work *work = &job->call.work;
    const struct job_answer *answer = job_answer(job->job);
    const uint64_t left = job->errand.bytes, at = answer->bytes - left;
    const uint64_t bytes = left < JOB_PIECE_BYTES ? left : JOB_PIECE_BYTES;
    job->errand.bytes = 0;
    if (job_is_cancelled(job->job))
        return;
    if (job_thread_is_stopping(job->services->job_thread)) {
        work->status =
            fault_set(&work->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
        return;
    }
    memcpy(answer->payload + at, job->call.result + at, bytes);
    job->errand.bytes = left - bytes;
}

static bool compute_job_advance(struct job_errand *errand)
{
    struct compute_job *job = JOB_OF(errand, errand);
    job->call.memory = job_thread_memory(job->services->job_thread);
    if (errand->bytes > 0)
        compute_job_copy(job);
    if (errand->bytes > 0)
        return true;
    compute_job_finish(job);
    return false;
}

static void compute_job_work_started(struct work *work)
{
    job_start(JOB_OF(work, call.work)->job, clock_now_ns());
}

static void compute_job_work_done(struct work *work)
{
    struct compute_job *job = JOB_OF(work, call.work);
    if (work->status == GEMMD_OK && job->call.residents.stored == NULL)
        job->errand.bytes = job_answer(job->job)->bytes;
    job_thread_post(job->services->job_thread, &job->errand);
}

static void compute_job_cancel(struct job_owner *owner)
{
    struct compute_job *job = JOB_OF(owner, owner);
    struct work *work = &job->call.work;
    if (!compute_call_cancel(&job->call))
        return; /* the work runs already; compute_job_finish is called when it ends */
    work->status = fault_set(&work->fault, GEMMD_ERR_CANCELLED, NULL, "the job was cancelled");
    compute_job_work_done(work);
}

/* Answers 202 with the name of the job. If that answer cannot be sent, the job is cancelled, since
 * its client would never fetch the result. */
static void answer_accepted(struct request *request, const struct job_view *view)
{
    struct jobs *jobs = services_of(request)->jobs;
    struct job_view after;
    struct fault fault;
    char text[JOB_VIEW_TEXT_MAX], location[sizeof "/jobs/" + JOB_ID_TEXT];
    const uint64_t length = job_view_json(view, text);
    struct headers headers;
    snprintf(location, sizeof location, "/jobs/%s", view->id);
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "application/json");
    headers_add(&headers, "Location", location);
    headers_add(&headers, "Preference-Applied", "respond-async");
    if (!respond_copy(request, 202, &headers, text, length))
        (void)jobs_delete(jobs, view->id, request->tenant, clock_now_ns(), &after, &fault);
}

void compute_job_submit(struct request *request)
{
    struct job_view view;
    struct compute_job *job = NULL;
    if (job_answer(state_of(request)->job)->payload == NULL &&
        compute_job_reserve(request) != GEMMD_OK)
        goto refuse;
    job = malloc(sizeof *job);
    if (job == NULL) {
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a job");
        goto refuse;
    }
    *job = (struct compute_job){
        .services = services_of(request),
        .job = state_of(request)->job,
        .owner.cancel = compute_job_cancel,
        .times = {.started_ns = request->started_ns, .received_ns = request->received_ns},
        .errand = {.tenant = request->tenant_number, .advance = compute_job_advance},
    };
    note_origin(&job->origin, request);
    compute_call_move(&job->call, &state_of(request)->call);
    job->call.request_id = job->origin.request_id;
    state_of(request)->job = NULL;

    struct work *work = &job->call.work;
    work->started = compute_job_work_started;
    work->done = compute_job_work_done;
    work->queued_ns = clock_now_ns();
    job_accept(job->job, &job->owner, work->queued_ns, &view);
    memcpy(job->origin.job_id, view.id, sizeof job->origin.job_id);
    compute_call_push(&job->call); /* the job may be done, and gone, at once */
    answer_accepted(request, &view);
    return;

refuse:
    respond_fault(request, &request->fault);
}
