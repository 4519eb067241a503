/* server/scheduler/fair_queue.c: the fair shares of tenants, before priorities and deadlines. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/scheduler/fair_queue.h"
#include "server/scheduler/queue.h"
#include "tests/unit/admitted_queue.h"

/* Several tenants that wait all the time. The bytes of work that each was given are counted. */
enum { TENANTS = 3, WAITING = 40, POPS = 3000 };

struct rivals {
    struct queue *queue;
    struct work works[TENANTS][WAITING];
    uint64_t bytes[TENANTS], largest[TENANTS], popped[TENANTS];
};

static void push_of(struct rivals *rivals, uint32_t tenant, struct work *work, uint64_t bytes,
                    uint64_t deadline_ns)
{
    *work = (struct work){.priority = 4, .deadline_ns = deadline_ns};
    work->tenant = tenant;
    work->bytes = bytes;
    if (bytes > rivals->largest[tenant])
        rivals->largest[tenant] = bytes;
    queue_push(rivals->queue, work);
}

static struct rivals *rivals_create(void)
{
    const struct admission_limits limits = {.tenants = TENANTS};
    struct rivals *rivals = calloc(1, sizeof *rivals);
    rivals->queue = queue_with_limits(&limits);
    return rivals;
}

static struct work *pop_any(struct rivals *rivals)
{
    return queue_pop(rivals->queue, (struct queue_room){.exclusive = true, .shared = 1}, 0);
}

static void rivals_destroy(struct rivals *rivals)
{
    while (pop_any(rivals) != NULL)
        ;
    queue_free(rivals->queue);
    free(rivals);
}

static void count_popped(struct rivals *rivals, const struct work *work)
{
    rivals->bytes[work->tenant] += work->bytes;
    rivals->popped[work->tenant]++;
}

/* The bound of start-time fair queueing, and the bytes that every work costs besides its own. */
static void check_fair(const struct rivals *rivals)
{
    for (int one = 0; one < TENANTS; one++)
        for (int other = 0; other < TENANTS; other++) {
            uint64_t most = rivals->bytes[other] + rivals->popped[other] * 4096 +
                            rivals->largest[one] + rivals->largest[other] + 2 * 4096;
            ck_assert_uint_le(rivals->bytes[one] + rivals->popped[one] * 4096, most);
        }
}

START_TEST(tenants_share_by_bytes)
{
    /* Small works, large ones, and a mix in which deadlines are sent to get ahead. */
    static const uint64_t sizes[TENANTS][2] = {
        {50000, 50000}, {30000000, 30000000}, {1000, 900000}};
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < WAITING; i++)
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
            push_of(rivals, tenant, &rivals->works[tenant][i], sizes[tenant][i % 2], 0);
    for (uint32_t i = 0; i < POPS; i++) {
        struct work *work = pop_any(rivals);
        uint32_t tenant = work->tenant;
        count_popped(rivals, work);
        check_fair(rivals);
        push_of(rivals, tenant, work, sizes[tenant][i % 2],
                tenant == 2 ? clock_now_ns() + 3600000000000 : 0);
    }
    for (int tenant = 0; tenant < TENANTS; tenant++)
        ck_assert_uint_gt(rivals->popped[tenant], 0);
    rivals_destroy(rivals);
}
END_TEST

/* A work costs the same wherever its operands are. */
START_TEST(what_is_outside_counts_as_well)
{
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < WAITING; i++)
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
            struct work *work = &rivals->works[tenant][i];
            *work = (struct work){.tenant = tenant, .priority = 4, .bytes = 300000 * tenant};
            work->outside_bytes = 600000 - work->bytes;
            queue_push(rivals->queue, work);
        }
    for (uint32_t i = 0; i < 3 * 10; i++)
        count_popped(rivals, pop_any(rivals));
    for (int tenant = 0; tenant < TENANTS; tenant++)
        ck_assert_uint_eq(rivals->popped[tenant], 10);
    rivals_destroy(rivals);
}
END_TEST

