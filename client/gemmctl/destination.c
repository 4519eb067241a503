#include "client/gemmctl/destination.h"

#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/parameters.h"

static int choose_lse(const struct context *context, struct destination *destination)
{
    const bool later = option_flag(context->arguments, OPTION_WITH_LSE);
    destination->lse_path = context->arguments->values[OPTION_LSE];
    destination->with_lse = later || destination->lse_path != NULL;
    if (later && !destination->is_job)
        return fail_usage(context,
                          "--with-lse needs --async; without a job, --lse FILE writes lse");
    if (destination->lse_path == NULL)
        return EXIT_OK;
    if (destination->is_job)
        return fail_usage(context,
                          "--lse cannot be used with --async; use --with-lse, and fetch lse "
                          "with 'gemmctl job result --lse FILE'");
    if (destination->path != NULL && strcmp(destination->lse_path, destination->path) == 0)
        return fail_usage(context, "--lse and --output name the same file; name two files");
    const int code = formats_check_name(context, &destination->formats, destination->lse_path);
    return code == EXIT_OK ? formats_check_stream(context, destination->lse_path) : code;
}

int destination_choose(const struct context *context, struct destination *destination)
{
    const struct arguments *arguments = context->arguments;
    const char *path = arguments->values[OPTION_OUTPUT];
    bool stored = arguments->values[OPTION_STORE] != NULL;
    char problem[PROBLEM_MAX];
    *destination = (struct destination){.output = {.fd = -1}, .lse = {.fd = -1}};
    destination->is_job = option_flag(arguments, OPTION_ASYNC);
    if (path != NULL && destination->is_job)
        return fail_usage(context, "--output cannot be used with --async; fetch the result with "
                                   "'gemmctl job result --output FILE'");
    if (path != NULL && stored)
        return fail_usage(context,
                          "--store keeps the result on the daemon and --output writes it to a "
                          "file; choose one");
    if (resident_name(path) != NULL && (options[OPTION_STORE].takers & arguments->command->taker))
        return fail_usage(context,
                          "--output takes the name of a file; use --store NAME to keep the "
                          "result on the daemon");
    if (!formats_read(arguments, &destination->formats, problem))
        return fail_usage(context, problem);
    destination->dropped =
        path == NULL && !destination->is_job && !stored && arguments->values[OPTION_RANDOM] != NULL;
    if (!destination->is_job && !stored && !destination->dropped)
        destination->path = path != NULL ? path : "-";
    int code = EXIT_OK;
    if (destination->path != NULL)
        code = formats_check_name(context, &destination->formats, destination->path);
    if (destination->path != NULL && code == EXIT_OK)
        code = formats_check_stream(context, destination->path);
    return code == EXIT_OK ? choose_lse(context, destination) : code;
}

bool destination_deadline(const struct context *context, const struct destination *destination,
                          uint32_t *timeout_ms, char problem[PROBLEM_MAX])
{
    return !destination->is_job ||
           option_time_ms(context->arguments, OPTION_TIMEOUT, 0, timeout_ms, problem);
}

static enum gemmd_error open_file(const struct destination *destination, const char *path,
                                  enum format otherwise, const char *name,
                                  const struct tensor *tensor, struct output *output, void **data,
                                  uint64_t *bytes, struct fault *fault)
{
    enum format format = formats_out(&destination->formats, path, otherwise);
    enum gemmd_error code = output_open(output, path, format, name, tensor, fault);
    if (code != GEMMD_OK)
        return code;
    *data = output_data(output);
    *bytes = tensor->bytes;
    return GEMMD_OK;
}

enum gemmd_error destination_open(struct destination *destination, enum format otherwise,
                                  const char *name, const struct tensor *result, void **data,
                                  uint64_t *bytes, struct fault *fault)
{
    if (destination->path != NULL)
        return open_file(destination, destination->path, otherwise, name, result,
                         &destination->output, data, bytes, fault);
    if (!destination->dropped)
        return GEMMD_OK;
    destination->memory = malloc(result->bytes);
    if (destination->memory == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for the result");
    *data = destination->memory;
    *bytes = result->bytes;
    return GEMMD_OK;
}

enum gemmd_error destination_open_lse(struct destination *destination, enum format otherwise,
                                      const struct tensor *lse, void **data, uint64_t *bytes,
                                      struct fault *fault)
{
    return destination->lse_path == NULL
               ? GEMMD_OK
               : open_file(destination, destination->lse_path, otherwise, "lse", lse,
                           &destination->lse, data, bytes, fault);
}

int destination_commit(const struct context *context, struct destination *destination,
                       const struct gemmd_result *result, const struct report_work *work)
{
    struct fault fault = {0};
    if (destination->is_job)
        return report_job_taken(context, result);
    if (destination->dropped) {
        report_result(context, result, NULL, work);
        return EXIT_OK;
    }
    if (destination->path == NULL)
        return report_stored(context, result, context->arguments->values[OPTION_STORE]);
    if (output_commit(&destination->output, &fault) != GEMMD_OK ||
        (destination->lse_path != NULL && output_commit(&destination->lse, &fault) != GEMMD_OK))
        return fail_fault(context, &fault);
    report_result(context, result, destination->path, work);
    return EXIT_OK;
}

void destination_close(struct destination *destination, struct gemmd_result *result)
{
    if (destination->path == NULL && !destination->dropped)
        gemmd_free(result->data);
    free(destination->memory);
    if (destination->lse_path == NULL)
        gemmd_free(result->lse);
    output_close(&destination->output);
    output_close(&destination->lse);
}
