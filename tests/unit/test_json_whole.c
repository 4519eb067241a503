/* server/base/json_whole.c: a document is there with all its parts, or not at all. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "failing_calls.h"
#include "server/base/json_whole.h"

enum { LONG = 5000 }; /* characters, for which the text has to grow */

static json_t *long_document(void)
{
    static char word[LONG + 1];
    memset(word, 'w', LONG);
    json_t *root = json_pack("{s:s, s:i}", "word", word, "number", 7);
    ck_assert_ptr_nonnull(root);
    return root;
}

START_TEST(a_value_without_a_part_is_no_value)
{
    json_t *value = json_integer(7);
    ck_assert_ptr_eq(json_whole(value, true), value);
    ck_assert_ptr_null(json_whole(json_incref(value), false));
    ck_assert_uint_eq(value->refcount, 1);
    json_decref(value);
    ck_assert_ptr_null(json_whole(NULL, true));
    ck_assert_ptr_null(json_whole_text(NULL, 0));
}
END_TEST

START_TEST(a_text_has_the_whole_document)
{
    json_t *root = long_document();
    char *text = json_whole_text(json_incref(root), JSON_COMPACT);
    ck_assert_uint_eq(root->refcount, 1);
    json_t *again = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_int_eq(json_equal(root, again), 1);
    json_decref(again);
    json_decref(root);
    free(text);
}
END_TEST

/* One allocation of the text after the other fails. */
START_TEST(without_memory_there_is_no_text)
{
    for (long number = 1;; number++) {
        json_t *root = long_document();
        const long live = calls_live_blocks();
        calls_fail(number);
        char *text = json_whole_text(json_incref(root), JSON_COMPACT);
        const bool failed = calls_end();
        ck_assert_uint_eq(root->refcount, 1);
        json_decref(root);
        if (!failed) {
            ck_assert_int_gt(number, 2);
            free(text);
            break;
        }
        ck_assert_ptr_null(text);
        ck_assert_int_eq(calls_live_blocks(), live);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_whole");
    TCase *tests = tcase_create("json_whole");
    tcase_add_test(tests, a_value_without_a_part_is_no_value);
    tcase_add_test(tests, a_text_has_the_whole_document);
    tcase_add_test(tests, without_memory_there_is_no_text);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
