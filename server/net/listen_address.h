/* listen_address.h - addresses from text and to text. Internal to listen*.c; any thread. */
#ifndef SERVER_NET_LISTEN_ADDRESS_H
#define SERVER_NET_LISTEN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"

struct listen_address {
    bool is_unix, is_v6;
    char path[108]; /* of a Unix socket, or '@' and an abstract name */
    char host[256];
    uint16_t port;
};

enum gemmd_error listen_address_parse(const char *text, struct listen_address *out,
                                      struct fault *fault);
/* Looks a host's name up if it is one; may block. */
enum gemmd_error listen_address_resolve(const struct listen_address *address,
                                        struct sockaddr_storage *out, socklen_t *length,
                                        struct fault *fault);
/* As listen.h writes addresses. */
void listen_address_text(const struct sockaddr_storage *address, socklen_t length, char *out,
                         size_t capacity);

#endif
