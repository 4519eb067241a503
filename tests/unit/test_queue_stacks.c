/* server/scheduler/queue.c: works of one stack are popped together, in the queue's order. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/scheduler/fair_queue.h"
#include "server/scheduler/queue.h"
#include "tests/unit/admitted_queue.h"

enum { TENANTS = 3, ITEMS = 64 };

struct item {
    struct work work; /* first */
    uint32_t number, ended;
};

static struct queue *queue;
static struct item items[ITEMS];
static char text[512];
static const struct operation_kernel kernel = {.name = "stacking"};

static const struct queue_room plenty = {.exclusive = 64, .shared = 64, .shared_bytes = 1 << 20};

static void setup(void)
{
    const struct admission_limits limits = {.tenants = TENANTS};
    queue = queue_with_limits(&limits);
    ck_assert_ptr_nonnull(queue);
}

static void teardown(void)
{
    queue_fail_all(queue, GEMMD_ERR_DRAINING, "the test is over");
    queue_free(queue);
}

static void item_done(struct work *work)
{
    ((struct item *)work)->ended++;
}

/* A work of one row that multiplies with B number `stack`; 0: the work cannot be stacked. */
static struct work *make(uint32_t number, uint32_t stack)
{
    struct item *item = &items[number];
    *item = (struct item){.number = number};
    item->work = (struct work){.task = {.operation = &operation_gemm,
                                        .kernel = &kernel,
                                        .problem.gemm = {.m = 1, .n = stack}},
                               .priority = 4,
                               .bytes = 10,
                               .join_key = stack * UINT64_C(0x9e3779b97f4a7c15),
                               .join_rows = 64,
                               .done = item_done};
    return &item->work;
}

static struct work *push(struct work *work)
{
    queue_push(queue, work);
    return work;
}

/* "1" is a work that multiplies with B number 1, and so on. */
static void push_all(const char *stacks)
{
    for (uint32_t i = 0; stacks[i] != '\0'; i++)
        push(make(i, (uint32_t)(stacks[i] - '0')));
}

/* Pops a launch list. Returns the numbers of its works as text, "2 4 5"; "": no work was popped. */
static const char *pop(struct queue_room room)
{
    size_t length = 0;
    text[0] = '\0';
    for (const struct work *work = queue_pop(queue, room, 0); work != NULL; work = work->next)
        length += (size_t)snprintf(text + length, sizeof text - length, length > 0 ? " %u" : "%u",
                                   ((const struct item *)work)->number);
    return text;
}

START_TEST(those_of_one_stack_come_together)
{
    push_all("102120113");
    ck_assert_str_eq(pop(plenty), "0 3 6 7");
    ck_assert_str_eq(pop(plenty), "1");
    ck_assert_str_eq(pop(plenty), "2 4");
    ck_assert_str_eq(pop(plenty), "5");
    ck_assert_str_eq(pop(plenty), "8");
    ck_assert_str_eq(pop(plenty), "");
    ck_assert_uint_eq(queue_state(queue).waiting, 0);
    ck_assert_uint_eq(queue_state(queue).waiting_bytes, 0);
}
END_TEST

START_TEST(the_same_on_streams_for_shared_launches)
{
    for (uint32_t i = 0; i < 9; i++) {
        struct work *work = make(i, (uint32_t)("102120113"[i] - '0'));
        work->shared_launch = true;
        push(work);
    }
    ck_assert_str_eq(pop(plenty), "0 3 6 7");
    ck_assert_str_eq(pop(plenty), "1"); /* a group ends where a stack is next */
    ck_assert_str_eq(pop(plenty), "2 4");
    ck_assert_str_eq(pop(plenty), "5");
    ck_assert_str_eq(pop(plenty), "8");
}
END_TEST

START_TEST(a_stack_is_bounded_by_count)
{
    push_all("1111121");
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 2, .shared_bytes = 1000}), "0 1");
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 3, .shared_bytes = 1000}), "2 3 4");
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 1, .shared_bytes = 1000}), "5");
    ck_assert_str_eq(pop((struct queue_room){.shared = 9, .shared_bytes = 1000}), "");
    ck_assert_str_eq(pop(plenty), "6");
}
END_TEST

START_TEST(a_stack_is_bounded_by_bytes)
{
    push_all("11111");
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 9, .shared_bytes = 29}), "0 1");
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 9, .shared_bytes = 0}),
                     "2"); /* one always */
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 9, .shared_bytes = 20}), "3 4");
}
END_TEST

