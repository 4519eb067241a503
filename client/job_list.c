#include <stdlib.h>

#include "client/description.h"
#include "client/paged_list.h"
#include "proto/number.h"

static bool read_job(json_t *description, void *item)
{
    return description_listed_job(description, item);
}

/* Pages are told apart by numbers, which become smaller. */
static bool is_older(const char *next, const char *after)
{
    uint64_t number, last = UINT64_MAX;
    if (after[0] != '\0' && !number_u64(after, &last))
        return false;
    return number_u64(next, &number) && number > 0 && number < last;
}

enum gemmd_error gemmd_job_list(struct gemmd_client *client,
                                void (*each)(const struct gemmd_job *job, void *user), void *user,
                                struct gemmd_error_info *error)
{
    struct paged_list list = {.path = "/jobs",
                              .member = "jobs",
                              .item_bytes = sizeof(struct gemmd_job),
                              .read = read_job,
                              .goes_on = is_older};
    const enum gemmd_error code = paged_list_fetch(client, &list, error);
    const struct gemmd_job *jobs = (const struct gemmd_job *)(void *)list.items;
    for (size_t i = 0; i < list.count && code == GEMMD_OK; i++)
        each(&jobs[i], user);
    free(list.items);
    return code;
}
