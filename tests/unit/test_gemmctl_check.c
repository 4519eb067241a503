/* gemmctl --check: the reference of reductions, and what counts as a wrong element. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/check.h"
#include "client/gemmctl/check_parts.h"
#include "client/gemmctl/progress.h"

/* Checks a reduction of one row of `n` elements at `x` to one element at `y`. */
static struct check reduced(enum reduce_op op, enum gemmd_dtype dtype, enum gemmd_dtype out,
                            uint64_t n, const void *x, const void *y)
{
    struct reduce_request request;
    struct reduce_operands operands;
    struct progress_line line = {.wanted = false};
    struct check check;
    reduce_request_init(&request);
    request.op = op;
    request.dtype = dtype;
    request.out = out;
    request.shape.rank = 1;
    request.shape.dims[0] = n;
    ck_assert(tensor_init(&operands.x, dtype, &n, 1, x));
    ck_assert_int_eq(check_reduce(&request, &operands, y, &line, &check), GEMMD_OK);
    ck_assert_uint_eq(check.rows_checked, 1);
    return check;
}

START_TEST(sums_of_integers_are_exact)
{
    static const signed char bytes[] = {100, 100, -3, 100};
    static const int32_t words[] = {INT32_MAX, INT32_MAX, 4};
    int32_t sum = 297, wrapped = 2;
    double mean = 74.25, exact = 2.0 * INT32_MAX + 4;
    signed char greatest = 100, least = -3;
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_I8, GEMMD_I32, 4, bytes, &sum).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_MEAN, GEMMD_I8, GEMMD_F64, 4, bytes, &mean).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_MAX, GEMMD_I8, GEMMD_I8, 4, bytes, &greatest).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_MIN, GEMMD_I8, GEMMD_I8, 4, bytes, &least).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_I32, GEMMD_I32, 3, words, &wrapped).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_I32, GEMMD_F64, 3, words, &exact).wrong, 0);
    sum++;
    mean += 1e-12;
    wrapped--;
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_I8, GEMMD_I32, 4, bytes, &sum).wrong, 1);
    ck_assert_uint_eq(reduced(REDUCE_MEAN, GEMMD_I8, GEMMD_F64, 4, bytes, &mean).wrong, 1);
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_I32, GEMMD_I32, 3, words, &wrapped).wrong, 1);
}
END_TEST

START_TEST(sums_that_overflow_are_left_out)
{
    static const float large[] = {FLT_MAX, FLT_MAX};
    float y = 0;
    const struct check check = reduced(REDUCE_SUM, GEMMD_F32, GEMMD_F32, 2, large, &y);
    ck_assert_uint_eq(check.skipped, 1);
    ck_assert_uint_eq(check.elements, 0);
    ck_assert_uint_eq(reduced(REDUCE_MAX, GEMMD_F32, GEMMD_F32, 2, large, &large[0]).wrong, 0);
}
END_TEST

START_TEST(a_norm_may_be_nothing_and_an_exponential_too)
{
    static const float none[] = {0, 0, 0}, far[] = {0, -1000};
    float zero = 0, half = 0.5f;
    ck_assert_uint_eq(reduced(REDUCE_NORM2, GEMMD_F32, GEMMD_F32, 3, none, &zero).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_NORM2, GEMMD_F32, GEMMD_F32, 3, none, &half).wrong, 1);
    /* The exponential of -1000 is 0. */
    ck_assert_uint_eq(reduced(REDUCE_LOGSUMEXP, GEMMD_F32, GEMMD_F32, 2, far, &zero).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_LOGSUMEXP, GEMMD_F32, GEMMD_F32, 2, far, &half).wrong, 1);
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_F32, GEMMD_F32, 1, &half, &half).wrong, 0);
}
END_TEST

/* What is a rounding error in f32 is none in f64. */
START_TEST(sums_of_f64_are_checked_to_its_precision)
{
    static const double x[] = {1, 2, 3};
    static const float narrow[] = {1, 2, 3};
    double sum = 6, near = 6 + 1e-14, far = 6 + 1e-12;
    float near_narrow = 6 + 0x1p-21f;
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_F64, GEMMD_F64, 3, x, &sum).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_F64, GEMMD_F64, 3, x, &near).wrong, 0);
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_F64, GEMMD_F64, 3, x, &far).wrong, 1);
    ck_assert_uint_eq(reduced(REDUCE_SUM, GEMMD_F32, GEMMD_F32, 3, narrow, &near_narrow).wrong, 0);
}
END_TEST

/* f is 25 units of 2^-24 for two elements that are 0. The error of an element is compared with
 * f (y + 2^-126) or f (1 + |log y|), and half a unit in the last place of the result. */
