#include "server/http/respond.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/tensors/tensor_call.h"
#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/payload.h"

void respond(struct request *request, int status, struct MHD_Response *response, uint64_t length)
{
    request->status = status;
    request->response_bytes = length;
    request->sending_ns = clock_now_ns();
    /* Answered at the headers with a body on its way: libmicrohttpd will close. */
    if (request->state == REQUEST_HEADERS)
        request->connection->linger = true;
    request->state = REQUEST_ANSWERED;
    if (response == NULL) {
        /* No memory even for an answer: close, so that the client sees a failure. */
        connection_enter(request->connection, CONNECTION_SENDING, request->sending_ns);
        shutdown(request->connection->fd, SHUT_RDWR);
        return;
    }
    MHD_add_response_header(response, "X-Request-Id", request->id);
    if (atomic_load(&request->daemon->stage) == DAEMON_CLOSING)
        MHD_add_response_header(response, "Connection", "close");
    connection_enter(request->connection, CONNECTION_SENDING, request->sending_ns);
    MHD_queue_response(request->mhd, (unsigned)status, response);
    MHD_destroy_response(response);
}

void respond_text(struct request *request, int status, const char *content_type, char *text,
                  uint64_t length)
{
    const struct payload payload = {{{text, (size_t)length}}, 1, free, text};
    struct MHD_Response *response = payload_response(request, &payload);
    if (response == NULL)
        free(text);
    else
        MHD_add_response_header(response, "Content-Type", content_type);
    respond(request, status, response, length);
}

void respond_static(struct request *request, int status, const char *content_type, const char *text,
                    uint64_t length)
{
    const struct payload payload = {{{text, (size_t)length}}, 1, NULL, NULL};
    struct MHD_Response *response = payload_response(request, &payload);
    if (response != NULL)
        MHD_add_response_header(response, "Content-Type", content_type);
    respond(request, status, response, length);
}

/* How long the same request would have to wait, as far as that can be told: one second for what is
 * over when another daemon takes this one's place. */
static uint32_t retry_after_s(const struct request *request, enum gemmd_error code)
{
    struct admission *places = queue_admission(request->daemon->queue);
    uint64_t bytes =
        request->tensor == NULL ? request->call.queue_bytes : request->tensor->queue_bytes;
    if (request->retry_after_s > 0)
        return request->retry_after_s;
    if (code == GEMMD_ERR_QUEUE_FULL)
        return admission_wait_s(places, request->tenant_number, bytes);
    if (code == GEMMD_ERR_OUT_OF_MEMORY)
        return admission_drain_s(places, bytes);
    return 1;
}

void respond_fault(struct request *request, const struct fault *fault)
{
    char text[2048];
    uint64_t length = fault_to_json(fault, text, sizeof text);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_COPY);
    if (response != NULL) {
        MHD_add_response_header(response, "Content-Type", "application/problem+json");
        if (error_retriable(fault->code) &&
            (error_status(fault->code) >= 429 || fault->code == GEMMD_ERR_CONFLICT)) {
            char seconds[16];
            snprintf(seconds, sizeof seconds, "%" PRIu32, retry_after_s(request, fault->code));
            MHD_add_response_header(response, "Retry-After", seconds);
        }
        if (fault->code == GEMMD_ERR_UNAUTHORIZED)
            MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
        if (fault->code == GEMMD_ERR_MEDIA_TYPE && request->refuses_coding)
            MHD_add_response_header(response, "Accept-Encoding", CODING_NAMES);
        if (fault->code == GEMMD_ERR_METHOD_NOT_ALLOWED && request->endpoint != NULL)
            MHD_add_response_header(response, "Allow", request->endpoint->allow);
    }
    if (fault != &request->fault)
        request->fault = *fault;
    respond(request, error_status(fault->code), response, length);
}
