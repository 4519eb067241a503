#include "server/http/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/http/io_thread.h"
#include "server/http/request_parts.h"
#include "server/http/tls.h"
#include "server/net/peer_user.h"

void connection_watch(struct connection *connection)
{
    list_remove(&connection->in_checks);
    connection->next_look_ns = 0;
    list_append(&connection->thread->checks.watched, &connection->in_checks);
}

bool connection_enter(struct connection *connection, enum connection_phase phase, uint64_t now_ns)
{
    if (connection_is_ended(connection))
        return false;
    if (connection->in_checks.list == &connection->thread->checks.parked)
        connection_watch(connection);
    connection->phase = phase;
    connection->since_ns = now_ns;
    connection->moved_bytes = 0;
    connection->sending.begun = false;
    connection->paused_ns = 0;
    connection->next_look_ns = 0;
    return true;
}

void connection_pause_sending(struct connection *connection, uint64_t now_ns)
{
    if (connection->phase != CONNECTION_SENDING)
        return;
    connection->phase = CONNECTION_WORKING;
    connection->paused_ns = now_ns;
}

void connection_go_on_sending(struct connection *connection, uint64_t now_ns)
{
    if (connection->phase != CONNECTION_WORKING || connection->paused_ns == 0)
        return;
    connection->phase = CONNECTION_SENDING;
    connection->since_ns += now_ns - connection->paused_ns;
    connection->paused_ns = 0;
}

enum { HEAD_MAX = 512, BODY_MAX = FAULT_JSON_BYTES };

/* Writes a whole answer for `fault`. Returns the length of the answer, and sets `*body_bytes` to
 * the length of its body. */
static size_t write_fault(char out[HEAD_MAX + BODY_MAX], const struct fault *fault,
                          const char *request_id, uint64_t *body_bytes)
{
    char body[BODY_MAX];
    *body_bytes = fault_to_json(fault, request_id, body, sizeof body);
    const int head_bytes =
        snprintf(out, HEAD_MAX,
                 "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\n"
                 "Content-Length: %" PRIu64 "\r\nX-Request-Id: %s\r\n%s"
                 "Connection: close\r\n\r\n",
                 error_status(fault->code), error_title(fault->code), *body_bytes, request_id,
                 error_retriable(fault->code) ? "Retry-After: 1\r\n" : "");
    memcpy(out + head_bytes, body, (size_t)*body_bytes);
    return (size_t)head_bytes + (size_t)*body_bytes;
}

uint64_t connection_send_fault(int fd, const struct fault *fault, const char *request_id)
{
    char answer[HEAD_MAX + BODY_MAX];
    uint64_t body_bytes;
    const size_t length = write_fault(answer, fault, request_id, &body_bytes);
    /* The answer may be lost: a client that has stopped sending may have stopped reading too. */
    (void)send(fd, answer, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return body_bytes;
}

uint64_t connection_answer_fault(struct connection *connection, const struct fault *fault,
                                 const char *request_id)
{
    char answer[HEAD_MAX + BODY_MAX];
    uint64_t body_bytes;
    if (connection->session == NULL)
        return connection_send_fault(connection->fd, fault, request_id);
    if (!connection->encrypted)
        return 0;
    const size_t length = write_fault(answer, fault, request_id, &body_bytes);
    tls_send(connection, answer, length);
    return body_bytes;
}

const char *connection_request_id(struct connection *connection, char scratch[REQUEST_ID_MAX + 1])
{
    struct request *request = connection->request;
    if (request == NULL) {
        request_id_choose(scratch, NULL, &connection->thread->id_state);
        return scratch;
    }
    if (request->id[0] == '\0')
        request_choose_id(request);
    return request->id;
}

bool connection_has_ended(const struct connection *connection)
{
    char byte;
    if (read_ahead_has_bytes(&connection->ahead))
        return false;
    ssize_t got = recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

bool connection_user(struct connection *connection, uid_t *user)
{
    if (connection->user_state == USER_NOT_ASKED)
        connection->user_state =
            peer_user(connection->fd, &connection->user) ? USER_KNOWN : USER_UNKNOWN;
    *user = connection->user;
    return connection->user_state == USER_KNOWN;
}

void connection_abandon(struct connection *connection)
{
    connection->phase = CONNECTION_GONE;
    shutdown(connection->fd, SHUT_RDWR);
}

void connection_refuse_parameters(struct connection *connection)
{
    struct request *request = connection->request;
    struct fault fault;
    /* libmicrohttpd has dropped the headers, so the client's X-Request-Id is not known. */
    if (request->id[0] == '\0')
        request_id_choose(request->id, NULL, &connection->thread->id_state);
    fault_set(&fault, GEMMD_ERR_HEADERS_TOO_LARGE, NULL,
              "the parameters do not fit in the connection's buffer");
    connection->ended_by = fault.code;
    connection_answer_fault(connection, &fault, request->id);
}
