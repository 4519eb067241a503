#include <stdio.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/operands.h"
#include "client/gemmctl/output.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/report.h"

struct formats {
    enum format in, out;
    bool in_given, out_given;
};

static bool read_format(const struct arguments *arguments, enum option_id id, enum format *format,
                        bool *given, char problem[PROBLEM_MAX])
{
    const char *name =
        arguments->values[id] != NULL ? arguments->values[id] : arguments->values[OPTION_FORMAT];
    if (name == NULL)
        return true;
    *given = format_from_name(name, format);
    if (!*given)
        snprintf(problem, PROBLEM_MAX, "'%.64s' is no format; npy, safetensors and raw are", name);
    return *given;
}

static bool read_formats(const struct arguments *arguments, struct formats *formats,
                         char problem[PROBLEM_MAX])
{
    *formats = (struct formats){0};
    return read_format(arguments, OPTION_IN_FORMAT, &formats->in, &formats->in_given, problem) &&
           read_format(arguments, OPTION_OUT_FORMAT, &formats->out, &formats->out_given, problem);
}

/* The output's name tells its format; a pipe's is that of the operands. */
static enum format output_format(const struct formats *formats, const char *path,
                                 enum format operands)
{
    enum format format = operands;
    if (formats->out_given)
        return formats->out;
    format_of_path(path, &format);
    return format;
}

static int check_streams(const struct context *context, const char *output)
{
    bool standard = strcmp(output, "-") == 0;
    if (standard && option_flag(context->arguments, OPTION_JSON))
        return fail_usage(context, "--json needs standard output for itself; name a file with "
                                   "--output");
    if (standard && context->terminal.out_is_tty)
        return fail_usage(context, "the result is binary and this is a terminal; name a file with "
                                   "--output, or use a pipe");
    return EXIT_OK;
}

/* Runs the request to its end, or until it is interrupted. */
static enum gemmd_error run(const struct context *context, struct gemmd_client *client,
                            const struct gemmd_gemm *gemm, struct gemmd_result *result,
                            struct gemmd_error_info *error)
{
    struct progress_line line;
    bool quiet = option_flag(context->arguments, OPTION_QUIET);
    struct gemmd_request *request = gemmd_gemm_submit(client, gemm, error);
    if (request == NULL)
        return error->code;
    progress_start(&line, &context->terminal, quiet);
    while (!gemmd_wait(request, INTERRUPT_CHECK_MS)) {
        progress_draw(&line, request);
        if (interrupt_asked())
            gemmd_cancel(request);
    }
    progress_end(&line);
    enum gemmd_error code = gemmd_request_result(request, result, error);
    gemmd_request_free(request);
    return code;
}

int command_gemm(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const char *path = arguments->values[OPTION_OUTPUT];
    char problem[PROBLEM_MAX];
    struct formats formats;
    struct gemm_request request;
    struct operands operands = {0};
    struct output output = {.fd = -1};
    struct gemmd_client *client = NULL;
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct fault fault = {0};
    if (path == NULL)
        path = "-";
    int code = check_streams(context, path);
    if (code != EXIT_OK)
        return code;
    if (!read_formats(arguments, &formats, problem))
        return fail_usage(context, problem);
    client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;

    const struct operand_paths paths = {
        .a = arguments->operands[0],
        .b = arguments->operand_count > 1 ? arguments->operands[1] : NULL,
        .bias = arguments->values[OPTION_BIAS],
        .c0 = arguments->values[OPTION_C0],
        .format = formats.in_given ? &formats.in : NULL,
    };
    struct tensor shape;
    struct gemmd_gemm gemm;
    if (parameters_read(&request, arguments, &fault) != GEMMD_OK ||
        operands_open(&operands, &paths, &request, &fault) != GEMMD_OK)
        goto faulty;
    if (!gemm_request_result(&request, NULL, &shape)) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL, "the result has more than 2^63 bytes");
        goto faulty;
    }
    interrupt_watch(); /* from here on there is a temporary file to be removed */
    if (output_open(&output, path, output_format(&formats, path, operands.format), &shape,
                    &fault) != GEMMD_OK)
        goto faulty;
    parameters_to_gemm(&request, &operands.bound, &gemm);
    gemm.c = output_data(&output);
    gemm.c_bytes = shape.bytes;
    gemmd_result_init(&result, sizeof result);
    if (run(context, client, &gemm, &result, &error) != GEMMD_OK) {
        code = fail_request(context, &error);
        goto done;
    }
    if (output_commit(&output, &fault) != GEMMD_OK)
        goto faulty;
    report_result(context, &result, path);
    goto done;

faulty:
    code = fail_fault(context, &fault);
done:
    output_close(&output);
    operands_close(&operands);
    gemmd_client_free(client);
    return code;
}
