/*
 * GET and HEAD /tensors/{name}: sends a tensor in the format that Accept names.
 *
 * The bytes are copied from the device into a block of pinned memory, from which they are sent. A
 * large tensor is copied by two works: the answer begins when the first eighth has been copied, and
 * is sent while the device copies the rest. If the rest cannot be copied, the connection ends. The
 * CPU backend's tensor memory is memory of the host, so that a raw answer is sent from where the
 * tensor lies.
 *
 * Packed weights are copied as they are arranged, and turned back into the tensors of their file.
 *
 * With the parameters row and rows, some elements of the first dimension are sent, without scales.
 *
 * A tensor that a product has stored has no entity tag, because its bytes have never been on the
 * host. The first GET or HEAD of the whole tensor copies the bytes to the host and computes the
 * tag.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/number.h"
#include "proto/safetensors.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/services.h"
#include "server/api/tensors/tensor_call.h"
#include "server/http/digests.h"
#include "server/http/negotiation.h"
#include "server/http/respond.h"
#include "server/tensors/resident_copy.h"

/* The first copy is this part of a large tensor. A GPU copies the other parts in the time in which
 * the first part is sent. */
enum { FIRST_PART = 8 };

/* The bytes of packed weights that are restored in one iteration of the I/O thread's loop. */
static const uint64_t RESTORED_BYTES = 128 * 1024;

static bool is_head(const struct request *request)
{
    return strcmp(request->method, "HEAD") == 0;
}

static bool is_packed(const struct tensor_call *call)
{
    return resident_packed(call->resident) != NULL;
}

static bool is_whole(const struct tensor_call *call)
{
    return call->rows.rank == 0;
}

/* What is sent. */
static const struct tensor *sent_part(const struct tensor_call *call)
{
    return is_whole(call) ? resident_tensor(call->resident) : &call->rows;
}

/* The scales in the answer, which only safetensors has a place for; rank 0: there are none. */
static struct tensor sent_scale(const struct tensor_call *call)
{
    return call->format == FORMAT_SAFETENSORS && is_whole(call) ? *resident_scale(call->resident)
                                                                : (struct tensor){.rank = 0};
}

static uint64_t header_of(const struct tensor_call *call, char out[SAFETENSORS_HEADER_MAX])
{
    const struct tensor *tensor = sent_part(call);
    if (call->format == FORMAT_NPY)
        return npy_header(tensor, out);
    if (is_packed(call)) {
        const struct packed_file *file = resident_packed(call->resident);
        return safetensors_header(file->entries, file->count, out);
    }
    if (call->format == FORMAT_SAFETENSORS) {
        /* A name in a safetensors header cannot be as long as the name of a resident tensor. */
        const struct safetensors_entry entries[] = {{.name = "tensor", .tensor = *tensor},
                                                    {.name = "scale", .tensor = sent_scale(call)}};
        return safetensors_header(entries, entries[1].tensor.rank > 0 ? 2 : 1, out);
    }
    return 0;
}

static void add_tensor_headers(const struct tensor_call *call, struct headers *headers)
{
    const struct tensor *tensor = sent_part(call);
    const char *type;
    char shape[TENSOR_MAX_RANK * 21];
    if (is_packed(call)) {
        const struct packed_layout *layout = &resident_packed(call->resident)->layout;
        snprintf(shape, sizeof shape, "%" PRIu64 ",%" PRIu64, layout->k, layout->n);
        type = packed_type(layout);
    } else {
        tensor_shape_text(tensor, shape, sizeof shape);
        type = dtype_name(tensor->dtype);
    }
    headers_add(headers, "Gemmd-Shape", shape);
    headers_add(headers, "Gemmd-Dtype", type);
    if (resident_etag(call->resident) != NULL)
        headers_add(headers, "ETag", resident_etag(call->resident));
    headers_add(headers, "Vary", "Accept");
}

/* A tensor that an answer is sent from, and the reservation for the answer. */
struct sent_tensor {
    struct tensor_store *tensors;
    struct resident *resident;
    struct reservation reservation;
};

