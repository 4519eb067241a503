/*
 * log_writer.h - the thread that writes the log. Used by log.c only.
 *
 * Threads that log copy their lines to a queue in memory and never wait for the output, whatever
 * the output is: a pipe or terminal that nobody reads, or a file on a full or unreachable disk. A
 * write that blocks, blocks the writer's thread alone. O_NONBLOCK is not set, because that flag
 * belongs to the open file, which the daemon shares with the process that started the daemon.
 *
 * Lines are written whole and in the order in which they were put. Lines that find the queue full,
 * and lines that the output refuses, are lost and counted. Where lines are missing, a line with
 * their number follows as soon as the output takes one.
 */
#ifndef SERVER_OBSERVE_LOG_WRITER_H
#define SERVER_OBSERVE_LOG_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/config/config.h"

struct log_writer;
/* Starts the thread. The writer owns `output`, a descriptor or -1, also if the start fails. `level`
 * and `format` are those of the line about lost lines. NULL: no memory or no thread. */
struct log_writer *log_writer_start(int output, enum config_log_level level,
                                    enum config_log_format format);
/* Puts `lines` whole lines into the queue: `length` bytes, at most LOG_BUFFER_BYTES. Any thread. */
void log_writer_put(struct log_writer *writer, const char *text, uint32_t length, uint32_t lines);
/* Waits until no line is queued any more, for LOG_FLUSH_MS at most. Any thread. */
void log_writer_flush(struct log_writer *writer);
/* Flushes, and ends the thread. A thread that a write still blocks is left behind, and frees the
 * writer if the write ever ends. NULL is allowed. */
void log_writer_stop(struct log_writer *writer);
/* Number of lines that were lost. Any thread. */
uint64_t log_writer_lost(const struct log_writer *writer);
/* Whether the thread has looked for lines since the last call, or is writing. A write that blocks,
 * because nobody reads the output, must not end the daemon. Wakes the thread for the next call. */
bool log_writer_alive(struct log_writer *writer);

#endif
