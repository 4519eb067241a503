#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/destination.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/random_operands.h"
#include "client/gemmctl/tensor_files.h"
#include "proto/attention_request.h"

/* ---- operands ---- */

/* The files of the operands. If no other file is named, the safetensors file `q` holds all
 * operands. Several paths "-" are read from standard input in the order of a request's body: the
 * lengths, the slopes, the sinks, Q, K, V, the mask. */
struct attention_paths {
    const char *q, *k, *v; /* `k` or `v` is NULL if the operand is resident, or in the file `q` */
    const char *lens_q, *lens_kv; /* NULL: there are no lengths, or they are in the file `q` */
    /* NULL: there is no such operand, or it is in the file `q`. */
    const char *slopes, *sinks, *mask;
    const struct tensor *resident_k, *resident_v; /* resident operands; NULL: not resident */
    const struct attention_sequence
        *sequence;             /* the sequence of the request; NULL: there is none */
    const enum format *format; /* NULL: by each file's name, npy if the name tells no format */
};

struct attention_files {
    struct attention_operands bound; /* views onto the files */
    struct tensor_files files;
};

enum { Q = 4, V = 6 }; /* the indices of Q and V in attention_operand_table */

static enum gemmd_dtype attention_carrier(const void *argument, const struct tensor *before,
                                          uint32_t operand)
{
    const struct attention_request *request = argument;
    (void)before;
    (void)operand;
    return attention_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
}

static bool knows_sizes(const void *argument)
{
    const struct attention_request *request = argument;
    return request->heads != 0 && request->sq != 0 && request->d != 0;
}

/* Fills in the type and shape of an operand in a file of raw bytes, from the parameters and their
 * defaults. */
static bool attention_raw_operand(const void *argument, const struct tensor *before,
                                  uint32_t operand, struct tensor *out)
{
    struct attention_request request = *(const struct attention_request *)argument;
    (void)before;
    /* A contradiction between sizes is refused later, when all operands are known. */
    (void)attention_request_settle_sizes(&request, &(struct fault){0});
    return attention_operand_table.shape(&request, operand, out);
}

static const struct tensor_files_kind kind = {
    .table = &attention_operand_table,
    .of = "an attention",
    .sizes = "--heads, --sq and --d",
    .carrier = attention_carrier,
    .knows_sizes = knows_sizes,
    .raw = attention_raw_operand,
};

/* Reads the operands and binds them to `request`, which then has its dtype and all sizes. If K or V
 * is resident, the caller has set the request's `k` or `v` before. On failure `fault` has a
 * sentence. The caller calls attention_files_close in any case; the views are valid until then. */
static enum gemmd_error attention_files_open(struct attention_files *operands,
                                             const struct attention_paths *paths,
                                             struct attention_request *request, struct fault *fault)
{
    const bool reads_sequence = paths->sequence != NULL && !request->append;
    const bool together = paths->k == NULL && paths->v == NULL && paths->resident_k == NULL &&
                          paths->resident_v == NULL && !reads_sequence;
    const struct tensor_files_wanted wanted = {
        .kind = &kind,
        .request = request,
        .paths = {paths->lens_q, paths->lens_kv, paths->slopes, paths->sinks, paths->q, paths->k,
                  paths->v, paths->mask},
        .together = together ? Q : ATTENTION_OPERANDS,
        .format = paths->format,
    };
    struct tensor_files *files = &operands->files;
    struct attention_operands *bound = &operands->bound;
    enum gemmd_error code =
        attention_request_settle_residents(request, paths->resident_k, paths->resident_v, fault);
    if (code == GEMMD_OK)
        code = attention_request_settle_sequence(request, paths->sequence, fault);
    if (code == GEMMD_OK)
        code = tensor_files_open(files, &wanted, fault);
    if (code != GEMMD_OK)
        return code;
    memcpy(bound->all, files->tensors, sizeof bound->all);
    code = attention_request_bind_tensors(request, bound, fault);
    if (code == GEMMD_OK)
        code = attention_request_check_lens(request, bound, fault);
    return code == GEMMD_OK ? tensor_files_make_row_major(files, &kind, bound->all, fault) : code;
}

static void attention_files_close(struct attention_files *operands)
{
    tensor_files_close(&operands->files);
}

/* ---- the command ---- */

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

/* Asks the daemon for the sequence that the request names, and enters the sequence in `paths`. An
 * append without a position follows the positions of the layer. */
