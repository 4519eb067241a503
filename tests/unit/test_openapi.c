/* openapi.json, as compiled in, agrees with the code: parameters, values, defaults, statuses. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/openapi.h"

static json_t *document; /* of the test that runs */

static void parse(void)
{
    json_error_t error;
    document = json_loadb(openapi_json, openapi_json_length, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(document != NULL, "line %d: %s", error.line, error.text);
}

static void release(void)
{
    json_decref(document);
}

/* The value at "|a|b|c" in the document (keys have slashes in them); fails if there is none. */
static json_t *at(const char *path)
{
    char text[256], *rest = text + 1;
    json_t *value = document;
    snprintf(text, sizeof text, "%s", path);
    for (char *key = strsep(&rest, "|"); key != NULL; key = strsep(&rest, "|")) {
        value = json_object_get(value, key);
        ck_assert_msg(value != NULL, "there is no %s (%s)", path, key);
    }
    return value;
}

/* What {"$ref": "#/components/x/y"} stands for, or the value itself. */
static json_t *resolve(json_t *value)
{
    const char *reference = json_string_value(json_object_get(value, "$ref"));
    char path[256];
    if (reference == NULL)
        return value;
    snprintf(path, sizeof path, "%s", reference + 1);
    for (char *c = path; *c != '\0'; c++)
        *c = *c == '/' ? '|' : *c;
    return at(path);
}

/* Calls `check` with each of /gemm's query parameters; returns how many there are. */
static size_t each_parameter(void (*check)(const char *name, json_t *schema))
{
    json_t *parameters = at("|paths|/gemm|post|parameters"), *parameter;
    size_t index, count = 0;
    json_array_foreach(parameters, index, parameter)
    {
        parameter = resolve(parameter);
        if (strcmp(json_string_value(json_object_get(parameter, "in")), "query") != 0)
            continue;
        check(json_string_value(json_object_get(parameter, "name")),
              resolve(json_object_get(parameter, "schema")));
        count++;
    }
    return count;
}

static enum gemmd_error set_one(struct gemm_request *request, const char *name, json_t *value)
{
    char *text = json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_ENCODE_ANY);
    gemm_request_init(request);
    enum gemmd_error code = gemm_request_set(request, name, text, NULL);
    free(text);
    return code;
}

static enum gemmd_error set_integer(const char *name, json_int_t value)
{
    struct gemm_request request;
    json_t *json = json_integer(value);
    enum gemmd_error code = set_one(&request, name, json);
    json_decref(json);
    return code;
}

START_TEST(it_is_openapi_of_this_version)
{
    ck_assert_int_eq(strncmp(json_string_value(at("|openapi")), "3.1.", 4), 0);
    ck_assert_str_eq(json_string_value(at("|info|version")), GEMMD_VERSION);
    ck_assert_uint_eq(strlen(openapi_json), openapi_json_length);
}
END_TEST

static void follow_references(json_t *value)
{
    const char *key;
    json_t *member;
    size_t index;
    resolve(value); /* fails if it leads nowhere */
    json_object_foreach(value, key, member)
    {
        follow_references(member);
    }
    json_array_foreach(value, index, member)
    {
        follow_references(member);
    }
}

START_TEST(references_lead_somewhere)
{
    follow_references(document);
}
END_TEST

static void check_values(const char *name, json_t *schema)
{
    struct gemm_request request;
    json_t *values = json_object_get(schema, "enum"), *value;
    size_t index;
    json_array_foreach(values, index, value)
    {
        ck_assert_msg(set_one(&request, name, value) == GEMMD_OK, "%s does not take value %zu",
                      name, index);
    }
    /* No dtype that the code knows is left out. */
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT; i++) {
        json_t *dtype = json_string(dtype_name((enum gemmd_dtype)i));
        bool listed = false;
        json_array_foreach(values, index, value)
        {
            listed = listed || json_equal(value, dtype);
        }
        if ((strcmp(name, "dtype") == 0 || strcmp(name, "out") == 0) && !listed)
            ck_assert_msg(set_one(&request, name, dtype) != GEMMD_OK, "%s takes %s, unlisted", name,
                          dtype_name((enum gemmd_dtype)i));
        json_decref(dtype);
    }
}

START_TEST(listed_values_are_taken)
{
    each_parameter(check_values);
}
END_TEST

static void check_bounds(const char *name, json_t *schema)
{
    json_t *minimum = json_object_get(schema, "minimum"),
           *maximum = json_object_get(schema, "maximum");
    if (minimum == NULL)
        return;
    ck_assert_uint_eq(set_integer(name, json_integer_value(minimum)), GEMMD_OK);
    ck_assert_uint_ne(set_integer(name, json_integer_value(minimum) - 1), GEMMD_OK);
    ck_assert_uint_eq(set_integer(name, json_integer_value(maximum)), GEMMD_OK);
    ck_assert_uint_ne(set_integer(name, json_integer_value(maximum) + 1), GEMMD_OK);
}

