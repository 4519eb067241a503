/* What gemmctl bench stands on: percentiles against a sorted list, random operands, drawings. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/bench.h"
#include "client/gemmctl/bench_plot.h"
#include "client/gemmctl/random_operands.h"

enum { COUNT = 20000 };

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

START_TEST(percentiles_are_near_the_true_ones)
{
    static const double percents[] = {0, 1, 50, 90, 99, 99.9, 100};
    static uint64_t values[COUNT];
    struct latency *latency = calloc(1, sizeof *latency);
    ck_assert_ptr_nonnull(latency);
    ck_assert_uint_eq(latency_percentile(latency, 50), 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        values[i] = i * i * i % 1000003 * (i % 7 == 0 ? 1000 : 1);
        latency_add(latency, values[i]);
    }
    qsort(values, COUNT, sizeof values[0], by_size);
    for (size_t p = 0; p < sizeof percents / sizeof percents[0]; p++) {
        size_t rank = (size_t)ceil(COUNT * percents[p] / 100);
        double exact = (double)values[rank > 0 ? rank - 1 : 0];
        double got = (double)latency_percentile(latency, percents[p]);
        ck_assert_double_ge(got, exact);
        ck_assert_double_le(got, exact * (1 + 1.0 / LATENCY_STEPS) + 1);
    }
    free(latency);
}
END_TEST

START_TEST(takes_every_duration)
{
    struct latency *latency = calloc(1, sizeof *latency);
    ck_assert_ptr_nonnull(latency);
    latency_add(latency, 0);
    latency_add(latency, UINT64_MAX);
    ck_assert_uint_eq(latency_percentile(latency, 50), 0);
    ck_assert_uint_eq(latency_percentile(latency, 100), UINT64_MAX);
    free(latency);
}
END_TEST

static double widen_bf16(const unsigned char *at)
{
    uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Sign, exponent and mantissa of a small float of `exponent` and `mantissa` bits. */
static double widen(uint32_t bits, int exponent, int mantissa)
{
    int power = (int)(bits >> mantissa) & ((1 << exponent) - 1);
    double fraction = (double)(bits & ((1u << mantissa) - 1)) / (1 << mantissa);
    double sign = (bits >> (exponent + mantissa)) != 0 ? -1 : 1;
    return power == 0 ? 0 : sign * ldexp(1 + fraction, power - (1 << (exponent - 1)) + 1);
}

static double element(const unsigned char *data, enum gemmd_dtype dtype, size_t i)
{
    double wide;
    float single;
    switch (dtype) {
    case GEMMD_F64:
        memcpy(&wide, data + i * 8, 8);
        return wide;
    case GEMMD_F32:
        memcpy(&single, data + i * 4, 4);
        return (double)single;
    case GEMMD_BF16:
        return widen_bf16(data + i * 2);
    case GEMMD_F16:
        return widen((uint32_t)data[i * 2] | (uint32_t)data[i * 2 + 1] << 8, 5, 10);
    case GEMMD_F8_E4M3:
        return widen(data[i], 4, 3);
    default:
        return (double)(signed char)data[i] / 128;
    }
}

/* Uniform in [-1, 1): mean 0, mean square 1/3, to within what COUNT samples tell (6 sigma and the
 * cut towards zero of three mantissa bits). */
START_TEST(operands_are_random)
{
    enum gemmd_dtype dtype = (enum gemmd_dtype)_i;
    unsigned char *data = malloc((size_t)COUNT * 8);
    double sum = 0, squares = 0;
    ck_assert_ptr_nonnull(data);
    fill_random(data, dtype, COUNT, 1);
    for (size_t i = 0; i < COUNT; i++) {
        double value = element(data, dtype, i);
        ck_assert_double_ge(value, -1);
        ck_assert_double_le(value, 1);
        sum += value;
        squares += value * value;
    }
    ck_assert_double_le(fabs(sum / COUNT), 0.03);
    ck_assert_double_le(fabs(squares / COUNT - 1.0 / 3), 0.05);
    free(data);
}
END_TEST

/* ---- drawings ---- */

/* A measurement of `seconds` with 100 answers a second, of 1 ms, and of 50 ms in its last tenth,
 * and an error in the middle. */
static void measure(struct bench_plot *plot, struct bench_run *run, uint32_t seconds)
{
    for (uint32_t i = 0; i < 100 * seconds; i++) {
        const uint64_t us = i < 90 * seconds ? 1000 : 50000;
        latency_add(&run->latency, us);
        bench_plot_answer(plot, (i + 0.5) / 100, us);
    }
    bench_plot_error(plot, seconds / 2.0);
    run->elapsed_s = seconds;
}

