#include "server/api/v2/model_list.h"

#include <stdlib.h>
#include <string.h>

#include "proto/size_text.h"
#include "server/api/services.h"

/* A list of 64 KiB is always sent: the models that every daemon has must fit in their list. */
enum { FIRST_BYTES = 16 * 1024, ALWAYS_SENT_BYTES = 64 * 1024 };

struct model_list {
    struct request *request;
    model_list_write write;
    uint64_t limit;        /* of the text, in bytes */
    struct json_text json; /* `out` is owned */
    bool has_entries;
};

/* Makes room for `more` bytes and the text's terminator. */
static bool model_list_grow(struct model_list *list, uint64_t more)
{
    struct json_text *json = &list->json;
    if (json->capacity - json->length > more)
        return true;
    const uint64_t capacity = 2 * json->capacity + more;
    char *out = realloc(json->out, capacity);
    if (out == NULL) {
        fault_set(&list->request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                  "no memory for the list of models");
        return false;
    }
    json->out = out;
    json->capacity = capacity;
    return true;
}

static bool model_list_add(void *context, const struct model *model)
{
    struct model_list *list = context;
    if (!model_list_grow(list, MODEL_LIST_ENTRY_MAX + 1))
        return false;
    if (list->has_entries)
        json_text_raw(&list->json, ",");
    list->has_entries = true;
    list->write(&list->json, list->request, model);
    if (list->json.length <= list->limit)
        return true;
    fault_set(&list->request->fault, GEMMD_ERR_TOO_LARGE, NULL,
              "the list of models would be longer than %s, which --max-json allows; GET /tensors "
              "lists resident tensors in pages",
              size_text(list->limit).text);
    return false;
}

char *model_list_text(struct request *request, const char *head, model_list_write write,
                      const char *tail)
{
    const uint64_t limit = request->config->max_json_bytes;
    struct model_list list = {.request = request,
                              .write = write,
                              .limit = limit > ALWAYS_SENT_BYTES ? limit : ALWAYS_SENT_BYTES};
    if (!model_list_grow(&list, FIRST_BYTES))
        return NULL;
    json_text_raw(&list.json, head);
    if (!model_each(services_of(request), request->tenant, model_list_add, &list) ||
        !model_list_grow(&list, strlen(tail)))
        goto failed;
    json_text_raw(&list.json, tail);
    (void)json_text_end(&list.json);
    return list.json.out;

failed:
    free(list.json.out);
    return NULL;
}
