/* proto/tensor_request.c: the parameters of PUT /tensors/{name}, and the tensor in its body. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/safetensors.h"
#include "proto/tensor_request.h"

enum { BODY_MAX = 4096 };

static struct fault fault;

static enum gemmd_error set_all(struct tensor_request *request, const char *query)
{
    char text[256], *rest = text;
    enum gemmd_error code = GEMMD_OK;
    tensor_request_init(request);
    snprintf(text, sizeof text, "%s", query);
    for (char *pair = strsep(&rest, "&"); pair != NULL && code == GEMMD_OK;
         pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        if (name[0] != '\0')
            code = parameter_set(&tensor_parameter_table, request, name, pair == NULL ? "" : pair,
                                 &fault);
    }
    return code;
}

START_TEST(parameters_are_read)
{
    struct tensor_request request;
    ck_assert_int_eq(set_all(&request, ""), GEMMD_OK);
    ck_assert_uint_eq(request.dtype, GEMMD_F32);
    ck_assert_uint_eq(request.shape.rank, 0);
    ck_assert(!request.evictable);
    ck_assert_int_eq(set_all(&request, "dtype=i32&shape=2147483647,1,2,3,4,5,6,7&evictable=1"),
                     GEMMD_OK);
    ck_assert_uint_eq(request.dtype, GEMMD_I32);
    ck_assert_uint_eq(request.shape.rank, 8);
    ck_assert_uint_eq(request.shape.dims[0], 2147483647);
    ck_assert_uint_eq(request.shape.dims[7], 7);
    ck_assert(request.evictable);
    ck_assert(!request.replicate);
    ck_assert_int_eq(set_all(&request, "replicate=one"), GEMMD_OK);
    ck_assert(!request.replicate);
    ck_assert_int_eq(set_all(&request, "replicate=all"), GEMMD_OK);
    ck_assert(request.replicate);
    ck_assert(!request.contiguous);
    ck_assert_int_eq(set_all(&request, "contiguous=1"), GEMMD_OK);
    ck_assert(request.contiguous);
}
END_TEST

/* The word that was meant is named: 1 for a yes, 0 for a no. */
START_TEST(words_for_flags_are_understood)
{
    static const struct {
        const char *query, *meant;
    } words[] = {{"evictable=yes", "did you mean 1?"},
                 {"evictable=TRUE", "did you mean 1?"},
                 {"evictable=off", "did you mean 0?"},
                 {"evictable=n", "did you mean 0?"}};
    struct tensor_request request;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ck_assert_int_eq(set_all(&request, words[i].query), GEMMD_ERR_MALFORMED);
        ck_assert_msg(strstr(fault.detail, words[i].meant) != NULL, "%s: %s", words[i].query,
                      fault.detail);
    }
    ck_assert_int_eq(set_all(&request, "evictable=maybe"), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_null(strstr(fault.detail, "did you mean"));
}
END_TEST

static const struct {
    const char *query, *field;
} bad[] = {
    {"m=1", "m"},
    {"dtype=f33", "dtype"},
    {"dtype=", "dtype"},
    {"dtype=f32&dtype=f32", "dtype"},
    {"shape=", "shape"},
    {"shape=0", "shape"},
    {"shape=2,", "shape"},
    {"shape=,2", "shape"},
    {"shape=2,,2", "shape"},
    {"shape=2 2", "shape"},
    {"shape=-1", "shape"},
    {"shape=2147483648", "shape"},
    {"shape=18446744073709551617", "shape"},
    {"shape=000000000000000000000000000000000000000000000000002", "shape"},
    {"shape=1,1,1,1,1,1,1,1,1", "shape"},
    {"shape=2x2", "shape"},
    {"shape=2&shape=2", "shape"},
    {"evictable=yes", "evictable"},
    {"evictable=1&evictable=0", "evictable"},
    {"evictable=0&evictable=0", "evictable"},
    {"evictable=off", "evictable"},
    {"replicate=two", "replicate"},
    {"replicate=one&replicate=one", "replicate"},
    {"contiguous=yes", "contiguous"},
    {"contiguous=1&contiguous=1", "contiguous"},
};

