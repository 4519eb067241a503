#include "proto/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/json_text.h"
#include "proto/size.h"

enum {
    LENGTH_BYTES = 8,
    DEPTH_MAX = 3
}; /* levels of JSON: the file, a tensor, the tensor's shape */

/* Returns whether the text nests deeper than `limit` levels. The check counts the brackets outside
 * of strings, without recursion, and runs before the JSON parser, which recurses once a level. The
 * text need not be valid JSON. */
static bool nests_deeper_than(const char *text, uint64_t length, uint32_t limit)
{
    uint32_t depth = 0;
    bool in_string = false;
    for (uint64_t i = 0; i < length; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > limit)
                return true;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

static bool get_u64(const json_t *value, uint64_t *out)
{
    if (json_typeof(value) != JSON_INTEGER || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Returns whether `object` is a JSON object whose values are all strings, as "__metadata__" has to
 * be. */
static bool is_string_map(json_t *object)
{
    const char *key;
    json_t *value;
    if (json_typeof(object) != JSON_OBJECT)
        return false;
    json_object_foreach(object, key, value) if (!json_is_string(value)) return false;
    return true;
}

/* The types that no operand has, and types of the same sizes. */
static const struct {
    const char *name;
    enum gemmd_dtype same_size;
} others[] = {{"I64", GEMMD_F64}, {"U8", GEMMD_I8}, {"F8_E8M0", GEMMD_I8}};

/* Finds the type of a tensor. `with_others`: the tensor may be of a type that no operand has. */
static bool find_type(const char *name, bool with_others, enum gemmd_dtype *dtype,
                      const char **other)
{
    *other = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others && with_others; i++)
        if (strcmp(name, others[i].name) == 0) {
            *other = others[i].name;
            *dtype = others[i].same_size;
        }
    return *other != NULL || dtype_from_safetensors(name, dtype);
}

/* Reads the description of one tensor. `data` is the location of the file's data, which are
 * `data_bytes` long. */
static enum gemmd_error read_tensor(const char *name, const json_t *object, const void *data,
                                    uint64_t data_bytes, bool with_others,
                                    struct safetensors_entry *entry, struct fault *fault)
{
    struct tensor *tensor = &entry->tensor;
    const json_t *dtype_json = json_object_get(object, "dtype");
    const json_t *shape = json_object_get(object, "shape");
    const json_t *offsets = json_object_get(object, "data_offsets");
    enum gemmd_dtype dtype;
    uint64_t dims[TENSOR_MAX_RANK], begin, end;

    if (!json_is_string(dtype_json) || !json_is_array(shape) || !json_is_array(offsets))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: '%s' lacks dtype (a string), shape or data_offsets (arrays)",
                         name);
    if (!find_type(json_string_value(dtype_json), with_others, &dtype, &entry->other_type))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "safetensors: '%s' is of type '%.16s', which is not offered; F64, F32, "
                         "F16, BF16, F8_E4M3, I8 and I32 are",
                         name, json_string_value(dtype_json));
    size_t rank = json_array_size(shape);
    if (rank > TENSOR_MAX_RANK)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: '%s' has %zu dimensions; at most %d are read", name, rank,
                         TENSOR_MAX_RANK);
    for (size_t i = 0; i < rank; i++)
        if (!get_u64(json_array_get(shape, i), &dims[i]))
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "safetensors: the shape of '%s' is not made of whole numbers", name);
    if (json_array_size(offsets) != 2 || !get_u64(json_array_get(offsets, 0), &begin) ||
        !get_u64(json_array_get(offsets, 1), &end))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the data_offsets of '%s' are not two whole numbers", name);
    if (begin > end || end > data_bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the data_offsets of '%s' are [%" PRIu64 ", %" PRIu64
                         "]; they must not run backwards or past the %" PRIu64 " bytes of data",
                         name, begin, end, data_bytes);
    if (!tensor_init(tensor, dtype, dims, (uint32_t)rank, (const unsigned char *)data + begin) ||
        tensor->bytes != end - begin)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the data_offsets of '%s' span %" PRIu64
                         " bytes, which is not what its shape takes",
                         name, end - begin);
    return GEMMD_OK;
}

static int by_place(const void *left, const void *right)
{
    const struct tensor *a = &((const struct safetensors_entry *)left)->tensor;
    const struct tensor *b = &((const struct safetensors_entry *)right)->tensor;
    if (a->data != b->data)
        return (const char *)a->data < (const char *)b->data ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes; /* an empty tensor sorts first */
}

/* Sorts the entries by the locations of their data, and checks that every byte of the file's data
 * belongs to exactly one tensor. */
static enum gemmd_error check_places(struct safetensors_entry *entries, uint32_t count,
                                     const void *data, uint64_t data_bytes, struct fault *fault)
{
    const char *at = data;
    qsort(entries, count, sizeof entries[0], by_place);
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *tensor = &entries[i].tensor;
        if ((const char *)tensor->data != at)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "safetensors: '%s' %s",
                             entries[i].name,
                             (const char *)tensor->data < at ? "overlaps another tensor"
                                                             : "leaves a hole before it");
        at += tensor->bytes;
    }
    uint64_t used = (uint64_t)(at - (const char *)data);
    if (used != data_bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the tensors take %" PRIu64 " bytes, there are %" PRIu64,
                         used, data_bytes);
    return GEMMD_OK;
}

