/* Which of several names a mistyped name means, and when none is near enough. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/nearest.h"

static const char *const names[] = {"m",         "dtype", "transa", "transb",
                                    "precision", "act",   "gelu",   "gelu_tanh"};

static const struct {
    const char *name, *means; /* NULL: nothing */
} cases[] = {
    {"dtype", "dtype"},
    {"dtpye", "dtype"},
    {"type", "dtype"},
    {"transA", "transa"},
    {"TransB", "transb"},
    {"prec", "precision"},
    {"p", "precision"},
    {"activation", "act"},
    {"gelu_tan", "gelu_tanh"},
    {"M", "m"},
    {"x", NULL},
    {"", NULL},
    {"temperature", NULL},
    {"gelu_tanhh", "gelu_tanh"},
};

static const char *nearest_of(const char *name, size_t length)
{
    struct nearest search;
    nearest_start(&search, name, length);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        nearest_offer(&search, names[i]);
    return search.best;
}

START_TEST(names_are_found)
{
    const char *best = nearest_of(cases[_i].name, strlen(cases[_i].name));
    if (cases[_i].means == NULL)
        ck_assert_msg(best == NULL, "'%s' means '%s'", cases[_i].name, best);
    else
        ck_assert_msg(best != NULL && strcmp(best, cases[_i].means) == 0, "'%s' means '%s'",
                      cases[_i].name, best != NULL ? best : "nothing");
}
END_TEST

/* The name need not end where its memory does. */
START_TEST(only_the_length_counts)
{
    ck_assert_str_eq(nearest_of("dtype=f32", 5), "dtype");
    char *exact = malloc(4);
    memcpy(exact, "dtyp", 4);
    ck_assert_str_eq(nearest_of(exact, 4), "dtype");
    free(exact);
    char longest[200];
    memset(longest, 'm', sizeof longest);
    ck_assert_ptr_null(nearest_of(longest, sizeof longest));
}
END_TEST

/* A candidate that is longer than every name is passed over, and no name is near to none. */
START_TEST(extreme_lengths)
{
    char longest[200];
    struct nearest search;
    memset(longest, 'm', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    nearest_start(&search, "mmm", 3);
    nearest_offer(&search, longest);
    ck_assert_ptr_null(search.best);
    nearest_start(&search, "", 0);
    nearest_offer(&search, "m");
    ck_assert_ptr_null(search.best);
}
END_TEST

START_TEST(types_of_other_programs)
{
    ck_assert_str_eq(dtype_suggest("torch.bfloat16"), "bf16");
    ck_assert_str_eq(dtype_suggest("FP32"), "f32");
    ck_assert_str_eq(dtype_suggest("f33"), "f32");
    ck_assert_ptr_null(dtype_suggest("f23"));
    ck_assert_ptr_null(dtype_suggest("complex"));
    ck_assert_ptr_null(dtype_suggest(""));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("nearest");
    tcase_add_loop_test(tests, names_are_found, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tests, only_the_length_counts);
    tcase_add_test(tests, extreme_lengths);
    tcase_add_test(tests, types_of_other_programs);
    Suite *suite = suite_create("nearest");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
