/*
 * negotiation.h - the format of an answer and the codings of bodies, as the headers of a request
 * name them: content negotiation (RFC 9110, 8.4 and 12). Pure functions.
 *
 * A content coding names the compression of a body. "gzip" is RFC 1952. "deflate" is zlib's format
 * (RFC 1950), and not a bare deflate stream (RFC 1951), which some programs send under that name.
 */
#ifndef SERVER_HTTP_NEGOTIATION_H
#define SERVER_HTTP_NEGOTIATION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/tensor.h"

/* ---- lists of preferences, such as an Accept header's ---- */

enum { ACCEPT_RANGE_MAX = 128 };

/* One element of a list. */
struct accept_element {
    char range[ACCEPT_RANGE_MAX]; /* the name, without space and parameters */
    double q;                     /* the weight, from 0 to 1; 1 if the element has no weight */
};

/* Takes the next element off a list, and advances `*list`. Returns false at the end of the list.
 * Elements that are empty, or longer than ACCEPT_RANGE_MAX, are skipped. */
bool accept_next(const char **list, struct accept_element *element);

/* Chooses the format that an Accept header prefers. The format with the highest weight is chosen;
 * among equals the one that is named most exactly, then `own`, the format of the request. Without
 * an Accept header (NULL) the format is `own`, and so it is if the header names JSON and none of
 * the daemon's formats. Returns false if the header accepts none of the daemon's formats and no
 * JSON. */
bool accept_format(const char *accept, enum format own, enum format *format);

/* ---- content codings ---- */

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
