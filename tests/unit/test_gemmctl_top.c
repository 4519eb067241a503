/* gemmctl top: what two looks at a daemon say of the time between them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/top_view.h"

static char earlier[] = "gemmd_ready 1\n"
                        "gemmd_requests_total{op=\"gemm\",code=\"200\"} 100\n"
                        "gemmd_per_device_busy_seconds_total{device=\"0\"} 5\n"
                        "gemmd_per_device_busy_seconds_total{device=\"1\"} 5\n";
static char later[] = "gemmd_ready 1\n"
                      "gemmd_requests_total{op=\"gemm\",code=\"200\"} 140\n"
                      "gemmd_per_device_busy_seconds_total{device=\"0\"} 6\n"
                      "gemmd_per_device_busy_seconds_total{device=\"1\"} 9\n";
static char silent[] = "gemmd_connections 1\n";

static const struct metrics_buckets hundred = {.length = 2, .upper = {1, 2}, .count = {50, 100}};
static const struct metrics_buckets twice = {.length = 2, .upper = {1, 2}, .count = {50, 200}};

static struct top_look look_of(double time_s, char *metrics)
{
    return (struct top_look){.time_s = time_s, .metrics = metrics};
}

/* The linker sends the calls of gemmd_free here (-Wl,--wrap). */
void __real_gemmd_free(void *memory);
void __wrap_gemmd_free(void *memory);
static const void *last_freed;

void __wrap_gemmd_free(void *memory)
{
    last_freed = memory;
    __real_gemmd_free(memory);
}

START_TEST(the_metrics_of_a_look_are_freed_with_it)
{
    char *metrics = strdup(earlier);
    struct top_look look = look_of(10, metrics);
    ck_assert_ptr_nonnull(metrics);
    top_look_free(&look);
    ck_assert_ptr_eq(last_freed, metrics);
    ck_assert_ptr_null(look.metrics);
}
END_TEST

START_TEST(a_rate_is_of_the_time_between_the_looks)
{
    const struct top_look before = look_of(10, earlier), after = look_of(12, later);
    ck_assert_double_eq(top_rate(&before, &after, "gemmd_requests_total", NULL), 20);
    ck_assert_double_eq(top_rate(&before, &after, "gemmd_requests_total", "op=\"infer\""), 0);
    /* The daemon has started anew. */
    const struct top_look anew = look_of(14, earlier);
    ck_assert_double_eq(top_rate(&after, &anew, "gemmd_requests_total", NULL), 50);
    ck_assert_double_eq(top_rate(&before, &before, "gemmd_requests_total", NULL), 0);
}
END_TEST

START_TEST(a_quantile_is_of_the_requests_between_the_looks)
{
    struct top_op early[] = {{.name = "gemm"}, {.name = "tensor"}};
    struct top_op late[] = {{.name = "softmax"}, {.name = "gemm"}, {.name = "tensor"}};
    struct top_look before = look_of(10, earlier), after = look_of(12, later);
    before.ops = early, before.op_count = 2;
    after.ops = late, after.op_count = 3;
    ck_assert_double_lt(top_quantile(&before, &after, "gemm", 0.5), 0);
    late[1].buckets = hundred;
    ck_assert_double_eq_tol(top_quantile(&before, &after, "gemm", 0.5), 1, 1e-12);
    early[0].buckets = hundred;
    late[1].buckets = twice;
    ck_assert_double_eq_tol(top_quantile(&before, &after, "gemm", 0.5), 1.5, 1e-12);
    /* The daemon has started anew: all of its requests count. */
    ck_assert_double_eq_tol(top_quantile(&after, &before, "gemm", 0.5), 1, 1e-12);
    /* Requests for tensors compute nothing. */
    early[0].buckets = late[1].buckets = (struct metrics_buckets){0};
    late[2].buckets = hundred;
    ck_assert_double_lt(top_quantile(&before, &after, NULL, 0.5), 0);
    late[0].buckets = hundred;
    ck_assert_double_eq_tol(top_quantile(&before, &after, NULL, 0.5), 1, 1e-12);
}
END_TEST

