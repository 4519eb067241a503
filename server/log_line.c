/* log_line.c - escaping, times and numbers of a log line. */
#include "server/log_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void add_bytes(struct log_line *line, const char *bytes, size_t length)
{
    if (length > LOG_LINE_MAX - line->length)
        return;
    memcpy(line->text + line->length, bytes, length);
    line->length += length;
}

void log_line_add(struct log_line *line, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0)
        add_bytes(line, text, (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
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

/* One character as it goes into the line; returns how many bytes of `text` it was. */
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

void log_line_time(struct log_line *line)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    log_line_add(line, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ", utc.tm_year + 1900, utc.tm_mon + 1,
                 utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000);
}

void log_line_milliseconds(struct log_line *line, uint64_t ns)
{
    uint64_t us = ns / 1000 + (ns % 1000 >= 500);
    log_line_add(line, "%" PRIu64 ".%03" PRIu64, us / 1000, us % 1000);
}

const char *log_level_name(enum config_log_level level)
{
    switch (level) {
    case CONFIG_LOG_DEBUG:
        return "debug";
    case CONFIG_LOG_INFO:
        return "info";
    case CONFIG_LOG_WARNING:
        return "warning";
    case CONFIG_LOG_ERROR:
        return "error";
    }
    return "info";
}
