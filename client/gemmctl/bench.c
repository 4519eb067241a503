/* gemmctl bench: a closed loop. A fixed number of requests is in flight, and each answer starts the
 * next request. */
#include "client/gemmctl/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/bench_plot.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/output.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/random_operands.h"
#include "client/gemmctl/table.h"
#include "client/gemmctl/units.h"
#include "proto/size.h"

/* ---- the request ---- */

static const struct bench_operation *const operations[] = {
    &bench_product, &bench_attention, &bench_conv, &bench_reduce, &bench_softmax, &bench_experts};

enum gemmd_error bench_subject_read(struct bench_subject *subject,
                                    const struct arguments *arguments, struct fault *fault)
{
    size_t which = 0; /* every command of bench.c is an entry of the list */
    while (operations[which]->taker != arguments->command->taker)
        which++;
    *subject = (struct bench_subject){.operation = operations[which]};
    enum gemmd_error code = subject->operation->read(subject, arguments, fault);
    bool fits = true;
    for (int i = 0; i < TENSOR_FILES_MAX; i++)
        fits =
            fits && size_add(subject->body_bytes, subject->operands[i].bytes, &subject->body_bytes);
    return code != GEMMD_OK || fits ? code
                                    : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                                                "the operands have more than 2^63 bytes");
}

enum gemmd_error bench_subject_fill(struct bench_subject *subject, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t i = 0; i < TENSOR_FILES_MAX && code == GEMMD_OK; i++)
        if (subject->operands[i].rank > 0)
            code = random_fill(&subject->operands[i], i, fault);
    if (code == GEMMD_OK)
        subject->operation->prepare(subject);
    return code;
}

void bench_subject_free(struct bench_subject *subject)
{
    for (int i = 0; i < TENSOR_FILES_MAX; i++)
        free((void *)subject->operands[i].data);
}

struct gemmd_request *bench_subject_submit(struct bench_subject *subject,
                                           struct gemmd_client *client, void *out, void *user,
                                           struct gemmd_error_info *error)
{
    return subject->operation->submit(subject, client, out, user, error);
}

void bench_subject_print(const struct bench_subject *subject, FILE *to)
{
    subject->operation->print(subject, to);
}

void bench_subject_describe(const struct bench_subject *subject, json_t *object)
{
    json_t *members = subject->operation->describe(subject);
    json_object_update(object, members);
    json_decref(members);
}

/* ---- the report ---- */

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
        json_pack("{s:i, s:i, s:i, s:I, s:f, s:o, s:f, s:{s:f, s:f, s:f, s:f, s:f}, s:f, s:f, s:o}",
                  "version", PRINT_JSON_VERSION, "connections", (int)run->connections, "in_flight",
                  (int)run->in_flight, "requests", (json_int_t)run->latency.count, "elapsed_s",
                  run->elapsed_s, "errors", errors, "requests_per_second", f->rate, "latency_ms",
                  "p50", f->p50_ms, "p90", f->p90_ms, "p99", f->p99_ms, "p99.9", f->p999_ms, "max",
                  f->max_ms, "gigabytes_per_second", f->gigabytes, "requests_per_launch", f->launch,
                  "kernel", print_text(run->kernel));
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

/* Prints what was measured: "product    64x64x64 f32 to f32 by openblas, 8 connections". */
static void print_title(const struct bench_run *run, FILE *to)
{
    bench_subject_print(&run->subject, to);
    fputs(" by ", to);
    (void)terminal_put(run->kernel[0] != '\0' ? run->kernel : "none", to);
    fprintf(to, ", %u connections", run->connections);
    if (run->in_flight > run->connections)
        fprintf(to, ", %u in flight", run->in_flight);
}

