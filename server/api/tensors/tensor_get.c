/*
 * GET and HEAD /tensors/{name}: the bytes as they came, in the format that Accept names.
 *
 * A tensor that a product left on the device has no entity tag until somebody asks for it: then its
 * bytes are on the host for the first time. HEAD brings them there too, to tell it.
 */
#include <inttypes.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/safetensors.h"
#include "proto/size.h"
#include "server/api/accept.h"
#include "server/api/sent_block.h"
#include "server/api/tensors/tensor_call.h"
#include "server/daemon.h"
#include "server/http/respond.h"
#include "server/tensors/resident_copy.h"

static bool is_head(const struct request *request)
{
    return strcmp(request->method, "HEAD") == 0;
}

static uint64_t header_of(const struct tensor_call *call, char out[SAFETENSORS_HEADER_MAX])
{
    const struct tensor *tensor = resident_tensor(call->resident);
    if (call->format == FORMAT_NPY)
        return npy_header(tensor, out);
    if (call->format == FORMAT_SAFETENSORS) {
        /* The format's names may not be as long as ours. */
        struct safetensors_entry entry = {.name = "tensor", .tensor = *tensor};
        return safetensors_header(&entry, 1, out);
    }
    return 0;
}

static void add_headers(const struct tensor_call *call, struct MHD_Response *response)
{
    const struct tensor *tensor = resident_tensor(call->resident);
    char shape[TENSOR_MAX_RANK * 21];
    tensor_shape_text(tensor, shape, sizeof shape);
    MHD_add_response_header(response, "Gemmd-Shape", shape);
    MHD_add_response_header(response, "Gemmd-Dtype", dtype_name(tensor->dtype));
    MHD_add_response_header(response, "ETag", resident_etag(call->resident));
    MHD_add_response_header(response, "Vary", "Accept");
}

/* Of HEAD and of 304 the body is never asked for, only its length told. */
static ssize_t no_body(void *cls, uint64_t position, char *buffer, size_t capacity)
{
    (void)cls;
    (void)position;
    (void)buffer;
    (void)capacity;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Takes over the block. */
static struct MHD_Response *block_response(struct tensor_call *call)
{
    void *block = call->block;
    struct sent_block *sent =
        sent_block_create(call->request->thread->memory, block, call->block_bytes);
    if (sent == NULL)
        return NULL;
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        (size_t)call->block_bytes, block, sent_block_end, sent);
    call->block = NULL;
    if (response == NULL)
        sent_block_end(sent);
    return response;
}

/* The tag is known. */
static void answer(struct tensor_call *call)
{
    struct request *request = call->request;
    const enum tensor_condition_result verdict =
        tensor_condition_evaluate(&call->condition, true, resident_etag(call->resident));
    struct MHD_Response *response;
    int status;
    uint64_t length = 0;
    if (verdict == TENSOR_CONDITION_OTHER) {
        (void)tensor_condition_require(&call->condition, true, resident_etag(call->resident),
                                       &request->fault);
        respond_fault(request, &request->fault);
        return;
    }
    status = verdict == TENSOR_CONDITION_SAME ? 304 : 200;
    if (status == 304 || is_head(request)) {
        response = MHD_create_response_from_callback(call->block_bytes, 1, no_body, NULL, NULL);
    } else {
        length = call->block_bytes;
        response = block_response(call);
    }
    if (response == NULL) {
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
        respond_fault(request, &request->fault);
        return;
    }
    add_headers(call, response);
    if (status == 200)
        MHD_add_response_header(response, "Content-Type", format_media_type(call->format));
    respond(request, status, response, length);
}

/* The answer has no use for the bytes: its headers can be told without. */
static bool needs_no_bytes(const struct tensor_call *call)
{
    const char *etag = resident_etag(call->resident);
    return etag != NULL &&
           (is_head(call->request) ||
            tensor_condition_evaluate(&call->condition, true, etag) != TENSOR_CONDITION_HOLDS);
}

static enum gemmd_error measure(struct tensor_call *call)
{
    struct request *request = call->request;
    const uint64_t limit = request->daemon->config.max_result_bytes;
    const uint64_t bytes = resident_tensor(call->resident)->bytes;
    char header[SAFETENSORS_HEADER_MAX];
    call->header_bytes = header_of(call, header);
    if (bytes > limit || !size_add(bytes, call->header_bytes, &call->block_bytes))
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the tensor is %" PRIu64 " bytes long; the limit of answers is %" PRIu64,
                         bytes, limit);
    return GEMMD_OK;
}

static enum gemmd_error take_block(struct tensor_call *call)
{
    struct request *request = call->request;
    char header[SAFETENSORS_HEADER_MAX];
    call->block = pool_alloc(request->thread->memory, call->block_bytes, &request->fault);
    if (call->block == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    const uint64_t header_bytes = header_of(call, header);
    memcpy(call->block, header, header_bytes);
    return GEMMD_OK;
}

static bool open_get(struct request *request)
{
    struct tensor_call *call = tensor_call_open(request);
    if (call == NULL ||
        tensor_store_acquire(request->daemon->tensors, request->rest, request->tenant,
                             &call->resident, &request->fault) != GEMMD_OK)
        return false;
    if (!accept_format(request_header(request, "Accept"), FORMAT_RAW, &call->format)) {
        fault_set(&request->fault, GEMMD_ERR_NOT_ACCEPTABLE, NULL,
                  "Accept can name application/octet-stream, application/vnd.safetensors or "
                  "application/x-npy");
        return false;
    }
    return measure(call) == GEMMD_OK;
}

void tensor_get_begin(struct request *request)
{
    if (!open_get(request)) {
        request_refuse(request);
        return;
    }
    struct tensor_call *call = request->tensor;
    if (needs_no_bytes(call)) {
        answer(call);
        return;
    }
    if (request_check_daemon(request) != GEMMD_OK ||
        tensor_call_admit(call, call->block_bytes) != GEMMD_OK || take_block(call) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    const struct work_copy copy =
        resident_copy_out(call->resident, call->block + call->header_bytes);
    tensor_call_copy(call, &copy);
}

void tensor_get_answer(struct request *request)
{
    struct tensor_call *call = request->tensor;
    const struct tensor *tensor = resident_tensor(call->resident);
    if (call->has_place && tensor_call_copied(call) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    if (resident_etag(call->resident) == NULL) {
        char etag[TENSOR_ETAG_SIZE];
        if (call->hashed == NULL)
            tensor_call_hash_from(call, tensor, call->block + call->header_bytes);
        if (call->hashed_bytes < tensor->bytes) {
            tensor_call_hash_to(call, tensor->bytes, true);
            return; /* the rest in the next turns */
        }
        tensor_hash_end(&call->hash, etag);
        tensor_store_set_etag(request->daemon->tensors, call->resident, etag);
    }
    answer(call);
}
