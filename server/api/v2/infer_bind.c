/* Reads the body of an inference and makes a call that is ready for the queue. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/nearest.h"
#include "proto/oip_data.h"
#include "proto/oip_datatype.h"
#include "proto/parameter.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"

enum { ALIGNMENT = 64 }; /* of inputs that were sent as JSON */

/* ---- options ---- */

static bool is_option(const struct infer_operation *operation, const char *name)
{
    for (const char *const *option = operation->options; *option != NULL; option++)
        if (strcmp(*option, name) == 0)
            return true;
    return false;
}

static enum gemmd_error no_such_option(const struct infer_operation *operation, const char *name,
                                       struct fault *fault)
{
    char hint[PARAMETER_HINT_BYTES], options[sizeof fault->detail];
    size_t length = 0;
    struct nearest search;
    nearest_start(&search, name, strlen(name));
    for (const char *const *option = operation->options; *option != NULL; option++) {
        nearest_offer(&search, *option);
        if (length < sizeof options)
            length += (size_t)snprintf(options + length, sizeof options - length, "%s%s",
                                       length > 0 ? ", " : "", *option);
    }
    return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                     "there is no parameter '%s'; those of this model are %s%s", name, options,
                     parameter_hint(search.best, hint));
}

static enum gemmd_error take_options(struct request *request)
{
    const struct oip_request *asked = &infer_of(request)->asked;
    const struct infer_operation *operation = infer_of(request)->model.operation;
    for (uint32_t i = 0; i < asked->parameter_count; i++) {
        const struct oip_parameter *parameter = &asked->parameters[i];
        if (!is_option(operation, parameter->name))
            return no_such_option(operation, parameter->name, &request->fault);
        enum gemmd_error code =
            parameter_set(operation->operation->parameters, &infer_of(request)->compute.request,
                          parameter->name, parameter->value, &request->fault);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

/* Converts the priority of a request from that of the protocol, where 1 is the highest and 0 stands
 * for the default. */
static uint32_t priority_of(const struct request *request, uint64_t priority)
{
    if (priority == 0)
        return request_default_priority(request);
    return priority > GEMM_PRIORITY_MAX ? 0 : GEMM_PRIORITY_MAX + 1 - (uint32_t)priority;
}

static enum gemmd_error take_schedule(struct request *request)
{
    const struct oip_request *asked = &infer_of(request)->asked;
    const uint64_t max_us = config_longest_timeout_ms(request->config) * 1000u;
    if (asked->timeout_us > max_us)
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, "timeout",
                         "timeout can be at most %" PRIu64 " microseconds", max_us);
    if (asked->timeout_us != 0)
        infer_of(request)->compute.deadline_ns = request->started_ns + asked->timeout_us * 1000u;
    const uint32_t priority = priority_of(request, asked->priority);
    if (priority > request->max_priority)
        return fault_set(&request->fault, GEMMD_ERR_FORBIDDEN, "priority",
                         "priority is %" PRIu64 "; the highest that this token allows is %" PRIu32,
                         asked->priority, GEMM_PRIORITY_MAX + 1 - request->max_priority);
    infer_of(request)->compute.priority = priority;
    return GEMMD_OK;
}

/* ---- inputs ---- */

static enum gemmd_error find_input(const struct model *model, const struct oip_input *input,
                                   uint32_t *index, struct fault *fault)
{
    char names[64], hint[PARAMETER_HINT_BYTES];
    struct nearest search;
    for (*index = 0; *index < model->input_count; ++*index)
        if (strcmp(model->inputs[*index].name, input->name) == 0)
            return GEMMD_OK;
    model_tensor_names(model->inputs, model->input_count, names);
    nearest_start(&search, input->name, strlen(input->name));
    for (uint32_t i = 0; i < model->input_count; i++)
        nearest_offer(&search, model->inputs[i].name);
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "unexpected input '%s' for model '%.140s'; its inputs are %s%s", input->name,
                     model->name, names, parameter_hint(search.best, hint));
}

