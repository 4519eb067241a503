/*
 * connection_memory.h - the memory that a client shares with its connection.
 *
 * A client on a Unix socket may begin its connection with an empty line that has a sealed memfd
 * with it (SCM_RIGHTS). It is mapped before libmicrohttpd sees the connection, and gone with it;
 * that of connections which bring the same memfd is one. On the connection's I/O thread.
 */
#ifndef SERVER_HTTP_CONNECTION_MEMORY_H
#define SERVER_HTTP_CONNECTION_MEMORY_H

#include <stdbool.h>

struct connection;

/* Bytes may have come on a new connection: takes an empty line in front of them, and what came with
 * it. True if that is being mapped: connection->arrival, whose `act` the caller has set, is posted
 * to the I/O thread when connection->memory has the memory or the reason why there is none. */
bool connection_memory_take(struct connection *connection);
/* The connection ends. */
void connection_memory_close(struct connection *connection);

#endif
