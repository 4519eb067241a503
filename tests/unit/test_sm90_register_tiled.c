/* Which tile of register_tiled computes what: a function of the shape and of whether the device
 * runs code of sm_90a, so no GPU is needed. */
#include <check.h>
#include <stdlib.h>

#include "kernels/cuda/simt/register_tiled.h"

enum { MULTIPROCESSORS = 132 };

static struct gemm_problem square(uint64_t side)
{
    struct gemm_problem p = {.dtype = GEMMD_F32,
                             .out = GEMMD_F32,
                             .m = side,
                             .n = side,
                             .k = side,
                             .batch = 1,
                             .alpha = 1};
    gemm_problem_contiguous(&p);
    return p;
}

static void expect(const struct gemm_problem *p, bool sm90, enum register_tile tile)
{
    const enum register_tile chosen = register_tile_choose(p, MULTIPROCESSORS, sm90);
    ck_assert_msg(chosen == tile, "%llu x %llu x %llu, sm90 %d: %s instead of %s",
                  (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)p->k,
                  sm90, register_tile_shapes[chosen].name, register_tile_shapes[tile].name);
}

static const uint64_t LARGE[] = {2048, 4096, 8192};
enum { LARGE_COUNT = sizeof LARGE / sizeof *LARGE };

START_TEST(large_products_take_the_specialised_tile)
{
    const struct gemm_problem p = square(LARGE[_i]);
    expect(&p, true, REGISTER_TILE_128X256);
}
END_TEST

START_TEST(devices_without_sm_90a_never_take_it)
{
    const struct gemm_problem p = square(LARGE[_i]);
    expect(&p, false, REGISTER_TILE_256X128);
}
END_TEST

/* Measured: a quarter of the multiprocessors would have a tile of it. */
START_TEST(small_products_keep_small_tiles)
{
    const struct gemm_problem p = square(1024);
    expect(&p, true, REGISTER_TILE_64X64);
}
END_TEST

/* Half of a tile of 256 columns would be outside of C. */
START_TEST(narrow_products_keep_narrow_tiles)
{
    struct gemm_problem p = square(128);
    p.m = 256 * MULTIPROCESSORS;
    p.k = 4096;
    expect(&p, true, REGISTER_TILE_256X128);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sm90_register_tiled");
    TCase *tests = tcase_create("choose");
    tcase_add_loop_test(tests, large_products_take_the_specialised_tile, 0, LARGE_COUNT);
    tcase_add_loop_test(tests, devices_without_sm_90a_never_take_it, 0, LARGE_COUNT);
    tcase_add_test(tests, small_products_keep_small_tiles);
    tcase_add_test(tests, narrow_products_keep_narrow_tiles);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
