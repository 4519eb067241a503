#include "server/base/json_whole.h"

#include <stdlib.h>
#include <string.h>

json_t *json_whole(json_t *value, bool whole)
{
    if (whole)
        return value;
    json_decref(value);
    return NULL;
}

/* A text that grows. */
struct whole_text {
    char *bytes;
    size_t length, room;
    bool failed; /* a piece of the text is missing */
};

static int add_piece(const char *piece, size_t length, void *context)
{
    struct whole_text *text = context;
    if (text->failed)
        return -1;
    if (text->room - text->length <= length) {
        const size_t room = 2 * text->room + length + 1;
        char *larger = realloc(text->bytes, room);
        if (larger == NULL) {
            text->failed = true;
            return -1;
        }
        text->bytes = larger;
        text->room = room;
    }
    memcpy(text->bytes + text->length, piece, length);
    text->length += length;
    text->bytes[text->length] = '\0';
    return 0;
}

char *json_whole_text(json_t *root, size_t flags)
{
    enum { FIRST_ROOM = 1024 };
    struct whole_text text = {.bytes = root != NULL ? malloc(FIRST_ROOM) : NULL,
                              .room = FIRST_ROOM};
    text.failed =
        text.bytes == NULL || json_dump_callback(root, add_piece, &text, flags) != 0 || text.failed;
    json_decref(root);
    if (!text.failed)
        return text.bytes;
    free(text.bytes);
    return NULL;
}
