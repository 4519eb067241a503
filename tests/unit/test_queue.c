/* server/work/queue.c: order, exact limits, expiry, failing, closing, threads. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/work/queue.h"

enum { PRODUCERS = 3, EACH = 2000 };

/* What became of a work, as its `done` saw it. */
struct item {
    struct work work; /* first */
    uint32_t number;
    atomic_uint ended;
};

static void item_done(struct work *work)
{
    struct item *item = (struct item *)work;
    atomic_fetch_add(&item->ended, 1);
}

static void item_init(struct item *item, uint32_t number, uint32_t priority, uint64_t deadline_ns)
{
    memset(item, 0, sizeof *item);
    item->number = number;
    item->work.priority = priority;
    item->work.bytes = 10;
    item->work.deadline_ns = deadline_ns;
    item->work.done = item_done;
}

/* Of one tenant, without limits of his own. */
static struct queue *create(uint32_t requests, uint64_t bytes)
{
    const struct places_limits limits = {.requests = requests, .bytes = bytes, .tenants = 1};
    struct queue *queue = queue_create(&limits);
    ck_assert_ptr_nonnull(queue);
    return queue;
}

/* Whatever comes, one at a time. */
static struct work *pop_any(struct queue *queue, uint64_t wait_ns)
{
    struct queue_room room = {.alone = true, .shared = 1};
    return queue_pop(queue, room, wait_ns);
}

static void push(struct queue *queue, struct item *item)
{
    ck_assert_int_eq(queue_reserve(queue, 0, item->work.bytes, NULL), GEMMD_OK);
    queue_push(queue, &item->work);
}

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
    struct queue *queue = create(8, 80);
    for (uint32_t i = 0; i < 8; i++) {
        item_init(&items[i], i, priorities[i], 0);
        push(queue, &items[i]);
    }
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(pop_number(queue), expected[i]);
    ck_assert_ptr_null(pop_any(queue, 0));
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(atomic_load(&items[i].ended), 0);
    queue_destroy(queue);
}
END_TEST

/* The numbers of a chain, as text: "2 4 5". */
static const char *numbers_of(const struct work *works, char text[64])
{
    size_t length = 0;
    text[0] = '\0';
    for (; works != NULL && length < 60; works = works->next)
        length += (size_t)snprintf(text + length, 64 - length, length > 0 ? " %u" : "%u",
                                   ((const struct item *)works)->number);
    return text;
}

/* Items 0 ... count - 1, of which those share that `sharing` has a bit for. */
static void push_mixed(struct queue *queue, struct item *items, uint32_t count, uint32_t sharing)
{
    for (uint32_t i = 0; i < count; i++) {
        item_init(&items[i], i, 4, 0);
        items[i].work.shares = sharing >> i & 1;
        push(queue, &items[i]);
    }
}

START_TEST(those_that_share_come_together)
{
    struct item items[6];
    char text[64];
    struct queue_room room = {.alone = true, .shared = 8, .shared_bytes = 1000};
    struct queue *queue = create(8, 80);
    push_mixed(queue, items, 6, 0x2a); /* 1, 3 and 5 */
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "0");
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "1 3 5");
    ck_assert_uint_eq(queue_state(queue).waiting, 2);
    ck_assert_uint_eq(queue_state(queue).waiting_bytes, 20);
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "2");
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "4");
    ck_assert_ptr_null(queue_pop(queue, room, 0));
    queue_destroy(queue);
}
END_TEST

START_TEST(a_chain_is_bounded_by_count_and_by_bytes)
{
    struct item items[6];
    char text[64];
    struct queue_room few = {.shared = 2, .shared_bytes = 1000};
    struct queue_room light = {.shared = 8, .shared_bytes = 29}, least = {.shared = 8};
    struct queue *queue = create(8, 80);
    push_mixed(queue, items, 6, 0x3f);
    ck_assert_str_eq(numbers_of(queue_pop(queue, few, 0), text), "0 1");
    ck_assert_str_eq(numbers_of(queue_pop(queue, light, 0), text), "2 3");
    ck_assert_str_eq(numbers_of(queue_pop(queue, least, 0), text), "4"); /* one always */
    ck_assert_str_eq(numbers_of(queue_pop(queue, light, 0), text), "5");
    queue_destroy(queue);
}
END_TEST

