/* Numbers in JSON, there and back. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/oip_data.h"

/* Reads a copy of exactly the text, so that a sanitizer sees any read past the end. */
static enum gemmd_error read_text(const char *text, enum gemmd_dtype dtype, const uint64_t *dims,
                                  uint32_t rank, void *out, struct fault *fault)
{
    struct tensor tensor;
    const uint64_t bytes = strlen(text);
    char *exact = malloc(bytes);
    memcpy(exact, text, bytes);
    const struct oip_array array = {exact, bytes};
    *fault = (struct fault){.code = GEMMD_OK};
    ck_assert(tensor_init(&tensor, dtype, dims, rank, NULL));
    enum gemmd_error code = oip_data_read(&array, "A", &tensor, out, fault);
    ck_assert_uint_eq(fault->code, code);
    free(exact);
    return code;
}

static const char *const same[] = {
    "[1,-2,3e0,0.25,5,6]",
    "[[1,-2,3.0],[0.25,5,6]]",
    " [ 1 ,\n-2,3,\t25e-2,5,\r6 ] ",
    "[ [1,-2,3] , [0.25E+0,5,60e-1] ]",
};

START_TEST(flat_and_nested_are_the_same)
{
    static const float expected[] = {1, -2, 3, 0.25f, 5, 6};
    const uint64_t dims[] = {2, 3};
    float out[6];
    struct fault fault;
    ck_assert_msg(read_text(same[_i], GEMMD_F32, dims, 2, out, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    ck_assert_mem_eq(out, expected, sizeof expected);
}
END_TEST

START_TEST(each_type_has_its_range)
{
    static const struct {
        enum gemmd_dtype dtype;
        const char *inside, *outside;
    } cases[] = {
        {GEMMD_I8, "[-128,127]", "[0,128]"},
        {GEMMD_I8, "[-0,127]", "[-129,0]"},
        {GEMMD_I8, "[0,1]", "[0,1.0]"},
        {GEMMD_F8_E4M3, "[0,255]", "[0,256]"},
        {GEMMD_F8_E4M3, "[0,255]", "[0,-1]"},
        {GEMMD_I32, "[-2147483648,2147483647]", "[0,2147483648]"},
        {GEMMD_I32, "[0,1]", "[0,99999999999999999999999]"},
        {GEMMD_F32, "[3.4e38,-1e-50]", "[0,3.5e38]"},
        {GEMMD_F64, "[1.7e308,-1e-400]", "[0,1e309]"},
    };
    const uint64_t two = 2;
    double out[2];
    struct fault fault;
    ck_assert_uint_eq(read_text(cases[_i].inside, cases[_i].dtype, &two, 1, out, &fault), GEMMD_OK);
    ck_assert_uint_eq(read_text(cases[_i].outside, cases[_i].dtype, &two, 1, out, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "is not a number of type"));
}
END_TEST

static const char *const wrong[] = {
    "[]",
    "[1,2,3]",
    "[1,2,3,4,5]",
    "[[1,2],[3]]",
    "[[1,2,3,4]]",
    "[[[1,2],[3,4]]]",
    "[1,[2],3,4]",
    "[[1,2],3,4]",
    "[1,2,3,4,]",
    "[,1,2,3,4]",
    "[1 2,3,4]",
    "[1,2,3,4",
    "[1,2,3,4}",
    "[01,2,3,4]",
    "[1.,2,3,4]",
    "[.5,2,3,4]",
    "[+1,2,3,4]",
    "[1e,2,3,4]",
    "[nan,2,3,4]",
    "[null,2,3,4]",
    "[+NaN,2,3,4]",
    "[INF,2,3,4]",
    "[infinity,2,3,4]",
    "[Infinit,2,3,4]",
    "[--Inf,2,3,4]",
    "[NaN(1),2,3,4]",
    "[1NaN,2,3,4]",
    "[Nan,2,3,4]",
    "[true,2,3,4]",
    "[\"1\",2,3,4]",
    "[0x1,2,3,4]",
    "[1,2,3,4,[]]",
    "[[],[]]",
    "[--1,2,3,4]",
    "[1-2,3,4,5]",
    "[{},2,3,4]",
};

START_TEST(what_is_not_the_tensor_is_refused)
{
    const uint64_t dims[] = {2, 2};
    float out[4];
    struct fault fault;
    ck_assert_msg(read_text(wrong[_i], GEMMD_F32, dims, 2, out, &fault) == GEMMD_ERR_MALFORMED,
                  "%s", wrong[_i]);
}
END_TEST

START_TEST(data_is_nested_as_deep_as_its_shape)
{
    const uint64_t dims[] = {1, 2, 2};
    float out[4];
    struct fault fault;
    ck_assert_uint_eq(read_text("[[1,2],[3,4]]", GEMMD_F32, dims, 3, out, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "neither flat nor nested"));
}
END_TEST

START_TEST(shapes_are_arrays_of_whole_numbers)
{
    static const char *const shapes[] = {"[01]", "[12", "[12x]", "[1234567890123456789]", "[,]"};
    uint64_t dims[TENSOR_MAX_RANK];
    uint32_t rank;
    struct fault fault = {.field = ""};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct oip_array array = {shapes[i], strlen(shapes[i])};
        ck_assert_msg(oip_data_shape(&array, "A", dims, &rank, &fault) == GEMMD_ERR_MALFORMED, "%s",
                      shapes[i]);
    }
    const struct oip_array right = {"[0, 123456789012345678 ]", 24};
    ck_assert_uint_eq(oip_data_shape(&right, "A", dims, &rank, &fault), GEMMD_OK);
    ck_assert_uint_eq(rank, 2);
    ck_assert_uint_eq(dims[0], 0);
    ck_assert_uint_eq(dims[1], 123456789012345678);
}
END_TEST

START_TEST(long_numbers_are_refused)
{
    char text[256] = "[";
    const uint64_t one = 1;
    float out;
    struct fault fault;
    memset(text + 1, '1', 200);
    text[201] = ']';
    ck_assert_uint_eq(read_text(text, GEMMD_F32, &one, 1, &out, &fault), GEMMD_ERR_MALFORMED);
}
END_TEST

/* What is written is read as the same bits. */
START_TEST(numbers_come_back)
{
    static const double doubles[] = {0,        -0.0,    1.0 / 3, DBL_MAX,    -DBL_MIN, DBL_TRUE_MIN,
                                     1e15 + 1, -123456, 0.1,     DBL_EPSILON};
    static const int32_t integers[] = {0, -1, INT32_MAX, INT32_MIN, 42, 7, 8, 9, 10, 11};
    static const int8_t bytes[] = {0, -1, INT8_MAX, INT8_MIN, 42, 7, 8, 9, 10, 11};
    float floats[10];
    const uint64_t ten = 10;
    for (int i = 0; i < 10; i++)
        floats[i] = fabs(doubles[i]) > (double)FLT_MAX ? -FLT_MAX : (float)doubles[i];
    const struct {
        enum gemmd_dtype dtype;
        const void *data;
    } cases[] = {{GEMMD_F64, doubles},
                 {GEMMD_F32, floats},
                 {GEMMD_I32, integers},
                 {GEMMD_I8, bytes},
                 {GEMMD_F8_E4M3, bytes}};
    char text[512] = "[";
    double out[10];
    struct tensor tensor;
    struct fault fault;
    ck_assert(tensor_init(&tensor, cases[_i].dtype, &ten, 1, cases[_i].data));
    char *end = oip_data_write(&tensor, 0, 3, text + 1); /* in pieces */
    end = oip_data_write(&tensor, 3, 10, end);
    ck_assert_uint_le((uint64_t)(end - text), 1 + 10 * oip_data_text_max(cases[_i].dtype));
    memcpy(end, "]", 2);
    ck_assert_msg(read_text(text, cases[_i].dtype, &ten, 1, out, &fault) == GEMMD_OK, "%s: %s",
                  text, fault.detail);
    ck_assert_mem_eq(out, cases[_i].data, tensor.bytes);
}
END_TEST

START_TEST(text_max_is_enough)
{
    const double wide = -DBL_MAX;
    const float narrow = -1.17549435e-38f;
    const int32_t whole = INT32_MIN;
    const int8_t byte = INT8_MIN;
    const uint8_t unsigned_byte = UINT8_MAX;
    const uint64_t one = 1;
    const struct {
        enum gemmd_dtype dtype;
        const void *data;
    } cases[] = {{GEMMD_F64, &wide},
                 {GEMMD_F32, &narrow},
                 {GEMMD_I32, &whole},
                 {GEMMD_I8, &byte},
                 {GEMMD_F8_E4M3, &unsigned_byte}};
    char text[64];
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, cases[_i].dtype, &one, 1, cases[_i].data));
    const char *end = oip_data_write(&tensor, 0, 1, text);
    ck_assert_uint_lt((uint64_t)(end - text), oip_data_text_max(cases[_i].dtype)); /* the comma */
}
END_TEST

