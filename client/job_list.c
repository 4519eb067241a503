#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/daemon.h"
#include "client/description.h"
#include "client/failure.h"
#include "proto/number.h"

/* The part of the list that has been read. */
struct list {
    struct gemmd_job *jobs;
    size_t count, room;
    uint64_t after; /* where the next page starts; 0: there is none, UINT64_MAX: at the front */
};

static enum gemmd_error not_a_list(struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                       "the daemon's answer is not a list of jobs");
}

static enum gemmd_error make_room(struct list *list, size_t more, struct gemmd_error_info *error)
{
    size_t needed = list->count + more;
    if (needed <= list->room)
        return GEMMD_OK;
    size_t room = needed > 2 * list->room ? needed : 2 * list->room;
    struct gemmd_job *jobs = realloc(list->jobs, room * sizeof *jobs);
    if (jobs == NULL)
        return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for a list of %zu jobs", needed);
    list->jobs = jobs;
    list->room = room;
    return GEMMD_OK;
}

/* Sets list->after to the member `next` of a page, which is a number that becomes smaller with each
 * page. Without this check the requests for pages might never end. */
static enum gemmd_error read_next(struct list *list, json_t *page, struct gemmd_error_info *error)
{
    json_t *next = json_object_get(page, "next");
    uint64_t after = 0;
    if (next != NULL && !json_is_null(next) &&
        (!json_is_string(next) || !number_u64(json_string_value(next), &after) || after == 0 ||
         after >= list->after))
        return not_a_list(error);
    list->after = after;
    return GEMMD_OK;
}

static enum gemmd_error read_page(struct list *list, const char *text,
                                  struct gemmd_error_info *error)
{
    json_t *page = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *jobs = json_object_get(page, "jobs");
    size_t count = json_array_size(jobs);
    enum gemmd_error code = json_is_array(jobs) ? make_room(list, count, error) : not_a_list(error);
    for (size_t i = 0; i < count && code == GEMMD_OK; i++)
        if (!description_job(json_array_get(jobs, i), &list->jobs[list->count++]))
            code = not_a_list(error);
    if (code == GEMMD_OK)
        code = read_next(list, page, error);
    json_decref(page);
    return code;
}

static enum gemmd_error fetch_page(struct gemmd_client *client, struct list *list,
                                   struct gemmd_error_info *error)
{
    char path[48] = "/jobs", *text = NULL;
    if (list->after != UINT64_MAX)
        snprintf(path, sizeof path, "/jobs?after=%llu", (unsigned long long)list->after);
    enum gemmd_error code = daemon_text(client, path, client->options.retries, &text, error);
    if (code == GEMMD_OK)
        code = read_page(list, text, error);
    free(text);
    return code;
}

enum gemmd_error gemmd_job_list(struct gemmd_client *client,
                                void (*each)(const struct gemmd_job *job, void *user), void *user,
                                struct gemmd_error_info *error)
{
    struct list list = {.after = UINT64_MAX};
    enum gemmd_error code;
    do
        code = fetch_page(client, &list, error);
    while (code == GEMMD_OK && list.after != 0);
    for (size_t i = 0; i < list.count && code == GEMMD_OK; i++)
        each(&list.jobs[i], user);
    free(list.jobs);
    return code;
}
