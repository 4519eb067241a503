#include "client/gemmctl/resident.h"

#include <stdio.h>
#include <string.h>

const char *resident_name(const char *operand)
{
    static const char prefix[] = "tensor:";
    bool is_resident = operand != NULL && strncmp(operand, prefix, sizeof prefix - 1) == 0;
    return is_resident ? operand + sizeof prefix - 1 : NULL;
}

enum gemmd_error resident_look(struct gemmd_client *client, const char *name, struct tensor *tensor,
                               struct gemmd_error_info *error)
{
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = gemmd_tensor_stat(client, name, NULL, &result, error);
    if (code == GEMMD_OK) /* libgemmd has checked the shape */
        (void)tensor_init(tensor, result.dtype, result.dims, result.rank, NULL);
    else if (code == GEMMD_ERR_NOT_FOUND)
        snprintf(error->message, sizeof error->message, "there is no tensor '%s'", name);
    return code;
}

enum gemmd_error resident_take(struct gemmd_client *client, const struct parameter_table *table,
                               void *request, const char *parameter, const char **path,
                               struct tensor *tensor, const struct tensor **resident,
                               struct gemmd_error_info *error)
{
    const char *name = resident_name(*path);
    if (name == NULL)
        return GEMMD_OK;
    enum gemmd_error code = resident_look(client, name, tensor, error);
    if (code != GEMMD_OK)
        return code;
    /* Setting the parameter cannot fail: the daemon knows the name, and the parameter is not set
     * yet. */
    (void)parameter_set(table, request, parameter, name, &(struct fault){0});
    *resident = tensor;
    *path = NULL;
    return GEMMD_OK;
}
