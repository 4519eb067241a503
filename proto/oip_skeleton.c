#include "proto/oip_skeleton.h"

#include <stdio.h>
#include <string.h>

enum { OBJECT_DEPTH = OIP_DEPTH + 1 }; /* an input's parameters */

/* The end of the string that begins at `at`, past its quote; `bytes` if it has none. */
static uint64_t string_end(const char *json, uint64_t bytes, uint64_t at)
{
    for (at++; at < bytes && json[at] != '"'; at++)
        if (json[at] == '\\')
            at++;
    return at < bytes ? at + 1 : bytes;
}

/* The end of the array that begins at `at`, past its bracket; 0 if it has none. */
static uint64_t array_end(const char *json, uint64_t bytes, uint64_t at)
{
    uint64_t depth = 0;
    while (at < bytes) {
        const char c = json[at];
        if (c == '"') {
            at = string_end(json, bytes, at);
            continue;
        }
        at++;
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            return at;
    }
    return 0;
}

static enum gemmd_error add(struct oip_skeleton *skeleton, const char *text, uint64_t bytes,
                            struct fault *fault)
{
    if (bytes > sizeof skeleton->text - skeleton->bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request's JSON, without its shapes and data, is longer than %d bytes",
                         OIP_SKELETON_BYTES);
    memcpy(skeleton->text + skeleton->bytes, text, bytes);
    skeleton->bytes += bytes;
    return GEMMD_OK;
}

static enum gemmd_error cut_array(struct oip_skeleton *skeleton, const char *json, uint64_t bytes,
                                  uint64_t *at, struct fault *fault)
{
    char place[16];
    const uint64_t end = array_end(json, bytes, *at);
    if (end == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request's JSON ends in the middle of an array");
    if (skeleton->array_count == OIP_ARRAYS_MAX)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request's inputs have more than the %d arrays that are read",
                         OIP_ARRAYS_MAX);
    const int length = snprintf(place, sizeof place, "[%u]", skeleton->array_count);
    skeleton->arrays[skeleton->array_count++] = (struct oip_array){json + *at, end - *at};
    *at = end;
    return add(skeleton, place, (uint64_t)length, fault);
}

enum gemmd_error oip_skeleton_cut(struct oip_skeleton *skeleton, const char *json, uint64_t bytes,
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
        if (c == '[' && depth == OIP_DEPTH) {
            code = cut_array(skeleton, json, bytes, &at, fault);
            continue;
        }
        at = c == '"' ? string_end(json, bytes, at) : at + 1;
        if ((c == '{' || c == '[') && ++depth > OBJECT_DEPTH)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the request's JSON nests deeper than a request does");
        if ((c == '}' || c == ']') && depth > 0)
            depth--;
        code = add(skeleton, json + from, at - from, fault);
    }
    return code;
}
