/* gemmctl bench ladder: measures every kernel of the daemon on square products. The time of a
 * product is the device's time, from the answer (Server-Timing: kernel). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/ladder_table.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/random_operands.h"
#include "client/gemmctl/table.h"
#include "proto/dtype.h"

enum { DEVICE_MAX = 96 };

/* A kernel computes ROUNDS products of a size, or fewer if these have taken ENOUGH_MS. A size is
 * left out if its products are expected to take longer than TOO_LONG_MS: 8 times as long as those
 * of half the side. */
enum { ROUNDS = 5 };
static const double TOO_LONG_MS = 10000, ENOUGH_MS = 2000;

/* The kernels, the slowest first. The other kernels are compared with the last one that the daemon
 * has. */
static const char *const rungs[] = {"naive",           "tiled",          "tiled_padded",
                                    "double_buffered", "register_tiled", "tensor_core",
                                    "wgmma",           "cublas",         "openblas"};
enum { RUNGS = sizeof rungs / sizeof rungs[0] };

struct run {
    struct gemmd_client *client;
    char device[DEVICE_MAX];
    json_t *kernels;  /* the kernels that GET /info lists */
    uint32_t largest; /* the largest N that is measured */
    void *a, *b, *c;  /* operands and result of the largest product */
    struct progress_line line;
};

/* Returns whether the daemon has the kernel for operands of type `dtype`. */
static bool has_kernel(const struct run *run, const char *name, enum gemmd_dtype dtype)
{
    size_t i;
    json_t *kernel;
    json_array_foreach(run->kernels, i, kernel)
    {
        const char *its = json_string_value(json_object_get(kernel, "name"));
        const char *op = json_string_value(json_object_get(kernel, "op"));
        if (its != NULL && strcmp(its, name) == 0 && op != NULL && strcmp(op, "gemm") == 0)
            return json_object_get(json_object_get(kernel, "dtypes"), dtype_name(dtype)) != NULL;
    }
    return false;
}

static enum gemmd_error ask(struct run *run, struct gemmd_error_info *error)
{
    char *text;
    enum gemmd_error code = gemmd_info(run->client, &text, error);
    if (code != GEMMD_OK)
        return code;
    json_t *info = json_loads(text, 0, NULL);
    json_t *device = json_array_get(json_object_get(info, "devices"), 0);
    const char *name = json_string_value(json_object_get(device, "name"));
    snprintf(run->device, sizeof run->device, "%s", name != NULL ? name : "");
    run->kernels = json_incref(json_object_get(info, "kernels"));
    json_decref(info);
    gemmd_free(text);
    if (json_is_array(run->kernels) && name != NULL)
        return GEMMD_OK;
    *error = (struct gemmd_error_info){
        .code = GEMMD_ERR_PROTOCOL,
        .message = "the daemon's answer to GET /info lists no device or no kernels"};
    return GEMMD_ERR_PROTOCOL;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum gemmd_error time_one(struct run *run, const struct gemmd_gemm *gemm,
                                 double *milliseconds, struct gemmd_error_info *error)
{
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = gemmd_gemm(run->client, gemm, &result, error);
    *milliseconds = result.timing.kernel;
    return code == GEMMD_OK && interrupt_asked() ? GEMMD_ERR_CANCELLED : code;
}

/* Measures the median time of several products, of fewer products if they are slow. A first product
 * is not counted. */
static enum gemmd_error measure_kernel(struct run *run, const struct ladder *table, bool transb,
                                       const char *kernel, uint32_t n, double *milliseconds,
                                       struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm;
    double times[ROUNDS], spent = 0;
    size_t count = 0;
    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = gemm.n = gemm.k = n;
    gemm.dtype = table->dtype;
    gemm.out = (int32_t)table->out;
    gemm.transb = transb;
    gemm.kernel = kernel;
    gemm.a = run->a;
    gemm.b = run->b;
    gemm.c = run->c;
    gemm.c_bytes = (uint64_t)n * n * dtype_size(table->out);
    enum gemmd_error code = time_one(run, &gemm, &times[0], error);
    do {
        if (code != GEMMD_OK)
            return code;
        code = time_one(run, &gemm, &times[count], error);
        spent += times[count++];
    } while (count < ROUNDS && spent < ENOUGH_MS);
    qsort(times, count, sizeof times[0], compare_doubles);
    *milliseconds = times[count / 2];
    return code;
}

static enum gemmd_error fill_table(struct run *run, struct ladder *table, bool transb,
                                   struct gemmd_error_info *error)
{
    table->device = run->device;
    for (unsigned i = 0; i < RUNGS; i++) {
        if (!has_kernel(run, rungs[i], table->dtype))
            continue;
        struct ladder_row *row = &table->rows[table->count++];
        double before = 0;
        snprintf(row->name, sizeof row->name, "%s", rungs[i]);
        table->library = rungs[i];
        for (unsigned size = 0; size < LADDER_SIZES; size++) {
            row->too_slow[size] = before * 8 > TOO_LONG_MS;
            if (row->too_slow[size] || ladder_sizes[size] > run->largest)
                continue;
            char part[96];
            snprintf(part, sizeof part, "%s: %s, N = %u", table->title, rungs[i],
                     ladder_sizes[size]);
            progress_say(&run->line, part);
            enum gemmd_error code = measure_kernel(run, table, transb, rungs[i], ladder_sizes[size],
                                                   &row->milliseconds[size], error);
            if (code != GEMMD_OK)
                return code;
            before = row->milliseconds[size];
        }
    }
    return GEMMD_OK;
}

static json_t *table_json(const struct ladder *table)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < table->count; i++) {
        json_t *milliseconds = json_object();
        for (unsigned size = 0; size < LADDER_SIZES; size++) {
            char n[16];
            snprintf(n, sizeof n, "%u", ladder_sizes[size]);
            if (table->rows[i].milliseconds[size] > 0)
                json_object_set_new(milliseconds, n, json_real(table->rows[i].milliseconds[size]));
        }
        json_array_append_new(rows,
                              json_pack("{s:o, s:o}", "kernel", print_text(table->rows[i].name),
                                        "kernel_ms", milliseconds));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "title", table->title, "dtype",
                     dtype_name(table->dtype), "device", print_text(table->device), "rows", rows);
}

