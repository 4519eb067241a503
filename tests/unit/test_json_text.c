/* JSON written without allocation, held against jansson's opinion of the same text. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_text.h"

/* Writes `text` as a JSON string and reads it back; a new reference. */
static json_t *through(const char *text)
{
    char out[256];
    struct json_text json;
    json_error_t error;
    json_text_start(&json, out, sizeof out);
    json_text_string(&json, text);
    ck_assert_uint_gt(json_text_end(&json), 0);
    json_t *string = json_loads(out, JSON_DECODE_ANY, &error);
    ck_assert_msg(string != NULL, "%s: %s", out, error.text);
    return string;
}

static bool is_control(char c)
{
    return (c > 0 && c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
}

/* Whatever jansson takes as UTF-8 comes back as it was; all else comes back as some UTF-8. */
static void check_text(const char *text)
{
    json_t *expected = json_string(text);
    json_t *got = through(text);
    if (expected != NULL && !is_control(text[0]) && !is_control(text[1]))
        ck_assert_str_eq(json_string_value(got), text);
    else
        ck_assert_ptr_nonnull(strstr(json_string_value(got), "\xEF\xBF\xBD"));
    json_decref(expected);
    json_decref(got);
}

/* Every byte, before the first and last bytes of every class. */
START_TEST(pairs_of_bytes)
{
    static const unsigned char seconds[] = {0x00, 0x01, 0x1F, 0x20, 0x22, 0x41, 0x5C, 0x7E,
                                            0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0,
                                            0xC2, 0xDF, 0xE0, 0xED, 0xF0, 0xF4, 0xF5, 0xFF};
    for (size_t second = 0; second < sizeof seconds; second++)
        check_text((const char[]){(char)_i, (char)seconds[second], '\0'});
}
END_TEST

/* The bounds of every form of sequence, and their neighbours. */
START_TEST(sequences_of_three_and_four)
{
    static const unsigned char seconds[] = {0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                            0xBF, 0xC0, 0xC2, 0xE0, 0xFF, 0x00};
    static const unsigned char others[] = {0x41, 0x80, 0xBF, 0xC0, 0x00};
    for (size_t second = 0; second < sizeof seconds; second++)
        for (size_t third = 0; third < sizeof others; third++)
            for (size_t fourth = 0; fourth < sizeof others; fourth++)
                check_text((const char[]){(char)_i, (char)seconds[second], (char)others[third],
                                          (char)others[fourth], '\0'});
}
END_TEST

START_TEST(a_string_grows_threefold_at_most)
{
    char text[65], out[256];
    for (int byte = 1; byte < 256; byte++) {
        struct json_text json;
        memset(text, byte, sizeof text - 1);
        text[sizeof text - 1] = '\0';
        json_text_start(&json, out, sizeof out);
        json_text_string(&json, text);
        ck_assert_uint_le(json_text_end(&json), 3 * (sizeof text - 1) + 2);
    }
}
END_TEST

START_TEST(overflow_is_remembered)
{
    char out[8];
    struct json_text json;
    json_text_start(&json, out, sizeof out);
    json_text_u64(&json, UINT64_MAX);
    json_text_raw(&json, "1");
    ck_assert_uint_eq(json_text_end(&json), 0);
    ck_assert_str_eq(out, "");

    json_text_start(&json, out, sizeof out);
    json_text_u64(&json, 1234567);
    ck_assert_uint_eq(json_text_end(&json), 7);
    ck_assert_str_eq(out, "1234567");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("json_text");
    tcase_add_loop_test(tests, pairs_of_bytes, 1, 256);
    tcase_add_loop_test(tests, sequences_of_three_and_four, 0xC0, 0x100);
    tcase_add_test(tests, a_string_grows_threefold_at_most);
    tcase_add_test(tests, overflow_is_remembered);
    Suite *suite = suite_create("json_text");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
