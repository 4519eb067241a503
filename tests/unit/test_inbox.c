/* server/base/inbox.c: every message is handled once, in the order of its sender, and a thread that
 * waits is woken. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/base/inbox.h"

enum { SENDERS = 3, MESSAGES = 20000 };

struct numbered {
    struct inbox_message message;
    struct sender *sender;
    int number;
};

struct sender {
    struct inbox *inbox;
    struct numbered *messages;
    int acted; /* by the inbox's thread */
    bool in_order;
};

static void act(struct inbox_message *message)
{
    struct numbered *numbered = OWNER_OF(message, struct numbered, message);
    struct sender *sender = numbered->sender;
    sender->in_order &= numbered->number == sender->acted;
    sender->acted++;
}

static void *send_all(void *argument)
{
    struct sender *sender = argument;
    for (int i = 0; i < MESSAGES; i++) {
        sender->messages[i] = (struct numbered){.message.act = act, .sender = sender, .number = i};
        inbox_post(sender->inbox, &sender->messages[i].message);
    }
    return NULL;
}

/* The receiver waits whenever it has nothing: a wake that is lost ends the test by its timeout. */
START_TEST(all_arrive_in_order)
{
    struct inbox inbox;
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    int silence[2];
    ck_assert_int_eq(pipe(silence), 0);
    ck_assert(inbox_open(&inbox));
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.inbox = &inbox, .in_order = true};
        senders[i].messages = calloc(MESSAGES, sizeof *senders[i].messages);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    int total = 0;
    while (total < SENDERS * MESSAGES) {
        inbox_wait(&inbox, silence, 1, -1);
        inbox_act(&inbox);
        total = 0;
        for (int i = 0; i < SENDERS; i++)
            total += senders[i].acted;
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(senders[i].acted, MESSAGES);
        ck_assert_msg(senders[i].in_order, "sender %d's messages were not in order", i);
        free(senders[i].messages);
    }
    inbox_close(&inbox);
    close(silence[0]);
    close(silence[1]);
}
END_TEST

START_TEST(another_descriptor_ends_the_wait)
{
    struct inbox inbox;
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert(inbox_open(&inbox));
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    inbox_wait(&inbox, (int[]){-1, fds[0]}, 2, -1);
    inbox_close(&inbox);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

struct chain {
    struct inbox_message message;
    struct inbox *inbox;
    int left;
};

static void post_again(struct inbox_message *message)
{
    struct chain *chain = OWNER_OF(message, struct chain, message);
    if (--chain->left > 0)
        inbox_post(chain->inbox, message);
}

START_TEST(a_message_may_post_itself_again)
{
    struct inbox inbox;
    int silence[2];
    ck_assert_int_eq(pipe(silence), 0);
    ck_assert(inbox_open(&inbox));
    struct chain chain = {.message.act = post_again, .inbox = &inbox, .left = 3};
    inbox_post(&inbox, &chain.message);
    for (int i = 3; i > 0; i--) {
        ck_assert_int_eq(chain.left, i);
        inbox_wait(&inbox, silence, 1, -1);
        inbox_act(&inbox);
    }
    ck_assert_int_eq(chain.left, 0);
    inbox_close(&inbox);
    close(silence[0]);
    close(silence[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inbox");
    TCase *tests = tcase_create("inbox");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, all_arrive_in_order);
    tcase_add_test(tests, another_descriptor_ends_the_wait);
    tcase_add_test(tests, a_message_may_post_itself_again);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
