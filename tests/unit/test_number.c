/* Numbers from text: exactly the grammar of number.h, nothing around it; and numbers as text. */
#include <check.h>
#include <stdlib.h>

#include "proto/number.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Not a number by any of the functions. */
static const char *const nonsense[] = {
    "",     " ",   " 1",   "1 ",  "1\n",   "\t1",      "0x10",     "0X1p3", "1_000",
    "1,5",  "nan", "-nan", "inf", "-inf",  "INF",      "infinity", "one",   "--1",
    "1-",   "e5",  "1e",   "1e+", "1e5.",  "1e1e1",    "1.2.3",    ".",     "-",
    "+",    "-.",  ".e1",  "1f",  "1l",    "\xD9\xA1", "1;",       "1/2",   "(1)",
    "1e 5", "0x",  "+-1",  "1..", "NaN(1)"};

START_TEST(nonsense_is_no_number)
{
    uint64_t u64 = 7;
    double f64 = 7;
    bool flag = true;
    ck_assert_msg(!number_u64(nonsense[_i], &u64), "u64 took '%s'", nonsense[_i]);
    ck_assert_msg(!number_f64(nonsense[_i], &f64), "f64 took '%s'", nonsense[_i]);
    ck_assert_msg(!number_flag(nonsense[_i], &flag), "flag took '%s'", nonsense[_i]);
    ck_assert_msg(!number_bytes(nonsense[_i], &u64), "bytes took '%s'", nonsense[_i]);
    ck_assert_uint_eq(u64, 7);
    ck_assert_double_eq(f64, 7);
    ck_assert(flag); /* left alone */
}
END_TEST

START_TEST(whole_numbers)
{
    uint64_t out;
    ck_assert(number_u64("0", &out));
    ck_assert_uint_eq(out, 0);
    ck_assert(number_u64("007", &out));
    ck_assert_uint_eq(out, 7);
    ck_assert(number_u64("18446744073709551615", &out));
    ck_assert_uint_eq(out, UINT64_MAX);
    static const char *const refused[] = {
        "18446744073709551616", "1000000000000000000000000000000", "-1", "+1", "1.0", "1e3", "-0"};
    for (size_t i = 0; i < COUNT(refused); i++)
        ck_assert_msg(!number_u64(refused[i], &out), "took '%s'", refused[i]);
}
END_TEST

START_TEST(decimals)
{
    static const struct {
        const char *text;
        double value;
    } taken[] = {{"0", 0},
                 {"-0", 0},
                 {"+1", 1},
                 {"1.5", 1.5},
                 {"-1.5e-3", -0.0015},
                 {".5", 0.5},
                 {"5.", 5},
                 {"1E5", 1e5},
                 {"1e+05", 1e5},
                 {"1e-9999", 0},
                 {"0e9999", 0},
                 {"0.1", 0.1},
                 {"4.9e-324", 4.9e-324},
                 {"1.7976931348623157e308", 1.7976931348623157e308}};
    double out;
    for (size_t i = 0; i < COUNT(taken); i++)
        ck_assert_msg(number_f64(taken[i].text, &out) && out == taken[i].value, "'%s'",
                      taken[i].text);
    static const char *const refused[] = {"1e999", "-1e999", "1.8e308", "0x1p3"};
    for (size_t i = 0; i < COUNT(refused); i++)
        ck_assert_msg(!number_f64(refused[i], &out), "took '%s'", refused[i]);
}
END_TEST

START_TEST(flags)
{
    bool out = false;
    ck_assert(number_flag("1", &out) && out);
    ck_assert(number_flag("0", &out) && !out);
    static const char *const refused[] = {"2", "00", "01", "true", "yes", "10"};
    for (size_t i = 0; i < COUNT(refused); i++)
        ck_assert_msg(!number_flag(refused[i], &out), "took '%s'", refused[i]);
}
END_TEST

START_TEST(bytes)
{
    static const struct {
        const char *text;
        uint64_t value;
    } taken[] = {{"0", 0},
                 {"1000", 1000},
                 {"4K", 4096},
                 {"4KiB", 4096},
                 {"64M", 64ull << 20},
                 {"2GiB", 2ull << 30},
                 {"1T", 1ull << 40},
                 {"0T", 0},
                 {"16777215T", 16777215ull << 40}};
    uint64_t out;
    for (size_t i = 0; i < COUNT(taken); i++)
        ck_assert_msg(number_bytes(taken[i].text, &out) && out == taken[i].value, "'%s'",
                      taken[i].text);
    static const char *const refused[] = {"16777216T", "K",   "1k",  "1KB", "1Ki", "1KiBs", "1 K",
                                          "1.5G",      "-1K", "+1K", "1P",  "1KK", "1iB"};
    for (size_t i = 0; i < COUNT(refused); i++)
        ck_assert_msg(!number_bytes(refused[i], &out), "took '%s'", refused[i]);
}
END_TEST

START_TEST(written_whole_numbers)
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
    TCase *tests = tcase_create("number");
    tcase_add_loop_test(tests, nonsense_is_no_number, 0, COUNT(nonsense));
    tcase_add_test(tests, whole_numbers);
    tcase_add_test(tests, decimals);
    tcase_add_test(tests, flags);
    tcase_add_test(tests, bytes);
    tcase_add_test(tests, written_whole_numbers);
    tcase_add_test(tests, durations_are_rounded_to_microseconds);
    Suite *suite = suite_create("number");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
