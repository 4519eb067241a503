#include "server/observe/otlp_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/base/json_whole.h"

/* SpanKind and StatusCode of opentelemetry/proto/trace/v1/trace.proto. */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 };
enum { NUMBER_TEXT = 24 };

struct stage {
    const char *name;
    uint64_t begin_ns, end_ns; /* on the monotonic clock */
};

static void copy_text(char *out, size_t capacity, const char *text)
{
    snprintf(out, capacity, "%s", text == NULL ? "" : text);
}

/* When the monotonic clock was 0, in nanoseconds since 1970. A thread can lose the processor
 * between its readings of two clocks, so that the wall clock is read between two readings of the
 * monotonic clock, and again if these are far apart. */
static int64_t epoch_ns(void)
{
    enum { NEAR_NS = 20000, READINGS_MAX = 16 };
    uint64_t nearest_ns = UINT64_MAX;
    int64_t epoch = 0;
    for (int i = 0; i < READINGS_MAX && nearest_ns > NEAR_NS; i++) {
        struct timespec wall;
        const uint64_t before_ns = clock_now_ns();
        clock_gettime(CLOCK_REALTIME, &wall);
        const uint64_t apart_ns = clock_now_ns() - before_ns;
        if (apart_ns < nearest_ns) {
            nearest_ns = apart_ns;
            epoch = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec -
                    (int64_t)(before_ns + apart_ns / 2);
        }
    }
    return epoch;
}

void otlp_record_fill(struct otlp_record *record, const struct trace_context *trace,
                      const char *state, const struct log_access *entry, bool is_job)
{
    record->trace = *trace;
    record->is_job = is_job;
    record->epoch_ns = epoch_ns();
    record->entry = *entry;
    copy_text(record->state, sizeof record->state, state);
    copy_text(record->method, sizeof record->method, entry->method);
    copy_text(record->path, sizeof record->path, entry->path);
    record->path[strcspn(record->path, "?")] = '\0';
    copy_text(record->request_id, sizeof record->request_id, entry->request_id);
    copy_text(record->peer, sizeof record->peer, entry->peer);
    copy_text(record->client, sizeof record->client, entry->client);
    copy_text(record->job, sizeof record->job, entry->job);
    copy_text(record->reason, sizeof record->reason, entry->reason);
}

/* Adds a stage, cut at the end of the record's own span. Stages of no length are left out. */
static void add_stage(const struct otlp_record *record, struct stage *stages, uint32_t *count,
                      const char *name, uint64_t begin_ns, uint64_t duration_ns)
{
    const uint64_t end_ns = record->entry.started_ns + record->entry.total_ns;
    if (begin_ns == 0 || duration_ns == 0 || begin_ns >= end_ns)
        return;
    const uint64_t most_ns = end_ns - begin_ns;
    stages[(*count)++] =
        (struct stage){name, begin_ns, begin_ns + (duration_ns < most_ns ? duration_ns : most_ns)};
}

static uint32_t stages_of(const struct otlp_record *record, struct stage stages[OTLP_STAGES_MAX])
{
    const struct log_access *entry = &record->entry;
    uint32_t count = 0;
    uint64_t device_ns = entry->device_ns;
    add_stage(record, stages, &count, "receive", entry->started_ns, entry->receive_ns);
    add_stage(record, stages, &count, "queue", entry->queued_ns, entry->queue_ns);
    add_stage(record, stages, &count, "copy in", device_ns, entry->h2d_ns);
    device_ns += device_ns == 0 ? 0 : entry->h2d_ns;
    add_stage(record, stages, &count, "kernel", device_ns, entry->kernel_ns);
    device_ns += device_ns == 0 ? 0 : entry->kernel_ns;
    add_stage(record, stages, &count, "copy out", device_ns, entry->d2h_ns);
    add_stage(record, stages, &count, "send", entry->sending_ns, entry->send_ns);
    return count;
}

uint32_t otlp_record_spans(const struct otlp_record *record)
{
    struct stage stages[OTLP_STAGES_MAX];
    return 1 + stages_of(record, stages);
}

/* A string of a client, as JSON. A string that is not UTF-8 becomes "", since JSON cannot hold it.
 */
static json_t *client_string(const char *text)
{
    json_t *string = json_string(text);
    return string != NULL ? string : json_string("");
}

static void add_string(json_t *attributes, const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0')
        json_array_append_new(attributes, json_pack("{s:s, s:{s:o}}", "key", key, "value",
                                                    "stringValue", client_string(value)));
}

/* 64-bit integers are strings in the JSON of protobuf. */
static void add_number(json_t *attributes, const char *key, uint64_t value)
{
    char text[NUMBER_TEXT];
    snprintf(text, sizeof text, "%" PRIu64, value);
    json_array_append_new(attributes,
                          json_pack("{s:s, s:{s:s}}", "key", key, "value", "intValue", text));
}

