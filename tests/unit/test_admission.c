/* server/scheduler/admission.c: exact limits in total and for each tenant, the errors of refusals,
 * and many threads. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/scheduler/admission.h"
#include "tests/unit/reservations.h"

enum { THREADS = 4, EACH = 20000 };

static struct admission *create(uint32_t requests, uint64_t bytes, uint32_t tenants,
                                uint32_t tenant_requests, uint64_t tenant_bytes)
{
    const struct admission_limits limits = {.requests = requests,
                                            .bytes = bytes,
                                            .tenants = tenants,
                                            .tenant_requests = tenant_requests,
                                            .tenant_bytes = tenant_bytes};
    struct admission *admission = admission_create(&limits);
    ck_assert_ptr_nonnull(admission);
    return admission;
}

static void check_refused(struct admission *admission, uint32_t tenant, uint64_t bytes,
                          enum admission_limit limit, const char *says)
{
    struct fault fault;
    uint64_t before = admission_refused(admission, limit);
    ck_assert_int_eq(take_reservation(admission, tenant, bytes, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_msg(strstr(fault.detail, says) != NULL, "'%s' does not say '%s'", fault.detail, says);
    ck_assert_msg(strstr(fault.detail, admission_limit_name(limit)) != NULL,
                  "'%s' does not name the limit", fault.detail);
    ck_assert_uint_eq(admission_refused(admission, limit), before + 1);
}

static void check_held(const struct admission *admission, uint32_t tenant, uint64_t requests,
                       uint64_t bytes)
{
    struct admission_held held = admission_held_by(admission, tenant);
    ck_assert_uint_eq(held.requests, requests);
    ck_assert_uint_eq(held.bytes, bytes);
}

START_TEST(a_tenant_is_held_to_his_own_count)
{
    struct admission *admission = create(5, 1000, 3, 2, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(take_reservation(admission, 1, 10, NULL), GEMMD_OK);
    check_refused(admission, 1, 10, ADMISSION_LIMIT_TENANT_REQUESTS, "2 requests");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(take_reservation(admission, 0, 10, NULL), GEMMD_OK);
    ck_assert_int_eq(take_reservation(admission, 2, 10, NULL), GEMMD_OK);
    check_refused(admission, 2, 10, ADMISSION_LIMIT_REQUESTS, "5 requests");
    check_held(admission, 2, 1, 10);
    give_reservation(admission, 1, 10);
    ck_assert_int_eq(take_reservation(admission, 2, 10, NULL), GEMMD_OK);
    check_held(admission, 1, 1, 10);
    check_held(admission, 2, 2, 20);
    ck_assert_uint_eq(admission_held(admission).requests, 5);
    admission_destroy(admission);
}
END_TEST

START_TEST(a_tenant_is_held_to_his_own_bytes)
{
    struct admission *admission = create(100, 1000, 2, 0, 600);
    ck_assert_int_eq(take_reservation(admission, 0, 600, NULL), GEMMD_OK);
    check_refused(admission, 0, 1, ADMISSION_LIMIT_TENANT_BYTES, "600 bytes of 600 bytes");
    ck_assert_int_eq(take_reservation(admission, 0, 0, NULL), GEMMD_OK);
    ck_assert_int_eq(take_reservation(admission, 1, 400, NULL), GEMMD_OK);
    check_refused(admission, 1, 1, ADMISSION_LIMIT_BYTES, "1000 bytes of 1000 bytes");
    check_held(admission, 1, 1, 400);
    give_reservation(admission, 0, 600);
    ck_assert_int_eq(take_reservation(admission, 1, 200, NULL), GEMMD_OK);
    check_refused(admission, 1, 1, ADMISSION_LIMIT_TENANT_BYTES, "600 bytes of 600 bytes");
    admission_destroy(admission);
}
END_TEST

START_TEST(a_tenant_without_another_request_may_exceed_its_share)
{
    const struct admission_limits limits = {
        .requests = 10, .bytes = 1000, .tenants = 2, .tenant_share_bytes = 500};
    struct admission *admission = admission_create(&limits);
    ck_assert_ptr_nonnull(admission);
    ck_assert_int_eq(take_reservation(admission, 0, 900, NULL), GEMMD_OK);
    check_refused(admission, 0, 1, ADMISSION_LIMIT_TENANT_BYTES, "900 bytes of 500 bytes");
    ck_assert_int_eq(grow_reservation(admission, 0, 900, 50, NULL), GEMMD_OK);
    give_reservation(admission, 0, 950);
    ck_assert_int_eq(take_reservation(admission, 0, 400, NULL), GEMMD_OK);
    check_refused(admission, 0, 600, ADMISSION_LIMIT_TENANT_BYTES, "400 bytes of 600 bytes");
    check_refused(admission, 0, 101, ADMISSION_LIMIT_TENANT_BYTES, "400 bytes of 500 bytes");
    ck_assert_int_eq(take_reservation(admission, 1, 500, NULL), GEMMD_OK);
    admission_destroy(admission);
}
END_TEST

START_TEST(an_answer_that_is_sent_keeps_its_reservation)
{
    enum { SENT = ADMISSION_SENT_AT_ONCE_BYTES + 1 };
    struct admission *admission = create(10, 1000000, 2, 0, 0);
    struct reservation reservation;
    ck_assert_int_eq(admission_take(admission, 1, 2 * SENT, &reservation, NULL), GEMMD_OK);
    admission_keep(&reservation, SENT);
    check_held(admission, 1, 1, SENT);
    ck_assert_uint_eq(admission_held(admission).bytes, SENT);
    admission_give(&reservation);
    admission_give(&reservation);
    check_held(admission, 1, 0, 0);
    ck_assert_int_eq(admission_take(admission, 1, 2 * SENT, &reservation, NULL), GEMMD_OK);
    admission_keep(&reservation, ADMISSION_SENT_AT_ONCE_BYTES);
    check_held(admission, 1, 0, 0);
    admission_give(&reservation);
    admission_destroy(admission);
}
END_TEST

START_TEST(what_never_fits_a_tenant_is_too_large)
{
    struct fault fault;
    struct admission *admission = create(10, 1000, 2, 0, 600);
    ck_assert_int_eq(take_reservation(admission, 0, 601, &fault), GEMMD_ERR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "tenant-bytes"));
    ck_assert_int_eq(take_reservation(admission, 0, 1001, &fault), GEMMD_ERR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "queue-bytes"));
    ck_assert_uint_eq(admission_held(admission).requests, 0);
    admission_destroy(admission);
}
END_TEST

START_TEST(a_reservation_grows_within_all_limits)
{
    struct fault fault;
    struct admission *admission = create(10, 1000, 2, 0, 600);
    ck_assert_int_eq(take_reservation(admission, 0, 100, NULL), GEMMD_OK);
    ck_assert_int_eq(take_reservation(admission, 1, 500, NULL), GEMMD_OK);
    ck_assert_int_eq(grow_reservation(admission, 0, 100, 501, &fault), GEMMD_ERR_TOO_LARGE);
    ck_assert_int_eq(grow_reservation(admission, 0, 100, 401, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "500 bytes of 1000 bytes"));
    check_held(admission, 0, 1, 100);
    ck_assert_int_eq(grow_reservation(admission, 0, 100, 400, &fault), GEMMD_OK);
    check_held(admission, 0, 1, 500);
    ck_assert_uint_eq(admission_held(admission).bytes, 1000);
    give_reservation(admission, 0, 500);
    ck_assert_int_eq(take_reservation(admission, 1, 60, NULL), GEMMD_OK);
    ck_assert_int_eq(grow_reservation(admission, 1, 60, 41, &fault), GEMMD_ERR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(fault.detail, "500 bytes of 600 bytes"));
    check_held(admission, 1, 2, 560);
    admission_destroy(admission);
}
END_TEST

START_TEST(one_tenant_without_limits_is_the_whole)
{
    struct admission *admission = create(2, 100, 1, 0, 0);
    ck_assert_int_eq(take_reservation(admission, 0, 60, NULL), GEMMD_OK);
    check_held(admission, 0, 1, 60);
    check_refused(admission, 0, 41, ADMISSION_LIMIT_BYTES, "60 bytes of 100 bytes");
    check_held(admission, 0, 1, 60);
    admission_destroy(admission);
}
END_TEST

/* Each fifth of a second, `count` reservations of `bytes` are given back and made again, so that
 * admission stays full. */
