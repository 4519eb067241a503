/* Which requests are kept, how many of a second, and who is shown them. */
#include <check.h>
#include <stdio.h>

#include "server/observe/notable.h"

static struct notable *notable;
static struct notable_request requests[NOTABLE_EACH];

static void setup(void)
{
    notable = notable_create();
    ck_assert_ptr_nonnull(notable);
    notable_tick(notable, 1000);
}

static void teardown(void)
{
    notable_destroy(notable);
}

static void add(enum notable_kind kind, uint32_t tenant, uint32_t number)
{
    struct notable_request request = {.tenant = tenant, .total_ns = number};
    snprintf(request.id, sizeof request.id, "%u", number);
    notable_add(notable, kind, &request);
}

START_TEST(a_fast_request_that_succeeded_is_not_kept)
{
    ck_assert(!notable_wants(notable, false, 1000));
    ck_assert(notable_wants(notable, false, 1001));
    ck_assert(notable_wants(notable, true, 1));
}
END_TEST

START_TEST(a_second_has_a_bounded_number_of_each_kind)
{
    for (int i = 0; i < NOTABLE_PER_SECOND; i++)
        ck_assert(notable_wants(notable, true, 1));
    ck_assert(!notable_wants(notable, true, 1));
    ck_assert(notable_wants(notable, false, 2000));
    notable_tick(notable, 3000);
    ck_assert(notable_wants(notable, true, 1));
    ck_assert(!notable_wants(notable, false, 2000));
    ck_assert_uint_eq(notable_slow_ns(notable), 3000);
}
END_TEST

START_TEST(the_newest_come_first_and_replace_the_oldest)
{
    for (uint32_t i = 0; i < NOTABLE_EACH + 3; i++)
        add(NOTABLE_FAILED, 0, i);
    ck_assert_uint_eq(notable_read(notable, NOTABLE_FAILED, true, 0, requests), NOTABLE_EACH);
    ck_assert_str_eq(requests[0].id, "102");
    ck_assert_str_eq(requests[NOTABLE_EACH - 1].id, "3");
    ck_assert(requests[0].time_s > 0);
    ck_assert_uint_eq(notable_read(notable, NOTABLE_SLOW, true, 0, requests), 0);
}
END_TEST

START_TEST(a_tenant_is_shown_its_own)
{
    add(NOTABLE_SLOW, 0, 1);
    add(NOTABLE_SLOW, 1, 2);
    add(NOTABLE_SLOW, NOTABLE_NO_TENANT, 3);
    ck_assert_uint_eq(notable_read(notable, NOTABLE_SLOW, false, 0, requests), 1);
    ck_assert_str_eq(requests[0].id, "1");
    ck_assert_uint_eq(notable_read(notable, NOTABLE_SLOW, true, 0, requests), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notable");
    TCase *tests = tcase_create("notable");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_fast_request_that_succeeded_is_not_kept);
    tcase_add_test(tests, a_second_has_a_bounded_number_of_each_kind);
    tcase_add_test(tests, the_newest_come_first_and_replace_the_oldest);
    tcase_add_test(tests, a_tenant_is_shown_its_own);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
