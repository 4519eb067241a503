/* openapi.json, as compiled in, agrees with the code: parameters, values, defaults, statuses. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/dtype.h"
#include "proto/experts_request.h"
#include "proto/gemm_request.h"
#include "proto/openapi.h"
#include "proto/reduce_request.h"
#include "proto/sequence_request.h"
#include "proto/softmax_request.h"
#include "proto/tensor_request.h"

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

/* An endpoint with a table of parameters. */
union any_request {
    struct gemm_request gemm;
    struct attention_request attention;
    struct conv2d_request conv2d;
    struct reduce_request reduce;
    struct softmax_request softmax;
    struct experts_request experts;
    struct tensor_request tensor;
    struct sequence_put_request sequence_put;
    struct sequence_rows_request sequence_rows;
    struct sequence_truncate_request sequence_truncate;
};
struct endpoint {
    const char *parameters; /* where the document has them */
    const struct parameter_table *table;
    void (*init)(union any_request *request);
};
#define X(name)                                                                                    \
    static void init_##name(union any_request *request)                                            \
    {                                                                                              \
        name##_request_init(&request->name);                                                       \
    }
X(gemm)
X(attention)
X(conv2d)
X(reduce)
X(softmax)
X(experts)
X(tensor)
#undef X

static void init_sequence_put(union any_request *request)
{
    sequence_put_init(&request->sequence_put);
}

static void init_sequence_rows(union any_request *request)
{
    request->sequence_rows = (struct sequence_rows_request){.given = 0};
}

static void init_sequence_truncate(union any_request *request)
{
    request->sequence_truncate = (struct sequence_truncate_request){.given = 0};
}

static const struct endpoint endpoints[] = {
    {"|paths|/gemm|post|parameters", &gemm_parameter_table, init_gemm},
    {"|paths|/attention|post|parameters", &attention_parameter_table, init_attention},
    {"|paths|/conv2d|post|parameters", &conv2d_parameter_table, init_conv2d},
    {"|paths|/reduce|post|parameters", &reduce_parameter_table, init_reduce},
    {"|paths|/softmax|post|parameters", &softmax_parameter_table, init_softmax},
    {"|paths|/experts|post|parameters", &experts_parameter_table, init_experts},
    {"|paths|/tensors/{name}|put|parameters", &tensor_parameter_table, init_tensor},
    {"|paths|/sequences/{name}|put|parameters", &sequence_put_table, init_sequence_put},
    {"|paths|/sequences/{name}/append|post|parameters", &sequence_append_table, init_sequence_rows},
    {"|paths|/sequences/{name}/kv|get|parameters", &sequence_kv_table, init_sequence_rows},
    {"|paths|/sequences/{name}/truncate|post|parameters", &sequence_truncate_table,
     init_sequence_truncate},
};
enum { ENDPOINTS = sizeof endpoints / sizeof endpoints[0] };

/* Calls `check` with each query parameter of an endpoint and its schema. Returns how many there
 * are. */
static uint32_t each_parameter(const struct endpoint *endpoint,
                               void (*check)(const struct endpoint *endpoint,
                                             const struct parameter *parameter, json_t *schema))
{
    json_t *described;
    size_t index;
    uint32_t count = 0;
    json_array_foreach(at(endpoint->parameters), index, described)
    {
        const struct parameter_table *table = endpoint->table;
        uint32_t entry = 0;
        described = resolve(described);
        const char *name = json_string_value(json_object_get(described, "name"));
        if (strcmp(json_string_value(json_object_get(described, "in")), "query") != 0)
            continue;
        while (entry < table->count && strcmp(table->entries[entry].name, name) != 0)
            entry++;
        ck_assert_msg(entry < table->count, "%s of openapi.json is no parameter of %s", name,
                      table->path);
        check(endpoint, &table->entries[entry], resolve(json_object_get(described, "schema")));
        count++;
    }
    return count;
}

static enum gemmd_error set_one(const struct endpoint *endpoint, union any_request *request,
                                const char *name, json_t *value)
{
    struct fault fault;
    char *text = json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_ENCODE_ANY);
    endpoint->init(request);
    enum gemmd_error code = parameter_set(endpoint->table, request, name, text, &fault);
    free(text);
    return code;
}

