#include "client/gemmctl/await.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/operands.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/resident.h"

/* A and B that are on the daemon already. */
struct residents {
    struct tensor tensors[2];
    bool is_resident[2];
};

/* Their shapes decide what the other operands must be. */
static enum gemmd_error look_at_residents(const struct context *context,
                                          struct gemmd_client *client, struct residents *residents,
                                          struct gemm_request *request,
                                          struct gemmd_error_info *error)
{
    static const char *const parameters[] = {"a", "b"};
    const struct arguments *arguments = context->arguments;
    for (uint32_t i = 0; i < 2 && i < arguments->operand_count; i++) {
        const char *name = resident_name(arguments->operands[i]);
        if (name == NULL)
            continue;
        enum gemmd_error code = resident_look(client, name, &residents->tensors[i], error);
        if (code != GEMMD_OK)
            return code;
        /* The name is right and not given before. */
        (void)gemm_request_set(request, parameters[i], name, &(struct fault){0});
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

int command_gemm(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    char problem[PROBLEM_MAX];
    struct gemm_request request;
    struct operands operands = {0};
    struct residents residents = {0};
    struct destination destination;
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct gemmd_gemm gemm;
    struct tensor shape;
    struct fault fault = {0};
    int code = destination_choose(context, &destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;

    gemmd_result_init(&result, sizeof result);
    if (parameters_read_gemm(&request, arguments, &fault) != GEMMD_OK)
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
    if (!destination_deadline(context, &destination, &gemm.timeout_ms, problem)) {
        code = fail_usage(context, problem);
        goto done;
    }
    interrupt_watch(); /* from here on there is a temporary file to be removed */
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
