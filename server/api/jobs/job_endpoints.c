/* GET /jobs, GET and DELETE /jobs/{id}, GET /jobs/{id}/result. */
#include <stdlib.h>
#include <string.h>

#include "proto/number.h"
#include "server/api/counted_text.h"
#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/base/owner.h"
#include "server/http/respond.h"
#include "server/jobs/job_view.h"
#include "server/jobs/jobs.h"

/* The most jobs of one page of the list. */
enum { LIST_MAX = 1000 };

/* The state of a GET /jobs/{id}/result that waits for the job. */
struct result_call {
    struct request *request;
    struct job_waiter waiter;
};

static bool refuse_parameter(void *context, const char *name, const char *value)
{
    struct request *request = context;
    (void)value;
    fault_set(&request->fault, GEMMD_ERR_MALFORMED, name, "this path takes no parameters");
    return false;
}

/* The headers of an answer that describes jobs. */
static void describing_headers(struct headers *headers)
{
    headers_clear(headers);
    headers_add(headers, "Content-Type", "application/json");
    headers_add(headers, "Cache-Control", "no-store");
}

static void job_answer_view(struct request *request, const struct job_view *view)
{
    char text[JOB_VIEW_TEXT_MAX];
    const uint64_t length = job_view_json(view, text);
    struct headers headers;
    describing_headers(&headers);
    respond_copy(request, 200, &headers, text, length);
}

static void job_begin(struct request *request)
{
    struct jobs *jobs = services_of(request)->jobs;
    struct job_view view;
    uint64_t now_ns = clock_now_ns();
    enum gemmd_error code = request_parameters(request, refuse_parameter, request);
    if (code == GEMMD_OK && strcmp(request->method, "DELETE") == 0)
        code = jobs_delete(jobs, request->name, request->tenant, now_ns, &view, &request->fault);
    else if (code == GEMMD_OK)
        code =
            jobs_find(jobs, request->name, request->tenant, now_ns, &view, NULL, &request->fault);
    if (code == GEMMD_OK)
        job_answer_view(request, &view);
    else
        request_refuse(request);
}

/* The parameters of /jobs. */
struct list_request {
    struct request *request;
    uint64_t before, limit;
    bool has_before, has_limit;
};

static bool job_list_take_parameter(void *context, const char *name, const char *value)
{
    struct list_request *list = context;
    struct fault *fault = &list->request->fault;
    if (strcmp(name, "after") == 0 && !list->has_before) {
        list->has_before = true;
        if (!number_u64(value, &list->before) || list->before == 0)
            fault_set(fault, GEMMD_ERR_MALFORMED, name,
                      "after is '%.64s'; it must be the value of next in a list of jobs", value);
    } else if (strcmp(name, "limit") == 0 && !list->has_limit) {
        list->has_limit = true;
        if (!number_u64(value, &list->limit) || list->limit < 1 || list->limit > LIST_MAX)
            fault_set(fault, GEMMD_ERR_MALFORMED, name,
                      "limit is '%.64s'; it must be a whole number from 1 to %d", value, LIST_MAX);
    } else {
        fault_set(fault, GEMMD_ERR_MALFORMED, name,
                  "'%.32s' is not a parameter of /jobs, or given twice; the parameters are after "
                  "and limit",
                  name);
    }
    return fault->code == GEMMD_OK;
}