START_TEST(bad_parameters_are_named)
{
    struct tensor_request request;
    ck_assert_msg(set_all(&request, bad[_i].query) == GEMMD_ERR_MALFORMED, "%s", bad[_i].query);
    ck_assert_str_eq(fault.field, bad[_i].field);
}
END_TEST

START_TEST(names)
{
    char longest[130];
    memset(longest, 'x', sizeof longest);
    longest[128] = '\0';
    ck_assert(tensor_name_valid("a"));
    ck_assert(tensor_name_valid("A-z_0.9"));
    ck_assert(tensor_name_valid(longest));
    longest[128] = 'x';
    longest[129] = '\0';
    ck_assert(!tensor_name_valid(longest));
    static const char *const wrong[] = {"", " ", "a b", "a/b", "\xc3\xa9", "a\n", "a+b", "a%20"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(!tensor_name_valid(wrong[i]), "%s", wrong[i]);
}
END_TEST

/* --- bodies --- */

struct body {
    char bytes[BODY_MAX];
    uint64_t header, length;
};

static void make(struct body *body, enum format format, enum gemmd_dtype dtype,
                 const uint64_t *dims, uint32_t rank, bool fortran)
{
    struct safetensors_entry entry = {.name = "weights"};
    ck_assert(tensor_init(&entry.tensor, dtype, dims, rank, NULL));
    entry.tensor.fortran = fortran;
    body->header = 0;
    if (format == FORMAT_NPY)
        body->header = npy_header(&entry.tensor, body->bytes);
    if (format == FORMAT_SAFETENSORS)
        body->header = safetensors_header(&entry, 1, body->bytes);
    body->length = body->header + entry.tensor.bytes;
    memset(body->bytes + body->header, 7, entry.tensor.bytes);
}

static enum gemmd_error find(const char *query, enum format format, const struct body *body,
                             uint64_t length, uint64_t total, struct tensor *tensor)
{
    struct tensor_request request;
    ck_assert_int_eq(set_all(&request, query), GEMMD_OK);
    ck_assert_int_eq(tensor_request_check(&request, format, &fault), GEMMD_OK);
    struct tensor scale;
    return tensor_request_find(&request, format, body->bytes, length, total, tensor, &scale,
                               &fault);
}

static const struct {
    enum format format;
    const char *query;
} formats[] = {
    {FORMAT_RAW, "dtype=bf16&shape=2,3,4"},         {FORMAT_NPY, ""},
    {FORMAT_NPY, "dtype=bf16&shape=2,3,4"},         {FORMAT_SAFETENSORS, ""},
    {FORMAT_SAFETENSORS, "dtype=bf16&shape=2,3,4"},
};

/* As soon as the header is there, and not before. */
START_TEST(the_tensor_is_found_while_the_body_arrives)
{
    static struct body body;
    const uint64_t dims[] = {2, 3, 4};
    const enum format format = formats[_i].format;
    make(&body, format, GEMMD_BF16, dims, 3, false);
    for (uint64_t length = 0; length <= body.length; length++) {
        struct tensor tensor;
        enum gemmd_error code =
            find(formats[_i].query, format, &body, length, body.length, &tensor);
        if (length < body.header) {
            ck_assert_int_eq(code, GEMMD_ERR_CONFLICT);
            continue;
        }
        ck_assert_msg(code == GEMMD_OK, "%lu: %s", (unsigned long)length, fault.detail);
        ck_assert_ptr_eq(tensor.data, body.bytes + body.header);
        ck_assert_uint_eq(tensor.dtype, GEMMD_BF16);
        ck_assert_uint_eq(tensor.rank, 3);
        ck_assert_uint_eq(tensor.dims[1], 3);
        ck_assert_uint_eq(tensor.bytes, 48);
    }
}
END_TEST

START_TEST(a_body_of_another_length_is_refused_at_its_header)
{
    static struct body body;
    const uint64_t dims[] = {2, 3, 4};
    struct tensor tensor;
    const enum format format = formats[_i].format;
    make(&body, format, GEMMD_BF16, dims, 3, false);
    ck_assert_int_eq(find(formats[_i].query, format, &body, body.header, body.length + 1, &tensor),
                     GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(find(formats[_i].query, format, &body, body.header, body.length - 1, &tensor),
                     GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(
        find(formats[_i].query, format, &body, body.length - 1, body.length - 1, &tensor),
        GEMMD_ERR_MALFORMED);
}
END_TEST

START_TEST(a_body_that_ends_in_its_header_is_malformed)
{
    static struct body body;
    const uint64_t dims[] = {2, 3, 4};
    struct tensor tensor;
    make(&body, FORMAT_NPY, GEMMD_BF16, dims, 3, false);
    ck_assert_int_eq(find("", FORMAT_NPY, &body, 9, 9, &tensor), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(find("", FORMAT_NPY, &body, 0, 0, &tensor), GEMMD_ERR_MALFORMED);
    make(&body, FORMAT_SAFETENSORS, GEMMD_BF16, dims, 3, false);
    ck_assert_int_eq(find("", FORMAT_SAFETENSORS, &body, 9, 9, &tensor), GEMMD_ERR_MALFORMED);
}
END_TEST

START_TEST(contradictions_are_refused)
{
    static struct body body;
    const uint64_t dims[] = {2, 3}, large[] = {1, UINT64_C(1) << 31};
    struct tensor tensor;
    for (enum format format = FORMAT_NPY; format <= FORMAT_SAFETENSORS; format++) {
        make(&body, format, GEMMD_F16, dims, 2, false);
        ck_assert_int_eq(find("shape=3,2", format, &body, body.length, body.length, &tensor),
                         GEMMD_ERR_MALFORMED);
        ck_assert_str_eq(fault.field, "shape");
        ck_assert_int_eq(find("shape=2,3,1", format, &body, body.length, body.length, &tensor),
                         GEMMD_ERR_MALFORMED);
        ck_assert_int_eq(find("dtype=f32", format, &body, body.length, body.length, &tensor),
                         GEMMD_ERR_MALFORMED);
        ck_assert_str_eq(fault.field, "dtype");
        make(&body, format, GEMMD_F16, NULL, 0, false);
        ck_assert_int_eq(find("", format, &body, body.length, body.length, &tensor),
                         GEMMD_ERR_MALFORMED);
    }
    make(&body, FORMAT_NPY, GEMMD_F16, (uint64_t[]){2, 0}, 2, false);
    ck_assert_int_eq(find("", FORMAT_NPY, &body, body.length, body.length, &tensor),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "shape");
    struct body *header = &body;
    struct tensor view;
    ck_assert(tensor_init(&view, GEMMD_I8, large, 2, NULL));
    header->header = npy_header(&view, header->bytes);
    ck_assert_int_eq(
        find("", FORMAT_NPY, header, header->header, header->header + large[1], &tensor),
        GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "shape");
}
END_TEST

START_TEST(two_tensors_are_one_too_many)
{
    static char bytes[BODY_MAX];
    struct safetensors_entry entries[2] = {{.name = "a"}, {.name = "b"}};
    const uint64_t one = 1;
    struct tensor_request request;
    struct tensor tensor, scale;
    for (int i = 0; i < 2; i++)
        ck_assert(tensor_init(&entries[i].tensor, GEMMD_F32, &one, 1, NULL));
    const uint64_t length = safetensors_header(entries, 2, bytes) + 8;
    tensor_request_init(&request);
    ck_assert_int_eq(tensor_request_find(&request, FORMAT_SAFETENSORS, bytes, length, length,
                                         &tensor, &scale, &fault),
                     GEMMD_ERR_MALFORMED);
    const uint64_t none = safetensors_header(entries, 0, bytes);
    ck_assert_int_eq(tensor_request_find(&request, FORMAT_SAFETENSORS, bytes, none, none, &tensor,
                                         &scale, &fault),
                     GEMMD_ERR_MALFORMED);
}
END_TEST

/* A tensor of 3 x 200 and scales of a shape, in a body with these names. */
static enum gemmd_error find_scaled(enum gemmd_dtype dtype, enum gemmd_dtype scale_dtype,
                                    const uint64_t *shape, uint32_t rank, const char *name,
                                    struct tensor *tensor, struct tensor *scale)
{
    static char bytes[BODY_MAX];
    static const uint64_t dims[] = {3, 200};
    struct safetensors_entry entries[2] = {{.name = "tensor"}};
    struct tensor_request request;
    snprintf(entries[1].name, sizeof entries[1].name, "%s", name);
    ck_assert(tensor_init(&entries[0].tensor, dtype, dims, 2, NULL));
    ck_assert(tensor_init(&entries[1].tensor, scale_dtype, shape, rank, NULL));
    const uint64_t length =
        safetensors_header(entries, 2, bytes) + entries[0].tensor.bytes + entries[1].tensor.bytes;
    ck_assert_uint_le(length, BODY_MAX);
    tensor_request_init(&request);
    return tensor_request_find(&request, FORMAT_SAFETENSORS, bytes, length, length, tensor, scale,
                               &fault);
}

/* A writer may put the names of a safetensors header in any order. */
START_TEST(the_scale_may_come_before_the_tensor)
{
    static char bytes[BODY_MAX];
    static const uint64_t dims[] = {3, 200};
    struct safetensors_entry entries[2] = {{.name = "scale"}, {.name = "tensor"}};
    struct tensor_request request;
    struct tensor tensor, scale;
    ck_assert(tensor_init(&entries[0].tensor, GEMMD_F32, dims, 1, NULL));
    ck_assert(tensor_init(&entries[1].tensor, GEMMD_F8_E4M3, dims, 2, NULL));
    const uint64_t header = safetensors_header(entries, 2, bytes);
    const uint64_t length = header + entries[0].tensor.bytes + entries[1].tensor.bytes;
    tensor_request_init(&request);
    ck_assert_int_eq(tensor_request_find(&request, FORMAT_SAFETENSORS, bytes, length, length,
                                         &tensor, &scale, &fault),
                     GEMMD_OK);
    ck_assert_uint_eq(tensor.rank, 2);
    ck_assert_int_eq(tensor.dtype, GEMMD_F8_E4M3);
    ck_assert_uint_eq(scale.rank, 1);
    ck_assert_ptr_eq(scale.data, bytes + header);
    ck_assert_ptr_eq(tensor.data, bytes + header + scale.bytes);
}
END_TEST

START_TEST(a_tensor_may_have_scales)
{
    static const uint64_t fit[][2] = {{3, 1}, {1, 200}, {3, 2}, {1, 2}};
    static const uint64_t unfit[][2] = {{2, 3}, {200, 3}, {1, 128}, {3, 3}};
    struct tensor tensor, scale;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(find_scaled(GEMMD_F8_E4M3, GEMMD_F32, fit[i], 2, "scale", &tensor, &scale),
                         GEMMD_OK);
        ck_assert_int_eq(tensor.dtype, GEMMD_F8_E4M3);
        ck_assert_uint_eq(scale.bytes, 4 * fit[i][0] * fit[i][1]);
        ck_assert_ptr_eq(scale.data, (const char *)tensor.data + tensor.bytes);
        ck_assert_int_eq(
            find_scaled(GEMMD_F8_E4M3, GEMMD_F32, unfit[i], 2, "scale", &tensor, &scale),
            GEMMD_ERR_MALFORMED);
        ck_assert_str_eq(fault.field, "scale");
    }
    ck_assert_int_eq(find_scaled(GEMMD_I8, GEMMD_F32, fit[0], 1, "scale", &tensor, &scale),
                     GEMMD_OK);
    ck_assert_int_eq(find_scaled(GEMMD_F8_E4M3, GEMMD_F16, fit[0], 2, "scale", &tensor, &scale),
                     GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(find_scaled(GEMMD_F8_E4M3, GEMMD_F32, fit[0], 0, "scale", &tensor, &scale),
                     GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(find_scaled(GEMMD_F8_E4M3, GEMMD_F32, fit[0], 2, "scales", &tensor, &scale),
                     GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(find_scaled(GEMMD_F16, GEMMD_F32, fit[0], 2, "scale", &tensor, &scale),
                     GEMMD_ERR_UNSUPPORTED);
}
END_TEST

START_TEST(column_major_arrays_say_so)
{
    static struct body body;
    const uint64_t dims[] = {2, 3};
    struct tensor tensor;
    make(&body, FORMAT_NPY, GEMMD_F32, dims, 2, true);
    ck_assert_int_eq(find("", FORMAT_NPY, &body, body.header, body.length, &tensor), GEMMD_OK);
    ck_assert(tensor.fortran);
}
END_TEST

START_TEST(raw_bodies_need_a_shape)
{
    struct tensor_request request;
    tensor_request_init(&request);
    ck_assert_int_eq(tensor_request_check(&request, FORMAT_RAW, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "shape");
    ck_assert_int_eq(tensor_request_check(&request, FORMAT_NPY, &fault), GEMMD_OK);
    ck_assert_int_eq(set_all(&request, "dtype=f64&shape=2147483647,2147483647,8"), GEMMD_OK);
    struct tensor tensor, scale;
    ck_assert_int_eq(tensor_request_find(&request, FORMAT_RAW, "", 0, 8, &tensor, &scale, &fault),
                     GEMMD_ERR_TOO_LARGE);
}
END_TEST

START_TEST(raw_bodies_have_a_length_before_they_are_there)
{
    struct tensor_request request;
    uint64_t bytes;
    ck_assert_int_eq(set_all(&request, "dtype=f64&shape=3,5"), GEMMD_OK);
    ck_assert(tensor_request_raw_bytes(&request, &bytes));
    ck_assert_uint_eq(bytes, 120);
    ck_assert_int_eq(set_all(&request, "dtype=f64&shape=2147483647,2147483647,8"), GEMMD_OK);
    ck_assert(!tensor_request_raw_bytes(&request, &bytes));
}
END_TEST

/* The type that a body's length suggests is named, and one that makes the tensor too large is not.
 */
START_TEST(the_type_of_a_raw_body_is_guessed)
{
    static const struct body body = {.length = 120};
    struct tensor tensor;
    ck_assert_int_eq(find("shape=3,5", FORMAT_RAW, &body, 0, 120, &tensor), GEMMD_ERR_MALFORMED);
    ck_assert_msg(strstr(fault.detail, "f64") != NULL, "%s", fault.detail);
    ck_assert_int_eq(
        find("dtype=i8&shape=2147483647,2147483647", FORMAT_RAW, &body, 0, 120, &tensor),
        GEMMD_ERR_MALFORMED);
    ck_assert_ptr_null(strchr(fault.detail, '?'));
}
END_TEST

int main(void)
{
    const int format_count = sizeof formats / sizeof formats[0];
    TCase *tests = tcase_create("tensor_request");
    tcase_add_test(tests, parameters_are_read);
    tcase_add_loop_test(tests, bad_parameters_are_named, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tests, words_for_flags_are_understood);
    tcase_add_test(tests, names);
    tcase_add_loop_test(tests, the_tensor_is_found_while_the_body_arrives, 0, format_count);
    tcase_add_loop_test(tests, a_body_of_another_length_is_refused_at_its_header, 0, format_count);
    tcase_add_test(tests, a_body_that_ends_in_its_header_is_malformed);
    tcase_add_test(tests, contradictions_are_refused);
    tcase_add_test(tests, two_tensors_are_one_too_many);
    tcase_add_test(tests, the_scale_may_come_before_the_tensor);
    tcase_add_test(tests, a_tensor_may_have_scales);
    tcase_add_test(tests, column_major_arrays_say_so);
    tcase_add_test(tests, raw_bodies_need_a_shape);
    tcase_add_test(tests, raw_bodies_have_a_length_before_they_are_there);
    tcase_add_test(tests, the_type_of_a_raw_body_is_guessed);
    Suite *suite = suite_create("tensor_request");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
