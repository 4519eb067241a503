/*
 * paged_list.h - a list that the daemon answers in pages, such as GET /tensors and GET /jobs: an
 * array of descriptions, and the member `next` with the text after which the next page begins, or
 * null.
 */
#ifndef CLIENT_PAGED_LIST_H
#define CLIENT_PAGED_LIST_H

#include <gemmd/gemmd.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { PAGED_LIST_NEXT_MAX = 160 };

struct paged_list {
    const char *path, *member; /* "/tensors", and the name of the array in the answer */
    size_t item_bytes;
    /* Reads the description of an item. Returns false if the object describes none. */
    bool (*read)(json_t *description, void *item);
    /* Whether a page that begins after `next` comes after the page that began after `after`, which
     * is "" for the first. Else the requests for pages might never end. */
    bool (*goes_on)(const char *next, const char *after);

    /* Zeroed at first. The caller frees `items`. */
    unsigned char *items; /* `count` items of item_bytes */
    size_t count, room;
    char after[PAGED_LIST_NEXT_MAX];
};

/* Fetches all pages. GEMMD_ERR_PROTOCOL: an answer is not such a list. */
enum gemmd_error paged_list_fetch(struct gemmd_client *client, struct paged_list *list,
                                  struct gemmd_error_info *error);

#endif
