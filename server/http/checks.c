#include "server/http/checks.h"

#include <poll.h>
#include <stddef.h>

#include "server/config/config.h"
#include "server/http/connection.h"
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

/* Takes the next connections of the check, and asks the system in one call which of their clients
 * have disconnected, as far as a look is due. Returns the number of connections that were taken. */
static int take_some(struct checks *checks, struct connection *taken[AT_A_TIME],
                     struct pollfd ends[AT_A_TIME], uint64_t now_ns)
{
    int count = 0, looks = 0;
    for (; count < AT_A_TIME && checks->next != NULL; count++) {
        struct connection *connection = connection_of(checks->next);
        const bool look = connection_look_is_due(connection, now_ns);
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
        connection_check(taken[i], server, now_ns);
        ended += !was_ended && connection_is_ended(taken[i]);
        if (taken[i]->phase == CONNECTION_IDLE)
            park(checks, taken[i], now_ns);
    }
}
