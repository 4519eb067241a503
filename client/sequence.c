/* Sequences: put, append, get, truncate, stat, delete, list. attention.c attends to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/daemon.h"
#include "client/failure.h"
#include "client/payload.h"
#include "client/query.h"
#include "client/record.h"
#include "client/schedule.h"
#include "proto/sequence_request.h"

_Static_assert((int)GEMMD_SEQUENCE_LAYERS_MAX == (int)SEQUENCE_LAYERS_MAX, "as many layers");

/* ---- exchanges ---- */

static enum gemmd_error conclude_described(struct gemmd_request *request, struct answer *answer,
                                           const char *document, size_t bytes)
{
    json_t *object = json_loadb(document, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (request->sequence == NULL)
        request->sequence = malloc(sizeof *request->sequence);
    enum gemmd_error code = GEMMD_OK;
    if (request->sequence == NULL)
        code = failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for the description of a sequence");
    else if (!daemon_read_sequence(object, request->sequence))
        code = failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the daemon's answer does not describe a sequence");
    json_decref(object);
    (void)answer;
    return code;
}

static enum gemmd_error conclude_put(struct gemmd_request *request, struct answer *answer,
                                     const char *document, size_t bytes)
{
    answer->put = answer->status == 201 ? GEMMD_PUT_CREATED : GEMMD_PUT_REPLACED;
    return conclude_described(request, answer, document, bytes);
}

static const struct exchange put_exchange = {
    .method = "PUT", .headers = HEADERS_PLAIN, .statuses = {201, 200}, .conclude = conclude_put};
static const struct exchange append_exchange = {.method = "POST",
                                                .headers = HEADERS_SEND,
                                                .sends = true,
                                                .statuses = {200},
                                                .conclude = conclude_described};
static const struct exchange truncate_exchange = {.method = "POST",
                                                  .headers = HEADERS_PLAIN,
                                                  .sends = true,
                                                  .statuses = {200},
                                                  .conclude = conclude_described};
static const struct exchange stat_exchange = {
    .method = "GET", .headers = HEADERS_PLAIN, .statuses = {200}, .conclude = conclude_described};
static const struct exchange get_exchange = {
    .method = "GET", .headers = HEADERS_ACCEPT, .statuses = {200}, .accept = payload_take_sized};
static const struct exchange delete_exchange = {
    .method = "DELETE", .headers = HEADERS_PLAIN, .statuses = {204}};

/* ---- requests ---- */

void gemmd_sequence_put_init(struct gemmd_sequence_put *put, size_t size)
{
    const struct gemmd_sequence_put defaults = {.dtype = GEMMD_F16, .layers = 1};
    record_write(put, size, &defaults, sizeof defaults);
}

void gemmd_sequence_append_init(struct gemmd_sequence_append *append, size_t size)
{
    const struct gemmd_sequence_append zero = {0};
    record_write(append, size, &zero, sizeof zero);
}

void gemmd_sequence_get_init(struct gemmd_sequence_get *get, size_t size)
{
    const struct gemmd_sequence_get zero = {0};
    record_write(get, size, &zero, sizeof zero);
}

/* Makes a request whose target is the path of a sequence, or of its `part`. Returns NULL with
 * `error` filled in on failure. */
static struct gemmd_request *sequence_new(struct gemmd_client *client,
                                          const struct exchange *exchange, const char *name,
                                          const char *part, const struct gemmd_call *call,
                                          struct gemmd_error_info *error)
{
    if (query_check_name(name, "sequence", "name", error) != GEMMD_OK)
        return NULL;
    struct gemmd_request *request = request_new(client, exchange, call, error);
    if (request == NULL)
        return NULL;
    body_init(&request->body);
    snprintf(request->target, sizeof request->target, "/sequences/%s%s", name, part);
    return request;
}

/* Submits the request unless there is a fault. */
static struct gemmd_request *sequence_submit(struct gemmd_request *request,
                                             const struct fault *fault,
                                             struct gemmd_error_info *error)
{
    if (fault->code != GEMMD_OK) {
        failure_from_fault(error, fault);
        gemmd_request_free(request);
        return NULL;
    }
    schedule_submit(request);
    return request;
}

struct gemmd_request *gemmd_sequence_put_submit(struct gemmd_client *client,
                                                const struct gemmd_sequence_put *given,
                                                struct gemmd_error_info *error)
{
    struct gemmd_sequence_put put;
    struct sequence_put_request asked;
    struct query query;
    struct fault fault;
    failure_clear(error);
    gemmd_sequence_put_init(&put, sizeof put);
    if (record_read(&put, sizeof put, given, GEMMD_SEQUENCE_PUT_SIZE_0_2, "sequence_put", "put",
                    error) != GEMMD_OK)
        return NULL;
    const struct gemmd_call call = {.timeout_ms = put.timeout_ms,
                                    .request_id = put.request_id,
                                    .traceparent = put.traceparent,
                                    .user = put.user};
    struct gemmd_request *request = sequence_new(client, &put_exchange, put.name, "", &call, error);
    if (request == NULL)
        return NULL;
    sequence_put_init(&asked);
    query_continue(&query, &sequence_put_table, request->target, sizeof request->target, &asked,
                   &fault);
    query_add_u64_unless(&query, "kv_heads", put.kv_heads, 0);
    query_add_u64_unless(&query, "d", put.d, 0);
    query_add_u64_unless(&query, "dv", put.dv, 0);
    if (put.fork == NULL || put.dtype != GEMMD_F16)
        query_add_dtype(&query, "dtype", (int32_t)put.dtype);
    query_add_u64_unless(&query, "layers", put.layers, 1);
    query_add_if_named(&query, "fork", put.fork);
    if (put.has_length != 0)
        query_add_u64(&query, "length", put.length);
    if (fault.code == GEMMD_OK)
        (void)sequence_put_check(&asked, &fault);
    return sequence_submit(request, &fault, error);
}

static void write_rows(struct query *query, uint64_t layer, uint64_t position,
                       enum gemmd_layout layout)
{
    query_add_u64(query, "position", position);
    query_add_u64_unless(query, "layer", layer, 0);
    query_add_choice_unless(query, "layout", (uint32_t)layout, GEMMD_LAYOUT_BHSD);
}

static enum gemmd_error write_append(struct gemmd_request *request,
                                     const struct gemmd_sequence_append *append,
                                     struct fault *fault)
{
    const char *missing = append->k == NULL ? "k" : append->v == NULL ? "v" : NULL;
    if (missing != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, missing,
                         "%s is NULL; it must point to the positions that are appended", missing);
    if (!body_append(&request->body, append->k, append->k_bytes) ||
        !body_append(&request->body, append->v, append->v_bytes) || request->body.bytes > INT64_MAX)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "v_bytes",
                         "keys and values have more than 2^63 bytes");
    return GEMMD_OK;
}

