/*
 * accept.h - parses lists of preferences, such as an Accept header's, and chooses the format of an
 * answer (RFC 9110, 12.4 and 12.5.1). Pure functions.
 */
#ifndef SERVER_HTTP_ACCEPT_H
#define SERVER_HTTP_ACCEPT_H

#include <stdbool.h>

#include "proto/tensor.h"

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
 * an Accept header (NULL) the format is `own`. Where the header accepts none of the daemon's
 * formats but accepts JSON (application/json or application/problem+json), as the headers that many
 * clients send by default do, the format is `own`, unless the header excludes `own` with a weight
 * of 0. Returns false if the header accepts none of the daemon's formats and no JSON. */
bool accept_format(const char *accept, enum format own, enum format *format);

#endif
