#include "server/http/checks.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/socket.h>

#include "server/config/config.h"
#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/http/request.h"
#include "server/http/server.h"

/* The most connections that are checked, and the most that are ended, in one iteration of the loop.
 */
enum { AT_A_TIME = 32, ENDED_AT_A_TIME = 2 };
/* The most connections that one check takes out of `parked`, so that 10,000 connections that were
 * parked at the same time are not checked at the same time. */
enum { UNPARKED_AT_A_TIME = 512 };
/* The longest time for which a connection is parked. */
static const uint64_t PARKED_MAX_NS = 8000000000u, NS_PER_MS = 1000000u;
/* Parts of --idle-timeout: a connection is ended at most one part late. */
enum { PARTS_OF_TIMEOUT = 8 };

static struct connection *connection_of(struct list_item *item)
{
    return OWNER_OF(item, struct connection, in_checks);
}

void checks_remove(struct checks *checks, struct connection *connection)
{
    if (checks->next == &connection->in_checks)
        checks->next = connection->in_checks.next;
    list_remove(&connection->in_checks);
}

/* ---- time limits ---- */

/* --min-body-rate and --min-answer-rate apply only after a body has been received, or an answer has
 * been sent, for this long. */
static const uint64_t RATE_GRACE_NS = 5000000000u;
/* How long an answer of libmicrohttpd to an incomplete request may take. */
static const uint64_t STUCK_MS = 100;
/* How soon a check looks again whether a client has disconnected. */
static const uint64_t LOOK_INTERVAL_NS = 1000000000u;

static bool is_over(uint64_t since_ns, uint64_t limit_ms, uint64_t now_ns)
{
    return limit_ms != 0 && now_ns > since_ns && now_ns - since_ns > limit_ms * NS_PER_MS;
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
        delivery_begin(&connection->sending, connection->fd);
    delivery_look(&connection->sending, connection->fd);
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

/* Ends a connection whose phase has lasted too long. A request that is late gets 408 or 504 first.
 * The socket is shut down; libmicrohttpd then closes the connection. */
static void end_if_late(struct connection *connection, const struct http_server *server,
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

/* ---- parking ---- */

/* Parks a connection that is between two requests. */
static void park(struct checks *checks, struct connection *connection, uint64_t now_ns)
{
    checks_remove(checks, connection);
    connection->next_look_ns = now_ns + checks->parking_ns;
    list_append(&checks->parked, &connection->in_checks);
}

/* How long connections are parked: all for the same time, so that the list is ordered. */
static uint64_t parking_ns(const struct config *config)
{
    const uint64_t part_ns = config->idle_timeout_ms * NS_PER_MS / PARTS_OF_TIMEOUT;
    return part_ns == 0 || part_ns > PARKED_MAX_NS ? PARKED_MAX_NS : part_ns;
}

/* Takes those connections out of `parked` that were parked for long enough: all of them if the
 * server closes, which ends idle connections, or if --idle-timeout became shorter. */
static void unpark_due(struct checks *checks, const struct http_server *server,
                       const struct config *config, uint64_t now_ns)
{
    const uint64_t before_ns = checks->parking_ns;
    struct list_item *item;
    checks->parking_ns = parking_ns(config);
    const bool all = atomic_load(&server->stage) == HTTP_CLOSING || checks->parking_ns < before_ns;
    for (int i = 0; (item = checks->parked.first) != NULL; i++) {
        if (!all && (i == UNPARKED_AT_A_TIME || now_ns < connection_of(item)->next_look_ns))
            return;
        connection_watch(connection_of(item));
    }
}

/* ---- a check ---- */

void checks_begin(struct checks *checks, const struct http_server *server,
                  const struct config *config, uint64_t now_ns)
{
    if (checks->next != NULL)
        return;
    unpark_due(checks, server, config, now_ns);
    checks->next = checks->watched.first;
}

/* Whether it is time to look whether the client has disconnected in the middle of a request or
 * between requests. If so, the next look is due a second later, or in the next phase.
 *
 * A look is due in the first check of each phase, because the client may have disconnected together
 * with the bytes that began the phase. In a check, no complete request is pending: libmicrohttpd
 * has processed all bytes that it has read. */
static bool look_is_due(struct connection *connection, uint64_t now_ns)
{
    const enum connection_phase phase = connection->phase;
    if ((phase != CONNECTION_HEADERS && phase != CONNECTION_BODY && phase != CONNECTION_IDLE) ||
        now_ns < connection->next_look_ns)
        return false;
    connection->next_look_ns = now_ns + LOOK_INTERVAL_NS;
    return true;
}

/* Takes the next connections of the check, and asks the system in one call which of their clients
 * have disconnected, as far as a look is due. Returns the number of connections that were taken. */
static int take_some(struct checks *checks, struct connection *taken[AT_A_TIME],
                     struct pollfd ends[AT_A_TIME], uint64_t now_ns)
{
    int count = 0, looks = 0;
    for (; count < AT_A_TIME && checks->next != NULL; count++) {
        struct connection *connection = connection_of(checks->next);
        const bool look = look_is_due(connection, now_ns);
        checks->next = checks->next->next;
        taken[count] = connection;
        ends[count] = (struct pollfd){.fd = look ? connection->fd : -1, .events = POLLRDHUP};
        looks += look;
    }
    if (looks > 0) /* a poll that fails leaves every `revents` 0 */
        (void)poll(ends, (nfds_t)count, 0);
    return count;
}

/* Lets the check continue with connections that were taken. */
static void put_back(struct checks *checks, struct connection *const *taken, int count)
{
    checks->next = &taken[0]->in_checks;
    for (int i = 0; i < count; i++)
        taken[i]->next_look_ns = 0;
}

void checks_go_on(struct checks *checks, const struct http_server *server, uint64_t now_ns)
{
    struct connection *taken[AT_A_TIME];
    struct pollfd ends[AT_A_TIME];
    const int count = take_some(checks, taken, ends, now_ns);
    for (int i = 0, ended = 0; i < count; i++) {
        if (ended == ENDED_AT_A_TIME) {
            put_back(checks, taken + i, count - i);
            return;
        }
        const bool was_ended = connection_is_ended(taken[i]);
        /* A client may also end its side of the connection behind bytes that were not read yet. */
        if (ends[i].revents != 0 && connection_has_ended(taken[i]))
            connection_abandon(taken[i]);
        end_if_late(taken[i], server, now_ns);
        ended += !was_ended && connection_is_ended(taken[i]);
        if (taken[i]->phase == CONNECTION_IDLE)
            park(checks, taken[i], now_ns);
    }
}
