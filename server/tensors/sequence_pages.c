/* The pages of sequences: who uses them, and the tables of the layers. */
#include <stdlib.h>

#include "server/tensors/tensor_store_parts.h"

void sequence_drop_pages(struct tensor_store *store, const struct resident *resident,
                         struct sequence_page *const pages[], uint64_t count)
{
    struct arena *arena = store->memories[resident->device].arena;
    for (uint64_t i = 0; i < count; i++) {
        if (--pages[i]->users > 0)
            continue;
        arena_free(arena, pages[i]->offset);
        resident->owner->used_bytes -= resident->sequence->page_bytes;
        free(pages[i]);
    }
}

bool sequence_widen_table(struct sequence_layer *layer, uint64_t count)
{
    uint64_t capacity = layer->page_capacity > 0 ? layer->page_capacity : 4;
    if (count <= layer->page_capacity)
        return true;
    while (capacity < count)
        capacity *= 2;
    struct sequence_page **pages = realloc(layer->pages, capacity * sizeof(struct sequence_page *));
    if (pages == NULL)
        return false;
    layer->pages = pages;
    layer->page_capacity = (uint32_t)capacity; /* at most SEQUENCE_PAGES_MAX are asked for */
    return true;
}

void sequence_cut_layer(struct tensor_store *store, const struct resident *resident, uint32_t layer,
                        uint64_t length)
{
    struct sequence_layer *of = &resident->sequence->layers[layer];
    const uint32_t kept =
        (uint32_t)((length + SEQUENCE_PAGE_POSITIONS - 1) / SEQUENCE_PAGE_POSITIONS);
    if (length >= of->length)
        return;
    sequence_drop_pages(store, resident, of->pages + kept, of->page_count - kept);
    of->page_count = kept;
    of->length = length;
}

void sequence_free(struct tensor_store *store, struct resident *resident)
{
    struct sequence *sequence = resident->sequence;
    for (uint32_t i = 0; i < sequence->shape.layers; i++) {
        sequence_cut_layer(store, resident, i, 0);
        free(sequence->layers[i].pages);
    }
    if (sequence->record_bytes > 0) {
        arena_free(store->memories[resident->device].arena, sequence->record_offset);
        resident->owner->used_bytes -= sequence->record_bytes;
    }
    free(sequence);
    free(resident);
}
