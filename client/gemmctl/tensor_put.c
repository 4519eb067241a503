/* gemmctl tensor put: uploads a file as a resident tensor. */
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/formats.h"
#include "client/gemmctl/input.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/report.h"
#include "proto/gemm_scales.h"
#include "proto/npy.h"
#include "proto/safetensors.h"
#include "proto/tensor_request.h"

enum { ENTRIES_MAX = 64 };

struct source {
    struct input input, scale_input;
    struct tensor tensor,
        scale;               /* views onto the inputs, or onto copies; scale.rank 0: no scales */
    void *copy, *scale_copy; /* row-major copies of column-major tensors; or NULL */
};

/* Takes an option that is a parameter of the same name. */
static enum gemmd_error read_parameter(struct tensor_request *asked,
                                       const struct arguments *arguments, int option,
                                       struct fault *fault)
{
    const char *value = arguments->values[option];
    return value == NULL
               ? GEMMD_OK
               : parameter_set(&tensor_parameter_table, asked, options[option].name, value, fault);
}

static enum gemmd_error take_raw(const struct tensor_request *asked, struct source *source,
                                 struct fault *fault)
{
    if (asked->shape.rank == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "files of raw bytes do not tell their shape; give --shape");
    if (!tensor_init(&source->tensor, asked->dtype, asked->shape.dims, asked->shape.rank,
                     source->input.data))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "a tensor of --shape and --dtype has more than 2^64 bytes");
    if (source->tensor.bytes != source->input.bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "%.96s has %llu bytes; a tensor of --shape and --dtype has %llu",
                         source->input.name, (unsigned long long)source->input.bytes,
                         (unsigned long long)source->tensor.bytes);
    return GEMMD_OK;
}

static enum gemmd_error take_npy(const struct input *input, enum gemmd_dtype carrier,
                                 struct tensor *tensor, struct fault *fault)
{
    uint64_t consumed = 0;
    enum gemmd_error code =
        npy_decode(input->data, input->bytes, carrier, tensor, &consumed, fault);
    if (code == GEMMD_OK && consumed < input->bytes)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s has %llu bytes more than its array takes", input->name,
                         (unsigned long long)(input->bytes - consumed));
    return code;
}

static uint32_t find_entry(const struct safetensors_entry *entries, uint32_t count,
                           const char *name)
{
    uint32_t found = 0;
    while (found < count && strcmp(entries[found].name, name) != 0)
        found++;
    return found;
}

/* Takes the tensor of that name from a safetensors file, or the only tensor of the file. If `scale`
 * is not NULL, takes "tensor" and "scale" from a file that holds these two. */
static enum gemmd_error take_safetensors(const struct input *input, const char *name,
                                         struct tensor *tensor, struct tensor *scale,
                                         struct fault *fault)
{
    struct safetensors_entry *entries = calloc(ENTRIES_MAX, sizeof *entries);
    uint32_t count = 0;
    if (entries == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "there is no memory for the safetensors file");
    enum gemmd_error code =
        safetensors_decode(input->data, input->bytes, entries, ENTRIES_MAX, &count, fault);
    uint32_t found = count == 1 ? 0 : find_entry(entries, count, name);
    const uint32_t of_two = find_entry(entries, count, "tensor"),
                   scales = find_entry(entries, count, "scale");
    if (scale != NULL && count == 2 && of_two < count && scales < count) {
        found = of_two;
        *scale = entries[scales].tensor;
    }
    if (code == GEMMD_OK && found == count)
        code =
            fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                      "%.96s has %u tensors, none of them named '%.64s'", input->name, count, name);
    if (code == GEMMD_OK)
        *tensor = entries[found].tensor;
    free(entries);
    return code;
}

static enum gemmd_error put_in_row_major_order(const struct input *input, struct tensor *tensor,
                                               void **copy, struct fault *fault)
{
    if (!tensor->fortran)
        return GEMMD_OK;
    *copy = malloc(tensor->bytes);
    if (*copy == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "there is no memory to transpose %.96s", input->name);
    tensor_copy_row_major(tensor, *copy);
    tensor->data = *copy;
    tensor->fortran = false;
    return GEMMD_OK;
}

/* Reads the file of --scale. Raw bytes are a vector. */
static enum gemmd_error take_scale(const char *path, struct source *source, enum format format,
                                   struct fault *fault)
{
    struct input *input = &source->scale_input;
    struct tensor *scale = &source->scale;
    enum gemmd_error code = input_open(input, path, fault);
    if (code == GEMMD_OK && scale->rank > 0)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s holds scales of its own; leave out --scale", source->input.name);
    if (code != GEMMD_OK)
        return code;
    const uint64_t count = input->bytes / sizeof(float);
    if (format == FORMAT_NPY)
        code = take_npy(input, GEMMD_DTYPE_COUNT, scale, fault);
    else if (format == FORMAT_SAFETENSORS)
        code = take_safetensors(input, "scale", scale, NULL, fault);
    else if (count == 0 || count * sizeof(float) != input->bytes ||
             !tensor_init(scale, GEMMD_F32, &count, 1, input->data))
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s has %llu bytes, which are no vector of f32", input->name,
                         (unsigned long long)input->bytes);
    return code == GEMMD_OK ? put_in_row_major_order(input, scale, &source->scale_copy, fault)
                            : code;
}

