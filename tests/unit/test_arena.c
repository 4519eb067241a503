/* server/device/memory/arena.c: compared with a model that records for each unit whether it is
 * allocated. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/device/memory/arena.h"

enum { UNITS = 1024, HELD_MAX = 256, STEPS = 3000, THREADS = 4, THREAD_STEPS = 5000 };

static const uint64_t UNIT = ARENA_ALIGNMENT;

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

struct held {
    uint64_t offset, units;
};

struct model {
    bool taken[UNITS];
    uint64_t taken_units;
    struct held held[HELD_MAX];
    uint32_t count;
};

static uint64_t largest_gap_units(const struct model *model)
{
    uint64_t largest = 0, run = 0;
    for (uint32_t i = 0; i < UNITS; i++) {
        run = model->taken[i] ? 0 : run + 1;
        largest = run > largest ? run : largest;
    }
    return largest;
}

static void model_take(struct model *model, uint64_t offset, uint64_t units)
{
    ck_assert_uint_eq(offset % UNIT, 0);
    ck_assert_uint_le(offset / UNIT + units, UNITS);
    for (uint64_t i = 0; i < units; i++) {
        ck_assert_msg(!model->taken[offset / UNIT + i], "unit %lu was handed out twice",
                      (unsigned long)(offset / UNIT + i));
        model->taken[offset / UNIT + i] = true;
    }
    model->taken_units += units;
    model->held[model->count++] = (struct held){offset, units};
}

static uint64_t model_give_back(struct model *model, uint32_t which)
{
    struct held held = model->held[which];
    model->held[which] = model->held[--model->count];
    memset(&model->taken[held.offset / UNIT], 0, held.units);
    model->taken_units -= held.units;
    return held.offset;
}

static int by_offset(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Picks some of the allocated ranges, to be counted as if they were free. */
static void check_without_some(const struct model *model, struct arena *arena, uint64_t *state)
{
    bool given[UNITS] = {false};
    uint64_t offsets[HELD_MAX] = {0}, count = 0, largest = 0, run = 0;
    for (uint32_t i = 0; i < model->count; i++)
        if (next_random(state) % 2 == 0) {
            offsets[count++] = model->held[i].offset;
            memset(&given[model->held[i].offset / UNIT], 1, model->held[i].units);
        }
    qsort(offsets, count, sizeof *offsets, by_offset);
    bool has_given = false;
    for (uint32_t i = 0; i < UNITS; i++) {
        const bool ends = model->taken[i] && !given[i];
        run = ends ? 0 : run + 1;
        has_given = !ends && (has_given || given[i]);
        largest = has_given && run > largest ? run : largest;
    }
    ck_assert_uint_eq(arena_largest_without(arena, offsets, count), largest * UNIT);
}

/* Asserts that a range of `bytes` can be allocated, and no larger range. */
static void assert_largest_free(struct arena *arena, uint64_t bytes)
{
    uint64_t offset;
    ck_assert(!arena_alloc(arena, bytes + 1, &offset));
    if (bytes == 0)
        return;
    ck_assert(arena_alloc(arena, bytes, &offset));
    arena_free(arena, offset);
}

START_TEST(random_use_agrees_with_the_model)
{
    static struct model model; /* zeroed: each test runs in a process of its own */
    struct arena *arena = arena_create(UNITS * UNIT);
    uint64_t state = (uint64_t)_i;
    ck_assert_ptr_nonnull(arena);
    for (int step = 0; step < STEPS; step++) {
        uint32_t choice = next_random(&state);
        if (choice % 2 == 0 && model.count < HELD_MAX) {
            uint64_t units = 1 + next_random(&state) % (choice % 16 == 0 ? UNITS / 2 : 24);
            uint64_t bytes = units * UNIT - next_random(&state) % UNIT, offset;
            if (arena_alloc(arena, bytes, &offset))
                model_take(&model, offset, units);
            else
                ck_assert_uint_lt(largest_gap_units(&model), units);
        } else if (model.count > 0) {
            arena_free(arena, model_give_back(&model, choice / 2 % model.count));
        }
        ck_assert_uint_eq(arena_used_bytes(arena), model.taken_units * UNIT);
        assert_largest_free(arena, largest_gap_units(&model) * UNIT);
        check_without_some(&model, arena, &state);
    }
    while (model.count > 0)
        arena_free(arena, model_give_back(&model, 0));
    ck_assert_uint_eq(arena_used_bytes(arena), 0);
    assert_largest_free(arena, UNITS * UNIT);
    arena_destroy(arena);
}
END_TEST

START_TEST(the_whole_span_can_be_taken)
{
    uint64_t units = (uint64_t)_i, offset;
    struct arena *arena = arena_create(units * UNIT);
    ck_assert(!arena_alloc(arena, units * UNIT + 1, &offset));
    ck_assert(arena_alloc(arena, units * UNIT, &offset));
    ck_assert_uint_eq(offset, 0);
    ck_assert(!arena_alloc(arena, 1, &offset));
    arena_free(arena, 0);
    ck_assert(arena_alloc(arena, units * UNIT, &offset));
    arena_free(arena, offset);
    arena_destroy(arena);
}
END_TEST

