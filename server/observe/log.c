/*
 * The log has a descriptor of its own. If standard output were closed, its number would be given to
 * the next connection, to which the log would then be sent.
 */
#include "server/observe/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/observe/log_line.h"
#include "server/observe/log_writer.h"

enum { MESSAGE_MAX = 4096 };

struct log {
    _Atomic enum config_log_level level;
    enum config_log_format format;
    struct log_writer *writer;
};

struct log *log_create(enum config_log_level level, enum config_log_format format)
{
    struct log *log = calloc(1, sizeof(*log));
    if (!log)
        return NULL;
    const int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (output < 0 && errno != EBADF)
        goto failed;
    if (format == CONFIG_LOG_AUTO)
        format = isatty(STDOUT_FILENO) ? CONFIG_LOG_TEXT : CONFIG_LOG_JSON;
    atomic_init(&log->level, level);
    log->format = format;
    log->writer = log_writer_start(output, level, format);
    if (!log->writer)
        goto failed;
    return log;

failed:
    free(log);
    return NULL;
}

void log_sync(struct log *log)
{
    log_writer_flush(log->writer);
}

void log_destroy(struct log *log)
{
    if (!log)
        return;
    log_writer_stop(log->writer);
    free(log);
}

void log_event(struct log *log, enum config_log_level level, const char *format, ...)
{
    if (level < atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    char message[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);

    struct log_line line;
    log_line_event(&line, log->format, level, message);
    log_writer_put(log->writer, line.text, (uint32_t)line.length, 1);
}

void log_flush(struct log *log, struct log_buffer *buffer)
{
    if (buffer->length > 0)
        log_writer_put(log->writer, buffer->text, buffer->length, buffer->lines);
    buffer->length = buffer->lines = 0;
}

uint64_t log_buffer_due_ns(const struct log_buffer *buffer)
{
    return buffer->length == 0 ? UINT64_MAX : buffer->since_ns + LOG_DELAY_MS * UINT64_C(1000000);
}

static enum config_log_level level_of(const struct log_access *entry)
{
    return entry->status >= 500 ? CONFIG_LOG_WARNING : CONFIG_LOG_INFO;
}

void log_access(struct log *log, struct log_buffer *buffer, const struct log_access *entry,
                uint64_t now_ns)
{
    const enum config_log_level level = level_of(entry);
    if (level < atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    struct log_line line;
    log_line_access(&line, log->format, level, entry);
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

void log_entry(struct log *log, const struct log_access *entry)
{
    const enum config_log_level level = level_of(entry);
    if (level < atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    struct log_line line;
    log_line_access(&line, log->format, level, entry);
    log_writer_put(log->writer, line.text, (uint32_t)line.length, 1);
}

void log_set_level(struct log *log, enum config_log_level level)
{
    atomic_store_explicit(&log->level, level, memory_order_relaxed);
}

bool log_alive(struct log *log)
{
    return log_writer_alive(log->writer);
}

uint64_t log_dropped(const struct log *log)
{
    return log_writer_lost(log->writer);
}
