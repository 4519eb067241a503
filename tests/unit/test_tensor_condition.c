/* server/tensors/tensor_condition.c: RFC 9110's If-Match and If-None-Match. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/tensors/tensor_condition.h"

#define TAG "\"0123abcd\""
#define OTHER "\"ffff\""

/* The result for a tensor with the tag TAG, for a tensor whose tag is not known, and for no tensor:
 * H (HOLDS), O (OTHER) or S (SAME). */
static const struct {
    const char *if_match, *if_none_match, *verdicts;
} cases[] = {
    {NULL, NULL, "HHH"},
    {"*", NULL, "HHO"},
    {TAG, NULL, "HOO"},
    {OTHER, NULL, "OOO"},
    {OTHER ", " TAG, NULL, "HOO"},
    {"W/" TAG, NULL, "OOO"}, /* strong comparison */
    {"W/" TAG " , \t" TAG, NULL, "HOO"},
    {NULL, "*", "SSH"},
    {NULL, " * ", "SSH"},
    {NULL, TAG, "SHH"},
    {NULL, OTHER, "HHH"},
    {NULL, OTHER "," TAG, "SHH"},
    {NULL, ",, " OTHER ", ," TAG ",", "SHH"},
    {NULL, "W/" TAG, "SHH"}, /* weak comparison */
    {NULL, "\"0123abc\"", "HHH"},
    {NULL, "\"0123abcde\"", "HHH"},
    {NULL, "\"a,b\", " TAG, "SHH"}, /* a comma within a tag is none of the list's */
    {TAG, TAG, "SOO"},
    {OTHER, "*", "OOO"}, /* If-Match is first */
};

START_TEST(a_condition_is_judged)
{
    const struct tensor_condition condition = {cases[_i].if_match, cases[_i].if_none_match};
    struct fault fault = {.detail = ""};
    ck_assert_msg(tensor_condition_check(&condition, &fault) == GEMMD_OK, "%s", fault.detail);
    const enum tensor_condition_result verdicts[] = {
        tensor_condition_evaluate(&condition, true, TAG),
        tensor_condition_evaluate(&condition, true, NULL),
        tensor_condition_evaluate(&condition, false, NULL)};
    char got[4] = "";
    for (int i = 0; i < 3; i++)
        got[i] = "HOS"[verdicts[i]];
    ck_assert_str_eq(got, cases[_i].verdicts);
}
END_TEST

static const char *const wrong[] = {
    "",       " ",  ",",       "0123abcd", "'0123abcd'", "\"0123abcd", "* , " TAG,  TAG " " OTHER,
    "w/" TAG, "W/", "W/ " TAG, "**",       TAG ", abc",  "\"a b\"",    TAG "; q=1", "\"",
};

START_TEST(what_is_no_list_is_refused)
{
    const struct tensor_condition match = {.if_match = wrong[_i]},
                                  none = {.if_none_match = wrong[_i]};
    struct fault fault;
    ck_assert_msg(tensor_condition_check(&match, &fault) == GEMMD_ERR_MALFORMED, "'%s'", wrong[_i]);
    ck_assert_str_eq(fault.field, "If-Match");
    ck_assert_int_eq(tensor_condition_check(&none, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "If-None-Match");
}
END_TEST

START_TEST(a_change_against_the_condition_is_refused)
{
    const struct tensor_condition create = {.if_none_match = "*"}, replace = {.if_match = "*"};
    struct fault fault;
    ck_assert_int_eq(tensor_condition_require(&create, false, NULL, &fault), GEMMD_OK);
    ck_assert_int_eq(tensor_condition_require(&create, true, TAG, &fault), GEMMD_ERR_PRECONDITION);
    ck_assert_str_eq(fault.field, "If-None-Match");
    ck_assert_int_eq(tensor_condition_require(&replace, true, NULL, &fault), GEMMD_OK);
    ck_assert_int_eq(tensor_condition_require(&replace, false, NULL, &fault),
                     GEMMD_ERR_PRECONDITION);
    ck_assert_str_eq(fault.field, "If-Match");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tensor_condition");
    tcase_add_loop_test(tests, a_condition_is_judged, 0, sizeof cases / sizeof cases[0]);
    tcase_add_loop_test(tests, what_is_no_list_is_refused, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tests, a_change_against_the_condition_is_refused);
    Suite *suite = suite_create("tensor_condition");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
