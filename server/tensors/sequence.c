#include "server/tensors/sequence.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proto/dtype.h"
#include "proto/size.h"
#include "server/tensors/tensor_store_parts.h"

/* Each head of a position begins at a multiple of this, which the fast kernels of GPUs want. */
enum { HEAD_ALIGNMENT = 16 };

/* ---- shapes ---- */

const struct sequence_shape *sequence_shape_of(const struct resident *resident)
{
    return &resident->sequence->shape;
}

static uint64_t head_elements(enum gemmd_dtype dtype, uint64_t width)
{
    const uint64_t unit = HEAD_ALIGNMENT / dtype_size(dtype);
    return (width + unit - 1) / unit * unit;
}

uint64_t sequence_head_leading(const struct resident *resident, uint64_t width)
{
    return head_elements(resident->sequence->shape.dtype, width);
}

uint64_t sequence_values_offset(const struct resident *resident)
{
    const struct sequence_shape *shape = &resident->sequence->shape;
    return shape->kv_heads * head_elements(shape->dtype, shape->d);
}

uint64_t sequence_leading(const struct resident *resident)
{
    const struct sequence *sequence = resident->sequence;
    return sequence->position_bytes / dtype_size(sequence->shape.dtype);
}

uint64_t sequence_position_bytes(const struct sequence_shape *shape)
{
    return shape->kv_heads * (shape->d + shape->dv) * dtype_size(shape->dtype);
}

/* ---- entity tags and conditions ---- */

/* A tag is not computed from the contents: that would take a hash of all bytes for each append. */
static void write_etag(const struct sequence *sequence, char etag[TENSOR_ETAG_SIZE])
{
    snprintf(etag, TENSOR_ETAG_SIZE, "\"%016" PRIx64 "-%016" PRIx64 "\"", sequence->id,
             sequence->version);
}

static enum gemmd_error sequence_require(const struct tensor_condition *condition,
                                         const struct resident *holder, struct fault *fault)
{
    char etag[TENSOR_ETAG_SIZE];
    if (holder != NULL)
        write_etag(holder->sequence, etag);
    switch (tensor_condition_evaluate(condition, holder != NULL, holder != NULL ? etag : NULL)) {
    case TENSOR_CONDITION_HOLDS:
        return GEMMD_OK;
    case TENSOR_CONDITION_OTHER:
        return fault_set(fault, GEMMD_ERR_PRECONDITION, "If-Match", "%s",
                         holder != NULL ? "If-Match does not name the sequence's entity tag"
                                        : "there is no sequence of that name, which If-Match "
                                          "requires");
    case TENSOR_CONDITION_SAME:
        break;
    }
    return fault_set(fault, GEMMD_ERR_PRECONDITION, "If-None-Match",
                     "there is a sequence of that name already, which If-None-Match forbids");
}

/* ---- creation ---- */

static enum gemmd_error fail_of_memory(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                     "no memory for the record of a sequence");
}

/* Computes the bytes of a position and of a page. */
static bool measure(struct sequence *sequence)
{
    const struct sequence_shape *shape = &sequence->shape;
    uint64_t elements, page_bytes;
    return size_mul(shape->kv_heads,
                    head_elements(shape->dtype, shape->d) + head_elements(shape->dtype, shape->dv),
                    &elements) &&
           size_mul(elements, dtype_size(shape->dtype), &sequence->position_bytes) &&
           size_mul(sequence->position_bytes, SEQUENCE_PAGE_POSITIONS, &page_bytes) &&
           size_align(page_bytes, ARENA_ALIGNMENT, &sequence->page_bytes);
}

/* A sequence without a name, an owner and positions. */
static enum gemmd_error sequence_make(const struct sequence_offer *offer, struct resident **out,
                                      struct fault *fault)
{
    const struct sequence_shape *shape =
        offer->origin != NULL ? sequence_shape_of(offer->origin) : &offer->shape;
    struct resident *resident = calloc(1, sizeof *resident);
    struct sequence *sequence =
        calloc(1, sizeof *sequence + shape->layers * sizeof sequence->layers[0]);
    enum gemmd_error code = GEMMD_OK;
    if (resident == NULL || sequence == NULL ||
        getrandom(&sequence->id, sizeof sequence->id, 0) != (ssize_t)sizeof sequence->id) {
        code = fail_of_memory(fault);
        goto failed;
    }
    sequence->shape = *shape;
    if (!measure(sequence)) {
        code = fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the size of a position does not fit in 64 bits");
        goto failed;
    }
    resident->kind = RESIDENT_SEQUENCE;
    resident->sequence = sequence;
    memcpy(resident->name, offer->name, strlen(offer->name) + 1);
    resident->users = 1;
    atomic_init(&resident->has_etag, false);
    *out = resident;
    return GEMMD_OK;

failed:
    free(resident);
    free(sequence);
    return code;
}