START_TEST(the_more_urgent_come_first_in_a_chain)
{
    static const uint32_t priorities[] = {4, 9, 0, 9, 4, 1};
    struct item items[6];
    char text[64];
    struct queue_room room = {.alone = true, .shared = 5, .shared_bytes = 1000};
    struct queue *queue = create(8, 80);
    for (uint32_t i = 0; i < 6; i++) {
        item_init(&items[i], i, priorities[i], 0);
        items[i].work.shares = true;
        push(queue, &items[i]);
    }
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "1 3 0 4 5");
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "2");
    queue_destroy(queue);
}
END_TEST

START_TEST(a_lane_without_room_holds_up_only_itself)
{
    struct item items[4];
    char text[64];
    struct queue_room only_shared = {.shared = 8, .shared_bytes = 1000};
    struct queue_room only_alone = {.alone = true}, none = {.alone = false};
    struct queue *queue = create(8, 80);
    push_mixed(queue, items, 4, 0xc); /* 2 and 3 share, and came last */
    ck_assert_ptr_null(queue_pop(queue, none, 0));
    ck_assert_str_eq(numbers_of(queue_pop(queue, only_shared, 0), text), "2 3");
    ck_assert_ptr_null(queue_pop(queue, only_shared, 0));
    ck_assert_ptr_null(queue_pop(queue, only_shared, 1000));
    ck_assert_str_eq(numbers_of(queue_pop(queue, only_alone, 0), text), "0");
    ck_assert_str_eq(numbers_of(queue_pop(queue, only_alone, 0), text), "1");
    queue_destroy(queue);
}
END_TEST

START_TEST(what_expired_is_in_no_chain)
{
    struct item items[5];
    char text[64];
    struct queue_room room = {.alone = true, .shared = 8, .shared_bytes = 1000};
    struct queue *queue = create(8, 80);
    for (uint32_t i = 0; i < 5; i++) {
        item_init(&items[i], i, 4, i % 2 == 0 ? clock_now_ns() : UINT64_MAX);
        items[i].work.shares = true;
        push(queue, &items[i]);
    }
    ck_assert_str_eq(numbers_of(queue_pop(queue, room, 0), text), "1 3");
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(atomic_load(&items[i].ended), i % 2 == 0);
        if (i % 2 == 0)
            ck_assert_int_eq(items[i].work.status, GEMMD_ERR_DEADLINE);
    }
    queue_destroy(queue);
}
END_TEST

START_TEST(what_comes_later_can_pass_what_waits)
{
    struct item low, high;
    struct queue *queue = create(8, 80);
    item_init(&low, 1, 0, 0);
    item_init(&high, 2, 9, 0);
    push(queue, &low);
    push(queue, &high);
    ck_assert_uint_eq(pop_number(queue), 2);
    push(queue, &high);
    ck_assert_uint_eq(pop_number(queue), 2);
    ck_assert_uint_eq(pop_number(queue), 1);
    queue_destroy(queue);
}
END_TEST

START_TEST(the_count_is_exact)
{
    struct fault fault;
    struct queue *queue = create(3, 1000);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(fault.code, GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "3 requests"));
    queue_release(queue, 0, 1);
    ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_ERR_QUEUE_FULL);
    queue_destroy(queue);
}
END_TEST

