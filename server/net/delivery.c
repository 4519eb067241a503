#include "server/net/delivery.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* the tcp_info of netinet/tcp.h lacks tcpi_bytes_acked */
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

bool delivery_acknowledged(int fd, uint64_t *bytes)
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