struct gemmd_request *gemmd_sequence_append_submit(struct gemmd_client *client,
                                                   const struct gemmd_sequence_append *given,
                                                   struct gemmd_error_info *error)
{
    struct gemmd_sequence_append append;
    struct sequence_rows_request asked = {0};
    struct query query;
    struct fault fault;
    failure_clear(error);
    gemmd_sequence_append_init(&append, sizeof append);
    if (record_read(&append, sizeof append, given, GEMMD_SEQUENCE_APPEND_SIZE_0_2,
                    "sequence_append", "append", error) != GEMMD_OK)
        return NULL;
    const struct gemmd_call call = {.timeout_ms = append.timeout_ms,
                                    .request_id = append.request_id,
                                    .traceparent = append.traceparent,
                                    .user = append.user};
    struct gemmd_request *request =
        sequence_new(client, &append_exchange, append.name, "/append", &call, error);
    if (request == NULL)
        return NULL;
    query_continue(&query, &sequence_append_table, request->target, sizeof request->target, &asked,
                   &fault);
    write_rows(&query, append.layer, append.position, append.layout);
    if (fault.code == GEMMD_OK)
        (void)write_append(request, &append, &fault);
    return sequence_submit(request, &fault, error);
}

struct gemmd_request *gemmd_sequence_get_submit(struct gemmd_client *client,
                                                const struct gemmd_sequence_get *given,
                                                struct gemmd_error_info *error)
{
    struct gemmd_sequence_get get;
    struct sequence_rows_request asked = {0};
    struct query query;
    struct fault fault;
    failure_clear(error);
    gemmd_sequence_get_init(&get, sizeof get);
    if (record_read(&get, sizeof get, given, GEMMD_SEQUENCE_GET_SIZE_0_2, "sequence_get", "get",
                    error) != GEMMD_OK)
        return NULL;
    const struct gemmd_call call = {.data = get.data,
                                    .bytes = get.bytes,
                                    .timeout_ms = get.timeout_ms,
                                    .request_id = get.request_id,
                                    .traceparent = get.traceparent,
                                    .user = get.user};
    struct gemmd_request *request =
        sequence_new(client, &get_exchange, get.name, "/kv", &call, error);
    if (request == NULL)
        return NULL;
    query_continue(&query, &sequence_kv_table, request->target, sizeof request->target, &asked,
                   &fault);
    write_rows(&query, get.layer, get.position, get.layout);
    query_add_u64_unless(&query, "count", get.count, 0);
    return sequence_submit(request, &fault, error);
}

struct gemmd_request *gemmd_sequence_truncate_submit(struct gemmd_client *client, const char *name,
                                                     uint64_t length,
                                                     const struct gemmd_call *given,
                                                     struct gemmd_error_info *error)
{
    struct sequence_truncate_request asked = {0};
    struct gemmd_call call;
    struct query query;
    struct fault fault;
    failure_clear(error);
    if (!request_call(&call, given, error))
        return NULL;
    struct gemmd_request *request =
        sequence_new(client, &truncate_exchange, name, "/truncate", &call, error);
    if (request == NULL)
        return NULL;
    query_continue(&query, &sequence_truncate_table, request->target, sizeof request->target,
                   &asked, &fault);
    query_add_u64(&query, "length", length);
    return sequence_submit(request, &fault, error);
}

