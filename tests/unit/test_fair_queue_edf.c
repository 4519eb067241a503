/* server/scheduler/fair_queue.c: the order by deadline and by arrival, also against a sorted array
 * of random works. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/scheduler/fair_queue.h"

enum { WORKS = 600, STEP_NS = 1 << 20 };

static struct work works[WORKS];

static void add(struct edf_queue *edf, uint32_t i, uint64_t deadline_ns)
{
    works[i].deadline_ns = deadline_ns;
    works[i].order = i;
    edf_queue_add(edf, &works[i]);
}

static uint32_t take(struct edf_queue *edf)
{
    struct work *work = edf_queue_first(edf);
    ck_assert_ptr_nonnull(work);
    edf_queue_remove(edf, work);
    return (uint32_t)(work - works);
}

START_TEST(the_earliest_deadline_then_none_then_arrival)
{
    static const uint32_t steps[] = {0, 5, 3, 5, 0, 1, 3, 9}; /* 0: none */
    static const uint32_t expected[] = {5, 2, 6, 1, 3, 7, 0, 4};
    struct edf_queue edf = {0};
    for (uint32_t i = 0; i < 8; i++)
        add(&edf, i, (uint64_t)steps[i] * STEP_NS);
    ck_assert_uint_eq(edf_queue_earliest_ns(&edf), STEP_NS);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(take(&edf), expected[i]);
    ck_assert_ptr_null(edf_queue_first(&edf));
    ck_assert_uint_eq(edf_queue_earliest_ns(&edf), UINT64_MAX);
}
END_TEST

START_TEST(less_than_a_millisecond_does_not_count)
{
    struct edf_queue edf = {0};
    for (uint32_t i = 0; i < 8; i++)
        add(&edf, i, 100 * (uint64_t)STEP_NS + 8 - i);
    ck_assert_ptr_null(edf.others);
    ck_assert_uint_le(edf_queue_earliest_ns(&edf), works[7].deadline_ns);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(take(&edf), i);
}
END_TEST

static int by_deadline(const void *one, const void *other)
{
    const struct work *a = *(struct work *const *)one, *b = *(struct work *const *)other;
    uint64_t a_ns = a->deadline_ns == 0 ? UINT64_MAX : a->deadline_ns;
    uint64_t b_ns = b->deadline_ns == 0 ? UINT64_MAX : b->deadline_ns;
    if (a_ns != b_ns)
        return a_ns < b_ns ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

START_TEST(random_ones_agree_with_a_sort)
{
    struct edf_queue edf = {0};
    struct work *sorted[WORKS] = {NULL};
    uint32_t left = 0;
    srandom((unsigned)_i);
    for (uint32_t i = 0; i < WORKS; i++)
        add(&edf, i, (uint64_t)random() % 50 * STEP_NS);
    for (uint32_t i = 0; i < WORKS; i++) { /* a third is taken back */
        if (random() % 3 == 0)
            edf_queue_remove(&edf, &works[i]);
        else
            sorted[left++] = &works[i];
    }
    qsort(sorted, left, sizeof *sorted, by_deadline);
    for (uint32_t i = 0; i < left; i++) {
        ck_assert_ptr_eq(edf_queue_first(&edf), sorted[i]);
        edf_queue_remove(&edf, sorted[i]);
    }
    ck_assert_ptr_null(edf_queue_first(&edf));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("edf");
    TCase *tests = tcase_create("edf");
    tcase_add_test(tests, the_earliest_deadline_then_none_then_arrival);
    tcase_add_test(tests, less_than_a_millisecond_does_not_count);
    tcase_add_loop_test(tests, random_ones_agree_with_a_sort, 1, 21);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
