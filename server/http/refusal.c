#include "server/http/refusal.h"

#include <inttypes.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/guard.h"
#include "server/http/last_socket.h"
#include "server/http/request.h"
#include "server/http/request_record.h"

static enum gemmd_error code_of(unsigned status)
{
    switch (status) {
    case MHD_HTTP_CONTENT_TOO_LARGE:
        return GEMMD_ERR_TOO_LARGE;
    case MHD_HTTP_URI_TOO_LONG:
        return GEMMD_ERR_URI_TOO_LONG;
    case MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE:
        return GEMMD_ERR_HEADERS_TOO_LARGE;
    case MHD_HTTP_INTERNAL_SERVER_ERROR:
        return GEMMD_ERR_INTERNAL;
    case MHD_HTTP_NOT_IMPLEMENTED:
        return GEMMD_ERR_NOT_IMPLEMENTED;
    case MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED:
        return GEMMD_ERR_HTTP_VERSION;
    default:
        return GEMMD_ERR_MALFORMED;
    }
}

/* In a request line, when `request` is NULL, or in the headers. */
static const char *wrong_in_head(const struct request *request)
{
    if (request == NULL)
        return "the request line is malformed; it is a method, a path and HTTP/1.1, with one space "
               "between each";
    if (MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) != NULL &&
        request_header(request, "Host") == NULL)
        return "a request of HTTP/1.1 needs a Host header";
    return "a header is malformed; each is a name, a colon and a value on a line of its own";
}

static void explain(struct fault *fault, enum gemmd_error code, const struct connection *connection)
{
    const struct request *request = connection->request;
    const struct config *config = &connection->thread->daemon->config;
    bool in_body = request != NULL && request->state != REQUEST_HEADERS;
    uint64_t buffer_bytes =
        connection->bulk ? config->bulk_buffer_bytes : config->connection_buffer_bytes;

    if (code == GEMMD_ERR_URI_TOO_LONG)
        fault_set(fault, code, NULL,
                  "the request line does not fit in the connection's buffer of %" PRIu64 " bytes",
                  buffer_bytes);
    else if (code == GEMMD_ERR_HEADERS_TOO_LARGE)
        fault_set(fault, code, NULL,
                  "the headers do not fit in the connection's buffer of %" PRIu64 " bytes",
                  buffer_bytes);
    else if (code == GEMMD_ERR_HTTP_VERSION)
        fault_set(fault, code, NULL, "the versions that are spoken are HTTP/1.1 and HTTP/1.0");
    else if (code == GEMMD_ERR_TOO_LARGE)
        fault_set(fault, code, NULL, "the line before a chunk, or the size it says, is too large");
    else if (code != GEMMD_ERR_MALFORMED)
        fault_set(fault, code, NULL, "the request could not be read");
    else if (in_body)
        fault_set(fault, code, NULL,
                  "the chunked body is malformed; each chunk is its size in hexadecimal, CRLF, its "
                  "bytes, CRLF");
    else
        fault_set(fault, code, NULL, "%s", wrong_in_head(request));
}

static struct connection *find(const struct io_thread *thread, int fd)
{
    struct connection *connection = thread->connections;
    while (connection != NULL && connection->fd != fd)
        connection = connection->next;
    return connection;
}

static bool is_reading(const struct connection *connection)
{
    return connection->phase == CONNECTION_IDLE || connection->phase == CONNECTION_HEADERS ||
           connection->phase == CONNECTION_BODY;
}

/* What the guard would have said, had it been asked first, is more exact. */
static bool guard_refuses(struct request *request)
{
    return request->state == REQUEST_HEADERS &&
           MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) != NULL &&
           guard_headers(request) != GEMMD_OK;
}

/* libmicrohttpd ends the request next, which records it. */
static void refuse_request(struct request *request, enum gemmd_error code)
{
    struct connection *connection = request->connection;
    bool known = request->fault.code != GEMMD_OK || guard_refuses(request);
    if (!known)
        explain(&request->fault, code, connection);
    const char *id = connection_request_id(connection, request->id);
    request->response_bytes = connection_send_fault(connection->fd, &request->fault, id);
    request->sending_ns = clock_now_ns();
    request->state = REQUEST_ANSWERED;
    connection->ended_by = request->fault.code;
}

/* libmicrohttpd did not announce it, and will not. */
static void refuse_line(struct connection *connection, const struct fault *fault)
{
    struct io_thread *thread = connection->thread;
    struct request request = {
        .daemon = thread->daemon,
        .thread = thread,
        .connection = connection,
        .started_ns = clock_now_ns(),
        .fault = *fault,
    };
    connection_request_id(connection, request.id);
    request.status = error_status(request.fault.code);
    request.response_bytes = connection_send_fault(connection->fd, &request.fault, request.id);
    request_record(&request, true, clock_now_ns());
}

void refusal_log(void *cls, const char *format, va_list arguments)
{
    static const char announcement[] = "Error processing request (HTTP response code is %u";
    struct io_thread *thread = cls;
    if (strncmp(format, announcement, sizeof announcement - 1) != 0)
        return;
    enum gemmd_error code = code_of(va_arg(arguments, unsigned));
    struct connection *connection = find(thread, last_socket());
    if (connection == NULL || !is_reading(connection))
        return;
    struct fault fault;
    if (connection->request != NULL) {
        refuse_request(connection->request, code);
    } else {
        explain(&fault, code, connection);
        refuse_line(connection, &fault);
    }
    connection_enter(connection, CONNECTION_SENDING, clock_now_ns());
    connection->linger = true;
    shutdown(connection->fd, SHUT_WR);
}

void refusal_not_http(struct connection *connection, char first)
{
    static const char handshake = 0x16; /* RFC 8446, 5.1: a record's first byte */
    struct fault fault;
    if (first == handshake)
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL,
                  "this is TLS; the daemon speaks HTTP in the clear, behind a proxy where TLS is "
                  "wanted");
    else
        explain(&fault, GEMMD_ERR_MALFORMED, connection);
    refuse_line(connection, &fault);
}
