#include "client/gemmctl/top_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/print.h"
#include "client/gemmctl/report.h"
#include "client/gemmctl/table.h"
#include "client/gemmctl/units.h"

static double now_of(const struct top_view *view, const char *name, const char *label)
{
    return metrics_sum(view->after->metrics, name, label);
}

static double rate_of(const struct top_view *view, const char *name, const char *label)
{
    return top_rate(view->before, view->after, name, label);
}

/* Requests a second that were answered with a 4xx other than 429. */
static double wrong_rate(const struct top_view *view)
{
    return rate_of(view, "gemmd_requests_total", "code=\"4") -
           rate_of(view, "gemmd_requests_total", "code=\"429\"");
}

/* A duration, or a dash for a negative one. */
static const char *duration(double seconds, char out[UNITS_ROOM])
{
    if (seconds >= 0)
        return units_duration(seconds, out);
    snprintf(out, UNITS_ROOM, "-");
    return out;
}

static const char *state_of(const struct top_view *view)
{
    if (now_of(view, "gemmd_draining", NULL) > 0)
        return "draining";
    return now_of(view, "gemmd_ready", NULL) > 0 ? "ready" : "not ready";
}

static void print_head(const struct top_view *view, FILE *to)
{
    const json_t *info = view->after->info;
    const char *version = json_string_value(json_object_get(info, "version"));
    char uptime[UNITS_ROOM];
    /* The address, which may be long, is what a narrow terminal cuts off. */
    fprintf(to, "%sgemmd ", terminal_bold(view->color));
    (void)terminal_put(version != NULL ? version : "?", to);
    fprintf(to, "%s, %s, up %s, at %s\n", terminal_plain(view->color), state_of(view),
            duration(json_number_value(json_object_get(info, "uptime_seconds")), uptime),
            view->url);
    if (view->problem != NULL) {
        fputs(terminal_red(view->color), to);
        (void)terminal_put(view->problem, to);
        fprintf(to, "%s\n", terminal_plain(view->color));
    }
    fputc('\n', to);
}

static void print_requests(const struct top_view *view, FILE *to)
{
    char one[UNITS_ROOM], two[UNITS_ROOM], three[UNITS_ROOM];
    const char *requests = "gemmd_requests_total";
    fprintf(to,
            "requests   %.1f/s, %.1f/s wrong (4xx), %.1f/s refused (429), %.1f/s failed (5xx)\n",
            rate_of(view, requests, NULL), wrong_rate(view),
            rate_of(view, requests, "code=\"429\""), rate_of(view, requests, "code=\"5"));
    fprintf(to, "latency    p50 %s, p90 %s, p99 %s\n",
            duration(top_quantile(view->before, view->after, NULL, 0.5), one),
            duration(top_quantile(view->before, view->after, NULL, 0.9), two),
            duration(top_quantile(view->before, view->after, NULL, 0.99), three));
    fprintf(to, "work       %s, %s/s in, %s/s out\n",
            units_flops(rate_of(view, "gemmd_flops_total", NULL), one),
            units_bytes(rate_of(view, "gemmd_request_bytes_total", NULL), two),
            units_bytes(rate_of(view, "gemmd_response_bytes_total", NULL), three));
    fprintf(to, "queue      %.0f waiting, %.0f running, %s of %s, %.0f connections\n",
            now_of(view, "gemmd_requests_waiting", NULL),
            now_of(view, "gemmd_requests_running", NULL),
            units_bytes(now_of(view, "gemmd_queue_bytes", NULL), one),
            units_bytes(now_of(view, "gemmd_queue_capacity_bytes", NULL), two),
            now_of(view, "gemmd_connections", NULL));
    fprintf(to, "jobs       %.0f queued, %.0f running, %.0f done, %.0f failed\n\n",
            now_of(view, "gemmd_jobs", "state=\"queued\""),
            now_of(view, "gemmd_jobs", "state=\"running\""),
            now_of(view, "gemmd_jobs", "state=\"done\""),
            now_of(view, "gemmd_jobs", "state=\"failed\""));
}

