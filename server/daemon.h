/*
 * daemon.h - what the daemon is made of: starts its parts in order and stops them in reverse.
 *
 * The daemon owns all parts; everybody else borrows them. All functions run on the main thread.
 */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include <stdbool.h>

#include "server/api/services.h"
#include "server/config/config.h"
#include "server/http/server.h"

struct host_memory;
struct main_loop;
struct tokens;

/* Zeroed, but for `config` and `log`, before daemon_start. */
struct daemon {
    struct config config;
    struct log *log;
    struct tokens *tokens; /* NULL: requests need no token */
    struct host_memory *host_memory;
    struct services services;
    struct http_server http;
    struct main_loop *loop;
};

/* Takes memory, opens the device and starts the threads as `daemon->config` says. After a failure
 * daemon_stop gives back what was taken. */
enum gemmd_error daemon_start(struct daemon *daemon, struct fault *fault);
/* Serves until a signal or the loss of the device has ended the daemon (main_loop.h). Returns false
 * if the device was lost. */
bool daemon_run(struct daemon *daemon);
/* Stops and frees all parts that were started. False if the device still computes something that
 * nothing can stop, such as a long product on the CPU after --drain-timeout: all requests are
 * answered then, but threads and memory are left, and the process has to end with _exit. */
bool daemon_stop(struct daemon *daemon);

#endif
