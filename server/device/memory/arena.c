#include "server/device/memory/arena.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "proto/size.h"

/* Sizes are counted in units of ARENA_ALIGNMENT. Free ranges are kept in lists by size class. The
 * first level of a class is a power of two, and the second level divides that in SECOND_COUNT
 * steps. Sizes below SECOND_COUNT have a class each, all under first level 0. */
enum {
    SECOND_BITS = 5,
    SECOND_COUNT = 1 << SECOND_BITS,
    MAX_UNIT_BITS = 31,
    FIRST_COUNT = MAX_UNIT_BITS - SECOND_BITS + 1,
    /* Most ranges of the wanted size's own class that are tested when no larger class has any. */
    LOOK_LIMIT = 16
};

static const uint32_t NONE = UINT32_MAX;
static const uint32_t IN_USE = UINT32_MAX - 1;

/* The range that starts at a unit. `units` is 0 if no range starts there. */
struct range {
    uint32_t units;
    uint32_t before; /* start of the range that ends where this one starts, or NONE */
    uint32_t next;   /* in the list of its class, or NONE; IN_USE: the range is allocated */
    uint32_t previous;
};

struct arena {
    pthread_mutex_t lock;
    uint32_t units;
    uint32_t first_map, second_map[FIRST_COUNT]; /* bits of the classes that have a free range */
    uint32_t heads[FIRST_COUNT][SECOND_COUNT];
    _Atomic uint64_t used_bytes;
    struct range *ranges; /* [units] */
};

struct size_class {
    uint32_t first, second;
};

static uint32_t highest_bit(uint32_t value)
{
    return 31u - (uint32_t)__builtin_clz(value);
}

static struct size_class class_of(uint32_t units)
{
    if (units < SECOND_COUNT)
        return (struct size_class){0, units};
    uint32_t bit = highest_bit(units);
    return (struct size_class){bit - SECOND_BITS + 1,
                               (units >> (bit - SECOND_BITS)) - SECOND_COUNT};
}

static void list_insert(struct arena *arena, uint32_t start)
{
    struct range *range = &arena->ranges[start];
    struct size_class at = class_of(range->units);
    uint32_t *head = &arena->heads[at.first][at.second];
    range->next = *head;
    range->previous = NONE;
    if (*head != NONE)
        arena->ranges[*head].previous = start;
    *head = start;
    arena->first_map |= 1u << at.first;
    arena->second_map[at.first] |= 1u << at.second;
}

static void list_remove(struct arena *arena, uint32_t start)
{
    struct range *range = &arena->ranges[start];
    struct size_class at = class_of(range->units);
    uint32_t *head = &arena->heads[at.first][at.second];
    if (range->next != NONE)
        arena->ranges[range->next].previous = range->previous;
    if (range->previous != NONE)
        arena->ranges[range->previous].next = range->next;
    else
        *head = range->next;
    if (*head == NONE) {
        arena->second_map[at.first] &= ~(1u << at.second);
        if (arena->second_map[at.first] == 0)
            arena->first_map &= ~(1u << at.first);
    }
    range->next = IN_USE;
}

/* The first range of the smallest class from `at` on that is not empty; NONE: all are empty. */
static uint32_t head_at_least(const struct arena *arena, struct size_class at)
{
    uint32_t second = arena->second_map[at.first] & (UINT32_MAX << at.second);
    if (second == 0) {
        uint32_t first = arena->first_map & (UINT32_MAX << at.first << 1);
        if (first == 0)
            return NONE;
        at.first = (uint32_t)__builtin_ctz(first);
        second = arena->second_map[at.first];
    }
    return arena->heads[at.first][__builtin_ctz(second)];
}

/* Finds a free range of at least `units`. The size is rounded up to the lower bound of the next
 * class, from which on every range is large enough. In the class below, some ranges are large
 * enough and some are not. */
static uint32_t arena_find(const struct arena *arena, uint32_t units)
{
    struct size_class own = class_of(units);
    if (units < SECOND_COUNT)
        return head_at_least(arena, own);
    uint32_t step = 1u << (highest_bit(units) - SECOND_BITS);
    struct size_class enough = class_of(units + step - 1);
    uint32_t start = enough.first < FIRST_COUNT ? head_at_least(arena, enough) : NONE;
    if (start != NONE)
        return start;
    start = arena->heads[own.first][own.second];
    for (int looked = 0; start != NONE && looked < LOOK_LIMIT; looked++) {
        if (arena->ranges[start].units >= units)
            return start;
        start = arena->ranges[start].next;
    }
    return NONE;
}

/* Sets `before` of the range that follows the range at `start`. */
static void link_after(struct arena *arena, uint32_t start)
{
    uint32_t after = start + arena->ranges[start].units;
    if (after < arena->units)
        arena->ranges[after].before = start;
}

