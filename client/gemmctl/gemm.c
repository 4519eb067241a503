#include "client/gemmctl/await.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/operands.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/resident.h"

/* Asks the daemon for the types and shapes of a resident A and B, on which the shapes of the other
 * operands depend. */
static enum gemmd_error gemm_look_at_residents(struct gemmd_client *client,
                                               struct tensor residents[2],
                                               struct operand_paths *paths,
                                               struct gemm_request *request,
                                               struct gemmd_error_info *error)
{
    enum gemmd_error code = resident_take(client, &gemm_parameter_table, request, "a", &paths->a,
                                          &residents[0], &paths->resident_a, error);
    return code == GEMMD_OK ? resident_take(client, &gemm_parameter_table, request, "b", &paths->b,
                                            &residents[1], &paths->resident_b, error)
                            : code;
}

int command_gemm(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    char problem[PROBLEM_MAX];
    struct gemm_request request;
    struct operands operands = {0};
    struct tensor residents[2], shape;
    struct destination destination;
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct gemmd_gemm gemm;
    struct fault fault = {0};
    struct operand_paths paths = {
        .a = arguments->operands[0],
        .b = arguments->operand_count > 1 ? arguments->operands[1] : NULL,
        .bias = arguments->values[OPTION_BIAS],
        .c0 = arguments->values[OPTION_C0],
    };
    int code = destination_choose(context, &destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;

    gemmd_result_init(&result, sizeof result);
    if (destination.formats.in_given)
        paths.format = &destination.formats.in;
    if (parameters_read_gemm(&request, arguments, &fault) != GEMMD_OK)
        goto faulty;
    if (gemm_look_at_residents(client, residents, &paths, &request, &error) != GEMMD_OK)
        goto failed;
    if (operands_open(&operands, &paths, &request, &fault) != GEMMD_OK)
        goto faulty;
    if (!gemm_request_result(&request, NULL, &shape)) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL, "the result has more than 2^63 bytes");
        goto faulty;
    }
    parameters_to_gemm(&request, &operands.bound, &gemm);
    gemm.job = destination.is_job;
    if (!destination_deadline(context, &destination, &gemm.timeout_ms, problem)) {
        code = fail_usage(context, problem);
        goto done;
    }
    interrupt_watch(); /* from here on an interrupted command has to remove a temporary file */
    if (destination_open(&destination, operands.files.format, "c", &shape, &gemm.c, &gemm.c_bytes,
                         &fault) != GEMMD_OK)
        goto faulty;
    if (await(context, gemmd_gemm_submit(client, &gemm, &error), &result, &error) != GEMMD_OK)
        goto failed;
    code = destination_commit(context, &destination, &result);
    goto done;

failed:
    code = fail_request(context, &error);
    goto done;
faulty:
    code = fail_fault(context, &fault);
done:
    destination_close(&destination, &result);
    operands_close(&operands);
    gemmd_client_free(client);
    return code;
}
