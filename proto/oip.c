#include "proto/oip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/oip_data.h"
#include "proto/oip_skeleton.h"

struct decoding {
    struct oip_request *request;
    const struct oip_json *json;
    const unsigned char *at; /* the next byte of binary inputs in the body */
    uint64_t left;           /* bytes of the body from `at` on */
    struct fault *fault;
};

static enum gemmd_error malformed(const struct decoding *decoding, const char *sentence)
{
    return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL, "%s", sentence);
}

static const struct oip_value *member(const struct oip_value *object, const char *name)
{
    return oip_json_member(object, name);
}

static bool is_kind(const struct oip_value *value, enum oip_kind kind)
{
    return value != NULL && value->kind == kind;
}

static bool is_boolean(const struct oip_value *value)
{
    return is_kind(value, OIP_TRUE) || is_kind(value, OIP_FALSE);
}

/* Returns whether `value` is an object or absent, as `parameters` may be. */
static bool is_object_or_none(const struct oip_value *value)
{
    return value == NULL || value->kind == OIP_OBJECT;
}

static void copy_text(const struct oip_value *value, char *out)
{
    memcpy(out, value->text, value->bytes);
    out[value->bytes] = '\0';
}

/* Copies the member `name` of an object to `out`. Returns false if the member is not a string of 1
 * to `max` bytes. */
static bool take_name(const struct oip_value *object, const char *name, char *out, size_t max)
{
    const struct oip_value *value = member(object, name);
    if (!is_kind(value, OIP_STRING) || value->bytes == 0 || value->bytes > max)
        return false;
    copy_text(value, out);
    return true;
}

/* Reads a whole number of at least 0. Returns false if `value` is absent or another value. */
static bool take_whole(const struct oip_value *value, uint64_t *out)
{
    uint64_t number = 0;
    if (!is_kind(value, OIP_INTEGER))
        return false;
    const bool negative = value->text[0] == '-';
    for (uint32_t i = negative; i < value->bytes; i++)
        number = number * 10 + (uint64_t)(value->text[i] - '0');
    if (negative && number > 0)
        return false;
    *out = number;
    return true;
}

/* Returns the text of an array of kind OIP_ARRAY; NULL if `value` is absent or of another kind. */
static const struct oip_array *array_of(const struct decoding *decoding,
                                        const struct oip_value *value)
{
    return is_kind(value, OIP_ARRAY) ? &decoding->json->arrays[value->count] : NULL;
}

static bool names_shared_memory(const struct oip_value *parameters)
{
    return member(parameters, "shared_memory_region") != NULL ||
           member(parameters, "shared_memory_byte_size") != NULL ||
           member(parameters, "shared_memory_offset") != NULL;
}

static void no_region(struct oip_region *region)
{
    region->name[0] = '\0';
    region->offset = region->bytes = 0;
}

/* Reads the region that the parameters of an input or output name. `what` is "input" or "output",
 * for the fault, and `name` is the name of the input or output. */
static enum gemmd_error take_region(const struct decoding *decoding, const char *what,
                                    const char *name, const struct oip_value *parameters,
                                    struct oip_region *region)
{
    const struct oip_value *offset = member(parameters, "shared_memory_offset");
    if (!take_name(parameters, "shared_memory_region", region->name, OIP_REGION_MAX) ||
        !take_whole(member(parameters, "shared_memory_byte_size"), &region->bytes) ||
        (offset != NULL && !take_whole(offset, &region->offset)))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s '%s': shared memory is a shared_memory_region's name, its "
                         "shared_memory_byte_size and perhaps a shared_memory_offset",
                         what, name);
    return GEMMD_OK;
}

/* ---- inputs ---- */

static enum gemmd_error take_binary(struct decoding *decoding, struct oip_input *input,
                                    const struct oip_value *size)
{
    if (!take_whole(size, &input->bytes))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': binary_data_size is not a whole number from 0", input->name);
    if (input->bytes > decoding->left)
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': binary_data_size is %" PRIu64 ", and %" PRIu64
                         " bytes of the body are left",
                         input->name, input->bytes, decoding->left);
    input->binary = true;
    input->data = decoding->at;
    decoding->at += input->bytes;
    decoding->left -= input->bytes;
    return GEMMD_OK;
}

