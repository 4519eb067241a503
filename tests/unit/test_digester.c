/* server/http/digester.c: payloads are hashed fairly, can be withdrawn, and do not hold up the end.
 */
#include <check.h>
#include <gnutls/crypto.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/digester.h"

enum { TENANTS = 4, TASKS = 64, LARGE_BYTES = 16 * DIGESTER_PIECE_BYTES };

/* A request, as the hooks see it. */
struct asked {
    struct digest_run run;
    struct payload payload;
    uint32_t rank;       /* how many runs ended before */
    void (*ended)(void); /* called by the thread that wakes the request; NULL: nothing to do */
    atomic_uint handed_over, woken;
};

static struct digester *digester;
static struct asked all[TASKS];
static unsigned char *bytes;
static atomic_uint ends;
static sem_t last; /* posted when the last run of a test ends */

static void hand_over(struct request *request)
{
    struct asked *asked = (struct asked *)(void *)request;
    atomic_fetch_add(&asked->handed_over, 1);
}

static void wake(struct request *request)
{
    struct asked *asked = (struct asked *)(void *)request;
    asked->rank = atomic_fetch_add(&ends, 1);
    atomic_fetch_add(&asked->woken, 1);
    if (asked->ended != NULL)
        asked->ended();
}

static void setup(void)
{
    memset(all, 0, sizeof all);
    atomic_store(&ends, 0);
    ck_assert_int_eq(sem_init(&last, 0, 0), 0);
    bytes = malloc(LARGE_BYTES);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        bytes[i] = (unsigned char)(i * 7 + (i >> 12));
    digester = digester_start((struct digester_hooks){hand_over, wake}, TENANTS);
    ck_assert_ptr_nonnull(digester);
}

static void teardown(void)
{
    digester_stop(digester);
    digester_destroy(digester);
    sem_destroy(&last);
    free(bytes);
}

static struct asked *push(uint32_t number, uint32_t tenant, size_t length)
{
    struct asked *asked = &all[number];
    asked->payload = (struct payload){.parts = {{bytes, length}}, .count = 1};
    asked->run.request = (struct request *)(void *)asked;
    asked->run.payload = &asked->payload;
    ck_assert(digest_hashes_begin(&asked->run.hashes, DIGEST_SHA256));
    digester_push(digester, &asked->run, tenant);
    return asked;
}

static void post_last(void)
{
    sem_post(&last);
}

/* Runs `then` on the digester's thread, which hashes nothing meanwhile. */
static void on_the_thread(void (*then)(void))
{
    all[0].ended = then;
    push(0, 0, 1);
    sem_wait(&last);
}

static void push_large_and_small(void)
{
    for (uint32_t i = 1; i < 9; i++)
        push(i, 1, LARGE_BYTES);
    push(9, 1, 100);
    push(10, 2, DIGESTER_PIECE_BYTES + 1);
    push(11, 3, LARGE_BYTES)->ended = post_last;
}

/* The small ones end before any large one, although they came last. The large one of a tenant that
 * has no other gets as much as eight large ones of another tenant together. */
START_TEST(tenants_share_fairly)
{
    on_the_thread(push_large_and_small);
    ck_assert_uint_eq(all[10].rank, 1);
    ck_assert_uint_eq(all[9].rank, 2);
    ck_assert_uint_eq(all[11].rank, 3);
    for (uint32_t i = 0; i < 12; i++)
        ck_assert_uint_eq(atomic_load(&all[i].handed_over), 1);
}
END_TEST

START_TEST(the_digests_are_right)
{
    static const size_t lengths[] = {0, 1, DIGESTER_PIECE_BYTES, DIGESTER_PIECE_BYTES + 1,
                                     3 * DIGESTER_PIECE_BYTES - 1};
    struct asked *asked = &all[0];
    unsigned char expected[DIGEST_BYTES_MAX];
    const size_t first = lengths[_i], second = 3 * DIGESTER_PIECE_BYTES - first;
    asked->payload =
        (struct payload){.parts = {{bytes, first}, {bytes + first, second}}, .count = 2};
    asked->run.request = (struct request *)(void *)asked;
    asked->run.payload = &asked->payload;
    asked->ended = post_last;
    ck_assert(digest_hashes_begin(&asked->run.hashes, DIGEST_SHA256));
    ck_assert(digest_hashes_begin(&asked->run.hashes, DIGEST_SHA512));
    digester_push(digester, &asked->run, 0);
    sem_wait(&last);
    ck_assert_int_eq(asked->run.status, GEMMD_OK);
    gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, first + second, expected);
    ck_assert_mem_eq(asked->run.values[DIGEST_SHA256], expected, 32);
    gnutls_hash_fast(GNUTLS_DIG_SHA512, bytes, first + second, expected);
    ck_assert_mem_eq(asked->run.values[DIGEST_SHA512], expected, 64);
}
END_TEST

static void push_and_withdraw(void)
{
    for (uint32_t i = 1; i < 9; i++)
        push(i, i % 2, LARGE_BYTES);
    for (uint32_t i = 1; i < 9; i++)
        if (i != 5)
            ck_assert(digester_withdraw(digester, &all[i].run));
    all[5].ended = post_last;
}

START_TEST(what_waits_can_be_withdrawn)
{
    on_the_thread(push_and_withdraw);
    for (uint32_t i = 1; i < 9; i++)
        ck_assert_uint_eq(atomic_load(&all[i].woken), i == 5);
    ck_assert(!digester_withdraw(digester, &all[5].run)); /* it has ended */
    ck_assert_uint_eq(atomic_load(&ends), 2);
}
END_TEST

static void push_one(void)
{
    push(1, 0, LARGE_BYTES)->ended = post_last;
}

/* A run is withdrawn at some time while it is hashed: it is woken exactly once, or not at all. */
START_TEST(what_is_hashed_ends_after_its_piece)
{
    all[0].ended = push_one;
    push(0, 0, 1);
    while (atomic_load(&all[1].handed_over) == 0)
        ;
    if (digester_withdraw(digester, &all[1].run)) {
        ck_assert_uint_eq(atomic_load(&all[1].woken), 0);
        return;
    }
    sem_wait(&last);
    ck_assert_uint_eq(atomic_load(&all[1].woken), 1);
}
END_TEST

/* Of a backlog that takes a second or more, nearly nothing is hashed after the stop. */
START_TEST(a_backlog_does_not_hold_up_the_end)
{
    uint32_t refused = 0;
    for (uint32_t i = 0; i < TASKS - 1; i++)
        push(i, i % TENANTS, LARGE_BYTES);
    digester_stop(digester);
    push(TASKS - 1, 0, 1); /* ends at once */
    for (uint32_t i = 0; i < TASKS; i++) {
        ck_assert_uint_eq(atomic_load(&all[i].woken), 1);
        refused += all[i].run.status == GEMMD_ERR_DRAINING;
    }
    ck_assert_int_eq(all[TASKS - 1].run.status, GEMMD_ERR_DRAINING);
    ck_assert_uint_ge(refused, TASKS / 2);
    digester_destroy(digester);
    digester = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digester");
    TCase *tests = tcase_create("digester");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, tenants_share_fairly);
    tcase_add_loop_test(tests, the_digests_are_right, 0, 5);
    tcase_add_test(tests, what_waits_can_be_withdrawn);
    tcase_add_loop_test(tests, what_is_hashed_ends_after_its_piece, 0, 10);
    tcase_add_test(tests, a_backlog_does_not_hold_up_the_end);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
