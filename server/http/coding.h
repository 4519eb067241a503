/*
 * coding.h - content codings (RFC 9110, 8.4), which name the compression of a body. Pure functions.
 *
 * "gzip" is RFC 1952. "deflate" is zlib's format (RFC 1950), and not a bare deflate stream
 * (RFC 1951), which some programs send under that name.
 */
#ifndef SERVER_HTTP_CODING_H
#define SERVER_HTTP_CODING_H

#include <stdbool.h>
#include <stdint.h>

enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_COUNT };

#define CODING_NAMES "gzip, deflate" /* the supported codings, as a value of Accept-Encoding */

/* The codings that the Content-Encoding headers of a message name; zeroed at first. */
struct coding_list {
    enum coding coding; /* the last supported coding that was named */
    uint32_t count;     /* of codings other than identity */
    bool unknown;       /* at least one coding is not supported */
};

/* Adds the codings that the value of one Content-Encoding header names. */
void coding_read(struct coding_list *list, const char *value);
/* The name of a coding, for example "gzip". The string is static. */
const char *coding_name(enum coding coding);
/* The coding that an Accept-Encoding header prefers. Among codings of equal weight gzip is chosen
 * before deflate, and deflate before identity. Without a header (NULL): identity. */
enum coding coding_accepted(const char *accept);

#endif
