/* The list of errors, and the faults and problem documents made from it. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/error.h"

enum { ENOUGH = FAULT_JSON_BYTES };

/* The longest request id, of the characters that take most bytes in JSON. */
static char longest_id[129];

/* The fault's document, parsed by somebody else's parser. */
static json_t *document(const struct fault *fault)
{
    char text[ENOUGH];
    uint64_t length = fault_to_json(fault, longest_id, text, sizeof text);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_int_eq(text[length - 1], '\n');
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "%s in %s", error.text, text);
    return json;
}

static const char *member(json_t *json, const char *key)
{
    return json_string_value(json_object_get(json, key));
}

START_TEST(slugs_name_one_code_each)
{
    for (unsigned code = 0; code < GEMMD_ERR_COUNT; code++)
        ck_assert_uint_eq(error_from_slug(error_slug((enum gemmd_error)code)), code);
    ck_assert_uint_eq(error_from_slug("no-such-thing"), GEMMD_ERR_PROTOCOL);
    ck_assert_uint_eq(error_from_slug(""), GEMMD_ERR_PROTOCOL);
}
END_TEST

START_TEST(entries_are_what_the_list_says)
{
    ck_assert_str_eq(error_name(GEMMD_ERR_QUEUE_FULL), "QUEUE_FULL");
    ck_assert_str_eq(error_slug(GEMMD_ERR_QUEUE_FULL), "queue-full");
    ck_assert_int_eq(error_status(GEMMD_ERR_QUEUE_FULL), 429);
    ck_assert(error_retriable(GEMMD_ERR_QUEUE_FULL));
    ck_assert(!error_retriable(GEMMD_ERR_MALFORMED));
    ck_assert_int_eq(error_status(GEMMD_ERR_TIMEOUT), 0);
}
END_TEST

START_TEST(codes_outside_the_list_are_internal)
{
    ck_assert_str_eq(error_slug((enum gemmd_error)GEMMD_ERR_COUNT), "internal");
    ck_assert_str_eq(error_name((enum gemmd_error) - 1), "INTERNAL");
}
END_TEST

/* The C locale has no letters beyond ASCII. */
START_TEST(a_detail_that_cannot_be_formatted_is_empty)
{
    struct fault fault;
    ck_assert_uint_eq(fault_set(&fault, GEMMD_ERR_MALFORMED, "m", "%ls", L"\u00E9"),
                      GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail, "");
}
END_TEST

START_TEST(a_fault_is_filled_in_and_its_code_returned)
{
    struct fault fault;
    ck_assert_uint_eq(fault_set(&fault, GEMMD_ERR_MALFORMED, "m", "m is %d", 0),
                      GEMMD_ERR_MALFORMED);
    ck_assert_uint_eq(fault.code, GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "m");
    ck_assert_str_eq(fault.detail, "m is 0");
    fault_set(&fault, GEMMD_ERR_INTERNAL, NULL, "%s", "");
    ck_assert_str_eq(fault.field, "");
    ck_assert_uint_eq(fault_set(NULL, GEMMD_ERR_GONE, "m", "m is %d", 0), GEMMD_ERR_GONE);
}
END_TEST

START_TEST(long_text_is_cut)
{
    char text[1000];
    struct fault fault;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    fault_set(&fault, GEMMD_ERR_MALFORMED, text, "%s", text);
    ck_assert_uint_eq(strlen(fault.field), sizeof fault.field - 1);
    ck_assert_uint_eq(strlen(fault.detail), sizeof fault.detail - 1);
}
END_TEST

START_TEST(a_document_has_the_members_of_rfc_9457)
{
    struct fault fault;
    fault_set(&fault, GEMMD_ERR_QUEUE_FULL, NULL, "the queue holds \"%d\" \\ \n requests", 3);
    json_t *json = document(&fault);
    ck_assert_str_eq(member(json, "type"), "urn:gemmd:error:queue-full");
    ck_assert_str_eq(member(json, "title"), error_title(GEMMD_ERR_QUEUE_FULL));
    ck_assert_int_eq(json_integer_value(json_object_get(json, "status")), 429);
    ck_assert_str_eq(member(json, "detail"), fault.detail);
    ck_assert_str_eq(member(json, "error"), fault.detail);
    ck_assert_ptr_null(json_object_get(json, "field"));
    ck_assert_str_eq(member(json, "request_id"), longest_id);
    json_decref(json);

    fault_set(&fault, GEMMD_ERR_MALFORMED, "m", "m is missing");
    json = document(&fault);
    ck_assert_str_eq(member(json, "field"), "m");
    json_decref(json);
}
END_TEST

/* Whatever a client wrote into the detail, the document is JSON and fits. */
START_TEST(any_bytes_make_a_document)
{
    struct fault fault = {.code = GEMMD_ERR_METHOD_NOT_ALLOWED};
    memset(fault.field, _i, sizeof fault.field - 1);
    memset(fault.detail, _i, sizeof fault.detail - 1);
    json_decref(document(&fault));
}
END_TEST

START_TEST(a_buffer_that_is_too_small_gets_nothing)
{
    struct fault fault;
    char text[ENOUGH];
    fault_set(&fault, GEMMD_ERR_MALFORMED, "m", "m is missing");
    uint64_t length = fault_to_json(&fault, NULL, text, sizeof text);
    for (uint64_t capacity = 0; capacity <= length; capacity++) {
        char *exact = malloc(capacity > 0 ? capacity : 1);
        ck_assert_uint_eq(fault_to_json(&fault, NULL, exact, capacity), 0);
        ck_assert(capacity == 0 || exact[0] == '\0');
        free(exact);
    }
    ck_assert_uint_eq(fault_to_json(&fault, NULL, text, length + 1), length);
}
END_TEST

int main(void)
{
    memset(longest_id, '"', sizeof longest_id - 1);
    TCase *tests = tcase_create("error");
    tcase_add_test(tests, slugs_name_one_code_each);
    tcase_add_test(tests, entries_are_what_the_list_says);
    tcase_add_test(tests, codes_outside_the_list_are_internal);
    tcase_add_test(tests, a_fault_is_filled_in_and_its_code_returned);
    tcase_add_test(tests, a_detail_that_cannot_be_formatted_is_empty);
    tcase_add_test(tests, long_text_is_cut);
    tcase_add_test(tests, a_document_has_the_members_of_rfc_9457);
    tcase_add_loop_test(tests, any_bytes_make_a_document, 1, 256);
    tcase_add_test(tests, a_buffer_that_is_too_small_gets_nothing);
    Suite *suite = suite_create("error");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