START_TEST(a_softmax_is_checked_to_the_error_that_is_promised)
{
    static const float x[] = {0, 0};
    static const uint64_t n = 2;
    const float unit = 0x1p-24f;
    for (int log = 0; log <= 1; log++) {
        const float right = log ? -0x1.62e43p-1f : 0.5f, allowed = log ? 42 * unit : 12 * unit;
        struct softmax_request request;
        struct softmax_operands operands;
        struct progress_line line = {.wanted = false};
        struct check check;
        softmax_request_init(&request);
        request.dtype = request.out = GEMMD_F32;
        request.log = (uint32_t)log;
        request.shape.rank = 1;
        request.shape.dims[0] = n;
        ck_assert(tensor_init(&operands.x, GEMMD_F32, &n, 1, x));
        const float near[] = {right, right - allowed}, far[] = {right, right - allowed - 3 * unit};
        ck_assert_int_eq(check_softmax(&request, &operands, near, &line, &check), GEMMD_OK);
        ck_assert_uint_eq(check.wrong, 0);
        ck_assert_int_eq(check_softmax(&request, &operands, far, &line, &check), GEMMD_OK);
        ck_assert_uint_eq(check.wrong, 1);
        ck_assert_uint_eq(check.at, 1);
    }
}
END_TEST

START_TEST(an_infinity_stands_for_what_is_too_large)
{
    struct check check = {0};
    check_element(&check, 0, INFINITY, FLT_MAX, 1, FLT_MAX);
    check_element(&check, 1, -INFINITY, -FLT_MAX, 1, FLT_MAX);
    ck_assert_uint_eq(check.wrong, 0);
    check_element(&check, 2, -INFINITY, FLT_MAX, 1, FLT_MAX);
    check_element(&check, 3, INFINITY, 1, 1, FLT_MAX);
    check_element(&check, 4, 3, 1, 1, FLT_MAX);
    ck_assert_uint_eq(check.wrong, 3);
    ck_assert_uint_eq(check.elements, 5);
    ck_assert_uint_eq(check.at, 2); /* the first */
    check_element(&check, 5, 1.5, 1, 1, FLT_MAX);
    ck_assert_uint_eq(check.wrong, 3);
    ck_assert_double_eq(check.largest, 0.5);
}
END_TEST

START_TEST(rows_of_large_problems_are_drawn)
{
    ck_assert_uint_eq(check_stride(1), 1);
    ck_assert_uint_eq(check_stride(CHECK_WORK_MAX), 1);
    ck_assert_uint_eq(check_stride(2.5 * CHECK_WORK_MAX), 3);
}
END_TEST

static const struct {
    enum gemmd_dtype dtype;
    uint16_t bits;
    double value; /* NAN: no number */
} numbers[] = {
    {GEMMD_F16, 0x3c00, 1},      {GEMMD_F16, 0xc000, -2},       {GEMMD_F16, 0x0001, 0x1p-24},
    {GEMMD_F16, 0x7bff, 65504},  {GEMMD_F16, 0x7c00, INFINITY}, {GEMMD_F16, 0xfc00, -INFINITY},
    {GEMMD_F16, 0x7c01, NAN},    {GEMMD_BF16, 0x3f80, 1},       {GEMMD_BF16, 0x7f80, INFINITY},
    {GEMMD_BF16, 0x7f81, NAN},   {GEMMD_F8_E4M3, 0x38, 1},      {GEMMD_F8_E4M3, 0x7e, 448},
    {GEMMD_F8_E4M3, 0xfe, -448}, {GEMMD_F8_E4M3, 0x7f, NAN},    {GEMMD_F8_E4M3, 0x01, 0x1p-9},
    {GEMMD_I8, 0x80, -128}};

START_TEST(small_types_are_widened_exactly)
{
    double value = 0;
    widen(numbers[_i].dtype, &numbers[_i].bits, 1, 1, &value);
    if (isnan(numbers[_i].value))
        ck_assert(isnan(value));
    else
        ck_assert_double_eq(value, numbers[_i].value);
}
END_TEST

START_TEST(every_other_element_is_widened)
{
    static const int32_t words[] = {1, 2, -3, 4};
    double values[2];
    widen(GEMMD_I32, words, 2, 2, values);
    ck_assert_double_eq(values[0], 1);
    ck_assert_double_eq(values[1], -3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_check");
    TCase *tests = tcase_create("gemmctl_check");
    tcase_add_test(tests, sums_of_integers_are_exact);
    tcase_add_test(tests, sums_that_overflow_are_left_out);
    tcase_add_test(tests, a_norm_may_be_nothing_and_an_exponential_too);
    tcase_add_test(tests, sums_of_f64_are_checked_to_its_precision);
    tcase_add_test(tests, a_softmax_is_checked_to_the_error_that_is_promised);
    tcase_add_test(tests, an_infinity_stands_for_what_is_too_large);
    tcase_add_test(tests, rows_of_large_problems_are_drawn);
    tcase_add_loop_test(tests, small_types_are_widened_exactly, 0,
                        (int)(sizeof numbers / sizeof numbers[0]));
    tcase_add_test(tests, every_other_element_is_widened);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
