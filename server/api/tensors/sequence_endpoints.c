/*
 * The endpoints /sequences, the list of sequences, and /sequences/{name} with what is below it.
 *
 * Keys and values that are appended, and those that are read back, go through pinned memory and the
 * queue of the sequence's device, as the bytes of tensors do. The memory for what is appended is
 * taken when the body is complete, and the positions become part of the sequence when the device
 * has them, so that a request that ends in between appends nothing.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/parameter.h"
#include "proto/safetensors.h"
#include "proto/sequence_request.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/counted_text.h"
#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/api/tensors/tensor_call.h"
#include "server/http/negotiation.h"
#include "server/http/respond.h"
#include "server/tensors/sequence.h"
#include "server/tensors/tensor_describe.h"

/* The state of a request for a sequence. */
struct sequence_call {
    struct tensor_call tensor; /* the sequence is its `resident` */
    union {
        struct sequence_put_request put;
        struct sequence_rows_request rows;
        struct sequence_truncate_request truncate;
    };
    struct sequence_use use;
    struct tensor k, v; /* of an append */
    bool repeats;       /* the positions of an append were there already */
};

static struct sequence_call *call_of(const struct request *request)
{
    return request->call;
}

static struct tensor_store *store_of(const struct request *request)
{
    return services_of(request)->tensors;
}

/* ---- what all requests for one sequence have ---- */

/* Checks the name and the conditions. */
static enum gemmd_error sequence_open(struct request *request)
{
    struct tensor_call *call = request->call;
    if (!tensor_name_valid(request->name))
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, "name",
                         "a sequence's name is 1 to 128 of the characters A-Z a-z 0-9 . _ -");
    call->request = request;
    call->condition = (struct tensor_condition){request_header(request, "If-Match"),
                                                request_header(request, "If-None-Match")};
    return tensor_condition_check(&call->condition, &request->fault);
}

/* The argument of sequence_take_parameter. */
struct sequence_parameters {
    const struct parameter_table *table;
    void *target;
    struct fault *fault;
};

static bool sequence_take_parameter(void *context, const char *name, const char *value)
{
    const struct sequence_parameters *to = context;
    return parameter_set(to->table, to->target, name, value, to->fault) == GEMMD_OK;
}

static enum gemmd_error read_query(struct request *request, const struct parameter_table *table,
                                   void *target)
{
    struct sequence_parameters to = {table, target, &request->fault};
    return request_parameters(request, sequence_take_parameter, &to);
}

static enum gemmd_error refuse_body(struct request *request)
{
    if (!request_has_body(request))
        return GEMMD_OK;
    return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL, "this %s takes no body",
                     request->method);
}

static enum gemmd_error acquire(struct request *request)
{
    return sequence_acquire(store_of(request), request->name, request->tenant,
                            &call_of(request)->tensor.resident, &request->fault);
}

/* Answers with the description of the sequence. */
static void respond_sequence(struct request *request, int status)
{
    struct tensor_call *call = request->call;
    char *text = sequence_describe(store_of(request), call->resident);
    struct sequence_state state;
    sequence_state_of(store_of(request), call->resident, &state);
    tensor_call_describe(call, status, text, state.etag, "sequences");
}

/* Evaluates the conditions of a request that reads. Returns false if it was answered. */
static bool condition_holds(struct request *request)
{
    const struct tensor_call *call = request->call;
    struct sequence_state state;
    struct headers headers;
    sequence_state_of(store_of(request), call->resident, &state);
    switch (tensor_condition_evaluate(&call->condition, true, state.etag)) {
    case TENSOR_CONDITION_HOLDS:
        return true;
    case TENSOR_CONDITION_OTHER:
        fault_set(&request->fault, GEMMD_ERR_PRECONDITION, "If-Match",
                  "If-Match does not name the sequence's entity tag");
        request_refuse(request);
        return false;
    case TENSOR_CONDITION_SAME:
        break;
    }
    headers_clear(&headers);
    headers_add(&headers, "ETag", state.etag);
    respond_empty(request, 304, &headers, 0);
    return false;
}

/* Refuses the request unless `code` is GEMMD_OK. */
static bool goes_on(struct request *request, enum gemmd_error code)
{
    if (code != GEMMD_OK)
        request_refuse(request);
    return code == GEMMD_OK;
}

/* ---- /sequences ---- */

struct sequence_page_request {
    uint64_t limit;
    char after[GEMM_TENSOR_NAME_MAX + 1];
    uint32_t given;
};

