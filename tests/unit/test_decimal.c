/* proto/decimal.c: numbers and durations as text. */
#include <check.h>
#include <stdlib.h>

#include "proto/decimal.h"

START_TEST(whole_numbers)
{
    char text[DECIMAL_MAX + 1];
    *decimal_u64(text, 0) = '\0';
    ck_assert_str_eq(text, "0");
    *decimal_u64(text, 907) = '\0';
    ck_assert_str_eq(text, "907");
    *decimal_u64(text, UINT64_MAX) = '\0';
    ck_assert_str_eq(text, "18446744073709551615");
}
END_TEST

START_TEST(durations_are_rounded_to_microseconds)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "0.000"},           {499, "0.000"},
                 {500, "0.001"},         {12345678, "12.346"},
                 {999999499, "999.999"}, {999999500, "1000.000"},
                 {1000000, "1.000"},     {10203040506, "10203.041"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[DECIMAL_MAX + 1];
        *decimal_milliseconds(text, cases[i].ns) = '\0';
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("decimal");
    tcase_add_test(tests, whole_numbers);
    tcase_add_test(tests, durations_are_rounded_to_microseconds);
    Suite *suite = suite_create("decimal");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
