/* address.h - addresses from text and to text. Internal to listen*.c; any thread. */
#ifndef SERVER_BASE_ADDRESS_H
#define SERVER_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"

struct address {
    bool is_unix, is_v6;
    char path[108]; /* of a Unix socket, or '@' and an abstract name */
    char host[256];
    uint16_t port;
};

enum gemmd_error address_parse(const char *text, struct address *out, struct fault *fault);
/* Looks a host's name up if it is one; may block. */
enum gemmd_error address_resolve(const struct address *address, struct sockaddr_storage *out,
                                 socklen_t *length, struct fault *fault);
/* As listen.h writes addresses. */
void address_text(const struct sockaddr_storage *address, socklen_t length, char *out,
                  size_t capacity);

#endif
