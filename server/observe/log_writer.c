/*
 * The queue is a ring of blocks. A block holds what one write(2) writes: whole lines of 4096 bytes
 * (PIPE_BUF) at most, which a pipe takes in one piece. Lines are added to the newest block while
 * they fit and the block is not being written, so a writer that lags behind needs fewer writes.
 */
#include "server/observe/log_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/observe/log_line.h"

enum { BLOCKS = 256 }; /* 1 MiB of lines */

struct block {
    uint64_t lost_before; /* lines that were lost between the block before and this one */
    uint32_t length;
    char text[LOG_BUFFER_BYTES];
};

struct log_writer {
    int output; /* a descriptor; -1: no line can be written */
    enum config_log_level level;
    enum config_log_format format;
    pthread_t thread;
    bool torn; /* the last line was written in part only; used by the thread */
    _Atomic uint64_t lost;

    pthread_mutex_t lock; /* of all that follows; never held during a write */
    pthread_cond_t filled, emptied;
    uint32_t first, count; /* the blocks in use; the first may be the one being written */
    bool writing, stopping, ended;
    uint64_t turns, turns_seen; /* iterations of the thread, and how many log_writer_alive saw */
    bool left;                  /* the thread frees the writer */
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
static uint64_t write_lines(struct log_writer *writer, const char *text, size_t length)
{
    size_t taken = 0;
    if (!writer->torn || write_bytes(writer->output, "\n", 1) == 1) {
        taken = write_bytes(writer->output, text, length);
        writer->torn = taken > 0 && text[taken - 1] != '\n';
    }
    return count_lines(text + taken, length - taken);
}

static bool write_notice(struct log_writer *writer, uint64_t lost)
{
    struct log_line line;
    char message[96];
    snprintf(message, sizeof message,
             "%" PRIu64 " lines of the log were lost, since standard output did not take them",
             lost);
    log_line_event(&line, writer->format,
                   writer->level > CONFIG_LOG_WARNING ? writer->level : CONFIG_LOG_WARNING,
                   message);
    return write_lines(writer, line.text, line.length) == 0;
}

/* Writes a line about `lost` lines, if there are any, and then one block (NULL: none). Returns how
 * many lines have been lost and are not reported yet. If the output refuses the line about lost
 * lines, the block is not written and its lines are lost too, so that no line follows a gap that is
 * not reported. */
static uint64_t write_block(struct log_writer *writer, const struct block *block, uint64_t lost)
{
    uint64_t refused = 0;
    if (lost == 0 || write_notice(writer, lost)) {
        lost = 0;
        refused = block == NULL ? 0 : write_lines(writer, block->text, block->length);
    } else if (block != NULL) {
        refused = count_lines(block->text, block->length);
    }
    atomic_fetch_add_explicit(&writer->lost, refused, memory_order_relaxed);
    return lost + refused;
}

/* Writes the first block. Under the lock, which is not held during the write. */
static uint64_t write_first(struct log_writer *writer, uint64_t lost)
{
    const struct block *block = &writer->blocks[writer->first];
    writer->writing = true;
    pthread_mutex_unlock(&writer->lock);
    lost = write_block(writer, block, lost + block->lost_before);
    pthread_mutex_lock(&writer->lock);
    writer->writing = false;
    writer->first = (writer->first + 1) % BLOCKS;
    writer->count--;
    return lost;
}

/* Reports lines that were lost after the last block, which has been written. Under the lock, which
 * is not held during the write. */
static uint64_t report_lost(struct log_writer *writer, uint64_t lost)
{
    lost += writer->lost_behind;
    writer->lost_behind = 0;
    writer->writing = true;
    pthread_mutex_unlock(&writer->lock);
    lost = write_block(writer, NULL, lost);
    pthread_mutex_lock(&writer->lock);
    writer->writing = false;
    return lost;
}

static void writer_free(struct log_writer *writer)
{
    if (writer->output >= 0)
        close(writer->output);
    pthread_cond_destroy(&writer->emptied);
    pthread_cond_destroy(&writer->filled);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
}

static void *log_writer_run(void *argument)
{
    struct log_writer *writer = argument;
    uint64_t lost = 0; /* lines that have been lost and are not reported yet */
    pthread_setname_np(pthread_self(), "log");
    pthread_mutex_lock(&writer->lock);
    while (!writer->left) {
        writer->turns++;
        if (writer->count > 0)
            lost = write_first(writer, lost);
        else if (writer->lost_behind > 0)
            lost = report_lost(writer, lost);
        else if (writer->stopping)
            break;
        else
            pthread_cond_wait(&writer->filled, &writer->lock);
        if (writer->count == 0)
            pthread_cond_broadcast(&writer->emptied);
    }
    const bool left = writer->left;
    writer->ended = true;
    pthread_cond_broadcast(&writer->emptied);
    pthread_mutex_unlock(&writer->lock);
    if (left)
        writer_free(writer);
    return NULL;
}

/* ---- the interface ---- */

static bool open_conditions(struct log_writer *writer)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    bool opened = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                  pthread_cond_init(&writer->filled, &monotonic) == 0;
    if (opened && pthread_cond_init(&writer->emptied, &monotonic) != 0) {
        pthread_cond_destroy(&writer->filled);
        opened = false;
    }
    pthread_condattr_destroy(&monotonic);
    return opened;
}

