/* server/scheduler/queue.c and fair_queue.c: order, exact limits, expiry, failing, closing. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "tests/unit/failing_calls.h"
#include "tests/unit/queue_stage.h"
#include "tests/unit/reservations.h"

static uint32_t pop_number(struct queue *queue)
{
    struct item *item = (struct item *)pop_any(queue, 0);
    ck_assert_ptr_nonnull(item);
    return item->number;
}

START_TEST(higher_priority_first_then_first_come)
{
    static const uint32_t priorities[] = {4, 0, 9, 4, 9, 5, 0, 4};
    static const uint32_t expected[] = {2, 4, 5, 0, 3, 7, 1, 6};
    struct item items[8];
    struct queue *queue = queue_of_one(8, 80);
    for (uint32_t i = 0; i < 8; i++) {
        item_init(&items[i], i, priorities[i], 0);
        push_item(queue, &items[i]);
    }
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(pop_number(queue), expected[i]);
    ck_assert_ptr_null(pop_any(queue, 0));
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(atomic_load(&items[i].ended), 0);
    queue_free(queue);
}
END_TEST

START_TEST(what_comes_later_can_pass_what_waits)
{
    struct item low, high;
    struct queue *queue = queue_of_one(8, 80);
    item_init(&low, 1, 0, 0);
    item_init(&high, 2, 9, 0);
    push_item(queue, &low);
    push_item(queue, &high);
    ck_assert_uint_eq(pop_number(queue), 2);
    push_item(queue, &high);
    ck_assert_uint_eq(pop_number(queue), 2);
    ck_assert_uint_eq(pop_number(queue), 1);
    queue_free(queue);
}
END_TEST

START_TEST(the_count_is_exact)
{
    struct fault fault;
    struct queue *queue = queue_of_one(3, 1000);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_OK);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(fault.code, GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "3 requests"));
    give_reservation(queue_admission(queue), 0, 1);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_OK);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_ERR_QUEUE_FULL);
    queue_free(queue);
}
END_TEST

START_TEST(the_bytes_are_exact)
{
    struct fault fault;
    struct queue *queue = queue_of_one(100, 1000);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 999, &fault), GEMMD_OK);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 2, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "999 bytes of 1000 bytes"));
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_OK);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 0, &fault), GEMMD_OK);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 1000);
    give_reservation(queue_admission(queue), 0, 999);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 999, &fault), GEMMD_OK);
    queue_free(queue);
}
END_TEST

START_TEST(a_reservation_can_grow)
{
    struct fault fault;
    struct queue *queue = queue_of_one(2, 1000);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 100, &fault), GEMMD_OK);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 300, &fault), GEMMD_OK);
    ck_assert_int_eq(grow_reservation(queue_admission(queue), 0, 100, 601, &fault),
                     GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "300 bytes of 1000 bytes"));
    ck_assert_ptr_nonnull(strstr(fault.detail, "needs 701 bytes"));
    ck_assert_int_eq(grow_reservation(queue_admission(queue), 0, 100, 901, &fault),
                     GEMMD_ERR_TOO_LARGE);
    ck_assert_int_eq(grow_reservation(queue_admission(queue), 0, 100, UINT64_MAX - 100, &fault),
                     GEMMD_ERR_TOO_LARGE);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 400); /* as it was */
    queue_close(queue);                                        /* earlier reservations stay */
    ck_assert_int_eq(grow_reservation(queue_admission(queue), 0, 100, 600, &fault), GEMMD_OK);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 1000);
    ck_assert_uint_eq(queue_state(queue).reserved, 2);
    give_reservation(queue_admission(queue), 0, 700);
    give_reservation(queue_admission(queue), 0, 300);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 0);
    queue_free(queue);
}
END_TEST

START_TEST(what_never_fits_is_not_told_to_come_back)
{
    struct fault fault;
    struct queue *queue = queue_of_one(1, 1000);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1000, &fault), GEMMD_OK);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1000, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1001, &fault), GEMMD_ERR_TOO_LARGE);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, UINT64_MAX, &fault), GEMMD_ERR_TOO_LARGE);
    queue_free(queue);
}
END_TEST

