/* Sizes that fit come out right; sizes that do not leave the output alone. */
#include <check.h>
#include <stdlib.h>

#include "proto/size.h"
#include "proto/size_text.h"

enum { UNTOUCHED = 77 };

START_TEST(products_and_sums)
{
    uint64_t out = UNTOUCHED;
    ck_assert(!size_mul(UINT64_MAX, 2, &out));
    ck_assert(!size_mul(1ull << 32, 1ull << 32, &out));
    ck_assert(!size_add(UINT64_MAX, 1, &out));
    ck_assert_uint_eq(out, UNTOUCHED);
    ck_assert(size_mul(UINT64_MAX, 1, &out));
    ck_assert_uint_eq(out, UINT64_MAX);
    ck_assert(size_mul(UINT64_MAX, 0, &out));
    ck_assert_uint_eq(out, 0);
    ck_assert(size_add(UINT64_MAX - 1, 1, &out));
    ck_assert_uint_eq(out, UINT64_MAX);
}
END_TEST

START_TEST(alignment)
{
    uint64_t out = UNTOUCHED;
    ck_assert(!size_align(UINT64_MAX, 4096, &out));
    ck_assert(!size_align(UINT64_MAX - 4094, 4096, &out));
    ck_assert_uint_eq(out, UNTOUCHED);
    ck_assert(size_align(UINT64_MAX - 4095, 4096, &out));
    ck_assert_uint_eq(out, UINT64_MAX - 4095);
    for (uint64_t value = 0; value < 600; value++) {
        ck_assert(size_align(value, 256, &out));
        ck_assert_uint_eq(out % 256, 0);
        ck_assert_uint_ge(out, value);
        ck_assert_uint_lt(out - value, 256);
    }
}
END_TEST

START_TEST(blocks)
{
    ck_assert_uint_eq(size_blocks(0, 32), 0);
    ck_assert_uint_eq(size_blocks(1, 32), 1);
    ck_assert_uint_eq(size_blocks(32, 32), 1);
    ck_assert_uint_eq(size_blocks(33, 32), 2);
    ck_assert_uint_eq(size_blocks(UINT64_MAX, 1), UINT64_MAX);
    ck_assert_uint_eq(size_blocks(UINT64_MAX, UINT64_MAX), 1);
}
END_TEST

START_TEST(tensors)
{
    const uint64_t dims[] = {2147483647, 2147483647, 2147483647};
    const uint64_t half[] = {1ull << 62, 2};
    uint64_t out = UNTOUCHED;
    ck_assert(!size_product(dims, 3, &out));
    ck_assert(!size_tensor_bytes(GEMMD_F32, dims, 2, &out)); /* fits in 64 bits, not in 63 */
    ck_assert(!size_tensor_bytes(GEMMD_I8, half, 2, &out));  /* 2^63 */
    ck_assert(!size_tensor_bytes(GEMMD_F64, half, 1, &out));
    ck_assert_uint_eq(out, UNTOUCHED);
    ck_assert(size_tensor_bytes(GEMMD_BF16, dims, 2, &out));
    ck_assert_uint_eq(out, 2 * dims[0] * dims[0]);
    ck_assert(size_product(NULL, 0, &out));
    ck_assert_uint_eq(out, 1);
    ck_assert(size_tensor_bytes(GEMMD_F64, NULL, 0, &out)); /* a scalar */
    ck_assert_uint_eq(out, 8);
}
END_TEST

START_TEST(narrowing)
{
    int32_t out = UNTOUCHED;
    ck_assert(!size_to_i32(2147483648u, &out));
    ck_assert(!size_to_i32(UINT64_MAX, &out));
    ck_assert_int_eq(out, UNTOUCHED);
    ck_assert(size_to_i32(2147483647u, &out));
    ck_assert_int_eq(out, 2147483647);
}
END_TEST

START_TEST(sizes_in_units)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 bytes"},
        {1, "1 byte"},
        {1023, "1023 bytes"},
        {1024, "1 KiB"},
        {1025, "1.00 KiB (1025 bytes)"},
        {UINT64_C(512) << 20, "512 MiB"},
        {UINT64_C(80000000000), "74.5 GiB (80000000000 bytes)"},
        {UINT64_C(1) << 63, "8 EiB"},
        {UINT64_MAX, "16.0 EiB (18446744073709551615 bytes)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(size_text(cases[i].bytes).text, cases[i].text);
    ck_assert_str_eq(size_work_text(12).text, "12 FLOP");
    ck_assert_str_eq(size_work_text(1e15).text, "1 PFLOP");
    ck_assert_str_eq(size_work_text(1020000).text, "1.02 MFLOP");
    ck_assert_str_eq(size_work_text(1e28).text, "1e+10 EFLOP");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("size");
    tcase_add_test(tests, products_and_sums);
    tcase_add_test(tests, alignment);
    tcase_add_test(tests, blocks);
    tcase_add_test(tests, tensors);
    tcase_add_test(tests, sizes_in_units);
    tcase_add_test(tests, narrowing);
    Suite *suite = suite_create("size");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
