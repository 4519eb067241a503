#include "server/api/compute/compute_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/compute/compute_answer.h"
#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/request.h"
#include "server/http/respond.h"
#include "server/jobs/job_thread.h"
#include "server/jobs/job_view.h"
#include "server/tensors/tensor_describe.h"

/* Belongs to the queue and the dispatch thread, then to the job thread, which frees it. */
struct compute_job {
    struct daemon *daemon; /* borrowed */
    struct job *job;
    struct job_task task;
    struct compute_call call;
    struct compute_times times;
    struct inbox_message ended; /* to the job thread */
};

#define JOB_OF(pointer, member)                                                                    \
    ((struct compute_job *)(void *)((char *)(pointer)-offsetof(struct compute_job, member)))

bool compute_job_wanted(const struct request *request)
{
    const struct daemon *daemon = request->daemon;
    return daemon->config.max_jobs > 0 && request->call.places.memory_count == 0 &&
           atomic_load(&daemon->stage) == DAEMON_SERVING &&
           request_preferences(request).respond_async;
}

static bool has_shapes(const struct compute_call *call)
{
    return call->result != NULL || call->residents.stored != NULL;
}

/* There are too many jobs, or too much is kept for them: another one's end makes room. */
static void note_full(struct request *request, enum gemmd_error code)
{
    if (code == GEMMD_ERR_QUEUE_FULL)
        request->retry_after_s = jobs_open_wait_s(request->daemon->jobs, clock_now_ns());
}

static enum gemmd_error reserve_bytes(struct request *request)
{
    const struct compute_call *call = &request->call;
    struct job_answer *answer = job_answer(request->job);
    /* The sum was checked when the result's block was taken. */
    if (call->residents.stored == NULL)
        return job_answer_reserve(answer, call->header_bytes + call->result_bytes, &request->fault);
    char *text = tensor_describe(call->residents.stored);
    if (text == NULL)
        return fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a job");
    enum gemmd_error code = job_answer_reserve(answer, strlen(text), &request->fault);
    free(text);
    return code;
}

static enum gemmd_error reserve(struct request *request)
{
    enum gemmd_error code = reserve_bytes(request);
    note_full(request, code);
    return code;
}

enum gemmd_error compute_job_open(struct request *request)
{
    enum gemmd_error code =
        job_open(request->daemon->jobs, request->tenant, request->call.operation->name, request->id,
                 &request->job, &request->fault);
    if (code == GEMMD_OK && has_shapes(&request->call))
        return reserve(request);
    note_full(request, code);
    return code;
}

/* The result stays: its description, which nothing has changed since it was measured, is the
 * answer.
 */
static void finish_stored(struct compute_job *job, struct job_answer *answer)
{
    struct fault fault;
    char *text;
    if (call_residents_publish(&job->call.residents, job->daemon->tensors, &text, &fault) !=
        GEMMD_OK) {
        job_answer_fail(answer, &fault);
        return;
    }
    memcpy(answer->payload, text, answer->bytes);
    free(text);
    answer->status = 201;
}

/* On the job thread. */
static void finish(struct inbox_message *message)
{
    struct compute_job *job = JOB_OF(message, ended);
    struct compute_call *call = &job->call;
    struct job_answer *answer = job_answer(job->job);
    call->memory = job_thread_memory(job->daemon->job_thread);
    if (call->work.status != GEMMD_OK) {
        job_answer_fail(answer, &call->work.fault);
    } else if (!job_is_cancelled(job->job)) {
        answer->status = 200;
        if (call->residents.stored != NULL)
            finish_stored(job, answer);
        else
            memcpy(answer->payload, call->result, answer->bytes);
        job->times.answered_ns = clock_now_ns();
        compute_answer_headers(call, &job->times, &answer->headers);
    }
    /* What the product held is free before anyone can see that it is done. */
    compute_call_close(call, job->daemon);
    job_finish(job->job, clock_now_ns());
    free(job);
}

static void work_started(struct work *work)
{
    job_start(JOB_OF(work, call.work)->job, clock_now_ns());
}

static void work_done(struct work *work)
{
    struct compute_job *job = JOB_OF(work, call.work);
    job_thread_post(job->daemon->job_thread, &job->ended);
}

static void cancel(struct job_task *task)
{
    struct compute_job *job = JOB_OF(task, task);
    struct work *work = &job->call.work;
    if (!queue_cancel(job->daemon->queue, work))
        return; /* what runs ends by itself */
    work->status = fault_set(&work->fault, GEMMD_ERR_CANCELLED, NULL, "the job was cancelled");
    work_done(work);
}

static void answer_accepted(struct request *request, const struct job_view *view)
{
    char text[JOB_VIEW_TEXT_MAX], location[sizeof "/jobs/" + JOB_ID_TEXT];
    uint64_t length = job_view_json(view, text);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_COPY);
    if (response != NULL) {
        snprintf(location, sizeof location, "/jobs/%s", view->id);
        MHD_add_response_header(response, "Content-Type", "application/json");
        MHD_add_response_header(response, "Location", location);
        MHD_add_response_header(response, "Preference-Applied", "respond-async");
    }
    respond(request, 202, response, length);
}

void compute_job_submit(struct request *request)
{
    struct job_view view;
    struct compute_job *job = NULL;
    if (job_answer(request->job)->payload == NULL && reserve(request) != GEMMD_OK)
        goto refuse;
    job = malloc(sizeof *job);
    if (job == NULL) {
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a job");
        goto refuse;
    }
    *job = (struct compute_job){
        .daemon = request->daemon,
        .job = request->job,
        .task.cancel = cancel,
        .times = {.started_ns = request->started_ns, .received_ns = request->received_ns},
        .ended.act = finish,
    };
    compute_call_move(&job->call, &request->call);
    request->job = NULL;

    struct work *work = &job->call.work;
    work->started = work_started;
    work->done = work_done;
    work->queued_ns = clock_now_ns();
    job_accept(job->job, &job->task, work->queued_ns, &view);
    queue_push(request->daemon->queue, work); /* the job may be done, and gone, at once */
    answer_accepted(request, &view);
    return;

refuse:
    respond_fault(request, &request->fault);
}
