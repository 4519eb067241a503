/*
 * headers.h - a list of HTTP header fields for an answer that does not exist yet. A job keeps such
 * a list until a client fetches the job's result.
 *
 * A list has one owner at a time and is not locked. Names must be static strings; values are
 * copied.
 */
#ifndef SERVER_BASE_HEADERS_H
#define SERVER_BASE_HEADERS_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "proto/number.h"

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
static inline void headers_clear(struct headers *headers)
{
    headers->count = headers->length = 0; /* nothing else of an empty list is read */
}

/* Appends a field. The caller knows that the fields of its answer fit; a field that does not fit is
 * a mistake in this program, which an assertion catches. */
static inline void headers_add(struct headers *headers, const char *name, const char *value)
{
    const size_t bytes = strlen(value) + 1;
    assert(headers->count < HEADERS_MAX && bytes <= HEADERS_TEXT_MAX - headers->length);
    memcpy(headers->text + headers->length, value, bytes);
    headers->entries[headers->count].name = name;
    headers->entries[headers->count].value = headers->length;
    headers->count++;
    headers->length += (uint32_t)bytes;
}

/* A stage of a Server-Timing header (W3C). */
struct header_stage {
    const char *name; /* "recv;dur=", and from the second stage on ", queue;dur=" */
    uint64_t ns;
};
/* Appends the header Server-Timing, "recv;dur=0.041, queue;dur=...", in milliseconds. At most six
 * stages. */
static inline void headers_add_timing(struct headers *headers, const struct header_stage stages[],
                                      uint32_t count)
{
    char text[256], *end = text;
    for (uint32_t i = 0; i < count; i++)
        end = decimal_milliseconds(stpcpy(end, stages[i].name), stages[i].ns);
    *end = '\0';
    headers_add(headers, "Server-Timing", text);
}

#endif
