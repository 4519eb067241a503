/*
 * bench_plot.h - gemmctl bench --plot: latencies over the time of a measurement and their
 * distribution, as an SVG file or in characters.
 *
 * Both drawings are a latency heat map (Brendan Gregg, "Visualizing System Latency", 2010): time
 * goes to the right, latency upwards on a logarithmic axis, and a cell is the darker the more
 * answers it has. Beside the map is the histogram of all answers on the same axis, with the
 * percentiles, and below it the answers a second. A stall, a second mode and a slow start are seen
 * there, which percentiles of the whole measurement hide.
 */
#ifndef GEMMCTL_BENCH_PLOT_H
#define GEMMCTL_BENCH_PLOT_H

#include <stdint.h>
#include <stdio.h>

#include "client/gemmctl/latency.h"

enum { PLOT_SLICES = 96 };

/* The answers of one slice of the time. */
struct plot_slice {
    struct latency latency;
    uint64_t errors;
};

struct bench_plot {
    double slice_s; /* length of a slice, which doubles when the time has outgrown all slices */
    uint32_t used;  /* slices up to the last one that has an answer or an error */
    struct plot_slice slices[PLOT_SLICES];
};

/* Returns a new plot without answers, which the caller frees with free(); NULL: no memory. */
struct bench_plot *bench_plot_new(void);
/* Adds an answer, or an error, `at_s` seconds after the start of the measurement. */
void bench_plot_answer(struct bench_plot *plot, double at_s, uint64_t latency_us);
void bench_plot_error(struct bench_plot *plot, double at_s);

/* ---- what the drawings show ---- */

enum { PLOT_ROWS_MAX = 48, PLOT_COLUMNS_MAX = PLOT_SLICES, PLOT_PERCENTILES = 5 };

struct plot_column {
    double from_s, to_s;
    uint64_t answers, errors;
    double p50_us, p99_us;         /* 0: no answers */
    uint64_t cells[PLOT_ROWS_MAX]; /* answers by latency, the shortest first */
};

struct plot_mark {
    const char *name; /* "p50" */
    double us;
};

struct plot_grid {
    uint32_t rows, columns;
    double low_us, high_us; /* the ends of the axis of latencies */
    double elapsed_s;
    uint64_t cell_max, row_max, errors;
    double rate_max; /* answers a second of the fastest column */
    uint64_t sums[PLOT_ROWS_MAX];
    struct plot_mark marks[PLOT_PERCENTILES]; /* ascending */
    struct plot_column cells[PLOT_COLUMNS_MAX];
};

/* Divides the answers of a measurement, which has at least one, among `rows` latencies and at most
 * `columns_max` times. `all`: the latencies of all answers. Returns a new grid, which the caller
 * frees with free(); NULL: no memory. */
struct plot_grid *plot_grid_new(const struct bench_plot *plot, const struct latency *all,
                                double elapsed_s, uint32_t rows, uint32_t columns_max);
/* Where a latency is on the axis: 0 at low_us, 1 at high_us. */
double plot_grid_place(const struct plot_grid *grid, double us);
/* The answers a second of a column; negative if the column is too short to tell. */
double plot_grid_rate(const struct plot_grid *grid, const struct plot_column *column);
/* How dark a cell or a bar with `count` of at most `most` answers is, from 0, for none, to
 * `levels`. Levels are logarithmic, so that a single answer is seen beside thousands. */
uint32_t plot_level(uint64_t count, uint64_t most, uint32_t levels);

/* ---- the drawings ---- */

/* Draws a grid of at most PLOT_TEXT_COLUMNS columns in ASCII, at most 80 characters wide. */
enum { PLOT_TEXT_ROWS = 16, PLOT_TEXT_COLUMNS = 48 };
void plot_text(const struct plot_grid *grid, FILE *to);

/* Writes a grid as an SVG document, in the colours of the reader's light or dark scheme. `title`
 * is any text. */
enum { PLOT_SVG_ROWS = PLOT_ROWS_MAX };
void plot_svg(const struct plot_grid *grid, const char *title, FILE *to);

#endif
