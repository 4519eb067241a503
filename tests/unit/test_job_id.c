/* server/jobs/job_id.c: ids are random, and their text is theirs alone. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/job_id.h"

enum { MANY = 4096 };

static int compare(const void *one, const void *other)
{
    return memcmp(one, other, sizeof(struct job_id));
}

START_TEST(ids_differ_in_every_bit)
{
    static struct job_id ids[MANY];
    int ones[8 * JOB_ID_BYTES] = {0};
    for (int i = 0; i < MANY; i++) {
        ck_assert(job_id_random(&ids[i]));
        for (int bit = 0; bit < 8 * JOB_ID_BYTES; bit++)
            ones[bit] += ids[i].bytes[bit / 8] >> bit % 8 & 1;
    }
    /* 4096 flips have a standard deviation of 32; ten of them never happen. */
    for (int bit = 0; bit < 8 * JOB_ID_BYTES; bit++)
        ck_assert_msg(abs(ones[bit] - MANY / 2) < 320, "bit %d is 1 in %d of %d", bit, ones[bit],
                      MANY);
    qsort(ids, MANY, sizeof ids[0], compare);
    for (int i = 1; i < MANY; i++)
        ck_assert(!job_id_equal(&ids[i - 1], &ids[i]));
}
END_TEST

START_TEST(text_leads_back)
{
    struct job_id id, back;
    char text[JOB_ID_TEXT + 1];
    ck_assert(job_id_random(&id));
    job_id_write(&id, text);
    ck_assert_uint_eq(strlen(text), JOB_ID_TEXT);
    ck_assert(job_id_read(text, &back));
    ck_assert(job_id_equal(&id, &back));
    ck_assert_uint_eq(job_id_hash(&id), job_id_hash(&back));
}
END_TEST

static const char *const wrong[] = {
    "",
    "0123456789abcdef0123456789abcde",
    "0123456789abcdef0123456789abcdef0",
    "0123456789ABCDEF0123456789ABCDEF",
    "0123456789abcdef0123456789abcdeg",
    " 123456789abcdef0123456789abcdef",
    "0123456789abcdef0123456789abcde\n",
};

START_TEST(other_text_is_no_id)
{
    struct job_id id;
    ck_assert_msg(!job_id_read(wrong[_i], &id), "'%s' is taken", wrong[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("job_id");
    TCase *tcase = tcase_create("job_id");
    tcase_add_test(tcase, ids_differ_in_every_bit);
    tcase_add_test(tcase, text_leads_back);
    tcase_add_loop_test(tcase, other_text_is_no_id, 0, sizeof wrong / sizeof *wrong);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
