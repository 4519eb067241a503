/*
 * What the model of sm90_choose would choose on shapes whose times are known: the tables that
 * `gemmd-bench kernels` wrote have the time of every kernel, so no GPU is needed.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/sm90/sm90.h"
#include "tests/bench/kernels.h"

enum { BEHIND = 10, CELLS_MAX = VARIANTS_MAX + 1 }; /* shapes that are named; cells of a line */

/* One table: the times of one type. */
struct replay {
    struct bench_run run;
    const struct sm90_kernel *kernels;
    bool fused, every_kernel; /* every_kernel: the lines that are read are of the second part */
    int column[VARIANTS_MAX]; /* the kernel of each column of the second part, or -1 */
    int columns;
};

/* The cells of a line of a table, without spaces around them. Changes the line. */
static int cells_of(char *line, char *cells[CELLS_MAX])
{
    int count = 0;
    for (char *at = strchr(line, '|'); at != NULL && count < CELLS_MAX;) {
        char *end = strchr(at + 1, '|');
        if (end == NULL)
            break;
        *end = '\0';
        char *from = at + 1;
        while (isspace((unsigned char)*from))
            from++;
        for (char *last = end; last > from && isspace((unsigned char)last[-1]);)
            *--last = '\0';
        cells[count++] = from;
        at = end;
    }
    return count;
}

/* The index of the kernel with that name, without its type, or -1. */
static int kernel_of(const struct replay *r, const char *name)
{
    for (int v = 0; v < r->run.state->variants; v++) {
        const char *underscore = strchr(r->kernels[v].name, '_');
        if (underscore != NULL && strcmp(underscore + 1, name) == 0)
            return v;
    }
    return -1;
}

/* The place of a shape such as 1×2×3 among those that were read, or a new one; NULL: no shape. */
static struct bench_shape_result *result_of(struct bench_state *state, const char *text)
{
    struct bench_shape s = {0};
    unsigned long long m, n, k;
    if (sscanf(text, "%llu×%llu×%llu", &m, &n, &k) != 3)
        return NULL;
    s = (struct bench_shape){.m = m, .n = n, .k = k};
    for (int i = 0; i < state->shapes; i++)
        if (state->shape[i].m == s.m && state->shape[i].n == s.n && state->shape[i].k == s.k)
            return &state->result[i];
    if (state->shapes == SHAPES_MAX)
        return NULL;
    state->shape[state->shapes] = s;
    return &state->result[state->shapes++];
}

/* A line of the first part: the speeds of cuBLASLt and of the best kernel. Times are relative, with
 * 1 for cuBLASLt. */
static void read_best(struct replay *r, char *cells[], int count)
{
    struct bench_shape_result *result = count > 5 ? result_of(r->run.state, cells[0]) : NULL;
    const int best = result != NULL ? kernel_of(r, cells[4]) : -1;
    const double ratio = best >= 0 ? atof(cells[5]) : 0;
    if (ratio <= 0)
        return;
    result->lt_milliseconds = 1;
    result->milliseconds[best] = (float)(1 / ratio);
    result->done = true;
}

/* A line of the second part: every kernel in percent of cuBLASLt. The best one is known better. */
static void read_every(struct replay *r, char *cells[], int count)
{
    struct bench_shape_result *result = count > 0 ? result_of(r->run.state, cells[0]) : NULL;
    for (int i = 1; result != NULL && i < count && i <= r->columns; i++) {
        const int v = r->column[i - 1];
        const double percent = atof(cells[i]);
        if (v >= 0 && percent > 0 && result->milliseconds[v] <= 0)
            result->milliseconds[v] = (float)(100 / percent);
    }
}

/* The kernel with the lowest estimate among those with a time, or -1. */
static int choose(const struct replay *r, const struct bench_shape *s,
                  const struct bench_shape_result *result)
{
    static const char bias; /* an address only */
    struct gemm_problem p = {.dtype = r->run.dtype,
                             .out = r->run.out,
                             .precision = r->run.precision,
                             .transb = r->run.transb,
                             .m = s->m,
                             .n = s->n,
                             .k = s->k,
                             .batch = 1,
                             .alpha = 1};
    p.lda = bench_leading(p.k, p.dtype);
    p.ldb = bench_leading(p.transb ? p.k : p.n, p.dtype);
    p.ldc = bench_leading(p.n, p.out);
    if (r->fused) {
        p.bias = &bias;
        p.act = p.out == GEMMD_I32 ? GEMM_ACT_RELU : GEMM_ACT_GELU_TANH;
    }
    int chosen = -1;
    double lowest = INFINITY;
    for (int v = 0; v < r->run.state->variants; v++) {
        if (result->milliseconds[v] <= 0 || !sm90_takes(&r->kernels[v], &p))
            continue;
        const double us = sm90_estimate_us(&r->kernels[v], &p, &sm90_h100_sxm);
        if (us < lowest) {
            lowest = us;
            chosen = v;
        }
    }
    return chosen;
}

