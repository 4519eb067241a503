/* Escaping, times and numbers of a log line, and its content in both formats. */
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

/* Adds text of the daemon's own, which is not escaped. */
static void add_text(struct log_line *line, const char *text)
{
    add_bytes(line, text, strlen(text));
}

static void add_number(struct log_line *line, uint64_t value)
{
    char text[DECIMAL_MAX];
    const char *end = decimal_u64(text, value);
    add_bytes(line, text, (size_t)(end - text));
}

/* Adds a duration in milliseconds with three decimals. */
static void add_milliseconds(struct log_line *line, uint64_t ns)
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

/* Adds escaped text without quotes, of `budget` bytes at most. Longer text is cut and ends in
 * "...".
 */
static void add_escaped(struct log_line *line, const char *text, size_t budget)
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
    add_text(line, text);
}

/* Starts a line with the time and the level:
 * `{"time":"2026-11-21T10:00:00.123456Z","level":"info",` or `2026-11-21T10:00:00.123456Z info `.
 */
static void begin_line(struct log_line *line, enum config_log_format format,
                       enum config_log_level level)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    static const char *const columns[] = {" debug   ", " info    ", " warning ", " error   "};
    line->length = 0;
    if (format == CONFIG_LOG_TEXT) {
        add_time(line);
        add_text(line, columns[level]);
        return;
    }
    add_text(line, "{\"time\":\"");
    add_time(line);
    add_text(line, "\",\"level\":\"");
    add_text(line, names[level]);
    add_text(line, "\",");
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
    if (format == CONFIG_LOG_JSON)
        add_text(line, "\"message\":\"");
    add_escaped(line, message, MESSAGE_BUDGET);
    if (format == CONFIG_LOG_JSON)
        add_text(line, "\"}");
    end_line(line);
}

/* ---- a line about one request ---- */

/* Most bytes of each string that are logged. Path, id, method and kernel come from clients, and a
 * reason may quote them.
 * Together the strings fit in LOG_LINE_MAX besides about 1,000 bytes of names and numbers. */
enum { PATH_BUDGET = 1400, ID_BUDGET = 400, REASON_BUDGET = 256, WORD_BUDGET = 96 };

/* How a member is written: the text before its name and after it. */
struct style {
    const char *before, *after;
    bool quotes; /* around every string; false: around strings that would not read as one word */
};
static const struct style json = {",\"", "\":", true};
static const struct style text = {" ", "=", false};

static void name_member(struct log_line *line, const struct style *style, const char *name)
{
    add_text(line, style->before);
    add_text(line, name);
    add_text(line, style->after);
}

static void string_member(struct log_line *line, const struct style *style, const char *name,
                          const char *value, size_t budget)
{
    if (!value)
        return;
    const bool quoted = style->quotes || value[0] == '\0' || strpbrk(value, " =\"") != NULL;
    name_member(line, style, name);
    add_text(line, quoted ? "\"" : "");
    add_escaped(line, value, budget);
    add_text(line, quoted ? "\"" : "");
}

static void number_member(struct log_line *line, const struct style *style, const char *name,
                          uint64_t value)
{
    name_member(line, style, name);
    add_number(line, value);
}

static void time_member(struct log_line *line, const struct style *style, const char *name,
                        uint64_t ns)
{
    name_member(line, style, name);
    add_milliseconds(line, ns);
}

static void add_computation(struct log_line *line, const struct style *style,
                            const struct log_access *entry)
{
    string_member(line, style, "op", entry->op, WORD_BUDGET);
    string_member(line, style, "dtype", entry->dtype, WORD_BUDGET);
    string_member(line, style, "kernel", entry->kernel, WORD_BUDGET);
    number_member(line, style, "m", entry->m);
    number_member(line, style, "n", entry->n);
    number_member(line, style, "k", entry->k);
    number_member(line, style, "batch", entry->batch);
    for (uint32_t i = 0; i < LOG_SIZES_MAX && entry->sizes[i].name != NULL; i++)
        number_member(line, style, entry->sizes[i].name, entry->sizes[i].value);
    number_member(line, style, "shared", entry->shared);
    time_member(line, style, "receive_ms", entry->receive_ns);
    time_member(line, style, "queue_ms", entry->queue_ns);
    time_member(line, style, "h2d_ms", entry->h2d_ns);
    time_member(line, style, "kernel_ms", entry->kernel_ns);
    time_member(line, style, "d2h_ms", entry->d2h_ns);
    time_member(line, style, "send_ms", entry->send_ns);
}

static void add_members(struct log_line *line, const struct style *style,
                        const struct log_access *entry)
{
    string_member(line, style, "method", entry->method, WORD_BUDGET);
    string_member(line, style, "path", entry->path, PATH_BUDGET);
    if (entry->status != 0)
        number_member(line, style, "status", (uint64_t)entry->status);
    string_member(line, style, "error", entry->error, WORD_BUDGET);
    string_member(line, style, "reason", entry->reason, REASON_BUDGET);
    string_member(line, style, "job", entry->job, WORD_BUDGET);
    if (entry->op)
        add_computation(line, style, entry);
    time_member(line, style, "total_ms", entry->total_ns);
    number_member(line, style, "request_bytes", entry->request_bytes);
    number_member(line, style, "response_bytes", entry->response_bytes);
    string_member(line, style, "tenant", entry->tenant, WORD_BUDGET);
    string_member(line, style, "peer", entry->peer, WORD_BUDGET);
    string_member(line, style, "request_id", entry->request_id, ID_BUDGET);
    if (entry->trace_id && entry->trace_id[0]) {
        string_member(line, style, "trace_id", entry->trace_id, WORD_BUDGET);
        string_member(line, style, "span_id", entry->span_id, WORD_BUDGET);
    }
}

void log_line_access(struct log_line *line, enum config_log_format format,
                     enum config_log_level level, const struct log_access *entry)
{
    const char *message = entry->message ? entry->message : "request";
    begin_line(line, format, level);
    if (format == CONFIG_LOG_JSON)
        add_text(line, "\"message\":\"");
    add_text(line, message);
    if (format == CONFIG_LOG_JSON)
        add_text(line, "\"");
    add_members(line, format == CONFIG_LOG_JSON ? &json : &text, entry);
    if (format == CONFIG_LOG_JSON)
        add_text(line, "}");
    end_line(line);
}
