#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/device/device.h"
#include "server/device/device_open.h"

static struct device_choice choice;
static struct fault fault;

static enum gemmd_error choose_of_cpu(const char *text)
{
    return device_choice_read(GEMM_BACKEND_CPU, text, &choice, &fault);
}

START_TEST(cpu_makes_as_many_devices_as_asked_for)
{
    static const struct {
        const char *text;
        uint32_t count;
    } cases[] = {{"all", 1}, {"0", 1}, {"1", 1}, {"2", 2}, {"16", 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(choose_of_cpu(cases[i].text), GEMMD_OK);
        ck_assert_uint_eq(choice.count, cases[i].count);
        for (uint32_t j = 0; j < choice.count; j++)
            ck_assert_int_eq(choice.index[j], (int32_t)j);
    }
}
END_TEST

START_TEST(other_texts_are_refused)
{
    static const char *const texts[] = {"", "17", "-1", "1,2", "ALL", "2 ", "GPU-5f1e0cb2", "1e1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_int_eq(choose_of_cpu(texts[i]), GEMMD_ERR_USAGE);
        ck_assert_str_eq(fault.field, "devices");
    }
}
END_TEST

/* What is malformed is refused before it matters whether the host has such a device. */
START_TEST(lists_of_gpus_that_no_host_has)
{
    uint32_t count = 0;
    if (device_count(GEMM_BACKEND_CUDA, &count, &fault) != GEMMD_OK)
        return;
    static const char *const texts[] = {"1023", "0,1023", "GPU-00000000", "MIG-00000000", "GPU-"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_int_eq(device_choice_read(GEMM_BACKEND_CUDA, texts[i], &choice, &fault),
                         GEMMD_ERR_DEVICE_LOST);
        ck_assert_str_eq(fault.field, "devices");
    }
    static const char *const malformed[] = {"one", "-1", ",0", "one,0"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        ck_assert_int_eq(device_choice_read(GEMM_BACKEND_CUDA, malformed[i], &choice, &fault),
                         GEMMD_ERR_USAGE);
    ck_assert_int_eq(device_choice_read(GEMM_BACKEND_CUDA, "all", &choice, &fault), GEMMD_OK);
    ck_assert_uint_eq(choice.count, count);
    if (count > 0)
        ck_assert_int_eq(device_choice_read(GEMM_BACKEND_CUDA, "0,0", &choice, &fault),
                         GEMMD_ERR_USAGE);
}
END_TEST

START_TEST(instances_of_a_divided_gpu_are_shown_to_cuda)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    device_choice_show("0,1");
    ck_assert_ptr_null(getenv("CUDA_VISIBLE_DEVICES"));
    device_choice_show("MIG-1,MIG-2");
    ck_assert_str_eq(getenv("CUDA_VISIBLE_DEVICES"), "MIG-1,MIG-2");
    device_choice_show("MIG-3"); /* what the operator has set stays */
    ck_assert_str_eq(getenv("CUDA_VISIBLE_DEVICES"), "MIG-1,MIG-2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_open");
    TCase *tests = tcase_create("device_open");
    tcase_add_test(tests, cpu_makes_as_many_devices_as_asked_for);
    tcase_add_test(tests, other_texts_are_refused);
    tcase_add_test(tests, lists_of_gpus_that_no_host_has);
    tcase_add_test(tests, instances_of_a_divided_gpu_are_shown_to_cuda);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
