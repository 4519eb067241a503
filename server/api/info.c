/* GET /metrics, /info, /version and /openapi.json, which describe the daemon. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/openapi.h"
#include "server/api/endpoints.h"
#include "server/api/gauges.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/base/json_whole.h"
#include "server/http/respond.h"
#include "server/observe/nvml.h"

static void metrics_begin(struct request *request)
{
    struct metrics_gauges gauges =
        gauges_read(services_of(request), request->config, request->tenant_number);
    char accept[REQUEST_LIST_MAX];
    enum metrics_format format = metrics_negotiate(request_header_list(request, "Accept", accept));
    struct nvml_sample sample;
    struct nvml *nvml = services_of(request)->nvml;
    char *text;
    uint64_t length;
    if (nvml != NULL) {
        nvml_read(nvml, &sample);
        gauges.gpus = &sample;
    }
    if (!metrics_expose(request->server->metrics, &gauges, format, &text, &length))
        text = NULL;
    respond_text(request, 200, metrics_content_type(format), text);
}

/* Adds the result types `outs` of operands of a type, unless there are none. Takes over `outs`,
 * which may be NULL. False: there is no memory. */
static bool add_outs(json_t *types, enum gemmd_dtype dtype, json_t *outs)
{
    if (outs != NULL && json_array_size(outs) == 0) {
        json_decref(outs);
        return true;
    }
    return json_object_set_new(types, dtype_name(dtype), outs) == 0;
}

/* The operand types of the problems made by `example` that a kernel takes, each with the list of
 * its result types. */
static json_t *example_types(const struct operation_kernel *kernel,
                             bool (*example)(enum gemmd_dtype, enum gemmd_dtype, void *))
{
    union operation_problem problem;
    json_t *types = json_object();
    bool whole = types != NULL;
    for (int d = 0; d < GEMMD_DTYPE_COUNT; d++) {
        json_t *outs = json_array();
        for (int o = 0; o < GEMMD_DTYPE_COUNT; o++)
            if (example((enum gemmd_dtype)d, (enum gemmd_dtype)o, &problem) &&
                kernel->takes(&problem))
                whole &=
                    json_array_append_new(outs, json_string(dtype_name((enum gemmd_dtype)o))) == 0;
        whole &= add_outs(types, (enum gemmd_dtype)d, outs);
    }
    return json_whole(types, whole);
}

/* The types of ordinary problems, or of special problems if the kernel takes no others. */
static json_t *kernel_types(const struct operation *operation,
                            const struct operation_kernel *kernel)
{
    json_t *types = example_types(kernel, operation->example);
    if (types == NULL || json_object_size(types) > 0 || operation->special_example == NULL)
        return types;
    json_decref(types);
    return example_types(kernel, operation->special_example);
}

/* False: there is no memory. */
static bool add_kernel(json_t *kernels, const char *operation, const char *name,
                       const char *description, json_t *types)
{
    return json_array_append_new(kernels,
                                 json_pack("{s:s, s:s, s:s, s:o}", "name", name, "op", operation,
                                           "description", description, "dtypes", types)) == 0;
}

static json_t *kernels_json(struct gemm_device device)
{
    json_t *kernels = json_array();
    bool whole = kernels != NULL;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        const struct operation *operation = operation_table[i];
        const struct operation_kernel *const *k = operation_kernels(operation, device.backend);
        for (; *k != NULL; k++)
            if (operation_kernel_runs_on(operation, *k, &device))
                whole &= add_kernel(kernels, operation->name, (*k)->name, (*k)->description,
                                    kernel_types(operation, *k));
    }
    return json_whole(kernels, whole);
}

/* The kernels that this build has and that are not served, with the reason. */
static json_t *left_out_json(const struct executors *executors)
{
    json_t *left_out = json_array();
    bool whole = left_out != NULL;
    for (uint32_t i = 0; i < executors->count; i++) {
        const struct device *device = executors->list[i].device;
        const struct device_left_out *list;
        const uint32_t count = device_left_out(device, &list);
        for (uint32_t j = 0; j < count; j++)
            whole &=
                json_array_append_new(left_out, json_pack("{s:s, s:s, s:i, s:s}", "name",
                                                          list[j].kernel, "op", list[j].operation,
                                                          "device", (int)device_info(device)->index,
                                                          "reason", list[j].reason)) == 0;
    }
    return json_whole(left_out, whole);
}

