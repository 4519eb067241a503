#include "client/gemmctl/operands.h"

#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/safetensors.h"

enum { A, B, BIAS, C0, OPERANDS, STANDARD_INPUT = OPERANDS };

static const char *const names[OPERANDS] = {"a", "b", "bias", "c"};
static const char *const titles[OPERANDS] = {"A", "B", "bias", "C0"};

struct reading {
    struct operands *operands;
    const struct operand_paths *paths;
    struct gemm_request *request;
    struct fault *fault;
};

static enum format format_of(const struct reading *reading, const char *path)
{
    enum format format = FORMAT_NPY;
    if (reading->paths->format != NULL)
        return *reading->paths->format;
    format_of_path(path, &format);
    return format;
}

/* Of the result, if nothing else tells. */
static enum format format_of_first(const struct reading *reading)
{
    const struct operand_paths *paths = reading->paths;
    const char *first = paths->a != NULL ? paths->a : paths->b;
    return first != NULL || paths->format != NULL ? format_of(reading, first) : FORMAT_NPY;
}

/* What a type that NumPy has no name for is, in an operand's file. */
static enum gemmd_dtype carrier(const struct reading *reading, int operand)
{
    const struct gemm_request *request = reading->request;
    const struct tensor *a = &reading->operands->bound.a;
    if (operand == A || operand == B)
        return gemm_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    return gemm_request_given(request, "out") ? request->out : dtype_default_out(a->dtype);
}

static struct tensor *place_of(struct operands *operands, int operand)
{
    struct tensor *const places[OPERANDS] = {&operands->bound.a, &operands->bound.b,
                                             &operands->bound.bias, &operands->bound.c0};
    return places[operand];
}

/* Standard input is opened once, whoever asks first. */
static enum gemmd_error open_input(struct reading *reading, int operand, const char *path,
                                   struct input **input)
{
    struct input *inputs = reading->operands->inputs;
    bool standard = strcmp(path, "-") == 0;
    *input = &inputs[standard ? STANDARD_INPUT : operand];
    if (standard && (*input)->name != NULL)
        return GEMMD_OK;
    return input_open(*input, path, reading->fault);
}

static enum gemmd_error take_npy(struct reading *reading, int operand, struct input *input)
{
    struct fault reason = {0};
    uint64_t consumed = 0;
    if (input->taken == input->bytes)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL, "%.96s ends before %s",
                         input->name, titles[operand]);
    enum gemmd_error code = npy_decode(input->data + input->taken, input->bytes - input->taken,
                                       carrier(reading, operand),
                                       place_of(reading->operands, operand), &consumed, &reason);
    if (code != GEMMD_OK)
        return fault_set(reading->fault, code, reason.field, "%s in %.96s: %s", titles[operand],
                         input->name, reason.detail);
    if (place_of(reading->operands, operand)->rank == 0)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s in %.96s is a scalar, not a matrix or vector", titles[operand],
                         input->name);
    input->taken += consumed;
    return GEMMD_OK;
}

/* The dimensions of a raw operand as the parameters say them. */
static uint32_t raw_dims(const struct gemm_request *request, int operand, uint64_t dims[3])
{
    const uint64_t m = request->m, n = request->n, k = request->k;
    const bool ta = request->transa, tb = request->transb;
    const uint64_t rows[] = {ta ? k : m, tb ? n : k, 1, m};
    const uint64_t columns[] = {ta ? m : k, tb ? k : n, n, n};
    uint32_t rank = 0;
    if (operand == BIAS) {
        dims[0] = n;
        return 1;
    }
    if (request->batch > 1)
        dims[rank++] = request->batch;
    dims[rank++] = rows[operand];
    dims[rank++] = columns[operand];
    return rank;
}

static enum gemmd_error take_raw(struct reading *reading, int operand, struct input *input)
{
    const struct gemm_request *request = reading->request;
    struct tensor *tensor = place_of(reading->operands, operand);
    enum gemmd_dtype dtype =
        operand == A || operand == B ? request->dtype : carrier(reading, operand);
    uint64_t dims[3], left = input->bytes - input->taken;
    if (request->m == 0 || request->n == 0 || request->k == 0)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "raw files do not say their shape; --m, --n and --k must");
    uint32_t rank = raw_dims(request, operand, dims);
    if (!tensor_init(tensor, dtype, dims, rank, input->data + input->taken))
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL, "%s is larger than 2^63 bytes",
                         titles[operand]);
    if (tensor->bytes > left)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s has %llu bytes for %s, which takes %llu", input->name,
                         (unsigned long long)left, titles[operand],
                         (unsigned long long)tensor->bytes);
    input->taken += tensor->bytes;
    return GEMMD_OK;
}

static enum gemmd_error decode_safetensors(struct reading *reading, struct input *input,
                                           struct safetensors_entry entries[OPERANDS],
                                           uint32_t *count)
{
    struct fault reason = {0};
    enum gemmd_error code =
        safetensors_decode(input->data, input->bytes, entries, OPERANDS, count, &reason);
    input->taken = input->bytes;
    if (code != GEMMD_OK)
        return fault_set(reading->fault, code, reason.field, "%.96s: %s", input->name,
                         reason.detail);
    return GEMMD_OK;
}

