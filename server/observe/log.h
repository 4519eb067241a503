/*
 * log.h - the log: one line for each event on standard output, as JSON or text.
 *
 * Lines are written whole. The format is set once, before threads start. A thread of the
 * log writes the lines. Standard output that is full, closed or not read therefore never blocks
 * another thread and never stops the daemon: lines are lost and counted, and a later line of the
 * log says how many. SIGPIPE must be ignored. Any thread.
 *
 * Every request has a line. So that a line costs no system call and no lock, each thread that logs
 * requests collects its lines in a buffer. The buffer is handed to the writing thread when it is
 * full, when it holds a line of level warning or higher, or when it is due. Lines of different
 * threads may therefore be out of order by LOG_DELAY_MS. The time in a line is the time of the
 * event.
 */
#ifndef SERVER_OBSERVE_LOG_H
#define SERVER_OBSERVE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "server/config/config.h"

struct log;
/* NULL: there is no memory, thread or descriptor for the log. CONFIG_LOG_AUTO becomes text if
 * standard output is a terminal now, and JSON otherwise. */
struct log *log_create(enum config_log_level level, enum config_log_format format);
/* Sets the lowest level that is logged from now on. */
void log_set_level(struct log *log, enum config_log_level level);
/* Waits until the lines so far are written, but LOG_FLUSH_MS at most. */
void log_sync(struct log *log);
/* Writes the lines so far as log_sync does, and frees the log. The log's thread is left behind if a
 * write still blocks it, and frees the log if the write ever ends. NULL is allowed. */
void log_destroy(struct log *log);

/* Writes a line: {"time":"...Z","level":"info","message":"..."}. Quotes, control characters and
 * bytes that are not UTF-8 are escaped, in the text format too. */
void log_event(struct log *log, enum config_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The status in the log of a request whose client disconnected before the answer. No answer has
 * this status. */
enum { LOG_STATUS_LEFT = 499 };
enum { LOG_SIZES_MAX = 8 };

/* One request as it is answered, or one job as it ends. Strings are borrowed, and may come from the
 * client; a string that is NULL is left out. If `op` is NULL, dtype, kernel, shape and stages are
 * left out. m, n, k and batch are the sizes of a product, or sizes of another operation in their
 * place; further sizes of another operation are in `sizes`. A line with a status of 500 or higher
 * has level warning, any other line level info. Times are logged in milliseconds. */
struct log_access {
    const char *message; /* NULL: "request" */
    const char *request_id, *peer, *client, *method, *path, *op, *dtype, *kernel, *error;
    const char *tenant;             /* the owner of the request or job */
    const char *reason;             /* why there is no result */
    const char *job;                /* the id of the job */
    const char *trace_id, *span_id; /* "": left out */
    int status;                     /* 0: left out */
    uint64_t m, n, k, batch, request_bytes, response_bytes;
    struct log_size {
        const char *name; /* static; NULL: the list ends here */
        uint64_t value;
    } sizes[LOG_SIZES_MAX];
    uint32_t shared; /* requests in the launch */
    bool copies;     /* without `op`: a device copied the request's bytes */
    uint64_t receive_ns, queue_ns, h2d_ns, kernel_ns, d2h_ns, send_ns, total_ns; /* durations */
    /* When the request, the queue, the device and the sending began, on the monotonic clock; for
     * spans (otlp.h). 0: not known. */
    uint64_t started_ns, queued_ns, device_ns, sending_ns;
};

/* A pipe takes 4096 bytes (PIPE_BUF) whole. */
enum { LOG_BUFFER_BYTES = 4096, LOG_DELAY_MS = 50, LOG_FLUSH_MS = 1000 };

/* The lines of one thread that are not handed over yet. Zeroed: empty. The owner flushes the buffer
 * when it is due and before the thread ends. */
struct log_buffer {
    uint32_t length, lines;
    uint64_t since_ns; /* when the first line was added */
    char text[LOG_BUFFER_BYTES];
};
/* Adds a line to a buffer. `now_ns` is the time on the monotonic clock. Without a buffer (NULL) the
 * line is handed over at once. */
void log_access(struct log *log, struct log_buffer *buffer, const struct log_access *entry,
                uint64_t now_ns);
/* When the buffer is due; UINT64_MAX: the buffer is empty. */
static inline uint64_t log_buffer_due_ns(const struct log_buffer *buffer)
{
    return buffer->length == 0 ? UINT64_MAX : buffer->since_ns + LOG_DELAY_MS * UINT64_C(1000000);
}
void log_flush(struct log *log, struct log_buffer *buffer);

/* Whether the log's thread has looked for lines since the last call, or is writing. A write that
 * blocks, because nobody reads the output, must not end the daemon. Wakes the thread for the next
 * call. */
bool log_alive(struct log *log);
/* Number of lines that were lost. */
uint64_t log_dropped(const struct log *log);

#endif
