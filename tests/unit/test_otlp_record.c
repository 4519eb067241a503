/* server/observe/otlp_record.c: the spans of a request and of a job, as the collector gets them. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/observe/otlp_record.h"

static const struct trace_context trace = {.sampled = true,
                                           .trace_id = "0af7651916cd43dd8448eb211c80319c",
                                           .parent_id = "b7ad6b7169203331",
                                           .span_id = "00f067aa0ba902b7"};

/* A request of 1000 ns: 100 received, 200 queued, 10 + 30 + 20 on the device, 50 sent. */
static struct log_access request_case(void)
{
    return (struct log_access){.method = "POST",
                               .path = "/gemm?m=1",
                               .request_id = "r-1",
                               .peer = "127.0.0.1",
                               .op = "gemm",
                               .dtype = "f32",
                               .kernel = "tiled",
                               .status = 200,
                               .m = 2,
                               .sizes = {{"heads", 7}},
                               .total_ns = 1000,
                               .started_ns = 5000,
                               .receive_ns = 100,
                               .queued_ns = 5200,
                               .queue_ns = 200,
                               .device_ns = 5400,
                               .h2d_ns = 10,
                               .kernel_ns = 30,
                               .d2h_ns = 20,
                               .sending_ns = 5900,
                               .send_ns = 50};
}

/* The spans of one record, in an array that the caller gives back with json_decref(root). */
static json_t *spans_of(const struct log_access *entry, bool is_job, json_t **root)
{
    struct otlp_record record;
    uint64_t state = 1;
    otlp_record_fill(&record, &trace, "vendor=1", entry, is_job);
    char *text = otlp_records_json(&record, 1, "9.9", &state);
    ck_assert_ptr_nonnull(text);
    *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    ck_assert_ptr_nonnull(*root);
    json_t *resource = json_array_get(json_object_get(*root, "resourceSpans"), 0);
    json_t *scope = json_array_get(json_object_get(resource, "scopeSpans"), 0);
    json_t *spans = json_object_get(scope, "spans");
    ck_assert_uint_eq(json_array_size(spans), otlp_record_spans(&record));
    return spans;
}

static const char *member(const json_t *span, const char *name)
{
    const char *text = json_string_value(json_object_get(span, name));
    return text != NULL ? text : "";
}

static int64_t time_of(const json_t *span, const char *name)
{
    return strtoll(member(span, name), NULL, 10);
}

/* The text of an attribute of a span; "": the span does not have the attribute. */
static const char *attribute(const json_t *span, const char *key)
{
    const json_t *list = json_object_get(span, "attributes");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *value = json_object_get(one, "value");
        if (strcmp(member(one, "key"), key) != 0)
            continue;
        const char *text = json_string_value(json_object_get(value, "stringValue"));
        return text != NULL ? text : json_string_value(json_object_get(value, "intValue"));
    }
    return "";
}

START_TEST(stages_follow_each_other)
{
    static const struct {
        const char *name;
        int64_t begin, end; /* since the begin of the request */
    } stages[] = {{"receive", 0, 100},  {"queue", 200, 400},    {"copy in", 400, 410},
                  {"kernel", 410, 440}, {"copy out", 440, 460}, {"send", 900, 950}};
    const struct log_access entry = request_case();
    json_t *root, *spans = spans_of(&entry, false, &root);
    const json_t *whole = json_array_get(spans, 0);
    const int64_t begin = time_of(whole, "startTimeUnixNano");
    ck_assert_int_eq(time_of(whole, "endTimeUnixNano") - begin, 1000);
    ck_assert_str_eq(member(whole, "name"), "POST gemm");
    ck_assert_str_eq(member(whole, "traceId"), trace.trace_id);
    ck_assert_str_eq(member(whole, "spanId"), trace.span_id);
    ck_assert_str_eq(member(whole, "parentSpanId"), trace.parent_id);
    ck_assert_str_eq(member(whole, "traceState"), "vendor=1");
    ck_assert_int_eq(json_integer_value(json_object_get(whole, "kind")), 2);
    ck_assert_ptr_null(json_object_get(whole, "status"));
    ck_assert_uint_eq(json_array_size(spans), 7);
    for (size_t i = 0; i < 6; i++) {
        const json_t *span = json_array_get(spans, i + 1);
        ck_assert_str_eq(member(span, "name"), stages[i].name);
        ck_assert_int_eq(time_of(span, "startTimeUnixNano") - begin, stages[i].begin);
        ck_assert_int_eq(time_of(span, "endTimeUnixNano") - begin, stages[i].end);
        ck_assert_str_eq(member(span, "parentSpanId"), trace.span_id);
        ck_assert_str_ne(member(span, "spanId"), trace.span_id);
    }
    json_decref(root);
}
END_TEST

