/* The JSON of inference requests, held against jansson: what one refuses the other refuses, and
 * what both take means the same to both. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/oip_json.h"
#include "proto/oip_skeleton.h"

static struct oip_json json;

/* Reads a copy of exactly these bytes, so that a sanitizer sees any read past the end. */
static bool reads(const char *text, size_t bytes, char **copy)
{
    *copy = malloc(bytes > 0 ? bytes : 1);
    if (bytes > 0)
        memcpy(*copy, text, bytes);
    return oip_json_read(&json, *copy, bytes);
}

/* jansson's opinion, of the same text with its long arrays cut out. */
static bool jansson_reads(const char *text, size_t bytes)
{
    struct fault fault = {.code = GEMMD_OK};
    ck_assert_uint_eq(oip_skeleton_refuse(text, bytes, &fault), GEMMD_ERR_MALFORMED);
    return strstr(fault.detail, "JSON: there is a zero byte") != NULL; /* no reason */
}

static long long whole_number(const struct oip_value *value)
{
    char text[32] = "";
    ck_assert_uint_lt(value->bytes, sizeof text);
    memcpy(text, value->text, value->bytes);
    return strtoll(text, NULL, 10);
}

static bool is_same(const struct oip_value *value, const json_t *other)
{
    switch (json_typeof(other)) {
    case JSON_NULL:
        return value->kind == OIP_NULL;
    case JSON_TRUE:
        return value->kind == OIP_TRUE;
    case JSON_FALSE:
        return value->kind == OIP_FALSE;
    case JSON_INTEGER:
        return value->kind == OIP_INTEGER && whole_number(value) == json_integer_value(other);
    case JSON_REAL:
        return value->kind == OIP_REAL &&
               oip_json_real(value->text, value->bytes) == json_real_value(other);
    case JSON_STRING:
        return value->kind == OIP_STRING && value->bytes == json_string_length(other) &&
               memcmp(value->text, json_string_value(other), value->bytes) == 0;
    case JSON_ARRAY:
        if (value->kind == OIP_ARRAY)
            return json.arrays[value->count].text[0] == '[';
        if (value->kind != OIP_LIST || value->count != json_array_size(other))
            return false;
        value++;
        for (size_t i = 0; i < json_array_size(other); i++, value = oip_json_next(value))
            if (!is_same(value, json_array_get(other, i)))
                return false;
        return true;
    default: {
        const char *name;
        json_t *member;
        if (value->kind != OIP_OBJECT || value->count != json_object_size(other))
            return false;
        const struct oip_value *own = value + 1;
        json_object_foreach((json_t *)(uintptr_t)other, name, member)
        {
            if (!oip_json_is(own, name) || !is_same(own + 1, member))
                return false;
            own = oip_json_next(own + 1);
        }
        return true;
    }
    }
}

static void check(const char *text, size_t bytes)
{
    char *copy;
    const bool accepted = reads(text, bytes, &copy);
    ck_assert_msg(accepted == jansson_reads(text, bytes), "%s: %.*s",
                  accepted ? "jansson refuses" : "jansson reads", (int)bytes, text);
    /* A long array that is not JSON is read all the same, and there is nothing to compare. */
    json_t *root = accepted ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    ck_assert_msg(root == NULL || is_same(json.values, root), "%.*s", (int)bytes, text);
    ck_assert(root == NULL || json.value_count == json.values[0].span);
    json_decref(root);
    free(copy);
}

static const char *const texts[] = {
    "",
    " ",
    "null",
    "7 ",
    "{\"a\":1",
    "{\"a\":\"\\",
    "\"a\"",
    "{}",
    " [ ] ",
    "[[],[[[]]],{}]",
    "{} x",
    "{}\n\t\r ",
    "{\"a\":1,}",
    "{\"a\" 1}",
    "{,}",
    "[1,]",
    "[1 2]",
    "[1",
    "[tru]",
    "[true,false,null,truefalse]",
    "[nul",
    "[0,-0,1,-1,10,01]",
    "[0,-0,-,1]",
    "[+1]",
    "[9223372036854775807,-9223372036854775808]",
    "[9223372036854775808]",
    "[-9223372036854775809]",
    "[12345678901234567890]",
    "[12345678901234567890.0,99999999999999999999e1]",
    "[1.5,0.25e3,1E+2,1e-400,-2.5]",
    "[1.]",
    "[.5]",
    "[1e]",
    "[1e+]",
    "[1e400]",
    "[-1e400]",
    "[0x10]",
    "[1.5",
    "[Infinity]",
    "[NaN]",
    "{\"\":0,\"a\":\"\",\"b\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
    "[\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"]",
    "[\"\\u0000\"]",
    "[\"\\ud83d\"]",
    "[\"\\ud83dx\"]",
    "[\"\\ud83d\\u0041\"]",
    "[\"\\ude00\"]",
    "[\"\\u00g0\"]",
    "[\"\\u00\"]",
    "[\"\\x\"]",
    "[\"\\",
    "[\"\\u12",
    "[\"a",
    "[\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\"]",
    "[\"\xC0\xAF\"]",
    "[\"\xED\xA0\x80\"]",
    "[\"\xF4\x90\x80\x80\"]",
    "[\"\xE2\x82\"]",
    "[\"\xE2\x82",
    "[\"\xFF\"]",
    "[\"\n\"]",
    "\xEF\xBB\xBF{}",
    "{\"a\":1,\"b\":2,\"a\":3}",
    "{\"a\":1,\"\\u0061\":2}",
    "{\"x\":{\"a\":{},\"a\":{}}}",
    "{\"inputs\":[{\"shape\":[!],\"data\":[1}}]}",
    "{\"inputs\":[{\"shape\":[\"]\",2],\"data\":[[1,2],[3]]}]}",
    "{\"inputs\":[{\"parameters\":{\"a\":{}}}]}",
    "{\"inputs\":[{\"parameters\":{\"a\":[]}}]}",
    "{\"id\":\"1\",\"inputs\":[{\"name\":\"A\",\"shape\":[64,64],\"datatype\":\"FP32\","
    "\"parameters\":{\"binary_data_size\":16384}},{\"name\":\"B\",\"shape\":[64,64],\"datatype\":"
    "\"FP32\",\"data\":[[1.5e1,2],[-3,4]]}],\"outputs\":[{\"name\":\"C\",\"parameters\":{"
    "\"binary_data\":true}}],\"parameters\":{\"alpha\":0.5,\"act\":\"relu\",\"n\":null}}",
};
enum { TEXTS = sizeof texts / sizeof *texts };

