#include "client/gemmctl/fetch.h"

#include "client/gemmctl/await.h"
#include "client/gemmctl/formats.h"
#include "client/gemmctl/report.h"
#include "client/gemmctl/save.h"

static int keep(const struct context *context, const struct formats *formats, const char *path,
                const char *name, const struct gemmd_result *result)
{
    struct fault fault = {0};
    struct tensor tensor;
    (void)tensor_init(&tensor, result->dtype, result->dims, result->rank, result->data);
    if (save(path, formats_out(formats, path, FORMAT_NPY), name, &tensor, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    report_result(context, result, path);
    return EXIT_OK;
}

int fetch(const struct context *context, fetch_submit *submit, const char *name)
{
    const struct arguments *arguments = context->arguments;
    const char *what = arguments->operands[0], *path = arguments->values[OPTION_OUTPUT];
    char problem[PROBLEM_MAX];
    struct formats formats;
    struct gemmd_error_info error;
    struct gemmd_result result;
    if (path == NULL)
        path = "-";
    int code = formats_check_stream(context, path);
    if (code != EXIT_OK)
        return code;
    if (!formats_read(arguments, &formats, problem))
        return fail_usage(context, problem);
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;
    gemmd_result_init(&result, sizeof result);
    if (await(context, submit(client, what, &error), &result, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (result.data == NULL)
        code = report_stored(context, &result, what);
    else
        code = keep(context, &formats, path, name, &result);
    gemmd_free(result.data);
    gemmd_free(result.lse);
    gemmd_client_free(client);
    return code;
}
