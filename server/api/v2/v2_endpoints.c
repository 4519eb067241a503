/*
 * The endpoints of the Open Inference Protocol: the daemon, its models, and the protocol's
 * extensions. Inference is in infer.c, shared memory in region_endpoints.c. Extensions that the
 * daemon does not support answer 501.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/counted_text.h"
#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"
#include "server/api/v2/model_json.h"
#include "server/api/v2/model_list.h"
#include "server/api/v2/region_endpoints.h"
#include "server/base/json_whole.h"
#include "server/http/request.h"
#include "server/http/respond.h"

static bool is_post(const struct request *request)
{
    return strcmp(request->method, "POST") == 0;
}

/* Sends a JSON document, and takes over the reference to `json`. NULL: memory has run out. */
static void respond_json(struct request *request, json_t *json)
{
    respond_text(request, 200, "application/json", json_whole_text(json, JSON_COMPACT));
}

static void not_served(struct request *request, const char *sentence)
{
    fault_set(&request->fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL, "%s", sentence);
    request_refuse(request);
}

/* ---- the daemon ---- */

static void v2_server_begin(struct request *request)
{
    const struct config *config = request->config;
    json_t *extensions = json_pack("[s, s, s, s, s, s, s]", "binary_tensor_data", "statistics",
                                   "model_configuration", "schedule_policy", "parameters",
                                   "model_repository", "logging");
    bool whole = extensions != NULL;
    if (config->shm_system)
        whole &= json_array_append_new(extensions, json_string("system_shared_memory")) == 0;
    if (config->shm_cuda)
        whole &= json_array_append_new(extensions, json_string("cuda_shared_memory")) == 0;
    respond_json(request, json_pack("{s:s, s:s, s:o}", "name", "gemmd", "version", GEMMD_VERSION,
                                    "extensions", json_whole(extensions, whole)));
}

/* The log's settings, which only the options of the daemon can change. */
static void v2_logging_begin(struct request *request)
{
    const enum config_log_level level = request->config->log_level;
    if (is_post(request)) {
        not_served(request, "what is logged is set by --log-level when the daemon starts");
        return;
    }
    respond_json(request,
                 json_pack("{s:s, s:b, s:b, s:b, s:i, s:s}", "log_file", "", "log_info",
                           level <= CONFIG_LOG_INFO, "log_warning", level <= CONFIG_LOG_WARNING,
                           "log_error", 1, "log_verbose_level", level <= CONFIG_LOG_DEBUG,
                           "log_format", "default"));
}

static void v2_trace_begin(struct request *request)
{
    if (is_post(request)) {
        not_served(request, "traces go to --otlp-endpoint, which is set when the daemon starts; "
                            "Server-Timing and the log say what took how long");
        return;
    }
    respond_json(request, json_pack("{s:[s], s:s, s:s, s:s, s:s, s:s}", "trace_level", "OFF",
                                    "trace_rate", "1000", "trace_count", "-1", "log_frequency", "0",
                                    "trace_file", "", "trace_mode", "triton"));
}

/* ---- models ---- */

/* Finds the model in the request's path. Returns false if the request was refused because there is
 * no such model. */
static bool find_model_or_refuse(struct request *request, struct model *model)
{
    if (model_find(services_of(request), request->name, request->tenant, model, &request->fault) ==
        GEMMD_OK)
        return true;
    request_refuse(request);
    return false;
}

static void respond_model(struct request *request, json_t *(*describe)(const struct model *))
{
    struct model model;
    if (!find_model_or_refuse(request, &model))
        return;
    json_t *json = describe(&model);
    model_release(services_of(request), &model);
    respond_json(request, json);
}

static void model_metadata_begin(struct request *request)
{
    respond_model(request, model_metadata_json);
}

static void model_config_begin(struct request *request)
{
    respond_model(request, model_config_json);
}

static const char STATS_HEAD[] = "{\"model_stats\":[", STATS_TAIL[] = "]}";

static void model_stats_begin(struct request *request)
{
    char text[MODEL_LIST_ENTRY_MAX + sizeof STATS_HEAD + sizeof STATS_TAIL];
    struct json_text json;
    struct headers headers;
    struct model model;
    if (!find_model_or_refuse(request, &model))
        return;
    json_text_start(&json, text, sizeof text);
    json_text_raw(&json, STATS_HEAD);
    model_stats_json(&json, &model);
    json_text_raw(&json, STATS_TAIL);
    model_release(services_of(request), &model);
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "application/json");
    const uint64_t length = json_text_end(&json);
    respond_copy(request, 200, &headers, text, length);
}

