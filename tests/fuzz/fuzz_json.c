/* JSON that is read and written without jansson. Jansson, which reads the same text, agrees. */
#include <jansson.h>
#include <string.h>

#include "fuzz.h"
#include "proto/json_string.h"
#include "proto/json_text.h"
#include "proto/oip_json.h"
#include "proto/oip_skeleton.h"

/* The input is a string from behind the opening quote. */
static void check_string(const char *text, size_t length)
{
    char *quoted = malloc(length + 1), *out = malloc(length > 0 ? length : 1);
    uint64_t decoded = UINT64_MAX;
    MUST(quoted != NULL && out != NULL);
    quoted[0] = '"';
    memcpy(quoted + 1, text, length);
    const char *end = json_string_decode(text, text + length, out, &decoded);
    json_t *same = json_loadb(quoted, length + 1, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);
    MUST((end != NULL) == json_is_string(same));
    if (end == NULL) {
        MUST(decoded == UINT64_MAX);
    } else {
        MUST(end > text && end <= text + length && decoded < (uint64_t)(end - text));
        MUST(json_string_length(same) == decoded);
        MUST(memcmp(json_string_value(same), out, decoded) == 0);
    }
    json_decref(same);
    free(quoted);
    free(out);
}

/* Every text becomes a JSON string, whatever its bytes are. */
static void check_writer(const char *text, size_t length)
{
    char *copy = calloc(length + 1, 1);
    memcpy(copy, text, length);
    const size_t capacity = 3 * strlen(copy) + 3;
    char *out = malloc(capacity);
    struct json_text json;
    json_text_start(&json, out, capacity);
    json_text_string(&json, copy);
    const uint64_t written = json_text_end(&json);
    MUST(written > 0 && written == strlen(out));
    json_t *again = json_loadb(out, written, JSON_DECODE_ANY, NULL);
    MUST(json_is_string(again));
    json_decref(again);
    json_text_start(&json, out, written); /* no room for the terminator */
    json_text_string(&json, copy);
    MUST(json_text_end(&json) == 0 && out[0] == '\0');
    free(out);
    free(copy);
}

/* The values of a list or object take the entries that follow it, and no others. */
static void check_span(const struct oip_json *json, const struct oip_value *value)
{
    const struct oip_value *all = json->values, *end = all + json->value_count;
    const struct oip_value *at = value + 1;
    MUST(value >= all && value < end && value->span >= 1 && value + value->span <= end);
    if (value->kind != OIP_LIST && value->kind != OIP_OBJECT) {
        MUST(value->span == 1);
        return;
    }
    for (uint32_t i = 0; i < value->count; i++) {
        if (value->kind == OIP_OBJECT) {
            MUST(at < end && at->kind == OIP_STRING);
            at = oip_json_next(at);
        }
        MUST(at < end);
        check_span(json, at);
        at = oip_json_next(at);
    }
    MUST(at == value + value->span);
}

static void check_request(const char *text, size_t length)
{
    static struct oip_json json;
    struct fault fault = {.code = GEMMD_OK};
    if (!oip_json_read(&json, text, length)) {
        const enum gemmd_error code = oip_skeleton_refuse(text, length, &fault);
        MUST(code == GEMMD_ERR_MALFORMED && fault.code == code && fault.detail[0] != '\0');
        return;
    }
    MUST(json.value_count >= 1 && json.array_count <= OIP_ARRAYS_MAX);
    check_span(&json, &json.values[0]);
    MUST(json.values[0].span == json.value_count);
    for (uint32_t i = 0; i < json.array_count; i++) {
        const struct oip_array *array = &json.arrays[i];
        MUST(array->text >= text && array->text + array->bytes <= text + length);
        MUST(array->text[0] == '[' && array->text[array->bytes - 1] == ']');
    }
    if (json.array_count > 0)
        return; /* the content of the arrays has not been checked */
    json_t *same = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    MUST(same != NULL && json_is_object(same) == (json.values[0].kind == OIP_OBJECT));
    json_decref(same);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    check_string((const char *)bytes, length);
    check_writer((const char *)bytes, length);
    check_request((const char *)bytes, length);
    return 0;
}
