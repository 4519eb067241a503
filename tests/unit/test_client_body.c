/* client/body.c: pieces read in order, with any buffer, from any position. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "client/body.h"

static const char text[] = "one two three";

/* "one", "", " two", " three" */
static struct body pieces(void)
{
    struct body body;
    body_init(&body);
    ck_assert(body_append(&body, text, 3));
    ck_assert(body_append(&body, NULL, 0));
    ck_assert(body_append(&body, text + 3, 4));
    ck_assert(body_append(&body, text + 7, 6));
    ck_assert_uint_eq(body.bytes, 13);
    return body;
}

/* `_i` is the reader's room, and then the position it starts from. */
START_TEST(reads_what_is_there)
{
    for (uint64_t position = 0; position <= 13; position++) {
        struct body body = pieces();
        char out[32];
        size_t length = 0, got;
        ck_assert(body_seek(&body, position));
        while ((got = body_read(&body, out + length, (size_t)_i)) > 0) {
            ck_assert_uint_le(got, (size_t)_i);
            length += got;
            ck_assert_uint_eq(body.position, position + length);
        }
        ck_assert_uint_eq(length, 13 - position);
        ck_assert_mem_eq(out, text + position, length);
    }
}
END_TEST

START_TEST(does_not_seek_past_the_end)
{
    struct body body = pieces();
    ck_assert(!body_seek(&body, 14));
}
END_TEST

START_TEST(refuses_what_it_cannot_hold)
{
    struct body body;
    body_init(&body);
    ck_assert(body_append(&body, text, UINT64_MAX));
    ck_assert(!body_append(&body, text, 1));
    body_init(&body);
    for (int i = 0; i < BODY_PIECES_MAX; i++)
        ck_assert(body_append(&body, text, 1));
    ck_assert(!body_append(&body, text, 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_body");
    TCase *tcase = tcase_create("client_body");
    tcase_add_loop_test(tcase, reads_what_is_there, 1, 15);
    tcase_add_test(tcase, does_not_seek_past_the_end);
    tcase_add_test(tcase, refuses_what_it_cannot_hold);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
