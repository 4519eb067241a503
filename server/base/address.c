#include "server/base/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "proto/number.h"

static enum gemmd_error bad_address(struct fault *fault, const char *sentence)
{
    return fault_set(fault, GEMMD_ERR_USAGE, "listen", "%s", sentence);
}

static enum gemmd_error parse_unix(const char *path, struct address *out, struct fault *fault)
{
    size_t length = strlen(path);
    if (length == 0 || strcmp(path, "@") == 0)
        return bad_address(fault, "unix: must be followed by a path, or by @ and a name");
    if (length >= sizeof(out->path))
        return bad_address(fault, "the path of a Unix socket can have 107 bytes at most");
    out->is_unix = true;
    memcpy(out->path, path, length + 1);
    return GEMMD_OK;
}

enum gemmd_error address_parse(const char *text, struct address *out, struct fault *fault)
{
    memset(out, 0, sizeof(*out));
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out, fault);

    const char *host = text, *colon = strrchr(text, ':');
    if (!colon)
        return bad_address(fault, "an address is host:port, [v6]:port, unix:PATH or unix:@NAME");
    size_t length = (size_t)(colon - host);
    if (length > 0 && host[0] == '[') {
        if (host[length - 1] != ']')
            return bad_address(fault, "an IPv6 address and its port are written [v6]:port");
        host++;
        length -= 2;
        out->is_v6 = true;
    } else if (memchr(host, ':', length)) {
        return bad_address(fault, "an IPv6 address and its port are written [v6]:port");
    }
    if (length == 0)
        return bad_address(
            fault, "the host is missing; 0.0.0.0 and [::] mean all addresses of this machine");
    if (length >= sizeof(out->host))
        return bad_address(fault, "the host name is too long");
    memcpy(out->host, host, length);

    struct in6_addr v6;
    if (out->is_v6 && inet_pton(AF_INET6, out->host, &v6) != 1 && !strchr(out->host, '%'))
        return bad_address(fault, "there is no IPv6 address between the brackets");
    uint64_t port;
    if (!number_u64(colon + 1, &port) || port > UINT16_MAX)
        return bad_address(fault, "a port is a number from 0 to 65535");
    out->port = (uint16_t)port;
    return GEMMD_OK;
}

enum gemmd_error address_resolve(const struct address *address, struct sockaddr_storage *out,
                                 socklen_t *length, struct fault *fault)
{
    memset(out, 0, sizeof(*out));
    if (address->is_unix) {
        struct sockaddr_un *name = (struct sockaddr_un *)(void *)out;
        size_t bytes = strlen(address->path);
        name->sun_family = AF_UNIX;
        memcpy(name->sun_path, address->path, bytes);
        /* The length of a path includes the terminating null byte. An abstract name starts with a
         * null byte and has none at its end. */
        if (address->path[0] == '@')
            name->sun_path[0] = '\0';
        else
            bytes++;
        *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
        return GEMMD_OK;
    }
    char port[8];
    snprintf(port, sizeof(port), "%u", (unsigned)address->port);
    struct addrinfo hints = {.ai_family = address->is_v6 ? AF_INET6 : AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV |
                                         (address->is_v6 ? AI_NUMERICHOST : 0)};
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(address->host, port, &hints, &found);
    if (failure != 0)
        return fault_set(fault, GEMMD_ERR_IO, "listen", "%.100s cannot be resolved: %s",
                         address->host, gai_strerror(failure));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *length = found->ai_addrlen;
    freeaddrinfo(found);
    return GEMMD_OK;
}

bool address_is_public(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (address->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
    return address->ss_family == AF_INET6 && !IN6_IS_ADDR_LOOPBACK(v6) &&
           !(IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
}

void address_text(const struct sockaddr_storage *address, socklen_t length, char *out,
                  size_t capacity)
{
    char host[INET6_ADDRSTRLEN];
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(out, capacity, "%s:%u", host, (unsigned)ntohs(v4->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        unsigned port = ntohs(v6->sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof(host));
            snprintf(out, capacity, "%s:%u", host, port);
        } else {
            inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
            snprintf(out, capacity, "[%s]:%u", host, port);
        }
    } else if (address->ss_family == AF_UNIX) {
        const struct sockaddr_un *name = (const struct sockaddr_un *)(const void *)address;
        size_t start = offsetof(struct sockaddr_un, sun_path);
        int bytes = length > start ? (int)(length - start) : 0;
        if (bytes > 0 && name->sun_path[0] == '\0')
            snprintf(out, capacity, "unix:@%.*s", bytes - 1, name->sun_path + 1);
        else
            snprintf(out, capacity, "unix:%.*s", bytes, name->sun_path);
    } else {
        snprintf(out, capacity, "unknown");
    }
}