START_TEST(bounds_are_the_last_values_taken)
{
    each_parameter(check_bounds);
}
END_TEST

/* Giving the default makes the request that giving nothing makes. */
static void check_default(const char *name, json_t *schema)
{
    struct gemm_request silent, spoken;
    json_t *value = json_object_get(schema, "default");
    if (value == NULL)
        return;
    gemm_request_init(&silent);
    ck_assert_uint_eq(set_one(&spoken, name, value), GEMMD_OK);
    ck_assert_uint_eq(spoken.dtype, silent.dtype);
    ck_assert_uint_eq(spoken.precision, silent.precision);
    ck_assert_uint_eq(spoken.transa, silent.transa);
    ck_assert_uint_eq(spoken.transb, silent.transb);
    ck_assert(spoken.alpha == silent.alpha && spoken.beta == silent.beta);
    ck_assert_uint_eq(spoken.batch, silent.batch);
    ck_assert_uint_eq(spoken.bias, silent.bias);
    ck_assert_uint_eq(spoken.act, silent.act);
    ck_assert_str_eq(spoken.kernel, silent.kernel);
    ck_assert_uint_eq(spoken.verify, silent.verify);
    ck_assert_uint_eq(spoken.priority, silent.priority);
}

START_TEST(defaults_are_the_defaults)
{
    each_parameter(check_default);
}
END_TEST

static char named[320]; /* " m, n, ..., priority,": the code's own list */

static void check_named(const char *name, json_t *schema)
{
    char item[64];
    (void)schema;
    snprintf(item, sizeof item, " %s,", name);
    ck_assert_msg(strstr(named, item) != NULL, "the code has no parameter %s", name);
}

/* The code's own list, as its sentence about unknown names has it. */
START_TEST(all_parameters_are_described)
{
    struct gemm_request request;
    struct fault fault;
    size_t count = 1;
    gemm_request_init(&request);
    gemm_request_set(&request, "?", "", &fault);
    const char *list = strstr(fault.detail, "are ");
    ck_assert_ptr_nonnull(list);
    snprintf(named, sizeof named, "%s,", list + strlen("are"));
    for (const char *c = list; *c != '\0'; c++)
        count += *c == ',';
    ck_assert_uint_eq(each_parameter(check_named), count);
}
END_TEST

/* The same of /attention, and that it takes the values and defaults that are listed. */
START_TEST(attention_is_described)
{
    struct attention_request silent, spoken;
    struct fault fault;
    size_t count = 1, index, described = 0;
    json_t *parameters = at("|paths|/attention|post|parameters"), *parameter;
    attention_request_init(&silent);
    spoken = silent;
    attention_request_set(&spoken, "?", "", &fault);
    const char *list = strstr(fault.detail, "are ");
    ck_assert_ptr_nonnull(list);
    snprintf(named, sizeof named, "%s,", list + strlen("are"));
    for (const char *c = list; *c != '\0'; c++)
        count += *c == ',';
    json_array_foreach(parameters, index, parameter)
    {
        parameter = resolve(parameter);
        if (strcmp(json_string_value(json_object_get(parameter, "in")), "query") != 0)
            continue;
        const char *name = json_string_value(json_object_get(parameter, "name"));
        json_t *schema = resolve(json_object_get(parameter, "schema")), *value;
        size_t number;
        check_named(name, schema);
        described++;
        json_array_foreach(json_object_get(schema, "enum"), number, value)
        {
            spoken = silent;
            if (json_is_string(value))
                ck_assert_uint_eq(
                    attention_request_set(&spoken, name, json_string_value(value), &fault),
                    GEMMD_OK);
        }
        value = json_object_get(schema, "default");
        if (!json_is_string(value))
            continue;
        spoken = silent;
        ck_assert_uint_eq(attention_request_set(&spoken, name, json_string_value(value), &fault),
                          GEMMD_OK);
        spoken.given = silent.given;
        ck_assert_msg(memcmp(&spoken, &silent, sizeof silent) == 0,
                      "%s=%s is not what giving nothing means", name, json_string_value(value));
    }
    ck_assert_uint_eq(described, count);
}
END_TEST

