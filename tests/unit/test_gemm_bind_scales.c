/* proto/gemm_bind.c: finding the scales of /gemm, in a body and beside resident operands. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/gemm_request.h"
#include "proto/npy.h"
#include "proto/safetensors.h"

/* k has two blocks of 128, and n three. A batch has two problems at most. */
enum { M = 3, N = 260, K = 130, LONGEST = 2 * K * N };

static struct fault fault;

static enum gemmd_error set(struct gemm_request *request, const char *query, enum format format)
{
    char text[256], *rest = text;
    enum gemmd_error code = GEMMD_OK;
    fault = (struct fault){.code = GEMMD_OK};
    snprintf(text, sizeof text, "%s", query);
    gemm_request_init(request);
    for (char *pair = strsep(&rest, "&"); code == GEMMD_OK && pair != NULL && *pair != '\0';
         pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        code = gemm_request_set(request, name, pair, &fault);
    }
    return code != GEMMD_OK ? code : gemm_request_check(request, format, &fault);
}

/* An array of a body. rank 0: the body has no such array. */
struct array {
    enum gemmd_dtype dtype;
    uint32_t rank;
    uint64_t dims[3];
};

struct body {
    unsigned char bytes[2 * LONGEST];
    uint64_t length, last; /* `last` is the offset of the last array of a .npy body */
};

static void append(struct body *body, const void *bytes, uint64_t count)
{
    ck_assert_uint_le(count, sizeof body->bytes - body->length);
    memcpy(body->bytes + body->length, bytes, count);
    body->length += count;
}

static struct array matrix_of(const struct gemm_request *request, uint64_t rows, uint64_t columns)
{
    if (request->batch > 1)
        return (struct array){GEMMD_F8_E4M3, 3, {request->batch, rows, columns}};
    return (struct array){GEMMD_F8_E4M3, 2, {rows, columns}};
}

/* Writes the operands that are not resident, and their scales. Every byte of A is 'a', of B 'b', of
 * a_scale 'c' and of b_scale 'd'. */
static void write_body(struct body *body, const struct gemm_request *request, enum format format,
                       const struct array *a_scale, const struct array *b_scale)
{
    static const char *const names[] = {"a", "b", "a_scale", "b_scale"};
    static unsigned char bytes[4][LONGEST];
    const struct array none = {.rank = 0};
    const struct array arrays[] = {
        request->a[0] != '\0'
            ? none
            : matrix_of(request, request->transa ? K : M, request->transa ? M : K),
        request->b[0] != '\0'
            ? none
            : matrix_of(request, request->transb ? N : K, request->transb ? K : N),
        *a_scale, *b_scale};
    char header[SAFETENSORS_HEADER_MAX];
    struct safetensors_entry entries[4] = {0};
    uint32_t count = 0;
    for (int i = 0; i < 4; i++) {
        if (arrays[i].rank == 0)
            continue;
        memset(bytes[i], 'a' + i, sizeof bytes[i]);
        ck_assert(tensor_init(&entries[count].tensor, arrays[i].dtype, arrays[i].dims,
                              arrays[i].rank, bytes[i]));
        ck_assert_uint_le(entries[count].tensor.bytes, sizeof bytes[i]);
        snprintf(entries[count++].name, sizeof entries[0].name, "%s", names[i]);
    }
    body->length = 0;
    if (format == FORMAT_SAFETENSORS)
        append(body, header, safetensors_header(entries, count, header));
    for (uint32_t i = 0; i < count; i++) {
        body->last = body->length;
        if (format == FORMAT_NPY)
            append(body, header, npy_header(&entries[i].tensor, header));
        append(body, entries[i].tensor.data, entries[i].tensor.bytes);
    }
}

static enum gemmd_error bind(const char *query, enum format format, const struct array *a_scale,
                             const struct array *b_scale, struct gemm_operands *operands)
{
    static struct body body;
    struct gemm_request request;
    ck_assert_int_eq(set(&request, query, format), GEMMD_OK);
    write_body(&body, &request, format, a_scale, b_scale);
    return gemm_request_bind(&request, format, body.bytes, body.length, operands, &fault);
}

