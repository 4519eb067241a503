/* What the ladder's table says: bytes counted from the tiling, rooflines, cells. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/ladder_table.h"

START_TEST(bytes_follow_the_tile)
{
    /* 2 N^3 reads and N^2 writes of 4 bytes, then a 32nd of the reads. */
    const double squared = 256.0 * 256.0, cubed = squared * 256.0;
    ck_assert_double_eq(ladder_bytes("naive", GEMMD_F32, GEMMD_F32, 256),
                        4 * (2 * cubed + squared));
    ck_assert_double_eq(ladder_bytes("tiled", GEMMD_F32, GEMMD_F32, 256),
                        4 * (2 * cubed / 32 + squared));
    ck_assert_double_eq(ladder_bytes("cublas", GEMMD_F32, GEMMD_F32, 256), 4 * 3 * squared);
    ck_assert_double_eq(ladder_bytes("tensor_core", GEMMD_BF16, GEMMD_F32, 256),
                        2 * (cubed / 256 + cubed / 128) + 4 * squared);
}
END_TEST

START_TEST(roofline_is_the_lesser_of_two)
{
    ck_assert_double_eq(ladder_roofline("NVIDIA H100 80GB HBM3", GEMMD_F32, 1), 3350);
    ck_assert_double_eq(ladder_roofline("NVIDIA H100 80GB HBM3", GEMMD_F32, 1000), 66900);
    ck_assert_double_eq(ladder_roofline("NVIDIA H100 80GB HBM3", GEMMD_BF16, 1000), 989400);
    ck_assert_double_eq(ladder_roofline("a toaster", GEMMD_F32, 1000), 0);
}
END_TEST

static char *printed(const struct ladder *ladder)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(stream);
    ck_assert(ladder_print(ladder, stream));
    ck_assert_int_eq(fclose(stream), 0);
    return text;
}

/* Makes one space of each run of spaces, which pad the cells. */
static void squeeze(char *text)
{
    char *to = text;
    for (const char *at = text; *at != '\0'; at++)
        if (*at != ' ' || at[1] != ' ')
            *to++ = *at;
    *to = '\0';
}

static void has(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' lacks '%s'", text, part);
}

START_TEST(cells)
{
    struct ladder ladder = {.title = "f32",
                            .device = "NVIDIA H100 80GB HBM3",
                            .dtype = GEMMD_F32,
                            .out = GEMMD_F32,
                            .library = "cublas",
                            .count = 2};
    /* 2 * 256^3 operations in a ms are 33.5544 GFLOP/s. */
    ladder.rows[0] = (struct ladder_row){.name = "naive", .milliseconds = {0.01}};
    ladder.rows[0].too_slow[4] = true;
    ladder.rows[1] = (struct ladder_row){.name = "cublas", .milliseconds = {0.005}};
    char *text = printed(&ladder);
    squeeze(text);
    has(text, "\n| naive | 3355 (401 %) | – | – | – | too slow | 0.500 | 0.25 | 100 % |");
    has(text, "\n| cublas | 6711 (");
    free(text);
    ladder.device = "CPU";
    ladder.rows[0].milliseconds[0] = 1;
    text = printed(&ladder);
    squeeze(text);
    has(text, "\n| naive | 33.6 |");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_ladder");
    TCase *tests = tcase_create("ladder");
    tcase_add_test(tests, bytes_follow_the_tile);
    tcase_add_test(tests, roofline_is_the_lesser_of_two);
    tcase_add_test(tests, cells);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
