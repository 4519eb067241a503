/*
 * sequence.h - sequences: keys and values of attentions that grow, in the store of resident tensors
 * (tensor_store.h), with whose tensors they share memory, limits and owners. The names of sequences
 * are apart from the names of tensors.
 *
 * A sequence has one or several layers of the same shape. A layer is a row of bytes for each
 * position: its kv_heads keys of `d` elements, then its kv_heads values of `dv` elements. Each head
 * begins at a multiple of 16 bytes. SEQUENCE_PAGE_POSITIONS rows that follow one another are a
 * page. A page has a range of tensor memory of its own, so that a sequence grows without a copy.
 * Sequences that were forked share the pages that they have in common: a page that is shared is
 * copied before a sequence appends to the page (W. Kwon et al., "Efficient Memory Management for
 * Large Language Model Serving with PagedAttention", 2023).
 *
 * A sequence also takes tensor memory for its record, 4096 bytes unless it has many layers or
 * shares many pages, so that the tensor memory limits how many sequences there are.
 *
 * A request reads or appends by a use (struct sequence_use). The use of an append takes all memory
 * at its begin. The rows become part of the sequence at its commit, after the device has written
 * them; without a commit nothing was appended. A use keeps the pages that it has begun with, even
 * if the sequence is cut, grows or loses its name.
 *
 * Thread-safe, as tensor_store.h. One thread at a time may use a struct sequence_use.
 */
#ifndef SERVER_TENSORS_SEQUENCE_H
#define SERVER_TENSORS_SEQUENCE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/sequence_request.h"
#include "server/device/work.h"
#include "server/tensors/resident.h"
#include "server/tensors/tensor_condition.h"

struct tensor_store;
struct sequence_page;

struct sequence_shape {
    enum gemmd_dtype dtype;
    uint64_t kv_heads, d, dv;
    uint32_t layers; /* 1 ... SEQUENCE_LAYERS_MAX */
};

/* A sequence to be created; borrowed for the call. The name has 1 ... GEMM_TENSOR_NAME_MAX bytes.
 */
struct sequence_offer {
    const char *name, *tenant;
    struct sequence_shape shape; /* of a new sequence; ignored for a fork */
    /* Fork: the sequence, in use by the caller, whose first `length` positions the new one has.
     * NULL: the new sequence is empty. */
    struct resident *origin;
    bool has_length; /* false: each layer has the length that it has in the origin */
    uint64_t length;
};
/* Creates a sequence, or a fork of one, under a name, if the condition holds. A sequence that had
 * the name loses it; `*replaced` says whether there was one. The new sequence is in use by the
 * caller. GEMMD_ERR_PRECONDITION: the condition is false, or a layer of the origin is shorter than
 * `length`. GEMMD_ERR_FORBIDDEN: the name belongs to another tenant. GEMMD_ERR_TOO_LARGE: a
 * position takes too many bytes. GEMMD_ERR_NO_ROOM, GEMMD_ERR_DEVICE_LOST, GEMMD_ERR_OUT_OF_MEMORY.
 */
enum gemmd_error sequence_create(struct tensor_store *store, const struct sequence_offer *offer,
                                 const struct tensor_condition *condition,
                                 struct resident **resident, bool *replaced, struct fault *fault);
/* As tensor_store_acquire, tensor_store_remove and tensor_store_page. A sequence is released by
 * tensor_store_release. */
enum gemmd_error sequence_acquire(struct tensor_store *store, const char *name, const char *tenant,
                                  struct resident **resident, struct fault *fault);
enum gemmd_error sequence_remove(struct tensor_store *store, const char *name, const char *tenant,
                                 const struct tensor_condition *condition, struct fault *fault);
uint32_t sequence_page_of_names(struct tensor_store *store, const char *tenant, const char *after,
                                struct resident *page[], uint32_t capacity, bool *more);
/* Shortens all layers of a sequence in use to at most `length` positions. GEMMD_ERR_CONFLICT: a
 * request appends to the sequence. GEMMD_ERR_PRECONDITION: the condition is false, or the sequence
 * is shorter than `length`. */
enum gemmd_error sequence_truncate(struct tensor_store *store, struct resident *resident,
                                   uint64_t length, const struct tensor_condition *condition,
                                   struct fault *fault);

/* Evaluates a condition for a sequence in use that a request would change.
 * GEMMD_ERR_PRECONDITION: the condition is false. */
