/*
 * acceptor.h - the main thread's loop: takes connections in and hands each to the least loaded
 * I/O thread; signals, timers and the drain.
 */
#ifndef SERVER_NET_ACCEPTOR_H
#define SERVER_NET_ACCEPTOR_H

#include "proto/error.h"

struct acceptor;
struct daemon;

/* Opens the listening sockets (inherited ones, else the configured addresses). Nothing is accepted
 * before acceptor_run. */
enum gemmd_error acceptor_create(struct daemon *daemon, struct acceptor **acceptor,
                                 struct fault *fault);
/* Accepts until a signal ends the daemon and everything accepted has been answered (or the
 * drain timeout passed). */
void acceptor_run(struct acceptor *acceptor);
/* After the I/O threads have stopped. */
void acceptor_destroy(struct acceptor *acceptor);

#endif
