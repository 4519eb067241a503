/* Resident tensors: entity tag, put, get, stat, delete, list. */
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
#include "proto/safetensors.h"

/* Hashes a name, the shape and the bytes of a tensor. */
static void etag_add(struct sha256_ctx *hash, const char *name, const struct tensor *tensor)
{
    char text[8 + 8 * 21];
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const unsigned long long dim = tensor->dims[i];
        const int length = i == 0 ? snprintf(text, sizeof text, "%s:%llu", name, dim)
                                  : snprintf(text, sizeof text, ",%llu", dim);
        sha256_update(hash, (size_t)length, (const uint8_t *)text);
    }
    sha256_update(hash, 1, (const uint8_t *)"\n");
    sha256_update(hash, tensor->bytes, tensor->data);
}

/* Computes the tag of a tensor and its scales (NULL: no scales) as PROTOCOL.md says. */
static void etag_compute(const struct tensor *tensor, const struct tensor *scale, char out[72])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx hash;
    sha256_init(&hash);
    etag_add(&hash, gemmd_dtype_name(tensor->dtype), tensor);
    if (scale != NULL)
        etag_add(&hash, "scale", scale);
    sha256_digest(&hash, sizeof digest, digest);
    *out++ = '"';
    for (size_t i = 0; i < sizeof digest; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
    *out++ = '"';
    *out = '\0';
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
static const struct exchange put_scaled_exchange = {.method = "PUT",
                                                    .headers = HEADERS_PUT_SAFETENSORS,
                                                    .sends = true,
                                                    .statuses = {201, 200, 412},
                                                    .conclude = conclude_put};
static const struct exchange get_exchange = {.method = "GET",
                                             .headers = HEADERS_ACCEPT,
                                             .statuses = {200},
                                             .accept = payload_take_described};
static const struct exchange get_scaled_exchange = {.method = "GET",
                                                    .headers = HEADERS_ACCEPT_TENSORS,
                                                    .statuses = {200},
                                                    .accept = payload_take_described};
static const struct exchange stat_exchange = {.method = "HEAD",
                                              .headers = HEADERS_ACCEPT,
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

/* Checks the arguments, and sets `tensor` and, if there are scales, `scale`. */
static enum gemmd_error check_put(const struct gemmd_tensor_put *put, struct tensor *tensor,
                                  struct tensor *scale, struct gemmd_error_info *error)
{
    if (query_check_name(put->name, "tensor", "name", error) != GEMMD_OK)
        return GEMMD_ERR_USAGE;
    if (gemmd_dtype_size(put->dtype) == 0)
        return failure_set(error, GEMMD_ERR_USAGE, "dtype", "there is no element type %d",
                           (int)put->dtype);
    enum gemmd_error code =
        take_tensor(tensor, put->dtype, put->rank, put->dims, put->data, "rank", "dims", error);
    if (code == GEMMD_OK && put->scale != NULL)
        code = take_tensor(scale, GEMMD_F32, put->scale_rank, put->scale_dims, put->scale,
                           "scale_rank", "scale_dims", error);
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

static void write_put(struct gemmd_request *request, const struct gemmd_tensor_put *put,
                      const struct tensor *tensor, const struct tensor *scale)
{
    /* The target has room for the longest name and shape. */
    char *target = request->target, shape[SHAPE_TEXT_BYTES];
    const size_t room = sizeof request->target;
    snprintf(target, room, "/tensors/%s", put->name);
    (void)query_append(target, room, "dtype", gemmd_dtype_name(put->dtype));
    (void)query_append(target, room, "shape", shape_text(put->rank, put->dims, shape));
    if (put->evictable != 0)
        (void)query_append_u64(target, room, "evictable", 1);
    if (put->contiguous != 0)
        (void)query_append_u64(target, room, "contiguous", 1);
    if (put->etag != NULL)
        memcpy(request->etag, put->etag, strlen(put->etag) + 1);
    else
        etag_compute(tensor, put->scale != NULL ? scale : NULL, request->etag);
    request->expected.dtype = put->dtype;
    request->expected.rank = put->rank;
    memcpy(request->expected.dims, put->dims, sizeof put->dims);
}

/* Makes the body: the tensor's bytes, or a safetensors file of the tensor and its scales. */
static enum gemmd_error put_write_body(struct gemmd_request *request, const struct tensor *tensor,
                                       const struct tensor *scale, struct gemmd_error_info *error)
{
    body_init(&request->body);
    if (scale == NULL) {
        body_append(&request->body, tensor->data, tensor->bytes);
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
    struct tensor tensor = {.rank = 0}, scale = {.rank = 0};
    failure_clear(error);
    gemmd_tensor_put_init(&put, sizeof put);
    if (record_read(&put, sizeof put, given, GEMMD_TENSOR_PUT_SIZE_0_1, "tensor_put", "put",
                    error) != GEMMD_OK)
        return NULL;
    if (check_put(&put, &tensor, &scale, error) != GEMMD_OK)
        return NULL;
    const struct gemmd_call call = {.timeout_ms = put.timeout_ms,
                                    .request_id = put.request_id,
                                    .traceparent = put.traceparent,
                                    .user = put.user};
    const struct exchange *exchange = put.scale != NULL ? &put_scaled_exchange : &put_exchange;
    struct gemmd_request *request = request_new(client, exchange, &call, error);
    if (request == NULL)
        return NULL;
    write_put(request, &put, &tensor, &scale);
    if (put_write_body(request, &tensor, put.scale != NULL ? &scale : NULL, error) != GEMMD_OK) {
        gemmd_request_free(request);
        return NULL;
    }
    schedule_submit(request);
    return request;
}

/* Submits a request for a tensor, without a body or parameters. */
static struct gemmd_request *tensor_submit(struct gemmd_client *client,
                                           const struct exchange *exchange, const char *name,
                                           const struct gemmd_call *given,
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
    snprintf(request->target, sizeof request->target, "/tensors/%s", name);
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
    return tensor_submit(client, read.scales != 0 ? &get_scaled_exchange : &get_exchange, name,
                         call, error);
}

struct gemmd_request *gemmd_tensor_stat_submit(struct gemmd_client *client, const char *name,
                                               const struct gemmd_call *call,
                                               struct gemmd_error_info *error)
{
    return tensor_submit(client, &stat_exchange, name, call, error);
}

struct gemmd_request *gemmd_tensor_delete_submit(struct gemmd_client *client, const char *name,
                                                 const struct gemmd_call *call,
                                                 struct gemmd_error_info *error)
{
    return tensor_submit(client, &delete_exchange, name, call, error);
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
