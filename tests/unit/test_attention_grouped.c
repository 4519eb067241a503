/* kernels/attention_grouped.c: which attentions may share a launch, and how much work they are. */
#include <check.h>
#include <stdlib.h>

#include "kernels/attention_grouped.h"
#include "kernels/operations.h"

static enum gemmd_error run_group(struct gemm_context *context,
                                  const struct operation_member members[], uint32_t count)
{
    (void)context;
    (void)members;
    (void)count;
    return GEMMD_OK;
}

static const struct operation_kernel kernel = {.run_group = run_group, .group_units = 10};

static struct attention_problem problem_case(void)
{
    return (struct attention_problem){.dtype = GEMMD_F16,
                                      .batch = 1,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .sq = 100,
                                      .skv = 200,
                                      .d = 10,
                                      .dv = 20,
                                      .scale = 1};
}

static bool in_one_group(const struct attention_problem *one, const struct attention_problem *two)
{
    const bool same = operation_same_group(&operation_attention, &kernel, one, &kernel, two);
    ck_assert_int_eq(operation_same_group(&operation_attention, &kernel, two, &kernel, one), same);
    ck_assert_int_eq(operation_group_key(&operation_attention, &kernel, one) ==
                         operation_group_key(&operation_attention, &kernel, two),
                     same);
    return same;
}

START_TEST(what_a_kernel_is_compiled_for_is_the_same)
{
    const struct attention_problem one = problem_case();
    struct attention_problem others[] = {one, one, one, one, one, one};
    others[0].dtype = GEMMD_BF16;
    others[1].d = 11;
    others[2].dv = 21;
    others[3].causal = true;
    others[4].windowed = true;
    others[5].softcap = 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!in_one_group(&one, &others[i]), "number %zu", i);
    struct attention_problem turned = one;
    turned.d = one.dv;
    turned.dv = one.d;
    ck_assert(!in_one_group(&one, &turned));
}
END_TEST

START_TEST(all_else_may_differ)
{
    struct attention_problem one = problem_case(), two = problem_case();
    static const int32_t lens[3] = {1, 2, 3};
    one.windowed = two.windowed = true;
    one.softcap = 2;
    two.softcap = 3;
    two.window = 7;
    two.batch = 3;
    two.heads = two.kv_heads = 5;
    two.sq = 1;
    two.skv = 1000;
    two.scale = -2;
    two.lens_q = two.lens_kv = lens;
    two.q_strides.row = 99;
    ck_assert(in_one_group(&one, &two));
}
END_TEST

START_TEST(kernels_are_apart)
{
    const struct attention_problem one = problem_case();
    const struct operation_kernel other = kernel;
    ck_assert(!operation_same_group(&operation_attention, &kernel, &one, &other, &one));
    ck_assert_uint_ne(operation_group_key(&operation_attention, &kernel, &one),
                      operation_group_key(&operation_attention, &other, &one));
}
END_TEST

START_TEST(the_work_is_bounded)
{
    struct attention_problem p = problem_case(); /* 2 * 4 * 100 * 200 * 30 operations */
    ck_assert_uint_eq(attention_group_units(&p), 5);
    ck_assert(operation_can_group(&operation_attention, &kernel, &p));
    p.batch = 2;
    ck_assert_uint_eq(attention_group_units(&p), 10);
    ck_assert(operation_can_group(&operation_attention, &kernel, &p));
    p.batch = 3;
    ck_assert(!operation_can_group(&operation_attention, &kernel, &p));
    p = problem_case();
    p.sq = p.skv = 1; /* hardly any, but not none */
    ck_assert_uint_eq(attention_group_units(&p), 1);
    p.causal = true;
    p.sq = 2;
    ck_assert_uint_eq(attention_group_units(&p), 1);
    p.sq = p.skv = GEMM_DIM_MAX;
    p.causal = false;
    ck_assert_uint_eq(attention_group_units(&p), UINT32_MAX);
}
END_TEST

START_TEST(a_kernel_without_groups_has_none)
{
    const struct attention_problem p = problem_case();
    struct operation_kernel alone = kernel;
    alone.run_group = NULL;
    ck_assert(!operation_can_group(&operation_attention, &alone, &p));
}
END_TEST

/* Lengths to a factor of two; equals in the order they came in. */
START_TEST(rows_that_see_most_keys_come_first)
{
    const struct {
        uint64_t skv, window;
        bool causal, windowed;
    } cases[] = {{100, 0, false, false}, {5000, 0, true, false},        {1, 0, false, false},
                 {127, 0, true, false},  {100000, 63, true, true},      {4096, 9000, true, true},
                 {300, 63, false, true}, {GEMM_DIM_MAX, 0, true, true}, {2, 0, true, false}};
    static const uint32_t wanted[] = {1, 5, 6, 0, 3, 4, 8, 2, 7};
    enum { COUNT = sizeof cases / sizeof *cases };
    struct attention_problem problems[COUNT];
    struct operation_member members[COUNT];
    struct attention_member ordered[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        problems[i] = problem_case();
        problems[i].skv = cases[i].skv;
        problems[i].window = cases[i].window;
        problems[i].causal = cases[i].causal;
        problems[i].windowed = cases[i].windowed;
        members[i] = (struct operation_member){&problems[i], &problems[i]};
    }
    attention_group_order(members, COUNT, ordered);
    for (uint32_t i = 0; i < COUNT; i++) {
        ck_assert_msg(ordered[i].problem == &problems[wanted[i]], "place %u has number %td", i,
                      ordered[i].problem - problems);
        ck_assert_ptr_eq(ordered[i].workspace, &problems[wanted[i]]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_grouped");
    TCase *tests = tcase_create("attention_grouped");
    tcase_add_test(tests, what_a_kernel_is_compiled_for_is_the_same);
    tcase_add_test(tests, all_else_may_differ);
    tcase_add_test(tests, kernels_are_apart);
    tcase_add_test(tests, the_work_is_bounded);
    tcase_add_test(tests, a_kernel_without_groups_has_none);
    tcase_add_test(tests, rows_that_see_most_keys_come_first);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
