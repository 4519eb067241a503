/* /tensors and /tensors/{name}: which method does what; the list, and removal. */
#include <stdlib.h>
#include <string.h>

#include "proto/number.h"
#include "server/api/tensors/tensor_call.h"
#include "server/daemon.h"
#include "server/http/endpoints.h"
#include "server/http/respond.h"
#include "server/tensors/tensor_describe.h"

static bool is_put(const struct request *request)
{
    return strcmp(request->method, "PUT") == 0;
}

/* --- /tensors --- */

struct page_request {
    struct request *request;
    const char *after;
    uint32_t limit;
    bool has_limit;
};

static enum MHD_Result take_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct page_request *page = cls;
    struct fault *fault = &page->request->fault;
    uint64_t limit;
    (void)kind;
    if (value == NULL)
        value = "";
    if (strcmp(name, "after") == 0 && page->after == NULL) {
        page->after = value;
        if (!tensor_name_valid(value))
            fault_set(fault, GEMMD_ERR_MALFORMED, name, "after must be a tensor's name");
    } else if (strcmp(name, "limit") == 0 && !page->has_limit) {
        page->has_limit = true;
        if (number_u64(value, &limit) && limit >= 1 && limit <= TENSOR_STORE_PAGE_MAX)
            page->limit = (uint32_t)limit;
        else
            fault_set(fault, GEMMD_ERR_MALFORMED, name,
                      "limit is '%.64s'; it must be a whole number from 1 to %d", value,
                      TENSOR_STORE_PAGE_MAX);
    } else {
        fault_set(fault, GEMMD_ERR_MALFORMED, name,
                  "'%.32s' is not a parameter of /tensors, or given twice; those are after, limit",
                  name);
    }
    return fault->code == GEMMD_OK ? MHD_YES : MHD_NO;
}

static void list_begin(struct request *request)
{
    struct tensor_store *store = request->daemon->tensors;
    struct page_request wanted = {.request = request, .limit = TENSOR_STORE_PAGE_MAX};
    struct resident *page[TENSOR_STORE_PAGE_MAX];
    bool more;
    MHD_get_connection_values(request->mhd, MHD_GET_ARGUMENT_KIND, take_parameter, &wanted);
    if (request->fault.code != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    const uint32_t count =
        tensor_store_page(store, request->tenant, wanted.after != NULL ? wanted.after : "", page,
                          wanted.limit, &more);
    char *text = tensor_describe_page(page, count, more);
    for (uint32_t i = 0; i < count; i++)
        tensor_store_release(store, page[i]);
    if (text != NULL) {
        respond_text(request, 200, "application/json", text, strlen(text));
        return;
    }
    fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
    respond_fault(request, &request->fault);
}

/* --- /tensors/{name} --- */

static void remove_tensor(struct request *request)
{
    struct tensor_call *call = tensor_call_open(request);
    if (call == NULL ||
        tensor_store_remove(request->daemon->tensors, request->rest, request->tenant,
                            &call->condition, &request->fault) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    respond(request, 204, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), 0);
}

static void tensor_begin(struct request *request)
{
    const bool has_body = request->chunked || request->content_length > 0;
    if (is_put(request)) {
        tensor_put_begin(request);
    } else if (has_body) {
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL, "%s of a tensor takes no body",
                  request->method);
        request_refuse(request);
    } else if (strcmp(request->method, "DELETE") == 0) {
        remove_tensor(request);
    } else {
        tensor_get_begin(request);
    }
}

static void tensor_answer(struct request *request)
{
    if (is_put(request))
        tensor_put_answer(request);
    else
        tensor_get_answer(request);
}

static bool tensor_withdraw(struct request *request)
{
    return tensor_call_withdraw(request->tensor);
}

static void tensor_release(struct request *request)
{
    tensor_call_close(request->tensor);
}

const struct endpoint endpoint_tensors = {
    .path = "/tensors", .allow = "GET, HEAD", .op = METRICS_OP_TENSOR, .begin = list_begin};
const struct endpoint endpoint_tensor = {
    .path = "/tensors/",
    .allow = "GET, HEAD, PUT, DELETE",
    .op = METRICS_OP_TENSOR,
    .begin = tensor_begin,
    .chunk = tensor_put_chunk,
    .submit = tensor_put_submit,
    .withdraw = tensor_withdraw,
    .answer = tensor_answer,
    .release = tensor_release,
};