static void churn(struct admission *admission, uint32_t tenant, uint32_t fifths, uint32_t count,
                  uint64_t bytes, uint64_t *now_ns)
{
    for (uint32_t i = 0; i < fifths; i++) {
        for (uint32_t j = 0; j < count; j++) {
            give_reservation(admission, tenant, bytes);
            ck_assert_int_eq(take_reservation(admission, tenant, bytes, NULL), GEMMD_OK);
        }
        *now_ns += 200000000;
        admission_sample(admission, *now_ns);
    }
}

START_TEST(the_wait_is_for_what_is_missing)
{
    uint64_t now_ns = 1;
    struct admission *admission = create(100, 1000, 1, 0, 0);
    ck_assert_uint_eq(admission_wait_s(admission, 0, 1000), 1);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(take_reservation(admission, 0, 100, NULL), GEMMD_OK);
    admission_sample(admission, now_ns);
    churn(admission, 0, 20, 1, 100, &now_ns); /* 5 requests, 500 bytes a second */
    ck_assert_uint_eq(admission_wait_s(admission, 0, 0), 1);
    ck_assert_uint_eq(admission_wait_s(admission, 0, 100), 1);
    ck_assert_uint_eq(admission_wait_s(admission, 0, 950), 2);
    ck_assert_uint_eq(admission_drain_s(admission, 2750), 6);
    give_reservation(admission, 0, 100);
    ck_assert_uint_eq(admission_wait_s(admission, 0, 590), 1);   /* 490 too many */
    ck_assert_uint_eq(admission_wait_s(admission, 0, 1001), 60); /* never */
    admission_destroy(admission);
}
END_TEST

