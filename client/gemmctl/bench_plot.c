#include "client/gemmctl/bench_plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/units.h"

/* Ten milliseconds are short enough for the measurement of a second to have all its slices. */
static const double FIRST_SLICE_S = 0.01;

struct bench_plot *bench_plot_new(void)
{
    struct bench_plot *plot = calloc(1, sizeof *plot);
    if (plot != NULL)
        plot->slice_s = FIRST_SLICE_S;
    return plot;
}

/* Makes the slices twice as long: each becomes the sum of two. */
static void double_slices(struct bench_plot *plot)
{
    for (uint32_t i = 0; i < PLOT_SLICES / 2; i++) {
        struct plot_slice *to = &plot->slices[i];
        const struct plot_slice *first = &plot->slices[2 * i], *second = first + 1;
        if (i > 0)
            *to = *first;
        latency_join(&to->latency, &second->latency);
        to->errors += second->errors;
    }
    memset(&plot->slices[PLOT_SLICES / 2], 0, sizeof plot->slices / 2);
    plot->used = (plot->used + 1) / 2;
    plot->slice_s *= 2;
}

static struct plot_slice *slice_at(struct bench_plot *plot, double at_s)
{
    while (at_s >= plot->slice_s * PLOT_SLICES)
        double_slices(plot);
    const uint32_t index = at_s > 0 ? (uint32_t)(at_s / plot->slice_s) : 0;
    if (index >= plot->used)
        plot->used = index + 1;
    return &plot->slices[index];
}

void bench_plot_answer(struct bench_plot *plot, double at_s, uint64_t latency_us)
{
    latency_add(&slice_at(plot, at_s)->latency, latency_us);
}

void bench_plot_error(struct bench_plot *plot, double at_s)
{
    slice_at(plot, at_s)->errors++;
}

/* ---- what the drawings show ---- */

double plot_grid_place(const struct plot_grid *grid, double us)
{
    return log(fmax(us, grid->low_us) / grid->low_us) / log(grid->high_us / grid->low_us);
}

double plot_grid_rate(const struct plot_grid *grid, const struct plot_column *column)
{
    /* The last column may be a sliver, in which a single answer is a high rate. */
    const double passed = column->to_s - column->from_s;
    return passed * (double)grid->columns >= grid->elapsed_s / 2 ? (double)column->answers / passed
                                                                 : -1;
}

uint32_t plot_level(uint64_t count, uint64_t most, uint32_t levels)
{
    if (count == 0)
        return 0;
    const double share = most > 1 ? log((double)count) / log((double)most) : 1;
    return 1 + (uint32_t)(share * (double)(levels - 1) + 0.5);
}

/* Sets the ends of the axis: those of the latencies with some room, at least a factor of two
 * apart. A latency below a microsecond counts as one. */
static void set_ends(struct plot_grid *grid, const struct latency *all)
{
    grid->low_us = fmax((double)latency_percentile(all, 0), 1) / 1.05;
    grid->high_us = fmax((double)all->max_us, 1) * 1.05;
    const double widen = sqrt(2 * grid->low_us / grid->high_us);
    if (widen > 1) {
        grid->low_us /= widen;
        grid->high_us *= widen;
    }
}

static void fill_column(struct plot_grid *grid, struct plot_column *column,
                        const struct latency *latency)
{
    for (uint32_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
        const double place = plot_grid_place(grid, (double)latency_bucket_end(bucket));
        const uint32_t row = (uint32_t)fmin(place * grid->rows, grid->rows - 1);
        column->cells[row] += latency->counts[bucket];
    }
    column->answers = latency->count;
    column->p50_us = (double)latency_percentile(latency, 50);
    column->p99_us = (double)latency_percentile(latency, 99);
}

