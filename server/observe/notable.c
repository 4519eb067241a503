#include "server/observe/notable.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Until the first second has ended. */
static const uint64_t SLOW_AT_FIRST_NS = 100000000;

struct kept {
    struct notable_request request;
    uint64_t number; /* of its kind, since the start */
    struct kept *newer;
};

/* The requests of one owner and kind: a tenant, or those without a tenant. */
struct owner {
    atomic_uint taken; /* in this second */
    uint32_t count;
    struct kept *oldest, *newest;
};

struct shelf {
    uint64_t count;       /* of requests since the start */
    uint32_t used;        /* places that were ever taken, from the first on */
    struct kept *places;  /* [places] */
    struct owner *owners; /* [owners]; the last one owns the requests without a tenant */
};

/* The place of a request in its owner's list: 0 is the newest. */
struct ranked {
    const struct kept *kept;
    uint32_t rank;
};

struct notable {
    atomic_uint_fast64_t slow_ns;
    uint32_t owners, places;
    pthread_mutex_t lock; /* of all but `taken` */
    struct shelf shelves[NOTABLE_KINDS];
    struct ranked *ranked; /* [places], for notable_read */
};

static bool shelf_open(struct shelf *shelf, uint32_t owners, uint32_t places)
{
    shelf->places = calloc(places, sizeof *shelf->places);
    shelf->owners = calloc(owners, sizeof *shelf->owners);
    return shelf->places != NULL && shelf->owners != NULL;
}

static void notable_free(struct notable *notable)
{
    for (int kind = 0; kind < NOTABLE_KINDS; kind++) {
        free(notable->shelves[kind].places);
        free(notable->shelves[kind].owners);
    }
    free(notable->ranked);
    free(notable);
}

struct notable *notable_create(uint32_t tenants)
{
    struct notable *notable = calloc(1, sizeof *notable);
    if (notable == NULL)
        return NULL;
    notable->owners = tenants + 1;
    notable->places = NOTABLE_PLACES;
    if (notable->owners < NOTABLE_PLACES / NOTABLE_EACH)
        notable->places = notable->owners * NOTABLE_EACH;
    notable->ranked = calloc(notable->places, sizeof *notable->ranked);
    bool opened = notable->ranked != NULL;
    for (int kind = 0; kind < NOTABLE_KINDS; kind++)
        opened &= shelf_open(&notable->shelves[kind], notable->owners, notable->places);
    if (!opened || pthread_mutex_init(&notable->lock, NULL) != 0) {
        notable_free(notable);
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
    notable_free(notable);
}

static struct owner *owner_of(const struct notable *notable, enum notable_kind kind,
                              uint32_t tenant)
{
    const uint32_t last = notable->owners - 1;
    return &notable->shelves[kind].owners[tenant < last ? tenant : last];
}

bool notable_wants(struct notable *notable, uint32_t tenant, bool failed, uint64_t total_ns)
{
    if (!failed && total_ns <= atomic_load_explicit(&notable->slow_ns, memory_order_relaxed))
        return false;
    atomic_uint *taken = &owner_of(notable, failed ? NOTABLE_FAILED : NOTABLE_SLOW, tenant)->taken;
    return atomic_load_explicit(taken, memory_order_relaxed) < NOTABLE_PER_SECOND &&
           atomic_fetch_add(taken, 1) < NOTABLE_PER_SECOND;
}

static struct kept *take_oldest(struct owner *owner)
{
    struct kept *kept = owner->oldest;
    owner->oldest = kept->newer;
    owner->count--;
    if (owner->oldest == NULL)
        owner->newest = NULL;
    return kept;
}

/* Finds a place for a request of the owner. If there is no free place, the owner with the most
 * requests loses its oldest one: the owner itself, unless another has more. Under the lock. */
static struct kept *take_place(const struct notable *notable, struct shelf *shelf,
                               struct owner *owner)
{
    struct owner *from = owner;
    if (owner->count == NOTABLE_EACH)
        return take_oldest(owner);
    if (shelf->used < notable->places)
        return &shelf->places[shelf->used++];
    for (uint32_t i = 0; i < notable->owners; i++)
        if (shelf->owners[i].count > from->count)
            from = &shelf->owners[i];
    return take_oldest(from);
}

static void copy_text(char *out, size_t size, const char *text)
{
    const size_t length = text == NULL ? 0 : strnlen(text, size - 1);
    if (length > 0)
        memcpy(out, text, length);
    out[length] = '\0';
}

void notable_add(struct notable *notable, enum notable_kind kind, uint32_t tenant,
                 const struct log_access *entry, const uint64_t stages_ns[METRICS_STAGE_COUNT],
                 const char *detail)
{
    struct timespec now;
    struct shelf *shelf = &notable->shelves[kind];
    struct owner *owner = owner_of(notable, kind, tenant);
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&notable->lock);
    struct kept *place = take_place(notable, shelf, owner);
    struct notable_request *request = &place->request;
    *place = (struct kept){.number = shelf->count++};
    request->time_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    request->status = entry->status;
    request->tenant = tenant;
    request->m = entry->m;
    request->n = entry->n;
    request->k = entry->k;
    request->batch = entry->batch;
    request->total_ns = entry->total_ns;
    memcpy(request->stages_ns, stages_ns, sizeof request->stages_ns);
    copy_text(request->id, sizeof request->id, entry->request_id);
    copy_text(request->method, sizeof request->method, entry->method);
    copy_text(request->path, sizeof request->path, entry->path);
    copy_text(request->op, sizeof request->op, entry->op);
    copy_text(request->dtype, sizeof request->dtype, entry->dtype);
    copy_text(request->kernel, sizeof request->kernel, entry->kernel);
    copy_text(request->error, sizeof request->error, entry->error);
    copy_text(request->detail, sizeof request->detail, detail);
    if (owner->newest != NULL)
        owner->newest->newer = place;
    else
        owner->oldest = place;
    owner->newest = place;
    owner->count++;
    pthread_mutex_unlock(&notable->lock);
}

