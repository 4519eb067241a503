#include "server/net/delivery.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* the tcp_info of netinet/tcp.h lacks tcpi_bytes_acked */
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

bool delivery_is_below(uint64_t moved, uint64_t since_ns, uint64_t now_ns, uint64_t least_rate)
{
    return now_ns > since_ns &&
           (double)moved * 1e9 < (double)least_rate * (double)(now_ns - since_ns);
}

bool delivery_misses(uint64_t bytes, uint64_t moved, uint64_t since_ns, uint64_t now_ns,
                     uint64_t until_ns)
{
    if (moved >= bytes || now_ns <= since_ns)
        return false;
    if (now_ns >= until_ns)
        return true;
    const double rate = (double)moved / (double)(now_ns - since_ns); /* bytes a nanosecond */
    return (double)(bytes - moved) > 2 * rate * (double)(until_ns - now_ns);
}

/* The bytes that the peer of a TCP socket has acknowledged since the connection was opened. Returns
 * false if the socket is not of TCP. */
static bool acknowledged_by_peer(int fd, uint64_t *bytes)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
        length < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked)
        return false;
    *bytes = info.tcpi_bytes_acked;
    return true;
}

uint64_t delivery_outstanding(int fd)
{
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

bool delivery_was_read(int fd)
{
    struct pollfd state = {.fd = fd};
    int domain, error;
    socklen_t domain_length = sizeof domain, error_length = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_length) == 0 &&
           domain == AF_UNIX && poll(&state, 1, 0) == 1 && (state.revents & POLLHUP) != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_length) == 0 && error == 0;
}

/* ---- answers ---- */

/* A Unix socket's outstanding bytes change only when the client has received one whole piece, which
 * is at most this long, with the system's overhead. */
static const uint64_t UNIX_PIECE_BYTES = 64 * 1024;

void delivery_begin(struct delivery *delivery, int fd)
{
    *delivery = (struct delivery){.begun = true};
    delivery->counts = acknowledged_by_peer(fd, &delivery->acknowledged_bytes);
}

void delivery_look(struct delivery *delivery, int fd)
{
    if (delivery->counts)
        return;
    const uint64_t before = delivery->outstanding_bytes, now = delivery_outstanding(fd);
    /* More bytes are written only after the client has received some. */
    if (now > before || now == 0)
        delivery->received_bytes += UNIX_PIECE_BYTES;
    else
        delivery->received_bytes += before - now;
    delivery->outstanding_bytes = now;
}

bool delivery_is_slow(const struct delivery *delivery, int fd, uint64_t since_ns, uint64_t now_ns,
                      uint64_t least_rate, uint64_t bytes, uint64_t until_ns)
{
    uint64_t acknowledged;
    if (!delivery->counts)
        return delivery_is_below(delivery->received_bytes, since_ns, now_ns,
                                 least_rate < DELIVERY_UNIX_RATE ? least_rate : DELIVERY_UNIX_RATE);
    if (!acknowledged_by_peer(fd, &acknowledged))
        return false;
    const uint64_t moved = acknowledged - delivery->acknowledged_bytes;
    return delivery_is_below(moved, since_ns, now_ns, least_rate) ||
           (until_ns != 0 && delivery_misses(bytes, moved, since_ns, now_ns, until_ns));
}
