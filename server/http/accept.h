/* accept.h - which format a client wants its answer in (RFC 9110, 12.5.1). Pure. */
#ifndef SERVER_HTTP_ACCEPT_H
#define SERVER_HTTP_ACCEPT_H

#include <stdbool.h>

#include "proto/tensor.h"

/* The best format that an Accept header (NULL: none) takes: highest q first, among equals
 * the most exactly named, then the request's own. False if it takes none of ours. */
bool accept_format(const char *accept, enum format own, enum format *format);

#endif
