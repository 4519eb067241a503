#include "server/scheduler/device_shares.h"

#include <stdbool.h>

static bool takes_part(const struct device_shares *all, uint32_t i)
{
    return all->ready_ns[i] != UINT64_MAX;
}

/* The time at which all units are done if every device that is ready before that time takes part.
 * Each step leaves out the devices that would begin too late, until none is left out. */
static double time_of_all(const struct device_shares *all)
{
    double done = (double)UINT64_MAX;
    for (;;) {
        double ready = 0, devices = 0;
        for (uint32_t i = 0; i < all->count; i++) {
            if (!takes_part(all, i) || (double)all->ready_ns[i] >= done)
                continue;
            ready += (double)all->ready_ns[i];
            devices++;
        }
        if (devices == 0)
            return done;
        const double next = (ready + (double)all->units * all->unit_ns) / devices;
        if (next >= done)
            return done;
        done = next;
    }
}

uint64_t device_shares_divide(const struct device_shares *all, uint64_t shares[])
{
    const double done = time_of_all(all);
    uint64_t given = 0, last_ns = UINT64_MAX;
    double wanted = 0; /* by the devices so far, with fractions of a unit */
    for (uint32_t i = 0; i < all->count; i++) {
        shares[i] = 0;
        if (!takes_part(all, i) || (double)all->ready_ns[i] >= done)
            continue;
        wanted += (done - (double)all->ready_ns[i]) / all->unit_ns;
        uint64_t up_to = (uint64_t)(wanted + 0.5);
        if (up_to > all->units)
            up_to = all->units;
        shares[i] = up_to - given;
        given = up_to;
    }
    /* Rounding can leave a unit over. */
    for (uint32_t i = 0; i < all->count && given < all->units; i++)
        if (takes_part(all, i) && (double)all->ready_ns[i] < done) {
            shares[i] += all->units - given;
            given = all->units;
        }
    for (uint32_t i = 0; i < all->count; i++) {
        if (shares[i] == 0)
            continue;
        const uint64_t ns = all->ready_ns[i] + (uint64_t)((double)shares[i] * all->unit_ns);
        if (last_ns == UINT64_MAX || ns > last_ns)
            last_ns = ns;
    }
    return last_ns;
}

uint64_t device_shares_alone(const struct device_shares *all)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->ready_ns[i] < first)
            first = all->ready_ns[i];
    return first == UINT64_MAX ? first : first + (uint64_t)((double)all->units * all->unit_ns);
}
