#include "server/api/v2/model_json.h"

#include "proto/oip_datatype.h"

static json_t *dims_json(const struct model_tensor *tensor)
{
    json_t *dims = json_array();
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (json_array_append_new(dims, json_integer(tensor->dims[i])) != 0) {
            json_decref(dims);
            return NULL;
        }
    return dims;
}

static json_t *tensor_json(const struct model_tensor *tensor)
{
    return json_pack("{s:s, s:s, s:o}", "name", tensor->name, "datatype",
                     oip_datatype(tensor->dtype), "shape", dims_json(tensor));
}

static json_t *input_config_json(const struct model_tensor *tensor)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:b, s:b, s:b}", "name", tensor->name, "data_type",
                     oip_config_datatype(tensor->dtype), "format", "FORMAT_NONE", "dims",
                     dims_json(tensor), "is_shape_tensor", 0, "allow_ragged_batch", 0, "optional",
                     (int)tensor->optional);
}

static json_t *output_config_json(const struct model_tensor *tensor)
{
    return json_pack("{s:s, s:s, s:o, s:b}", "name", tensor->name, "data_type",
                     oip_config_datatype(tensor->dtype), "dims", dims_json(tensor),
                     "is_shape_tensor", 0);
}

static json_t *list_json(const struct model_tensor *tensors, uint32_t count,
                         json_t *(*one)(const struct model_tensor *))
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        if (json_array_append_new(list, one(&tensors[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *model_metadata_json(const struct model *model)
{
    return json_pack("{s:s, s:[s], s:s, s:o, s:o}", "name", model->name, "versions", MODEL_VERSION,
                     "platform", "gemmd", "inputs",
                     list_json(model->inputs, model->listed_count, tensor_json), "outputs",
                     list_json(model->outputs, model->output_count, tensor_json));
}

json_t *model_config_json(const struct model *model)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:{s:b}, s:{s:b}}", "name", model->name,
                     "platform", "gemmd", "backend", "gemmd", "max_batch_size", 0, "input",
                     list_json(model->inputs, model->listed_count, input_config_json), "output",
                     list_json(model->outputs, model->output_count, output_config_json),
                     "model_transaction_policy", "decoupled", 0, "response_cache", "enable", 0);
}

static uint64_t counter_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_number(struct json_text *json, const char *key, uint64_t value)
{
    json_text_raw(json, key);
    json_text_u64(json, value);
}

static void add_duration(struct json_text *json, const char *key, uint64_t count, uint64_t ns)
{
    json_text_raw(json, key);
    add_number(json, "{\"count\":", count);
    add_number(json, ",\"ns\":", ns);
    json_text_raw(json, "}");
}

void model_stats_json(struct json_text *json, const struct model *model)
{
    const struct model_stats *stats = model->stats;
    const uint64_t successes = counter_read(&stats->success_count);
    json_text_raw(json, "{\"name\":");
    json_text_string(json, model->name);
    add_number(json, ",\"version\":\"" MODEL_VERSION "\",\"last_inference\":",
               counter_read(&stats->last_ms));
    add_number(json, ",\"inference_count\":", successes);
    add_number(json, ",\"execution_count\":", model_stats_executions(stats));
    add_duration(json, ",\"inference_stats\":{\"success\":", successes,
                 counter_read(&stats->success_ns));
    add_duration(json, ",\"fail\":", counter_read(&stats->fail_count),
                 counter_read(&stats->fail_ns));
    add_duration(json, ",\"queue\":", successes, counter_read(&stats->queue_ns));
    add_duration(json, ",\"compute_input\":", successes, counter_read(&stats->input_ns));
    add_duration(json, ",\"compute_infer\":", successes, counter_read(&stats->infer_ns));
    add_duration(json, ",\"compute_output\":", successes, counter_read(&stats->output_ns));
    add_duration(json, ",\"cache_hit\":", 0, 0);
    add_duration(json, ",\"cache_miss\":", 0, 0);
    json_text_raw(json, "},\"response_stats\":{},\"batch_stats\":[],\"memory_usage\":[]}");
}