static enum gemmd_error take_input(struct decoding *decoding, const struct oip_value *object,
                                   struct oip_input *input)
{
    struct fault *fault = decoding->fault;
    input->binary = false;
    input->data = NULL;
    input->bytes = 0;
    no_region(&input->region);
    input->array = (struct oip_array){NULL, 0};
    if (!take_name(object, "name", input->name, OIP_NAME_MAX))
        return malformed(decoding, "each of inputs is an object with a name of 1 to 32 bytes");
    if (!take_name(object, "datatype", input->datatype, OIP_DATATYPE_MAX))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': it has no datatype, such as FP32", input->name);
    const struct oip_array *shape = array_of(decoding, member(object, "shape"));
    if (shape == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': it has no shape, an array of whole numbers", input->name);
    enum gemmd_error code = oip_data_shape(shape, input->name, input->dims, &input->rank, fault);
    if (code != GEMMD_OK)
        return code;

    const struct oip_value *parameters = member(object, "parameters"),
                           *data = member(object, "data");
    const struct oip_value *size = member(parameters, "binary_data_size");
    if (!is_object_or_none(parameters))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': its parameters are not an object", input->name);
    const bool shared = names_shared_memory(parameters);
    if ((data != NULL) + (size != NULL) + shared != 1)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': it must have either data or the parameter binary_data_size "
                         "or a shared memory region",
                         input->name);
    if (shared) {
        code = take_region(decoding, "input", input->name, parameters, &input->region);
        input->binary = true;
        input->bytes = input->region.bytes;
        return code;
    }
    if (size != NULL)
        return take_binary(decoding, input, size);
    const struct oip_array *array = array_of(decoding, data);
    if (array == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': its data is not an array of numbers", input->name);
    input->array = *array;
    return GEMMD_OK;
}

static enum gemmd_error take_inputs(struct decoding *decoding, const struct oip_value *inputs)
{
    struct oip_request *request = decoding->request;
    if (!is_kind(inputs, OIP_LIST))
        return malformed(decoding, "the request has no inputs, an array of objects");
    const uint32_t count = inputs->count;
    if (count > OIP_INPUTS_MAX)
        return malformed(decoding, "the request has more inputs than the 8 that are read");
    const struct oip_value *object = inputs + 1;
    for (uint32_t i = 0; i < count; i++, object = oip_json_next(object)) {
        struct oip_input *input = &request->inputs[i];
        enum gemmd_error code = take_input(decoding, object, input);
        if (code != GEMMD_OK)
            return code;
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(request->inputs[j].name, input->name) == 0)
                return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                                 "input '%s' is there twice", input->name);
        request->input_count++;
    }
    if (decoding->left > 0)
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body has %" PRIu64 " bytes more than its inputs take",
                         decoding->left);
    return GEMMD_OK;
}

/* ---- outputs ---- */

static enum gemmd_error take_output(struct decoding *decoding, const struct oip_value *object,
                                    struct oip_output *output)
{
    no_region(&output->region);
    if (!take_name(object, "name", output->name, OIP_NAME_MAX))
        return malformed(decoding, "each of outputs is an object with a name of 1 to 32 bytes");
    const struct oip_value *parameters = member(object, "parameters");
    const struct oip_value *binary = member(parameters, "binary_data");
    uint64_t classes = 0;
    if (!is_object_or_none(parameters))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "output '%s': its parameters are not an object", output->name);
    if (member(parameters, "classification") != NULL &&
        (!take_whole(member(parameters, "classification"), &classes) || classes > 0))
        return fault_set(decoding->fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL,
                         "output '%s': classification is not served", output->name);
    if (binary != NULL && !is_boolean(binary))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "output '%s': binary_data must be true or false", output->name);
    output->binary = binary != NULL ? is_kind(binary, OIP_TRUE) : decoding->request->binary_output;
    if (!names_shared_memory(parameters))
        return GEMMD_OK;
    if (is_kind(binary, OIP_TRUE))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "output '%s': it can be binary data or be in shared memory, not both",
                         output->name);
    output->binary = false;
    return take_region(decoding, "output", output->name, parameters, &output->region);
}

static enum gemmd_error take_outputs(struct decoding *decoding, const struct oip_value *outputs)
{
    struct oip_request *request = decoding->request;
    if (outputs == NULL)
        return GEMMD_OK;
    if (outputs->kind != OIP_LIST)
        return malformed(decoding, "the request's outputs are not an array");
    const uint32_t count = outputs->count;
    if (count > OIP_OUTPUTS_MAX)
        return malformed(decoding, "the request has more outputs than the 8 that are read");
    const struct oip_value *object = outputs + 1;
    for (uint32_t i = 0; i < count; i++, object = oip_json_next(object)) {
        struct oip_output *output = &request->outputs[i];
        enum gemmd_error code = take_output(decoding, object, output);
        if (code != GEMMD_OK)
            return code;
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(request->outputs[j].name, output->name) == 0)
                return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                                 "output '%s' is asked for twice", output->name);
        request->output_count++;
    }
    return GEMMD_OK;
}

/* ---- parameters ---- */