/* Gives a new sequence the first positions of another one. Under the lock. */
static enum gemmd_error share_pages(const struct sequence_offer *offer, struct resident *resident,
                                    struct fault *fault)
{
    const struct sequence *origin = offer->origin->sequence;
    for (uint32_t i = 0; i < origin->shape.layers; i++) {
        const struct sequence_layer *from = &origin->layers[i];
        struct sequence_layer *to = &resident->sequence->layers[i];
        const uint64_t length = offer->has_length ? offer->length : from->length;
        const uint64_t pages = (length + SEQUENCE_PAGE_POSITIONS - 1) / SEQUENCE_PAGE_POSITIONS;
        if (length > from->length)
            return fault_set(fault, GEMMD_ERR_PRECONDITION, "length",
                             "layer %" PRIu32 " of the sequence '%s' has %" PRIu64
                             " positions; length is %" PRIu64,
                             i, offer->origin->name, from->length, length);
        if (!sequence_widen_table(to, pages))
            return fail_of_memory(fault);
        for (uint64_t at = 0; at < pages; at++) {
            to->pages[at] = from->pages[at];
            to->pages[at]->users++;
        }
        to->page_count = (uint32_t)pages;
        to->length = length;
    }
    return GEMMD_OK;
}

/* Takes tensor memory for the record and the tables of pages that a fork shares. Under the lock. */
static enum gemmd_error take_record(struct tensor_store *store, const struct sequence_offer *offer,
                                    const struct resident *resident, struct fault *fault)
{
    struct sequence *sequence = resident->sequence;
    const uint32_t layers = sequence->shape.layers;
    uint64_t bytes = sizeof *resident + sizeof *sequence + layers * sizeof sequence->layers[0];
    for (uint32_t i = 0; offer->origin != NULL && i < layers; i++)
        bytes += offer->origin->sequence->layers[i].page_count * sizeof(struct sequence_page *);
    bytes = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    const enum gemmd_error code =
        tensor_take_ranges(store, resident->owner, resident->device, bytes, 1, "sequence",
                           &sequence->record_offset, fault);
    if (code == GEMMD_OK)
        sequence->record_bytes = bytes;
    return code;
}

/* Under the lock. */
static enum gemmd_error create_locked(struct tensor_store *store,
                                      const struct sequence_offer *offer,
                                      const struct tensor_condition *condition,
                                      struct resident *resident, bool *replaced,
                                      struct fault *fault)
{
    struct resident *holder = tensor_find_named(store, RESIDENT_SEQUENCE, offer->name);
    if (holder != NULL && !tensor_is_of(holder, offer->tenant))
        return tensor_fail_of_owner(RESIDENT_SEQUENCE, fault);
    enum gemmd_error code = sequence_require(condition, holder, fault);
    if (code != GEMMD_OK)
        return code;
    resident->owner = tensor_owner_of(store, offer->tenant);
    if (resident->owner == NULL)
        return fail_of_memory(fault);
    resident->device =
        offer->origin != NULL ? offer->origin->device : tensor_emptiest_device(store);
    atomic_init(&resident->places, 1u << resident->device);
    if (store->memories[resident->device].lost)
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL, "the sequence's device is lost");
    code = take_record(store, offer, resident, fault);
    if (code == GEMMD_OK && offer->origin != NULL)
        code = share_pages(offer, resident, fault);
    if (code != GEMMD_OK)
        return code;
    *replaced = holder != NULL;
    if (holder != NULL)
        tensor_take_name(store, holder);
    tensor_give_name(store, resident);
    return GEMMD_OK;
}

