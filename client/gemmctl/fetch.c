#include "client/gemmctl/fetch.h"

#include <string.h>

#include "client/gemmctl/await.h"
#include "client/gemmctl/formats.h"
#include "client/gemmctl/report.h"
#include "client/gemmctl/save.h"

static int write_result(const struct context *context, const struct formats *formats,
                        const char *path, const char *name, const struct gemmd_result *result)
{
    const char *lse_path = context->arguments->values[OPTION_LSE];
    struct fault fault = {0};
    struct tensor tensor, lse;
    const struct save_file files[] = {
        {path, name, formats_out(formats, path, FORMAT_NPY), &tensor},
        {lse_path, "lse",
         lse_path != NULL ? formats_out(formats, lse_path, FORMAT_NPY) : FORMAT_NPY, &lse},
    };
    (void)tensor_init(&tensor, result->dtype, result->dims, result->rank, result->data);
    if (lse_path != NULL && result->lse == NULL)
        fault_set(&fault, GEMMD_ERR_NOT_FOUND, NULL,
                  "the job has computed no lse; hand the attention in with --async --with-lse");
    else if (lse_path != NULL)
        (void)tensor_init(&lse, GEMMD_F32, result->lse_dims, result->lse_rank, result->lse);
    if (fault.code != GEMMD_OK || save(files, lse_path != NULL ? 2 : 1, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    report_result(context, result, path, NULL);
    return EXIT_OK;
}

int fetch(const struct context *context, fetch_submit *submit, const char *name)
{
    const struct arguments *arguments = context->arguments;
    const char *what = arguments->operands[0], *path = arguments->values[OPTION_OUTPUT];
    const char *lse_path = arguments->values[OPTION_LSE];
    char problem[PROBLEM_MAX];
    struct formats formats;
    struct gemmd_error_info error;
    struct gemmd_result result;
    if (path == NULL)
        path = "-";
    if (lse_path != NULL && strcmp(lse_path, path) == 0)
        return fail_usage(context, "--lse and --output name the same file; name two files");
    if (!formats_read(arguments, &formats, problem))
        return fail_usage(context, problem);
    int code = formats_check_name(context, &formats, path);
    if (code == EXIT_OK)
        code = formats_check_stream(context, path);
    if (code == EXIT_OK && lse_path != NULL)
        code = formats_check_name(context, &formats, lse_path);
    if (code == EXIT_OK && lse_path != NULL)
        code = formats_check_stream(context, lse_path);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;
    gemmd_result_init(&result, sizeof result);
    if (await(context, submit(client, what, &error), &result, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (result.data == NULL)
        code = report_stored(context, &result, what);
    else
        code = write_result(context, &formats, path, name, &result);
    gemmd_free(result.data);
    gemmd_free(result.lse);
    gemmd_client_free(client);
    return code;
}
