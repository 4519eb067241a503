/* client/query.c: the parameters of a request, as they are written in its path. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/query.h"
#include "proto/gemm_request.h"

START_TEST(parameters_follow_the_path)
{
    char text[128];
    struct gemm_request request;
    struct fault fault;
    struct query query;
    gemm_request_init(&request);
    query_begin(&query, &gemm_parameter_table, text, sizeof text, &request, &fault);
    query_add_u64(&query, "m", 10);
    query_add_f64(&query, "alpha", 0.5);
    query_add_u64_unless(&query, "batch", 1, 1);
    query_add_f64_unless(&query, "beta", -2, 0);
    query_add_if_named(&query, "a", NULL);
    query_add_if_named(&query, "b", "weights");
    ck_assert_int_eq(fault.code, GEMMD_OK);
    ck_assert_str_eq(text, "/gemm?m=10&alpha=0.5&beta=-2&b=weights");
    ck_assert_uint_eq(request.m, 10);
    ck_assert_str_eq(request.b, "weights");
}
END_TEST

/* A "+" in a query is a space, and "&" and "#" would end the value. */
START_TEST(values_are_percent_encoded)
{
    char text[128];
    struct gemm_request request;
    struct fault fault;
    struct query query;
    gemm_request_init(&request);
    query_begin(&query, &gemm_parameter_table, text, sizeof text, &request, &fault);
    query_add_f64(&query, "alpha", 1e17);
    query_add_f64(&query, "beta", -1e-17);
    ck_assert_int_eq(fault.code, GEMMD_OK);
    ck_assert_str_eq(text, "/gemm?alpha=1e%2B17&beta=-1.0000000000000001e-17");
    snprintf(text, sizeof text, "/jobs");
    ck_assert(query_append(text, sizeof text, "after", "a,b &#%\xc3\xbf~.-_"));
    ck_assert_str_eq(text, "/jobs?after=a,b%20%26%23%25%C3%BF~.-_");
    ck_assert(query_append_u64(text, sizeof text, "wait_ms", 7));
    ck_assert_str_eq(text, "/jobs?after=a,b%20%26%23%25%C3%BF~.-_&wait_ms=7");
}
END_TEST

/* "/t?v=%2B" has eight characters. */
START_TEST(encoded_values_that_do_not_fit_leave_the_target)
{
    for (size_t room = 3; room <= 9; room++) {
        char *text = malloc(room);
        ck_assert_ptr_nonnull(text);
        memcpy(text, "/t", 3);
        ck_assert_int_eq(query_append(text, room, "v", "+"), room == 9);
        ck_assert_str_eq(text, room == 9 ? "/t?v=%2B" : "/t");
        free(text);
    }
}
END_TEST

/* "/gemm?m=10" has ten characters. Behind a parameter that does not fit nothing is written. */
START_TEST(parameters_that_do_not_fit_are_refused)
{
    for (size_t room = 6; room <= 11; room++) {
        char *text = malloc(room); /* in which a sanitizer sees any write past its end */
        struct gemm_request request;
        struct fault fault;
        struct query query;
        ck_assert_ptr_nonnull(text);
        gemm_request_init(&request);
        query_begin(&query, &gemm_parameter_table, text, room, &request, &fault);
        query_add_u64(&query, "m", 10);
        if (room == 11) {
            ck_assert_int_eq(fault.code, GEMMD_OK);
            ck_assert_str_eq(text, "/gemm?m=10");
        } else {
            ck_assert_int_eq(fault.code, GEMMD_ERR_MALFORMED);
            ck_assert_str_eq(fault.field, "m");
            query_add_u64(&query, "n", 1);
            ck_assert_str_eq(text, "/gemm");
            ck_assert_uint_eq(request.n, 0);
        }
        free(text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_query");
    TCase *tests = tcase_create("client_query");
    tcase_add_test(tests, parameters_follow_the_path);
    tcase_add_test(tests, values_are_percent_encoded);
    tcase_add_test(tests, encoded_values_that_do_not_fit_leave_the_target);
    tcase_add_test(tests, parameters_that_do_not_fit_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
