/* GET /livez and /readyz. */
#include <string.h>

#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/endpoints.h"
#include "server/http/respond.h"

/* How long a readiness check may wait for the device. */
enum { PROBE_WAIT_MS = 100 };

static void livez(struct request *request)
{
    static const char text[] = "{\"live\":true}\n";
    respond_static(request, 200, "application/json", text, sizeof text - 1);
}

static void not_ready(struct request *request, const char *reason)
{
    fault_set(&request->fault, GEMMD_ERR_DEVICE_LOST, NULL, "not ready: %s", reason);
    respond_fault(request, &request->fault);
}

static void readyz_answer(struct request *request)
{
    static const char text[] = "{\"ready\":true}\n";
    if (request->ready.right)
        respond_static(request, 200, "application/json", text, sizeof text - 1);
    else
        not_ready(request, request->ready.reason);
}

static void probe_done(struct probe_wait *wait)
{
    request_wake((struct request *)((char *)wait - offsetof(struct request, ready)));
}

static void readyz(struct request *request)
{
    struct daemon *daemon = request->daemon;
    if (request->state != REQUEST_BODILESS) { /* what would it be kept in while the probe runs? */
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL, "this path takes no body");
        request_refuse(request);
        return;
    }
    if (atomic_load(&daemon->stage) != DAEMON_SERVING) {
        fault_set(&request->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
        respond_fault(request, &request->fault);
        return;
    }
    connection_enter(request->connection, CONNECTION_WORKING, clock_now_ns());
    request->ready.done = probe_done;
    request_hand_over(request); /* before asking: the answer may be there at once */
    if (dispatch_probe(daemon->dispatch, &request->ready, PROBE_WAIT_MS))
        request_wake(request);
}

const struct endpoint endpoint_livez = {
    .path = "/livez", .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .open = true, .begin = livez};
const struct endpoint endpoint_readyz = {.path = "/readyz",
                                         .allow = "GET, HEAD",
                                         .op = METRICS_OP_OTHER,
                                         .open = true,
                                         .begin = readyz,
                                         .answer = readyz_answer};
