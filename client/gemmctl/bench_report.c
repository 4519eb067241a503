#include <stdio.h>

#include "client/gemmctl/bench.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/table.h"
#include "client/gemmctl/units.h"

struct figures {
    double rate, gigabytes, gigaflops, launch;
    double p50_ms, p90_ms, p99_ms, p999_ms, max_ms;
};

static double percentile_ms(const struct bench_run *run, double percent)
{
    return (double)latency_percentile(&run->latency, percent) / 1000;
}

static struct figures figures_of(const struct bench_run *run)
{
    const struct bench_subject *subject = &run->subject;
    double answered = (double)run->latency.count;
    double rate = run->elapsed_s > 0 ? answered / run->elapsed_s : 0;
    return (struct figures){
        .rate = rate,
        .gigabytes = rate * (double)(subject->body_bytes + subject->result_bytes) / 1e9,
        .gigaflops = rate * subject->flops / 1e9,
        .launch = answered > 0 ? (double)run->launches_sum / answered : 0,
        .p50_ms = percentile_ms(run, 50),
        .p90_ms = percentile_ms(run, 90),
        .p99_ms = percentile_ms(run, 99),
        .p999_ms = percentile_ms(run, 99.9),
        .max_ms = (double)run->latency.max_us / 1000,
    };
}

static void print_object(const struct bench_run *run, const struct figures *f)
{
    json_t *errors = json_object();
    for (int code = 0; code < GEMMD_ERR_COUNT; code++)
        if (run->errors[code] > 0)
            json_object_set_new(errors, gemmd_error_name((enum gemmd_error)code),
                                json_integer((json_int_t)run->errors[code]));
    json_t *root =
        json_pack("{s:i, s:i, s:i, s:I, s:f, s:o, s:f, s:{s:f, s:f, s:f, s:f, s:f}, s:f, s:f, s:s}",
                  "version", PRINT_JSON_VERSION, "connections", (int)run->connections, "in_flight",
                  (int)run->in_flight, "requests", (json_int_t)run->latency.count, "elapsed_s",
                  run->elapsed_s, "errors", errors, "requests_per_second", f->rate, "latency_ms",
                  "p50", f->p50_ms, "p90", f->p90_ms, "p99", f->p99_ms, "p99.9", f->p999_ms, "max",
                  f->max_ms, "gigabytes_per_second", f->gigabytes, "requests_per_launch", f->launch,
                  "kernel", run->kernel);
    if (root != NULL && run->subject.flops > 0)
        json_object_set_new(root, "gigaflops_per_second", json_real(f->gigaflops));
    if (root != NULL)
        bench_subject_describe(&run->subject, root);
    print_json(root);
}

static void print_latencies(const struct figures *f)
{
    static const struct table_column columns[] = {{"LATENCY", false}, {"P50", true},
                                                  {"P90", true},      {"P99", true},
                                                  {"P99.9", true},    {"MAX", true}};
    const double values[] = {f->p50_ms, f->p90_ms, f->p99_ms, f->p999_ms, f->max_ms};
    enum { VALUES = sizeof values / sizeof values[0] };
    char texts[VALUES][24];
    const char *cells[VALUES + 1] = {"ms"};
    struct table table;
    for (int i = 0; i < VALUES; i++) {
        snprintf(texts[i], sizeof texts[i], "%.3f", values[i]);
        cells[i + 1] = texts[i];
    }
    table_start(&table, columns, VALUES + 1);
    table_add(&table, cells);
    if (!table_print(&table, false, stdout))
        printf("latency    p50 %s ms, p99 %s ms\n", texts[0], texts[2]);
    table_free(&table);
}

static void print_lines(const struct bench_run *run, const struct figures *f)
{
    char text[UNITS_ROOM];
    bench_subject_print(&run->subject);
    printf(" by ");
    (void)terminal_put(run->kernel[0] != '\0' ? run->kernel : "none", stdout);
    printf(", %u connections", run->connections);
    if (run->in_flight > run->connections)
        printf(", %u in flight", run->in_flight);
    putchar('\n');
    printf("answered   %llu in %.2f s, %.2f to a launch\n", (unsigned long long)run->latency.count,
           run->elapsed_s, f->launch);
    printf("errors     %llu", (unsigned long long)run->error_count);
    for (int code = 0; code < GEMMD_ERR_COUNT; code++)
        if (run->errors[code] > 0)
            printf(", %s %llu", gemmd_error_name((enum gemmd_error)code),
                   (unsigned long long)run->errors[code]);
    printf("\nrate       %.1f requests/s, %s", f->rate, units_bytes_rate(f->gigabytes * 1e9, text));
    if (run->subject.flops > 0)
        printf(", %s", units_flops(f->gigaflops * 1e9, text));
    printf("\n\n");
    print_latencies(f);
}

void bench_report(const struct context *context, const struct bench_run *run)
{
    struct figures figures = figures_of(run);
    if (option_flag(context->arguments, OPTION_JSON))
        print_object(run, &figures);
    else
        print_lines(run, &figures);
}
