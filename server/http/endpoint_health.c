/* GET /livez and /readyz. */
#include <string.h>

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

static void readyz(struct request *request)
{
    static const char text[] = "{\"ready\":true}\n";
    struct daemon *daemon = request->daemon;
    char reason[160];
    struct fault fault;
    if (atomic_load(&daemon->stage) != DAEMON_SERVING) {
        fault_set(&fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    } else if (!dispatch_probe(daemon->dispatch, PROBE_WAIT_MS, reason, sizeof reason)) {
        fault_set(&fault, GEMMD_ERR_DEVICE_LOST, NULL, "not ready: %s", reason);
    } else {
        respond_static(request, 200, "application/json", text, sizeof text - 1);
        return;
    }
    respond_fault(request, &fault);
}

const struct endpoint endpoint_livez = {
    .path = "/livez", .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .open = true, .begin = livez};
const struct endpoint endpoint_readyz = {
    .path = "/readyz", .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .open = true, .begin = readyz};
