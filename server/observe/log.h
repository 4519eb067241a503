/*
 * log.h - one line an event on standard output, JSON or text.
 *
 * Lines are written whole; any thread. The level and format are set once, before threads start.
 * Standard output that is full or closed never blocks or stops serving: lines are dropped and
 * counted. SIGPIPE must be ignored.
 *
 * Every request has its line, at any rate. So that a line costs no system call and no lock, each
 * thread that logs requests gathers its lines in a buffer, which is written when it is full, when a
 * line of level warning or more is in it, or when it is due. Lines of several threads may therefore
 * be out of order by LOG_DELAY_MS; their times are those of the events.
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
 * the product's dtype, kernel, shape and stages are left out; an attention's shape is that of
 * Q*K^T: sq, skv and d. Status 500 and more is level warning, the rest info. Times are logged in
 * milliseconds. */
struct log_access {
    const char *request_id, *peer, *method, *path, *op, *dtype, *kernel,
        *error; /* NULL: left out */
    int status;
    uint64_t m, n, k, batch, request_bytes, response_bytes;
    uint32_t shared; /* requests in the launch */
    uint64_t receive_ns, queue_ns, h2d_ns, kernel_ns, d2h_ns, send_ns, total_ns; /* durations */
};

enum { LOG_BUFFER_BYTES = 4096, LOG_DELAY_MS = 50 }; /* PIPE_BUF: a pipe takes it whole */

/* One thread's lines that are not written yet. Zeroed at first; flushed by its owner in time and at
 * the end. */
struct log_buffer {
    uint32_t length, lines;
    uint64_t since_ns; /* when the first line was added */
    char text[LOG_BUFFER_BYTES];
};
/* Adds a line. `now_ns` is the monotonic clock. */
void log_access(struct log *log, struct log_buffer *buffer, const struct log_access *entry,
                uint64_t now_ns);
/* How long until the buffer is due, in milliseconds; -1 if it is empty. */
int log_buffer_due_ms(const struct log_buffer *buffer, uint64_t now_ns);
void log_flush(struct log *log, struct log_buffer *buffer);

uint64_t log_dropped(const struct log *log); /* lines that could not be written */

#endif
