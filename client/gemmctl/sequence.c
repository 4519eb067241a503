/* gemmctl sequence put, fork, append, get, truncate, ls and rm. */
#include <stdio.h>
#include <string.h>

#include "client/gemmctl/formats.h"
#include "client/gemmctl/output.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/report.h"
#include "client/gemmctl/tensor_files.h"
#include "proto/sequence_request.h"
#include "proto/size.h"

/* ---- descriptions ---- */

static json_t *sequence_json(const struct gemmd_sequence *sequence)
{
    json_t *lengths = json_array();
    for (uint32_t i = 0; i < sequence->layers; i++)
        json_array_append_new(lengths, json_integer((json_int_t)sequence->lengths[i]));
    return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I}", "name",
                     print_text(sequence->name), "dtype", gemmd_dtype_name(sequence->dtype),
                     "kv_heads", (json_int_t)sequence->kv_heads, "d", (json_int_t)sequence->d, "dv",
                     (json_int_t)sequence->dv, "length", (json_int_t)sequence->length, "lengths",
                     lengths, "etag", print_text(sequence->etag), "memory_bytes",
                     (json_int_t)sequence->memory_bytes);
}

/* Describes a sequence that was changed, and how, on standard output. */
static int report_sequence(const struct context *context, const struct gemmd_sequence *sequence,
                           const char *done)
{
    if (option_flag(context->arguments, OPTION_JSON))
        print_json(json_pack("{s:i, s:o}", "version", PRINT_JSON_VERSION, "sequence",
                             sequence_json(sequence)));
    if (!option_flag(context->arguments, OPTION_JSON) &&
        !option_flag(context->arguments, OPTION_QUIET)) {
        (void)terminal_put(sequence->name, stdout);
        printf(": %s, %llu positions, %llu bytes of memory\n", done,
               (unsigned long long)sequence->length, (unsigned long long)sequence->memory_bytes);
    }
    return EXIT_OK;
}

