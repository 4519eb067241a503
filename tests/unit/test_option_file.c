/* server/base/option_file.c: only regular files, read without waiting. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/option_file.h"

static char folder[] = "test_option_file.XXXXXX";
static char path[64], link_path[64];
static const struct option_file file = {.option = "tls-cert", .path = path};

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
}

static void remove_folder(void)
{
    unlink(link_path);
    unlink(path);
    rmdir(folder);
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
}

static void write_file(const void *bytes, size_t length)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
}

static void assert_refused(const struct option_file *refused, enum gemmd_error code,
                           const char *says)
{
    struct option_text text;
    struct fault fault = {.detail = ""};
    ck_assert_int_eq(option_file_read(refused, &text, &fault), code);
    ck_assert_ptr_null(text.bytes);
    ck_assert_msg(strstr(fault.detail, says) != NULL && strstr(fault.detail, refused->path) != NULL,
                  "'%s'", fault.detail);
    ck_assert_str_eq(fault.field, refused->option);
}

START_TEST(a_regular_file_is_read_also_through_a_link)
{
    struct option_text text;
    write_file("one\0two", 7);
    ck_assert_int_eq(symlink("file", link_path), 0);
    const struct option_file linked = {.option = "tls-cert", .path = link_path};
    ck_assert_int_eq(option_file_read(&linked, &text, NULL), GEMMD_OK);
    ck_assert_uint_eq(text.length, 7);
    ck_assert_mem_eq(text.bytes, "one\0two", 8);
    option_text_free(&text);
    ck_assert_ptr_null(text.bytes);
    ck_assert_int_eq(option_file_check(&linked, NULL), GEMMD_OK);
}
END_TEST

/* Nobody writes to the FIFO, so that opening it to read would wait for ever. */
START_TEST(a_fifo_is_refused_without_waiting)
{
    struct fault fault;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_refused(&file, GEMMD_ERR_IO, "is not a regular file (--tls-cert)");
    ck_assert_int_eq(option_file_check(&file, &fault), GEMMD_ERR_IO);
}
END_TEST

START_TEST(other_kinds_are_refused)
{
    const struct option_file device = {.option = "config", .path = "/dev/zero"},
                             directory = {.option = "config", .path = folder, .may_wait = true},
                             none = {.option = "config", .path = "no-such-file"};
    assert_refused(&device, GEMMD_ERR_IO, "is not a regular file (--config)");
    assert_refused(&directory, GEMMD_ERR_IO, "is a directory (--config)");
    assert_refused(&none, GEMMD_ERR_IO, "cannot be read: No such file or directory (--config)");
}
END_TEST

START_TEST(a_pipe_will_do_if_the_caller_may_wait)
{
    struct option_text text;
    char name[32];
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "{}", 2), 2);
    close(ends[1]);
    snprintf(name, sizeof name, "/proc/self/fd/%d", ends[0]);
    struct option_file piped = {.option = "config", .path = name};
    assert_refused(&piped, GEMMD_ERR_IO, "is not a regular file");
    piped.may_wait = true;
    ck_assert_int_eq(option_file_read(&piped, &text, NULL), GEMMD_OK);
    ck_assert_uint_eq(text.length, 2);
    ck_assert_str_eq(text.bytes, "{}");
    option_text_free(&text);
    close(ends[0]);
}
END_TEST

START_TEST(the_longest_file)
{
    const struct option_file endless = {.option = "config", .path = "/dev/zero", .may_wait = true};
    char *bytes = malloc(OPTION_FILE_BYTES_MAX + 1);
    struct option_text text;
    memset(bytes, 'x', OPTION_FILE_BYTES_MAX + 1);
    write_file(bytes, OPTION_FILE_BYTES_MAX);
    ck_assert_int_eq(option_file_read(&file, &text, NULL), GEMMD_OK);
    ck_assert_uint_eq(text.length, OPTION_FILE_BYTES_MAX);
    ck_assert_uint_eq(strlen(text.bytes), OPTION_FILE_BYTES_MAX);
    option_text_free(&text);
    write_file(bytes, OPTION_FILE_BYTES_MAX + 1);
    assert_refused(&file, GEMMD_ERR_USAGE, "is longer than 1 MiB (--tls-cert)");
    assert_refused(&endless, GEMMD_ERR_USAGE, "is longer than 1 MiB (--config)");
    free(bytes);
}
END_TEST

START_TEST(a_private_file_is_not_open_to_every_user)
{
    struct option_text text;
    const struct option_file secret = {.option = "tls-key", .path = path, .is_private = true};
    write_file("key", 3);
    ck_assert_int_eq(chmod(path, 0604), 0);
    assert_refused(&secret, GEMMD_ERR_USAGE, "can be read by every user");
    ck_assert_int_eq(chmod(path, 0602), 0);
    assert_refused(&secret, GEMMD_ERR_USAGE, "can be written by every user");
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(option_file_read(&secret, &text, NULL), GEMMD_OK);
    option_text_free(&text);
}
END_TEST

START_TEST(lines)
{
    static const struct {
        const char *bytes;
        size_t length;
    } expected[] = {{"one", 3}, {"", 0}, {"t\0wo", 4}, {" last\t", 6}};
    static const char bytes[] = "one\r\n\nt\0wo\n last\t";
    struct option_text text;
    size_t length;
    write_file(bytes, sizeof bytes - 1);
    ck_assert_int_eq(option_file_read(&file, &text, NULL), GEMMD_OK);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const char *line = option_text_line(&text, &length);
        ck_assert_ptr_nonnull(line);
        ck_assert_uint_eq(length, expected[i].length);
        ck_assert_mem_eq(line, expected[i].bytes, length + 1);
    }
    ck_assert_ptr_null(option_text_line(&text, &length));
    option_text_free(&text);
}
END_TEST

START_TEST(an_empty_file_has_no_line)
{
    struct option_text text;
    size_t length;
    write_file("", 0);
    ck_assert_int_eq(option_file_read(&file, &text, NULL), GEMMD_OK);
    ck_assert_str_eq(text.bytes, "");
    ck_assert_ptr_null(option_text_line(&text, &length));
    option_text_free(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("option_file");
    TCase *tests = tcase_create("option_file");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, a_regular_file_is_read_also_through_a_link);
    tcase_add_test(tests, a_fifo_is_refused_without_waiting);
    tcase_add_test(tests, other_kinds_are_refused);
    tcase_add_test(tests, a_pipe_will_do_if_the_caller_may_wait);
    tcase_add_test(tests, the_longest_file);
    tcase_add_test(tests, a_private_file_is_not_open_to_every_user);
    tcase_add_test(tests, lines);
    tcase_add_test(tests, an_empty_file_has_no_line);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
