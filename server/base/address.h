/*
 * address.h - addresses that the daemon listens on: parsed from text, resolved, and written as
 * text. Any thread.
 */
#ifndef SERVER_BASE_ADDRESS_H
#define SERVER_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"

enum { ADDRESS_TEXT_MAX = 288 };

/* "host:port", "[v6]:port", "unix:PATH" or "unix:@NAME". */
struct address {
    bool is_unix, is_v6;
    char path[108]; /* of a Unix socket; "@NAME": an abstract name */
    char host[256];
    uint16_t port;
};

/* GEMMD_ERR_USAGE: the text is not an address; the fault says why. */
enum gemmd_error address_parse(const char *text, struct address *out, struct fault *fault);
/* Converts an address to a socket address. A host name is looked up, which may block. GEMMD_ERR_IO:
 * the host name cannot be resolved. */
enum gemmd_error address_resolve(const struct address *address, struct sockaddr_storage *out,
                                 socklen_t *length, struct fault *fault);
/* Whether other hosts may be able to connect to a socket that listens on an address: a TCP address
 * that is not a loopback address. */
bool address_is_public(const struct sockaddr_storage *address);
/* Writes a socket address as text, in the form that address_parse reads. */
void address_text(const struct sockaddr_storage *address, socklen_t length, char *out,
                  size_t capacity);

#endif