static void assert_shape(const struct tensor *scale, const char *shape)
{
    char got[64];
    tensor_shape_text(scale, got, sizeof got);
    ck_assert_str_eq(got, shape);
    ck_assert_int_eq(scale->dtype, GEMMD_F32);
}

static void assert_scale(const struct tensor *scale, const char *shape, char filling)
{
    assert_shape(scale, shape);
    for (uint64_t i = 0; i < scale->bytes; i++)
        ck_assert_int_eq(((const char *)scale->data)[i], filling);
}

static const struct {
    enum format format;
    const char *query;
    struct array a, b;
    const char *a_shape, *b_shape; /* of the bound scales */
} right[] = {
    {FORMAT_NPY, "scales=rowcol", {GEMMD_F32, 1, {M}}, {GEMMD_F32, 1, {N}}, "3", "260"},
    {FORMAT_NPY, "scales=rowcol", {GEMMD_F32, 2, {M, 1}}, {GEMMD_F32, 2, {1, N}}, "3", "260"},
    {FORMAT_NPY, "scales=block", {GEMMD_F32, 2, {M, 2}}, {GEMMD_F32, 2, {2, 3}}, "3,2", "2,3"},
    {FORMAT_NPY,
     "scales=rowcol&batch=2",
     {GEMMD_F32, 2, {2, M}},
     {GEMMD_F32, 2, {2, N}},
     "2,3",
     "2,260"},
    {FORMAT_SAFETENSORS, "scales=rowcol", {GEMMD_F32, 1, {M}}, {GEMMD_F32, 1, {N}}, "3", "260"},
    {FORMAT_SAFETENSORS,
     "scales=block&batch=2",
     {GEMMD_F32, 3, {2, M, 2}},
     {GEMMD_F32, 3, {2, 2, 3}},
     "2,3,2",
     "2,2,3"},
    {FORMAT_SAFETENSORS,
     "scales=block&transa=1",
     {GEMMD_F32, 2, {2, M}},
     {GEMMD_F32, 2, {2, 3}},
     "2,3",
     "2,3"},
    {FORMAT_SAFETENSORS,
     "scales=block&transb=1",
     {GEMMD_F32, 2, {M, 2}},
     {GEMMD_F32, 2, {3, 2}},
     "3,2",
     "3,2"},
};

START_TEST(scales_get_the_shape_that_the_request_says)
{
    struct gemm_operands operands;
    const enum gemmd_error code =
        bind(right[_i].query, right[_i].format, &right[_i].a, &right[_i].b, &operands);
    ck_assert_msg(code == GEMMD_OK, "%s: %s", right[_i].query, fault.detail);
    assert_scale(&operands.a_scale, right[_i].a_shape, 'c');
    assert_scale(&operands.b_scale, right[_i].b_shape, 'd');
}
END_TEST

static const struct {
    enum format format;
    const char *query;
    struct array a, b;
    const char *field, *says;
} wrong[] = {
    {FORMAT_SAFETENSORS,
     "",
     {GEMMD_F32, 1, {M}},
     {GEMMD_F32, 1, {N}},
     "scales",
     "a_scale needs scales=rowcol or scales=block"},
    {FORMAT_SAFETENSORS,
     "scales=rowcol",
     {GEMMD_F32, 0, {0}},
     {GEMMD_F32, 1, {N}},
     "a_scale",
     "scales=rowcol needs the array a_scale, which is missing"},
    {FORMAT_SAFETENSORS,
     "scales=block",
     {GEMMD_F32, 2, {M, 2}},
     {GEMMD_F32, 0, {0}},
     "b_scale",
     "scales=block needs the array b_scale, which is missing"},
    {FORMAT_SAFETENSORS,
     "scales=rowcol",
     {GEMMD_F16, 1, {M}},
     {GEMMD_F32, 1, {N}},
     "a_scale",
     "a_scale is of type f16; scales must be f32"},
    {FORMAT_SAFETENSORS,
     "scales=rowcol",
     {GEMMD_F32, 1, {M}},
     {GEMMD_F32, 1, {M}},
     "b_scale",
     "b_scale has the shape 3; with scales=rowcol it must be 260"},
    {FORMAT_NPY,
     "scales=block",
     {GEMMD_F32, 2, {2, M}},
     {GEMMD_F32, 2, {2, 3}},
     "a_scale",
     "a_scale has the shape 2,3; with scales=block it must be 3,2"},
};

