/*
 * tensor_store_parts.h - the structs of the store of resident tensors, and the functions that the
 * files of the store share. A file calls only files after it in this list:
 *
 *   sequence.c        the public functions for sequences
 *   tensor_store.c    most of the public functions
 *   tensor_reserve.c  memory for new tensors, copies and pages, and eviction
 *   tensor_names.c    names, owners, and uses
 *   tensor_copies.c   copies on further devices
 *   tensor_memory.c   the layout of a tensor, and what is free on the devices
 *   sequence_pages.c  the pages of a sequence
 *
 * Internal to these files, resident.c and sequence_copies.c. All functions but tensor_page_of_kind
 * are called under the store's lock.
 */
#ifndef SERVER_TENSORS_TENSOR_STORE_PARTS_H
#define SERVER_TENSORS_TENSOR_STORE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "server/base/owner.h"
#include "server/device/memory/arena.h"
#include "server/observe/model_stats.h"
#include "server/tensors/name_tree.h"
#include "server/tensors/sequence.h"
#include "server/tensors/tensor_store.h"

struct owner;

/* The kinds of residents, which have names of their own each. */
enum resident_kind { RESIDENT_TENSOR, RESIDENT_SEQUENCE, RESIDENT_KINDS };

/* A range of tensor memory that holds SEQUENCE_PAGE_POSITIONS positions of one layer. A page of
 * which the users are several is not written where a user may read. */
struct sequence_page {
    uint64_t offset;
    uint32_t users; /* the tables and uses that have the page */
};

/* The pages of a sequence's layer, in the order of the positions. */
struct sequence_layer {
    uint64_t length; /* in positions */
    struct sequence_page **pages;
    uint32_t page_count, page_capacity;
    bool appending; /* a use appends to the layer */
};

/* What a sequence has that a tensor does not have. Protected by the store's lock, but for the
 * shape and the sizes, which never change. */
struct sequence {
    struct sequence_shape shape;
    uint64_t position_bytes, page_bytes;
    /* A range of tensor memory that is not used: it limits how many records of sequences there are.
     */
    uint64_t record_offset, record_bytes;
    uint64_t id, version; /* of the entity tag; a change of the contents increases `version` */
    struct sequence_layer layers[];
};

struct resident {
    enum resident_kind kind;
    struct sequence *sequence; /* owned; NULL: the resident is a tensor */
    char name[GEMM_TENSOR_NAME_MAX + 1];
    struct owner *owner;
    bool evictable;
    struct tensor tensor, scale; /* the scale has rank 0 if there is none */
    uint64_t scale_offset;       /* bytes from the start of `memory` */
    struct packed_file *packed;  /* owned; NULL: no packed weights */
    void *memory;
    uint64_t rows, leading;
    uint32_t device;               /* the number of the memory that the tensor lies in */
    uint64_t offset, memory_bytes; /* the tensor's range of that memory */
    struct model_stats stats;

    /* Protected by the store's lock. */
    bool named;
    struct name_node by_name, of_owner; /* in the store's and the owner's tree, while named */
    uint32_t users;
    struct resident *older, *newer; /* in the owner's or the device's list of idle tensors */

    /* Protected by the store's lock; of a tensor that has copies, and of a copy (tensor_copies.c).
     */
    struct resident *copies[TENSOR_STORE_DEVICES_MAX]; /* [device]: a complete copy, or NULL */
    bool is_copy;
    struct resident *original; /* of a copy that is kept; NULL: it is freed after its last use */
    /* Bit i of `places`: device i has the tensor or a complete copy. Bit i of `arriving`: a copy on
     * device i is being made. Any thread may read both. */
    atomic_uint places, arriving;

    char etag[TENSOR_ETAG_SIZE]; /* written once, before has_etag is set */
    atomic_bool has_etag;
};

#define NAMED(node) OWNER_OF(node, struct resident, by_name)
#define OWNED(node) OWNER_OF(node, struct resident, of_owner)

/* A tenant that has or had tensors. Owners are kept until the store is destroyed, since there are
 * only as many as tenants. */
struct owner {
    struct owner *next;
    struct resident *oldest, *newest; /* idle tensors: evictable and not in use, by last use */
    uint64_t idle_bytes[TENSOR_STORE_DEVICES_MAX]; /* of the idle tensors on each device */
    uint64_t used_bytes; /* of all the owner's tensors, with a name or without */
    struct name_tree named[RESIDENT_KINDS];
    char name[];
};

/* The tensor memory of a device. */
struct memory {
    unsigned char *start;
    struct arena *arena;              /* NULL: the device has no tensor memory */
    bool lost;                        /* under the lock */
    struct resident *oldest, *newest; /* copies that are kept and not in use, by last use */
};

struct tensor_store {
    struct memory memories[TENSOR_STORE_DEVICES_MAX];
    uint32_t devices;
    struct gemm_device device;
    atomic_uint_fast64_t hits, misses;

