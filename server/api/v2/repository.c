#include "server/api/v2/repository.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/services.h"
#include "server/api/v2/model.h"
#include "server/base/json_whole.h"
#include "server/http/request.h"
#include "server/http/respond.h"

struct index {
    json_t *entries;
    bool usable; /* the device is not lost; without a device no model is ready */
};

static bool repository_add(void *context, const struct model *model)
{
    struct index *index = context;
    return json_array_append_new(index->entries,
                                 json_pack("{s:s, s:s, s:s, s:s}", "name", model->name, "version",
                                           MODEL_VERSION, "state",
                                           index->usable ? "READY" : "UNAVAILABLE", "reason",
                                           index->usable ? "" : "the device is lost")) == 0;
}

static void repository_answer(struct request *request, bool ready_only)
{
    struct index index = {json_array(), !executors_are_lost(&services_of(request)->executors)};
    bool whole = index.entries != NULL;
    if (index.usable || !ready_only)
        whole = model_each(services_of(request), request->tenant, repository_add, &index);
    respond_text(request, 200, "application/json",
                 json_whole_text(json_whole(index.entries, whole), JSON_COMPACT));
}

void repository_begin(struct request *request)
{
    if (request->sized && request->body_bytes == 0) {
        repository_answer(request, false);
        return;
    }
    request_receive(request, 0);
}

bool repository_chunk(struct request *request, const void *bytes, uint64_t length)
{
    struct repository_call *body = request->call;
    if (length > REPOSITORY_BODY_MAX - body->bytes) {
        fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                  "the body is longer than the %d bytes that are read; it is {\"ready\":true} or "
                  "nothing",
                  REPOSITORY_BODY_MAX);
        return false;
    }
    memcpy(body->text + body->bytes, bytes, length);
    body->bytes += length;
    return true;
}

void repository_submit(struct request *request)
{
    const struct repository_call *body = request->call;
    json_t *root = json_loadb(body->text, body->bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *ready = json_object_get(root, "ready");
    const bool right = json_is_object(root) && (ready == NULL || json_is_boolean(ready));
    const bool ready_only = json_is_true(ready);
    json_decref(root);
    if (right) {
        repository_answer(request, ready_only);
        return;
    }
    fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
              "the body is not an object with ready, true or false, or nothing");
    respond_fault(request, &request->fault);
}
