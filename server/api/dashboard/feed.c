/* GET /dashboard/history, /dashboard/events, /dashboard/requests and /dashboard/kernels: the data
 * of the page at /. */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/utf8.h"
#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/base/json_whole.h"
#include "server/http/respond.h"
#include "server/http/stream.h"
#include "server/http/tokens.h"
#include "server/observe/history.h"
#include "server/observe/metrics_totals.h"
#include "server/observe/notable.h"

struct feed_call {
    struct request *request;
    uint64_t after; /* the number of a sample: only later ones are asked for */
    enum history_kind kind;
};

/* ---- the history ---- */

/* Every sample's text fits, with its terminating null byte. */
enum { SAMPLE_TEXT_MAX = 2048 };

struct text {
    char *out;
    size_t length;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
    const size_t room = SAMPLE_TEXT_MAX - text->length;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text->out + text->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->length += (size_t)length < room ? (size_t)length : room - 1;
}

static void add_latency(struct text *text, const struct history_sample *sample)
{
    uint64_t sum = 0;
    for (int i = 0; i < METRICS_LATENCY_BUCKETS; i++)
        sum += sample->latency[i];
    for (int i = 0; sum > 0 && i < METRICS_LATENCY_BUCKETS; i++)
        add(text, "%s%" PRIu32, i == 0 ? ",\"latency\":[" : ",", sample->latency[i]);
    add(text, sum > 0 ? "]" : "");
}

static void add_stages(struct text *text, const struct history_sample *sample)
{
    const char *before = ",\"stages_ms\":{";
    for (int op = 0; op < METRICS_COMPUTING_OPS; op++) {
        float sum = 0;
        for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
            sum += sample->stage_ms[op][stage];
        if (sum <= 0)
            continue;
        add(text, "%s\"%s\"", before, metrics_op_name((enum metrics_op)op));
        for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
            add(text, "%s%.6g", stage == 0 ? ":[" : ",", (double)sample->stage_ms[op][stage]);
        add(text, "]");
        before = ",";
    }
    add(text, before[1] == '\0' ? "}" : "");
}

/* Writes the text of a sample as JSON in one line, terminated. Returns its length. Lists of zeros
 * are left out. */
static size_t sample_text(const struct history_sample *sample, char out[SAMPLE_TEXT_MAX])
{
    struct text text = {.out = out, .length = 0};
    add(&text, "{\"number\":%" PRIu64 ",\"time\":%.3f,\"seconds\":%.4f,\"requests\":{",
        sample->number, sample->time_s, sample->seconds);
    for (int op = 0; op < METRICS_OP_COUNT; op++)
        add(&text, "%s\"%s\":%" PRIu32, op == 0 ? "" : ",", metrics_op_name((enum metrics_op)op),
            sample->requests[op]);
    add(&text, "},\"client_errors\":%" PRIu32 ",\"refused\":%" PRIu32 ",\"failed\":%" PRIu32,
        sample->client_errors, sample->refused, sample->failed);
    add_latency(&text, sample);
    add_stages(&text, sample);
    add(&text, ",\"queue\":{\"mean\":%.4g,\"max\":%.9g,\"share\":%.4g}", (double)sample->queue_mean,
        (double)sample->queue_max, (double)sample->queue_share);
    add(&text, ",\"busy\":%.4g,\"flops\":%.6g,\"received_bytes\":%.0f,\"sent_bytes\":%.0f",
        (double)sample->busy, sample->flops, sample->received_bytes, sample->sent_bytes);
    add(&text, ",\"cpu\":{\"process\":%.4g,\"host\":%.4g,\"processors\":%" PRIu32 "}",
        (double)sample->cpu_process, (double)sample->cpu_host, sample->cpus);
    add(&text, ",\"memory\":{\"process\":%.0f,\"host\":%.0f,\"capacity\":%.0f}",
        sample->memory_process, sample->memory_host, sample->memory_capacity);
    add(&text, ",\"ready\":%s,\"draining\":%s}", sample->ready ? "true" : "false",
        sample->draining ? "true" : "false");
    return text.length;
}