START_TEST(a_stack_is_bounded_by_rows)
{
    static const uint64_t rows[] = {30, 30, 5, 4, 64, 1};
    for (uint32_t i = 0; i < 6; i++) {
        make(i, 1)->task.problem.gemm.m = rows[i];
        push(&items[i].work);
    }
    ck_assert_str_eq(pop(plenty), "0 1"); /* 3 would fit, but 2 is before it */
    ck_assert_str_eq(pop(plenty), "2 3");
    ck_assert_str_eq(pop(plenty), "4");
    ck_assert_str_eq(pop(plenty), "5");
}
END_TEST

START_TEST(higher_priorities_come_first)
{
    static const uint32_t priorities[] = {4, 9, 0, 9, 5, 4};
    for (uint32_t i = 0; i < 6; i++) {
        make(i, i == 4 ? 2 : 1)->priority = priorities[i];
        push(&items[i].work);
    }
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 4, .shared_bytes = 1000}), "1 3 0 5");
    ck_assert_str_eq(pop(plenty), "4");
    ck_assert_str_eq(pop(plenty), "2");
}
END_TEST

START_TEST(earlier_deadlines_come_first)
{
    const uint64_t now_ns = clock_now_ns(), second_ns = 1000000000;
    static const uint64_t seconds[] = {0, 50, 20, 0, 10};
    for (uint32_t i = 0; i < 5; i++) {
        make(i, 1)->deadline_ns = seconds[i] > 0 ? now_ns + seconds[i] * second_ns : 0;
        push(&items[i].work);
    }
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 3, .shared_bytes = 1000}), "4 2 1");
    ck_assert_str_eq(pop(plenty), "0 3");
}
END_TEST

START_TEST(what_expired_is_in_no_stack)
{
    for (uint32_t i = 0; i < 5; i++) {
        make(i, 1)->deadline_ns = i == 2 || i == 3 ? clock_now_ns() : UINT64_MAX;
        items[i].work.tenant = i % TENANTS; /* not the front of what is taken first */
        push(&items[i].work);
    }
    ck_assert_str_eq(pop(plenty), "0 1 4");
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(items[i].ended, i == 2 || i == 3);
    ck_assert_int_eq(items[2].work.status, GEMMD_ERR_DEADLINE);
    ck_assert_str_eq(pop(plenty), "");
}
END_TEST

START_TEST(what_was_taken_back_is_in_no_stack)
{
    push_all("11112");
    ck_assert(queue_cancel(queue, &items[0].work));
    ck_assert(queue_cancel(queue, &items[2].work));
    ck_assert(queue_cancel(queue, &items[4].work));
    ck_assert_str_eq(pop(plenty), "1 3");
    ck_assert_str_eq(pop(plenty), "");
    ck_assert(!queue_cancel(queue, &items[1].work));
}
END_TEST

/* A tenant that sends many works leaves the other tenants their part of every stack. */
START_TEST(tenants_share_a_stack)
{
    for (uint32_t i = 0; i < 12; i++)
        push(make(i, 1)); /* of tenant 0 */
    for (uint32_t i = 12; i < 15; i++) {
        make(i, 1)->tenant = 1;
        push(&items[i].work);
    }
    make(15, 1)->tenant = 2;
    push(&items[15].work);
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 6, .shared_bytes = 1000}),
                     "0 12 15 1 13 2");
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 3, .shared_bytes = 1000}), "14 3 4");
}
END_TEST

/* The tenant whose turn it is leads the stack, and a high priority leads within its tenant only. */
START_TEST(a_priority_leads_a_stack_within_its_tenant)
{
    static const uint32_t priorities[] = {0, 4, 9, 9, 1, 4};
    for (uint32_t i = 0; i < 6; i++) {
        make(i, 1)->priority = priorities[i];
        items[i].work.tenant = i % 2;
        push(&items[i].work);
    }
    ck_assert_str_eq(pop((struct queue_room){.exclusive = 4, .shared_bytes = 1000}), "2 3 4 1");
    ck_assert_str_eq(pop(plenty), "0 5");
}
END_TEST

/* Tenant 0 sends rows at the highest priority, more than a stack holds. Other tenants, with rows of
 * the same stack and with a work of their own, wait no longer than for the stack that leads. */
START_TEST(a_stack_of_one_tenant_holds_up_nobody)
{
    const struct queue_room room = {.exclusive = 4, .shared_bytes = 1000};
    for (uint32_t i = 0; i < 12; i++)
        push(make(i, 1))->priority = 9;
    make(12, 0)->tenant = 1; /* not of the stack */
    items[12].work.priority = 0;
    push(&items[12].work);
    make(13, 1)->tenant = 2;
    items[13].work.priority = 0;
    push(&items[13].work);
    ck_assert_str_eq(pop(room), "0 13 1 2");
    ck_assert_str_eq(pop(room), "12");
    ck_assert_str_eq(pop(room), "3 4 5 6");
}
END_TEST