static void add_computation(json_t *attributes, const struct log_access *entry)
{
    add_string(attributes, "gemmd.op", entry->op);
    add_string(attributes, "gemmd.dtype", entry->dtype);
    add_string(attributes, "gemmd.kernel", entry->kernel);
    add_number(attributes, "gemmd.m", entry->m);
    add_number(attributes, "gemmd.n", entry->n);
    add_number(attributes, "gemmd.k", entry->k);
    add_number(attributes, "gemmd.batch", entry->batch);
    for (uint32_t i = 0; i < LOG_SIZES_MAX && entry->sizes[i].name != NULL; i++) {
        char key[32];
        snprintf(key, sizeof key, "gemmd.%.20s", entry->sizes[i].name);
        add_number(attributes, key, entry->sizes[i].value);
    }
    add_number(attributes, "gemmd.shared", entry->shared);
}

static json_t *attributes_of(const struct otlp_record *record)
{
    const struct log_access *entry = &record->entry;
    json_t *attributes = json_array();
    if (!record->is_job) {
        add_string(attributes, "http.request.method", record->method);
        add_string(attributes, "url.path", record->path);
        add_number(attributes, "http.response.status_code", (uint64_t)entry->status);
        add_number(attributes, "http.request.body.size", entry->request_bytes);
        add_number(attributes, "http.response.body.size", entry->response_bytes);
        add_string(attributes, "network.peer.address", record->peer);
        add_string(attributes, "client.address", record->client);
    }
    add_string(attributes, "error.type", entry->error);
    add_string(attributes, "gemmd.job", record->job);
    add_string(attributes, "gemmd.request_id", record->request_id);
    if (entry->op != NULL)
        add_computation(attributes, entry);
    return attributes;
}

static json_t *span_json(const struct otlp_record *record, const struct stage *stage, int kind,
                         const char *span_id, const char *parent_id)
{
    char begin[NUMBER_TEXT], end[NUMBER_TEXT];
    snprintf(begin, sizeof begin, "%" PRId64, (int64_t)stage->begin_ns + record->epoch_ns);
    snprintf(end, sizeof end, "%" PRId64, (int64_t)stage->end_ns + record->epoch_ns);
    json_t *span = json_pack("{s:s, s:s, s:o, s:i, s:s, s:s}", "traceId", record->trace.trace_id,
                             "spanId", span_id, "name", client_string(stage->name), "kind", kind,
                             "startTimeUnixNano", begin, "endTimeUnixNano", end);
    if (parent_id[0] != '\0')
        json_object_set_new(span, "parentSpanId", json_string(parent_id));
    if (record->state[0] != '\0')
        json_object_set_new(span, "traceState", json_string(record->state));
    return span;
}

static void add_spans(json_t *spans, const struct otlp_record *record, uint64_t *state)
{
    const struct log_access *entry = &record->entry;
    char name[sizeof record->method + sizeof record->path];
    char own_id[SPAN_ID_TEXT + 1], child_id[SPAN_ID_TEXT + 1];
    struct stage stages[OTLP_STAGES_MAX];
    /* The name of a span has few values: the path is an attribute. */
    snprintf(name, sizeof name, "%s%s%s", record->is_job ? "job" : record->method,
             entry->op != NULL ? " " : "", entry->op != NULL ? entry->op : "");
    memcpy(own_id, record->trace.span_id, sizeof own_id);
    if (record->is_job)
        random_id(own_id, state);
    const struct stage whole = {name, entry->started_ns, entry->started_ns + entry->total_ns};
    json_t *span = span_json(record, &whole, record->is_job ? KIND_INTERNAL : KIND_SERVER, own_id,
                             record->is_job ? record->trace.span_id : record->trace.parent_id);
    json_object_set_new(span, "attributes", attributes_of(record));
    if (entry->status >= 500 || entry->status == LOG_STATUS_LEFT ||
        (record->is_job && entry->error != NULL))
        json_object_set_new(span, "status",
                            json_pack("{s:i, s:o}", "code", STATUS_ERROR, "message",
                                      client_string(record->reason)));
    json_array_append_new(spans, span);
    const uint32_t count = stages_of(record, stages);
    for (uint32_t i = 0; i < count; i++) {
        random_id(child_id, state);
        json_array_append_new(spans,
                              span_json(record, &stages[i], KIND_INTERNAL, child_id, own_id));
    }
}

char *otlp_records_json(const struct otlp_record *records, uint32_t count, const char *version,
                        uint64_t *state)
{
    json_t *spans = json_array(), *attributes = json_array();
    add_string(attributes, "service.name", "gemmd");
    add_string(attributes, "service.version", version);
    for (uint32_t i = 0; i < count; i++)
        add_spans(spans, &records[i], state);
    json_t *root = json_pack("{s:[{s:{s:o}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans",
                             "resource", "attributes", attributes, "scopeSpans", "scope", "name",
                             "gemmd", "version", version, "spans", spans);
    return json_whole_text(root, JSON_COMPACT);
}
