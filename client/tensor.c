/* Resident tensors: entity tag, put, get, stat, delete, list. */
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/compute.h"
#include "client/daemon.h"
#include "client/failure.h"
#include "client/payload.h"
#include "client/query.h"
#include "client/record.h"
#include "client/schedule.h"
#include "proto/packed.h"
#include "proto/parameter.h"
#include "proto/safetensors.h"
#include "proto/tensor_request.h"

enum { ETAG_LINE_ROOM = SAFETENSORS_NAME_MAX + 8 + TENSOR_MAX_RANK * 21 };

/* Hashes a name, the shape and the bytes of a tensor. */
static void etag_add(struct sha256_ctx *hash, const char *name, const struct tensor *tensor)
{
    char text[ETAG_LINE_ROOM];
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const unsigned long long dim = tensor->dims[i];
        const int length = i == 0 ? snprintf(text, sizeof text, "%s:%llu", name, dim)
                                  : snprintf(text, sizeof text, ",%llu", dim);
        sha256_update(hash, (size_t)length, (const uint8_t *)text);
    }
    sha256_update(hash, 1, (const uint8_t *)"\n");
    sha256_update(hash, tensor->bytes, tensor->data);
}

static void etag_end(struct sha256_ctx *hash, char out[72])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_DIGEST_SIZE];
    sha256_digest(hash, sizeof digest, digest);
    *out++ = '"';
    for (size_t i = 0; i < sizeof digest; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
    *out++ = '"';
    *out = '\0';
}

/* Computes the tag of a tensor and its scales (NULL: no scales) as PROTOCOL.md says. */
static void etag_compute(const struct tensor *tensor, const struct tensor *scale, char out[72])
{
    struct sha256_ctx hash;
    sha256_init(&hash);
    etag_add(&hash, gemmd_dtype_name(tensor->dtype), tensor);
    if (scale != NULL)
        etag_add(&hash, "scale", scale);
    etag_end(&hash, out);
}

/* Computes the tag of a file of packed weights as PROTOCOL.md says. */
static void etag_compute_packed(const struct packed_file *file, char out[72])
{
    char text[ETAG_LINE_ROOM];
    struct sha256_ctx hash;
    sha256_init(&hash);
    int length = snprintf(text, sizeof text, "%s:%" PRIu32 "\n", packed_format_names[file->format],
                          file->layout.bits);
    sha256_update(&hash, (size_t)length, (const uint8_t *)text);
    for (uint32_t i = 0; i < file->count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        snprintf(text, sizeof text, "%s:%s", entry->name, safetensors_type(entry));
        etag_add(&hash, text, &entry->tensor);
    }
    etag_end(&hash, out);
}

void gemmd_tensor_etag(enum gemmd_dtype dtype, uint32_t rank, const uint64_t *dims,
                       const void *data, char out[72])
{
    struct tensor tensor;
    out[0] = '\0';
    if (gemmd_dtype_size(dtype) != 0 && rank >= 1 && rank <= TENSOR_MAX_RANK &&
        tensor_init(&tensor, dtype, dims, rank, data))
        etag_compute(&tensor, NULL, out);
}

/* Compares the answer's entity tag with the tensor's. The tag is a hash, so a tensor that was
 * damaged on the way would have another tag. */
static enum gemmd_error conclude_put(struct gemmd_request *request, struct answer *answer,
                                     const char *document, size_t bytes)
{
    enum gemmd_error code = compute_conclude_stored(request, answer, document, bytes);
    if (code == GEMMD_OK && answer->etag[0] == '\0')
        memcpy(answer->etag, request->etag, sizeof answer->etag);
    if (code == GEMMD_OK && strcmp(answer->etag, request->etag) != 0)
        code = failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's ETag is not the entity tag of the tensor that was put");
    return code;
}

static const struct exchange put_exchange = {.method = "PUT",
                                             .headers = HEADERS_PUT,
                                             .sends = true,
                                             .statuses = {201, 200, 412},
                                             .conclude = conclude_put};
static const struct exchange put_file_exchange = {.method = "PUT",
                                                  .headers = HEADERS_PUT_SAFETENSORS,
                                                  .sends = true,
                                                  .statuses = {201, 200, 412},
                                                  .conclude = conclude_put};
/* Without Accept, the daemon answers with raw bytes, and with a file if the tensor has packed
 * weights. */
static const struct exchange get_exchange = {
    .method = "GET", .headers = HEADERS_PLAIN, .statuses = {200}, .accept = payload_take_described};
static const struct exchange get_scaled_exchange = {.method = "GET",
                                                    .headers = HEADERS_ACCEPT_TENSORS,
                                                    .statuses = {200},
                                                    .accept = payload_take_described};