/* Works that join a stack are charged: tenant 1's next turn comes later, because a work of tenant 1
 * has joined a stack of tenant 0. */
START_TEST(shared_launch_counts_as_a_turn)
{
    push(make(0, 1));
    push(make(1, 2));
    for (uint32_t i = 2; i < 5; i++) {
        make(i, i == 4 ? 3 : 1)->tenant = 1;
        push(&items[i].work);
    }
    ck_assert_str_eq(pop(plenty), "0 2 3");
    ck_assert_str_eq(pop(plenty), "1");
    ck_assert_str_eq(pop(plenty), "4");
}
END_TEST

/* Twenty times a row's cost, and one tenant's twelve rows in stacks of four: two of the other's
 * works of that cost for each. */
START_TEST(the_b_of_a_stack_is_paid_once)
{
    const struct queue_room room = {.exclusive = 4, .shared_bytes = UINT64_MAX};
    const uint64_t row = 10 + 4096;
    for (uint32_t i = 0; i < 12; i++) {
        make(i, 1)->outside_bytes = 20 * row;
        push(&items[i].work);
    }
    for (uint32_t i = 12; i < 24; i++) {
        make(i, 0)->tenant = 1;
        items[i].work.bytes = 13 * row;
        push(&items[i].work);
    }
    ck_assert_str_eq(pop(room), "0 1 2 3"); /* 24 rows */
    ck_assert_str_eq(pop(room), "12");
    ck_assert_str_eq(pop(room), "13");
    ck_assert_str_eq(pop(room), "4 5 6 7");
    ck_assert_str_eq(pop(room), "14");
    ck_assert_str_eq(pop(room), "15");
}
END_TEST

/* As above, with a check for each row: a stack of four reads B twice, and each row twice. */
START_TEST(the_check_of_a_stack_is_paid_once)
{
    const struct queue_room room = {.exclusive = 4, .shared_bytes = UINT64_MAX};
    const uint64_t row = 10 + 4096;
    for (uint32_t i = 0; i < 12; i++) {
        make(i, 1)->outside_bytes = 20 * row;
        items[i].work.verify = i % 4 < 3 ? WORK_VERIFY_ASKED : WORK_VERIFY_SAMPLED;
        push(&items[i].work);
    }
    for (uint32_t i = 12; i < 24; i++) {
        make(i, 0)->tenant = 1;
        items[i].work.bytes = 21 * row + 40;
        push(&items[i].work);
    }
    ck_assert_str_eq(pop(room), "0 1 2 3"); /* 44 rows and 40 bytes */
    ck_assert_str_eq(pop(room), "12");      /* 22 rows and 30 bytes */
    ck_assert_str_eq(pop(room), "13");
    ck_assert_str_eq(pop(room), "4 5 6 7");
    ck_assert_str_eq(pop(room), "14");
    ck_assert_str_eq(pop(room), "15");
}
END_TEST

START_TEST(one_without_a_bucket_runs_all_the_same)
{
    static struct item others[JOIN_BUCKETS];
    for (uint32_t i = 0; i < JOIN_BUCKETS; i++) {
        others[i].work = *make(0, i + 1);
        push(&others[i].work);
    }
    push(make(1, JOIN_BUCKETS + 1))->priority = 4;
    push(make(2, JOIN_BUCKETS + 1));
    for (uint32_t i = 0; i < JOIN_BUCKETS; i++)
        ck_assert_ptr_eq(queue_pop(queue, plenty, 0), &others[i].work);
    ck_assert_str_eq(pop(plenty), "1");
    ck_assert_str_eq(pop(plenty), "2");
}
END_TEST

START_TEST(those_that_wait_fail_together)
{
    push_all("1120");
    queue_fail_all(queue, GEMMD_ERR_DEVICE_LOST, "lost");
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(items[i].ended, 1);
        ck_assert_int_eq(items[i].work.status, GEMMD_ERR_DEVICE_LOST);
    }
    ck_assert_str_eq(pop(plenty), "");
}
END_TEST

