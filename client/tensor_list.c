#include <jansson.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/daemon.h"
#include "client/description.h"
#include "client/failure.h"

static enum gemmd_error not_a_list(struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_PROTOCOL, NULL, "the daemon's list of tensors is none");
}

/* All are read before the first is told. */
static enum gemmd_error read_list(const char *text, struct gemmd_tensor **tensors, size_t *count,
                                  struct gemmd_error_info *error)
{
    enum gemmd_error code = GEMMD_OK;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *list = json_object_get(root, "tensors");
    *count = json_array_size(list);
    *tensors = calloc(*count + 1, sizeof **tensors);
    if (*tensors == NULL)
        code = failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "no memory for a list of %zu tensors", *count);
    else if (!json_is_array(list))
        code = not_a_list(error);
    for (size_t i = 0; i < *count && code == GEMMD_OK; i++)
        if (!description_tensor(json_array_get(list, i), &(*tensors)[i]))
            code = not_a_list(error);
    json_decref(root);
    return code;
}

enum gemmd_error gemmd_tensor_list(struct gemmd_client *client,
                                   void (*each)(const struct gemmd_tensor *tensor, void *user),
                                   void *user, struct gemmd_error_info *error)
{
    char *text = NULL;
    struct gemmd_tensor *tensors = NULL;
    size_t count = 0;
    enum gemmd_error code = daemon_text(client, "/tensors", client->options.retries, &text, error);
    if (code == GEMMD_OK)
        code = read_list(text, &tensors, &count, error);
    for (size_t i = 0; i < count && code == GEMMD_OK; i++)
        each(&tensors[i], user);
    free(tensors);
    free(text);
    return code;
}
