/* server/device/cpu/cpu_device.c: attentions of a launch list are computed by one launch, with the
 * bytes that each has alone. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "server/device/device.h"

enum { WORKS = 5, D = 16, WIDEST = 6 * 70 * D };

static struct device *device;
static struct work works[WORKS];
static float operands[WIDEST], results[WORKS][WIDEST];

static void setup(void)
{
    const struct device_options options = {.backend = GEMM_BACKEND_CPU,
                                           .cpu_threads = 2,
                                           .cpu_pauses = true,
                                           .memory_bytes = 64 << 20};
    struct fault fault = {0};
    ck_assert_msg(device_open(&options, &device, &fault) == GEMMD_OK, "%s", fault.detail);
    device_enter(device);
    for (int i = 0; i < WIDEST; i++)
        operands[i] = (float)(i * 37 % 101) / 50 - 1;
}

static void teardown(void)
{
    device_close(device);
}

/* Work i as part of a launch list; `kernel` is a name, or "auto". */
static void make(const char *kernel)
{
    const struct gemm_device about = device_gemm(device);
    for (uint64_t i = 0; i < WORKS; i++) {
        const uint64_t heads = 1 + i, length = 10 + 15 * i;
        struct work *work = &works[i];
        *work = (struct work){.task.operation = &operation_attention,
                              .next = i + 1 < WORKS ? &works[i + 1] : NULL};
        work->task.problem.attention = (struct attention_problem){.dtype = GEMMD_F32,
                                                                  .batch = 1,
                                                                  .heads = heads,
                                                                  .kv_heads = 1,
                                                                  .sq = length,
                                                                  .skv = length,
                                                                  .d = D,
                                                                  .dv = D,
                                                                  .causal = true,
                                                                  .scale = 0.25f,
                                                                  .q = operands,
                                                                  .k = operands,
                                                                  .v = operands,
                                                                  .o = results[i]};
        struct attention_problem *p = &work->task.problem.attention;
        p->q_strides = p->o_strides = attention_strides(ATTENTION_BHSD, heads, length, D);
        p->k_strides = p->v_strides = attention_strides(ATTENTION_BHSD, 1, length, D);
        ck_assert_int_eq(operation_select(&operation_attention, &about, kernel, p,
                                          &work->task.kernel, &work->fault),
                         GEMMD_OK);
        ck_assert(device_plan(device, work));
    }
}

START_TEST(a_launch_list_is_one_group)
{
    static float together[WORKS][WIDEST];
    make("auto");
    for (int i = 0; i < WORKS; i++) {
        ck_assert_uint_ne(works[i].join_key, 0);
        ck_assert_uint_eq(works[i].join_key, works[0].join_key);
        ck_assert(work_can_join(&works[0], &works[i]));
        ck_assert_uint_gt(works[i].join_rows, 0);
        ck_assert_uint_eq(works[i].device_bytes, 0);
        ck_assert(!works[i].shared_launch);
    }
    device_submit(device, works);
    ck_assert_ptr_eq(device_poll(device), works);
    memcpy(together, results, sizeof results);
    const uint64_t kernel_ns = works[0].kernel_ns;
    for (int i = 0; i < WORKS; i++) {
        ck_assert_int_eq(works[i].status, GEMMD_OK);
        ck_assert_uint_eq(works[i].launch_works, WORKS);
        ck_assert_uint_eq(works[i].kernel_ns, kernel_ns);
        memset(results[i], 0xff, sizeof results[i]);
        works[i].next = NULL;
        device_submit(device, &works[i]);
        ck_assert_ptr_eq(device_poll(device), &works[i]);
        ck_assert_uint_eq(works[i].launch_works, 1);
        const struct attention_problem *p = &works[i].task.problem.attention;
        ck_assert_msg(memcmp(together[i], results[i], p->heads * p->sq * D * sizeof(float)) == 0,
                      "work %d has other bytes alone", i);
    }
}
END_TEST

static enum gemmd_error failing_group(struct gemm_context *context,
                                      const struct operation_member members[], uint32_t count)
{
    (void)context;
    (void)members;
    (void)count;
    return GEMMD_ERR_INTERNAL;
}

START_TEST(a_group_that_fails_fails_all_in_it)
{
    make("auto");
    struct operation_kernel failing = *works[0].task.kernel;
    failing.name = "failing";
    failing.run_group = failing_group;
    for (int i = 0; i < WORKS; i++)
        works[i].task.kernel = &failing;
    device_submit(device, works);
    ck_assert_ptr_eq(device_poll(device), works);
    for (int i = 0; i < WORKS; i++) {
        ck_assert_int_eq(works[i].status, GEMMD_ERR_INTERNAL);
        ck_assert_ptr_nonnull(strstr(works[i].fault.detail, "failing"));
    }
}
END_TEST

