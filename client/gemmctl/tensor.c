/* gemmctl tensor get, ls and rm. tensor_put.c has gemmctl tensor put. */
#include <stdio.h>
#include <string.h>

#include "client/gemmctl/fetch.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/report.h"

int command_tensor_get(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const bool some =
        arguments->values[OPTION_ROW] != NULL || arguments->values[OPTION_ROWS] != NULL;
    struct gemmd_call call;
    char problem[PROBLEM_MAX];
    uint32_t row, rows;
    if (!option_count(arguments, OPTION_ROW, 0, &row, problem) ||
        !option_count(arguments, OPTION_ROWS, 0, &rows, problem))
        return fail_usage(context, problem);
    if (rows == 0 && arguments->values[OPTION_ROWS] != NULL)
        return fail_usage(context, "--rows is 0; it must be at least 1");
    if (some && arguments->values[OPTION_SCALE] != NULL)
        return fail_usage(context,
                          "the scales of a tensor are fetched with the whole tensor; leave "
                          "out --scale, or --row and --rows");
    gemmd_call_init(&call, sizeof call);
    call.scales = !some;
    call.row = row;
    call.rows = rows;
    return fetch(context, gemmd_tensor_get_submit, &call, arguments->operands[0], OPTION_SCALE);
}

static const struct table_column columns[] = {
    {"NAME", false}, {"DTYPE", false}, {"SHAPE", false}, {"BYTES", true}, {"EVICTABLE", false},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* The state of printing the list, as a table or as a JSON array. */
struct listing {
    struct table table;
    json_t *array;    /* NULL: the list is printed as a table */
    const char *only; /* list only the tensor of this name; NULL: list all tensors */
};

static void list_tensor(const struct gemmd_tensor *tensor, void *user)
{
    struct listing *listing = user;
    char shape[REPORT_SHAPE_ROOM], bytes[24];
    if (listing->only != NULL && strcmp(listing->only, tensor->name) != 0)
        return;
    if (listing->array == NULL) {
        snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)tensor->bytes);
        const char *const cells[COLUMNS] = {tensor->name, tensor->type,
                                            report_shape(tensor->rank, tensor->dims, shape), bytes,
                                            tensor->evictable ? "yes" : "no"};
        table_add(&listing->table, cells);
        return;
    }
    json_t *dims = json_array();
    for (uint32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(dims, json_integer((json_int_t)tensor->dims[i]));
    json_t *described =
        json_pack("{s:o, s:o, s:o, s:I, s:o, s:b}", "name", print_text(tensor->name), "dtype",
                  print_text(tensor->type), "shape", dims, "bytes", (json_int_t)tensor->bytes,
                  "etag", print_text(tensor->etag), "evictable", tensor->evictable);
    if (tensor->format[0] != '\0') {
        json_object_set_new(described, "format", print_text(tensor->format));
        json_object_set_new(described, "group", json_integer((json_int_t)tensor->group));
    }
    json_array_append_new(listing->array, described);
}

int command_tensor_ls(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const bool json = option_flag(arguments, OPTION_JSON);
    struct listing listing = {.array = json ? json_array() : NULL, .only = arguments->operands[0]};
    struct tensor only;
    struct gemmd_error_info error;
    int code;
    table_start(&listing.table, columns, COLUMNS);
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        goto done;
    code = EXIT_OK;
    /* An unknown name is an error. An empty list is not. */
    if ((listing.only != NULL && resident_look(client, listing.only, &only, &error) != GEMMD_OK) ||
        gemmd_tensor_list(client, list_tensor, &listing, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (json)
        print_json(
            json_pack("{s:i, s:O}", "version", PRINT_JSON_VERSION, "tensors", listing.array));
    else
        code = report_table(context, &listing.table, "there are no tensors");

done:
    json_decref(listing.array);
    table_free(&listing.table);
    gemmd_client_free(client);
    return code;
}

int command_tensor_rm(const struct context *context)
{
    return remove_all(context, gemmd_tensor_delete);
}
