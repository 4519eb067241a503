#include "server/api/dashboard/sample_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "server/observe/history.h"

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

size_t sample_text(const struct history_sample *sample, char out[SAMPLE_TEXT_MAX])
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
    add(&text, ",\"ready\":%s,\"draining\":%s}", sample->ready ? "true" : "false",
        sample->draining ? "true" : "false");
    return text.length;
}