/* It has a workspace, which is reserved for each. */
START_TEST(the_naive_kernel_takes_one_at_a_time)
{
    make("naive");
    for (int i = 0; i < WORKS; i++) {
        ck_assert_uint_eq(works[i].join_key, 0);
        ck_assert_uint_eq(works[i].join_rows, 0);
        ck_assert_uint_gt(works[i].device_bytes, 0);
    }
}
END_TEST

/* What the pauses of a long launch do. */
static struct {
    uint32_t count;
    uint64_t ran_ns;
} pauses;

static void run_between(void *argument, uint64_t ran_ns)
{
    pauses.count++;
    pauses.ran_ns += ran_ns;
    ck_assert_ptr_eq(argument, works);
    ck_assert_ptr_null(device_poll(device)); /* the launch that pauses has not ended */
    ck_assert_uint_eq(device_in_flight(device), 1);
    if (pauses.count > 1)
        return;
    device_submit_between(device, works);
    ck_assert_uint_eq(device_in_flight(device), 1 + WORKS);
    ck_assert(!device_has_room(device));
    ck_assert_ptr_eq(device_poll(device), works);
    ck_assert_ptr_null(device_poll(device));
}

/* With the bytes that each has alone, and in a time that does not count for the long launch. */
START_TEST(short_launches_run_in_the_pauses_of_a_long_one)
{
    static float alone[WORKS][WIDEST];
    enum { LENGTH = 6000 };
    float *rows = calloc(LENGTH, D * sizeof *rows), *o = calloc(LENGTH, D * sizeof *o);
    ck_assert(rows != NULL && o != NULL);
    make("auto");
    device_submit(device, works);
    ck_assert_ptr_eq(device_poll(device), works);
    memcpy(alone, results, sizeof results);
    memset(results, 0xff, sizeof results);

    struct work long_one = {.task = works[0].task};
    struct attention_problem *p = &long_one.task.problem.attention;
    p->heads = p->kv_heads = 1;
    p->sq = p->skv = LENGTH;
    p->q = p->k = p->v = rows;
    p->o = o;
    p->q_strides = p->o_strides = p->k_strides = p->v_strides =
        attention_strides(ATTENTION_BHSD, 1, LENGTH, D);
    ck_assert(device_plan(device, &long_one));
    device_on_pause(device, run_between, works);
    device_submit(device, &long_one);
    ck_assert_ptr_eq(device_poll(device), &long_one);
    device_on_pause(device, NULL, NULL);
    ck_assert_int_eq(long_one.status, GEMMD_OK);
    ck_assert_uint_gt(pauses.count, 0);
    ck_assert_uint_le(pauses.ran_ns, long_one.kernel_ns);
    ck_assert_uint_lt(works[0].started_ns, long_one.done_ns);
    for (int i = 0; i < WORKS; i++) {
        ck_assert_int_eq(works[i].status, GEMMD_OK);
        ck_assert_uint_eq(works[i].launch_works, WORKS);
        const struct attention_problem *of = &works[i].task.problem.attention;
        ck_assert_mem_eq(results[i], alone[i], of->heads * of->sq * D * sizeof(float));
    }
    free(rows);
    free(o);
}
END_TEST

static void stop_the_copy(void *argument, uint64_t ran_ns)
{
    struct work *copy = argument;
    (void)ran_ns;
    pauses.count++;
    atomic_store(&copy->stop, true);
}

START_TEST(a_long_copy_pauses_and_stops)
{
    enum { BYTES = 128 << 20 };
    char *from = calloc(1, BYTES), *to = calloc(1, BYTES);
    ck_assert(from != NULL && to != NULL);
    memset(from, 0x55, BYTES);
    struct work copy = {.copies[0] = {.from = from,
                                      .to = to,
                                      .rows = 1,
                                      .row_bytes = BYTES,
                                      .from_pitch = BYTES,
                                      .to_pitch = BYTES},
                        .copy_count = 1};
    device_on_pause(device, stop_the_copy, &copy);
    device_submit(device, &copy);
    ck_assert_ptr_eq(device_poll(device), &copy);
    ck_assert_int_eq(copy.status, GEMMD_ERR_CANCELLED);
    ck_assert_uint_eq(pauses.count, 1);
    ck_assert_int_eq(to[0], 0x55);
    ck_assert_int_eq(to[BYTES - 1], 0);

    device_on_pause(device, NULL, NULL);
    atomic_store(&copy.stop, false);
    device_submit(device, &copy);
    ck_assert_ptr_eq(device_poll(device), &copy);
    ck_assert_int_eq(copy.status, GEMMD_OK);
    ck_assert_mem_eq(to, from, BYTES);
    free(from);
    free(to);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu_device");
    TCase *tests = tcase_create("cpu_device");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_launch_list_is_one_group);
    tcase_add_test(tests, short_launches_run_in_the_pauses_of_a_long_one);
    tcase_add_test(tests, a_long_copy_pauses_and_stops);
    tcase_add_test(tests, a_group_that_fails_fails_all_in_it);
    tcase_add_test(tests, the_naive_kernel_takes_one_at_a_time);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
