/*
 * connection_memory.h - the memory that a client shares through its connection.
 *
 * A client on a Unix socket may begin its connection with an empty line that carries a sealed memfd
 * (SCM_RIGHTS). The memfd is mapped before libmicrohttpd is given the connection, and the mapping
 * is released when the connection ends. Connections that bring the same memfd share one mapping.
 *
 * All functions run on the connection's I/O thread.
 */
#ifndef SERVER_HTTP_CONNECTION_MEMORY_H
#define SERVER_HTTP_CONNECTION_MEMORY_H

struct connection;

enum connection_memory_taken {
    CONNECTION_MEMORY_NONE, /* there is nothing to wait for */
    /* The memfd is being mapped. connection->arrival, whose `act` the caller has set, is posted to
     * the I/O thread when connection->memory holds the mapping or the reason why there is none. */
    CONNECTION_MEMORY_AWAITED,
    CONNECTION_MEMORY_FAILED /* memory ran out; the caller has to close the connection */
};

/* Reads an empty line at the start of a new connection, if one has arrived, and takes the memfd
 * that the line carries. */
enum connection_memory_taken connection_memory_take(struct connection *connection);
/* Releases the mapping of a connection that ends. */
void connection_memory_close(struct connection *connection);

#endif