static json_t *device_json(const struct device_info *info, struct device *device)
{
    struct arena *arena = device_arena(device);
    return json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:b}", "backend",
        gemm_backend_name(info->backend), "index", (int)info->index, "name", info->name, "uuid",
        info->uuid, "arch", info->arch, "driver", info->driver, "memory_total_bytes",
        (json_int_t)info->memory_total_bytes, "memory_capacity_bytes",
        (json_int_t)(arena == NULL ? 0 : arena_capacity_bytes(arena)), "memory_used_bytes",
        (json_int_t)(arena == NULL ? 0 : arena_used_bytes(arena)), "stack_memory_bytes",
        (json_int_t)device_stack_memory(device), "lost", (int)device_lost(device));
}

static json_t *devices_json(const struct executors *executors)
{
    json_t *devices = json_array();
    bool whole = devices != NULL;
    for (uint32_t i = 0; i < executors->count; i++) {
        struct device *device = executors->list[i].device;
        whole &= json_array_append_new(devices, device_json(device_info(device), device)) == 0;
    }
    return json_whole(devices, whole);
}

/* The text of a JSON document with a line feed at its end, which the caller frees. Takes over
 * `root`, which may be NULL. Returns NULL if memory ran out. */
static char *info_text(json_t *root, size_t flags)
{
    char *json = json_whole_text(root, flags), *text = NULL;
    if (json != NULL && asprintf(&text, "%s\n", json) < 0)
        text = NULL;
    free(json);
    return text;
}

static void info_begin(struct request *request)
{
    struct services *services = services_of(request);
    const struct device *first = services->executors.list[0].device;
    json_t *root = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s}, s:f, s:o, s:o, s:o, s:s, s:o, s:i}", "name", "gemmd",
        "version", GEMMD_VERSION, "build", "revision", services->revision, "library",
        gemm_backend_library(device_info(first)->backend), "libmicrohttpd", MHD_get_version(),
        "uptime_seconds", (double)(clock_now_ns() - services->started_ns) * 1e-9, "devices",
        devices_json(&services->executors), "kernels", kernels_json(device_gemm(first)),
        "kernels_left_out", left_out_json(&services->executors), "select_version",
        gemm_select_version(), "limits", config_limits_to_json(request->config), "max_priority",
        (int)request->max_priority);
    respond_text(request, 200, "application/json", info_text(root, JSON_INDENT(2)));
}

static void version_begin(struct request *request)
{
    json_t *root = json_pack("{s:s, s:s, s:s}", "name", "gemmd", "version", GEMMD_VERSION,
                             "revision", services_of(request)->revision);
    respond_text(request, 200, "application/json", info_text(root, JSON_COMPACT));
}

static void openapi_begin(struct request *request)
{
    static const char server[] = "\"url\": \"/\"";
    const char *base = request->config->base_path;
    if (base == NULL) {
        respond_static(request, 200, "application/json", openapi_json, openapi_json_length);
        return;
    }
    /* The base path replaces the slash. */
    const char *slash = strstr(openapi_json, server) + sizeof server - 3;
    const struct payload payload = {
        .parts = {{openapi_json, (size_t)(slash - openapi_json)},
                  {base, strlen(base)},
                  {slash + 1, (size_t)(openapi_json + openapi_json_length - slash - 1)}},
        .count = 3};
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "application/json");
    respond(request, 200, &headers, &payload);
}

#define GET(at, needed, function)                                                                  \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .scope = needed,                 \
        .begin = function                                                                          \
    }

const struct endpoint info_endpoints[] = {
    GET("/metrics", SCOPE_METRICS, metrics_begin),
    GET("/info", SCOPE_ANY, info_begin),
    GET("/version", SCOPE_ANY, version_begin),
    GET("/openapi.json", SCOPE_ANY, openapi_begin),
    {0},
};