static const struct exchange stat_exchange = {.method = "HEAD",
                                              .headers = HEADERS_PLAIN,
                                              .statuses = {200},
                                              .missing = "there is no tensor of that name",
                                              .accept = payload_describe};
static const struct exchange delete_exchange = {
    .method = "DELETE", .headers = HEADERS_PLAIN, .statuses = {204, 200}};

void gemmd_call_init(struct gemmd_call *call, size_t size)
{
    const struct gemmd_call zero = {0};
    record_write(call, size, &zero, sizeof zero);
}

void gemmd_tensor_put_init(struct gemmd_tensor_put *put, size_t size)
{
    const struct gemmd_tensor_put defaults = {.dtype = GEMMD_F32};
    record_write(put, size, &defaults, sizeof defaults);
}

/* Checks a type and a shape, whose fields are called `rank_field` and `dims_field`, and sets
 * `tensor`. */
static enum gemmd_error take_tensor(struct tensor *tensor, enum gemmd_dtype dtype, uint32_t rank,
                                    const uint64_t *dims, const void *data, const char *rank_field,
                                    const char *dims_field, struct gemmd_error_info *error)
{
    if (rank < 1 || rank > ANSWER_MAX_RANK)
        return failure_set(error, GEMMD_ERR_USAGE, rank_field, "%s is %u; it must be from 1 to %d",
                           rank_field, rank, ANSWER_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return failure_set(error, GEMMD_ERR_USAGE, dims_field,
                               "%s[%u] is 0; a tensor has at least one element", dims_field, i);
    if (!tensor_init(tensor, dtype, dims, rank, data))
        return failure_set(error, GEMMD_ERR_USAGE, dims_field,
                           "the tensor has more than 2^63 bytes");
    return GEMMD_OK;
}

/* What a put sends: an array with its scales (rank 0: it has none), or a file of packed weights. */
struct content {
    struct tensor tensor, scale;
    bool is_packed;
    struct packed_file file;
};

/* Checks the type, the shape and the scales of an array. */
static enum gemmd_error take_array(const struct gemmd_tensor_put *put, struct content *content,
                                   struct gemmd_error_info *error)
{
    if (gemmd_dtype_size(put->dtype) == 0)
        return failure_set(error, GEMMD_ERR_USAGE, "dtype", "there is no element type %d",
                           (int)put->dtype);
    const enum gemmd_error code = take_tensor(&content->tensor, put->dtype, put->rank, put->dims,
                                              put->data, "rank", "dims", error);
    return code == GEMMD_OK && put->scale != NULL
               ? take_tensor(&content->scale, GEMMD_F32, put->scale_rank, put->scale_dims,
                             put->scale, "scale_rank", "scale_dims", error)
               : code;
}

/* Finds the tensors in a file of packed weights, as the daemon will. */
static enum gemmd_error take_file(const struct gemmd_tensor_put *put, struct content *content,
                                  struct gemmd_error_info *error)
{
    char bits[16];
    struct fault fault = {.code = GEMMD_OK};
    struct tensor_request asked;
    tensor_request_init(&asked);
    snprintf(bits, sizeof bits, "%" PRIu32, put->bits);
    if (put->rank != 0 || put->scale != NULL || put->contiguous != 0 || put->dtype != GEMMD_F32)
        return failure_set(error, GEMMD_ERR_USAGE, "format",
                           "format is set; dtype, rank, scale and contiguous are for arrays");
    enum gemmd_error code =
        parameter_set(&tensor_parameter_table, &asked, "format", put->format, &fault);
    if (code == GEMMD_OK && asked.format == PACKED_NONE)
        code = fault_set(&fault, GEMMD_ERR_MALFORMED, "format",
                         "format is none; an array has NULL in its place");
    if (code == GEMMD_OK && put->bits != 0)
        code = parameter_set(&tensor_parameter_table, &asked, "bits", bits, &fault);
    if (code == GEMMD_OK)
        code = tensor_request_check(&asked, FORMAT_SAFETENSORS, &fault);
    if (code == GEMMD_OK)
        code = packed_find(asked.format, asked.bits, put->data, put->data_bytes, put->data_bytes,
                           &content->file, &fault);
    content->is_packed = true;
    return code == GEMMD_OK ? GEMMD_OK
                            : failure_set(error, GEMMD_ERR_USAGE, fault.field, "%s", fault.detail);
}

/* Checks the arguments, and sets `content`. */
static enum gemmd_error check_put(const struct gemmd_tensor_put *put, struct content *content,
                                  struct gemmd_error_info *error)
{
    if (query_check_name(put->name, "tensor", "name", error) != GEMMD_OK)
        return GEMMD_ERR_USAGE;
    if (put->data == NULL && put->format != NULL)
        return failure_set(error, GEMMD_ERR_USAGE, "data",
                           "data is NULL; it must point to the file");
    const enum gemmd_error code =
        put->format != NULL ? take_file(put, content, error) : take_array(put, content, error);
    if (code != GEMMD_OK)
        return code;
    if (put->data == NULL)
        return failure_set(error, GEMMD_ERR_USAGE, "data",
                           "data is NULL; it must point to the tensor");
    if (put->etag != NULL && strlen(put->etag) >= ANSWER_ETAG_ROOM)
        return failure_set(
            error, GEMMD_ERR_USAGE, "etag",
            "etag is not one that gemmd_tensor_etag() computes; set such a tag, or NULL");
    return GEMMD_OK;
}

/* Writes the parameters of packed weights, and what the answer will describe. */
static void write_put_file(struct gemmd_request *request, const struct gemmd_tensor_put *put,
                           const struct packed_file *file)
{
    (void)query_append(request->target, sizeof request->target, "format", put->format);
    if (put->bits != 0)
        (void)query_append_u64(request->target, sizeof request->target, "bits", put->bits);
    request->expected.dtype = GEMMD_DTYPE_COUNT;
    request->expected.type = packed_type(&file->layout);
    request->expected.rank = 2;
    request->expected.dims[0] = file->layout.k;
    request->expected.dims[1] = file->layout.n;
}

static void write_put_array(struct gemmd_request *request, const struct gemmd_tensor_put *put)
{
    char shape[SHAPE_TEXT_BYTES];
    (void)query_append(request->target, sizeof request->target, "dtype",
                       gemmd_dtype_name(put->dtype));
    (void)query_append(request->target, sizeof request->target, "shape",
                       shape_text(put->rank, put->dims, shape));
    request->expected.dtype = put->dtype;
    request->expected.rank = put->rank;
    memcpy(request->expected.dims, put->dims, sizeof put->dims);
}

static void write_put(struct gemmd_request *request, const struct gemmd_tensor_put *put,
                      const struct content *content)
{
    /* The target has room for the longest name and shape. */
    char *target = request->target;
    const size_t room = sizeof request->target;
    snprintf(target, room, "/tensors/%s", put->name);
    if (content->is_packed)
        write_put_file(request, put, &content->file);
    else
        write_put_array(request, put);
    if (put->evictable != 0)
        (void)query_append_u64(target, room, "evictable", 1);
    if (put->contiguous != 0)
        (void)query_append_u64(target, room, "contiguous", 1);
    if (put->etag != NULL)
        memcpy(request->etag, put->etag, strlen(put->etag) + 1);
    else if (content->is_packed)
        etag_compute_packed(&content->file, request->etag);
    else
        etag_compute(&content->tensor, content->scale.rank > 0 ? &content->scale : NULL,
                     request->etag);
}

/* Makes the body: the bytes of the array or of the file, or a safetensors file of the array and its
 * scales. */
static enum gemmd_error put_write_body(struct gemmd_request *request,
                                       const struct gemmd_tensor_put *put,
                                       const struct content *content,
                                       struct gemmd_error_info *error)
{
    const struct tensor *tensor = &content->tensor, *scale = &content->scale;
    body_init(&request->body);
    if (scale->rank == 0) {
        body_append(&request->body, put->data,
                    content->is_packed ? put->data_bytes : tensor->bytes);
        return GEMMD_OK;
    }
    /* The scales come first, so that both are aligned to their elements. */
    const struct safetensors_entry entries[] = {{.name = "scale", .tensor = *scale},
                                                {.name = "tensor", .tensor = *tensor}};
    request->body_front = malloc(SAFETENSORS_HEADER_MAX);
    if (request->body_front == NULL)
        return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for the request");
    const uint32_t front = safetensors_header(entries, 2, request->body_front);
    if (front == 0 || !body_append(&request->body, request->body_front, front) ||
        !body_append(&request->body, scale->data, scale->bytes) ||
        !body_append(&request->body, tensor->data, tensor->bytes))
        return failure_set(error, GEMMD_ERR_USAGE, "dims",
                           "the tensor and its scales have more than 2^63 bytes");
    return GEMMD_OK;
}

struct gemmd_request *gemmd_tensor_put_submit(struct gemmd_client *client,
                                              const struct gemmd_tensor_put *given,
                                              struct gemmd_error_info *error)
{
    struct gemmd_tensor_put put;
    struct content content = {.is_packed = false};
    failure_clear(error);
    gemmd_tensor_put_init(&put, sizeof put);
    if (record_read(&put, sizeof put, given, GEMMD_TENSOR_PUT_SIZE_0_1, "tensor_put", "put",
                    error) != GEMMD_OK)
        return NULL;
    if (check_put(&put, &content, error) != GEMMD_OK)
        return NULL;
    const struct gemmd_call call = {.timeout_ms = put.timeout_ms,
                                    .request_id = put.request_id,
                                    .traceparent = put.traceparent,
                                    .user = put.user};
    const struct exchange *exchange =
        put.scale != NULL || put.format != NULL ? &put_file_exchange : &put_exchange;
    struct gemmd_request *request = request_new(client, exchange, &call, error);
    if (request == NULL)
        return NULL;
    write_put(request, &put, &content);
    if (put_write_body(request, &put, &content, error) != GEMMD_OK) {
        gemmd_request_free(request);
        return NULL;
    }
    schedule_submit(request);
    return request;
}

/* Submits a request for a tensor, without a body. `rows`: the call that asks for some rows; NULL:
 * there are no parameters. */
static struct gemmd_request *tensor_submit(struct gemmd_client *client,
                                           const struct exchange *exchange, const char *name,
                                           const struct gemmd_call *given,
                                           const struct gemmd_call *rows,
                                           struct gemmd_error_info *error)
{
    struct gemmd_call call;
    failure_clear(error);
    if (!request_call(&call, given, error) ||
        query_check_name(name, "tensor", "name", error) != GEMMD_OK)
        return NULL;
    struct gemmd_request *request = request_new(client, exchange, &call, error);
    if (request == NULL)
        return NULL;
    char *target = request->target; /* with room for the longest name and the numbers */
    snprintf(target, sizeof request->target, "/tensors/%s", name);
    if (rows != NULL && rows->row > 0)
        (void)query_append_u64(target, sizeof request->target, "row", rows->row);
    if (rows != NULL && rows->rows > 0)
        (void)query_append_u64(target, sizeof request->target, "rows", rows->rows);
    request->expected.scales = exchange == &get_scaled_exchange;
    schedule_submit(request);
    return request;
}

struct gemmd_request *gemmd_tensor_get_submit(struct gemmd_client *client, const char *name,
                                              const struct gemmd_call *call,
                                              struct gemmd_error_info *error)
{
    struct gemmd_call read;
    failure_clear(error);
    if (!request_call(&read, call, error))
        return NULL;
    if (read.scales != 0 && (read.row > 0 || read.rows > 0)) {
        (void)failure_set(error, GEMMD_ERR_USAGE, "scales",
                          "scales is 1, but some rows of a tensor are fetched without scales");
        return NULL;
    }
    return tensor_submit(client, read.scales != 0 ? &get_scaled_exchange : &get_exchange, name,
                         call, &read, error);
}

struct gemmd_request *gemmd_tensor_stat_submit(struct gemmd_client *client, const char *name,
                                               const struct gemmd_call *call,
                                               struct gemmd_error_info *error)
{
    return tensor_submit(client, &stat_exchange, name, call, NULL, error);
}

struct gemmd_request *gemmd_tensor_delete_submit(struct gemmd_client *client, const char *name,
                                                 const struct gemmd_call *call,
                                                 struct gemmd_error_info *error)
{
    return tensor_submit(client, &delete_exchange, name, call, NULL, error);
}

enum gemmd_error gemmd_tensor_put(struct gemmd_client *client, const struct gemmd_tensor_put *put,
                                  struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_tensor_put_submit(client, put, error);
    return request_finish(request, result, error);
}

enum gemmd_error gemmd_tensor_get(struct gemmd_client *client, const char *name,
                                  const struct gemmd_call *call, struct gemmd_result *result,
                                  struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_tensor_get_submit(client, name, call, error);
    return request_finish(request, result, error);
}

enum gemmd_error gemmd_tensor_stat(struct gemmd_client *client, const char *name,
                                   const struct gemmd_call *call, struct gemmd_result *result,
                                   struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_tensor_stat_submit(client, name, call, error);
    return request_finish(request, result, error);
}

enum gemmd_error gemmd_tensor_delete(struct gemmd_client *client, const char *name,
                                     const struct gemmd_call *call, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_tensor_delete_submit(client, name, call, error);
    return request_finish(request, NULL, error);
}

static bool read_tensor(json_t *description, void *item)
{
    return daemon_read_tensor(description, item);
}

enum gemmd_error gemmd_tensor_list(struct gemmd_client *client,
                                   void (*each)(const struct gemmd_tensor *tensor, void *user),
                                   void *user, struct gemmd_error_info *error)
{
    struct paged_list list = {.path = "/tensors",
                              .member = "tensors",
                              .item_bytes = sizeof(struct gemmd_tensor),
                              .read = read_tensor,
                              .goes_on = query_is_later_name};
    const enum gemmd_error code = paged_list_fetch(client, &list, error);
    const struct gemmd_tensor *tensors = (const struct gemmd_tensor *)(void *)list.items;
    for (size_t i = 0; i < list.count && code == GEMMD_OK; i++)
        each(&tensors[i], user);
    free(list.items);
    return code;
}