enum gemmd_error sequence_create(struct tensor_store *store, const struct sequence_offer *offer,
                                 const struct tensor_condition *condition,
                                 struct resident **resident, bool *replaced, struct fault *fault)
{
    enum gemmd_error code = sequence_make(offer, resident, fault);
    if (code != GEMMD_OK)
        return code;
    pthread_mutex_lock(&store->lock);
    code = create_locked(store, offer, condition, *resident, replaced, fault);
    if (code != GEMMD_OK) {
        sequence_free(store, *resident);
        *resident = NULL;
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

/* ---- names ---- */

enum gemmd_error sequence_acquire(struct tensor_store *store, const char *name, const char *tenant,
                                  struct resident **resident, struct fault *fault)
{
    struct resident *found;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = tensor_find_own(store, RESIDENT_SEQUENCE, name, tenant, &found, fault);
    if (code == GEMMD_OK) {
        *resident = found;
        tensor_begin_use(found);
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

enum gemmd_error sequence_remove(struct tensor_store *store, const char *name, const char *tenant,
                                 const struct tensor_condition *condition, struct fault *fault)
{
    struct resident *found;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = tensor_find_own(store, RESIDENT_SEQUENCE, name, tenant, &found, fault);
    if (code == GEMMD_OK)
        code = sequence_require(condition, found, fault);
    if (code == GEMMD_OK)
        tensor_take_name(store, found);
    pthread_mutex_unlock(&store->lock);
    return code;
}

uint32_t sequence_page_of_names(struct tensor_store *store, const char *tenant, const char *after,
                                struct resident *page[], uint32_t capacity, bool *more)
{
    return tensor_page_of_kind(store, RESIDENT_SEQUENCE, tenant, after, page, capacity, more);
}

static bool is_appending(const struct sequence *sequence)
{
    for (uint32_t i = 0; i < sequence->shape.layers; i++)
        if (sequence->layers[i].appending)
            return true;
    return false;
}

static uint64_t longest(const struct sequence *sequence)
{
    uint64_t length = 0;
    for (uint32_t i = 0; i < sequence->shape.layers; i++)
        if (sequence->layers[i].length > length)
            length = sequence->layers[i].length;
    return length;
}

static enum gemmd_error fail_of_append(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_CONFLICT, NULL,
                     "another request appends to the sequence now");
}

enum gemmd_error sequence_truncate(struct tensor_store *store, struct resident *resident,
                                   uint64_t length, const struct tensor_condition *condition,
                                   struct fault *fault)
{
    struct sequence *sequence = resident->sequence;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = sequence_require(condition, resident, fault);
    const uint64_t before = longest(sequence);
    if (code == GEMMD_OK && is_appending(sequence))
        code = fail_of_append(fault);
    if (code == GEMMD_OK && length > before)
        code =
            fault_set(fault, GEMMD_ERR_PRECONDITION, "length",
                      "the sequence has %" PRIu64 " positions; length is %" PRIu64, before, length);
    if (code == GEMMD_OK && length < before) {
        for (uint32_t i = 0; i < sequence->shape.layers; i++)
            sequence_cut_layer(store, resident, i, length);
        sequence->version++;
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

enum gemmd_error sequence_check(struct tensor_store *store, const struct resident *resident,
                                const struct tensor_condition *condition, struct fault *fault)
{
    pthread_mutex_lock(&store->lock);
    const enum gemmd_error code = sequence_require(condition, resident, fault);
    pthread_mutex_unlock(&store->lock);
    return code;
}

void sequence_state_of(struct tensor_store *store, const struct resident *resident,
                       struct sequence_state *state)
{
    const struct sequence *sequence = resident->sequence;
    *state = (struct sequence_state){.length = UINT64_MAX, .memory_bytes = sequence->record_bytes};
    pthread_mutex_lock(&store->lock);
    for (uint32_t i = 0; i < sequence->shape.layers; i++) {
        const struct sequence_layer *layer = &sequence->layers[i];
        state->lengths[i] = layer->length;
        state->memory_bytes += layer->page_count * sequence->page_bytes;
        if (layer->length < state->length)
            state->length = layer->length;
    }
    write_etag(sequence, state->etag);
    pthread_mutex_unlock(&store->lock);
}

/* ---- uses ---- */

static uint64_t pages_of(uint64_t positions)
{
    return (positions + SEQUENCE_PAGE_POSITIONS - 1) / SEQUENCE_PAGE_POSITIONS;
}

/* Allocates the pages of a use from number `first` on, for rows to be appended. Under the lock. */
static enum gemmd_error take_pages(struct tensor_store *store, const struct resident *resident,
                                   struct sequence_use *use, uint64_t first, struct fault *fault)
{
    const uint64_t count = use->page_count - first;
    uint64_t *offsets = calloc(count + 1, sizeof *offsets);
    enum gemmd_error code = GEMMD_OK;
    uint64_t made = 0;
    if (offsets == NULL)
        return fail_of_memory(fault);
    while (code == GEMMD_OK && made < count) {
        use->pages[first + made] = calloc(1, sizeof(struct sequence_page));
        if (use->pages[first + made] == NULL)
            code = fail_of_memory(fault);
        else
            made++;
    }
    if (code == GEMMD_OK && count > 0)
        code =
            tensor_take_ranges(store, resident->owner, resident->device,
                               resident->sequence->page_bytes, count, "positions", offsets, fault);
    for (uint64_t i = 0; i < made; i++) {
        if (code == GEMMD_OK)
            *use->pages[first + i] = (struct sequence_page){.offset = offsets[i], .users = 1};
        else
            free(use->pages[first + i]);
    }
    free(offsets);
    return code;
}

/* Whether the pages of a use follow one another in memory, so that their rows do. */
static bool is_in_one(const struct resident *resident, const struct sequence_use *use)
{
    const struct sequence *sequence = resident->sequence;
    const bool dense = sequence->page_bytes == sequence->position_bytes * SEQUENCE_PAGE_POSITIONS;
    for (uint64_t i = 1; i < use->page_count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): collect_pages has set all pages */
        if (!dense || use->pages[i]->offset != use->pages[0]->offset + i * sequence->page_bytes)
            return false;
    return true;
}

/* The bytes of the range that a use gathers rows in. No overflow: the pages have as many bytes. */
static uint64_t gathered_bytes(const struct resident *resident, const struct sequence_use *use)
{
    return (use->position + use->count) * resident->sequence->position_bytes;
}

/* Points the use at all its rows, one after another: where they are, or in a range of its own that
 * the copies of sequence_use_copies fill. The range counts as the owner's. Under the lock. */
static enum gemmd_error find_rows(struct tensor_store *store, const struct resident *resident,
                                  struct sequence_use *use, struct fault *fault)
{
    const struct memory *memory = &store->memories[resident->device];
    uint64_t offset;
    if (is_in_one(resident, use)) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): collect_pages has set all pages */
        use->rows = memory->start + use->pages[0]->offset;
        return GEMMD_OK;
    }
    const enum gemmd_error code =
        tensor_take_ranges(store, resident->owner, resident->device, gathered_bytes(resident, use),
                           1, "copy that gathers the pages of the sequence", &offset, fault);
    if (code != GEMMD_OK)
        return code;
    use->rows = memory->start + offset;
    use->gathered = true;
    return GEMMD_OK;
}

/* Decides what the use does, from the length of the layer. Under the lock. */
static enum gemmd_error choose_kind(const struct sequence_layer *layer,
                                    const struct sequence_want *want, struct sequence_use *use,
                                    struct fault *fault)
{
    const uint64_t end = want->position + want->count;
    if (!want->appends && end <= layer->length) {
        use->kind = SEQUENCE_READ;
        return GEMMD_OK;
    }
    if (want->appends && end <= layer->length) {
        use->kind = SEQUENCE_REPEAT;
        return GEMMD_OK;
    }
    if (!want->appends || want->position != layer->length)
        return fault_set(fault, GEMMD_ERR_PRECONDITION, want->appends ? "position" : "count",
                         "layer %" PRIu32 " of the sequence has %" PRIu64
                         " positions; the request names positions %" PRIu64 " to %" PRIu64,
                         want->layer, layer->length, want->position, end - 1);
    if (layer->appending)
        return fail_of_append(fault);
    use->kind = SEQUENCE_APPEND;
    return GEMMD_OK;
}

/* Whether the pages of all layers are as many as a sequence can have, once the pages of an append
 * are there. Under the lock. */
static bool fits_in_pages(const struct sequence *sequence, const struct sequence_use *use)
{
    uint64_t pages = use->page_count;
    for (uint32_t i = 0; i < sequence->shape.layers; i++)
        if (i != use->layer)
            pages += sequence->layers[i].page_count;
    return pages <= SEQUENCE_PAGES_MAX;
}

/* Takes the pages of a use that has its kind. Under the lock. */
static enum gemmd_error collect_pages(struct tensor_store *store, struct resident *resident,
                                      struct sequence_use *use, struct fault *fault)
{
    struct sequence_layer *layer = &resident->sequence->layers[use->layer];
    uint64_t there = use->page_count;
    if (use->kind == SEQUENCE_APPEND) {
        if (!fits_in_pages(resident->sequence, use))
            return fault_set(fault, GEMMD_ERR_TOO_LARGE, "position",
                             "the layers of the sequence would have more than %d pages of %d "
                             "positions",
                             SEQUENCE_PAGES_MAX, SEQUENCE_PAGE_POSITIONS);
        if (!sequence_widen_table(layer, use->page_count))
            return fail_of_memory(fault);
        there = layer->page_count;
        if (use->position % SEQUENCE_PAGE_POSITIONS != 0 && layer->pages[there - 1]->users > 1)
            use->original = layer->pages[--there];
        enum gemmd_error code = take_pages(store, resident, use, there, fault);
        if (code != GEMMD_OK) {
            use->original = NULL;
            return code;
        }
        layer->appending = true;
    }
    for (uint64_t i = 0; i < there; i++) {
        use->pages[i] = layer->pages[i];
        use->pages[i]->users++;
    }
    if (use->original != NULL)
        use->original->users++;
    return GEMMD_OK;
}

/* Ends a use under the lock. */
static void end_locked(struct tensor_store *store, struct resident *resident,
                       struct sequence_use *use)
{
    const struct memory *memory = &store->memories[resident->device];
    if (use->kind == SEQUENCE_APPEND)
        resident->sequence->layers[use->layer].appending = false;
    if (use->gathered) {
        arena_free(memory->arena, (uint64_t)(use->rows - memory->start));
        resident->owner->used_bytes -= gathered_bytes(resident, use);
    }
    sequence_drop_pages(store, resident, use->pages, use->page_count);
    sequence_drop_pages(store, resident, &use->original, use->original != NULL);
    free(use->pages);
    *use = (struct sequence_use){.pages = NULL};
}

enum gemmd_error sequence_use_begin(struct tensor_store *store, struct resident *resident,
                                    const struct sequence_want *want, struct sequence_use *use,
                                    struct fault *fault)
{
    const struct sequence *sequence = resident->sequence;
    const uint64_t end = want->position + want->count;
    if (want->layer >= sequence->shape.layers)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "layer",
                         "layer is %" PRIu32 "; the sequence has the layers 0 to %" PRIu32,
                         want->layer, sequence->shape.layers - 1);
    if (end > SEQUENCE_POSITIONS_MAX)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, "position",
                         "layer %" PRIu32 " of the sequence would have %" PRIu64
                         " positions; it can have %d",
                         want->layer, end, SEQUENCE_POSITIONS_MAX);
    *use = (struct sequence_use){.layer = want->layer,
                                 .position = want->position,
                                 .count = want->count,
                                 .page_count = (uint32_t)pages_of(end),
                                 .memory = store->memories[resident->device].start};
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = choose_kind(&sequence->layers[want->layer], want, use, fault);
    if (code == GEMMD_OK && store->memories[resident->device].lost)
        code = fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL, "the sequence's device is lost");
    if (code != GEMMD_OK)
        goto refused;
    use->pages = calloc(use->page_count, sizeof(struct sequence_page *));
    if (use->pages == NULL) {
        code = fail_of_memory(fault);
        goto refused;
    }
    code = collect_pages(store, resident, use, fault);
    if (code != GEMMD_OK)
        goto refused;
    if (want->in_one)
        code = find_rows(store, resident, use, fault);
    if (code != GEMMD_OK)
        end_locked(store, resident, use);
    pthread_mutex_unlock(&store->lock);
    return code;

refused:
    pthread_mutex_unlock(&store->lock);
    free(use->pages);
    *use = (struct sequence_use){.pages = NULL};
    return code;
}

