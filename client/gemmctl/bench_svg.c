/* gemmctl bench --plot FILE: the drawing as an SVG document. */
#include <math.h>
#include <stdbool.h>

#include "client/gemmctl/bench_plot.h"
#include "client/gemmctl/units.h"

/* The heat map, the histogram to the right of it and the rates below it, in pixels. */
enum {
    WIDTH = 960,
    HEIGHT = 560,
    MAP_X = 76,
    MAP_Y = 72,
    MAP_WIDTH = 600,
    MAP_HEIGHT = 300,
    BARS_X = MAP_X + MAP_WIDTH + 10,
    BARS_WIDTH = 140,
    RATE_Y = MAP_Y + MAP_HEIGHT + 50,
    RATE_HEIGHT = 90,
    LINE = 15, /* height of a line of text */
    SHADES = 8
};

/* Colours are written out, not as variables, which viewers other than browsers do not know. */
static const char style[] =
    "  <style>\n"
    "    .page { fill: #ffffff; } text { font: 12px system-ui, sans-serif; fill: #1b1f24; }\n"
    "    .title { font-size: 15px; font-weight: 600; } .faint { fill: #57606a; }\n"
    "    .right { text-anchor: end; } .middle { text-anchor: middle; }\n"
    "    .line { stroke: #d0d7de; fill: none; }\n"
    "    .cell { fill: #0757b5; } .bad { fill: #b3101c; }\n"
    "    .curve { fill: none; stroke-width: 1.5; stroke-linejoin: round; }\n"
    "    .p50 { stroke: #11632b; } .p99 { stroke: #b35900; } .rate { stroke: #0757b5; }\n"
    "    @media (prefers-color-scheme: dark) {\n"
    "      .page { fill: #171b22; } text { fill: #e6e9ee; } .faint { fill: #a3adb9; }\n"
    "      .line { stroke: #343b46; } .cell { fill: #79b8ff; } .bad { fill: #ff8f8a; }\n"
    "      .p50 { stroke: #6fd486; } .p99 { stroke: #ffb066; } .rate { stroke: #79b8ff; }\n"
    "    }\n"
    "  </style>\n";

/* Writes a text in which no character is markup. A byte that XML does not allow is left out. */
static void put_text(const char *text, FILE *to)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '<' || byte == '>' || byte == '&')
            fprintf(to, "&#%d;", byte);
        else if (byte >= ' ' && byte < 0x7f)
            fputc(byte, to);
    }
}

static double x_of(const struct plot_grid *grid, double time_s)
{
    return MAP_X + MAP_WIDTH * time_s / grid->elapsed_s;
}

static double y_of(const struct plot_grid *grid, double us)
{
    return MAP_Y + MAP_HEIGHT * (1 - plot_grid_place(grid, us));
}

/* ---- axes ---- */

/* The first of 1, 2 and 5 times a power of ten that is not below `value`. */
static double round_up(double value)
{
    const double power = pow(10, floor(log10(value)));
    const double front = value / power;
    return power * (front <= 1 ? 1 : front <= 2 ? 2 : front <= 5 ? 5 : 10);
}

static void latency_axis(const struct plot_grid *grid, FILE *to)
{
    char text[UNITS_ROOM];
    double last = HEIGHT, us = round_up(grid->low_us);
    while (us <= grid->high_us) {
        const double y = y_of(grid, us);
        if (last - y >= LINE + 3) {
            last = y;
            fprintf(to, "  <path class=\"line\" d=\"M%d %.1fH%d\"/>\n", MAP_X, y,
                    BARS_X + BARS_WIDTH);
            fprintf(to, "  <text class=\"faint right\" x=\"%d\" y=\"%.1f\">%s</text>\n", MAP_X - 8,
                    y + 4, units_duration(us / 1e6, text));
        }
        us = round_up(us * 1.01);
    }
}

static void time_axis(const struct plot_grid *grid, FILE *to)
{
    const double step = round_up(grid->elapsed_s / 8);
    for (int i = 0; i * step <= grid->elapsed_s; i++) {
        const double s = i * step;
        fprintf(to, "  <path class=\"line\" d=\"M%.1f %dV%d\"/>\n", x_of(grid, s), RATE_Y,
                RATE_Y + RATE_HEIGHT);
        fprintf(to, "  <text class=\"faint middle\" x=\"%.1f\" y=\"%d\">%g s</text>\n",
                x_of(grid, s), RATE_Y + RATE_HEIGHT + LINE + 2, s);
    }
}

/* ---- the heat map ---- */

static void map_shade(const struct plot_grid *grid, uint32_t shade, FILE *to)
{
    const double height = (double)MAP_HEIGHT / grid->rows;
    fprintf(to, "  <path class=\"cell\" opacity=\"%.2f\" d=\"",
            0.15 + 0.85 * (shade - 1) / (SHADES - 1));
    for (uint32_t i = 0; i < grid->columns; i++) {
        const struct plot_column *column = &grid->cells[i];
        const double x = x_of(grid, column->from_s), width = x_of(grid, column->to_s) - x;
        for (uint32_t row = 0; row < grid->rows; row++)
            if (plot_level(column->cells[row], grid->cell_max, SHADES) == shade)
                fprintf(to, "M%.1f %.1fh%.1fv%.1fh%.1fz", x,
                        MAP_Y + MAP_HEIGHT - height * (row + 1), width, height, -width);
    }
    fputs("\"/>\n", to);
}

/* Draws a line through the middles of the columns, which breaks where a value is 0. */
static void curve(const struct plot_grid *grid, const char *class, const double *y, FILE *to)
{
    bool joined = false;
    fprintf(to, "  <path class=\"curve %s\" d=\"", class);
    for (uint32_t i = 0; i < grid->columns; i++) {
        const struct plot_column *column = &grid->cells[i];
        if (y[i] > 0)
            fprintf(to, "%c%.1f %.1f", joined ? 'L' : 'M',
                    x_of(grid, (column->from_s + column->to_s) / 2), y[i]);
        joined = y[i] > 0;
    }
    fputs("\"/>\n", to);
}

