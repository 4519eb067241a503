/*
 * The log has a descriptor of its own. If standard output were closed, its number would be given to
 * the next connection, to which the log would then be sent.
 *
 * Threads that log copy their lines to a queue in memory and never wait for the output, whatever
 * the output is: a pipe or terminal that nobody reads, or a file on a full or unreachable disk. A
 * write that blocks, blocks the log's own thread alone. O_NONBLOCK is not set, because that flag
 * belongs to the open file, which the daemon shares with the process that started the daemon.
 *
 * The queue is a ring of blocks. A block holds what one write(2) writes: whole lines of 4096 bytes
 * (PIPE_BUF) at most, which a pipe takes in one piece. Lines are added to the newest block while
 * they fit and the block is not being written, so a thread that lags behind needs fewer writes.
 * Lines that find the queue full, and lines that the output refuses, are lost and counted. Where
 * lines are missing, a line with their number follows as soon as the output takes one.
 */
#include "server/observe/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/observe/log_line.h"

enum { MESSAGE_MAX = 4096, BLOCKS = 256 }; /* 1 MiB of lines */

struct block {
    uint64_t lost_before; /* lines that were lost between the block before and this one */
    uint32_t length;
    char text[LOG_BUFFER_BYTES];
};

struct log {
    _Atomic enum config_log_level level;
    enum config_log_format format;
    int output; /* a descriptor; -1: no line can be written */
    pthread_t thread;
    bool torn; /* the last line was written in part only; used by the thread */
    _Atomic uint64_t lost;

    pthread_mutex_t lock; /* of all that follows; never held during a write */
    pthread_cond_t filled, emptied;
    uint32_t first, count; /* the blocks in use; the first may be the one being written */
    bool writing, stopping, ended;
    uint64_t turns, turns_seen; /* iterations of the thread, and how many log_alive saw */
    bool left;                  /* the thread frees the log */
    uint64_t lost_behind;       /* lines that were lost after the newest block */
    struct block blocks[BLOCKS];
};

/* ---- the thread ---- */