static const struct table_column columns[] = {
    {"NAME", false}, {"DTYPE", false}, {"HEADS", true},  {"D", true},
    {"DV", true},    {"LAYERS", true}, {"LENGTH", true}, {"MEMORY", true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* The state of printing the list, as a table or as a JSON array. */
struct listing {
    struct table table;
    json_t *array; /* NULL: the list is printed as a table */
};

static void list_sequence(const struct gemmd_sequence *sequence, void *user)
{
    struct listing *listing = user;
    const uint64_t numbers[] = {sequence->kv_heads, sequence->d,      sequence->dv,
                                sequence->layers,   sequence->length, sequence->memory_bytes};
    char texts[COLUMNS - 2][24];
    const char *cells[COLUMNS] = {sequence->name, gemmd_dtype_name(sequence->dtype)};
    if (listing->array != NULL) {
        json_array_append_new(listing->array, sequence_json(sequence));
        return;
    }
    for (int i = 0; i < COLUMNS - 2; i++) {
        snprintf(texts[i], sizeof texts[i], "%llu", (unsigned long long)numbers[i]);
        cells[2 + i] = texts[i];
    }
    table_add(&listing->table, cells);
}

int command_sequence_ls(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const bool json = option_flag(arguments, OPTION_JSON);
    const char *only = arguments->operands[0];
    struct listing listing = {.array = json ? json_array() : NULL};
    struct gemmd_sequence sequence = {.size = sizeof sequence};
    struct gemmd_error_info error;
    int code;
    table_start(&listing.table, columns, COLUMNS);
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        goto done;
    code = EXIT_OK;
    if ((only != NULL ? gemmd_sequence_stat(client, only, NULL, &sequence, &error)
                      : gemmd_sequence_list(client, list_sequence, &listing, &error)) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (only != NULL)
        list_sequence(&sequence, &listing);
    if (code == EXIT_OK && json)
        print_json(
            json_pack("{s:i, s:O}", "version", PRINT_JSON_VERSION, "sequences", listing.array));
    else if (code == EXIT_OK)
        code = report_table(context, &listing.table, "there are no sequences");

done:
    json_decref(listing.array);
    table_free(&listing.table);
    gemmd_client_free(client);
    return code;
}

int command_sequence_rm(const struct context *context)
{
    return remove_all(context, gemmd_sequence_delete);
}

/* ---- put and fork ---- */

/* Creates the sequence that `put` describes. */
static int create(const struct context *context, const struct gemmd_sequence_put *put,
                  const char *done)
{
    struct gemmd_sequence sequence = {.size = sizeof sequence};
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    code = gemmd_sequence_put(client, put, &sequence, &error) == GEMMD_OK
               ? report_sequence(context, &sequence, done)
               : fail_request(context, &error);
    gemmd_client_free(client);
    return code;
}

int command_sequence_put(const struct context *context)
{
    struct sequence_put_request asked;
    struct gemmd_sequence_put put;
    struct fault fault = {0};
    sequence_put_init(&asked);
    if (parameters_read(&asked, &sequence_put_table, context->arguments, &fault) != GEMMD_OK ||
        sequence_put_check(&asked, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    gemmd_sequence_put_init(&put, sizeof put);
    put.name = context->arguments->operands[0];
    put.kv_heads = asked.kv_heads;
    put.d = asked.d;
    put.dv = asked.dv;
    put.dtype = asked.dtype;
    put.layers = (uint32_t)asked.layers;
    return create(context, &put, "created");
}

int command_sequence_fork(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    struct sequence_put_request asked;
    struct gemmd_sequence_put put;
    struct fault fault = {0};
    sequence_put_init(&asked);
    if (parameters_read(&asked, &sequence_put_table, arguments, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    gemmd_sequence_put_init(&put, sizeof put);
    put.fork = arguments->operands[0];
    put.name = arguments->operands[1];
    put.has_length = sequence_put_given(&asked, "length");
    put.length = asked.length;
    return create(context, &put, "forked");
}

/* ---- truncate ---- */

int command_sequence_truncate(const struct context *context)
{
    const char *const *operands = (const char *const *)context->arguments->operands;
    struct gemmd_sequence sequence = {.size = sizeof sequence};
    struct sequence_truncate_request asked = {0};
    struct gemmd_error_info error;
    struct fault fault = {0};
    int code;
    if (parameter_set(&sequence_truncate_table, &asked, "length", operands[1], &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    code = gemmd_sequence_truncate(client, operands[0], asked.length, NULL, &sequence, &error) ==
                   GEMMD_OK
               ? report_sequence(context, &sequence, "truncated")
               : fail_request(context, &error);
    gemmd_client_free(client);
    return code;
}

/* ---- append ---- */

static enum gemmd_dtype rows_carrier(const void *request, const struct tensor *before,
                                     uint32_t operand)
{
    const struct sequence_rows_request *rows = request;
    (void)before;
    (void)operand;
    return rows->dtype;
}

static bool knows_count(const void *request)
{
    const struct sequence_rows_request *rows = request;
    return rows->count > 0;
}

static bool raw_rows(const void *request, const struct tensor *before, uint32_t operand,
                     struct tensor *out)
{
    (void)before;
    return sequence_rows_table.shape(request, operand, out);
}

static const struct tensor_files_kind rows_kind = {
    .table = &sequence_rows_table,
    .of = "an append",
    .sizes = "--positions",
    .carrier = rows_carrier,
    .knows_sizes = knows_count,
    .raw = raw_rows,
};

/* Reads the parameters, which have the shape of the sequence, and K and V. Returns EXIT_OK; on
 * failure prints the reason and returns the exit code. */
static int read_rows(const struct context *context, const struct gemmd_sequence *sequence,
                     struct sequence_rows_request *rows, struct tensor_files *files)
{
    const struct arguments *arguments = context->arguments;
    struct fault fault = {0};
    struct formats formats;
    char problem[PROBLEM_MAX];
    uint32_t count;
    *rows = (struct sequence_rows_request){.dtype = sequence->dtype,
                                           .kv_heads = sequence->kv_heads,
                                           .d = sequence->d,
                                           .dv = sequence->dv};
    if (!formats_read(arguments, &formats, problem) ||
        !option_count(arguments, OPTION_POSITIONS, 0, &count, problem))
        return fail_usage(context, problem);
    if (parameters_read(rows, &sequence_append_table, arguments, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    rows->count = count;
    if (rows->layer >= sequence->layers) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, "layer",
                  "layer is %llu; the sequence has the layers 0 to %u",
                  (unsigned long long)rows->layer, sequence->layers - 1);
        return fail_fault(context, &fault);
    }
    if (!sequence_append_given(rows, "position"))
        rows->position = sequence->lengths[rows->layer];
    const struct tensor_files_wanted wanted = {
        .kind = &rows_kind,
        .request = rows,
        .paths = {arguments->operands[1], arguments->operands[2]},
        .together = sequence_rows_table.count,
        .format = formats.in_given ? &formats.in : NULL,
    };
    if (tensor_files_open(files, &wanted, &fault) != GEMMD_OK ||
        sequence_rows_check(rows, files->tensors, &fault) != GEMMD_OK ||
        tensor_files_make_row_major(files, &rows_kind, files->tensors, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    return EXIT_OK;
}

int command_sequence_append(const struct context *context)
{
    struct gemmd_sequence sequence = {.size = sizeof sequence};
    struct sequence_rows_request rows;
    struct gemmd_sequence_append append;
    struct tensor_files files = {0};
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    gemmd_sequence_append_init(&append, sizeof append);
    append.name = context->arguments->operands[0];
    if (gemmd_sequence_stat(client, append.name, NULL, &sequence, &error) != GEMMD_OK) {
        code = fail_request(context, &error);
        goto done;
    }
    code = read_rows(context, &sequence, &rows, &files);
    if (code != EXIT_OK)
        goto done;
    append.layer = rows.layer;
    append.position = rows.position;
    /* An array without a dimension of heads has the same order in both layouts. */
    append.layout = (enum gemmd_layout)rows.layout;
    append.k = files.tensors[0].data;
    append.k_bytes = files.tensors[0].bytes;
    append.v = files.tensors[1].data;
    append.v_bytes = files.tensors[1].bytes;
    if (await(context, gemmd_sequence_append_submit(client, &append, &error), NULL, &error) !=
            GEMMD_OK ||
        gemmd_sequence_stat(client, append.name, NULL, &sequence, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else
        code = report_sequence(context, &sequence, "appended");

done:
    tensor_files_close(&files);
    gemmd_client_free(client);
    return code;
}

/* ---- get ---- */

/* Makes views of the keys and of the values, which lie one after the other in the result. */
static enum gemmd_error split_rows(const struct gemmd_sequence *sequence,
                                   const struct gemmd_sequence_get *get,
                                   const struct gemmd_result *result, struct tensor rows[2],
                                   struct fault *fault)
{
    const enum gemmd_dtype dtype = (enum gemmd_dtype)sequence->dtype;
    const uint64_t heads = sequence->kv_heads, widths[] = {sequence->d, sequence->dv};
    const bool heads_first = get->layout == GEMMD_LAYOUT_BHSD;
    uint64_t width, position_bytes, bytes = 0;
    bool fits = size_add(widths[0], widths[1], &width) &&
                size_tensor_bytes(dtype, (const uint64_t[]){heads, width}, 2, &position_bytes) &&
                position_bytes > 0;
    const uint64_t count = fits ? result->bytes / position_bytes : 0;
    for (int i = 0; i < 2 && fits; i++) {
        const uint64_t dims[] = {heads_first ? heads : count, heads_first ? count : heads,
                                 widths[i]};
        fits = tensor_init(&rows[i], dtype, dims, 3, (const char *)result->data + bytes) &&
               size_add(bytes, rows[i].bytes, &bytes);
    }
    if (fits && bytes == result->bytes)
        return GEMMD_OK;
    fault_set(fault, GEMMD_ERR_PROTOCOL, NULL,
              "the daemon's answer has %llu bytes, which are no positions of the sequence",
              (unsigned long long)result->bytes);
    return GEMMD_ERR_PROTOCOL;
}

/* Writes keys and values to the two files that the command names. Neither file appears before both
 * are written. */
static enum gemmd_error save_rows(const struct context *context, const struct formats *formats,
                                  const struct tensor rows[2], struct fault *fault)
{
    static const char *const names[] = {"k", "v"};
    struct output outputs[2];
    enum gemmd_error code = GEMMD_OK;
    uint32_t opened = 0;
    for (; opened < 2 && code == GEMMD_OK; opened++) {
        const char *path = context->arguments->operands[1 + opened];
        code = output_open(&outputs[opened], path, formats_out(formats, path, FORMAT_NPY),
                           names[opened], &rows[opened], fault);
        if (code == GEMMD_OK)
            memcpy(output_data(&outputs[opened]), rows[opened].data, rows[opened].bytes);
    }
    for (uint32_t i = 0; i < 2 && code == GEMMD_OK; i++)
        code = output_commit(&outputs[i], fault);
    while (opened > 0)
        output_close(&outputs[--opened]);
    return code;
}

/* Checks the names of the two files, and reads the options. Returns EXIT_OK; on failure prints the
 * reason and returns the exit code. */
static int read_get(const struct context *context, struct formats *formats,
                    struct gemmd_sequence_get *get)
{
    const struct arguments *arguments = context->arguments;
    struct sequence_rows_request rows = {0};
    struct fault fault = {0};
    char problem[PROBLEM_MAX];
    uint32_t count;
    int code = EXIT_OK;
    gemmd_sequence_get_init(get, sizeof *get);
    if (!formats_read(arguments, formats, problem) ||
        !option_count(arguments, OPTION_POSITIONS, 0, &count, problem))
        return fail_usage(context, problem);
    if (arguments->values[OPTION_POSITIONS] != NULL && count == 0)
        return fail_usage(context, "--positions is 0; it must be at least 1");
    for (int i = 1; i <= 2 && code == EXIT_OK; i++)
        code = formats_check_name(context, formats, arguments->operands[i]);
    for (int i = 1; i <= 2 && code == EXIT_OK; i++)
        code = formats_check_stream(context, arguments->operands[i]);
    if (code != EXIT_OK)
        return code;
    if (strcmp(arguments->operands[1], arguments->operands[2]) == 0 &&
        strcmp(arguments->operands[1], "-") != 0)
        return fail_usage(context, "K and V name the same file; name two files");
    if (parameters_read(&rows, &sequence_append_table, arguments, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    get->name = arguments->operands[0];
    get->layer = rows.layer;
    get->position = rows.position;
    get->count = count;
    get->layout = (enum gemmd_layout)rows.layout;
    return EXIT_OK;
}

int command_sequence_get(const struct context *context)
{
    struct gemmd_sequence sequence = {.size = sizeof sequence};
    struct gemmd_sequence_get get;
    struct gemmd_result result;
    struct tensor rows[2];
    struct gemmd_error_info error;
    struct fault fault = {0};
    struct formats formats;
    int code = read_get(context, &formats, &get);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    gemmd_result_init(&result, sizeof result);
    if (gemmd_sequence_stat(client, get.name, NULL, &sequence, &error) != GEMMD_OK ||
        await(context, gemmd_sequence_get_submit(client, &get, &error), &result, &error) !=
            GEMMD_OK)
        code = fail_request(context, &error);
    else if (split_rows(&sequence, &get, &result, rows, &fault) != GEMMD_OK ||
             save_rows(context, &formats, rows, &fault) != GEMMD_OK)
        code = fail_fault(context, &fault);
    else if (strcmp(context->arguments->operands[1], "-") != 0 &&
             strcmp(context->arguments->operands[2], "-") != 0) /* else standard output is taken */
        code = report_sequence(context, &sequence, "fetched");
    gemmd_free(result.data);
    gemmd_client_free(client);
    return code;
}