static void sent_tensor_end(void *context)
{
    struct sent_tensor *sent = context;
    tensor_store_release(sent->tensors, sent->resident);
    admission_give(&sent->reservation);
    free(sent);
}

/* The copy of what is sent, without scales, to `host`. */
static struct work_copy copy_of_sent(const struct tensor_call *call, void *host)
{
    return is_whole(call)
               ? resident_copy_out(call->resident, host)
               : resident_copy_rows_out(call->resident, call->first_row, call->rows.dims[0], host);
}

/* Sends the tensor from where it lies, and releases it when it was sent. */
static void send_in_place(struct tensor_call *call, const struct headers *headers)
{
    struct sent_tensor *sent = malloc(sizeof *sent);
    if (sent == NULL) {
        respond_out_of_memory(call->request);
        return;
    }
    admission_keep(&call->reservation, call->block_bytes);
    *sent = (struct sent_tensor){
        .tensors = services_of(call->request)->tensors,
        .resident = call->resident,
        .reservation = admission_move(&call->reservation),
    };
    const struct payload payload = {
        .parts = {{copy_of_sent(call, NULL).from, (size_t)call->block_bytes}},
        .count = 1,
        .sent = sent_tensor_end,
        .context = sent,
        .as_it_is = true};
    call->resident = NULL;
    respond(call->request, 200, headers, &payload);
}

/* Whether the answer can be sent from the tensor's memory: the device computes in memory of the
 * host, and the rows follow one another without gaps. */
static bool lies_as_it_is_sent(const struct tensor_call *call)
{
    const struct executors *executors = &services_of(call->request)->executors;
    const struct device *device = executors->list[resident_device(call->resident)].device;
    const struct work_copy copy = copy_of_sent(call, NULL);
    return call->format == FORMAT_RAW && device_info(device)->backend == GEMM_BACKEND_CPU &&
           copy.from_pitch == copy.to_pitch;
}

/* Answers when the tensor's entity tag is known. */
static void tensor_get_respond(struct tensor_call *call)
{
    struct request *request = call->request;
    const enum tensor_condition_result result =
        tensor_condition_evaluate(&call->condition, true, resident_etag(call->resident));
    struct headers headers;
    if (result == TENSOR_CONDITION_OTHER) {
        (void)tensor_condition_require(&call->condition, true, resident_etag(call->resident),
                                       &request->fault);
        respond_fault(request, &request->fault);
        return;
    }
    headers_clear(&headers);
    add_tensor_headers(call, &headers);
    if (result == TENSOR_CONDITION_SAME) {
        respond_empty(request, 304, &headers, call->block_bytes);
        return;
    }
    headers_add(&headers, "Content-Type", format_media_type(call->format));
    if (is_head(request))
        respond_empty(request, 200, &headers, call->block_bytes);
    else if (call->block == NULL)
        send_in_place(call, &headers);
    else
        tensor_call_send_block(call, &headers);
}

/* Gives the bytes of an answer that is sent while the rest of it is copied. */
static ssize_t tensor_get_read(struct request *request, uint64_t position, char *out, size_t room)
{
    struct tensor_call *call = request->call;
    if (position >= call->copied_bytes) {
        const enum request_rest rest = request_await_rest(request);
        if (rest == REQUEST_REST_AWAITED)
            return 0;
        if (rest == REQUEST_REST_DONE && call->work.status != GEMMD_OK)
            request->fault = call->work.fault;
        if (rest != REQUEST_REST_DONE || call->work.status != GEMMD_OK)
            return -1;
        call->copied_bytes = call->block_bytes;
    }
    const uint64_t left = call->copied_bytes - position;
    const size_t given = left < room ? (size_t)left : room;
    memcpy(out, call->block + position, given);
    return (ssize_t)given;
}

