/* What Content-Encoding and Accept-Encoding say. */
#include <check.h>
#include <stddef.h>
#include <stdlib.h>

#include "server/http/coding.h"

static const struct {
    const char *value;
    enum coding coding;
    uint32_t count;
    bool unknown;
} encodings[] = {
    {"gzip", CODING_GZIP, 1, false},
    {"GZip", CODING_GZIP, 1, false},
    {"x-gzip", CODING_GZIP, 1, false},
    {" deflate\t", CODING_DEFLATE, 1, false},
    {"identity", CODING_IDENTITY, 0, false},
    {"", CODING_IDENTITY, 0, false},
    {" , ,identity,", CODING_IDENTITY, 0, false},
    {"identity, gzip", CODING_GZIP, 1, false},
    {"gzip, deflate", CODING_DEFLATE, 2, false},
    {"gzip,gzip", CODING_GZIP, 2, false},
    {"br", CODING_IDENTITY, 1, true},
    {"gzi", CODING_IDENTITY, 1, true},
    {"gzipp", CODING_IDENTITY, 1, true},
    {"gzip deflate", CODING_IDENTITY, 1, true},
    {"gzip;q=1", CODING_IDENTITY, 1, true},
    {"zstd, gzip", CODING_GZIP, 2, true},
};

START_TEST(content_encodings_are_counted)
{
    struct coding_list list = {.count = 0};
    coding_read(&list, encodings[_i].value);
    ck_assert_int_eq(list.coding, encodings[_i].coding);
    ck_assert_uint_eq(list.count, encodings[_i].count);
    ck_assert_int_eq(list.unknown, encodings[_i].unknown);
}
END_TEST

START_TEST(headers_add_up)
{
    struct coding_list list = {.count = 0};
    coding_read(&list, "identity");
    coding_read(&list, "gzip");
    ck_assert_uint_eq(list.count, 1);
    coding_read(&list, "deflate");
    ck_assert_uint_eq(list.count, 2);
}
END_TEST

static const struct {
    const char *accept;
    enum coding coding;
} accepts[] = {
    {NULL, CODING_IDENTITY},
    {"", CODING_IDENTITY},
    {"gzip", CODING_GZIP},
    {"deflate", CODING_DEFLATE},
    {"gzip, deflate", CODING_GZIP},
    {"deflate, gzip", CODING_GZIP},
    {"gzip;q=0.5, deflate", CODING_DEFLATE},
    {"gzip; q=0.5, deflate;q=0.4", CODING_GZIP},
    {"gzip;q=0", CODING_IDENTITY},
    {"gzip;q=0, deflate;q=0", CODING_IDENTITY},
    {"gzip;q=0, *", CODING_DEFLATE},
    {"*", CODING_GZIP},
    {"*;q=0", CODING_IDENTITY},
    {"identity, gzip;q=0.5", CODING_IDENTITY},
    {"identity;q=0.5, gzip;q=0.5", CODING_GZIP},
    {"identity;q=0.5, gzip", CODING_GZIP},
    {"br, zstd", CODING_IDENTITY},
    {"br;q=1, gzip;q=0.1", CODING_GZIP},
    {"X-GZIP", CODING_GZIP},
    {",,;q=1,", CODING_IDENTITY},
};

START_TEST(the_best_that_is_accepted)
{
    ck_assert_int_eq(coding_accepted(accepts[_i].accept), accepts[_i].coding);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coding");
    TCase *tcase = tcase_create("coding");
    tcase_add_loop_test(tcase, content_encodings_are_counted, 0,
                        (int)(sizeof encodings / sizeof *encodings));
    tcase_add_test(tcase, headers_add_up);
    tcase_add_loop_test(tcase, the_best_that_is_accepted, 0,
                        (int)(sizeof accepts / sizeof *accepts));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
