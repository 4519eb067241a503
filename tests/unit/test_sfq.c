/* server/base/sfq.c: flows that wait all the time are served equal costs, whatever their costs, and
 * so are the items of tenants, which take turns within a tenant. */
#include <check.h>
#include <stdio.h>
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

/* ---- lists of items ---- */

enum { TENANTS = 3, ITEMS = 32 };

static struct fair_list list;
static struct fair_item items[ITEMS];
static char text[256];

static void open_list(void)
{
    list = (struct fair_list){0};
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct fair_item){0};
    ck_assert(fair_list_open(&list, TENANTS));
}

static void close_list(void)
{
    fair_list_close(&list);
}

/* Serves `turns` pieces of a cost, and returns the numbers of the items that got them. An item ends
 * with its last piece; `pieces` says how many each item has. */
static const char *serve(int turns, uint64_t cost, int pieces[ITEMS])
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < turns; i++) {
        struct fair_item *item = fair_list_first(&list);
        ck_assert_ptr_nonnull(item);
        const long number = item - items;
        length += (size_t)snprintf(text + length, sizeof text - length, length > 0 ? " %ld" : "%ld",
                                   number);
        fair_list_charge(&list, item, cost);
        if (--pieces[number] == 0)
            fair_list_remove(&list, item);
    }
    return text;
}

START_TEST(one_tenant_is_served_in_turns)
{
    int pieces[ITEMS] = {3, 1, 2};
    for (int i = 0; i < 3; i++)
        fair_list_add(&list, &items[i], 0);
    ck_assert_str_eq(serve(6, 100, pieces), "0 1 2 0 2 0");
    ck_assert_ptr_null(fair_list_first(&list));
    ck_assert(!fair_item_is_listed(&items[0]));
}
END_TEST

/* Tenant 0 has three large items, and the others a small one each, which come later. */
START_TEST(many_large_items_hold_up_no_other_tenant)
{
    int pieces[ITEMS] = {100, 100, 100, 1, 2};
    for (int i = 0; i < 3; i++)
        fair_list_add(&list, &items[i], 0);
    ck_assert_str_eq(serve(5, 100, pieces), "0 1 2 0 1");
    fair_list_add(&list, &items[3], 1);
    fair_list_add(&list, &items[4], 2);
    ck_assert_str_eq(serve(8, 100, pieces), "3 4 2 4 0 1 2 0");
}
END_TEST

START_TEST(what_is_removed_is_not_served)
{
    int pieces[ITEMS] = {9, 9, 9, 9};
    for (uint32_t i = 0; i < 4; i++)
        fair_list_add(&list, &items[i], i / 3);
    fair_list_remove(&list, &items[1]);
    ck_assert(!fair_item_is_listed(&items[1]) && fair_item_is_listed(&items[2]));
    ck_assert_str_eq(serve(4, 100, pieces), "0 3 2 3");
    fair_list_remove(&list, &items[3]);
    ck_assert_str_eq(serve(2, 100, pieces), "0 2");
    fair_list_remove(&list, &items[2]);
    fair_list_remove(&list, &items[0]);
    ck_assert_ptr_null(fair_list_first(&list));
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
    TCase *lists = tcase_create("lists");
    tcase_add_checked_fixture(lists, open_list, close_list);
    tcase_add_test(lists, one_tenant_is_served_in_turns);
    tcase_add_test(lists, many_large_items_hold_up_no_other_tenant);
    tcase_add_test(lists, what_is_removed_is_not_served);
    suite_add_tcase(suite, lists);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
