#include "server/scheduler/stall_watch.h"

void stall_watch_look(struct stall_watch *watch, bool busy, uint64_t progress, uint64_t now_ns)
{
    if (!busy || progress != watch->progress || watch->since_ns == 0)
        watch->since_ns = now_ns;
    watch->progress = progress;
    const uint64_t still_ns = now_ns - watch->since_ns;
    const bool stalled = watch->limit_ns != 0 && still_ns > watch->limit_ns;
    atomic_store_explicit(&watch->stalled_ns, stalled ? still_ns : 0, memory_order_relaxed);
}

uint64_t stall_watch_ns(const struct stall_watch *watch)
{
    return atomic_load_explicit(&watch->stalled_ns, memory_order_relaxed);
}
