/*
 * traceparent.h - the header that makes a request part of its caller's trace (W3C Trace Context,
 * https://www.w3.org/TR/trace-context/, version 00).
 */
#ifndef CLIENT_TRACEPARENT_H
#define CLIENT_TRACEPARENT_H

#include <stdbool.h>

enum { TRACEPARENT_LENGTH = 55, TRACEPARENT_ROOM = TRACEPARENT_LENGTH + 1 };

#define TRACEPARENT_FORM                                                                           \
    "a traceparent is 00-TRACE-SPAN-FLAGS, with 32, 16 and 2 hexadecimal digits in lower case; "   \
    "neither TRACE nor SPAN is all zeros"

/* Whether a text has the form above. */
bool traceparent_is_valid(const char *text);

#endif
