#include "client/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/schedule.h"
#include "proto/size.h"

/* ---- texts ---- */

static enum gemmd_error accept_text(struct gemmd_request *request, const struct answer *answer)
{
    (void)answer;
    request->sink.kind = SINK_TEXT;
    return GEMMD_OK;
}

static const struct exchange text_exchange = {
    .method = "GET", .headers = HEADERS_PLAIN, .statuses = {200}, .accept = accept_text};

enum gemmd_error daemon_text(struct gemmd_client *client, const char *path, uint32_t retries,
                             char **text, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    failure_clear(error);
    if (text != NULL)
        *text = NULL;
    const struct gemmd_call call = {0};
    struct gemmd_request *request = request_new(client, &text_exchange, &call, error);
    if (request == NULL)
        return error->code;
    snprintf(request->target, sizeof request->target, "%s", path);
    request->repeats_left = retries;
    schedule_submit(request);
    gemmd_wait(request, -1);
    enum gemmd_error code = gemmd_request_result(request, NULL, error);
    if (code == GEMMD_OK && text != NULL) {
        *text = request->sink.data.data;
        request->sink.data.owned = false;
    }
    gemmd_request_free(request);
    return code;
}

enum gemmd_error gemmd_info(struct gemmd_client *client, char **text,
                            struct gemmd_error_info *error)
{
    return daemon_text(client, "/info", client->options.retries, text, error);
}

enum gemmd_error gemmd_metrics(struct gemmd_client *client, char **text,
                               struct gemmd_error_info *error)
{
    return daemon_text(client, "/metrics", client->options.retries, text, error);
}

enum gemmd_error gemmd_ready(struct gemmd_client *client, char **text,
                             struct gemmd_error_info *error)
{
    return daemon_text(client, "/readyz", 0, text, error);
}

/* ---- descriptions ---- */

/* Copies the member `name` to `out`. False if the member is missing, is no string, or does not fit.
 */
static bool daemon_take_text(json_t *object, const char *name, char *out, size_t room)
{
    json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    if (text == NULL || json_string_length(value) != strlen(text) || strlen(text) >= room)
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

/* Reads a member that is a whole number of at least `least`. */
static bool daemon_take_count(json_t *object, const char *name, json_int_t least, uint64_t *out)
{
    json_t *value = json_object_get(object, name);
    *out = json_is_integer(value) && json_integer_value(value) >= least
               ? (uint64_t)json_integer_value(value)
               : 0;
    return json_is_integer(value) && json_integer_value(value) >= least;
}

static bool daemon_take_shape(json_t *object, struct gemmd_tensor *tensor)
{
    json_t *shape = json_object_get(object, "shape");
    size_t rank = json_array_size(shape);
    if (rank < 1 || rank > sizeof tensor->dims / sizeof tensor->dims[0])
        return false;
    for (size_t i = 0; i < rank; i++) {
        json_int_t dim = json_integer_value(json_array_get(shape, i));
        if (dim < 1)
            return false;
        tensor->dims[i] = (uint64_t)dim;
    }
    tensor->rank = (uint32_t)rank;
    return true;
}

/* Reads the type, the shape and the number of bytes. The description alone says how many bytes a
 * tensor of an unknown type has. */
static bool daemon_take_content(json_t *object, struct gemmd_tensor *tensor)
{
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    const json_int_t bytes = json_integer_value(json_object_get(object, "bytes"));
    if (dtype == NULL || !daemon_take_shape(object, tensor))
        return false;
    if (json_object_get(object, "format") == NULL && gemmd_dtype_from_name(dtype, &tensor->dtype))
        return size_tensor_bytes(tensor->dtype, tensor->dims, tensor->rank, &tensor->bytes);
    tensor->dtype = GEMMD_DTYPE_COUNT;
    tensor->bytes = bytes > 0 ? (uint64_t)bytes : 0;
    return bytes > 0;
}

bool daemon_read_tensor(json_t *object, struct gemmd_tensor *tensor)
{
    *tensor = (struct gemmd_tensor){.size = sizeof *tensor};
    if (!daemon_take_text(object, "name", tensor->name, sizeof tensor->name) ||
        !daemon_take_content(object, tensor))
        return false;
    (void)daemon_take_text(object, "etag", tensor->etag, sizeof tensor->etag);
    (void)daemon_take_text(object, "dtype", tensor->type, sizeof tensor->type);
    (void)daemon_take_text(object, "format", tensor->format, sizeof tensor->format);
    (void)daemon_take_count(object, "group", 1, &tensor->group);
    tensor->evictable = json_is_true(json_object_get(object, "evictable"));
    return true;
}

static bool daemon_take_lengths(json_t *object, struct gemmd_sequence *sequence)
{
    json_t *lengths = json_object_get(object, "lengths");
    uint64_t layers;
    if (!daemon_take_count(object, "layers", 1, &layers) || layers > GEMMD_SEQUENCE_LAYERS_MAX ||
        json_array_size(lengths) != layers)
        return false;
    sequence->layers = (uint32_t)layers;
    for (size_t i = 0; i < layers; i++) {
        json_t *length = json_array_get(lengths, i);
        if (!json_is_integer(length) || json_integer_value(length) < 0)
            return false;
        sequence->lengths[i] = (uint64_t)json_integer_value(length);
    }
    return true;
}

bool daemon_read_sequence(json_t *object, struct gemmd_sequence *sequence)
{
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    *sequence = (struct gemmd_sequence){.size = sizeof *sequence, .dtype = GEMMD_DTYPE_COUNT};
    if (dtype == NULL || !daemon_take_text(object, "name", sequence->name, sizeof sequence->name) ||
        !daemon_take_count(object, "kv_heads", 1, &sequence->kv_heads) ||
        !daemon_take_count(object, "d", 1, &sequence->d) ||
        !daemon_take_count(object, "dv", 1, &sequence->dv) ||
        !daemon_take_count(object, "length", 0, &sequence->length) ||
        !daemon_take_lengths(object, sequence))
        return false;
    (void)gemmd_dtype_from_name(dtype, &sequence->dtype);
    (void)daemon_take_text(object, "etag", sequence->etag, sizeof sequence->etag);
    (void)daemon_take_count(object, "memory_bytes", 0, &sequence->memory_bytes);
    return true;
}

static double milliseconds(json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : -1;
}

bool daemon_read_listed_job(json_t *object, struct gemmd_job *job)
{
    const char *state = json_string_value(json_object_get(object, "state"));
    json_int_t status = json_integer_value(json_object_get(object, "status"));
    json_int_t bytes = json_integer_value(json_object_get(object, "bytes"));
    *job = (struct gemmd_job){.size = sizeof *job,
                              .http_status = status >= 100 && status <= 599 ? (int32_t)status : 0,
                              .bytes = bytes > 0 ? (uint64_t)bytes : 0,
                              .queued_ms = milliseconds(object, "queued_ms"),
                              .running_ms = milliseconds(object, "running_ms")};
    if (state == NULL)
        return false;
    for (int known = GEMMD_JOB_QUEUED; known <= GEMMD_JOB_CANCELLED; known++)
        if (strcmp(gemmd_job_state_name((enum gemmd_job_state)known), state) == 0)
            job->state = (enum gemmd_job_state)known;
    (void)daemon_take_text(object, "created", job->created, sizeof job->created);
    (void)daemon_take_text(object, "expires", job->expires, sizeof job->expires);
    (void)daemon_take_text(object, "op", job->op, sizeof job->op);
    (void)daemon_take_text(object, "request_id", job->request_id, sizeof job->request_id);
    return json_object_get(object, "id") == NULL ||
           daemon_take_text(object, "id", job->id, sizeof job->id);
}

bool daemon_read_job(json_t *object, struct gemmd_job *job)
{
    return daemon_read_listed_job(object, job) && job->id[0] != '\0';
}

/* ---- lists ---- */

static enum gemmd_error not_a_list(const struct paged_list *list, struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_PROTOCOL, NULL, "the daemon's answer is not a list of %s",
                       list->member);
}