/* Sets a tensor from the type and shape of an input. The data is set too if the input is binary. */
static enum gemmd_error describe_input(const struct oip_input *input, enum gemmd_dtype dtype,
                                       struct tensor *tensor, struct fault *fault)
{
    if (!oip_datatype_names(input->datatype, dtype))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': its datatype is %s, the model expects %s", input->name,
                         input->datatype, oip_datatype(dtype));
    if (!tensor_init(tensor, dtype, input->dims, input->rank, input->data))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': the size of its shape does not fit in 64 bits", input->name);
    if (input->rank == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s' is a scalar, not a matrix or vector", input->name);
    if (input->binary && input->bytes != tensor->bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': its binary data is %" PRIu64 " bytes, expected %" PRIu64
                         " by its shape and datatype",
                         input->name, input->bytes, tensor->bytes);
    if (!input->binary && !oip_datatype_has_json(dtype))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': data of type %s can't be JSON; send it as binary data",
                         input->name, oip_datatype(dtype));
    return GEMMD_OK;
}

/* The operand of an input. */
struct placed_input {
    struct tensor *tensor;
    /* The input holds sequence lengths or scales and lies in shared memory. It is copied, because
     * the client could change the values after they were checked. */
    bool is_copied;
};

/* Checks the size of an input that is written to call->numbers. An input in JSON has at least two
 * characters for each element, so the limit on JSON also limits its size. */
static enum gemmd_error check_numbers(const struct request *request, const struct oip_input *input,
                                      const struct placed_input *placed, struct fault *fault)
{
    const struct tensor *tensor = placed->tensor;
    const uint64_t limit = request->config->max_body_bytes;
    if (placed->is_copied && tensor->bytes > limit)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "input '%s' would be %s; --max-body is %s", input->name,
                         size_text(tensor->bytes).text, size_text(limit).text);
    if (!placed->is_copied && tensor->bytes / dtype_size(tensor->dtype) > input->array.bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': its data has fewer elements than its shape", input->name);
    return GEMMD_OK;
}

/* Computes the size of call->numbers, which holds the inputs that are JSON and the copies of inputs
 * that must be copied. */
static enum gemmd_error measure_numbers(struct request *request,
                                        const struct placed_input placed[OIP_INPUTS_MAX],
                                        uint32_t count)
{
    struct infer_call *call = infer_of(request);
    struct fault *fault = &request->fault;
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct oip_input *input = &call->asked.inputs[i];
        if (input->binary && !placed[i].is_copied)
            continue;
        enum gemmd_error code = check_numbers(request, input, &placed[i], fault);
        if (code != GEMMD_OK)
            return code;
        if (!size_add(total, placed[i].tensor->bytes, &total) ||
            !size_align(total, ALIGNMENT, &total))
            return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the inputs' size overflows");
    }
    call->numbers_bytes = total;
    return GEMMD_OK;
}

/* Takes the memory of call->numbers, reads the inputs that are JSON into it, and copies the inputs
 * that must be copied. */
