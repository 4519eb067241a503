#include "client/gemmctl/tensor_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/npy.h"
#include "proto/safetensors.h"

enum { STANDARD_INPUT = TENSOR_FILES_MAX };

struct reading {
    struct tensor_files *files;
    const struct tensor_files_wanted *wanted;
    const struct tensor_files_kind *kind;
    struct fault *fault;
};

static enum format format_of(const struct reading *reading, const char *path)
{
    enum format format = FORMAT_NPY;
    if (reading->wanted->format != NULL)
        return *reading->wanted->format;
    format_of_path(path, &format);
    return format;
}

static const char *first_path(const struct reading *reading)
{
    for (uint32_t i = 0; i < reading->kind->table->count; i++)
        if (reading->wanted->paths[i] != NULL)
            return reading->wanted->paths[i];
    return NULL;
}

/* Opens the file of an operand. Standard input is opened once, for the first operand that uses
 * standard input. */
static enum gemmd_error open_input(struct reading *reading, uint32_t operand, const char *path,
                                   struct input **input)
{
    struct input *inputs = reading->files->inputs;
    bool standard = strcmp(path, "-") == 0;
    *input = &inputs[standard ? STANDARD_INPUT : operand];
    if (standard && (*input)->name != NULL)
        return GEMMD_OK;
    return input_open(*input, path, reading->fault);
}

static enum gemmd_error take_npy(struct reading *reading, uint32_t operand, struct input *input)
{
    const char *title = reading->kind->table->operands[operand].title;
    struct tensor *tensors = reading->files->tensors;
    struct fault reason = {0};
    uint64_t consumed = 0;
    if (input->taken == input->bytes)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL, "%.96s ends before %s",
                         input->name, title);
    enum gemmd_error code =
        npy_decode(input->data + input->taken, input->bytes - input->taken,
                   reading->kind->carrier(reading->wanted->request, tensors, operand),
                   &tensors[operand], &consumed, &reason);
    if (code != GEMMD_OK)
        return fault_set(reading->fault, code, reason.field, "%s in %.96s: %s", title, input->name,
                         reason.detail);
    if (tensors[operand].rank == 0)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s in %.96s is a scalar, not an array", title, input->name);
    input->taken += consumed;
    return GEMMD_OK;
}

static enum gemmd_error take_raw(struct reading *reading, uint32_t operand, struct input *input)
{
    const struct tensor_files_kind *kind = reading->kind;
    struct tensor *tensors = reading->files->tensors, *tensor = &tensors[operand];
    uint64_t left = input->bytes - input->taken;
    if (!kind->knows_sizes(reading->wanted->request))
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "files of raw bytes do not tell their shape; give %s", kind->sizes);
    if (!kind->raw(reading->wanted->request, tensors, operand, tensor))
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL, "%s is larger than 2^63 bytes",
                         kind->table->operands[operand].title);
    if (tensor->bytes > left)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s has %llu bytes for %s, which takes %llu", input->name,
                         (unsigned long long)left, kind->table->operands[operand].title,
                         (unsigned long long)tensor->bytes);
    tensor->data = input->data + input->taken;
    input->taken += tensor->bytes;
    return GEMMD_OK;
}

static enum gemmd_error decode_safetensors(struct reading *reading, struct input *input,
                                           struct safetensors_entry entries[TENSOR_FILES_MAX],
                                           uint32_t *count)
{
    struct fault reason = {0};
    enum gemmd_error code = safetensors_decode(input->data, input->bytes, entries,
                                               reading->kind->table->count, count, &reason);
    input->taken = input->bytes;
    if (code != GEMMD_OK)
        return fault_set(reading->fault, code, reason.field, "%.96s: %s", input->name,
                         reason.detail);
    return GEMMD_OK;
}

/* Takes an operand from its own safetensors file: the tensor of the operand's name, or the only
 * tensor. */
static enum gemmd_error take_safetensors(struct reading *reading, uint32_t operand,
                                         struct input *input)
{
    const char *name = reading->kind->table->operands[operand].name;
    struct safetensors_entry entries[TENSOR_FILES_MAX];
    uint32_t count = 0;
    enum gemmd_error code = decode_safetensors(reading, input, entries, &count);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        if (count == 1 || strcmp(entries[i].name, name) == 0) {
            reading->files->tensors[operand] = entries[i].tensor;
            return GEMMD_OK;
        }
    }
    if (code == GEMMD_OK)
        code = fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%.96s has %u tensors, none of them named '%s' for %s", input->name, count,
                         name, reading->kind->table->operands[operand].title);
    return code;
}

