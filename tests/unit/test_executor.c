/* server/scheduler/executor.c: the choice of the device that computes. */
#include <check.h>
#include <stdlib.h>

#include "server/device/device_ops.h"
#include "server/scheduler/executor.h"

enum { COUNT = 2, MISSING_BYTES = 64 << 20 };
static const double NVLINK_BYTES = 387e9, HOST_BYTES = 55e9;
static struct device devices[COUNT];
static struct executors executors;

static void prepare(void)
{
    executors.count = COUNT;
    for (uint32_t i = 0; i < COUNT; i++) {
        devices[i] = (struct device){.slots = 1};
        executors.list[i].device = &devices[i];
        atomic_init(&executors.list[i].charged_ns, 0);
    }
}

/* When the second executor can begin, by the speed of the link to its device. */
static uint64_t ready_ns(double link_bytes)
{
    devices[1].info.link_bytes = link_bytes;
    return executor_ready_ns(&executors.list[1], MISSING_BYTES);
}

START_TEST(copies_take_what_the_link_takes)
{
    const uint64_t fast = ready_ns(NVLINK_BYTES), slow = ready_ns(HOST_BYTES);
    const uint64_t unknown = ready_ns(0);
    const double more_ns = 1e9 * MISSING_BYTES * (1 / HOST_BYTES - 1 / NVLINK_BYTES);
    ck_assert_double_eq_tol((double)(slow - fast), more_ns, 2);
    ck_assert_uint_lt(fast, unknown);
    ck_assert_uint_lt(unknown, slow);
    ck_assert_uint_eq(executor_ready_ns(&executors.list[1], 0), 0);
    ck_assert_uint_eq(executor_ready_ns(&executors.list[1], UINT64_MAX), UINT64_MAX);
    ck_assert_uint_lt(ready_ns(1e-300), UINT64_MAX / 2); /* no sum of estimates overflows */
}
END_TEST

/* A tensor is on the first device, which is busy for half a millisecond. */
START_TEST(a_tensor_is_copied_if_the_link_is_fast)
{
    const uint64_t missing[COUNT] = {0, MISSING_BYTES};
    executor_charge(&executors.list[0], 500000);
    devices[1].info.link_bytes = NVLINK_BYTES;
    ck_assert_ptr_eq(executor_place(&executors, missing), &executors.list[1]);
    devices[1].info.link_bytes = HOST_BYTES;
    ck_assert_ptr_eq(executor_place(&executors, missing), &executors.list[0]);
    ck_assert_ptr_eq(executor_place(&executors, NULL), &executors.list[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executor");
    TCase *tests = tcase_create("place");
    tcase_add_checked_fixture(tests, prepare, NULL);
    tcase_add_test(tests, copies_take_what_the_link_takes);
    tcase_add_test(tests, a_tensor_is_copied_if_the_link_is_fast);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