START_TEST(scales_that_do_not_fit_are_refused)
{
    struct gemm_operands operands;
    ck_assert_int_eq(bind(wrong[_i].query, wrong[_i].format, &wrong[_i].a, &wrong[_i].b, &operands),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, wrong[_i].field);
    ck_assert_msg(strstr(fault.detail, wrong[_i].says) != NULL, "'%s' does not say '%s'",
                  fault.detail, wrong[_i].says);
}
END_TEST

/* A body without the scales may be long in coming, and its operands are checked before. */
START_TEST(scales_that_have_not_arrived_have_a_shape)
{
    static struct body body;
    const struct array a_scale = {GEMMD_F32, 1, {M}}, b_scale = {GEMMD_F32, 1, {N}};
    struct gemm_request request;
    struct gemm_operands operands;
    ck_assert_int_eq(set(&request, "scales=rowcol", FORMAT_NPY), GEMMD_OK);
    write_body(&body, &request, FORMAT_NPY, &a_scale, &b_scale);
    struct body_front front = {.bytes = body.bytes, .length = body.length, .received = body.last};
    ck_assert_msg(gemm_request_bind_front(&request, FORMAT_NPY, &front, &operands, &fault) ==
                      GEMMD_OK,
                  "%s", fault.detail);
    assert_scale(&operands.a_scale, "3", 'c');
    assert_shape(&operands.b_scale, "260");
    ck_assert_ptr_null(operands.b_scale.data);
}
END_TEST

#define LARGEST "2147483647"

START_TEST(scales_past_64_bits_are_too_large)
{
    static const unsigned char none[1];
    const uint64_t one = 1;
    struct gemm_request request;
    struct gemm_operands operands;
    struct tensor scale;
    struct body_front front = {.bytes = none, .length = 1000};
    ck_assert_int_eq(set(&request,
                         "a=w&b=v&scales=block&dtype=f8_e4m3&n=1&m=" LARGEST "&k=" LARGEST
                         "&batch=" LARGEST,
                         FORMAT_NPY),
                     GEMMD_OK);
    struct gemm_request copy = request;
    ck_assert_int_eq(gemm_request_bind_front(&copy, FORMAT_NPY, &front, &operands, &fault),
                     GEMMD_ERR_TOO_LARGE);
    ck_assert(tensor_init(&scale, GEMMD_F32, &one, 1, none));
    ck_assert_int_eq(gemm_request_settle_resident_scales(&request, &scale, NULL, &fault),
                     GEMMD_ERR_TOO_LARGE);
    ck_assert_str_eq(fault.field, "a_scale");
    ck_assert_ptr_nonnull(strstr(fault.detail, "the scale of the resident A"));
}
END_TEST

/* ---- arrays from places of their own ---- */

START_TEST(scales_beside_the_body_are_bound)
{
    static const unsigned char data[LONGEST];
    const uint64_t a_dims[] = {M, K}, b_dims[] = {K, N}, a_scale[] = {M, 2}, b_scale[] = {2, 3};
    struct gemm_request request;
    struct gemm_operands operands = {.transa = false};
    ck_assert(tensor_init(&operands.a, GEMMD_F8_E4M3, a_dims, 2, data));
    ck_assert(tensor_init(&operands.b, GEMMD_F8_E4M3, b_dims, 2, data));
    ck_assert_int_eq(set(&request, "scales=block", FORMAT_NPY), GEMMD_OK);
    ck_assert_int_eq(gemm_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "a_scale");
    ck_assert(tensor_init(&operands.a_scale, GEMMD_F32, a_scale, 2, data));
    ck_assert(tensor_init(&operands.b_scale, GEMMD_F32, b_scale, 2, data + 1));
    operands.a_scale.fortran = true;
    ck_assert_int_eq(gemm_request_bind_tensors(&request, &operands, &fault), GEMMD_OK);
    ck_assert(operands.a_scale.fortran);
    ck_assert(!operands.b_scale.fortran);
    ck_assert_ptr_eq(operands.b_scale.data, data + 1);
    /* A column-major vector is a vector. */
    const uint64_t column[] = {M, 1}, row[] = {1, N};
    ck_assert_int_eq(set(&request, "scales=rowcol", FORMAT_NPY), GEMMD_OK);
    ck_assert(tensor_init(&operands.a_scale, GEMMD_F32, column, 2, data));
    ck_assert(tensor_init(&operands.b_scale, GEMMD_F32, row, 2, data));
    operands.a_scale.fortran = true;
    ck_assert_int_eq(gemm_request_bind_tensors(&request, &operands, &fault), GEMMD_OK);
    assert_shape(&operands.a_scale, "3");
    ck_assert(!operands.a_scale.fortran);
}
END_TEST