static enum gemmd_error read_numbers(struct request *request,
                                     const struct placed_input placed[OIP_INPUTS_MAX],
                                     uint32_t count)
{
    struct infer_call *call = infer_of(request);
    struct fault *fault = &request->fault;
    uint64_t at = 0;
    const enum gemmd_error measured = measure_numbers(request, placed, count);
    if (measured != GEMMD_OK || call->numbers_bytes == 0)
        return measured;
    call->numbers = pool_alloc(call->compute.memory, call->numbers_bytes, fault);
    if (call->numbers == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct oip_input *input = &call->asked.inputs[i];
        struct tensor *tensor = placed[i].tensor;
        unsigned char *out = call->numbers + at;
        enum gemmd_error code = GEMMD_OK;
        if (placed[i].is_copied)
            memcpy(out, tensor->data, tensor->bytes);
        else if (!input->binary)
            code = oip_data_read(&input->array, input->name, tensor, out, fault);
        else
            continue;
        if (code != GEMMD_OK)
            return code;
        tensor->data = out;
        /* No overflow: measure_numbers has checked the sum. */
        at = (at + tensor->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return GEMMD_OK;
}

/* Whether the operand of an input is a resident tensor, so that the input may be missing. */
static bool is_resident(const struct infer_call *call, uint32_t operand)
{
    const struct call_operation *operation = call->compute.operation;
    const struct call_residents *residents = &call->compute.residents;
    const char *name = operation->operands->operands[operand].name;
    for (uint32_t i = 0; i < 2; i++)
        if (operation->residents[i].name != NULL &&
            strcmp(operation->residents[i].name, name) == 0 &&
            (i == 0 ? residents->a : residents->b) != NULL)
            return true;
    return false;
}

/* Checks that the request has every input that is not optional, or a resident tensor in its place.
 */
static enum gemmd_error check_inputs_are_given(struct request *request,
                                               const union call_operands *operands)
{
    const struct infer_call *call = infer_of(request);
    const struct model *model = &call->model;
    for (uint32_t i = 0; i < model->input_count; i++) {
        const struct model_tensor *input = &model->inputs[i];
        if (!input->optional && !is_resident(call, input->number) &&
            operands->all[input->number].rank == 0)
            return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                             "expected the input '%s', which is missing", input->name);
    }
    return GEMMD_OK;
}

/* Finds the operand of each input of the request, and reads the inputs that are JSON. */
static enum gemmd_error take_inputs(struct request *request, union call_operands *operands)
{
    const struct infer_call *call = infer_of(request);
    const struct model *model = &call->model;
    const uint32_t count = call->asked.input_count;
    struct placed_input placed[OIP_INPUTS_MAX] = {{.tensor = NULL}};
    uint32_t index;
    for (uint32_t i = 0; i < count; i++) {
        const struct oip_input *input = &call->asked.inputs[i];
        enum gemmd_error code = find_input(model, input, &index, &request->fault);
        if (code != GEMMD_OK)
            return code;
        const struct model_tensor *expected = &model->inputs[index];
        struct tensor *tensor = &operands->all[expected->number];
        const bool in_region = input->region.name[0] != '\0';
        placed[i] = (struct placed_input){tensor, in_region && expected->is_checked};
        code = describe_input(input, infer_dtype(request, expected), tensor, &request->fault);
        if (code == GEMMD_OK && in_region)
            code = infer_find_input(request, input, expected, tensor);
        if (code != GEMMD_OK)
            return code;
    }
    const enum gemmd_error given = check_inputs_are_given(request, operands);
    return given == GEMMD_OK ? read_numbers(request, placed, count) : given;
}

/* ---- the whole request ---- */

/* The length of the whole body, parts of which may not have arrived yet. */
static uint64_t body_bytes(const struct request *request)
{
    const struct compute_call *call = &infer_of(request)->compute;
    return (call->body_sized ? call->body_capacity : call->body_bytes) -
           infer_of(request)->lead_bytes;
}

/* Reads a raw binary request, whose body is the model's only input. */
static enum gemmd_error infer_read_raw_body(struct request *request)
{
    struct infer_call *call = infer_of(request);
    const uint64_t bytes = body_bytes(request);
    const struct model_tensor *x = &call->model.inputs[0];
    struct oip_input *input = &call->asked.inputs[0];
    if (call->model.weight == NULL || x->rank != 2)
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "Inference-Header-Content-Length is 0, and the model takes more than one "
                         "input or its shape does not follow from the body's length");
    const uint64_t k = (uint64_t)x->dims[1];
    const uint64_t row_bytes = k * dtype_size(x->dtype); /* cannot overflow: the matrix exists */
    oip_request_init(&call->asked);
    *input = (struct oip_input){.rank = 2, .dims = {bytes / row_bytes, k}, .binary = true};
    snprintf(input->name, sizeof input->name, "%s", x->name);
    snprintf(input->datatype, sizeof input->datatype, "%s", oip_datatype(x->dtype));
    input->data = infer_of(request)->compute.body + call->lead_bytes;
    input->bytes = bytes;
    call->asked.input_count = 1;
    call->asked.binary_output = true;
    if (bytes % row_bytes != 0)
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; rows of input 'X' take %" PRIu64 " each",
                         bytes, row_bytes);
    return GEMMD_OK;
}

