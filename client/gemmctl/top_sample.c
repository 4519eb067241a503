#include "client/gemmctl/top_sample.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- metrics in Prometheus' text format ---- */

/* One line of the text: a series and its value. */
struct series {
    const char *labels; /* behind the brace, or where the value is */
    size_t labels_length;
    double value;
};

/* Finds the next series of a metric at or behind `*at`, and moves `*at` behind its line. */
static bool next_series(const char **at, const char *name, struct series *series)
{
    const size_t length = strlen(name);
    while (**at != '\0') {
        const char *line = *at, *end = line + strcspn(line, "\n");
        *at = end + (*end == '\n');
        if (strncmp(line, name, length) != 0 || (line[length] != '{' && line[length] != ' '))
            continue;
        const char *value = line + length;
        series->labels = value;
        if (*value == '{') /* no value of a label of the daemon has a brace */
            value += strcspn(value, "}\n");
        series->labels_length = (size_t)(value - series->labels);
        value += *value == '}';
        series->value = strtod(value, NULL);
        return true;
    }
    return false;
}

static bool has_label(const struct series *series, const char *label)
{
    return label == NULL ||
           memmem(series->labels, series->labels_length, label, strlen(label)) != NULL;
}

double metrics_sum(const char *text, const char *name, const char *label)
{
    struct series series;
    double sum = 0;
    while (next_series(&text, name, &series))
        if (has_label(&series, label))
            sum += series.value;
    return sum;
}

bool metrics_has(const char *text, const char *name)
{
    struct series series;
    return next_series(&text, name, &series);
}

static double bound_of(const struct series *series)
{
    static const char le[] = "le=\"";
    const char *at = memmem(series->labels, series->labels_length, le, sizeof le - 1);
    return at != NULL ? strtod(at + sizeof le - 1, NULL) : NAN;
}

void metrics_add_buckets(const char *text, const char *name, const char *label,
                         struct metrics_buckets *buckets)
{
    char full[96];
    struct series series;
    snprintf(full, sizeof full, "%s_bucket", name);
    while (next_series(&text, full, &series)) {
        const double upper = bound_of(&series);
        if (!has_label(&series, label) || isnan(upper))
            continue;
        unsigned i = 0;
        while (i < buckets->length && buckets->upper[i] < upper)
            i++;
        if (i == buckets->length && i < METRICS_BUCKETS_MAX) {
            buckets->upper[i] = upper;
            buckets->count[i] = 0;
            buckets->length++;
        }
        if (i < METRICS_BUCKETS_MAX)
            buckets->count[i] += series.value;
    }
}

double metrics_quantile(const struct metrics_buckets *before, const struct metrics_buckets *after,
                        double share)
{
    double counts[METRICS_BUCKETS_MAX], lower = 0, below = 0;
    if (after->length == 0)
        return -1;
    for (unsigned i = 0; i < after->length; i++)
        counts[i] = after->count[i] - (i < before->length ? before->count[i] : 0);
    const double all = counts[after->length - 1], wanted = share * all;
    if (all <= 0)
        return -1;
    for (unsigned i = 0; i < after->length; i++) {
        if (counts[i] >= wanted && counts[i] > below)
            return isinf(after->upper[i])
                       ? lower
                       : lower + (after->upper[i] - lower) * (wanted - below) / (counts[i] - below);
        lower = isinf(after->upper[i]) ? lower : after->upper[i];
        below = counts[i];
    }
    return lower;
}

/* ---- looks ---- */

/* The most tensors that the daemon lists in an answer. */
enum { TENSORS_OF_A_PAGE = 1000 };

/* The kinds of requests besides operations. The last two compute nothing. */
static const char *const other_kinds[] = {"infer", "tensor", "other"};

static bool computes(const struct top_op *op)
{
    return strcmp(op->name, "tensor") != 0 && strcmp(op->name, "other") != 0;
}

/* The kind of requests with a name; NULL: the look has none. */
static const struct top_op *find_op(const struct top_look *look, const char *name)
{
    for (uint32_t i = 0; i < look->op_count; i++)
        if (strcmp(look->ops[i].name, name) == 0)
            return &look->ops[i];
    return NULL;
}

/* Adds a kind of requests, unless the look has the kind already. */
static void add_op(struct top_look *look, const char *name)
{
    char label[48];
    if (look->op_count == TOP_OPS_MAX || find_op(look, name) != NULL)
        return;
    struct top_op *op = &look->ops[look->op_count++];
    *op = (struct top_op){.name = ""};
    snprintf(op->name, sizeof op->name, "%s", name);
    snprintf(label, sizeof label, "op=\"%s\"", op->name);
    metrics_add_buckets(look->metrics, "gemmd_request_duration_seconds", label, &op->buckets);
}

