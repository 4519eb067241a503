/*
 * coding.h - content codings (RFC 9110, 8.4): what a body is compressed with. Pure functions.
 *
 * "gzip" is RFC 1952, "deflate" is zlib's format (RFC 1950) and not the bare stream that some send.
 */
#ifndef SERVER_HTTP_CODING_H
#define SERVER_HTTP_CODING_H

#include <stdbool.h>
#include <stdint.h>

enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_COUNT };

#define CODING_NAMES "gzip, deflate" /* as Accept-Encoding says it */

/* What the Content-Encoding headers of a message say; zeroed at first. */
struct coding_list {
    enum coding coding;
    uint32_t count; /* of codings other than identity */
    bool unknown;   /* some are none of ours */
};

/* Adds what one header says. */
void coding_read(struct coding_list *list, const char *value);
/* "gzip"; static. */
const char *coding_name(enum coding coding);
/* The coding that an Accept-Encoding header (NULL: none) likes best, gzip before deflate before
 * none at all where it likes them equally. */
enum coding coding_accepted(const char *accept);

#endif
