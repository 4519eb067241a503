/* The endpoints /tensors, the list of tensors, and /tensors/{name}, with its methods. DELETE is
 * here; PUT and GET are in tensor_put.c and tensor_get.c. */
#include <stdlib.h>
#include <string.h>

#include "proto/number.h"
#include "server/api/counted_text.h"
#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/api/tensors/tensor_call.h"
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

static bool tensor_list_take_parameter(void *context, const char *name, const char *value)
{
    struct page_request *page = context;
    struct fault *fault = &page->request->fault;
    uint64_t limit;
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
                  "'%.32s' is not a parameter of /tensors, or given twice; the parameters are "
                  "after and limit",
                  name);
    }
    return fault->code == GEMMD_OK;
}

static void tensor_list_begin(struct request *request)
{
    struct tensor_store *store = services_of(request)->tensors;
    struct page_request wanted = {.request = request, .limit = TENSOR_STORE_PAGE_MAX};
    struct resident *page[TENSOR_STORE_PAGE_MAX];
    bool more;
    if (request_parameters(request, tensor_list_take_parameter, &wanted) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    const uint32_t count =
        tensor_store_page(store, request->tenant, wanted.after != NULL ? wanted.after : "", page,
                          wanted.limit, &more);
    char *text = tensor_describe_page(page, count, more);
    for (uint32_t i = 0; i < count; i++)
        tensor_store_release(store, page[i]);
    respond_counted_text(request, NULL, text);
}

/* --- /tensors/{name} --- */

static void remove_tensor(struct request *request)
{
    struct tensor_call *call = tensor_call_open(request);
    if (call == NULL ||
        tensor_store_remove(services_of(request)->tensors, request->rest, request->tenant,
                            &call->condition, &request->fault) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    respond_empty(request, 204, NULL, 0);
}

static void tensor_begin(struct request *request)
{
    if (is_put(request)) {
        tensor_put_begin(request);
    } else if (request_has_body(request)) {
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
    return tensor_call_withdraw(request->call);
}

static void tensor_release(struct request *request)
{
    tensor_call_close(request->call);
}

static uint32_t tensor_retry_after_s(const struct request *request, enum gemmd_error code)
{
    const struct tensor_call *call = request->call;
    return services_retry_after_s(request, code, call->queue_bytes);
}

const struct endpoint tensor_endpoints[] = {
    {.path = "/tensors",
     .allow = "GET, HEAD",
     .op = METRICS_OP_TENSOR,
     .scope = SCOPE_TENSORS,
     .begin = tensor_list_begin},
    {.path = "/tensors/",
     .allow = "GET, HEAD, PUT, DELETE",
     .op = METRICS_OP_TENSOR,
     .scope = SCOPE_TENSORS,
     .call_bytes = sizeof(struct tensor_call),
     .call_zeroed_bytes = sizeof(struct tensor_call),
     .begin = tensor_begin,
     .chunk = tensor_put_chunk,
     .submit = tensor_put_submit,
     .withdraw = tensor_withdraw,
     .answer = tensor_answer,
     .release = tensor_release,
     .retry_after_s = tensor_retry_after_s,
     .copied = tensor_call_times},
    {0},
};
