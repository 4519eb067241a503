/* Every part is computed once, whatever the sizes, and members keep to their own numbers. */
#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/cpu/team.h"

enum { PARTS_MAX = 1000, MEMBERS = 4 };

struct tally {
    atomic_uint parts[PARTS_MAX];
    atomic_uint inside[MEMBERS]; /* 1 while a member computes */
    atomic_bool clash;
    uint32_t size; /* of the team */
};

static void count_part(void *argument, uint64_t part, uint32_t member)
{
    struct tally *tally = argument;
    if (member >= tally->size || atomic_fetch_add(&tally->inside[member], 1) != 0)
        atomic_store(&tally->clash, true);
    atomic_fetch_add(&tally->parts[part], 1);
    if (member < tally->size)
        atomic_fetch_sub(&tally->inside[member], 1);
}

static void check_counts(struct team *team, uint32_t size, uint64_t parts)
{
    struct tally *tally = calloc(1, sizeof *tally);
    ck_assert_ptr_nonnull(tally);
    tally->size = size;
    team_run(team, count_part, tally, parts);
    for (uint64_t i = 0; i < PARTS_MAX; i++)
        ck_assert_msg(atomic_load(&tally->parts[i]) == (i < parts), "part %lu of %lu: %u times",
                      (unsigned long)i, (unsigned long)parts, atomic_load(&tally->parts[i]));
    ck_assert_msg(!atomic_load(&tally->clash),
                  "two threads had one member's number, or a member has none of the team's");
    free(tally);
}

START_TEST(every_part_once)
{
    const uint64_t parts[] = {0, 1, 2, 3, MEMBERS, MEMBERS + 1, 100, PARTS_MAX};
    for (uint32_t size = 1; size <= MEMBERS; size++) {
        struct team *team;
        ck_assert_uint_eq(team_create(size, &team, NULL), GEMMD_OK);
        for (unsigned again = 0; again < 50; again++)
            for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
                check_counts(team, size, parts[i]);
        team_destroy(team);
    }
    team_destroy(NULL); /* a team that was not created */
}
END_TEST

/* Stops once `left` parts have been asked about. */
struct stopper {
    atomic_int left;
    atomic_uint parts;
};

static bool stopper_stops(void *argument)
{
    return atomic_fetch_sub(&((struct stopper *)argument)->left, 1) <= 0;
}

static void count_stopped_part(void *argument, uint64_t part, uint32_t member)
{
    (void)part;
    (void)member;
    atomic_fetch_add(&((struct stopper *)argument)->parts, 1);
}

START_TEST(a_team_stops_between_parts)
{
    struct fault fault;
    for (uint32_t size = 1; size <= MEMBERS; size++) {
        struct team *team = NULL;
        struct stopper stopper;
        atomic_init(&stopper.left, 10);
        atomic_init(&stopper.parts, 0);
        ck_assert_int_eq(team_create(size, &team, &fault), GEMMD_OK);
        team_watch(team, stopper_stops, &stopper);
        ck_assert(!team_has_stopped(team));
        team_run(team, count_stopped_part, &stopper, PARTS_MAX);
        ck_assert(team_has_stopped(team));
        ck_assert_uint_eq(atomic_load(&stopper.parts), 10);
        team_run(team, count_stopped_part, &stopper, PARTS_MAX);
        ck_assert_uint_eq(atomic_load(&stopper.parts), 10);
        team_watch(team, NULL, NULL);
        check_counts(team, size, PARTS_MAX);
        team_destroy(team);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("team");
    TCase *tests = tcase_create("team");
    tcase_add_test(tests, every_part_once);
    tcase_add_test(tests, a_team_stops_between_parts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
