/* server/scheduler/queue.c: with many threads, no work is lost and no work ends twice. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "tests/unit/queue_stage.h"
#include "tests/unit/reservations.h"

enum { PRODUCERS = 3, EACH = 2000, ROUNDS = 50 };

/* One thread cancels works that another pops and a third expires: each work ends once. */
struct race {
    struct queue *queue;
    struct item *items;
    atomic_bool over;
    uint32_t removed;
};

static void *take_back(void *argument)
{
    struct race *race = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        struct item *item = &race->items[i];
        item_init(item, i, i % 10, i % 3 == 0 ? clock_now_ns() + i % 5 * 1000 : 0);
        queue_push(race->queue, &item->work);
        if (i % 2 == 0)
            continue;
        if (queue_cancel(race->queue, &race->items[i - 1].work)) {
            race->removed++;
            item_done(&race->items[i - 1].work);
        }
    }
    atomic_store(&race->over, true);
    return NULL;
}

START_TEST(taking_back_races_with_popping)
{
    static struct item items[EACH];
    struct race race = {.queue = queue_of_one(8, 80), .items = items};
    pthread_t thread;
    uint32_t popped = 0, expired = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, take_back, &race), 0);
    while (!atomic_load(&race.over) || queue_state(race.queue).waiting > 0) {
        struct item *item = (struct item *)pop_any(race.queue, 0);
        if (item != NULL) {
            item_done(&item->work);
            popped++;
        }
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < EACH; i++) {
        ck_assert_uint_eq(atomic_load(&items[i].ended), 1);
        expired += items[i].work.status == GEMMD_ERR_DEADLINE;
    }
    ck_assert_uint_eq(popped + race.removed + expired, EACH);
    queue_free(race.queue);
}
END_TEST

/* Producers that run out of reservations, one consumer, a timer, and deadlines that pass now and
 * then: every work ends exactly once, and no reservation is lost. */
struct load {
    struct queue *queue;
    struct item *items;
    uint32_t priority;
    atomic_uint *producing;
};

static void *produce(void *argument)
{
    struct load *load = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        struct item *item = &load->items[i];
        item_init(item, i, load->priority, i % 7 == 0 ? clock_now_ns() + 1000 : 0);
        item->work.done = item_done;
        while (take_reservation_in_queue(load->queue, 0, item->work.bytes, NULL) != GEMMD_OK)
            sched_yield();
        queue_push(load->queue, &item->work);
        if (i % 100 == 0)
            queue_expire(load->queue, clock_now_ns());
        /* Now and then all of it has ended before more is made. */
        while (i % 16 == 15 && atomic_load(&item->ended) == 0)
            sched_yield();
        give_reservation(queue_admission(load->queue), 0, item->work.bytes);
    }
    atomic_fetch_sub(load->producing, 1);
    return NULL;
}

START_TEST(threads_lose_and_double_nothing)
{
    static struct item items[PRODUCERS][EACH];
    struct queue *queue = queue_of_one(16, 80);
    struct load loads[PRODUCERS];
    pthread_t threads[PRODUCERS];
    atomic_uint producing = PRODUCERS;
    uint32_t popped = 0, expired = 0, last[PRODUCERS] = {0};
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        loads[i] = (struct load){queue, items[i], i, &producing};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, &loads[i]), 0);
    }
    while (atomic_load(&producing) > 0 || queue_state(queue).waiting > 0) {
        struct item *item = (struct item *)pop_any(queue, 100000);
        if (item == NULL)
            continue;
        popped++;
        if (item->work.deadline_ns == 0) { /* those with one pass the others */
            ck_assert_uint_ge(item->number, last[item->work.priority]);
            last[item->work.priority] = item->number;
        }
        item_done(&item->work);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        for (int j = 0; j < EACH; j++) {
            ck_assert_uint_eq(atomic_load(&items[i][j].ended), 1);
            expired += items[i][j].work.status == GEMMD_ERR_DEADLINE;
        }
    }
    ck_assert_uint_eq(popped + expired, (uint64_t)PRODUCERS * EACH);
    struct queue_state state = queue_state(queue);
    ck_assert_uint_eq(state.reserved, 0);
    ck_assert_uint_eq(state.reserved_bytes, 0);
    ck_assert_uint_eq(state.waiting_bytes, 0);
    queue_free(queue);
}
END_TEST

/* A work is pushed when the one before it has ended: the thread that sleeps must be woken each
 * time. */
static void *push_one_by_one(void *argument)
{
    struct race *race = argument;
    for (uint32_t i = 0; i < ROUNDS * EACH; i++) {
        struct item *item = &race->items[i % EACH];
        item_init(item, i, 0, 0);
        for (volatile uint32_t pause = i % 256; pause > 0; pause = pause - 1)
            ; /* into every moment of falling asleep */
        queue_push(race->queue, &item->work);
        /* A thread that spins on would keep the other from the only CPU. */
        for (uint32_t spins = 0; atomic_load(&item->ended) == 0; spins++)
            if (spins > 1000)
                sched_yield();
    }
    return NULL;
}

START_TEST(nobody_sleeps_through_a_push)
{
    static struct item items[EACH];
    struct race race = {.queue = queue_of_one(8, 80), .items = items};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, push_one_by_one, &race), 0);
    for (uint32_t i = 0; i < ROUNDS * EACH; i++) {
        struct work *work = pop_any(race.queue, UINT64_MAX);
        ck_assert_ptr_eq(work, &items[i % EACH].work);
        item_done(work);
    }
    pthread_join(thread, NULL);
    queue_free(race.queue);
}
END_TEST

static void *push_all(void *argument)
{
    struct race *race = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        item_init(&race->items[i], i, 0, 0);
        race->items[i].work.done = item_done;
        queue_push(race->queue, &race->items[i].work);
        while (i == EACH / 2 && !atomic_load(&race->over))
            sched_yield();
    }
    return NULL;
}

/* Works that were pushed before queue_fail_all and works that are pushed after it all end. */
START_TEST(failing_races_with_pushing)
{
    static struct item items[PRODUCERS][EACH];
    struct queue *queue = queue_of_one(8, 80);
    struct race races[PRODUCERS];
    pthread_t threads[PRODUCERS];
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        races[i] = (struct race){.queue = queue, .items = items[i]};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, push_all, &races[i]), 0);
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        atomic_store(&races[i].over, true);
    queue_fail_all(queue, GEMMD_ERR_DEVICE_LOST, "it is gone");
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        for (uint32_t j = 0; j < EACH; j++) {
            ck_assert_uint_eq(atomic_load(&items[i][j].ended), 1);
            ck_assert_int_eq(items[i][j].work.status, GEMMD_ERR_DEVICE_LOST);
        }
    }
    ck_assert_uint_eq(queue_state(queue).waiting, 0);
    ck_assert_ptr_null(pop_any(queue, 0));
    queue_free(queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue threads");
    TCase *tests = tcase_create("queue");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, taking_back_races_with_popping);
    tcase_add_test(tests, threads_lose_and_double_nothing);
    tcase_add_test(tests, nobody_sleeps_through_a_push);
    tcase_add_test(tests, failing_races_with_pushing);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