static enum gemmd_error take_operand(struct reading *reading, uint32_t operand, const char *path)
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
    return fault_set(reading->fault, GEMMD_ERR_INTERNAL, NULL, "the format of the file is unknown");
}

static enum gemmd_error not_of_this_kind(const struct reading *reading, const struct input *input,
                                         const char *name)
{
    const struct tensor_files_kind *kind = reading->kind;
    char names[64] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < kind->table->count && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "",
                                   kind->table->operands[i].name);
    return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                     "%.96s has a tensor '%.48s'; the tensors of %s are %s", input->name, name,
                     kind->of, names);
}

/* Takes from one safetensors file all operands that have no file of their own. */
static enum gemmd_error take_all(struct reading *reading, uint32_t first, const char *path)
{
    const struct tensor_files_kind *kind = reading->kind;
    struct safetensors_entry entries[TENSOR_FILES_MAX];
    struct input *input;
    uint32_t count = 0;
    if (format_of(reading, path) != FORMAT_SAFETENSORS)
        return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s is missing; only a safetensors file holds all operands of %s",
                         kind->table->operands[first + 1].title, kind->of);
    enum gemmd_error code = open_input(reading, first, path, &input);
    if (code == GEMMD_OK)
        code = decode_safetensors(reading, input, entries, &count);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        uint32_t operand = 0;
        while (operand < kind->table->count &&
               strcmp(entries[i].name, kind->table->operands[operand].name) != 0)
            operand++;
        if (kind->one_suffices && count == 1)
            operand = first;
        if (operand == kind->table->count)
            code = not_of_this_kind(reading, input, entries[i].name);
        else if (operand == first || reading->wanted->paths[operand] == NULL)
            reading->files->tensors[operand] = entries[i].tensor;
    }
    return code;
}

/* Refuses files with bytes that no operand has used: the shapes or the files are then not the ones
 * that the user means. */
static enum gemmd_error check_all_taken(const struct reading *reading)
{
    for (int i = 0; i <= STANDARD_INPUT; i++) {
        const struct input *input = &reading->files->inputs[i];
        if (input->taken < input->bytes)
            return fault_set(reading->fault, GEMMD_ERR_MALFORMED, NULL,
                             "%.96s has %llu bytes more than its operand takes", input->name,
                             (unsigned long long)(input->bytes - input->taken));
    }
    return GEMMD_OK;
}

enum gemmd_error tensor_files_open(struct tensor_files *files,
                                   const struct tensor_files_wanted *wanted, struct fault *fault)
{
    struct reading reading = {files, wanted, wanted->kind, fault};
    const char *first = first_path(&reading);
    enum gemmd_error code = GEMMD_OK;
    *files = (struct tensor_files){.format = FORMAT_NPY};
    if (first != NULL || wanted->format != NULL)
        files->format = format_of(&reading, first);
    for (uint32_t i = 0; i < wanted->kind->table->count && code == GEMMD_OK; i++) {
        if (wanted->paths[i] == NULL)
            continue;
        code = i == wanted->together ? take_all(&reading, i, wanted->paths[i])
                                     : take_operand(&reading, i, wanted->paths[i]);
    }
    return code == GEMMD_OK ? check_all_taken(&reading) : code;
}

static enum gemmd_error make_row_major(struct tensor_files *files,
                                       const struct tensor_files_kind *kind, uint32_t number,
                                       struct tensor *tensor, struct fault *fault)
{
    if (!operand_is_there(tensor) || !tensor->fortran)
        return GEMMD_OK;
    void *copy = malloc(tensor->bytes);
    if (copy == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory to transpose %s",
                         kind->table->operands[number].title);
    tensor_copy_row_major(tensor, copy);
    files->copies[number] = copy;
    tensor->data = copy;
    tensor->fortran = false;
    return GEMMD_OK;
}

enum gemmd_error tensor_files_make_row_major(struct tensor_files *files,
                                             const struct tensor_files_kind *kind,
                                             struct tensor *tensors, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < kind->table->count && code == GEMMD_OK; i++)
        code = make_row_major(files, kind, i, &tensors[i], fault);
    return code;
}

void tensor_files_close(struct tensor_files *files)
{
    for (int i = 0; i <= STANDARD_INPUT; i++)
        input_close(&files->inputs[i]);
    for (int i = 0; i < TENSOR_FILES_MAX; i++)
        free(files->copies[i]);
}