/* ---- resident operands ---- */

/* A resident B of one matrix, with A of a batch in the body. */
static void set_resident_b(struct gemm_request *request, const char *query)
{
    const uint64_t dims[] = {K, N};
    struct tensor b;
    ck_assert_int_eq(set(request, query, FORMAT_SAFETENSORS), GEMMD_OK);
    ck_assert(tensor_init(&b, GEMMD_F8_E4M3, dims, 2, NULL));
    ck_assert_int_eq(gemm_request_settle_residents(request, NULL, &b, &fault), GEMMD_OK);
}

START_TEST(a_resident_operand_can_bring_its_scale)
{
    static struct body body;
    const uint64_t dims[] = {N};
    const struct array a_scale = {GEMMD_F32, 2, {2, M}}, b_scale = {GEMMD_F32, 1, {N}},
                       none = {.rank = 0};
    struct gemm_request request, copy;
    struct gemm_operands operands;
    struct tensor scale;
    ck_assert(tensor_init(&scale, GEMMD_F32, dims, 1, NULL));
    set_resident_b(&request, "b=v&scales=rowcol&batch=2");
    ck_assert_int_eq(gemm_request_settle_resident_scales(&request, NULL, &scale, &fault), GEMMD_OK);
    ck_assert_uint_eq(request.resident_scales, GEMM_OPERAND_B_SCALE);
    copy = request;
    write_body(&body, &request, FORMAT_SAFETENSORS, &a_scale, &none);
    ck_assert_msg(gemm_request_bind(&request, FORMAT_SAFETENSORS, body.bytes, body.length,
                                    &operands, &fault) == GEMMD_OK,
                  "%s", fault.detail);
    assert_scale(&operands.a_scale, "2,3", 'c');
    ck_assert_uint_eq(operands.b_scale.rank, 0);
    write_body(&body, &copy, FORMAT_SAFETENSORS, &a_scale, &b_scale);
    ck_assert_int_eq(
        gemm_request_bind(&copy, FORMAT_SAFETENSORS, body.bytes, body.length, &operands, &fault),
        GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "b_scale");
    ck_assert_ptr_nonnull(strstr(fault.detail, "b_scale must be left out"));
}
END_TEST

START_TEST(the_body_can_hold_the_scale_of_a_resident_operand)
{
    static struct body body;
    const struct array a_scale = {GEMMD_F32, 2, {2, M}}, b_scale = {GEMMD_F32, 1, {N}};
    const struct tensor no_scale = {.rank = 0};
    struct gemm_request request;
    struct gemm_operands operands;
    set_resident_b(&request, "b=v&scales=rowcol&batch=2");
    ck_assert_int_eq(gemm_request_settle_resident_scales(&request, NULL, &no_scale, &fault),
                     GEMMD_OK);
    ck_assert_uint_eq(request.resident_scales, 0);
    write_body(&body, &request, FORMAT_SAFETENSORS, &a_scale, &b_scale);
    ck_assert_msg(gemm_request_bind(&request, FORMAT_SAFETENSORS, body.bytes, body.length,
                                    &operands, &fault) == GEMMD_OK,
                  "%s", fault.detail);
    assert_scale(&operands.a_scale, "2,3", 'c');
    assert_scale(&operands.b_scale, "260", 'd'); /* B is no batch, and neither are its scales */
}
END_TEST

