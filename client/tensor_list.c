#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/daemon.h"
#include "client/description.h"
#include "client/failure.h"
#include "client/resource.h"

/* The part of the list that has been read. */
struct list {
    struct gemmd_tensor *tensors;
    size_t count, room;
    char after[sizeof((struct gemmd_tensor *)0)->name]; /* where the next page starts, or "" */
};

static enum gemmd_error not_a_list(struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                       "the daemon's answer is not a list of tensors");
}

static enum gemmd_error make_room(struct list *list, size_t more, struct gemmd_error_info *error)
{
    size_t needed = list->count + more;
    if (needed <= list->room)
        return GEMMD_OK;
    size_t room = needed > 2 * list->room ? needed : 2 * list->room;
    struct gemmd_tensor *tensors = realloc(list->tensors, room * sizeof *tensors);
    if (tensors == NULL)
        return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for a list of %zu tensors", needed);
    list->tensors = tensors;
    list->room = room;
    return GEMMD_OK;
}

/* Sets list->after to the name after which the next page begins, or "". A name that does not come
 * after the last page's name is an error, since the requests for pages would never end. */
static enum gemmd_error read_next(struct list *list, json_t *page, struct gemmd_error_info *error)
{
    const char *next = json_string_value(json_object_get(page, "next"));
    if (next != NULL &&
        (resource_check_tensor(next, NULL, NULL) != GEMMD_OK || strcmp(next, list->after) <= 0))
        return not_a_list(error);
    snprintf(list->after, sizeof list->after, "%s", next != NULL ? next : "");
    return GEMMD_OK;
}

static enum gemmd_error read_page(struct list *list, const char *text,
                                  struct gemmd_error_info *error)
{
    json_t *page = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *tensors = json_object_get(page, "tensors");
    size_t count = json_array_size(tensors);
    enum gemmd_error code =
        json_is_array(tensors) ? make_room(list, count, error) : not_a_list(error);
    for (size_t i = 0; i < count && code == GEMMD_OK; i++)
        if (!description_tensor(json_array_get(tensors, i), &list->tensors[list->count++]))
            code = not_a_list(error);
    if (code == GEMMD_OK)
        code = read_next(list, page, error);
    json_decref(page);
    return code;
}

static enum gemmd_error fetch_page(struct gemmd_client *client, struct list *list,
                                   struct gemmd_error_info *error)
{
    char path[sizeof list->after + 32], *text = NULL;
    snprintf(path, sizeof path, "/tensors%s%s", list->after[0] != '\0' ? "?after=" : "",
             list->after);
    enum gemmd_error code = daemon_text(client, path, client->options.retries, &text, error);
    if (code == GEMMD_OK)
        code = read_page(list, text, error);
    free(text);
    return code;
}

enum gemmd_error gemmd_tensor_list(struct gemmd_client *client,
                                   void (*each)(const struct gemmd_tensor *tensor, void *user),
                                   void *user, struct gemmd_error_info *error)
{
    struct list list = {0};
    enum gemmd_error code;
    do
        code = fetch_page(client, &list, error);
    while (code == GEMMD_OK && list.after[0] != '\0');
    for (size_t i = 0; i < list.count && code == GEMMD_OK; i++)
        each(&list.tensors[i], user);
    free(list.tensors);
    return code;
}