static bool take_after(struct feed_call *call, const char *value)
{
    char *end;
    call->after = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == '\0' && strlen(value) <= 19 &&
        call->after <= INT64_MAX)
        return true;
    fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, "after",
              "after is the number of a sample, not '%.32s'", value);
    return false;
}

static bool take_step(struct feed_call *call, const char *value)
{
    char long_step[8];
    snprintf(long_step, sizeof long_step, "%d", HISTORY_LONG_SECONDS);
    call->kind = strcmp(value, long_step) == 0 ? HISTORY_LONG : HISTORY_SECONDS;
    if (call->kind == HISTORY_LONG || strcmp(value, "1") == 0)
        return true;
    fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, "step",
              "step is '%.32s'; samples are of 1 second or of %s seconds", value, long_step);
    return false;
}

static bool take_events_parameter(void *context, const char *name, const char *value)
{
    struct feed_call *call = context;
    if (strcmp(name, "after") == 0)
        return take_after(call, value);
    fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, name,
              "this path takes the parameter after alone");
    return false;
}

static bool take_history_parameter(void *context, const char *name, const char *value)
{
    struct feed_call *call = context;
    if (strcmp(name, "after") == 0)
        return take_after(call, value);
    if (strcmp(name, "step") == 0)
        return take_step(call, value);
    fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, name,
              "this path takes the parameters after and step alone");
    return false;
}

/* Reads the parameters by `take`. Returns false if the request was refused. */
static bool read_parameters(struct request *request,
                            bool (*take)(void *context, const char *name, const char *value))
{
    struct feed_call *call = request->call;
    call->request = request;
    if (request_has_body(request)) {
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL, "this path takes no body");
        request_refuse(request);
        return false;
    }
    if (request_parameters(request, take, call) == GEMMD_OK)
        return true;
    respond_fault(request, &request->fault);
    return false;
}

static size_t write_bounds(char *out, size_t room)
{
    size_t length = (size_t)snprintf(out, room, "{\"latency_bounds\":[");
    for (uint32_t i = 0; i + 1 < METRICS_LATENCY_BUCKETS; i++)
        length += (size_t)snprintf(out + length, room - length, "%s%g", i == 0 ? "" : ",",
                                   metrics_latency_bound_s(i));
    length += (size_t)snprintf(out + length, room - length, "],\"stages\":[");
    for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
        length += (size_t)snprintf(out + length, room - length, "%s\"%s\"", stage == 0 ? "" : ",",
                                   metrics_stage_name((enum metrics_stage)stage));
    return length + (size_t)snprintf(out + length, room - length, "],\"samples\":[");
}

/* A history that is being sent. Each takes one of the streams: a history is up to a megabyte long,
 * and so many are in memory at most. */
struct sent_history {
    struct http_server *server;
    uint32_t tenant;
    char *text;
};

static void history_sent(void *context)
{
    struct sent_history *sent = context;
    stream_release(sent->server, sent->tenant);
    free(sent->text);
    free(sent);
}

/* Returns the text of the samples of a kind after a number, which the caller frees. NULL: out of
 * memory. */
static char *history_text(struct history *history, enum history_kind kind, uint64_t after)
{
    enum { HEAD_MAX = 1024 };
    struct history_sample *samples = malloc(HISTORY_MOST * sizeof *samples);
    char *text = NULL;
    if (samples == NULL)
        return NULL;
    const uint32_t count = history_read(history, kind, after, samples, HISTORY_MOST);
    text = malloc(HEAD_MAX + (size_t)count * (SAMPLE_TEXT_MAX + 1));
    if (text == NULL)
        goto end;
    size_t length = write_bounds(text, HEAD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            text[length++] = ',';
        length += sample_text(&samples[i], text + length);
    }
    text[length++] = ']';
    text[length++] = '}';
    text[length++] = '\n';
    text[length] = '\0';

end:
    free(samples);
    return text;
}