/* How much longer the chosen kernel takes than the best, as a logarithm. */
static double behind(const struct bench_state *state, int i)
{
    const struct bench_shape_result *r = &state->result[i];
    const int best = bench_best_variant(state, r);
    return r->chosen < 0 ? 0 : log((double)(r->milliseconds[r->chosen] / r->milliseconds[best]));
}

static void name_furthest(const struct replay *r, FILE *to)
{
    const struct bench_state *state = r->run.state;
    bool named[SHAPES_MAX] = {false};
    for (int rank = 0; rank < BEHIND; rank++) {
        int furthest = -1;
        for (int i = 0; i < state->shapes; i++)
            if (!named[i] && behind(state, i) > 0 &&
                (furthest < 0 || behind(state, i) > behind(state, furthest)))
                furthest = i;
        if (furthest < 0)
            break;
        named[furthest] = true;
        const struct bench_shape *s = &state->shape[furthest];
        const struct bench_shape_result *result = &state->result[furthest];
        fprintf(to, "- %llu×%llu×%llu: %s, %.1f %% behind %s\n", (unsigned long long)s->m,
                (unsigned long long)s->n, (unsigned long long)s->k, r->kernels[result->chosen].name,
                100 * (exp(behind(state, furthest)) - 1),
                r->kernels[bench_best_variant(state, result)].name);
    }
}

static void replay_finish(struct replay *r, FILE *to)
{
    struct bench_state *state = r->run.state;
    double logs = 0;
    if (r->kernels == NULL || state->shapes == 0)
        return;
    for (int i = 0; i < state->shapes; i++) {
        state->result[i].chosen = choose(r, &state->shape[i], &state->result[i]);
        logs += behind(state, i);
    }
    fprintf(to, "\n%s%s\n", r->run.name, r->fused ? ", fused" : "");
    bench_summarize(&r->run, to);
    fprintf(to, "\nThe choice is %.2f %% behind the best kernel in the mean.\n\n",
            100 * (exp(logs / state->shapes) - 1));
    name_furthest(r, to);
}

/* Starts a table of the type that a heading names. */
static void replay_start(struct replay *r, const char *name)
{
    struct bench_state *state = r->run.state;
    memset(state, 0, sizeof *state);
    *r = (struct replay){.run.state = state};
    if (!bench_type(name, &r->run))
        return;
    r->kernels = sm90_kernels(r->run.dtype, r->run.precision, GEMM_SCALES_NONE);
    while (r->kernels != NULL && r->kernels[state->variants].name && state->variants < VARIANTS_MAX)
        state->variants++;
}

static void read_line(struct replay *r, char *line)
{
    char *cells[CELLS_MAX];
    if (strncmp(line, "Own kernels add a bias", strlen("Own kernels add a bias")) == 0)
        r->fused = true;
    if (r->kernels == NULL || line[0] != '|')
        return;
    const int count = cells_of(line, cells);
    if (count > 1 && strcmp(cells[0], "m×n×k") == 0) {
        r->every_kernel = strncmp(cells[1], "cuBLASLt", strlen("cuBLASLt")) != 0;
        for (r->columns = 0; r->columns + 1 < count; r->columns++)
            r->column[r->columns] = kernel_of(r, cells[r->columns + 1]);
    } else if (count > 0 && isdigit((unsigned char)cells[0][0])) {
        (r->every_kernel ? read_every : read_best)(r, cells, count);
    }
}

int bench_choice(const char *const paths[], int count)
{
    char line[4096], name[32];
    int failed = 0;
    struct replay replay = {.run.state = calloc(1, sizeof *replay.run.state)};
    if (replay.run.state == NULL)
        return 1;
    for (int i = 0; i < count; i++) {
        FILE *from = fopen(paths[i], "r");
        if (from == NULL) {
            perror(paths[i]);
            failed = 1;
            continue;
        }
        printf("\n%s\n", paths[i]);
        while (fgets(line, sizeof line, from) != NULL) {
            if (sscanf(line, "## %31[^,],", name) == 1) {
                replay_finish(&replay, stdout);
                replay_start(&replay, name);
            } else {
                read_line(&replay, line);
            }
        }
        replay_finish(&replay, stdout);
        replay.kernels = NULL; /* the next file has a heading of its own */
        fclose(from);
    }
    free(replay.run.state);
    return failed;
}
