/* server/scheduler/queue.c: works that share a launch are popped as one launch list. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "tests/unit/queue_stage.h"

/* The numbers of a launch list, as text: "2 4 5". */
static const char *numbers_of(const struct work *works, char text[64])
{
    size_t length = 0;
    text[0] = '\0';
    for (; works != NULL && length < 60; works = works->next)
        length += (size_t)snprintf(text + length, 64 - length, length > 0 ? " %u" : "%u",
                                   ((const struct item *)works)->number);
    return text;
}

/* Pushes items 0 ... count - 1. An item shares its launch if its bit in `sharing` is set. */
static void push_mixed(struct queue *queue, struct item *items, uint32_t count, uint32_t sharing)
{
    for (uint32_t i = 0; i < count; i++) {
        item_init(&items[i], i, 4, 0);
        items[i].work.shared_launch = sharing >> i & 1;
        push_item(queue, &items[i]);
    }
}

START_TEST(those_that_share_come_together)
{
    struct item items[6];
    char text[64];
    struct queue_room room = {.exclusive = true, .shared = 8, .shared_bytes = 1000};
    struct queue *queue = queue_of_one(8, 80);
    push_mixed(queue, items, 6, 0x2a); /* 1, 3 and 5 */
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "0");
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "1 3 5");
    ck_assert_uint_eq(queue_state(queue).waiting, 2);
    ck_assert_uint_eq(queue_state(queue).waiting_bytes, 20);
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "2");
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "4");
    ck_assert_ptr_null(queue_pop(queue, room, 0));
    queue_free(queue);
}
END_TEST

START_TEST(a_launch_list_is_bounded_by_count_and_by_bytes)
{
    struct item items[6];
    char text[64];
    struct queue_room few = {.shared = 2, .shared_bytes = 1000};
    struct queue_room light = {.shared = 8, .shared_bytes = 29}, least = {.shared = 8};
    struct queue *queue = queue_of_one(8, 80);
    push_mixed(queue, items, 6, 0x3f);
    ck_assert_str_eq(numbers_of(queue_pop(queue, few, 0), text), "0 1");
    ck_assert_str_eq(numbers_of(queue_pop(queue, light, 0), text), "2 3");
    ck_assert_str_eq(numbers_of(queue_pop(queue, least, 0), text), "4"); /* one always */
    ck_assert_str_eq(numbers_of(queue_pop(queue, light, 0), text), "5");
    queue_free(queue);
}
END_TEST

START_TEST(the_more_urgent_come_first_in_a_launch_list)
{
    static const uint32_t priorities[] = {4, 9, 0, 9, 4, 1};
    struct item items[6];
    char text[64];
    struct queue_room room = {.exclusive = true, .shared = 5, .shared_bytes = 1000};
    struct queue *queue = queue_of_one(8, 80);
    for (uint32_t i = 0; i < 6; i++) {
        item_init(&items[i], i, priorities[i], 0);
        items[i].work.shared_launch = true;
        push_item(queue, &items[i]);
    }
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "1 3 0 4 5");
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "2");
    queue_free(queue);
}
END_TEST

START_TEST(a_lane_without_room_holds_up_only_itself)
{
    struct item items[4];
    char text[64];
    struct queue_room only_shared = {.shared = 8, .shared_bytes = 1000};
    struct queue_room only_exclusive = {.exclusive = true}, none = {.exclusive = false};
    struct queue *queue = queue_of_one(8, 80);
    push_mixed(queue, items, 4, 0xc); /* 2 and 3 share, and came last */
    ck_assert_ptr_null(queue_pop(queue, none, 0));
    ck_assert_str_eq(numbers_of(queue_pop(queue, only_shared, 0), text), "2 3");
    ck_assert_ptr_null(queue_pop(queue, only_shared, 0));
    ck_assert_ptr_null(queue_pop(queue, only_shared, 1000));
    ck_assert_str_eq(numbers_of(queue_pop(queue, only_exclusive, 0), text), "0");
    ck_assert_str_eq(numbers_of(queue_pop(queue, only_exclusive, 0), text), "1");
    queue_free(queue);
}
END_TEST

/* Works that have been looked at and left waiting are found as well. */
START_TEST(room_for_one_work_is_room)
{
    struct item items[4];
    char text[64];
    struct queue_room one_shared = {.shared = 1, .shared_bytes = 1000};
    struct queue_room one_exclusive = {.exclusive = 1};
    struct queue *queue = queue_of_one(8, 80);
    push_mixed(queue, items, 4, 0xc);
    ck_assert_str_eq(numbers_of(queue_pop(queue, one_shared, 0), text), "2");
    ck_assert_str_eq(numbers_of(queue_pop(queue, one_shared, 0), text), "3");
    ck_assert_str_eq(numbers_of(queue_pop(queue, one_exclusive, 0), text), "0");
    ck_assert_str_eq(numbers_of(queue_pop(queue, one_exclusive, 0), text), "1");
    queue_free(queue);
}
END_TEST

START_TEST(what_expired_is_in_no_launch_list)
{
    struct item items[5];
    char text[64];
    struct queue_room room = {.exclusive = true, .shared = 8, .shared_bytes = 1000};
    struct queue *queue = queue_of_one(8, 80);
    for (uint32_t i = 0; i < 5; i++) {
        item_init(&items[i], i, 4, i % 2 == 0 ? clock_now_ns() : UINT64_MAX);
        items[i].work.shared_launch = true;
        push_item(queue, &items[i]);
    }
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "1 3");
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(atomic_load(&items[i].ended), i % 2 == 0);
        if (i % 2 == 0)
            ck_assert_int_eq(items[i].work.status, GEMMD_ERR_DEADLINE);
    }
    queue_free(queue);
}
END_TEST

START_TEST(only_what_waits_can_be_taken_back)
{
    struct item items[3];
    char text[64];
    struct queue_room room = {.exclusive = true, .shared = 8, .shared_bytes = 1000};
    struct queue *queue = queue_of_one(8, 80);
    item_init(&items[0], 0, 4, 0);
    ck_assert(!queue_cancel(queue, &items[0].work)); /* it was never pushed */
    push_mixed(queue, items, 3, (uint32_t)_i * 7);
    ck_assert(queue_cancel(queue, &items[1].work));
    ck_assert(!queue_cancel(queue, &items[1].work));
    ck_assert_uint_eq(queue_state(queue).waiting, 2);
    ck_assert_uint_eq(queue_state(queue).waiting_bytes, 20);
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), _i == 1 ? "0 2" : "0");
    ck_assert(!queue_cancel(queue, &items[0].work));
    if (_i == 0)
        ck_assert(queue_cancel(queue, &items[2].work));
    ck_assert_ptr_null(queue_pop(queue, room, 0));
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(atomic_load(&items[i].ended), 0);
    queue_free(queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue launch lists");
    TCase *tests = tcase_create("queue");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, those_that_share_come_together);
    tcase_add_test(tests, a_launch_list_is_bounded_by_count_and_by_bytes);
    tcase_add_test(tests, the_more_urgent_come_first_in_a_launch_list);
    tcase_add_test(tests, a_lane_without_room_holds_up_only_itself);
    tcase_add_test(tests, room_for_one_work_is_room);
    tcase_add_test(tests, what_expired_is_in_no_launch_list);
    tcase_add_loop_test(tests, only_what_waits_can_be_taken_back, 0, 2); /* alone, sharing */
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
