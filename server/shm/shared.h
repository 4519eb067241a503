/*
 * shared.h - the memory that clients share with the daemon: mapped, known to the device, counted.
 *
 * A memory is in use by whatever holds a reference: a name (regions.h), a connection, a request.
 * It goes when the last one does, whoever that is. Mapping a memory and letting it go can take as
 * long as it takes to pin it (a GPU: 8 to 22 ms for 256 MiB), so both happen on a thread of their
 * own, and no request waits for another's.
 *
 * Clients can write to their memory at any time. Only what is computed with may lie there: nothing
 * that decides where the daemon reads or writes.
 */
#ifndef SERVER_SHM_SHARED_H
#define SERVER_SHM_SHARED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/error.h"
#include "server/base/inbox.h"
#include "server/device/device_share.h"

struct shared;
struct shared_memory;

struct shared_limits {
    uint64_t bytes;    /* of all memories */
    uint32_t memories; /* MAPPING_COUNT_MAX at most */
};

enum shared_kind {
    SHARED_MEMFD,  /* a descriptor that came over a Unix socket */
    SHARED_SYSTEM, /* a POSIX shared memory object, by its name */
    SHARED_CUDA    /* memory of the device, by another process's handle */
};

enum { SHARED_KEY_MAX = 255 };

/* A memory to be taken. The caller's, and left alone by it until `done` is called. */
struct shared_offer {
    struct inbox_message message; /* the store's, and the next one */
    struct shared *shared;
    enum shared_kind kind;
    int fd;                            /* SHARED_MEMFD: taken over. All of it is mapped */
    char key[SHARED_KEY_MAX + 1];      /* SHARED_SYSTEM */
    uid_t user;                        /* ... whose it has to be */
    uint64_t offset, bytes;            /* ... what of it */
    struct device_share_handle handle; /* SHARED_CUDA, with `bytes` */
    int32_t device;

    /* Called once, mostly on the store's thread; the offer is the caller's again. */
    void (*done)(struct shared_offer *offer);
    void *user_data;
    struct shared_memory *memory; /* with a reference for the caller; NULL: `fault` says why not */
    struct fault fault;
};

/* `device` is borrowed. NULL: out of memory, or no thread. */
struct shared *shared_create(const struct shared_limits *limits, struct device *device);
/* Ends the thread, once it has done what it was asked to: what is offered from here on fails with
 * GEMMD_ERR_DRAINING, on the thread that offers it. NULL is allowed. */
void shared_stop(struct shared *shared);
/* After shared_stop. Nothing may have a reference any more. NULL is allowed. */
void shared_destroy(struct shared *shared);

/* Any thread, all of the rest. */

/* Takes a memory. GEMMD_ERR_MALFORMED: it is not as long as was said, or not sealed.
 * GEMMD_ERR_NOT_FOUND: there is no object of that name that is the user's: which of the two is not
 * told. GEMMD_ERR_NO_ROOM: the limits. GEMMD_ERR_OUT_OF_MEMORY. Of a memfd that is mapped already,
 * for another connection, another reference is all it takes. */
void shared_take(struct shared *shared, struct shared_offer *offer);

void shared_use(struct shared_memory *memory);     /* one reference more */
void shared_release(struct shared_memory *memory); /* NULL is allowed */

uint64_t shared_bytes(const struct shared_memory *memory);
/* Whether the host cannot touch it: it is the device's. */
bool shared_is_on_device(const struct shared_memory *memory);
/* `bytes` from `offset` on; NULL if they are not all in it. */
unsigned char *shared_at(const struct shared_memory *memory, uint64_t offset, uint64_t bytes);
/* False once its owner has been found to have cut it short: what was computed with it is void. */
bool shared_is_whole(const struct shared_memory *memory);

struct shared_counts {
    uint64_t memories, bytes; /* now */
    uint64_t capacity_memories, capacity_bytes;
};
struct shared_counts shared_counts(struct shared *shared);

#endif
