/*
 * checks.h - an I/O thread's open connections, and the checks of their time limits.
 *
 * A check goes through the connections a few times a second, some in each iteration of the thread's
 * loop: a connection whose phase has lasted too long is ended, and so is one whose client has
 * disconnected unnoticed (connection.h). A connection that a check finds between two requests is
 * parked: the checks leave it alone until it has been parked for some seconds or a request arrives.
 * So 10,000 idle connections, each of which is in memory that was not used for long, do not delay
 * the requests of others.
 *
 * Only the I/O thread uses its checks.
 */
#ifndef SERVER_HTTP_CHECKS_H
#define SERVER_HTTP_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;
struct http_server;

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

/* Begins a check, unless the one before is still in progress. */
void checks_begin(struct checks *checks, const struct http_server *server, uint64_t now_ns);
/* Checks the next connections. To be called in each iteration of the loop until checks_in_progress
 * returns false. */
void checks_go_on(struct checks *checks, const struct http_server *server, uint64_t now_ns);
static inline bool checks_in_progress(const struct checks *checks)
{
    return checks->next != NULL;
}

#endif
