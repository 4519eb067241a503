/* GET and DELETE /jobs/{id}, GET /jobs/{id}/result. */
#include <stdlib.h>
#include <string.h>

#include "proto/number.h"
#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/endpoints.h"
#include "server/http/payload.h"
#include "server/http/respond.h"
#include "server/jobs/job_view.h"

static enum MHD_Result refuse_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                        const char *value)
{
    struct request *request = cls;
    (void)kind;
    (void)value;
    fault_set(&request->fault, GEMMD_ERR_MALFORMED, name, "this path takes no parameters");
    return MHD_NO;
}

static void answer_view(struct request *request, const struct job_view *view)
{
    char text[JOB_VIEW_TEXT_MAX];
    uint64_t length = job_view_json(view, text);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_COPY);
    if (response != NULL) {
        MHD_add_response_header(response, "Content-Type", "application/json");
        MHD_add_response_header(response, "Cache-Control", "no-store");
    }
    respond(request, 200, response, length);
}

static void job_begin(struct request *request)
{
    struct jobs *jobs = request->daemon->jobs;
    struct job_view view;
    uint64_t now_ns = clock_now_ns();
    MHD_get_connection_values(request->mhd, MHD_GET_ARGUMENT_KIND, refuse_parameter, request);
    enum gemmd_error code = request->fault.code;
    if (code == GEMMD_OK && strcmp(request->method, "DELETE") == 0)
        code = jobs_delete(jobs, request->name, request->tenant, now_ns, &view, &request->fault);
    else if (code == GEMMD_OK)
        code =
            jobs_find(jobs, request->name, request->tenant, now_ns, &view, NULL, &request->fault);
    if (code == GEMMD_OK)
        answer_view(request, &view);
    else
        request_refuse(request);
}

/* What ?wait_ms= says. */
struct wait {
    struct request *request;
    bool given;
    uint64_t ms;
};

static enum MHD_Result take_wait(void *cls, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct wait *wait = cls;
    struct fault *fault = &wait->request->fault;
    (void)kind;
    if (strcmp(name, "wait_ms") != 0)
        fault_set(fault, GEMMD_ERR_MALFORMED, name, "the only parameter here is wait_ms");
    else if (wait->given)
        fault_set(fault, GEMMD_ERR_MALFORMED, name, "wait_ms is given twice");
    else if (value == NULL || !number_u64(value, &wait->ms))
        fault_set(fault, GEMMD_ERR_MALFORMED, name,
                  "wait_ms must be a whole number of "
                  "milliseconds");
    wait->given = true;
    return fault->code == GEMMD_OK ? MHD_YES : MHD_NO;
}

/* How long the client is willing to wait, and may. */
static enum gemmd_error read_wait(struct request *request, uint64_t *ms)
{
    const uint64_t limit_ms = request->daemon->config.max_wait_ms;
    struct wait wait = {.request = request};
    MHD_get_connection_values(request->mhd, MHD_GET_ARGUMENT_KIND, take_wait, &wait);
    struct preferences preferences = request_preferences(request);
    if (!wait.given && preferences.has_wait)
        wait.ms = preferences.wait_s < limit_ms ? preferences.wait_s * 1000 : limit_ms;
    *ms = wait.ms < limit_ms ? wait.ms : limit_ms;
    return request->fault.code;
}

static void payload_sent(void *cls)
{
    job_answer_release(cls);
}

/* Takes over the reference. */
static void answer_result(struct request *request, struct job_answer *answer)
{
    if (answer->fault.code != GEMMD_OK) {
        respond_fault(request, &answer->fault);
        job_answer_release(answer);
        return;
    }
    const struct payload payload = {
        {{answer->payload, (size_t)answer->bytes}}, 1, payload_sent, answer};
    struct MHD_Response *response = payload_response(request, &payload);
    if (response == NULL) {
        job_answer_release(answer);
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
        respond_fault(request, &request->fault);
        return;
    }
    headers_apply(&answer->headers, response);
    respond(request, answer->status, response, answer->bytes);
}

/* At once, or when the wait is over. */
static void result_answer(struct request *request)
{
    struct fault *fault = &request->fault;
    struct job_view view;
    struct job_answer *answer;
    if (jobs_find(request->daemon->jobs, request->name, request->tenant, clock_now_ns(), &view,
                  &answer, fault) == GEMMD_OK) {
        if (answer != NULL) {
            answer_result(request, answer);
            return;
        }
        if (view.state == JOB_CANCELLED)
            fault_set(fault, GEMMD_ERR_GONE, NULL, "the job was cancelled");
        else if (atomic_load(&request->daemon->stage) == DAEMON_CLOSING)
            fault_set(fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
        else
            fault_set(fault, GEMMD_ERR_CONFLICT, NULL, "the job is %s; its result is not there yet",
                      job_state_name(view.state));
        if (fault->code == GEMMD_ERR_CONFLICT)
            request->retry_after_s = jobs_result_wait_s(request->daemon->jobs, request->name);
    }
    respond_fault(request, fault);
}

static void waited(struct job_waiter *waiter)
{
    request_wake((struct request *)((char *)waiter - offsetof(struct request, waiter)));
}

static void result_begin(struct request *request)
{
    uint64_t wait_ms, now_ns = clock_now_ns();
    if (read_wait(request, &wait_ms) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    /* A request with a body that nobody asked for has to be answered at the headers. */
    if (wait_ms == 0 || request->state != REQUEST_BODILESS ||
        !connection_enter(request->connection, CONNECTION_WORKING, now_ns)) {
        result_answer(request);
        return;
    }
    request->waiter.wake = waited;
    request->waiter.until_ns = now_ns + wait_ms * 1000000u;
    request_hand_over(request); /* before the wait: it may be over at once */
    if (!jobs_wait(request->daemon->jobs, request->name, request->tenant, &request->waiter))
        request_wake(request);
}

/* The client has left, or need not wait any longer. */
static bool result_withdraw(struct request *request)
{
    return jobs_unwait(request->daemon->jobs, &request->waiter);
}

const struct endpoint endpoint_job = {
    .path = "/jobs/{id}", .allow = "GET, HEAD, DELETE", .op = METRICS_OP_OTHER, .begin = job_begin};
const struct endpoint endpoint_job_result = {.path = "/jobs/{id}/result",
                                             .allow = "GET, HEAD",
                                             .op = METRICS_OP_OTHER,
                                             .begin = result_begin,
                                             .withdraw = result_withdraw,
                                             .answer = result_answer};
