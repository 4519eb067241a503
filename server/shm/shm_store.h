/*
 * shm_store.h - the memory that clients share with the daemon: mapped, known to the device,
 * counted.
 *
 * A memory is in use by whatever holds a reference: a name (regions.h), a connection, a request.
 * It goes when the last one does, whoever that is. Mapping a memory and letting it go can take as
 * long as it takes to pin it (a GPU: 8 to 22 ms for 256 MiB), so both happen on a thread of their
 * own, and no request waits for another's.
 *
 * Clients can write to their memory at any time. Only what is computed with may lie there: nothing
 * that decides where the daemon reads or writes.
 */
#ifndef SERVER_SHM_SHM_STORE_H
#define SERVER_SHM_SHM_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/error.h"
#include "server/base/inbox.h"
#include "server/device/device_shm.h"

struct shm_store;
struct shm_mapping;

struct shm_limits {
    uint64_t bytes;    /* of all memories */
    uint32_t mappings; /* MAPPED_FILE_MAX at most */
};

enum shm_kind {
    SHM_MEMFD,  /* a descriptor that came over a Unix socket */
    SHM_SYSTEM, /* a POSIX shared memory object, by its name */
    SHM_CUDA    /* memory of the device, by another process's handle */
};

enum { SHM_KEY_MAX = 255 };

/* A memory to be taken. The caller's, and left alone by it until `done` is called. */
struct shm_offer {
    struct inbox_message message; /* the store's, and the next one */
    struct shm_store *store;
    enum shm_kind kind;
    int fd;                          /* SHM_MEMFD: taken over. All of it is mapped */
    char key[SHM_KEY_MAX + 1];       /* SHM_SYSTEM */
    uid_t user;                      /* ... whose it has to be */
    uint64_t offset, bytes;          /* ... what of it */
    struct device_shm_handle handle; /* SHM_CUDA, with `bytes` */
    int32_t device;

    /* Called once, mostly on the store's thread; the offer is the caller's again. */
    void (*done)(struct shm_offer *offer);
    void *user_data;
    struct shm_mapping *mapping; /* with a reference for the caller; NULL: `fault` says why not */
    struct fault fault;
};

/* `device` is borrowed. NULL: out of memory, or no thread. */
struct shm_store *shm_store_create(const struct shm_limits *limits, struct device *device);
/* Ends the thread, once it has done what it was asked to: what is offered from here on fails with
 * GEMMD_ERR_DRAINING, on the thread that offers it. NULL is allowed. */
void shm_store_stop(struct shm_store *store);
/* After shm_store_stop. Nothing may have a reference any more. NULL is allowed. */
void shm_store_destroy(struct shm_store *store);

/* Any thread, all of the rest. */

/* Takes a memory. GEMMD_ERR_MALFORMED: it is not as long as was said, or not sealed.
 * GEMMD_ERR_NOT_FOUND: there is no object of that name that is the user's: which of the two is not
 * told. GEMMD_ERR_NO_ROOM: the limits. GEMMD_ERR_OUT_OF_MEMORY. Of a memfd that is mapped already,
 * for another connection, another reference is all it takes. */
void shm_store_map(struct shm_store *store, struct shm_offer *offer);

void shm_mapping_hold(struct shm_mapping *mapping);    /* one reference more */
void shm_mapping_release(struct shm_mapping *mapping); /* NULL is allowed */

uint64_t shm_mapping_bytes(const struct shm_mapping *mapping);
/* Whether the host cannot touch it: it is the device's. */
bool shm_mapping_is_on_device(const struct shm_mapping *mapping);
/* `bytes` from `offset` on; NULL if they are not all in it. */
unsigned char *shm_mapping_at(const struct shm_mapping *mapping, uint64_t offset, uint64_t bytes);
/* False once its owner has been found to have cut it short: what was computed with it is void. */
bool shm_mapping_is_whole(const struct shm_mapping *mapping);

struct shm_counts {
    uint64_t mappings, bytes; /* now */
    uint64_t capacity_mappings, capacity_bytes;
};
struct shm_counts shm_store_counts(struct shm_store *store);

#endif
