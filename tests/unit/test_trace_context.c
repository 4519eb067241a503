/* server/base/trace_context.c: the vectors of the specification's own test suite. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/trace_context.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static const struct {
    const char *value;
    bool valid, sampled;
} values[] = {
    {"00-" TRACE "-" PARENT "-01", true, true},
    {"00-" TRACE "-" PARENT "-00", true, false},
    {"00-" TRACE "-" PARENT "-03", true, true},
    {"00-" TRACE "-" PARENT "-ff", true, true},
    {"01-" TRACE "-" PARENT "-01", true, true},
    {"cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like", true, true},
    {"cc-" TRACE "-" PARENT "-01.what-the-future-will-not-be-like", false, false},
    {"00-" TRACE "-" PARENT "-01-", false, false},
    {"00-" TRACE "-" PARENT "-01-more", false, false},
    {"ff-" TRACE "-" PARENT "-01", false, false},
    {"0-" TRACE "-" PARENT "-01", false, false},
    {"000-" TRACE "-" PARENT "-01", false, false},
    {"0g-" TRACE "-" PARENT "-01", false, false},
    {"00-00000000000000000000000000000000-" PARENT "-01", false, false},
    {"00-" TRACE "-0000000000000000-01", false, false},
    {"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", false, false},
    {"00-" TRACE "-B7AD6B7169203331-01", false, false},
    {"00-" TRACE "0-" PARENT "-01", false, false},
    {"00-0af7651916cd43dd8448eb211c80319-" PARENT "-01", false, false},
    {"00-" TRACE "-" PARENT "-1", false, false},
    {"00-" TRACE "-" PARENT "-0g", false, false},
    {"00-" TRACE "-" PARENT "-", false, false},
    {"00-" TRACE "-" PARENT, false, false},
    {"00_" TRACE "-" PARENT "-01", false, false},
    {"00-" TRACE "_" PARENT "-01", false, false},
    {"00-" TRACE "-" PARENT "_01", false, false},
    {"", false, false},
};

START_TEST(only_valid_values_are_read)
{
    struct trace_context trace = {.trace_id = "unchanged"};
    ck_assert_int_eq(trace_context_read(&trace, values[_i].value), values[_i].valid);
    if (values[_i].valid) {
        ck_assert_str_eq(trace.trace_id, TRACE);
        ck_assert_str_eq(trace.parent_id, PARENT);
        ck_assert_int_eq(trace.sampled, values[_i].sampled);
    } else {
        ck_assert_str_eq(trace.trace_id, "unchanged");
    }
}
END_TEST

START_TEST(new_traces_have_valid_ids_of_their_own)
{
    struct trace_context one = {.sampled = true}, other = {.sampled = true}, read;
    char text[64];
    uint64_t state = 7;
    trace_context_begin(&one, &state);
    trace_context_begin(&other, &state);
    ck_assert_str_ne(one.trace_id, other.trace_id);
    ck_assert_str_eq(one.parent_id, "");
    random_id(one.span_id, &state);
    snprintf(text, sizeof text, "00-%s-%s-01", one.trace_id, one.span_id);
    ck_assert(trace_context_read(&read, text));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_context");
    TCase *tests = tcase_create("trace_context");
    tcase_add_loop_test(tests, only_valid_values_are_read, 0, sizeof values / sizeof values[0]);
    tcase_add_test(tests, new_traces_have_valid_ids_of_their_own);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
