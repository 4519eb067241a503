#include "tests/bench/load/histogram.h"

/* Values below 64 have a bucket each; from there on every power of two has 64. */
static uint32_t bucket_of(uint64_t ns)
{
    if (ns < 64)
        return (uint32_t)ns;
    uint32_t power = 63 - (uint32_t)__builtin_clzll(ns); /* 6 ... */
    uint32_t bucket = (power - 5) * 64 + (uint32_t)((ns >> (power - 6)) & 63);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static double highest_of(uint32_t bucket)
{
    if (bucket < 64)
        return bucket;
    uint32_t power = bucket / 64 + 5;
    return (double)(((uint64_t)(64 + bucket % 64) + 1) << (power - 6)) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
    histogram->count++;
    histogram->buckets[bucket_of(ns)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

double histogram_percentile_us(const struct histogram *histogram, double share)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= share * (double)histogram->count)
            return highest_of(i) / 1e3;
    }
    return 0;
}