START_TEST(a_tenant_s_wait_is_at_his_own_rate)
{
    uint64_t now_ns = 1;
    struct admission *admission = create(100, 100000, 2, 10, 0);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(take_reservation(admission, 0, 10, NULL), GEMMD_OK);
        ck_assert_int_eq(take_reservation(admission, 1, 10, NULL), GEMMD_OK);
    }
    admission_sample(admission, now_ns);
    for (int i = 0; i < 60; i++) { /* 0 ends one in 2 seconds, 1 a hundred a second */
        churn(admission, 1, 1, 20, 10, &now_ns);
        if (i % 10 == 5) {
            give_reservation(admission, 0, 10);
            ck_assert_int_eq(take_reservation(admission, 0, 10, NULL), GEMMD_OK);
        }
    }
    ck_assert_uint_eq(admission_wait_s(admission, 1, 10), 1);
    uint32_t slow = admission_wait_s(admission, 0, 10);
    ck_assert_uint_ge(slow, 2);
    ck_assert_uint_le(slow, 4);
    admission_destroy(admission);
}
END_TEST

/* More threads than reservations: by the count of the threads themselves, the reservations never
 * exceed the limits, and all are given back at the end. */
struct crowd {
    struct admission *admission;
    uint32_t tenant;
    atomic_int *inside, *inside_of_tenant;
};

static void *come_and_go(void *argument)
{
    struct crowd *crowd = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        uint64_t bytes = 1 + i % 7;
        while (take_reservation(crowd->admission, crowd->tenant, bytes, NULL) != GEMMD_OK)
            sched_yield();
        ck_assert_int_le(atomic_fetch_add(crowd->inside, 1) + 1, 3);
        ck_assert_int_le(atomic_fetch_add(crowd->inside_of_tenant, 1) + 1, 1 + (THREADS > 2));
        atomic_fetch_sub(crowd->inside_of_tenant, 1);
        atomic_fetch_sub(crowd->inside, 1);
        give_reservation(crowd->admission, crowd->tenant, bytes);
    }
    return NULL;
}

START_TEST(threads_never_hold_too_much)
{
    struct admission *admission = create(3, 20, 2, 2, 14);
    pthread_t threads[THREADS];
    struct crowd crowds[THREADS];
    atomic_int inside = 0, of_tenant[2] = {0, 0};
    for (uint32_t i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){admission, i % 2, &inside, &of_tenant[i % 2]};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, &crowds[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_held(admission, 0, 0, 0);
    check_held(admission, 1, 0, 0);
    ck_assert_uint_eq(admission_held(admission).requests, 0);
    ck_assert_uint_eq(admission_held(admission).bytes, 0);
    admission_destroy(admission);
}
END_TEST

START_TEST(limits_change_while_reservations_are_held)
{
    struct admission *admission = create(2, 100, 2, 2, 0);
    struct admission_limits limits = {
        .requests = 1, .bytes = 50, .tenants = 2, .tenant_requests = 1};
    struct fault fault;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(take_reservation(admission, 0, 40, NULL), GEMMD_OK);
    admission_set_limits(admission, &limits);
    check_held(admission, 0, 2, 80); /* what is held stays */
    check_refused(admission, 0, 5, ADMISSION_LIMIT_TENANT_REQUESTS, "2 requests");
    check_refused(admission, 1, 5, ADMISSION_LIMIT_REQUESTS, "2 requests");
    ck_assert_int_eq(take_reservation(admission, 1, 60, &fault), GEMMD_ERR_TOO_LARGE);
    limits =
        (struct admission_limits){.requests = 3, .bytes = 200, .tenants = 2, .tenant_requests = 3};
    admission_set_limits(admission, &limits);
    ck_assert_int_eq(take_reservation(admission, 1, 60, &fault), GEMMD_OK);
    give_reservation(admission, 1, 60);
    for (int i = 0; i < 2; i++)
        give_reservation(admission, 0, 40);
    ck_assert_uint_eq(admission_held(admission).requests, 0);
    admission_destroy(admission);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admission");
    TCase *tests = tcase_create("admission");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_tenant_is_held_to_his_own_count);
    tcase_add_test(tests, a_tenant_is_held_to_his_own_bytes);
    tcase_add_test(tests, a_tenant_without_another_request_may_exceed_its_share);
    tcase_add_test(tests, an_answer_that_is_sent_keeps_its_reservation);
    tcase_add_test(tests, what_never_fits_a_tenant_is_too_large);
    tcase_add_test(tests, a_reservation_grows_within_all_limits);
    tcase_add_test(tests, one_tenant_without_limits_is_the_whole);
    tcase_add_test(tests, the_wait_is_for_what_is_missing);
    tcase_add_test(tests, a_tenant_s_wait_is_at_his_own_rate);
    tcase_add_test(tests, limits_change_while_reservations_are_held);
    tcase_add_test(tests, threads_never_hold_too_much);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