/* A check reads the operands and the result once more. */
START_TEST(checks_count_as_well)
{
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < WAITING; i++)
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
            struct work *work = &rivals->works[tenant][i];
            *work = (struct work){.tenant = tenant, .priority = 4, .bytes = 600000};
            if (tenant > 0) {
                work->verify = tenant == 1 ? WORK_VERIFY_ASKED : WORK_VERIFY_SAMPLED;
                work->bytes = 100000;
                work->outside_bytes = 200000;
            }
            queue_push(rivals->queue, work);
        }
    for (uint32_t i = 0; i < 3 * 10; i++)
        count_popped(rivals, pop_any(rivals));
    for (int tenant = 0; tenant < TENANTS; tenant++)
        ck_assert_uint_eq(rivals->popped[tenant], 10);
    rivals_destroy(rivals);
}
END_TEST

/* 64 operations cost as much as a byte. A work of the first tenant costs as much as ten of the
 * second. */
START_TEST(operations_count_as_well)
{
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < WAITING; i++)
        for (uint32_t tenant = 0; tenant < 2; tenant++) {
            struct work *work = &rivals->works[tenant][i];
            *work = (struct work){.tenant = tenant, .priority = 4, .bytes = 4096};
            work->share_flops = tenant == 0 ? 8192 * 9 * 64 : 0;
            queue_push(rivals->queue, work);
        }
    for (uint32_t i = 0; i < 3 * 11; i++)
        count_popped(rivals, pop_any(rivals));
    ck_assert_uint_eq(rivals->popped[0], 3);
    ck_assert_uint_eq(rivals->popped[1], 30);
    rivals_destroy(rivals);
}
END_TEST

START_TEST(tenants_share_a_launch_list)
{
    struct rivals *rivals = rivals_create();
    struct queue_room room = {.shared = 12, .shared_bytes = UINT64_MAX};
    for (uint32_t i = 0; i < WAITING; i++)
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
            struct work *work = &rivals->works[tenant][i];
            *work =
                (struct work){.tenant = tenant, .priority = 4, .bytes = 10, .shared_launch = true};
        }
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++) /* the last came last with all of it */
        for (uint32_t i = 0; i < WAITING; i++)
            queue_push(rivals->queue, &rivals->works[tenant][i]);
    for (struct work *work = queue_pop(rivals->queue, room, 0); work != NULL; work = work->next)
        rivals->popped[work->tenant]++;
    for (int tenant = 0; tenant < TENANTS; tenant++)
        ck_assert_uint_eq(rivals->popped[tenant], 4);
    rivals_destroy(rivals);
}
END_TEST

START_TEST(who_was_away_has_saved_up_nothing)
{
    struct rivals *rivals = rivals_create();
    struct work *mine = rivals->works[0], *others = rivals->works[1];
    for (uint32_t i = 0; i < WAITING; i++)
        push_of(rivals, 0, &mine[i], 1000000, 0);
    for (uint32_t i = 0; i < WAITING / 2; i++)
        ck_assert_ptr_nonnull(pop_any(rivals));
    for (uint32_t i = 0; i < WAITING; i++)
        push_of(rivals, 1, &others[i], 1000000, 0);
    for (uint32_t i = 0; i < 10; i++) {
        struct work *work = pop_any(rivals);
        count_popped(rivals, work);
    }
    ck_assert_uint_ge(rivals->popped[0], 4);
    ck_assert_uint_le(rivals->popped[0], 6);
    rivals_destroy(rivals);
}
END_TEST

/* One large work at a time, the next not before a small one was run alone, against many small. */
START_TEST(what_one_had_is_remembered_while_others_wait)
{
    struct rivals *rivals = rivals_create();
    struct work *away = NULL;
    uint32_t small = 0, large = 0;
    for (uint32_t i = 0; i < WAITING; i++)
        push_of(rivals, 1, &rivals->works[1][i], 1000000, 0);
    push_of(rivals, 0, &rivals->works[0][0], 20000000, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        struct work *work = pop_any(rivals);
        bool is_large = work->tenant == 0;
        large += is_large;
        small += !is_large;
        ck_assert_uint_le(large, small / 19 + 1);
        if (!is_large)
            push_of(rivals, 1, work, work->bytes, 0);
        if (away != NULL)
            push_of(rivals, 0, away, away->bytes, 0);
        away = is_large ? work : NULL;
    }
    ck_assert_uint_ge(large, small / 21);
    rivals_destroy(rivals);
}
END_TEST

