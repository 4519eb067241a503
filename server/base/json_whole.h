/*
 * json_whole.h - builds JSON documents, and their texts, completely or not at all. A document is
 * built in several steps, and any of the steps may fail for lack of memory. Any thread.
 */
#ifndef SERVER_BASE_JSON_WHOLE_H
#define SERVER_BASE_JSON_WHOLE_H

#include <jansson.h>
#include <stdbool.h>

/* Returns `value` if all its parts were added; otherwise releases `value` and returns NULL. `value`
 * may be NULL. A json_pack that takes over NULL returns NULL too, so that a document without a part
 * is no document. */
json_t *json_whole(json_t *value, bool whole);

/* Returns the text of a document, with jansson's `flags`, which the caller frees. Takes over
 * `root`. Returns NULL if `root` is NULL or memory ran out. json_dumps() would go on after a key
 * for which there was no memory, and return a text that is not JSON. */
char *json_whole_text(json_t *root, size_t flags);

#endif