START_TEST(texts_are_read_as_jansson_does)
{
    check(texts[_i], strlen(texts[_i]));
}
END_TEST

static uint32_t random_below(uint32_t *state, uint32_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % limit;
}

/* Puts a piece of another text, or one byte, into a text, over a few of its bytes or none. */
static size_t mutate(uint32_t *state, char *text, size_t bytes, size_t room)
{
    static const char bytes_of_note[] = "{}[]:,\"\\/ \n0123456789-+.eEtfnu\x01\x1F\x7F\x80\xC3\xED";
    const char *piece = &bytes_of_note[random_below(state, sizeof bytes_of_note - 1)];
    size_t length = 1;
    if (random_below(state, 3) == 0) {
        const char *other = texts[random_below(state, TEXTS)];
        const uint32_t whole = (uint32_t)strlen(other);
        const uint32_t from = random_below(state, whole + 1);
        piece = other + from;
        length = random_below(state, whole - from + 1);
    }
    const size_t at = random_below(state, (uint32_t)bytes + 1);
    size_t dropped = random_below(state, 4);
    if (dropped > bytes - at)
        dropped = bytes - at;
    if (bytes - dropped + length > room)
        return bytes;
    memmove(text + at + length, text + at + dropped, bytes - at - dropped);
    memcpy(text + at, piece, length);
    return bytes - dropped + length;
}

START_TEST(mutations_are_read_as_jansson_does)
{
    enum { ROUNDS = 3000, ROOM = 2048 };
    uint32_t state = 2463534242u + (uint32_t)_i;
    char text[ROOM];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size_t bytes = strlen(texts[_i]);
        memcpy(text, texts[_i], bytes);
        for (uint32_t i = random_below(&state, 4); i < 4; i++)
            bytes = mutate(&state, text, bytes, ROOM);
        check(text, bytes);
    }
}
END_TEST

/* The limits on what is not in long arrays, one byte or value below and above. */
enum { LIMITS = 13 };

START_TEST(limits_are_those_of_the_skeleton)
{
    static const struct {
        const char *head, *unit, *tail;
    } cases[LIMITS] = {
        {"{\"a\":\"", "x", "\"}"},
        {"{\"a\":\"", "\\n", "\"}"},
        {"{\"a\":0,", " ", "\"b\":0}"},
        {"{\"a\":0,", " ", "\"b\":[]}"},
        {"{\"a\":1", "1", "}"},
        {"[0", ",0", "]"},
        {"{\"\":0", ",\"\":0", "}"}, /* as many members as there can be */
        {"[0", ",[]", "]"},
        {"", " ", "{}"},
        {"{}", " ", ""},
        {"[[[1,2,3,4,5],[6]", ",7", "]]"},
        {"[[[[0],", " ", "[1]]]]"},
        {"[[[1,2,3,4,5],[6],[1],[2],[3],[4],[5],[6],[7],[8],[9,10,11]", ",7", "]]"},
    };
    const size_t head = strlen(cases[_i].head), unit = strlen(cases[_i].unit),
                 tail = strlen(cases[_i].tail);
    const size_t most = OIP_JSON_BYTES / unit + 64;
    char *text = malloc(head + unit * most + tail);
    memcpy(text, cases[_i].head, head);
    for (size_t i = 0; i < most; i++) {
        memcpy(text + head + i * unit, cases[_i].unit, unit);
        if (i < most - 128)
            continue;
        memcpy(text + head + (i + 1) * unit, cases[_i].tail, tail);
        check(text, head + (i + 1) * unit + tail);
    }
    free(text);
}
END_TEST

