/* server/observe/metrics*.c: a scrape has the numbers that were counted, a series that was never
 * used is not made, and Prometheus' own checker accepts the text. */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/dtype.h"
#include "proto/error.h"
#include "server/base/trace_context.h"
#include "server/observe/metrics.h"
#include "server/observe/metrics_shard.h"
#include "server/observe/metrics_totals.h"
#include "server/observe/nvml.h"
#include "tests/unit/command.h"

static const struct metrics_identity identity = {.version = "1.2.3",
                                                 .revision = "abc",
                                                 .backend = "cpu",
                                                 .library = "a \"quoted\" \\ name\n",
                                                 .mhd = "0.9",
                                                 .arch = "sm_90"};

static void count_request(struct metrics_shard *shard, enum metrics_op op, enum gemmd_dtype dtype,
                          enum gemmd_error code, uint64_t duration_ns, uint64_t request_bytes,
                          uint64_t response_bytes)
{
    metrics_request(shard, &(struct metrics_request){.op = op,
                                                     .dtype = dtype,
                                                     .code = code,
                                                     .tenant = METRICS_NO_TENANT,
                                                     .duration_ns = duration_ns,
                                                     .request_bytes = request_bytes,
                                                     .response_bytes = response_bytes});
}

static void count_tenant(struct metrics_shard *shard, uint32_t tenant, enum gemmd_error code)
{
    metrics_request(shard, &(struct metrics_request){.op = METRICS_OP_TENSOR,
                                                     .dtype = GEMMD_DTYPE_COUNT,
                                                     .code = code,
                                                     .tenant = tenant});
}

static char *expose(struct metrics *metrics, const struct metrics_gauges *gauges,
                    enum metrics_format format)
{
    char *text = NULL;
    uint64_t length = 0;
    ck_assert(metrics_expose(metrics, gauges, format, &text, &length));
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

static char *expose_text(struct metrics *metrics)
{
    const struct metrics_gauges gauges = {0};
    return expose(metrics, &gauges, METRICS_TEXT);
}

/* The value of the one sample that has this name and these labels. */
static const char *sample(const char *text, const char *series)
{
    static char value[64];
    char line[256];
    size_t length = (size_t)snprintf(line, sizeof(line), "\n%s ", series);
    const char *found = strstr(text, line);
    ck_assert_msg(found, "there is no sample of %s", series);
    ck_assert_msg(!strstr(found + 1, line), "there are two samples of %s", series);
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(found + length, "\n"), found + length);
    return value;
}

static void assert_sample(const char *text, const char *series, const char *expected)
{
    const char *value = sample(text, series);
    ck_assert_msg(strcmp(value, expected) == 0, "%s is %s, not %s", series, value, expected);
}

static uint32_t count_series(const char *text)
{
    uint32_t count = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        count += line[0] != '#';
    return count;
}

