#include "client/gemmctl/latency.h"

/* Returns the bucket of a duration. Below LATENCY_STEPS every value has a bucket of its own. Above,
 * the leading bits of the value choose the bucket. */
static uint32_t bucket_of(uint64_t us)
{
    if (us < LATENCY_STEPS)
        return (uint32_t)us;
    uint32_t power = 63 - (uint32_t)__builtin_clzll(us);
    uint32_t shift = power - 6;
    return (shift + 1) * LATENCY_STEPS + (uint32_t)((us >> shift) - LATENCY_STEPS);
}

uint64_t latency_bucket_end(uint32_t bucket)
{
    if (bucket < LATENCY_STEPS)
        return bucket;
    uint32_t shift = bucket / LATENCY_STEPS - 1;
    uint64_t front = bucket % LATENCY_STEPS + LATENCY_STEPS;
    return ((front + 1) << shift) - 1;
}

void latency_add(struct latency *latency, uint64_t us)
{
    latency->counts[bucket_of(us)]++;
    latency->count++;
    if (us > latency->max_us)
        latency->max_us = us;
}

void latency_join(struct latency *latency, const struct latency *other)
{
    for (uint32_t i = 0; other->count > 0 && i < LATENCY_BUCKETS; i++)
        latency->counts[i] += other->counts[i];
    latency->count += other->count;
    if (other->max_us > latency->max_us)
        latency->max_us = other->max_us;
}

uint64_t latency_percentile(const struct latency *latency, double percent)
{
    double rank = (double)latency->count * percent / 100;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
        seen += latency->counts[i];
        if (seen > 0 && (double)seen >= rank)
            return latency_bucket_end(i) < latency->max_us ? latency_bucket_end(i)
                                                           : latency->max_us;
    }
    return latency->max_us;
}