static bool print_ops(const struct top_view *view, FILE *to)
{
    static const struct table_column columns[] = {
        {"OPERATION", false}, {"REQUESTS/s", true}, {"P50", true}, {"P90", true}, {"P99", true}};
    struct table table;
    char label[48], rate[32], p50[UNITS_ROOM], p90[UNITS_ROOM], p99[UNITS_ROOM];
    table_start(&table, columns, sizeof columns / sizeof columns[0]);
    for (uint32_t i = 0; i < view->after->op_count; i++) {
        const char *op = view->after->ops[i].name;
        snprintf(label, sizeof label, "op=\"%s\"", op);
        if (now_of(view, "gemmd_requests_total", label) == 0)
            continue; /* the daemon has had no such request since its start */
        snprintf(rate, sizeof rate, "%.1f", rate_of(view, "gemmd_requests_total", label));
        const char *const cells[] = {
            op, rate, duration(top_quantile(view->before, view->after, op, 0.5), p50),
            duration(top_quantile(view->before, view->after, op, 0.9), p90),
            duration(top_quantile(view->before, view->after, op, 0.99), p99)};
        table_add(&table, cells);
    }
    const bool done = table_print(&table, view->color, to);
    if (table.rows > 0)
        fputc('\n', to);
    table_free(&table);
    return done;
}

/* The share of the time in which a device computed, 0 to 1; negative: not known. With several
 * devices the daemon has a series for each. */
static double busy_of(const struct top_view *view, json_int_t index, size_t devices)
{
    char label[48];
    if (devices == 1)
        return fmin(rate_of(view, "gemmd_device_busy_seconds_total", NULL), 1);
    snprintf(label, sizeof label, "device=\"%" JSON_INTEGER_FORMAT "\"", index);
    return metrics_has(view->after->metrics, "gemmd_per_device_busy_seconds_total")
               ? fmin(rate_of(view, "gemmd_per_device_busy_seconds_total", label), 1)
               : -1;
}

static bool print_devices(const struct top_view *view, FILE *to)
{
    static const struct table_column columns[] = {
        {"DEVICE", true}, {"NAME", false}, {"BUSY", true}, {"MEMORY", true}, {"OF", true}};
    json_t *devices = json_object_get(view->after->info, "devices"), *device;
    struct table table;
    size_t i;
    char number[24], busy[16], used[UNITS_ROOM], room[UNITS_ROOM];
    table_start(&table, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(devices, i, device)
    {
        const char *name = json_string_value(json_object_get(device, "name"));
        const json_int_t index = json_integer_value(json_object_get(device, "index"));
        const double share = busy_of(view, index, json_array_size(devices));
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, index);
        snprintf(busy, sizeof busy, share >= 0 ? "%.0f %%" : "-", share * 100);
        units_bytes(json_number_value(json_object_get(device, "memory_used_bytes")), used);
        units_bytes(json_number_value(json_object_get(device, "memory_capacity_bytes")), room);
        const bool lost = json_is_true(json_object_get(device, "lost"));
        const char *const cells[] = {number, name != NULL ? name : "", lost ? "lost" : busy, used,
                                     room};
        table_add(&table, cells);
    }
    const bool done = table_print(&table, view->color, to);
    table_free(&table);
    return done;
}

static bool print_tensors(const struct top_view *view, FILE *to)
{
    static const struct table_column columns[] = {
        {"TENSOR", false}, {"DTYPE", false}, {"SHAPE", false}, {"SIZE", true}};
    const struct top_look *look = view->after;
    struct table table;
    char shape[REPORT_SHAPE_ROOM], size[UNITS_ROOM], used[UNITS_ROOM], room[UNITS_ROOM];
    fprintf(to, "\ntensors    %.0f, %s of %s\n", now_of(view, "gemmd_tensor_names", NULL),
            units_bytes(now_of(view, "gemmd_tensor_memory_used_bytes", NULL), used),
            units_bytes(now_of(view, "gemmd_tensor_memory_capacity_bytes", NULL), room));
    table_start(&table, columns, sizeof columns / sizeof columns[0]);
    for (uint32_t i = 0; i < look->tensor_count; i++) {
        const struct gemmd_tensor *tensor = &look->tensors[i];
        const char *const cells[] = {tensor->name, gemmd_dtype_name(tensor->dtype),
                                     report_shape(tensor->rank, tensor->dims, shape),
                                     units_bytes((double)tensor->bytes, size)};
        table_add(&table, cells);
    }
    const bool done = table_print(&table, view->color, to);
    table_free(&table);
    return done;
}