/* Begins the answer when the first part has been copied. The condition of the request holds. */
static void send_meanwhile(struct tensor_call *call)
{
    struct headers headers;
    headers_clear(&headers);
    add_tensor_headers(call, &headers);
    headers_add(&headers, "Content-Type", format_media_type(call->format));
    admission_keep(&call->reservation, call->block_bytes);
    if (respond_pieces(call->request, &headers, call->block_bytes, tensor_get_read))
        tensor_call_copy_rest(call, call->rest, call->rest_count, resident_device(call->resident));
}

/* Cuts a copy in two: `copy` becomes its first part, and `rest` the other parts. */
static void cut_copy(struct work_copy *copy, struct work_copy *rest)
{
    if (copy->from_pitch == copy->row_bytes && copy->to_pitch == copy->row_bytes) {
        copy->row_bytes *= copy->rows; /* no overflow: the rows are in memory */
        copy->from_pitch = copy->to_pitch = copy->row_bytes;
        copy->rows = 1;
    }
    uint64_t from_offset, to_offset;
    *rest = *copy;
    if (copy->rows == 1) {
        copy->row_bytes /= FIRST_PART;
        rest->row_bytes -= copy->row_bytes;
        from_offset = to_offset = copy->row_bytes;
    } else {
        copy->rows = (copy->rows + FIRST_PART - 1) / FIRST_PART;
        rest->rows -= copy->rows;
        from_offset = copy->rows * copy->from_pitch;
        to_offset = copy->rows * copy->to_pitch;
    }
    rest->from = (const unsigned char *)copy->from + from_offset;
    rest->to = (unsigned char *)copy->to + to_offset;
}

/* Cuts the copies of a large tensor, if the answer can be sent while the rest is copied. The first
 * part stays in `copies`, and call->rest has the others. Returns the number of copies that are left
 * in `copies`. A tensor without an entity tag has to be hashed before the answer begins, and so has
 * an answer with a digest. Packed weights have to be restored. */
static uint32_t cut_copies(struct tensor_call *call, struct work_copy copies[RESIDENT_COPIES],
                           uint32_t count)
{
    if (is_packed(call) || call->block_bytes < TENSOR_MEANWHILE_BYTES ||
        (is_whole(call) && resident_etag(call->resident) == NULL) ||
        (call->request->digests != NULL && digests_are_wanted(call->request->digests)))
        return count;
    cut_copy(&copies[0], &call->rest[0]);
    for (uint32_t i = 1; i < count; i++)
        call->rest[i] = copies[i];
    call->rest_count = count;
    call->copied_bytes = call->header_bytes + copies[0].rows * copies[0].row_bytes;
    call->sends_meanwhile = true;
    return 1;
}

/* Whether the answer can be sent without the tensor's bytes: the tag is known, or not needed, and
 * the answer has no body. */
static bool needs_no_bytes(const struct tensor_call *call)
{
    const char *etag = resident_etag(call->resident);
    return (etag != NULL || !is_whole(call)) &&
           (is_head(call->request) ||
            tensor_condition_evaluate(&call->condition, true, etag) != TENSOR_CONDITION_HOLDS);
}

static enum gemmd_error tensor_get_measure(struct tensor_call *call)
{
    struct request *request = call->request;
    const uint64_t limit = request->config->max_result_bytes;
    /* No overflow: the tensor and its scales are in memory. */
    const struct tensor scale = sent_scale(call);
    const uint64_t bytes = is_packed(call) ? packed_data_bytes(resident_packed(call->resident))
                                           : sent_part(call)->bytes + scale.bytes;
    char header[SAFETENSORS_HEADER_MAX];
    call->header_bytes = header_of(call, header);
    if (bytes > limit || !size_add(bytes, call->header_bytes, &call->block_bytes))
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the %s %s; --max-result is %s", is_whole(call) ? "tensor is" : "rows are",
                         size_text(bytes).text, size_text(limit).text);
    return GEMMD_OK;
}