static bool read_limit(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number < 1 || number > TENSOR_STORE_PAGE_MAX)
        return false;
    *(uint64_t *)out = number;
    return true;
}

static const struct parameter_values limit_values = {.read = read_limit,
                                                     .allowed = "a whole number from 1 to 1000"};
static const struct parameter page_parameters[] = {
    PARAMETER(sequence_page_request, limit, limit_values),
    PARAMETER(sequence_page_request, after, parameter_tensor),
};
static const struct parameter_table page_table = {"/sequences", page_parameters, 2,
                                                  offsetof(struct sequence_page_request, given)};

static void sequence_list_begin(struct request *request)
{
    struct sequence_page_request wanted = {.limit = TENSOR_STORE_PAGE_MAX};
    struct resident *page[TENSOR_STORE_PAGE_MAX];
    bool more;
    if (!goes_on(request, read_query(request, &page_table, &wanted)))
        return;
    const uint32_t count = sequence_page_of_names(store_of(request), request->tenant, wanted.after,
                                                  page, (uint32_t)wanted.limit, &more);
    char *text = sequence_describe_page(store_of(request), page, count, more);
    for (uint32_t i = 0; i < count; i++)
        tensor_store_release(store_of(request), page[i]);
    respond_counted_text(request, NULL, text);
}

/* ---- PUT, GET and DELETE of /sequences/{name} ---- */

static enum gemmd_error put(struct request *request, bool *replaced)
{
    struct sequence_call *call = call_of(request);
    struct sequence_put_request *wanted = &call->put;
    struct sequence_offer offer = {.name = request->name, .tenant = request->tenant};
    sequence_put_init(wanted);
    enum gemmd_error code = read_query(request, &sequence_put_table, wanted);
    if (code == GEMMD_OK)
        code = sequence_put_check(wanted, &request->fault);
    if (code == GEMMD_OK)
        code = services_check(request);
    if (code == GEMMD_OK && wanted->fork[0] != '\0') {
        code = sequence_acquire(store_of(request), wanted->fork, request->tenant, &offer.origin,
                                &request->fault);
        if (code != GEMMD_OK)
            snprintf(request->fault.field, sizeof request->fault.field, "fork");
    }
    if (code != GEMMD_OK)
        return code;
    offer.has_length = sequence_put_given(wanted, "length");
    offer.length = wanted->length;
    offer.shape = (struct sequence_shape){.dtype = wanted->dtype,
                                          .kv_heads = wanted->kv_heads,
                                          .d = wanted->d,
                                          .dv = wanted->dv,
                                          .layers = (uint32_t)wanted->layers};
    code = sequence_create(store_of(request), &offer, &call->tensor.condition,
                           &call->tensor.resident, replaced, &request->fault);
    tensor_store_release(store_of(request), offer.origin);
    return code;
}

static void sequence_begin(struct request *request)
{
    struct sequence_call *call = call_of(request);
    enum gemmd_error code = sequence_open(request);
    bool replaced;
    if (code == GEMMD_OK)
        code = refuse_body(request);
    if (!goes_on(request, code))
        return;
    if (strcmp(request->method, "PUT") == 0) {
        if (goes_on(request, put(request, &replaced)))
            respond_sequence(request, replaced ? 200 : 201);
    } else if (strcmp(request->method, "DELETE") == 0) {
        if (goes_on(request, sequence_remove(store_of(request), request->name, request->tenant,
                                             &call->tensor.condition, &request->fault)))
            respond_empty(request, 204, NULL, 0);
    } else if (goes_on(request, acquire(request)) && condition_holds(request)) {
        respond_sequence(request, 200);
    }
}

/* ---- POST /sequences/{name}/truncate ---- */

static void truncate_begin(struct request *request)
{
    struct sequence_call *call = call_of(request);
    enum gemmd_error code = sequence_open(request);
    if (code == GEMMD_OK)
        code = refuse_body(request);
    if (code == GEMMD_OK)
        code = read_query(request, &sequence_truncate_table, &call->truncate);
    if (code == GEMMD_OK && !sequence_truncate_given(&call->truncate, "length"))
        code = fault_set(&request->fault, GEMMD_ERR_MALFORMED, "length",
                         "length is missing: the positions that the sequence keeps");
    if (code == GEMMD_OK)
        code = acquire(request);
    if (code == GEMMD_OK)
        code = sequence_truncate(store_of(request), call->tensor.resident, call->truncate.length,
                                 &call->tensor.condition, &request->fault);
    if (goes_on(request, code))
        respond_sequence(request, 200);
}

