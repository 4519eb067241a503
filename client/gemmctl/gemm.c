#include <stdio.h>

#include "client/gemmctl/await.h"
#include "client/gemmctl/check_product.h"
#include "client/gemmctl/check_run.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/flops.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/operands.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/random_operands.h"
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

/* Refuses what --check and --random exclude. Returns EXIT_OK or the exit code. */
static int gemm_check_options(const struct context *context, const struct destination *destination)
{
    const struct arguments *arguments = context->arguments;
    if (arguments->operand_count == 0 && arguments->values[OPTION_RANDOM] == NULL)
        return fail_usage(context, "an operand is missing; usage: gemmctl gemm A [B] [-o C], or "
                                   "gemmctl gemm --random MxNxK");
    return check_run_allows(context, destination);
}

struct product {
    const struct gemm_request *request;
    const struct gemm_operands *operands;
    const void *c;
};

static enum gemmd_error gemm_compare(const void *argument, struct progress_line *line,
                                     struct check *check)
{
    const struct product *product = argument;
    return check_product(product->request, product->operands, product->c, line, check);
}

static void gemm_where(const void *argument, uint64_t at, char *out, size_t room)
{
    const struct gemm_request *r = ((const struct product *)argument)->request;
    snprintf(out, room, "in row %llu and column %llu of problem %llu",
             (unsigned long long)(at / r->n % r->m), (unsigned long long)(at % r->n),
             (unsigned long long)(at / r->n / r->m));
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
    struct random_operands random = {0};
    struct check check;
    struct operand_paths paths = {
        .a = arguments->operands[0],
        .b = arguments->operand_count > 1 ? arguments->operands[1] : NULL,
        .bias = arguments->values[OPTION_BIAS],
        .c0 = arguments->values[OPTION_C0],
        .a_scale = arguments->values[OPTION_A_SCALE],
        .b_scale = arguments->values[OPTION_B_SCALE],
    };
    int code = destination_choose(context, &destination);
    if (code == EXIT_OK)
        code = gemm_check_options(context, &destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;

    gemmd_result_init(&result, sizeof result);
    if (destination.formats.in_given)
        paths.format = &destination.formats.in;
    if (parameters_read_gemm(&request, arguments, &fault) != GEMMD_OK ||
        random_operands_open(&random, arguments, &request, &fault) != GEMMD_OK)
        goto faulty;
    if (arguments->values[OPTION_RANDOM] != NULL) {
        paths.resident_a = &random.a;
        paths.resident_b = &random.b;
    }
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
    const struct product product = {&request, &operands.bound, gemm.c};
    if (option_flag(arguments, OPTION_CHECK))
        code = check_run(context, "C", gemm_compare, gemm_where, &product, &check);
    const struct report_work work = {
        .name = "C",
        .flops = flops_of_gemm(&request),
        .check = option_flag(arguments, OPTION_CHECK) ? &check : NULL,
    };
    if (code == EXIT_OK)
        code = destination_commit(context, &destination, &result, &work);
    goto done;

failed:
    code = fail_request(context, &error);
    goto done;
faulty:
    code = fail_fault(context, &fault);
done:
    destination_close(&destination, &result);
    operands_close(&operands);
    random_operands_close(&random);
    gemmd_client_free(client);
    return code;
}