START_TEST(every_unit_is_handed_out_once)
{
    struct arena *arena = arena_create(UNITS * UNIT);
    uint64_t offset;
    for (uint32_t i = 0; i < UNITS; i++)
        ck_assert(arena_alloc(arena, 1, &offset));
    ck_assert(!arena_alloc(arena, 1, &offset));
    ck_assert_uint_eq(arena_used_bytes(arena), arena_capacity_bytes(arena));
    arena_free(arena, 17 * UNIT);
    ck_assert(!arena_alloc(arena, UNIT + 1, &offset));
    ck_assert(arena_alloc(arena, 1, &offset));
    ck_assert_uint_eq(offset, 17 * UNIT);
    for (uint32_t i = 0; i < UNITS; i++)
        arena_free(arena, i * UNIT);
    assert_largest_free(arena, UNITS * UNIT);
    arena_destroy(arena);
}
END_TEST

START_TEST(neighbours_merge_on_either_side)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct arena *arena = arena_create(UNIT * 3 * 40);
    uint64_t offsets[3];
    for (int i = 0; i < 3; i++)
        ck_assert(arena_alloc(arena, 40 * UNIT, &offsets[i]));
    for (int i = 0; i < 3; i++)
        arena_free(arena, offsets[orders[_i][i]]);
    assert_largest_free(arena, UNIT * 3 * 40);
    arena_destroy(arena);
}
END_TEST

START_TEST(sizes_are_rounded)
{
    struct arena *arena = arena_create(3 * UNIT + 5);
    uint64_t offset;
    ck_assert_uint_eq(arena_capacity_bytes(arena), 3 * UNIT);
    ck_assert(arena_alloc(arena, 0, &offset));
    ck_assert_uint_eq(arena_used_bytes(arena), UNIT);
    arena_free(arena, offset);
    ck_assert(arena_alloc(arena, UNIT + 1, &offset));
    ck_assert_uint_eq(arena_used_bytes(arena), 2 * UNIT);
    ck_assert(!arena_alloc(arena, UINT64_MAX, &offset));
    arena_free(arena, offset);
    arena_destroy(arena);
}
END_TEST

START_TEST(spans_without_room_or_beyond_the_limit)
{
    uint64_t offset;
    struct arena *empty = arena_create(UNIT - 1);
    ck_assert_ptr_nonnull(empty);
    ck_assert(!arena_alloc(empty, 1, &offset));
    assert_largest_free(empty, 0);
    arena_destroy(empty);
    ck_assert_ptr_null(arena_create(UINT64_C(1) << 43));
    ck_assert_ptr_null(arena_create(UINT64_MAX));
}
END_TEST

/* A span far larger than this host's memory, of which the arena keeps only records. */
START_TEST(a_large_span_costs_what_is_used_of_it)
{
    struct arena *arena = arena_create(UINT64_C(1) << 37);
    uint64_t first, second;
    ck_assert_ptr_nonnull(arena);
    ck_assert(arena_alloc(arena, UINT64_C(1) << 36, &first));
    ck_assert(arena_alloc(arena, UINT64_C(1) << 36, &second));
    ck_assert_uint_eq(first ^ second, UINT64_C(1) << 36);
    arena_free(arena, first);
    arena_free(arena, second);
    assert_largest_free(arena, UINT64_C(1) << 37);
    arena_destroy(arena);
}
END_TEST

struct arena_test {
    struct arena *arena;
    atomic_int owners[UNITS]; /* thread number, 0 for nobody */
    atomic_int clashes;
};

struct user {
    struct arena_test *test;
    int number;
};

static void change_owner(struct arena_test *test, const struct held *held, int from, int to)
{
    for (uint64_t i = 0; i < held->units; i++)
        if (atomic_exchange(&test->owners[held->offset / UNIT + i], to) != from)
            atomic_fetch_add(&test->clashes, 1);
}

static void take(const struct user *user, struct held *held, uint64_t units)
{
    if (!arena_alloc(user->test->arena, units * UNIT, &held->offset))
        return;
    held->units = units;
    change_owner(user->test, held, 0, user->number);
}

static void give_back(const struct user *user, struct held *held)
{
    change_owner(user->test, held, user->number, 0);
    arena_free(user->test->arena, held->offset);
    held->units = 0;
}

static void *use(void *argument)
{
    const struct user *user = argument;
    struct held held[16] = {{0, 0}};
    uint64_t state = (uint64_t)user->number;
    for (int step = 0; step < THREAD_STEPS; step++) {
        struct held *one = &held[next_random(&state) % 16];
        if (one->units > 0)
            give_back(user, one);
        else
            take(user, one, 1 + next_random(&state) % 20);
    }
    for (int i = 0; i < 16; i++)
        if (held[i].units > 0)
            give_back(user, &held[i]);
    return NULL;
}

START_TEST(threads_never_share_a_range)
{
    static struct arena_test test;
    struct user users[THREADS];
    pthread_t threads[THREADS];
    test.arena = arena_create(UNITS * UNIT);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){&test, i + 1};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&test.clashes), 0);
    ck_assert_uint_eq(arena_used_bytes(test.arena), 0);
    assert_largest_free(test.arena, UNITS * UNIT);
    arena_destroy(test.arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tests = tcase_create("arena");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, random_use_agrees_with_the_model, 0, 4);
    tcase_add_loop_test(tests, the_whole_span_can_be_taken, 1, 140);
    tcase_add_test(tests, every_unit_is_handed_out_once);
    tcase_add_loop_test(tests, neighbours_merge_on_either_side, 0, 6);
    tcase_add_test(tests, sizes_are_rounded);
    tcase_add_test(tests, spans_without_room_or_beyond_the_limit);
    tcase_add_test(tests, a_large_span_costs_what_is_used_of_it);
    tcase_add_test(tests, threads_never_share_a_range);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
