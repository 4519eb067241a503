#include "server/http/connection_memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/http/server_state.h"
#include "server/shm/shm_store.h"

/* The control buffer's alignment gives it room for two descriptors, even if only one is expected.
 * The kernel closes all further descriptors. */
enum { DESCRIPTORS_MAX = 2 };

struct received {
    int fds[DESCRIPTORS_MAX];
    uint32_t count;
    bool more; /* the message had more descriptors than there was room for */
};

static void read_descriptors(struct msghdr *message, struct received *received)
{
    received->more = (message->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && received->count < DESCRIPTORS_MAX; i++)
            memcpy(&received->fds[received->count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
}

/* Reads an empty line and the descriptors that it carries. Returns false if the received bytes are
 * not an empty line. */
static bool receive_descriptors(int socket, struct received *received)
{
    char line[2];
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {line, sizeof line};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (recv(socket, line, sizeof line, MSG_PEEK | MSG_DONTWAIT) != sizeof line ||
        memcmp(line, "\r\n", sizeof line) != 0 ||
        recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return false;
    read_descriptors(&message, received);
    return true;
}

static void memory_mapped(struct shm_offer *offer)
{
    struct connection *connection = offer->user_data;
    inbox_post(&connection->thread->inbox, &connection->arrival);
}

enum connection_memory_taken connection_memory_take(struct connection *connection)
{
    struct http_server *server = connection->thread->server;
    const bool takes_memory = connection->thread->options.newest->config.shm_memfd;
    struct received received = {.count = 0};
    if (connection->memory != NULL || !receive_descriptors(connection->fd, &received) ||
        received.count == 0)
        return CONNECTION_MEMORY_NONE;
    struct shm_offer *offer = takes_memory ? calloc(1, sizeof *offer) : NULL;
    connection->memory = offer;
    if (offer != NULL && received.count == 1 && !received.more) {
        offer->kind = SHM_MEMFD;
        offer->fd = received.fds[0];
        offer->done = memory_mapped;
        offer->user_data = connection;
        shm_store_map(server->shm_store, offer);
        return CONNECTION_MEMORY_AWAITED;
    }
    for (uint32_t i = 0; i < received.count; i++)
        close(received.fds[i]);
    if (offer != NULL)
        fault_set(&offer->fault, GEMMD_ERR_MALFORMED, NULL,
                  "more than one descriptor came with the connection's first line");
    return offer == NULL && takes_memory ? CONNECTION_MEMORY_FAILED : CONNECTION_MEMORY_NONE;
}

void connection_memory_close(struct connection *connection)
{
    if (connection->memory != NULL)
        shm_mapping_release(connection->memory->mapping);
    free(connection->memory);
    connection->memory = NULL;
}
