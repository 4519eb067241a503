#include "server/jobs/job_view.h"

#include <stdio.h>
#include <time.h>

#include "proto/decimal.h"
#include "proto/json_text.h"

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

uint64_t job_view_json(const struct job_view *view, char text[JOB_VIEW_TEXT_MAX])
{
    struct json_text json;
    json_text_start(&json, text, JOB_VIEW_TEXT_MAX);
    json_text_raw(&json, "{\"id\":\"");
    json_text_raw(&json, view->id);
    json_text_raw(&json, "\",\"state\":\"");
    json_text_raw(&json, job_state_name(view->state));
    json_text_raw(&json, "\",\"op\":\"");
    json_text_raw(&json, view->op);
    json_text_raw(&json, "\",\"request_id\":");
    json_text_string(&json, view->request_id);
    add_time(&json, "created", view->created_ms);
    add_milliseconds(&json, ",\"queued_ms\":", view->queued_ns);
    if (view->has_started)
        add_milliseconds(&json, ",\"running_ms\":", view->running_ns);
    if (view->status != 0) {
        json_text_raw(&json, ",\"status\":");
        json_text_u64(&json, (uint64_t)view->status);
        json_text_raw(&json, ",\"bytes\":");
        json_text_u64(&json, view->bytes);
        add_time(&json, "expires", view->expires_ms);
    }
    json_text_raw(&json, "}\n");
    return json_text_end(&json);
}
