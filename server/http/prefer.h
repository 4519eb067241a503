/*
 * prefer.h - what a client would like best (RFC 7240), of which this daemon heeds two preferences.
 * Pure functions.
 */
#ifndef SERVER_HTTP_PREFER_H
#define SERVER_HTTP_PREFER_H

#include <stdbool.h>
#include <stdint.h>

struct preferences {
    bool respond_async;
    bool has_wait;
    uint64_t wait_s; /* wait=N */
};

/* Adds what one Prefer header says; a request may have several, and the first of two equal
 * preferences counts. What is not understood is passed over: a preference obliges to nothing.
 * `preferences` is zeroed before the first. */
void prefer_read(struct preferences *preferences, const char *value);

#endif
