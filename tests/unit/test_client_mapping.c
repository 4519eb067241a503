/* client/mapping.c: blocks of memory that a client shares. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/mapping.h"

enum { SIZE = 4096 };

static struct mapping *mapping;

static void open_memory(void)
{
    mapping = mapping_new(SIZE, 3);
    ck_assert_ptr_nonnull(mapping);
}

static void close_memory(void)
{
    mapping_free(mapping);
}

START_TEST(it_is_sealed_as_the_daemon_wants_it)
{
    ck_assert_int_eq(fcntl(mapping_fd(mapping), F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    ck_assert_uint_eq(mapping_bytes(mapping), SIZE);
    ck_assert_uint_eq(mapping_number(mapping), 3);
    ck_assert_ptr_null(mapping_new(UINT64_MAX, 0));
}
END_TEST

START_TEST(blocks_are_aligned_and_apart)
{
    uint64_t offset;
    char *a = mapping_take(mapping, 1), *b = mapping_take(mapping, 65),
         *c = mapping_take(mapping, 0);
    ck_assert_int_eq(b - a, 64);
    ck_assert_int_eq(c - b, 128);
    ck_assert(mapping_has(mapping, b + 1, SIZE - 65, &offset));
    ck_assert_uint_eq(offset, 65);
    ck_assert(!mapping_has(mapping, b + 1, SIZE - 64, &offset));
    ck_assert(!mapping_has(mapping, &offset, 1, &offset));
    memset(a, 1, SIZE);
    ck_assert(mapping_is_in_use(mapping));
    ck_assert(!mapping_give(mapping, a + 64 * 3 + 64)); /* no block of it */
    ck_assert(mapping_give(mapping, b));
    ck_assert(!mapping_give(mapping, b));
    ck_assert_ptr_eq(mapping_take(mapping, 128), b); /* the first gap that is large enough */
}
END_TEST

START_TEST(all_of_it_can_be_taken_and_no_more)
{
    char *first = mapping_take(mapping, SIZE);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(mapping_take(mapping, 1));
    ck_assert(mapping_give(mapping, first));
    ck_assert_ptr_null(mapping_take(mapping, SIZE + 1));
    ck_assert_ptr_null(mapping_take(mapping, UINT64_MAX));
    for (int i = 0; i < SIZE / 64; i++)
        ck_assert_ptr_eq(mapping_take(mapping, 64), first + 64 * i);
    ck_assert_ptr_null(mapping_take(mapping, 1));
}
END_TEST

START_TEST(what_is_lost_is_nobodys_again)
{
    char *a = mapping_take(mapping, SIZE / 2), *b = mapping_take(mapping, 64);
    mapping_lose(mapping, a);
    ck_assert(!mapping_is_worn(mapping));
    ck_assert(!mapping_give(mapping, a));
    ck_assert_ptr_null(mapping_take(mapping, SIZE / 2));
    mapping_lose(mapping, b);
    ck_assert(mapping_is_worn(mapping));
    ck_assert(!mapping_is_in_use(mapping));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_mapping");
    TCase *tests = tcase_create("client_mapping");
    tcase_add_checked_fixture(tests, open_memory, close_memory);
    tcase_add_test(tests, it_is_sealed_as_the_daemon_wants_it);
    tcase_add_test(tests, blocks_are_aligned_and_apart);
    tcase_add_test(tests, all_of_it_can_be_taken_and_no_more);
    tcase_add_test(tests, what_is_lost_is_nobodys_again);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