START_TEST(a_reservation_is_held_until_it_is_given_back)
{
    struct item item;
    struct queue *queue = queue_of_one(1, 10);
    item_init(&item, 1, 4, 0);
    push_item(queue, &item);
    struct queue_state state = queue_state(queue);
    ck_assert_uint_eq(state.waiting, 1);
    ck_assert_uint_eq(state.waiting_bytes, 10);
    ck_assert_uint_eq(state.reserved, 1);
    pop_number(queue);
    state = queue_state(queue);
    ck_assert_uint_eq(state.waiting, 0);
    ck_assert_uint_eq(state.waiting_bytes, 0);
    ck_assert_uint_eq(state.reserved, 1);
    ck_assert_uint_eq(state.reserved_bytes, 10);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 0, NULL), GEMMD_ERR_QUEUE_FULL);
    give_reservation(queue_admission(queue), 0, 10);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 10, NULL), GEMMD_OK);
    queue_free(queue);
}
END_TEST

static void check_expired(const struct item *item)
{
    ck_assert_uint_eq(atomic_load(&item->ended), 1);
    ck_assert_int_eq(item->work.status, GEMMD_ERR_DEADLINE);
    ck_assert_int_eq(item->work.fault.code, GEMMD_ERR_DEADLINE);
    ck_assert_uint_ge(item->work.done_ns, item->work.deadline_ns);
}

START_TEST(expired_work_is_not_popped)
{
    struct item items[4];
    uint64_t past = clock_now_ns(), future = past + UINT64_C(3600000000000);
    struct queue *queue = queue_of_one(8, 80);
    item_init(&items[0], 0, 9, past);
    item_init(&items[1], 1, 9, future);
    item_init(&items[2], 2, 4, past);
    item_init(&items[3], 3, 4, 0);
    for (int i = 0; i < 4; i++)
        push_item(queue, &items[i]);
    ck_assert_uint_eq(pop_number(queue), 1);
    check_expired(&items[0]);
    ck_assert_uint_eq(pop_number(queue), 3);
    check_expired(&items[2]);
    ck_assert_uint_eq(queue_state(queue).waiting, 0);
    queue_free(queue);
}
END_TEST

START_TEST(pop_ends_the_expired_even_if_nothing_else_waits)
{
    struct item item;
    struct queue *queue = queue_of_one(8, 80);
    item_init(&item, 0, 4, clock_now_ns());
    push_item(queue, &item);
    ck_assert_ptr_null(pop_any(queue, 0));
    check_expired(&item);
    queue_free(queue);
}
END_TEST

START_TEST(expire_ends_what_is_due_and_nothing_else)
{
    struct item items[6];
    struct queue *queue = queue_of_one(8, 80);
    uint64_t base = clock_now_ns() + UINT64_C(3600000000000);
    for (uint32_t i = 0; i < 5; i++)
        item_init(&items[i], i, i % 3, base + i);
    item_init(&items[5], 5, 1, 0);
    for (int i = 0; i < 6; i++)
        push_item(queue, &items[i]);
    for (uint32_t due = 0; due < 5; due++) {
        queue_expire(queue, base + due);
        for (uint32_t i = 0; i < 6; i++)
            ck_assert_uint_eq(atomic_load(&items[i].ended), i <= due);
        ck_assert_uint_eq(queue_state(queue).waiting, 5 - due);
        ck_assert_int_eq(items[due].work.status, GEMMD_ERR_DEADLINE);
    }
    ck_assert_uint_eq(pop_number(queue), 5);
    queue_free(queue);
}
END_TEST

/* `done` may use the queue: it is called with no lock held. */
struct caller {
    struct item item;
    struct queue *queue;
};

static void release_reservation(struct work *work)
{
    struct caller *caller = (struct caller *)work;
    give_reservation(queue_admission(caller->queue), 0, work->bytes);
    item_done(work);
}

START_TEST(done_may_call_back)
{
    struct queue *queue = queue_of_one(1, 10);
    struct caller caller = {.queue = queue};
    item_init(&caller.item, 0, 4, clock_now_ns());
    caller.item.work.done = release_reservation;
    push_item(queue, &caller.item);
    ck_assert_ptr_null(pop_any(queue, 0));
    ck_assert_uint_eq(queue_state(queue).reserved, 0);
    push_item(queue, &caller.item);
    queue_expire(queue, clock_now_ns());
    ck_assert_uint_eq(queue_state(queue).reserved, 0);
    caller.item.work.deadline_ns = 0;
    push_item(queue, &caller.item);
    queue_fail_all(queue, GEMMD_ERR_DEVICE_LOST, "gone");
    ck_assert_uint_eq(queue_state(queue).reserved, 0);
    ck_assert_uint_eq(atomic_load(&caller.item.ended), 3);
    queue_free(queue);
}
END_TEST

