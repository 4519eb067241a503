/* client/gemmctl/units.c: times, sizes and rates in words. */
#include <check.h>
#include <stdlib.h>

#include "client/gemmctl/units.h"

static const struct {
    double value;
    const char *text;
} durations[] = {{0, "0us"},
                 {0.0009994, "999us"},
                 {0.0009995, "1.0ms"},
                 {0.5, "500ms"},
                 {0.9995, "1.0s"},
                 {9.94, "9.9s"},
                 {59, "59s"},
                 {60, "1m00s"},
                 {3599, "59m59s"},
                 {3600, "1h00m"},
                 {86399, "23h59m"},
                 {86400, "1d00h"},
                 {1e14, "1157407407d09h"},
                 {1e16, "0d00h"}};
static const struct {
    double value;
    const char *text;
} sizes[] = {{0, "0 B"},
             {1023, "1023 B"},
             {1024, "1.0 KiB"},
             {1048524.8, "1.0 MiB"}, /* 1023.95 KiB */
             {1536.0 * 1024 * 1024, "1.5 GiB"},
             {2048.0 * 1024 * 1024 * 1024 * 1024 * 1024, "2048.0 PiB"}};
static const struct {
    double value;
    const char *text;
} rates[] = {{0, "0 FLOP/s"},          {999, "999 FLOP/s"},      {999.5, "1.00 kFLOP/s"},
             {9.99e6, "9.99 MFLOP/s"}, {99.9e9, "99.9 GFLOP/s"}, {989e12, "989 TFLOP/s"},
             {1.5e18, "1500 PFLOP/s"}};

START_TEST(units_fit_the_value)
{
    char text[UNITS_ROOM];
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++)
        ck_assert_str_eq(units_duration(durations[i].value, text), durations[i].text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ck_assert_str_eq(units_bytes(sizes[i].value, text), sizes[i].text);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        ck_assert_str_eq(units_flops(rates[i].value, text), rates[i].text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_units");
    TCase *tests = tcase_create("gemmctl_units");
    tcase_add_test(tests, units_fit_the_value);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
