/* owner.h - from a part of a struct to the struct, for lists, heaps, inboxes and callbacks, which
 * know the part only. */
#ifndef SERVER_BASE_OWNER_H
#define SERVER_BASE_OWNER_H

#include <stddef.h>

/* The struct of `type` whose `member` is `part`. */
#define OWNER_OF(part, type, member) ((type *)(void *)((char *)(part)-offsetof(type, member)))

#endif