/* Values after an array that is longer than all else may be. */
START_TEST(long_arrays_do_not_count)
{
    static const char head[] = "{\"inputs\":[{\"data\":[0",
                      tail[] = "]},{\"data\":[7]}],\"id\":\"x\"}";
    enum { LONG = 2 * OIP_JSON_BYTES };
    static char text[sizeof head + LONG + sizeof tail];
    memcpy(text, head, sizeof head - 1);
    memset(text + sizeof head - 1, '0', LONG);
    memcpy(text + sizeof head - 1 + LONG, tail, sizeof tail - 1);
    ck_assert(oip_json_read(&json, text, sizeof head + LONG + sizeof tail - 2));
    ck_assert_uint_eq(json.array_count, 2);
    ck_assert_uint_eq(json.arrays[0].bytes, LONG + 3);
    ck_assert_ptr_nonnull(oip_json_member(json.values, "id"));
}
END_TEST

/* Members by the thousand, the last of which has the first one's name or not. */
START_TEST(many_members_may_not_repeat_a_name)
{
    char text[OIP_JSON_BYTES];
    int length = snprintf(text, sizeof text, "{\"name0\":0");
    for (int i = 1; i < 1000; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, ",\"name%d\":0", i);
    text[length] = '}';
    check(text, (size_t)length + 1);
    ck_assert(oip_json_read(&json, text, (uint64_t)length + 1));
    length += snprintf(text + length, sizeof text - (size_t)length, ",\"n\\u0061me0\":0}");
    check(text, (size_t)length);
    ck_assert(!oip_json_read(&json, text, (uint64_t)length));
}
END_TEST

/* Each part of the number is short enough, and the number is not. */
START_TEST(a_number_longer_than_the_limit_is_refused)
{
    enum { PART = OIP_JSON_BYTES - 100 };
    static char text[2 * PART + 64];
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '1', 2 * PART + 1);
    text[5 + PART] = '.';
    text[6 + 2 * PART] = '}';
    ck_assert(!oip_json_read(&json, text, 7 + 2 * PART));
}
END_TEST

/* jansson overlooks a zero byte behind a number or a name. */
START_TEST(zero_bytes_are_refused)
{
    static const char *const units[] = {"[1\0]", "[1\0\0]", "[\0]", "[true\0]", "[\"\0\"]", "[]\0"};
    static const size_t bytes[] = {4, 5, 3, 7, 5, 3};
    struct fault fault = {.code = GEMMD_OK};
    ck_assert(!oip_json_read(&json, units[_i], bytes[_i]));
    ck_assert_uint_eq(oip_skeleton_refuse(units[_i], bytes[_i], &fault), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the request is not JSON: "));
    ck_assert_uint_gt(strlen(fault.detail), strlen("the request is not JSON: "));
}
END_TEST

/* An array that becomes one value begins with a bracket and ends with one. */
START_TEST(arrays_end_with_a_bracket)
{
    static const char *const units[] = {
        "{\"inputs\":[{\"x\":[1}}]}", "{\"inputs\":[{\"x\":[[1]}}]}", "{\"inputs\":[{\"x\":[}}]}"};
    struct fault fault = {.code = GEMMD_OK};
    const size_t bytes = strlen(units[_i]);
    ck_assert(!oip_json_read(&json, units[_i], bytes));
    ck_assert_uint_eq(oip_skeleton_refuse(units[_i], bytes, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_uint_eq(oip_json_array_end("[1]", 3, 0), 3);
    ck_assert_uint_eq(oip_json_array_end("[1}", 3, 0), 0);
}
END_TEST

START_TEST(members_are_found)
{
    static const char text[] = "{\"a\":{\"x\":[1,2]},\"b\":null,\"\\u0063\":7}";
    ck_assert(oip_json_read(&json, text, sizeof text - 1));
    const struct oip_value *root = json.values, *a = oip_json_member(root, "a");
    ck_assert_uint_eq(a->kind, OIP_OBJECT);
    ck_assert_uint_eq(oip_json_member(a, "x")->count, 2);
    ck_assert_ptr_null(oip_json_member(root, "b"));
    ck_assert_ptr_null(oip_json_member(root, "x"));
    ck_assert_ptr_null(oip_json_member(NULL, "a"));
    ck_assert_ptr_null(oip_json_member(oip_json_member(a, "x"), "a"));
    ck_assert_uint_eq(oip_json_member(root, "c")->kind, OIP_INTEGER);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("oip_json");
    tcase_add_loop_test(tests, texts_are_read_as_jansson_does, 0, TEXTS);
    tcase_add_loop_test(tests, mutations_are_read_as_jansson_does, 0, TEXTS);
    tcase_add_loop_test(tests, limits_are_those_of_the_skeleton, 0, LIMITS);
    tcase_add_test(tests, many_members_may_not_repeat_a_name);
    tcase_add_test(tests, long_arrays_do_not_count);
    tcase_add_test(tests, a_number_longer_than_the_limit_is_refused);
    tcase_add_loop_test(tests, zero_bytes_are_refused, 0, 6);
    tcase_add_loop_test(tests, arrays_end_with_a_bracket, 0, 3);
    tcase_add_test(tests, members_are_found);
    Suite *suite = suite_create("oip_json");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
