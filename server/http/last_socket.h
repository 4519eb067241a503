/*
 * last_socket.h - which socket this thread used last.
 *
 * libmicrohttpd says in its log that it refuses a request, but not whose (see refusal.h). It acts
 * on a connection right after it has read from it or written to it, and it does both by the C
 * library's recv and send, whose names this program takes over, as an allocator takes over malloc.
 * They do what they always did, and note the descriptor.
 */
#ifndef SERVER_HTTP_LAST_SOCKET_H
#define SERVER_HTTP_LAST_SOCKET_H

/* The descriptor of this thread's last recv, send or last_socket_set; -1 before the first. */
int last_socket(void);
/* For what is done with a socket by other means. */
void last_socket_set(int fd);

#endif
