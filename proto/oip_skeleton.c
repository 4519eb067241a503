#include "proto/oip_skeleton.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "proto/oip_json.h"

struct skeleton {
    uint32_t array_count;
    uint64_t bytes; /* length of text */
    char text[OIP_JSON_BYTES];
};

static enum gemmd_error skeleton_append(struct skeleton *skeleton, const char *text, uint64_t bytes,
                                        struct fault *fault)
{
    if (bytes > sizeof skeleton->text - skeleton->bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request's JSON, without its shapes and data, is longer than %d bytes",
                         OIP_JSON_BYTES);
    memcpy(skeleton->text + skeleton->bytes, text, bytes);
    skeleton->bytes += bytes;
    return GEMMD_OK;
}

static enum gemmd_error cut_array(struct skeleton *skeleton, const char *json, uint64_t bytes,
                                  uint64_t *at, struct fault *fault)
{
    char place[16];
    const uint64_t end = oip_json_array_end(json, bytes, *at);
    if (end == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "an array in the request's JSON is not closed");
    if (skeleton->array_count == OIP_ARRAYS_MAX)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request's inputs have more than the %d arrays that are read",
                         OIP_ARRAYS_MAX);
    const int length = snprintf(place, sizeof place, "[%u]", skeleton->array_count++);
    *at = end;
    return skeleton_append(skeleton, place, (uint64_t)length, fault);
}

static enum gemmd_error skeleton_read(struct skeleton *skeleton, const char *json, uint64_t bytes,
                                      struct fault *fault)
{
    uint32_t depth = 0;
    uint64_t at = 0;
    enum gemmd_error code = GEMMD_OK;
    skeleton->array_count = 0;
    skeleton->bytes = 0;
    while (at < bytes && code == GEMMD_OK) {
        const uint64_t from = at;
        const char c = json[at];
        if (c == '[' && depth == OIP_ARRAY_DEPTH) {
            code = cut_array(skeleton, json, bytes, &at, fault);
            continue;
        }
        at = c == '"' ? oip_json_string_end(json, bytes, at) : at + 1;
        if ((c == '{' || c == '[') && ++depth > OIP_JSON_DEPTH)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the request's JSON nests deeper than a request does");
        if ((c == '}' || c == ']') && depth > 0)
            depth--;
        code = skeleton_append(skeleton, json + from, at - from, fault);
    }
    return code;
}

enum gemmd_error oip_skeleton_refuse(const char *json, uint64_t bytes, struct fault *fault)
{
    struct skeleton skeleton;
    json_error_t error;
    enum gemmd_error code = skeleton_read(&skeleton, json, bytes, fault);
    if (code != GEMMD_OK)
        return code;
    errno = 0;
    json_t *root = json_loadb(skeleton.text, skeleton.bytes, JSON_REJECT_DUPLICATES, &error);
    /* jansson reports a syntax error if the memory runs out in the middle of a token. errno, which
     * malloc sets, tells this case from an error of syntax. */
    if (root == NULL && errno == ENOMEM)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory to read the request");
    /* jansson accepts a zero byte behind a number or a literal. A zero byte is the only error that
     * oip_json_read finds and jansson does not. */
    const char *reason = root == NULL ? error.text : "there is a zero byte in it";
    json_decref(root);
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "the request is not JSON: %s", reason);
}