static void job_list_begin(struct request *request)
{
    struct list_request list = {.request = request, .before = UINT64_MAX, .limit = LIST_MAX};
    struct headers headers;
    char *text = NULL;
    uint64_t next;
    if (request_parameters(request, job_list_take_parameter, &list) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    struct job_view *views = malloc(list.limit * sizeof *views);
    if (views != NULL) {
        const uint32_t count =
            jobs_list(services_of(request)->jobs, request->tenant, request->tenant_number,
                      list.before, clock_now_ns(), views, (uint32_t)list.limit, &next);
        /* Without tokens all clients are one tenant. Only the client that made a job may know the
         * job's id, so that the list leaves the ids out. */
        text = job_view_page(views, count, next, request->server->tokens != NULL);
    }
    free(views);
    if (text == NULL) {
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the list of jobs");
        request_refuse(request);
        return;
    }
    describing_headers(&headers);
    respond_counted_text(request, &headers, text);
}

/* The parameter wait_ms. */
struct wait {
    struct request *request;
    bool given;
    uint64_t ms;
};

static bool take_wait(void *context, const char *name, const char *value)
{
    struct wait *wait = context;
    struct fault *fault = &wait->request->fault;
    if (strcmp(name, "wait_ms") != 0)
        fault_set(fault, GEMMD_ERR_MALFORMED, name, "the only parameter here is wait_ms");
    else if (wait->given)
        fault_set(fault, GEMMD_ERR_MALFORMED, name, "wait_ms is given twice");
    else if (!number_u64(value, &wait->ms))
        fault_set(fault, GEMMD_ERR_MALFORMED, name,
                  "wait_ms must be a whole number of "
                  "milliseconds");
    wait->given = true;
    return fault->code == GEMMD_OK;
}

/* Reads how long the client wants to wait, with --max-wait as the limit. */
static enum gemmd_error read_wait(struct request *request, uint64_t *ms)
{
    const uint64_t limit_ms = request->config->max_wait_ms;
    struct wait wait = {.request = request};
    (void)request_parameters(request, take_wait, &wait);
    struct preferences preferences = request_preferences(request);
    if (!wait.given && preferences.has_wait)
        wait.ms = preferences.wait_s < limit_ms ? preferences.wait_s * 1000 : limit_ms;
    *ms = wait.ms < limit_ms ? wait.ms : limit_ms;
    return request->fault.code;
}

static void result_sent(void *answer)
{
    job_answer_release(answer);
}

/* Sends a job's answer, and takes over the caller's reference to the answer. */
static void job_answer_send(struct request *request, struct job_answer *answer)
{
    if (answer->fault.code != GEMMD_OK) {
        respond_fault(request, &answer->fault);
        job_answer_release(answer);
        return;
    }
    const struct payload payload = {.parts = {{answer->payload, (size_t)answer->bytes}},
                                    .count = 1,
                                    .sent = result_sent,
                                    .context = answer};
    respond(request, answer->status, &answer->headers, &payload);
}

/* Answers with the job's result, or with the reason why there is none. Called at once, or when the
 * wait is over. */
static void result_answer(struct request *request)
{
    struct fault *fault = &request->fault;
    struct job_view view;
    struct job_answer *answer;
    if (jobs_find(services_of(request)->jobs, request->name, request->tenant, clock_now_ns(), &view,
                  &answer, fault) == GEMMD_OK) {
        if (answer != NULL) {
            job_answer_send(request, answer);
            return;
        }
        if (view.state == JOB_CANCELLED)
            fault_set(fault, GEMMD_ERR_GONE, NULL, "the job was cancelled");
        else if (atomic_load(&request->server->stage) == HTTP_CLOSING)
            fault_set(fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
        else
            fault_set(fault, GEMMD_ERR_CONFLICT, NULL, "the job is %s; its result is not there yet",
                      job_state_name(view.state));
        if (fault->code == GEMMD_ERR_CONFLICT)
            request->retry_after_s = jobs_result_wait_s(services_of(request)->jobs, request->name);
    }
    respond_fault(request, fault);
}

static void wait_over(struct job_waiter *waiter)
{
    const struct result_call *call = OWNER_OF(waiter, struct result_call, waiter);
    request_wake(call->request);
}

static void result_begin(struct request *request)
{
    struct result_call *call = request->call;
    uint64_t wait_ms;
    if (read_wait(request, &wait_ms) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    /* A request with a body is answered at its headers, because nothing would read the body. */
    if (wait_ms == 0 || request_has_body(request) || !request_is_connected(request)) {
        result_answer(request);
        return;
    }
    call->request = request;
    call->waiter.wake = wait_over;
    call->waiter.until_ns = clock_now_ns() + wait_ms * 1000000u;
    request_hand_over(request); /* before jobs_wait, because the wait may be over at once */
    if (!jobs_wait(services_of(request)->jobs, request->name, request->tenant, &call->waiter))
        request_wake(request);
}

/* Ends the wait of a client that has disconnected, or when the daemon stops. */
static bool result_withdraw(struct request *request)
{
    struct result_call *call = request->call;
    return jobs_unwait(services_of(request)->jobs, &call->waiter);
}

const struct endpoint job_endpoints[] = {
    {.path = "/jobs",
     .allow = "GET, HEAD",
     .op = METRICS_OP_OTHER,
     .scope = SCOPE_COMPUTE,
     .begin = job_list_begin},
    {.path = "/jobs/{id}",
     .allow = "GET, HEAD, DELETE",
     .op = METRICS_OP_OTHER,
     .scope = SCOPE_COMPUTE,
     .begin = job_begin},
    {.path = "/jobs/{id}/result",
     .allow = "GET, HEAD",
     .op = METRICS_OP_OTHER,
     .scope = SCOPE_COMPUTE,
     .call_bytes = sizeof(struct result_call),
     .call_zeroed_bytes = sizeof(struct result_call),
     .begin = result_begin,
     .withdraw = result_withdraw,
     .answer = result_answer},
    {0},
};
