#include "client/description.h"

#include <string.h>

#include "proto/size.h"

/* Copies the member `name` to `out`. False if the member is missing, is no string, or does not fit.
 */
static bool description_take_text(json_t *object, const char *name, char *out, size_t room)
{
    json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    if (text == NULL || json_string_length(value) != strlen(text) || strlen(text) >= room)
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool description_take_shape(json_t *object, struct gemmd_tensor *tensor)
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
    return size_tensor_bytes(tensor->dtype, tensor->dims, tensor->rank, &tensor->bytes);
}

bool description_tensor(json_t *object, struct gemmd_tensor *tensor)
{
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    *tensor = (struct gemmd_tensor){.size = sizeof *tensor};
    if (!description_take_text(object, "name", tensor->name, sizeof tensor->name) ||
        !gemmd_dtype_from_name(dtype, &tensor->dtype) || !description_take_shape(object, tensor))
        return false;
    (void)description_take_text(object, "etag", tensor->etag, sizeof tensor->etag);
    tensor->evictable = json_is_true(json_object_get(object, "evictable"));
    return true;
}

static double milliseconds(json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : -1;
}

bool description_listed_job(json_t *object, struct gemmd_job *job)
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
    (void)description_take_text(object, "created", job->created, sizeof job->created);
    (void)description_take_text(object, "expires", job->expires, sizeof job->expires);
    (void)description_take_text(object, "op", job->op, sizeof job->op);
    (void)description_take_text(object, "request_id", job->request_id, sizeof job->request_id);
    return json_object_get(object, "id") == NULL ||
           description_take_text(object, "id", job->id, sizeof job->id);
}

bool description_job(json_t *object, struct gemmd_job *job)
{
    return description_listed_job(object, job) && job->id[0] != '\0';
}