static void stats_entry(struct json_text *json, const struct request *request,
                        const struct model *model)
{
    (void)request;
    model_stats_json(json, model);
}

static void v2_stats_begin(struct request *request)
{
    char *text = model_list_text(request, STATS_HEAD, stats_entry, STATS_TAIL);
    if (text == NULL)
        respond_fault(request, &request->fault);
    else
        respond_counted_text(request, NULL, text);
}

static void model_ready_begin(struct request *request)
{
    struct model model;
    if (!find_model_or_refuse(request, &model))
        return;
    model_release(services_of(request), &model);
    if (services_check(request) == GEMMD_OK)
        respond_static(request, 200, "application/json", "", 0);
    else
        request_refuse(request);
}

static void model_trace_begin(struct request *request)
{
    struct model model;
    if (!find_model_or_refuse(request, &model))
        return;
    model_release(services_of(request), &model);
    v2_trace_begin(request);
}

static void v2_load_begin(struct request *request)
{
    not_served(request, "models are not loaded or unloaded: PUT and DELETE /tensors/W make and "
                        "remove the model linear.W, and the others are always there");
}

/* ---- POST /v2/repository/index, the list of the models of the tenant ---- */

/* The longest body in bytes: {"ready":true} and some white space. */
enum { REPOSITORY_BODY_MAX = 256 };

/* The state of a request for the index. */
struct repository_call {
    uint64_t bytes; /* received so far, in `text` */
    char text[REPOSITORY_BODY_MAX];
};

/* Without a device no model is ready. */
static bool has_device(const struct request *request)
{
    return !executors_are_lost(&services_of(request)->executors);
}

static void repository_entry(struct json_text *json, const struct request *request,
                             const struct model *model)
{
    json_text_raw(json, "{\"name\":");
    json_text_string(json, model->name);
    json_text_raw(json, has_device(request) ? ",\"version\":\"" MODEL_VERSION
                                              "\",\"state\":\"READY\",\"reason\":\"\"}"
                                            : ",\"version\":\"" MODEL_VERSION
                                              "\",\"state\":\"UNAVAILABLE\",\"reason\":"
                                              "\"the device is lost\"}");
}

static void repository_answer(struct request *request, bool ready_only)
{
    if (ready_only && !has_device(request)) {
        respond_static(request, 200, "application/json", "[]", 2);
        return;
    }
    char *text = model_list_text(request, "[", repository_entry, "]");
    if (text == NULL)
        respond_fault(request, &request->fault);
    else
        respond_counted_text(request, NULL, text);
}

static void repository_begin(struct request *request)
{
    if (request->sized && request->body_bytes == 0) {
        repository_answer(request, false);
        return;
    }
    request_receive(request, 0);
}

static bool repository_chunk(struct request *request, const void *bytes, uint64_t length)
{
    struct repository_call *body = request->call;
    if (length > REPOSITORY_BODY_MAX - body->bytes) {
        fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                  "the body is longer than the %d bytes that are read; it is {\"ready\":true} or "
                  "nothing",
                  REPOSITORY_BODY_MAX);
        return false;
    }
    memcpy(body->text + body->bytes, bytes, length);
    body->bytes += length;
    return true;
}

static void repository_submit(struct request *request)
{
    const struct repository_call *body = request->call;
    json_t *root = json_loadb(body->text, body->bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *ready = json_object_get(root, "ready");
    const bool right = json_is_object(root) && (ready == NULL || json_is_boolean(ready));
    const bool ready_only = json_is_true(ready);
    json_decref(root);
    if (right) {
        repository_answer(request, ready_only);
        return;
    }
    fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
              "the body is not an object with ready, true or false, or nothing");
    respond_fault(request, &request->fault);
}

/* ---- other paths ---- */

static void v2_other_begin(struct request *request)
{
    if (request->rest[0] == '\0' && !is_post(request)) {
        v2_server_begin(request);
        return;
    }
    char path[REQUEST_PATH_MAX], hint[PARAMETER_HINT_BYTES];
    snprintf(path, sizeof path, "/v2/%s", request->rest);
    fault_set(&request->fault, GEMMD_ERR_NOT_FOUND, NULL,
              "there is nothing at this path; models have the version " MODEL_VERSION
              ", and /openapi.json says what else there is%s",
              route_hint(request, path, hint));
    request_refuse(request);
}