/* Returns the number of bytes that the output has taken. */
static size_t write_bytes(int output, const char *text, size_t length)
{
    size_t taken = 0;
    while (taken < length) {
        const ssize_t written = write(output, text + taken, length - taken);
        if (written > 0) {
            taken += (size_t)written;
        } else if (written < 0 && errno == EAGAIN) { /* the output was given with O_NONBLOCK */
            struct pollfd writable = {.fd = output, .events = POLLOUT};
            (void)poll(&writable, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            break;
        }
    }
    return taken;
}

static uint64_t count_lines(const char *text, size_t length)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Writes whole lines. Returns the number of lines that the output has not taken whole. */
static uint64_t write_lines(struct log *log, const char *text, size_t length)
{
    size_t taken = 0;
    if (!log->torn || write_bytes(log->output, "\n", 1) == 1) {
        taken = write_bytes(log->output, text, length);
        log->torn = taken > 0 && text[taken - 1] != '\n';
    }
    return count_lines(text + taken, length - taken);
}

static bool write_notice(struct log *log, uint64_t lost)
{
    struct log_line line;
    char message[96];
    snprintf(message, sizeof message,
             "%" PRIu64 " lines of the log were lost, since standard output did not take them",
             lost);
    const enum config_log_level level = atomic_load(&log->level);
    log_line_event(&line, log->format, level > CONFIG_LOG_WARNING ? level : CONFIG_LOG_WARNING,
                   message);
    return write_lines(log, line.text, line.length) == 0;
}

/* Writes a line about `lost` lines, if there are any, and then one block (NULL: none). Returns how
 * many lines have been lost and are not reported yet. If the output refuses the line about lost
 * lines, the block is not written and its lines are lost too, so that no line follows a gap that is
 * not reported. */
static uint64_t write_block(struct log *log, const struct block *block, uint64_t lost)
{
    uint64_t refused = 0;
    if (lost == 0 || write_notice(log, lost)) {
        lost = 0;
        refused = block == NULL ? 0 : write_lines(log, block->text, block->length);
    } else if (block != NULL) {
        refused = count_lines(block->text, block->length);
    }
    atomic_fetch_add_explicit(&log->lost, refused, memory_order_relaxed);
    return lost + refused;
}

/* Writes the first block. Under the lock, which is not held during the write. */
static uint64_t write_first(struct log *log, uint64_t lost)
{
    const struct block *block = &log->blocks[log->first];
    log->writing = true;
    pthread_mutex_unlock(&log->lock);
    lost = write_block(log, block, lost + block->lost_before);
    pthread_mutex_lock(&log->lock);
    log->writing = false;
    log->first = (log->first + 1) % BLOCKS;
    log->count--;
    return lost;
}

/* Reports lines that were lost after the last block, which has been written. Under the lock, which
 * is not held during the write. */
static uint64_t report_lost(struct log *log, uint64_t lost)
{
    lost += log->lost_behind;
    log->lost_behind = 0;
    log->writing = true;
    pthread_mutex_unlock(&log->lock);
    lost = write_block(log, NULL, lost);
    pthread_mutex_lock(&log->lock);
    log->writing = false;
    return lost;
}

static void log_free(struct log *log)
{
    if (log->output >= 0)
        close(log->output);
    pthread_cond_destroy(&log->emptied);
    pthread_cond_destroy(&log->filled);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

static void *log_run(void *argument)
{
    struct log *log = argument;
    uint64_t lost = 0; /* lines that have been lost and are not reported yet */
    pthread_setname_np(pthread_self(), "log");
    pthread_mutex_lock(&log->lock);
    while (!log->left) {
        log->turns++;
        if (log->count > 0)
            lost = write_first(log, lost);
        else if (log->lost_behind > 0)
            lost = report_lost(log, lost);
        else if (log->stopping)
            break;
        else
            pthread_cond_wait(&log->filled, &log->lock);
        if (log->count == 0)
            pthread_cond_broadcast(&log->emptied);
    }
    const bool left = log->left;
    log->ended = true;
    pthread_cond_broadcast(&log->emptied);
    pthread_mutex_unlock(&log->lock);
    if (left)
        log_free(log);
    return NULL;
}

/* ---- start and end ---- */

static bool open_conditions(struct log *log)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    bool opened = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                  pthread_cond_init(&log->filled, &monotonic) == 0;
    if (opened && pthread_cond_init(&log->emptied, &monotonic) != 0) {
        pthread_cond_destroy(&log->filled);
        opened = false;
    }
    pthread_condattr_destroy(&monotonic);
    return opened;
}

struct log *log_create(enum config_log_level level, enum config_log_format format)
{
    struct log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return NULL;
    log->output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (log->output < 0 && errno != EBADF)
        goto no_output;
    if (format == CONFIG_LOG_AUTO)
        format = isatty(STDOUT_FILENO) ? CONFIG_LOG_TEXT : CONFIG_LOG_JSON;
    atomic_init(&log->level, level);
    log->format = format;
    if (pthread_mutex_init(&log->lock, NULL) != 0)
        goto no_lock;
    if (!open_conditions(log))
        goto no_conditions;
    if (pthread_create(&log->thread, NULL, log_run, log) != 0) {
        log_free(log);
        return NULL;
    }
    return log;

no_conditions:
    pthread_mutex_destroy(&log->lock);
no_lock:
    if (log->output >= 0)
        close(log->output);
no_output:
    free(log);
    return NULL;
}

void log_sync(struct log *log)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOG_FLUSH_MS / 1000;
    pthread_mutex_lock(&log->lock);
    while (!log->ended && (log->count > 0 || log->lost_behind > 0 || log->writing) &&
           pthread_cond_timedwait(&log->emptied, &log->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&log->lock);
}

void log_destroy(struct log *log)
{
    if (log == NULL)
        return;
    const pthread_t thread = log->thread;
    log_sync(log);
    pthread_mutex_lock(&log->lock);
    log->stopping = true;
    log->left = log->writing || log->count > 0; /* log_sync has not ended in time */
    const bool left = log->left;
    pthread_cond_signal(&log->filled);
    pthread_mutex_unlock(&log->lock);
    if (left) {
        pthread_detach(thread);
    } else {
        pthread_join(thread, NULL);
        log_free(log);
    }
}

/* ---- lines ---- */

/* The block that `length` bytes are added to; NULL: the queue is full. Under the lock. */
static struct block *block_for(struct log *log, uint32_t length)
{
    const uint32_t written = log->writing && log->count > 0 ? 1 : 0;
    if (log->count > written && log->lost_behind == 0) {
        struct block *newest = &log->blocks[(log->first + log->count - 1) % BLOCKS];
        if (length <= sizeof newest->text - newest->length)
            return newest;
    }
    if (log->count == BLOCKS)
        return NULL;
    struct block *block = &log->blocks[(log->first + log->count++) % BLOCKS];
    block->lost_before = log->lost_behind;
    block->length = 0;
    log->lost_behind = 0;
    return block;
}

/* Puts `lines` whole lines into the queue: `length` bytes, at most LOG_BUFFER_BYTES. */
static void log_put(struct log *log, const char *text, uint32_t length, uint32_t lines)
{
    pthread_mutex_lock(&log->lock);
    struct block *block = block_for(log, length);
    if (block == NULL) {
        log->lost_behind += lines;
        atomic_fetch_add_explicit(&log->lost, lines, memory_order_relaxed);
    } else {
        memcpy(block->text + block->length, text, length);
        block->length += length;
    }
    const bool sleeps = !log->writing;
    pthread_mutex_unlock(&log->lock);
    if (sleeps)
        pthread_cond_signal(&log->filled);
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
    log_put(log, line.text, (uint32_t)line.length, 1);
}

void log_flush(struct log *log, struct log_buffer *buffer)
{
    if (buffer->length > 0)
        log_put(log, buffer->text, buffer->length, buffer->lines);
    buffer->length = buffer->lines = 0;
}

void log_access(struct log *log, struct log_buffer *buffer, const struct log_access *entry,
                uint64_t now_ns)
{
    const enum config_log_level level = entry->status >= 500 ? CONFIG_LOG_WARNING : CONFIG_LOG_INFO;
    if (level < atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    struct log_line line;
    log_line_access(&line, log->format, level, entry);
    if (buffer == NULL) {
        log_put(log, line.text, (uint32_t)line.length, 1);
        return;
    }
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

void log_set_level(struct log *log, enum config_log_level level)
{
    atomic_store_explicit(&log->level, level, memory_order_relaxed);
}

bool log_alive(struct log *log)
{
    pthread_mutex_lock(&log->lock);
    const bool alive = log->writing || log->turns != log->turns_seen;
    log->turns_seen = log->turns;
    pthread_cond_signal(&log->filled);
    pthread_mutex_unlock(&log->lock);
    return alive;
}

uint64_t log_dropped(const struct log *log)
{
    return atomic_load_explicit(&log->lost, memory_order_relaxed);
}
