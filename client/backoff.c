#include "client/backoff.h"

#include <sys/random.h>
#include <time.h>

uint64_t backoff_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    }
    return seed != 0 ? seed : 1;
}

/* xorshift64*, S. Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

uint64_t backoff_us(uint32_t attempts, uint32_t retry_after_ms, uint64_t *random)
{
    uint64_t bound_ms = BACKOFF_BASE_MS;
    for (uint32_t i = 1; i < attempts && bound_ms < BACKOFF_CAP_MS; i++)
        bound_ms *= 2;
    if (bound_ms > BACKOFF_CAP_MS)
        bound_ms = BACKOFF_CAP_MS;
    return (uint64_t)retry_after_ms * 1000 + next_random(random) % (bound_ms * 1000 + 1);
}