/* The same of /conv2d. */
START_TEST(conv2d_is_described)
{
    struct conv2d_request silent, spoken;
    struct fault fault;
    size_t count = 1, index, described = 0;
    json_t *parameters = at("|paths|/conv2d|post|parameters"), *parameter;
    conv2d_request_init(&silent);
    spoken = silent;
    conv2d_request_set(&spoken, "?", "", &fault);
    const char *list = strstr(fault.detail, "are ");
    ck_assert_ptr_nonnull(list);
    snprintf(named, sizeof named, "%s,", list + strlen("are"));
    for (const char *c = list; *c != '\0'; c++)
        count += *c == ',';
    json_array_foreach(parameters, index, parameter)
    {
        parameter = resolve(parameter);
        if (strcmp(json_string_value(json_object_get(parameter, "in")), "query") != 0)
            continue;
        const char *name = json_string_value(json_object_get(parameter, "name"));
        json_t *schema = resolve(json_object_get(parameter, "schema")), *value;
        size_t number;
        check_named(name, schema);
        described++;
        json_array_foreach(json_object_get(schema, "enum"), number, value)
        {
            spoken = silent;
            if (json_is_string(value))
                ck_assert_uint_eq(
                    conv2d_request_set(&spoken, name, json_string_value(value), &fault), GEMMD_OK);
        }
        value = json_object_get(schema, "default");
        if (!json_is_string(value))
            continue;
        spoken = silent;
        ck_assert_uint_eq(conv2d_request_set(&spoken, name, json_string_value(value), &fault),
                          GEMMD_OK);
        spoken.given = silent.given;
        ck_assert_msg(memcmp(&spoken, &silent, sizeof silent) == 0,
                      "%s=%s is not what giving nothing means", name, json_string_value(value));
    }
    ck_assert_uint_eq(described, count);
}
END_TEST

/* Failures that are listed exist, and every one that a product can end with is listed. */
START_TEST(statuses_are_those_of_the_list)
{
    json_t *responses = at("|paths|/gemm|post|responses");
    const char *status;
    json_t *response;
    json_object_foreach(responses, status, response)
    {
        bool known = strcmp(status, "default") == 0 || status[0] == '2';
        for (unsigned code = 0; code < GEMMD_ERR_COUNT; code++)
            known = known || strtol(status, NULL, 10) == error_status((enum gemmd_error)code);
        ck_assert_msg(known, "no error has status %s", status);
    }
    static const enum gemmd_error of_gemm[] = {
        GEMMD_ERR_MALFORMED,   GEMMD_ERR_UNAUTHORIZED, GEMMD_ERR_NOT_ACCEPTABLE,
        GEMMD_ERR_SLOW_CLIENT, GEMMD_ERR_TOO_LARGE,    GEMMD_ERR_MEDIA_TYPE,
        GEMMD_ERR_UNSUPPORTED, GEMMD_ERR_QUEUE_FULL,   GEMMD_ERR_INTERNAL,
        GEMMD_ERR_DRAINING,    GEMMD_ERR_DEVICE_LOST,  GEMMD_ERR_OUT_OF_MEMORY,
        GEMMD_ERR_DEADLINE,    GEMMD_ERR_FORBIDDEN,    GEMMD_ERR_NOT_FOUND,
        GEMMD_ERR_NO_ROOM};
    for (size_t i = 0; i < sizeof of_gemm / sizeof of_gemm[0]; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", error_status(of_gemm[i]));
        ck_assert_msg(json_object_get(responses, text) != NULL, "%s is not listed", text);
    }
}
END_TEST

/* A problem document has the members that the schema requires, and no others. */
START_TEST(problem_documents_fit_their_schema)
{
    char text[FAULT_JSON_BYTES];
    struct fault fault;
    fault_set(&fault, GEMMD_ERR_MALFORMED, "m", "m is missing");
    ck_assert_uint_gt(fault_to_json(&fault, "8f14e45f", text, sizeof text), 0);
    json_t *problem = json_loads(text, 0, NULL), *required, *member;
    size_t index;
    const char *key;
    required = at("|components|schemas|Problem|required");
    json_array_foreach(required, index, member)
    {
        ck_assert_ptr_nonnull(json_object_get(problem, json_string_value(member)));
    }
    json_object_foreach(problem, key, member)
    {
        ck_assert_ptr_nonnull(json_object_get(at("|components|schemas|Problem|properties"), key));
    }
    json_decref(problem);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("openapi");
    tcase_add_checked_fixture(tests, parse, release);
    tcase_add_test(tests, it_is_openapi_of_this_version);
    tcase_add_test(tests, references_lead_somewhere);
    tcase_add_test(tests, listed_values_are_taken);
    tcase_add_test(tests, bounds_are_the_last_values_taken);
    tcase_add_test(tests, defaults_are_the_defaults);
    tcase_add_test(tests, all_parameters_are_described);
    tcase_add_test(tests, attention_is_described);
    tcase_add_test(tests, conv2d_is_described);
    tcase_add_test(tests, statuses_are_those_of_the_list);
    tcase_add_test(tests, problem_documents_fit_their_schema);
    Suite *suite = suite_create("openapi");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