enum gemmd_error sequence_check(struct tensor_store *store, const struct resident *resident,
                                const struct tensor_condition *condition, struct fault *fault);

const struct sequence_shape *sequence_shape_of(const struct resident *resident);
/* The bytes of one position's keys and values in a request or an answer, without gaps. */
uint64_t sequence_position_bytes(const struct sequence_shape *shape);

/* What changes in a sequence. */
struct sequence_state {
    uint64_t lengths[SEQUENCE_LAYERS_MAX]; /* in positions */
    uint64_t length;                       /* of the shortest layer */
    uint64_t memory_bytes; /* of the record and of all pages, those that are shared included */
    char etag[TENSOR_ETAG_SIZE]; /* changes with each change of the contents */
};
void sequence_state_of(struct tensor_store *store, const struct resident *resident,
                       struct sequence_state *state);

/* --- uses --- */

enum sequence_use_kind {
    SEQUENCE_READ,   /* the rows before position + count are read */
    SEQUENCE_APPEND, /* `count` rows are appended at `position` */
    SEQUENCE_REPEAT  /* these rows of an append are there already, and are compared */
};

/* What a request does with a layer; borrowed for the call. */
struct sequence_want {
    bool appends; /* the rows from `position` on are in the request; else they are read */
    uint32_t layer;
    uint64_t position, count;
    bool in_one; /* all rows before position + count are needed one after another */
};

/* Zeroed at first. */
struct sequence_use {
    enum sequence_use_kind kind;
    uint32_t layer;
    uint64_t position, count;
    /* The pages of the rows before position + count; owned, with a reference to each page. NULL:
     * the use has not begun. */
    struct sequence_page **pages;
    uint32_t page_count;
    struct sequence_page *original; /* the shared page that is copied before rows are appended */
    unsigned char *memory;          /* the start of the memory in which the pages lie; borrowed */
    unsigned char *rows;            /* all rows, one after another; NULL unless wanted (`in_one`) */
    bool gathered;                  /* `rows` is a range of tensor memory of the use's own */
};

/* Begins a use of a sequence in use. An append of rows that are all there already becomes
 * SEQUENCE_REPEAT. GEMMD_ERR_MALFORMED: there is no such layer. GEMMD_ERR_PRECONDITION: the layer
 * is shorter than the rows that are read, or does not end at `position`; the fault says how long
 * the layer is. GEMMD_ERR_TOO_LARGE: more than SEQUENCE_POSITIONS_MAX positions or
 * SEQUENCE_PAGES_MAX pages. GEMMD_ERR_CONFLICT: another request appends to the layer.
 * GEMMD_ERR_NO_ROOM: there is no room for the rows. */
enum gemmd_error sequence_use_begin(struct tensor_store *store, struct resident *resident,
                                    const struct sequence_want *want, struct sequence_use *use,
                                    struct fault *fault);
/* Makes the appended rows part of the layer. To be called once, after the device has written them.
 */
void sequence_use_commit(struct tensor_store *store, struct resident *resident,
                         struct sequence_use *use);
/* Sets the fault that the rows of a repeated append are other ones than those of the layer, and
 * returns GEMMD_ERR_PRECONDITION. */
enum gemmd_error sequence_fail_repeat(const struct sequence_use *use, struct fault *fault);
/* Ends a use; without a commit nothing was appended. Does nothing if the use has not begun. */
void sequence_use_end(struct tensor_store *store, struct resident *resident,
                      struct sequence_use *use);

/* Keys and values in host memory, without gaps: [kv_heads][count][d] and [kv_heads][count][dv], or
 * with the position first. */
struct sequence_arrays {
    void *k, *v;
    bool heads_first;
};
/* Makes the list of the copies that a use needs, in order: of an append, from the arrays to the
 * pages; else, if `arrays` is not NULL, the rows from `position` on to the arrays; and the copies
 * that gather all rows. The caller frees `*list`. Any thread, without a lock. False: out of memory.
 */
bool sequence_use_copies(const struct resident *resident, const struct sequence_use *use,
                         const struct sequence_arrays *arrays, struct work_copy **list,
                         uint32_t *count);
/* Elements from one position's keys to the next, and from the keys of a position to its values. */
uint64_t sequence_leading(const struct resident *resident);
uint64_t sequence_values_offset(const struct resident *resident);
/* Elements from one head's keys (values) to the next head's. */
uint64_t sequence_head_leading(const struct resident *resident, uint64_t width);

#endif
