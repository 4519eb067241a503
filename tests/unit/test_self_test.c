/* server/device/self_test.c: which kernels a device serves, over the CPU with kernels that fail. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/device/device_ops.h"
#include "server/device/self_test.h"

enum failure { RIGHT, WRONG, REFUSED, LOST };

/* The CPU's kernels, of which one fails, or all. */
struct failing_device {
    struct device base;
    struct gemm_context *context;
    const char *kernel;                /* whose turn it is to fail; NULL: each */
    const struct operation *operation; /* of which operation */
    enum failure failure;
};

static void fail_work(struct failing_device *failing, struct work *work, unsigned char *result)
{
    if (failing->failure == WRONG)
        result[0] ^= 0x40;
    else if (failing->failure == REFUSED)
        work->status = fault_set(&work->fault, GEMMD_ERR_INTERNAL, NULL, "a refusal");
    else if (failing->failure == LOST)
        device_set_lost(&failing->base, "an illegal address");
}

static unsigned char *result_of(const struct task *task)
{
    return operation_pointer(task->operation, &task->problem, task->operation->operands);
}

static void submit(struct device *device, uint32_t slot, struct work *work)
{
    struct failing_device *failing = (struct failing_device *)device;
    (void)slot;
    const struct task *task = &work->task;
    uint64_t bytes = 0;
    ck_assert(task->kernel->workspace_bytes(&task->problem, &bytes));
    void *workspace = bytes > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    work->status = operation_run(task->kernel, failing->context, &task->problem, workspace);
    free(workspace);
    if (task->operation == failing->operation &&
        (failing->kernel == NULL || strcmp(task->kernel->name, failing->kernel) == 0))
        fail_work(failing, work, result_of(task));
}

static bool poll_ended(struct device *device, uint32_t slot, struct work *work)
{
    (void)device;
    (void)slot;
    (void)work;
    return true;
}

static void close_failing(struct device *device)
{
    struct failing_device *failing = (struct failing_device *)device;
    gemm_context_destroy(failing->context);
    free(failing);
}

static bool no_task_bytes(const struct device *device, const struct task *task, uint64_t *out)
{
    (void)device;
    (void)task;
    *out = 0;
    return true;
}

static struct device *open_failing(enum failure failure, const char *kernel,
                                   const struct operation *operation)
{
    static const struct device_ops ops = {
        .submit = submit, .poll = poll_ended, .close = close_failing, .task_bytes = no_task_bytes};
    struct failing_device *failing = calloc(1, sizeof *failing);
    ck_assert_ptr_nonnull(failing);
    device_init(&failing->base, &ops, 1);
    failing->base.info.backend = GEMM_BACKEND_CPU;
    failing->kernel = kernel;
    failing->operation = operation;
    failing->failure = failure;
    ck_assert_int_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 1, &failing->context, NULL),
                     GEMMD_OK);
    return &failing->base;
}

static bool serves(const struct device *device, const char *kernel,
                   const struct operation *operation)
{
    const struct gemm_device about = device_gemm(device);
    const struct operation_kernel *const *k = operation_kernels(operation, GEMM_BACKEND_CPU);
    while (strcmp((*k)->name, kernel) != 0)
        k++;
    return operation_kernel_runs_on(operation, *k, &about);
}

START_TEST(right_kernels_are_all_served)
{
    const struct device_left_out *list;
    struct fault fault;
    struct device *device = open_failing(RIGHT, NULL, NULL);
    ck_assert_int_eq(self_test(device, NULL, &fault), GEMMD_OK);
    ck_assert_uint_eq(device_left_out(device, &list), 0);
    device_close(device);
}
END_TEST

/* For _i: the first kernel of an operation, that is wrong or refuses. */
START_TEST(a_kernel_that_fails_is_left_out)
{
    const struct operation *operation = operation_table[_i / 2];
    const char *kernel = operation_kernels(operation, GEMM_BACKEND_CPU)[0]->name;
    const enum failure failure = _i % 2 ? REFUSED : WRONG;
    const struct device_left_out *list;
    struct fault fault;
    struct device *device = open_failing(failure, kernel, operation);
    ck_assert_msg(self_test(device, NULL, &fault) == GEMMD_OK, "%s", fault.detail);
    ck_assert_uint_eq(device_left_out(device, &list), 1);
    ck_assert_str_eq(list[0].kernel, kernel);
    ck_assert_str_eq(list[0].operation, operation->name);
    ck_assert_msg(strstr(list[0].reason, failure == WRONG ? "wrong element" : "a refusal") != NULL,
                  "%s", list[0].reason);
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        const struct operation_kernel *const *k =
            operation_kernels(operation_table[i], GEMM_BACKEND_CPU);
        for (; *k != NULL; k++)
            ck_assert_uint_eq(serves(device, (*k)->name, operation_table[i]),
                              (operation_table[i] != operation || strcmp((*k)->name, kernel) != 0));
    }
    device_close(device);
}
END_TEST