/* Submits a request without a body or parameters. */
static struct gemmd_request *submit_plain(struct gemmd_client *client,
                                          const struct exchange *exchange, const char *name,
                                          const struct gemmd_call *given,
                                          struct gemmd_error_info *error)
{
    struct gemmd_call call;
    failure_clear(error);
    if (!request_call(&call, given, error))
        return NULL;
    struct gemmd_request *request = sequence_new(client, exchange, name, "", &call, error);
    if (request != NULL)
        schedule_submit(request);
    return request;
}

struct gemmd_request *gemmd_sequence_stat_submit(struct gemmd_client *client, const char *name,
                                                 const struct gemmd_call *call,
                                                 struct gemmd_error_info *error)
{
    return submit_plain(client, &stat_exchange, name, call, error);
}

struct gemmd_request *gemmd_sequence_delete_submit(struct gemmd_client *client, const char *name,
                                                   const struct gemmd_call *call,
                                                   struct gemmd_error_info *error)
{
    return submit_plain(client, &delete_exchange, name, call, error);
}

/* ---- descriptions ---- */

enum gemmd_error gemmd_request_sequence(struct gemmd_request *request,
                                        struct gemmd_sequence *sequence,
                                        struct gemmd_error_info *error)
{
    const enum gemmd_error code = gemmd_request_result(request, NULL, error);
    if (code != GEMMD_OK)
        return code;
    if (request->sequence == NULL)
        return failure_set(error, GEMMD_ERR_USAGE, NULL,
                           "the answer to the request does not describe a sequence");
    record_write(sequence, sequence->size, request->sequence, sizeof *request->sequence);
    return GEMMD_OK;
}

/* Waits for a request, takes the description, and releases the request. If `request` is NULL,
 * returns the code of `error`. */
static enum gemmd_error sequence_finish(struct gemmd_request *request,
                                        struct gemmd_sequence *sequence,
                                        struct gemmd_error_info *error)
{
    if (request == NULL)
        return error->code;
    gemmd_wait(request, -1);
    const enum gemmd_error code = sequence != NULL
                                      ? gemmd_request_sequence(request, sequence, error)
                                      : gemmd_request_result(request, NULL, error);
    gemmd_request_free(request);
    return code;
}

enum gemmd_error gemmd_sequence_put(struct gemmd_client *client,
                                    const struct gemmd_sequence_put *put,
                                    struct gemmd_sequence *sequence, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    return sequence_finish(gemmd_sequence_put_submit(client, put, error), sequence, error);
}

enum gemmd_error gemmd_sequence_append(struct gemmd_client *client,
                                       const struct gemmd_sequence_append *append,
                                       struct gemmd_sequence *sequence,
                                       struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    return sequence_finish(gemmd_sequence_append_submit(client, append, error), sequence, error);
}

enum gemmd_error gemmd_sequence_get(struct gemmd_client *client,
                                    const struct gemmd_sequence_get *get,
                                    struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    return request_finish(gemmd_sequence_get_submit(client, get, error), result, error);
}

enum gemmd_error gemmd_sequence_truncate(struct gemmd_client *client, const char *name,
                                         uint64_t length, const struct gemmd_call *call,
                                         struct gemmd_sequence *sequence,
                                         struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    return sequence_finish(gemmd_sequence_truncate_submit(client, name, length, call, error),
                           sequence, error);
}

enum gemmd_error gemmd_sequence_stat(struct gemmd_client *client, const char *name,
                                     const struct gemmd_call *call, struct gemmd_sequence *sequence,
                                     struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    return sequence_finish(gemmd_sequence_stat_submit(client, name, call, error), sequence, error);
}

enum gemmd_error gemmd_sequence_delete(struct gemmd_client *client, const char *name,
                                       const struct gemmd_call *call,
                                       struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    return request_finish(gemmd_sequence_delete_submit(client, name, call, error), NULL, error);
}

/* ---- the list ---- */

static bool read_sequence(json_t *description, void *item)
{
    return daemon_read_sequence(description, item);
}

enum gemmd_error gemmd_sequence_list(struct gemmd_client *client,
                                     void (*each)(const struct gemmd_sequence *sequence,
                                                  void *user),
                                     void *user, struct gemmd_error_info *error)
{
    struct paged_list list = {.path = "/sequences",
                              .member = "sequences",
                              .item_bytes = sizeof(struct gemmd_sequence),
                              .read = read_sequence,
                              .goes_on = query_is_later_name};
    const enum gemmd_error code = paged_list_fetch(client, &list, error);
    const struct gemmd_sequence *sequences = (const struct gemmd_sequence *)(void *)list.items;
    for (size_t i = 0; i < list.count && code == GEMMD_OK; i++)
        each(&sequences[i], user);
    free(list.items);
    return code;
}
