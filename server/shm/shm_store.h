/*
 * shm_store.h - the store of the memory that clients share with the daemon. The store maps shared
 * memory, makes it usable by the device, and counts it.
 *
 * A mapping is one piece of shared memory. Whatever uses a mapping holds a reference: a region
 * (regions.h), a connection, a request. The mapping is unmapped after the last reference is
 * released. Mapping and unmapping can take as long as pinning takes (on a GPU 8 to 22 ms for 256
 * MiB). Both are done by the store's own thread, so that no request waits for another request's
 * mapping.
 *
 * Clients can write to shared memory at any time. Shared memory may therefore hold only operands
 * and results, and nothing that decides where the daemon reads or writes.
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
    uint64_t bytes;    /* of all mappings together */
    uint32_t mappings; /* MAPPED_FILE_MAX at most */
};

enum shm_kind {
    SHM_MEMFD,  /* a memfd, whose descriptor was received over a Unix socket */
    SHM_SYSTEM, /* a POSIX shared memory object, opened by its name */
    SHM_CUDA    /* memory of the device, opened by the handle of another process */
};

enum { SHM_KEY_MAX = 255 };

/* Shared memory that is to be mapped. The caller owns the offer, and must not touch the offer from
 * shm_store_map until `done` is called. */
struct shm_offer {
    struct inbox_message message; /* used by the store */
    struct shm_store *store;      /* used by the store */
    enum shm_kind kind;
    int fd;                          /* SHM_MEMFD: the store takes it over, and maps all of it */
    char key[SHM_KEY_MAX + 1];       /* SHM_SYSTEM: the name of the object */
    uid_t user;                      /* SHM_SYSTEM: the user who has to own the object */
    uint64_t offset;                 /* SHM_SYSTEM: of the memory in the object */
    uint64_t bytes;                  /* SHM_SYSTEM, SHM_CUDA: length of the memory */
    struct device_shm_handle handle; /* SHM_CUDA */
    int32_t device;                  /* SHM_CUDA: number of the device */

    /* Called once, usually on the store's thread. The offer then belongs to the caller again. */
    void (*done)(struct shm_offer *offer);
    void *user_data;
    struct shm_mapping *mapping; /* with a reference for the caller; NULL: `fault` says why not */
    struct fault fault;
};

enum { SHM_DEVICES_MAX = 16 };

/* Creates the store and starts its thread. The `count` devices, 1 ... SHM_DEVICES_MAX, are
 * borrowed. Each device can use all memory of the host that is mapped. NULL: out of memory, or the
 * thread cannot start. */
struct shm_store *shm_store_create(const struct shm_limits *limits, struct device *const devices[],
                                   uint32_t count);
/* Ends the thread after it has handled every offer so far. Later offers fail with
 * GEMMD_ERR_DRAINING on the thread that makes them. NULL is allowed. */
void shm_store_stop(struct shm_store *store);
/* After shm_store_stop. Every reference must have been released. NULL is allowed. */
void shm_store_destroy(struct shm_store *store);

/* Any thread may call the functions below. */

/* Maps shared memory. A memfd that is mapped already, for another connection, gets another
 * reference to the same mapping. GEMMD_ERR_MALFORMED: the memory is shorter than the offer says, or
 * the memfd is not sealed against shrinking. GEMMD_ERR_NOT_FOUND: no object has that name, or the
 * object is not the user's; the client is not told which. GEMMD_ERR_NO_ROOM: a limit would be
 * exceeded. GEMMD_ERR_OUT_OF_MEMORY. */
void shm_store_map(struct shm_store *store, struct shm_offer *offer);

/* Adds a reference. */
void shm_mapping_hold(struct shm_mapping *mapping);
/* Releases a reference. NULL is allowed. */
void shm_mapping_release(struct shm_mapping *mapping);

uint64_t shm_mapping_bytes(const struct shm_mapping *mapping);
/* The device whose memory the mapping is; NULL: it is memory of the host. */
const struct device *shm_mapping_device(const struct shm_mapping *mapping);
/* Whether the mapping is device memory, which the host cannot read or write. */
bool shm_mapping_is_on_device(const struct shm_mapping *mapping);
/* The address of `bytes` at `offset`; NULL: the mapping is too short. */
unsigned char *shm_mapping_at(const struct shm_mapping *mapping, uint64_t offset, uint64_t bytes);
/* False: the client has shortened the memory, and results that were computed with it are invalid.
 */
bool shm_mapping_is_whole(const struct shm_mapping *mapping);

/* The number and bytes of the mappings, and their limits; for metrics. */
struct shm_counts {
    uint64_t mappings, bytes;
    uint64_t capacity_mappings, capacity_bytes;
};
struct shm_counts shm_store_counts(struct shm_store *store);

#endif
