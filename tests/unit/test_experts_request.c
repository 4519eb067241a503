/* proto/experts_request.c: the parameters of a request for experts, and its operands in raw bodies.
 * tests/integration/test_experts.py has the other formats. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/experts_request.h"

static struct fault fault;

static enum gemmd_error read_raw(struct experts_request *request, const char *query)
{
    char text[512], *rest = text;
    snprintf(text, sizeof text, "%s", query);
    experts_request_init(request);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        const char *name = strsep(&pair, "=");
        const enum gemmd_error code =
            parameter_set(&experts_parameter_table, request, name, pair, &fault);
        if (code != GEMMD_OK)
            return code;
    }
    return experts_request_check(request, FORMAT_RAW, &fault);
}

#define SIZES "m=2&n=3&k=4&count=5"
enum { A = 2 * 4, W = 5 * 4 * 3, PLACES = 2, BIAS = 5 * 3 };

static const struct {
    const char *query;
    const char *field; /* at fault; NULL: the request is right */
    enum gemmd_error code;
    uint64_t bytes; /* of a raw body */
} queries[] = {
    {SIZES, NULL, GEMMD_OK, 4 * (A + W + PLACES)},
    {SIZES "&topk=3&weights=1", NULL, GEMMD_OK, 4 * (A + W + 2 * 3 * PLACES)},
    {SIZES "&glu=1&bias=1", NULL, GEMMD_OK, 4 * (A + 2 * W + PLACES + 2 * BIAS)},
    {SIZES "&transb=1&dtype=f64", NULL, GEMMD_OK, 8 * (A + W) + 4 * PLACES},
    {SIZES "&dtype=f16&out=f32&bias=1", NULL, GEMMD_OK, 2 * (A + W) + 4 * (PLACES + BIAS)},
    {SIZES "&out=bf16&bias=1&precision=tf32", NULL, GEMMD_OK, 4 * (A + W + PLACES) + 2 * BIAS},
    {"n=3&k=4&count=5", "m", GEMMD_ERR_MALFORMED, 0},
    {"m=2&k=4&count=5", "n", GEMMD_ERR_MALFORMED, 0},
    {"m=2&n=3&count=5", "k", GEMMD_ERR_MALFORMED, 0},
    {"m=2&n=3&k=4", "count", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&topk=0", "topk", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&dtype=i8", "dtype", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&out=i32", "out", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&out=f64", "out", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&dtype=f16&out=bf16", "out", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&dtype=bf16&precision=tf32", "precision", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&precision=f8", "precision", GEMMD_ERR_MALFORMED, 0},
    {"m=2&n=1073741824&k=4&count=5&glu=1", "n", GEMMD_ERR_TOO_LARGE, 0},
};

START_TEST(parameters)
{
    struct experts_request request;
    struct operand_layout layout;
    ck_assert_int_eq(read_raw(&request, queries[_i].query), queries[_i].code);
    if (queries[_i].code != GEMMD_OK) {
        ck_assert_str_eq(fault.field, queries[_i].field);
        return;
    }
    ck_assert(operand_layout_compute(&layout, &experts_operand_table, &request, 0));
    ck_assert_uint_eq(layout.bytes, queries[_i].bytes);
    struct tensor c;
    ck_assert(experts_request_result(&request, &c));
    ck_assert_uint_eq(c.rank, 2);
    ck_assert_uint_eq(c.dims[0], 2);
    ck_assert_uint_eq(c.dims[1], 3);
}
END_TEST

/* A row and a place are named, whatever the alignment of the numbers is. */
START_TEST(numbers)
{
    static const struct {
        int32_t number;
        enum gemmd_error code;
    } cases[] = {{0, GEMMD_OK},
                 {4, GEMMD_OK},
                 {-1, GEMMD_OK},
                 {5, GEMMD_ERR_MALFORMED},
                 {-2, GEMMD_ERR_MALFORMED},
                 {INT32_MAX, GEMMD_ERR_MALFORMED},
                 {INT32_MIN, GEMMD_ERR_MALFORMED}};
    enum { CASES = sizeof cases / sizeof *cases, TOPK = 3, AT = 4 };
    for (int i = 0; i < CASES; i++) {
        int32_t all[2 * TOPK] = {0};
        unsigned char bytes[sizeof all + 1];
        struct experts_request request;
        struct experts_operands operands = {.a = {.rank = 0}};
        const uint64_t dims[] = {2, TOPK};
        all[AT] = cases[i].number;
        memcpy(bytes + 1, all, sizeof all);
        ck_assert_int_eq(read_raw(&request, SIZES "&topk=3"), GEMMD_OK);
        ck_assert(tensor_init(&operands.experts, GEMMD_I32, dims, 2, bytes + 1));
        fault = (struct fault){.code = GEMMD_OK};
        ck_assert_int_eq(experts_request_check_numbers(&request, &operands, &fault), cases[i].code);
        if (cases[i].code != GEMMD_OK)
            ck_assert_ptr_nonnull(strstr(fault.detail, "row 1 has expert"));
    }
}
END_TEST

/* A resident W gives the sizes, and must not contradict them. */
START_TEST(resident_stacks)
{
    const uint64_t dims[] = {5, 4, 6}, odd[] = {5, 4, 7};
    struct experts_request request;
    struct tensor w;
    ck_assert(tensor_init(&w, GEMMD_BF16, dims, 3, NULL));
    experts_request_init(&request);
    request.glu = true;
    ck_assert_int_eq(experts_request_settle_residents(&request, NULL, &w, &fault), GEMMD_OK);
    ck_assert_uint_eq(request.count, 5);
    ck_assert_uint_eq(request.k, 4);
    ck_assert_uint_eq(request.n, 3);
    ck_assert_int_eq(request.dtype, GEMMD_BF16);
    experts_request_init(&request);
    request.transb = true;
    ck_assert_int_eq(experts_request_settle_residents(&request, NULL, &w, &fault), GEMMD_OK);
    ck_assert_uint_eq(request.k, 6);
    ck_assert_uint_eq(request.n, 4);
    ck_assert(tensor_init(&w, GEMMD_BF16, odd, 3, NULL));
    experts_request_init(&request);
    request.glu = true;
    ck_assert_int_eq(experts_request_settle_residents(&request, NULL, &w, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "glu");
    ck_assert(tensor_init(&w, GEMMD_I8, dims, 3, NULL));
    experts_request_init(&request);
    ck_assert_int_eq(experts_request_settle_residents(&request, NULL, &w, &fault),
                     GEMMD_ERR_UNSUPPORTED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("experts_request");
    TCase *tests = tcase_create("experts_request");
    tcase_add_loop_test(tests, parameters, 0, sizeof queries / sizeof *queries);
    tcase_add_test(tests, numbers);
    tcase_add_test(tests, resident_stacks);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
