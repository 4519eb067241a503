/* client/memory.c: blocks of the memory that a client shares. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/memory.h"

enum { SIZE = 4096 };

static struct memory *memory;

static void open_memory(void)
{
    memory = memory_new(SIZE, 3);
    ck_assert_ptr_nonnull(memory);
}

static void close_memory(void)
{
    memory_free(memory);
}

START_TEST(it_is_sealed_as_the_daemon_wants_it)
{
    ck_assert_int_eq(fcntl(memory_fd(memory), F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    ck_assert_uint_eq(memory_bytes(memory), SIZE);
    ck_assert_uint_eq(memory_number(memory), 3);
    ck_assert_ptr_null(memory_new(UINT64_MAX, 0));
}
END_TEST

START_TEST(blocks_are_aligned_and_apart)
{
    uint64_t offset;
    char *a = memory_take(memory, 1), *b = memory_take(memory, 65), *c = memory_take(memory, 0);
    ck_assert_int_eq(b - a, 64);
    ck_assert_int_eq(c - b, 128);
    ck_assert(memory_has(memory, b + 1, SIZE - 65, &offset));
    ck_assert_uint_eq(offset, 65);
    ck_assert(!memory_has(memory, b + 1, SIZE - 64, &offset));
    ck_assert(!memory_has(memory, &offset, 1, &offset));
    memset(a, 1, SIZE);
    ck_assert(memory_is_in_use(memory));
    ck_assert(!memory_give(memory, a + 64 * 3 + 64)); /* no block of it */
    ck_assert(memory_give(memory, b));
    ck_assert(!memory_give(memory, b));
    ck_assert_ptr_eq(memory_take(memory, 128), b); /* the first gap that is large enough */
}
END_TEST

START_TEST(all_of_it_can_be_taken_and_no_more)
{
    char *first = memory_take(memory, SIZE);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(memory_take(memory, 1));
    ck_assert(memory_give(memory, first));
    ck_assert_ptr_null(memory_take(memory, SIZE + 1));
    ck_assert_ptr_null(memory_take(memory, UINT64_MAX));
    for (int i = 0; i < SIZE / 64; i++)
        ck_assert_ptr_eq(memory_take(memory, 64), first + 64 * i);
    ck_assert_ptr_null(memory_take(memory, 1));
}
END_TEST

START_TEST(what_is_lost_is_nobodys_again)
{
    char *a = memory_take(memory, SIZE / 2), *b = memory_take(memory, 64);
    memory_lose(memory, a);
    ck_assert(!memory_is_worn(memory));
    ck_assert(!memory_give(memory, a));
    ck_assert_ptr_null(memory_take(memory, SIZE / 2));
    memory_lose(memory, b);
    ck_assert(memory_is_worn(memory));
    ck_assert(!memory_is_in_use(memory));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_shared");
    TCase *tests = tcase_create("client_shared");
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
