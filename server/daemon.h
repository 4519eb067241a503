/*
 * daemon.h - the daemon: owns all parts of the process, starts them in order and stops them.
 *
 * The daemon owns all parts; all other code borrows them. All functions run on the main thread.
 */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include <stdbool.h>

#include "server/api/services.h"
#include "server/config/config.h"
#include "server/device_restarts.h"
#include "server/http/server.h"
#include "server/http/tls.h"

struct host_memory;
struct main_loop;
struct reload;
struct tls;
struct tokens;

/* Zeroed before daemon_start, except `config`, `log`, `argc`, `argv` and
 * `services.revision`, which the caller sets and frees. */
struct daemon {
    struct config config; /* the options of the start */
    /* The options as they were read. daemon_start changes some limits in `config`, and a reload
     * compares the new options with these. The strings belong to `config`. */
    struct config given;
    struct config_in_force options; /* from `config` on; a reload replaces them */
    int argc;
    char *const *argv;
    struct log *log;
    struct tokens *tokens; /* NULL: requests need no token */
    struct tls *tls;       /* NULL: TCP connections are served without TLS */
    struct host_memory *host_memory;
    void *pinned; /* in `host_memory` */
    struct services services;
    struct http_server http;
    struct reload *reload;
    struct main_loop *loop;
    struct device_restarts restarts;
};

/* Finds out, for --check-config, whether daemon_start would fail because of a file that
 * `daemon->config` names (tokens, certificates, --otlp-header-file, --otlp-ca-file), because of the
 * URL of --otlp-endpoint, or because other hosts may reach an address and every request would be
 * accepted. Keeps nothing, and opens no socket. Writes a warning about files that can be used, or
 * an empty text. */
enum gemmd_error daemon_check(struct daemon *daemon, char warning[TLS_WARNING_MAX],
                              struct fault *fault);
/* Opens the listening sockets, allocates memory, opens the device and starts the threads, as
 * `daemon->config` says. After a failure, which `fault` describes, daemon_stop must be called to
 * stop and free the parts that were started. */
enum gemmd_error daemon_start(struct daemon *daemon, struct fault *fault);
/* Serves until a drain has ended, which a signal or the loss of the device begins (main_loop.h).
 * Returns false if the device was lost. */
bool daemon_run(struct daemon *daemon);
/* Stops and frees all parts that were started. If the daemon replaces itself after the loss of its
 * device, the function executes the program again and does not return. Returns false if the device
 * still computes work that cannot be stopped, such as a long product on the CPU after
 * --drain-timeout, or if the program could not be executed again. All requests have been answered
 * then, but threads may still run and use memory, and the process must end with _exit. */
bool daemon_stop(struct daemon *daemon);

#endif
