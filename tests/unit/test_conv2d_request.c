/* proto/conv2d_request.c: the names of the parameters, and a result that is stored. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/conv2d_request.h"

/* A sentence that would be too long names fewer parameters, and keeps its end. */
START_TEST(unknown_names_are_answered_with_known_ones)
{
    struct conv2d_request request;
    struct fault fault;
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_set(&request, "x", "1", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "x");
    ck_assert_ptr_nonnull(strstr(fault.detail, "those of /conv2d are batch, channels, "));
    ck_assert_ptr_nonnull(strstr(fault.detail, ", timeout_ms, priority"));
    ck_assert_ptr_null(strstr(fault.detail, "..."));
    ck_assert_int_eq(conv2d_request_set(&request, "precisions", "full", &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "those of /conv2d are batch, channels, "));
    ck_assert_ptr_nonnull(strstr(fault.detail, ", ...; did you mean precision?"));
    ck_assert_uint_lt(strlen(fault.detail), sizeof fault.detail - 1);
    ck_assert_int_eq(
        conv2d_request_set(&request, "a_name_of_forty_characters_that_nobody_has", "1", &fault),
        GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail + strlen(fault.detail) - 5, ", ...");
}
END_TEST

START_TEST(a_result_can_be_stored)
{
    struct conv2d_request request;
    struct fault fault;
    conv2d_request_init(&request);
    ck_assert_str_eq(request.store, "");
    ck_assert_int_eq(conv2d_request_set(&request, "store", "a name", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(conv2d_request_set(&request, "store", "y-1", &fault), GEMMD_OK);
    ck_assert_str_eq(request.store, "y-1");
    ck_assert(conv2d_request_given(&request, "store"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conv2d_request");
    TCase *tests = tcase_create("conv2d_request");
    tcase_add_test(tests, unknown_names_are_answered_with_known_ones);
    tcase_add_test(tests, a_result_can_be_stored);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
