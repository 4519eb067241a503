/* server/base/list.h: items stay in order, wherever one is removed. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "server/base/list.h"

enum { ITEMS = 5 };

struct element {
    int before; /* so that the item is not the first member */
    struct list_item item;
};

static struct element elements[ITEMS];
static struct list list;

static void start(void)
{
    list = (struct list){.first = NULL};
    for (int i = 0; i < ITEMS; i++) {
        elements[i] = (struct element){.before = i};
        list_append(&list, &elements[i].item);
    }
}

/* Whether the list holds exactly the elements whose bits are set, in order, in both directions. */
static bool holds(unsigned bits)
{
    const struct list_item *before = NULL, *item = list.first;
    for (int i = 0; i < ITEMS; i++) {
        if ((bits >> i & 1) == 0) {
            if (elements[i].item.list != NULL || elements[i].item.next != NULL ||
                elements[i].item.previous != NULL)
                return false;
            continue;
        }
        if (item != &elements[i].item || item->previous != before || item->list != &list ||
            OWNER_OF(item, struct element, item)->before != i)
            return false;
        before = item;
        item = item->next;
    }
    return item == NULL && list.last == before;
}

START_TEST(any_set_of_items_is_removed_in_either_order)
{
    const unsigned all = (1u << ITEMS) - 1, removed = (unsigned)_i;
    start();
    ck_assert(holds(all));
    for (int i = 0; i < ITEMS; i++)
        if (removed >> i & 1)
            list_remove(&elements[i].item);
    ck_assert(holds(all & ~removed));
    start();
    for (int i = ITEMS - 1; i >= 0; i--)
        if (removed >> i & 1)
            list_remove(&elements[i].item);
    ck_assert(holds(all & ~removed));
}
END_TEST

START_TEST(an_item_that_is_in_no_list_is_not_removed_again)
{
    start();
    list_remove(&elements[2].item);
    list_remove(&elements[2].item);
    ck_assert(holds(0x1b));
}
END_TEST

START_TEST(a_removed_item_comes_last_when_it_is_appended_again)
{
    start();
    list_remove(&elements[0].item);
    list_append(&list, &elements[0].item);
    ck_assert_ptr_eq(list.last, &elements[0].item);
    ck_assert_ptr_eq(list.first, &elements[1].item);
    ck_assert_ptr_eq(elements[4].item.next, &elements[0].item);
}
END_TEST

START_TEST(a_loop_may_remove_what_it_is_at)
{
    start();
    struct list_item *next;
    int visited = 0;
    for (struct list_item *item = list.first; item != NULL; item = next, visited++) {
        next = item->next;
        list_remove(item);
    }
    ck_assert_int_eq(visited, ITEMS);
    ck_assert(holds(0));
}
END_TEST

START_TEST(items_are_taken_in_order)
{
    start();
    for (int i = 0; i < ITEMS; i++) {
        ck_assert_ptr_eq(list_take_first(&list), &elements[i].item);
        ck_assert(holds(0x1fu << (i + 1) & 0x1f));
    }
    ck_assert_ptr_null(list_take_first(&list));
    list_append(&list, &elements[3].item);
    ck_assert(holds(0x08));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("list");
    TCase *tests = tcase_create("list");
    tcase_add_loop_test(tests, any_set_of_items_is_removed_in_either_order, 0, 1 << ITEMS);
    tcase_add_test(tests, an_item_that_is_in_no_list_is_not_removed_again);
    tcase_add_test(tests, a_removed_item_comes_last_when_it_is_appended_again);
    tcase_add_test(tests, a_loop_may_remove_what_it_is_at);
    tcase_add_test(tests, items_are_taken_in_order);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