bool top_view_print(const struct top_view *view, FILE *to)
{
    print_head(view, to);
    print_requests(view, to);
    return print_ops(view, to) && print_devices(view, to) && print_tensors(view, to);
}

/* A number of milliseconds, or null for a negative duration. */
static json_t *milliseconds(double seconds)
{
    return seconds >= 0 ? json_real(seconds * 1000) : json_null();
}

static json_t *describe_latency(const struct top_view *view, const char *op)
{
    return json_pack("{s:o, s:o, s:o}", "p50",
                     milliseconds(top_quantile(view->before, view->after, op, 0.5)), "p90",
                     milliseconds(top_quantile(view->before, view->after, op, 0.9)), "p99",
                     milliseconds(top_quantile(view->before, view->after, op, 0.99)));
}

static json_t *describe_ops(const struct top_view *view)
{
    json_t *ops = json_object();
    char label[48];
    for (uint32_t i = 0; i < view->after->op_count; i++) {
        const char *op = view->after->ops[i].name;
        snprintf(label, sizeof label, "op=\"%s\"", op);
        json_object_set_new(ops, op,
                            json_pack("{s:f, s:o}", "requests_per_second",
                                      rate_of(view, "gemmd_requests_total", label), "latency_ms",
                                      describe_latency(view, op)));
    }
    return ops;
}

static json_t *describe_devices(const struct top_view *view)
{
    json_t *list = json_array(), *devices = json_object_get(view->after->info, "devices"), *device;
    size_t i;
    json_array_foreach(devices, i, device)
    {
        const json_int_t index = json_integer_value(json_object_get(device, "index"));
        const double busy = busy_of(view, index, json_array_size(devices));
        json_array_append_new(
            list, json_pack("{s:I, s:O?, s:o, s:O?, s:O?}", "index", index, "name",
                            json_object_get(device, "name"), "busy",
                            busy >= 0 ? json_real(busy) : json_null(), "memory_used_bytes",
                            json_object_get(device, "memory_used_bytes"), "memory_capacity_bytes",
                            json_object_get(device, "memory_capacity_bytes")));
    }
    return list;
}

json_t *top_view_describe(const struct top_view *view)
{
    const char *requests = "gemmd_requests_total";
    return json_pack("{s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:I, s:I, s:I, s:I, "
                     "s:I, s:o, s:o}",
                     "version", PRINT_JSON_VERSION, "state", state_of(view), "interval_s",
                     view->after->time_s - view->before->time_s, "requests_per_second",
                     rate_of(view, requests, NULL), "wrong_per_second", wrong_rate(view),
                     "refused_per_second", rate_of(view, requests, "code=\"429\""),
                     "failed_per_second", rate_of(view, requests, "code=\"5"), "latency_ms",
                     describe_latency(view, NULL), "gigaflops_per_second",
                     rate_of(view, "gemmd_flops_total", NULL) / 1e9, "received_bytes_per_second",
                     rate_of(view, "gemmd_request_bytes_total", NULL), "sent_bytes_per_second",
                     rate_of(view, "gemmd_response_bytes_total", NULL), "requests_waiting",
                     (json_int_t)now_of(view, "gemmd_requests_waiting", NULL), "requests_running",
                     (json_int_t)now_of(view, "gemmd_requests_running", NULL), "connections",
                     (json_int_t)now_of(view, "gemmd_connections", NULL), "tensors",
                     (json_int_t)now_of(view, "gemmd_tensor_names", NULL), "tensor_bytes",
                     (json_int_t)now_of(view, "gemmd_tensor_memory_used_bytes", NULL), "operations",
                     describe_ops(view), "devices", describe_devices(view));
}