static enum gemmd_error infer_read_body(struct request *request)
{
    struct infer_call *call = infer_of(request);
    const struct compute_call *compute = &infer_of(request)->compute;
    if (call->has_header && call->json_bytes == 0)
        return infer_read_raw_body(request);
    if (!call->has_header)
        call->json_bytes = body_bytes(request);
    return oip_request_decode(compute->body + call->lead_bytes, body_bytes(request),
                              call->json_bytes, &call->asked, &request->fault);
}

/* Takes the weight of a model of a layer as the operation's second resident operand. */
static enum gemmd_error take_weight(struct request *request)
{
    struct infer_call *call = infer_of(request);
    struct compute_call *compute = &call->compute;
    const struct infer_operation *operation = call->model.operation;
    char *field = (char *)&compute->request + compute->operation->residents[1].at;
    if (field[0] != '\0')
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED,
                         compute->operation->residents[1].name, "the model '%.140s' has its own W",
                         call->model.name);
    stpcpy(field, resident_name(call->model.weight));
    if (operation->begin_layer != NULL)
        operation->begin_layer(&compute->request);
    compute->residents.b = call->model.weight;
    compute->residents.b_is_borrowed = true;
    tensor_store_count_use(services_of(request)->tensors, true);
    return GEMMD_OK;
}

/* Checks the parameters when all are set, and acquires the resident operands. */
static enum gemmd_error settle(struct request *request)
{
    struct infer_call *call = infer_of(request);
    struct compute_call *compute = &call->compute;
    enum gemmd_error code = GEMMD_OK;
    if (call->model.weight != NULL)
        code = take_weight(request);
    else
        parameter_mark_given(compute->operation->parameters, &compute->request, "dtype");
    if (code != GEMMD_OK)
        return code;
    compute->body_format = FORMAT_SAFETENSORS; /* the arrays give the sizes */
    code = compute_call_settle(compute, services_of(request), request->tenant, &request->fault);
    compute->body_format = FORMAT_RAW;
    return code;
}

/* Reads the request's JSON and finds the operands. Does not read the inputs' bytes after the JSON,
 * which may not have arrived yet. */
static enum gemmd_error read_request(struct request *request)
{
    struct infer_call *call = infer_of(request);
    const struct infer_operation *operation = call->model.operation;
    enum gemmd_error code = infer_read_body(request);
    if (code == GEMMD_OK)
        code = take_options(request);
    if (code == GEMMD_OK)
        code = settle(request);
    if (code == GEMMD_OK)
        code = take_schedule(request);
    if (code == GEMMD_OK)
        code = infer_take_outputs(request);
    infer_take_front(request);
    if (code == GEMMD_OK)
        code = take_inputs(request, &call->operands);
    if (code == GEMMD_OK)
        code = operation->complete(&call->compute.request, &call->operands, &request->fault);
    return code;
}

void infer_look(struct request *request)
{
    struct infer_call *call = infer_of(request);
    call->is_read = true;
    call->read_code = read_request(request);
    if (call->read_code == GEMMD_OK)
        call->read_code =
            compute_call_copy_early(&call->compute, services_of(request), &call->compute.request,
                                    &call->operands, &request->fault);
    if (call->read_code == GEMMD_OK)
        return;
    /* infer_bind refuses the request when its body is complete. */
    call->read_fault = request->fault;
    request->fault = (struct fault){.code = GEMMD_OK};
}

enum gemmd_error infer_bind(struct request *request)
{
    struct infer_call *call = infer_of(request);
    enum gemmd_error code = call->read_code;
    if (!call->is_read)
        code = read_request(request);
    else if (code != GEMMD_OK)
        request->fault = call->read_fault;
    if (code == GEMMD_OK)
        code = compute_call_bind_operands(&infer_of(request)->compute, services_of(request),
                                          &call->operands, &request->fault);
    if (code == GEMMD_OK)
        code = infer_take_text(request);
    return code;
}
