/* server/net/handover.c: what the old process makes of the news of the new one. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failing_calls.h"
#include "server/net/handover.h"

static struct fault fault;

/* The new process, which has written nothing yet. The test writes its news to the descriptor. */
static struct handover start(int *news)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pause();
        _exit(EXIT_FAILURE);
    }
    *news = ends[1];
    return (struct handover){
        .state = HANDOVER_STARTING, .pid = pid, .news_fd = ends[0], .deadline_ns = 1000};
}

static void tell(int news, const char *text)
{
    ck_assert_int_eq(write(news, text, strlen(text)), (ssize_t)strlen(text));
}

/* Ends the new process, and looks at the time `now_ns` until the old process has noticed. */
static void look_until_ended(struct handover *handover, uint64_t now_ns)
{
    siginfo_t ended;
    ck_assert_int_eq(kill(handover->pid, SIGKILL), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)handover->pid, &ended, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(handover_look(handover, now_ns, &fault), GEMMD_ERR_INTERNAL);
    ck_assert_int_eq(handover->state, HANDOVER_NONE);
}

/* A reason may arrive in pieces. A longer reason than there is room for is cut. */
START_TEST(a_reason_is_kept_to_its_last_character)
{
    enum { LONGEST = sizeof((struct handover *)0)->reason - 1 };
    char reason[LONGEST];
    int news;
    struct handover handover = start(&news);
    memset(reason, 'r', LONGEST - 1);
    reason[LONGEST - 1] = '\0';
    tell(news, reason);
    ck_assert_int_eq(handover_look(&handover, 0, &fault), GEMMD_OK);
    ck_assert_str_eq(handover.reason, reason);
    tell(news, "!");
    ck_assert_int_eq(handover_look(&handover, 0, &fault), GEMMD_OK);
    ck_assert_uint_eq(strlen(handover.reason), LONGEST);
    ck_assert_int_eq(handover.reason[LONGEST - 1], '!');
    tell(news, "more");
    ck_assert_int_eq(handover_look(&handover, 0, &fault), GEMMD_OK);
    ck_assert_int_eq(handover.state, HANDOVER_STARTING);
    close(news);
    look_until_ended(&handover, 0);
    ck_assert_ptr_nonnull(strstr(fault.detail, "was ended by signal 9: rrr"));
}
END_TEST

/* Another part of the program may have waited for the process, whose status then is not known. */
START_TEST(a_process_that_is_gone_has_ended)
{
    int news;
    struct handover handover = start(&news);
    tell(news, "no port");
    ck_assert_int_eq(handover_look(&handover, 0, &fault), GEMMD_OK);
    close(news);
    ck_assert_int_eq(kill(handover.pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(handover.pid, NULL, 0), handover.pid);
    ck_assert_int_eq(handover_look(&handover, 0, &fault), GEMMD_ERR_INTERNAL);
    ck_assert_int_eq(handover.state, HANDOVER_NONE);
    ck_assert_msg(strstr(fault.detail, ", ended: no port") != NULL, "%s", fault.detail);
}
END_TEST

START_TEST(a_newline_says_that_the_new_process_is_ready)
{
    int news;
    struct handover handover = start(&news);
    tell(news, "\n");
    ck_assert_int_eq(handover_look(&handover, 2000, &fault), GEMMD_OK);
    ck_assert_int_eq(handover.state, HANDOVER_READY);
    ck_assert_int_eq(kill(handover.pid, SIGKILL), 0); /* alive in spite of the deadline */
    ck_assert_int_eq(waitpid(handover.pid, NULL, 0), handover.pid);
    close(news);
}
END_TEST

START_TEST(a_new_process_without_news_has_a_deadline)
{
    int news;
    struct handover handover = start(&news);
    tell(news, "reading");
    ck_assert_int_eq(handover_look(&handover, 1000, &fault), GEMMD_OK);
    ck_assert_int_eq(handover.state, HANDOVER_STARTING);
    tell(news, " the model");
    (void)handover_look(&handover, 1001, &fault); /* the process may have ended already */
    if (handover.state == HANDOVER_ENDING)
        look_until_ended(&handover, 1001);
    ck_assert_ptr_nonnull(strstr(fault.detail, "not ready within --takeover-timeout"));
    close(news);
}
END_TEST

/* The linker sends the calls of fclose here (-Wl,--wrap). */
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
static bool closing_fails;

int __wrap_fclose(FILE *file)
{
    const int result = __real_fclose(file);
    return closing_fails ? EOF : result;
}

START_TEST(without_memory_for_its_environment_no_process_starts)
{
    struct handover handover = {.state = HANDOVER_NONE};
    char name[] = "/bin/true";
    char *const argv[] = {name, NULL};
    const long live = calls_live_blocks();
    closing_fails = true;
    ck_assert_int_ne(handover_begin(&handover, argv, NULL, 0, 1000, &fault), GEMMD_OK);
    closing_fails = false;
    ck_assert_int_eq(handover.state, HANDOVER_NONE);
    /* The C library allocates the text, where nothing is counted, and handover.c frees it. */
    ck_assert_int_eq(calls_live_blocks(), live - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handover");
    TCase *tests = tcase_create("handover");
    tcase_add_test(tests, a_reason_is_kept_to_its_last_character);
    tcase_add_test(tests, a_process_that_is_gone_has_ended);
    tcase_add_test(tests, a_newline_says_that_the_new_process_is_ready);
    tcase_add_test(tests, a_new_process_without_news_has_a_deadline);
    tcase_add_test(tests, without_memory_for_its_environment_no_process_starts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
