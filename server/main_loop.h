/*
 * main_loop.h - what the main thread does while the daemon serves: it accepts connections, follows
 * signals and timers, drains, and notices that the device is lost.
 *
 * SIGTERM, SIGINT and SIGHUP begin a drain: /readyz says "not ready" but connections are still
 * accepted for --drain-delay; then the listening sockets are closed, and what was accepted is
 * finished within --drain-timeout. A second signal skips both waits. The loss of the device begins
 * a drain without the delay.
 */
#ifndef SERVER_MAIN_LOOP_H
#define SERVER_MAIN_LOOP_H

#include "proto/error.h"

struct main_loop;
struct services;

/* Opens the listening sockets, and sets services->http->lingering. Nothing is accepted before
 * main_loop_run. `services` is borrowed. */
enum gemmd_error main_loop_create(struct services *services, struct main_loop **loop,
                                  struct fault *fault);
/* Serves until a drain has ended. */
void main_loop_run(struct main_loop *loop);
/* To be called after the I/O threads have stopped. NULL is allowed. */
void main_loop_destroy(struct main_loop *loop);

#endif