/* ---- POST /sequences/{name}/append ---- */

static void set_shape(struct sequence_rows_request *rows, const struct resident *resident)
{
    const struct sequence_shape *shape = sequence_shape_of(resident);
    rows->dtype = shape->dtype;
    rows->kv_heads = shape->kv_heads;
    rows->d = shape->d;
    rows->dv = shape->dv;
}

static enum gemmd_error read_append(struct request *request)
{
    struct sequence_call *call = call_of(request);
    struct fault *fault = &request->fault;
    const char *type = request_header(request, "Content-Type");
    call->tensor.format = FORMAT_RAW;
    if (type != NULL && !format_from_media_type(type, &call->tensor.format))
        return fault_set(fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "Content-Type can be application/octet-stream, "
                         "application/vnd.safetensors or application/x-npy");
    enum gemmd_error code = read_query(request, &sequence_append_table, &call->rows);
    if (code == GEMMD_OK && !sequence_append_given(&call->rows, "position"))
        code = fault_set(fault, GEMMD_ERR_MALFORMED, "position",
                         "position is missing: the number of positions that precede those of the "
                         "body");
    if (code == GEMMD_OK)
        code = acquire(request);
    if (code == GEMMD_OK)
        code = sequence_check(store_of(request), call->tensor.resident, &call->tensor.condition,
                              fault);
    if (code == GEMMD_OK)
        set_shape(&call->rows, call->tensor.resident);
    return code;
}

/* Takes the memory of the body. */
static enum gemmd_error admit_append(struct tensor_call *call)
{
    const struct request *request = call->request;
    const uint64_t limit = request->config->max_body_bytes;
    call->length_known = request->sized;
    call->total_bytes = request->body_bytes;
    if (call->total_bytes > limit)
        return fault_set(&call->request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body would be %s; --max-body is %s",
                         size_text(call->total_bytes).text, size_text(limit).text);
    call->block_bytes = call->total_bytes;
    if (!call->length_known)
        call->block_bytes = TENSOR_FIRST_BYTES < limit ? TENSOR_FIRST_BYTES : limit;
    const enum gemmd_error code = tensor_call_admit(call, call->block_bytes);
    return code == GEMMD_OK && call->block_bytes > 0 ? tensor_call_take_block(call) : code;
}

static void append_begin(struct request *request)
{
    enum gemmd_error code = sequence_open(request);
    if (code == GEMMD_OK)
        code = read_append(request);
    if (code == GEMMD_OK)
        code = services_check(request);
    if (code == GEMMD_OK)
        code = admit_append(request->call);
    if (goes_on(request, code))
        request_receive(request, 0);
}

static bool append_chunk(struct request *request, const void *bytes, uint64_t length)
{
    return tensor_call_receive(request->call, bytes, length) == GEMMD_OK;
}

/* Takes memory for row-major copies of column-major arrays, and for the positions that are read
 * back to be compared. */
