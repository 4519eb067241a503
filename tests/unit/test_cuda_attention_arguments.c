/* kernels/cuda/attention/arguments.h: a problem as the fast attention kernels get it. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/cuda/attention/arguments.h"

static struct attention_problem problem_of(float scale, float softcap)
{
    struct attention_problem p = {.dtype = GEMMD_BF16,
                                  .batch = 2,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .sq = 100,
                                  .skv = 300,
                                  .d = 64,
                                  .dv = 48,
                                  .scale = scale,
                                  .softcap = softcap};
    p.q_strides = attention_strides(ATTENTION_BHSD, p.heads, p.sq, p.d);
    p.k_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.d);
    p.v_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.dv);
    p.o_strides = attention_strides(ATTENTION_BHSD, p.heads, p.sq, p.dv);
    return p;
}

static struct attention_arguments arguments_of(const struct attention_problem *p)
{
    struct attention_arguments a;
    attention_arguments_fill(p, &a);
    return a;
}

START_TEST(test_usual_scale_goes_into_the_exponent)
{
    const struct attention_problem p = problem_of(0.125f, 0);
    const struct attention_arguments a = arguments_of(&p);
    ck_assert(!a.general);
    ck_assert_float_lt(fabsf(a.exponent_of_score - 0.125f * 1.44269504f), 1e-7f);
}
END_TEST

/* A scale that turns the order of scores round, or makes them equal, cannot be applied after the
 * largest was found. */
START_TEST(test_unusual_scale_goes_into_the_scores)
{
    const float scales[] = {-0.125f, 0, 1e-38f, 1e38f};
    const struct attention_problem p = problem_of(scales[_i], 0);
    const struct attention_arguments a = arguments_of(&p);
    ck_assert(a.general);
    ck_assert_float_lt(fabsf(a.exponent_of_score - 1.44269504f), 1e-6f);
}
END_TEST

START_TEST(test_cap_goes_into_the_scores)
{
    const struct attention_problem p = problem_of(0.5f, 20);
    const struct attention_arguments a = arguments_of(&p);
    ck_assert(a.general);
    ck_assert_float_lt(fabsf(a.scale_of_cap - 0.025f), 1e-7f);
}
END_TEST

START_TEST(test_no_window_reaches_beyond_every_key)
{
    const struct attention_problem p = problem_of(1, 0);
    ck_assert_uint_eq(arguments_of(&p).window, 400);
}
END_TEST

START_TEST(test_window_beyond_32_bits_is_as_none)
{
    struct attention_problem p = problem_of(1, 0);
    p.windowed = true;
    p.window = UINT64_MAX;
    ck_assert_uint_eq(arguments_of(&p).window, 400);
}
END_TEST

START_TEST(test_heads_share_keys_in_groups)
{
    const struct attention_problem p = problem_of(1, 0);
    ck_assert_uint_eq(arguments_of(&p).group, 3);
}
END_TEST

START_TEST(test_pieces_of_o_need_aligned_rows)
{
    struct attention_problem p = problem_of(1, 0);
    static _Alignas(16) unsigned char memory[32];
    p.o = memory;
    ck_assert(arguments_of(&p).o_pieces);
    p.o_strides.row = 49;
    ck_assert(!arguments_of(&p).o_pieces);
}
END_TEST

START_TEST(test_pieces_of_o_need_an_aligned_start)
{
    struct attention_problem p = problem_of(1, 0);
    static _Alignas(16) unsigned char memory[32];
    p.o = memory + 2;
    ck_assert(!arguments_of(&p).o_pieces);
}
END_TEST

START_TEST(test_lengths_beyond_32_bits_do_not_fit)
{
    struct attention_problem p = problem_of(1, 0);
    ck_assert(attention_arguments_fit(&p));
    p.skv = UINT64_C(1) << 31;
    ck_assert(!attention_arguments_fit(&p));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_attention_arguments");
    TCase *tests = tcase_create("fill");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_usual_scale_goes_into_the_exponent);
    tcase_add_loop_test(tests, test_unusual_scale_goes_into_the_scores, 0, 4);
    tcase_add_test(tests, test_cap_goes_into_the_scores);
    tcase_add_test(tests, test_no_window_reaches_beyond_every_key);
    tcase_add_test(tests, test_window_beyond_32_bits_is_as_none);
    tcase_add_test(tests, test_heads_share_keys_in_groups);
    tcase_add_test(tests, test_pieces_of_o_need_aligned_rows);
    tcase_add_test(tests, test_pieces_of_o_need_an_aligned_start);
    tcase_add_test(tests, test_lengths_beyond_32_bits_do_not_fit);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
