/*
 * Lines are written to standard output without waiting for its reader. O_NONBLOCK is not set,
 * because it belongs to the open file, which the daemon shares with the process that started it.
 * Instead, poll(2) is called first for a pipe, socket or terminal: if it is writable, it takes
 * PIPE_BUF bytes without blocking. The lock keeps two threads from both relying on the same room.
 *
 * The log has a descriptor of its own. If standard output were closed, its number would be given to
 * the next connection, to which the log would then be sent.
 */
#include "server/observe/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/observe/log_line.h"

enum { MESSAGE_BUDGET = 3500, MESSAGE_MAX = 4096 };

struct log {
    enum config_log_level level;
    enum config_log_format format;
    int output; /* a descriptor; -1: the log is not written */
    bool waits; /* the output is not a regular file, so that a write may wait for a reader */
    pthread_mutex_t lock;
    _Atomic uint64_t dropped;
};

struct log *log_create(enum config_log_level level, enum config_log_format format)
{
    struct log *log = calloc(1, sizeof(*log));
    if (!log)
        return NULL;
    struct stat status;
    log->level = level;
    log->format = format;
    log->output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    log->waits = fstat(log->output, &status) != 0 || !S_ISREG(status.st_mode);
    pthread_mutex_init(&log->lock, NULL);
    return log;
}

void log_destroy(struct log *log)
{
    if (!log)
        return;
    if (log->output >= 0)
        close(log->output);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

static bool write_now(const struct log *log, const char *text, size_t length)
{
    struct pollfd output = {.fd = log->output, .events = POLLOUT};
    if (log->waits && (poll(&output, 1, 0) != 1 || !(output.revents & POLLOUT)))
        return false;
    ssize_t written;
    do
        written = write(log->output, text, length);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)length;
}

static void write_lines(struct log *log, const char *text, size_t length, uint32_t lines)
{
    pthread_mutex_lock(&log->lock);
    bool written = write_now(log, text, length);
    pthread_mutex_unlock(&log->lock);
    if (!written)
        atomic_fetch_add_explicit(&log->dropped, lines, memory_order_relaxed);
}

static void end_line(struct log_line *line)
{
    if (line->length == LOG_LINE_MAX)
        line->length--;
    line->text[line->length++] = '\n';
}

void log_event(struct log *log, enum config_log_level level, const char *format, ...)
{
    if (level < log->level)
        return;
    char message[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);

    struct log_line line;
    log_line_begin(&line, log->format, level);
    if (log->format == CONFIG_LOG_JSON)
        log_line_add(&line, "\"message\":\"");
    log_line_escape(&line, message, MESSAGE_BUDGET);
    if (log->format == CONFIG_LOG_JSON)
        log_line_add(&line, "\"}");
    end_line(&line);
    write_lines(log, line.text, line.length, 1);
}

void log_flush(struct log *log, struct log_buffer *buffer)
{
    if (buffer->length > 0)
        write_lines(log, buffer->text, buffer->length, buffer->lines);
    buffer->length = buffer->lines = 0;
}

int log_buffer_due_ms(const struct log_buffer *buffer, uint64_t now_ns)
{
    if (buffer->length == 0)
        return -1;
    uint64_t waited_ms = (now_ns - buffer->since_ns) / 1000000;
    return waited_ms >= LOG_DELAY_MS ? 0 : (int)(LOG_DELAY_MS - waited_ms);
}

void log_access(struct log *log, struct log_buffer *buffer, const struct log_access *entry,
                uint64_t now_ns)
{
    enum config_log_level level = entry->status >= 500 ? CONFIG_LOG_WARNING : CONFIG_LOG_INFO;
    if (level < log->level)
        return;
    struct log_line line;
    log_line_access(&line, log->format, level, entry);
    end_line(&line);
    if (line.length > LOG_BUFFER_BYTES - buffer->length)
        log_flush(log, buffer);
    if (buffer->length == 0)
        buffer->since_ns = now_ns;
    memcpy(buffer->text + buffer->length, line.text, line.length);
    buffer->length += (uint32_t)line.length;
    buffer->lines++;
    if (level >= CONFIG_LOG_WARNING)
        log_flush(log, buffer);
}

uint64_t log_dropped(const struct log *log)
{
    return atomic_load_explicit(&log->dropped, memory_order_relaxed);
}
