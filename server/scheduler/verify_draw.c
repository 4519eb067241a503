#include "server/scheduler/verify_draw.h"

#include <sys/random.h>

#include "server/base/random_id.h"

static const uint64_t MILLION = 1000000;

bool verify_draw_init(struct verify_draw *draw)
{
    uint64_t keys[2];
    if (getrandom(keys, sizeof keys, 0) != (ssize_t)sizeof keys)
        return false;
    draw->sample_key = keys[0];
    draw->seed_key = keys[1];
    return true;
}

/* Number `index` of the sequence that the key chooses. */
static uint64_t draw_number(uint64_t key, uint64_t index)
{
    uint64_t state = key ^ random_number(&index);
    return random_number(&state);
}

bool verify_draw_sample(struct verify_draw *draw, uint32_t share)
{
    if (share == 0)
        return false;
    return draw_number(draw->sample_key, atomic_fetch_add(&draw->samples, 1)) % MILLION < share;
}

uint64_t verify_draw_seed(struct verify_draw *draw)
{
    return draw_number(draw->seed_key, atomic_fetch_add(&draw->seeds, 1));
}