static bool ladder_allocate(struct run *run)
{
    const uint64_t elements = (uint64_t)run->largest * run->largest;
    run->a = malloc(elements * sizeof(float));
    run->b = malloc(elements * sizeof(float));
    run->c = malloc(elements * sizeof(float));
    return run->a != NULL && run->b != NULL && run->c != NULL;
}

static enum gemmd_error run_tables(struct run *run, bool json, struct gemmd_error_info *error)
{
    static const struct {
        const char *title;
        enum gemmd_dtype dtype;
        bool transb;
    } tables[] = {{"f32, C = A·B", GEMMD_F32, false},
                  {"f32, C = A·Bᵀ", GEMMD_F32, true},
                  {"bf16, C = A·B", GEMMD_BF16, false}};
    const uint64_t elements = (uint64_t)run->largest * run->largest;
    json_t *list = json_array();
    enum gemmd_error code = GEMMD_OK;
    for (unsigned i = 0; i < sizeof tables / sizeof tables[0] && code == GEMMD_OK; i++) {
        struct ladder table = {
            .title = tables[i].title, .dtype = tables[i].dtype, .out = tables[i].dtype};
        fill_random(run->a, table.dtype, elements, 1);
        fill_random(run->b, table.dtype, elements, 2);
        code = fill_table(run, &table, tables[i].transb, error);
        progress_end(&run->line);
        if (code != GEMMD_OK)
            break;
        if (json)
            json_array_append_new(list, table_json(&table));
        else if (!ladder_print(&table, stdout)) {
            *error = (struct gemmd_error_info){.code = GEMMD_ERR_OUT_OF_MEMORY,
                                               .message = "there is no memory for the table"};
            code = error->code;
        }
    }
    if (json && code == GEMMD_OK)
        print_json(json_pack("{s:i, s:O}", "version", PRINT_JSON_VERSION, "tables", list));
    json_decref(list);
    return code;
}

int command_ladder(const struct context *context)
{
    struct run run = {0};
    struct gemmd_error_info error;
    struct fault fault;
    char problem[PROBLEM_MAX];
    int exit_code = EXIT_OK;
    const uint32_t last = ladder_sizes[LADDER_SIZES - 1];
    if (!option_count(context->arguments, OPTION_N, last, &run.largest, problem))
        return fail_usage(context, problem);
    if (run.largest < ladder_sizes[0] || run.largest > last)
        return fail_usage(context,
                          "--n, the side of the ladder's largest square, must be from 256 to 4096");
    run.client = command_client(context, COMMAND_RETRIES, 1, &exit_code);
    if (run.client == NULL)
        return exit_code;
    if (!ladder_allocate(&run)) {
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                  "there is no memory for operands of this size");
        exit_code = fail_fault(context, &fault);
        goto done;
    }
    interrupt_watch();
    progress_start(&run.line, &context->terminal, option_flag(context->arguments, OPTION_QUIET));
    if (ask(&run, &error) != GEMMD_OK ||
        run_tables(&run, option_flag(context->arguments, OPTION_JSON), &error) != GEMMD_OK)
        exit_code = interrupt_asked() ? EXIT_INTERRUPTED : fail_request(context, &error);

done:
    json_decref(run.kernels);
    free(run.a);
    free(run.b);
    free(run.c);
    gemmd_client_free(run.client);
    return exit_code;
}
