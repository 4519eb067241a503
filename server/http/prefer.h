/*
 * prefer.h - the Prefer headers of a request (RFC 7240). The daemon supports two preferences,
 * respond-async and wait. Pure functions.
 */
#ifndef SERVER_HTTP_PREFER_H
#define SERVER_HTTP_PREFER_H

#include <stdbool.h>
#include <stdint.h>

struct preferences {
    bool respond_async;
    bool has_wait;
    uint64_t wait_s; /* the N of wait=N, if has_wait */
};

/* Adds the preferences of one Prefer header. A request may have several Prefer headers; of two
 * preferences with one name the first counts. Preferences that are unknown or malformed are
 * skipped. `preferences` must be zeroed before the first header. */
void prefer_read(struct preferences *preferences, const char *value);

#endif
