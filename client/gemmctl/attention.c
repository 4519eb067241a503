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

int command_attention(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const bool together = arguments->operand_count == 1;
    char problem[PROBLEM_MAX];
    struct attention_request request;
    struct attention_files operands = {0};
    struct tensor residents[2], o, lse;
    struct destination destination;
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct gemmd_attention attention;
    struct fault fault = {0};
    struct attention_paths paths = {
        .q = arguments->operands[0],
        .k = together ? NULL : arguments->operands[1],
        .v = together ? NULL : arguments->operands[2],
        .lens_q = arguments->values[OPTION_LENS_Q],
        .lens_kv = arguments->values[OPTION_LENS_KV],
    };
    if (arguments->operand_count == 2)
        return fail_usage(context,
                          "V is missing; name Q, K and V, or one file that holds all three");
    int code = destination_choose(context, &destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;

    gemmd_result_init(&result, sizeof result);
    if (destination.formats.in_given)
        paths.format = &destination.formats.in;
    if (parameters_read_attention(&request, arguments, &fault) != GEMMD_OK)
        goto faulty;
    if (attention_look_at_residents(client, residents, &paths, &request, &error) != GEMMD_OK)
        goto failed;
    if (attention_files_open(&operands, &paths, &request, &fault) != GEMMD_OK)
        goto faulty;
    if (!attention_request_result(&request, &o, &lse)) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL, "the result has more than 2^63 bytes");
        goto faulty;
    }
    parameters_to_attention(&request, &operands.bound, &attention);
    attention.job = destination.is_job;
    attention.with_lse = destination.with_lse;
    if (!destination_deadline(context, &destination, &attention.timeout_ms, problem)) {
        code = fail_usage(context, problem);
        goto done;
    }
    interrupt_watch(); /* from here on an interrupted command has to remove temporary files */
    void *lse_data = NULL;
    if (destination_open(&destination, operands.files.format, "o", &o, &attention.o,
                         &attention.o_bytes, &fault) != GEMMD_OK ||
        destination_open_lse(&destination, operands.files.format, &lse, &lse_data,
                             &attention.lse_bytes, &fault) != GEMMD_OK)
        goto faulty;
    attention.lse = lse_data;
    if (await(context, gemmd_attention_submit(client, &attention, &error), &result, &error) !=
        GEMMD_OK)
        goto failed;
    drop_leading_dims(&result, &o);
    const struct report_work work = {.name = "O", .flops = flops_of_attention(&request)};
    code = destination_commit(context, &destination, &result, &work);
    goto done;

failed:
    code = fail_request(context, &error);
    goto done;
faulty:
    code = fail_fault(context, &fault);
done:
    destination_close(&destination, &result);
    attention_files_close(&operands);
    gemmd_client_free(client);
    return code;
}
