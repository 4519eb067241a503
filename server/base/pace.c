#include "server/base/pace.h"

bool pace_is_below(uint64_t moved, uint64_t since_ns, uint64_t now_ns, uint64_t least_rate)
{
    return now_ns > since_ns &&
           (double)moved * 1e9 < (double)least_rate * (double)(now_ns - since_ns);
}

bool pace_misses(uint64_t bytes, uint64_t moved, uint64_t since_ns, uint64_t now_ns,
                 uint64_t until_ns)
{
    if (moved >= bytes || now_ns <= since_ns)
        return false;
    if (now_ns >= until_ns)
        return true;
    const double rate = (double)moved / (double)(now_ns - since_ns); /* bytes a nanosecond */
    return (double)(bytes - moved) > 2 * rate * (double)(until_ns - now_ns);
}
