/* Escaping, times and numbers of a log line. */
#include "server/observe/log_line.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/decimal.h"

/* Most bytes of an event's message that are logged. */
enum { MESSAGE_BUDGET = 3500 };

static void add_bytes(struct log_line *line, const char *bytes, size_t length)
{
    if (length > LOG_LINE_MAX - line->length)
        return;
    /* cppcheck-suppress uninitvar ; callers pass only bytes that they have written */
    memcpy(line->text + line->length, bytes, length);
    line->length += length;
}

void log_line_add(struct log_line *line, const char *text)
{
    add_bytes(line, text, strlen(text));
}

void log_line_number(struct log_line *line, uint64_t value)
{
    char text[DECIMAL_MAX];
    const char *end = decimal_u64(text, value);
    add_bytes(line, text, (size_t)(end - text));
}

void log_line_milliseconds(struct log_line *line, uint64_t ns)
{
    char text[DECIMAL_MAX];
    const char *end = decimal_milliseconds(text, ns);
    add_bytes(line, text, (size_t)(end - text));
}

/* The length of the UTF-8 sequence at `text`, or 0 if there is none (RFC 3629: no surrogates, no
 * overlong forms, nothing past U+10FFFF). */
static size_t utf8_length(const unsigned char *text)
{
    if (text[0] < 0x80)
        return 1;
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

/* Writes one character as it is logged. Returns the number of bytes of `text` that it was. */
static size_t escape_one(const unsigned char *text, char out[8], size_t *out_length)
{
    static const char short_forms[] = "\"\\\n\r\t", letters[] = "\"\\nrt";
    const char *short_form = strchr(short_forms, text[0]);
    size_t length = utf8_length(text);
    if (short_form) {
        out[0] = '\\';
        out[1] = letters[short_form - short_forms];
        *out_length = 2;
    } else if (length == 0) {
        *out_length = (size_t)snprintf(out, 8, "\\ufffd");
        length = 1;
    } else if (text[0] < 0x20 || text[0] == 0x7f) {
        *out_length = (size_t)snprintf(out, 8, "\\u%04x", text[0]);
    } else if (text[0] == 0xc2 && text[1] < 0xa0) {
        *out_length = (size_t)snprintf(out, 8, "\\u%04x", text[1]);
    } else {
        memcpy(out, text, length);
        *out_length = length;
    }
    return length;
}

void log_line_escape(struct log_line *line, const char *text, size_t budget)
{
    static const char cut[] = "...";
    const unsigned char *next = (const unsigned char *)text;
    size_t start = line->length, fallback = start; /* where "..." still fits in the budget */
    while (*next) {
        char escaped[8];
        size_t length;
        next += escape_one(next, escaped, &length);
        if (line->length - start + length > budget) {
            line->length = fallback;
            add_bytes(line, cut, sizeof(cut) - 1);
            return;
        }
        add_bytes(line, escaped, length);
        if (line->length - start + sizeof(cut) - 1 <= budget)
            fallback = line->length;
    }
}

static void add_time(struct log_line *line)
{
    struct timespec now;
    struct tm utc;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000);
    log_line_add(line, text);
}

void log_line_begin(struct log_line *line, enum config_log_format format,
                    enum config_log_level level)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    static const char *const columns[] = {" debug   ", " info    ", " warning ", " error   "};
    line->length = 0;
    if (format == CONFIG_LOG_TEXT) {
        add_time(line);
        log_line_add(line, columns[level]);
        return;
    }
    log_line_add(line, "{\"time\":\"");
    add_time(line);
    log_line_add(line, "\",\"level\":\"");
    log_line_add(line, names[level]);
    log_line_add(line, "\",");
}

void log_line_end(struct log_line *line)
{
    if (line->length == LOG_LINE_MAX)
        line->length--;
    line->text[line->length++] = '\n';
}

void log_line_event(struct log_line *line, enum config_log_format format,
                    enum config_log_level level, const char *message)
{
    log_line_begin(line, format, level);
    if (format == CONFIG_LOG_JSON)
        log_line_add(line, "\"message\":\"");
    log_line_escape(line, message, MESSAGE_BUDGET);
    if (format == CONFIG_LOG_JSON)
        log_line_add(line, "\"}");
    log_line_end(line);
}
