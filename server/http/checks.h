/*
 * checks.h - the checks of the time limits of an I/O thread's open connections.
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

#include "server/http/connection_lists.h"

struct http_server;

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
