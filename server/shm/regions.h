/*
 * regions.h - the names that clients give to memory they share (the shared memory extensions of the
 * Open Inference Protocol; shm_store.h is the memory itself).
 *
 * A name is its owner's: that of one user of this host with one token. Others neither see it, nor
 * use it, nor take it away; they may have the same name for a memory of theirs. A name that is
 * taken away while requests use the memory is gone at once, the memory with the last of them. Any
 * thread.
 */
#ifndef SERVER_SHM_REGIONS_H
#define SERVER_SHM_REGIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/error.h"
#include "server/shm/shm_store.h"

struct regions;

enum { REGION_NAME_MAX = 128 };

struct region_owner {
    uint32_t tenant;
    uid_t user;
};

struct region {
    char name[REGION_NAME_MAX + 1];
    enum shm_kind kind;        /* SHM_SYSTEM or SHM_CUDA, which share their names */
    char key[SHM_KEY_MAX + 1]; /* system */
    uint64_t offset, bytes;
    int32_t device; /* CUDA */
    struct shm_mapping *mapping;
};

struct regions *regions_create(uint32_t most); /* NULL: out of memory */
void regions_destroy(struct regions *regions); /* takes all names away; NULL is allowed */

/* "[A-Za-z0-9._-]{1,128}" */
bool region_is_name(const char *name);
/* Names a memory; the reference in region->mapping is taken over, also on failure.
 * GEMMD_ERR_MALFORMED: the owner has a region of that name. GEMMD_ERR_NO_ROOM: there are `most`. */
enum gemmd_error regions_add(struct regions *regions, struct region_owner owner,
                             const struct region *region, struct fault *fault);
/* The memory of a name, with a reference for the caller. GEMMD_ERR_MALFORMED: the owner has none of
 * that name. */
enum gemmd_error regions_find(struct regions *regions, struct region_owner owner, const char *name,
                              struct shm_mapping **mapping, struct fault *fault);
/* Takes the owner's name away, NULL: all of its names of that kind. What is not there is gone
 * already. */
void regions_remove(struct regions *regions, struct region_owner owner, enum shm_kind kind,
                    const char *name);
/* Calls `visit` with each of the owner's regions of a kind, or with that of a name, in the order of
 * their making. It must
 * not call these functions. Returns how many there are. */
uint32_t regions_each(struct regions *regions, struct region_owner owner, enum shm_kind kind,
                      const char *name, void (*visit)(void *context, const struct region *region),
                      void *context);
uint32_t regions_count(struct regions *regions);

#endif
