/*
 * log_line.h - builds one line of the log. Used by log*.c only.
 *
 * Text from clients is escaped in the same way in both formats. Quotes, backslashes, control
 * characters (the C1 characters too, which terminals obey) and bytes that are not UTF-8 cannot
 * break a line, a JSON string or a terminal. A line never outgrows its buffer: each string has a
 * budget, and the budgets of an access line add up to less than LOG_LINE_MAX.
 */
#ifndef SERVER_OBSERVE_LOG_LINE_H
#define SERVER_OBSERVE_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/observe/log.h"

enum { LOG_LINE_MAX = LOG_BUFFER_BYTES };

struct log_line {
    size_t length;
    char text[LOG_LINE_MAX];
};

/* Adds text of the daemon's own, which is not escaped. */
void log_line_add(struct log_line *line, const char *text);
void log_line_number(struct log_line *line, uint64_t value);
/* Adds escaped text without quotes, of `budget` bytes at most. Longer text is cut and ends in
 * "...".
 */
void log_line_escape(struct log_line *line, const char *text, size_t budget);
/* Starts a line with the time and the level:
 * `{"time":"2026-11-21T10:00:00.123456Z","level":"info",` or `2026-11-21T10:00:00.123456Z info `.
 */
void log_line_begin(struct log_line *line, enum config_log_format format,
                    enum config_log_level level);
/* Adds a duration in milliseconds with three decimals. */
void log_line_milliseconds(struct log_line *line, uint64_t ns);

/* Ends the line with a newline. */
void log_line_end(struct log_line *line);

/* Writes a whole line about an event. */
void log_line_event(struct log_line *line, enum config_log_format format,
                    enum config_log_level level, const char *message);
/* Writes a whole line about one request. */
void log_line_access(struct log_line *line, enum config_log_format format,
                     enum config_log_level level, const struct log_access *entry);

#endif
