#include "proto/oip_answer.h"

#include "proto/oip_datatype.h"

void oip_answer_begin(struct json_text *json, const char *model, const char *id)
{
    json_text_raw(json, "{\"model_name\":");
    json_text_string(json, model);
    json_text_raw(json, ",\"model_version\":\"1\"");
    if (id[0] != '\0') {
        json_text_raw(json, ",\"id\":");
        json_text_string(json, id);
    }
    json_text_raw(json, ",\"outputs\":[");
}

static bool is_first(const struct json_text *json)
{
    return json->length > 0 && json->out[json->length - 1] == '[';
}

void oip_answer_output(struct json_text *json, const struct oip_answer_output *output)
{
    char shape[TENSOR_MAX_RANK * 22 + 1];
    tensor_shape_text(output->tensor, shape, sizeof shape);
    json_text_raw(json, is_first(json) ? "{\"name\":" : ",{\"name\":");
    json_text_string(json, output->name);
    json_text_raw(json, ",\"datatype\":");
    json_text_string(json, oip_datatype(output->tensor->dtype));
    json_text_raw(json, ",\"shape\":[");
    json_text_raw(json, shape);
    if (output->binary) {
        json_text_raw(json, "],\"parameters\":{\"binary_data_size\":");
        json_text_u64(json, output->tensor->bytes);
        json_text_raw(json, "}}");
    } else {
        json_text_raw(json, "],\"data\":[");
    }
}

void oip_answer_numbers_end(struct json_text *json)
{
    json_text_raw(json, "]}");
}

uint64_t oip_answer_end(struct json_text *json)
{
    json_text_raw(json, "]}");
    return json_text_end(json);
}
