#include "client/gemmctl/fetch.h"

#include <stdio.h>
#include <string.h>

#include "client/gemmctl/formats.h"
#include "client/gemmctl/output.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/report.h"

/* ---- files ---- */

/* A tensor and its file; the members are arguments of output_open (output.h), and are borrowed. */
struct save_file {
    const char *path, *name;
    enum format format;
    const struct tensor *tensor;
    const struct tensor *scale; /* NULL: the file holds the tensor alone; else `format` is
                                   FORMAT_SAFETENSORS, and `name` is not used */
};
enum { SAVE_FILES_MAX = 2 };

/* Opens the file and copies the tensors into the file. */
static enum gemmd_error save_fill(const struct save_file *file, struct output *output,
                                  struct fault *fault)
{
    const struct tensor *tensor = file->tensor, *scale = file->scale;
    const enum gemmd_error code =
        scale != NULL ? output_open_scaled(output, file->path, scale, tensor, fault)
                      : output_open(output, file->path, file->format, file->name, tensor, fault);
    if (code != GEMMD_OK)
        return code;
    char *data = output_data(output);
    if (scale != NULL) {
        memcpy(data, scale->data, scale->bytes);
        data += scale->bytes;
    }
    memcpy(data, tensor->data, tensor->bytes);
    return GEMMD_OK;
}

/* Writes up to SAVE_FILES_MAX files. No file appears before all of them are written. On failure
 * `fault` has a sentence. */
static enum gemmd_error save(const struct save_file files[], uint32_t count, struct fault *fault)
{
    struct output outputs[SAVE_FILES_MAX];
    enum gemmd_error code = GEMMD_OK;
    uint32_t opened = 0;
    for (; opened < count && code == GEMMD_OK; opened++)
        code = save_fill(&files[opened], &outputs[opened], fault);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
        code = output_commit(&outputs[i], fault);
    while (opened > 0)
        output_close(&outputs[--opened]);
    return code;
}

/* ---- the command ---- */

/* The array that an answer may have beside the result: the scales of a tensor, or lse. */
struct beside {
    const char *name, *path; /* path NULL: the command line names no file for the array */
    struct tensor array;     /* rank 0: the answer has no such array */
};

static struct beside beside_of(const struct context *context, enum option_id option,
                               const struct gemmd_result *result)
{
    struct beside beside = {.name = options[option].name,
                            .path = context->arguments->values[option]};
    if (option == OPTION_SCALE && result->scale != NULL)
        (void)tensor_init(&beside.array, GEMMD_F32, result->scale_dims, result->scale_rank,
                          result->scale);
    else if (option == OPTION_LSE && result->lse != NULL)
        (void)tensor_init(&beside.array, GEMMD_F32, result->lse_dims, result->lse_rank,
                          result->lse);
    return beside;
}

static enum gemmd_error beside_check(const struct beside *beside, enum option_id option,
                                     struct fault *fault)
{
    if (beside->path == NULL || beside->array.rank > 0)
        return GEMMD_OK;
    return fault_set(
        fault, GEMMD_ERR_NOT_FOUND, NULL, "%s",
        option == OPTION_SCALE
            ? "the tensor has no scales; leave out --scale"
            : "the job has computed no lse; hand the attention in with --async --with-lse");
}

/* Says that the file of a tensor lacks the tensor's scales. */
static void say_left_out(const struct context *context, const char *path)
{
    if (!option_flag(context->arguments, OPTION_QUIET))
        fprintf(stderr,
                "gemmctl: %s has the tensor without its scales, for which the format has no place; "
                "write a .safetensors file, or name a file for the scales with --scale\n",
                strcmp(path, "-") == 0 ? "standard output" : path);
}

static int write_result(const struct context *context, const struct formats *formats,
                        const char *path, const char *name, enum option_id option,
                        const struct gemmd_result *result)
{
    const struct beside beside = beside_of(context, option, result);
    const enum format format = formats_out(formats, path, FORMAT_NPY);
    const bool has_scales = option == OPTION_SCALE && beside.array.rank > 0,
               together = has_scales && beside.path == NULL && format == FORMAT_SAFETENSORS;
    const bool is_file = result->dtype == GEMMD_DTYPE_COUNT; /* of packed weights */
    struct fault fault = {0};
    struct tensor tensor;
    struct save_file files[SAVE_FILES_MAX] = {
        {path, name, is_file ? FORMAT_RAW : format, &tensor, together ? &beside.array : NULL},
    };
    uint32_t count = 1;
    if (beside.path != NULL && beside.array.rank > 0)
        files[count++] =
            (struct save_file){beside.path, beside.name,
                               formats_out(formats, beside.path, FORMAT_NPY), &beside.array, NULL};
    if (is_file)
        (void)tensor_init(&tensor, GEMMD_I8, &result->bytes, 1, result->data);
    else
        (void)tensor_init(&tensor, result->dtype, result->dims, result->rank, result->data);
    if (is_file && formats_out(formats, path, FORMAT_SAFETENSORS) != FORMAT_SAFETENSORS)
        fault_set(
            &fault, GEMMD_ERR_NOT_ACCEPTABLE, NULL,
            "the tensor is packed weights, whose file is a safetensors file; name a file that "
            "ends in .safetensors");
    if (fault.code != GEMMD_OK || beside_check(&beside, option, &fault) != GEMMD_OK ||
        save(files, count, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    const struct report_work work = {.scale_path = has_scales && !together ? beside.path
                                                   : together              ? path
                                                                           : NULL};
    report_result(context, result, path, &work);
    if (has_scales && work.scale_path == NULL)
        say_left_out(context, path);
    return EXIT_OK;
}

/* Checks that the files can be written in their formats. Returns EXIT_OK, or prints a sentence and
 * returns the exit code. */
static int check_files(const struct context *context, const struct formats *formats,
                       const char *path, enum option_id option)
{
    const char *beside = context->arguments->values[option];
    char problem[PROBLEM_MAX];
    if (beside != NULL && strcmp(beside, path) == 0) {
        snprintf(problem, sizeof problem, "--%s and --output name the same file; name two files",
                 options[option].name);
        return fail_usage(context, problem);
    }
    int code = formats_check_name(context, formats, path);
    if (code == EXIT_OK)
        code = formats_check_stream(context, path);
    if (code == EXIT_OK && beside != NULL)
        code = formats_check_name(context, formats, beside);
    if (code == EXIT_OK && beside != NULL)
        code = formats_check_stream(context, beside);
    return code;
}

int fetch(const struct context *context, fetch_submit *submit, const struct gemmd_call *call,
          const char *name, enum option_id beside)
{
    const struct arguments *arguments = context->arguments;
    const char *what = arguments->operands[0], *path = arguments->values[OPTION_OUTPUT];
    char problem[PROBLEM_MAX];
    struct formats formats;
    struct gemmd_error_info error;
    struct gemmd_result result;
    if (path == NULL)
        path = "-";
    if (!formats_read(arguments, &formats, problem))
        return fail_usage(context, problem);
    int code = check_files(context, &formats, path, beside);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    gemmd_result_init(&result, sizeof result);
    if (await(context, submit(client, what, call, &error), &result, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (result.data == NULL)
        code = report_stored(context, &result, what);
    else
        code = write_result(context, &formats, path, name, beside, &result);
    gemmd_free(result.data);
    gemmd_free(result.lse);
    gemmd_free(result.scale);
    gemmd_client_free(client);
    return code;
}
