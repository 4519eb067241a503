/* proto/array_shape.c, reduce_request.c and softmax_request.c: shapes, axes, types, lengths. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/parameter.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"

static struct fault fault;

/* Sets the parameters of a query, and checks the request. */
static enum gemmd_error read_query(const struct parameter_table *table, void *request,
                                   const char *query)
{
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", query);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        if (name[0] == '\0')
            continue;
        const enum gemmd_error code = parameter_set(table, request, name, pair, &fault);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

static enum gemmd_error reduce(struct reduce_request *request, const char *query)
{
    reduce_request_init(request);
    const enum gemmd_error code = read_query(&reduce_parameter_table, request, query);
    return code == GEMMD_OK ? reduce_request_check(request, FORMAT_RAW, &fault) : code;
}

static enum gemmd_error softmax(struct softmax_request *request, const char *query)
{
    softmax_request_init(request);
    const enum gemmd_error code = read_query(&softmax_parameter_table, request, query);
    return code == GEMMD_OK ? softmax_request_check(request, FORMAT_RAW, &fault) : code;
}

static const struct {
    const char *query;
    const char *shape; /* of the result, or the field at fault */
    enum gemmd_error code;
    enum gemmd_dtype out;
} reductions[] = {
    {"shape=5", "1", GEMMD_OK, GEMMD_F32},
    {"shape=5&keepdims=1&op=argmax", "1", GEMMD_OK, GEMMD_I32},
    {"shape=2,3,4", "2,3", GEMMD_OK, GEMMD_F32},
    {"shape=2,3,4&axis=0", "3,4", GEMMD_OK, GEMMD_F32},
    {"shape=2,3,4&axis=-2", "2,4", GEMMD_OK, GEMMD_F32},
    {"shape=2,3,4&axis=1&keepdims=1", "2,1,4", GEMMD_OK, GEMMD_F32},
    {"shape=1,2,3,4,5,6,7,8&axis=-8", "2,3,4,5,6,7,8", GEMMD_OK, GEMMD_F32},
    {"shape=4&dtype=i8", "1", GEMMD_OK, GEMMD_I32},
    {"shape=4&dtype=i32&op=mean", "1", GEMMD_OK, GEMMD_F64},
    {"shape=4&dtype=i8&op=max", "1", GEMMD_OK, GEMMD_I8},
    {"shape=4&dtype=bf16&out=f32", "1", GEMMD_OK, GEMMD_F32},
    {"", "shape", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=", "shape", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=1,,2", "shape", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=1,2,3,4,5,6,7,8,9", "shape", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=2147483648", "shape", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=00000000000000000001", "shape", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=2,3&axis=2", "axis", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=2,3&axis=-3", "axis", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=2,3&axis=8", "axis", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=2,3&axis=-9", "axis", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=2,3&axis=+1", "axis", GEMMD_ERR_MALFORMED, GEMMD_F32},
    {"shape=4&dtype=i8&op=logsumexp", "dtype", GEMMD_ERR_UNSUPPORTED, GEMMD_F32},
    {"shape=4&op=max&dtype=f16&out=f32", "out", GEMMD_ERR_UNSUPPORTED, GEMMD_F32},
    {"shape=4&out=f16", "out", GEMMD_ERR_UNSUPPORTED, GEMMD_F32},
};

START_TEST(a_reduction_has_a_shape_and_a_type)
{
    struct reduce_request request;
    struct tensor y;
    char shape[128];
    ck_assert_int_eq(reduce(&request, reductions[_i].query), reductions[_i].code);
    if (reductions[_i].code != GEMMD_OK) {
        ck_assert_str_eq(fault.field, reductions[_i].shape);
        return;
    }
    ck_assert(reduce_request_result(&request, &y));
    tensor_shape_text(&y, shape, sizeof shape);
    ck_assert_str_eq(shape, reductions[_i].shape);
    ck_assert_int_eq(y.dtype, reductions[_i].out);
}
END_TEST

START_TEST(a_refusal_says_which_axes_there_are)
{
    struct reduce_request request;
    ck_assert_int_eq(reduce(&request, "shape=2,3&axis=-3"), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "axis is -3; X has 2 dimensions"));
    ck_assert_ptr_nonnull(strstr(fault.detail, "from -2 to 1"));
}
END_TEST

