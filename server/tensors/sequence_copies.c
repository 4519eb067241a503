/* The copies between the pages of a sequence and the arrays of a request, and those that gather the
 * pages (sequence.h). */
#include <stdlib.h>

#include "proto/dtype.h"
#include "server/tensors/tensor_store_parts.h"

/* A list of copies with room for all that a use can need. */
struct copies {
    struct work_copy *list;
    uint32_t count;
};

/* A block of [positions][heads] rows of `width` bytes, on one side of a copy. */
struct side {
    unsigned char *at;
    uint64_t position, head; /* bytes from one to the next */
};

/* If there is one row, the pitches count for nothing, and may be less than the row. */
static void add_copy(struct copies *copies, const struct side *from, const struct side *to,
                     uint64_t rows, uint64_t row_bytes, uint64_t from_pitch, uint64_t to_pitch)
{
    copies->list[copies->count++] =
        (struct work_copy){.from = from->at,
                           .to = to->at,
                           .rows = rows,
                           .row_bytes = row_bytes,
                           .from_pitch = rows > 1 ? from_pitch : row_bytes,
                           .to_pitch = rows > 1 ? to_pitch : row_bytes};
}

/* Copies a block, with as few copies as its strides allow: at most min(positions, heads). */
static void add_block(struct copies *copies, struct side from, struct side to, uint64_t positions,
                      uint64_t heads, uint64_t width)
{
    if (from.head == width && to.head == width) {
        add_copy(copies, &from, &to, positions, heads * width, from.position, to.position);
        return;
    }
    const bool by_positions = positions < heads;
    for (uint64_t i = 0; i < (by_positions ? positions : heads); i++) {
        if (by_positions)
            add_copy(copies, &from, &to, heads, width, from.head, to.head);
        else
            add_copy(copies, &from, &to, positions, width, from.position, to.position);
        from.at += by_positions ? from.position : from.head;
        to.at += by_positions ? to.position : to.head;
    }
}

/* Copies one operand's rows from `position` on, between its array and the pages. `within` is the
 * offset of the operand in a row. */
static void add_operand(struct copies *copies, const struct resident *resident,
                        const struct sequence_use *use, void *array, bool heads_first,
                        uint64_t width, uint64_t within)
{
    const struct sequence *sequence = resident->sequence;
    const uint64_t element = dtype_size(sequence->shape.dtype), heads = sequence->shape.kv_heads;
    const uint64_t bytes = width * element;
    struct side outside = {.at = array,
                           .position = heads_first ? bytes : heads * bytes,
                           .head = heads_first ? use->count * bytes : bytes};
    uint64_t position = use->position;
    const uint64_t end = use->position + use->count;
    while (position < end) {
        const uint64_t row = position % SEQUENCE_PAGE_POSITIONS;
        const uint64_t room = SEQUENCE_PAGE_POSITIONS - row;
        const uint64_t rows = end - position < room ? end - position : room;
        const struct side page = {.at = use->memory +
                                        use->pages[position / SEQUENCE_PAGE_POSITIONS]->offset +
                                        row * sequence->position_bytes + within,
                                  .position = sequence->position_bytes,
                                  .head = sequence_head_leading(resident, width) * element};
        if (use->kind == SEQUENCE_APPEND)
            add_block(copies, outside, page, rows, heads, bytes);
        else
            add_block(copies, page, outside, rows, heads, bytes);
        outside.at += rows * outside.position;
        position += rows;
    }
}

/* Copies `rows` whole rows of a page. */
static void add_rows(struct copies *copies, const struct resident *resident, unsigned char *from,
                     unsigned char *to, uint64_t rows)
{
    const uint64_t bytes = rows * resident->sequence->position_bytes;
    add_copy(copies, &(struct side){.at = from}, &(struct side){.at = to}, 1, bytes, bytes, bytes);
}

bool sequence_use_copies(const struct resident *resident, const struct sequence_use *use,
                         const struct sequence_arrays *arrays, struct work_copy **list,
                         uint32_t *count)
{
    const struct sequence *sequence = resident->sequence;
    const struct sequence_shape *shape = &sequence->shape;
    const uint64_t heads =
        shape->kv_heads < SEQUENCE_PAGE_POSITIONS ? shape->kv_heads : SEQUENCE_PAGE_POSITIONS;
    const uint64_t touched = use->page_count - (use->position / SEQUENCE_PAGE_POSITIONS) + 1;
    struct copies copies = {
        .list = malloc((touched * 2 * heads + use->page_count + 1) * sizeof *copies.list)};
    if (copies.list == NULL)
        return false;
    if (use->original != NULL)
        add_rows(&copies, resident, use->memory + use->original->offset,
                 use->memory + use->pages[use->position / SEQUENCE_PAGE_POSITIONS]->offset,
                 use->position % SEQUENCE_PAGE_POSITIONS);
    if (arrays != NULL) {
        add_operand(&copies, resident, use, arrays->k, arrays->heads_first, shape->d, 0);
        add_operand(&copies, resident, use, arrays->v, arrays->heads_first, shape->dv,
                    sequence_values_offset(resident) * dtype_size(shape->dtype));
    }
    uint64_t left = use->gathered ? use->position + use->count : 0;
    for (uint64_t i = 0; left > 0; i++) {
        const uint64_t rows = left < SEQUENCE_PAGE_POSITIONS ? left : SEQUENCE_PAGE_POSITIONS;
        add_rows(&copies, resident, use->memory + use->pages[i]->offset,
                 use->rows + i * SEQUENCE_PAGE_POSITIONS * sequence->position_bytes, rows);
        left -= rows;
    }
    *list = copies.list;
    *count = copies.count;
    return true;
}
