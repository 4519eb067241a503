/* proto/base64.c: RFC 4648's own examples, and what is none. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base64.h"

START_TEST(what_the_rfc_says)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"Zg==", "f"},
                                           {"Zm8=", "fo"},
                                           {"Zm9v", "foo"},
                                           {"Zm9vYg==", "foob"},
                                           {"Zm9vYmE=", "fooba"},
                                           {"Zm9vYmFy", "foobar"},
                                           {"+/+/", "\xfb\xff\xbf"},
                                           {"Zm9v\nYg==\n", "foob"},
                                           {"Zm9vYg\r\n==", "foob"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char out[8] = "";
        const char *text = pairs[i][0], *bytes = pairs[i][1];
        ck_assert_msg(base64_read(text, strlen(text), out, strlen(bytes)), "%s", text);
        ck_assert_str_eq(out, bytes);
    }
}
END_TEST

START_TEST(what_it_does_not)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } wrong[] = {{"", 1},     {"Zg==", 2},    {"Zg==", 0}, {"Zg=", 1},   {"Zg", 1},
                 {"Zm9v", 2}, {"Zm9v", 4},    {"Zh==", 1}, {"Zm9=", 2},  {"Z===", 1},
                 {"Zg=a", 1}, {"Zm9-", 3},    {"Z 9v", 3}, {"Zm9v ", 3}, {"\nZm9\n", 3},
                 {"====", 1}, {"Zm9vZg==", 3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char out[8];
        ck_assert_msg(!base64_read(wrong[i].text, strlen(wrong[i].text), out, wrong[i].bytes),
                      "'%s' is taken for %d bytes", wrong[i].text, (int)wrong[i].bytes);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base64");
    TCase *tests = tcase_create("base64");
    tcase_add_test(tests, what_the_rfc_says);
    tcase_add_test(tests, what_it_does_not);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
