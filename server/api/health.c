/* GET /livez and /readyz, and their paths in the Open Inference Protocol (/v2/health/...). */
#include <string.h>

#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/http/respond.h"

/* How long a readiness check may wait for the device. */
enum { PROBE_WAIT_MS = 100 };

struct readyz_call {
    struct request *request;
    struct probe_wait probe;
};

static void livez_begin(struct request *request)
{
    static const char text[] = "{\"live\":true}\n";
    respond_static(request, 200, "application/json", text, sizeof text - 1);
}

static void readyz_answer(struct request *request)
{
    static const char text[] = "{\"ready\":true}\n";
    const struct readyz_call *call = request->call;
    if (call->probe.right) {
        respond_static(request, 200, "application/json", text, sizeof text - 1);
        return;
    }
    fault_set(&request->fault, GEMMD_ERR_DEVICE_LOST, NULL, "not ready: %s", call->probe.reason);
    respond_fault(request, &request->fault);
}

static void probe_done(struct probe_wait *wait)
{
    const struct readyz_call *call =
        (struct readyz_call *)((char *)wait - offsetof(struct readyz_call, probe));
    request_wake(call->request);
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
    call->request = request;
    call->probe.done = probe_done;
    request_hand_over(request); /* before dispatch_probe, whose result may come at once */
    if (dispatch_probe(services_of(request)->dispatch, &call->probe, PROBE_WAIT_MS))
        request_wake(request);
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

const struct endpoint health_endpoints[] = {
    LIVE("/livez"), READY("/readyz"), LIVE("/v2/health/live"), READY("/v2/health/ready"), {0},
};
