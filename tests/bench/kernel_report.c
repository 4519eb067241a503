/* The tables. */
#include "proto/revision.h"
#include "tests/bench/kernels.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/sm90/sm90.h"
#include "proto/dtype.h"

static double tera(const struct bench_shape *shape, float milliseconds)
{
    const double operations = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
    return milliseconds > 0 ? operations / ((double)milliseconds * 1e9) : 0;
}

/* A kernel's name without its type. */
static const char *short_name(const char *name)
{
    const char *underscore = strchr(name, '_');
    return underscore ? underscore + 1 : name;
}

static void report_heading(const struct bench_run *run, FILE *to)
{
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) {
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    }
    fprintf(
        to,
        "\n## %s, %s\n\n%s; %s; gemmd %s (%s). Row-major C = A·B%s, operands uniform in [-1, 1],"
        " sets of them taken in turn (at least twice the L2).\n",
        run->name, date, run->state->device, run->state->libraries, GEMMD_VERSION, gemmd_revision,
        run->transb ? ", B stored [n, k]" : "");
    if (run->precision == GEMM_PRECISION_TF32 && !run->transb) {
        fprintf(to, "Own kernels that want B along k have it turned beforehand.\n");
    }
    if (run->options->near_percent > 0) {
        fprintf(to, "Only kernels whose estimate is at most %g %% above the lowest.\n",
                run->options->near_percent);
    }
    if (run->options->fused) {
        fprintf(to, "Own kernels add a bias and an activation, cuBLASLt does not.\n");
    }
}

static void report_checks(const struct bench_run *run, const struct sm90_kernel *kernels, FILE *to)
{
    const struct bench_state *state = run->state;
    fprintf(to, "\nChecks against f64 (kernel: cases passed):");
    for (int v = 0; v < state->variants; v++) {
        if (!state->wrong[v] && !state->dead[v]) {
            fprintf(to, " %s: %d;", short_name(kernels[v].name), state->checked[v]);
        }
    }
    fprintf(to, "\n");
    for (int v = 0; v < state->variants; v++) {
        if (state->wrong[v] || state->dead[v]) {
            fprintf(to, "- %s %s (%d of %d cases failed): %s\n", short_name(kernels[v].name),
                    state->dead[v] ? "NOT RUN" : "WRONG", state->wrong[v], state->checked[v],
                    state->why[v]);
        }
    }
}

static void report_best(const struct bench_run *run, const struct sm90_kernel *kernels, FILE *to)
{
    const struct bench_state *state = run->state;
    double odd_sum = 0;
    int odd = 0;
    fprintf(to, "\n| m×n×k | cuBLASLt best (of) | first | own best | kernel | ratio | own GB/s |"
                " chosen | ratio | cuBLASLt, not padded | ratio | MHz | W |\n"
                "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < state->shapes; i++) {
        const struct bench_shape *s = &state->shape[i];
        const struct bench_shape_result *r = &state->result[i];
        if (!r->done) {
            continue;
        }
        const int best = bench_best_variant(state, r);
        const float own = best >= 0 ? r->milliseconds[best] : 0;
        const double ratio = own > 0 ? (double)(r->lt_milliseconds / own) : 0;
        const double bytes = (double)(s->m * s->k + s->k * s->n) * dtype_size(run->dtype) +
                             (double)(s->m * s->n) * dtype_size(run->out);
        fprintf(to, "| %llu×%llu×%llu | %.1f (%d) | %.1f | %.1f | %s | %.3f | %.0f |",
                (unsigned long long)s->m, (unsigned long long)s->n, (unsigned long long)s->k,
                tera(s, r->lt_milliseconds), r->lt_count, tera(s, r->lt_first_milliseconds),
                tera(s, own), best >= 0 ? short_name(kernels[best].name) : "none", ratio,
                own > 0 ? bytes / ((double)own * 1e6) : 0);
        const float chosen = r->chosen >= 0 ? r->milliseconds[r->chosen] : 0;
        const double chosen_ratio = chosen > 0 ? (double)(r->lt_milliseconds / chosen) : 0;
        fprintf(to, " %s | %.3f |", r->chosen >= 0 ? short_name(kernels[r->chosen].name) : "none",
                chosen_ratio);
        if (r->lt_tight_milliseconds > 0) {
            const double tight = own > 0 ? (double)(r->lt_tight_milliseconds / own) : 0;
            fprintf(to, " %.1f | %.2f |", tera(s, r->lt_tight_milliseconds), tight);
            odd_sum += log(fmax(tight, 1e-9));
            odd++;
        } else {
            fprintf(to, " | |");
        }
        fprintf(to, " %u | %u |\n", r->clock_mhz, r->power_watts);
    }
    bench_summarize(run, to);
    if (odd) {
        fprintf(to, "\nOdd sizes against cuBLASLt not padded: %.2f over %d.\n", exp(odd_sum / odd),
                odd);
    }
}