static enum gemmd_error make_room(struct paged_list *list, size_t more,
                                  struct gemmd_error_info *error)
{
    const size_t needed = list->count + more;
    if (needed <= list->room)
        return GEMMD_OK;
    const size_t room = needed > 2 * list->room ? needed : 2 * list->room;
    unsigned char *items = realloc(list->items, room * list->item_bytes);
    if (items == NULL)
        return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for a list of %zu %s", needed, list->member);
    list->items = items;
    list->room = room;
    return GEMMD_OK;
}

/* Sets list->after to the member `next` of a page, or "". */
static enum gemmd_error read_next(struct paged_list *list, json_t *page,
                                  struct gemmd_error_info *error)
{
    json_t *member = json_object_get(page, "next");
    const char *next = json_string_value(member);
    if (member != NULL && !json_is_null(member) &&
        (next == NULL || strlen(next) >= sizeof list->after || !list->goes_on(next, list->after)))
        return not_a_list(list, error);
    snprintf(list->after, sizeof list->after, "%s", next != NULL ? next : "");
    return GEMMD_OK;
}

static enum gemmd_error read_page(struct paged_list *list, const char *text,
                                  struct gemmd_error_info *error)
{
    json_t *page = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *array = json_object_get(page, list->member);
    const size_t count = json_array_size(array);
    enum gemmd_error code =
        json_is_array(array) ? make_room(list, count, error) : not_a_list(list, error);
    for (size_t i = 0; i < count && code == GEMMD_OK; i++)
        if (!list->read(json_array_get(array, i), list->items + list->count++ * list->item_bytes))
            code = not_a_list(list, error);
    if (code == GEMMD_OK)
        code = read_next(list, page, error);
    json_decref(page);
    return code;
}

enum gemmd_error paged_list_fetch(struct gemmd_client *client, struct paged_list *list,
                                  struct gemmd_error_info *error)
{
    enum gemmd_error code;
    do {
        char path[3 * sizeof list->after + 32], *text = NULL;
        snprintf(path, sizeof path, "%s", list->path);
        if (list->after[0] != '\0')
            (void)query_append(path, sizeof path, "after", list->after);
        code = daemon_text(client, path, client->options.retries, &text, error);
        if (code == GEMMD_OK)
            code = read_page(list, text, error);
        free(text);
    } while (code == GEMMD_OK && list->after[0] != '\0');
    return code;
}