static enum gemmd_error prepare_arrays(struct sequence_call *call, unsigned char **read_back)
{
    struct tensor_call *tensor = &call->tensor;
    struct request *request = tensor->request;
    struct tensor *const arrays[] = {&call->k, &call->v};
    const uint64_t both = call->k.bytes + call->v.bytes; /* they are in memory */
    const bool transposes = call->k.fortran || call->v.fortran;
    tensor->scratch_bytes = (transposes ? both : 0) + (call->repeats ? both : 0);
    if (tensor->scratch_bytes == 0)
        return GEMMD_OK;
    tensor->scratch = pool_alloc(services_memory(request), tensor->scratch_bytes, &request->fault);
    if (tensor->scratch == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    *read_back = tensor->scratch;
    for (uint32_t i = 0; transposes && i < 2; i++) {
        if (arrays[i]->fortran)
            tensor_copy_row_major(arrays[i], *read_back);
        else
            memcpy(*read_back, arrays[i]->data, arrays[i]->bytes);
        arrays[i]->fortran = false;
        arrays[i]->data = *read_back;
        *read_back += arrays[i]->bytes;
    }
    return GEMMD_OK;
}

/* Begins the use of the sequence. */
static enum gemmd_error begin_use(struct sequence_call *call, bool appends)
{
    const struct sequence_want want = {
        .appends = appends,
        /* A layer that a sequence cannot have is refused there. */
        .layer = call->rows.layer < UINT32_MAX ? (uint32_t)call->rows.layer : UINT32_MAX,
        .position = call->rows.position,
        .count = call->rows.count};
    struct request *request = call->tensor.request;
    return sequence_use_begin(store_of(request), call->tensor.resident, &want, &call->use,
                              &request->fault);
}

/* Gives the sequence's device the copies between the arrays and the sequence. */
static enum gemmd_error submit_copies(struct sequence_call *call,
                                      const struct sequence_arrays *arrays)
{
    struct tensor_call *tensor = &call->tensor;
    if (!sequence_use_copies(tensor->resident, &call->use, arrays, &tensor->sequence_copies,
                             &tensor->sequence_copy_count))
        return fault_set(&tensor->request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory for the list of copies");
    tensor_call_copy(tensor, NULL, 0, resident_device(tensor->resident));
    return GEMMD_OK;
}

static void append_submit(struct request *request)
{
    struct sequence_call *call = call_of(request);
    struct tensor_call *tensor = &call->tensor;
    unsigned char *read_back = NULL;
    enum gemmd_error code =
        sequence_rows_bind(&call->rows, tensor->format, tensor->block, tensor->received_bytes,
                           &call->k, &call->v, &request->fault);
    if (code == GEMMD_OK)
        code = begin_use(call, true);
    call->repeats = code == GEMMD_OK && call->use.kind == SEQUENCE_REPEAT;
    if (code == GEMMD_OK)
        code = prepare_arrays(call, &read_back);
    if (code == GEMMD_OK) {
        const struct sequence_arrays arrays = {
            call->repeats ? read_back : (void *)(uintptr_t)call->k.data,
            call->repeats ? read_back + call->k.bytes : (void *)(uintptr_t)call->v.data,
            call->rows.layout == ATTENTION_BHSD};
        code = submit_copies(call, &arrays);
    }
    if (code != GEMMD_OK)
        respond_fault(request, &request->fault);
}

static void append_answer(struct request *request)
{
    struct sequence_call *call = call_of(request);
    const struct tensor_call *tensor = &call->tensor;
    if (tensor_call_copied(&call->tensor) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    if (!call->repeats) {
        sequence_use_commit(store_of(request), tensor->resident, &call->use);
    } else {
        const unsigned char *there =
            tensor->scratch + tensor->scratch_bytes - call->k.bytes - call->v.bytes;
        if (memcmp(there, call->k.data, call->k.bytes) != 0 ||
            memcmp(there + call->k.bytes, call->v.data, call->v.bytes) != 0) {
            sequence_fail_repeat(&call->use, &request->fault);
            respond_fault(request, &request->fault);
            return;
        }
    }
    respond_sequence(request, 200);
}

/* ---- GET /sequences/{name}/kv ---- */

/* Completes the request: by default, all positions are read. */
static enum gemmd_error choose_rows(struct sequence_call *call)
{
    struct sequence_rows_request *rows = &call->rows;
    struct request *request = call->tensor.request;
    struct sequence_state state;
    set_shape(rows, call->tensor.resident);
    sequence_state_of(store_of(request), call->tensor.resident, &state);
    const uint64_t length = rows->layer < SEQUENCE_LAYERS_MAX ? state.lengths[rows->layer] : 0;
    if (!sequence_kv_given(rows, "count"))
        rows->count = length > rows->position ? length - rows->position : 1;
    return begin_use(call, false);
}

/* Computes the length of the answer, takes its memory, and writes the header of its format. */
static enum gemmd_error make_block(struct sequence_call *call)
{
    struct tensor_call *tensor = &call->tensor;
    struct request *request = tensor->request;
    const uint64_t limit = request->config->max_result_bytes;
    struct safetensors_entry entries[] = {{.name = "k"}, {.name = "v"}};
    char header[SAFETENSORS_HEADER_MAX];
    uint64_t bytes;
    if (!sequence_rows_shapes(&call->rows, &call->k, &call->v) ||
        !size_add(call->k.bytes, call->v.bytes, &bytes) || bytes > limit)
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the keys and values are larger than --max-result, which is %s",
                         size_text(limit).text);
    entries[0].tensor = call->k;
    entries[1].tensor = call->v;
    tensor->header_bytes =
        tensor->format == FORMAT_SAFETENSORS ? safetensors_header(entries, 2, header) : 0;
    tensor->block_bytes = tensor->header_bytes + bytes;
    enum gemmd_error code = tensor_call_admit(tensor, tensor->block_bytes);
    if (code == GEMMD_OK)
        code = tensor_call_take_block(tensor);
    if (code == GEMMD_OK)
        memcpy(tensor->block, header, tensor->header_bytes);
    return code;
}

static enum gemmd_error choose_format(struct request *request)
{
    struct tensor_call *call = request->call;
    char accept[REQUEST_LIST_MAX];
    if (accept_format(request_header_list(request, "Accept", accept), FORMAT_RAW, &call->format) &&
        call->format != FORMAT_NPY)
        return GEMMD_OK;
    return fault_set(&request->fault, GEMMD_ERR_NOT_ACCEPTABLE, NULL,
                     "Accept can name application/octet-stream or application/vnd.safetensors");
}

static void kv_begin(struct request *request)
{
    struct sequence_call *call = call_of(request);
    enum gemmd_error code = sequence_open(request);
    if (code == GEMMD_OK)
        code = refuse_body(request);
    if (code == GEMMD_OK)
        code = read_query(request, &sequence_kv_table, &call->rows);
    if (code == GEMMD_OK)
        code = acquire(request);
    if (code == GEMMD_OK)
        code = choose_format(request);
    if (!goes_on(request, code) || !condition_holds(request))
        return;
    code = choose_rows(call);
    if (code == GEMMD_OK)
        code = services_check(request);
    if (code == GEMMD_OK)
        code = make_block(call);
    if (code == GEMMD_OK) {
        unsigned char *k = call->tensor.block + call->tensor.header_bytes;
        const struct sequence_arrays arrays = {k, k + call->k.bytes,
                                               call->rows.layout == ATTENTION_BHSD};
        code = submit_copies(call, &arrays);
    }
    (void)goes_on(request, code);
}

static void kv_answer(struct request *request)
{
    struct sequence_call *call = call_of(request);
    const struct sequence_shape *shape = sequence_shape_of(call->tensor.resident);
    struct headers headers;
    if (call->tensor.work.status != GEMMD_OK) {
        respond_fault(request, &call->tensor.work.fault);
        return;
    }
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", format_media_type(call->tensor.format));
    headers_add(&headers, "Gemmd-Dtype", dtype_name(shape->dtype));
    headers_add(&headers, "Vary", "Accept");
    if (strcmp(request->method, "HEAD") == 0)
        respond_empty(request, 200, &headers, call->tensor.block_bytes);
    else
        tensor_call_send_block(&call->tensor, &headers);
}

/* ---- the table ---- */

static bool sequence_withdraw(struct request *request)
{
    return tensor_call_withdraw(request->call);
}

static void sequence_release(struct request *request)
{
    struct sequence_call *call = call_of(request);
    if (call->tensor.resident != NULL)
        sequence_use_end(store_of(request), call->tensor.resident, &call->use);
    tensor_call_close(&call->tensor);
}

static uint32_t sequence_retry_after_s(const struct request *request, enum gemmd_error code)
{
    const struct tensor_call *call = request->call;
    return services_retry_after_s(request, code, call->queue_bytes);
}

#define SEQUENCE(at, methods, function)                                                            \
    .path = at, .allow = methods, .op = METRICS_OP_TENSOR, .scope = SCOPE_TENSORS,                 \
    .call_bytes = sizeof(struct sequence_call), .call_zeroed_bytes = sizeof(struct sequence_call), \
    .begin = function, .release = sequence_release, .retry_after_s = sequence_retry_after_s,       \
    .copied = tensor_call_times

const struct endpoint sequence_endpoints[] = {
    {.path = "/sequences",
     .allow = "GET, HEAD",
     .op = METRICS_OP_TENSOR,
     .scope = SCOPE_TENSORS,
     .begin = sequence_list_begin},
    {SEQUENCE("/sequences/{name}", "GET, HEAD, PUT, DELETE", sequence_begin)},
    {SEQUENCE("/sequences/{name}/truncate", "POST", truncate_begin)},
    {SEQUENCE("/sequences/{name}/append", "POST", append_begin), .chunk = append_chunk,
     .submit = append_submit, .withdraw = sequence_withdraw, .answer = append_answer},
    {SEQUENCE("/sequences/{name}/kv", "GET, HEAD", kv_begin), .withdraw = sequence_withdraw,
     .answer = kv_answer},
    {0},
};
