#include "server/base/drain_rate.h"

/* The time constant of the low-pass filter (drain_rate.h). */
static const double SMOOTHING_S = 4;

void drain_rate_sample(struct drain_rate *rate, uint64_t now_ns, uint64_t ended,
                       uint64_t ended_bytes, bool busy)
{
    double seconds = (double)(now_ns - rate->sampled_ns) * 1e-9;
    uint64_t more = ended - rate->ended, more_bytes = ended_bytes - rate->ended_bytes;
    bool counts = rate->was_busy || busy || more > 0;
    bool first = rate->sampled_ns == 0;
    rate->sampled_ns = now_ns;
    rate->ended = ended;
    rate->ended_bytes = ended_bytes;
    rate->was_busy = busy;
    if (first || !counts || seconds <= 0)
        return;
    double gain = seconds / (SMOOTHING_S + seconds); /* of the low-pass filter */
    rate->weight += gain * (1 - rate->weight);
    rate->weighted += gain * ((double)more / seconds - rate->weighted);
    rate->weighted_bytes += gain * ((double)more_bytes / seconds - rate->weighted_bytes);
    rate->quiet_s = more > 0 ? 0 : rate->quiet_s + seconds;
}

static uint32_t bounded(double seconds)
{
    if (!(seconds > DRAIN_SECONDS_MIN))
        return DRAIN_SECONDS_MIN;
    if (seconds >= DRAIN_SECONDS_MAX)
        return DRAIN_SECONDS_MAX;
    uint32_t whole = (uint32_t)seconds;
    return whole < seconds ? whole + 1 : whole;
}

static uint32_t seconds_until(const struct drain_rate *rate, uint64_t amount, double weighted)
{
    if (!(weighted > 0))
        return bounded(rate->quiet_s);
    return bounded((double)amount * rate->weight / weighted);
}

uint32_t drain_rate_seconds(const struct drain_rate *rate, uint64_t requests)
{
    return seconds_until(rate, requests, rate->weighted);
}

uint32_t drain_rate_seconds_bytes(const struct drain_rate *rate, uint64_t bytes)
{
    return seconds_until(rate, bytes, rate->weighted_bytes);
}