static void map(const struct plot_grid *grid, FILE *to)
{
    double p50[PLOT_COLUMNS_MAX], p99[PLOT_COLUMNS_MAX];
    for (uint32_t shade = 1; shade <= SHADES; shade++)
        map_shade(grid, shade, to);
    for (uint32_t i = 0; i < grid->columns; i++) {
        const struct plot_column *column = &grid->cells[i];
        p50[i] = column->answers > 0 ? y_of(grid, column->p50_us) : 0;
        p99[i] = column->answers > 0 ? y_of(grid, column->p99_us) : 0;
    }
    curve(grid, "p99", p99, to);
    curve(grid, "p50", p50, to);
    fprintf(to,
            "  <path class=\"curve p50\" d=\"M%d %dh24\"/><text x=\"%d\" y=\"%d\">p50</text>\n"
            "  <path class=\"curve p99\" d=\"M%d %dh24\"/><text x=\"%d\" y=\"%d\">p99</text>\n",
            MAP_X + 150, MAP_Y - 14, MAP_X + 180, MAP_Y - 10, MAP_X + 220, MAP_Y - 14, MAP_X + 250,
            MAP_Y - 10);
}

/* ---- the histogram ---- */

static void bars(const struct plot_grid *grid, FILE *to)
{
    const double height = (double)MAP_HEIGHT / grid->rows;
    fputs("  <path class=\"cell\" d=\"", to);
    for (uint32_t row = 0; row < grid->rows; row++)
        if (grid->sums[row] > 0) {
            const double width =
                fmax(1, BARS_WIDTH * (double)grid->sums[row] / (double)grid->row_max);
            fprintf(to, "M%d %.1fh%.1fv%.1fh%.1fz", BARS_X, MAP_Y + MAP_HEIGHT - height * (row + 1),
                    width, height - 0.5, -width);
        }
    fputs("\"/>\n", to);
}

static void marks(const struct plot_grid *grid, FILE *to)
{
    char text[UNITS_ROOM];
    double below = HEIGHT;
    for (int i = 0; i < PLOT_PERCENTILES; i++) {
        const double y = y_of(grid, grid->marks[i].us), at = fmin(y, below - LINE);
        below = at;
        fprintf(to, "  <path class=\"line\" d=\"M%d %.1fh4L%d %.1f\"/>\n", BARS_X + BARS_WIDTH, y,
                BARS_X + BARS_WIDTH + 12, at);
        fprintf(to, "  <text x=\"%d\" y=\"%.1f\">%s %s</text>\n", BARS_X + BARS_WIDTH + 16, at + 4,
                grid->marks[i].name, units_duration(grid->marks[i].us / 1e6, text));
    }
}

/* ---- the rates ---- */

static void rates(const struct plot_grid *grid, FILE *to)
{
    double y[PLOT_COLUMNS_MAX];
    const double top = round_up(fmax(grid->rate_max, 1));
    for (int i = 0; i <= 2; i++) {
        const int at = RATE_Y + RATE_HEIGHT - RATE_HEIGHT * i / 2;
        fprintf(to, "  <path class=\"line\" d=\"M%d %dh%d\"/>\n", MAP_X, at, MAP_WIDTH);
        fprintf(to, "  <text class=\"faint right\" x=\"%d\" y=\"%d\">%g</text>\n", MAP_X - 8,
                at + 4, top * i / 2);
    }
    for (uint32_t i = 0; i < grid->columns; i++) {
        const struct plot_column *column = &grid->cells[i];
        const double rate = plot_grid_rate(grid, column);
        y[i] = rate >= 0 ? RATE_Y + RATE_HEIGHT * (1 - rate / top) : 0;
        if (column->errors > 0)
            fprintf(to, "  <path class=\"bad\" d=\"M%.1f %dh%.1fv5h%.1fz\"/>\n",
                    x_of(grid, column->from_s), RATE_Y - 8,
                    fmax(2, x_of(grid, column->to_s) - x_of(grid, column->from_s)),
                    -fmax(2, x_of(grid, column->to_s) - x_of(grid, column->from_s)));
    }
    curve(grid, "rate", y, to);
    fprintf(to, "  <text class=\"faint\" x=\"%d\" y=\"%d\">answers a second</text>\n", MAP_X,
            RATE_Y - 14);
    if (grid->errors > 0)
        fprintf(to, "  <text class=\"bad right\" x=\"%d\" y=\"%d\">%llu errors</text>\n",
                MAP_X + MAP_WIDTH, RATE_Y - 14, (unsigned long long)grid->errors);
}

void plot_svg(const struct plot_grid *grid, const char *title, FILE *to)
{
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\">\n  <title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_text(title, to);
    fprintf(to,
            "</title>\n%s  <rect width=\"%d\" height=\"%d\" class=\"page\"/>\n"
            "  <text class=\"title\" x=\"%d\" y=\"28\">",
            style, WIDTH, HEIGHT, MAP_X);
    put_text(title, to);
    fprintf(to,
            "</text>\n  <text class=\"faint\" x=\"%d\" y=\"%d\">latency over time</text>\n"
            "  <text class=\"faint\" x=\"%d\" y=\"%d\">of all answers</text>\n",
            MAP_X, MAP_Y - 10, BARS_X, MAP_Y - 10);
    latency_axis(grid, to);
    time_axis(grid, to);
    map(grid, to);
    bars(grid, to);
    marks(grid, to);
    rates(grid, to);
    fputs("</svg>\n", to);
}
