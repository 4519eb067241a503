#include "client/gemmctl/report.h"

#include <stdio.h>
#include <string.h>

#include "client/gemmctl/print.h"
#include "client/gemmctl/units.h"

struct stage {
    const char *name;
    double ms;
};
enum { STAGES = 6 };

static void list_stages(const struct gemmd_timing *timing, struct stage stages[STAGES])
{
    const struct stage list[STAGES] = {
        {"recv", timing->recv},     {"queue", timing->queue}, {"h2d", timing->h2d},
        {"kernel", timing->kernel}, {"d2h", timing->d2h},     {"total", timing->total},
    };
    memcpy(stages, list, sizeof list);
}

/* Floating-point operations per second, or bytes per second of a work that is bound by memory; 0:
 * not known. */
static double work_per_second(const struct report_work *work, double ms)
{
    const double amount = work->flops > 0 ? work->flops : work->bytes;
    return ms > 0 ? amount / ms * 1000 : 0;
}

static const char *rate_text(const struct report_work *work, double rate, char out[UNITS_ROOM])
{
    return work->flops > 0 ? units_flops(rate, out) : units_bytes_rate(rate, out);
}

static json_t *describe_check(const struct check *check)
{
    return json_pack("{s:s, s:f, s:I, s:I, s:I, s:I}", "verdict", "pass", "largest_error",
                     check->largest, "elements", (json_int_t)check->elements, "skipped",
                     (json_int_t)check->skipped, "rows_checked", (json_int_t)check->rows_checked,
                     "rows", (json_int_t)check->rows);
}

static json_t *shape_json(uint32_t rank, const uint64_t *dims)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)dims[i]));
    return shape;
}

static void print_result(const struct gemmd_result *result, const char *path, const char *lse_path,
                         const struct report_work *work)
{
    struct stage stages[STAGES];
    json_t *shape = shape_json(result->rank, result->dims), *timing = json_object();
    list_stages(&result->timing, stages);
    for (int i = 0; i < STAGES; i++)
        if (stages[i].ms >= 0)
            json_object_set_new(timing, stages[i].name, json_real(stages[i].ms));
    json_t *root = json_pack("{s:i, s:o, s:o, s:s, s:I, s:o, s:i, s:i, s:o, s:f, s:o}", "version",
                             PRINT_JSON_VERSION, "output", print_text(path), "shape", shape,
                             "dtype", result->type, "bytes", (json_int_t)result->bytes, "kernel",
                             print_text(result->kernel), "batch", (int)result->batch, "attempts",
                             (int)result->attempts, "request_id", print_text(result->request_id),
                             "elapsed_ms", result->elapsed_ms, "timing_ms", timing);
    const double rate = work_per_second(work, result->elapsed_ms);
    if (root != NULL && rate > 0)
        json_object_set_new(root, work->flops > 0 ? "gigaflops_per_second" : "gigabytes_per_second",
                            json_real(rate / 1e9));
    if (root != NULL && work->check != NULL)
        json_object_set_new(root, "check", describe_check(work->check));
    if (root != NULL && result->shared)
        json_object_set_new(root, "shared", json_true());
    if (root != NULL && result->verified)
        json_object_set_new(
            root, "verify",
            json_pack("{s:s, s:f}", "verdict", "pass", "residual", result->residual));
    if (root != NULL && result->scale != NULL) {
        json_object_set_new(root, "scale_shape",
                            shape_json(result->scale_rank, result->scale_dims));
        json_object_set_new(root, "scale", print_text(work->scale_path));
    }
    if (root != NULL && lse_path != NULL)
        json_object_set_new(root, "lse", print_text(lse_path));
    print_json(root);
}

const char *report_shape(uint32_t rank, const uint64_t *dims, char out[REPORT_SHAPE_ROOM])
{
    size_t length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < rank; i++)
        length += (size_t)snprintf(out + length, REPORT_SHAPE_ROOM - length, "%s%llu",
                                   i > 0 ? "x" : "", (unsigned long long)dims[i]);
    return out;
}

static void print_check(const struct check *check)
{
    fprintf(stderr, ", checked (largest error %.3g of the bound", check->largest);
    if (check->rows_checked < check->rows)
        fprintf(stderr, ", %llu of %llu rows", (unsigned long long)check->rows_checked,
                (unsigned long long)check->rows);
    if (check->skipped > 0)
        fprintf(stderr, ", %llu elements that are not finite left out",
                (unsigned long long)check->skipped);
    fputc(')', stderr);
}