/* Random pushes and limits: each work is popped once, and never with works of another stack. */
START_TEST(at_random_each_comes_once)
{
    enum { ROUNDS = 2000 };
    uint32_t state = 12345, waiting = 0, popped = 0, pushed = 0;
    bool there[ITEMS] = {false};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        state = state * 1664525 + 1013904223;
        const uint32_t number = (state >> 8) % ITEMS;
        if (!there[number]) {
            struct work *work = make(number, state >> 16 & 3);
            work->tenant = (state >> 18) % TENANTS;
            work->priority = state >> 20 & 1 ? 4 : 7;
            work->deadline_ns = state >> 21 & 1 ? UINT64_MAX - (state >> 22) * 5000000 : 0;
            push(work);
            there[number] = true;
            waiting++;
            pushed++;
        }
        if (state >> 30 != 0)
            continue;
        struct queue_room room = {.exclusive = 1 + (state >> 25) % 7, .shared_bytes = 1000};
        uint32_t count = 0;
        struct work *first = queue_pop(queue, room, 0);
        for (struct work *work = first; work != NULL; work = work->next) {
            struct item *item = (struct item *)work;
            ck_assert(there[item->number]);
            ck_assert_uint_eq(work->join_key, first->join_key);
            ck_assert(work->join_key != 0 || work->next == NULL);
            there[item->number] = false;
            count++;
        }
        ck_assert_uint_le(count, room.exclusive);
        waiting -= count;
        popped += count;
        ck_assert_uint_eq(queue_state(queue).waiting, waiting);
    }
    ck_assert_uint_eq(popped + waiting, pushed);
}
END_TEST

/* Of a million operations for each of `units`, by its lengths. */
static struct work *make_attention(uint32_t number, uint64_t d, uint64_t units)
{
    static const struct operation_kernel attends = {.name = "grouping"};
    struct work *work = make(number, 1);
    work->task.operation = &operation_attention;
    work->task.kernel = &attends;
    work->task.problem.attention = (struct attention_problem){.batch = 1,
                                                              .heads = 1,
                                                              .kv_heads = 1,
                                                              .sq = 500,
                                                              .skv = 1000 * units / (d + 1),
                                                              .d = d,
                                                              .dv = 1};
    work->join_rows = 10;
    return work;
}

/* Products and attentions with the same key are not in one stack. */
START_TEST(attentions_and_products_are_apart)
{
    push(make(0, 1));
    push(make_attention(1, 1, 1));
    push(make_attention(2, 3, 1));
    push(make(3, 1));
    push(make_attention(4, 1, 2));
    push(make_attention(5, 3, 1));
    ck_assert_str_eq(pop(plenty), "0 3");
    ck_assert_str_eq(pop(plenty), "1 4");
    ck_assert_str_eq(pop(plenty), "2 5");
    ck_assert_str_eq(pop(plenty), "");
}
END_TEST

START_TEST(a_group_of_attentions_is_bounded_by_its_work)
{
    static const uint64_t units[] = {4, 5, 2, 1, 10, 1};
    for (uint32_t i = 0; i < 6; i++)
        push(make_attention(i, 1, units[i]));
    ck_assert_str_eq(pop(plenty), "0 1");
    ck_assert_str_eq(pop(plenty), "2 3");
    ck_assert_str_eq(pop(plenty), "4");
    ck_assert_str_eq(pop(plenty), "5");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue_stacks");
    TCase *tests = tcase_create("queue_stacks");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, those_of_one_stack_come_together);
    tcase_add_test(tests, the_same_on_streams_for_shared_launches);
    tcase_add_test(tests, a_stack_is_bounded_by_count);
    tcase_add_test(tests, a_stack_is_bounded_by_bytes);
    tcase_add_test(tests, a_stack_is_bounded_by_rows);
    tcase_add_test(tests, higher_priorities_come_first);
    tcase_add_test(tests, earlier_deadlines_come_first);
    tcase_add_test(tests, what_expired_is_in_no_stack);
    tcase_add_test(tests, what_was_taken_back_is_in_no_stack);
    tcase_add_test(tests, tenants_share_a_stack);
    tcase_add_test(tests, a_priority_leads_a_stack_within_its_tenant);
    tcase_add_test(tests, a_stack_of_one_tenant_holds_up_nobody);
    tcase_add_test(tests, shared_launch_counts_as_a_turn);
    tcase_add_test(tests, the_b_of_a_stack_is_paid_once);
    tcase_add_test(tests, the_check_of_a_stack_is_paid_once);
    tcase_add_test(tests, one_without_a_bucket_runs_all_the_same);
    tcase_add_test(tests, those_that_wait_fail_together);
    tcase_add_test(tests, attentions_and_products_are_apart);
    tcase_add_test(tests, a_group_of_attentions_is_bounded_by_its_work);
    tcase_add_test(tests, at_random_each_comes_once);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
