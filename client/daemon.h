/*
 * daemon.h - what the daemon says of itself, of tensors, sequences and jobs: texts such as its
 * description and metrics, the JSON objects that describe a tensor, a sequence or a job, and the
 * lists of them.
 */
#ifndef CLIENT_DAEMON_H
#define CLIENT_DAEMON_H

#include <gemmd/gemmd.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Fetches the text at `path`, with at most `retries` repeats. `text` may be NULL; else `*text`
 * becomes a new string, which the caller releases with gemmd_free. */
enum gemmd_error daemon_text(struct gemmd_client *client, const char *path, uint32_t retries,
                             char **text, struct gemmd_error_info *error);

/* Members of a description that the library does not know are ignored. */

/* Reads {"name", "dtype", "shape", "bytes", "etag", "evictable", "format", "group"}. False if one
 * of the first three is missing or malformed, or "bytes" where the type is GEMMD_DTYPE_COUNT:
 * packed weights, or a type that the library does not know. */
bool daemon_read_tensor(json_t *object, struct gemmd_tensor *tensor);
/* Reads {"name", "dtype", "kv_heads", "d", "dv", "layers", "length", "lengths", "etag",
 * "memory_bytes"}. False if one of the first eight is missing or malformed. */
bool daemon_read_sequence(json_t *object, struct gemmd_sequence *sequence);
/* Reads {"id", "state", "status", "bytes", "queued_ms", "running_ms", "created", "expires",
 * "request_id"}. False if one of the first two is missing or malformed. */
bool daemon_read_job(json_t *object, struct gemmd_job *job);
/* As daemon_read_job, for a job in a list, which may have no id: `job->id` is then "". */
bool daemon_read_listed_job(json_t *object, struct gemmd_job *job);

/* A list that the daemon answers in pages, such as GET /tensors and GET /jobs: an array of
 * descriptions, and the member `next` with the text after which the next page begins, or null. */
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
