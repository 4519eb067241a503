/*
 * headers.h - the headers of an answer, gathered before there is an answer to send them with: a
 * job's wait until somebody fetches its result.
 *
 * One owner at a time. Names are static, values are copied.
 */
#ifndef SERVER_HTTP_HEADERS_H
#define SERVER_HTTP_HEADERS_H

#include <stdint.h>

struct MHD_Response;

enum { HEADERS_MAX = 12, HEADERS_TEXT_MAX = 768 };

struct headers {
    uint32_t count, length;
    struct {
        const char *name;
        uint32_t value; /* where it begins in `text` */
    } entries[HEADERS_MAX];
    char text[HEADERS_TEXT_MAX]; /* values, each with its terminator */
};

/* Makes them empty, which zeroed ones are. */
void headers_clear(struct headers *headers);
/* What an answer carries is known to fit; a header that does not is a mistake in this program. */
void headers_add(struct headers *headers, const char *name, const char *value);
/* Adds them all to a response. */
void headers_apply(const struct headers *headers, struct MHD_Response *response);

#endif
