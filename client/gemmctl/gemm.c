#include <string.h>

#include "client/gemmctl/await.h"
#include "client/gemmctl/formats.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/operands.h"
#include "client/gemmctl/output.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/report.h"

/* Where C goes. */
struct destination {
    const char *path; /* NULL: it is not fetched */
    bool is_job;
    struct formats formats;
    struct output output;
};

static int choose_destination(const struct context *context, struct destination *destination)
{
    const struct arguments *arguments = context->arguments;
    const char *path = arguments->values[OPTION_OUTPUT];
    bool stored = arguments->values[OPTION_STORE] != NULL;
    char problem[PROBLEM_MAX];
    destination->is_job = option_flag(arguments, OPTION_ASYNC);
    if (path != NULL && destination->is_job)
        return fail_usage(context, "a job's result is not there yet; 'gemmctl job result' takes "
                                   "--output");
    if (path != NULL && stored)
        return fail_usage(context, "--store keeps the result on the daemon and --output is a file; "
                                   "choose one");
    if (!formats_read(arguments, &destination->formats, problem))
        return fail_usage(context, problem);
    if (destination->is_job || stored)
        return EXIT_OK;
    destination->path = path != NULL ? path : "-";
    return formats_check_stream(context, destination->path);
}

/* A and B that are on the daemon already: their names and what they are. */
struct residents {
    struct tensor tensors[2];
    bool is_resident[2];
};

static const char *name_of_resident(const char *path)
{
    static const char prefix[] = "tensor:";
    bool is_resident = path != NULL && strncmp(path, prefix, sizeof prefix - 1) == 0;
    return is_resident ? path + sizeof prefix - 1 : NULL;
}

/* Their shapes decide what the other operands must be. */
static enum gemmd_error look_at_residents(const struct context *context,
                                          struct gemmd_client *client, struct residents *residents,
                                          struct gemm_request *request,
                                          struct gemmd_error_info *error)
{
    static const char *const parameters[] = {"a", "b"};
    const struct arguments *arguments = context->arguments;
    struct fault fault;
    for (uint32_t i = 0; i < 2 && i < arguments->operand_count; i++) {
        struct gemmd_result result;
        const char *name = name_of_resident(arguments->operands[i]);
        if (name == NULL)
            continue;
        gemmd_result_init(&result, sizeof result);
        enum gemmd_error code = gemmd_tensor_stat(client, name, NULL, &result, error);
        if (code != GEMMD_OK)
            return code;
        /* The name is right and not given before, and so is a shape that the library passed on. */
        (void)gemm_request_set(request, parameters[i], name, &fault);
        (void)tensor_init(&residents->tensors[i], result.dtype, result.dims, result.rank, NULL);
        residents->is_resident[i] = true;
    }
    return GEMMD_OK;
}

static struct operand_paths operand_paths(const struct arguments *arguments,
                                          const struct formats *formats,
                                          const struct residents *residents)
{
    const bool *is_resident = residents->is_resident;
    return (struct operand_paths){
        .a = is_resident[0] ? NULL : arguments->operands[0],
        .b = arguments->operand_count > 1 && !is_resident[1] ? arguments->operands[1] : NULL,
        .resident_a = is_resident[0] ? &residents->tensors[0] : NULL,
        .resident_b = is_resident[1] ? &residents->tensors[1] : NULL,
        .bias = arguments->values[OPTION_BIAS],
        .c0 = arguments->values[OPTION_C0],
        .format = formats->in_given ? &formats->in : NULL,
    };
}

/* A job's deadline is its own, not that of handing it in. */
static bool read_deadline(const struct context *context, struct gemmd_gemm *gemm,
                          char problem[PROBLEM_MAX])
{
    return gemm->job == 0 ||
           option_time_ms(context->arguments, OPTION_TIMEOUT, 0, &gemm->timeout_ms, problem);
}

static int conclude(const struct context *context, struct destination *destination,
                    struct gemmd_result *result, struct fault *fault)
{
    if (destination->is_job)
        return report_job_taken(context, result);
    if (destination->path == NULL)
        return report_stored(context, result, context->arguments->values[OPTION_STORE]);
    if (output_commit(&destination->output, fault) != GEMMD_OK)
        return fail_fault(context, fault);
    report_result(context, result, destination->path);
    return EXIT_OK;
}

int command_gemm(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    char problem[PROBLEM_MAX];
    struct gemm_request request;
    struct operands operands = {0};
    struct residents residents = {0};
    struct destination destination = {.output = {.fd = -1}};
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct gemmd_gemm gemm;
    struct tensor shape;
    struct fault fault = {0};
    int code = choose_destination(context, &destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;

    gemmd_result_init(&result, sizeof result);
    if (parameters_read(&request, arguments, &fault) != GEMMD_OK)
        goto faulty;
    if (look_at_residents(context, client, &residents, &request, &error) != GEMMD_OK)
        goto failed;
    const struct operand_paths paths = operand_paths(arguments, &destination.formats, &residents);
    if (operands_open(&operands, &paths, &request, &fault) != GEMMD_OK)
        goto faulty;
    if (!gemm_request_result(&request, NULL, &shape)) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL, "the result has more than 2^63 bytes");
        goto faulty;
    }
    parameters_to_gemm(&request, &operands.bound, &gemm);
    gemm.job = destination.is_job;
    if (!read_deadline(context, &gemm, problem)) {
        code = fail_usage(context, problem);
        goto done;
    }
    interrupt_watch(); /* from here on there is a temporary file to be removed */
    if (destination.path != NULL) {
        enum format format = formats_out(&destination.formats, destination.path, operands.format);
        if (output_open(&destination.output, destination.path, format, "c", &shape, &fault) !=
            GEMMD_OK)
            goto faulty;
        gemm.c = output_data(&destination.output);
        gemm.c_bytes = shape.bytes;
    }
    if (await(context, gemmd_gemm_submit(client, &gemm, &error), &result, &error) != GEMMD_OK)
        goto failed;
    code = conclude(context, &destination, &result, &fault);
    goto done;

failed:
    code = fail_request(context, &error);
    goto done;
faulty:
    code = fail_fault(context, &fault);
done:
    if (destination.path == NULL)
        gemmd_free(result.data);
    output_close(&destination.output);
    operands_close(&operands);
    gemmd_client_free(client);
    return code;
}
