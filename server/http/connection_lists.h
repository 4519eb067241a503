/*
 * connection_lists.h - an I/O thread's open connections, in two lists: those that every check looks
 * at, and those that are parked (checks.h).
 *
 * Only the I/O thread uses its lists.
 */
#ifndef SERVER_HTTP_CONNECTION_LISTS_H
#define SERVER_HTTP_CONNECTION_LISTS_H

#include <stdint.h>

struct connection;

struct connection_list {
    struct connection *first, *last;
};

/* Zeroed: no connections. A connection is in one of the lists. */
struct checks {
    struct connection_list watched; /* every check looks at these */
    struct connection_list parked;  /* between requests; ordered by next_look_ns */
    struct connection *next;        /* in `watched`, of the check in progress; NULL: no check */
    uint64_t parking_ns; /* how long connections are parked; changes with the configuration */
};

/* Adds a new connection. */
void checks_add(struct checks *checks, struct connection *connection);
void checks_remove(struct checks *checks, struct connection *connection);
/* Any of the connections; NULL: there is none. */
struct connection *checks_any(const struct checks *checks);
/* Ends the parking of a connection that enters another phase. */
void checks_unpark(struct checks *checks, struct connection *connection);
/* Parks a connection that is between two requests. `until_ns` must not be earlier than that of any
 * connection parked before. */
void checks_park(struct checks *checks, struct connection *connection, uint64_t until_ns);

#endif
