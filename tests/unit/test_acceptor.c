/* server/http/acceptor.c: the listening sockets of the main loop. */
#include <check.h>
#include <stdlib.h>
#include <uv.h>

#include "server/http/acceptor.h"

static void start_again(uv_timer_t *timer)
{
    uint32_t *runs = ((void **)timer->data)[1];
    ++*runs;
    acceptor_start(((void **)timer->data)[0]);
}

/* acceptor_close runs the loop, whose timers may want the listening sockets to be watched again. */
START_TEST(a_timer_starts_the_acceptor_while_it_is_closed)
{
    char address[] = "127.0.0.1:0";
    struct config config = {.listen = {address}, .listen_count = 1};
    struct log *log = log_create(CONFIG_LOG_ERROR, CONFIG_LOG_TEXT);
    struct acceptor *acceptor = NULL;
    struct fault fault;
    uv_loop_t loop;
    uv_timer_t timer;
    uint32_t runs = 0;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(acceptor_create(&loop, &config, log, NULL, &acceptor, &fault), GEMMD_OK);
    acceptor_start(acceptor);
    void *context[] = {acceptor, &runs};
    ck_assert_int_eq(uv_timer_init(&loop, &timer), 0);
    timer.data = context;
    ck_assert_int_eq(uv_timer_start(&timer, start_again, 0, 0), 0);
    acceptor_close(acceptor);
    ck_assert_uint_eq(runs, 1);
    acceptor_start(acceptor);
    uv_close((uv_handle_t *)&timer, NULL);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    acceptor_destroy(acceptor);
    log_destroy(log);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("acceptor");
    TCase *tests = tcase_create("acceptor");
    tcase_add_test(tests, a_timer_starts_the_acceptor_while_it_is_closed);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
