/*
 * regions.h - regions: the names under which clients register shared memory through the shared
 * memory extensions of the Open Inference Protocol. The shared memory itself is in shm_store.h.
 *
 * A region belongs to its owner: one user of this host with one token. Other owners cannot see, use
 * or remove the region, and may use the same name for a region of their own. A region that is
 * removed while requests use its mapping can no longer be found. The mapping is unmapped after the
 * last of these requests. Any thread.
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
    enum shm_kind kind;        /* SHM_SYSTEM or SHM_CUDA; regions of both have one set of names */
    char key[SHM_KEY_MAX + 1]; /* SHM_SYSTEM: the name of the shared memory object */
    uint64_t offset, bytes;
    int32_t device; /* SHM_CUDA: number of the device */
    struct shm_mapping *mapping;
};

struct region_limits {
    uint32_t regions;        /* of all owners together */
    uint32_t tenant_regions; /* of each tenant; 0: only `regions` limits */
    /* Of each tenant's regions; 0: no limit. A single region may be larger, if its tenant has no
     * other region. */
    uint64_t tenant_bytes;
};

/* NULL: out of memory. */
struct regions *regions_create(const struct region_limits *limits);
/* Changes the limits of each tenant, which have the meaning that they have in struct region_limits.
 * Regions beyond a lowered limit stay, and further ones are refused. */
void regions_set_tenant_limits(struct regions *regions, uint32_t tenant_regions,
                               uint64_t tenant_bytes);
/* Removes all regions. NULL is allowed. */
void regions_destroy(struct regions *regions);

/* Whether a name is valid: "[A-Za-z0-9._-]{1,128}". */
bool region_is_name(const char *name);
/* Adds a region, and takes over the reference in region->mapping, also on failure.
 * GEMMD_ERR_MALFORMED: the owner has a region of that name. GEMMD_ERR_NO_ROOM: a limit
 * is reached. */
enum gemmd_error regions_add(struct regions *regions, struct region_owner owner,
                             const struct region *region, struct fault *fault);
/* Finds a region's mapping and adds a reference for the caller. GEMMD_ERR_MALFORMED: the owner has
 * no region of that name. */
enum gemmd_error regions_find(struct regions *regions, struct region_owner owner, const char *name,
                              struct shm_mapping **mapping, struct fault *fault);
/* Removes the owner's region of a kind and name, if there is one. `name` is NULL: removes all of
 * the owner's regions of the kind. */
void regions_remove(struct regions *regions, struct region_owner owner, enum shm_kind kind,
                    const char *name);
/* Calls `visit` for the owner's region of a kind and name, or, if `name` is NULL, for each of the
 * owner's regions of the kind, oldest first. `visit` must not call functions of this file. Returns
 * the number of regions visited. */
uint32_t regions_each(struct regions *regions, struct region_owner owner, enum shm_kind kind,
                      const char *name, void (*visit)(void *context, const struct region *region),
                      void *context);
/* Number of all regions, for metrics. */
uint32_t regions_count(struct regions *regions);

#endif
