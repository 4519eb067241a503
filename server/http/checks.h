/*
 * checks.h - the checks of the time limits of an I/O thread's open connections.
 *
 * libmicrohttpd times out only connections that are silent. A client that sends one byte a second
 * would keep its connection forever. So a check goes through the connections a few times a second,
 * some in each iteration of the thread's loop, and ends connections whose phase (connection.h) has
 * lasted too long. A check also ends connections whose client has disconnected: libmicrohttpd's
 * epoll is edge-triggered, and does not report a disconnection that arrived together with the last
 * bytes. A connection that a check finds between two requests is parked: the checks skip it until
 * it has been parked for some seconds or a request arrives. Without parking, each check would read
 * the memory of every idle connection, and 10,000 idle connections would delay the requests of
 * other connections.
 *
 * A request that is late gets 408 or 504 before its connection is ended. Only the I/O thread uses
 * its checks.
 */
#ifndef SERVER_HTTP_CHECKS_H
#define SERVER_HTTP_CHECKS_H

#include <stdint.h>

#include "server/base/list.h"

struct config;
struct connection;
struct http_server;

/* Zeroed: no connections. A connection is in one of the lists. */
struct checks {
    struct list watched;    /* every check looks at these */
    struct list parked;     /* between requests; ordered by next_look_ns */
    struct list_item *next; /* in `watched`, of the check in progress; NULL: no check */
    uint64_t parking_ns;    /* how long connections are parked; changes with the configuration */
};

/* Takes a connection, which connection_watch has added, out of the lists. */
void checks_remove(struct checks *checks, struct connection *connection);
/* Begins a check, unless the one before is still in progress. */
void checks_begin(struct checks *checks, const struct http_server *server,
                  const struct config *config, uint64_t now_ns);
/* Checks the next connections. To be called in each iteration of the loop while `next` is not NULL.
 */
void checks_go_on(struct checks *checks, const struct http_server *server, uint64_t now_ns);

#endif