START_TEST(series_that_were_never_used_are_not_made)
{
    struct metrics *metrics = metrics_create(2, &identity);
    char *text = expose_text(metrics);
    ck_assert_ptr_null(strstr(text, "\ngemmd_requests_total{"));
    ck_assert_ptr_null(strstr(text, "\ngemmd_request_duration_seconds_bucket{"));
    ck_assert_ptr_null(strstr(text, "\ngemmd_kernel_works_total{"));
    ck_assert_msg(count_series(text) <= 300, "%" PRIu32 " series are more than 300",
                  count_series(text));
    free(text);
    count_request(metrics_shard(metrics, 1), METRICS_OP_INFER, GEMMD_F16, GEMMD_OK, 1000, 1, 1);
    text = expose_text(metrics);
    assert_sample(text, "gemmd_requests_total{op=\"infer\",dtype=\"f16\",code=\"200\"}", "1");
    assert_sample(text, "gemmd_request_duration_seconds_count{op=\"infer\"}", "1");
    ck_assert_ptr_null(strstr(text, "op=\"gemm\""));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(handshakes_are_shown_once_there_was_one)
{
    struct metrics *metrics = metrics_create(2, &identity);
    char *text = expose_text(metrics);
    ck_assert_ptr_null(strstr(text, "gemmd_tls_handshakes_total"));
    free(text);
    metrics_handshake(metrics_shard(metrics, 0), true);
    metrics_handshake(metrics_shard(metrics, 1), false);
    text = expose_text(metrics);
    assert_sample(text, "gemmd_tls_handshakes_total{result=\"ok\"}", "1");
    assert_sample(text, "gemmd_tls_handshakes_total{result=\"failed\"}", "1");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

/* Checks that parameters ask for are shown once one was made, those of a sample from the start. */
START_TEST(verifications_are_shown_once_there_was_one)
{
    struct metrics *metrics = metrics_create(1, &identity);
    struct metrics_gauges gauges = {.verifies_sample = true};
    char *text = expose(metrics, &gauges, METRICS_TEXT);
    assert_sample(text, "gemmd_verifications_total{by=\"sample\",result=\"pass\"}", "0");
    ck_assert_ptr_null(strstr(text, "by=\"request\""));
    free(text);
    gauges = (struct metrics_gauges){.verified_asked = {.pass = 1, .fail = 2, .error = 3}};
    text = expose(metrics, &gauges, METRICS_TEXT);
    assert_sample(text, "gemmd_verifications_total{by=\"request\",result=\"pass\"}", "1");
    assert_sample(text, "gemmd_verifications_total{by=\"request\",result=\"fail\"}", "2");
    assert_sample(text, "gemmd_verifications_total{by=\"request\",result=\"error\"}", "3");
    ck_assert_ptr_null(strstr(text, "by=\"sample\""));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

/* A family of two figures is described by the first, which a GPU need not have. */
START_TEST(a_figure_has_the_help_of_its_family)
{
    static struct nvml_sample gpu = {.up = true, .count = 1};
    const struct metrics_gauges gauges = {.gpus = &gpu};
    struct metrics *metrics = metrics_create(1, &identity);
    snprintf(gpu.gpus[0].uuid, sizeof gpu.gpus[0].uuid, "GPU-1");
    gpu.gpus[0].has[NVML_MEMORY_CLOCK] = true;
    gpu.gpus[0].values[NVML_MEMORY_CLOCK] = 5e9;
    char *text = expose(metrics, &gauges, METRICS_TEXT);
    ck_assert_ptr_nonnull(
        strstr(text, "# HELP gemmd_gpu_clock_hertz Frequency of a clock of the GPU.\n"));
    assert_sample(text, "gemmd_gpu_clock_hertz{uuid=\"GPU-1\",clock=\"memory\"}", "5000000000");
    ck_assert_ptr_null(strstr(text, "clock=\"sm\""));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

/* The sum of the samples whose lines begin so. */
static uint64_t sum_of(const char *text, const char *begin)
{
    uint64_t sum = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        if (strncmp(line, begin, strlen(begin)) == 0)
            sum += strtoull(strchr(line, '}') + 2, NULL, 10);
    return sum;
}

/* Counts everything that a thread can count, for works of `kernels` kernels. */
static void use_everything(struct metrics_shard *shard, const char *const *kernels, uint32_t count)
{
    for (int op = 0; op < METRICS_OP_COUNT; op++)
        for (int dtype = 0; dtype <= GEMMD_DTYPE_COUNT; dtype++)
            for (int code = 0; code < GEMMD_ERR_COUNT; code++)
                count_request(shard, (enum metrics_op)op, (enum gemmd_dtype)dtype,
                              (enum gemmd_error)code, 1, 1, 1);
    for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
        metrics_stage(shard, (enum metrics_stage)stage, 1);
    for (int task = 0; task < METRICS_KIND_COUNT; task++)
        metrics_queue_wait(shard, (enum metrics_kind)task, 1);
    for (uint32_t i = 0; i < count; i++)
        for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
            for (int task = 0; task < METRICS_KIND_COUNT; task++)
                metrics_work(shard, &(struct metrics_work){(enum metrics_kind)task,
                                                           kernels[i],
                                                           (enum gemmd_dtype)dtype,
                                                           1,
                                                           1,
                                                           1,
                                                           METRICS_NO_TENANT,
                                                           {1, 1, 1}});
    metrics_launch(shard, 1, 1, 1);
    metrics_handshake(shard, true);
}

START_TEST(a_daemon_that_has_used_everything_has_at_most_500_series)
{
    static const char *const kernels[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    static struct nvml_sample gpu = {.up = true, .count = 1};
    struct metrics_gauges gauges = {.gpus = &gpu,
                                    .exports_spans = true,
                                    .verifies_sample = true,
                                    .device_restarts = 1,
                                    .handovers_failed = 1,
                                    .certificate_expiry_seconds = 1,
                                    .peak_memory_bytes = 1,
                                    .limit_count = METRICS_LIMITS_MAX};
    gauges.verified_asked.pass = 1;
    for (uint32_t i = 0; i < METRICS_LIMITS_MAX; i++)
        gauges.limits[i].name = kernels[i];
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        gauges.peak_flops[dtype] = 1;
    memset(gpu.gpus[0].has, true, sizeof gpu.gpus[0].has);
    gpu.gpus[0].has_throttle = true;
    gpu.gpus[0].throttle_seen = 0x1ff;
    gpu.gpus[0].xid_count = NVML_XIDS_MAX;
    struct metrics *metrics = metrics_create(2, &identity);
    use_everything(metrics_shard(metrics, 0), kernels, 8);
    use_everything(metrics_shard(metrics, 1), kernels, 8);
    char *text = expose(metrics, &gauges, METRICS_TEXT);
    ck_assert_msg(count_series(text) <= 500, "%" PRIu32 " series are more than 500",
                  count_series(text));
    /* What has no series of its own is not lost. */
    ck_assert_uint_eq(sum_of(text, "gemmd_requests_total{"),
                      2 * METRICS_OP_COUNT * (GEMMD_DTYPE_COUNT + 1) * GEMMD_ERR_COUNT);
    ck_assert_uint_eq(sum_of(text, "gemmd_kernel_works_total{"),
                      2 * 8 * GEMMD_DTYPE_COUNT * METRICS_KIND_COUNT);
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(the_first_series_of_a_family_stay)
{
    struct metrics *metrics = metrics_create(1, &identity);
    struct metrics_shard *shard = metrics_shard(metrics, 0);
    static const char *const kernels[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const struct metrics_work last = {METRICS_KIND_COPY, "last", GEMMD_I32, 1, 1, 1, 0, {1, 1, 1}};
    count_request(shard, METRICS_OP_OTHER, GEMMD_DTYPE_COUNT, GEMMD_OK, 1, 1, 1);
    metrics_work(shard, &last);
    free(expose_text(metrics));
    use_everything(shard, kernels, 8);
    metrics_work(shard, &last);
    char *text = expose_text(metrics);
    assert_sample(text, "gemmd_requests_total{op=\"other\",dtype=\"\",code=\"200\"}", "9");
    assert_sample(text, "gemmd_kernel_works_total{op=\"copy\",kernel=\"last\",dtype=\"i32\"}", "2");
    ck_assert_ptr_nonnull(strstr(text, "gemmd_requests_total{op=\"\",dtype=\"\",code=\"other\"}"));
    ck_assert_ptr_nonnull(strstr(text, "kernel=\"other\""));
    /* The statuses that alerts ask for can be found whatever came before them. */
    ck_assert_ptr_nonnull(strstr(text, "{op=\"\",dtype=\"\",code=\"503\"}"));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(works_are_counted_by_kernel_and_type)
{
    struct metrics *metrics = metrics_create(2, &identity);
    const struct metrics_work product = {METRICS_KIND_OF(OPERATION_GEMM),
                                         "tiled",
                                         GEMMD_F16,
                                         8,
                                         24,
                                         1500000000,
                                         METRICS_NO_TENANT,
                                         {1, 1, 1}};
    const struct metrics_work attention = {METRICS_KIND_OF(OPERATION_ATTENTION),
                                           "tiled",
                                           GEMMD_F16,
                                           5,
                                           6,
                                           7,
                                           METRICS_NO_TENANT,
                                           {1, 1, 1}};
    metrics_work(metrics_shard(metrics, 0), &product);
    metrics_work(metrics_shard(metrics, 1), &product);
    metrics_work(metrics_shard(metrics, 1), &attention);
    char *text = expose_text(metrics);
#define OF_PRODUCT "{op=\"gemm\",kernel=\"tiled\",dtype=\"f16\"}"
    assert_sample(text, "gemmd_kernel_works_total" OF_PRODUCT, "2");
    assert_sample(text, "gemmd_kernel_flops_total" OF_PRODUCT, "16");
    assert_sample(text, "gemmd_kernel_moved_bytes_total" OF_PRODUCT, "48");
    assert_sample(text, "gemmd_kernel_busy_seconds_total" OF_PRODUCT, "3.000000000");
    assert_sample(text, "gemmd_kernel_works_total{op=\"attention\",kernel=\"tiled\",dtype=\"f16\"}",
                  "1");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(a_peak_that_is_not_known_is_absent)
{
    struct metrics_gauges gauges = {.peak_flops = {[GEMMD_F32] = 6e13}};
    struct metrics *metrics = metrics_create(1, &identity);
    char *text = expose(metrics, &gauges, METRICS_TEXT);
    assert_sample(text, "gemmd_device_peak_flops_per_second{dtype=\"f32\"}", "60000000000000");
    ck_assert_ptr_null(strstr(text, "gemmd_device_peak_flops_per_second{dtype=\"f64\"}"));
    ck_assert_ptr_null(strstr(text, "gemmd_device_peak_memory_bytes_per_second"));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(shards_are_added_up)
{
    struct metrics *metrics = metrics_create(3, &identity);
    for (uint32_t i = 0; i < 3; i++) {
        struct metrics_shard *shard = metrics_shard(metrics, i);
        count_request(shard, METRICS_OP_OF(OPERATION_GEMM), GEMMD_BF16, GEMMD_OK, 20000000, 100 + i,
                      10);
        count_request(shard, METRICS_OP_OF(OPERATION_GEMM), GEMMD_DTYPE_COUNT, GEMMD_ERR_QUEUE_FULL,
                      1, 0, 0);
        count_request(shard, METRICS_OP_OTHER, GEMMD_DTYPE_COUNT, GEMMD_OK, 1, 0, 0);
        metrics_launch(shard, 4, 0.5, 1500000000);
    }
    metrics_device_error(metrics_shard(metrics, 2));
    metrics_client_gone(metrics_shard(metrics, 0));
    metrics_early_copy(metrics_shard(metrics, 0), 4096);
    metrics_early_copy(metrics_shard(metrics, 2), 100);
    metrics_connection_refused(metrics_shard(metrics, 1));
    char *text = expose_text(metrics);
    assert_sample(text, "gemmd_requests_total{op=\"gemm\",dtype=\"bf16\",code=\"200\"}", "3");
    assert_sample(text, "gemmd_requests_total{op=\"gemm\",dtype=\"\",code=\"429\"}", "3");
    assert_sample(text, "gemmd_requests_total{op=\"other\",dtype=\"\",code=\"200\"}", "3");
    assert_sample(text, "gemmd_rejected_total{reason=\"queue-full\"}", "3");
    assert_sample(text, "gemmd_rejected_total{reason=\"connection-limit\"}", "1");
    assert_sample(text, "gemmd_rejected_total{reason=\"malformed\"}", "0");
    assert_sample(text, "gemmd_request_bytes_total", "303");
    assert_sample(text, "gemmd_response_bytes_total", "30");
    assert_sample(text, "gemmd_batch_size_bucket{le=\"2.0\"}", "0");
    assert_sample(text, "gemmd_batch_size_bucket{le=\"4.0\"}", "3");
    assert_sample(text, "gemmd_batch_size_sum", "12.0");
    assert_sample(text, "gemmd_flops_total", "1.5");
    assert_sample(text, "gemmd_device_busy_seconds_total", "4.500000000");
    assert_sample(text, "gemmd_device_errors_total", "1");
    assert_sample(text, "gemmd_client_gone_total", "1");
    assert_sample(text, "gemmd_early_copy_bytes_total", "4196");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(errors_of_one_status_are_one_series)
{
    struct metrics *metrics = metrics_create(1, &identity);
    struct metrics_shard *shard = metrics_shard(metrics, 0);
    count_request(shard, METRICS_OP_OF(OPERATION_GEMM), GEMMD_F32, GEMMD_ERR_DRAINING, 1, 0, 0);
    count_request(shard, METRICS_OP_OF(OPERATION_GEMM), GEMMD_F32, GEMMD_ERR_DEVICE_LOST, 1, 0, 0);
    count_request(shard, METRICS_OP_OF(OPERATION_GEMM), GEMMD_F32, GEMMD_ERR_CANCELLED, 1, 0, 0);
    char *text = expose_text(metrics);
    assert_sample(text, "gemmd_requests_total{op=\"gemm\",dtype=\"f32\",code=\"503\"}", "2");
    assert_sample(text, "gemmd_requests_total{op=\"gemm\",dtype=\"f32\",code=\"none\"}", "1");
    assert_sample(text, "gemmd_rejected_total{reason=\"draining\"}", "1");
    assert_sample(text, "gemmd_rejected_total{reason=\"device-lost\"}", "1");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(types_that_no_product_takes_have_no_series)
{
    struct metrics *metrics = metrics_create(1, &identity);
    count_request(metrics_shard(metrics, 0), METRICS_OP_OF(OPERATION_GEMM), GEMMD_I32,
                  GEMMD_ERR_UNSUPPORTED, 1, 0, 0);
    char *text = expose_text(metrics);
    assert_sample(text, "gemmd_requests_total{op=\"gemm\",dtype=\"\",code=\"422\"}", "1");
    ck_assert_ptr_null(strstr(text, "dtype=\"i32\""));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(durations_fall_into_the_bucket_they_reach)
{
    struct metrics *metrics = metrics_create(1, &identity);
    uint64_t sum = 0;
    for (int i = 0; i < METRICS_STAGE_BUCKETS; i++) {
        uint64_t bound = metrics_stage_bounds_ns[i];
        metrics_stage(metrics_shard(metrics, 0), METRICS_STAGE_KERNEL, bound);     /* le: inside */
        metrics_stage(metrics_shard(metrics, 0), METRICS_STAGE_KERNEL, bound + 1); /* the next */
        sum += 2 * bound + 1;
    }
    char *text = expose_text(metrics);
    char expected[64];
    assert_sample(text, "gemmd_stage_duration_seconds_bucket{stage=\"kernel\",le=\"0.00001\"}",
                  "1");
    assert_sample(text, "gemmd_stage_duration_seconds_bucket{stage=\"kernel\",le=\"0.00003\"}",
                  "3");
    assert_sample(text, "gemmd_stage_duration_seconds_bucket{stage=\"kernel\",le=\"1.0\"}", "21");
    assert_sample(text, "gemmd_stage_duration_seconds_bucket{stage=\"kernel\",le=\"60.0\"}", "29");
    assert_sample(text, "gemmd_stage_duration_seconds_bucket{stage=\"kernel\",le=\"+Inf\"}", "30");
    assert_sample(text, "gemmd_stage_duration_seconds_count{stage=\"kernel\"}", "30");
    snprintf(expected, sizeof(expected), "%" PRIu64 ".%09" PRIu64, sum / 1000000000,
             sum % 1000000000);
    assert_sample(text, "gemmd_stage_duration_seconds_sum{stage=\"kernel\"}", expected);
    assert_sample(text, "gemmd_stage_duration_seconds_count{stage=\"send\"}", "0");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(bounds_of_latencies_are_in_seconds)
{
    ck_assert_double_eq_tol(metrics_latency_bound_s(0), 10e-6, 1e-12);
    ck_assert_double_eq_tol(metrics_latency_bound_s(METRICS_TIME_BUCKETS - 1), 60, 1e-6);
    ck_assert_double_eq(metrics_latency_bound_s(METRICS_TIME_BUCKETS), 0); /* there is no bound */
}
END_TEST

START_TEST(tenants_are_those_given)
{
    struct metrics_gauges gauges = {
        .tenant_capacity_requests = 21,
        .tenant_capacity_bytes = 22,
        .tenant_capacity_tensor_bytes = 23,
        .limits = {{"queue-requests", 31},
                   {"queue-bytes", 32},
                   {"tenant-requests", 33},
                   {"tenant-bytes", 34}},
        .limit_count = 4,
        .tenants = {{"alice", 0, 1, 41, 42, 45, 0, 0}, {"(others)", 1, 3, 43, 44, 46, 0, 0}},
        .tenant_count = 2};
    struct metrics *metrics = metrics_create(1, &identity);
    char *text = expose(metrics, &gauges, METRICS_TEXT);
    assert_sample(text, "gemmd_tenant_capacity_requests", "21");
    assert_sample(text, "gemmd_tenant_capacity_bytes", "22");
    assert_sample(text, "gemmd_tenant_tensor_capacity_bytes", "23");
    assert_sample(text, "gemmd_queue_refused_total{limit=\"queue-requests\"}", "31");
    assert_sample(text, "gemmd_queue_refused_total{limit=\"queue-bytes\"}", "32");
    assert_sample(text, "gemmd_queue_refused_total{limit=\"tenant-requests\"}", "33");
    assert_sample(text, "gemmd_queue_refused_total{limit=\"tenant-bytes\"}", "34");
    assert_sample(text, "gemmd_tenant_requests{tenant=\"alice\"}", "41");
    assert_sample(text, "gemmd_tenant_bytes{tenant=\"alice\"}", "42");
    assert_sample(text, "gemmd_tenant_requests{tenant=\"(others)\"}", "43");
    assert_sample(text, "gemmd_tenant_bytes{tenant=\"(others)\"}", "44");
    assert_sample(text, "gemmd_tenant_tensor_bytes{tenant=\"alice\"}", "45");
    assert_sample(text, "gemmd_tenant_tensor_bytes{tenant=\"(others)\"}", "46");
    free(text);
    gauges.tenant_count = 0;
    text = expose(metrics, &gauges, METRICS_TEXT);
    ck_assert_ptr_null(strstr(text, "alice"));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(work_is_counted_by_tenant)
{
    const struct metrics_gauges gauges = {
        .tenants = {{.name = "alice", .first = 0, .end = 1},
                    {.name = "(others)", .first = 1, .end = 9}}, /* more than are counted */
        .tenant_count = 2};
    struct metrics *metrics = metrics_create(2, &identity);
    char *text = expose(metrics, &gauges, METRICS_TEXT);
    ck_assert_ptr_null(strstr(text, "gemmd_tenant_device_seconds")); /* nothing is counted */
    free(text);
    count_tenant(metrics_shard(metrics, 0), 0, GEMMD_OK);
    ck_assert(metrics_count_tenants(metrics, 3));
    for (uint32_t tenant = 0; tenant < 4; tenant++) {
        count_tenant(metrics_shard(metrics, 0), tenant, GEMMD_OK);
        count_tenant(metrics_shard(metrics, 1), tenant, GEMMD_ERR_DRAINING);
        metrics_work(metrics_shard(metrics, 1),
                     &(struct metrics_work){.kernel = "a",
                                            .busy_ns = UINT64_C(1000000000) << tenant,
                                            .tenant = tenant});
    }
    text = expose(metrics, &gauges, METRICS_TEXT);
    assert_sample(text, "gemmd_tenant_ended_requests_total{tenant=\"alice\"}", "2");
    assert_sample(text, "gemmd_tenant_errors_total{tenant=\"(others)\",reason=\"draining\"}", "2");
    assert_sample(text, "gemmd_tenant_ended_requests_total{tenant=\"(others)\"}", "4");
    assert_sample(text, "gemmd_tenant_device_seconds_total{tenant=\"alice\"}", "1.000000000");
    assert_sample(text, "gemmd_tenant_device_seconds_total{tenant=\"(others)\"}", "6.000000000");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(gauges_are_those_given)
{
    const struct metrics_gauges gauges = {.requests_waiting = 1,
                                          .requests_running = 2,
                                          .connections = 3,
                                          .connections_capacity = 12,
                                          .ready = 1,
                                          .draining = 0,
                                          .queue_bytes = 4,
                                          .queue_capacity_bytes = 5,
                                          .queue_capacity_requests = 6,
                                          .pinned_used_bytes = 7,
                                          .pinned_capacity_bytes = 8,
                                          .device_used_bytes = 9,
                                          .device_capacity_bytes = UINT64_MAX,
                                          .kernels_left_out = 10,
                                          .log_dropped_lines = 11,
                                          .device_restarts = 12};
    struct metrics *metrics = metrics_create(1, &identity);
    char *text = expose(metrics, &gauges, METRICS_TEXT);
    assert_sample(text, "gemmd_requests_waiting", "1");
    assert_sample(text, "gemmd_requests_running", "2");
    assert_sample(text, "gemmd_connections", "3");
    assert_sample(text, "gemmd_connections_capacity", "12");
    assert_sample(text, "gemmd_ready", "1");
    assert_sample(text, "gemmd_draining", "0");
    assert_sample(text, "gemmd_queue_bytes", "4");
    assert_sample(text, "gemmd_queue_capacity_bytes", "5");
    assert_sample(text, "gemmd_queue_capacity_requests", "6");
    assert_sample(text, "gemmd_pinned_memory_used_bytes", "7");
    assert_sample(text, "gemmd_pinned_memory_capacity_bytes", "8");
    assert_sample(text, "gemmd_device_memory_used_bytes", "9");
    assert_sample(text, "gemmd_device_memory_capacity_bytes", "18446744073709551615");
    assert_sample(text, "gemmd_kernels_left_out", "10");
    assert_sample(text, "gemmd_log_dropped_lines_total", "11");
    assert_sample(text, "gemmd_device_restarts_total", "12");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(the_process_is_this_one)
{
    struct metrics *metrics = metrics_create(1, &identity);
    char *before = expose_text(metrics);
    uint64_t open_before = strtoull(sample(before, "process_open_fds"), NULL, 10);
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    char *after = expose_text(metrics);
    ck_assert_uint_eq(strtoull(sample(after, "process_open_fds"), NULL, 10), open_before + 2);
    ck_assert_uint_ge(strtoull(sample(after, "process_threads"), NULL, 10), 1);
    ck_assert_uint_ge(strtoull(sample(after, "process_max_fds"), NULL, 10), open_before + 2);
    ck_assert_double_gt(strtod(sample(after, "process_resident_memory_bytes"), NULL), 0);
    ck_assert_double_gt(strtod(sample(after, "process_virtual_memory_bytes"), NULL),
                        strtod(sample(after, "process_resident_memory_bytes"), NULL));
    double start = strtod(sample(after, "process_start_time_seconds"), NULL);
    double now = (double)time(NULL);
    ck_assert_msg(start <= now + 1 && start > now - 3600, "started at %f, now is %f", start, now);
    close(fds[0]);
    close(fds[1]);
    free(before);
    free(after);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(build_info_is_escaped)
{
    struct metrics *metrics = metrics_create(1, &identity);
    char *text = expose_text(metrics);
    assert_sample(text,
                  "gemmd_build_info{version=\"1.2.3\",revision=\"abc\",backend=\"cpu\","
                  "library=\"a \\\"quoted\\\" \\\\ name\\n\",mhd=\"0.9\",arch=\"sm_90\"}",
                  "1");
    free(text);
    metrics_destroy(metrics);
}
END_TEST

/* OpenMetrics: families of counters and infos are named without the suffix that samples have. */
START_TEST(open_metrics_differs_where_it_must)
{
    const struct metrics_gauges gauges = {0};
    struct metrics *metrics = metrics_create(1, &identity);
    count_request(metrics_shard(metrics, 0), METRICS_OP_OTHER, GEMMD_DTYPE_COUNT, GEMMD_OK, 1, 0,
                  0);
    char *text = expose(metrics, &gauges, METRICS_OPENMETRICS);
    const char *end = "\n# EOF\n";
    ck_assert_str_eq(text + strlen(text) - strlen(end), end);
    ck_assert_ptr_nonnull(strstr(text, "\n# TYPE gemmd_build info\ngemmd_build_info{"));
    ck_assert_ptr_nonnull(strstr(text, "# TYPE gemmd_requests counter\ngemmd_requests_total{"));
    ck_assert_ptr_null(strstr(text, "_total counter"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") > 0, "OpenMetrics allows no empty line");
    free(text);

    text = expose(metrics, &gauges, METRICS_TEXT);
    ck_assert_ptr_nonnull(strstr(text, "\n# TYPE gemmd_build_info gauge\ngemmd_build_info{"));
    ck_assert_ptr_nonnull(strstr(text, "# TYPE gemmd_requests_total counter\n"));
    ck_assert_ptr_null(strstr(text, "# EOF"));
    free(text);
    metrics_destroy(metrics);
}
END_TEST

START_TEST(promtool_finds_nothing)
{
    struct metrics *metrics = metrics_create(1, &identity);
    metrics_launch(metrics_shard(metrics, 0), 3, 1e18 + 0.5, 12345);
    char *text = expose_text(metrics);
    FILE *input = tmpfile();
    ck_assert_ptr_nonnull(input);
    ck_assert_int_ge(fputs(text, input), 0);
    rewind(input);
    const char *const promtool[] = {"promtool", "check", "metrics", NULL};
    char said[512];
    int status = command_run(promtool, fileno(input), said, sizeof(said));
    fclose(input);
    ck_assert_msg(status == 0 && !said[0], "promtool (of Prometheus): status %d, %s", status, said);
    free(text);
    metrics_destroy(metrics);
}
END_TEST

enum { WRITERS = 3, ROUNDS = 20000 };

struct writer {
    struct metrics_shard *shard;
    _Atomic uint32_t *running;
};

static void *count(void *argument)
{
    struct writer *writer = argument;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        count_request(writer->shard, METRICS_OP_OF(OPERATION_GEMM), GEMMD_F32, GEMMD_OK, i, 1, 1);
        metrics_launch(writer->shard, 1, 1, 1);
        const struct metrics_work work = {.kernel = "tiled", .dtype = GEMMD_F32, .flops = 1};
        metrics_work(writer->shard, &work);
    }
    atomic_fetch_sub(writer->running, 1);
    return NULL;
}

/* Under ThreadSanitizer this also shows that scraping while counting is no race. */
START_TEST(scrapes_while_threads_count)
{
    struct metrics *metrics = metrics_create(WRITERS, &identity);
    _Atomic uint32_t running = WRITERS;
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){metrics_shard(metrics, i), &running};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count, &writers[i]), 0);
    }
    const char *series = "gemmd_requests_total{op=\"gemm\",dtype=\"f32\",code=\"200\"}";
    uint64_t last = 0;
    do {
        char *text = expose_text(metrics);
        /* The series is made when the first request is counted. */
        uint64_t now = strstr(text, series) ? strtoull(sample(text, series), NULL, 10) : 0;
        ck_assert_msg(now >= last, "a counter fell from %" PRIu64 " to %" PRIu64, last, now);
        last = now;
        free(text);
    } while (atomic_load(&running) > 0);
    for (uint32_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    char *text = expose_text(metrics), expected[32];
    snprintf(expected, sizeof(expected), "%d", WRITERS * ROUNDS);
    assert_sample(text, series, expected);
    assert_sample(text, "gemmd_request_duration_seconds_count{op=\"gemm\"}", expected);
    assert_sample(text, "gemmd_flops_total", expected);
    assert_sample(text, "gemmd_kernel_works_total{op=\"gemm\",kernel=\"tiled\",dtype=\"f32\"}",
                  expected);
    free(text);
    metrics_destroy(metrics);
}
END_TEST

static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

START_TEST(an_exemplar_has_its_trace_value_and_time)
{
    static const char id[] = "0af7651916cd43dd8448eb211c80319c";
    const struct trace_context trace = {.sampled = true,
                                        .trace_id = "0af7651916cd43dd8448eb211c80319c",
                                        .span_id = "00f067aa0ba902b7"};
    const struct metrics_request request = {.op = METRICS_OP_OF(OPERATION_GEMM),
                                            .dtype = GEMMD_F32,
                                            .tenant = METRICS_NO_TENANT,
                                            .duration_ns = 2000000,
                                            .trace = &trace};
    const struct metrics_gauges gauges = {.shows_exemplars = true};
    struct metrics *metrics = metrics_create(1, &identity);
    const double before = wall_clock();
    metrics_request(metrics_shard(metrics, 0), &request);
    const double after = wall_clock();
    char *text = expose(metrics, &gauges, METRICS_OPENMETRICS);
    const char *found = strstr(text, id);
    ck_assert_ptr_nonnull(found);
    ck_assert_ptr_null(strstr(found + 1, id));
    char *end;
    const double value = strtod(strchr(found, '}') + 1, &end), seconds = strtod(end, NULL);
    ck_assert_double_eq_tol(value, 0.002, 1e-9);
    /* The time is written in milliseconds. */
    ck_assert_double_ge(seconds, before - 0.001);
    ck_assert_double_le(seconds, after + 0.001);
    free(text);
    metrics_destroy(metrics);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("metrics");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, series_that_were_never_used_are_not_made);
    tcase_add_test(tests, handshakes_are_shown_once_there_was_one);
    tcase_add_test(tests, verifications_are_shown_once_there_was_one);
    tcase_add_test(tests, a_figure_has_the_help_of_its_family);
    tcase_add_test(tests, a_daemon_that_has_used_everything_has_at_most_500_series);
    tcase_add_test(tests, the_first_series_of_a_family_stay);
    tcase_add_test(tests, works_are_counted_by_kernel_and_type);
    tcase_add_test(tests, a_peak_that_is_not_known_is_absent);
    tcase_add_test(tests, shards_are_added_up);
    tcase_add_test(tests, errors_of_one_status_are_one_series);
    tcase_add_test(tests, types_that_no_product_takes_have_no_series);
    tcase_add_test(tests, durations_fall_into_the_bucket_they_reach);
    tcase_add_test(tests, bounds_of_latencies_are_in_seconds);
    tcase_add_test(tests, tenants_are_those_given);
    tcase_add_test(tests, work_is_counted_by_tenant);
    tcase_add_test(tests, gauges_are_those_given);
    tcase_add_test(tests, the_process_is_this_one);
    tcase_add_test(tests, build_info_is_escaped);
    tcase_add_test(tests, open_metrics_differs_where_it_must);
    tcase_add_test(tests, an_exemplar_has_its_trace_value_and_time);
    tcase_add_test(tests, promtool_finds_nothing);
    tcase_add_test(tests, scrapes_while_threads_count);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
