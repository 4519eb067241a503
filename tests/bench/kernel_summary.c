/* How the ratios of many shapes spread, for what is chosen and for the best kernel there is, so
 * that one sees whether a kernel is missing or the choice is wrong. */
#include "tests/bench/kernels.h"

#include <math.h>
#include <stdlib.h>

enum { WORST = 10 };

/* One row of the table. A ratio is cuBLASLt's time divided by the kernel's. */
struct ratios {
    const struct bench_shape *shape[SHAPES_MAX];
    double ratio[SHAPES_MAX];
    int count;
};

int bench_best_variant(const struct bench_state *state, const struct bench_shape_result *result)
{
    int best = -1;
    for (int v = 0; v < state->variants; v++) {
        if (result->milliseconds[v] > 0 && !state->wrong[v] &&
            (best < 0 || result->milliseconds[v] < result->milliseconds[best])) {
            best = v;
        }
    }
    return best;
}

/* The ratios in ascending order. Odd sizes, whose cuBLASLt is the one of padded operands, are left
 * out: kernel_report.c gives their mean against operands that are not padded. */
static void collect(const struct bench_state *state, bool chosen, struct ratios *ratios)
{
    ratios->count = 0;
    for (int i = 0; i < state->shapes; i++) {
        const struct bench_shape_result *r = &state->result[i];
        const int variant = chosen ? r->chosen : bench_best_variant(state, r);
        if (!r->done || state->shape[i].odd || variant < 0 || !(r->milliseconds[variant] > 0)) {
            continue;
        }
        const double ratio = (double)(r->lt_milliseconds / r->milliseconds[variant]);
        int at = ratios->count++;
        for (; at > 0 && ratios->ratio[at - 1] > ratio; at--) {
            ratios->ratio[at] = ratios->ratio[at - 1];
            ratios->shape[at] = ratios->shape[at - 1];
        }
        ratios->ratio[at] = ratio;
        ratios->shape[at] = &state->shape[i];
    }
}

static void summarize(const char *name, const struct ratios *ratios, FILE *to)
{
    const int count = ratios->count;
    double logs = 0;
    int under = 0;
    for (int i = 0; i < count; i++) {
        logs += log(ratios->ratio[i]);
        under += ratios->ratio[i] < 0.9;
    }
    fprintf(to, "| %s | %d | %.3f | %.3f | %.3f | %.3f | %d |", name, count, exp(logs / count),
            ratios->ratio[count / 2], ratios->ratio[(count - 1) / 20], ratios->ratio[0], under);
    for (int i = 0; i < count && i < WORST; i++) {
        const struct bench_shape *s = ratios->shape[i];
        fprintf(to, "%s %llu×%llu×%llu %.2f", i > 0 ? "," : "", (unsigned long long)s->m,
                (unsigned long long)s->n, (unsigned long long)s->k, ratios->ratio[i]);
    }
    fprintf(to, " |\n");
}

void bench_summarize(const struct bench_run *run, FILE *to)
{
    struct ratios *ratios = malloc(sizeof *ratios);
    if (ratios == NULL) {
        return;
    }
    collect(run->state, false, ratios);
    if (ratios->count > 0) {
        fprintf(to,
                "\n| own / cuBLASLt | shapes | geometric mean | median | 5th percentile | lowest |"
                " under 0.90 | the worst |\n|---|---|---|---|---|---|---|---|\n");
        summarize("the best kernel", ratios, to);
        collect(run->state, true, ratios);
        if (ratios->count > 0) {
            summarize("what is chosen", ratios, to);
        }
    }
    free(ratios);
}
