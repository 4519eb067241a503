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

static json_t *duration_json(uint64_t count, uint64_t ns)
{
    return json_pack("{s:I, s:I}", "count", (json_int_t)count, "ns", (json_int_t)ns);
}

static uint64_t counter_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

json_t *model_stats_json(const struct model *model)
{
    const struct model_stats *stats = model->stats;
    const uint64_t successes = counter_read(&stats->success_count);
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}, s:{}, s:[], s:[]}",
        "name", model->name, "version", MODEL_VERSION, "last_inference",
        (json_int_t)counter_read(&stats->last_ms), "inference_count", (json_int_t)successes,
        "execution_count", (json_int_t)model_stats_executions(stats), "inference_stats", "success",
        duration_json(successes, counter_read(&stats->success_ns)), "fail",
        duration_json(counter_read(&stats->fail_count), counter_read(&stats->fail_ns)), "queue",
        duration_json(successes, counter_read(&stats->queue_ns)), "compute_input",
        duration_json(successes, counter_read(&stats->input_ns)), "compute_infer",
        duration_json(successes, counter_read(&stats->infer_ns)), "compute_output",
        duration_json(successes, counter_read(&stats->output_ns)), "cache_hit", duration_json(0, 0),
        "cache_miss", duration_json(0, 0), "response_stats", "batch_stats", "memory_usage");
}
