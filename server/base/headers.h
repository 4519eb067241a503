/*
 * headers.h - a list of HTTP header fields for an answer that does not exist yet. A job keeps such
 * a list until a client fetches the job's result.
 *
 * A list has one owner at a time and is not locked. Names must be static strings; values are
 * copied.
 */
#ifndef SERVER_BASE_HEADERS_H
#define SERVER_BASE_HEADERS_H

#include <stdint.h>

enum { HEADERS_MAX = 12, HEADERS_TEXT_MAX = 768 };

struct headers {
    uint32_t count, length;
    struct {
        const char *name;
        uint32_t value; /* where the value begins in `text` */
    } entries[HEADERS_MAX];
    char text[HEADERS_TEXT_MAX]; /* the values, each with its terminator */
};

/* Empties the list. A zeroed list is empty too. */
void headers_clear(struct headers *headers);
/* Appends a field. The caller knows that the fields of its answer fit; a field that does not fit is
 * a mistake in this program, which an assertion catches. */
void headers_add(struct headers *headers, const char *name, const char *value);
/* The value of entry `index`, which is below `count`. Borrowed from the list. */
const char *headers_value(const struct headers *headers, uint32_t index);

#endif
