/*
 * read_ahead.h - the bytes of TLS records that an I/O thread has received from a socket and that
 * GnuTLS has not asked for yet.
 *
 * GnuTLS asks for the 5 bytes of a record's head, and then for the record, which is at most 16 KiB.
 * Two calls of recv for each record are a large part of what TLS costs. read_ahead_recv receives
 * several records with one call, and gives GnuTLS the bytes as GnuTLS asks for them. The bytes are
 * encrypted.
 *
 * A connection has a buffer only while the buffer has bytes in it. An I/O thread has at most
 * READ_AHEAD_BUFFERS buffers in use; further connections read without a buffer.
 */
#ifndef SERVER_HTTP_READ_AHEAD_H
#define SERVER_HTTP_READ_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/http/spares.h"

enum { READ_AHEAD_BYTES = 128 * 1024, READ_AHEAD_BUFFERS = 64 };

/* The buffers of an I/O thread. Zeroed, no buffer is in use. Only the thread itself uses them. */
struct read_ahead_buffers {
    struct spares spares;
    uint32_t in_use;
};

/* The bytes of one connection. Zeroed, the connection has none. */
struct read_ahead {
    char *buffer; /* NULL: none */
    size_t begin, end;
};

/* Like recv with MSG_DONTWAIT: gives up to `capacity` bytes that were received earlier, or else
 * receives from `fd`. Returns -1 with EAGAIN only if the connection has no bytes and the socket has
 * none either. */
ssize_t read_ahead_recv(struct read_ahead *ahead, struct read_ahead_buffers *buffers, int fd,
                        void *bytes, size_t capacity);

/* Whether the connection has bytes that GnuTLS has not asked for. */
static inline bool read_ahead_has_bytes(const struct read_ahead *ahead)
{
    return ahead->buffer != NULL;
}

/* Drops the bytes of a connection that ends. */
void read_ahead_drop(struct read_ahead *ahead, struct read_ahead_buffers *buffers);
/* Frees the memory of a thread whose connections have all ended. */
void read_ahead_free(struct read_ahead_buffers *buffers);

#endif
