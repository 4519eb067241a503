#include "server/http/read_ahead.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Takes a buffer from the thread. Returns false if all are in use, or if memory ran out. */
static bool read_ahead_open(struct read_ahead *ahead, struct read_ahead_buffers *buffers)
{
    if (buffers->in_use == READ_AHEAD_BUFFERS)
        return false;
    ahead->buffer = spares_take(&buffers->spares, READ_AHEAD_BYTES);
    buffers->in_use += ahead->buffer != NULL;
    return ahead->buffer != NULL;
}

static size_t read_ahead_give(struct read_ahead *ahead, struct read_ahead_buffers *buffers,
                              void *bytes, size_t capacity)
{
    const size_t there = ahead->end - ahead->begin;
    const size_t given = capacity < there ? capacity : there;
    memcpy(bytes, ahead->buffer + ahead->begin, given);
    ahead->begin += given;
    if (ahead->begin == ahead->end)
        read_ahead_drop(ahead, buffers);
    return given;
}

ssize_t read_ahead_recv(struct read_ahead *ahead, struct read_ahead_buffers *buffers, int fd,
                        void *bytes, size_t capacity)
{
    if (ahead->buffer == NULL) {
        if (capacity >= READ_AHEAD_BYTES || !read_ahead_open(ahead, buffers))
            return recv(fd, bytes, capacity, MSG_DONTWAIT);
        const ssize_t got = recv(fd, ahead->buffer, READ_AHEAD_BYTES, MSG_DONTWAIT);
        if (got <= 0) {
            const int error = errno;
            read_ahead_drop(ahead, buffers);
            errno = error;
            return got;
        }
        ahead->begin = 0;
        ahead->end = (size_t)got;
    }
    return (ssize_t)read_ahead_give(ahead, buffers, bytes, capacity);
}

void read_ahead_drop(struct read_ahead *ahead, struct read_ahead_buffers *buffers)
{
    if (ahead->buffer == NULL)
        return;
    spares_give(&buffers->spares, ahead->buffer);
    buffers->in_use--;
    *ahead = (struct read_ahead){.buffer = NULL};
}

void read_ahead_free(struct read_ahead_buffers *buffers)
{
    spares_free(&buffers->spares);
}
