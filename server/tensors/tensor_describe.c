#include "server/tensors/tensor_describe.h"

#include <jansson.h>
#include <stdlib.h>

#include "proto/dtype.h"

static json_t *to_json(const struct resident *resident)
{
    const struct tensor *tensor = resident_tensor(resident);
    json_t *shape = json_array();
    for (uint32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->dims[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:s?, s:b, s:I}", "name", resident_name(resident),
                     "dtype", dtype_name(tensor->dtype), "shape", shape, "bytes",
                     (json_int_t)tensor->bytes, "etag", resident_etag(resident), "evictable",
                     resident_evictable(resident), "memory_bytes",
                     (json_int_t)resident_memory_bytes(resident));
}

/* With a line end, for terminals. */
static char *dump(json_t *json)
{
    const size_t capacity = json == NULL ? 0 : json_dumpb(json, NULL, 0, 0);
    char *text = capacity == 0 ? NULL : malloc(capacity + 2);
    if (text != NULL) {
        const size_t length = json_dumpb(json, text, capacity, 0);
        text[length] = '\n';
        text[length + 1] = '\0';
    }
    json_decref(json);
    return text;
}

char *tensor_describe(const struct resident *resident)
{
    return dump(to_json(resident));
}

char *tensor_describe_page(struct resident *const page[], uint32_t count, bool more)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        if (json_array_append_new(list, to_json(page[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return dump(json_pack("{s:o, s:s?}", "tensors", list, "next",
                          more && count > 0 ? resident_name(page[count - 1]) : NULL));
}
