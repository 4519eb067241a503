/* kernels/cpu: reductions and softmaxes of rows with gaps, and parts of divided problems. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"

enum { ROWS = 6, LENGTH = 300, LEADING = 320, WIDTH = 5 };

static struct gemm_context *context;
static float x[ROWS * LEADING * WIDTH], y[ROWS * LEADING], other[ROWS * LEADING];

static void setup(void)
{
    struct fault fault;
    ck_assert_int_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 2, &context, &fault), GEMMD_OK);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    memset(y, 0xff, sizeof y);
    memset(other, 0xff, sizeof other);
}

static void teardown(void)
{
    gemm_context_destroy(context);
}

static void run(const struct operation *operation, const void *problem)
{
    const struct gemm_device device = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel;
    ck_assert_int_eq(operation_select(operation, &device, "auto", problem, &kernel, NULL),
                     GEMMD_OK);
    ck_assert_str_eq(kernel->name, "vector");
    ck_assert_int_eq(operation_run(kernel, context, problem, NULL), GEMMD_OK);
}

/* Gaps between the rows of X and of Y make no difference. */
START_TEST(rows_may_have_gaps)
{
    static float packed[ROWS * LENGTH];
    const struct array_shape shape = {2, {ROWS, LENGTH}};
    struct softmax_problem gaps;
    for (uint64_t row = 0; row < ROWS; row++)
        memcpy(packed + row * LENGTH, x + row * LEADING, LENGTH * sizeof *x);
    softmax_problem_of(&gaps, &shape, 0);
    gaps.dtype = gaps.out = GEMMD_F32;
    struct softmax_problem plain = gaps;
    gaps.x = x;
    gaps.y = y;
    gaps.x_leading = gaps.y_leading = LEADING;
    plain.x = packed;
    plain.y = other;
    run(&operation_softmax, &gaps);
    run(&operation_softmax, &plain);
    for (uint64_t row = 0; row < ROWS; row++)
        ck_assert_mem_eq(y + row * LEADING, other + row * LENGTH, LENGTH * sizeof *y);
}
END_TEST

START_TEST(an_axis_before_the_last_may_have_gaps)
{
    static float packed[ROWS * LENGTH * WIDTH];
    const struct array_shape shape = {3, {ROWS, LENGTH, WIDTH}};
    struct reduce_problem gaps, plain;
    for (uint64_t row = 0; row < ROWS * LENGTH; row++)
        memcpy(packed + row * WIDTH, x + row * WIDTH, WIDTH * sizeof *x);
    reduce_problem_of(&gaps, &shape, 0, WIDTH);
    ck_assert_uint_eq(gaps.width, LENGTH * WIDTH); /* rows without gaps are one row */
    reduce_problem_of(&gaps, &shape, 1, WIDTH + 1);
    reduce_problem_of(&plain, &shape, 1, WIDTH);
    static float spread[ROWS * LENGTH * (WIDTH + 1)];
    for (uint64_t row = 0; row < ROWS * LENGTH; row++)
        memcpy(spread + row * (WIDTH + 1), packed + row * WIDTH, WIDTH * sizeof *x);
    for (int op = 0; op < REDUCE_ARGMAX; op++) {
        gaps.op = plain.op = (enum reduce_op)op;
        gaps.dtype = gaps.out = plain.dtype = plain.out = GEMMD_F32;
        gaps.x = spread;
        gaps.y = y;
        plain.x = packed;
        plain.y = other;
        run(&operation_reduce, &gaps);
        run(&operation_reduce, &plain);
        ck_assert_mem_eq(y, other, (size_t)ROWS * WIDTH * sizeof *y);
    }
}
END_TEST

/* The parts that several devices compute have the bits of the whole. */
START_TEST(parts_have_the_bits_of_the_whole)
{
    const struct array_shape shape = {3, {ROWS, LENGTH, WIDTH}};
    union operation_problem whole, part;
    reduce_problem_of(&whole.reduce, &shape, 1, WIDTH);
    whole.reduce.op = REDUCE_LOGSUMEXP;
    whole.reduce.dtype = whole.reduce.out = GEMMD_F32;
    whole.reduce.x = x;
    whole.reduce.y = y;
    run(&operation_reduce, &whole);
    ck_assert_uint_eq(
        operation_reduce.units(operation_kernels(&operation_reduce, GEMM_BACKEND_CPU)[0], &whole),
        ROWS);
    whole.reduce.y = other;
    for (uint64_t first = 0; first < ROWS; first += 2) {
        operation_reduce.divide(&whole, (struct operation_range){first, 2}, &part);
        run(&operation_reduce, &part);
    }
    ck_assert_mem_eq(y, other, (size_t)ROWS * WIDTH * sizeof *y);
}
END_TEST

START_TEST(a_row_of_length_nothing_is_masked)
{
    static const int32_t lens[] = {0, LENGTH};
    const struct array_shape shape = {3, {2, 3, LENGTH}};
    struct softmax_problem p;
    softmax_problem_of(&p, &shape, 1);
    ck_assert_uint_eq(p.rows_per_len, 3);
    p.dtype = p.out = GEMMD_F32;
    p.lens = lens;
    p.x = x;
    p.y = y;
    run(&operation_softmax, &p);
    for (int i = 0; i < 3 * LENGTH; i++) {
        ck_assert_float_eq(y[i], 0);
        ck_assert_float_gt(y[3 * LENGTH + i], 0);
    }
}
END_TEST

/* argmax, max and min of long rows and columns: equal elements, zeros of both signs, NaN and
 * infinity at any place. The kernel must find what `naive` finds. */
