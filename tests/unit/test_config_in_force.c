/* server/config/config.c: copies of the options in force are whole, and a request keeps the options
 * that it began with. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "server/config/config.h"

static struct config_in_force in_force;
static struct thread_options options;

static void open_copies(void)
{
    const struct config config = {.queue_requests = 1};
    config_in_force_init(&in_force, &config);
    ck_assert(thread_options_open(&options, &in_force));
}

static void replace(uint32_t queue_requests)
{
    const struct config next = {.queue_requests = queue_requests};
    config_in_force_replace(&in_force, &next);
    thread_options_refresh(&options);
}

START_TEST(a_held_copy_stays_as_it_is)
{
    open_copies();
    struct options_copy *first = thread_options_hold(&options);
    replace(2);
    struct options_copy *second = thread_options_hold(&options);
    replace(3);
    ck_assert_uint_eq(first->config.queue_requests, 1);
    ck_assert_uint_eq(second->config.queue_requests, 2);
    ck_assert_uint_eq(options.newest->config.queue_requests, 3);
    ck_assert_uint_eq(first->users, 1);
    ck_assert_uint_eq(second->users, 1);
    options_copy_release(first);
    options_copy_release(second);
    thread_options_close(&options);
}
END_TEST

START_TEST(a_copy_is_shared_until_the_options_change)
{
    open_copies();
    struct options_copy *copies[3];
    for (int i = 0; i < 3; i++) {
        copies[i] = thread_options_hold(&options);
        ck_assert_ptr_eq(copies[i], options.newest);
    }
    ck_assert_uint_eq(options.newest->users, 4);
    for (int i = 0; i < 3; i++)
        options_copy_release(copies[i]);
    ck_assert_uint_eq(options.newest->users, 1);
    thread_options_close(&options);
}
END_TEST

/* Replaces the options by options whose two fields are equal, and ends with 0 in both. */
static void *replace_all_the_time(void *argument)
{
    enum { REPLACEMENTS = 20000 };
    struct config next = {.queue_requests = 0};
    (void)argument;
    for (uint32_t i = REPLACEMENTS; i-- > 0;) {
        next.queue_requests = i;
        next.queue_bytes = i;
        config_in_force_replace(&in_force, &next);
    }
    return NULL;
}

START_TEST(copies_of_the_options_in_force_are_whole)
{
    const struct config first = {.queue_requests = 1, .queue_bytes = 1};
    struct config copy;
    pthread_t writer;
    config_in_force_init(&in_force, &first);
    const unsigned version = config_in_force_copy(&in_force, &copy);
    ck_assert_uint_eq(version, atomic_load(&in_force.version));
    ck_assert_int_eq(pthread_create(&writer, NULL, replace_all_the_time, NULL), 0);
    do {
        (void)config_in_force_copy(&in_force, &copy);
        ck_assert_uint_eq(copy.queue_requests, copy.queue_bytes);
    } while (copy.queue_requests != 0);
    pthread_join(writer, NULL);
    ck_assert_uint_ne(config_in_force_copy(&in_force, &copy), version);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_in_force");
    TCase *tests = tcase_create("config_in_force");
    tcase_add_test(tests, copies_of_the_options_in_force_are_whole);
    tcase_add_test(tests, a_held_copy_stays_as_it_is);
    tcase_add_test(tests, a_copy_is_shared_until_the_options_change);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