START_TEST(failing_ends_what_waits_and_what_comes)
{
    struct item waiting, late;
    struct fault fault;
    struct queue *queue = queue_of_one(8, 80);
    item_init(&waiting, 0, 4, 0);
    item_init(&late, 1, 4, 0);
    push_item(queue, &waiting);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 10, NULL),
                     GEMMD_OK); /* its body is still arriving */
    queue_fail_all(queue, GEMMD_ERR_DEVICE_LOST, "an illegal address");
    queue_push(queue, &late.work);
    for (int i = 0; i < 2; i++) {
        const struct item *item = i == 0 ? &waiting : &late;
        ck_assert_uint_eq(atomic_load(&item->ended), 1);
        ck_assert_int_eq(item->work.status, GEMMD_ERR_DEVICE_LOST);
        ck_assert_str_eq(item->work.fault.detail, "an illegal address");
    }
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_ERR_DEVICE_LOST);
    ck_assert_str_eq(fault.detail, "an illegal address");
    queue_fail_all(queue, GEMMD_ERR_DRAINING, "later");
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, &fault), GEMMD_ERR_DEVICE_LOST);
    ck_assert_uint_eq(queue_state(queue).waiting, 0);
    queue_free(queue);
}
END_TEST

START_TEST(closing_refuses_new_reservations_and_keeps_earlier_ones)
{
    struct item before, after;
    struct queue *queue = queue_of_one(8, 80);
    item_init(&before, 0, 4, 0);
    item_init(&after, 1, 4, 0);
    push_item(queue, &before);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 10, NULL), GEMMD_OK);
    queue_close(queue);
    ck_assert_int_eq(take_reservation_in_queue(queue, 0, 1, NULL), GEMMD_ERR_DRAINING);
    queue_push(queue, &after.work);
    ck_assert_uint_eq(pop_number(queue), 0);
    ck_assert_uint_eq(pop_number(queue), 1);
    queue_free(queue);
}
END_TEST

static void *pop_one(void *queue)
{
    return pop_any(queue, UINT64_MAX);
}

START_TEST(a_push_ends_a_wait)
{
    struct item item;
    struct queue *queue = queue_of_one(8, 80);
    pthread_t thread;
    void *popped;
    item_init(&item, 0, 4, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, pop_one, queue), 0);
    push_item(queue, &item);
    pthread_join(thread, &popped);
    ck_assert_ptr_eq(popped, &item);
    queue_free(queue);
}
END_TEST

START_TEST(a_wake_ends_a_wait_before_or_after_it_begins)
{
    struct queue *queue = queue_of_one(8, 80);
    pthread_t thread;
    void *popped;
    ck_assert_int_eq(pthread_create(&thread, NULL, pop_one, queue), 0);
    queue_wake(queue);
    pthread_join(thread, &popped);
    ck_assert_ptr_null(popped);
    queue_wake(queue);
    ck_assert_ptr_null(pop_any(queue, UINT64_MAX));
    ck_assert_ptr_null(pop_any(queue, 1000)); /* the wake was used up: this one times out */
    queue_free(queue);
}
END_TEST

static const uint64_t HOUR_NS = UINT64_C(3600000000000);

START_TEST(the_earliest_deadline_first_within_a_tenant)
{
    static const uint64_t hours[] = {0, 30, 10, 0, 20, 10, 3600};
    static const uint32_t expected[] = {2, 5, 4, 1, 6, 0, 3};
    struct item items[7];
    struct queue *queue = queue_of_one(8, 80);
    uint64_t base = clock_now_ns();
    for (uint32_t i = 0; i < 7; i++) {
        item_init(&items[i], i, 4, hours[i] == 0 ? 0 : base + hours[i] * HOUR_NS);
        push_item(queue, &items[i]);
    }
    for (uint32_t i = 0; i < 7; i++)
        ck_assert_uint_eq(pop_number(queue), expected[i]);
    queue_free(queue);
}
END_TEST

