/*
 * PUT /tensors/{name}: uploads a tensor.
 *
 * A request is refused at its headers if possible, else as soon as the header of the body's format
 * has arrived, when the tensor's device memory is taken too. The name keeps its old tensor until
 * the new one is complete.
 */
#include <inttypes.h>

#include "proto/gemm_scales.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/services.h"
#include "server/api/tensors/tensor_call.h"
#include "server/http/respond.h"
#include "server/tensors/resident_copy.h"
#include "server/tensors/tensor_describe.h"

static bool tensor_put_take_parameter(void *context, const char *name, const char *value)
{
    struct request *request = context;
    struct tensor_call *call = request->call;
    return parameter_set(&tensor_parameter_table, &call->offer, name, value, &request->fault) ==
           GEMMD_OK;
}

/* Packed weights are taken only where they can be arranged while they arrive: all at once would
 * keep the I/O thread from other requests for seconds. */
static enum gemmd_error check_packed(struct tensor_call *call)
{
    struct request *request = call->request;
    if (call->offer.format == PACKED_NONE || request->sized)
        return GEMMD_OK;
    return fault_set(&request->fault, GEMMD_ERR_MALFORMED, "format",
                     "packed weights need a Content-Length and no Content-Encoding");
}

static enum gemmd_error tensor_put_read_parameters(struct tensor_call *call)
{
    struct request *request = call->request;
    const char *type = request_header(request, "Content-Type");
    call->format = FORMAT_RAW;
    if (type != NULL && !format_from_media_type(type, &call->format))
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "Content-Type can be application/octet-stream, "
                         "application/vnd.safetensors or application/x-npy");
    tensor_request_init(&call->offer);
    if (request_parameters(request, tensor_put_take_parameter, request) != GEMMD_OK)
        return request->fault.code;
    const enum gemmd_error code = tensor_request_check(&call->offer, call->format, &request->fault);
    return code == GEMMD_OK ? check_packed(call) : code;
}

static enum gemmd_error tensor_put_take_scratch(struct tensor_call *call, uint64_t bytes)
{
    call->scratch_bytes = bytes;
    call->scratch =
        pool_alloc(services_memory(call->request), call->scratch_bytes, &call->request->fault);
    return call->scratch != NULL ? GEMMD_OK : GEMMD_ERR_OUT_OF_MEMORY;
}

/* Takes the device memory of the tensor, whose type and shape are known, and starts the hash if the
 * bytes arrive in row-major order. */
static enum gemmd_error take_tensor(struct tensor_call *call)
{
    struct request *request = call->request;
    const bool is_packed = call->packed.count > 0;
    const struct tensor_offer offer = {.name = request->rest,
                                       .tenant = request->tenant,
                                       .evictable = call->offer.evictable,
                                       .contiguous = call->offer.contiguous,
                                       .packed = is_packed ? &call->packed : NULL,
                                       .tensor = &call->tensor,
                                       .scale = &call->scale,
                                       .device = TENSOR_ANY_DEVICE};
    enum gemmd_error code = tensor_store_reserve(services_of(request)->tensors, &offer,
                                                 &call->resident, &request->fault);
    if (code == GEMMD_OK && is_packed)
        return tensor_put_take_scratch(call, call->packed.layout.bytes);
    if (code == GEMMD_OK && !call->tensor.fortran)
        tensor_call_hash_from(call, resident_tensor(call->resident), call->tensor.data);
    return code;
}

/* Looks for packed weights in the part of the body that has arrived. */
static enum gemmd_error look_for_packed(struct tensor_call *call, uint64_t total)
{
    struct fault fault = {.code = GEMMD_OK};
    struct packed_file file;
    enum gemmd_error code = packed_find(call->offer.format, call->offer.bits, call->block,
                                        call->received_bytes, total, &file, &fault);
    if (code == GEMMD_ERR_CONFLICT)
        return GEMMD_OK;
    if (code != GEMMD_OK) {
        call->request->fault = fault;
        return code;
    }
    call->packed = file;
    (void)tensor_init(&call->tensor, GEMMD_I8, &file.layout.bytes, 1,
                      NULL); /* it fits in 63 bits */
    return take_tensor(call);
}

/* Looks for the tensor in the part of the body that has arrived. `total` is the length of the
 * complete body. */
