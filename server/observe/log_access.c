/* The content of a line about one request, in both formats. */
#include "server/observe/log_line.h"

/* Most bytes of each string that are logged. Only path, id and kernel come from clients. Together
 * the strings fit in LOG_LINE_MAX besides about 900 bytes of names and numbers. */
enum { PATH_BUDGET = 1600, ID_BUDGET = 800, WORD_BUDGET = 96 };

/* How a member is written: the text before its name, the unit of a time, the text after its name,
 * and the quote around a string. */
struct style {
    const char *before, *unit, *after, *quote;
};
static const struct style json = {",\"", "_ms", "\":", "\""};
static const struct style text = {" ", "", "=", ""};

static void name_member(struct log_line *line, const struct style *style, const char *name,
                        const char *unit)
{
    log_line_add(line, style->before);
    log_line_add(line, name);
    log_line_add(line, unit);
    log_line_add(line, style->after);
}

static void string_member(struct log_line *line, const struct style *style, const char *name,
                          const char *value, size_t budget)
{
    if (!value)
        return;
    name_member(line, style, name, "");
    log_line_add(line, style->quote);
    log_line_escape(line, value, budget);
    log_line_add(line, style->quote);
}

static void number_member(struct log_line *line, const struct style *style, const char *name,
                          uint64_t value)
{
    name_member(line, style, name, "");
    log_line_number(line, value);
}

static void time_member(struct log_line *line, const struct style *style, const char *name,
                        uint64_t ns)
{
    name_member(line, style, name, style->unit);
    log_line_milliseconds(line, ns);
}

static void add_json(struct log_line *line, const struct log_access *entry)
{
    log_line_add(line, "\"message\":\"request\"");
    string_member(line, &json, "request_id", entry->request_id, ID_BUDGET);
    string_member(line, &json, "peer", entry->peer, WORD_BUDGET);
    string_member(line, &json, "method", entry->method, WORD_BUDGET);
    string_member(line, &json, "path", entry->path, PATH_BUDGET);
    number_member(line, &json, "status", (uint64_t)entry->status);
    string_member(line, &json, "error", entry->error, WORD_BUDGET);
    string_member(line, &json, "op", entry->op, WORD_BUDGET);
    if (entry->op) {
        string_member(line, &json, "dtype", entry->dtype, WORD_BUDGET);
        string_member(line, &json, "kernel", entry->kernel, WORD_BUDGET);
        number_member(line, &json, "m", entry->m);
        number_member(line, &json, "n", entry->n);
        number_member(line, &json, "k", entry->k);
        number_member(line, &json, "batch", entry->batch);
        number_member(line, &json, "shared", entry->shared);
    }
    number_member(line, &json, "request_bytes", entry->request_bytes);
    number_member(line, &json, "response_bytes", entry->response_bytes);
    if (entry->op) {
        time_member(line, &json, "receive", entry->receive_ns);
        time_member(line, &json, "queue", entry->queue_ns);
        time_member(line, &json, "h2d", entry->h2d_ns);
        time_member(line, &json, "kernel", entry->kernel_ns);
        time_member(line, &json, "d2h", entry->d2h_ns);
        time_member(line, &json, "send", entry->send_ns);
    }
    time_member(line, &json, "total", entry->total_ns);
    log_line_add(line, "}");
}

static void add_text(struct log_line *line, const struct log_access *entry)
{
    log_line_escape(line, entry->method ? entry->method : "-", WORD_BUDGET);
    log_line_add(line, " ");
    log_line_escape(line, entry->path ? entry->path : "-", PATH_BUDGET);
    log_line_add(line, " ");
    log_line_number(line, (uint64_t)entry->status);
    log_line_add(line, " ");
    log_line_milliseconds(line, entry->total_ns);
    log_line_add(line, "ms");
    string_member(line, &text, "error", entry->error, WORD_BUDGET);
    if (entry->op) {
        number_member(line, &text, "m", entry->m);
        number_member(line, &text, "n", entry->n);
        number_member(line, &text, "k", entry->k);
        number_member(line, &text, "batch", entry->batch);
        string_member(line, &text, "dtype", entry->dtype, WORD_BUDGET);
        string_member(line, &text, "kernel", entry->kernel, WORD_BUDGET);
        number_member(line, &text, "shared", entry->shared);
        time_member(line, &text, "receive", entry->receive_ns);
        time_member(line, &text, "queue", entry->queue_ns);
        time_member(line, &text, "h2d", entry->h2d_ns);
        time_member(line, &text, "compute", entry->kernel_ns);
        time_member(line, &text, "d2h", entry->d2h_ns);
        time_member(line, &text, "send", entry->send_ns);
    }
    number_member(line, &text, "in", entry->request_bytes);
    number_member(line, &text, "out", entry->response_bytes);
    string_member(line, &text, "peer", entry->peer, WORD_BUDGET);
    string_member(line, &text, "id", entry->request_id, ID_BUDGET);
}

void log_line_access(struct log_line *line, enum config_log_format format,
                     enum config_log_level level, const struct log_access *entry)
{
    log_line_begin(line, format, level);
    if (format == CONFIG_LOG_JSON)
        add_json(line, entry);
    else
        add_text(line, entry);
    log_line_end(line);
}
