#include "client/gemmctl/top_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const top_ops[TOP_OPS] = {"gemm", "attention", "infer", "tensor", "other"};

enum { COMPUTING_OPS = 3 }; /* the first of top_ops */

/* Keeps the largest tensors, the largest first. */
static void keep_tensor(const struct gemmd_tensor *tensor, void *user)
{
    struct top_look *look = user;
    uint32_t at = look->tensor_count;
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
    char *info = NULL, label[32];
    *look = (struct top_look){.tensors = malloc(TOP_TENSORS_MAX * sizeof *look->tensors)};
    if (look->tensors == NULL) {
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
    look->info = json_loads(info, 0, NULL);
    gemmd_free(info);
    for (int op = 0; op < TOP_OPS; op++) {
        snprintf(label, sizeof label, "op=\"%s\"", top_ops[op]);
        metrics_add_buckets(look->metrics, "gemmd_request_duration_seconds", label,
                            &look->buckets[op]);
    }
    code = gemmd_tensor_list(client, keep_tensor, look, error);
    return code == GEMMD_ERR_FORBIDDEN ? GEMMD_OK : code;
}

void top_look_free(struct top_look *look)
{
    gemmd_free(look->metrics);
    json_decref(look->info);
    free(look->tensors);
    *look = (struct top_look){0};
}

double top_rate(const struct top_look *before, const struct top_look *after, const char *name,
                const char *label)
{
    const double passed = after->time_s - before->time_s;
    const double now = metrics_sum(after->metrics, name, label);
    const double then = metrics_sum(before->metrics, name, label);
    if (passed <= 0)
        return 0;
    return (now >= then ? now - then : now) / passed;
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

double top_quantile(const struct top_look *before, const struct top_look *after, int op,
                    double share)
{
    struct metrics_buckets then = {0}, now = {0};
    for (int i = 0; i < TOP_OPS; i++) {
        if (op != i && (op != TOP_OPS || i >= COMPUTING_OPS))
            continue;
        add_buckets(&then, &before->buckets[i]);
        add_buckets(&now, &after->buckets[i]);
    }
    if (then.length > 0 && now.length > 0 &&
        now.count[now.length - 1] < then.count[then.length - 1])
        then = (struct metrics_buckets){0}; /* the daemon has started anew */
    return metrics_quantile(&then, &now, share);
}