/* However long the measurement is, no answer is lost, and each is in its time and its latency. */
START_TEST(grids_have_every_answer_where_it_belongs)
{
    const uint32_t seconds = (uint32_t[]){1, 2, 7, 600}[_i];
    struct bench_plot *plot = bench_plot_new();
    struct bench_run *run = calloc(1, sizeof *run);
    measure(plot, run, seconds);
    struct plot_grid *grid = plot_grid_new(plot, &run->latency, run->elapsed_s, 16, 48);
    ck_assert_uint_le(grid->columns, 48);
    ck_assert_uint_ge(grid->columns, 24);
    ck_assert_uint_eq(grid->errors, 1);
    uint64_t answers = 0;
    for (uint32_t i = 0; i < grid->columns; i++) {
        const struct plot_column *column = &grid->cells[i];
        uint64_t in_cells = 0;
        for (uint32_t row = 0; row < grid->rows; row++)
            in_cells += column->cells[row];
        ck_assert_uint_eq(in_cells, column->answers);
        answers += in_cells;
        /* The axis ends at the latencies, so these are in its first and its last row. */
        if (column->to_s <= 0.9 * seconds)
            ck_assert_uint_eq(column->cells[0], column->answers);
        if (column->from_s >= 0.9 * seconds)
            ck_assert_uint_eq(column->cells[grid->rows - 1], column->answers);
        if (column->errors > 0) {
            ck_assert_double_le(column->from_s, seconds / 2.0);
            ck_assert_double_ge(column->to_s, seconds / 2.0);
        }
        if (plot_grid_rate(grid, column) >= 0)
            ck_assert_double_eq_tol(plot_grid_rate(grid, column), 100, 20);
    }
    ck_assert_uint_eq(answers, 100 * (uint64_t)seconds);
    ck_assert_str_eq(grid->marks[0].name, "p50");
    ck_assert_double_eq_tol(grid->marks[0].us, 1000, 20);
    ck_assert_double_eq_tol(grid->marks[2].us, 50000, 1000);
    free(grid);
    free(plot);
    free(run);
}
END_TEST

/* A single answer, of no time at all, has an axis too. */
START_TEST(a_grid_of_one_answer_is_finite)
{
    struct bench_plot *plot = bench_plot_new();
    struct bench_run *run = calloc(1, sizeof *run);
    latency_add(&run->latency, 0);
    bench_plot_answer(plot, 0, 0);
    struct plot_grid *grid = plot_grid_new(plot, &run->latency, run->elapsed_s, 16, 48);
    ck_assert(isfinite(plot_grid_place(grid, 0)) && isfinite(plot_grid_place(grid, 1)));
    ck_assert_double_gt(grid->high_us, grid->low_us);
    ck_assert_uint_eq(grid->cell_max, 1);
    free(grid);
    free(plot);
    free(run);
}
END_TEST

START_TEST(drawings_are_narrow_and_escaped)
{
    struct bench_plot *plot = bench_plot_new();
    struct bench_run *run = calloc(1, sizeof *run);
    char *text = NULL;
    size_t length;
    measure(plot, run, 3);
    struct plot_grid *grid =
        plot_grid_new(plot, &run->latency, run->elapsed_s, PLOT_TEXT_ROWS, PLOT_TEXT_COLUMNS);
    FILE *to = open_memstream(&text, &length);
    plot_text(grid, to);
    fclose(to);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        ck_assert_uint_le(strcspn(line, "\n"), 80);
    ck_assert_ptr_nonnull(strstr(text, "p99"));
    ck_assert_ptr_nonnull(strchr(text, '!'));
    free(text);
    to = open_memstream(&text, &length);
    plot_svg(grid, "a <b> & \"c\"\x1b", to);
    fclose(to);
    ck_assert_ptr_nonnull(strstr(text, "a &#60;b&#62; &#38; \"c\"</title>"));
    ck_assert_ptr_null(strchr(text, '\x1b'));
    ck_assert_ptr_null(strstr(text, "nan"));
    free(text);
    free(grid);
    free(plot);
    free(run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_bench");
    TCase *tcase = tcase_create("gemmctl_bench");
    tcase_add_test(tcase, percentiles_are_near_the_true_ones);
    tcase_add_test(tcase, takes_every_duration);
    tcase_add_loop_test(tcase, operands_are_random, GEMMD_F64, GEMMD_I32);
    tcase_add_loop_test(tcase, grids_have_every_answer_where_it_belongs, 0, 4);
    tcase_add_test(tcase, a_grid_of_one_answer_is_finite);
    tcase_add_test(tcase, drawings_are_narrow_and_escaped);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
