/* proto/gemm_scales.c: which types have scales, and which shapes scales can have. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/gemm_scales.h"

static struct fault fault;

static struct tensor tensor_of(enum gemmd_dtype dtype, uint32_t rank, uint64_t first,
                               uint64_t second, uint64_t third)
{
    const uint64_t dims[] = {first, second, third, 1};
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, dtype, dims, rank, NULL));
    return tensor;
}

START_TEST(each_kind_is_offered_for_its_types)
{
    static const struct {
        enum gemm_scales scales;
        enum gemmd_dtype dtype, out;
        bool offered;
    } cases[] = {
        {GEMM_SCALES_ROWCOL, GEMMD_F8_E4M3, GEMMD_BF16, true},
        {GEMM_SCALES_ROWCOL, GEMMD_I8, GEMMD_F32, true},
        {GEMM_SCALES_ROWCOL, GEMMD_I8, GEMMD_I32, false},
        {GEMM_SCALES_ROWCOL, GEMMD_F16, GEMMD_F32, false},
        {GEMM_SCALES_BLOCK, GEMMD_F8_E4M3, GEMMD_F16, true},
        {GEMM_SCALES_BLOCK, GEMMD_F8_E4M3, GEMMD_I32, false},
        {GEMM_SCALES_BLOCK, GEMMD_I8, GEMMD_F32, false},
        {GEMM_SCALES_NONE, GEMMD_F32, GEMMD_F32, true},
        {GEMM_SCALES_NONE, GEMMD_F32, GEMMD_I8, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(gemm_scales_offer(cases[i].scales, cases[i].dtype, cases[i].out) ==
                          cases[i].offered,
                      "case %zu", i);
}
END_TEST

START_TEST(sizes_of_1_do_not_matter)
{
    const struct tensor plain = tensor_of(GEMMD_F32, 2, 3, 5, 1);
    const struct tensor same = tensor_of(GEMMD_F32, 3, 3, 1, 5);
    const struct tensor behind = tensor_of(GEMMD_F32, 4, 3, 5, 1);
    const struct tensor shorter = tensor_of(GEMMD_F32, 1, 3, 1, 1);
    const struct tensor other = tensor_of(GEMMD_F32, 2, 3, 4, 1);
    ck_assert(gemm_scales_same_shape(&plain, &same));
    ck_assert(gemm_scales_same_shape(&behind, &plain));
    ck_assert(!gemm_scales_same_shape(&plain, &shorter));
    ck_assert(!gemm_scales_same_shape(&shorter, &plain));
    ck_assert(!gemm_scales_same_shape(&plain, &other));
}
END_TEST

START_TEST(the_scale_of_a_tensor_fits_its_shape)
{
    static const struct {
        enum gemmd_dtype dtype;
        uint32_t rank;
        uint64_t dims[3], scale[3];
        enum gemmd_error code;
    } cases[] = {
        {GEMMD_F8_E4M3, 2, {200, 300}, {200, 1, 1}, GEMMD_OK},
        {GEMMD_F8_E4M3, 2, {200, 300}, {300, 1, 1}, GEMMD_OK},
        {GEMMD_F8_E4M3, 2, {200, 300}, {2, 3, 1}, GEMMD_OK},
        {GEMMD_F8_E4M3, 2, {200, 300}, {200, 3, 1}, GEMMD_OK},
        {GEMMD_F8_E4M3, 2, {200, 300}, {2, 300, 1}, GEMMD_OK},
        {GEMMD_I8, 3, {4, 200, 300}, {4, 200, 1}, GEMMD_OK},
        {GEMMD_I8, 3, {4, 200, 300}, {200, 1, 1}, GEMMD_ERR_MALFORMED},
        {GEMMD_F8_E4M3, 2, {200, 300}, {3, 2, 1}, GEMMD_ERR_MALFORMED},
        {GEMMD_F8_E4M3, 1, {200, 1, 1}, {200, 1, 1}, GEMMD_ERR_MALFORMED},
        {GEMMD_F8_E4M3, 4, {2, 2, 2}, {2, 1, 1}, GEMMD_ERR_MALFORMED},
        {GEMMD_F16, 2, {200, 300}, {200, 1, 1}, GEMMD_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t *d = cases[i].dims, *s = cases[i].scale;
        const struct tensor tensor = tensor_of(cases[i].dtype, cases[i].rank, d[0], d[1], d[2]);
        struct tensor scale = tensor_of(GEMMD_F32, 3, s[0], s[1], s[2]);
        ck_assert_msg(gemm_scales_fit(&tensor, &scale, &fault) == cases[i].code, "case %zu", i);
        scale.dtype = GEMMD_F16;
        ck_assert_msg(gemm_scales_fit(&tensor, &scale, &fault) != GEMMD_OK, "case %zu", i);
    }
}
END_TEST

/* Scales of rows would have 2^64 bytes; scales of columns have 2^33. */
START_TEST(a_shape_past_64_bits_is_no_shape_of_a_scale)
{
    const uint64_t half = UINT64_C(1) << 31;
    const struct tensor tensor = tensor_of(GEMMD_F8_E4M3, 3, half, half, 1);
    const struct tensor columns = tensor_of(GEMMD_F32, 1, half, 1, 1);
    const struct tensor other = tensor_of(GEMMD_F32, 1, 3, 1, 1);
    ck_assert_int_eq(gemm_scales_fit(&tensor, &columns, &fault), GEMMD_OK);
    ck_assert_int_eq(gemm_scales_fit(&tensor, &other, &fault), GEMMD_ERR_MALFORMED);
}
END_TEST

START_TEST(scales_are_positive_and_finite)
{
    static const struct {
        float value;
        bool taken;
    } cases[] = {{1, true},  {FLT_MAX, true}, {FLT_MIN, true},   {FLT_TRUE_MIN, true},
                 {0, false}, {-1, false},     {INFINITY, false}, {NAN, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[1 + 2 * sizeof(float)]; /* a body has no alignment */
        const float one = 1;
        const uint64_t count = 2;
        struct tensor scales;
        memcpy(bytes + 1, &one, sizeof one);
        memcpy(bytes + 1 + sizeof one, &cases[i].value, sizeof one);
        ck_assert(tensor_init(&scales, GEMMD_F32, &count, 1, bytes + 1));
        const enum gemmd_error code = gemm_scales_check("a_scale", &scales, &fault);
        ck_assert_msg(code == (cases[i].taken ? GEMMD_OK : GEMMD_ERR_MALFORMED), "case %zu", i);
        if (cases[i].taken)
            continue;
        ck_assert_str_eq(fault.field, "a_scale");
        ck_assert_ptr_nonnull(strstr(fault.detail, "element 1 of a_scale"));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_scales");
    TCase *tests = tcase_create("gemm_scales");
    tcase_add_test(tests, each_kind_is_offered_for_its_types);
    tcase_add_test(tests, sizes_of_1_do_not_matter);
    tcase_add_test(tests, the_scale_of_a_tensor_fits_its_shape);
    tcase_add_test(tests, a_shape_past_64_bits_is_no_shape_of_a_scale);
    tcase_add_test(tests, scales_are_positive_and_finite);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