struct log_writer *log_writer_start(int output, enum config_log_level level,
                                    enum config_log_format format)
{
    struct log_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        goto no_memory;
    writer->output = output;
    writer->level = level;
    writer->format = format;
    if (pthread_mutex_init(&writer->lock, NULL) != 0)
        goto no_lock;
    if (!open_conditions(writer))
        goto no_conditions;
    if (pthread_create(&writer->thread, NULL, log_writer_run, writer) != 0)
        goto no_thread;
    return writer;

no_thread:
    writer_free(writer);
    return NULL;
no_conditions:
    pthread_mutex_destroy(&writer->lock);
no_lock:
    free(writer);
no_memory:
    if (output >= 0)
        close(output);
    return NULL;
}

/* The block that `length` bytes are added to; NULL: the queue is full. Under the lock. */
static struct block *block_for(struct log_writer *writer, uint32_t length)
{
    const uint32_t written = writer->writing && writer->count > 0 ? 1 : 0;
    if (writer->count > written && writer->lost_behind == 0) {
        struct block *newest = &writer->blocks[(writer->first + writer->count - 1) % BLOCKS];
        if (length <= sizeof newest->text - newest->length)
            return newest;
    }
    if (writer->count == BLOCKS)
        return NULL;
    struct block *block = &writer->blocks[(writer->first + writer->count++) % BLOCKS];
    block->lost_before = writer->lost_behind;
    block->length = 0;
    writer->lost_behind = 0;
    return block;
}

void log_writer_put(struct log_writer *writer, const char *text, uint32_t length, uint32_t lines)
{
    pthread_mutex_lock(&writer->lock);
    struct block *block = block_for(writer, length);
    if (block == NULL) {
        writer->lost_behind += lines;
        atomic_fetch_add_explicit(&writer->lost, lines, memory_order_relaxed);
    } else {
        memcpy(block->text + block->length, text, length);
        block->length += length;
    }
    const bool sleeps = !writer->writing;
    pthread_mutex_unlock(&writer->lock);
    if (sleeps)
        pthread_cond_signal(&writer->filled);
}

void log_writer_flush(struct log_writer *writer)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOG_FLUSH_MS / 1000;
    pthread_mutex_lock(&writer->lock);
    while (!writer->ended && (writer->count > 0 || writer->lost_behind > 0 || writer->writing) &&
           pthread_cond_timedwait(&writer->emptied, &writer->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&writer->lock);
}

void log_writer_stop(struct log_writer *writer)
{
    if (writer == NULL)
        return;
    const pthread_t thread = writer->thread;
    log_writer_flush(writer);
    pthread_mutex_lock(&writer->lock);
    writer->stopping = true;
    writer->left = writer->writing || writer->count > 0; /* the flush has not ended in time */
    const bool left = writer->left;
    pthread_cond_signal(&writer->filled);
    pthread_mutex_unlock(&writer->lock);
    if (left) {
        pthread_detach(thread);
    } else {
        pthread_join(thread, NULL);
        writer_free(writer);
    }
}

uint64_t log_writer_lost(const struct log_writer *writer)
{
    return atomic_load_explicit(&writer->lost, memory_order_relaxed);
}

bool log_writer_alive(struct log_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    const bool alive = writer->writing || writer->turns != writer->turns_seen;
    writer->turns_seen = writer->turns;
    pthread_cond_signal(&writer->filled);
    pthread_mutex_unlock(&writer->lock);
    return alive;
}