START_TEST(sizes_that_overflow_have_no_layout)
{
    struct reduce_request request;
    struct operand_layout layout;
    ck_assert_int_eq(reduce(&request, "shape=2147483647,2147483647,2147483647"), GEMMD_OK);
    ck_assert(!operand_layout_compute(&layout, &reduce_operand_table, &request, 0));
}
END_TEST

START_TEST(an_array_gives_type_and_shape)
{
    const uint64_t dims[] = {2, 1, 3}, empty[] = {2, 0};
    struct reduce_request request;
    struct reduce_operands operands;
    reduce_request_init(&request);
    ck_assert(tensor_init(&operands.x, GEMMD_I8, dims, 3, "abcdef"));
    ck_assert_int_eq(reduce_request_bind_tensors(&request, &operands, &fault), GEMMD_OK);
    ck_assert_int_eq(request.dtype, GEMMD_I8);
    ck_assert_int_eq(request.out, GEMMD_I32);
    reduce_request_init(&request);
    ck_assert(tensor_init(&operands.x, GEMMD_F32, empty, 2, ""));
    ck_assert_int_eq(reduce_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "dimension 1 of X is 0"));
    operands.x.rank = 0;
    ck_assert_int_eq(reduce_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
}
END_TEST

START_TEST(lengths_are_of_leading_dimensions)
{
    static const struct {
        const char *query;
        enum gemmd_error code;
        uint64_t bytes; /* of the body */
    } cases[] = {{"shape=2,3,4", GEMMD_OK, 96},
                 {"shape=2,3,4&lens=1", GEMMD_OK, 8 + 96},
                 {"shape=2,3,4&lens=2", GEMMD_OK, 24 + 96},
                 {"shape=2,3,4&lens=3", GEMMD_ERR_MALFORMED, 0},
                 {"shape=4&lens=1", GEMMD_ERR_MALFORMED, 0},
                 {"shape=4&lens=8", GEMMD_ERR_MALFORMED, 0},
                 {"shape=4&scale=nan", GEMMD_ERR_MALFORMED, 0},
                 {"shape=4&scale=1e39", GEMMD_ERR_MALFORMED, 0},
                 {"shape=4&scale=-1e39", GEMMD_ERR_MALFORMED, 0},
                 {"shape=4&scale=-3e38", GEMMD_OK, 16},
                 {"shape=4&dtype=i32", GEMMD_ERR_MALFORMED, 0},
                 {"shape=4&dtype=f64&out=f32", GEMMD_ERR_UNSUPPORTED, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct softmax_request request;
        struct operand_layout layout;
        ck_assert_msg(softmax(&request, cases[i].query) == cases[i].code, "%s", cases[i].query);
        if (cases[i].code != GEMMD_OK)
            continue;
        ck_assert(operand_layout_compute(&layout, &softmax_operand_table, &request, 0));
        ck_assert_uint_eq(layout.bytes, cases[i].bytes);
    }
}
END_TEST

START_TEST(lengths_are_checked)
{
    const int32_t lens[] = {0, 4, 5, -1};
    const uint64_t two = 2;
    struct softmax_request request;
    struct softmax_operands operands = {.x = {.rank = 0}};
    ck_assert_int_eq(softmax(&request, "shape=2,4&lens=1"), GEMMD_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert(tensor_init(&operands.lens, GEMMD_I32, &two, 1, lens + i));
        ck_assert_int_eq(softmax_request_check_lens(&request, &operands, &fault),
                         i == 0 ? GEMMD_OK : GEMMD_ERR_MALFORMED);
    }
}
END_TEST

/* Binds X of so many dimensions of 2 to a reduction. */
static enum gemmd_error bind_x(struct reduce_request *request, enum gemmd_dtype dtype,
                               uint32_t rank)
{
    static const uint64_t dims[] = {2, 2, 2};
    struct reduce_operands operands = {.x = {.rank = 0}};
    if (rank > 0)
        ck_assert(tensor_init(&operands.x, dtype, dims, rank, "12345678"));
    return reduce_request_bind_tensors(request, &operands, &fault);
}

START_TEST(an_array_must_not_contradict_the_parameters)
{
    struct reduce_request request;
    ck_assert_int_eq(reduce(&request, "shape=2,2&dtype=i8"), GEMMD_OK);
    ck_assert_int_eq(bind_x(&request, GEMMD_I8, 2), GEMMD_OK);
    ck_assert_int_eq(bind_x(&request, GEMMD_I8, 3), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "shape");
    ck_assert_ptr_nonnull(strstr(fault.detail, "2,2,2 and the parameter says 2,2"));
    ck_assert_int_eq(reduce(&request, "shape=2,2&dtype=i8"), GEMMD_OK);
    request.shape.dims[1] = 3;
    ck_assert_int_eq(bind_x(&request, GEMMD_I8, 2), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "shape");
    ck_assert_int_eq(reduce(&request, "shape=2,2&dtype=f32"), GEMMD_OK);
    ck_assert_int_eq(bind_x(&request, GEMMD_I8, 2), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "dtype");
    ck_assert_int_eq(bind_x(&request, GEMMD_F8_E4M3, 2), GEMMD_ERR_UNSUPPORTED);
    ck_assert_str_eq(fault.field, "dtype");
    ck_assert_int_eq(bind_x(&request, GEMMD_F32, 0), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail, "the request lacks X");
    ck_assert_int_eq(reduce(&request, "shape=2,2&x=edges"), GEMMD_OK);
    ck_assert_int_eq(bind_x(&request, GEMMD_F32, 0), GEMMD_OK);
    ck_assert_int_eq(bind_x(&request, GEMMD_F32, 2), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail, "the request sends X, which is resident");
}
END_TEST

START_TEST(a_dimension_can_be_too_large)
{
    const uint64_t dims[] = {GEMM_DIM_MAX, UINT64_C(1) + GEMM_DIM_MAX};
    struct reduce_request request;
    struct tensor x;
    reduce_request_init(&request);
    ck_assert(tensor_init(&x, GEMMD_I8, dims, 1, NULL));
    ck_assert_int_eq(reduce_request_settle_resident(&request, &x, &fault), GEMMD_OK);
    reduce_request_init(&request);
    ck_assert(tensor_init(&x, GEMMD_I8, dims + 1, 1, NULL));
    ck_assert_int_eq(reduce_request_settle_resident(&request, &x, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "shape");
}
END_TEST

/* A raw body of the wrong length is refused with a question about the type. */
static const char *raw_refusal(const char *path, const char *query, uint64_t bytes)
{
    static const unsigned char body[64];
    struct body_front front = {.bytes = body, .length = bytes, .received = bytes};
    struct reduce_request reduction;
    struct reduce_operands x;
    struct softmax_request softened;
    struct softmax_operands operands;
    if (strcmp(path, "/reduce") == 0) {
        ck_assert_int_eq(reduce(&reduction, query), GEMMD_OK);
        ck_assert_int_eq(reduce_request_bind_front(&reduction, FORMAT_RAW, &front, &x, &fault),
                         GEMMD_ERR_MALFORMED);
    } else {
        ck_assert_int_eq(softmax(&softened, query), GEMMD_OK);
        ck_assert_int_eq(
            softmax_request_bind_front(&softened, FORMAT_RAW, &front, &operands, &fault),
            GEMMD_ERR_MALFORMED);
    }
    return fault.detail;
}

START_TEST(a_refusal_guesses_the_type)
{
    ck_assert_ptr_nonnull(strstr(raw_refusal("/reduce", "shape=2,3", 12), "f16"));
    ck_assert_ptr_nonnull(strstr(raw_refusal("/reduce", "shape=2,3", 6), "i8"));
    ck_assert_ptr_null(strstr(fault.detail, "f8_e4m3"));
    ck_assert_ptr_null(strstr(raw_refusal("/reduce", "shape=2,3", 0), "f16"));
    ck_assert_ptr_nonnull(strstr(raw_refusal("/softmax", "shape=2,3", 12), "f16"));
    ck_assert_ptr_nonnull(strstr(raw_refusal("/softmax", "shape=2,3&lens=1", 20), "f16"));
    ck_assert_ptr_nonnull(strstr(fault.detail, "with lengths"));
    ck_assert_ptr_null(strstr(raw_refusal("/softmax", "shape=2,3", 6), "i8"));
    ck_assert_ptr_null(strstr(raw_refusal("/softmax", "shape=2,3&x=edges&lens=1", 4), "f16"));
    ck_assert_ptr_null(strstr(raw_refusal("/softmax", "shape=2,3", 0), "f16"));
}
END_TEST

/* X has a length in the type of the request, and in larger types a length that does not fit in 64
 * bits. */
START_TEST(a_guess_that_overflows_is_no_guess)
{
    const char *says =
        raw_refusal("/reduce", "shape=2147483647,2147483647&dtype=i8", sizeof(uint64_t));
    ck_assert_ptr_nonnull(strstr(says, "the body is 8 bytes"));
    ck_assert_ptr_null(strstr(says, "(dtype)"));
    says = raw_refusal("/softmax", "shape=2147483647,2147483647&dtype=f16", sizeof(uint64_t));
    ck_assert_ptr_nonnull(strstr(says, "the body is 8 bytes"));
    ck_assert_ptr_null(strstr(says, "(dtype)"));
}
END_TEST

/* The operands of a softmax: X of 2 x 3 in a type unless the type is GEMMD_DTYPE_COUNT, and lengths
 * of so many dimensions. */
static struct softmax_operands softmax_of(enum gemmd_dtype dtype, uint32_t lens_rank)
{
    static const uint64_t dims[] = {2, 3};
    static const int32_t lens[6] = {3, 2, 1};
    static const char x[48] = "";
    struct softmax_operands operands = {.x = {.rank = 0}};
    if (dtype != GEMMD_DTYPE_COUNT)
        ck_assert(tensor_init(&operands.x, dtype, dims, 2, x));
    if (lens_rank > 0)
        ck_assert(tensor_init(&operands.lens, GEMMD_I32, dims, lens_rank, lens));
    return operands;
}

static const struct {
    const char *query;
    enum gemmd_dtype x; /* GEMMD_DTYPE_COUNT: no X */
    uint32_t lens;
    enum gemmd_error code;
    const char *field, *detail;
} softmaxes[] = {
    {"", GEMMD_F32, 0, GEMMD_OK, "", ""},
    {"", GEMMD_F32, 1, GEMMD_OK, "", ""},
    {"lens=1", GEMMD_F32, 1, GEMMD_OK, "", ""},
    {"shape=2,3&dtype=f32", GEMMD_F32, 0, GEMMD_OK, "", ""},
    {"shape=2,3&x=edges", GEMMD_DTYPE_COUNT, 1, GEMMD_OK, "", ""},
    {"", GEMMD_F32, 2, GEMMD_ERR_MALFORMED, "lens", "without the last"},
    {"lens=0", GEMMD_F32, 1, GEMMD_ERR_MALFORMED, "lens", "says that there are no lengths"},
    {"lens=1", GEMMD_F32, 0, GEMMD_ERR_MALFORMED, "lens", "lacks the lengths"},
    {"lens=2", GEMMD_F32, 1, GEMMD_ERR_MALFORMED, "lens", "the parameter says 2"},
    {"", GEMMD_DTYPE_COUNT, 0, GEMMD_ERR_MALFORMED, "x", "lacks X"},
    {"x=edges", GEMMD_F32, 0, GEMMD_ERR_MALFORMED, "x", "which is resident"},
    {"", GEMMD_I8, 0, GEMMD_ERR_UNSUPPORTED, "dtype", "offered in f64, f32, f16 and bf16"},
    {"dtype=f16", GEMMD_F32, 0, GEMMD_ERR_MALFORMED, "dtype", "f16"},
    {"shape=3,2", GEMMD_F32, 0, GEMMD_ERR_MALFORMED, "shape", "3,2"},
    {"shape=2,3,1", GEMMD_F32, 1, GEMMD_ERR_MALFORMED, "shape", "2,3,1"},
};

START_TEST(arrays_of_a_softmax_fit_together)
{
    struct softmax_operands operands = softmax_of(softmaxes[_i].x, softmaxes[_i].lens);
    struct softmax_request request;
    softmax_request_init(&request);
    ck_assert_int_eq(read_query(&softmax_parameter_table, &request, softmaxes[_i].query), GEMMD_OK);
    const enum gemmd_error code = softmax_request_bind_tensors(&request, &operands, &fault);
    ck_assert_msg(code == softmaxes[_i].code, "%s: %s", softmaxes[_i].query, fault.detail);
    if (code == GEMMD_OK) {
        ck_assert_uint_eq(request.lens, softmaxes[_i].lens);
        return;
    }
    ck_assert_str_eq(fault.field, softmaxes[_i].field);
    ck_assert_ptr_nonnull(strstr(fault.detail, softmaxes[_i].detail));
}
END_TEST

START_TEST(a_resident_x_gives_type_and_shape)
{
    const struct softmax_operands operands = softmax_of(GEMMD_F16, 0);
    const struct softmax_operands whole_numbers = softmax_of(GEMMD_I8, 0);
    struct softmax_request request;
    softmax_request_init(&request);
    ck_assert_int_eq(softmax_request_settle_resident(&request, NULL, &fault), GEMMD_OK);
    ck_assert_uint_eq(request.shape.rank, 0);
    ck_assert_int_eq(softmax_request_settle_resident(&request, &operands.x, &fault), GEMMD_OK);
    ck_assert_int_eq(request.dtype, GEMMD_F16);
    ck_assert_uint_eq(request.shape.rank, 2);
    ck_assert_uint_eq(request.shape.dims[1], 3);
    ck_assert_int_eq(softmax_request_settle_resident(&request, &whole_numbers.x, &fault),
                     GEMMD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the resident X is of type i8"));
}
END_TEST

START_TEST(lengths_have_a_type_and_a_shape)
{
    struct softmax_operands operands = softmax_of(GEMMD_F32, 1);
    struct softmax_request request;
    softmax_request_init(&request);
    operands.lens.dtype = GEMMD_F32;
    ck_assert_int_eq(softmax_request_bind_tensors(&request, &operands, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "lens");
    operands.lens.dtype = GEMMD_I32;
    operands.lens.dims[0] = 3;
    ck_assert_int_eq(softmax_request_bind_tensors(&request, &operands, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "lens");
}
END_TEST

START_TEST(the_type_of_the_parameter_stays)
{
    unsigned char body[144];
    struct body_front front = {.bytes = body, .length = sizeof body, .received = sizeof body};
    struct softmax_request request;
    struct softmax_operands operands;
    memset(body, 0, sizeof body);
    memset(body + 10, ' ', 117);
    memcpy(body, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char text[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
    memcpy(body + 10, text, sizeof text - 1);
    body[127] = '\n';
    softmax_request_init(&request);
    ck_assert_msg(softmax_request_bind_front(&request, FORMAT_NPY, &front, &operands, &fault) ==
                      GEMMD_OK,
                  "%s", fault.detail);
    ck_assert_int_eq(request.dtype, GEMMD_F64);
    softmax_request_init(&request);
    ck_assert_int_eq(read_query(&softmax_parameter_table, &request, "dtype=f32"), GEMMD_OK);
    ck_assert_int_eq(softmax_request_bind_front(&request, FORMAT_NPY, &front, &operands, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "dtype");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("array_requests");
    TCase *tests = tcase_create("array_requests");
    tcase_add_loop_test(tests, a_reduction_has_a_shape_and_a_type, 0,
                        (int)(sizeof reductions / sizeof *reductions));
    tcase_add_test(tests, a_refusal_says_which_axes_there_are);
    tcase_add_test(tests, sizes_that_overflow_have_no_layout);
    tcase_add_test(tests, an_array_gives_type_and_shape);
    tcase_add_test(tests, lengths_are_of_leading_dimensions);
    tcase_add_test(tests, lengths_are_checked);
    tcase_add_test(tests, an_array_must_not_contradict_the_parameters);
    tcase_add_test(tests, a_dimension_can_be_too_large);
    tcase_add_test(tests, a_refusal_guesses_the_type);
    tcase_add_test(tests, a_guess_that_overflows_is_no_guess);
    tcase_add_loop_test(tests, arrays_of_a_softmax_fit_together, 0,
                        (int)(sizeof softmaxes / sizeof *softmaxes));
    tcase_add_test(tests, a_resident_x_gives_type_and_shape);
    tcase_add_test(tests, lengths_have_a_type_and_a_shape);
    tcase_add_test(tests, the_type_of_the_parameter_stays);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
