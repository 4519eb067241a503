/*
 * arrival.h - the way of a connection from the main thread to libmicrohttpd, and its end.
 *
 * The main thread hands an accepted connection to an I/O thread. The I/O thread waits for the first
 * bytes of the connection (new_connections.h). The first bytes decide what happens next: the I/O
 * thread refuses a connection that does not speak HTTP, maps the memory that a client shares
 * (connection_memory.h), moves a connection with a large body to a bulk thread, or gives the
 * connection to libmicrohttpd.
 *
 * All functions run on the I/O thread, unless their comment says otherwise.
 */
#ifndef SERVER_HTTP_ARRIVAL_H
#define SERVER_HTTP_ARRIVAL_H

#include <microhttpd.h>
#include <stdint.h>
#include <sys/socket.h>

struct connection;
struct io_thread;

/* Returns the I/O thread with the fewest connections, out of `count` threads. Among equals, the
 * first from threads[turn % count] on is chosen. Any thread. */
struct io_thread *arrival_choose_thread(struct io_thread *const *threads, uint32_t count,
                                        uint32_t turn);

/* Hands an accepted, non-blocking socket to the thread. Main thread. The I/O thread owns the socket
 * from then on; if memory runs out, the socket is closed. The caller has counted the connection in
 * server->connections and server->peers; the I/O thread uncounts it when the connection ends. */
void arrival_hand_over(struct io_thread *thread, int fd, const struct sockaddr *peer,
                       socklen_t peer_length);

/* Goes on with the connections whose first bytes have arrived. To be called in each iteration of
 * the thread's loop. */
void arrival_take_ready(struct io_thread *thread);

/* Callback of libmicrohttpd for the start and the end of a connection; `cls` is the io_thread. */
void arrival_on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                           enum MHD_ConnectionNotificationCode code);

/* Frees the connections that libmicrohttpd should have announced in its last run and did not:
 * libmicrohttpd has closed their sockets. To be called after each run of libmicrohttpd. */
void arrival_end_untaken(struct io_thread *thread);

/* Uncounts and frees a connection whose descriptor is closed, or is closed by the caller next. */
void arrival_end_connection(struct connection *connection);

#endif