START_TEST(what_is_not_finite_is_a_word)
{
    static const char input[] = "[NaN, -NaN, Infinity, -Infinity, Inf, -Inf, 1]";
    const uint64_t seven = 7;
    float floats[7];
    double doubles[7];
    int32_t integers[7];
    char text[128];
    struct fault fault;
    struct tensor tensor;
    ck_assert_uint_eq(read_text(input, GEMMD_F32, &seven, 1, floats, &fault), GEMMD_OK);
    ck_assert_uint_eq(read_text(input, GEMMD_F64, &seven, 1, doubles, &fault), GEMMD_OK);
    for (int i = 0; i < 7; i++)
        ck_assert(i < 2 ? isnan(doubles[i]) && isnan(floats[i]) : (double)floats[i] == doubles[i]);
    ck_assert(tensor_init(&tensor, _i == 0 ? GEMMD_F32 : GEMMD_F64, &seven, 1,
                          _i == 0 ? (const void *)floats : doubles));
    *oip_data_write(&tensor, 0, 7, text) = '\0';
    ck_assert_str_eq(text, "NaN,NaN,Infinity,-Infinity,Infinity,-Infinity,1");
    ck_assert_uint_eq(read_text(input, GEMMD_I32, &seven, 1, integers, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "NaN, which is not a number of type INT32"));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("oip_data");
    tcase_add_loop_test(tests, flat_and_nested_are_the_same, 0, sizeof same / sizeof *same);
    tcase_add_loop_test(tests, each_type_has_its_range, 0, 9);
    tcase_add_loop_test(tests, what_is_not_the_tensor_is_refused, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tests, data_is_nested_as_deep_as_its_shape);
    tcase_add_test(tests, shapes_are_arrays_of_whole_numbers);
    tcase_add_test(tests, long_numbers_are_refused);
    tcase_add_loop_test(tests, numbers_come_back, 0, 5);
    tcase_add_loop_test(tests, text_max_is_enough, 0, 5);
    tcase_add_loop_test(tests, what_is_not_finite_is_a_word, 0, 2);
    Suite *suite = suite_create("oip_data");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
