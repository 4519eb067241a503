/* gemmctl bench: a closed loop. So many requests are in flight, and an answer makes the next one.
 */
#include "client/gemmctl/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/fill.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/parameters.h"
#include "proto/size.h"

enum { DEFAULT_CONNECTIONS = 8, DEFAULT_SIDE = 64, DEFAULT_DURATION_MS = 5000 };

struct bench {
    struct gemmd_client *client;
    struct gemmd_gemm gemm;
    struct gemmd_request **slots; /* [in_flight] */
    void **results;               /* [in_flight], each of result_bytes */
    uint64_t requests_max;        /* 0: as many as there is time for */
    double until_s;
    uint64_t started;
    struct bench_run run;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool submit(struct bench *bench, uint32_t slot, struct gemmd_error_info *error)
{
    bench->gemm.user = &bench->slots[slot];
    bench->gemm.c = bench->results[slot];
    bench->slots[slot] = gemmd_gemm_submit(bench->client, &bench->gemm, error);
    return bench->slots[slot] != NULL;
}

static void note(struct bench *bench, struct gemmd_request *request)
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

/* Whether another request is to be sent. */
static bool goes_on(const struct bench *bench)
{
    if (interrupt_asked())
        return false;
    return bench->requests_max > 0 ? bench->started < bench->requests_max
                                   : now_s() < bench->until_s;
}

/* Keeps every connection busy until goes_on says no, then waits for what is in flight. */
static bool loop(struct bench *bench, struct gemmd_error_info *error)
{
    for (uint32_t i = 0; i < bench->run.in_flight && goes_on(bench); i++) {
        if (!submit(bench, i, error))
            return false;
        bench->started++;
    }
    while (gemmd_in_flight(bench->client) > 0) {
        struct gemmd_request *request = gemmd_wait_any(bench->client, INTERRUPT_CHECK_MS);
        if (request == NULL)
            continue;
        struct gemmd_request **slot = gemmd_request_user(request);
        note(bench, request);
        gemmd_request_free(request);
        *slot = NULL;
        if (!goes_on(bench))
            continue;
        if (!submit(bench, (uint32_t)(slot - bench->slots), error))
            return false;
        bench->started++;
    }
    return true;
}

/* As many as are in flight first, so that connecting is not measured; if none of them is
 * answered, there is nothing to measure. */
static bool warm_up(struct bench *bench, struct gemmd_error_info *error)
{
    struct bench_run *run = &bench->run;
    bench->requests_max = run->in_flight;
    if (!loop(bench, error))
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

static bool measure(struct bench *bench, uint64_t requests, uint32_t duration_ms,
                    struct gemmd_error_info *error)
{
    if (!warm_up(bench, error))
        return false;
    bench->requests_max = requests;
    double began_s = now_s();
    bench->until_s = began_s + (double)duration_ms / 1000;
    bool done = loop(bench, error);
    bench->run.elapsed_s = now_s() - began_s;
    return done;
}

static bool allocate(struct bench *bench, void **a, void **b)
{
    const struct gemm_request *request = &bench->run.request;
    const uint64_t a_dims[] = {request->batch, request->m, request->k};
    const uint64_t b_dims[] = {request->batch, request->k, request->n};
    uint32_t in_flight = bench->run.in_flight;
    uint64_t a_bytes, b_bytes, size = gemmd_dtype_size(request->dtype);
    if (!size_tensor_bytes(request->dtype, a_dims, 3, &a_bytes) ||
        !size_tensor_bytes(request->dtype, b_dims, 3, &b_bytes) ||
        !size_add(a_bytes, b_bytes, &bench->run.body_bytes) ||
        !gemm_request_result_bytes(request, &bench->run.result_bytes))
        return false;
    *a = malloc(a_bytes);
    *b = malloc(b_bytes);
    bench->slots = calloc(in_flight, sizeof(struct gemmd_request *));
    bench->results = calloc(in_flight, sizeof(void *));
    if (*a == NULL || *b == NULL || bench->slots == NULL || bench->results == NULL)
        return false;
    for (uint32_t i = 0; i < in_flight; i++)
        if ((bench->results[i] = malloc(bench->run.result_bytes)) == NULL)
            return false;
    fill_random(*a, request->dtype, a_bytes / size, 1);
    fill_random(*b, request->dtype, b_bytes / size, 2);
    return true;
}

static enum gemmd_error read_request(const struct arguments *arguments,
                                     struct gemm_request *request, struct fault *fault)
{
    enum gemmd_error code = parameters_read_gemm(request, arguments, fault);
    uint64_t *const sides[] = {&request->m, &request->n, &request->k};
    for (int i = 0; i < 3; i++)
        if (*sides[i] == 0)
            *sides[i] = DEFAULT_SIDE;
    return code == GEMMD_OK ? gemm_request_check(request, FORMAT_RAW, fault) : code;
}

int command_bench(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    struct gemmd_error_info error;
    char problem[PROBLEM_MAX];
    struct fault fault = {0};
    struct bench *bench = NULL;
    void *a = NULL, *b = NULL;
    uint32_t connections, in_flight, duration_ms, requests;
    int code = EXIT_OK;
    if (arguments->operand_count > 0)
        return strcmp(arguments->operands[0], "ladder") == 0
                   ? command_ladder(context)
                   : fail_usage(context, "bench takes no operand but ladder");
    if (!option_count(arguments, OPTION_CONNECTIONS, DEFAULT_CONNECTIONS, &connections, problem) ||
        !option_count(arguments, OPTION_IN_FLIGHT, connections, &in_flight, problem) ||
        !option_time_ms(arguments, OPTION_DURATION, DEFAULT_DURATION_MS, &duration_ms, problem) ||
        !option_count(arguments, OPTION_REQUESTS, 0, &requests, problem))
        return fail_usage(context, problem);
    if (connections == 0)
        return fail_usage(context, "--connections must be at least 1");
    if (in_flight < connections)
        return fail_usage(context, "--in-flight must be at least as many as --connections");
    bench = calloc(1, sizeof *bench);
    if (bench == NULL) {
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the measurement");
        return fail_fault(context, &fault);
    }
    bench->run.connections = connections;
    bench->run.in_flight = in_flight;
    if (read_request(arguments, &bench->run.request, &fault) != GEMMD_OK) {
        code = fail_fault(context, &fault);
        goto done;
    }
    bench->client = command_client(context, 0, connections, &code);
    if (bench->client == NULL)
        goto done;
    if (!allocate(bench, &a, &b)) {
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for operands of this size");
        code = fail_fault(context, &fault);
        goto done;
    }
    const struct gemm_operands operands = {.a = {.data = a},
                                           .b = {.data = b},
                                           .transa = bench->run.request.transa,
                                           .transb = bench->run.request.transb};
    parameters_to_gemm(&bench->run.request, &operands, &bench->gemm);
    bench->gemm.c_bytes = bench->run.result_bytes;
    interrupt_watch();
    if (!measure(bench, requests, duration_ms, &error)) {
        code = fail_request(context, &error);
        goto done;
    }
    bench_report(context, &bench->run);
    if (bench->run.error_count > 0)
        code = fail_sentence(context, &bench->run.first_error);

done:
    gemmd_client_free(bench->client);
    for (uint32_t i = 0; bench->results != NULL && i < in_flight; i++)
        free(bench->results[i]);
    free(bench->results);
    free(bench->slots);
    free(a);
    free(b);
    free(bench);
    return code;
}