    pthread_mutex_t lock;
    uint64_t tenant_bytes; /* UINT64_MAX: tenants have no limit of their own */
    struct owner *owners;
    struct name_tree named[RESIDENT_KINDS]; /* the residents of all owners */
    uint64_t counts[RESIDENT_KINDS];
    uint64_t evictions;
};

/* --- tensor_memory.c --- */

/* Frees what the store holds of the memories. */
void tensor_close_memories(struct tensor_store *store);
/* Frees a tensor or a copy, which has no name and no users. */
void tensor_free(struct tensor_store *store, struct resident *resident);
/* The free bytes of a memory; 0 if its device is lost. */
uint64_t tensor_free_bytes(const struct memory *memory);
/* The device with the most free memory. */
uint32_t tensor_emptiest_device(const struct tensor_store *store);
/* Computes the rows, the leading dimension and the memory of a tensor. False: the size overflows.
 */
bool tensor_lay_out(const struct tensor_store *store, struct resident *resident, bool contiguous);

/* --- tensor_store.c --- */

/* tensor_store_page for the residents of a kind. Takes the lock. */
uint32_t tensor_page_of_kind(struct tensor_store *store, enum resident_kind kind,
                             const char *tenant, const char *after, struct resident *page[],
                             uint32_t capacity, bool *more);

/* --- tensor_reserve.c --- */

/* Allocates `count` ranges of `bytes` bytes each for an owner on a device, or none. Evicts as for a
 * new tensor. GEMMD_ERR_NO_ROOM: there is no room for `what`; the fault says how many bytes are
 * needed and free. */
enum gemmd_error tensor_take_ranges(struct tensor_store *store, struct owner *owner,
                                    uint32_t device, uint64_t bytes, uint64_t count,
                                    const char *what, uint64_t offsets[], struct fault *fault);

/* --- tensor_names.c --- */

/* Returns the resident of a kind that has a name; NULL: none has it. */
struct resident *tensor_find_named(const struct tensor_store *store, enum resident_kind kind,
                                   const char *name);
/* Finds the resident that has a name, for its owner. GEMMD_ERR_NOT_FOUND: none has the name.
 * GEMMD_ERR_FORBIDDEN: the resident belongs to another tenant. */
enum gemmd_error tensor_find_own(const struct tensor_store *store, enum resident_kind kind,
                                 const char *name, const char *tenant, struct resident **resident,
                                 struct fault *fault);
bool tensor_is_of(const struct resident *resident, const char *tenant);
/* Sets the fault that a name belongs to another tenant, and returns GEMMD_ERR_FORBIDDEN. */
enum gemmd_error tensor_fail_of_owner(enum resident_kind kind, struct fault *fault);
/* Returns the owner with the name of a tenant; NULL: the tenant never had a tensor. */
struct owner *tensor_find_owner(const struct tensor_store *store, const char *tenant);
/* Returns the same owner, after creating it if the tenant never had a tensor. NULL: out of memory.
 */
struct owner *tensor_owner_of(struct tensor_store *store, const char *tenant);
/* Begins and ends a use. A tensor without a name is freed after its last use. */
void tensor_begin_use(struct resident *resident);
void tensor_end_use(struct tensor_store *store, struct resident *resident);
/* Makes a tensor the one that has its name; no other tensor may have the name. */
void tensor_give_name(struct tensor_store *store, struct resident *resident);
/* Takes the name away from a tensor, which is freed now or after its last use. */
void tensor_take_name(struct tensor_store *store, struct resident *resident);
/* Takes the name away from an idle tensor, which is freed, and counts an eviction. */
void tensor_evict(struct tensor_store *store, struct resident *idle);

/* --- sequence_pages.c --- */

/* Ends the use of `count` pages; a page without users is freed. `pages` may be NULL if `count` is
 * 0.
 */
void sequence_drop_pages(struct tensor_store *store, const struct resident *resident,
                         struct sequence_page *const pages[], uint64_t count);
/* Makes room for `count` pages in the table of a layer. False: out of memory. */
bool sequence_widen_table(struct sequence_layer *layer, uint64_t count);
/* Shortens a layer to `length` positions. */
void sequence_cut_layer(struct tensor_store *store, const struct resident *resident, uint32_t layer,
                        uint64_t length);
/* Frees a sequence that has no name and no users, with its pages. */
void sequence_free(struct tensor_store *store, struct resident *resident);

/* --- tensor_copies.c --- */

/* Begins and ends a use of a copy. */
void tensor_copy_begin_use(struct tensor_store *store, struct resident *copy);
void tensor_copy_end_use(struct tensor_store *store, struct resident *copy);
/* Separates a copy from its tensor. The copy is freed now, or after its last use. */
void tensor_drop_copy(struct tensor_store *store, struct resident *copy);
/* Gives up the copies of a tensor that loses its name. */
void tensor_drop_copies(struct tensor_store *store, struct resident *original);
/* Evicts the copy on a device that has not been used for the longest time. False: all are in use.
 */
bool tensor_evict_copy(struct tensor_store *store, uint32_t device);

#endif
