/*
 * spares.h - blocks of memory that one thread uses again and again, without going through malloc.
 *
 * A busy I/O thread allocates the same few sizes for every request; glibc consolidates its free
 * lists whenever such a large block is asked for. A list of spares holds blocks of one size. Only
 * one thread may use a list. Under AddressSanitizer nothing is kept, so that it sees every use of a
 * block after its end.
 */
#ifndef SERVER_HTTP_SPARES_H
#define SERVER_HTTP_SPARES_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. */
struct spares {
    struct spare *first;
    uint32_t count;
};

/* A block of `bytes`, which are the same for every call on a list. Not cleared. NULL: out of
 * memory. */
void *spares_take(struct spares *spares, size_t bytes);
/* Gives a block back that came from spares_take; NULL is allowed. */
void spares_give(struct spares *spares, void *block);
/* Frees all blocks that were given back. */
void spares_free(struct spares *spares);

#endif
