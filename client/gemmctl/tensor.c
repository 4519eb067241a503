/* gemmctl tensor get, ls and rm. tensor_put.c has gemmctl tensor put. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "client/gemmctl/await.h"
#include "client/gemmctl/fetch.h"
#include "client/gemmctl/report.h"
#include "client/gemmctl/resident.h"

static struct gemmd_request *submit_get(struct gemmd_client *client, const char *name,
                                        struct gemmd_error_info *error)
{
    return gemmd_tensor_get_submit(client, name, NULL, error);
}

int command_tensor_get(const struct context *context)
{
    return fetch(context, submit_get, context->arguments->operands[0]);
}

/* The state of printing the list, as lines or as a JSON array. */
struct listing {
    bool json;
    json_t *array;
    const char *only; /* list only the tensor of this name; NULL: list all tensors */
};

static void list_tensor(const struct gemmd_tensor *tensor, void *user)
{
    struct listing *listing = user;
    char shape[REPORT_SHAPE_ROOM];
    if (listing->only != NULL && strcmp(listing->only, tensor->name) != 0)
        return;
    if (!listing->json) {
        printf("%-32s %-8s %-20s %14llu%s\n", tensor->name, gemmd_dtype_name(tensor->dtype),
               report_shape(tensor->rank, tensor->dims, shape), (unsigned long long)tensor->bytes,
               tensor->evictable ? " evictable" : "");
        return;
    }
    json_t *dims = json_array();
    for (uint32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(dims, json_integer((json_int_t)tensor->dims[i]));
    json_array_append_new(listing->array,
                          json_pack("{s:s, s:s, s:o, s:I, s:s, s:b}", "name", tensor->name, "dtype",
                                    gemmd_dtype_name(tensor->dtype), "shape", dims, "bytes",
                                    (json_int_t)tensor->bytes, "etag", tensor->etag, "evictable",
                                    tensor->evictable));
}

int command_tensor_ls(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    struct listing listing = {.json = option_flag(arguments, OPTION_JSON),
                              .array = json_array(),
                              .only = arguments->operands[0]};
    struct tensor only;
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        goto done;
    code = EXIT_OK;
    /* An unknown name is an error. An empty list is not. */
    if ((listing.only != NULL && resident_look(client, listing.only, &only, &error) != GEMMD_OK) ||
        gemmd_tensor_list(client, list_tensor, &listing, &error) != GEMMD_OK) {
        code = fail_request(context, &error);
        goto done;
    }
    if (listing.json) {
        json_t *root = json_pack("{s:i, s:O}", "version", 1, "tensors", listing.array);
        if (root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0)
            putchar('\n');
        json_decref(root);
    }

done:
    json_decref(listing.array);
    gemmd_client_free(client);
    return code;
}

int command_tensor_rm(const struct context *context)
{
    const char *name = context->arguments->operands[0];
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;
    code = EXIT_OK;
    if (gemmd_tensor_delete(client, name, NULL, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (option_flag(context->arguments, OPTION_JSON))
        printf("{\"version\": 1, \"name\": \"%s\", \"removed\": true}\n", name);
    gemmd_client_free(client);
    return code;
}
