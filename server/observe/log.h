/*
 * log.h - one line an event on standard output, JSON or text.
 *
 * Lines are written whole with one write(2), 4096 bytes at most; any thread. The level and format
 * are set once, before threads start. Standard output that is full or closed never blocks or stops
 * serving: lines are dropped and counted. SIGPIPE must be ignored.
 */
#ifndef SERVER_OBSERVE_LOG_H
#define SERVER_OBSERVE_LOG_H

#include <stdint.h>

#include "server/config/config.h"

struct log;
struct log *log_create(enum config_log_level level,
                       enum config_log_format format); /* NULL: out of memory */
void log_destroy(struct log *log);

/* {"time":"...Z","level":"info","message":"..."}; quotes, control characters and what is not UTF-8
 * are escaped, in the text format too. */
void log_event(struct log *log, enum config_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One request, as it is answered. Strings are borrowed and may come from the client. Without `op`
 * the product's dtype, kernel, shape and stages are left out. Status 500 and more is level warning,
 * the rest info. Times are logged in milliseconds. */
struct log_access {
    const char *request_id, *peer, *method, *path, *op, *dtype, *kernel,
        *error; /* NULL: left out */
    int status;
    uint64_t m, n, k, batch, request_bytes, response_bytes;
    uint32_t shared; /* requests in the launch */
    uint64_t receive_ns, queue_ns, h2d_ns, kernel_ns, d2h_ns, send_ns, total_ns; /* durations */
};
void log_access(struct log *log, const struct log_access *entry);

uint64_t log_dropped(const struct log *log); /* lines that could not be written */

#endif
