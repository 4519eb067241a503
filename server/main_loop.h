/*
 * main_loop.h - the main thread's event loop: accepts connections, handles signals and timers,
 * drains, and notices the loss of the device.
 *
 * SIGTERM and SIGINT begin a drain. During --drain-delay /readyz reports that the daemon is
 * not ready, but connections are still accepted. Then the listening sockets are closed, and
 * accepted requests and jobs are finished within --drain-timeout. A second signal skips both waits.
 * The loss of the device begins a drain without the delay. The listening sockets stay open then,
 * and the daemon replaces itself by executing its program again (device_restarts.h), so that
 * clients see a delay. If the device was lost too often, the sockets are closed and the process
 * ends.
 *
 * SIGHUP reads the options and tokens again (reload.h). SIGUSR2 starts a new process that takes
 * over the listening sockets (net/handover.h). Once the new process is ready, this one serves the
 * connections that are open, closes each after its next answer, and ends. Connections that are idle
 * for all of --drain-timeout are closed then.
 *
 * All functions run on the main thread.
 */
#ifndef SERVER_MAIN_LOOP_H
#define SERVER_MAIN_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

struct device_restarts;
struct handover_socket;
struct main_loop;
struct reload;
struct services;

/* The parts that signals need; borrowed until main_loop_destroy. `argv` names the program that
 * SIGUSR2 starts. */
struct main_loop_signals {
    struct reload *reload;
    char *const *argv;
    const struct device_restarts *restarts;
};

/* Opens the listening sockets, and sets services->http->lingering. No connection is accepted before
 * main_loop_run. `services` is borrowed until main_loop_destroy. The caller owns `*loop`. */
enum gemmd_error main_loop_create(struct services *services,
                                  const struct main_loop_signals *signals, struct main_loop **loop,
                                  struct fault *fault);
/* Accepts connections, and returns when a drain has ended. */
void main_loop_run(struct main_loop *loop);
/* Whether the process is to execute its program again, with the listening sockets that are written
 * to `sockets`. Looks for signals that have arrived since main_loop_run: a signal that ends the
 * process has precedence. To be called after all threads have stopped. */
bool main_loop_restarts(struct main_loop *loop, struct handover_socket *sockets, uint32_t *count);
/* Frees the loop. To be called after the I/O threads have stopped. NULL is allowed. */
void main_loop_destroy(struct main_loop *loop);

#endif