static enum gemmd_error tensor_put_look(struct tensor_call *call, uint64_t total)
{
    struct fault fault = {.code = GEMMD_OK};
    struct tensor tensor, scale;
    if (call->offer.format != PACKED_NONE)
        return look_for_packed(call, total);
    enum gemmd_error code =
        tensor_request_find(&call->offer, call->format, call->block, call->received_bytes, total,
                            &tensor, &scale, &fault);
    if (code == GEMMD_ERR_CONFLICT)
        return GEMMD_OK;
    if (code != GEMMD_OK) {
        call->request->fault = fault;
        return code;
    }
    call->tensor = tensor;
    call->scale = scale;
    return take_tensor(call);
}

/* Sets the length of the body, if the headers or the shape of a raw body give it, and the size of
 * the body's block. */
static enum gemmd_error find_length(struct tensor_call *call)
{
    struct request *request = call->request;
    const uint64_t limit = request->config->max_body_bytes;
    call->length_known = request->sized || call->format == FORMAT_RAW;
    call->total_bytes = request->body_bytes;
    if (!request->sized && call->format == FORMAT_RAW &&
        !tensor_request_raw_bytes(&call->offer, &call->total_bytes))
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, "shape",
                         "the tensor's size does not fit in 64 bits");
    if (call->total_bytes > limit)
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body would be %s; --max-body is %s",
                         size_text(call->total_bytes).text, size_text(limit).text);
    call->block_bytes = call->total_bytes;
    if (!call->length_known)
        call->block_bytes = TENSOR_FIRST_BYTES < limit ? TENSOR_FIRST_BYTES : limit;
    return GEMMD_OK;
}

/* Checks the upload at its headers, and takes its reservation and its memory. */
static enum gemmd_error admit_put(struct tensor_call *call)
{
    struct request *request = call->request;
    enum gemmd_error code = tensor_put_read_parameters(call);
    if (code == GEMMD_OK)
        code = tensor_store_require(services_of(request)->tensors, request->rest, request->tenant,
                                    &call->condition, &request->fault);
    if (code == GEMMD_OK)
        code = services_check(request);
    if (code == GEMMD_OK)
        code = find_length(call);
    if (code == GEMMD_OK)
        code = tensor_call_admit(call, call->block_bytes);
    if (code == GEMMD_OK)
        code = tensor_call_take_block(call);
    if (code == GEMMD_OK && call->length_known)
        code = tensor_put_look(call, call->total_bytes);
    return code;
}

void tensor_put_begin(struct request *request)
{
    struct tensor_call *call = tensor_call_open(request);
    if (call != NULL && admit_put(call) == GEMMD_OK)
        request_receive(request, 0);
    else
        request_refuse(request);
}

/* Hashes the tensor's bytes that have arrived. */
static void hash_arrived(struct tensor_call *call)
{
    const uint64_t before = (uint64_t)(call->hashed - call->block);
    uint64_t arrived = call->received_bytes > before ? call->received_bytes - before : 0;
    if (arrived > call->tensor.bytes)
        arrived = call->tensor.bytes;
    tensor_call_hash_to(call, arrived, false);
}

/* Arranges the stripes of packed weights that have arrived. */
static void arrange_arrived(struct tensor_call *call)
{
    const struct packed_file *file = &call->packed;
    const unsigned char *weights = file->entries[PACKED_WEIGHTS].tensor.data;
    const uint64_t before = (uint64_t)(weights - call->block);
    const uint64_t arrived = call->received_bytes > before ? call->received_bytes - before : 0;
    while (call->stripes < packed_stripes(file) &&
           packed_stripes_bytes(file, call->stripes + 1) <= arrived)
        packed_arrange_stripe(file, call->stripes++, call->scratch);
}

/* Checks packed weights, whose bytes have all arrived, and arranges the rest of them. */
static enum gemmd_error finish_packed(struct tensor_call *call)
{
    const enum gemmd_error code = packed_check(&call->packed, &call->request->fault);
    if (code != GEMMD_OK)
        return code;
    tensor_store_set_factor(call->resident, call->packed.factor);
    arrange_arrived(call);
    packed_arrange_scales(&call->packed, call->scratch);
    call->tensor.data = call->scratch;
    return GEMMD_OK;
}