#define GET(at, needed, function)                                                                  \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .scope = needed,                 \
        .begin = function                                                                          \
    }
#define GET_POST(at, needed, function)                                                             \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD, POST", .op = METRICS_OP_OTHER, .scope = needed,           \
        .begin = function                                                                          \
    }
#define POST(at, needed, function)                                                                 \
    {                                                                                              \
        .path = at, .allow = "POST", .op = METRICS_OP_OTHER, .scope = needed, .begin = function    \
    }
#define INFER(at)                                                                                  \
    {                                                                                              \
        .path = at, .allow = "POST", .op = METRICS_OP_INFER, .scope = SCOPE_COMPUTE,               \
        .call_bytes = sizeof(struct infer_call),                                                   \
        .call_zeroed_bytes = offsetof(struct infer_call, asked), .begin = infer_begin,             \
        .chunk = infer_chunk, .takes_long = infer_takes_long, .submit = infer_submit,              \
        .withdraw = infer_withdraw, .answer = infer_answer, .release = infer_release,              \
        .retry_after_s = infer_retry_after_s, .describe = infer_describe                           \
    }
#define REGIONS(at)                                                                                \
    GET(at "/status", SCOPE_COMPUTE, region_status_begin),                                         \
        GET(at "/region/{region}/status", SCOPE_COMPUTE, region_status_begin),                     \
        POST(at "/unregister", SCOPE_COMPUTE, region_unregister_begin),                            \
        POST(at "/region/{region}/unregister", SCOPE_COMPUTE, region_unregister_begin),            \
    {                                                                                              \
        .path = at "/region/{region}/register", .allow = "POST", .op = METRICS_OP_OTHER,           \
        .scope = SCOPE_COMPUTE, .call_bytes = sizeof(struct region_call),                          \
        .call_zeroed_bytes = sizeof(struct region_call), .begin = region_register_begin,           \
        .chunk = region_register_chunk, .submit = region_register_submit,                          \
        .answer = region_register_answer, .release = region_register_release                       \
    }
#define MODEL "/v2/models/{model}"
#define VERSION MODEL "/versions/" MODEL_VERSION

const struct endpoint v2_endpoints[] = {
    INFER(MODEL "/infer"),
    INFER(VERSION "/infer"),
    GET("/v2", SCOPE_ANY, v2_server_begin),
    GET("/v2/models/stats", SCOPE_COMPUTE, v2_stats_begin),
    GET(MODEL, SCOPE_COMPUTE, model_metadata_begin),
    GET(VERSION, SCOPE_COMPUTE, model_metadata_begin),
    GET(MODEL "/ready", SCOPE_COMPUTE, model_ready_begin),
    GET(VERSION "/ready", SCOPE_COMPUTE, model_ready_begin),
    GET(MODEL "/config", SCOPE_COMPUTE, model_config_begin),
    GET(VERSION "/config", SCOPE_COMPUTE, model_config_begin),
    GET(MODEL "/stats", SCOPE_COMPUTE, model_stats_begin),
    GET(VERSION "/stats", SCOPE_COMPUTE, model_stats_begin),
    {.path = "/v2/repository/index",
     .allow = "POST",
     .op = METRICS_OP_OTHER,
     .scope = SCOPE_COMPUTE,
     .call_bytes = sizeof(struct repository_call),
     .call_zeroed_bytes = sizeof(struct repository_call),
     .begin = repository_begin,
     .chunk = repository_chunk,
     .submit = repository_submit},
    POST("/v2/repository/models/{model}/load", SCOPE_ADMIN, v2_load_begin),
    POST("/v2/repository/models/{model}/unload", SCOPE_ADMIN, v2_load_begin),
    GET_POST("/v2/logging", SCOPE_ADMIN, v2_logging_begin),
    GET_POST("/v2/trace/setting", SCOPE_ADMIN, v2_trace_begin),
    GET_POST(MODEL "/trace/setting", SCOPE_ADMIN, model_trace_begin),
    REGIONS("/v2/systemsharedmemory"),
    REGIONS("/v2/cudasharedmemory"),
    GET_POST("/v2/", SCOPE_ANY, v2_other_begin),
    {0},
};
