/* proto/memory_header.c: locations in a client's memory, as a header has them. */
#include <check.h>
#include <stdlib.h>

#include "proto/memory_header.h"

START_TEST(what_is_written_is_read)
{
    char text[MEMORY_HEADER_MAX];
    struct memory_locations locations = {.locations = {{"a", 0}, {"bias", 64}, {"c", UINT64_MAX}},
                                         .count = 3};
    struct memory_locations read;
    struct fault fault;
    memory_header_write(&locations, text);
    ck_assert_str_eq(text, "a=0, bias=64, c=18446744073709551615");
    ck_assert_int_eq(memory_header_read(text, &read, &fault), GEMMD_OK);
    ck_assert_uint_eq(read.count, 3);
    ck_assert_uint_eq(memory_locations_find(&read, "bias")->offset, 64);
    ck_assert_uint_eq(memory_locations_find(&read, "c")->offset, UINT64_MAX);
    ck_assert_ptr_null(memory_locations_find(&read, "b"));
    ck_assert_int_eq(memory_header_read(" \ta=1 ,b=2\t", &read, &fault), GEMMD_OK);
    ck_assert_uint_eq(memory_locations_find(&read, "b")->offset, 2);
}
END_TEST

START_TEST(the_longest_has_room)
{
    char text[MEMORY_HEADER_MAX];
    struct memory_locations locations = {.count = MEMORY_LOCATIONS_MAX}, read;
    struct fault fault;
    for (uint32_t i = 0; i < MEMORY_LOCATIONS_MAX; i++)
        locations.locations[i] =
            (struct memory_location){{'a', 'b', 'c', 'd', 'e', 'f', (char)('0' + i)}, UINT64_MAX};
    memory_header_write(&locations, text);
    ck_assert_int_eq(memory_header_read(text, &read, &fault), GEMMD_OK);
    ck_assert_uint_eq(read.count, MEMORY_LOCATIONS_MAX);
    ck_assert_str_eq(read.locations[7].name, "abcdef7");
}
END_TEST

START_TEST(anything_else_is_refused)
{
    static const char *const texts[] = {"",
                                        " ",
                                        ",",
                                        "a",
                                        "=1",
                                        "a=",
                                        "a=1,",
                                        "a=1,,b=2",
                                        "a==1",
                                        "a=-1",
                                        "a=+1",
                                        "a=1 2",
                                        "a=0x1",
                                        "a=1;b=2",
                                        "abcdefgh=1",
                                        "a=18446744073709551616",
                                        "a=1, a=2",
                                        "a=000000000000000000000001",
                                        "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct memory_locations locations;
        struct fault fault;
        ck_assert_msg(memory_header_read(texts[i], &locations, &fault) == GEMMD_ERR_MALFORMED,
                      "'%s' is taken", texts[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_header");
    TCase *tests = tcase_create("memory_header");
    tcase_add_test(tests, what_is_written_is_read);
    tcase_add_test(tests, the_longest_has_room);
    tcase_add_test(tests, anything_else_is_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