static enum gemmd_error tensor_get_take_block(struct tensor_call *call)
{
    struct request *request = call->request;
    char header[SAFETENSORS_HEADER_MAX];
    call->block = pool_alloc(services_memory(request), call->block_bytes, &request->fault);
    if (call->block == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    const uint64_t header_bytes = header_of(call, header);
    memcpy(call->block, header, header_bytes);
    return GEMMD_OK;
}

/* Takes the memory that packed weights are copied to before they are restored. */
static enum gemmd_error tensor_get_take_scratch(struct tensor_call *call)
{
    call->packed = *resident_packed(call->resident);
    call->scratch_bytes = call->packed.layout.bytes;
    call->scratch =
        pool_alloc(services_memory(call->request), call->scratch_bytes, &call->request->fault);
    return call->scratch != NULL ? GEMMD_OK : GEMMD_ERR_OUT_OF_MEMORY;
}

/* Restores the next piece of the file of packed weights, and returns whether all of it is restored.
 */
static bool restore_piece(struct tensor_call *call)
{
    const struct packed_file *file = &call->packed;
    unsigned char *data = call->block + call->header_bytes;
    const uint64_t from = packed_stripes_bytes(file, call->stripes);
    while (call->stripes < packed_stripes(file)) {
        packed_restore_stripe(file, call->stripes++, call->scratch, data);
        if (packed_stripes_bytes(file, call->stripes) - from >= RESTORED_BYTES)
            return false;
    }
    packed_restore_others(file, call->scratch, data);
    return true;
}

/* Chooses the format of the answer. Only safetensors has a place for packed weights. */
static bool choose_format(struct tensor_call *call, const char *accept)
{
    const enum format own = is_packed(call) ? FORMAT_SAFETENSORS : FORMAT_RAW;
    return accept_format(accept, own, &call->format) &&
           (!is_packed(call) || call->format == FORMAT_SAFETENSORS);
}

/* The rows that a request asks for. */
struct asked_rows {
    struct fault *fault;
    uint64_t first, count;
    bool has_first, has_count;
};

static bool take_rows(void *context, const char *name, const char *value)
{
    struct asked_rows *asked = context;
    const bool is_first = strcmp(name, "row") == 0, is_count = strcmp(name, "rows") == 0;
    if ((!is_first && !is_count) || (is_first && asked->has_first) ||
        (is_count && asked->has_count)) {
        fault_set(asked->fault, GEMMD_ERR_MALFORMED, name,
                  "'%.32s' is not a parameter of GET /tensors/{name}, or given twice; the "
                  "parameters are row and rows",
                  name);
        return false;
    }
    asked->has_first |= is_first;
    asked->has_count |= is_count;
    if (number_u64(value, is_first ? &asked->first : &asked->count) &&
        (is_first || asked->count > 0))
        return true;
    fault_set(asked->fault, GEMMD_ERR_MALFORMED, name,
              "%s is '%.64s'; it must be a whole number of %d or more", name, value,
              is_first ? 0 : 1);
    return false;
}

/* Sets the rows that are sent, if the request asks for some of them. */
static enum gemmd_error choose_rows(struct tensor_call *call, const struct asked_rows *asked)
{
    const struct tensor *tensor = resident_tensor(call->resident);
    uint64_t dims[TENSOR_MAX_RANK];
    if (!asked->has_first && !asked->has_count)
        return GEMMD_OK;
    if (is_packed(call))
        return fault_set(asked->fault, GEMMD_ERR_UNSUPPORTED, asked->has_first ? "row" : "rows",
                         "packed weights are fetched as a whole, without row and rows");
    const uint64_t all = tensor->dims[0];
    if (asked->first >= all)
        return fault_set(asked->fault, GEMMD_ERR_MALFORMED, "row",
                         "row is %" PRIu64 ", and the tensor has %" PRIu64
                         " rows, which are numbered from 0",
                         asked->first, all);
    if (asked->has_count && asked->count > all - asked->first)
        return fault_set(asked->fault, GEMMD_ERR_MALFORMED, "rows",
                         "the tensor has %" PRIu64 " rows; the request asks for %" PRIu64
                         " from row %" PRIu64 " on",
                         all, asked->count, asked->first);
    memcpy(dims, tensor->dims, tensor->rank * sizeof dims[0]);
    dims[0] = asked->has_count ? asked->count : all - asked->first;
    call->first_row = asked->first;
    /* No overflow: the whole tensor is in memory. */
    (void)tensor_init(&call->rows, tensor->dtype, dims, tensor->rank, NULL);
    return GEMMD_OK;
}

static bool open_get(struct request *request)
{
    struct tensor_call *call = tensor_call_open(request);
    struct asked_rows asked = {.fault = &request->fault};
    char accept[REQUEST_LIST_MAX];
    if (call == NULL || request_parameters(request, take_rows, &asked) != GEMMD_OK ||
        tensor_store_acquire(services_of(request)->tensors, request->rest, request->tenant,
                             &call->resident, &request->fault) != GEMMD_OK ||
        choose_rows(call, &asked) != GEMMD_OK)
        return false;
    if (!choose_format(call, request_header_list(request, "Accept", accept))) {
        fault_set(&request->fault, GEMMD_ERR_NOT_ACCEPTABLE, NULL,
                  is_packed(call)
                      ? "Accept can name application/vnd.safetensors for packed weights"
                      : "Accept can name application/octet-stream, application/vnd.safetensors or "
                        "application/x-npy");
        return false;
    }
    return tensor_get_measure(call) == GEMMD_OK;
}

void tensor_get_begin(struct request *request)
{
    if (!open_get(request)) {
        request_refuse(request);
        return;
    }
    struct tensor_call *call = request->call;
    if (needs_no_bytes(call)) {
        tensor_get_respond(call);
        return;
    }
    const bool has_tag = resident_etag(call->resident) != NULL || !is_whole(call);
    const bool in_place = has_tag && lies_as_it_is_sent(call);
    enum gemmd_error code = services_check(request);
    if (code == GEMMD_OK)
        code = tensor_call_admit(call, call->block_bytes);
    if (code == GEMMD_OK && !in_place)
        code = tensor_get_take_block(call);
    if (code == GEMMD_OK && is_packed(call))
        code = tensor_get_take_scratch(call);
    if (code != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    if (in_place) {
        tensor_get_respond(call);
        return;
    }
    unsigned char *tensor = is_packed(call) ? call->scratch : call->block + call->header_bytes;
    struct work_copy copies[RESIDENT_COPIES];
    uint32_t count = 1;
    if (is_whole(call))
        count = resident_copies_out(
            call->resident, tensor,
            sent_scale(call).rank > 0 ? tensor + resident_tensor(call->resident)->bytes : NULL,
            copies);
    else
        copies[0] = copy_of_sent(call, tensor);
    count = cut_copies(call, copies, count);
    tensor_call_copy(call, copies, count, resident_device(call->resident));
}

void tensor_get_answer(struct request *request)
{
    struct tensor_call *call = request->call;
    const struct tensor *tensor = resident_tensor(call->resident);
    if (call->work.status != GEMMD_OK) {
        respond_fault(request, &call->work.fault);
        return;
    }
    if (call->sends_meanwhile) {
        send_meanwhile(call);
        return;
    }
    if (is_packed(call) && !restore_piece(call))
        return; /* the next iterations of the loop restore the rest */
    if (resident_etag(call->resident) == NULL && is_whole(call)) {
        char etag[TENSOR_ETAG_SIZE];
        if (call->hashed == NULL)
            tensor_call_hash_from(call, tensor, call->block + call->header_bytes);
        if (call->hashed_bytes < tensor->bytes) {
            tensor_call_hash_to(call, tensor->bytes, true);
            return; /* the next iterations of the loop hash the rest */
        }
        tensor_hash_end(&call->hash, etag);
        tensor_store_set_etag(services_of(request)->tensors, call->resident, etag);
    }
    tensor_get_respond(call);
}
