#include <stdlib.h>
#include <string.h>

#include "client/description.h"
#include "client/paged_list.h"
#include "client/resource.h"

static bool read_tensor(json_t *description, void *item)
{
    return description_tensor(description, item);
}

/* Pages are told apart by names, which are sorted. */
static bool is_later(const char *next, const char *after)
{
    return resource_check_tensor(next, NULL, NULL) == GEMMD_OK && strcmp(next, after) > 0;
}

enum gemmd_error gemmd_tensor_list(struct gemmd_client *client,
                                   void (*each)(const struct gemmd_tensor *tensor, void *user),
                                   void *user, struct gemmd_error_info *error)
{
    struct paged_list list = {.path = "/tensors",
                              .member = "tensors",
                              .item_bytes = sizeof(struct gemmd_tensor),
                              .read = read_tensor,
                              .goes_on = is_later};
    const enum gemmd_error code = paged_list_fetch(client, &list, error);
    const struct gemmd_tensor *tensors = (const struct gemmd_tensor *)(void *)list.items;
    for (size_t i = 0; i < list.count && code == GEMMD_OK; i++)
        each(&tensors[i], user);
    free(list.items);
    return code;
}
