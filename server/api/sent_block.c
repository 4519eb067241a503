#include "server/api/sent_block.h"

#include <stdlib.h>

struct sent_block {
    struct pool_cache *memory;
    void *block;
    uint64_t bytes;
    struct admission_place place;
};

struct sent_block *sent_block_create(struct pool_cache *memory, void *block, uint64_t bytes,
                                     struct admission_place *place)
{
    struct sent_block *sent = malloc(sizeof *sent);
    if (sent != NULL)
        *sent = (struct sent_block){memory, block, bytes, admission_move(place)};
    return sent;
}

void sent_block_end(void *sent_block)
{
    struct sent_block *sent = sent_block;
    pool_free(sent->memory, sent->block, sent->bytes);
    admission_give(&sent->place);
    free(sent);
}
