#include "server/http/spares.h"

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

void *spares_take(struct spares *spares, size_t bytes)
{
    struct spare *spare = spares->first;
    if (spare == NULL)
        return malloc(bytes < sizeof *spare ? sizeof *spare : bytes);
    spares->first = spare->next;
    spares->count--;
    return spare;
}

void spares_give(struct spares *spares, void *block)
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

void spares_free(struct spares *spares)
{
    struct spare *next;
    for (struct spare *spare = spares->first; spare != NULL; spare = next) {
        next = spare->next;
        free(spare);
    }
    *spares = (struct spares){.first = NULL};
}