START_TEST(the_scale_of_a_resident_operand_has_to_fit)
{
    const uint64_t a_dims[] = {M, K}, b_dims[] = {K, N}, wrong_dims[] = {5};
    struct gemm_request request;
    struct tensor a, b, scale;
    ck_assert(tensor_init(&a, GEMMD_F8_E4M3, a_dims, 2, NULL));
    ck_assert(tensor_init(&b, GEMMD_F8_E4M3, b_dims, 2, NULL));
    ck_assert(tensor_init(&scale, GEMMD_F32, wrong_dims, 1, NULL));
    ck_assert_int_eq(set(&request, "a=w&b=v&scales=rowcol", FORMAT_NPY), GEMMD_OK);
    ck_assert_int_eq(gemm_request_settle_residents(&request, &a, &b, &fault), GEMMD_OK);
    ck_assert_int_eq(gemm_request_settle_resident_scales(&request, &scale, NULL, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the scale of the resident A has the shape 5"));
    ck_assert_int_eq(gemm_request_settle_resident_scales(&request, NULL, &scale, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the scale of the resident B has the shape 5"));
    ck_assert_int_eq(set(&request, "a=w&b=v", FORMAT_NPY), GEMMD_OK);
    ck_assert_int_eq(gemm_request_settle_resident_scales(&request, &scale, NULL, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "scales");
    ck_assert_str_eq(fault.detail,
                     "the scale of the resident A has the shape 5, and scales is none; it "
                     "must be rowcol or block");
}
END_TEST

/* ---- raw bodies ---- */

/* The refusal of a raw body of another length. */
static const char *raw_refusal(const char *query, uint64_t bytes)
{
    struct gemm_request request;
    ck_assert_msg(set(&request, query, FORMAT_RAW) == GEMMD_OK, "%s", fault.detail);
    ck_assert_int_eq(gemm_request_check_raw_bytes(&request, bytes, &fault), GEMMD_ERR_MALFORMED);
    return fault.detail;
}

START_TEST(a_refusal_says_which_scales_may_be_missing)
{
    const uint64_t bare = M * K + K * N;
    const char *says = raw_refusal("m=3&n=260&k=130&dtype=f8_e4m3", bare + 4 * (M + N));
    ck_assert_ptr_nonnull(strstr(says, "is scales=rowcol missing"));
    ck_assert_ptr_null(strstr(says, "scales=block"));
    says = raw_refusal("m=3&n=260&k=130&dtype=f8_e4m3", bare + 4 * (M * 2 + 2 * 3));
    ck_assert_ptr_nonnull(strstr(says, "is scales=block missing"));
    says = raw_refusal("m=3&n=260&k=130&dtype=f8_e4m3&scales=block&beta=1", bare);
    ck_assert_ptr_nonnull(strstr(says, " and C0 and scales=block take "));
    ck_assert_ptr_null(strstr(says, "is scales="));
    says = raw_refusal("m=3&n=260&k=130&dtype=i8&scales=rowcol", bare + 4 * M);
    ck_assert_ptr_nonnull(strstr(says, "is b_scale missing"));
    /* Scales of whole numbers are no scales. */
    says = raw_refusal("m=3&n=260&k=130&dtype=i8", bare + 4 * (M + N));
    ck_assert_ptr_null(strstr(says, "is scales="));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gemm_bind_scales");
    tcase_add_loop_test(tests, scales_get_the_shape_that_the_request_says, 0,
                        (int)(sizeof right / sizeof right[0]));
    tcase_add_loop_test(tests, scales_that_do_not_fit_are_refused, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_test(tests, scales_that_have_not_arrived_have_a_shape);
    tcase_add_test(tests, scales_past_64_bits_are_too_large);
    tcase_add_test(tests, scales_beside_the_body_are_bound);
    tcase_add_test(tests, a_resident_operand_can_bring_its_scale);
    tcase_add_test(tests, the_body_can_hold_the_scale_of_a_resident_operand);
    tcase_add_test(tests, the_scale_of_a_resident_operand_has_to_fit);
    tcase_add_test(tests, a_refusal_says_which_scales_may_be_missing);
    Suite *suite = suite_create("gemm_bind_scales");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
