#include "server/tensors/tensor_describe.h"

#include <stdlib.h>

#include "proto/dtype.h"
#include "proto/json_text.h"
#include "server/tensors/sequence.h"

/* Most bytes of one description: its name and tag, which escaping can make three times as long, its
 * shapes, and three numbers. */
enum {
    ENTRY_MAX = 3 * (GEMM_TENSOR_NAME_MAX + TENSOR_ETAG_SIZE) + 2 * TENSOR_MAX_RANK * 22 +
                TENSOR_STORE_DEVICES_MAX * 4 + 256
};
enum { FRAME_MAX = 64 + 3 * GEMM_TENSOR_NAME_MAX };

/* The type and shape of the matrix of packed weights, and the format of their file. */
static void write_packed(struct json_text *json, const struct packed_file *packed)
{
    const struct packed_layout *layout = &packed->layout;
    json_text_string(json, packed_type(layout));
    json_text_raw(json, ", \"shape\": [");
    json_text_u64(json, layout->k);
    json_text_raw(json, ", ");
    json_text_u64(json, layout->n);
    json_text_raw(json, "], \"format\": ");
    json_text_string(json, packed_format_names[packed->format]);
    json_text_raw(json, ", \"group\": ");
    json_text_u64(json, layout->group);
}

static void write_plain(struct json_text *json, const struct tensor *tensor)
{
    json_text_string(json, dtype_name(tensor->dtype));
    json_text_raw(json, ", \"shape\": [");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        json_text_raw(json, i > 0 ? ", " : "");
        json_text_u64(json, tensor->dims[i]);
    }
    json_text_raw(json, "]");
}

/* The shape of the scales, of a tensor that has scales. */
static void write_scale(struct json_text *json, const struct tensor *scale)
{
    if (scale->rank == 0)
        return;
    json_text_raw(json, ", \"scale_shape\": [");
    for (uint32_t i = 0; i < scale->rank; i++) {
        json_text_raw(json, i > 0 ? ", " : "");
        json_text_u64(json, scale->dims[i]);
    }
    json_text_raw(json, "]");
}

static void write_devices(struct json_text *json, const struct resident *resident)
{
    json_text_raw(json, ", \"devices\": [");
    const char *separator = "";
    for (uint32_t i = 0; i < TENSOR_STORE_DEVICES_MAX; i++) {
        if (!resident_is_on(resident, i))
            continue;
        json_text_raw(json, separator);
        json_text_u64(json, i);
        separator = ", ";
    }
    json_text_raw(json, "]}");
}

static void write_entry(struct json_text *json, const struct resident *resident)
{
    const struct tensor *tensor = resident_tensor(resident);
    const struct packed_file *packed = resident_packed(resident);
    const char *etag = resident_etag(resident);
    json_text_raw(json, "{\"name\": ");
    json_text_string(json, resident_name(resident));
    json_text_raw(json, ", \"dtype\": ");
    if (packed != NULL)
        write_packed(json, packed);
    else
        write_plain(json, tensor);
    write_scale(json, resident_scale(resident));
    json_text_raw(json, ", \"bytes\": ");
    json_text_u64(json, packed != NULL ? packed_data_bytes(packed) : tensor->bytes);
    json_text_raw(json, ", \"etag\": ");
    if (etag != NULL)
        json_text_string(json, etag);
    else
        json_text_raw(json, "null");
    json_text_raw(json, ", \"evictable\": ");
    json_text_raw(json, resident_evictable(resident) ? "true" : "false");
    json_text_raw(json, ", \"memory_bytes\": ");
    json_text_u64(json, resident_memory_bytes(resident));
    write_devices(json, resident);
}

/* NULL: out of memory. */
static char *json_begin_bytes(struct json_text *json, uint64_t capacity)
{
    char *text = malloc(capacity);
    if (text != NULL)
        json_text_start(json, text, capacity);
    return text;
}

static char *json_begin(struct json_text *json, uint64_t entries)
{
    return json_begin_bytes(json, entries * ENTRY_MAX + FRAME_MAX);
}

