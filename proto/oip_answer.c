#include "proto/oip_answer.h"

#include "proto/json_text.h"
#include "proto/oip_datatype.h"

uint32_t oip_answer_head(const struct oip_answer *answer, char out[OIP_ANSWER_HEAD_MAX])
{
    char shape[TENSOR_MAX_RANK * 22 + 1];
    struct json_text json;
    tensor_shape_text(answer->tensor, shape, sizeof shape);
    json_text_start(&json, out, OIP_ANSWER_HEAD_MAX);
    json_text_raw(&json, "{\"model_name\":");
    json_text_string(&json, answer->model);
    json_text_raw(&json, ",\"model_version\":\"1\"");
    if (answer->id[0] != '\0') {
        json_text_raw(&json, ",\"id\":");
        json_text_string(&json, answer->id);
    }
    json_text_raw(&json, ",\"outputs\":[{\"name\":");
    json_text_string(&json, answer->output);
    json_text_raw(&json, ",\"datatype\":");
    json_text_string(&json, oip_datatype(answer->tensor->dtype));
    json_text_raw(&json, ",\"shape\":[");
    json_text_raw(&json, shape);
    if (answer->binary) {
        json_text_raw(&json, "],\"parameters\":{\"binary_data_size\":");
        json_text_u64(&json, answer->tensor->bytes);
        json_text_raw(&json, "}}]}");
    } else {
        json_text_raw(&json, "],\"data\":[");
    }
    return (uint32_t)json_text_end(&json);
}
