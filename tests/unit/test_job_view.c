/* server/jobs/job_view.c: what clients read of a job is JSON, whatever they called their request.
 */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "failing_calls.h"
#include "server/jobs/job_view.h"

static const struct job_view done = {
    .id = "0123456789abcdef0123456789abcdef",
    .state = JOB_DONE,
    .op = "gemm",
    .request_id = "mine",
    .created_ms = 1795255200123,
    .expires_ms = 1795255800456,
    .queued_ns = 1234567,
    .running_ns = 98765432,
    .has_started = true,
    .status = 200,
    .bytes = UINT64_C(1) << 40,
};

START_TEST(says_all_of_a_done_job)
{
    char text[JOB_VIEW_TEXT_MAX];
    uint64_t length = job_view_json(&done, text);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_str_eq(text, "{\"id\":\"0123456789abcdef0123456789abcdef\",\"state\":\"done\","
                           "\"op\":\"gemm\",\"request_id\":\"mine\","
                           "\"created\":\"2026-11-21T10:00:00.123Z\",\"queued_ms\":1.235,"
                           "\"running_ms\":98.765,\"status\":200,\"bytes\":1099511627776,"
                           "\"expires\":\"2026-11-21T10:10:00.456Z\"}\n");
}
END_TEST

START_TEST(says_nothing_of_what_is_not_there)
{
    char text[JOB_VIEW_TEXT_MAX];
    struct job_view view = done;
    view.state = JOB_QUEUED;
    view.has_started = false;
    view.status = 0;
    job_view_json(&view, text);
    json_t *json = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(json);
    ck_assert_str_eq(json_string_value(json_object_get(json, "state")), "queued");
    ck_assert_ptr_null(json_object_get(json, "running_ms"));
    ck_assert_ptr_null(json_object_get(json, "status"));
    ck_assert_ptr_null(json_object_get(json, "expires"));
    json_decref(json);
}
END_TEST

START_TEST(a_page_has_its_jobs_and_the_next_page)
{
    const struct job_view views[] = {done, done};
    for (uint32_t count = 0; count <= 2; count++) {
        char *text = job_view_page(views, count, count == 2 ? UINT64_MAX : 0, count == 2);
        json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_ptr_nonnull(json);
        json_t *jobs = json_object_get(json, "jobs"), *first = json_array_get(jobs, 0);
        ck_assert_uint_eq(json_array_size(jobs), count);
        ck_assert_uint_eq((json_object_get(first, "id") != NULL), (count == 2));
        ck_assert_uint_eq((json_object_get(first, "state") != NULL), (count > 0));
        const char *next = json_string_value(json_object_get(json, "next"));
        if (count == 2)
            ck_assert_str_eq(next, "18446744073709551615");
        else
            ck_assert(json_is_null(json_object_get(json, "next")));
        json_decref(json);
        free(text);
    }
}
END_TEST

START_TEST(a_page_without_memory)
{
    calls_fail(1);
    char *page = job_view_page(&done, 1, 0, true);
    ck_assert(calls_end());
    ck_assert_ptr_null(page);
    calls_fail(2); /* the page keeps its memory if the memory cannot be made smaller */
    page = job_view_page(&done, 1, 0, true);
    ck_assert(calls_end());
    ck_assert_ptr_nonnull(page);
    ck_assert_ptr_nonnull(strstr(page, "\"next\":null"));
    free(page);
}
END_TEST

START_TEST(the_longest_request_id_fits)
{
    static const char fills[] = {'"', '\\', 'a', '\x7f', '\x01', '\xff'};
    char text[JOB_VIEW_TEXT_MAX];
    struct job_view view = done;
    view.running_ns = view.queued_ns = UINT64_MAX / 2;
    view.bytes = INT64_MAX;
    memset(view.request_id, fills[_i], sizeof view.request_id - 1);
    ck_assert_uint_gt(job_view_json(&view, text), 0);
    json_t *json = json_loads(text, 0, NULL);
    ck_assert_msg(json != NULL, "no JSON: %s", text);
    json_decref(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("job_view");
    TCase *tcase = tcase_create("job_view");
    tcase_add_test(tcase, says_all_of_a_done_job);
    tcase_add_test(tcase, says_nothing_of_what_is_not_there);
    tcase_add_test(tcase, a_page_has_its_jobs_and_the_next_page);
    tcase_add_test(tcase, a_page_without_memory);
    tcase_add_loop_test(tcase, the_longest_request_id_fits, 0, 6);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
