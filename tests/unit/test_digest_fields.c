/* server/http/digest_fields.c: the fields of RFC 9530, which are dictionaries of RFC 9651. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/digest_fields.h"

/* The digests of the empty text. */
#define EMPTY256 "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"
#define EMPTY512                                                                                   \
    "sha-512=:z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+"   \
    "SfaPg==:"

static const struct {
    const char *line;
    bool valid, sha256, sha512;
} values[] = {
    {EMPTY256, true, true, false},
    {EMPTY512 ", " EMPTY256, true, true, true},
    {"  " EMPTY256 "  ", true, true, false},
    {EMPTY256 ";a=1;*b;c=\"x\\\"y\"", true, true, false},
    {"md5=:AAAA:, " EMPTY256, true, true, false},
    {"unknown, " EMPTY256, true, true, false},
    {"other=\"a, b\", " EMPTY256, true, true, false},
    {"other=a;p", true, false, false},
    {"", true, false, false},
    {"sha-256", false, false, false},
    {"sha-256=", false, false, false},
    {"sha-256=:", false, false, false},
    {"sha-256=::", false, false, false},
    {"sha-256=1", false, false, false},
    {"sha-256=12", false, false, false},
    {"sha-256=:AAAA:", false, false, false},
    {"sha-256=\"47DEQpj8HBSa\"", false, false, false},
    {EMPTY256 ",", false, true, false},
    {EMPTY256 " x", false, false, false},
    {EMPTY256 ";", false, false, false},
    {EMPTY256 ";=1", false, false, false},
    {EMPTY256 ";a=", false, false, false},
    {"other=\"open", false, false, false},
    {"other=\"open\\", false, false, false},
    {"SHA-256=:AAAA:", false, false, false},
    {"=1", false, false, false},
};

START_TEST(values_are_read)
{
    struct digest_values read = {.given = {false}};
    ck_assert_msg(digest_read_values(values[_i].line, &read) == values[_i].valid, "%s",
                  values[_i].line);
    if (!values[_i].valid)
        return;
    ck_assert_msg(read.given[DIGEST_SHA256] == values[_i].sha256, "%s", values[_i].line);
    ck_assert_msg(read.given[DIGEST_SHA512] == values[_i].sha512, "%s", values[_i].line);
    if (values[_i].sha256)
        ck_assert_uint_eq(read.value[DIGEST_SHA256][0], 0xe3);
    if (values[_i].sha512)
        ck_assert_uint_eq(read.value[DIGEST_SHA512][0], 0xcf);
}
END_TEST

static const struct {
    const char *line;
    enum digest_algorithm wanted;
} wishes[] = {
    {"sha-256=1", DIGEST_SHA256},
    {"sha-512=1", DIGEST_SHA512},
    {"sha-256=9, sha-512=10", DIGEST_SHA512},
    {"sha-512=5, sha-256=5", DIGEST_SHA256},
    {"sha-512=0, sha-256=0", DIGEST_NONE},
    {"md5=10, sha-256=3", DIGEST_SHA256},
    {"sha-256=0, sha-512=1", DIGEST_SHA512},
    {"sha-256=11", DIGEST_NONE},
    {"sha-256=-1", DIGEST_NONE},
    {"sha-256=x", DIGEST_NONE},
    {"sha-256=/", DIGEST_NONE},
    {"sha-256", DIGEST_NONE},
    {"sha-256=1,", DIGEST_NONE},
    {"", DIGEST_NONE},
};

START_TEST(wishes_are_weighed)
{
    struct digest_wishes read = {.weight = {-1, -1}};
    digest_read_wishes(wishes[_i].line, &read);
    ck_assert_msg(digest_wanted(&read) == wishes[_i].wanted, "%s", wishes[_i].line);
}
END_TEST

START_TEST(a_malformed_line_changes_no_wish)
{
    struct digest_wishes read = {.weight = {-1, -1}};
    digest_read_wishes("sha-256=4", &read);
    digest_read_wishes("sha-512=9, sha-256=70", &read);
    ck_assert_int_eq(digest_wanted(&read), DIGEST_SHA256);
    ck_assert_int_eq(read.weight[DIGEST_SHA512], -1);
    digest_read_wishes("sha-512=9", &read);
    ck_assert_int_eq(digest_wanted(&read), DIGEST_SHA512);
}
END_TEST

START_TEST(what_is_written_can_be_read)
{
    unsigned char value[DIGEST_BYTES_MAX];
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (unsigned char)(i * 7);
    for (int algorithm = 0; algorithm < DIGEST_ALGORITHMS; algorithm++) {
        char text[DIGEST_TEXT_MAX];
        struct digest_values read = {.given = {false}};
        digest_write((enum digest_algorithm)algorithm, value, text);
        ck_assert(digest_read_values(text, &read));
        ck_assert(read.given[algorithm]);
        ck_assert_mem_eq(read.value[algorithm], value,
                         digest_bytes((enum digest_algorithm)algorithm));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digest_fields");
    TCase *tests = tcase_create("digest_fields");
    tcase_add_loop_test(tests, values_are_read, 0, (int)(sizeof values / sizeof *values));
    tcase_add_loop_test(tests, wishes_are_weighed, 0, (int)(sizeof wishes / sizeof *wishes));
    tcase_add_test(tests, a_malformed_line_changes_no_wish);
    tcase_add_test(tests, what_is_written_can_be_read);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
