#include "client/stored.h"

#include <string.h>

#include "client/compute.h"
#include "client/description.h"
#include "client/failure.h"

static void stored_take_shape(struct answer *answer, enum gemmd_dtype dtype, uint32_t rank,
                              const uint64_t dims[ANSWER_MAX_RANK])
{
    answer->has_dtype = true;
    answer->dtype = dtype;
    answer->rank = rank;
    memcpy(answer->dims, dims, rank * sizeof dims[0]);
}

enum gemmd_error stored_conclude(struct gemmd_request *request, struct answer *answer,
                                 const char *document, size_t bytes)
{
    struct gemmd_tensor tensor;
    json_t *object = json_loadb(document, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool described = description_tensor(object, &tensor);
    json_decref(object);
    if (request->expected.rank > 0)
        stored_take_shape(answer, request->expected.dtype, request->expected.rank,
                          request->expected.dims);
    else if (described)
        stored_take_shape(answer, tensor.dtype, tensor.rank, tensor.dims);
    else
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer does not describe the tensor that was stored");
    _Static_assert(sizeof answer->etag == sizeof tensor.etag, "one length of etags");
    if (answer->etag[0] == '\0' && described)
        memcpy(answer->etag, tensor.etag, sizeof answer->etag);
    answer->put = answer->status == 201   ? GEMMD_PUT_CREATED
                  : answer->status == 412 ? GEMMD_PUT_UNCHANGED
                                          : GEMMD_PUT_REPLACED;
    return GEMMD_OK;
}

static enum gemmd_error accept_stored(struct gemmd_request *request, const struct answer *answer)
{
    if (answer->status == 202)
        return compute_accept_taken(request, answer);
    request->expected.bytes = 0;
    return GEMMD_OK;
}

static enum gemmd_error conclude_stored(struct gemmd_request *request, struct answer *answer,
                                        const char *document, size_t bytes)
{
    return answer->status == 202 ? GEMMD_OK : stored_conclude(request, answer, document, bytes);
}

static const struct operation store_operation = {.method = "POST",
                                                 .headers = HEADERS_SEND,
                                                 .sends = true,
                                                 .statuses = {201, 200},
                                                 .time_parameter = "timeout_ms",
                                                 .time_max_ms = INT32_MAX,
                                                 .accept = accept_stored,
                                                 .conclude = conclude_stored};
static const struct operation store_job_operation = {.method = "POST",
                                                     .headers = HEADERS_SEND,
                                                     .sends = true,
                                                     .prefers_async = true,
                                                     .statuses = {202, 201, 200},
                                                     .accept = accept_stored,
                                                     .conclude = conclude_stored};

const struct operation *stored_operation(bool job)
{
    return job ? &store_job_operation : &store_operation;
}
