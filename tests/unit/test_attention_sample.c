/* tests/product/attention_sample.c: which lse is taken for right. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "tests/product/attention_sample.h"

/* One row of one number in f32, seen to be right: O and lse are the exact ones, rounded. */
static struct attention_sample right_sample(uint64_t skv, float scale)
{
    static float present;
    const struct attention_problem like = {.dtype = GEMMD_F32,
                                           .batch = 1,
                                           .heads = 1,
                                           .kv_heads = 1,
                                           .sq = 1,
                                           .skv = skv,
                                           .d = 1,
                                           .dv = 1,
                                           .scale = scale,
                                           .lse = &present};
    struct attention_sample sample;
    ck_assert(attention_sample_create(&sample, &like, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, skv));
    *(float *)sample.problem.o = (float)sample.exact[0];
    *sample.problem.lse = (float)sample.exact_lse[0];
    return sample;
}

static bool is_right(const struct attention_sample *sample)
{
    char why[512];
    return attention_sample_check(sample, NULL, why, sizeof why);
}

static const uint64_t lengths[] = {1, 2, 300, 8192};
static const float scales[] = {0.125f, 1.5f};
enum { CASES = 8 };

START_TEST(an_lse_a_unit_off_is_right)
{
    struct attention_sample sample = right_sample(lengths[_i % 4], scales[_i / 4]);
    float *lse = sample.problem.lse, best = *lse;
    sample.same_lse[0] = best; /* the reference happens to be as good as f32 can be */
    ck_assert(is_right(&sample));
    *lse = nextafterf(best, INFINITY);
    ck_assert(is_right(&sample));
    *lse = nextafterf(best, -INFINITY);
    ck_assert(is_right(&sample));
    attention_sample_destroy(&sample);
}
END_TEST

/* Of keys whose weights are nearly the same. */
START_TEST(an_lse_without_one_of_the_keys_is_wrong)
{
    const double n = 8192;
    struct attention_sample sample = right_sample(8192, scales[_i]);
    *sample.problem.lse = (float)(sample.exact_lse[0] + log(1 - 1 / n));
    ck_assert(!is_right(&sample));
    attention_sample_destroy(&sample);
}
END_TEST

START_TEST(an_lse_times_a_factor_that_is_off_is_wrong)
{
    struct attention_sample sample = right_sample(8192, scales[_i]);
    *sample.problem.lse = (float)(sample.exact_lse[0] * (1 + 0x1p-18));
    ck_assert(!is_right(&sample));
    attention_sample_destroy(&sample);
}
END_TEST

START_TEST(an_lse_in_powers_of_2_is_wrong)
{
    struct attention_sample sample = right_sample(lengths[_i], 1.5f);
    *sample.problem.lse = (float)(sample.exact_lse[0] / log(2));
    ck_assert(!is_right(&sample));
    attention_sample_destroy(&sample);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_sample");
    TCase *tcase = tcase_create("lse");
    tcase_add_loop_test(tcase, an_lse_a_unit_off_is_right, 0, CASES);
    tcase_add_loop_test(tcase, an_lse_without_one_of_the_keys_is_wrong, 0, 2);
    tcase_add_loop_test(tcase, an_lse_times_a_factor_that_is_off_is_wrong, 0, 2);
    tcase_add_loop_test(tcase, an_lse_in_powers_of_2_is_wrong, 0, 4);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