/* Ends the text with a newline, for terminals, and gives back the memory that it does not need. */
static char *json_finish(struct json_text *json, char *text)
{
    json_text_raw(json, "\n");
    const uint64_t length = json_text_end(json);
    char *cut = realloc(text, length + 1);
    if (cut == NULL)
        return text;
    return cut;
}

char *tensor_describe(const struct resident *resident)
{
    struct json_text json;
    char *text = json_begin(&json, 1);
    if (text == NULL)
        return NULL;
    write_entry(&json, resident);
    return json_finish(&json, text);
}

/* Ends the list of a page. */
static void write_next(struct json_text *json, struct resident *const page[], uint32_t count,
                       bool more)
{
    json_text_raw(json, "], \"next\": ");
    if (more && count > 0)
        json_text_string(json, resident_name(page[count - 1]));
    else
        json_text_raw(json, "null");
    json_text_raw(json, "}");
}

char *tensor_describe_page(struct resident *const page[], uint32_t count, bool more)
{
    struct json_text json;
    char *text = json_begin(&json, count);
    if (text == NULL)
        return NULL;
    json_text_raw(&json, "{\"tensors\": [");
    for (uint32_t i = 0; i < count; i++) {
        json_text_raw(&json, i > 0 ? ", " : "");
        write_entry(&json, page[i]);
    }
    write_next(&json, page, count, more);
    return json_finish(&json, text);
}

/* ---- sequences ---- */

/* Most bytes of the description of a sequence without its lengths, and of one length. */
enum {
    SEQUENCE_MAX =
        3 * (GEMM_TENSOR_NAME_MAX + TENSOR_ETAG_SIZE) + TENSOR_STORE_DEVICES_MAX * 4 + 384,
    LENGTH_MAX = 12
};

static void write_member(struct json_text *json, const char *name, uint64_t value)
{
    json_text_raw(json, name);
    json_text_u64(json, value);
}

static void write_sequence(struct json_text *json, struct tensor_store *store,
                           const struct resident *resident)
{
    const struct sequence_shape *shape = sequence_shape_of(resident);
    struct sequence_state state;
    sequence_state_of(store, resident, &state);
    json_text_raw(json, "{\"name\": ");
    json_text_string(json, resident_name(resident));
    json_text_raw(json, ", \"dtype\": ");
    json_text_string(json, dtype_name(shape->dtype));
    write_member(json, ", \"kv_heads\": ", shape->kv_heads);
    write_member(json, ", \"d\": ", shape->d);
    write_member(json, ", \"dv\": ", shape->dv);
    write_member(json, ", \"layers\": ", shape->layers);
    write_member(json, ", \"length\": ", state.length);
    for (uint32_t i = 0; i < shape->layers; i++)
        write_member(json, i == 0 ? ", \"lengths\": [" : ", ", state.lengths[i]);
    json_text_raw(json, "], \"etag\": ");
    json_text_string(json, state.etag);
    write_member(json, ", \"memory_bytes\": ", state.memory_bytes);
    write_devices(json, resident);
}

static uint64_t sequence_text_bytes(const struct resident *resident)
{
    return SEQUENCE_MAX + (uint64_t)sequence_shape_of(resident)->layers * LENGTH_MAX;
}

char *sequence_describe(struct tensor_store *store, const struct resident *resident)
{
    struct json_text json;
    char *text = json_begin_bytes(&json, sequence_text_bytes(resident));
    if (text == NULL)
        return NULL;
    write_sequence(&json, store, resident);
    return json_finish(&json, text);
}

char *sequence_describe_page(struct tensor_store *store, struct resident *const page[],
                             uint32_t count, bool more)
{
    struct json_text json;
    uint64_t bytes = FRAME_MAX;
    for (uint32_t i = 0; i < count; i++)
        bytes += sequence_text_bytes(page[i]);
    char *text = json_begin_bytes(&json, bytes);
    if (text == NULL)
        return NULL;
    json_text_raw(&json, "{\"sequences\": [");
    for (uint32_t i = 0; i < count; i++) {
        json_text_raw(&json, i > 0 ? ", " : "");
        write_sequence(&json, store, page[i]);
    }
    write_next(&json, page, count, more);
    return json_finish(&json, text);
}