START_TEST(the_first_of_the_greatest)
{
    enum { LONG = 2600, COLUMNS = 3 };
    static const uint64_t places[] = {0, 1, 63, 64, 700, 1023, 1024, 1100, 2047, 2500, 2599};
    static const enum reduce_op ops[] = {REDUCE_ARGMAX, REDUCE_MAX, REDUCE_MIN};
    static float data[LONG * COLUMNS];
    const struct operation_kernel *const *naive =
        operation_kernels(&operation_reduce, GEMM_BACKEND_CPU);
    while (strcmp((*naive)->name, "naive") != 0)
        naive++;
    const uint64_t place = places[_i];
    for (uint32_t round = 0; round < 5 * 3 * 2; round++) {
        const float extremes[] = {2, INFINITY, -INFINITY, NAN, -2};
        const bool in_rows = round % 2 == 0;
        const uint64_t columns = in_rows ? 1 : COLUMNS;
        const struct array_shape shape = {2, {in_rows ? 1 : LONG, in_rows ? LONG : COLUMNS}};
        struct reduce_problem p;
        for (uint64_t i = 0; i < LONG * columns; i++)
            data[i] = i % 2 == 0 ? 0.0f : -0.0f;
        for (uint64_t l = place; l < LONG; l += 300) /* the first, and others after it */
            data[l * columns + columns - 1] = extremes[round / 6];
        reduce_problem_of(&p, &shape, in_rows ? 1 : 0, shape.dims[1]);
        p.op = ops[round / 2 % 3];
        p.dtype = GEMMD_F32;
        p.out = reduce_default_out(p.op, p.dtype);
        p.x = data;
        p.y = y;
        run(&operation_reduce, &p);
        p.y = other;
        ck_assert_int_eq(operation_run(*naive, context, &p, NULL), GEMMD_OK);
        for (uint64_t c = 0; c < columns; c++)
            ck_assert_msg(p.op == REDUCE_ARGMAX
                              ? memcmp(&y[c], &other[c], sizeof *y) == 0
                              : y[c] == other[c] || (isnan(y[c]) && isnan(other[c])),
                          "place %u, round %u, column %u", (unsigned)place, round, (unsigned)c);
    }
}
END_TEST

/* Columns of arrays that are narrower and wider than what the kernel reduces together: each has the
 * result that it has alone, and the place that `naive` finds. */
START_TEST(columns_side_by_side)
{
    enum { MANY = 41, WIDEST = 1100 };
    static const uint64_t widths[] = {1, 15, 63, 64, 65, 255, 256, 257, 1023, WIDEST};
    static float data[MANY * WIDEST], column[MANY], together[WIDEST];
    static int32_t places[WIDEST], naive_places[WIDEST];
    const struct operation_kernel *const *naive =
        operation_kernels(&operation_reduce, GEMM_BACKEND_CPU);
    while (strcmp((*naive)->name, "naive") != 0)
        naive++;
    const uint64_t width = widths[_i];
    const struct array_shape shape = {2, {MANY, width}}, line = {2, {MANY, 1}};
    for (uint64_t i = 0; i < MANY * width; i++)
        data[i] = i % 97 == 96 ? NAN : (float)(i * 7919 % 1009) / 500 - 1;
    for (int op = 0; op < REDUCE_ARGMAX; op++) {
        struct reduce_problem p, alone;
        reduce_problem_of(&p, &shape, 0, width);
        reduce_problem_of(&alone, &line, 0, 1);
        p.op = alone.op = (enum reduce_op)op;
        p.dtype = p.out = alone.dtype = alone.out = GEMMD_F32;
        p.x = data;
        p.y = together;
        run(&operation_reduce, &p);
        alone.x = column;
        for (uint64_t c = 0; c < width; c += width / 7 + 1) {
            float result;
            for (uint64_t l = 0; l < MANY; l++)
                column[l] = data[l * width + c];
            alone.length_stride = 1;
            alone.y = &result;
            run(&operation_reduce, &alone);
            /* A column alone is a row, whose sum has another order. */
            ck_assert_msg(op == REDUCE_MAX || op == REDUCE_MIN
                              ? result == together[c] || (isnan(result) && isnan(together[c]))
                              : isnan(result) == isnan(together[c]) &&
                                    !(fabsf(result - together[c]) > 1e-4f),
                          "op %d, width %u, column %u: %g, %g", op, (unsigned)width, (unsigned)c,
                          (double)result, (double)together[c]);
        }
    }
    struct reduce_problem p;
    reduce_problem_of(&p, &shape, 0, width);
    p.op = REDUCE_ARGMAX;
    p.dtype = GEMMD_F32;
    p.out = GEMMD_I32;
    p.x = data;
    p.y = places;
    run(&operation_reduce, &p);
    p.y = naive_places;
    ck_assert_int_eq(operation_run(*naive, context, &p, NULL), GEMMD_OK);
    ck_assert_mem_eq(places, naive_places, width * sizeof *places);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows_cpu");
    TCase *tests = tcase_create("rows_cpu");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, rows_may_have_gaps);
    tcase_add_test(tests, an_axis_before_the_last_may_have_gaps);
    tcase_add_test(tests, parts_have_the_bits_of_the_whole);
    tcase_add_test(tests, a_row_of_length_nothing_is_masked);
    tcase_add_loop_test(tests, the_first_of_the_greatest, 0, 11);
    tcase_add_loop_test(tests, columns_side_by_side, 0, 10);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