/* Works of one cost, of which tenant 0 sends as many as it can at the highest priority, and tenant
 * 1 one at a time at the lowest. With a launch of its own for each, and with shared launches. */
START_TEST(a_high_priority_takes_nothing_from_other_tenants)
{
    struct rivals *rivals = rivals_create();
    struct work *meek = &rivals->works[1][0];
    for (uint32_t i = 0; i < WAITING; i++) {
        rivals->works[0][i] = (struct work){.priority = 9, .bytes = 1000, .shared_launch = _i == 1};
        queue_push(rivals->queue, &rivals->works[0][i]);
    }
    *meek = (struct work){.tenant = 1, .bytes = 1000, .shared_launch = _i == 1};
    queue_push(rivals->queue, meek);
    for (uint32_t i = 0; i < 2000; i++) {
        struct work *work = pop_any(rivals);
        count_popped(rivals, work);
        queue_push(rivals->queue, work);
        ck_assert_uint_le(rivals->popped[0], rivals->popped[1] + 1);
        ck_assert_uint_le(rivals->popped[1], rivals->popped[0] + 1);
    }
    rivals_destroy(rivals);
}
END_TEST

/* Two tenants whose works of several priorities came in any order: turns alternate, and each tenant
 * gets its own works by priority, then by deadline. */
START_TEST(priorities_and_deadlines_order_within_a_tenant)
{
    static const uint32_t priorities[2][6] = {{4, 0, 9, 4, 9, 7}, {1, 3, 2, 3, 0, 3}};
    static const uint32_t expected[2][6] = {{4, 2, 5, 0, 3, 1}, {5, 1, 3, 2, 0, 4}};
    const uint64_t hour_ns = 3600000000000;
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t tenant = 0; tenant < 2; tenant++) {
            struct work *work = &rivals->works[tenant][i];
            *work =
                (struct work){.tenant = tenant, .bytes = 1000, .priority = priorities[tenant][i]};
            work->deadline_ns = i >= 4 ? clock_now_ns() + hour_ns : 0;
            queue_push(rivals->queue, work);
        }
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t tenant = 0; tenant < 2; tenant++)
            ck_assert_ptr_eq(pop_any(rivals), &rivals->works[tenant][expected[tenant][i]]);
    rivals_destroy(rivals);
}
END_TEST

static void ignore(struct work *work)
{
    (void)work;
}

/* The next work of each tenant counts, so that a tenant's long work holds up its own short ones. */
START_TEST(short_works_of_all_tenants_are_found)
{
    enum { SHORT = 1000, LONG = 10 << 20 };
    static const uint64_t bytes[TENANTS][3] = {
        {LONG, SHORT, SHORT}, {SHORT, LONG, SHORT}, {SHORT, SHORT, LONG}};
    const struct queue_room room = {.exclusive = 1, .cost_max = 1 << 20};
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
            push_of(rivals, tenant, &rivals->works[tenant][i], bytes[tenant][i], 0);
    rivals->works[0][3] =
        (struct work){.priority = 4, .bytes = SHORT, .deadline_ns = 1, .done = ignore};
    queue_push(rivals->queue, &rivals->works[0][3]); /* whose deadline has passed */
    ck_assert_ptr_eq(queue_pop(rivals->queue, room, 0), &rivals->works[1][0]);
    ck_assert_ptr_eq(queue_pop(rivals->queue, room, 0), &rivals->works[2][0]);
    ck_assert_ptr_eq(queue_pop(rivals->queue, room, 0), &rivals->works[2][1]);
    ck_assert_ptr_null(queue_pop(rivals->queue, room, 0));
    ck_assert_int_eq(rivals->works[0][3].status, GEMMD_ERR_DEADLINE);
    ck_assert_ptr_eq(pop_any(rivals), &rivals->works[0][0]);
    ck_assert_ptr_eq(queue_pop(rivals->queue, room, 0), &rivals->works[0][1]);
    rivals_destroy(rivals);
}
END_TEST

