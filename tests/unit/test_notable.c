/* Which requests are kept, how many of a second, and who is shown them. */
#include <check.h>
#include <stdio.h>

#include "server/observe/notable.h"

enum { TENANTS = 40 };

static struct notable *notable;
static struct notable_request requests[NOTABLE_EACH];

static void setup(void)
{
    notable = notable_create(TENANTS);
    ck_assert_ptr_nonnull(notable);
    notable_tick(notable, 1000);
}

static void teardown(void)
{
    notable_destroy(notable);
}

static void add(enum notable_kind kind, uint32_t tenant, uint32_t number)
{
    static const uint64_t stages_ns[METRICS_STAGE_COUNT];
    char id[16];
    const struct log_access entry = {.request_id = id, .total_ns = number};
    snprintf(id, sizeof id, "%u", number);
    notable_add(notable, kind, tenant, &entry, stages_ns, NULL);
}

START_TEST(a_fast_request_that_succeeded_is_not_kept)
{
    ck_assert(!notable_wants(notable, 0, false, 1000));
    ck_assert(notable_wants(notable, 0, false, 1001));
    ck_assert(notable_wants(notable, 0, true, 1));
}
END_TEST

START_TEST(a_second_has_a_bounded_number_of_each_kind)
{
    for (int i = 0; i < NOTABLE_PER_SECOND; i++)
        ck_assert(notable_wants(notable, 0, true, 1));
    ck_assert(!notable_wants(notable, 0, true, 1));
    ck_assert(notable_wants(notable, 1, true, 1));
    ck_assert(notable_wants(notable, NOTABLE_NO_TENANT, true, 1));
    ck_assert(notable_wants(notable, 0, false, 2000));
    notable_tick(notable, 3000);
    ck_assert(notable_wants(notable, 0, true, 1));
    ck_assert(!notable_wants(notable, 0, false, 2000));
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
    ck_assert_double_gt(requests[0].time_s, 0);
    ck_assert_uint_eq(notable_read(notable, NOTABLE_SLOW, true, 0, requests), 0);
}
END_TEST

/* Number of a tenant's failed requests that are kept; the newest must be `newest`. */
static uint32_t kept(uint32_t tenant, const char *newest)
{
    const uint32_t count = notable_read(notable, NOTABLE_FAILED, false, tenant, requests);
    ck_assert_uint_gt(count, 0);
    ck_assert_str_eq(requests[0].id, newest);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(requests[i].tenant, tenant);
    return count;
}

START_TEST(a_flood_pushes_out_nothing_of_others)
{
    add(NOTABLE_FAILED, 1, 1);
    add(NOTABLE_FAILED, NOTABLE_NO_TENANT, 2);
    for (uint32_t i = 0; i < 3 * NOTABLE_EACH; i++)
        add(NOTABLE_FAILED, 0, i);
    ck_assert_uint_eq(kept(0, "299"), NOTABLE_EACH);
    ck_assert_uint_eq(kept(1, "1"), 1);
    ck_assert_uint_eq(kept(NOTABLE_NO_TENANT, "2"), 1);
    /* They are not hidden either among all requests. */
    ck_assert_uint_eq(notable_read(notable, NOTABLE_FAILED, true, 0, requests), NOTABLE_EACH);
    ck_assert_str_eq(requests[0].id, "299");
    ck_assert_str_eq(requests[NOTABLE_EACH - 2].id, "2");
    ck_assert_str_eq(requests[NOTABLE_EACH - 1].id, "1");
}
END_TEST

START_TEST(the_longest_lists_make_room)
{
    /* 20 lists of 100 and one of 48 take all places. */
    for (uint32_t tenant = 0; tenant <= NOTABLE_PLACES / NOTABLE_EACH; tenant++)
        for (uint32_t i = 0; i < NOTABLE_EACH && tenant * NOTABLE_EACH + i < NOTABLE_PLACES; i++)
            add(NOTABLE_FAILED, tenant, i);
    for (uint32_t i = 0; i < 60; i++)
        add(NOTABLE_FAILED, TENANTS - 1, 1000 + i);
    ck_assert_uint_eq(kept(TENANTS - 1, "1059"), 60);
    ck_assert_uint_eq(kept(20, "47"), 48);
    uint32_t sum = 60 + 48;
    for (uint32_t tenant = 0; tenant < 20; tenant++) {
        const uint32_t count = kept(tenant, "99");
        ck_assert_uint_ge(count, 97);
        sum += count;
    }
    ck_assert_uint_eq(sum, NOTABLE_PLACES);
    ck_assert_uint_eq(notable_read(notable, NOTABLE_FAILED, true, 0, requests), NOTABLE_EACH);
    for (uint32_t i = 1; i < NOTABLE_EACH; i++)
        ck_assert_double_ge(requests[i - 1].time_s, requests[i].time_s);
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
        uint32_t shown = 0;
        for (uint32_t i = 0; i < NOTABLE_EACH; i++)
            shown += requests[i].tenant == tenant;
        ck_assert_uint_eq(shown > 0, tenant <= 20 || tenant == TENANTS - 1);
        ck_assert_uint_le(shown, 5); /* 22 tenants share 100 */
    }
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
    tcase_add_test(tests, a_flood_pushes_out_nothing_of_others);
    tcase_add_test(tests, the_longest_lists_make_room);
    tcase_add_test(tests, a_tenant_is_shown_its_own);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
