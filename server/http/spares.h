/*
 * spares.h - a list of free blocks of one size, which one thread reuses without calling malloc.
 *
 * A busy I/O thread allocates blocks of the same few sizes for every request, and glibc's malloc
 * consolidates its free lists for every block of such a size. Only one thread may use a list. Under
 * AddressSanitizer a list keeps no blocks, so that the sanitizer detects each use of a freed block.
 */
#ifndef SERVER_HTTP_SPARES_H
#define SERVER_HTTP_SPARES_H

#include <stddef.h>
#include <stdint.h>

/* A zeroed list is empty. */
struct spares {
    struct spare *first;
    uint32_t count;
};

/* Returns a block of `bytes`, which must be the same for every call on one list. The block is not
 * cleared. The caller owns the block until spares_give. Returns NULL if memory ran out. */
void *spares_take(struct spares *spares, size_t bytes);
/* Gives back a block that spares_take returned. NULL is allowed. */
void spares_give(struct spares *spares, void *block);
/* Frees all blocks that were given back. */
void spares_free(struct spares *spares);

#endif
