#include "server/observe/notable.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Until the first second has ended. */
static const uint64_t SLOW_AT_FIRST_NS = 100000000;

struct ring {
    struct notable_request requests[NOTABLE_EACH];
    uint64_t count; /* since the start */
};

struct notable {
    atomic_uint_fast64_t slow_ns;
    atomic_uint taken[NOTABLE_KINDS]; /* in this second */
    pthread_mutex_t lock;             /* of the rings */
    struct ring rings[NOTABLE_KINDS];
};

struct notable *notable_create(void)
{
    struct notable *notable = calloc(1, sizeof *notable);
    if (notable == NULL)
        return NULL;
    if (pthread_mutex_init(&notable->lock, NULL) != 0) {
        free(notable);
        return NULL;
    }
    atomic_store(&notable->slow_ns, SLOW_AT_FIRST_NS);
    return notable;
}

void notable_destroy(struct notable *notable)
{
    if (notable == NULL)
        return;
    pthread_mutex_destroy(&notable->lock);
    free(notable);
}

bool notable_wants(struct notable *notable, bool failed, uint64_t total_ns)
{
    if (!failed && total_ns <= atomic_load_explicit(&notable->slow_ns, memory_order_relaxed))
        return false;
    atomic_uint *taken = &notable->taken[failed ? NOTABLE_FAILED : NOTABLE_SLOW];
    return atomic_load_explicit(taken, memory_order_relaxed) < NOTABLE_PER_SECOND &&
           atomic_fetch_add(taken, 1) < NOTABLE_PER_SECOND;
}

void notable_add(struct notable *notable, enum notable_kind kind,
                 const struct notable_request *request)
{
    struct timespec now;
    struct ring *ring = &notable->rings[kind];
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&notable->lock);
    struct notable_request *place = &ring->requests[ring->count++ % NOTABLE_EACH];
    *place = *request;
    place->time_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    pthread_mutex_unlock(&notable->lock);
}

void notable_tick(struct notable *notable, uint64_t slow_ns)
{
    atomic_store(&notable->slow_ns, slow_ns);
    for (int kind = 0; kind < NOTABLE_KINDS; kind++)
        atomic_store(&notable->taken[kind], 0);
}

uint64_t notable_slow_ns(const struct notable *notable)
{
    return atomic_load(&notable->slow_ns);
}

uint32_t notable_read(struct notable *notable, enum notable_kind kind, bool all, uint32_t tenant,
                      struct notable_request requests[NOTABLE_EACH])
{
    const struct ring *ring = &notable->rings[kind];
    uint32_t count = 0;
    pthread_mutex_lock(&notable->lock);
    const uint64_t kept = ring->count < NOTABLE_EACH ? ring->count : NOTABLE_EACH;
    for (uint64_t age = 1; age <= kept; age++) {
        const struct notable_request *request = &ring->requests[(ring->count - age) % NOTABLE_EACH];
        if (all || request->tenant == tenant)
            requests[count++] = *request;
    }
    pthread_mutex_unlock(&notable->lock);
    return count;
}
