#include "server/api/v2/repository.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/counted_text.h"
#include "server/api/services.h"
#include "server/api/v2/model_list.h"
#include "server/http/request.h"
#include "server/http/respond.h"

/* Without a device no model is ready. */
static bool has_device(const struct request *request)
{
    return !executors_are_lost(&services_of(request)->executors);
}

static void repository_entry(struct json_text *json, const struct request *request,
                             const struct model *model)
{
    json_text_raw(json, "{\"name\":");
    json_text_string(json, model->name);
    json_text_raw(json, has_device(request) ? ",\"version\":\"" MODEL_VERSION
                                              "\",\"state\":\"READY\",\"reason\":\"\"}"
                                            : ",\"version\":\"" MODEL_VERSION
                                              "\",\"state\":\"UNAVAILABLE\",\"reason\":"
                                              "\"the device is lost\"}");
}

static void repository_answer(struct request *request, bool ready_only)
{
    if (ready_only && !has_device(request)) {
        respond_static(request, 200, "application/json", "[]", 2);
        return;
    }
    char *text = model_list_text(request, "[", repository_entry, "]");
    if (text == NULL)
        respond_fault(request, &request->fault);
    else
        respond_counted_text(request, NULL, text);
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
