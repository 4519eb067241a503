/* accept.h - which of several a client likes best (RFC 9110, 12.4 and 12.5.1). Pure. */
#ifndef SERVER_HTTP_ACCEPT_H
#define SERVER_HTTP_ACCEPT_H

#include <stdbool.h>

#include "proto/tensor.h"

enum { ACCEPT_RANGE_MAX = 128 };

/* One element of a list: what it names, without space or parameters, and its weight. */
struct accept_element {
    char range[ACCEPT_RANGE_MAX];
    double q; /* 1 if it has none */
};

/* Takes the next element off a list; false at its end. Those that are empty or too long to mean
 * anything here are passed over. */
bool accept_next(const char **list, struct accept_element *element);

/* The best format that an Accept header (NULL: none) takes: highest q first, among equals
 * the most exactly named, then the request's own. False if it takes none of ours. */
bool accept_format(const char *accept, enum format own, enum format *format);

#endif