static enum gemmd_error read_entries(json_t *root, const void *data, uint64_t data_bytes,
                                     bool with_others, struct safetensors_entry *entries,
                                     uint32_t capacity, uint32_t *count, struct fault *fault)
{
    const char *name;
    json_t *object;
    uint32_t read = 0;
    json_object_foreach(root, name, object)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!is_string_map(object))
                return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                                 "safetensors: __metadata__ is not a map of strings");
            continue;
        }
        if (strlen(name) >= SAFETENSORS_NAME_MAX)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "safetensors: the name '%.32s...' is too long; at most %d bytes are "
                             "read",
                             name, SAFETENSORS_NAME_MAX - 1);
        if (read == capacity)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "safetensors: there are more than the %" PRIu32 " tensors that can be "
                             "used here",
                             capacity);
        memcpy(entries[read].name, name, strlen(name) + 1);
        enum gemmd_error code =
            read_tensor(name, object, data, data_bytes, with_others, &entries[read], fault);
        if (code != GEMMD_OK)
            return code;
        read++;
    }
    *count = read;
    return check_places(entries, read, data, data_bytes, fault);
}

static enum gemmd_error decode_front(struct body_front *front, bool with_others,
                                     struct safetensors_entry *entries, uint32_t capacity,
                                     uint32_t *count, struct fault *fault)
{
    const uint64_t length = front->length;
    uint64_t header_bytes = 0;
    json_error_t error;

    if (length < LENGTH_BYTES)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: a file starts with 8 bytes of length, there are %" PRIu64,
                         length);
    front->wanted = LENGTH_BYTES;
    if (front->received < front->wanted)
        return GEMMD_ERR_CONFLICT;
    for (uint32_t i = LENGTH_BYTES; i > 0; i--)
        header_bytes = header_bytes << 8 | front->bytes[i - 1];
    if (header_bytes > SAFETENSORS_HEADER_LIMIT)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the header says it is %" PRIu64 " bytes long; at most %d "
                         "are read",
                         header_bytes, SAFETENSORS_HEADER_LIMIT);
    if (header_bytes > length - LENGTH_BYTES)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the header takes %" PRIu64 " bytes, there are %" PRIu64,
                         header_bytes, length - LENGTH_BYTES);
    front->wanted = LENGTH_BYTES + header_bytes;
    if (front->received < front->wanted)
        return GEMMD_ERR_CONFLICT;
    const char *header = (const char *)front->bytes + LENGTH_BYTES;
    if (nests_deeper_than(header, header_bytes, DEPTH_MAX))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the header nests deeper than %d levels", DEPTH_MAX);

    errno = 0;
    json_t *root = json_loadb(header, header_bytes, JSON_REJECT_DUPLICATES, &error);
    /* jansson reports a syntax error if memory runs out in the middle of a token. errno, which
     * malloc sets, distinguishes the two. */
    if (root == NULL && errno == ENOMEM)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory to read a safetensors header of %" PRIu64 " bytes",
                         header_bytes);
    if (root == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the header is not JSON: %s", error.text);
    if (json_typeof(root) != JSON_OBJECT) {
        json_decref(root);
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the header is not a JSON object");
    }
    enum gemmd_error code =
        read_entries(root, header + header_bytes, length - LENGTH_BYTES - header_bytes, with_others,
                     entries, capacity, count, fault);
    json_decref(root);
    return code;
}

enum gemmd_error safetensors_decode_front(struct body_front *front,
                                          struct safetensors_entry *entries, uint32_t capacity,
                                          uint32_t *count, struct fault *fault)
{
    return decode_front(front, false, entries, capacity, count, fault);
}

enum gemmd_error safetensors_decode_weights(struct body_front *front,
                                            struct safetensors_entry *entries, uint32_t capacity,
                                            uint32_t *count, struct fault *fault)
{
    return decode_front(front, true, entries, capacity, count, fault);
}

enum gemmd_error safetensors_decode(const void *bytes, uint64_t length,
                                    struct safetensors_entry *entries, uint32_t capacity,
                                    uint32_t *count, struct fault *fault)
{
    struct body_front all = {.bytes = bytes, .length = length, .received = length};
    return safetensors_decode_front(&all, entries, capacity, count, fault);
}

const char *safetensors_type(const struct safetensors_entry *entry)
{
    return entry->other_type != NULL ? entry->other_type : dtype_safetensors(entry->tensor.dtype);
}

uint32_t safetensors_header(const struct safetensors_entry *entries, uint32_t count,
                            char out[SAFETENSORS_HEADER_MAX])
{
    struct json_text json;
    uint64_t at = 0;
    json_text_start(&json, out + LENGTH_BYTES, SAFETENSORS_HEADER_MAX - LENGTH_BYTES);
    json_text_raw(&json, "{");
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *tensor = &entries[i].tensor;
        char shape[TENSOR_MAX_RANK * 22 + 1];
        tensor_shape_text(tensor, shape, sizeof shape);
        json_text_raw(&json, i > 0 ? "," : "");
        json_text_string(&json, entries[i].name);
        json_text_raw(&json, ":{\"dtype\":");
        json_text_string(&json, safetensors_type(&entries[i]));
        json_text_raw(&json, ",\"shape\":[");
        json_text_raw(&json, shape);
        json_text_raw(&json, "],\"data_offsets\":[");
        json_text_u64(&json, at);
        json_text_raw(&json, ",");
        if (!size_add(at, tensor->bytes, &at))
            return 0;
        json_text_u64(&json, at);
        json_text_raw(&json, "]}");
    }
    json_text_raw(&json, "}");
    uint64_t text = json_text_end(&json);
    if (text == 0)
        return 0;
    uint32_t length = ((uint32_t)text + LENGTH_BYTES + 63) / 64 * 64;
    memset(out + LENGTH_BYTES + text, ' ', length - LENGTH_BYTES - text);
    uint32_t header = length - LENGTH_BYTES;
    for (uint32_t i = 0; i < LENGTH_BYTES; i++, header >>= 8)
        out[i] = (char)(header & 0xFF);
    return length;
}
