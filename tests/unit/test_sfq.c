/* server/base/sfq.c: flows that wait all the time are served equal costs, whatever their costs. */
#include <check.h>
#include <stdlib.h>

#include "server/base/sfq.h"

enum { FLOWS = 4 };

static struct sfq sfq;
static struct sfq_flow flows[FLOWS];

static void setup(void)
{
    sfq = (struct sfq){0};
    for (int i = 0; i < FLOWS; i++)
        flows[i] = (struct sfq_flow){0};
}

START_TEST(none_is_first_of_none)
{
    ck_assert_ptr_null(sfq_first(&sfq));
    sfq_enter(&sfq, &flows[0]);
    ck_assert_ptr_eq(sfq_first(&sfq), &flows[0]);
    sfq_leave(&sfq, &flows[0]);
    ck_assert_ptr_null(sfq_first(&sfq));
}
END_TEST

START_TEST(costs_are_shared_equally)
{
    static const uint64_t costs[FLOWS] = {1, 10, 300, 7000};
    uint64_t served[FLOWS] = {0};
    for (int i = 0; i < FLOWS; i++)
        sfq_enter(&sfq, &flows[i]);
    for (int turn = 0; turn < 20000; turn++) {
        struct sfq_flow *first = sfq_first(&sfq);
        const long number = first - flows;
        sfq_serve(&sfq, first, costs[number], true);
        served[number] += costs[number];
        for (int one = 0; one < FLOWS; one++)
            for (int other = 0; other < FLOWS; other++)
                ck_assert_uint_le(served[one], served[other] + costs[one] + costs[other]);
    }
}
END_TEST

/* A flow that comes, or comes back, starts at the tag of the flow that was served last. */
START_TEST(nothing_is_saved_up)
{
    sfq_enter(&sfq, &flows[0]);
    for (int i = 0; i < 10; i++)
        sfq_serve(&sfq, &flows[0], 100, true);
    sfq_enter(&sfq, &flows[1]);
    ck_assert_uint_eq(flows[1].start, 900);
    sfq_serve(&sfq, &flows[1], 50, true);
    ck_assert_ptr_eq(sfq_first(&sfq), &flows[1]);
    sfq_serve(&sfq, &flows[1], 100, true);
    ck_assert_ptr_eq(sfq_first(&sfq), &flows[0]);
}
END_TEST

/* A flow that leaves for a moment while others wait keeps what it has been served. */
START_TEST(what_was_served_is_remembered)
{
    for (int i = 0; i < 2; i++)
        sfq_enter(&sfq, &flows[i]);
    sfq_serve(&sfq, &flows[0], 1000, false);
    sfq_enter(&sfq, &flows[0]);
    for (int i = 0; i < 10; i++) {
        ck_assert_ptr_eq(sfq_first(&sfq), &flows[1]);
        sfq_serve(&sfq, &flows[1], 100, true);
    }
    ck_assert_ptr_eq(sfq_first(&sfq), &flows[0]);
}
END_TEST

/* After all flows have left, all start as equals. */
START_TEST(an_empty_server_forgets)
{
    sfq_enter(&sfq, &flows[0]);
    sfq_serve(&sfq, &flows[0], 1000, false);
    sfq_enter(&sfq, &flows[1]);
    sfq_enter(&sfq, &flows[0]);
    ck_assert_uint_eq(flows[0].start, flows[1].start);
}
END_TEST

/* What is served out of turn is charged, and moves the time of others neither on nor back. */
START_TEST(out_of_turn_is_charged)
{
    for (int i = 0; i < 2; i++)
        sfq_enter(&sfq, &flows[i]);
    sfq_serve(&sfq, &flows[0], 10, true);
    sfq_serve(&sfq, &flows[0], 500, true); /* the turn is that of flow 1 */
    sfq_enter(&sfq, &flows[2]);
    ck_assert_uint_eq(flows[2].start, 0);
    ck_assert_uint_eq(flows[0].start, 510);
    ck_assert(sfq_before(&flows[1], &flows[2]) && sfq_before(&flows[2], &flows[0]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sfq");
    TCase *tests = tcase_create("sfq");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, none_is_first_of_none);
    tcase_add_test(tests, costs_are_shared_equally);
    tcase_add_test(tests, nothing_is_saved_up);
    tcase_add_test(tests, what_was_served_is_remembered);
    tcase_add_test(tests, an_empty_server_forgets);
    tcase_add_test(tests, out_of_turn_is_charged);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
