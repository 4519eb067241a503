#include "proto/oip.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "proto/oip_data.h"

struct decoding {
    struct oip_request *request;
    const struct oip_skeleton *skeleton;
    const unsigned char *at; /* the binary bytes that are not taken yet */
    uint64_t left;
    struct fault *fault;
};

static enum gemmd_error malformed(const struct decoding *decoding, const char *sentence)
{
    return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL, "%s", sentence);
}

/* A member, or NULL if it is absent or null. */
static json_t *member(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

/* A member that must be a string of 1 to `max` bytes. */
static bool take_name(const json_t *object, const char *name, char *out, size_t max)
{
    const json_t *value = member(object, name);
    const size_t length = json_string_length(value);
    if (!json_is_string(value) || length == 0 || length > max)
        return false;
    memcpy(out, json_string_value(value), length + 1);
    return true;
}

/* A member that may be there, but then as a whole number from 0. */
static bool take_whole(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* The array that stands where `value` does. */
static const struct oip_array *array_of(const struct decoding *decoding, const json_t *value)
{
    uint64_t index;
    if (json_array_size(value) != 1 || !take_whole(json_array_get(value, 0), &index) ||
        index >= decoding->skeleton->array_count)
        return NULL;
    return &decoding->skeleton->arrays[index];
}

static bool names_shared_memory(const json_t *parameters)
{
    return member(parameters, "shared_memory_region") != NULL ||
           member(parameters, "shared_memory_byte_size") != NULL ||
           member(parameters, "shared_memory_offset") != NULL;
}

/* `what`: "input" or "output", and its name. */
static enum gemmd_error take_region(const struct decoding *decoding, const char *what,
                                    const char *name, const json_t *parameters,
                                    struct oip_region *region)
{
    const json_t *offset = member(parameters, "shared_memory_offset");
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
                                    const json_t *size)
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

static enum gemmd_error take_input(struct decoding *decoding, const json_t *object,
                                   struct oip_input *input)
{
    struct fault *fault = decoding->fault;
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

    const json_t *parameters = member(object, "parameters"), *data = member(object, "data");
    const json_t *size = member(parameters, "binary_data_size");
    if (parameters != NULL && !json_is_object(parameters))
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

static enum gemmd_error take_inputs(struct decoding *decoding, const json_t *inputs)
{
    struct oip_request *request = decoding->request;
    const size_t count = json_array_size(inputs);
    if (count == 0)
        return malformed(decoding, "the request has no inputs, an array of at least one object");
    if (count > OIP_INPUTS_MAX)
        return malformed(decoding, "the request has more inputs than the 8 that are read");
    for (size_t i = 0; i < count; i++) {
        struct oip_input *input = &request->inputs[i];
        enum gemmd_error code = take_input(decoding, json_array_get(inputs, i), input);
        if (code != GEMMD_OK)
            return code;
        for (size_t j = 0; j < i; j++)
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

static enum gemmd_error take_output(struct decoding *decoding, const json_t *object,
                                    struct oip_output *output)
{
    if (!take_name(object, "name", output->name, OIP_NAME_MAX))
        return malformed(decoding, "each of outputs is an object with a name of 1 to 32 bytes");
    const json_t *parameters = member(object, "parameters");
    const json_t *binary = member(parameters, "binary_data");
    uint64_t classes = 0;
    if (parameters != NULL && !json_is_object(parameters))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "output '%s': its parameters are not an object", output->name);
    if (member(parameters, "classification") != NULL &&
        (!take_whole(member(parameters, "classification"), &classes) || classes > 0))
        return fault_set(decoding->fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL,
                         "output '%s': classification is not served", output->name);
    if (binary != NULL && !json_is_boolean(binary))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "output '%s': binary_data must be true or false", output->name);
    output->binary = binary != NULL ? json_is_true(binary) : decoding->request->binary_output;
    if (!names_shared_memory(parameters))
        return GEMMD_OK;
    if (json_is_true(binary))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "output '%s': it can be binary data or be in shared memory, not both",
                         output->name);
    output->binary = false;
    return take_region(decoding, "output", output->name, parameters, &output->region);
}

static enum gemmd_error take_outputs(struct decoding *decoding, const json_t *outputs)
{
    struct oip_request *request = decoding->request;
    if (outputs == NULL)
        return GEMMD_OK;
    if (!json_is_array(outputs))
        return malformed(decoding, "the request's outputs are not an array");
    const size_t count = json_array_size(outputs);
    if (count > OIP_OUTPUTS_MAX)
        return malformed(decoding, "the request has more outputs than the 8 that are read");
    for (size_t i = 0; i < count; i++) {
        struct oip_output *output = &request->outputs[i];
        enum gemmd_error code = take_output(decoding, json_array_get(outputs, i), output);
        if (code != GEMMD_OK)
            return code;
        for (size_t j = 0; j < i; j++)
            if (strcmp(request->outputs[j].name, output->name) == 0)
                return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                                 "output '%s' is asked for twice", output->name);
        request->output_count++;
    }
    return GEMMD_OK;
}

/* ---- parameters ---- */

static bool value_text(const json_t *value, char out[OIP_PARAMETER_MAX + 1])
{
    const size_t size = OIP_PARAMETER_MAX + 1;
    int length = -1;
    if (json_is_string(value))
        length = snprintf(out, size, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        length = snprintf(out, size, "%d", json_is_true(value));
    else if (json_is_integer(value))
        length = snprintf(out, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        length = snprintf(out, size, "%.17g", json_real_value(value));
    return length >= 0 && (size_t)length < size;
}

static enum gemmd_error take_parameter(struct decoding *decoding, const char *name,
                                       const json_t *value)
{
    struct oip_request *request = decoding->request;
    if (strcmp(name, "binary_data_output") == 0) {
        request->binary_output = json_is_true(value);
        return json_is_boolean(value)
                   ? GEMMD_OK
                   : malformed(decoding, "binary_data_output must be true or false");
    }
    if (strcmp(name, "priority") == 0)
        return take_whole(value, &request->priority)
                   ? GEMMD_OK
                   : malformed(decoding, "priority must be a whole number from 0");
    if (strcmp(name, "timeout") == 0)
        return take_whole(value, &request->timeout_us)
                   ? GEMMD_OK
                   : malformed(decoding, "timeout must be a whole number of microseconds");
    /* No model keeps anything from one request to the next. */
    if (strcmp(name, "sequence_id") == 0 || strcmp(name, "sequence_start") == 0 ||
        strcmp(name, "sequence_end") == 0)
        return GEMMD_OK;
    if (request->parameter_count == OIP_PARAMETERS_MAX)
        return malformed(decoding, "the request has more parameters than the 16 that are read");
    struct oip_parameter *parameter = &request->parameters[request->parameter_count++];
    if (strlen(name) > OIP_NAME_MAX || !value_text(value, parameter->value))
        return fault_set(decoding->fault, GEMMD_ERR_MALFORMED, NULL,
                         "the parameter '%.32s' is not a number, a string of at most 64 bytes, "
                         "true or false, under a name of at most 32",
                         name);
    memcpy(parameter->name, name, strlen(name) + 1);
    return GEMMD_OK;
}

static enum gemmd_error take_parameters(struct decoding *decoding, json_t *parameters)
{
    const char *name;
    json_t *value;
    if (parameters == NULL)
        return GEMMD_OK;
    if (!json_is_object(parameters))
        return malformed(decoding, "the request's parameters are not an object");
    json_object_foreach(parameters, name, value)
    {
        enum gemmd_error code = take_parameter(decoding, name, value);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

static enum gemmd_error take_id(struct decoding *decoding, const json_t *id)
{
    if (id == NULL)
        return GEMMD_OK;
    if (!json_is_string(id) || json_string_length(id) > OIP_ID_MAX)
        return malformed(decoding, "id must be a string of at most 256 bytes");
    memcpy(decoding->request->id, json_string_value(id), json_string_length(id) + 1);
    return GEMMD_OK;
}

static enum gemmd_error take_request(struct decoding *decoding, const json_t *root)
{
    if (!json_is_object(root))
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

enum gemmd_error oip_request_decode(const void *body, uint64_t bytes, uint64_t json_bytes,
                                    struct oip_request *request, struct fault *fault)
{
    struct oip_skeleton skeleton;
    json_error_t error;
    memset(request, 0, sizeof *request);
    if (json_bytes > bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; its JSON should be %" PRIu64, bytes,
                         json_bytes);
    enum gemmd_error code = oip_skeleton_cut(&skeleton, body, json_bytes, fault);
    if (code != GEMMD_OK)
        return code;

    errno = 0;
    json_t *root = json_loadb(skeleton.text, skeleton.bytes, JSON_REJECT_DUPLICATES, &error);
    /* Memory that runs out in the middle of a token is a syntax error to jansson; malloc tells. */
    if (root == NULL && errno == ENOMEM)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory to read the request");
    if (root == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "the request is not JSON: %s",
                         error.text);
    struct decoding decoding = {
        .request = request,
        .skeleton = &skeleton,
        .at = (const unsigned char *)body + json_bytes,
        .left = bytes - json_bytes,
        .fault = fault,
    };
    code = take_request(&decoding, root);
    json_decref(root);
    return code;
}
