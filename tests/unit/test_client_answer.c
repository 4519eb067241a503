/* client/answer.c: header lines, right, strange and hostile. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "client/answer.h"

static void read_lines(struct answer *answer, const char *const *lines)
{
    answer_init(answer);
    for (; *lines != NULL; lines++)
        answer_line(answer, *lines, strlen(*lines));
}

static const char timing[] = "Server-Timing: recv;dur=1, queue ; dur=2,h2d;desc=x;dur=3,"
                             "other;dur=9, kernel;dur=4.5,d2h,total;dur=8\r\n";

START_TEST(reads_a_whole_head)
{
    static const char *const lines[] = {"HTTP/1.1 200 OK\r\n",
                                        "content-length: 24\r\n",
                                        "GEMMD-SHAPE:\t7,2,3 \r\n",
                                        "Gemmd-Dtype: bf16\r\n",
                                        "Gemmd-Kernel: tiled\r\n",
                                        "Gemmd-Batch: 17\r\n",
                                        "Gemmd-Verify: pass; residual=2.5e-1\r\n",
                                        "X-Request-Id: r-1\r\n",
                                        timing,
                                        "\r\n",
                                        NULL};
    struct answer answer;
    read_lines(&answer, lines);
    ck_assert_int_eq(answer.status, 200);
    ck_assert(answer.complete);
    ck_assert(answer.has_length);
    ck_assert_uint_eq(answer.length, 24);
    ck_assert_uint_eq(answer.rank, 3);
    ck_assert_uint_eq(answer.dims[0], 7);
    ck_assert_uint_eq(answer.dims[2], 3);
    ck_assert(answer.has_dtype);
    ck_assert_int_eq(answer.dtype, GEMMD_BF16);
    ck_assert_str_eq(answer.kernel, "tiled");
    ck_assert_uint_eq(answer.batch, 17);
    ck_assert(answer.verify_pass);
    ck_assert(!answer.verify_fail);
    ck_assert_double_eq(answer.residual, 0.25);
    ck_assert_str_eq(answer.request_id, "r-1");
    ck_assert_double_eq(answer.timing.recv, 1);
    ck_assert_double_eq(answer.timing.queue, 2);
    ck_assert_double_eq(answer.timing.h2d, 3);
    ck_assert_double_eq(answer.timing.kernel, 4.5);
    ck_assert_double_lt(answer.timing.d2h, 0);
    ck_assert_double_eq(answer.timing.total, 8);
}
END_TEST

START_TEST(forgets_an_answer_that_was_not_the_last)
{
    static const char *const lines[] = {"HTTP/1.1 100 Continue\r\n", "Content-Length: 9\r\n",
                                        "\r\n", "HTTP/1.1 429 Too Many Requests\r\n", NULL};
    struct answer answer;
    read_lines(&answer, lines);
    ck_assert_int_eq(answer.status, 429);
    ck_assert(!answer.has_length);
    ck_assert(!answer.complete);
}
END_TEST

START_TEST(is_not_complete_after_an_interim_answer)
{
    static const char *const lines[] = {"HTTP/1.1 100 Continue\r\n", "\r\n", NULL};
    struct answer answer;
    read_lines(&answer, lines);
    ck_assert(!answer.complete);
}
END_TEST

static const char *const odd_shapes[] = {"Gemmd-Shape:",
                                         "Gemmd-Shape: ,",
                                         "Gemmd-Shape: 2,",
                                         "Gemmd-Shape: 2,x",
                                         "Gemmd-Shape: -2,3",
                                         "Gemmd-Shape: 2 3",
                                         "Gemmd-Shape: 1,2,3,4,5,6,7,8,9",
                                         "Gemmd-Shape: 99999999999999999999999,1",
                                         "Gemmd-Shape: 18446744073709551616,1"};

START_TEST(takes_no_odd_shape)
{
    struct answer answer;
    answer_init(&answer);
    answer_line(&answer, odd_shapes[_i], strlen(odd_shapes[_i]));
    ck_assert_uint_eq(answer.rank, 0);
}
END_TEST

START_TEST(leaves_out_what_is_too_long)
{
    char line[4096] = "X-Request-Id: ";
    struct answer answer;
    answer_init(&answer);
    memset(line + strlen(line), 'x', 100);
    answer_line(&answer, line, strlen(line));
    ck_assert_str_eq(answer.request_id, "");
    memset(line, 'y', sizeof line);
    answer_line(&answer, line, sizeof line);
    ck_assert_int_eq(answer.status, 0);
}
END_TEST

static const char *const odd_lines[] = {"HTTP/1.1",
                                        "HTTP/1.1 ",
                                        "HTTP/1.1 abc",
                                        "HTTP/1.1 2",
                                        ":",
                                        "no colon",
                                        "Server-Timing:",
                                        "Server-Timing: ,,;;=,",
                                        "Gemmd-Verify:",
                                        "Gemmd-Verify: passed",
                                        "Content-Length: -1",
                                        "Gemmd-Batch: 99999999999"};

START_TEST(makes_nothing_of_nonsense)
{
    struct answer answer;
    answer_init(&answer);
    answer_line(&answer, odd_lines[_i], strlen(odd_lines[_i]));
    ck_assert_int_lt(answer.status, 100);
    ck_assert(!answer.verify_pass);
    ck_assert(!answer.has_length);
    ck_assert_uint_eq(answer.batch, 0);
    ck_assert_double_lt(answer.timing.total, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_answer");
    TCase *tcase = tcase_create("client_answer");
    tcase_add_test(tcase, reads_a_whole_head);
    tcase_add_test(tcase, forgets_an_answer_that_was_not_the_last);
    tcase_add_test(tcase, is_not_complete_after_an_interim_answer);
    tcase_add_loop_test(tcase, takes_no_odd_shape, 0, sizeof odd_shapes / sizeof odd_shapes[0]);
    tcase_add_test(tcase, leaves_out_what_is_too_long);
    tcase_add_loop_test(tcase, makes_nothing_of_nonsense, 0,
                        sizeof odd_lines / sizeof odd_lines[0]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