START_TEST(attributes_say_what_was_computed)
{
    const struct log_access entry = request_case();
    json_t *root, *spans = spans_of(&entry, false, &root);
    const json_t *whole = json_array_get(spans, 0);
    ck_assert_str_eq(attribute(whole, "url.path"), "/gemm"); /* without the query */
    ck_assert_str_eq(attribute(whole, "http.response.status_code"), "200");
    ck_assert_str_eq(attribute(whole, "network.peer.address"), "127.0.0.1");
    ck_assert_str_eq(attribute(whole, "gemmd.kernel"), "tiled");
    ck_assert_str_eq(attribute(whole, "gemmd.m"), "2");
    ck_assert_str_eq(attribute(whole, "gemmd.heads"), "7");
    ck_assert_str_eq(attribute(whole, "gemmd.request_id"), "r-1");
    ck_assert_str_eq(attribute(whole, "error.type"), "");
    json_decref(root);
}
END_TEST

START_TEST(stages_without_a_begin_or_a_length_are_left_out)
{
    struct log_access entry = request_case();
    entry.device_ns = 0;
    entry.send_ns = 0;
    json_t *root, *spans = spans_of(&entry, false, &root);
    ck_assert_uint_eq(json_array_size(spans), 3);
    ck_assert_str_eq(member(json_array_get(spans, 1), "name"), "receive");
    ck_assert_str_eq(member(json_array_get(spans, 2), "name"), "queue");
    json_decref(root);
}
END_TEST

START_TEST(stages_end_with_the_request)
{
    struct log_access entry = request_case();
    entry.send_ns = 500;    /* from 5900 on, and the request ends at 6000 */
    entry.queued_ns = 6000; /* begins at the end */
    json_t *root, *spans = spans_of(&entry, false, &root);
    const json_t *last = json_array_get(spans, json_array_size(spans) - 1);
    ck_assert_uint_eq(json_array_size(spans), 6);
    ck_assert_str_eq(member(last, "name"), "send");
    ck_assert_int_eq(time_of(last, "endTimeUnixNano") - time_of(last, "startTimeUnixNano"), 100);
    json_decref(root);
}
END_TEST

static const struct {
    int status;
    const char *error;
    bool is_job, is_error;
} ends[] = {{200, NULL, false, false},        {499, NULL, false, true},
            {404, "NOT_FOUND", false, false}, {500, NULL, false, true},
            {200, "DEADLINE", true, true},    {200, NULL, true, false}};

START_TEST(failures_have_a_status)
{
    struct log_access entry = request_case();
    entry.status = ends[_i].status == 499 ? LOG_STATUS_LEFT : ends[_i].status;
    entry.error = ends[_i].error;
    entry.reason = "the reason";
    json_t *root, *spans = spans_of(&entry, ends[_i].is_job, &root);
    const json_t *whole = json_array_get(spans, 0), *status = json_object_get(whole, "status");
    ck_assert_int_eq(status != NULL, ends[_i].is_error);
    if (status != NULL) {
        ck_assert_int_eq(json_integer_value(json_object_get(status, "code")), 2);
        ck_assert_str_eq(member(status, "message"), "the reason");
    }
    ck_assert_str_eq(attribute(whole, "error.type"), ends[_i].error ? ends[_i].error : "");
    json_decref(root);
}
END_TEST

START_TEST(a_job_is_a_child_of_its_request)
{
    struct log_access entry = request_case();
    entry.job = "job-1";
    json_t *root, *spans = spans_of(&entry, true, &root);
    const json_t *whole = json_array_get(spans, 0);
    ck_assert_str_eq(member(whole, "name"), "job gemm");
    ck_assert_str_eq(member(whole, "parentSpanId"), trace.span_id);
    ck_assert_str_ne(member(whole, "spanId"), trace.span_id);
    ck_assert_str_eq(member(json_array_get(spans, 1), "parentSpanId"), member(whole, "spanId"));
    ck_assert_int_eq(json_integer_value(json_object_get(whole, "kind")), 1);
    ck_assert_str_eq(attribute(whole, "gemmd.job"), "job-1");
    ck_assert_str_eq(attribute(whole, "url.path"), "");
    json_decref(root);
}
END_TEST

START_TEST(what_is_no_utf8_is_left_empty)
{
    struct log_access entry = request_case();
    entry.op = NULL;
    entry.request_id = "\xff";
    json_t *root, *spans = spans_of(&entry, false, &root);
    const json_t *whole = json_array_get(spans, 0);
    ck_assert_str_eq(member(whole, "name"), "POST");
    ck_assert_str_eq(attribute(whole, "gemmd.request_id"), "");
    ck_assert_str_eq(attribute(whole, "gemmd.kernel"), ""); /* nothing was computed */
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("otlp_record");
    TCase *tests = tcase_create("otlp_record");
    tcase_add_test(tests, stages_follow_each_other);
    tcase_add_test(tests, attributes_say_what_was_computed);
    tcase_add_test(tests, stages_without_a_begin_or_a_length_are_left_out);
    tcase_add_test(tests, stages_end_with_the_request);
    tcase_add_loop_test(tests, failures_have_a_status, 0, (int)(sizeof ends / sizeof *ends));
    tcase_add_test(tests, a_job_is_a_child_of_its_request);
    tcase_add_test(tests, what_is_no_utf8_is_left_empty);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