START_TEST(what_is_left_out_is_not_chosen)
{
    const struct operation_kernel *kernel;
    const struct operation_kernel *attends;
    struct fault fault;
    const struct attention_strides rows = attention_strides(ATTENTION_BHSD, 1, 8, 8);
    const struct gemm_problem product = {
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 8, .n = 8, .k = 8, .batch = 1, .alpha = 1};
    const struct attention_problem attention = {.dtype = GEMMD_F32,
                                                .batch = 1,
                                                .heads = 1,
                                                .kv_heads = 1,
                                                .sq = 8,
                                                .skv = 8,
                                                .d = 8,
                                                .dv = 8,
                                                .q_strides = rows,
                                                .k_strides = rows,
                                                .v_strides = rows,
                                                .o_strides = rows};
    struct device *device = open_failing(RIGHT, NULL, NULL);
    ck_assert_int_eq(self_test(device, "tiled", &fault), GEMMD_OK);
    const struct gemm_device about = device_gemm(device);
    ck_assert_int_eq(
        operation_select(&operation_attention, &about, "auto", &attention, &attends, &fault),
        GEMMD_OK);
    ck_assert_str_eq(attends->name, "naive");
    ck_assert_int_eq(
        operation_select(&operation_attention, &about, "tiled", &attention, &attends, &fault),
        GEMMD_ERR_UNSUPPORTED);
    ck_assert_int_eq(operation_select(&operation_gemm, &about, "tiled", &product, &kernel, &fault),
                     GEMMD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(strstr(strstr(fault.detail, "it has:"), "tiled"));
    device_close(device);
}
END_TEST

/* For _i: of an operation. */
START_TEST(without_any_kernel_nothing_starts)
{
    struct fault fault;
    struct device *device = open_failing(WRONG, NULL, operation_table[_i]);
    ck_assert_int_eq(self_test(device, NULL, &fault), GEMMD_ERR_DEVICE_LOST);
    ck_assert_msg(strstr(fault.detail, "no kernel is left for") != NULL, "%s", fault.detail);
    ck_assert_msg(strstr(fault.detail, "wrong element") != NULL, "%s", fault.detail);
    device_close(device);
}
END_TEST

START_TEST(a_lost_device_says_what_would_do_without)
{
    struct fault fault;
    struct device *device = open_failing(LOST, "tiled", &operation_attention);
    ck_assert_int_eq(self_test(device, NULL, &fault), GEMMD_ERR_DEVICE_LOST);
    ck_assert_msg(strstr(fault.detail, "an illegal address") != NULL, "%s", fault.detail);
    ck_assert_msg(strstr(fault.detail, "--without-kernels tiled") != NULL, "%s", fault.detail);
    device_close(device);
    device = open_failing(LOST, "tiled", &operation_attention);
    ck_assert_int_eq(self_test(device, "tiled", &fault), GEMMD_OK);
    ck_assert(!device_lost(device));
    device_close(device);
}
END_TEST

START_TEST(names_that_are_none_are_refused)
{
    static const char *const wrong[] = {"tile", "tiled2", "tiled,none", "", "tiled,"};
    struct fault fault;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct device *device = open_failing(RIGHT, NULL, NULL);
        const enum gemmd_error code = self_test(device, wrong[i], &fault);
        ck_assert_msg(code == (wrong[i][0] == '\0' ? GEMMD_OK : GEMMD_ERR_UNSUPPORTED), "'%s'",
                      wrong[i]);
        device_close(device);
    }
}
END_TEST

START_TEST(several_kernels_are_left_out)
{
    struct fault fault;
    struct device *device = open_failing(RIGHT, NULL, NULL);
    ck_assert_msg(self_test(device, "openblas,tiled", &fault) == GEMMD_OK, "%s", fault.detail);
    ck_assert(!serves(device, "openblas", &operation_gemm));
    ck_assert(!serves(device, "tiled", &operation_gemm));
    ck_assert(!serves(device, "tiled", &operation_attention));
    ck_assert(serves(device, "naive", &operation_gemm));
    device_close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("self_test");
    TCase *tests = tcase_create("self_test");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, right_kernels_are_all_served);
    tcase_add_loop_test(tests, a_kernel_that_fails_is_left_out, 0, 2 * OPERATION_COUNT);
    tcase_add_test(tests, what_is_left_out_is_not_chosen);
    tcase_add_loop_test(tests, without_any_kernel_nothing_starts, 0, OPERATION_COUNT);
    tcase_add_test(tests, a_lost_device_says_what_would_do_without);
    tcase_add_test(tests, names_that_are_none_are_refused);
    tcase_add_test(tests, several_kernels_are_left_out);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