void sequence_use_commit(struct tensor_store *store, struct resident *resident,
                         struct sequence_use *use)
{
    struct sequence_layer *layer = &resident->sequence->layers[use->layer];
    assert(use->kind == SEQUENCE_APPEND && layer->appending);
    pthread_mutex_lock(&store->lock);
    if (use->original != NULL)
        sequence_drop_pages(store, resident, &layer->pages[--layer->page_count], 1);
    for (; layer->page_count < use->page_count; layer->page_count++) {
        layer->pages[layer->page_count] = use->pages[layer->page_count];
        layer->pages[layer->page_count]->users++;
    }
    layer->length = use->position + use->count;
    layer->appending = false;
    resident->sequence->version++;
    use->kind = SEQUENCE_READ; /* the use has nothing to give up */
    pthread_mutex_unlock(&store->lock);
}

enum gemmd_error sequence_fail_repeat(const struct sequence_use *use, struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_PRECONDITION, "position",
                     "layer %" PRIu32 " of the sequence has other keys or values at the positions "
                     "%" PRIu64 " to %" PRIu64,
                     use->layer, use->position, use->position + use->count - 1);
}

void sequence_use_end(struct tensor_store *store, struct resident *resident,
                      struct sequence_use *use)
{
    if (use->pages == NULL)
        return;
    pthread_mutex_lock(&store->lock);
    end_locked(store, resident, use);
    pthread_mutex_unlock(&store->lock);
}