static void print_lines(const struct bench_run *run, const struct figures *f)
{
    char text[UNITS_ROOM];
    print_title(run, stdout);
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

/* Prints the measurements on standard output: lines, or with --json a JSON object. */
static void bench_report(const struct context *context, const struct bench_run *run)
{
    struct figures figures = figures_of(run);
    if (option_flag(context->arguments, OPTION_JSON))
        print_object(run, &figures);
    else
        print_lines(run, &figures);
}

/* ---- the drawing ---- */

/* Writes the drawing of a measurement to a file. */
static enum gemmd_error write_svg(const char *path, const struct plot_grid *grid,
                                  const struct bench_run *run, struct fault *fault)
{
    char *title = NULL, *text = NULL;
    size_t title_length, length;
    struct output output;
    FILE *to = open_memstream(&title, &title_length);
    if (to != NULL) {
        print_title(run, to);
        fclose(to);
    }
    to = title != NULL ? open_memstream(&text, &length) : NULL;
    if (to != NULL) {
        plot_svg(grid, title, to);
        fclose(to);
    }
    enum gemmd_error code = text != NULL ? output_open_text(&output, path, text, length, fault)
                                         : fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                                                     "there is no memory for the drawing");
    if (text != NULL) {
        if (code == GEMMD_OK)
            code = output_commit(&output, fault);
        output_close(&output);
    }
    free(title);
    free(text);
    return code;
}

/* Checks before the measurement that the drawing can be written. Returns EXIT_OK, or prints the
 * reason and returns the exit code. */
static int check_plot(const struct context *context)
{
    const char *path = context->arguments->values[OPTION_PLOT];
    const char *end = path != NULL ? strrchr(path, '.') : NULL;
    struct output output;
    struct fault fault = {0};
    if (path == NULL)
        return EXIT_OK;
    if (strcmp(path, "-") == 0)
        return option_flag(context->arguments, OPTION_JSON)
                   ? fail_usage(context, "--plot - is printed after the report, which --json "
                                         "replaces; name a file that ends in .svg")
                   : EXIT_OK;
    if (end == NULL || strcmp(end, ".svg") != 0)
        return fail_usage(context,
                          "--plot writes SVG; name a file that ends in .svg, or - to draw here");
    enum gemmd_error code = output_open_text(&output, path, " ", 1, &fault);
    output_close(&output); /* without output_commit: no file is left */
    return code == GEMMD_OK ? EXIT_OK : fail_fault(context, &fault);
}

/* Draws the measurement where --plot says. Returns EXIT_OK, or prints the reason and returns the
 * exit code. */
static int draw(const struct context *context, const struct bench_plot *plot,
                const struct bench_run *run)
{
    const char *path = context->arguments->values[OPTION_PLOT];
    const bool here = strcmp(path, "-") == 0;
    struct fault fault = {0};
    if (run->latency.count == 0) {
        fprintf(stderr, "gemmctl: no request was answered, so nothing is drawn\n");
        return EXIT_OK; /* the caller has the error of a request */
    }
    struct plot_grid *grid =
        here ? plot_grid_new(plot, &run->latency, run->elapsed_s, PLOT_TEXT_ROWS, PLOT_TEXT_COLUMNS)
             : plot_grid_new(plot, &run->latency, run->elapsed_s, PLOT_SVG_ROWS, PLOT_COLUMNS_MAX);
    enum gemmd_error code = GEMMD_OK;
    if (grid == NULL) {
        code =
            fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for the drawing");
    } else if (here) {
        putchar('\n');
        plot_text(grid, stdout);
    } else {
        code = write_svg(path, grid, run, &fault);
    }
    free(grid);
    return code == GEMMD_OK ? EXIT_OK : fail_fault(context, &fault);
}

/* ---- the loop ---- */

enum { DEFAULT_CONNECTIONS = 8, DEFAULT_DURATION_MS = 5000 };