/* A tenant that has sent works of one priority has no second share at another priority. */
START_TEST(more_priorities_are_no_larger_share)
{
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < WAITING; i++)
        for (uint32_t tenant = 0; tenant < 2; tenant++) {
            struct work *work = &rivals->works[tenant][i];
            *work = (struct work){
                .tenant = tenant, .bytes = 1000, .priority = tenant == 0 ? i % PRIORITIES : 4};
            queue_push(rivals->queue, work);
        }
    for (uint32_t i = 0; i < WAITING; i++)
        count_popped(rivals, pop_any(rivals));
    ck_assert_uint_eq(rivals->popped[0], WAITING / 2);
    ck_assert_uint_eq(rivals->popped[1], WAITING / 2);
    rivals_destroy(rivals);
}
END_TEST

/* Tenant 0 floods both lanes, tenant 1 one of them: neither lane gives tenant 0 more than half. */
START_TEST(each_lane_is_shared_fairly)
{
    const bool shares = _i == 1;
    const struct queue_room room = {.exclusive = !shares, .shared = shares, .shared_bytes = 1};
    struct rivals *rivals = rivals_create();
    for (uint32_t i = 0; i < WAITING; i++)
        for (uint32_t tenant = 0; tenant < 2; tenant++) {
            struct work *work = &rivals->works[tenant][i];
            *work = (struct work){.tenant = tenant,
                                  .bytes = 1000,
                                  .priority = tenant == 0 ? 9 : 0,
                                  .shared_launch = tenant == 0 ? i % 2 : shares};
            queue_push(rivals->queue, work);
        }
    for (uint32_t i = 0; i < WAITING / 2; i++)
        count_popped(rivals, queue_pop(rivals->queue, room, 0));
    ck_assert_uint_eq(rivals->popped[0], WAITING / 4);
    ck_assert_uint_eq(rivals->popped[1], WAITING / 4);
    rivals_destroy(rivals);
}
END_TEST

/* A work of another tenant that came earlier in the other lane is not passed by a priority. */
START_TEST(a_priority_passes_no_other_tenant_in_the_other_lane)
{
    struct rivals *rivals = rivals_create();
    struct work *first = &rivals->works[0][0], *second = &rivals->works[1][0];
    *first = (struct work){.bytes = 1000, .priority = 0};
    *second = (struct work){.tenant = _i == 0, .bytes = 1000, .priority = 9, .shared_launch = true};
    queue_push(rivals->queue, first);
    queue_push(rivals->queue, second);
    ck_assert_ptr_eq(pop_any(rivals), _i == 0 ? first : second);
    rivals_destroy(rivals);
}
END_TEST

START_TEST(what_is_taken_back_costs_its_tenant_nothing)
{
    struct rivals *rivals = rivals_create();
    struct work *mine = rivals->works[0], *others = rivals->works[1];
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 10; i++)
            push_of(rivals, 0, &mine[i], 1000000, 0);
        push_of(rivals, 1, &others[round], 1000000, 0);
        for (uint32_t i = 1; i < 10; i++)
            ck_assert(queue_cancel(rivals->queue, &mine[i]));
        for (int i = 0; i < 2; i++) {
            struct work *work = pop_any(rivals);
            count_popped(rivals, work);
        }
        ck_assert_uint_eq(rivals->popped[0], round + 1);
        ck_assert_uint_eq(rivals->popped[1], round + 1);
    }
    rivals_destroy(rivals);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue_fairness");
    TCase *tests = tcase_create("queue_fairness");
    tcase_add_test(tests, short_works_of_all_tenants_are_found);
    tcase_add_test(tests, tenants_share_by_bytes);
    tcase_add_test(tests, what_is_outside_counts_as_well);
    tcase_add_test(tests, checks_count_as_well);
    tcase_add_test(tests, operations_count_as_well);
    tcase_add_test(tests, tenants_share_a_launch_list);
    tcase_add_test(tests, who_was_away_has_saved_up_nothing);
    tcase_add_test(tests, what_one_had_is_remembered_while_others_wait);
    tcase_add_loop_test(tests, a_high_priority_takes_nothing_from_other_tenants, 0, 2);
    tcase_add_test(tests, priorities_and_deadlines_order_within_a_tenant);
    tcase_add_test(tests, more_priorities_are_no_larger_share);
    tcase_add_loop_test(tests, each_lane_is_shared_fairly, 0, 2);
    tcase_add_loop_test(tests, a_priority_passes_no_other_tenant_in_the_other_lane, 0, 2);
    tcase_add_test(tests, what_is_taken_back_costs_its_tenant_nothing);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