void notable_tick(struct notable *notable, uint64_t slow_ns)
{
    atomic_store(&notable->slow_ns, slow_ns);
    for (int kind = 0; kind < NOTABLE_KINDS; kind++)
        for (uint32_t i = 0; i < notable->owners; i++)
            atomic_store_explicit(&notable->shelves[kind].owners[i].taken, 0, memory_order_relaxed);
}

uint64_t notable_slow_ns(const struct notable *notable)
{
    return atomic_load(&notable->slow_ns);
}

/* The newest first. */
static int by_number(const void *one, const void *other)
{
    const uint64_t a = ((const struct ranked *)one)->kept->number,
                   b = ((const struct ranked *)other)->kept->number;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* The newest of each owner first, then the second of each. */
static int by_rank(const void *one, const void *other)
{
    const uint32_t a = ((const struct ranked *)one)->rank, b = ((const struct ranked *)other)->rank;
    return a < b ? -1 : a > b ? 1 : by_number(one, other);
}

static uint32_t rank_owner(const struct owner *owner, struct ranked *ranked)
{
    uint32_t rank = owner->count;
    for (const struct kept *kept = owner->oldest; kept != NULL; kept = kept->newer)
        *ranked++ = (struct ranked){kept, --rank};
    return owner->count;
}

uint32_t notable_read(struct notable *notable, enum notable_kind kind, bool all, uint32_t tenant,
                      struct notable_request requests[NOTABLE_EACH])
{
    struct ranked *ranked = notable->ranked;
    uint32_t count = 0;
    pthread_mutex_lock(&notable->lock);
    for (uint32_t i = 0; i < notable->owners && all; i++)
        count += rank_owner(&notable->shelves[kind].owners[i], ranked + count);
    if (!all)
        count = rank_owner(owner_of(notable, kind, tenant), ranked);
    qsort(ranked, count, sizeof *ranked, by_rank);
    count = count < NOTABLE_EACH ? count : NOTABLE_EACH;
    qsort(ranked, count, sizeof *ranked, by_number);
    for (uint32_t i = 0; i < count; i++)
        requests[i] = ranked[i].kept->request;
    pthread_mutex_unlock(&notable->lock);
    return count;
}
