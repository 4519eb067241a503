#include "client/gemmctl/job_describe.h"

json_t *job_describe(const struct gemmd_job *job)
{
    json_t *object = json_pack("{s:s, s:s, s:s}", "id", job->id, "state",
                               gemmd_job_state_name(job->state), "request_id", job->request_id);
    if (object == NULL)
        return NULL;
    if (job->op[0] != '\0')
        json_object_set_new(object, "op", json_string(job->op));
    if (job->created[0] != '\0')
        json_object_set_new(object, "created", json_string(job->created));
    if (job->expires[0] != '\0')
        json_object_set_new(object, "expires", json_string(job->expires));
    if (job->queued_ms >= 0)
        json_object_set_new(object, "queued_ms", json_real(job->queued_ms));
    if (job->running_ms >= 0)
        json_object_set_new(object, "running_ms", json_real(job->running_ms));
    if (job->http_status != 0) {
        json_object_set_new(object, "http_status", json_integer(job->http_status));
        json_object_set_new(object, "bytes", json_integer((json_int_t)job->bytes));
    }
    return object;
}
