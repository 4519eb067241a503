#include <stdio.h>

#include "client/gemmctl/check.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/operands.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/random_operands.h"

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

/* A product from the command line to the result. */
struct gemm_run {
    struct gemm_request request;
    struct operands operands;
    struct tensor residents[2]; /* of A and B, if they are tensors on the daemon */
    struct random_operands random;
    struct destination destination;
    struct tensor c; /* type and shape of the result */
    struct gemmd_gemm gemm;
    struct gemmd_result result;
};

/* Reads the parameters and the operands, and fills in run->gemm but for the result's room. Returns
 * EXIT_OK; on failure prints the reason and returns the exit code. */
static int gemm_prepare(const struct context *context, struct gemmd_client *client,
                        struct gemm_run *run)
{
    const struct arguments *arguments = context->arguments;
    struct gemmd_error_info error;
    struct fault fault = {0};
    char problem[PROBLEM_MAX];
    struct operand_paths paths = {
        .a = arguments->operands[0],
        .b = arguments->operand_count > 1 ? arguments->operands[1] : NULL,
        .bias = arguments->values[OPTION_BIAS],
        .c0 = arguments->values[OPTION_C0],
        .a_scale = arguments->values[OPTION_A_SCALE],
        .b_scale = arguments->values[OPTION_B_SCALE],
        .format = run->destination.formats.in_given ? &run->destination.formats.in : NULL,
    };
    if (parameters_read_gemm(&run->request, arguments, &fault) != GEMMD_OK ||
        random_operands_open(&run->random, arguments, &run->request, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    if (arguments->values[OPTION_RANDOM] != NULL) {
        paths.resident_a = &run->random.a;
        paths.resident_b = &run->random.b;
    }
    if (gemm_look_at_residents(client, run->residents, &paths, &run->request, &error) != GEMMD_OK)
        return fail_request(context, &error);
    if (paths.resident_b != NULL && paths.resident_b->dtype == GEMMD_DTYPE_COUNT) {
        struct tensor *packed = &run->residents[1];
        packed->rank = 0; /* the weights are no array */
        if (gemm_request_settle_packed(&run->request, packed->dims[0], packed->dims[1], &fault) !=
            GEMMD_OK)
            return fail_fault(context, &fault);
    }
    if (operands_open(&run->operands, &paths, &run->request, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    if (!gemm_request_result(&run->request, NULL, &run->c)) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL, "the result has more than 2^63 bytes");
        return fail_fault(context, &fault);
    }
    parameters_to_gemm(&run->request, &run->operands.bound, &run->gemm);
    run->gemm.job = run->destination.is_job;
    if (!destination_deadline(context, &run->destination, &run->gemm.timeout_ms, problem))
        return fail_usage(context, problem);
    return EXIT_OK;
}

static enum gemmd_error gemm_compare(const void *argument, struct progress_line *line,
                                     struct check *check)
{
    const struct gemm_run *run = argument;
    return check_product(&run->request, &run->operands.bound, run->gemm.c, line, check);
}

static void gemm_where(const void *argument, uint64_t at, char *out, size_t room)
{
    const struct gemm_request *r = &((const struct gemm_run *)argument)->request;
    snprintf(out, room, "in row %llu and column %llu of problem %llu",
             (unsigned long long)(at / r->n % r->m), (unsigned long long)(at % r->n),
             (unsigned long long)(at / r->n / r->m));
}

/* Sends the request that gemm_prepare has made, checks the result if --check is given, and writes
 * and reports the result. Returns the exit code. */
static int gemm_compute(const struct context *context, struct gemmd_client *client,
                        struct gemm_run *run)
{
    struct gemmd_error_info error;
    struct fault fault = {0};
    struct check check;
    const bool checked = option_flag(context->arguments, OPTION_CHECK);
    interrupt_watch(); /* from here on an interrupted command has to remove a temporary file */
    if (destination_open(&run->destination, run->operands.files.format, "c", &run->c, &run->gemm.c,
                         &run->gemm.c_bytes, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    if (await(context, gemmd_gemm_submit(client, &run->gemm, &error), &run->result, &error) !=
        GEMMD_OK)
        return fail_request(context, &error);
    if (checked) {
        int code = check_run(context, "C", gemm_compare, gemm_where, run, &check);
        if (code != EXIT_OK)
            return code;
    }
    const struct report_work work = {
        .name = "C",
        .flops = flops_of_gemm(&run->request),
        .check = checked ? &check : NULL,
    };
    return destination_commit(context, &run->destination, &run->result, &work);
}

int command_gemm(const struct context *context)
{
    struct gemm_run run = {0};
    int code = destination_choose(context, &run.destination);
    if (code == EXIT_OK)
        code = gemm_check_options(context, &run.destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    gemmd_result_init(&run.result, sizeof run.result);
    code = gemm_prepare(context, client, &run);
    if (code == EXIT_OK)
        code = gemm_compute(context, client, &run);
    destination_close(&run.destination, &run.result);
    operands_close(&run.operands);
    random_operands_close(&run.random);
    gemmd_client_free(client);
    return code;
}
