/* gemmctl tensor put: uploads a file as a resident tensor. */
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/await.h"
#include "client/gemmctl/formats.h"
#include "client/gemmctl/input.h"
#include "client/gemmctl/report.h"
#include "proto/npy.h"
#include "proto/number.h"
#include "proto/safetensors.h"

enum { ENTRIES_MAX = 64 };

struct source {
    struct input input;
    struct tensor tensor; /* a view onto the input, or onto `copy` */
    void *copy;           /* a row-major copy of a column-major tensor; or NULL */
};

/* Reads a shape such as "512,512". */
static bool read_shape(const char *text, uint64_t dims[TENSOR_MAX_RANK], uint32_t *rank)
{
    char dim[24];
    for (*rank = 0; *rank < TENSOR_MAX_RANK;) {
        size_t length = strcspn(text, ",");
        if (length >= sizeof dim)
            return false;
        memcpy(dim, text, length);
        dim[length] = '\0';
        if (!number_u64(dim, &dims[*rank]) || dims[*rank] == 0)
            return false;
        (*rank)++;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
    return false;
}

static enum gemmd_error take_raw(const struct arguments *arguments, enum gemmd_dtype dtype,
                                 struct source *source, struct fault *fault)
{
    const char *shape = arguments->values[OPTION_SHAPE];
    uint64_t dims[TENSOR_MAX_RANK];
    uint32_t rank;
    if (shape == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "files of raw bytes do not tell their shape; give --shape");
    if (!read_shape(shape, dims, &rank) ||
        !tensor_init(&source->tensor, dtype, dims, rank, source->input.data))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "--shape is '%.64s'; it must be 1 to %d whole numbers such as 512,512",
                         shape, TENSOR_MAX_RANK);
    if (source->tensor.bytes != source->input.bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "%.96s has %llu bytes; a tensor of --shape and --dtype has %llu",
                         source->input.name, (unsigned long long)source->input.bytes,
                         (unsigned long long)source->tensor.bytes);
    return GEMMD_OK;
}

static enum gemmd_error take_npy(enum gemmd_dtype carrier, struct source *source,
                                 struct fault *fault)
{
    const struct input *input = &source->input;
    uint64_t consumed = 0;
    enum gemmd_error code =
        npy_decode(input->data, input->bytes, carrier, &source->tensor, &consumed, fault);
    if (code == GEMMD_OK && consumed < input->bytes)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s has %llu bytes more than its array takes", input->name,
                         (unsigned long long)(input->bytes - consumed));
    return code;
}

/* Takes the tensor of that name from a safetensors file, or the only tensor of the file. */
static enum gemmd_error take_safetensors(const char *name, struct source *source,
                                         struct fault *fault)
{
    const struct input *input = &source->input;
    struct safetensors_entry *entries = calloc(ENTRIES_MAX, sizeof *entries);
    uint32_t count = 0, found = 0;
    if (entries == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "there is no memory for the safetensors file");
    enum gemmd_error code =
        safetensors_decode(input->data, input->bytes, entries, ENTRIES_MAX, &count, fault);
    while (found < count && strcmp(entries[found].name, name) != 0)
        found++;
    if (found == count && count == 1)
        found = 0;
    if (code == GEMMD_OK && found == count)
        code =
            fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                      "%.96s has %u tensors, none of them named '%.64s'", input->name, count, name);
    if (code == GEMMD_OK)
        source->tensor = entries[found].tensor;
    free(entries);
    return code;
}

static enum gemmd_error put_in_row_major_order(struct source *source, struct fault *fault)
{
    struct tensor *tensor = &source->tensor;
    if (!tensor->fortran)
        return GEMMD_OK;
    source->copy = malloc(tensor->bytes);
    if (source->copy == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "there is no memory to transpose %.96s", source->input.name);
    tensor_copy_row_major(tensor, source->copy);
    tensor->data = source->copy;
    tensor->fortran = false;
    return GEMMD_OK;
}

static enum gemmd_error source_open(const struct arguments *arguments, struct source *source,
                                    enum format format, struct fault *fault)
{
    const char *name = arguments->operands[0], *type = arguments->values[OPTION_DTYPE];
    enum gemmd_dtype dtype = GEMMD_F32;
    if (type != NULL && !gemmd_dtype_from_name(type, &dtype))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "--dtype is '%.64s'; it must be one of f64, f32, f16, bf16, f8_e4m3, i8, "
                         "i32",
                         type);
    enum gemmd_error code = input_open(&source->input, arguments->operands[1], fault);
    if (code != GEMMD_OK)
        return code;
    if (format == FORMAT_RAW)
        return take_raw(arguments, dtype, source, fault);
    if (arguments->values[OPTION_SHAPE] != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "%.96s tells its own shape; --shape is for files of raw bytes",
                         source->input.name);
    code = format == FORMAT_NPY ? take_npy(type != NULL ? dtype : GEMMD_DTYPE_COUNT, source, fault)
                                : take_safetensors(name, source, fault);
    if (code == GEMMD_OK && type != NULL && source->tensor.dtype != dtype)
        code = fault_set(
            fault, GEMMD_ERR_MALFORMED, "dtype",
            "--dtype is %s and %.96s holds %s; the types must agree, or --dtype be left out", type,
            source->input.name, gemmd_dtype_name(source->tensor.dtype));
    if (code == GEMMD_OK && source->tensor.rank == 0)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "%.96s is a scalar, not a tensor",
                         source->input.name);
    return code == GEMMD_OK ? put_in_row_major_order(source, fault) : code;
}

static void source_close(struct source *source)
{
    free(source->copy);
    input_close(&source->input);
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
    int code;
    if (!formats_read(arguments, &formats, problem))
        return fail_usage(context, problem);
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;
    if (source_open(arguments, &source, formats_in(&formats, arguments->operands[1], FORMAT_NPY),
                    &fault) != GEMMD_OK) {
        code = fail_fault(context, &fault);
        goto done;
    }
    gemmd_tensor_put_init(&put, sizeof put);
    put.name = arguments->operands[0];
    put.dtype = source.tensor.dtype;
    put.rank = source.tensor.rank;
    memcpy(put.dims, source.tensor.dims, sizeof put.dims);
    put.data = source.tensor.data;
    put.evictable = option_flag(arguments, OPTION_EVICTABLE);
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