START_TEST(a_priority_stands_above_any_deadline)
{
    struct item urgent, important;
    struct queue *queue = queue_of_one(8, 80);
    item_init(&urgent, 1, 3, clock_now_ns() + HOUR_NS);
    item_init(&important, 2, 4, 0);
    push_item(queue, &urgent);
    push_item(queue, &important);
    ck_assert_uint_eq(pop_number(queue), 2);
    ck_assert_uint_eq(pop_number(queue), 1);
    queue_free(queue);
}
END_TEST

START_TEST(a_work_can_be_taken_back_while_it_waits_and_only_then)
{
    struct item items[3];
    struct queue *queue = queue_of_one(8, 80);
    for (uint32_t i = 0; i < 3; i++) {
        item_init(&items[i], i, 4, i == 2 ? clock_now_ns() : 0);
        push_item(queue, &items[i]);
    }
    ck_assert(queue_cancel(queue, &items[0].work));
    ck_assert(!queue_cancel(queue, &items[0].work));
    ck_assert_uint_eq(queue_state(queue).waiting, 2);
    ck_assert_uint_eq(queue_state(queue).waiting_bytes, 20);
    ck_assert_uint_eq(pop_number(queue), 1);
    ck_assert(!queue_cancel(queue, &items[1].work)); /* popped */
    ck_assert(!queue_cancel(queue, &items[2].work)); /* expired */
    ck_assert_uint_eq(atomic_load(&items[2].ended), 1);
    queue_fail_all(queue, GEMMD_ERR_DEVICE_LOST, "gone");
    queue_push(queue, &items[0].work);
    ck_assert(!queue_cancel(queue, &items[0].work)); /* failed */
    ck_assert_uint_eq(atomic_load(&items[0].ended), 1);
    ck_assert_uint_eq(atomic_load(&items[1].ended), 0);
    queue_free(queue);
}
END_TEST

START_TEST(without_memory_there_is_no_queue)
{
    struct admission *admission = admission_create(&(struct admission_limits){.requests = 1});
    ck_assert_ptr_nonnull(admission);
    for (long number = 1;; number++) {
        const long live = calls_live_blocks();
        calls_fail(number);
        struct queue *queue = queue_create(admission, 1);
        if (!calls_end()) {
            ck_assert_ptr_nonnull(queue);
            queue_destroy(queue);
            break;
        }
        ck_assert_ptr_null(queue);
        ck_assert_int_eq(calls_live_blocks(), live);
    }
    admission_destroy(admission);
}
END_TEST

/* A timed wait lasts for the whole time if nothing is pushed. */
START_TEST(a_wait_ends_without_a_work)
{
    const uint64_t wait_ns = 20 * UINT64_C(1000000), began_ns = clock_now_ns();
    struct queue *queue = queue_of_one(8, 80);
    ck_assert_ptr_null(pop_any(queue, wait_ns));
    ck_assert_uint_ge(clock_now_ns() - began_ns, wait_ns);
    queue_free(queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tests = tcase_create("queue");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, higher_priority_first_then_first_come);
    tcase_add_test(tests, what_comes_later_can_pass_what_waits);
    tcase_add_test(tests, the_count_is_exact);
    tcase_add_test(tests, the_bytes_are_exact);
    tcase_add_test(tests, a_reservation_can_grow);
    tcase_add_test(tests, what_never_fits_is_not_told_to_come_back);
    tcase_add_test(tests, a_reservation_is_held_until_it_is_given_back);
    tcase_add_test(tests, expired_work_is_not_popped);
    tcase_add_test(tests, pop_ends_the_expired_even_if_nothing_else_waits);
    tcase_add_test(tests, expire_ends_what_is_due_and_nothing_else);
    tcase_add_test(tests, done_may_call_back);
    tcase_add_test(tests, failing_ends_what_waits_and_what_comes);
    tcase_add_test(tests, closing_refuses_new_reservations_and_keeps_earlier_ones);
    tcase_add_test(tests, a_push_ends_a_wait);
    tcase_add_test(tests, a_wake_ends_a_wait_before_or_after_it_begins);
    tcase_add_test(tests, the_earliest_deadline_first_within_a_tenant);
    tcase_add_test(tests, a_priority_stands_above_any_deadline);
    tcase_add_test(tests, a_work_can_be_taken_back_while_it_waits_and_only_then);
    tcase_add_test(tests, without_memory_there_is_no_queue);
    tcase_add_test(tests, a_wait_ends_without_a_work);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
