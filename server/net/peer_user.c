#include "server/net/peer_user.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A state of TCP connections. */
enum { ESTABLISHED = 1 };

/* One end of a TCP connection. An IPv4 address is mapped into IPv6. */
struct end {
    uint32_t address[4]; /* in network byte order */
    uint32_t port;
};

static bool read_end(const struct sockaddr_storage *from, struct end *end)
{
    *end = (struct end){.port = 0};
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
        end->address[2] = htonl(0xffff); /* ::ffff:a.b.c.d */
        end->address[3] = v4->sin_addr.s_addr;
        end->port = ntohs(v4->sin_port);
        return true;
    }
    if (from->ss_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;
    memcpy(end->address, &v6->sin6_addr, sizeof end->address);
    end->port = ntohs(v6->sin6_port);
    return true;
}

/* Reads "0100007F:1F90", or the same with an IPv6 address of 32 digits. Words are in host byte
 * order. */
static bool parse_end(const char *text, struct end *end)
{
    *end = (struct end){.address = {0, 0, htonl(0xffff), 0}};
    uint32_t *a = end->address;
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return false;
    if (colon - text == 8)
        return sscanf(text, "%8x:%4x", &a[3], &end->port) == 2;
    return sscanf(text, "%8x%8x%8x%8x:%4x", &a[0], &a[1], &a[2], &a[3], &end->port) == 5;
}

static bool equals(const struct end *a, const struct end *b)
{
    return a->port == b->port && memcmp(a->address, b->address, sizeof a->address) == 0;
}

static struct inet_diag_req_v2 question(const struct end *own, const struct end *other)
{
    const struct end v4 = {.address = {0, 0, htonl(0xffff), 0}};
    struct inet_diag_req_v2 ask = {
        .sdiag_family = AF_INET6,
        .sdiag_protocol = IPPROTO_TCP,
        .idiag_states = 1 << ESTABLISHED,
        .id = {.idiag_sport = htons((uint16_t)own->port),
               .idiag_dport = htons((uint16_t)other->port),
               .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
    memcpy(ask.id.idiag_src, own->address, sizeof own->address);
    memcpy(ask.id.idiag_dst, other->address, sizeof other->address);
    /* A kernel may have no IPv6. */
    if (memcmp(own->address, v4.address, 12) == 0) {
        ask.sdiag_family = AF_INET;
        ask.id.idiag_src[0] = own->address[3];
        ask.id.idiag_dst[0] = other->address[3];
    }
    return ask;
}

/* Asks the kernel for the socket whose own end is `own` and whose peer is `other` (sock_diag(7)).
 * Returns false if there is no such socket, or if the host does not allow the question. */
static bool ask_for(const struct end *own, const struct end *other, uid_t *user)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 ask;
    } request = {{.nlmsg_len = sizeof request,
                  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                  .nlmsg_flags = NLM_F_REQUEST},
                 question(own, other)};
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg socket;
        unsigned char more[1024];
    } answer;
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return false;
    /* The kernel answers before send returns. */
    const bool answered = send(fd, &request, sizeof request, 0) == (ssize_t)sizeof request &&
                          recv(fd, &answer, sizeof answer, MSG_DONTWAIT) >=
                              (ssize_t)(sizeof answer.head + sizeof answer.socket);
    close(fd);
    /* A socket that its process has closed has no inode, and root counts as its owner. */
    if (!answered || answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.socket.idiag_state != ESTABLISHED || answer.socket.idiag_inode == 0)
        return false;
    *user = answer.socket.idiag_uid;
    return true;
}

/* Finds the same socket in a list of all connections of the host. A socket that its process has
 * closed is passed over, as in ask_for. */
static bool find_in_table(const char *table, const struct end *own, const struct end *other,
                          uid_t *user)
{
    char line[256], texts[2][64];
    bool found = false;
    FILE *file = fopen(table, "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        struct end ends[2];
        unsigned state, uid;
        unsigned long inode;
        if (sscanf(line, " %*d: %63s %63s %x %*s %*s %*s %u %*s %lu", texts[0], texts[1], &state,
                   &uid, &inode) != 5 ||
            state != ESTABLISHED || inode == 0 || !parse_end(texts[0], &ends[0]) ||
            !parse_end(texts[1], &ends[1]))
            continue;
        found = equals(&ends[0], own) && equals(&ends[1], other);
        *user = uid;
    }
    fclose(file);
    return found;
}

bool peer_user(int fd, uid_t *user)
{
    struct ucred credentials;
    struct sockaddr_storage here = {.ss_family = AF_UNSPEC}, there = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof credentials, here_size = sizeof here, there_size = sizeof there;
    struct end ours, theirs;
    if (getsockname(fd, (struct sockaddr *)&here, &here_size) != 0)
        return false;
    if (here.ss_family == AF_UNIX) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
            return false;
        *user = credentials.uid;
        return true;
    }
    return getpeername(fd, (struct sockaddr *)&there, &there_size) == 0 && read_end(&here, &ours) &&
           read_end(&there, &theirs) &&
           (ask_for(&theirs, &ours, user) || find_in_table("/proc/net/tcp", &theirs, &ours, user) ||
            find_in_table("/proc/net/tcp6", &theirs, &ours, user));
}
