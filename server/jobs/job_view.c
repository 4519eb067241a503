#include "server/jobs/job_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proto/json_text.h"
#include "proto/number.h"

/* "2026-11-21T10:00:00.123Z" */
static void add_time(struct json_text *json, const char *name, int64_t epoch_ms)
{
    time_t seconds = (time_t)(epoch_ms / 1000);
    struct tm utc;
    char text[96];
    gmtime_r(&seconds, &utc);
    snprintf(text, sizeof text, ",\"%s\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"", name,
             utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
             (int)(epoch_ms % 1000));
    json_text_raw(json, text);
}

static void add_milliseconds(struct json_text *json, const char *name, uint64_t ns)
{
    char text[DECIMAL_MAX + 1];
    *decimal_milliseconds(text, ns) = '\0';
    json_text_raw(json, name);
    json_text_raw(json, text);
}

static void write_view(struct json_text *out, const struct job_view *view, bool with_id)
{
    json_text_raw(out, "{");
    if (with_id) {
        json_text_raw(out, "\"id\":\"");
        json_text_raw(out, view->id);
        json_text_raw(out, "\",");
    }
    json_text_raw(out, "\"state\":\"");
    json_text_raw(out, job_state_name(view->state));
    json_text_raw(out, "\",\"op\":\"");
    json_text_raw(out, view->op);
    json_text_raw(out, "\",\"request_id\":");
    json_text_string(out, view->request_id);
    add_time(out, "created", view->created_ms);
    add_milliseconds(out, ",\"queued_ms\":", view->queued_ns);
    if (view->has_started)
        add_milliseconds(out, ",\"running_ms\":", view->running_ns);
    if (view->status != 0) {
        json_text_raw(out, ",\"status\":");
        json_text_u64(out, (uint64_t)view->status);
        json_text_raw(out, ",\"bytes\":");
        json_text_u64(out, view->bytes);
        add_time(out, "expires", view->expires_ms);
    }
    json_text_raw(out, "}");
}

uint64_t job_view_json(const struct job_view *view, char text[JOB_VIEW_TEXT_MAX])
{
    struct json_text json;
    json_text_start(&json, text, JOB_VIEW_TEXT_MAX);
    write_view(&json, view, true);
    json_text_raw(&json, "\n");
    return json_text_end(&json);
}

char *job_view_page(const struct job_view views[], uint32_t count, uint64_t next, bool with_ids)
{
    struct json_text json;
    const uint64_t capacity = (uint64_t)(count + 1) * JOB_VIEW_TEXT_MAX;
    char *text = malloc(capacity), number[24];
    if (text == NULL)
        return NULL;
    json_text_start(&json, text, capacity);
    json_text_raw(&json, "{\"jobs\":[");
    for (uint32_t i = 0; i < count; i++) {
        json_text_raw(&json, i > 0 ? ",\n" : "");
        write_view(&json, &views[i], with_ids);
    }
    snprintf(number, sizeof number, next > 0 ? "\"%" PRIu64 "\"" : "null", next);
    json_text_raw(&json, "],\"next\":");
    json_text_raw(&json, number);
    json_text_raw(&json, "}\n");
    const uint64_t length = json_text_end(&json);
    char *cut = realloc(text, length + 1); /* gives back the memory that the text does not need */
    return cut != NULL ? cut : text;
}
