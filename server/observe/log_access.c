/* The content of a line about one request, in both formats. */
#include <string.h>

#include "server/observe/log_line.h"

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
    log_line_add(line, style->before);
    log_line_add(line, name);
    log_line_add(line, style->after);
}

static void string_member(struct log_line *line, const struct style *style, const char *name,
                          const char *value, size_t budget)
{
    if (!value)
        return;
    const bool quoted = style->quotes || value[0] == '\0' || strpbrk(value, " =\"") != NULL;
    name_member(line, style, name);
    log_line_add(line, quoted ? "\"" : "");
    log_line_escape(line, value, budget);
    log_line_add(line, quoted ? "\"" : "");
}

static void number_member(struct log_line *line, const struct style *style, const char *name,
                          uint64_t value)
{
    name_member(line, style, name);
    log_line_number(line, value);
}

static void time_member(struct log_line *line, const struct style *style, const char *name,
                        uint64_t ns)
{
    name_member(line, style, name);
    log_line_milliseconds(line, ns);
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
    log_line_begin(line, format, level);
    if (format == CONFIG_LOG_JSON)
        log_line_add(line, "\"message\":\"");
    log_line_add(line, message);
    if (format == CONFIG_LOG_JSON)
        log_line_add(line, "\"");
    add_members(line, format == CONFIG_LOG_JSON ? &json : &text, entry);
    if (format == CONFIG_LOG_JSON)
        log_line_add(line, "}");
    log_line_end(line);
}
