/* Views, media types, and the copy that puts column-major tensors into row-major order. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/tensor.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

START_TEST(media_types)
{
    static const struct {
        const char *text;
        enum format format;
    } taken[] = {{"application/octet-stream", FORMAT_RAW},
                 {"application/x-www-form-urlencoded", FORMAT_RAW},
                 {"Application/X-NPY", FORMAT_NPY},
                 {"application/x-npy;version=1", FORMAT_NPY},
                 {" application/vnd.safetensors ; charset=x", FORMAT_SAFETENSORS}};
    enum format format = FORMAT_RAW;
    for (size_t i = 0; i < COUNT(taken); i++)
        ck_assert_msg(format_from_media_type(taken[i].text, &format) && format == taken[i].format,
                      "'%s'", taken[i].text);
    static const char *const refused[] = {"",
                                          ";",
                                          "application",
                                          "application/json",
                                          "application/x-npy2",
                                          "application/x-np",
                                          "application/x-npy, text/plain",
                                          "application/x-npy text",
                                          "*/*"};
    for (size_t i = 0; i < COUNT(refused); i++)
        ck_assert_msg(!format_from_media_type(refused[i], &format), "took '%s'", refused[i]);
    for (int i = FORMAT_RAW; i <= FORMAT_SAFETENSORS; i++) {
        ck_assert(format_from_media_type(format_media_type((enum format)i), &format));
        ck_assert_int_eq((int)format, i);
    }
}
END_TEST

START_TEST(views_know_their_size)
{
    uint64_t dims[TENSOR_MAX_RANK + 1] = {3, 5, 7, 1, 1, 1, 1, 1, 1};
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, GEMMD_BF16, dims, 3, dims));
    ck_assert_uint_eq(tensor.bytes, 3ul * 5 * 7 * 2);
    ck_assert_ptr_eq(tensor.data, dims);
    ck_assert(!tensor.fortran);
    ck_assert(tensor_init(&tensor, GEMMD_BF16, tensor.dims, 2, NULL)); /* from its own dims */
    ck_assert_uint_eq(tensor.dims[1], 5);
    ck_assert(!tensor_init(&tensor, GEMMD_I8, dims, TENSOR_MAX_RANK + 1, NULL));
    dims[0] = dims[1] = 1ull << 32;
    ck_assert(!tensor_init(&tensor, GEMMD_I8, dims, 2, NULL));
    ck_assert_uint_eq(tensor.rank, 2); /* left alone */
    ck_assert_uint_eq(tensor.dims[0], 3);
}
END_TEST

START_TEST(shapes_as_text)
{
    const uint64_t dims[] = {64, 128, 1};
    struct tensor tensor;
    char text[16];
    ck_assert(tensor_init(&tensor, GEMMD_I8, dims, 3, NULL));
    tensor_shape_text(&tensor, text, sizeof text);
    ck_assert_str_eq(text, "64,128,1");
    tensor_shape_text(&tensor, text, 6);
    ck_assert_str_eq(text, "64,12");
    tensor_shape_text(&tensor, text, 1);
    ck_assert_str_eq(text, "");
    tensor_shape_text(&tensor, NULL, 0);
    ck_assert(tensor_init(&tensor, GEMMD_I8, NULL, 0, NULL));
    tensor_shape_text(&tensor, text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

static const struct {
    uint32_t rank;
    uint64_t dims[5];
} shapes[] = {
    {0, {0}},         {1, {9}},          {2, {1, 1}},         {2, {1, 7}},    {2, {7, 1}},
    {2, {31, 33}},    {2, {64, 32}},     {2, {0, 5}},         {3, {3, 2, 5}}, {3, {1, 35, 70}},
    {3, {40, 1, 41}}, {4, {2, 3, 4, 5}}, {5, {2, 3, 1, 4, 2}}};

/* The element of row-major number `index`, found in a column-major tensor by its definition. */
static uint64_t column_major_place(const struct tensor *tensor, uint64_t index)
{
    uint64_t coordinates[TENSOR_MAX_RANK] = {0}, place = 0;
    for (uint32_t d = tensor->rank; d > 0; d--) {
        coordinates[d - 1] = index % tensor->dims[d - 1];
        index /= tensor->dims[d - 1];
    }
    for (uint32_t d = tensor->rank; d > 0; d--)
        place = place * tensor->dims[d - 1] + coordinates[d - 1];
    return place;
}

START_TEST(column_major_is_copied_to_row_major)
{
    static const enum gemmd_dtype dtypes[] = {GEMMD_I8, GEMMD_F16, GEMMD_F32, GEMMD_F64};
    for (size_t type = 0; type < COUNT(dtypes); type++) {
        struct tensor tensor;
        ck_assert(tensor_init(&tensor, dtypes[type], shapes[_i].dims, shapes[_i].rank, NULL));
        const uint64_t size = dtype_size(dtypes[type]);
        unsigned char *source = malloc(tensor.bytes + 1), *out = malloc(tensor.bytes + 1);
        for (uint64_t i = 0; i < tensor.bytes; i++)
            source[i] = (unsigned char)(i * 2654435761u >> 13);
        memset(out, 0xEE, tensor.bytes + 1);
        tensor.data = source;
        tensor.fortran = true;
        tensor_copy_row_major(&tensor, out);
        for (uint64_t i = 0; i < tensor.bytes / size; i++)
            ck_assert_mem_eq(out + i * size, source + column_major_place(&tensor, i) * size, size);
        ck_assert_uint_eq(out[tensor.bytes], 0xEE);
        tensor.fortran = false;
        tensor_copy_row_major(&tensor, out);
        ck_assert_mem_eq(out, source, tensor.bytes);
        free(source);
        free(out);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tensor");
    tcase_add_test(tests, media_types);
    tcase_add_test(tests, views_know_their_size);
    tcase_add_test(tests, shapes_as_text);
    tcase_add_loop_test(tests, column_major_is_copied_to_row_major, 0, COUNT(shapes));
    Suite *suite = suite_create("tensor");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
