/* server/scheduler/fair_queue.c: works of one stack are found together, and no others. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/scheduler/fair_queue.h"

enum { FLOWS = 3 };

static struct join_index *stacks;
static char flows[FLOWS]; /* only their addresses count */
static const struct operation_kernel kernel = {.name = "one"}, other_kernel = {.name = "other"};
static struct work works[JOIN_BUCKETS + 1];

static void setup(void)
{
    stacks = join_index_create();
    ck_assert_ptr_nonnull(stacks);
}

static void teardown(void)
{
    join_index_destroy(stacks);
}

static struct flow *flow(uint32_t number)
{
    return (struct flow *)(void *)&flows[number];
}

static struct task task_of(const struct operation_kernel *by, uint64_t n)
{
    return (struct task){.operation = &operation_gemm, .kernel = by, .problem.gemm.n = n};
}

/* `key` is the join_key. Works with different `n` are of different stacks. */
static struct work *add(uint32_t number, uint64_t key, uint64_t n, uint32_t in_flow)
{
    struct work *work = &works[number];
    *work = (struct work){.task = task_of(&kernel, n), .join_key = key, .order = number};
    join_index_add(stacks, work, flow(in_flow));
    return work;
}

static uint32_t count(const struct work *work)
{
    uint32_t found = 0;
    for (struct join_bucket *bucket = join_index_find(stacks, work); bucket != NULL;
         bucket = join_index_find_next(bucket, work))
        found++;
    return found;
}

START_TEST(one_bucket_for_each_stack_and_flow)
{
    const uint64_t key = UINT64_C(7) << 32;
    struct work *first = add(0, key, 5, 0), *second = add(1, key, 5, 0);
    struct work *elsewhere = add(2, key, 5, 1), *other = add(3, key, 6, 0);
    ck_assert_ptr_nonnull(first->bucket);
    ck_assert_ptr_eq(first->bucket, second->bucket);
    ck_assert_ptr_ne(first->bucket, elsewhere->bucket);
    ck_assert_msg(first->bucket != other->bucket, "a key that is the same by chance was trusted");
    ck_assert_uint_eq(count(first), 2);
    ck_assert_uint_eq(count(other), 1);
    other->task.kernel = &other_kernel;
    ck_assert_uint_eq(count(other), 1);
    struct work none = {.task = task_of(&kernel, 5), .join_key = key + 1};
    ck_assert_uint_eq(count(&none), 0);
    ck_assert(!join_bucket_has_one(first->bucket));
    ck_assert(join_bucket_has_one(elsewhere->bucket));
    ck_assert_ptr_eq(join_bucket_first(first->bucket), first);
    join_index_remove(stacks, first);
    ck_assert_ptr_null(first->bucket);
    ck_assert_ptr_eq(join_bucket_first(second->bucket), second);
    ck_assert_uint_eq(count(second), 2);
    join_index_remove(stacks, second);
    ck_assert_uint_eq(count(elsewhere), 1);
}
END_TEST

START_TEST(a_bucket_is_in_edf_order)
{
    static const uint64_t deadlines[] = {0, 9, 3, 0, 3};
    static const uint32_t expected[] = {2, 4, 1, 0, 3};
    for (uint32_t i = 0; i < 5; i++) {
        works[i] = (struct work){.task = task_of(&kernel, 0),
                                 .join_key = 1,
                                 .order = i,
                                 .deadline_ns = deadlines[i] << 20};
        join_index_add(stacks, &works[i], flow(0));
    }
    for (uint32_t i = 0; i < 5; i++) {
        struct work *work = join_bucket_first(works[expected[i]].bucket);
        ck_assert_uint_eq(work->order, expected[i]);
        join_index_remove(stacks, work);
    }
}
END_TEST

START_TEST(when_all_are_taken_a_work_has_none)
{
    for (uint32_t i = 0; i < JOIN_BUCKETS; i++)
        ck_assert_ptr_nonnull(add(i, (uint64_t)i << 30, i, 0)->bucket);
    struct work *late = add(JOIN_BUCKETS, UINT64_C(1) << 60, JOIN_BUCKETS, 0);
    ck_assert_ptr_null(late->bucket);
    for (uint32_t i = 0; i < JOIN_BUCKETS; i++)
        ck_assert_uint_eq(count(&works[i]), 1);
    join_index_remove(stacks, &works[17]);
    join_index_add(stacks, late, flow(0));
    ck_assert_ptr_nonnull(late->bucket);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stacks");
    TCase *tests = tcase_create("stacks");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, one_bucket_for_each_stack_and_flow);
    tcase_add_test(tests, a_bucket_is_in_edf_order);
    tcase_add_test(tests, when_all_are_taken_a_work_has_none);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
