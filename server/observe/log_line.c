/* Escaping, times and numbers of a log line, and its content in both formats. */
#include "server/observe/log_line.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/number.h"

/* Most bytes of an event's message that are logged. */
enum { MESSAGE_BUDGET = 3500 };

static void add_bytes(struct log_line *line, const char *bytes, size_t length)
{
    if (length > LOG_LINE_MAX - line->length)
        return;
    memcpy(line->text + line->length, bytes, length);
    line->length += length;
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

/* Adds escaped text without quotes, of `budget` bytes at most. Longer text is cut and ends in
 * "...".
 */
static void add_escaped(struct log_line *line, const char *text, size_t budget)
{
    static const char cut[] = "...";
    const size_t start = line->length, last_cut = budget - (sizeof(cut) - 1);
    const unsigned char *next = (const unsigned char *)text;
    size_t fallback = start; /* where "..." still fits in the budget */
    while (*next) {
        char escaped[8];
        const size_t used = line->length - start, left = budget - used;
        size_t length = 0; /* of the text that is logged as it is */
        while (next[length] >= ' ' && next[length] < 0x7f && next[length] != '"' &&
               next[length] != '\\')
            length++;
        const bool plain = length > 0;
        if (plain && length > left)
            length = left;
        const size_t taken = plain ? length : escape_one(next, escaped, &length);
        if (length == 0 || length > left) {
            line->length = fallback;
            add_bytes(line, cut, sizeof(cut) - 1);
            return;
        }
        add_bytes(line, plain ? (const char *)next : escaped, length);
        next += taken;
        if (used + length <= last_cut)
            fallback = line->length;
        else if (plain && used < last_cut) /* plain text can be cut between any two characters */
            fallback = start + last_cut;
    }
}

/* Starts a line with the time, the level and the start of the message:
 * `{"time":"2026-11-21T10:00:00.123456Z","level":"info","message":"` or
 * `2026-11-21T10:00:00.123456Z info    `. */
static void begin_line(struct log_line *line, enum config_log_format format,
                       enum config_log_level level)
{
    static const char *const levels[] = {
        "\",\"level\":\"debug\",\"message\":\"", "\",\"level\":\"info\",\"message\":\"",
        "\",\"level\":\"warning\",\"message\":\"", "\",\"level\":\"error\",\"message\":\""};
    static const char *const columns[] = {" debug   ", " info    ", " warning ", " error   "};
    const bool is_json = format == CONFIG_LOG_JSON;
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    line->length = (size_t)snprintf(
        line->text, LOG_LINE_MAX, "%s%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ%s",
        is_json ? "{\"time\":\"" : "", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
        utc.tm_min, utc.tm_sec, now.tv_nsec / 1000, is_json ? levels[level] : columns[level]);
}

/* Ends the line with a newline. */
static void end_line(struct log_line *line)
{
    if (line->length == LOG_LINE_MAX)
        line->length--;
    line->text[line->length++] = '\n';
}

void log_line_event(struct log_line *line, enum config_log_format format,
                    enum config_log_level level, const char *message)
{
    begin_line(line, format, level);
    add_escaped(line, message, MESSAGE_BUDGET);
    if (format == CONFIG_LOG_JSON)
        add_bytes(line, "\"}", 2);
    end_line(line);
}

/* ---- a line about one request ---- */

/* Most bytes of each string that are logged. Path, id, method and kernel come from clients, and a
 * reason may quote them.
 * Together the strings fit in LOG_LINE_MAX besides about 1,000 bytes of names and numbers. */
enum { PATH_BUDGET = 1400, ID_BUDGET = 400, REASON_BUDGET = 256, WORD_BUDGET = 96 };

/* The most bytes of a member besides its string: the name, what stands around it, and a number. */
enum { MEMBER_MAX = 64 };

/* How a member is written: the text before its name and after it. */
struct style {
    const char *before, *after;
    bool quotes; /* around every string; false: around strings that would not read as one word */
};
static const struct style json = {",\"", "\":", true};
static const struct style text = {" ", "=", false};

/* Writes the name of a member, behind which there is room for a number or a quote. Returns false if
 * the line is full. */
static bool name_member(struct log_line *line, const struct style *style, const char *name)
{
    char *const begin = line->text + line->length;
    if (line->length > LOG_LINE_MAX - MEMBER_MAX)
        return false;
    line->length +=
        (size_t)(stpcpy(stpcpy(stpcpy(begin, style->before), name), style->after) - begin);
    return true;
}

static void string_member(struct log_line *line, const struct style *style, const char *name,
                          const char *value, size_t budget)
{
    if (!value || !name_member(line, style, name))
        return;
    const bool quoted = style->quotes || value[0] == '\0' || strpbrk(value, " =\"") != NULL;
    if (quoted)
        line->text[line->length++] = '"';
    add_escaped(line, value, budget);
    if (quoted)
        add_bytes(line, "\"", 1);
}

/* Adds a number that `write` writes: decimal_u64, or decimal_milliseconds for nanoseconds. */
static void number_member(struct log_line *line, const struct style *style, const char *name,
                          char *(*write)(char *out, uint64_t value), uint64_t value)
{
    if (name_member(line, style, name))
        line->length = (size_t)(write(line->text + line->length, value) - line->text);
}

void log_line_access(struct log_line *line, enum config_log_format format,
                     enum config_log_level level, const struct log_access *entry)
{
    const struct style *style = format == CONFIG_LOG_JSON ? &json : &text;
    const char *message = entry->message ? entry->message : "request";
    begin_line(line, format, level);
    add_bytes(line, message, strlen(message));
    if (format == CONFIG_LOG_JSON)
        add_bytes(line, "\"", 1);
    string_member(line, style, "method", entry->method, WORD_BUDGET);
    string_member(line, style, "path", entry->path, PATH_BUDGET);
    if (entry->status != 0)
        number_member(line, style, "status", decimal_u64, (uint64_t)entry->status);
    string_member(line, style, "error", entry->error, WORD_BUDGET);
    string_member(line, style, "reason", entry->reason, REASON_BUDGET);
    string_member(line, style, "job", entry->job, WORD_BUDGET);
    if (entry->op) {
        string_member(line, style, "op", entry->op, WORD_BUDGET);
        string_member(line, style, "dtype", entry->dtype, WORD_BUDGET);
        string_member(line, style, "kernel", entry->kernel, WORD_BUDGET);
        number_member(line, style, "m", decimal_u64, entry->m);
        number_member(line, style, "n", decimal_u64, entry->n);
        number_member(line, style, "k", decimal_u64, entry->k);
        number_member(line, style, "batch", decimal_u64, entry->batch);
        for (uint32_t i = 0; i < LOG_SIZES_MAX && entry->sizes[i].name != NULL; i++)
            number_member(line, style, entry->sizes[i].name, decimal_u64, entry->sizes[i].value);
        number_member(line, style, "shared", decimal_u64, entry->shared);
    }
    if (entry->op || entry->copies) {
        number_member(line, style, "receive_ms", decimal_milliseconds, entry->receive_ns);
        number_member(line, style, "queue_ms", decimal_milliseconds, entry->queue_ns);
        number_member(line, style, "h2d_ms", decimal_milliseconds, entry->h2d_ns);
        if (entry->op)
            number_member(line, style, "kernel_ms", decimal_milliseconds, entry->kernel_ns);
        number_member(line, style, "d2h_ms", decimal_milliseconds, entry->d2h_ns);
        number_member(line, style, "send_ms", decimal_milliseconds, entry->send_ns);
    }
    number_member(line, style, "total_ms", decimal_milliseconds, entry->total_ns);
    number_member(line, style, "request_bytes", decimal_u64, entry->request_bytes);
    number_member(line, style, "response_bytes", decimal_u64, entry->response_bytes);
    string_member(line, style, "tenant", entry->tenant, WORD_BUDGET);
    string_member(line, style, "peer", entry->peer, WORD_BUDGET);
    string_member(line, style, "client", entry->client, WORD_BUDGET);
    string_member(line, style, "request_id", entry->request_id, ID_BUDGET);
    if (entry->trace_id && entry->trace_id[0]) {
        string_member(line, style, "trace_id", entry->trace_id, WORD_BUDGET);
        string_member(line, style, "span_id", entry->span_id, WORD_BUDGET);
    }
    if (format == CONFIG_LOG_JSON)
        add_bytes(line, "}", 1);
    end_line(line);
}
