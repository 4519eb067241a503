/*
 * log_line.h - builds one line of the log. Used by log.c only.
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

/* Writes a whole line about an event. */
void log_line_event(struct log_line *line, enum config_log_format format,
                    enum config_log_level level, const char *message);
/* Writes a whole line about one request. */
void log_line_access(struct log_line *line, enum config_log_format format,
                     enum config_log_level level, const struct log_access *entry);

#endif
