#include <stdbool.h>
#include <string.h>

#include "client/gemmctl/attention_operands.h"
#include "client/gemmctl/await.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/flops.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/resident.h"

/* Asks the daemon for the types and shapes of a resident K and V, and enters them in `paths`. */
static enum gemmd_error attention_look_at_residents(struct gemmd_client *client,
                                                    struct tensor residents[2],
                                                    struct attention_paths *paths,
                                                    struct attention_request *request,
                                                    struct gemmd_error_info *error)
{
    const struct parameter_table *table = &attention_parameter_table;
    enum gemmd_error code = resident_take(client, table, request, "k", &paths->k, &residents[0],
                                          &paths->resident_k, error);
    return code == GEMMD_OK ? resident_take(client, table, request, "v", &paths->v, &residents[1],
                                            &paths->resident_v, error)
                            : code;
}

/* Gives the result the rank of Q's file, which may leave out leading dimensions of 1. The daemon's
 * answer always has four dimensions. */
static void drop_leading_dims(struct gemmd_result *result, const struct tensor *shape)
{
    result->rank = shape->rank;
    memcpy(result->dims, shape->dims, shape->rank * sizeof shape->dims[0]);
}

/* An attention from the command line to the result. */
struct attention_run {
    struct attention_request request;
    struct attention_files operands;
    struct tensor residents[2]; /* of K and V, if they are tensors on the daemon */
    struct destination destination;
    struct tensor o, lse; /* types and shapes of the results */
    struct gemmd_attention attention;
    struct gemmd_result result;
};

/* Reads the parameters and the operands, and fills in run->attention but for the results' room.
 * Returns EXIT_OK; on failure prints the reason and returns the exit code. */
static int attention_prepare(const struct context *context, struct gemmd_client *client,
                             struct attention_run *run)
{
    const struct arguments *arguments = context->arguments;
    const bool together = arguments->operand_count == 1;
    struct gemmd_error_info error;
    struct fault fault = {0};
    char problem[PROBLEM_MAX];
    struct attention_paths paths = {
        .q = arguments->operands[0],
        .k = together ? NULL : arguments->operands[1],
        .v = together ? NULL : arguments->operands[2],
        .lens_q = arguments->values[OPTION_LENS_Q],
        .lens_kv = arguments->values[OPTION_LENS_KV],
        .format = run->destination.formats.in_given ? &run->destination.formats.in : NULL,
    };
    if (parameters_read_attention(&run->request, arguments, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    if (attention_look_at_residents(client, run->residents, &paths, &run->request, &error) !=
        GEMMD_OK)
        return fail_request(context, &error);
    if (attention_files_open(&run->operands, &paths, &run->request, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    if (!attention_request_result(&run->request, &run->o, &run->lse)) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL, "the result has more than 2^63 bytes");
        return fail_fault(context, &fault);
    }
    parameters_to_attention(&run->request, &run->operands.bound, &run->attention);
    run->attention.job = run->destination.is_job;
    run->attention.with_lse = run->destination.with_lse;
    if (!destination_deadline(context, &run->destination, &run->attention.timeout_ms, problem))
        return fail_usage(context, problem);
    return EXIT_OK;
}

/* Sends the request that attention_prepare has made, and writes and reports the results. Returns
 * the exit code. */
static int attention_compute(const struct context *context, struct gemmd_client *client,
                             struct attention_run *run)
{
    struct gemmd_attention *attention = &run->attention;
    const enum format format = run->operands.files.format;
    struct gemmd_error_info error;
    struct fault fault = {0};
    void *lse = NULL;
    interrupt_watch(); /* from here on an interrupted command has to remove temporary files */
    if (destination_open(&run->destination, format, "o", &run->o, &attention->o,
                         &attention->o_bytes, &fault) != GEMMD_OK ||
        destination_open_lse(&run->destination, format, &run->lse, &lse, &attention->lse_bytes,
                             &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    attention->lse = lse;
    if (await(context, gemmd_attention_submit(client, attention, &error), &run->result, &error) !=
        GEMMD_OK)
        return fail_request(context, &error);
    drop_leading_dims(&run->result, &run->o);
    const struct report_work work = {.name = "O", .flops = flops_of_attention(&run->request)};
    return destination_commit(context, &run->destination, &run->result, &work);
}

int command_attention(const struct context *context)
{
    struct attention_run run = {0};
    if (context->arguments->operand_count == 2)
        return fail_usage(context,
                          "V is missing; name Q, K and V, or one file that holds all three");
    int code = destination_choose(context, &run.destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    gemmd_result_init(&run.result, sizeof run.result);
    code = attention_prepare(context, client, &run);
    if (code == EXIT_OK)
        code = attention_compute(context, client, &run);
    destination_close(&run.destination, &run.result);
    attention_files_close(&run.operands);
    gemmd_client_free(client);
    return code;
}