/* The printed report. The caller frees the text. */
static char *print(const struct top_view *view)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(to);
    ck_assert(top_view_print(view, to));
    fclose(to);
    return text;
}

static void assert_says(const struct top_view *view, const char *says)
{
    char *text = print(view);
    ck_assert_msg(strstr(text, says) != NULL, "'%s' is not in:\n%s", says, text);
    free(text);
}

START_TEST(devices_have_a_line_each)
{
    struct top_op gemm = {.name = "gemm"};
    struct top_look before = look_of(10, earlier), after = look_of(14, later);
    const struct top_view view = {.before = &before, .after = &after, .url = "http://h:1"};
    after.ops = &gemm, after.op_count = 1;
    after.info = json_pack("{s:s, s:[{s:i, s:s, s:i, s:i}, {s:i, s:b}]}", "version", "1.2",
                           "devices", "index", 0, "name", "card", "memory_used_bytes", 1024,
                           "memory_capacity_bytes", 4096, "index", 1, "lost", 1);
    ck_assert_ptr_nonnull(after.info);
    assert_says(&view, "gemmd 1.2, ready, up 0us, at http://h:1\n");
    assert_says(&view, "     0  card  25 %  1.0 KiB  4.0 KiB\n");
    assert_says(&view, "     1        lost      0 B      0 B\n");
    assert_says(&view, "gemm             10.0    -    -    -\n");
    json_t *json = top_view_describe(&view);
    json_t *devices = json_object_get(json, "devices");
    ck_assert_double_eq(json_real_value(json_object_get(json_array_get(devices, 0), "busy")), 0.25);
    ck_assert(json_is_null(json_object_get(json_array_get(devices, 1), "name")));
    ck_assert_double_eq(json_real_value(json_object_get(json, "requests_per_second")), 10);
    json_decref(json);
    json_decref(after.info);
}
END_TEST

START_TEST(a_daemon_that_says_little_has_a_report_too)
{
    struct top_look before = look_of(10, silent), after = look_of(14, silent);
    const struct top_view view = {
        .before = &before, .after = &after, .url = "http://h:1", .problem = "no daemon answers"};
    after.info = json_pack("{s:[{s:i}, {s:i}]}", "devices", "index", 0, "index", 1);
    ck_assert_ptr_nonnull(after.info);
    assert_says(&view, "gemmd ?, not ready, up 0us, at http://h:1\nno daemon answers\n");
    assert_says(&view, "     0           -     0 B  0 B\n");
    char *text = print(&view);
    ck_assert_ptr_null(strstr(text, "OPERATION"));
    free(text);
    json_t *json = top_view_describe(&view);
    json_t *device = json_array_get(json_object_get(json, "devices"), 0);
    ck_assert(json_is_null(json_object_get(device, "busy")));
    ck_assert_str_eq(json_string_value(json_object_get(json, "state")), "not ready");
    json_decref(json);
    json_decref(after.info);
}
END_TEST

START_TEST(a_daemon_can_drain)
{
    static char draining[] = "gemmd_draining 1\ngemmd_ready 0\n";
    struct top_look before = look_of(10, draining), after = look_of(14, draining);
    const struct top_view view = {.before = &before, .after = &after, .url = "http://h:1"};
    assert_says(&view, ", draining, up");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_top");
    TCase *tests = tcase_create("gemmctl_top");
    tcase_add_test(tests, the_metrics_of_a_look_are_freed_with_it);
    tcase_add_test(tests, a_rate_is_of_the_time_between_the_looks);
    tcase_add_test(tests, a_quantile_is_of_the_requests_between_the_looks);
    tcase_add_test(tests, devices_have_a_line_each);
    tcase_add_test(tests, a_daemon_that_says_little_has_a_report_too);
    tcase_add_test(tests, a_daemon_can_drain);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