static enum gemmd_error set_integer(const struct endpoint *endpoint, const char *name,
                                    json_int_t value)
{
    union any_request request;
    json_t *json = json_integer(value);
    enum gemmd_error code = set_one(endpoint, &request, name, json);
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

/* Appends "NAME " to a list. */
static void append(char list[256], const char *name)
{
    const size_t length = strlen(list);
    snprintf(list + length, 256 - length, "%s ", name);
}

/* Whether the document leaves out a type that the parameter takes, because no kernel does: the
 * answer is 422. */
static bool is_left_out(const struct endpoint *endpoint, enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F8_E4M3 && strcmp(endpoint->table->path, "/attention") == 0;
}

/* The values that the document lists are those of the code, in the same order. */
static void check_values(const struct endpoint *endpoint, const struct parameter *parameter,
                         json_t *schema)
{
    const struct parameter_values *values = parameter->values;
    union any_request request;
    char listed[256] = "", taken[256] = "";
    json_t *list = json_object_get(schema, "enum"), *value;
    size_t index;
    json_array_foreach(list, index, value)
    {
        ck_assert_msg(set_one(endpoint, &request, parameter->name, value) == GEMMD_OK,
                      "%s of %s does not take value %zu of its enum in openapi.json",
                      parameter->name, endpoint->table->path, index);
        if (json_is_string(value))
            append(listed, json_string_value(value));
    }
    for (uint32_t i = 0; values->choices != NULL && values->choices[i] != NULL; i++)
        append(taken, values->choices[i]);
    for (uint32_t i = 0; i < GEMMD_DTYPE_COUNT; i++)
        if (parameter_takes_dtype(values, (enum gemmd_dtype)i) &&
            !is_left_out(endpoint, (enum gemmd_dtype)i))
            append(taken, dtype_name((enum gemmd_dtype)i));
    if (taken[0] != '\0')
        ck_assert_msg(strcmp(listed, taken) == 0,
                      "%s of %s takes %s; the enum in openapi.json has %s", parameter->name,
                      endpoint->table->path, taken, listed);
}

START_TEST(listed_values_are_those_that_are_taken)
{
    each_parameter(&endpoints[_i], check_values);
}
END_TEST

static void check_bounds(const struct endpoint *endpoint, const struct parameter *parameter,
                         json_t *schema)
{
    const char *name = parameter->name;
    json_t *minimum = json_object_get(schema, "minimum"),
           *maximum = json_object_get(schema, "maximum");
    if (!json_is_integer(minimum) || !json_is_integer(maximum))
        return;
    ck_assert_uint_eq(set_integer(endpoint, name, json_integer_value(minimum)), GEMMD_OK);
    ck_assert_uint_ne(set_integer(endpoint, name, json_integer_value(minimum) - 1), GEMMD_OK);
    ck_assert_uint_eq(set_integer(endpoint, name, json_integer_value(maximum)), GEMMD_OK);
    /* The width of a head is bounded when all parameters are known. */
    if (json_integer_value(maximum) != ATTENTION_WIDTH_MAX)
        ck_assert_uint_ne(set_integer(endpoint, name, json_integer_value(maximum) + 1), GEMMD_OK);
}

START_TEST(bounds_are_the_last_values_taken)
{
    each_parameter(&endpoints[_i], check_bounds);
}
END_TEST

/* Giving the default makes the request that giving nothing makes. */
static void check_default(const struct endpoint *endpoint, const struct parameter *parameter,
                          json_t *schema)
{
    union any_request silent, spoken;
    json_t *value = json_object_get(schema, "default");
    if (value == NULL)
        return;
    memset(&silent, 0, sizeof silent);
    memset(&spoken, 0, sizeof spoken);
    endpoint->init(&silent);
    ck_assert_uint_eq(set_one(endpoint, &spoken, parameter->name, value), GEMMD_OK);
    memset((char *)&spoken + endpoint->table->given_offset, 0, sizeof(uint32_t));
    ck_assert_msg(memcmp(&spoken, &silent, sizeof silent) == 0,
                  "the default of %s in openapi.json is not what %s does without %s",
                  parameter->name, endpoint->table->path, parameter->name);
}

START_TEST(defaults_are_the_defaults)
{
    each_parameter(&endpoints[_i], check_default);
}
END_TEST

static void check_nothing(const struct endpoint *endpoint, const struct parameter *parameter,
                          json_t *schema)
{
    (void)endpoint;
    (void)parameter;
    (void)schema;
}

START_TEST(all_parameters_are_described)
{
    const struct endpoint *endpoint = &endpoints[_i];
    ck_assert_msg(each_parameter(endpoint, check_nothing) == endpoint->table->count,
                  "openapi.json lacks a parameter of %s", endpoint->table->path);
}
END_TEST

/* This file compares the parameters of every operation. */
START_TEST(all_operations_are_compared)
{
    const char *path;
    json_t *methods;
    json_object_foreach(at("|paths"), path, methods)
    {
        json_t *tags = json_object_get(json_object_get(methods, "post"), "tags");
        const char *tag = json_string_value(json_array_get(tags, 0));
        int of = 0;
        while (of < ENDPOINTS && strcmp(endpoints[of].table->path, path) != 0)
            of++;
        if (tag != NULL && strcmp(tag, "products") == 0)
            ck_assert_msg(of < ENDPOINTS, "endpoints[] of this file lacks %s", path);
    }
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
    tcase_add_loop_test(tests, listed_values_are_those_that_are_taken, 0, ENDPOINTS);
    tcase_add_loop_test(tests, bounds_are_the_last_values_taken, 0, ENDPOINTS);
    tcase_add_loop_test(tests, defaults_are_the_defaults, 0, ENDPOINTS);
    tcase_add_loop_test(tests, all_parameters_are_described, 0, ENDPOINTS);
    tcase_add_test(tests, all_operations_are_compared);
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
