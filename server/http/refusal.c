#include "server/http/refusal.h"

#include "server/base/clock.h"
#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/http/request.h"
#include "server/http/request_record.h"
#include "server/http/server_state.h"
#include "server/http/tls.h"

void refusal_not_http(struct connection *connection, char first)
{
    struct io_thread *thread = connection->thread;
    struct request request = {
        .server = thread->server,
        .config = &thread->options.newest->config,
        .thread = thread,
        .connection = connection,
        .tenant = "", /* no token has been read */
        .started_ns = clock_now_ns(),
    };
    if (tls_serves_peer(thread->server->tls, (const struct sockaddr *)&connection->peer_address))
        fault_set(&request.fault, GEMMD_ERR_MALFORMED, NULL,
                  "this address speaks TLS; use a URL that begins with https://");
    else if (first == TLS_HANDSHAKE_RECORD)
        fault_set(&request.fault, GEMMD_ERR_MALFORMED, NULL,
                  "this is TLS, and this address speaks HTTP in the clear; use a URL that begins "
                  "with http://");
    else
        fault_set(&request.fault, GEMMD_ERR_MALFORMED, NULL,
                  "the request line is malformed; it is a method, a path and HTTP/1.1, with one "
                  "space between each");
    connection_request_id(connection, request.id);
    request.status = error_status(request.fault.code);
    request.response_bytes = connection_send_fault(connection->fd, &request.fault, request.id);
    request_record(&request, true, clock_now_ns());
}