START_TEST(the_bytes_are_exact)
{
    struct fault fault;
    struct queue *queue = create(100, 1000);
    ck_assert_int_eq(queue_reserve(queue, 0, 999, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve(queue, 0, 2, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "999 of 1000"));
    ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve(queue, 0, 0, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 1000);
    queue_release(queue, 0, 999);
    ck_assert_int_eq(queue_reserve(queue, 0, 999, &fault), GEMMD_OK);
    queue_destroy(queue);
}
END_TEST

START_TEST(a_place_can_grow)
{
    struct fault fault;
    struct queue *queue = create(2, 1000);
    ck_assert_int_eq(queue_reserve(queue, 0, 100, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve(queue, 0, 300, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve_more(queue, 0, 100, 601, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "300 of 1000"));
    ck_assert_ptr_nonnull(strstr(fault.detail, "needs 701"));
    ck_assert_int_eq(queue_reserve_more(queue, 0, 100, 901, &fault), GEMMD_ERR_TOO_LARGE);
    ck_assert_int_eq(queue_reserve_more(queue, 0, 100, UINT64_MAX, &fault), GEMMD_ERR_TOO_LARGE);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 400); /* as it was */
    queue_close(queue);                                        /* what has a place keeps it */
    ck_assert_int_eq(queue_reserve_more(queue, 0, 100, 600, &fault), GEMMD_OK);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 1000);
    ck_assert_uint_eq(queue_state(queue).reserved, 2);
    queue_release(queue, 0, 700);
    queue_release(queue, 0, 300);
    ck_assert_uint_eq(queue_state(queue).reserved_bytes, 0);
    queue_destroy(queue);
}
END_TEST

START_TEST(what_never_fits_is_not_told_to_come_back)
{
    struct fault fault;
    struct queue *queue = create(1, 1000);
    ck_assert_int_eq(queue_reserve(queue, 0, 1000, &fault), GEMMD_OK);
    ck_assert_int_eq(queue_reserve(queue, 0, 1000, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_int_eq(queue_reserve(queue, 0, 1001, &fault), GEMMD_ERR_TOO_LARGE);
    ck_assert_int_eq(queue_reserve(queue, 0, UINT64_MAX, &fault), GEMMD_ERR_TOO_LARGE);
    queue_destroy(queue);
}
END_TEST

START_TEST(a_place_is_held_until_it_is_given_back)
{
    struct item item;
    struct queue *queue = create(1, 10);
    item_init(&item, 1, 4, 0);
    push(queue, &item);
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
    ck_assert_int_eq(queue_reserve(queue, 0, 0, NULL), GEMMD_ERR_QUEUE_FULL);
    queue_release(queue, 0, 10);
    ck_assert_int_eq(queue_reserve(queue, 0, 10, NULL), GEMMD_OK);
    queue_destroy(queue);
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
    struct queue *queue = create(8, 80);
    item_init(&items[0], 0, 9, past);
    item_init(&items[1], 1, 9, future);
    item_init(&items[2], 2, 4, past);
    item_init(&items[3], 3, 4, 0);
    for (int i = 0; i < 4; i++)
        push(queue, &items[i]);
    ck_assert_uint_eq(pop_number(queue), 1);
    check_expired(&items[0]);
    ck_assert_uint_eq(pop_number(queue), 3);
    check_expired(&items[2]);
    ck_assert_uint_eq(queue_state(queue).waiting, 0);
    queue_destroy(queue);
}
END_TEST

START_TEST(pop_ends_the_expired_even_if_nothing_else_waits)
{
    struct item item;
    struct queue *queue = create(8, 80);
    item_init(&item, 0, 4, clock_now_ns());
    push(queue, &item);
    ck_assert_ptr_null(pop_any(queue, 0));
    check_expired(&item);
    queue_destroy(queue);
}
END_TEST

START_TEST(expire_ends_what_is_due_and_nothing_else)
{
    struct item items[6];
    struct queue *queue = create(8, 80);
    uint64_t base = clock_now_ns() + UINT64_C(3600000000000);
    for (uint32_t i = 0; i < 5; i++)
        item_init(&items[i], i, i % 3, base + i);
    item_init(&items[5], 5, 1, 0);
    for (int i = 0; i < 6; i++)
        push(queue, &items[i]);
    for (uint32_t due = 0; due < 5; due++) {
        queue_expire(queue, base + due);
        for (uint32_t i = 0; i < 6; i++)
            ck_assert_uint_eq(atomic_load(&items[i].ended), i <= due);
        ck_assert_uint_eq(queue_state(queue).waiting, 5 - due);
        ck_assert_int_eq(items[due].work.status, GEMMD_ERR_DEADLINE);
    }
    ck_assert_uint_eq(pop_number(queue), 5);
    queue_destroy(queue);
}
END_TEST

/* `done` may use the queue: it is called with no lock held. */
struct caller {
    struct item item;
    struct queue *queue;
};

static void release_place(struct work *work)
{
    struct caller *caller = (struct caller *)work;
    queue_release(caller->queue, 0, work->bytes);
    item_done(work);
}

START_TEST(done_may_call_back)
{
    struct queue *queue = create(1, 10);
    struct caller caller = {.queue = queue};
    item_init(&caller.item, 0, 4, clock_now_ns());
    caller.item.work.done = release_place;
    push(queue, &caller.item);
    ck_assert_ptr_null(pop_any(queue, 0));
    ck_assert_uint_eq(queue_state(queue).reserved, 0);
    push(queue, &caller.item);
    queue_expire(queue, clock_now_ns());
    ck_assert_uint_eq(queue_state(queue).reserved, 0);
    caller.item.work.deadline_ns = 0;
    push(queue, &caller.item);
    queue_fail_all(queue, GEMMD_ERR_DEVICE_LOST, "gone");
    ck_assert_uint_eq(queue_state(queue).reserved, 0);
    ck_assert_uint_eq(atomic_load(&caller.item.ended), 3);
    queue_destroy(queue);
}
END_TEST

START_TEST(failing_ends_what_waits_and_what_comes)
{
    struct item waiting, late;
    struct fault fault;
    struct queue *queue = create(8, 80);
    item_init(&waiting, 0, 4, 0);
    item_init(&late, 1, 4, 0);
    push(queue, &waiting);
    ck_assert_int_eq(queue_reserve(queue, 0, 10, NULL), GEMMD_OK); /* its body is still arriving */
    queue_fail_all(queue, GEMMD_ERR_DEVICE_LOST, "an illegal address");
    queue_push(queue, &late.work);
    for (int i = 0; i < 2; i++) {
        const struct item *item = i == 0 ? &waiting : &late;
        ck_assert_uint_eq(atomic_load(&item->ended), 1);
        ck_assert_int_eq(item->work.status, GEMMD_ERR_DEVICE_LOST);
        ck_assert_str_eq(item->work.fault.detail, "an illegal address");
    }
    ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_ERR_DEVICE_LOST);
    ck_assert_str_eq(fault.detail, "an illegal address");
    queue_fail_all(queue, GEMMD_ERR_DRAINING, "later");
    ck_assert_int_eq(queue_reserve(queue, 0, 1, &fault), GEMMD_ERR_DEVICE_LOST);
    ck_assert_uint_eq(queue_state(queue).waiting, 0);
    queue_destroy(queue);
}
END_TEST

START_TEST(only_what_waits_can_be_taken_back)
{
    struct item items[3];
    char text[64];
    struct queue_room room = {.alone = true, .shared = 8, .shared_bytes = 1000};
    struct queue *queue = create(8, 80);
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
    queue_destroy(queue);
}
END_TEST

START_TEST(closing_refuses_places_and_keeps_promises)
{
    struct item before, after;
    struct queue *queue = create(8, 80);
    item_init(&before, 0, 4, 0);
    item_init(&after, 1, 4, 0);
    push(queue, &before);
    ck_assert_int_eq(queue_reserve(queue, 0, 10, NULL), GEMMD_OK);
    queue_close(queue);
    ck_assert_int_eq(queue_reserve(queue, 0, 1, NULL), GEMMD_ERR_DRAINING);
    queue_push(queue, &after.work);
    ck_assert_uint_eq(pop_number(queue), 0);
    ck_assert_uint_eq(pop_number(queue), 1);
    queue_destroy(queue);
}
END_TEST

static void *pop_one(void *queue)
{
    return pop_any(queue, UINT64_MAX);
}

START_TEST(a_push_ends_a_wait)
{
    struct item item;
    struct queue *queue = create(8, 80);
    pthread_t thread;
    void *popped;
    item_init(&item, 0, 4, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, pop_one, queue), 0);
    push(queue, &item);
    pthread_join(thread, &popped);
    ck_assert_ptr_eq(popped, &item);
    queue_destroy(queue);
}
END_TEST

START_TEST(a_wake_ends_a_wait_before_or_after_it_begins)
{
    struct queue *queue = create(8, 80);
    pthread_t thread;
    void *popped;
    ck_assert_int_eq(pthread_create(&thread, NULL, pop_one, queue), 0);
    queue_wake(queue);
    pthread_join(thread, &popped);
    ck_assert_ptr_null(popped);
    queue_wake(queue);
    ck_assert_ptr_null(pop_any(queue, UINT64_MAX));
    ck_assert_ptr_null(pop_any(queue, 1000)); /* the wake was used up: this one times out */
    queue_destroy(queue);
}
END_TEST

START_TEST(the_earliest_deadline_first_within_a_tenant)
{
    static const uint64_t seconds[] = {0, 30, 10, 0, 20, 10, 3600};
    static const uint32_t expected[] = {2, 5, 4, 1, 6, 0, 3};
    struct item items[7];
    struct queue *queue = create(8, 80);
    uint64_t base = clock_now_ns();
    for (uint32_t i = 0; i < 7; i++) {
        item_init(&items[i], i, 4, seconds[i] == 0 ? 0 : base + seconds[i] * 1000000000);
        push(queue, &items[i]);
    }
    for (uint32_t i = 0; i < 7; i++)
        ck_assert_uint_eq(pop_number(queue), expected[i]);
    queue_destroy(queue);
}
END_TEST

START_TEST(a_priority_stands_above_any_deadline)
{
    struct item urgent, important;
    struct queue *queue = create(8, 80);
    item_init(&urgent, 1, 3, clock_now_ns() + 1000000000);
    item_init(&important, 2, 4, 0);
    push(queue, &urgent);
    push(queue, &important);
    ck_assert_uint_eq(pop_number(queue), 2);
    ck_assert_uint_eq(pop_number(queue), 1);
    queue_destroy(queue);
}
END_TEST

START_TEST(a_work_can_be_taken_back_while_it_waits_and_only_then)
{
    struct item items[3];
    struct queue *queue = create(8, 80);
    for (uint32_t i = 0; i < 3; i++) {
        item_init(&items[i], i, 4, i == 2 ? clock_now_ns() : 0);
        push(queue, &items[i]);
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
    queue_destroy(queue);
}
END_TEST

/* One thread takes back what another pops and a third expires: each work has one end. */
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
    struct race race = {.queue = create(8, 80), .items = items};
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
    queue_destroy(race.queue);
}
END_TEST

/* Producers with places that run out, one consumer, a timer and deadlines that pass now and then:
 * every work ends exactly once, and no place is lost. */
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
        while (queue_reserve(load->queue, 0, item->work.bytes, NULL) != GEMMD_OK)
            sched_yield();
        queue_push(load->queue, &item->work);
        if (i % 100 == 0)
            queue_expire(load->queue, clock_now_ns());
        /* Now and then all of it has ended before more is made. */
        while (i % 16 == 15 && atomic_load(&item->ended) == 0)
            sched_yield();
        queue_release(load->queue, 0, item->work.bytes);
    }
    atomic_fetch_sub(load->producing, 1);
    return NULL;
}

