/* server/config/config_value.c, config_table.c: values as text, names that are nearly right. */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config_option.h"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static const char *const choices[] = {"first", "second", NULL};
static const struct config_option kinds[] = {
    [CONFIG_KIND_NUMBER] = {.kind = CONFIG_KIND_NUMBER, .min = 2, .max = 100},
    [CONFIG_KIND_BYTES] = {.kind = CONFIG_KIND_BYTES, .min = 0, .max = UINT64_C(1) << 40},
    [CONFIG_KIND_TIME] = {.kind = CONFIG_KIND_TIME, .min = 1, .max = 7200000},
    [CONFIG_KIND_SHARE] = {.kind = CONFIG_KIND_SHARE, .max = CONFIG_SHARE_ONE},
    [CONFIG_KIND_MODE] = {.kind = CONFIG_KIND_MODE, .max = 0777},
    [CONFIG_KIND_SWITCH] = {.kind = CONFIG_KIND_SWITCH},
    [CONFIG_KIND_CHOICE] = {.kind = CONFIG_KIND_CHOICE, .choices = choices},
};

static const struct {
    enum config_kind kind;
    const char *text;
    uint64_t value;
} good[] = {
    {CONFIG_KIND_NUMBER, "2", 2},
    {CONFIG_KIND_NUMBER, "100", 100},
    {CONFIG_KIND_BYTES, "0", 0},
    {CONFIG_KIND_BYTES, "4096", 4096},
    {CONFIG_KIND_BYTES, "64K", 65536},
    {CONFIG_KIND_BYTES, "64KiB", 65536},
    {CONFIG_KIND_BYTES, "1T", UINT64_C(1) << 40},
    {CONFIG_KIND_TIME, "1", 1},
    {CONFIG_KIND_TIME, "500ms", 500},
    {CONFIG_KIND_TIME, "10s", 10000},
    {CONFIG_KIND_TIME, "2m", 120000},
    {CONFIG_KIND_TIME, "2h", 7200000},
    {CONFIG_KIND_SHARE, "0", 0},
    {CONFIG_KIND_SHARE, "1", 1000000},
    {CONFIG_KIND_SHARE, "0.25", 250000},
    {CONFIG_KIND_SHARE, "1e-3", 1000},
    {CONFIG_KIND_SHARE, "1e-300", 1},
    {CONFIG_KIND_MODE, "0660", 0660},
    {CONFIG_KIND_MODE, "777", 0777},
    {CONFIG_KIND_MODE, "0", 0},
    {CONFIG_KIND_SWITCH, "true", 1},
    {CONFIG_KIND_SWITCH, "false", 0},
    {CONFIG_KIND_SWITCH, "1", 1},
    {CONFIG_KIND_SWITCH, "0", 0},
    {CONFIG_KIND_SWITCH, "yes", 1},
    {CONFIG_KIND_SWITCH, "off", 0},
    {CONFIG_KIND_CHOICE, "first", 0},
    {CONFIG_KIND_CHOICE, "second", 1},
};

START_TEST(reads_good_values)
{
    uint64_t value = 12345;
    ck_assert_msg(config_value_read(&kinds[good[_i].kind], good[_i].text, &value), "%s is refused",
                  good[_i].text);
    ck_assert_msg(value == good[_i].value, "%s is read as %" PRIu64, good[_i].text, value);
}
END_TEST

static const struct {
    enum config_kind kind;
    const char *text;
} bad[] = {
    {CONFIG_KIND_NUMBER, "1"},       {CONFIG_KIND_NUMBER, "101"},
    {CONFIG_KIND_NUMBER, "2 "},      {CONFIG_KIND_BYTES, "1025G"},
    {CONFIG_KIND_BYTES, "1Z"},       {CONFIG_KIND_TIME, "0"},
    {CONFIG_KIND_TIME, "7200001ms"}, {CONFIG_KIND_TIME, "121m"},
    {CONFIG_KIND_TIME, ""},          {CONFIG_KIND_TIME, "s"},
    {CONFIG_KIND_TIME, "1sec"},      {CONFIG_KIND_TIME, "18446744073709551615h"},
    {CONFIG_KIND_SWITCH, ""},        {CONFIG_KIND_CHOICE, "third"},
    {CONFIG_KIND_CHOICE, ""},        {CONFIG_KIND_SHARE, "1.01"},
    {CONFIG_KIND_SHARE, "-0.1"},     {CONFIG_KIND_SHARE, "50%"},
    {CONFIG_KIND_SHARE, "nan"},      {CONFIG_KIND_SHARE, ""},
    {CONFIG_KIND_MODE, ""},          {CONFIG_KIND_MODE, "0680"},
    {CONFIG_KIND_MODE, "1777"},      {CONFIG_KIND_MODE, "00660"},
    {CONFIG_KIND_MODE, "u=rw"},
};

START_TEST(refuses_bad_values)
{
    uint64_t value = 12345;
    ck_assert_msg(!config_value_read(&kinds[bad[_i].kind], bad[_i].text, &value), "%s is taken",
                  bad[_i].text);
    ck_assert_uint_eq(value, 12345);
}
END_TEST

