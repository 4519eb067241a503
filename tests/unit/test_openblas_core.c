/* kernels/cpu/openblas_core.c. That the daemon starts again by it is test_lifecycle.py's. */
#include "kernels/cpu/openblas_core.h"

#include <check.h>
#include <stdlib.h>

START_TEST(only_what_cannot_be_is_corrected)
{
    ck_assert_str_eq(openblas_core_wanted("Prescott", true, true), "SkylakeX");
    ck_assert_str_eq(openblas_core_wanted("Prescott", true, false), "Haswell");
    ck_assert_ptr_null(openblas_core_wanted("Prescott", false, false));
    ck_assert_ptr_null(openblas_core_wanted("Zen", true, false));
    ck_assert_ptr_null(openblas_core_wanted("Haswell", true, true));
    ck_assert_ptr_null(openblas_core_wanted("armv8", false, false));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("openblas_core");
    TCase *tests = tcase_create("openblas_core");
    tcase_add_test(tests, only_what_cannot_be_is_corrected);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
