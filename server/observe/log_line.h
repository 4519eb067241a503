/*
 * log_line.h - builds one log line. Internal to log*.c.
 *
 * Text from outside is escaped the same way in both formats: quotes, backslashes, control
 * characters (C1 too, which terminals obey) and what is not UTF-8 cannot break a line, a JSON
 * string or a terminal. The line never outgrows its buffer: each string has a budget, and the
 * budgets of an access line sum up to less than LOG_LINE_MAX.
 */
#ifndef SERVER_OBSERVE_LOG_LINE_H
#define SERVER_OBSERVE_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/observe/log.h"

enum { LOG_LINE_MAX = 4096 }; /* PIPE_BUF: a pipe takes such a line whole */

struct log_line {
    size_t length;
    char text[LOG_LINE_MAX];
};

/* Our own words, not escaped. */
void log_line_add(struct log_line *line, const char *text);
void log_line_number(struct log_line *line, uint64_t value);
/* Escaped text without quotes, at most `budget` bytes of it; longer text is cut and ends in "...".
 */
void log_line_escape(struct log_line *line, const char *text, size_t budget);
/* Starts a line with the time and the level:
 * `{"time":"2026-11-21T10:00:00.123456Z","level":"info",` or `2026-11-21T10:00:00.123456Z info `.
 */
void log_line_begin(struct log_line *line, enum config_log_format format,
                    enum config_log_level level);
/* A duration in milliseconds with three decimals. */
void log_line_milliseconds(struct log_line *line, uint64_t ns);

/* A whole line about one request, without the line's end. */
void log_line_access(struct log_line *line, enum config_log_format format,
                     enum config_log_level level, const struct log_access *entry);

#endif