/* Whatever the limits of an option are. */
START_TEST(refuses_a_time_of_too_many_digits)
{
    const struct config_option any = {.kind = CONFIG_KIND_TIME, .max = UINT64_MAX};
    uint64_t value = 12345;
    ck_assert(!config_value_read(&any, "000000000000000000000005s", &value));
    ck_assert_uint_eq(value, 12345);
}
END_TEST

START_TEST(says_what_it_expects)
{
    char text[CONFIG_TEXT_MAX];
    config_value_expected(&kinds[CONFIG_KIND_NUMBER], text);
    ck_assert_str_eq(text, "a whole number from 2 to 100");
    config_value_expected(&kinds[CONFIG_KIND_BYTES], text);
    ck_assert_str_eq(text, "a size from 0 to 1TiB, such as 64M or 2GiB");
    config_value_expected(&kinds[CONFIG_KIND_TIME], text);
    ck_assert_str_eq(text, "a time from 1ms to 2h, such as 500ms, 10s or 2m");
    config_value_expected(&kinds[CONFIG_KIND_SHARE], text);
    ck_assert_str_eq(text, "a number from 0 to 1, such as 0.01");
    config_value_expected(&kinds[CONFIG_KIND_MODE], text);
    ck_assert_str_eq(text, "an octal number from 0 to 0777, such as 0660");
    config_value_expected(&kinds[CONFIG_KIND_CHOICE], text);
    ck_assert_str_eq(text, "one of first, second");
}
END_TEST

START_TEST(stores_what_it_loads)
{
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (option->kind == CONFIG_KIND_TEXT || option->kind == CONFIG_KIND_ADDRESSES ||
            option->kind == CONFIG_KIND_ACTION)
            continue;
        union {
            struct config config;
            unsigned char bytes[sizeof(struct config)];
        } store;
        memset(store.bytes, 0xa5, sizeof(store.bytes));
        config_value_store(&store.config, option, 1);
        ck_assert_msg(config_value_load(&store.config, option) == 1, "%s is not what was stored",
                      option->name);
        for (size_t at = 0; at < sizeof(store.bytes); at++) {
            bool inside = at >= option->offset && at < option->offset + option->size;
            ck_assert_msg(inside || store.bytes[at] == 0xa5, "%s is stored past its field",
                          option->name);
        }
    }
}
END_TEST

START_TEST(the_table_is_consistent)
{
    for (uint32_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        ck_assert_ptr_eq(config_option_find(option->name, strlen(option->name)), option);
        ck_assert_uint_eq(config_option_index(option), i);
        ck_assert_msg(option->min <= option->max || option->kind == CONFIG_KIND_ACTION,
                      "%s has no value in range", option->name);
        ck_assert_msg(option->size != sizeof(uint32_t) || option->max <= UINT32_MAX,
                      "%s does not fit in its field", option->name);
        ck_assert_msg((option->kind == CONFIG_KIND_CHOICE) == (option->choices != NULL),
                      "%s has choices and is not one, or the reverse", option->name);
    }
}
END_TEST

static const struct {
    const char *wrong, *right;
} slips[] = {
    {"listn", "listen"},
    {"lsiten", "listen"},
    {"max_body", "max-body"},
    {"queue-req", "queue-requests"},
    {"help", "help"},
    {"loglevel", "log-level"},
    {"timeuot", "timeout"},
    {"v", "version"},
    {"", NULL},
    {"something-else-entirely", NULL},
    {"xyz", NULL},
};

START_TEST(suggests_the_nearest_name)
{
    const char *nearest = config_option_nearest(slips[_i].wrong, strlen(slips[_i].wrong));
    if (!slips[_i].right)
        ck_assert_msg(!nearest, "'%s' suggests %s", slips[_i].wrong, nearest);
    else
        ck_assert_msg(nearest && strcmp(nearest, slips[_i].right) == 0, "'%s' suggests %s",
                      slips[_i].wrong, nearest ? nearest : "nothing");
}
END_TEST

START_TEST(suggests_nothing_for_a_very_long_name)
{
    char name[4096];
    memset(name, 'a', sizeof(name));
    ck_assert_ptr_null(config_option_nearest(name, sizeof(name)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_value");
    TCase *tests = tcase_create("config_value");
    tcase_add_loop_test(tests, reads_good_values, 0, COUNT(good));
    tcase_add_loop_test(tests, refuses_bad_values, 0, COUNT(bad));
    tcase_add_test(tests, refuses_a_time_of_too_many_digits);
    tcase_add_test(tests, says_what_it_expects);
    tcase_add_test(tests, stores_what_it_loads);
    tcase_add_test(tests, the_table_is_consistent);
    tcase_add_loop_test(tests, suggests_the_nearest_name, 0, COUNT(slips));
    tcase_add_test(tests, suggests_nothing_for_a_very_long_name);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
