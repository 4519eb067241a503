/* server/device/memory/pinned_pool.c: blocks that caches keep are available to other threads, and
 * count as free. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/device/memory/pinned_pool.h"

enum { UNIT = ARENA_ALIGNMENT, UNITS = 64 };

static void *memory;
static struct pool *pool;
static struct pool_cache *mine, *theirs;
static struct fault fault;

static void set_up(void)
{
    memory = aligned_alloc(UNIT, UNITS * UNIT);
    pool = pool_create(memory, UNITS * UNIT);
    ck_assert_ptr_nonnull(pool);
    mine = pool_cache_create(pool);
    theirs = pool_cache_create(pool);
    ck_assert_ptr_nonnull(mine);
    ck_assert_ptr_nonnull(theirs);
}

static void tear_down(void)
{
    pool_cache_destroy(mine);
    pool_cache_destroy(theirs);
    pool_destroy(pool);
    free(memory);
}

START_TEST(a_block_that_was_given_back_is_handed_out_again)
{
    void *block = pool_alloc(mine, 3 * UNIT, &fault);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq((uintptr_t)block % UNIT, 0);
    pool_free(mine, block, 3 * UNIT);
    ck_assert_ptr_eq(pool_alloc(mine, 2 * UNIT + 1, &fault), block);
    pool_free(mine, block, 2 * UNIT + 1);
}
END_TEST

START_TEST(what_is_kept_is_not_in_use)
{
    void *small = pool_alloc(mine, 1, &fault), *large = pool_alloc(mine, 20 * UNIT, &fault);
    ck_assert_uint_eq(pool_used_bytes(pool), 21 * UNIT);
    pool_free(mine, small, 1);
    ck_assert_uint_eq(pool_used_bytes(pool), 20 * UNIT);
    pool_free(mine, large, 20 * UNIT);
    ck_assert_uint_eq(pool_used_bytes(pool), 0);
}
END_TEST

START_TEST(memory_that_another_cache_keeps_is_there_for_all)
{
    void *blocks[UNITS / 8];
    for (int i = 0; i < UNITS / 8; i++)
        ck_assert_ptr_nonnull(blocks[i] = pool_alloc(theirs, 8 * UNIT, &fault));
    ck_assert_ptr_null(pool_alloc(mine, UNIT, &fault));
    ck_assert_int_eq(fault.code, GEMMD_ERR_OUT_OF_MEMORY);
    for (int i = 0; i < UNITS / 8; i++)
        pool_free(theirs, blocks[i], 8 * UNIT);
    void *all = pool_alloc(mine, UNITS * UNIT, &fault);
    ck_assert_msg(all != NULL, "%s", fault.detail);
    pool_free(mine, all, UNITS * UNIT);
}
END_TEST

START_TEST(a_cache_that_ends_gives_everything_back)
{
    struct pool_cache *cache = pool_cache_create(pool);
    pool_free(cache, pool_alloc(cache, UNIT, &fault), UNIT);
    pool_cache_destroy(cache);
    void *all = pool_alloc(mine, UNITS * UNIT, &fault);
    ck_assert_ptr_nonnull(all);
    pool_free(mine, all, UNITS * UNIT);
}
END_TEST

/* Two threads, and a pool so small that each needs blocks from the other's cache all the time. */
static void *churn(void *argument)
{
    struct pool_cache *cache = argument;
    unsigned state = cache == mine ? 1 : 2;
    long clashes = 0;
    for (int i = 0; i < 20000; i++) {
        struct fault own;
        state = state * 1103515245u + 12345u;
        uint64_t bytes = (state >> 16) % (UNITS / 2 * UNIT) + 1;
        unsigned char *block = pool_alloc(cache, bytes, &own);
        if (block == NULL)
            continue;
        block[0] = (unsigned char)state;
        block[bytes - 1] = (unsigned char)state;
        clashes += block[0] != (unsigned char)state || block[bytes - 1] != (unsigned char)state;
        pool_free(cache, block, bytes);
    }
    return (void *)clashes;
}

START_TEST(threads_do_not_share_blocks)
{
    pthread_t other;
    void *clashes;
    ck_assert_int_eq(pthread_create(&other, NULL, churn, theirs), 0);
    ck_assert_ptr_null(churn(mine));
    pthread_join(other, &clashes);
    ck_assert_ptr_null(clashes);
    ck_assert_uint_eq(pool_used_bytes(pool), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pinned_pool");
    TCase *tests = tcase_create("pinned_pool");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_block_that_was_given_back_is_handed_out_again);
    tcase_add_test(tests, what_is_kept_is_not_in_use);
    tcase_add_test(tests, memory_that_another_cache_keeps_is_there_for_all);
    tcase_add_test(tests, a_cache_that_ends_gives_everything_back);
    tcase_add_test(tests, threads_do_not_share_blocks);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
