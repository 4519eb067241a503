/*
 * log.c - writes lines to standard output without ever waiting for whoever reads it.
 *
 * O_NONBLOCK would belong to the open file, which the daemon shares with the process that started
 * it, so it is left alone. Instead a pipe, socket or terminal is asked with poll(2) first: one that
 * is writable takes a line of PIPE_BUF bytes without blocking. The lock keeps two threads from both
 * taking the same room for theirs.
 *
 * The output is a descriptor of the log's own: were standard output closed, its number would be
 * given to the next connection, which would then be sent the log.
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
#include <sys/stat.h>
#include <unistd.h>

#include "server/observe/log_line.h"

enum { MESSAGE_BUDGET = 3500, MESSAGE_MAX = 4096 };

struct log {
    enum config_log_level level;
    enum config_log_format format;
    int output; /* -1: there is none */
    bool waits; /* the output is not a file: it may have to wait for a reader */
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

static bool write_now(const struct log *log, const struct log_line *line)
{
    struct pollfd output = {.fd = log->output, .events = POLLOUT};
    if (log->waits && (poll(&output, 1, 0) != 1 || !(output.revents & POLLOUT)))
        return false;
    ssize_t written;
    do
        written = write(log->output, line->text, line->length);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)line->length;
}

static void finish(struct log *log, struct log_line *line)
{
    if (line->length == LOG_LINE_MAX)
        line->length--;
    line->text[line->length++] = '\n';
    pthread_mutex_lock(&log->lock);
    bool written = write_now(log, line);
    pthread_mutex_unlock(&log->lock);
    if (!written)
        atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed);
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
    finish(log, &line);
}

void log_access(struct log *log, const struct log_access *entry)
{
    enum config_log_level level = entry->status >= 500 ? CONFIG_LOG_WARNING : CONFIG_LOG_INFO;
    if (level < log->level)
        return;
    struct log_line line;
    log_line_access(&line, log->format, level, entry);
    finish(log, &line);
}

uint64_t log_dropped(const struct log *log)
{
    return atomic_load_explicit(&log->dropped, memory_order_relaxed);
}
