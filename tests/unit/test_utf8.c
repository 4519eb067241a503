/* proto/utf8.c: the length of the character at the start of a text. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

START_TEST(characters_have_their_length)
{
    static const struct {
        const char *text;
        uint32_t length;
    } cases[] = {
        {"", 0},
        {"a", 1},
        {"\x7F", 1},
        {"\xC2\x80", 2},
        {"\xC3", 0},
        {"\xC1\xBF", 0},
        {"\x80", 0},
        {"\xE2\x82\xAC", 3},
        {"\xE2\x82\x20", 0},
        {"\xE0\x9F\xBF", 0},
        {"\xED\xA0\x80", 0},
        {"\xF0\x9F\x98\x80", 4},
        {"\xF4\x90\x80\x80", 0},
        {"\xFF", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(utf8_length(cases[i].text, strlen(cases[i].text)) == cases[i].length,
                      "case %zu", i);
}
END_TEST

START_TEST(a_text_is_a_row_of_characters)
{
    ck_assert(utf8_is_text(""));
    ck_assert(utf8_is_text("a\xC2\x80\xE2\x82\xAC\xF0\x9F\x98\x80z"));
    ck_assert(!utf8_is_text("a\xFFz"));
    ck_assert(!utf8_is_text("ab\xE2\x82"));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("utf8");
    tcase_add_test(tests, characters_have_their_length);
    tcase_add_test(tests, a_text_is_a_row_of_characters);
    Suite *suite = suite_create("utf8");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