/* Checks that the scales fit the tensor, as the daemon would. */
static enum gemmd_error check_scale(const struct source *source, struct fault *fault)
{
    const enum gemmd_error code = gemm_scales_fit(&source->tensor, &source->scale, fault);
    return code == GEMMD_OK ? gemm_scales_check("scale", &source->scale, fault) : code;
}

static enum gemmd_error source_open(const struct arguments *arguments, struct source *source,
                                    enum format format, struct fault *fault)
{
    const char *name = arguments->operands[0];
    const bool typed = arguments->values[OPTION_DTYPE] != NULL;
    struct tensor_request asked;
    tensor_request_init(&asked);
    enum gemmd_error code = read_parameter(&asked, arguments, OPTION_DTYPE, fault);
    if (code == GEMMD_OK)
        code = read_parameter(&asked, arguments, OPTION_SHAPE, fault);
    if (code == GEMMD_OK)
        code = input_open(&source->input, arguments->operands[1], fault);
    if (code != GEMMD_OK)
        return code;
    if (format == FORMAT_RAW)
        return take_raw(&asked, source, fault);
    if (asked.shape.rank > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "%.96s tells its own shape; --shape is for files of raw bytes",
                         source->input.name);
    code = format == FORMAT_NPY
               ? take_npy(&source->input, typed ? asked.dtype : GEMMD_DTYPE_COUNT, &source->tensor,
                          fault)
               : take_safetensors(&source->input, name, &source->tensor, &source->scale, fault);
    if (code == GEMMD_OK && typed && source->tensor.dtype != asked.dtype)
        code = fault_set(
            fault, GEMMD_ERR_MALFORMED, "dtype",
            "--dtype is %s and %.96s holds %s; the types must agree, or --dtype be left out",
            gemmd_dtype_name(asked.dtype), source->input.name,
            gemmd_dtype_name(source->tensor.dtype));
    if (code == GEMMD_OK && source->tensor.rank == 0)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "%.96s is a scalar, not a tensor",
                         source->input.name);
    return code == GEMMD_OK
               ? put_in_row_major_order(&source->input, &source->tensor, &source->copy, fault)
               : code;
}

/* Opens a file of packed weights, which libgemmd reads. */
static enum gemmd_error packed_open(const struct arguments *arguments, struct source *source,
                                    struct fault *fault)
{
    static const enum option_id of_arrays[] = {OPTION_DTYPE, OPTION_SHAPE, OPTION_SCALE,
                                               OPTION_CONTIGUOUS};
    for (size_t i = 0; i < sizeof of_arrays / sizeof *of_arrays; i++)
        if (arguments->values[of_arrays[i]] != NULL)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "--%s is not for packed weights",
                             options[of_arrays[i]].name);
    return input_open(&source->input, arguments->operands[1], fault);
}

/* Opens the file of the tensor, and the file of its scales if there is one. */
static enum gemmd_error sources_open(const struct arguments *arguments, struct source *source,
                                     const struct formats *formats, struct fault *fault)
{
    const char *scale = arguments->values[OPTION_SCALE];
    if (arguments->values[OPTION_PACKED] != NULL)
        return packed_open(arguments, source, fault);
    if (arguments->values[OPTION_BITS] != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--bits is for packed weights, which need --packed");
    enum gemmd_error code = source_open(
        arguments, source, formats_in(formats, arguments->operands[1], FORMAT_NPY), fault);
    if (code == GEMMD_OK && scale != NULL)
        code = take_scale(scale, source, formats_in(formats, scale, FORMAT_NPY), fault);
    return code == GEMMD_OK && source->scale.rank > 0 ? check_scale(source, fault) : code;
}

static void source_close(struct source *source)
{
    free(source->copy);
    free(source->scale_copy);
    input_close(&source->input);
    input_close(&source->scale_input);
}

int command_tensor_put(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    char problem[PROBLEM_MAX];
    struct formats formats;
    struct source source = {0};
    struct gemmd_tensor_put put;
    struct gemmd_result result;
    struct gemmd_error_info error;
    struct fault fault = {0};
    uint32_t bits;
    int code;
    if (!formats_read(arguments, &formats, problem) ||
        !option_count(arguments, OPTION_BITS, 0, &bits, problem))
        return fail_usage(context, problem);
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    if (sources_open(arguments, &source, &formats, &fault) != GEMMD_OK) {
        code = fail_fault(context, &fault);
        goto done;
    }
    gemmd_tensor_put_init(&put, sizeof put);
    put.name = arguments->operands[0];
    put.format = arguments->values[OPTION_PACKED];
    if (put.format != NULL) {
        put.data = source.input.data;
        put.data_bytes = source.input.bytes;
        put.bits = bits;
    } else {
        put.dtype = source.tensor.dtype;
        put.rank = source.tensor.rank;
        memcpy(put.dims, source.tensor.dims, sizeof put.dims);
        put.data = source.tensor.data;
    }
    put.scale = source.scale.data;
    put.scale_rank = source.scale.rank;
    memcpy(put.scale_dims, source.scale.dims, sizeof put.scale_dims);
    put.evictable = option_flag(arguments, OPTION_EVICTABLE);
    put.contiguous = option_flag(arguments, OPTION_CONTIGUOUS);
    gemmd_result_init(&result, sizeof result);
    if (await(context, gemmd_tensor_put_submit(client, &put, &error), &result, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else
        code = report_stored(context, &result, put.name);

done:
    source_close(&source);
    gemmd_client_free(client);
    return code;
}