static void print_line(const struct gemmd_result *result, const char *path,
                       const struct report_work *work)
{
    char shape[REPORT_SHAPE_ROOM], text[UNITS_ROOM];
    const double rate = work_per_second(work, result->elapsed_ms);
    const char *name = path != NULL ? path : work->name;
    fprintf(stderr, "%s%s: %s %s",
            path != NULL && strcmp(path, "-") == 0 ? "standard output" : name,
            path == NULL ? " (dropped)" : "", report_shape(result->rank, result->dims, shape),
            result->type);
    if (work->scale_path != NULL)
        fprintf(stderr, " with scales %s",
                report_shape(result->scale_rank, result->scale_dims, shape));
    if (result->kernel[0] != '\0') {
        fputs(" by ", stderr);
        (void)terminal_put(result->kernel, stderr);
    }
    fprintf(stderr, " in %.3f ms", result->elapsed_ms);
    if (rate > 0)
        fprintf(stderr, ", %s", rate_text(work, rate, text));
    if (result->verified)
        fprintf(stderr, ", verified (residual %.3g)", result->residual);
    if (result->shared)
        fprintf(stderr, ", through shared memory");
    if (result->attempts > 1)
        fprintf(stderr, ", %u attempts", result->attempts);
    if (work->check != NULL)
        print_check(work->check);
    fputc('\n', stderr);
}

/* The kernel's line has the speed of the computation itself. */
static void print_timing(const struct gemmd_timing *timing, const struct report_work *work)
{
    struct stage stages[STAGES];
    char text[UNITS_ROOM];
    list_stages(timing, stages);
    for (int i = 0; i < STAGES; i++) {
        const double rate =
            strcmp(stages[i].name, "kernel") == 0 ? work_per_second(work, stages[i].ms) : 0;
        if (stages[i].ms >= 0)
            fprintf(stderr, "  %-8s%10.3f ms%s%s\n", stages[i].name, stages[i].ms,
                    rate > 0 ? "  " : "", rate > 0 ? rate_text(work, rate, text) : "");
    }
}

void report_result(const struct context *context, const struct gemmd_result *result,
                   const char *path, const struct report_work *work)
{
    const struct arguments *arguments = context->arguments;
    if (option_flag(arguments, OPTION_JSON))
        print_result(result, path, arguments->values[OPTION_LSE], work);
    else if (!option_flag(arguments, OPTION_QUIET))
        print_line(result, path, work);
    if (option_flag(arguments, OPTION_TIMING))
        print_timing(&result->timing, work);
}

int report_stored(const struct context *context, const struct gemmd_result *result,
                  const char *name)
{
    static const char *const words[] = {"none", "created", "replaced", "unchanged"};
    static const char *const sentences[] = {"", "uploaded", "uploaded, in place of another",
                                            "already there"};
    const struct arguments *arguments = context->arguments;
    bool computed = arguments->values[OPTION_STORE] != NULL;
    char shape[REPORT_SHAPE_ROOM];
    if (option_flag(arguments, OPTION_JSON))
        print_json(json_pack("{s:i, s:o, s:s, s:o, s:s, s:I, s:o, s:i, s:o, s:f}", "version",
                             PRINT_JSON_VERSION, "name", print_text(name), "put",
                             words[result->put], "shape", shape_json(result->rank, result->dims),
                             "dtype", result->type, "bytes", (json_int_t)result->bytes, "etag",
                             print_text(result->etag), "attempts", (int)result->attempts,
                             "request_id", print_text(result->request_id), "elapsed_ms",
                             result->elapsed_ms));
    else if (!option_flag(arguments, OPTION_QUIET))
        printf("%s: %s, %s %s, %llu bytes\n", name, computed ? "stored" : sentences[result->put],
               report_shape(result->rank, result->dims, shape), result->type,
               (unsigned long long)result->bytes);
    return EXIT_OK;
}

int report_job_taken(const struct context *context, const struct gemmd_result *result)
{
    if (result->job[0] == '\0') {
        const struct gemmd_error_info error = {
            .code = GEMMD_ERR_PROTOCOL,
            .message = "the daemon accepts no jobs and computed the result at once"};
        return fail_request(context, &error);
    }
    if (option_flag(context->arguments, OPTION_JSON))
        print_json(json_pack("{s:i, s:o, s:o}", "version", PRINT_JSON_VERSION, "job",
                             print_text(result->job), "request_id",
                             print_text(result->request_id)));
    else
        puts(result->job);
    return EXIT_OK;
}

int report_table(const struct context *context, const struct table *table, const char *empty)
{
    struct fault fault = {0};
    if (!table_print(table, context->terminal.out_color, stdout)) {
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for the table");
        return fail_fault(context, &fault);
    }
    if (table->rows == 0 && !option_flag(context->arguments, OPTION_QUIET))
        fprintf(stderr, "%s\n", empty);
    return EXIT_OK;
}
