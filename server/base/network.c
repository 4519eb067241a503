#include "server/base/network.h"

#include <arpa/inet.h>
#include <string.h>

#include "proto/number.h"

enum { MAPPED_BYTES = 12, ADDRESS_BITS = 128 };

static const uint8_t mapped[MAPPED_BYTES] = {[10] = 0xff, [11] = 0xff};

bool network_address_read(const char *text, size_t length, struct in6_addr *address)
{
    char host[INET6_ADDRSTRLEN];
    if (length >= sizeof host)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    if (inet_pton(AF_INET6, host, address) == 1)
        return true;
    memcpy(address->s6_addr, mapped, sizeof mapped);
    return inet_pton(AF_INET, host, address->s6_addr + MAPPED_BYTES) == 1;
}

void network_address_text(const struct in6_addr *address, char out[INET6_ADDRSTRLEN])
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        inet_ntop(AF_INET, address->s6_addr + MAPPED_BYTES, out, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, address, out, INET6_ADDRSTRLEN);
}

bool network_address_of(const struct sockaddr *peer, struct in6_addr *address)
{
    if (peer->sa_family == AF_INET6) {
        memcpy(address, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr,
               sizeof *address);
        return true;
    }
    if (peer->sa_family != AF_INET)
        return false;
    memcpy(address->s6_addr, mapped, sizeof mapped);
    memcpy(address->s6_addr + MAPPED_BYTES,
           &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
    return true;
}

/* Reads one entry of the list. */
static bool read_entry(struct networks *networks, const char *text, size_t length)
{
    static const char unix_name[] = "unix";
    if (length == sizeof unix_name - 1 && memcmp(text, unix_name, length) == 0) {
        networks->has_unix = true;
        return true;
    }
    const char *slash = memchr(text, '/', length);
    const size_t address_length = slash == NULL ? length : (size_t)(slash - text);
    uint64_t bits = ADDRESS_BITS;
    struct in6_addr address;
    if (networks->count == NETWORKS_MAX || !network_address_read(text, address_length, &address))
        return false;
    if (slash != NULL) {
        const bool is_v4 = memchr(text, ':', address_length) == NULL;
        const size_t digits = length - address_length - 1;
        char number[4];
        if (digits >= sizeof number)
            return false;
        memcpy(number, slash + 1, digits);
        number[digits] = '\0';
        if (!number_u64(number, &bits) || bits > (is_v4 ? 32 : ADDRESS_BITS))
            return false;
        bits += is_v4 ? 8 * MAPPED_BYTES : 0;
    }
    networks->list[networks->count].address = address;
    networks->list[networks->count].prefix_bits = (uint32_t)bits;
    networks->count++;
    return true;
}

bool networks_read(struct networks *networks, const char *text, const char **wrong, size_t *length)
{
    networks->count = 0;
    networks->has_unix = false;
    for (;; text += *length + 1) {
        *wrong = text;
        *length = strcspn(text, ",");
        if (!read_entry(networks, text, *length))
            return false;
        if (text[*length] == '\0')
            return true;
    }
}

bool networks_have_address(const struct networks *networks, const struct in6_addr *address)
{
    for (uint32_t i = 0; i < networks->count; i++) {
        const uint8_t *network = networks->list[i].address.s6_addr;
        const uint32_t bytes = networks->list[i].prefix_bits / 8;
        const uint32_t bits = networks->list[i].prefix_bits % 8;
        if (memcmp(network, address->s6_addr, bytes) == 0 &&
            (bits == 0 || (network[bytes] ^ address->s6_addr[bytes]) >> (8 - bits) == 0))
            return true;
    }
    return false;
}

bool networks_have(const struct networks *networks, const struct sockaddr *address)
{
    struct in6_addr v6;
    if (address->sa_family == AF_UNIX)
        return networks->has_unix;
    return network_address_of(address, &v6) && networks_have_address(networks, &v6);
}