static void report_variants(const struct bench_run *run, const struct sm90_kernel *kernels,
                            FILE *to)
{
    const struct bench_state *state = run->state;
    fprintf(to, "\nEvery kernel, percent of cuBLASLt's best:\n\n| m×n×k |");
    for (int v = 0; v < state->variants; v++) {
        fprintf(to, " %s |", short_name(kernels[v].name));
    }
    fprintf(to, "\n|---|");
    for (int v = 0; v < state->variants; v++) {
        fprintf(to, "---|");
    }
    for (int i = 0; i < state->shapes; i++) {
        const struct bench_shape *s = &state->shape[i];
        const struct bench_shape_result *r = &state->result[i];
        if (!r->done) {
            continue;
        }
        fprintf(to, "\n| %llu×%llu×%llu |", (unsigned long long)s->m, (unsigned long long)s->n,
                (unsigned long long)s->k);
        for (int v = 0; v < state->variants; v++) {
            if (r->milliseconds[v] > 0) {
                fprintf(to, " %.1f |", (double)(100 * r->lt_milliseconds / r->milliseconds[v]));
            } else {
                fprintf(to, " |");
            }
        }
    }
    fprintf(to, "\n");
}

/* Whether all kernels gave the same bits on every shape, and how far they are from cuBLASLt. */
static void report_bits(const struct bench_run *run, const struct sm90_kernel *kernels, FILE *to)
{
    const struct bench_state *state = run->state;
    int same = 0, shapes = 0;
    float error = 0;
    for (int i = 0; i < state->shapes; i++) {
        const struct bench_shape_result *r = &state->result[i];
        int first = -1;
        bool equal = true;
        for (int v = 0; v < state->variants && r->done; v++) {
            if (!(r->milliseconds[v] > 0)) {
                continue;
            }
            error = fmaxf(error, r->error[v]);
            if (r->changed[v] > 0) {
                fprintf(to, "\n- %s changed its bits in %d of %d launches of shape %d",
                        short_name(kernels[v].name), r->changed[v], run->options->repeat, i);
            }
            first = first < 0 ? v : first;
            if (r->hash[v] != r->hash[first]) {
                fprintf(to, "%s%s and %s differ in shape %d", equal ? "\n- " : "; ",
                        short_name(kernels[first].name), short_name(kernels[v].name), i);
                equal = false;
            }
        }
        shapes += r->done;
        same += r->done && equal;
    }
    fprintf(to,
            "\nAll kernels gave the same bits in %d of %d shapes. Largest relative difference "
            "from cuBLASLt's result: %.2e.\n",
            same, shapes, (double)error);
}

void bench_report(const struct bench_run *run, FILE *to)
{
    const struct sm90_kernel *kernels = sm90_kernels(run->dtype, run->precision, GEMM_SCALES_NONE);
    report_heading(run, to);
    report_checks(run, kernels, to);
    if (!run->options->check_only) {
        report_best(run, kernels, to);
        report_variants(run, kernels, to);
        report_bits(run, kernels, to);
    }
    if (run->state->fault[0]) {
        fprintf(to, "\nLast fault: %s\n", run->state->fault);
    }
    fflush(to);
}
