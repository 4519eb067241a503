/* gemmctl bench: a closed loop. A fixed number of requests is in flight, and each answer starts the
 * next request. */
#include "client/gemmctl/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/progress.h"

enum { DEFAULT_CONNECTIONS = 8, DEFAULT_DURATION_MS = 5000 };

struct bench {
    struct gemmd_client *client;
    struct gemmd_request **slots; /* [in_flight] */
    void **results;               /* [in_flight], each of result_bytes */
    uint64_t requests_max;        /* 0: only the time limits the number */
    double began_s, until_s;
    uint64_t started;
    struct progress_line *line; /* NULL: the requests are not measured */
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
    if (code == GEMMD_OK) {
        latency_add(&run->latency, (uint64_t)(result.elapsed_ms * 1000));
        run->launches_sum += result.batch;
        memcpy(run->kernel, result.kernel, sizeof run->kernel);
        return;
    }
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

int command_bench(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    struct gemmd_error_info error;
    struct fault fault = {0};
    struct progress_line line;
    struct bench_options given;
    int code = bench_read_options(context, &given);
    if (code != EXIT_OK)
        return code;
    struct bench *bench = calloc(1, sizeof *bench);
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
    free(bench);
    return code;
}