struct bench {
    struct gemmd_client *client;
    struct gemmd_request **slots; /* [in_flight] */
    void **results;               /* [in_flight], each of result_bytes */
    uint64_t requests_max;        /* 0: only the time limits the number */
    double began_s, until_s;
    uint64_t started;
    struct progress_line *line; /* NULL: the requests are not measured */
    struct bench_plot *plot;    /* NULL: nothing is drawn */
    struct bench_run run;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool submit_slot(struct bench *bench, uint32_t slot, struct gemmd_error_info *error)
{
    bench->slots[slot] = bench_subject_submit(&bench->run.subject, bench->client,
                                              bench->results[slot], &bench->slots[slot], error);
    return bench->slots[slot] != NULL;
}

static void bench_add_answer(struct bench *bench, struct gemmd_request *request)
{
    struct bench_run *run = &bench->run;
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    enum gemmd_error code = gemmd_request_result(request, &result, &error);
    const bool drawn = bench->plot != NULL && bench->line != NULL;
    const double at_s = drawn ? now_s() - bench->began_s : 0;
    if (code == GEMMD_OK) {
        const uint64_t latency_us = (uint64_t)(result.elapsed_ms * 1000);
        latency_add(&run->latency, latency_us);
        if (drawn)
            bench_plot_answer(bench->plot, at_s, latency_us);
        run->launches_sum += result.batch;
        memcpy(run->kernel, result.kernel, sizeof run->kernel);
        return;
    }
    if (drawn)
        bench_plot_error(bench->plot, at_s);
    if (run->error_count++ == 0)
        run->first_error = error;
    run->errors[code]++;
}

/* Returns whether another request has to be sent. */
static bool goes_on(const struct bench *bench)
{
    if (interrupt_asked())
        return false;
    return bench->requests_max > 0 ? bench->started < bench->requests_max
                                   : now_s() < bench->until_s;
}

/* Shows how far the measurement is, and the rate so far. */
static void show_progress(struct bench *bench)
{
    char note[48];
    if (bench->line == NULL || !bench->line->wanted)
        return;
    const uint64_t answered = bench->run.latency.count;
    const double now = now_s(), passed = now - bench->began_s,
                 all = bench->until_s - bench->began_s;
    snprintf(note, sizeof note, "%.0f requests/s", passed > 0 ? (double)answered / passed : 0);
    if (bench->requests_max > 0)
        progress_part(bench->line, "measuring", answered, bench->requests_max, note);
    else
        progress_part(bench->line, "measuring", (uint64_t)(fmin(passed, all) * 1000),
                      (uint64_t)(all * 1000), note);
}

/* Keeps every slot busy until goes_on returns false, then waits for the requests in flight. */
static bool run_closed_loop(struct bench *bench, struct gemmd_error_info *error)
{
    for (uint32_t i = 0; i < bench->run.in_flight && goes_on(bench); i++) {
        if (!submit_slot(bench, i, error))
            return false;
        bench->started++;
    }
    for (;;) {
        /* Several requests may become done at once. gemmd_wait_any returns one of them at a time,
         * and none of them counts as in flight. */
        const bool busy = gemmd_in_flight(bench->client) > 0;
        struct gemmd_request *request = gemmd_wait_any(bench->client, INTERRUPT_CHECK_MS);
        if (request == NULL && !busy)
            return true;
        show_progress(bench);
        if (request == NULL)
            continue;
        struct gemmd_request **slot = gemmd_request_user(request);
        bench_add_answer(bench, request);
        gemmd_request_free(request);
        *slot = NULL;
        if (!goes_on(bench))
            continue;
        if (!submit_slot(bench, (uint32_t)(slot - bench->slots), error))
            return false;
        bench->started++;
    }
}

/* Sends one request for each slot, so that the time to connect is not measured. False if no request
 * was answered. */
static bool warm_up(struct bench *bench, struct gemmd_error_info *error)
{
    struct bench_run *run = &bench->run;
    bench->requests_max = run->in_flight;
    if (!run_closed_loop(bench, error))
        return false;
    *error = run->first_error;
    bool answered = run->latency.count > 0 || run->error_count == 0;
    bench->started = 0;
    run->error_count = 0;
    memset(run->errors, 0, sizeof run->errors);
    run->launches_sum = 0;
    run->latency = (struct latency){0};
    return answered;
}

static bool measure_requests(struct bench *bench, uint64_t requests, uint32_t duration_ms,
                             struct progress_line *line, struct gemmd_error_info *error)
{
    if (!warm_up(bench, error))
        return false;
    bench->requests_max = requests;
    bench->line = line;
    bench->began_s = now_s();
    bench->until_s = bench->began_s + (double)duration_ms / 1000;
    bool done = run_closed_loop(bench, error);
    bench->run.elapsed_s = now_s() - bench->began_s;
    progress_end(line);
    return done;
}

/* Allocates the results. False: there is no memory. */
static bool bench_allocate(struct bench *bench)
{
    uint32_t in_flight = bench->run.in_flight;
    bench->slots = calloc(in_flight, sizeof(struct gemmd_request *));
    bench->results = calloc(in_flight, sizeof(void *));
    if (bench->slots == NULL || bench->results == NULL)
        return false;
    for (uint32_t i = 0; i < in_flight; i++)
        if ((bench->results[i] = malloc(bench->run.subject.result_bytes)) == NULL)
            return false;
    return true;
}

/* The options of the load. */
struct bench_options {
    uint32_t connections, in_flight;
    uint32_t duration_ms;
    uint32_t requests; /* 0: as many as the duration allows */
};

/* Reads the options of the load. Returns EXIT_OK; on failure prints the reason and returns the exit
 * code. */
static int bench_read_options(const struct context *context, struct bench_options *out)
{
    const struct arguments *arguments = context->arguments;
    char problem[PROBLEM_MAX];
    if (!option_count(arguments, OPTION_CONNECTIONS, DEFAULT_CONNECTIONS, &out->connections,
                      problem) ||
        !option_count(arguments, OPTION_IN_FLIGHT, out->connections, &out->in_flight, problem) ||
        !option_time_ms(arguments, OPTION_DURATION, DEFAULT_DURATION_MS, &out->duration_ms,
                        problem) ||
        !option_count(arguments, OPTION_REQUESTS, 0, &out->requests, problem))
        return fail_usage(context, problem);
    if (out->connections == 0)
        return fail_usage(context, "--connections must be at least 1");
    if (out->in_flight < out->connections)
        return fail_usage(context, "--in-flight must be at least --connections");
    return EXIT_OK;
}

/* A measurement, with a plot if one is `drawn`. NULL: there is no memory. */
static struct bench *bench_new(bool drawn)
{
    struct bench *bench = calloc(1, sizeof *bench);
    if (bench == NULL)
        return NULL;
    if (drawn)
        bench->plot = bench_plot_new();
    if (bench->plot != NULL || !drawn)
        return bench;
    free(bench);
    return NULL;
}

int command_bench(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    struct gemmd_error_info error;
    struct fault fault = {0};
    struct progress_line line;
    struct bench_options given;
    int code = bench_read_options(context, &given);
    if (code == EXIT_OK)
        code = check_plot(context);
    if (code != EXIT_OK)
        return code;
    struct bench *bench = bench_new(arguments->values[OPTION_PLOT] != NULL);
    if (bench == NULL) {
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for the measurement");
        return fail_fault(context, &fault);
    }
    bench->run.connections = given.connections;
    bench->run.in_flight = given.in_flight;
    if (bench_subject_read(&bench->run.subject, arguments, &fault) != GEMMD_OK) {
        code = fail_fault(context, &fault);
        goto done;
    }
    bench->client = command_client(context, 0, given.connections, &code);
    if (bench->client == NULL)
        goto done;
    if (!bench_allocate(bench)) {
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                  "there is no memory for results of this size");
        code = fail_fault(context, &fault);
        goto done;
    }
    if (bench_subject_fill(&bench->run.subject, &fault) != GEMMD_OK) {
        code = fail_fault(context, &fault);
        goto done;
    }
    interrupt_watch();
    progress_start(&line, &context->terminal, option_flag(arguments, OPTION_QUIET));
    if (!measure_requests(bench, given.requests, given.duration_ms, &line, &error)) {
        code = fail_request(context, &error);
        goto done;
    }
    bench_report(context, &bench->run);
    if (bench->plot != NULL)
        code = draw(context, bench->plot, &bench->run);
    if (code != EXIT_OK)
        goto done;
    if (interrupt_asked())
        code = EXIT_INTERRUPTED;
    else if (bench->run.error_count > 0)
        code = fail_sentence(context, &bench->run.first_error);

done:
    gemmd_client_free(bench->client);
    for (uint32_t i = 0; bench->results != NULL && i < given.in_flight; i++)
        free(bench->results[i]);
    free(bench->results);
    free(bench->slots);
    bench_subject_free(&bench->run.subject);
    free(bench->plot);
    free(bench);
    return code;
}