struct arena *arena_create(uint64_t bytes)
{
    uint64_t units = bytes / ARENA_ALIGNMENT;
    if (units >= 1u << MAX_UNIT_BITS)
        return NULL;
    struct arena *arena = malloc(sizeof *arena);
    if (arena == NULL)
        return NULL;
    *arena = (struct arena){.units = (uint32_t)units};
    /* The table is large and zeroed: the system allocates its pages when they are first written. */
    arena->ranges = calloc(units + 1, sizeof *arena->ranges);
    if (arena->ranges == NULL || pthread_mutex_init(&arena->lock, NULL) != 0) {
        free(arena->ranges);
        free(arena);
        return NULL;
    }
    for (uint32_t i = 0; i < FIRST_COUNT; i++)
        for (uint32_t j = 0; j < SECOND_COUNT; j++)
            arena->heads[i][j] = NONE;
    if (units > 0) {
        arena->ranges[0] = (struct range){.units = arena->units, .before = NONE};
        list_insert(arena, 0);
    }
    return arena;
}

void arena_destroy(struct arena *arena)
{
    if (arena == NULL)
        return;
    assert(atomic_load(&arena->used_bytes) == 0);
    pthread_mutex_destroy(&arena->lock);
    free(arena->ranges);
    free(arena);
}

bool arena_alloc(struct arena *arena, uint64_t bytes, uint64_t *offset)
{
    uint64_t wanted = size_blocks(bytes > 0 ? bytes : 1, ARENA_ALIGNMENT);
    if (wanted > arena->units)
        return false;
    uint32_t units = (uint32_t)wanted;

    pthread_mutex_lock(&arena->lock);
    uint32_t start = arena_find(arena, units);
    if (start != NONE) {
        struct range *range = &arena->ranges[start];
        list_remove(arena, start);
        if (range->units > units) {
            uint32_t rest = start + units;
            arena->ranges[rest] = (struct range){.units = range->units - units, .before = start};
            range->units = units;
            link_after(arena, rest);
            list_insert(arena, rest);
        }
        atomic_fetch_add_explicit(&arena->used_bytes, wanted * ARENA_ALIGNMENT,
                                  memory_order_relaxed);
    }
    pthread_mutex_unlock(&arena->lock);
    if (start == NONE)
        return false;
    *offset = (uint64_t)start * ARENA_ALIGNMENT;
    return true;
}

void arena_free(struct arena *arena, uint64_t offset)
{
    uint32_t start = (uint32_t)(offset / ARENA_ALIGNMENT);
    assert(offset % ARENA_ALIGNMENT == 0 && offset / ARENA_ALIGNMENT < arena->units);

    pthread_mutex_lock(&arena->lock);
    struct range *range = &arena->ranges[start];
    assert(range->units > 0 && range->next == IN_USE);
    atomic_fetch_sub_explicit(&arena->used_bytes, (uint64_t)range->units * ARENA_ALIGNMENT,
                              memory_order_relaxed);
    uint32_t after = start + range->units;
    if (after < arena->units && arena->ranges[after].next != IN_USE) {
        list_remove(arena, after);
        range->units += arena->ranges[after].units;
        arena->ranges[after].units = 0;
    }
    if (range->before != NONE && arena->ranges[range->before].next != IN_USE) {
        uint32_t before = range->before;
        list_remove(arena, before);
        arena->ranges[before].units += range->units;
        range->units = 0;
        start = before;
    }
    link_after(arena, start);
    list_insert(arena, start);
    pthread_mutex_unlock(&arena->lock);
}

uint64_t arena_capacity_bytes(const struct arena *arena)
{
    return (uint64_t)arena->units * ARENA_ALIGNMENT;
}

uint64_t arena_used_bytes(const struct arena *arena)
{
    return atomic_load_explicit(&arena->used_bytes, memory_order_relaxed);
}

uint64_t arena_largest_without(struct arena *arena, const uint64_t offsets[], uint64_t count)
{
    uint32_t largest = 0, begin = 0, end = NONE;
    pthread_mutex_lock(&arena->lock);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t start = (uint32_t)(offsets[i] / ARENA_ALIGNMENT);
        const struct range *range = &arena->ranges[start];
        if (start != end) /* otherwise the range continues the span that has ended here */
            begin = range->before != NONE && arena->ranges[range->before].next != IN_USE
                        ? range->before
                        : start;
        end = start + range->units;
        if (end < arena->units && arena->ranges[end].next != IN_USE)
            end += arena->ranges[end].units;
        if (end - begin > largest)
            largest = end - begin;
    }
    pthread_mutex_unlock(&arena->lock);
    return (uint64_t)largest * ARENA_ALIGNMENT;
}
