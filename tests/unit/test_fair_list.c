/* server/base/fair_list.c: items are served fairly between tenants, and in turns within a tenant.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/base/fair_list.h"

enum { TENANTS = 3, ITEMS = 32 };

static struct fair_list list;
static struct fair_item items[ITEMS];
static char text[256];

static void setup(void)
{
    list = (struct fair_list){0};
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct fair_item){0};
    ck_assert(fair_list_open(&list, TENANTS));
}

static void teardown(void)
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
    Suite *suite = suite_create("fair_list");
    TCase *tests = tcase_create("fair_list");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, one_tenant_is_served_in_turns);
    tcase_add_test(tests, many_large_items_hold_up_no_other_tenant);
    tcase_add_test(tests, what_is_removed_is_not_served);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
