#include "client/paged_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/daemon.h"
#include "client/failure.h"
#include "client/query.h"

static enum gemmd_error not_a_list(const struct paged_list *list, struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_PROTOCOL, NULL, "the daemon's answer is not a list of %s",
                       list->member);
}

static enum gemmd_error make_room(struct paged_list *list, size_t more,
                                  struct gemmd_error_info *error)
{
    const size_t needed = list->count + more;
    if (needed <= list->room)
        return GEMMD_OK;
    const size_t room = needed > 2 * list->room ? needed : 2 * list->room;
    unsigned char *items = realloc(list->items, room * list->item_bytes);
    if (items == NULL)
        return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for a list of %zu %s", needed, list->member);
    list->items = items;
    list->room = room;
    return GEMMD_OK;
}

/* Sets list->after to the member `next` of a page, or "". */
static enum gemmd_error read_next(struct paged_list *list, json_t *page,
                                  struct gemmd_error_info *error)
{
    json_t *member = json_object_get(page, "next");
    const char *next = json_string_value(member);
    if (member != NULL && !json_is_null(member) &&
        (next == NULL || strlen(next) >= sizeof list->after || !list->goes_on(next, list->after)))
        return not_a_list(list, error);
    snprintf(list->after, sizeof list->after, "%s", next != NULL ? next : "");
    return GEMMD_OK;
}

static enum gemmd_error read_page(struct paged_list *list, const char *text,
                                  struct gemmd_error_info *error)
{
    json_t *page = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *array = json_object_get(page, list->member);
    const size_t count = json_array_size(array);
    enum gemmd_error code =
        json_is_array(array) ? make_room(list, count, error) : not_a_list(list, error);
    for (size_t i = 0; i < count && code == GEMMD_OK; i++)
        if (!list->read(json_array_get(array, i), list->items + list->count++ * list->item_bytes))
            code = not_a_list(list, error);
    if (code == GEMMD_OK)
        code = read_next(list, page, error);
    json_decref(page);
    return code;
}

enum gemmd_error paged_list_fetch(struct gemmd_client *client, struct paged_list *list,
                                  struct gemmd_error_info *error)
{
    enum gemmd_error code;
    do {
        char path[3 * sizeof list->after + 32], *text = NULL;
        snprintf(path, sizeof path, "%s", list->path);
        if (list->after[0] != '\0')
            (void)query_append(path, sizeof path, "after", list->after);
        code = daemon_text(client, path, client->options.retries, &text, error);
        if (code == GEMMD_OK)
            code = read_page(list, text, error);
        free(text);
    } while (code == GEMMD_OK && list->after[0] != '\0');
    return code;
}