START_TEST(threads_lose_and_double_nothing)
{
    static struct item items[PRODUCERS][EACH];
    struct queue *queue = create(16, 80);
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
    queue_destroy(queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tests = tcase_create("queue");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, higher_priority_first_then_first_come);
    tcase_add_test(tests, those_that_share_come_together);
    tcase_add_test(tests, a_chain_is_bounded_by_count_and_by_bytes);
    tcase_add_test(tests, the_more_urgent_come_first_in_a_chain);
    tcase_add_test(tests, a_lane_without_room_holds_up_only_itself);
    tcase_add_test(tests, what_expired_is_in_no_chain);
    tcase_add_test(tests, what_comes_later_can_pass_what_waits);
    tcase_add_test(tests, the_count_is_exact);
    tcase_add_test(tests, the_bytes_are_exact);
    tcase_add_test(tests, a_place_can_grow);
    tcase_add_test(tests, what_never_fits_is_not_told_to_come_back);
    tcase_add_test(tests, a_place_is_held_until_it_is_given_back);
    tcase_add_test(tests, expired_work_is_not_popped);
    tcase_add_test(tests, pop_ends_the_expired_even_if_nothing_else_waits);
    tcase_add_test(tests, expire_ends_what_is_due_and_nothing_else);
    tcase_add_test(tests, done_may_call_back);
    tcase_add_test(tests, failing_ends_what_waits_and_what_comes);
    tcase_add_loop_test(tests, only_what_waits_can_be_taken_back, 0, 2); /* alone, sharing */
    tcase_add_test(tests, closing_refuses_places_and_keeps_promises);
    tcase_add_test(tests, a_push_ends_a_wait);
    tcase_add_test(tests, a_wake_ends_a_wait_before_or_after_it_begins);
    tcase_add_test(tests, the_earliest_deadline_first_within_a_tenant);
    tcase_add_test(tests, a_priority_stands_above_any_deadline);
    tcase_add_test(tests, a_work_can_be_taken_back_while_it_waits_and_only_then);
    tcase_add_test(tests, taking_back_races_with_popping);
    tcase_add_test(tests, threads_lose_and_double_nothing);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
