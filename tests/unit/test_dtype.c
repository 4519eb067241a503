/* The element types and the table of what may become what. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/dtype.h"

START_TEST(names_name_one_type_each)
{
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT; i++) {
        enum gemmd_dtype dtype = (enum gemmd_dtype)i, found = GEMMD_DTYPE_COUNT;
        ck_assert(dtype_from_name(dtype_name(dtype), &found));
        ck_assert_uint_eq(found, dtype);
        ck_assert(dtype_from_safetensors(dtype_safetensors(dtype), &found));
        ck_assert_uint_eq(found, dtype);
        /* The descr ends in the size. */
        ck_assert_uint_eq((unsigned)(dtype_npy(dtype)[2] - '0'), dtype_size(dtype));
    }
}
END_TEST

START_TEST(other_names_are_none)
{
    static const char *const names[] = {"",         "F32", "f32 ", "f8",     "float32",
                                        "bfloat16", "u8",  "i16",  "f8_e5m2"};
    enum gemmd_dtype found = GEMMD_DTYPE_COUNT;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_msg(!dtype_from_name(names[i], &found), "took '%s'", names[i]);
    ck_assert(!dtype_from_safetensors("f32", &found));
    ck_assert(!dtype_from_safetensors("I64", &found));
    ck_assert(!dtype_from_safetensors("", &found));
    ck_assert_uint_eq(found, GEMMD_DTYPE_COUNT); /* left alone */
}
END_TEST

/* PROTOCOL.md's table. */
static const struct {
    enum gemmd_dtype dtype, accumulator, default_out;
    const char *outs;
} table[] = {
    {GEMMD_F64, GEMMD_F64, GEMMD_F64, "f64"},
    {GEMMD_F32, GEMMD_F32, GEMMD_F32, "f32 f16 bf16"},
    {GEMMD_F16, GEMMD_F32, GEMMD_F16, "f32 f16"},
    {GEMMD_BF16, GEMMD_F32, GEMMD_BF16, "f32 bf16"},
    {GEMMD_F8_E4M3, GEMMD_F32, GEMMD_BF16, "f32 f16 bf16"},
    {GEMMD_I8, GEMMD_I32, GEMMD_I32, "f32 i32"},
    {GEMMD_I32, GEMMD_I32, GEMMD_I32, ""},
};

START_TEST(results_follow_the_table)
{
    enum gemmd_dtype dtype = table[_i].dtype;
    char outs[64] = "";
    size_t length = 0;
    for (unsigned out = 0; out < GEMMD_DTYPE_COUNT; out++)
        if (dtype_offers_out(dtype, (enum gemmd_dtype)out))
            length += (size_t)snprintf(outs + length, sizeof outs - length, "%s%s",
                                       length > 0 ? " " : "", dtype_name((enum gemmd_dtype)out));
    ck_assert_str_eq(outs, table[_i].outs);
    ck_assert_uint_eq(dtype_accumulator(dtype), table[_i].accumulator);
    ck_assert_uint_eq(dtype_default_out(dtype), table[_i].default_out);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("dtype");
    tcase_add_test(tests, names_name_one_type_each);
    tcase_add_test(tests, other_names_are_none);
    tcase_add_loop_test(tests, results_follow_the_table, 0, GEMMD_DTYPE_COUNT);
    Suite *suite = suite_create("dtype");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