/* Adds the operations that the daemon has kernels for, and the other kinds of requests. */
static void add_ops(struct top_look *look)
{
    const json_t *kernel;
    size_t i;
    json_array_foreach(json_object_get(look->info, "kernels"), i, kernel)
    {
        const char *op = json_string_value(json_object_get(kernel, "op"));
        if (op != NULL)
            add_op(look, op);
    }
    for (i = 0; i < sizeof other_kinds / sizeof *other_kinds; i++)
        add_op(look, other_kinds[i]);
}

/* Keeps the largest tensors, the largest first. */
static void keep_tensor(const struct gemmd_tensor *tensor, void *user)
{
    struct top_look *look = user;
    uint32_t at = look->tensor_count;
    look->tensors_listed++;
    while (at > 0 && look->tensors[at - 1].bytes < tensor->bytes)
        at--;
    if (at == TOP_TENSORS_MAX)
        return;
    if (look->tensor_count < TOP_TENSORS_MAX)
        look->tensor_count++;
    memmove(&look->tensors[at + 1], &look->tensors[at],
            (look->tensor_count - 1 - at) * sizeof *tensor);
    look->tensors[at] = *tensor;
}

enum gemmd_error top_look(struct gemmd_client *client, struct top_look *look,
                          struct gemmd_error_info *error)
{
    struct timespec now;
    char *info = NULL;
    *look = (struct top_look){.tensors = malloc(TOP_TENSORS_MAX * sizeof *look->tensors),
                              .ops = malloc(TOP_OPS_MAX * sizeof *look->ops)};
    if (look->tensors == NULL || look->ops == NULL) {
        *error = (struct gemmd_error_info){.code = GEMMD_ERR_OUT_OF_MEMORY,
                                           .message = "there is no memory for the view"};
        return error->code;
    }
    enum gemmd_error code = gemmd_metrics(client, &look->metrics, error);
    clock_gettime(CLOCK_MONOTONIC, &now);
    look->time_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    if (code == GEMMD_OK)
        code = gemmd_info(client, &info, error);
    if (code != GEMMD_OK)
        return code;
    look->own.other = 2;
    look->own.bytes = (double)(strlen(look->metrics) + strlen(info));
    look->info = json_loads(info, 0, NULL);
    gemmd_free(info);
    add_ops(look);
    code = gemmd_tensor_list(client, keep_tensor, look, error);
    if (code == GEMMD_ERR_FORBIDDEN) {
        look->own.other++; /* a request without the scope is counted there */
        look->own.forbidden = 1;
        return GEMMD_OK;
    }
    look->own.tensor = fmax(1, ceil((double)look->tensors_listed / TENSORS_OF_A_PAGE));
    return code;
}

void top_look_free(struct top_look *look)
{
    gemmd_free(look->metrics);
    json_decref(look->info);
    free(look->tensors);
    free(look->ops);
    *look = (struct top_look){0};
}

/* What the look has added to a counter. */
static double own_part(const struct top_own *own, const char *name, const char *label)
{
    if (strcmp(name, "gemmd_response_bytes_total") == 0)
        return own->bytes;
    if (strcmp(name, "gemmd_requests_total") != 0)
        return 0;
    if (label == NULL)
        return own->other + own->tensor;
    if (strcmp(label, "op=\"other\"") == 0)
        return own->other;
    if (strcmp(label, "op=\"tensor\"") == 0)
        return own->tensor;
    return strcmp(label, "code=\"4") == 0 ? own->forbidden : 0;
}

double top_rate(const struct top_look *before, const struct top_look *after, const char *name,
                const char *label)
{
    const double passed = after->time_s - before->time_s;
    const double now = metrics_sum(after->metrics, name, label);
    const double then = metrics_sum(before->metrics, name, label);
    if (passed <= 0)
        return 0;
    return fmax((now >= then ? now - then : now) - own_part(&before->own, name, label), 0) / passed;
}

/* The sum of two histograms of the same bounds. */
static void add_buckets(struct metrics_buckets *sum, const struct metrics_buckets *other)
{
    for (unsigned i = 0; i < other->length; i++) {
        sum->upper[i] = other->upper[i];
        sum->count[i] = (i < sum->length ? sum->count[i] : 0) + other->count[i];
    }
    if (other->length > sum->length)
        sum->length = other->length;
}

double top_quantile(const struct top_look *before, const struct top_look *after, const char *op,
                    double share)
{
    struct metrics_buckets then = {0}, now = {0};
    for (uint32_t i = 0; i < after->op_count; i++) {
        const struct top_op *late = &after->ops[i], *early = find_op(before, late->name);
        if (op != NULL ? strcmp(op, late->name) != 0 : !computes(late))
            continue;
        add_buckets(&now, &late->buckets);
        if (early != NULL)
            add_buckets(&then, &early->buckets);
    }
    if (then.length > 0 && now.length > 0 &&
        now.count[now.length - 1] < then.count[then.length - 1])
        then = (struct metrics_buckets){0}; /* the daemon has started anew */
    return metrics_quantile(&then, &now, share);
}