/* A file of its own: the tensor of the operand's name, or the only one. */
static enum gemmd_error take_safetensors(struct reading *reading, int operand, struct input *input)
{
    struct safetensors_entry entries[OPERANDS];
    uint32_t count = 0;
    enum gemmd_error code = decode_safetensors(reading, input, entries, &count);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        if (count == 1 || strcmp(entries[i].name, names[operand]) == 0) {
            *place_of(reading->operands, operand) = entries[i].tensor;
            return GEMMD_OK;
        }
    }
    if (code == GEMMD_OK)
        code = fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s has no tensor '%s' for %s, and more than one to choose from",
                         input->name, names[operand], titles[operand]);
    return code;
}

static enum gemmd_error take(struct reading *reading, int operand, const char *path)
{
    struct input *input;
    enum gemmd_error code = open_input(reading, operand, path, &input);
    if (code != GEMMD_OK)
        return code;
    switch (format_of(reading, path)) {
    case FORMAT_RAW:
        return take_raw(reading, operand, input);
    case FORMAT_NPY:
        return take_npy(reading, operand, input);
    case FORMAT_SAFETENSORS:
        return take_safetensors(reading, operand, input);
    }
    return fault_set(reading->fault, GEMMD_ERR_INTERNAL, NULL, "a file of no known format");
}

/* One safetensors file with all that no other file is named for. */
static enum gemmd_error take_all(struct reading *reading, const char *path)
{
    struct safetensors_entry entries[OPERANDS];
    struct input *input;
    uint32_t count = 0;
    if (format_of(reading, path) != FORMAT_SAFETENSORS)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "B is missing; only a safetensors file holds both operands");
    enum gemmd_error code = open_input(reading, A, path, &input);
    if (code == GEMMD_OK)
        code = decode_safetensors(reading, input, entries, &count);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        int operand = 0;
        while (operand < OPERANDS && strcmp(entries[i].name, names[operand]) != 0)
            operand++;
        if (operand == OPERANDS)
            code = fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                             "%.96s has a tensor '%.48s'; those of a product are a, b, bias, c",
                             input->name, entries[i].name);
        else
            *place_of(reading->operands, operand) = entries[i].tensor;
    }
    return code;
}

/* Bytes that nobody asked for mean that the shapes or the files are not what the user thinks. */
static enum gemmd_error check_all_taken(const struct reading *reading)
{
    for (int i = 0; i <= STANDARD_INPUT; i++) {
        const struct input *input = &reading->operands->inputs[i];
        if (input->taken < input->bytes)
            return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                             "%.96s has %llu bytes more than its operand takes", input->name,
                             (unsigned long long)(input->bytes - input->taken));
    }
    return GEMMD_OK;
}

static enum gemmd_error put_in_row_major_order(struct reading *reading)
{
    for (int i = 0; i < OPERANDS; i++) {
        struct tensor *tensor = place_of(reading->operands, i);
        if (tensor->rank == 0 || !tensor->fortran)
            continue;
        void *copy = malloc(tensor->bytes);
        if (copy == NULL)
            return fault_set(reading->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                             "no memory to transpose %s", titles[i]);
        tensor_copy_row_major(tensor, copy);
        reading->operands->copies[i] = copy;
        tensor->data = copy;
        tensor->fortran = false;
    }
    return GEMMD_OK;
}

enum gemmd_error operands_open(struct operands *operands, const struct operand_paths *paths,
                               struct gemm_request *request, struct fault *fault)
{
    struct reading reading = {operands, paths, request, fault};
    enum gemmd_error code = GEMMD_OK;
    *operands = (struct operands){0};
    operands->format = format_of_first(&reading);
    if (paths->resident_a != NULL)
        operands->bound.a = *paths->resident_a;
    if (paths->resident_b != NULL)
        operands->bound.b = *paths->resident_b;
    if (paths->a != NULL && paths->b == NULL && paths->resident_b == NULL) {
        code = take_all(&reading, paths->a);
    } else {
        if (paths->a != NULL)
            code = take(&reading, A, paths->a);
        if (code == GEMMD_OK && paths->b != NULL)
            code = take(&reading, B, paths->b);
    }
    if (code == GEMMD_OK && paths->bias != NULL)
        code = take(&reading, BIAS, paths->bias);
    if (code == GEMMD_OK && paths->c0 != NULL)
        code = take(&reading, C0, paths->c0);
    if (code == GEMMD_OK)
        code = check_all_taken(&reading);
    if (code == GEMMD_OK)
        code = gemm_request_bind_tensors(request, &operands->bound, fault);
    if (code == GEMMD_OK)
        code = put_in_row_major_order(&reading);
    return code;
}

void operands_close(struct operands *operands)
{
    for (int i = 0; i <= STANDARD_INPUT; i++)
        input_close(&operands->inputs[i]);
    for (int i = 0; i < OPERANDS; i++)
        free(operands->copies[i]);
}
