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
#include <stdlib.h>

/* The most blocks that a list keeps. A busy thread rarely has more requests at a time. */
#ifdef __SANITIZE_ADDRESS__
enum { SPARES_MAX = 0 };
#else
enum { SPARES_MAX = 32 };
#endif

struct spare {
    struct spare *next;
};

/* A zeroed list is empty. */
struct spares {
    struct spare *first;
    uint32_t count;
};

/* Returns a block of `bytes`, which must be the same for every call on one list. The block is not
 * cleared. The caller owns the block until spares_give. Returns NULL if memory ran out. */
static inline void *spares_take(struct spares *spares, size_t bytes)
{
    struct spare *spare = spares->first;
    if (spare == NULL)
        return malloc(bytes < sizeof *spare ? sizeof *spare : bytes);
    spares->first = spare->next;
    spares->count--;
    return spare;
}

/* Gives back a block that spares_take returned. NULL is allowed. */
static inline void spares_give(struct spares *spares, void *block)
{
    struct spare *spare = block;
    if (spare == NULL)
        return;
    if (spares->count + 1 > SPARES_MAX) {
        free(spare);
        return;
    }
    spare->next = spares->first;
    spares->first = spare;
    spares->count++;
}

/* Frees all blocks that were given back. */
static inline void spares_free(struct spares *spares)
{
    struct spare *next;
    for (struct spare *spare = spares->first; spare != NULL; spare = next) {
        next = spare->next;
        free(spare);
    }
    *spares = (struct spares){.first = NULL};
}

#endif