bool tensor_put_chunk(struct request *request, const void *bytes, uint64_t length)
{
    struct tensor_call *call = request->call;
    if (tensor_call_receive(call, bytes, length) != GEMMD_OK)
        return false;
    if (call->length_known && call->tensor.rank == 0 &&
        tensor_put_look(call, call->total_bytes) != GEMMD_OK)
        return false;
    if (call->packed.count > 0)
        arrange_arrived(call);
    else if (call->hashed != NULL)
        hash_arrived(call);
    return true;
}

/* Makes a row-major copy of the tensor, since tensors are kept and hashed in row-major order. */
static enum gemmd_error tensor_put_transpose(struct tensor_call *call)
{
    if (tensor_put_take_scratch(call, call->tensor.bytes) != GEMMD_OK)
        return GEMMD_ERR_OUT_OF_MEMORY;
    tensor_copy_row_major(&call->tensor, call->scratch);
    call->tensor.fortran = false;
    call->tensor.data = call->scratch;
    tensor_call_hash_from(call, resident_tensor(call->resident), call->scratch);
    return GEMMD_OK;
}

void tensor_put_submit(struct request *request)
{
    struct tensor_call *call = request->call;
    /* A chunked or compressed body may be shorter than its shape. */
    if (call->length_known && call->received_bytes < call->total_bytes) {
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                  "the body is %" PRIu64 " bytes; its shape takes %" PRIu64, call->received_bytes,
                  call->total_bytes);
        respond_fault(request, &request->fault);
        return;
    }
    if ((call->tensor.rank == 0 && tensor_put_look(call, call->received_bytes) != GEMMD_OK) ||
        (call->tensor.fortran && tensor_put_transpose(call) != GEMMD_OK) ||
        (call->packed.count > 0 && finish_packed(call) != GEMMD_OK)) {
        respond_fault(request, &request->fault);
        return;
    }
    if (call->scale.rank > 0 &&
        gemm_scales_check("scale", &call->scale, &request->fault) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    struct work_copy copies[RESIDENT_COPIES];
    const uint32_t count =
        resident_copies_in(call->resident, call->tensor.data, call->scale.data, copies);
    tensor_call_copy(call, copies, count, resident_device(call->resident));
}

/* Publishes a tensor whose bytes are on its device. Returns false if the request was refused, or if
 * the tensor's hash is not complete: each iteration of the loop calls this function again, which
 * then hashes the next piece. */
static bool publish(struct tensor_call *call)
{
    struct request *request = call->request;
    struct tensor_store *store = services_of(request)->tensors;
    char etag[TENSOR_ETAG_SIZE];
    if (call->reservation.admission != NULL && tensor_call_copied(call) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return false;
    }
    if (call->packed.count > 0) {
        if (!tensor_call_hash_packed(call))
            return false;
    } else if (call->hashed_bytes < call->tensor.bytes) {
        tensor_call_hash_to(call, call->tensor.bytes, true);
        return false;
    }
    if (call->scale.rank > 0)
        tensor_hash_scale(&call->hash, &call->scale);
    tensor_hash_end(&call->hash, etag);
    tensor_store_set_etag(store, call->resident, etag);
    if (tensor_store_publish(store, call->resident, &call->condition, &call->replaced,
                             &request->fault) == GEMMD_OK)
        call->published = true;
    else
        respond_fault(request, &request->fault);
    return call->published;
}

/* Starts to copy the tensor to the next device that has room, if the request asks for copies on all
 * devices. Returns false if no device is left. */
static bool replicate(struct tensor_call *call)
{
    const struct executors *executors = &services_of(call->request)->executors;
    struct fault no_room; /* the answer tells which devices have a copy */
    while (call->offer.replicate && call->next_device < executors->count) {
        const uint32_t device = call->next_device++;
        if (resident_is_on(call->resident, device) ||
            tensor_store_reserve_copy(services_of(call->request)->tensors, call->resident, device,
                                      &call->copy, &no_room) != GEMMD_OK)
            continue;
        struct work_copy copies[RESIDENT_COPIES];
        const uint32_t count = resident_copies_between(call->resident, call->copy, copies);
        tensor_call_copy(call, copies, count, device);
        return true;
    }
    return false;
}

void tensor_put_answer(struct request *request)
{
    struct tensor_call *call = request->call;
    if (call->published)
        tensor_call_end_copy(call);
    else if (!publish(call))
        return;
    if (!replicate(call))
        tensor_call_describe(call, call->replaced ? 200 : 201, tensor_describe(call->resident),
                             resident_etag(call->resident), "tensors");
}