static void history_begin(struct request *request)
{
    const struct feed_call *call = request->call;
    if (!read_parameters(request, take_history_parameter))
        return;
    if (stream_reserve(request) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    struct sent_history *sent = malloc(sizeof *sent);
    char *text =
        sent == NULL ? NULL : history_text(services_of(request)->history, call->kind, call->after);
    if (text == NULL) {
        free(sent);
        stream_release(request->server, request->tenant_number);
        respond_out_of_memory(request);
        return;
    }
    *sent = (struct sent_history){request->server, request->tenant_number, text};
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "application/json");
    const struct payload payload = {
        .parts = {{text, strlen(text)}}, .count = 1, .sent = history_sent, .context = sent};
    respond(request, 200, &headers, &payload);
}

/* ---- the events ---- */

struct event_source {
    struct history *history;
    uint64_t after;
};

static size_t next_event(void *context, char *out, bool *ended)
{
    struct event_source *source = context;
    struct history_sample sample;
    (void)ended; /* streams end with their clients or with the daemon */
    _Static_assert((int)SAMPLE_TEXT_MAX + 64 <= (int)STREAM_PIECE_BYTES, "an event fits");
    if (history_newest(source->history, HISTORY_SECONDS) <= source->after ||
        history_read(source->history, HISTORY_SECONDS, source->after, &sample, 1) == 0)
        return 0;
    source->after = sample.number;
    int length = snprintf(out, 64, "id: %llu\ndata: ", (unsigned long long)sample.number);
    size_t total = (size_t)length + sample_text(&sample, out + length);
    out[total++] = '\n'; /* an empty line ends the event */
    out[total++] = '\n';
    return total;
}

