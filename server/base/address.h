/*
 * address.h - the addresses that a daemon can listen on, from text and to text. Any thread.
 *
 *   HOST:PORT     an IPv4 address or a name (its first address); port 0 takes a free port
 *   [V6]:PORT     an IPv6 address, IPv6 only
 *   unix:PATH     a socket in the file system; the umask decides who may connect
 *   unix:@NAME    a name in Linux's abstract namespace: no file and no permissions
 */
#ifndef SERVER_BASE_ADDRESS_H
#define SERVER_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"

enum { ADDRESS_TEXT_MAX = 288 };

struct address {
    bool is_unix, is_v6;
    char path[108]; /* of a Unix socket; an abstract name begins with '@' */
    char host[256];
    uint16_t port;
};

/* Reads an address without looking up its host. GEMMD_ERR_USAGE: the text is no address. */
enum gemmd_error address_parse(const char *text, struct address *out, struct fault *fault);
/* Looks the host up if it is a name; may block. */
enum gemmd_error address_resolve(const struct address *address, struct sockaddr_storage *out,
                                 socklen_t *length, struct fault *fault);
/* Writes an address in one of the forms above; ADDRESS_TEXT_MAX is always enough. */
void address_text(const struct sockaddr_storage *address, socklen_t length, char *out,
                  size_t capacity);

#endif
