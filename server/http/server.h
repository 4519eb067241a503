/*
 * server.h - the HTTP server: its I/O threads, its limits on connections, and its endpoints.
 *
 * The server does not know what endpoints do. The creator of a server hands it a table of endpoints
 * and an opaque pointer to the data that the endpoints use (`services`).
 *
 * The main thread starts and stops the server, and accepts connections for it. All functions run on
 * the main thread, unless their comment says otherwise.
 */
#ifndef SERVER_HTTP_SERVER_H
#define SERVER_HTTP_SERVER_H

#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/http/server_state.h"

/* Computes from the options how many I/O threads there will be (`thread_count`). */
void http_server_plan(struct http_server *server, const struct config *config);
/* Allocates the memory that accepting connections needs, and finds out how libmicrohttpd parses
 * requests, with the errors of guard_parser_find. Nothing is served yet. */
enum gemmd_error http_server_open(struct http_server *server, struct fault *fault);
/* Starts the I/O threads. After a failure http_server_stop and http_server_close still have to be
 * called. */
enum gemmd_error http_server_start(struct http_server *server, struct fault *fault);

/* Takes over an accepted, non-blocking socket. The socket is handed to the I/O thread with the
 * fewest connections. If --max-connections or --max-connections-per-address is reached, the
 * connection is refused with 429 and closed; with TLS it is closed without an answer. */
void http_server_take(struct http_server *server, int fd, const struct sockaddr *peer,
                      socklen_t peer_length);
/* Makes each I/O thread check the time limits of its connections. To be called a few times a
 * second. */
void http_server_check(struct http_server *server);

/* Returns the number of an I/O thread that has made no check since the last call; -1: there is
 * none. Makes each I/O thread check for the next call. */
int32_t http_server_stuck_thread(struct http_server *server);

/* The number of requests between their first line and the last byte of their answer. Any thread. */
uint32_t http_server_active_requests(const struct http_server *server);

/* Ends the I/O threads and all connections. Requests whose work is not done get 503. */
void http_server_stop(struct http_server *server);
/* Frees the memory of http_server_open and http_server_start. No work of a request may be running.
 */
void http_server_close(struct http_server *server);

#endif