static bool value_text(const struct oip_value *value, char out[OIP_PARAMETER_MAX + 1])
{
    const bool is_text = value->kind == OIP_STRING || value->kind == OIP_INTEGER;
    if (is_boolean(value)) {
        strcpy(out, value->kind == OIP_TRUE ? "1" : "0");
        return true;
    }
    if (value->kind == OIP_REAL) {
        snprintf(out, OIP_PARAMETER_MAX + 1, "%.17g", oip_json_real(value->text, value->bytes));
        return true;
    }
    if (!is_text || value->bytes > OIP_PARAMETER_MAX)
        return false;
    copy_text(value, out);
    if (value->kind == OIP_INTEGER && strcmp(out, "-0") == 0)
        strcpy(out, "0");
    return true;
}

/* Returns whether a parameter is ignored. The parameters of sequences have no effect, because no
 * model keeps state from one request to the next. */
static bool is_ignored(const struct oip_value *name)
{
    return oip_json_is(name, "sequence_id") || oip_json_is(name, "sequence_start") ||
           oip_json_is(name, "sequence_end");
}

static enum gemmd_error take_parameter(struct decoding *decoding, const struct oip_value *name,
                                       const struct oip_value *value)
{
    struct oip_request *request = decoding->request;
    if (oip_json_is(name, "binary_data_output")) {
        request->binary_output = value->kind == OIP_TRUE;
        return is_boolean(value) ? GEMMD_OK
                                 : malformed(decoding, "binary_data_output must be true or false");
    }
    if (oip_json_is(name, "priority"))
        return take_whole(value, &request->priority)
                   ? GEMMD_OK
                   : malformed(decoding, "priority must be a whole number from 0");
    if (oip_json_is(name, "timeout"))
        return take_whole(value, &request->timeout_us)
                   ? GEMMD_OK
                   : malformed(decoding, "timeout must be a whole number of microseconds");
    if (is_ignored(name))
        return GEMMD_OK;
    if (request->parameter_count == OIP_PARAMETERS_MAX)
        return malformed(decoding, "the request has more parameters than the 16 that are read");
    struct oip_parameter *parameter = &request->parameters[request->parameter_count++];
    if (name->bytes > OIP_NAME_MAX || !value_text(value, parameter->value))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "the parameter '%.*s' is not a number, a string of at most 64 bytes, "
                         "true or false, under a name of at most 32",
                         name->bytes < OIP_NAME_MAX ? name->bytes : OIP_NAME_MAX, name->text);
    copy_text(name, parameter->name);
    return GEMMD_OK;
}

static enum gemmd_error take_parameters(struct decoding *decoding,
                                        const struct oip_value *parameters)
{
    if (parameters == NULL)
        return GEMMD_OK;
    if (parameters->kind != OIP_OBJECT)
        return malformed(decoding, "the request's parameters are not an object");
    const struct oip_value *name = parameters + 1;
    for (uint32_t i = 0; i < parameters->count; i++, name = oip_json_next(name + 1)) {
        enum gemmd_error code = take_parameter(decoding, name, name + 1);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

static enum gemmd_error take_id(struct decoding *decoding, const struct oip_value *id)
{
    if (id == NULL)
        return GEMMD_OK;
    if (id->kind != OIP_STRING || id->bytes > OIP_ID_MAX)
        return malformed(decoding, "id must be a string of at most 256 bytes");
    copy_text(id, decoding->request->id);
    return GEMMD_OK;
}

static enum gemmd_error take_request(struct decoding *decoding, const struct oip_value *root)
{
    if (root->kind != OIP_OBJECT)
        return malformed(decoding, "the request's JSON is not an object");
    enum gemmd_error code = take_id(decoding, member(root, "id"));
    if (code == GEMMD_OK)
        code = take_parameters(decoding, member(root, "parameters"));
    if (code == GEMMD_OK)
        code = take_inputs(decoding, member(root, "inputs"));
    if (code == GEMMD_OK)
        code = take_outputs(decoding, member(root, "outputs"));
    return code;
}

void oip_request_init(struct oip_request *request)
{
    request->id[0] = '\0';
    request->input_count = request->output_count = request->parameter_count = 0;
    request->binary_output = false;
    request->priority = request->timeout_us = 0;
}

enum gemmd_error oip_request_decode(const void *body, uint64_t bytes, uint64_t json_bytes,
                                    struct oip_request *request, struct fault *fault)
{
    struct oip_json json;
    oip_request_init(request);
    if (json_bytes > bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; its JSON should be %" PRIu64, bytes,
                         json_bytes);
    if (!oip_json_read(&json, body, json_bytes))
        return oip_skeleton_refuse(body, json_bytes, fault);
    struct decoding decoding = {
        .request = request,
        .json = &json,
        .at = (const unsigned char *)body + json_bytes,
        .left = bytes - json_bytes,
        .fault = fault,
    };
    return take_request(&decoding, json.values);
}
