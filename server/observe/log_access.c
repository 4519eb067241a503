/* log_access.c - what a line about one request says, in both formats. */
#include "server/observe/log_line.h"

/* How much of each string is logged; only path, id and kernel come from outside. Together they fit
 * in LOG_LINE_MAX beside some 900 bytes of names and numbers. */
enum { PATH_BUDGET = 1600, ID_BUDGET = 800, WORD_BUDGET = 96 };

static void string_member(struct log_line *line, const char *name, const char *value, size_t budget)
{
    if (!value)
        return;
    log_line_add(line, ",\"");
    log_line_add(line, name);
    log_line_add(line, "\":\"");
    log_line_escape(line, value, budget);
    log_line_add(line, "\"");
}

static void number_member(struct log_line *line, const char *name, uint64_t value)
{
    log_line_add(line, ",\"");
    log_line_add(line, name);
    log_line_add(line, "\":");
    log_line_number(line, value);
}

static void time_member(struct log_line *line, const char *name, uint64_t ns)
{
    log_line_add(line, ",\"");
    log_line_add(line, name);
    log_line_add(line, "_ms\":");
    log_line_milliseconds(line, ns);
}

static void add_json(struct log_line *line, const struct log_access *entry)
{
    log_line_add(line, "\"message\":\"request\"");
    string_member(line, "request_id", entry->request_id, ID_BUDGET);
    string_member(line, "peer", entry->peer, WORD_BUDGET);
    string_member(line, "method", entry->method, WORD_BUDGET);
    string_member(line, "path", entry->path, PATH_BUDGET);
    number_member(line, "status", (uint64_t)entry->status);
    string_member(line, "error", entry->error, WORD_BUDGET);
    string_member(line, "op", entry->op, WORD_BUDGET);
    if (entry->op) {
        string_member(line, "dtype", entry->dtype, WORD_BUDGET);
        string_member(line, "kernel", entry->kernel, WORD_BUDGET);
        number_member(line, "m", entry->m);
        number_member(line, "n", entry->n);
        number_member(line, "k", entry->k);
        number_member(line, "batch", entry->batch);
        number_member(line, "shared", entry->shared);
    }
    number_member(line, "request_bytes", entry->request_bytes);
    number_member(line, "response_bytes", entry->response_bytes);
    if (entry->op) {
        time_member(line, "receive", entry->receive_ns);
        time_member(line, "queue", entry->queue_ns);
        time_member(line, "h2d", entry->h2d_ns);
        time_member(line, "kernel", entry->kernel_ns);
        time_member(line, "d2h", entry->d2h_ns);
        time_member(line, "send", entry->send_ns);
    }
    time_member(line, "total", entry->total_ns);
    log_line_add(line, "}");
}

static void word(struct log_line *line, const char *name, const char *value, size_t budget)
{
    if (!value)
        return;
    log_line_add(line, " ");
    log_line_add(line, name);
    log_line_add(line, "=");
    log_line_escape(line, value, budget);
}

static void time_word(struct log_line *line, const char *name, uint64_t ns)
{
    log_line_add(line, " ");
    log_line_add(line, name);
    log_line_add(line, "=");
    log_line_milliseconds(line, ns);
}

static void number_word(struct log_line *line, const char *name, uint64_t value)
{
    log_line_add(line, " ");
    log_line_add(line, name);
    log_line_add(line, "=");
    log_line_number(line, value);
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
    word(line, "error", entry->error, WORD_BUDGET);
    if (entry->op) {
        number_word(line, "m", entry->m);
        number_word(line, "n", entry->n);
        number_word(line, "k", entry->k);
        number_word(line, "batch", entry->batch);
        word(line, "dtype", entry->dtype, WORD_BUDGET);
        word(line, "kernel", entry->kernel, WORD_BUDGET);
        number_word(line, "shared", entry->shared);
        time_word(line, "receive", entry->receive_ns);
        time_word(line, "queue", entry->queue_ns);
        time_word(line, "h2d", entry->h2d_ns);
        time_word(line, "compute", entry->kernel_ns);
        time_word(line, "d2h", entry->d2h_ns);
        time_word(line, "send", entry->send_ns);
    }
    number_word(line, "in", entry->request_bytes);
    number_word(line, "out", entry->response_bytes);
    word(line, "peer", entry->peer, WORD_BUDGET);
    word(line, "id", entry->request_id, ID_BUDGET);
}

void log_line_access(struct log_line *line, enum config_log_format format,
                     enum config_log_level level, const struct log_access *entry)
{
    log_line_begin(line, format, level);
    if (format == CONFIG_LOG_JSON)
        add_json(line, entry);
    else
        add_text(line, entry);
}