static enum gemmd_error
attention_look_at_sequence(struct gemmd_client *client, struct gemmd_sequence *found,
                           struct attention_sequence *sequence, struct attention_paths *paths,
                           struct attention_request *request, struct gemmd_error_info *error)
{
    char position[24];
    if (request->sequence[0] == '\0')
        return GEMMD_OK;
    found->size = sizeof *found;
    const enum gemmd_error code =
        gemmd_sequence_stat(client, request->sequence, NULL, found, error);
    if (code != GEMMD_OK)
        return code;
    *sequence = (struct attention_sequence){.dtype = found->dtype,
                                            .kv_heads = found->kv_heads,
                                            .d = found->d,
                                            .dv = found->dv,
                                            .layers = found->layers,
                                            .lengths = found->lengths};
    paths->sequence = sequence;
    if (request->append && !attention_request_given(request, "position") &&
        request->layer < found->layers) {
        snprintf(position, sizeof position, "%llu",
                 (unsigned long long)found->lengths[request->layer]);
        /* It cannot fail: the parameter is a number, and not set yet. */
        (void)attention_request_set(request, "position", position, &(struct fault){0});
    }
    return GEMMD_OK;
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
    struct tensor random[3];    /* Q, K and V of --random, whose data is freed in the end */
    struct tensor residents[2]; /* of K and V, if they are tensors on the daemon */
    struct gemmd_sequence found;
    struct attention_sequence sequence; /* a view of `found`, if the request names a sequence */
    struct destination destination;
    struct tensor o, lse; /* types and shapes of the results */
    struct gemmd_attention attention;
    struct gemmd_result result;
};

/* Makes the operands of --random. On failure `fault` has a sentence. */
static enum gemmd_error attention_make_random(const struct arguments *arguments,
                                              struct attention_run *run, struct fault *fault)
{
    struct attention_request *request = &run->request;
    const char *text = arguments->values[OPTION_RANDOM];
    uint64_t sizes[TENSOR_MAX_RANK], seed;
    enum gemmd_error code = random_seed(arguments, &seed, fault);
    if (code != GEMMD_OK || text == NULL)
        return code;
    if (arguments->operand_count > 0 || arguments->values[OPTION_MASK] != NULL ||
        arguments->values[OPTION_SLOPES] != NULL || arguments->values[OPTION_SINKS] != NULL ||
        arguments->values[OPTION_LENS_Q] != NULL || arguments->values[OPTION_LENS_KV] != NULL ||
        request->sequence[0] != '\0')
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random makes Q, K and V; name no files and no sequence besides");
    if (arguments->values[OPTION_BATCH] != NULL || request->heads != 0 || request->sq != 0 ||
        request->d != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random sets batch, heads, sq and d; leave out --batch, --heads, --sq "
                         "and --d");
    if (random_sizes(text, sizes) != 4)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random is '%.64s'; it must be BATCHxHEADSxLENGTHxSIZE, four whole "
                         "numbers such as 1x8x512x64",
                         text);
    request->batch = sizes[0];
    request->heads = sizes[1];
    request->sq = sizes[2];
    request->d = sizes[3];
    code = attention_request_settle_sizes(request, fault);
    for (uint32_t i = 0; i <= V - Q && code == GEMMD_OK; i++) {
        struct tensor *tensor = &run->random[i];
        if (!attention_operand_table.shape(request, Q + i, tensor))
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "an operand has more than 2^63 bytes");
        code = random_fill(tensor, 3 * seed + i, fault);
        run->operands.bound.all[Q + i] = *tensor;
    }
    return code == GEMMD_OK ? attention_request_bind_tensors(request, &run->operands.bound, fault)
                            : code;
}

/* Reads the parameters and the operands, and fills in run->attention but for the results' room.
 * Returns EXIT_OK; on failure prints the reason and returns the exit code. */
static int attention_prepare(const struct context *context, struct gemmd_client *client,
                             struct attention_run *run)
{
    const struct arguments *arguments = context->arguments;
    const uint32_t files = arguments->operand_count;
    const bool together = files == 1;
    struct gemmd_error_info error;
    struct fault fault = {0};
    char problem[PROBLEM_MAX];
    struct attention_paths paths = {
        .q = arguments->operands[0],
        .k = files < 3 ? NULL : arguments->operands[1],
        .v = files < 3 ? NULL : arguments->operands[2],
        .lens_q = arguments->values[OPTION_LENS_Q],
        .lens_kv = arguments->values[OPTION_LENS_KV],
        .slopes = arguments->values[OPTION_SLOPES],
        .sinks = arguments->values[OPTION_SINKS],
        .mask = arguments->values[OPTION_MASK],
        .format = run->destination.formats.in_given ? &run->destination.formats.in : NULL,
    };
    if (parameters_read_attention(&run->request, arguments, &fault) != GEMMD_OK ||
        attention_make_random(arguments, run, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    const bool is_random = arguments->values[OPTION_RANDOM] != NULL;
    if (run->request.sequence[0] != '\0' && !run->request.append && !together)
        return fail_usage(context, "K and V are those of the sequence; name Q alone, or give "
                                   "--append");
    if (attention_look_at_residents(client, run->residents, &paths, &run->request, &error) !=
            GEMMD_OK ||
        attention_look_at_sequence(client, &run->found, &run->sequence, &paths, &run->request,
                                   &error) != GEMMD_OK)
        return fail_request(context, &error);
    if (!is_random &&
        attention_files_open(&run->operands, &paths, &run->request, &fault) != GEMMD_OK)
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
    if (context->arguments->operand_count == 0 && context->arguments->values[OPTION_RANDOM] == NULL)
        return fail_usage(context,
                          "an operand is missing; usage: gemmctl attention Q [K V] [-o O], "
                          "or gemmctl attention --random 1x8x512x64");
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
    for (uint32_t i = 0; i <= V - Q; i++)
        free((void *)run.random[i].data);
    gemmd_client_free(client);
    return code;
}
