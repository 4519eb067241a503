/*
 * network.h - a list of networks, such as those of the proxies that the daemon trusts. Any thread.
 */
#ifndef SERVER_BASE_NETWORK_H
#define SERVER_BASE_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { NETWORKS_MAX = 64 };

/* Addresses are those of IPv6; an IPv4 address is the one that IPv6 maps it to. */
struct networks {
    uint32_t count;
    struct {
        struct in6_addr address;
        uint32_t prefix_bits; /* the first bits, which the addresses of the network share */
    } list[NETWORKS_MAX];
    bool has_unix; /* the list has "unix": all connections over Unix sockets */
};

/* Reads a list: addresses ("192.0.2.7", "::1"), networks ("10.0.0.0/8") and "unix", separated by
 * commas. Returns false if `*wrong`, of `*length` characters, is none of these, or if there are
 * more than NETWORKS_MAX networks. */
bool networks_read(struct networks *networks, const char *text, const char **wrong, size_t *length);

/* Whether the list is empty. */
static inline bool networks_are_none(const struct networks *networks)
{
    return networks->count == 0 && !networks->has_unix;
}
/* Whether the list has the address of a peer. */
bool networks_have(const struct networks *networks, const struct sockaddr *address);
bool networks_have_address(const struct networks *networks, const struct in6_addr *address);

/* Reads an address of IPv4 or IPv6, without a port, from the first `length` characters. */
bool network_address_read(const char *text, size_t length, struct in6_addr *address);
/* Writes an address: one that IPv6 maps from IPv4 as IPv4 writes it. */
void network_address_text(const struct in6_addr *address, char out[INET6_ADDRSTRLEN]);
/* Stores the address of an IPv4 or IPv6 peer. Returns false for another peer. */
bool network_address_of(const struct sockaddr *peer, struct in6_addr *address);

#endif
