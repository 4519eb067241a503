#include "server/http/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/http/io_thread.h"
#include "server/http/request_parts.h"
#include "server/http/server.h"
#include "server/http/tls.h"
#include "server/net/peer_user.h"

/* --min-body-rate and --min-answer-rate apply only after a body has been received, or an answer has
 * been sent, for this long. */
static const uint64_t RATE_GRACE_NS = 5000000000u;
static const uint64_t NS_PER_MS = 1000000u;
/* How long an answer of libmicrohttpd to an incomplete request may take. */
static const uint64_t STUCK_MS = 100;
/* How soon a check looks again whether a client has disconnected. */
static const uint64_t LOOK_INTERVAL_NS = 1000000000u;

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
    connection->sending.changed_ns += now_ns - connection->paused_ns;
    connection->paused_ns = 0;
}

static bool is_over(uint64_t since_ns, uint64_t limit_ms, uint64_t now_ns)
{
    return limit_ms != 0 && now_ns > since_ns && now_ns - since_ns > limit_ms * NS_PER_MS;
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

/* A look is due in the first check of each phase, because the client may have disconnected together
 * with the bytes that began the phase. In a check, no complete request is pending: libmicrohttpd
 * has processed all bytes that it has read. */
bool connection_look_is_due(struct connection *connection, uint64_t now_ns)
{
    const enum connection_phase phase = connection->phase;
    if ((phase != CONNECTION_HEADERS && phase != CONNECTION_BODY && phase != CONNECTION_IDLE) ||
        now_ns < connection->next_look_ns)
        return false;
    connection->next_look_ns = now_ns + LOOK_INTERVAL_NS;
    return true;
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

/* When --body-timeout has passed since the phase began. */
static uint64_t timeout_ns(const struct connection *connection, const struct config *config)
{
    return connection->since_ns + config->body_timeout_ms * NS_PER_MS;
}

/* Whether a body that has been received for RATE_GRACE_NS arrives so slowly that it may not go on.
 */
static bool is_slow_body(const struct connection *connection, const struct config *config,
                         uint64_t now_ns, struct fault *fault)
{
    const uint64_t since_ns = connection->since_ns, moved = connection->moved_bytes;
    const struct request *request = connection->request;
    uint64_t until_ns = timeout_ns(connection, config);
    if (delivery_is_below(moved, since_ns, now_ns, config->min_body_rate)) {
        fault_set(fault, GEMMD_ERR_SLOW_CLIENT, NULL,
                  "the body arrived at less than %" PRIu64 " bytes a second",
                  config->min_body_rate);
        return true;
    }
    if (connection->deadline_ns != 0 && connection->deadline_ns < until_ns)
        until_ns = connection->deadline_ns;
    if (config->min_body_rate == 0 || request == NULL || request->chunked ||
        !delivery_misses(request->content_length, moved, since_ns, now_ns, until_ns))
        return false;
    fault_set(fault, GEMMD_ERR_SLOW_CLIENT, NULL,
              "the body arrived so slowly that it would miss its deadline: %" PRIu64 " of %" PRIu64
              " bytes in %" PRIu64 " ms",
              moved, request->content_length, (now_ns - since_ns) / NS_PER_MS);
    return true;
}

/* Whether a client receives its answer so slowly that the answer may not go on. */
static bool is_slow_answer(struct connection *connection, const struct config *config,
                           uint64_t now_ns)
{
    if (config->min_answer_rate == 0)
        return false;
    if (!connection->sending.begun)
        delivery_begin(&connection->sending, connection->fd, now_ns);
    return now_ns > connection->since_ns + RATE_GRACE_NS &&
           delivery_is_slow(&connection->sending, connection->fd, connection->since_ns, now_ns,
                            config->min_answer_rate,
                            connection->request == NULL ? 0 : connection->request->response_bytes,
                            timeout_ns(connection, config));
}

/* Whether libmicrohttpd has answered the request before its headers were complete, because the
 * parameters of the query did not fit in the connection's buffer. libmicrohttpd 0.9 then waits for
 * headers that it has dropped. After any other refusal libmicrohttpd closes the connection as soon
 * as the client has taken the answer; the daemon must not send anything behind that answer. */
static bool is_stuck(const struct connection *connection)
{
    if (connection->request == NULL)
        return false;
    const union MHD_ConnectionInfo *answered =
        MHD_get_connection_info(connection->request->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    return answered != NULL && answered->http_status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
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

/* The functions is_late_... return whether a phase has lasted too long. `fault` is set if the
 * client gets an answer. */

static bool is_late_idle(const struct connection *connection, const struct http_server *server,
                         uint64_t now_ns)
{
    const bool closing = atomic_load(&server->stage) == HTTP_CLOSING;
    const struct config *config = &connection->thread->options.newest->config;
    return is_over(connection->since_ns, closing ? 1 : config->idle_timeout_ms, now_ns);
}

static bool is_late_head(struct connection *connection, const struct config *config,
                         uint64_t now_ns, struct fault *fault)
{
    if (is_stuck(connection) && is_over(connection->since_ns, STUCK_MS, now_ns)) {
        connection_refuse_parameters(connection); /* which answers */
        return true;
    }
    if (!is_over(connection->since_ns, config->header_timeout_ms, now_ns))
        return false;
    fault_set(fault, GEMMD_ERR_SLOW_CLIENT, NULL,
              "the headers did not arrive within %" PRIu32 " ms", config->header_timeout_ms);
    return true;
}

static bool is_late_body(const struct connection *connection, const struct config *config,
                         uint64_t now_ns, struct fault *fault)
{
    if (connection->deadline_ns != 0 && now_ns > connection->deadline_ns) {
        fault_set(fault, GEMMD_ERR_DEADLINE, NULL,
                  "the deadline passed while the body was arriving");
        return true;
    }
    if (is_over(connection->since_ns, config->body_timeout_ms, now_ns)) {
        fault_set(fault, GEMMD_ERR_SLOW_CLIENT, NULL,
                  "the body did not arrive within %" PRIu32 " ms", config->body_timeout_ms);
        return true;
    }
    return now_ns > connection->since_ns + RATE_GRACE_NS &&
           is_slow_body(connection, config, now_ns, fault);
}

/* Sets no fault: the answer has begun, so that no other answer can be sent. */
static bool is_late_answer(struct connection *connection, const struct config *config,
                           uint64_t now_ns)
{
    if (!is_over(connection->since_ns, config->body_timeout_ms, now_ns) &&
        !is_slow_answer(connection, config, now_ns))
        return false;
    connection->ended_by = GEMMD_ERR_SLOW_CLIENT;
    return true;
}

static bool is_late(struct connection *connection, const struct http_server *server,
                    uint64_t now_ns, struct fault *fault)
{
    const struct config *config = &connection->thread->options.newest->config;
    switch (connection->phase) {
    case CONNECTION_IDLE:
        return is_late_idle(connection, server, now_ns);
    case CONNECTION_HEADERS:
        return is_late_head(connection, config, now_ns, fault);
    case CONNECTION_BODY:
        return is_late_body(connection, config, now_ns, fault);
    case CONNECTION_SENDING:
        return is_late_answer(connection, config, now_ns);
    case CONNECTION_WORKING:   /* the deadline of the request ends its work (waiters.h) */
    case CONNECTION_STREAMING: /* streams_check ends streams */
    case CONNECTION_EXPIRED:
    case CONNECTION_GONE:
        return false;
    }
    return false;
}

void connection_check(struct connection *connection, const struct http_server *server,
                      uint64_t now_ns)
{
    struct fault fault = {.code = GEMMD_OK};
    if (!is_late(connection, server, now_ns, &fault))
        return;
    connection->phase = CONNECTION_EXPIRED;
    if (fault.code != GEMMD_OK) {
        char id[REQUEST_ID_MAX + 1];
        connection->ended_by = fault.code;
        connection_answer_fault(connection, &fault, connection_request_id(connection, id));
    }
    shutdown(connection->fd, SHUT_RDWR);
}