static void set_marks(struct plot_grid *grid, const struct latency *all)
{
    static const struct {
        const char *name;
        double percent;
    } marks[PLOT_PERCENTILES] = {
        {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}};
    for (int i = 0; i < PLOT_PERCENTILES; i++)
        grid->marks[i] =
            (struct plot_mark){marks[i].name, (double)latency_percentile(all, marks[i].percent)};
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void set_limits(struct plot_grid *grid)
{
    for (uint32_t i = 0; i < grid->columns; i++) {
        const struct plot_column *column = &grid->cells[i];
        for (uint32_t row = 0; row < grid->rows; row++) {
            grid->cell_max = larger(grid->cell_max, column->cells[row]);
            grid->sums[row] += column->cells[row];
            grid->row_max = larger(grid->row_max, grid->sums[row]);
        }
        grid->errors += column->errors;
        grid->rate_max = fmax(grid->rate_max, plot_grid_rate(grid, column));
    }
}

struct plot_grid *plot_grid_new(const struct bench_plot *plot, const struct latency *all,
                                double elapsed_s, uint32_t rows, uint32_t columns_max)
{
    const uint32_t used = plot->used, together = (used + columns_max - 1) / columns_max;
    struct plot_grid *grid = calloc(1, sizeof *grid);
    struct latency *latency = malloc(sizeof *latency);
    if (grid == NULL || latency == NULL) {
        free(grid);
        free(latency);
        return NULL;
    }
    grid->rows = rows;
    grid->columns = (used + together - 1) / together;
    grid->elapsed_s = fmax(elapsed_s, plot->slice_s * (used - 1));
    set_ends(grid, all);
    for (uint32_t i = 0; i < grid->columns; i++) {
        struct plot_column *column = &grid->cells[i];
        column->from_s = plot->slice_s * together * i;
        column->to_s = fmin(plot->slice_s * together * (i + 1), grid->elapsed_s);
        *latency = (struct latency){0};
        for (uint32_t j = i * together; j < used && j < (i + 1) * together; j++) {
            latency_join(latency, &plot->slices[j].latency);
            column->errors += plot->slices[j].errors;
        }
        fill_column(grid, column, latency);
    }
    free(latency);
    set_marks(grid, all);
    set_limits(grid);
    return grid;
}

/* ---- the drawing in characters ---- */

enum { BAR_WIDTH = 12 };
static const char levels[] = " .:-=+*#%@";

static void text_row(const struct plot_grid *grid, uint32_t row, FILE *to)
{
    char text[UNITS_ROOM], bar[BAR_WIDTH + 1] = "";
    const double ratio = grid->high_us / grid->low_us;
    const double limit = grid->low_us * pow(ratio, (row + 1.0) / grid->rows);
    fprintf(to, "%8s |", row % 2 == 1 ? units_duration(limit / 1e6, text) : "");
    for (uint32_t i = 0; i < grid->columns; i++)
        fputc(levels[plot_level(grid->cells[i].cells[row], grid->cell_max, sizeof levels - 2)], to);
    const double share = (double)grid->sums[row] / (double)grid->row_max;
    memset(bar, '#', (size_t)ceil(share * BAR_WIDTH));
    bar[(size_t)ceil(share * BAR_WIDTH)] = '\0';
    fprintf(to, "|%s", bar);
    int pad = BAR_WIDTH - (int)strlen(bar) + 1;
    for (int i = 0; i < PLOT_PERCENTILES; i++)
        if ((uint32_t)fmin(plot_grid_place(grid, grid->marks[i].us) * grid->rows, grid->rows - 1) ==
            row) {
            fprintf(to, "%*s%s", pad, "", grid->marks[i].name);
            pad = 1;
        }
    fputc('\n', to);
}

static void text_rates(const struct plot_grid *grid, FILE *to)
{
    fprintf(to, "%8s |", "rate");
    for (uint32_t i = 0; i < grid->columns; i++) {
        const double rate = fmax(plot_grid_rate(grid, &grid->cells[i]), 0);
        fputc(levels[(uint32_t)ceil(rate / fmax(grid->rate_max, 1e-9) * (sizeof levels - 2))], to);
    }
    fprintf(to, "| @ is %.0f/s\n", grid->rate_max);
    if (grid->errors == 0)
        return;
    fprintf(to, "%8s |", "errors");
    for (uint32_t i = 0; i < grid->columns; i++)
        fputc(grid->cells[i].errors > 0 ? '!' : ' ', to);
    fprintf(to, "| %llu\n", (unsigned long long)grid->errors);
}

void plot_text(const struct plot_grid *grid, FILE *to)
{
    char text[UNITS_ROOM];
    fprintf(to, "%8s  %-*s  %s\n", "latency", (int)grid->columns, "answers over time", "all");
    for (uint32_t row = grid->rows; row > 0; row--)
        text_row(grid, row - 1, to);
    text_rates(grid, to);
    fprintf(to, "%8s  0s %*s\n", "", (int)grid->columns - 3, units_duration(grid->elapsed_s, text));
}