static void events_begin(struct request *request)
{
    struct feed_call *call = request->call;
    struct history *history = services_of(request)->history;
    const uint64_t newest = history_newest(history, HISTORY_SECONDS);
    call->after = newest > 0 ? newest - 1 : 0;
    if (!read_parameters(request, take_events_parameter))
        return;
    if (atomic_load(&request->server->stage) >= HTTP_HANDED_OVER) {
        fault_set(&request->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
        respond_fault(request, &request->fault);
        return;
    }
    if (stream_reserve(request) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    struct event_source *source = malloc(sizeof *source);
    if (source == NULL) {
        stream_release(request->server, request->tenant_number);
        respond_out_of_memory(request);
        return;
    }
    *source = (struct event_source){.history = history, .after = call->after};
    const struct stream_source stream = {.next = next_event, .freed = free, .context = source};
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "text/event-stream");
    headers_add(&headers, "Cache-Control", "no-store");
    headers_add(&headers, "X-Accel-Buffering", "no"); /* a proxy passes each event on at once */
    respond_stream(request, &headers, &stream);
}

/* ---- requests that failed or were slow ---- */

static json_t *text_or_null(const char *text)
{
    return text[0] == '\0' ? json_null() : json_string(text);
}

/* A text with bytes of a client, or one that was cut within a character. U+FFFD stands for each
 * byte that is not part of UTF-8, which JSON cannot hold. */
static json_t *client_text(const char *text)
{
    enum { LONGEST = sizeof((struct notable_request *)0)->detail };
    char out[3 * LONGEST + 1];
    size_t length = 0;
    for (size_t left = strnlen(text, LONGEST); left > 0;) {
        const uint32_t bytes = utf8_length(text, left);
        memcpy(out + length, bytes > 0 ? text : "\xef\xbf\xbd", bytes > 0 ? bytes : 3);
        length += bytes > 0 ? bytes : 3;
        text += bytes > 0 ? bytes : 1;
        left -= bytes > 0 ? bytes : 1;
    }
    out[length] = '\0';
    return text_or_null(out);
}

static json_t *request_json(const struct notable_request *request)
{
    json_t *stages = json_object();
    bool whole = stages != NULL;
    for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
        whole &= json_object_set_new(stages, metrics_stage_name((enum metrics_stage)stage),
                                     json_real((double)request->stages_ns[stage] * 1e-6)) == 0;
    return json_pack("{s:f, s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:[I,I,I,I], s:f, s:o}",
                     "time", request->time_s, "request_id", request->id, "status", request->status,
                     "method", request->method, "path", client_text(request->path), "op",
                     text_or_null(request->op), "dtype", text_or_null(request->dtype), "kernel",
                     text_or_null(request->kernel), "error", text_or_null(request->error), "detail",
                     client_text(request->detail), "shape", (json_int_t)request->m,
                     (json_int_t)request->n, (json_int_t)request->k, (json_int_t)request->batch,
                     "total_ms", (double)request->total_ns * 1e-6, "stages_ms",
                     json_whole(stages, whole));
}

static json_t *requests_json(struct request *request, struct notable_request *kept,
                             enum notable_kind kind)
{
    const struct tokens *tokens = request->server->tokens;
    const bool all = tokens == NULL || (tokens_sees_all(tokens, request->tenant_number) &&
                                        (request->scopes & SCOPE_ADMIN) != 0);
    json_t *list = json_array();
    bool whole = list != NULL;
    const uint32_t count =
        notable_read(services_of(request)->notable, kind, all, request->tenant_number, kept);
    for (uint32_t i = 0; i < count; i++)
        whole &= json_array_append_new(list, request_json(&kept[i])) == 0;
    return json_whole(list, whole);
}

static void respond_json(struct request *request, json_t *root)
{
    respond_text(request, 200, "application/json",
                 json_whole_text(root, JSON_COMPACT | JSON_REAL_PRECISION(13)));
}

static void requests_begin(struct request *request)
{
    struct notable_request *kept = malloc(NOTABLE_EACH * sizeof *kept);
    if (kept == NULL) {
        respond_out_of_memory(request);
        return;
    }
    json_t *failed = requests_json(request, kept, NOTABLE_FAILED);
    json_t *slow = requests_json(request, kept, NOTABLE_SLOW);
    free(kept);
    respond_json(request, json_pack("{s:f, s:o, s:o}", "slow_ms",
                                    (double)notable_slow_ns(services_of(request)->notable) * 1e-6,
                                    "failed", failed, "slow", slow));
}

/* ---- kernels ---- */

static json_t *bound_json(uint8_t class)
{
    return class < METRICS_SHAPE_BOUNDS ? json_integer((json_int_t)metrics_shape_bounds[class])
                                        : json_null();
}

static json_t *cell_json(const struct metrics_cell_total *cell)
{
    const struct operation *operation = operation_table[(int)cell->task];
    const char *const *names = operation->length_names;
    return json_pack("{s:s, s:s, s:s, s:[s,s,s], s:[o,o,o], s:I, s:f, s:f, s:f}", "op",
                     operation->name, "kernel", cell->kernel, "dtype", dtype_name(cell->dtype),
                     "lengths", names[0], names[1], names[2], "up_to", bound_json(cell->classes[0]),
                     bound_json(cell->classes[1]), bound_json(cell->classes[2]), "works",
                     (json_int_t)cell->works, "flops", cell->flops, "bytes", cell->bytes,
                     "busy_seconds", (double)cell->busy_ns * 1e-9);
}

static void kernels_begin(struct request *request)
{
    const struct executors *executors = &services_of(request)->executors;
    const struct device_info *info = device_info(executors->list[0].device);
    struct metrics_cell_total *totals = calloc(METRICS_CELLS_MAX, sizeof *totals);
    if (totals == NULL) {
        respond_out_of_memory(request);
        return;
    }
    json_t *cells = json_array(), *peak = services_peak_json(info);
    bool whole = cells != NULL;
    const uint32_t count = metrics_cells(request->server->metrics, totals);
    for (uint32_t i = 0; i < count; i++)
        whole &= json_array_append_new(cells, cell_json(&totals[i])) == 0;
    free(totals);
    whole &= json_object_set_new(peak, "devices", json_integer(executors->count)) == 0;
    respond_json(request,
                 json_pack("{s:o, s:o}", "peak", peak, "kernels", json_whole(cells, whole)));
}

#define GET(at, bytes, function)                                                                   \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .scope = SCOPE_METRICS,          \
        .call_bytes = bytes, .call_zeroed_bytes = bytes, .begin = function                         \
    }

const struct endpoint feed_endpoints[] = {
    GET("/dashboard/history", sizeof(struct feed_call), history_begin),
    GET("/dashboard/events", sizeof(struct feed_call), events_begin),
    GET("/dashboard/requests", 0, requests_begin),
    GET("/dashboard/kernels", 0, kernels_begin),
    {0},
};
