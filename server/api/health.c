/* GET /livez, /healthz and /readyz, and their paths in the Open Inference Protocol
 * (/v2/health/...). */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/http/respond.h"

/* How long a readiness check may wait for the device: half of the second that Kubernetes waits for
 * an answer by default. The dispatch thread of a busy host can be late by more than 100 ms,
 * although the device computes. */
enum { PROBE_WAIT_MS = 500 };

struct readyz_call {
    struct request *request;
    atomic_uint unanswered; /* probes without an answer, and one more until all are started */
    struct probe_wait probes[DEVICES_MAX];
};

static void livez_begin(struct request *request)
{
    static const char text[] = "{\"live\":true}\n";
    respond_static(request, 200, "application/json", text, sizeof text - 1);
}

/* The daemon is ready if any of its devices computes. */
static void readyz_answer(struct request *request)
{
    static const char ready_text[] = "{\"ready\":true}\n";
    const struct executors *executors = &services_of(request)->executors;
    const struct readyz_call *call = request->call;
    const struct probe_wait *wrong = NULL;
    char text[PROBE_REASON_MAX + 128];
    uint32_t right = 0;
    for (uint32_t i = 0; i < executors->count; i++) {
        right += call->probes[i].right;
        if (!call->probes[i].right && wrong == NULL)
            wrong = &call->probes[i];
    }
    if (wrong == NULL) {
        respond_static(request, 200, "application/json", ready_text, sizeof ready_text - 1);
        return;
    }
    if (right == 0) {
        fault_set(&request->fault, GEMMD_ERR_DEVICE_LOST, NULL, "not ready: %s", wrong->reason);
        respond_fault(request, &request->fault);
        return;
    }
    const int length = snprintf(text, sizeof text,
                                "{\"ready\":true,\"degraded\":true,\"devices\":%" PRIu32
                                ",\"devices_ready\":%" PRIu32 "}\n",
                                executors->count, right);
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "application/json");
    respond_copy(request, 200, &headers, text, (uint64_t)length);
}

static void probe_answered(struct readyz_call *call)
{
    if (atomic_fetch_sub(&call->unanswered, 1) == 1)
        request_wake(call->request);
}

static void probe_done(struct probe_wait *wait)
{
    probe_answered(wait->context);
}

static void readyz_begin(struct request *request)
{
    struct readyz_call *call = request->call;
    /* A body is refused, because nothing reads a body while the probe runs. */
    if (request_has_body(request)) {
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL, "this path takes no body");
        request_refuse(request);
        return;
    }
    const enum http_stage stage = atomic_load(&request->server->stage);
    if (stage == HTTP_DRAINING || stage == HTTP_CLOSING) {
        fault_set(&request->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
        respond_fault(request, &request->fault);
        return;
    }
    const struct executors *executors = &services_of(request)->executors;
    call->request = request;
    atomic_store(&call->unanswered, executors->count + 1);
    request_hand_over(request); /* before dispatch_probe, whose result may come at once */
    for (uint32_t i = 0; i < executors->count; i++) {
        struct probe_wait *probe = &call->probes[i];
        probe->done = probe_done;
        probe->context = call;
        if (dispatch_probe(executors->list[i].dispatch, probe, PROBE_WAIT_MS))
            probe_answered(call);
    }
    probe_answered(call);
}

/* Refuses /health and /ping, and names the paths to use instead: some servers report at such a path
 * that they run, others that they can serve. */
static void health_elsewhere_begin(struct request *request)
{
    fault_set(&request->fault, GEMMD_ERR_NOT_FOUND, NULL,
              "there is nothing at this path; GET /livez says whether the daemon runs, and "
              "GET /readyz whether it computes");
    request_refuse(request);
}

#define LIVE(at)                                                                                   \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .open = true,                    \
        .begin = livez_begin                                                                       \
    }
#define READY(at)                                                                                  \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .open = true,                    \
        .call_bytes = sizeof(struct readyz_call), .call_zeroed_bytes = sizeof(struct readyz_call), \
        .begin = readyz_begin, .answer = readyz_answer                                             \
    }
#define ELSEWHERE(at)                                                                              \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .open = true, .unlisted = true,  \
        .begin = health_elsewhere_begin                                                            \
    }

const struct endpoint health_endpoints[] = {
    LIVE("/livez"),
    LIVE("/healthz"),
    READY("/readyz"),
    LIVE("/v2/health/live"),
    READY("/v2/health/ready"),
    ELSEWHERE("/health"),
    ELSEWHERE("/ping"),
    {0},
};
