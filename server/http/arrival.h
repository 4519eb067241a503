/*
 * arrival.h - the way of a connection from the main thread to libmicrohttpd, and its end.
 *
 * The main thread hands an accepted connection to an I/O thread. The I/O thread waits for the first
 * bytes of the connection, which decide what happens next: the I/O thread refuses a connection that
 * does not speak HTTP, maps the memory that a client shares, moves a connection with a large body
 * to a bulk thread, or gives the connection to libmicrohttpd.
 *
 * The size of the first request on a connection decides which thread serves the connection, because
 * all connections of one libmicrohttpd daemon have buffers of one size. Large bodies need large
 * buffers (1 MiB) for fewer, larger reads. Small requests need small buffers, because libmicrohttpd
 * zeroes the whole buffer after each request. A connection that has sent nothing yet has no buffer.
 *
 * A client on a Unix socket may begin its connection with an empty line that carries a sealed memfd
 * (SCM_RIGHTS). The memfd is mapped before libmicrohttpd is given the connection, and the mapping
 * is released when the connection ends. Connections that bring the same memfd share one mapping.
 *
 * A request that libmicrohttpd is given and cannot parse gets libmicrohttpd's own answer, a short
 * page with status 400 or another fitting one, and its connection is closed.
 *
 * All functions run on the I/O thread, unless their comment says otherwise.
 */
#ifndef SERVER_HTTP_ARRIVAL_H
#define SERVER_HTTP_ARRIVAL_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct connection;
struct io_thread;

/* Returns the I/O thread with the fewest connections, out of `count` threads. Among equals, the
 * first from threads[turn % count] on is chosen. Any thread. */
struct io_thread *arrival_choose_thread(struct io_thread *const *threads, uint32_t count,
                                        uint32_t turn);

/* The connections of an I/O thread whose clients have not sent anything yet. */
struct arrivals {
    int epoll_fd; /* readable when one of the connections is readable */
    uint32_t count;
};

/* Returns false if the system gives no descriptor for the epoll instance. */
bool arrivals_open(struct arrivals *arrivals);
void arrivals_close(struct arrivals *arrivals);
/* Watches a connection until its client has sent something. Returns false if the system refuses to
 * watch the connection. */
bool arrivals_watch(struct arrivals *arrivals, struct connection *connection);
/* Takes out up to `capacity` connections whose client has sent something or disconnected. Returns
 * the number of connections in `ready`. Does not block. */
int arrivals_collect(struct arrivals *arrivals, struct connection *ready[], int capacity);

/* Whether `head`, which may be incomplete, can be the start of an HTTP request: empty lines, then a
 * method that is followed by a space. Pure. */
bool arrival_can_be_request(const char *head, uint64_t length);
/* The Content-Length of the request at the start of `head`, which may be incomplete. 0 if `head`
 * has no Content-Length that is a number. The value only chooses the thread; libmicrohttpd and
 * guard.h decide later what the request's length is. Pure. */
uint64_t arrival_announced_bytes(const char *head, uint64_t length);

/* Hands an accepted, non-blocking socket to the thread. Main thread. The I/O thread owns the socket
 * from then on; if memory runs out, the socket is closed. The caller has counted the connection in
 * server->connections and server->peers; the I/O thread uncounts it when the connection ends. */
void arrival_hand_over(struct io_thread *thread, int fd, const struct sockaddr *peer,
                       socklen_t peer_length);

/* Goes on with the connections whose first bytes have arrived. To be called in each iteration of
 * the thread's loop, while such connections are waited for. */
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
